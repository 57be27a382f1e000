"""
A worker process of a supervisor: reports its state, and stops when the supervisor wants or dies.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsmq.worker.runtime.channel import Channel
from rsmq.worker.worker import Worker

_log = logging.getLogger("rsmq.worker")

#: Seconds between two reports.
REPORT_SECONDS = 0.5


class SupervisedWorker:
    """The connection of a worker process to its supervisor."""

    def __init__(
        self,
        number: int,
        worker: Worker,
        *,
        max_jobs: int | None,
        max_memory: int | None,
        take_snapshot: Callable[[], Any],
    ) -> None:
        """
        Start to report.

        Args:
            number: the file descriptor of the channel.
            worker: the worker.
            max_jobs: number of messages after which the worker stops; None is never.
            max_memory: number of bytes of memory above which it stops; None is never.
            take_snapshot: returns the metrics.
        """
        own = socket.socket(fileno=number)
        own.set_inheritable(False)
        self._channel = Channel(own)
        self._worker = worker
        self._max_jobs, self._max_memory = max_jobs, max_memory
        self._take_snapshot = take_snapshot
        self._ended = threading.Event()
        self._is_stopping = False
        for target in (self._report, self._listen):
            threading.Thread(target=target, name="rsmq-supervised", daemon=True).start()

    def end(self) -> None:
        """Send the last report; the worker has ended."""
        self._ended.set()
        with suppress(OSError):
            self._channel.send(self._describe())

    def _listen(self) -> None:
        try:
            self._channel.receive()  # the supervisor sends nothing but the request to stop
        except (EOFError, OSError):
            self._stop("its supervisor has died")
        else:
            self._stop("its supervisor stops it")

    def _stop(self, reason: str) -> None:
        if self._is_stopping or self._ended.is_set() or self._worker.health().is_stopping:
            return
        self._is_stopping = True
        _log.info("worker %s: %s", self._worker.name, reason)
        os.kill(os.getpid(), signal.SIGTERM)  # also ends a worker that is about to start

    def _report(self) -> None:
        with suppress(OSError):
            while not self._ended.wait(REPORT_SECONDS):
                report = self._describe()
                self._channel.send(report)
                if self._max_jobs is not None and report["jobs"] >= self._max_jobs:
                    self._stop(f"restarts after {report['jobs']} messages")
                elif self._max_memory is not None and report["memory"] > self._max_memory:
                    self._stop(f"restarts, because it uses {report['memory']:,} bytes")

    def _describe(self) -> dict[str, Any]:
        health, numbers = self._worker.health(), self._worker.numbers
        return {
            "is_healthy": health.is_healthy,
            "is_ready": health.is_ready,
            "jobs": numbers.handled + numbers.failed,
            "memory": _resident_bytes(),
            "metrics": self._take_snapshot(),
        }


def _resident_bytes() -> int:
    """Return the memory of this process; 0 where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
