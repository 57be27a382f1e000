"""
The entry of a worker in the registry: the ms until which it counts as alive, its token, and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

#: Seconds without a heartbeat until a worker counts as dead. Heartbeats come each second, and each
#: three seconds while nothing changes.
TTL = 5.0
#: The cause if the call that blocks is of a queue that the reader may not see.
_STALLED_BY_OTHERS = "A call that you may not see blocks it"


@dataclass(frozen=True, slots=True)
class StalledHandlers:
    """
    Handlers that a worker can't call: one blocks the event loop, or the system allows no thread.

    Attributes:
        cause: why, a part of a sentence.
        since_ms: Unix ms, by the clock of the worker.
        queue: the queue of the call that blocks the event loop; empty if it is not known.
        id: the id of its message.
    """

    cause: str
    since_ms: int
    queue: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class LastFailure:
    """
    The last failure of a handler.

    Attributes:
        at_ms: Unix ms, by the clock of the worker.
        error: the type and the text of the exception, one line of at most 300 characters.
    """

    at_ms: int
    error: str

    @property
    def kind(self) -> str:
        """The type of the exception."""
        return self.error.partition(":")[0]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """
    A worker, as of its last sign of life.

    Attributes:
        name: its name.
        alive: whether it gave a sign of life within the last five seconds.
        since_ms: Unix ms when it started, by its own clock.
        seen_ms: Unix ms of its last sign of life, by the server's clock.
        host: the name of its machine.
        pid: its process id there.
        queues: how many messages of each of its queues it had in flight then.
        handled: how many messages it had handled.
        failed: how often a handler had failed.
        slots: how many calls of handlers it can run at once; 0 if it does not say so.
        running: how many calls ran then.
        deaths: Unix ms of the last signs of life of the workers of its name that died before it:
            the last 20, within an hour before its own start.
        paused: whether it was ordered to receive nothing.
        calls: by queue and task, how many calls ran then; those without a task under an empty name.
        stalled: the handlers that it can't call; None if it can call all.
        outcomes: by queue, how many messages it had handled, and how often a handler had failed.
        failures: by queue, the last failure of a handler; of the five queues that failed last.
        ends_by_ms: Unix ms, by its own clock, at which its grace period ends; None if it does not
            stop.
    """

    name: str
    alive: bool
    since_ms: int
    seen_ms: int
    host: str
    pid: int
    queues: dict[str, int]
    handled: int
    failed: int
    slots: int = 0
    running: int = 0
    deaths: tuple[int, ...] = ()
    paused: bool = False
    calls: dict[str, dict[str, int]] = field(default_factory=dict)
    stalled: StalledHandlers | None = None
    outcomes: dict[str, tuple[int, int]] = field(default_factory=dict)
    failures: dict[str, LastFailure] = field(default_factory=dict)
    ends_by_ms: int | None = None

    def restrict(self, may_see: Callable[[str], bool]) -> WorkerInfo:
        """Return what a person may know of it who may not know what happens in all queues."""
        stalled = self.stalled
        if stalled is not None and stalled.queue and not may_see(stalled.queue):
            stalled = StalledHandlers(_STALLED_BY_OTHERS, stalled.since_ms)
        queues = {name: number for name, number in self.queues.items() if may_see(name)}
        calls = {name: tasks for name, tasks in self.calls.items() if may_see(name)}
        failures = {name: each for name, each in self.failures.items() if may_see(name)}
        outcomes = {name: each for name, each in self.outcomes.items() if may_see(name)}
        return replace(
            self, queues=queues, calls=calls, stalled=stalled, outcomes=outcomes, failures=failures
        )


def read_worker(now: int, name: str, entry: bytes) -> WorkerInfo | None:
    """
    Return the worker of an entry; None if it can't be read, because another program has written it.

    Args:
        now: Unix ms of the server.
    """
    expires_ms, _, rest = entry.partition(b":")
    try:
        info: Mapping[str, Any] = json.loads(rest.partition(b":")[2])
        return WorkerInfo(
            name=name,
            alive=int(expires_ms) > now,
            since_ms=int(info.get("since_ms", 0)),
            seen_ms=int(expires_ms) - round(TTL * 1000),
            host=str(info.get("host", "")),
            pid=int(info.get("pid", 0)),
            queues={str(queue): int(number) for queue, number in info.get("queues", {}).items()},
            handled=int(info.get("handled", 0)),
            failed=int(info.get("failed", 0)),
            slots=int(info.get("slots", 0)),
            running=int(info.get("running", 0)),
            deaths=tuple(map(int, info.get("deaths", ()))),
            paused=info.get("paused") is True,
            calls={
                str(queue): {str(task): int(number) for task, number in tasks.items()}
                for queue, tasks in info.get("calls", {}).items()
            },
            stalled=_read_stalled(info.get("stalled")),
            outcomes={
                str(queue): (int(handled), int(failed))
                for queue, (handled, failed) in info.get("outcomes", {}).items()
            },
            failures={
                str(queue): LastFailure(int(at_ms), str(error))
                for queue, (at_ms, error) in info.get("failures", {}).items()
            },
            ends_by_ms=None if info.get("ends_by_ms") is None else int(info["ends_by_ms"]),
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _read_stalled(stored: Mapping[str, Any] | None) -> StalledHandlers | None:
    if stored is None:
        return None
    texts = (str(stored.get(name, "")) for name in ("queue", "id"))
    return StalledHandlers(str(stored.get("cause", "")), int(stored.get("since_ms", 0)), *texts)
