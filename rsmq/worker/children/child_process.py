"""
One child process that makes calls of listeners with ``process=True``, one at a time.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from rsmq.errors.guarded_log import get_logger
from rsmq.worker.children.channel import Channel
from rsmq.worker.children.exit_code import describe_exit_code
from rsmq.worker.children.remote_results import restore_error
from rsmq.worker.operations import FollowingMessage
from rsmq.worker.outcome import (
    HandlerCancelled,
    HandlerProcessDied,
    HandlerStopped,
    HandlerTimedOut,
)
from rsmq.worker.state.calls import Job, Lease
from rsmq.worker.state.jobs import TrackedJob
from rsmq.worker.stop_event import StopEvent

_log = get_logger("rsmq.worker")

#: How long a handler may still run after SIGTERM has raised HandlerTimedOut, HandlerCancelled or
#: HandlerStopped in it.
KILL_SECONDS = 5.0
#: Seconds between two checks of a running call: leases, max_runtime, the end of the process.
_POLL_SECONDS = 0.2
#: How long a child process may need to receive a call.
_SEND_SECONDS = 10.0
#: Maximum number of leases in one message: it fits in the socket's buffer.
_MAX_REPORTED_LEASES = 500
#: How long a child process may need to import the worker's module.
_START_SECONDS = 60.0
#: How long an idle child process has to end by itself.
_CLOSE_SECONDS = 1.0
_CLOSE_POLL_SECONDS = 0.005
#: The messages of a worker to a child: nothing, that it stops, and that its grace period is over.
NO_STOP, STOPPING, INTERRUPT = range(3)


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """
    The settings of a child process, sent as its first message.

    Attributes:
        app: MODULE:NAME of the worker.
        path: the directories of modules, ``sys.path``.
        place: the arguments of ``open_queues`` for a client that replaces that of the worker; None
            keeps it.
        log_level: the level of the log on the standard error; None leaves logging alone.
        log_as_json: whether log lines are JSON.
        name: the worker's name, for its log lines.
    """

    app: str
    path: list[str]
    place: dict[str, Any] | None = None
    log_level: str | None = None
    log_as_json: bool = False
    name: str | None = None


class ChildNotStarted(Exception):
    """A child process can't import the worker, or ends before it has."""


class CallNotSent(Exception):
    """A child process has not received a call, so it has not called the handler."""


class Child:
    """
    A child process. One call is made at a time.

    Attributes:
        interrupted_at: monotonic seconds at which its call was to be interrupted, because the grace
            period of its worker was over. Any thread sets it once; infinite before.
    """

    def __init__(
        self, settings: ChildSettings, start_process: Callable[[int], subprocess.Popen[bytes]]
    ) -> None:
        """Start a process; ``wait_until_ready`` is to be called after that."""
        own, other = socket.socketpair()
        self._settings = settings
        self._channel = Channel(own)
        self._call_number = 0
        self.interrupted_at = math.inf
        self._is_reaped = False
        self._lock = threading.Lock()
        with other:
            try:
                self.process = start_process(other.fileno())
            except BaseException:
                own.close()
                raise

    def wait_until_ready(self) -> None:
        """
        Wait until the process has imported the worker.

        Raises:
            ChildNotStarted: it can't. The process has ended.
        """
        deadline = time.monotonic() + _START_SECONDS
        try:
            self._channel.send(asdict(self._settings), deadline)
            is_answered = self._channel.has_message(deadline - time.monotonic())
            answer = self._channel.receive() if is_answered else {}
        except TimeoutError:
            is_answered = False
        except (OSError, EOFError):
            self.kill()
            raise ChildNotStarted(self.describe_end()) from None
        if not is_answered:
            self.kill()
            raise ChildNotStarted(
                f"it has not imported {self._settings.app} in {_START_SECONDS:g} s"
            )
        if "error" in answer:
            self.request_end()
            self.end()
            raise ChildNotStarted(answer["error"])

    def call(self, job: Job, handler: str | None = None) -> None:
        """
        Call the handler of a job, and set the errors of its messages.

        Args:
            handler: the name of the handler, if there are several. They share max_runtime.

        Raises:
            CallNotSent: the process has not received the call. It has ended.
            The error of the call, or of this process. The process has ended after HandlerTimedOut,
            HandlerProcessDied and errors of this process.
        """
        leases = [lease for lease in job.leases if lease.failure is None and not lease.is_over]
        if not leases:
            return
        begun_at = None if handler is None else job.started_at
        if begun_at is None:
            begun_at = time.monotonic()
        deadline = begun_at + job.lane.listener.max_runtime
        try:
            answer = self._exchange(job, leases, deadline, handler)
        except BaseException:
            # A part of a call or of an answer may be left in the channel, and the handler may run.
            self.kill()
            raise
        if time.monotonic() > deadline or leases[0].is_cancelled:
            self.kill()  # the exception may have interrupted any code of the handler
        _read_answer(answer, job, leases)

    def _exchange(self, job: Job, leases: list[Lease], deadline: float, handler: str | None) -> Any:
        """Send a call, and return its answer; see ``call``. After any error, kill the process."""
        max_runtime = job.lane.listener.max_runtime
        started_at = deadline - max_runtime
        try:
            self._call_number += 1
            described = describe_call(self._call_number, job, leases, deadline, handler)
            self._channel.send(described, time.monotonic() + _SEND_SECONDS)
        except OSError as error:
            self.kill()
            is_late = isinstance(error, TimeoutError)
            raise CallNotSent(
                f"its process did not receive the call in {_SEND_SECONDS:g} s"
                if is_late
                else self.describe_end()
            ) from None
        job.started_at = started_at
        try:
            return self._wait(leases, deadline, job.lane.stopping)
        except TimeoutError:
            if leases[0].is_cancelled:
                raise HandlerCancelled(
                    f"its job was cancelled, and its process killed {KILL_SECONDS:g} s later"
                ) from None
            if time.monotonic() < deadline + KILL_SECONDS:
                raise HandlerStopped(
                    f"its worker stops, and its process was killed {KILL_SECONDS:g} s later"
                ) from None
            raise HandlerTimedOut(
                f"its handler ran for more than {max_runtime:g} s, and was killed "
                f"{KILL_SECONDS:g} s later"
            ) from None
        except (OSError, EOFError):
            self.kill()
            raise HandlerProcessDied(self.describe_end()) from None

    def _wait(self, leases: list[Lease], deadline: float, stopping: StopEvent) -> Any:
        """
        Return the answer of the process.

        Raises:
            TimeoutError: there is none KILL_SECONDS after the deadline, the cancel or the stop.
            EOFError, OSError: the process has ended.
        """
        expiries = {lease.id: lease.expires_at for lease in leases}
        kill_at = deadline + KILL_SECONDS
        is_signalled = is_cancelled = is_told = False
        stop = NO_STOP
        while True:
            if self._channel.has_message(_POLL_SECONDS):
                answer = self._receive(leases[0])
                if answer is not None:
                    return answer
                continue
            if self.has_ended:  # a process that it forked may hold the socket
                raise EOFError
            now = time.monotonic()
            kill_at = min(kill_at, self.interrupted_at + KILL_SECONDS)
            if now > kill_at:
                raise TimeoutError
            wanted_stop = INTERRUPT if now >= self.interrupted_at else int(stopping.is_set())
            if wanted_stop > stop and self._channel.has_room():
                stop = wanted_stop
                self._channel.send({"stop": stop}, kill_at)
            if leases[0].is_cancelled and not is_cancelled:
                is_cancelled, kill_at = True, min(kill_at, now + KILL_SECONDS)
            # The socket of a child that can't run Python may be full; it is killed nevertheless.
            if is_cancelled and not is_told and self._channel.has_room():
                is_told = True
                self._channel.send({"cancel": leases[0].id}, kill_at)
            if now > deadline and not is_signalled:
                is_signalled = True
                self.interrupt_handler()
            self._report_leases(leases, expiries, kill_at)

    def _receive(self, lease: Lease) -> Any:
        """Return the answer to the present call; None if what has come is not its answer."""
        answer = self._channel.receive()
        if answer["number"] != self._call_number:
            _log.warning(
                "the child process %d has answered call %d during call %d: the answer is ignored",
                self.process.pid,
                answer["number"],
                self._call_number,
            )
        elif "reported" in answer:
            lease.report_progress(answer["reported"])
        else:
            return answer
        return None

    def _report_leases(
        self, leases: list[Lease], expiries: dict[str, float], deadline: float
    ) -> None:
        """Send the child the changes of the leases since the last time."""
        changes: list[tuple[str, float]] = []
        for lease in leases:
            expires_at = 0.0 if lease.is_over else lease.expires_at
            if expires_at != expiries[lease.id]:
                changes.append((lease.id, expires_at))
        for at in range(0, len(changes), _MAX_REPORTED_LEASES):
            # A child that does not read, because its handler holds the GIL, must not stop this
            # thread.
            if not self._channel.has_room():
                return
            part = dict(changes[at : at + _MAX_REPORTED_LEASES])
            self._channel.send({"leases": part}, deadline)
            expiries |= part

    def interrupt_handler(self) -> None:
        """Raise HandlerTimedOut in the handler, whose max_runtime is over."""
        # Popen.send_signal would reap a process that has ended; see ``interrupt``.
        with self._lock, suppress(OSError):
            if not self._is_reaped:
                os.kill(self.process.pid, signal.SIGTERM)

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
        """Return how the process ended, for an error; ``kill`` was called before."""
        return f"its process {describe_exit_code(self.process.returncode)}"


def _read_answer(answer: Mapping[str, Any], job: Job, leases: Sequence[Lease]) -> None:
    """Set what an answer says of a call; raise the error of the call."""
    job.message_type = answer["type"]
    for lease in leases:
        if lease.id in answer["errors"]:
            lease.fail(restore_error(answer["errors"][lease.id], job.lane.name, lease))
    if isinstance(job, TrackedJob):
        job.result = answer["result"]
        if answer["progress"]:
            job.report_progress(answer["progress"])
    if answer["next"] is not None:
        job.next_message = FollowingMessage(*answer["next"])
    if answer["error"] is not None:
        raise restore_error(answer["error"], job.lane.name, leases[0])


def describe_call(
    number: int, job: Job, leases: list[Lease], deadline: float, handler: str | None = None
) -> dict[str, Any]:
    """Return a call as a child process reads it."""
    return {
        "number": number,
        "queue": job.lane.name,
        "deadline": deadline,
        "received_at": job.received_at,
        "handler": handler,
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
