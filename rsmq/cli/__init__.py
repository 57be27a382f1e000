"""
The command line: the programs ``rsmq``, ``rsmq-worker`` and ``rsmq-pipeline``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the program ``rsmq``.

    Args:
        arguments: the arguments of the command line; None takes those of the process.

    Returns:
        The exit code.
    """
    with _exit_on_interrupt():
        from rsmq.cli.app.program import root, run  # noqa: PLC0415 - takes time
    return run(root, "rsmq", arguments)


def run_worker(arguments: Sequence[str] | None = None) -> int:
    """Run the program ``rsmq-worker``; see ``main``."""
    with _exit_on_interrupt():
        from rsmq.cli.app.program import run  # noqa: PLC0415 - takes time
        from rsmq.cli.commands.worker import worker  # noqa: PLC0415 - as above
    return run(worker, "rsmq-worker", arguments)


def run_pipeline(arguments: Sequence[str] | None = None) -> int:
    """Run the program ``rsmq-pipeline``; see ``main``."""
    with _exit_on_interrupt():
        from rsmq.cli.app.program import run  # noqa: PLC0415 - takes time
        from rsmq.cli.commands.pipeline import pipeline  # noqa: PLC0415 - as above
    return run(pipeline, "rsmq-pipeline", arguments)


@contextmanager
def _exit_on_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once, as nothing is done yet: an import would show a trace."""
    try:
        previous = signal.signal(signal.SIGINT, _end)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _end(_: int, __: object) -> None:
    os._exit(_INTERRUPTED)
