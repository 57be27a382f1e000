"""
``rsmq-worker --processes N``: a supervisor that starts worker processes, and restarts them.

It has no client and imports no application code. So its children begin without threads and
connections of others, and a fault of the application does not end it.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from rsmq.errors.guarded_log import get_logger
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.wire.workers import TTL
from rsmq.worker.children.channel import Channel
from rsmq.worker.children.exit_code import describe_exit_code
from rsmq.worker.loop.shutdown import SAME_SIGNAL_SECONDS

_log = get_logger("rsmq.worker")

_POLL_SECONDS = 0.1
#: The pause before a process that has died is started again.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.5, 30.0
#: After so long without a death, the pause is the first one again.
_STABLE_SECONDS = 60.0
#: How long after its grace period a process may take to end.
_KILL_SECONDS = 10.0
#: A process that has sent no report for so long is not healthy.
_REPORT_SECONDS = 60.0
_RELOAD_SECONDS = 0.5
_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")
_MAX_HOST_CHARACTERS = 100
#: So that there is room for the number of the process.
_MAX_NAME_CHARACTERS = 150
#: The grace period of a process that has not reported that of its worker.
_DEFAULT_GRACE_SECONDS = 30.0
#: If a signal has ended a process, the exit code is the sum of this and its number, as in shells.
_SIGNAL_EXIT_CODE = 128
#: The codes with which rsmq-worker ends if its handlers can't be called any more.
_UNHEALTHY_EXIT_CODES = {
    6: " (too many handler calls hang)",
    8: " (the event loop or a thread of its handlers has ended)",
    9: " (a handler has blocked the event loop, or the system allows no thread)",
}


class Process:
    """
    A worker process, and its successors under the same name.

    Attributes:
        key: the name and the process id of the process, or of the last one.
        is_ready: whether it receives messages, by its last report.
        has_reached_limit: whether it ends, or has ended, because of a limit for a process.
        was_stopped: whether its worker stops, or has stopped, for whatever reason.
        was_ready: whether it, or a predecessor, was ever ready.
        start_at: monotonic seconds at which it is started again; None while it runs.
    """

    def __init__(
        self,
        name: str,
        command: list[str],
        environment: Mapping[str, str],
        grace: float | None = None,
    ) -> None:
        """
        Make it.

        Args:
            name: the name of its worker, for logs; with the namespace if there are several.
            command: the program and its arguments.
            grace: seconds that its handlers have to end; None is the worker's own ``grace``.
        """
        self.name = self.key = name
        self.is_ready = self.was_ready = self.has_reached_limit = self.was_stopped = False
        self.start_at: float | None = 0.0
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._started_at = self._reported_at = 0.0
        self._is_healthy = True
        self._deaths = 0
        self._has_handled = False
        self._configured_grace = grace
        self._reported_grace: float | None = None
        self._stopped_at: float | None = None

    @property
    def is_running(self) -> bool:
        """Return whether there is a process."""
        return self._process is not None

    @property
    def is_stopping(self) -> bool:
        """Return whether the process was asked to stop."""
        return self._stopped_at is not None

    @property
    def grace(self) -> float:
        """The seconds that its handlers have to end."""
        if self._configured_grace is not None:
            return self._configured_grace
        return _DEFAULT_GRACE_SECONDS if self._reported_grace is None else self._reported_grace

    @property
    def is_ready_now(self) -> bool:
        """Return whether the process has reported within a few seconds that it is ready."""
        return self.is_ready and time.monotonic() - self._reported_at < TTL

    @property
    def is_futile(self) -> bool:
        """Return whether the process has reached a limit before it handled a message."""
        return self.has_reached_limit and not self._has_handled

    @property
    def is_healthy(self) -> bool:
        """Return whether the process makes progress, or is about to start."""
        is_silent = time.monotonic() - self._reported_at > _REPORT_SECONDS
        return not self.is_running or (self._is_healthy and not is_silent)

    @property
    def running_seconds(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self._started_at

    def start(self) -> None:
        """
        Start a process.

        Raises:
            OSError: the system can't start it.
        """
        self._started_at = time.monotonic()
        own, other = socket.socketpair()
        with other:
            number = other.fileno()
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [*self._command, "--supervised", str(number)],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    pass_fds=(number,),
                    process_group=0,
                )
            except BaseException:
                own.close()
                raise
        self._channel = Channel(own)
        self.key = f"{self.name}:{self._process.pid}"
        self._started_at = self._reported_at = time.monotonic()
        self._is_healthy, self.is_ready, self.has_reached_limit = True, False, False
        self.start_at = self._stopped_at = self._reported_grace = None
        self._has_handled = self.was_stopped = False

    def stop(self) -> None:
        """Ask the process to stop gracefully; ``check`` kills it if it does not."""
        if self._process is None or self.is_stopping:
            return
        self._stopped_at = time.monotonic()
        if self._channel is not None:
            with suppress(OSError):
                self._channel.send("stop")

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def check(self, report: Callable[[str, Any], object]) -> int | None:
        """
        Read the reports of the process. Return its exit code if it has ended.

        Args:
            report: called with the key of the process and its metrics.
        """
        if self._process is None or self._channel is None:
            return None
        code = self._process.poll()
        with suppress(EOFError, OSError):
            while self._channel.has_message(0):
                received = self._channel.receive()
                self._reported_at = time.monotonic()
                self.is_ready, self._is_healthy = received["is_ready"], received["is_healthy"]
                self.was_ready = self.was_ready or self.is_ready
                self.has_reached_limit = received["has_reached_limit"]
                self._has_handled = received["has_handled"]
                self.was_stopped = received["is_stopping"]
                self._reported_grace = received["grace"]
                if received["metrics"] is not None:
                    report(self.key, received["metrics"])
        if code is None and self._stopped_at is not None:
            seconds = time.monotonic() - self._stopped_at
            if seconds > self.grace + _KILL_SECONDS:
                _log.error("worker %s does not end, and is killed", self.name)
                self.kill()
        if code is None:
            return None
        self._channel.close()
        self._process, self._channel, self.is_ready = None, None, False
        return code

    def plan_start(self, *, has_failed: bool) -> float:
        """Plan the next start. Return the seconds until then, which grow with each failure."""
        if self.running_seconds > _STABLE_SECONDS:
            self._deaths = 0
        pause = 0.0
        if has_failed:
            self._deaths += 1
            pause = with_jitter(
                exponential_seconds(self._deaths, _FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
            )
        self.start_at = time.monotonic() + pause
        return pause


class Supervisor:
    """The supervisor of worker processes."""

    def __init__(
        self,
        processes: Sequence[Process],
        *,
        metrics: Any = None,
        is_burst: bool = False,
        reload: bool = False,
    ) -> None:
        """
        Make it; ``run`` starts the processes.

        Args:
            metrics: a ``ProcessMetrics``; None if there is no port for metrics.
            is_burst: whether a process that ends without a failure is not started again.
            reload: whether the processes restart if a Python file changes in this folder.
        """
        self.processes = processes
        self._is_burst = is_burst
        self._metrics = metrics
        self._signals: list[tuple[int, float]] = []
        self._stop_signal_at = 0.0
        self._files = _FileWatcher(Path.cwd()) if reload else None
        self._to_restart: list[Process] = []
        self._restarting: Process | None = None
        self._exit_code = 0
        self._is_stopping = False

    def is_healthy(self) -> bool:
        """Return whether all processes make progress."""
        return all(each.is_healthy for each in self.processes)

    def is_ready(self) -> bool:
        """Return whether all processes receive messages, and have reported it lately."""
        return not self._is_stopping and all(each.is_ready_now for each in self.processes)

    def run(self) -> int:
        """Run until a signal stops it, or all processes have ended. Return the exit code."""
        handled = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        reader, writer = os.pipe()  # a signal ends the sleep
        os.set_blocking(writer, False)
        previous_reader = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        previous = {number: signal.signal(number, self._note_signal) for number in handled}
        try:
            while self._turn():
                ready, _, _ = select.select([reader], [], [], _POLL_SECONDS)
                if ready:
                    os.read(reader, 1024)
        finally:
            for each in self.processes:
                each.kill()
            signal.set_wakeup_fd(previous_reader)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(reader)
            os.close(writer)
        return self._exit_code

    def _note_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append((number, time.monotonic()))

    def _turn(self) -> bool:
        """Do everything that is due. Return whether there are processes, or some are to start."""
        while self._signals:
            self._handle_signal(*self._signals.pop(0))
        if self._files is not None and not self._is_stopping and self._files.have_changed():
            _log.info("a Python file has changed: the processes restart")
            self._restart_all()
        for each in self.processes:
            code = each.check(self._report)
            if code is not None:
                self._handle_end(each, code)
            elif each.start_at is not None and time.monotonic() >= each.start_at:
                self._start(each)
        self._restart_next()
        return any(each.is_running or each.start_at is not None for each in self.processes)

    def _start(self, process: Process) -> None:
        try:
            process.start()
        except OSError as error:  # as when the limit of open files is reached
            pause = process.plan_start(has_failed=True)
            _log.error(
                "worker %s can't start, and is tried again in %.1f s: %s",
                process.name, pause, error,
            )  # fmt: skip

    def _report(self, key: str, snapshot: Any) -> None:
        if self._metrics is not None:
            self._metrics.update(key, snapshot)

    def _handle_signal(self, number: int, at: float) -> None:
        if number == signal.SIGHUP:
            _log.info("the processes restart one after the other, by SIGHUP")
            self._restart_all()
        elif self._stop_signal_at and at - self._stop_signal_at < SAME_SIGNAL_SECONDS:
            pass  # a program has signalled the process and its group
        elif self._is_stopping:
            _log.warning("ends at once, by %s", signal.Signals(number).name)
            self._exit_code = _SIGNAL_EXIT_CODE + number
            for each in self.processes:
                each.kill()
        else:
            grace = max(each.grace for each in self.processes)
            _log.info("stops, by %s: handlers have %g s to end", signal.Signals(number).name, grace)
            self._stop_signal_at = at
            self._stop()

    def _stop(self) -> None:
        self._is_stopping = True
        self._to_restart, self._restarting = [], None
        for each in self.processes:
            each.start_at = None
            each.stop()

    def _handle_end(self, process: Process, code: int) -> None:
        """Start a process that has ended again, unless the supervisor stops."""
        if self._metrics is not None:
            self._metrics.end(process.key)
        if self._is_stopping:
            is_expected = code in {0, -signal.SIGTERM}
            failure = code if code >= 0 else _SIGNAL_EXIT_CODE - code
            self._exit_code = self._exit_code or (0 if is_expected else failure)
            return
        is_restart = process.is_stopping or (code == 0 and process.has_reached_limit)
        if self._is_burst and code == 0 and not is_restart:
            return
        if code > 0 and not process.was_ready and self._files is None:
            # It can't start. Most likely the others can't either.
            _log.error("worker %s ended with code %d before it was ready", process.name, code)
            self._exit_code = code
            self._stop()
            return
        if code == 0 and process.was_stopped and not is_restart:
            is_restart = True
            _log.info("worker %s was stopped by an order or a signal, and restarts", process.name)
        has_failed = not is_restart or (process.is_futile and not process.is_stopping)
        pause = process.plan_start(has_failed=has_failed)
        if self._metrics is not None:
            self._metrics.count_restart()
        if has_failed:
            end = _describe_end(code, is_futile=is_restart)
            _log.warning("worker %s %s, and restarts in %.1f s", process.name, end, pause)

    def _restart_all(self) -> None:
        if not self._is_stopping:
            self._to_restart, self._restarting = list(self.processes), None

    def _restart_next(self) -> None:
        """Restart processes one after the other: each one when the one before is ready."""
        current = self._restarting
        if current is not None and (current.is_stopping or not current.is_ready):
            return  # if it can't start, the others continue with the code that they have
        self._restarting = self._to_restart.pop(0) if self._to_restart else None
        if self._restarting is None:
            return
        if self._restarting.is_running:
            self._restarting.stop()
        else:
            self._restarting.start_at = time.monotonic()


def default_name(app: str) -> str:
    """
    Return the first part of the names of workers that have no name.

    It is the same at each start, and differs from that of another service on this host.

    Args:
        app: the worker as ``MODULE:NAME``.
    """
    host = socket.gethostname()[:_MAX_HOST_CHARACTERS] or "worker"
    return _INVALID_NAME_CHARACTERS.sub("-", f"{host}-{app}")[:_MAX_NAME_CHARACTERS]


def _describe_end(code: int, *, is_futile: bool) -> str:
    if is_futile:
        return "reached a limit before it handled a message"
    meaning = {0: " (nothing had asked it to)", **_UNHEALTHY_EXIT_CODES}.get(code, "")
    return f"{describe_exit_code(code)}{meaning}"


class _FileWatcher:
    """Finds changes of the Python files in a folder, by their times."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times = self._read()
        self._next_at = 0.0

    def have_changed(self) -> bool:
        """Return whether a file was changed, made or removed since the last call."""
        if time.monotonic() < self._next_at:
            return False
        self._next_at = time.monotonic() + _RELOAD_SECONDS
        before, self._times = self._times, self._read()
        return before != self._times

    def _read(self) -> dict[str, int]:
        found = {}
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [
                each for each in folders if each[0] != "." and each not in _SKIPPED_FOLDERS
            ]
            for name in files:
                if name.endswith(".py"):
                    path = f"{folder}/{name}"
                    with suppress(OSError):
                        found[path] = os.stat(path).st_mtime_ns  # noqa: PTH116 - many files
        return found
