"""
The command line: the programs ``rsmq``, ``rsmq-worker`` and ``rsmq-pipeline``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pkgutil import resolve_name

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the program ``rsmq``.

    Args:
        arguments: the arguments of the command line; None takes those of the process.

    Returns:
        The exit code.
    """
    return _run("rsmq", "rsmq.cli.app.program:root", arguments)


def run_worker(arguments: Sequence[str] | None = None) -> int:
    """Run the program ``rsmq-worker``; see ``main``."""
    return _run("rsmq-worker", "rsmq.cli.commands.worker:worker", arguments)


def run_pipeline(arguments: Sequence[str] | None = None) -> int:
    """Run the program ``rsmq-pipeline``; see ``main``."""
    return _run("rsmq-pipeline", "rsmq.cli.commands.pipeline:pipeline", arguments)


def _run(name: str, command: str, arguments: Sequence[str] | None) -> int:
    from rsmq.cli.app.loading import loading  # noqa: PLC0415 - as below

    is_own_process = arguments is None
    with _exit_on_interrupt(), loading() if is_own_process else nullcontext():
        from rsmq.cli.app.program import run  # noqa: PLC0415 - takes time

        loaded = resolve_name(command)
    return run(loaded, name, arguments)


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
