"""
Check the history of a run.

    python -m scripts.chaos_checker FILE

The exit code is 0 if no promise is broken, 1 if one is, and 2 if the history can't be judged.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .history import BadHistory, read_history
from .verdict import check


def main(path: str) -> int:
    """Print the verdict on a file, and return the exit code."""
    try:
        with Path(path).open() as lines:
            verdict = check(read_history(lines))
    except (BadHistory, OSError) as error:
        print(f"scripts/chaos: {path}: {error}", file=sys.stderr)
        return 2
    for line in verdict.lines():
        print(line)
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
