"""The processor time of the processes that take part in a measurement."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROCESSES = Path("/proc")
#: Of the fields of /proc/PID/stat after the name: the parent, utime and stime, cutime and cstime,
#: and the time of the start.
_PARENT, _OWN_TIMES, _CHILDREN_TIMES, _START = 1, slice(11, 13), slice(13, 15), 19


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """
    Processor time in seconds.

    Attributes:
        jvm: that of Spark's JVM; 0 where the system has no /proc.
        python: that of this process and of Spark's Python processes.
        redis: that of the server.
    """

    jvm: float
    python: float
    redis: float

    @property
    def total(self) -> float:
        """The processor time of all."""
        return self.jvm + self.python + self.redis

    def __sub__(self, earlier: ProcessorTime) -> ProcessorTime:
        return ProcessorTime(
            self.jvm - earlier.jvm, self.python - earlier.python, self.redis - earlier.redis
        )


class ProcessorClock:
    """
    The processor time of this process, of the JVM below it with its Python processes, and of Redis.

    Some of Spark's processes end without a trace in the times of their parents, so the clock keeps
    the time of every process that it has seen.
    """

    def __init__(self, client: Any) -> None:
        """Use a client that is connected to the server."""
        self._client = client
        self._seen: dict[tuple[int, str], float] = {}
        self._present: set[tuple[int, str]] = set()
        self._ended_seconds = 0.0
        self._unseen_seconds = 0.0

    def read(self) -> ProcessorTime:
        """Return the processor time so far."""
        cpu = self._client.info("cpu")
        jvm = ended = 0.0
        present = set()
        for process in _find_processes_below_jvm():
            ended += process.children_seconds
            if process.is_jvm:
                jvm += process.seconds
            else:
                present.add(process.key)
                self._seen[process.key] = process.seconds
        # The times of children that have ended include those of processes which were never seen.
        gone = sum(self._seen[key] for key in self._present - present)
        self._unseen_seconds += max(0.0, ended - self._ended_seconds - gone)
        self._ended_seconds, self._present = ended, present
        python = sum(self._seen.values()) + self._unseen_seconds
        return ProcessorTime(
            jvm, python + time.process_time(), cpu["used_cpu_user"] + cpu["used_cpu_sys"]
        )


@dataclass(frozen=True, slots=True)
class _Process:
    """
    A process, with the time of its ended children.

    Attributes:
        key: its number, and the time of its start: numbers are used again.
        seconds: its processor time.
        children_seconds: that of its children that have ended.
        is_jvm: whether it is a JVM.
    """

    key: tuple[int, str]
    seconds: float
    children_seconds: float
    is_jvm: bool


def _find_processes_below_jvm() -> Iterator[_Process]:
    """Yield the JVMs below this process, and the processes below them."""
    children: dict[int, list[_Process]] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in _PROCESSES.glob("[0-9]*/stat"):
        try:
            name, _, text = path.read_text().partition("(")[2].rpartition(") ")
        except OSError:  # it has ended
            continue
        fields = text.split()
        own, ended = (sum(map(int, fields[part])) / tick for part in (_OWN_TIMES, _CHILDREN_TIMES))
        process = _Process((int(path.parent.name), fields[_START]), own, ended, name == "java")
        children.setdefault(int(fields[_PARENT]), []).append(process)
    pending = [(child, False) for child in children.get(os.getpid(), ())]
    while pending:
        process, is_below_jvm = pending.pop()
        if process.is_jvm or is_below_jvm:
            yield process
        is_below_jvm = is_below_jvm or process.is_jvm
        pending += [(child, is_below_jvm) for child in children.get(process.key[0], ())]
