"""
Settlement: decides outcomes, and writes them to Redis until Redis has confirmed them.

Each decision is kept until Redis has answered, so an outage loses no outcome.
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
from rsmq.operations.worker import Group, Identity, Receipt, dead_letter_messages, settle_messages
from rsmq.transport.retry import is_limited_to_keys
from rsmq.worker.middleware import Hooks
from rsmq.worker.numbers import Numbers
from rsmq.worker.outcome import (
    MAX_BACKOFF_SECONDS,
    DeadLettered,
    Discard,
    Dropped,
    LeaseExpired,
    Outcome,
    Retried,
    decide,
    error_text,
)
from rsmq.worker.runtime.invoke import get_error
from rsmq.worker.runtime.message_state import Job, Lane, Lease, SingleJob

_log = logging.getLogger("rsmq.worker")

#: Maximum number of messages in one call of an operation.
MESSAGES_PER_CALL = 2000
#: The stored length of a traceback (its end) and of a text (its beginning).
_MAX_TRACEBACK_CHARACTERS = 4000
_MAX_TEXT_CHARACTERS = 500

#: The digit of a message that another consumer has received since.
_RECEIVED_AGAIN = ord("2")


@dataclass(slots=True, eq=False)
class _Decision:
    """The outcome of a failed message, not written yet."""

    lane: Lane
    lease: Lease
    outcome: Outcome
    error: BaseException


@dataclass(slots=True, eq=False)
class _Write:
    """
    Messages that are settled together.

    Attributes:
        group: the argument of ``settle_messages``.
        lane: the lane of the messages.
        leases: the messages.
        decisions: the outcome of each message; None if all were handled or released.
    """

    group: Group
    lane: Lane
    leases: list[Lease]
    decisions: list[_Decision] | None = None


class Settler:
    """
    Outcomes of messages, kept until they are written to Redis.

    Attributes:
        numbers: the counters of the worker.
    """

    def __init__(self, rsmq: RSMQ, identity: Identity, hooks: Hooks) -> None:
        self.numbers = Numbers()
        self._rsmq = rsmq
        self._identity = identity
        self._hooks = hooks
        #: Handled messages, by lane, receive count and whether they ran in quarantine.
        self._successes: dict[tuple[Lane, int, bool], list[Lease]] = {}
        #: Failed messages that are retried or dropped.
        self._retries_and_drops: list[_Decision] = []
        #: Failed messages that are moved to another queue.
        self._dead_letters: list[_Decision] = []
        #: Messages to be released, by the same key as handled ones.
        self._released: dict[tuple[Lane, int, bool], list[Lease]] = {}
        #: Messages whose lease is lost, by lane and receive count. They are released if no
        #: other consumer has received them.
        self._lost: dict[tuple[Lane, int], list[Lease]] = {}

    def __bool__(self) -> bool:
        return bool(
            self._successes
            or self._retries_and_drops
            or self._dead_letters
            or self._released
            or self._lost
        )

    def decide_outcomes(self, job: Job) -> None:
        """Decide the outcomes of the messages of a finished call."""
        if isinstance(job, SingleJob):
            self._decide_outcome(job, job)
        else:
            for lease in job.leases:
                self._decide_outcome(job, lease)

    def _decide_outcome(self, job: Job, lease: Lease) -> None:
        lane = job.lane
        reason = None
        if lease.is_loss_reported or lease.is_lost or job.error is not None:
            reason = _reason_lost(job, lease)
        if lease.is_lost:
            remove_in_flight(lane, lease)
        elif reason is not None:
            self.mark_lost(lane, lease, reason)
        elif (error := get_error(job, lease)) is not None:
            self.decide_failure(lane, lease, error)
        else:
            key = (lane, lease.count, job.is_quarantined)
            if key in self._successes:
                self._successes[key].append(lease)
            else:
                self._successes[key] = [lease]

    def decide_failure(self, lane: Lane, lease: Lease, error: BaseException) -> None:
        """Decide the outcome of a message that could not be handled."""
        try:
            outcome = decide(error, lease.count, lane.policy)
        except Exception:  # noqa: BLE001 - one message must not end the worker
            _log.exception("%s %s: nothing could be decided", lane.name, lease.id)
            outcome = Retried(MAX_BACKOFF_SECONDS, "nothing could be decided")
        self.add_decision(lane, lease, outcome, error)

    def add_decision(
        self, lane: Lane, lease: Lease, outcome: Outcome, error: BaseException
    ) -> None:
        """Add the outcome of a message that could not be handled."""
        if not isinstance(error, Discard):
            self.numbers.failed += 1
        decisions = (
            self._dead_letters if isinstance(outcome, DeadLettered) else self._retries_and_drops
        )
        decisions.append(_Decision(lane, lease, outcome, error))

    def release(self, lane: Lane, leases: Iterable[Lease]) -> None:
        """Release messages at the next write."""
        for lease in leases:
            key = (lane, lease.count, lease.job.is_quarantined)
            self._released.setdefault(key, []).append(lease)

    def mark_lost(self, lane: Lane, lease: Lease, reason: str) -> None:
        """
        Mark a lease as lost, so that its handler can see it. Its call is cancelled if all leases
        are.
        """
        if not lease.is_lost:
            lease.is_lost = True
            self.numbers.lost += 1
            self._hooks.call("lease_lost", lease.to_delivery(lane.name, lane.codec), reason)
            if all(each.is_lost for each in lease.job.leases):
                lane.cancel(lease.job)
            # Whichever consumer has it now: delete the record of its being in flight here.
            self._lost.setdefault((lane, lease.count), []).append(lease)
        remove_in_flight(lane, lease)

    def write(self) -> None:
        """Write all outcomes to Redis."""
        while self._dead_letters:
            self._move_dead_letters()
        writes = [*self._success_writes(), *self._retry_and_drop_writes(), *self._release_writes()]
        groups = [write.group for write in writes]
        for (lane, count), leases in self._lost.items():
            # Quarantine records stay: the consumer that has the message now may be running it.
            groups.append(Group(lane.keys, "release", count, [lease.id for lease in leases]))
        if groups:
            results = self._write_groups(groups)
            self._successes, self._retries_and_drops, self._released, self._lost = {}, [], {}, {}
            for write, digits in zip(writes, results, strict=False):
                self._finish_write(write, digits)

    def _success_writes(self) -> Iterator[_Write]:
        for (lane, count, quarantined), leases in self._successes.items():
            self._call_hook("before_delete", lane, leases)
            for at in range(0, len(leases), MESSAGES_PER_CALL):
                part = leases[at : at + MESSAGES_PER_CALL]
                ids = [lease.id for lease in part]
                yield _Write(Group(lane.keys, "delete", count, ids, quarantined), lane, part)

    def _retry_and_drop_writes(self) -> Iterator[_Write]:
        for decisions in self._group_retries_and_drops():
            leases = [decision.lease for decision in decisions]
            yield _Write(self._make_group(decisions), decisions[0].lane, leases, decisions)

    def _release_writes(self) -> Iterator[_Write]:
        for (lane, count, quarantined), leases in self._released.items():
            ids = [lease.id for lease in leases]
            yield _Write(Group(lane.keys, "release", count, ids, quarantined), lane, leases)

    def _write_groups(self, groups: list[Group]) -> list[bytes]:
        """
        Write groups in one call, or one by one if a queue is broken. Return the digits of each.
        """
        try:
            results = self._rsmq.run(settle_messages(self._identity, groups))
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            if len(groups) > 1:
                return [each for group in groups for each in self._write_groups([group])]
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
        return [results[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def _group_retries_and_drops(self) -> Iterable[list[_Decision]]:
        """
        Group messages to be retried or dropped by lane, receive count, outcome and quarantine.
        """
        grouped: dict[tuple[Lane, int, bool, bool], list[_Decision]] = {}
        for decision in self._retries_and_drops:
            retried = isinstance(decision.outcome, Retried)
            key = (decision.lane, decision.lease.count, retried, decision.lease.job.is_quarantined)
            grouped.setdefault(key, []).append(decision)
        return grouped.values()

    def _make_group(self, decisions: list[_Decision]) -> Group:
        lane, count = decisions[0].lane, decisions[0].lease.count
        quarantined = decisions[0].lease.job.is_quarantined
        pairs = []
        for decision in decisions:
            if isinstance(decision.outcome, Retried):
                message = decision.lease.to_delivery(lane.name, lane.codec)
                self._hooks.call(
                    "before_retry", message, decision.outcome.delay_seconds, decision.error
                )
                pairs.append((decision.lease.id, round(decision.outcome.delay_seconds * 1000)))
        if pairs:
            return Group(lane.keys, "hide", count, pairs, quarantined)
        self._call_hook("before_delete", lane, [decision.lease for decision in decisions])
        return Group(
            lane.keys, "delete", count, [decision.lease.id for decision in decisions], quarantined
        )

    def _finish_write(self, write: _Write, results: bytes) -> None:
        """Count the messages of a group that Redis has settled, and call hooks for them."""
        action, lane, decisions = write.group.action, write.lane, write.decisions
        finished = self._finish_leases(lane, write.leases, results)
        if not finished:
            return
        if action == "release":
            self.numbers.released += len(finished)
            self._hooks.call("after_release", lane.name, len(finished))
            return
        if action == "delete":
            self._call_hook("after_delete", lane, finished)
        if decisions is None:
            self.numbers.handled += len(finished)
            return
        finished_ids = set(map(id, finished))
        for decision in decisions:
            if id(decision.lease) in finished_ids:
                self._finish_retry_or_drop(decision)

    def _finish_retry_or_drop(self, decision: _Decision) -> None:
        message = decision.lease.to_delivery(decision.lane.name, decision.lane.codec)
        if isinstance(decision.outcome, Retried):
            self.numbers.retried += 1
            self._hooks.call("after_retry", message, decision.outcome.delay_seconds, decision.error)
        elif isinstance(decision.outcome, Dropped):
            self.numbers.dropped += 1
            self._hooks.call("after_drop", message, decision.outcome.reason, decision.error)

    def _finish_leases(self, lane: Lane, leases: list[Lease], results: bytes) -> list[Lease]:
        """Remove the messages of a group from those in flight. Return those that were not lost."""
        if _RECEIVED_AGAIN in results:
            for lease, digit in zip(leases, results, strict=True):
                if digit == _RECEIVED_AGAIN:
                    self.mark_lost(lane, lease, "another consumer has received it since")
            leases = [
                lease
                for lease, digit in zip(leases, results, strict=True)
                if digit != _RECEIVED_AGAIN
            ]
        in_flight = lane.in_flight
        for lease in leases:
            if in_flight.get(lease.id) is lease:
                del in_flight[lease.id]
        return leases

    def _call_hook(self, hook: str, lane: Lane, leases: Iterable[Lease]) -> None:
        if self._hooks[hook]:
            self._hooks.call(hook, [lease.to_delivery(lane.name, lane.codec) for lease in leases])

    def _move_dead_letters(self) -> None:
        """Move messages of one lane to one dead-letter queue; up to MESSAGES_PER_CALL of them."""
        lane, queue = self._dead_letters[0].lane, _dead_letter_queue_of(self._dead_letters[0])
        quarantined = self._dead_letters[0].lease.job.is_quarantined
        chosen = [
            decision
            for decision in self._dead_letters
            if decision.lane is lane
            and _dead_letter_queue_of(decision) == queue
            and decision.lease.job.is_quarantined == quarantined
        ][:MESSAGES_PER_CALL]
        for decision in chosen:
            self._call_dead_letter_hook("before_dead_letter", decision)
        target = self._rsmq.namespace.queue(queue)
        messages = [
            (decision.lease.id, decision.lease.count, self._describe_death(decision))
            for decision in chosen
        ]
        operation = dead_letter_messages(
            self._identity, lane.keys, target, messages, quarantined=quarantined
        )
        try:
            results = self._rsmq.run(operation)
        except QueueNotFound as error:
            self._retry_without_dead_letter_queue(chosen, queue, error)
            return
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            self._retry_without_dead_letter_queue(chosen, queue, error)
            return
        self._dead_letters = [decision for decision in self._dead_letters if decision not in chosen]
        for decision, digit in zip(chosen, results, strict=True):
            if digit == _RECEIVED_AGAIN:
                self.mark_lost(lane, decision.lease, "another consumer has received it since")
                continue
            remove_in_flight(lane, decision.lease)
            self.numbers.dead += 1
            self._call_dead_letter_hook("after_dead_letter", decision)

    def _retry_without_dead_letter_queue(
        self, decisions: Sequence[_Decision], queue: str, error: BaseException
    ) -> None:
        """Retry messages whose dead-letter queue is missing or broken."""
        _log.error(
            "%d messages should go to queue %s, and stay where they are: %s",
            len(decisions),
            queue,
            error,
        )
        self._dead_letters = [
            decision for decision in self._dead_letters if decision not in decisions
        ]
        for decision in decisions:
            without_queue = replace(
                decision.lane.policy, dead_letter_queue=None, unroutable=None, drop=False
            )
            outcome = decide(decision.error, decision.lease.count, without_queue)
            self._retries_and_drops.append(
                _Decision(decision.lane, decision.lease, outcome, decision.error)
            )

    def _call_dead_letter_hook(self, hook: str, decision: _Decision) -> None:
        if self._hooks[hook] and isinstance(decision.outcome, DeadLettered):
            message = decision.lease.to_delivery(decision.lane.name, decision.lane.codec)
            self._hooks.call(
                hook, message, decision.outcome.queue, decision.outcome.reason, decision.error
            )

    def _describe_death(self, decision: _Decision) -> dict[str, Any]:
        """Return why a message became a dead letter, with the fields of ``DeadLetterReason``."""
        error = decision.error
        cause = error.__cause__ if isinstance(error, BodyNotDecodable) else error
        exception = None if cause is None else f"{type(cause).__name__}: {error_text(cause)}"
        trace = "" if error is None else "".join(traceback.format_exception(error))
        return {
            "queue": decision.lane.name,
            "text": decision.outcome.reason[:_MAX_TEXT_CHARACTERS]
            if isinstance(decision.outcome, DeadLettered)
            else "",
            "exception": exception and exception[:_MAX_TEXT_CHARACTERS],
            "traceback": trace[-_MAX_TRACEBACK_CHARACTERS:] or None,
            "worker": self._identity.name,
            "attempts": decision.lease.count,
        }


def _reason_lost(job: Job, lease: Lease) -> str | None:
    """Return why the lease of a finished call is lost; None if it is not."""
    if lease.is_loss_reported:
        return "its visibility timeout was over"
    if isinstance(job.error, LeaseExpired):
        return "it had to wait for its call for too long"
    if (
        isinstance(job.error, CancelledError)
        and job.ended_at is not None
        and lease.expires_at <= job.ended_at
    ):
        return "its visibility timeout could not be extended in time"
    return None


def _dead_letter_queue_of(decision: _Decision) -> str:
    return decision.outcome.queue if isinstance(decision.outcome, DeadLettered) else ""


def remove_in_flight(lane: Lane, lease: Lease) -> None:
    """Remove a message from those in flight."""
    if lane.in_flight.get(lease.id) is lease:
        del lane.in_flight[lease.id]


def release_receipts(
    rsmq: RSMQ, identity: Identity, receipts_by_queue: dict[str, list[Receipt]]
) -> int:
    """
    Release messages by their receipts, and delete the records of their being in flight.

    Args:
        rsmq: the client.
        identity: the worker that has the name now.
        receipts_by_queue: the receipts of each queue.

    Returns:
        How many were released: no other consumer has received or deleted them since.
    """
    released = 0
    for queue, receipts in receipts_by_queue.items():
        keys = rsmq.namespace.queue(queue)
        for at in range(0, len(receipts), MESSAGES_PER_CALL):
            groups: dict[int, list[str]] = {}
            for id, count in receipts[at : at + MESSAGES_PER_CALL]:
                groups.setdefault(count, []).append(id)
            results = rsmq.run(
                settle_messages(
                    identity,
                    [Group(keys, "release", count, ids) for count, ids in groups.items()],
                )
            )
            released += results.count(b"1")
    return released
