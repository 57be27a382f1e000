"""
The ends of messages: what handlers did, decided, and written to Redis.

What is decided stays until Redis has answered; so an outage costs no outcome.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rsmq import operations
from rsmq.client import RSMQ
from rsmq.errors import BodyNotDecodable, QueueNotFound
from rsmq.operations.workers import Group, Identity, Receipt
from rsmq.worker.handling import error_of
from rsmq.worker.lane import Lane
from rsmq.worker.lease import Job, Lease
from rsmq.worker.middleware import Hooks
from rsmq.worker.numbers import Numbers
from rsmq.worker.outcome import CAP, Again, Dead, Done, Dropped, Outcome, decide, text_of

_log = logging.getLogger("rsmq.worker")

#: Messages of one call.
_A_CALL = 2000
#: What is kept of a traceback, its end, and of a text, characters.
_TRACEBACK = 4000
_TEXT = 500

_DONE = Done()
_SINCE = ord("2")  # somebody has received it since


@dataclass(slots=True, eq=False)
class _End:
    """The end of a message that is decided."""

    lane: Lane
    lease: Lease
    outcome: Outcome
    error: BaseException | None


class Settling:
    """
    Ends of messages that are decided, until they are written.

    Attributes:
        numbers: what has happened so far.
    """

    def __init__(self, rsmq: RSMQ, identity: Identity, hooks: Hooks) -> None:
        self.numbers = Numbers()
        self._rsmq = rsmq
        self._identity = identity
        self._hooks = hooks
        #: By lane and receive count: those that were handled.
        self._done: dict[tuple[Lane, int], list[Lease]] = {}
        #: Those that come back, or are dropped.
        self._others: list[_End] = []
        #: Those that go to another queue.
        self._dead: list[_End] = []
        #: By lane and receive count: those that are given back.
        self._released: dict[tuple[Lane, int], list[Lease]] = {}
        #: Those that were handled alone.
        self._alone: list[Lease] = []

    def __bool__(self) -> bool:
        return bool(self._done or self._others or self._dead or self._released or self._alone)

    def ended(self, job: Job) -> None:
        """A call has ended: decide what becomes of its messages."""
        lane = job.lane
        if job.alone:
            self._alone += job.leases
        for lease in job.leases:
            if lease.lost:
                forget(lane, lease)
            elif job.error is None and lease.error is None:
                key = (lane, lease.count)
                if key in self._done:
                    self._done[key].append(lease)
                else:
                    self._done[key] = [lease]
            else:
                self.failed(lane, lease, error_of(job, lease))

    def failed(self, lane: Lane, lease: Lease, error: BaseException | None) -> None:
        """A message could not be handled: decide what becomes of it."""
        try:
            outcome = decide(error, lease.count, lane.policy)
        except Exception:  # noqa: BLE001 - one message must not end the worker
            _log.exception("%s %s: nothing could be decided", lane.name, lease.id)
            outcome = Again(CAP, "nothing could be decided")
        self.end(lane, lease, outcome, error)

    def end(self, lane: Lane, lease: Lease, outcome: Outcome, error: BaseException | None) -> None:
        """What becomes of a message is decided."""
        if not isinstance(outcome, Done):
            self.numbers.failed += 1
        kind = self._dead if isinstance(outcome, Dead) else self._others
        kind.append(_End(lane, lease, outcome, error))

    def release(self, lane: Lane, leases: Iterable[Lease]) -> None:
        """Messages are given back."""
        for lease in leases:
            self._released.setdefault((lane, lease.count), []).append(lease)

    def alone(self, lease: Lease) -> None:
        """A message that was to be handled alone has an end."""
        self._alone.append(lease)

    def lose(self, lane: Lane, lease: Lease, why: str) -> None:
        """A message is somebody else's, or may be: its handler is told."""
        if not lease.lost:
            lease.lost = True
            self.numbers.lost += 1
            self._hooks.call("lease_lost", lease.message(lane.name, lane.codec), why)
            if all(each.lost for each in lease.job.leases):
                lane.cancel(lease.job)
        forget(lane, lease)

    def write(self) -> None:
        """Write to Redis what is decided."""
        while self._dead:
            self._bury()
        groups: list[Group] = []
        ends: list[tuple[Lane, list[Lease], Outcome, BaseException | None]] = []
        for (lane, count), leases in self._done.items():
            self._tell_of_messages("before_delete", lane, leases)
            for at in range(0, len(leases), _A_CALL):
                part = leases[at : at + _A_CALL]
                groups.append((lane.keys, "delete", count, [lease.id for lease in part]))
                ends.append((lane, part, _DONE, None))
        for end in self._others:
            groups.append(self._group_of(end))
            ends.append((end.lane, [end.lease], end.outcome, end.error))
        for (lane, count), leases in self._released.items():
            groups.append((lane.keys, "release", count, [lease.id for lease in leases]))
            ends.append((lane, leases, _DONE, None))
        if groups:
            told = self._rsmq.run(operations.settle_messages(self._identity, groups))
            self._done, self._others, self._released = {}, [], {}
            at = 0
            for (_, done, *_), (lane, leases, outcome, error) in zip(groups, ends, strict=True):
                fitting = self._fitting(lane, leases, told[at : at + len(leases)])
                at += len(leases)
                if fitting:
                    self._written(done, lane, fitting, outcome, error)
        while self._alone:
            lease = self._alone[-1]
            self._rsmq.run(operations.end_alone(lease.job.lane.keys, lease.id))
            self._alone.pop()

    def _group_of(self, end: _End) -> Group:
        lane, lease, outcome = end.lane, end.lease, end.outcome
        if isinstance(outcome, Again):
            message = lease.message(lane.name, lane.codec)
            self._hooks.call("before_retry", message, outcome.after, end.error)
            return lane.keys, "hide", lease.count, [(lease.id, round(outcome.after * 1000))]
        self._tell_of_messages("before_delete", lane, [lease])
        return lane.keys, "delete", lease.count, [lease.id]

    def _fitting(self, lane: Lane, leases: list[Lease], told: bytes) -> list[Lease]:
        """Those that were this worker's until now; it holds none of them any more."""
        if _SINCE in told:
            for lease, digit in zip(leases, told, strict=True):
                if digit == _SINCE:
                    self.lose(lane, lease, "somebody has received it since")
            leases = [lease for lease, digit in zip(leases, told, strict=True) if digit != _SINCE]
        held = lane.held
        for lease in leases:
            if held.get(lease.id) is lease:
                del held[lease.id]
        return leases

    def _written(
        self,
        done: str,
        lane: Lane,
        leases: list[Lease],
        outcome: Outcome,
        error: BaseException | None,
    ) -> None:
        """What was decided of messages of one group is so in Redis."""
        first = leases[0]
        if done == "release":
            self.numbers.released += len(leases)
            self._hooks.call("after_release", lane.name, len(leases))
        elif isinstance(outcome, Again):
            self.numbers.retried += 1
            message = first.message(lane.name, lane.codec)
            self._hooks.call("after_retry", message, outcome.after, error)
        else:
            self._tell_of_messages("after_delete", lane, leases)
            if isinstance(outcome, Dropped):
                self.numbers.dropped += 1
                message = first.message(lane.name, lane.codec)
                self._hooks.call("after_drop", message, outcome.why, error)
            else:
                self.numbers.handled += len(leases)

    def _tell_of_messages(self, hook: str, lane: Lane, leases: Iterable[Lease]) -> None:
        if self._hooks[hook]:
            self._hooks.call(hook, [lease.message(lane.name, lane.codec) for lease in leases])

    def _bury(self) -> None:
        """Move dead letters of one queue to one other."""
        lane, queue = self._dead[0].lane, _grave(self._dead[0])
        together = [end for end in self._dead if end.lane is lane and _grave(end) == queue]
        together = together[:_A_CALL]
        for end in together:
            self._tell_of_death("before_dead_letter", end)
        target = self._rsmq.namespace.queue(queue)
        messages = [(end.lease.id, end.lease.count, self._reason(end)) for end in together]
        operation = operations.bury_messages(self._identity, lane.keys, target, messages)
        try:
            told = self._rsmq.run(operation)
        except QueueNotFound:
            self._has_no_grave(together, queue)
            return
        self._dead = [end for end in self._dead if end not in together]
        for end, digit in zip(together, told, strict=True):
            if digit == _SINCE:
                self.lose(lane, end.lease, "somebody has received it since")
                continue
            forget(lane, end.lease)
            self.numbers.dead += 1
            self._tell_of_death("after_dead_letter", end)

    def _has_no_grave(self, ends: Sequence[_End], queue: str) -> None:
        """The dead-letter queue is gone: its messages stay, and are tried again."""
        _log.error("there is no queue %s: %d messages that should go there stay", queue, len(ends))
        self._dead = [end for end in self._dead if end not in ends]
        for end in ends:
            nowhere = replace(end.lane.policy, dead_letter_queue=None, unroutable=None, drop=False)
            outcome = decide(end.error, end.lease.count, nowhere)
            self._others.append(_End(end.lane, end.lease, outcome, end.error))

    def _tell_of_death(self, hook: str, end: _End) -> None:
        if self._hooks[hook] and isinstance(end.outcome, Dead):
            message = end.lease.message(end.lane.name, end.lane.codec)
            self._hooks.call(hook, message, end.outcome.queue, end.outcome.why, end.error)

    def _reason(self, end: _End) -> dict[str, Any]:
        """Why a message died, as ``DeadLetterReason`` has it."""
        error = end.error
        cause = error.__cause__ if isinstance(error, BodyNotDecodable) else error
        exception = None if cause is None else f"{type(cause).__name__}: {text_of(cause)}"
        trace = "" if error is None else "".join(traceback.format_exception(error))
        return {
            "queue": end.lane.name,
            "text": end.outcome.why[:_TEXT] if isinstance(end.outcome, Dead) else "",
            "exception": exception and exception[:_TEXT],
            "traceback": trace[-_TRACEBACK:] or None,
            "worker": self._identity.name,
            "attempts": end.lease.count,
        }


def _grave(end: _End) -> str:
    return end.outcome.queue if isinstance(end.outcome, Dead) else ""


def forget(lane: Lane, lease: Lease) -> None:
    """A message is not held any more."""
    if lane.held.get(lease.id) is lease:
        del lane.held[lease.id]


def give_back(rsmq: RSMQ, identity: Identity, held: dict[str, list[Receipt]]) -> int:
    """
    Release messages by their receipts, and forget that the worker's name holds them.

    Args:
        rsmq: the client.
        identity: who has the name now.
        held: the receipts by queue.

    Returns:
        How many were released: that nobody has received since, or deleted.
    """
    released = 0
    for queue, receipts in held.items():
        keys = rsmq.namespace.queue(queue)
        for at in range(0, len(receipts), _A_CALL):
            groups: dict[int, list[str]] = {}
            for id, count in receipts[at : at + _A_CALL]:
                groups.setdefault(count, []).append(id)
            told = rsmq.run(
                operations.settle_messages(
                    identity,
                    [(keys, "release", count, ids) for count, ids in groups.items()],
                )
            )
            released += told.count(b"1")
    return released
