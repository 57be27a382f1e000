"""Lanes of parts: one that computes runs beside those that wait."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

#: After an interruption, parts that still run after this time are killed.
GRACE_SECONDS = 20.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS = 0.2
_BESIDE_DELICATE = 2


@dataclass(frozen=True)
class Part:
    """
    A part of the tests: one command.

    Attributes:
        name: the name in the summary.
        budget_seconds: the processor time that it may take. Time alone would depend on the other
            work of the machine.
        command: the program and its arguments.
        is_waiting: whether it mostly waits, so that it runs beside a part that computes.
        is_delicate: whether its servers judge each other by the clock, as Sentinels do, which a
            machine with too much work confuses. Only one other part runs beside it.
        needs: the names of earlier parts that must pass before this one starts.
        limit_seconds: when it is interrupted, and fails: it hangs, even beside other work.
    """

    name: str
    budget_seconds: int
    command: Sequence[str]
    is_waiting: bool = False
    is_delicate: bool = False
    needs: Sequence[str] = ()
    limit_seconds: float = 3600.0


@dataclass(frozen=True)
class Result:
    """
    The end of a part.

    Attributes:
        part: the part.
        status: ``passed``; ``FAILED``, with the reason if it was not its own; or ``NOT RUN``,
            because a part that it needs has failed.
        seconds: the time from its start to its end.
        cpu_seconds: the processor time of it and of all processes that it and they waited for.
        output: both standard streams.
    """

    part: Part
    status: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    output: bytes = b""


class _Run:
    """A part that runs, in a process group of its own."""

    def __init__(self, part: Part, lane: int) -> None:
        self.lane = lane
        self.part = part
        self._begin = time.monotonic()
        self._limit = self._begin + part.limit_seconds
        self._is_interrupted = False
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - wait closes it
        # pytest removes old folders of tests, at the same time as that of another part.
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            part.command,
            env=os.environ | {"PYTEST_DEBUG_TEMPROOT": self._folder.name},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )

    def wait(self) -> Result:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        # Tests that were killed could not end the servers that they had started.
        self.send_signal(signal.SIGKILL)
        limit = f": it had not ended after {self.part.limit_seconds:g} s"
        with self._output, self._folder:
            self._output.seek(0)
            return Result(
                self.part,
                f"FAILED{limit * self._is_interrupted}" if self._process.returncode else "passed",
                time.monotonic() - self._begin,
                usage.ru_utime + usage.ru_stime,
                self._output.read(),
            )

    def end_at_limit(self) -> None:
        """Interrupt the part at its limit, and kill it if it does not end then."""
        if time.monotonic() > self._limit:
            number = signal.SIGKILL if self._is_interrupted else signal.SIGINT
            self._is_interrupted = True  # before the signal, whose effect another thread waits for
            self.send_signal(number)
            self._limit += GRACE_SECONDS

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def run_parts(
    parts: Sequence[Part],
    start: Callable[[Part], None],
    end: Callable[[Result], None],
    *,
    waiting_lanes: int = 1,
) -> None:
    """
    Run parts in lanes, one part in each at a time.

    One lane prefers the parts that compute, the others those that wait; a lane without parts of
    its kind runs the others. Parts of one kind start in their order, if what they need has passed.

    Args:
        parts: the parts.
        waiting_lanes: the number of lanes for parts that wait.
        start: is called with each part that starts.
        end: is called with the result of each part that ends, also of one that is not run.

    Raises:
        KeyboardInterrupt: SIGINT or SIGTERM was received. The parts that ran have been interrupted
            too, and have ended.
    """
    lanes = _Lanes(parts, start, 1 + waiting_lanes)
    # If the handlers raised, a part that has just started could stay unknown, and run on.
    interrupted = threading.Event()
    handlers = [signal.signal(each, lambda *_: interrupted.set()) for each in _SIGNALS]
    with ThreadPoolExecutor(1 + waiting_lanes) as waiters:
        try:
            while lanes.fill(waiters):
                for result in lanes.wait():
                    end(result)
                if interrupted.is_set():
                    raise KeyboardInterrupt
        finally:
            lanes.interrupt()
            for number, handler in zip(_SIGNALS, handlers, strict=True):
                signal.signal(number, handler)
    for part in lanes.left:
        end(Result(part, "NOT RUN"))


class _Lanes:
    """The parts that are left, and the parts that run."""

    def __init__(self, parts: Sequence[Part], start: Callable[[Part], None], count: int) -> None:
        self.left = list(parts)
        self._count = count
        self._start = start
        self._passed: set[str] = set()
        self._running: dict[Future[Result], _Run] = {}

    def fill(self, waiters: ThreadPoolExecutor) -> bool:
        """Start a part in each free lane, if one can start; return whether any part runs."""
        for lane in set(range(self._count)) - {run.lane for run in self._running.values()}:
            is_delicate = any(run.part.is_delicate for run in self._running.values())
            if is_delicate and len(self._running) >= _BESIDE_DELICATE:
                break
            part = self._next(is_waiting=lane > 0)
            if part:
                self.left.remove(part)
                self._start(part)
                run = _Run(part, lane)
                self._running[waiters.submit(run.wait)] = run
        return bool(self._running)

    def _next(self, *, is_waiting: bool) -> Part | None:
        """Return the first part that can start, of this kind if there is one."""
        ready = [part for part in self.left if self._passed.issuperset(part.needs)]
        part = next((each for each in ready if each.is_waiting == is_waiting), None) or next(
            iter(ready), None
        )
        if part and part.is_delicate and len(self._running) >= _BESIDE_DELICATE:
            return None  # the lane stays free until this part can start
        return part

    def wait(self) -> list[Result]:
        """Wait a short time until a part ends; return the results of those that have ended."""
        done = wait(self._running, _LOOK_SECONDS, FIRST_COMPLETED).done
        for run in self._running.values():
            run.end_at_limit()
        results = [future.result() for future in done]
        for future in done:
            del self._running[future]
        self._passed |= {result.part.name for result in results if result.status == "passed"}
        return results

    def interrupt(self) -> None:
        """Interrupt the parts that run, and wait for them; kill them if that takes too long."""
        for number, seconds in ((signal.SIGINT, GRACE_SECONDS), (signal.SIGKILL, None)):
            for future, run in self._running.items():
                if not future.done():
                    run.send_signal(number)
            wait(self._running, seconds)
