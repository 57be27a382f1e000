"""The processor time of the processes that take part in a measurement."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROCESSES = Path("/proc")
#: Of the fields of /proc/PID/stat after the name: the parent, and utime, stime, cutime and cstime.
_PARENT, _OWN_TIMES, _CHILDREN_TIMES = 1, slice(11, 13), slice(13, 15)


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


def read_processor_time(client: Any) -> ProcessorTime:
    """Return the processor time so far; ``client`` is connected to the server."""
    cpu = client.info("cpu")
    jvm, python = _read_processes()
    return ProcessorTime(
        jvm, python + time.process_time(), cpu["used_cpu_user"] + cpu["used_cpu_sys"]
    )


def _read_processes() -> tuple[float, float]:
    """
    Return the processor time of the JVM below this process, and of the processes below the JVM.

    The time of a process that has ended is that of its parent's children.
    """
    jvm = python = 0.0
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    times: dict[int, tuple[float, float]] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in _PROCESSES.glob("[0-9]*/stat"):
        try:
            name, _, text = path.read_text().partition("(")[2].rpartition(") ")
        except OSError:  # it has ended
            continue
        process, fields = int(path.parent.name), text.split()
        names[process] = name
        children.setdefault(int(fields[_PARENT]), []).append(process)
        own, ended = (sum(map(int, fields[part])) / tick for part in (_OWN_TIMES, _CHILDREN_TIMES))
        times[process] = own, ended
    pending = [(child, False) for child in children.get(os.getpid(), ())]
    while pending:
        process, is_below_jvm = pending.pop()
        is_jvm = names[process] == "java"
        own, ended = times[process]
        if is_jvm:
            jvm += own
            python += ended
        elif is_below_jvm:
            python += own + ended
        pending += [(child, is_jvm or is_below_jvm) for child in children.get(process, ())]
    return jvm, python
