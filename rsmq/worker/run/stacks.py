"""
Where the calls of a worker are, found from outside: nothing is noted while they run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import islice
from types import FrameType
from typing import Any

from rsmq.wire.orders import RunningCall, StackLine
from rsmq.worker.run.invoke import Invoker
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.state.calls import Job

#: Maximum number of calls of a report, and of the lines of each.
_MAX_CALLS, _MAX_LINES = 200, 10
_CALLS = (Invoker._call.__code__, Invoker._call_async.__code__)  # noqa: SLF001 - its calls are ours


def find_call(frame: FrameType | None) -> tuple[Job | None, list[FrameType]]:
    """Return the call of a handler that a thread runs, and its frames, from inner to outer ones."""
    frames: list[FrameType] = []
    while frame is not None:
        if frame.f_code in _CALLS:
            return frame.f_locals.get("job"), frames
        frames.append(frame)
        frame = frame.f_back
    return None, frames


def report_calls(run_queue: RunQueue) -> list[RunningCall]:
    """Return the running calls, those that run for longest first; at most 200."""
    now = time.monotonic()
    with run_queue.lock:
        running = [(job, is_async) for is_async in (False, True)
                   for job in run_queue.running_calls(is_async)]  # fmt: skip
    running.sort(key=lambda each: each[0].started_at or now)
    found = dict(map(find_call, sys._current_frames().values()))  # noqa: SLF001 - documented
    return [_describe(job, now, is_async, found) for job, is_async in running[:_MAX_CALLS]]


def count_calls(run_queue: RunQueue) -> dict[str, dict[str, int]]:
    """Return by queue and task how many calls run; those without a task under an empty name."""
    found: dict[str, dict[str, int]] = {}
    with run_queue.lock:
        jobs = [job for is_async in (False, True) for job in run_queue.running_calls(is_async)]
    for job in jobs:
        tasks = found.setdefault(job.lane.name, {})
        tasks[job.message_type] = tasks.get(job.message_type, 0) + 1
    return found


def _describe(
    job: Job,
    now: float,
    is_async: bool,  # noqa: FBT001 - called in one place
    found: dict[Job | None, list[FrameType]],
) -> RunningCall:
    lease, is_in_process = job.leases[0], job.lane.listener.handlers.process
    frames = [] if is_in_process else found.get(job) or _frames_of_task(job)
    return RunningCall(
        job.lane.name,
        lease.id,
        len(job.leases),
        lease.attempt,
        round(now - (job.started_at or now), 3),
        "process" if is_in_process else "task" if is_async else "thread",
        tuple(
            StackLine(each.f_code.co_filename, each.f_lineno or 0, each.f_code.co_qualname)
            for each in reversed(list(islice(frames, _MAX_LINES)))
        ),
    )


def _frames_of_task(job: Job) -> list[FrameType]:
    """Return the frames of a task that waits, from inner to outer ones."""
    task = job.task
    awaited: Any = None if task is None else task.get_coro()
    frames: list[FrameType] = []
    while awaited is not None:
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            frames.append(frame)
            if frame.f_code in _CALLS:  # what is outside of it is the worker's
                frames.clear()
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return frames[::-1]


def _first(value: Any, *names: str) -> Any:
    found: Iterable[Any] = (getattr(value, name, None) for name in names)
    return next((each for each in found if each is not None), None)
