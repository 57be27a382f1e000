"""
A worker process of a supervisor: reports its state, and stops when the supervisor wants or dies.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.worker.children.channel import Channel
from rsmq.worker.health import Health
from rsmq.worker.state.numbers import Numbers
from rsmq.worker.worker import Worker

_log = get_logger("rsmq.worker")

#: Seconds between two reports.
REPORT_SECONDS = 0.5
#: How long the end of the process waits for a supervisor that does not read the last report.
_LAST_REPORT_SECONDS = 5.0


class SupervisedWorker:
    """The connection of a worker process to its supervisor."""

    def __init__(self, number: int, *, max_jobs: int | None, max_memory: int | None) -> None:
        """
        Start to report; the worker is not imported yet.

        Args:
            number: the file descriptor of the channel.
            max_jobs: number of messages after which the worker stops; None is never.
            max_memory: number of bytes of memory above which it stops; None is never.
        """
        own = socket.socket(fileno=number)
        own.set_inheritable(False)
        self._channel = Channel(own)
        self._sending = threading.Lock()  # the main thread sends the last report
        self._worker: Worker | None = None
        self._max_jobs, self._max_memory = max_jobs, max_memory
        self._take_snapshot: Callable[[], Any] = lambda: None
        self._ended = threading.Event()
        self._is_stopping = self._has_reached_limit = False
        for target in (self._report, self._listen):
            threading.Thread(target=target, name="rsmq-supervised", daemon=True).start()

    def observe(self, worker: Worker, take_snapshot: Callable[[], Any]) -> None:
        """
        Report the state of the worker from now on.

        Args:
            worker: the worker, which has not begun yet.
            take_snapshot: returns the metrics.
        """
        self._take_snapshot = take_snapshot
        self._worker = worker

    def end(self) -> None:
        """Send the last report; the worker has ended."""
        self._ended.set()
        if self._sending.acquire(timeout=_LAST_REPORT_SECONDS):
            with suppress(OSError):
                deadline = time.monotonic() + _LAST_REPORT_SECONDS
                self._channel.send(self._describe(), deadline)

    def _listen(self) -> None:
        try:
            self._channel.receive()  # the supervisor sends nothing but the request to stop
        except (EOFError, OSError):
            self._stop("its supervisor has died")
        else:
            self._stop("its supervisor stops it")

    def _stop(self, reason: str) -> None:
        worker = self._worker
        health = Health() if worker is None else worker.health()
        if self._is_stopping or self._ended.is_set() or health.is_stopping:
            return
        self._is_stopping = True
        _log.info("%s: %s", "worker" if worker is None else f"worker {worker.name}", reason)
        if worker is not None and health.is_running:
            # In a thread, because it waits for handlers. A signal to this process would count as
            # the first one; then the next one, of another program, would end handlers at once.
            threading.Thread(target=worker.stop, name="rsmq-stop", daemon=True).start()
        else:  # it is imported, or waits for Redis
            os.kill(os.getpid(), signal.SIGTERM)

    def _report(self) -> None:
        with suppress(OSError):
            while not self._ended.wait(REPORT_SECONDS):
                reason = self._find_limit()
                self._has_reached_limit = self._has_reached_limit or reason is not None
                with self._sending:
                    if self._ended.is_set():
                        return
                    self._channel.send(self._describe())
                if reason is not None:
                    self._stop(reason)

    def _find_limit(self) -> str | None:
        """Return why the worker is to be restarted; None if it has reached no limit."""
        worker = self._worker
        if worker is None or not worker.health().is_running or self._is_stopping:
            return None
        jobs = worker.numbers.handled + worker.numbers.failed
        memory = _resident_bytes()
        if self._max_jobs is not None and jobs >= self._max_jobs:
            return f"restarts after {format_count(jobs)}"
        if self._max_memory is not None and memory > self._max_memory:
            return f"restarts, because it uses {format_count(memory, 'byte')}"
        return None

    def _describe(self) -> dict[str, Any]:
        worker = self._worker
        if worker is None:
            health, numbers, grace = Health(), Numbers(), None
        else:
            health, numbers, grace = worker.health(), worker.numbers, worker.grace
        return {
            "is_healthy": health.is_healthy,
            "is_ready": health.is_ready,
            "grace": grace,
            "has_reached_limit": self._has_reached_limit,
            "is_stopping": health.is_stopping,
            "has_handled": numbers.has_outcomes,
            "metrics": self._take_snapshot(),
        }


def _resident_bytes() -> int:
    """Return the memory of this process; 0 where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
