"""
The command line: the programs ``rsmq``, ``rsmq-worker`` and ``rsmq-pipeline``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

_NEEDS_EXTRA = (
    "rsmq: the command line needs its extra 'cli'. "
    "In a clone of the repository: pip install '.[cli]'"
)

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the program ``rsmq``.

    Args:
        arguments: the arguments of the command line; None takes those of the process.

    Returns:
        The exit code.
    """
    previous = _exit_on_interrupt()
    try:
        from rsmq.cli.app.program import run  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        print(_NEEDS_EXTRA, file=sys.stderr)
        return 2
    finally:
        _restore(previous)
    return run(arguments)


def run_worker(arguments: Sequence[str] | None = None) -> int:
    """Run the program ``rsmq-worker``; see ``main``."""
    previous = _exit_on_interrupt()
    try:
        from rsmq.cli.commands.worker import main as run  # noqa: PLC0415 - takes time
    finally:
        _restore(previous)
    return run(arguments)


def run_pipeline(arguments: Sequence[str] | None = None) -> int:
    """Run the program ``rsmq-pipeline``; see ``main``."""
    previous = _exit_on_interrupt()
    try:
        from rsmq.cli.commands.pipeline import main as run  # noqa: PLC0415 - takes time
    finally:
        _restore(previous)
    return run(arguments)


def _exit_on_interrupt() -> object:
    """
    Let Ctrl-C end the process at once, as nothing is done yet: an import would show a traceback.

    Returns:
        The previous handler; None if this thread may not set one.
    """
    try:
        return signal.signal(signal.SIGINT, _end)
    except ValueError:  # not the main thread
        return None


def _end(_: int, __: object) -> None:
    os._exit(_INTERRUPTED)


def _restore(previous: object) -> None:
    if previous is not None:
        signal.signal(signal.SIGINT, previous)  # type: ignore[arg-type]
