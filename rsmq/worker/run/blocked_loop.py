"""
Finds out whether the event loop of async handlers is blocked, and by which call.

The loop beats in a timer, so calls cost nothing. Only the thread that watches it does more, and
only while there is no beat.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from rsmq.worker.listener import DEFAULT_MAX_BLOCKING_SECONDS
from rsmq.worker.run.executor import Stall
from rsmq.worker.run.stacks import find_call
from rsmq.worker.state.calls import Job
from rsmq.worker.state.lane import Lane

#: An event loop is blocked if it has not beaten for a third of the shortest visibility timeout,
#: within these limits.
_MIN_SILENT_SECONDS, _MAX_SILENT_SECONDS = 1.0, 10.0
#: At most so many seconds count between two checks: the process may have been suspended, or a
#: handler may have kept the GIL.
_MAX_STEP_SECONDS = 2.0
_MAX_FRAMES = 20
_REMEDY = (
    "An async handler must not wait or compute without await: use asyncio.to_thread, or a plain "
    "function as handler"
)


class LoopBeat:
    """The heartbeat of an event loop, which calls ``beat``; the worker calls ``check``."""

    def __init__(self, lanes: Callable[[], Sequence[Lane]]) -> None:
        """
        Make it.

        Args:
            lanes: returns the lanes of async handlers.
        """
        self._lanes = lanes
        self._beats = self._seen_beats = 0
        self._thread_id: int | None = None
        self._checked_at = self._silent_seconds = 0.0
        self._last_turn = 0  # of the lanes, at the first check without a beat
        self._blocker: Job | None = None
        self._blocked_since = 0.0  # the silent seconds after which the blocker was first found

    def beat(self) -> None:
        """Note that the event loop runs; called in the loop."""
        self._beats += 1
        self._thread_id = threading.get_ident()

    def check(self, now: float) -> Stall | None:
        """
        Return why the event loop makes no progress; None if it does.

        Args:
            now: monotonic seconds.
        """
        step, self._checked_at = min(now - self._checked_at, _MAX_STEP_SECONDS), now
        if self._beats != self._seen_beats:
            self._seen_beats, self._silent_seconds = self._beats, 0.0
            return None
        if not self._beats:  # it has not begun to run
            return None
        lanes = self._lanes()
        last_turn = max(lane.last_turn for lane in lanes)
        if not self._silent_seconds:
            self._last_turn, self._blocker, self._blocked_since = last_turn, None, 0.0
        self._silent_seconds += step
        silent = self._silent_seconds
        shortest_vt = min(lane.vt for lane in lanes)
        if silent <= max(min(shortest_vt / 3, _MAX_SILENT_SECONDS), _MIN_SILENT_SECONDS):
            return None
        if last_turn != self._last_turn:  # calls end and others begin, without a beat between them
            self._silent_seconds = 0.0
            return None
        return self._describe(lanes, silent)

    def _describe(self, lanes: Sequence[Lane], silent: float) -> Stall:
        job, trace = _find_call(self._thread_id)
        if job is not self._blocker:  # calls that take turns do not block the loop forever
            self._blocked_since = silent if self._blocker is not None else 0.0
            self._blocker = job
        limits = (
            [job.lane.listener.max_blocking]
            if job is not None
            else [DEFAULT_MAX_BLOCKING_SECONDS, *(each.listener.max_blocking for each in lanes)]
        )
        return Stall(
            f"{_name(job)} blocks the event loop of all async handlers{_place(trace)}",
            _REMEDY,
            silent - self._blocked_since,
            max(limits),
            job,
            trace,
        )


def _name(job: Job | None) -> str:
    if job is None:
        return "A task or callback"
    return f"The handler of {job.lane.name} with message {job.leases[0].id}"


def _place(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f", in {code.co_filename}:{trace.tb_lineno}, {code.co_name}"


def _find_call(thread_id: int | None) -> tuple[Job | None, TracebackType | None]:
    """Return the call of a handler that a thread runs, and where it is."""
    job, frames = find_call(sys._current_frames().get(thread_id or 0))  # noqa: SLF001 - documented
    trace: TracebackType | None = None
    for each in frames[:_MAX_FRAMES]:
        trace = TracebackType(trace, each, each.f_lasti, each.f_lineno or 0)
    return job, trace
