"""
The worker's state while it can't call its async handlers, or its plain ones: it receives nothing
for them and releases waiting messages.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from rsmq.errors.guarded_log import get_logger
from rsmq.worker.loop.heartbeat import Heartbeat
from rsmq.worker.run.executor import Executor, Stall
from rsmq.worker.run.quarantine import Quarantine
from rsmq.worker.state.calls import Lease
from rsmq.worker.state.lane import Lane

_log = get_logger("rsmq.worker")

#: The shortest time of which ``note_late`` warns.
MIN_LATE_SECONDS = 1.0
#: How many of the running calls the warning names.
_MAX_SHOWN_CALLS = 3


class Stalls:
    """The stalls of the executors of a worker; see ``Stall``. The worker's loop calls it."""

    def __init__(
        self, name: str, lanes: Sequence[Lane], heartbeat: Heartbeat, quarantine: Quarantine
    ) -> None:
        self._name = name
        self._lanes = {
            is_async: [part for lane in lanes for part in lane.parts if part.is_async == is_async]
            for is_async in (False, True)
        }
        self._heartbeat = heartbeat
        self._quarantine = quarantine
        self._stalled: dict[bool, Stall | None] = {False: None, True: None}
        self._began_ms = 0

    def sync(self, executors: Mapping[bool, Executor]) -> None:
        """Close the lanes of an executor that has stalled, and open those of one that runs."""
        for is_async, executor in executors.items():
            stall, before = executor.stall, self._stalled[is_async]
            self._stalled[is_async] = stall
            if stall is not None and before is None:
                self._begin(self._lanes[is_async], stall)
            elif stall is None and before is not None:
                self._end(self._lanes[is_async], before)

    def describe(self) -> dict[str, Any]:
        """Return what the worker's description of itself says of a stall; nothing without one."""
        stall = self._stalled[True] or self._stalled[False]
        if stall is None:
            return {}
        facts: dict[str, Any] = {"cause": stall.cause, "since_ms": self._began_ms}
        if stall.job is not None:
            facts |= {"queue": stall.job.lane.name, "id": stall.job.leases[0].id}
        return {"stalled": facts}

    def _begin(self, lanes: Sequence[Lane], stall: Stall) -> None:
        self._began_ms = round((time.time() - stall.seconds) * 1000)
        _log.error(
            "worker %s now receives nothing for %s: %s, for %.3g s so far; it stops after %g s. "
            "%s",
            self._name, ", ".join(lane.name for lane in lanes), stall.cause, stall.seconds,
            stall.max_seconds, stall.remedy,
            exc_info=None if stall.trace is None else as_error(stall),
        )  # fmt: skip
        for lane in lanes:
            # Whose handlers its next messages have is not known before they are received.
            lane.is_stalled = lane.main.is_stalled = True
            self._quarantine.release_of(lane.main)
        waiting = chain.from_iterable([lane.main.queued for lane in lanes])
        self._heartbeat.release_waiting(dict.fromkeys(waiting))

    def _end(self, lanes: Sequence[Lane], stall: Stall) -> None:
        _log.warning(
            "worker %s can call handlers again, after %.3g s, and receives from %s",
            self._name, stall.seconds, ", ".join(lane.name for lane in lanes),
        )  # fmt: skip
        for lane in lanes:
            lane.is_stalled = False
            lane.main.is_stalled = any(each.is_stalled for each in lane.main.variants)

    def note_late(self, seconds: float, lost: Iterable[tuple[Lane, Lease]]) -> None:
        """
        Warn if a turn of the worker's loop took so long that leases were in danger.

        Args:
            seconds: how long it took beyond its sleep; at least MIN_LATE_SECONDS.
            lost: the messages that were lost in this turn while their calls ran.
        """
        lanes = list(chain.from_iterable(self._lanes.values()))
        shortest_vt = min(lane.vt for lane in lanes)
        if seconds < shortest_vt / 3:
            return
        began_before = time.monotonic() - MIN_LATE_SECONDS
        in_flight = ((lane, lease) for lane in lanes for lease in lane.in_flight)
        calls = dict.fromkeys(
            f"{lane.name} {lease.id}"
            for lane, lease in chain(lost, in_flight)
            if (lease.job.started_at or math.inf) <= began_before
        )
        _log.warning(
            "worker %s could not run for %.3g s, nor extend visibility timeouts: a handler keeps "
            "the GIL, the process was suspended or had no processor, or Redis answered late. "
            "Calls that had begun: %s",
            self._name, seconds, ", ".join(islice(calls, _MAX_SHOWN_CALLS)) or "none",
        )  # fmt: skip


def as_error(stall: Stall) -> BaseException:
    """Return an exception whose traceback shows where the event loop is blocked."""
    return TimeoutError("the event loop is blocked here").with_traceback(stall.trace)
