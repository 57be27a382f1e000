"""The records of one process of a run, and their merger; the checker describes the format."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Recorder:
    """A file to which one process appends. A line is in the file when the method returns."""

    def __init__(self, path: Path) -> None:
        self._client = path.stem
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def write(self, record: str, **fields: Any) -> None:
        """Append a record."""
        line = json.dumps({"record": record, **fields}).encode() + b"\n"
        with self._lock:
            os.write(self._file, line)

    def begin(self, call: str, **arguments: Any) -> str:
        """Record that a call begins, and return its name."""
        op = f"{self._client}/{os.getpid()}/{next(self._numbers)}"  # a fork records, too
        self.write("begin", op=op, call=call, client=self._client, at=time.monotonic(), **arguments)
        return op

    def end(self, op: str, outcome: str = "ok", **result: Any) -> None:
        """Record that a call has ended."""
        self.write("end", op=op, at=time.monotonic(), outcome=outcome, **result)


def merge(folder: Path) -> list[str]:
    """
    Return the lines of all files of a folder, in the order of their times.

    The last line of a process that was killed may be cut; then it is left out.
    """
    timed: list[tuple[float, str]] = []
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text().splitlines(keepends=True)
        timed += [(json.loads(each)["at"], each) for each in lines if each.endswith("\n")]
    timed.sort(key=lambda each: each[0])
    return [line for _at, line in timed]


def write_history(
    path: Path, settings: dict[str, Any], folder: Path, left: Iterable[dict[str, Any]]
) -> None:
    """Write the history of a run: its settings, the records of its processes, and what is left."""
    rows = [{"record": "left", **each} for each in left]
    close = {"record": "close", "at": time.monotonic(), "left": len(rows)}
    with path.open("w") as file:
        file.write(json.dumps({"record": "run", "version": 1, **settings}) + "\n")
        file.writelines(merge(folder))
        file.writelines(json.dumps(each) + "\n" for each in [*rows, close])
