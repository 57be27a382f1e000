"""A ledger: a file to which one process appends a line of JSON for each call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class LedgerFile:
    """The ledger of one process. A line is in the file when ``write`` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, **entry: Any) -> None:
        """Append an entry."""
        self._file.write(json.dumps(entry).encode() + b"\n")


def read_ledgers(folder: Path) -> Iterator[dict[str, Any]]:
    """Return the entries of all ledgers in a folder."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            yield json.loads(line)
