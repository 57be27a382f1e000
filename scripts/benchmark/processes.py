"""The processor time and the memory of a process and its children, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """Return a process and its descendants that run."""
    found = [pid]
    for each in found:
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, path.read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, its descendants, and those that it waited for."""
    ticks = 0
    for each in tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # user and system; then those of ended children
    return ticks / _TICKS


def memory_mb(pid: int) -> float:
    """Return the MB that a process and its descendants use; shared pages count once."""
    kib = 0
    for each in tree(pid):
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                kib += int(line.split()[1])
    return kib * 1024 / 1e6
