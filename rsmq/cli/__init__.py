"""
The command line: the program ``rsmq``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_NEEDS_EXTRA = (
    "rsmq: the command line needs its extra 'cli'. "
    "In a clone of the repository: pip install '.[cli]'"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the program ``rsmq``.

    Args:
        arguments: the arguments of the command line; None takes those of the process.

    Returns:
        The exit code.
    """
    try:
        from rsmq.cli.app.program import run  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        print(_NEEDS_EXTRA, file=sys.stderr)
        return 2
    return run(arguments)
