# ruff: noqa: T201 - a command's output
"""
The output of ``rsmq-pipeline``: lines for people, JSON lines for programs.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Any

from rsmq.spark.pipelines.progress import Progress


def cause_of(text: str) -> str:
    """Of a long error of Spark the lines that say what is wrong."""
    lines = [line for line in text.splitlines() if line.strip()]
    last = [at for at, line in enumerate(lines) if line.startswith("rsmq.errors.")]
    if not last:
        return lines[0] if lines else text
    told = []
    for line in lines[last[-1] :]:
        if line.lstrip().startswith(("SQLSTATE", "at ", "JVM", "==", "=== ")):
            break
        told.append(line)
    told[0] = told[0].partition(": ")[2]  # without the name of the class
    return "\n".join(told)


class Teller:
    """Tells progress and results: to a person in lines, to a program in JSON lines."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def tell(self, progress: Progress) -> None:
        """Tell how far a job is."""
        if self._as_json:
            print(json.dumps({"progress": dataclasses.asdict(progress)}), flush=True)
            return
        parts = [f"{progress.job}: {progress.step}"]
        if progress.messages:
            parts.append(f"{progress.messages:,} messages")
        if progress.per_second:
            parts.append(f"{progress.per_second:,.0f}/s")
        if progress.backlog is not None:
            parts.append(f"{progress.backlog:,} still visible")
        if progress.lost:
            parts.append(f"{progress.lost:,} taken by others")
        print(", ".join(parts), file=sys.stderr, flush=True)

    def failed(self, text: str, hint: str | None) -> None:
        """Tell why a job ended."""
        if self._as_json:
            print(json.dumps({"error": text, "hint": hint}), flush=True)
        print(f"rsmq-pipeline: {text}" + (f"\n{hint}" if hint else ""), file=sys.stderr)

    def done(self, result: Any) -> None:
        """Tell what a job has done."""
        fields = dataclasses.asdict(result)
        if self._as_json:
            print(json.dumps({"result": fields}, default=str), flush=True)
            return
        for name, value in fields.items():
            if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
                print(f"\n{name}\n{table(value)}")
            elif isinstance(value, list | tuple):
                print(f"{name}: {' '.join(map(str, value))}")
            else:
                shown = f"{value:,}" if type(value) is int else value
                print(f"{name}: {shown}")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a table of text."""
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(names))]
    lines = []
    for row in cells:
        texts = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(texts).rstrip())
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if type(value) is int else str(value)
