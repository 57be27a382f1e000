"""
A middleware that shows where slow handlers spend their time.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from rsmq.wire.limits import check_duration
from rsmq.worker.delivery import Delivery
from rsmq.worker.logging import log_message
from rsmq.worker.middleware import MiddlewareOfOneWorker

#: The longest pause between two looks at the running calls.
_MAX_POLL_SECONDS = 1.0
_MAX_FRAMES = 30


@dataclass(slots=True, eq=False)
class _WatchedCall:
    message: Delivery
    thread: int
    task: asyncio.Task[Any] | None
    begun_at: float = field(default_factory=time.monotonic)
    is_reported: bool = False


class SlowCalls(MiddlewareOfOneWorker):
    """
    A middleware that logs a warning with the stack of each call that runs for too long.

    The stack is logged once for a call, while it runs: the place where it waits or computes. When
    the call ends, its duration is logged. A thread of its own looks at the calls, so fast calls
    cost no more than two entries in a table. For ``process=True`` the stack is that of the thread
    that waits for the child process. The histogram of all durations is in ``rsmq.metrics``.
    """

    def __init__(self, seconds: float) -> None:
        """
        Make it.

        Args:
            seconds: how long a call may run, from 0.01.

        Raises:
            InvalidValue: it is not a number of seconds from 0.01 to 9,999,999.
        """
        self._seconds = check_duration("seconds", seconds, low=0.01)
        self._calls: dict[int, _WatchedCall] = {}
        self._stopped: threading.Event | None = None

    def before_start(self, worker: object) -> None:  # noqa: ARG002 - a hook
        self._stopped = stopped = threading.Event()
        threading.Thread(
            target=self._watch, args=(stopped,), name="rsmq-slow-calls", daemon=True
        ).start()

    def after_stop(self, worker: object) -> None:  # noqa: ARG002 - as above
        if self._stopped is not None:
            self._stopped.set()

    def before_handle(self, message: Delivery) -> None:
        task = None
        with suppress(RuntimeError):  # no event loop runs in this thread
            task = asyncio.current_task()
        self._calls[id(message)] = _WatchedCall(message, threading.get_ident(), task)

    def after_handle(self, message: Delivery, error: BaseException | None, seconds: float) -> None:  # noqa: ARG002 - as above
        call = self._calls.pop(id(message), None)
        if call is not None and call.is_reported:
            log_message(logging.WARNING, "%s %s: its handler took %.1f s", message, seconds)

    def _watch(self, stopped: threading.Event) -> None:
        while not stopped.wait(min(self._seconds / 4, _MAX_POLL_SECONDS)):
            now = time.monotonic()
            for key, call in list(self._calls.items()):
                seconds = now - call.begun_at
                if call.is_reported or seconds < self._seconds:
                    continue
                stack = _format_stack(call)
                if key in self._calls:  # else the stack may be that of the next call
                    call.is_reported = True
                    text = "%s %s: its handler has been running for %.1f s, in\n%s"
                    log_message(logging.WARNING, text, call.message, seconds, stack)


def _format_stack(call: _WatchedCall) -> str:
    frames = _await_chain(call.task) if call.task is not None else []
    if frames:
        summary = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames)
    else:
        summary = traceback.extract_stack(sys._current_frames().get(call.thread))  # noqa: SLF001 - the documented way
    return "".join(traceback.StackSummary.from_list(summary[-_MAX_FRAMES:]).format()).rstrip()


def _await_chain(task: asyncio.Task[Any]) -> list[FrameType]:
    """Return the frames of a task that waits, the innermost last; empty if it is running."""
    frames: list[FrameType] = []
    coroutine: Any = task.get_coro()
    while coroutine is not None:
        if getattr(coroutine, "cr_running", False):
            return []
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None:
            frames.append(frame)
        coroutine = getattr(coroutine, "cr_await", None)
    return frames
