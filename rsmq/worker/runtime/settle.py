"""
Settlement: decides outcomes, and writes them to Redis until it has answered.

What is decided stays until Redis has answered; so an outage costs no outcome.
"""

from __future__ import annotations

import itertools
import logging
import traceback
from asyncio import CancelledError
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis.exceptions import ResponseError

from rsmq.client import RSMQ
from rsmq.errors import BodyNotDecodable, QueueNotFound
from rsmq.operations.worker import Group, Identity, Receipt, bury_messages, settle_messages
from rsmq.transport.retry import is_limited_to_keys
from rsmq.worker.middleware import Hooks
from rsmq.worker.numbers import Numbers
from rsmq.worker.outcome import (
    CAP,
    Again,
    Dead,
    Discard,
    Dropped,
    LeaseOver,
    Outcome,
    decide,
    text_of,
)
from rsmq.worker.runtime.invoke import error_of
from rsmq.worker.runtime.message_state import Job, Lane, Lease, Single

_log = logging.getLogger("rsmq.worker")

#: Messages of one call.
MESSAGES_PER_CALL = 2000
#: What is kept of a traceback, its end, and of a text, characters.
_TRACEBACK = 4000
_TEXT = 500

_SINCE = ord("2")  # somebody has received it since


@dataclass(slots=True, eq=False)
class _End:
    """The end of a message that is decided."""

    lane: Lane
    lease: Lease
    outcome: Outcome
    error: BaseException


@dataclass(slots=True, eq=False)
class _Write:
    """
    Messages that are settled together.

    Attributes:
        group: as ``settle_messages`` takes them.
        lane: whose.
        leases: the messages.
        ends: what was decided of each, where that is not the same for all.
    """

    group: Group
    lane: Lane
    leases: list[Lease]
    ends: list[_End] | None = None


class Settler:
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
        #: By lane, receive count and whether they ran in quarantine: those that were handled.
        self._done: dict[tuple[Lane, int, bool], list[Lease]] = {}
        #: Those that come back, or are dropped.
        self._others: list[_End] = []
        #: Those that go to another queue.
        self._dead: list[_End] = []
        #: As above: those that are released.
        self._released: dict[tuple[Lane, int, bool], list[Lease]] = {}
        #: By lane and receive count: those that are somebody else's, or due.
        self._lost: dict[tuple[Lane, int], list[Lease]] = {}

    def __bool__(self) -> bool:
        return bool(self._done or self._others or self._dead or self._released or self._lost)

    def ended(self, job: Job) -> None:
        """A call has ended: decide what becomes of its messages."""
        if isinstance(job, Single):
            self._ended(job, job)
        else:
            for lease in job.leases:
                self._ended(job, lease)

    def _ended(self, job: Job, lease: Lease) -> None:
        lane = job.lane
        why = None
        if lease.told or lease.lost or job.error is not None:
            why = _why_lost(job, lease)
        if lease.lost:
            forget(lane, lease)
        elif why is not None:
            self.lose(lane, lease, why)
        elif (error := error_of(job, lease)) is not None:
            self.failed(lane, lease, error)
        else:
            key = (lane, lease.count, job.alone)
            if key in self._done:
                self._done[key].append(lease)
            else:
                self._done[key] = [lease]

    def failed(self, lane: Lane, lease: Lease, error: BaseException) -> None:
        """A message could not be handled: decide what becomes of it."""
        try:
            outcome = decide(error, lease.count, lane.policy)
        except Exception:  # noqa: BLE001 - one message must not end the worker
            _log.exception("%s %s: nothing could be decided", lane.name, lease.id)
            outcome = Again(CAP, "nothing could be decided")
        self.end(lane, lease, outcome, error)

    def end(self, lane: Lane, lease: Lease, outcome: Outcome, error: BaseException) -> None:
        """What becomes of a message is decided."""
        if not isinstance(error, Discard):
            self.numbers.failed += 1
        kind = self._dead if isinstance(outcome, Dead) else self._others
        kind.append(_End(lane, lease, outcome, error))

    def release(self, lane: Lane, leases: Iterable[Lease]) -> None:
        """Messages are given back."""
        for lease in leases:
            key = (lane, lease.count, lease.job.alone)
            self._released.setdefault(key, []).append(lease)

    def lose(self, lane: Lane, lease: Lease, why: str) -> None:
        """A message is somebody else's, or may be: its handler is told."""
        if not lease.lost:
            lease.lost = True
            self.numbers.lost += 1
            self._hooks.call("lease_lost", lease.message(lane.name, lane.codec), why)
            if all(each.lost for each in lease.job.leases):
                lane.cancel(lease.job)
            # Whoever has it now: it is noted no longer as held here.
            self._lost.setdefault((lane, lease.count), []).append(lease)
        forget(lane, lease)

    def write(self) -> None:
        """Write to Redis what is decided."""
        while self._dead:
            self._move_dead_letters()
        writes = [*self._handled(), *self._failed(), *self._released_messages()]
        groups = [write.group for write in writes]
        for (lane, count), leases in self._lost.items():
            # How these runs ended does not count: whoever has the message now may have begun it.
            groups.append(Group(lane.keys, "release", count, [lease.id for lease in leases]))
        if groups:
            told = self._run(groups)
            self._done, self._others, self._released, self._lost = {}, [], {}, {}
            for write, digits in zip(writes, told, strict=False):
                self._written(write, digits)

    def _handled(self) -> Iterator[_Write]:
        for (lane, count, quarantined), leases in self._done.items():
            self._tell_of_messages("before_delete", lane, leases)
            for at in range(0, len(leases), MESSAGES_PER_CALL):
                part = leases[at : at + MESSAGES_PER_CALL]
                ids = [lease.id for lease in part]
                yield _Write(Group(lane.keys, "delete", count, ids, quarantined), lane, part)

    def _failed(self) -> Iterator[_Write]:
        for ends in self._others_together():
            leases = [end.lease for end in ends]
            yield _Write(self._group_of(ends), ends[0].lane, leases, ends)

    def _released_messages(self) -> Iterator[_Write]:
        for (lane, count, quarantined), leases in self._released.items():
            ids = [lease.id for lease in leases]
            yield _Write(Group(lane.keys, "release", count, ids, quarantined), lane, leases)

    def _run(self, groups: list[Group]) -> list[bytes]:
        """Write groups: together, or one by one where something is wrong with a queue."""
        try:
            told = self._rsmq.run(settle_messages(self._identity, groups))
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            if len(groups) > 1:
                return [each for group in groups for each in self._run([group])]
            [group] = groups
            _log.error(
                "queue %s can't be written: what became of %d messages is lost: %s",
                group.keys.name,
                len(group.ids),
                error,
            )
            return [b"2" * len(group.ids)]
        sizes = [len(group.ids) for group in groups]
        ends = itertools.accumulate(sizes)
        return [told[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def _others_together(self) -> Iterable[list[_End]]:
        """Those that come back or are dropped, by lane, receive count and what is done."""
        together: dict[tuple[Lane, int, bool, bool], list[_End]] = {}
        for end in self._others:
            retried = isinstance(end.outcome, Again)
            key = (end.lane, end.lease.count, retried, end.lease.job.alone)
            together.setdefault(key, []).append(end)
        return together.values()

    def _group_of(self, ends: list[_End]) -> Group:
        lane, count = ends[0].lane, ends[0].lease.count
        quarantined = ends[0].lease.job.alone
        pairs = []
        for end in ends:
            if isinstance(end.outcome, Again):
                message = end.lease.message(lane.name, lane.codec)
                self._hooks.call("before_retry", message, end.outcome.after, end.error)
                pairs.append((end.lease.id, round(end.outcome.after * 1000)))
        if pairs:
            return Group(lane.keys, "hide", count, pairs, quarantined)
        self._tell_of_messages("before_delete", lane, [end.lease for end in ends])
        return Group(lane.keys, "delete", count, [end.lease.id for end in ends], quarantined)

    def _written(self, write: _Write, told: bytes) -> None:
        """What was decided of messages of one group is so in Redis, as far as they were ours."""
        done, lane, ends = write.group.action, write.lane, write.ends
        fitting = self._fitting(lane, write.leases, told)
        if not fitting:
            return
        if done == "release":
            self.numbers.released += len(fitting)
            self._hooks.call("after_release", lane.name, len(fitting))
            return
        if done == "delete":
            self._tell_of_messages("after_delete", lane, fitting)
        if ends is None:
            self.numbers.handled += len(fitting)
            return
        ours = set(map(id, fitting))
        for end in ends:
            if id(end.lease) in ours:
                self._other_written(end)

    def _other_written(self, end: _End) -> None:
        message = end.lease.message(end.lane.name, end.lane.codec)
        if isinstance(end.outcome, Again):
            self.numbers.retried += 1
            self._hooks.call("after_retry", message, end.outcome.after, end.error)
        elif isinstance(end.outcome, Dropped):
            self.numbers.dropped += 1
            self._hooks.call("after_drop", message, end.outcome.why, end.error)

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

    def _tell_of_messages(self, hook: str, lane: Lane, leases: Iterable[Lease]) -> None:
        if self._hooks[hook]:
            self._hooks.call(hook, [lease.message(lane.name, lane.codec) for lease in leases])

    def _move_dead_letters(self) -> None:
        """Move dead letters of one queue to one other."""
        lane, queue = self._dead[0].lane, _dead_letter_queue_of(self._dead[0])
        quarantined = self._dead[0].lease.job.alone
        together = [
            end
            for end in self._dead
            if end.lane is lane
            and _dead_letter_queue_of(end) == queue
            and end.lease.job.alone == quarantined
        ][:MESSAGES_PER_CALL]
        for end in together:
            self._call_dead_letter_hook("before_dead_letter", end)
        target = self._rsmq.namespace.queue(queue)
        messages = [(end.lease.id, end.lease.count, self._reason(end)) for end in together]
        operation = bury_messages(
            self._identity, lane.keys, target, messages, quarantined=quarantined
        )
        try:
            told = self._rsmq.run(operation)
        except QueueNotFound as error:
            self._dead_letter_queue_missing(together, queue, error)
            return
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            self._dead_letter_queue_missing(together, queue, error)
            return
        self._dead = [end for end in self._dead if end not in together]
        for end, digit in zip(together, told, strict=True):
            if digit == _SINCE:
                self.lose(lane, end.lease, "somebody has received it since")
                continue
            forget(lane, end.lease)
            self.numbers.dead += 1
            self._call_dead_letter_hook("after_dead_letter", end)

    def _dead_letter_queue_missing(
        self, ends: Sequence[_End], queue: str, error: BaseException
    ) -> None:
        """The dead-letter queue is gone, or broken: its messages stay, and are tried again."""
        _log.error(
            "%d messages should go to queue %s, and stay where they are: %s",
            len(ends),
            queue,
            error,
        )
        self._dead = [end for end in self._dead if end not in ends]
        for end in ends:
            nowhere = replace(end.lane.policy, dead_letter_queue=None, unroutable=None, drop=False)
            outcome = decide(end.error, end.lease.count, nowhere)
            self._others.append(_End(end.lane, end.lease, outcome, end.error))

    def _call_dead_letter_hook(self, hook: str, end: _End) -> None:
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


def _why_lost(job: Job, lease: Lease) -> str | None:
    """Why a message that was handled is not this worker's any more; None if it is."""
    if lease.told:
        return "its visibility timeout was over"
    if isinstance(job.error, LeaseOver):
        return "it had to wait for its call for too long"
    if isinstance(job.error, CancelledError) and job.ended is not None and lease.ends <= job.ended:
        return "its visibility timeout could not be extended in time"
    return None


def _dead_letter_queue_of(end: _End) -> str:
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
        for at in range(0, len(receipts), MESSAGES_PER_CALL):
            groups: dict[int, list[str]] = {}
            for id, count in receipts[at : at + MESSAGES_PER_CALL]:
                groups.setdefault(count, []).append(id)
            told = rsmq.run(
                settle_messages(
                    identity,
                    [Group(keys, "release", count, ids) for count, ids in groups.items()],
                )
            )
            released += told.count(b"1")
    return released
