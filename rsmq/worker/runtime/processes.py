"""
Child processes that make the calls of listeners with ``process=True``.

A thread of the worker waits for each call. So a call that fails, hangs or crashes its process
affects only its own messages.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from rsmq.errors import InvalidFormat
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.worker.outcome import HandlerProcessDied, HandlerTimedOut
from rsmq.worker.runtime.channel import Channel
from rsmq.worker.runtime.invoke import Invoker
from rsmq.worker.runtime.lane import Job, Lease
from rsmq.worker.runtime.remote_results import restore_error
from rsmq.worker.runtime.run_queue import RunQueue
from rsmq.worker.runtime.threads import Threads

_log = logging.getLogger("rsmq.worker")

#: How long a handler may still run after SIGTERM has raised HandlerTimedOut in it.
KILL_SECONDS = 5.0
#: Seconds between two checks of a running call: leases, max_runtime, the end of the process.
_POLL_SECONDS = 0.2
#: How long a child process may need to import the worker's module.
_START_SECONDS = 60.0
#: How long an idle child process has to end by itself.
_CLOSE_SECONDS = 1.0
_CLOSE_POLL_SECONDS = 0.005
_MAX_START_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """
    The settings of a child process, sent as its first message.

    Attributes:
        app: MODULE:NAME of the worker.
        path: the directories of modules, ``sys.path``.
        url: the URL of Redis that replaces that of the worker's client; None keeps the client.
        ns: the namespace for ``url``.
        log_level: the level of the log on the standard error; None leaves logging alone.
        log_as_json: whether log lines are JSON.
        name: the worker's name, for its log lines.
    """

    app: str
    path: list[str]
    url: str | None = None
    ns: str | None = None
    log_level: str | None = None
    log_as_json: bool = False
    name: str | None = None


class ChildNotStarted(Exception):
    """A child process can't import the worker, or ends before it has."""


class _Child:
    """A child process. One call is made at a time."""

    def __init__(self, settings: ChildSettings, start_process: Callable[[int], Any]) -> None:
        """
        Start a process, and wait until it has imported the worker.

        Raises:
            ChildNotStarted: it can't.
        """
        own, other = socket.socketpair()
        self._channel = Channel(own)
        self._is_reaped = False
        self._lock = threading.Lock()
        with other:
            self.process: subprocess.Popen[bytes] = start_process(other.fileno())
        try:
            self._channel.send(asdict(settings))
            is_answered = self._channel.has_message(_START_SECONDS)
            answer = self._channel.receive() if is_answered else {}
        except (OSError, EOFError):
            self.kill()
            raise ChildNotStarted(self.describe_end()) from None
        if not is_answered:
            self.kill()
            raise ChildNotStarted(f"it has not imported {settings.app} in {_START_SECONDS:g} s")
        if "error" in answer:
            self.request_end()
            self.end()
            raise ChildNotStarted(answer["error"])

    def call(self, job: Job) -> None:
        """
        Call the handler of a job, and set the errors of its messages.

        Raises:
            The error of the call. After HandlerTimedOut and HandlerProcessDied the process has
            ended.
        """
        leases = [lease for lease in job.leases if lease.error is None and not lease.is_over]
        if not leases:
            return
        deadline = time.monotonic() + job.lane.listener.max_runtime
        try:
            self._channel.send(_describe_call(job, leases, deadline))
            answer = self._wait(job, leases, deadline)
        except (OSError, EOFError):
            self.kill()
            raise HandlerProcessDied(self.describe_end()) from None
        if time.monotonic() > deadline:
            self.kill()  # the exception may have interrupted any code of the handler
        for lease in leases:
            if lease.id in answer["errors"]:
                lease.error = restore_error(answer["errors"][lease.id], job.lane.name, lease)
        if answer["error"] is not None:
            raise restore_error(answer["error"], job.lane.name, leases[0])

    def _wait(self, job: Job, leases: list[Lease], deadline: float) -> Any:
        expiries = {lease.id: lease.expires_at for lease in leases}
        is_signalled = False
        while not self._channel.has_message(_POLL_SECONDS):
            if self.has_ended:  # a process that it forked may hold the socket
                raise EOFError
            self._report_leases(leases, expiries)
            now = time.monotonic()
            if now > deadline + KILL_SECONDS:
                self.kill()
                raise HandlerTimedOut(
                    f"its handler ran for more than {job.lane.listener.max_runtime:g} s, and was "
                    f"killed {KILL_SECONDS:g} s later"
                )
            if now > deadline and not is_signalled:
                is_signalled = True
                self.process.send_signal(signal.SIGTERM)
        return self._channel.receive()

    def _report_leases(self, leases: list[Lease], expiries: dict[str, float]) -> None:
        """Send the child the changes of the leases since the last time."""
        changes: dict[str, float] = {}
        for lease in leases:
            expires_at = 0.0 if lease.is_over else lease.expires_at
            if expires_at != expiries[lease.id]:
                changes[lease.id] = expires_at
        # A child that does not read, because its handler holds the GIL, must not stop this thread.
        if changes and self._channel.has_room():
            self._channel.send({"leases": changes})
            expiries |= changes

    def request_end(self) -> None:
        """Let an idle process end by itself; ``end`` is to be called after that."""
        self._channel.close()

    def end(self) -> None:
        """
        Wait for a moment until an idle process has ended; kill what is left of its process group.
        """
        deadline = time.monotonic() + _CLOSE_SECONDS
        while not self.has_ended and time.monotonic() < deadline:
            time.sleep(_CLOSE_POLL_SECONDS)
        self.kill()

    def interrupt(self) -> None:
        """Kill the process group; the thread that waits for the process then calls ``kill``."""
        with self._lock, suppress(OSError):
            if not self._is_reaped:  # else the number may belong to another group
                os.killpg(self.process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the process, and those that it has started in its process group; close."""
        self.interrupt()
        with self._lock:
            self.process.wait()
            self._is_reaped = True
        self._channel.close()

    @property
    def has_ended(self) -> bool:
        """Return whether the process has ended. It stays a zombie until ``kill``."""
        with self._lock:
            if self._is_reaped:
                return True
            if not hasattr(os, "waitid"):  # macOS before Python 3.13
                return self.process.poll() is not None
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def describe_end(self) -> str:
        """Return how the process ended, for an error."""
        code = self.process.returncode
        if code is not None and code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with code {code}"


def _describe_call(job: Job, leases: list[Lease], deadline: float) -> dict[str, Any]:
    return {
        "queue": job.lane.name,
        "deadline": deadline,
        "received_at": job.received_at,
        "messages": [
            {
                "id": lease.id,
                "raw": lease.raw,
                "count": lease.count,
                "unbegun": lease.unbegun,
                "first_received_ms": lease.first_received_ms,
                "expires_at": lease.expires_at,
            }
            for lease in leases
        ],
    }


class ChildProcesses:
    """The child processes of a worker: one for each call at a time, kept for later calls."""

    def __init__(self, settings: ChildSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._closed = threading.Event()
        # Linux ends a child with the thread that has started it, not only with the process.
        self._starter = ThreadPoolExecutor(1, "rsmq-children")

    def start(self) -> None:
        """
        Start the first child process.

        Raises:
            InvalidFormat: it can't import the worker.
        """
        try:
            self._idle.append(self._start_child())
        except ChildNotStarted as error:
            raise InvalidFormat(
                "process",
                value=self._settings.app,
                hint=f"A child process can't start: {error}",
            ) from None

    def _start_child(self) -> _Child:
        child = _Child(
            self._settings, lambda number: self._starter.submit(_start_process, number).result()
        )
        with self._lock:
            self._all.add(child)
        return child

    def call(self, job: Job) -> None:
        """
        Call the handler of a job in a child process; wait for its end.

        Raises:
            The error of the call.
        """
        child = self._take()
        try:
            child.call(job)
        finally:
            with self._lock:
                is_over = child.has_ended or self._closed.is_set()
                if is_over:
                    self._all.discard(child)
                else:
                    self._idle.append(child)
            if is_over:
                child.kill()

    def _take(self) -> _Child:
        """Return an idle child, or a new one; try to start it until the worker stops."""
        failures = 0
        while True:
            with self._lock:
                if self._closed.is_set():
                    raise HandlerProcessDied("the worker stops")
                while self._idle:
                    child = self._idle.pop()
                    if not child.has_ended:
                        return child
                    self._all.discard(child)
                    child.kill()
            try:
                return self._start_child()
            except (ChildNotStarted, OSError) as error:
                failures += 1
                _log.error("no child process starts: %s", error)
            pause = exponential_seconds(failures, 1.0, _MAX_START_PAUSE_SECONDS)
            self._closed.wait(with_jitter(pause))

    def close(self) -> None:
        """End the child processes. Those that run a call are killed."""
        with self._lock:
            self._closed.set()
            idle, self._idle = self._idle, []
            busy = self._all.difference(idle)
            self._all.clear()
        for child in busy:
            child.interrupt()
        for child in idle:
            child.request_end()
        for child in idle:
            child.end()
        self._starter.shutdown(wait=False)


def _start_process(number: int) -> subprocess.Popen[bytes]:
    program = f"from rsmq.worker.child import main; main({number}, {os.getpid()})"
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        pass_fds=(number,),
        process_group=0,
    )


class ThreadsWithChildren(Threads):
    """Threads of which some wait for calls in child processes."""

    def __init__(
        self,
        run_queue: RunQueue,
        invoker: Invoker,
        report_idle: Callable[[], object],
        max_threads: int,
        children: ChildProcesses,
    ) -> None:
        """Make it; see ``Threads``."""
        super().__init__(run_queue, invoker, report_idle, max_threads)
        self._children = children

    def stop(self) -> None:
        """End idle threads now, the child processes, and then the other threads."""
        super().stop()
        self._children.close()
