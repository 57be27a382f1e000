"""
Settlement: decides outcomes, and writes them to Redis until Redis has confirmed them.

Each decision is kept until Redis has answered, so an outage loses no outcome. A step writes at most
MESSAGES_PER_STEP messages, so that Redis and the worker can do other work between two steps.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from redis.exceptions import ResponseError

from rsmq.codecs import blocks
from rsmq.errors import InvalidValue, QueueNotFound
from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.transport.backoff import exponential_seconds
from rsmq.transport.retry import is_limited_to_keys
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.delivery import Delivery
from rsmq.worker.failure import HandlerFailure, summarize
from rsmq.worker.middleware import Hooks
from rsmq.worker.needed_queues import open_needed_queues
from rsmq.worker.operations import (
    Settlement,
    TrackedOutcome,
    dead_letter_messages,
    encode_job_error,
    finish_messages,
    record_finished,
    settle_messages,
)
from rsmq.worker.outcome import (
    FIRST_BACKOFF_SECONDS,
    FREE_DEFERRALS,
    MAX_BACKOFF_SECONDS,
    DeadLetter,
    DeadLettered,
    Deferred,
    DeferredTooOften,
    Dropped,
    Outcome,
    Retried,
    decide,
)
from rsmq.worker.settle.pending import DeadLetterKind, Decision, Kind, PendingOutcomes
from rsmq.worker.settle.refusals import find_refusals, first_of_bytes, next_message_of
from rsmq.worker.settle.stored_bodies import StoredBodies
from rsmq.worker.state.call_tally import CallTally
from rsmq.worker.state.calls import Job, Lease
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.jobs import GroupJob, SingleJob
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import (
    CALL_ABANDONED,
    CONFIRM,
    DECIDE,
    EXPIRED,
    LATE,
    LOSE,
    LOST,
    RUNNING,
    SETTLED,
    UNBEGUN,
    change_message,
    change_messages,
)
from rsmq.worker.state.numbers import Numbers

_log = get_logger("rsmq.worker")

#: Maximum number of messages in one call of an operation.
MESSAGES_PER_STEP = 250
#: The attempt after which a message that is retried forever is reported.
MANY_ATTEMPTS = 10
#: The stored length of a traceback (its end) and of a text (its beginning).
_MAX_TRACEBACK_CHARACTERS = 4000
_MAX_TEXT_CHARACTERS = 500

#: The digits of a message that is not in its queue, of one that was settled, and of one that
#: another consumer has received since.
_GONE, _DONE, _RECEIVED_AGAIN = b"012"
#: The queues of which a worker describes the last failure.
_MAX_FAILURES, _MAX_FAILURE_CHARACTERS = 5, 300


class Settler:
    """
    Outcomes of messages, kept until they are written to Redis.

    Attributes:
        numbers: the counters of the worker.
        tally: its calls of this minute, by task.
        outcomes: by queue, how many were handled, and how many failed.
        failures: Unix ms and text of the last failure, of the queues that failed last.
        lost: the messages that were lost while their calls ran, in this turn of the loop.
    """

    def __init__(
        self, connection: WorkerConnection, hooks: Hooks, stored_bodies: StoredBodies
    ) -> None:
        self.numbers = Numbers()
        self._stored_bodies = stored_bodies
        self.tally = CallTally()
        self.outcomes: dict[str, tuple[int, int]] = {}
        self.failures: dict[str, tuple[int, str]] = {}
        self.lost: list[tuple[Lane, Lease]] = []
        self._connection = connection
        self._hooks = hooks
        self._pending = PendingOutcomes()
        #: The dead-letter queues of queues that are missing or broken, as it was logged.
        self._unavailable_targets: set[tuple[Lane, str]] = set()
        self._last_handled: Kind | None = None
        self._last_handled_leases: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._pending)

    def has_backlog(self, lane: Lane) -> bool:
        """Return whether a step can't write all pending outcomes of a lane."""
        return self._pending.has_backlog(lane, MESSAGES_PER_STEP)

    def decide_outcomes(self, job: Job) -> None:
        """Decide the outcomes of the messages of a finished call."""
        if isinstance(job, SingleJob):
            self._decide_outcome(job, job)
        else:
            for lease in job.leases:
                self._decide_outcome(job, lease)

    def _decide_outcome(self, job: Job, lease: Lease) -> None:
        lane, state = job.lane, lease.state
        if state is RUNNING:
            failure = job.failure if lease.failure is None else lease.failure
            if failure is not None:
                if failure.kind == "withdrawn":
                    self._withdraw(lane, lease)
                elif failure.kind == "stopped":
                    self.release(lane, (lease,))
                else:
                    self.decide_failure(lane, lease, failure)
                return
            change_message(lease, DECIDE)
            kind, has_records = self._last_handled, job.is_quarantined or lease.unbegun > 0
            if job.next_message is not None:
                kind = Kind(lane, "handled", "delete", lease.count, has_records)
                self._pending.finishes.add(kind, lease)
                return
            if (
                kind is None
                or kind.lane is not lane
                or kind.receive_count != lease.count
                or kind.has_records != has_records
            ):  # most messages have the kind of the one before
                kind = self._last_handled = Kind(
                    lane, "handled", "delete", lease.count, has_records
                )
                self._last_handled_leases = self._pending.settlements.items_of(kind)
            self._last_handled_leases.append(lease)
        elif state is LATE:
            self.mark_lost(lane, lease, "it had to wait for its call for too long")
        elif state is EXPIRED:
            self.mark_lost(lane, lease, "its visibility timeout was over")

    def _withdraw(self, lane: Lane, lease: Lease) -> None:
        """Release a message whose call has done nothing, so that it counts as not begun."""
        change_message(lease, DECIDE)
        kind = Kind(lane, "released", "unbegun", lease.count, lease.job.is_quarantined)
        self._add(kind, lease)

    def decide_failure(self, lane: Lane, lease: Lease, failure: HandlerFailure) -> None:
        """Decide the outcome of a message that could not be handled."""
        if change_message(lease, DECIDE):
            failure = with_cancel(lease, failure)
            if failure.kind == "defer":
                failure = self._limit_deferrals(lane, lease, failure)
            outcome = decide(failure, lease.attempt, lease.policy, unbegun=lease.unbegun)
            self.add_decision(lane, lease, outcome, failure)

    def add_decision(
        self, lane: Lane, lease: Lease, outcome: Outcome, failure: HandlerFailure
    ) -> None:
        """Add the outcome of a message that could not be handled; its state is SETTLING."""
        lease.failure = failure
        if isinstance(lease, GroupJob):
            self.note_progress(lease)
            outcome = _add_unfinished(lease, outcome)
        if failure.kind == "timed_out" and lease.job.call_state is not CALL_ABANDONED:
            self.numbers.hung += 1  # else it was counted when the call was abandoned
        decision = Decision(lane, lease, outcome, failure)
        if decision.is_failure:
            self._count(lane.name, failed=1)
            self.failures.pop(lane.name, None)
            self.failures[lane.name] = _describe_failure(failure)
            if len(self.failures) > _MAX_FAILURES:
                del self.failures[next(iter(self.failures))]
        self.tally.count_outcome(lease.job, outcome, is_failure=decision.is_failure)
        if isinstance(outcome, DeadLettered):
            kind = DeadLetterKind(lane, outcome.queue, lease.job.is_quarantined)
            self._pending.dead_letters.add(kind, decision)
        else:
            self._add_retry_or_drop(decision)

    def _count(self, queue: str, *, handled: int = 0, failed: int = 0) -> None:
        self.numbers.handled += handled
        self.numbers.failed += failed
        before = self.outcomes.get(queue, (0, 0))
        self.outcomes[queue] = before[0] + handled, before[1] + failed

    def _add_retry_or_drop(self, decision: Decision) -> None:
        lane, lease, outcome = decision.lane, decision.lease, decision.outcome
        action: Literal["retry", "defer", "delete"] = "delete"
        if isinstance(outcome, Retried | Deferred):
            action = "retry" if isinstance(outcome, Retried) else "defer"
        self._add(Kind(lane, "failed", action, lease.count, _has_records(lease)), decision)

    def release(self, lane: Lane, leases: Iterable[Lease], *, are_attempts: bool = False) -> None:
        """
        Release messages at the next write. The lock of the lanes is not held.

        Args:
            are_attempts: whether calls that began count, although they were interrupted.
        """
        for lease in leases:
            with lane.lock:
                is_begun = lease.state not in UNBEGUN
                is_changed = change_message(lease, DECIDE)
            if not is_changed:
                self.mark_lost(lane, lease, "its visibility timeout was over")
                continue
            if isinstance(lease, GroupJob):
                self.note_progress(lease)
            is_quarantined = lease.job.is_quarantined
            if is_begun and (are_attempts or self._is_attempt(lane, lease)):
                kind = Kind(lane, "released", "release", lease.count, False)
            else:
                kind = Kind(lane, "released", "unbegun", lease.count, is_quarantined)
            if not is_begun:
                lane.in_flight.remove((lease,))
            self._add(kind, lease)

    def _limit_deferrals(self, lane: Lane, lease: Lease, failure: HandlerFailure) -> HandlerFailure:
        """Return the failure of a message, or another one if it was deferred too often."""
        seconds = self._connection.seconds_since(lease.first_received_ms)
        if lane.policy.may_defer(lease.unbegun, seconds, free=FREE_DEFERRALS):
            return failure
        text = f": {failure.text}" if failure.text else ""
        return read_error(
            DeferredTooOften(f"deferred too often, {lease.unbegun} times in {seconds:.0f} s{text}")
        )

    def _is_attempt(self, lane: Lane, lease: Lease) -> bool:
        """
        Return whether a call counts that is interrupted by the end of the worker.

        Usually not: workers that stop more often than a long call can end would use up its
        attempts. But it counts if the call has exceeded its max_runtime, or if the message was
        interrupted or deferred too often: then it may hang forever. In quarantine its record stays.
        """
        started_at = lease.job.started_at
        if started_at is not None and time.monotonic() - started_at > lane.listener.max_runtime:
            return True
        seconds = self._connection.seconds_since(lease.first_received_ms)
        return not lane.policy.may_defer(lease.unbegun, seconds)

    def mark_lost(self, lane: Lane, lease: Lease, reason: str) -> None:
        """
        Mark a lease as lost, so that its handler can see it. Its call is cancelled if all leases
        are.
        """
        with lane.lock:
            is_begun = lease.state not in UNBEGUN
            is_changed = change_message(lease, LOSE)
        if is_changed:
            self.numbers.lost += 1
            if is_begun:
                self.lost.append((lane, lease))
            self._hooks.call("lease_lost", lease.to_delivery(lane.name, lane.codec), reason)
            if all(each.state is LOST for each in lease.job.leases):
                lane.cancel(lease.job)
            # Whichever consumer has it now: delete the record of its being in flight here. The
            # quarantine record stays: the other consumer may be running the message.
            action: Literal["release", "unbegun"] = "release" if is_begun else "unbegun"
            self._add(Kind(lane, "lost", action, lease.count, False), lease)
        lane.in_flight.remove((lease,))

    def note_progress(self, job: GroupJob) -> None:
        """
        Record at the next write which handlers of a message have finished.

        That is before its outcome is written, so the next attempt finds the record.
        """
        if len(job.progress.finished) > job.progress.recorded_count:
            self._pending.progress[job] = None

    def _note_settled(self, jobs: Iterable[Lease]) -> None:
        """Delete the records of the progress of messages that have left their queue."""
        for job in jobs:
            if isinstance(job, GroupJob) and job.progress.recorded_count:
                self._pending.settled[job] = None

    def _write_progress(self, jobs: dict[GroupJob, None], *, are_settled: bool) -> None:
        """Record the progress of messages, or delete the records."""
        while jobs:
            lane = next(iter(jobs)).lane
            of_lane = (job for job in jobs if job.lane is lane)
            step = list(itertools.islice(of_lane, MESSAGES_PER_STEP))
            names = [() if are_settled else job.progress.finished for job in step]
            records = [
                (job.id, job.count, finished) for job, finished in zip(step, names, strict=True)
            ]
            try:
                self._connection.run(record_finished(lane.keys, records))
            except ResponseError as error:
                if not is_limited_to_keys(error):
                    raise
                _log.error(
                    "%s: it can't be recorded which handlers have finished, so a retry calls them "
                    "again: %s",
                    lane.name,
                    error,
                )
            for job, finished in zip(step, names, strict=True):
                del jobs[job]
                job.progress.note_recorded(len(finished))

    def _add(self, kind: Kind, item: Lease | Decision) -> None:
        self._pending.settlements.add(kind, item)

    def write_step(self) -> None:
        """Write outcomes of at most MESSAGES_PER_STEP messages, and as many dead letters."""
        pending = self._pending
        self._last_handled = None  # its list is replaced
        self._write_progress(pending.progress, are_settled=False)
        self._write_progress(pending.settled, are_settled=True)
        if pending.dead_letters:
            self._move_dead_letters()
        if pending.finishes:
            self._finish_messages()
        parts = pending.settlements.first(MESSAGES_PER_STEP)
        if parts:
            groups = [self._make_group(kind, items) for kind, items in parts]
            for (kind, items), results in zip(parts, self._write_groups(groups), strict=True):
                pending.settlements.remove(kind, len(items))
                self._finish_write(kind, items, results)
                self._discard_bodies(kind, items, results)

    def _make_group(self, kind: Kind, items: list[Any]) -> Settlement:
        """Return the argument of ``settle_messages`` for messages, and call hooks for them."""
        ids: list[Any]
        lane = kind.lane
        if kind.action in ("retry", "defer"):
            is_retry = kind.action == "retry"
            ids = [
                (
                    each.lease.id,
                    round(each.outcome.delay_seconds * 1000),
                    _describe(each.failure) if is_retry else each.lease.unbegun + 1,
                )
                for each in items
            ]
            hook = "before_retry" if is_retry else "before_defer"
            for each in items:
                message = each.lease.to_delivery(lane.name, lane.codec)
                self._hooks.call(hook, message, each.outcome.delay_seconds, each.failure.error)
        else:
            leases = _leases_of(kind, items)
            if kind.action == "delete":
                self._call_hook("before_delete", lane, leases)
            ids = [lease.id for lease in leases]
            if kind.action == "unbegun":
                ids = [(lease.id, lease.unbegun + 1) for lease in leases]
        ttl = lane.listener.result_ttl
        tracked = None if ttl is None else _describe_tracked(kind, items, ttl)
        return Settlement(
            kind.lane.keys, kind.action, kind.receive_count, ids, kind.has_records, tracked
        )

    def _write_groups(self, groups: list[Settlement]) -> list[bytes]:
        """
        Write groups in one call, or one by one if a queue is broken. Return the digits of each.
        """
        try:
            results = self._connection.run(settle_messages(self._connection.identity, groups))
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            if len(groups) > 1:
                return [each for group in groups for each in self._write_groups([group])]
            [group] = groups
            return [_lose_outcomes(group.keys.name, len(group.ids), error)]
        sizes = [len(group.ids) for group in groups]
        ends = itertools.accumulate(sizes)
        return [results[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def _finish_messages(self) -> None:
        """Delete messages of one queue that were handled, and send what follows them."""
        [(kind, chosen), *_] = self._pending.finishes.first(MESSAGES_PER_STEP)
        leases, lane = list(first_of_bytes(chosen)), kind.lane
        connection, ttl = self._connection, lane.listener.result_ttl
        self._call_hook("before_delete", lane, leases)
        operation = finish_messages(
            connection.identity,
            lane.keys,
            kind.receive_count,
            [(lease.id, next_message_of(lease)) for lease in leases],
            has_records=kind.has_records,
            realtime=connection.client.realtime,
            tracked=None if ttl is None else _describe_tracked(kind, leases, ttl),
        )
        try:
            results = connection.run(operation)
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            lost = _lose_outcomes(lane.name, len(leases), error)
            results = [lost[at : at + 1] for at in range(len(leases))]
        refusals = find_refusals(connection.client, leases, results)
        self._pending.finishes.remove(kind, len(leases))
        for lease, refusal in refusals.items():
            if refusal is None:
                self._pending.finishes.add(kind, lease)  # the next step sends it
            else:
                self._give_up(lane, lease, refusal)
        written = [lease for lease in leases if lease not in refusals]
        digits = b"".join(each for each in results if len(each) == 1)
        self._finish_write(kind, written, digits)
        self._discard_bodies(kind, written, digits)

    def _give_up(self, lane: Lane, lease: Lease, refusal: Exception) -> None:
        """Give up a message that was handled, because what follows it can't be sent."""
        target = next_message_of(lease).queue
        text = f"it was handled, but what follows it can't be sent to queue {target}: {refusal}"
        failure = read_error(DeadLetter(text))
        outcome = decide(failure, lease.attempt, lease.policy)
        self.add_decision(lane, lease, outcome, failure)

    def _finish_write(self, kind: Kind, items: list[Any], results: bytes) -> None:
        """Count the messages of a group that Redis has settled, and call hooks for them."""
        lane = kind.lane
        if kind.reason == "lost":
            return
        finished = self._finish_leases(lane, _leases_of(kind, items), results)
        if not finished:
            return
        if kind.action == "delete":
            self._call_hook("after_delete", lane, finished)
            if lane.listener.handlers.is_group:
                self._note_settled(finished)
        if kind.reason == "released":
            self.numbers.released += len(finished)
            self._hooks.call("after_release", lane.name, len(finished))
        elif kind.reason == "handled":
            self._count(lane.name, handled=len(finished))
            self._report_successes(lane, finished)
        else:
            for decision, digit in zip(items, results, strict=True):
                if digit == _GONE and not isinstance(decision.outcome, Dropped):
                    _log_gone(decision)
                elif decision.lease.state is SETTLED:
                    self._finish_retry_or_drop(decision)

    def _discard_bodies(self, kind: Kind, items: list[Any], results: bytes) -> None:
        """Delete what is stored elsewhere for messages that were deleted."""
        codec = kind.lane.codec
        if kind.action == "delete" and blocks(codec):
            for lease, digit in zip(_leases_of(kind, items), results, strict=True):
                if digit == _DONE:  # else another client may have moved it
                    self._stored_bodies.discard(codec, lease.reference or lease.raw, lease.id)

    def _report_successes(self, lane: Lane, leases: list[Lease]) -> None:
        for lease in leases if self._hooks["on_success"] else ():
            self._hooks.call("on_success", lease.to_delivery(lane.name, lane.codec))

    def _finish_retry_or_drop(self, decision: Decision) -> None:
        lane = decision.lane
        message = decision.lease.to_delivery(lane.name, lane.codec)
        if isinstance(decision.outcome, Retried):
            self.numbers.retried += 1
            if decision.lease.attempt == MANY_ATTEMPTS and lane.policy.max_retries is None:
                _log.warning(
                    "%s %s: failed %d times, and is retried forever",
                    message.queue,
                    message.id,
                    MANY_ATTEMPTS,
                )
            self._hooks.call(
                "after_retry", message, decision.outcome.delay_seconds, decision.failure.error
            )
        elif isinstance(decision.outcome, Deferred):
            self.numbers.deferred += 1
            self._hooks.call(
                "after_defer", message, decision.outcome.delay_seconds, decision.failure.error
            )
        elif isinstance(decision.outcome, Dropped):
            self.numbers.dropped += 1
            self._hooks.call("after_drop", message, decision.outcome.reason, decision.failure.error)
        self._report(decision, message)

    def _report(self, decision: Decision, message: Delivery) -> None:
        """Call the hooks for the outcome of an attempt that has not succeeded."""
        failure, outcome, hooks = decision.failure, decision.outcome, self._hooks
        is_final, run = not isinstance(outcome, Retried), failure.context.run
        if decision.is_failure and hooks["on_failure"]:
            run(hooks.call, "on_failure", failure.error, message, is_final)
        if isinstance(outcome, Retried) and hooks["on_retry"]:
            run(hooks.call, "on_retry", failure.error, message, outcome.delay_seconds)

    def _finish_leases(self, lane: Lane, leases: list[Lease], results: bytes) -> list[Lease]:
        """Remove the messages of a group from those in flight. Return those that were settled."""
        if _RECEIVED_AGAIN in results:
            for lease, digit in zip(leases, results, strict=True):
                if digit == _RECEIVED_AGAIN:
                    self.mark_lost(lane, lease, "another consumer has received it since")
        finished = change_messages(leases, CONFIRM)
        lane.in_flight.remove(finished)
        return finished

    def _call_hook(self, hook: str, lane: Lane, leases: Iterable[Lease]) -> None:
        if self._hooks[hook]:
            self._hooks.call(hook, [lease.to_delivery(lane.name, lane.codec) for lease in leases])

    def _move_dead_letters(self) -> None:
        """Move messages of one lane to one dead-letter queue, as many as a step may."""
        [(kind, chosen), *_] = self._pending.dead_letters.first(MESSAGES_PER_STEP)
        connection, lane = self._connection, kind.lane
        for decision in chosen:
            self._call_dead_letter_hook("before_dead_letter", decision)
        target = connection.client.namespace.queue(kind.target)
        messages = [
            (decision.lease.id, decision.lease.count, self._describe_death(decision))
            for decision in chosen
        ]
        operation = dead_letter_messages(
            connection.identity,
            lane.keys,
            target,
            messages,
            quarantined=kind.is_quarantined,
            result_ttl=lane.listener.result_ttl,
            progresses=[decision.lease.new_progress for decision in chosen],
        )
        try:
            results = connection.run(operation)
        except QueueNotFound:
            problem = self._create_target(kind)
            if problem is not None:  # else the next step moves the messages
                self._retry_later(kind, chosen, problem)
            return
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            self._retry_later(kind, chosen, str(error))
            return
        self._pending.dead_letters.remove(kind, len(chosen))
        if (lane, kind.target) in self._unavailable_targets:
            self._unavailable_targets.remove((lane, kind.target))
            _log.info("%s: its dead-letter queue %s is back", lane.name, kind.target)
        self._finish_dead_letters(lane, chosen, results)

    def _finish_dead_letters(
        self, lane: Lane, decisions: Sequence[Decision], results: bytes
    ) -> None:
        """Count the messages that Redis has moved, and call hooks for them."""
        for decision, digit in zip(decisions, results, strict=True):
            if digit == _RECEIVED_AGAIN:
                self.mark_lost(lane, decision.lease, "another consumer has received it since")
                continue
            lane.in_flight.remove((decision.lease,))
            is_settled = change_message(decision.lease, CONFIRM)
            if digit == _GONE:
                _log_gone(decision)
            elif is_settled:
                self.numbers.dead += 1
                self._note_settled((decision.lease,))
                self._call_dead_letter_hook("after_dead_letter", decision)
                lease = decision.lease
                self._report(decision, lease.to_delivery(lane.name, lane.codec))

    def _create_target(self, kind: DeadLetterKind) -> str | None:
        """
        Create a missing dead-letter queue, if its listener is to. Return why it is still missing.
        """
        listener = kind.lane.listener
        if kind.target not in listener.queues_to_create:
            return f"there is no queue {kind.target}"
        try:
            open_needed_queues(listener, self._connection.client)
        except (QueueNotFound, InvalidValue, ResponseError) as error:
            return f"it can't be created again: {error}"
        return None

    def _retry_later(
        self, kind: DeadLetterKind, decisions: Sequence[Decision], reason: str
    ) -> None:
        """
        Retry messages whose dead-letter queue is missing or broken.

        The pause grows with the attempts, whatever the back-off: these are more than were wanted.
        """
        if (kind.lane, kind.target) not in self._unavailable_targets:
            self._unavailable_targets.add((kind.lane, kind.target))
            _log.error(
                "%s: messages should go to queue %s, and stay where they are until they can: %s",
                kind.lane.name,
                kind.target,
                reason,
            )
        self._pending.dead_letters.remove(kind, len(decisions))
        for decision in decisions:
            lane, lease = decision.lane, decision.lease
            failure = with_cancel(lease, decision.failure)
            without_queue = replace(
                lease.policy, dead_letter_queue=None, unroutable=None, drop=False
            )
            outcome = decide(failure, lease.attempt, without_queue)
            if isinstance(outcome, Retried):
                pause = exponential_seconds(
                    lease.attempt, FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS
                )
                outcome = replace(outcome, delay_seconds=max(outcome.delay_seconds, pause))
            self._add_retry_or_drop(Decision(lane, lease, outcome, failure))

    def _call_dead_letter_hook(self, hook: str, decision: Decision) -> None:
        if self._hooks[hook] and isinstance(decision.outcome, DeadLettered):
            lane = decision.lane
            message = decision.lease.to_delivery(lane.name, lane.codec)
            self._hooks.call(
                hook,
                message,
                decision.outcome.queue,
                decision.outcome.reason,
                decision.failure.error,
            )

    def _describe_death(self, decision: Decision) -> dict[str, Any]:
        """Return why a message became a dead letter, with the fields of ``DeadLetterReason``."""
        failure = decision.failure
        return {
            "queue": decision.lane.name,
            "text": decision.outcome.reason[:_MAX_TEXT_CHARACTERS]
            if isinstance(decision.outcome, DeadLettered)
            else "",
            "exception": _describe(failure)[:_MAX_TEXT_CHARACTERS],
            "traceback": failure.traceback[-_MAX_TRACEBACK_CHARACTERS:] or None,
            "worker": self._connection.name,
            "attempts": decision.lease.attempt,
            **failure.fields,
        }


def _log_gone(decision: Decision) -> None:
    """Log that a message was deleted before its failure could be written, so nothing was."""
    _log.info(
        "%s %s: it was deleted meanwhile, so it is neither retried nor a dead letter",
        decision.lane.name,
        decision.lease.id,
    )


def _lose_outcomes(queue: str, number: int, error: ResponseError) -> bytes:
    """Log that a queue can't be written. Return a digit for each of its messages."""
    _log.error(
        "queue %s can't be written: the outcomes of %s are lost: %s",
        queue,
        format_count(number),
        error,
    )
    return b"2" * number


def with_cancel(lease: Lease, failure: HandlerFailure) -> HandlerFailure:
    """Return the failure of a message, whose job ends by it if it is to be cancelled."""
    return replace(failure, kind="cancelled") if lease.is_cancelled else failure


def _describe(failure: HandlerFailure) -> str:
    """Return type and text of the exception, as they are stored."""
    return f"{failure.cause_name}: {failure.cause_text}"


def _describe_tracked(kind: Kind, items: list[Any], ttl: float) -> TrackedOutcome:
    """Return what the records of tracked messages get."""
    progresses = [lease.new_progress for lease in _leases_of(kind, items)]
    if kind.reason == "handled":
        return TrackedOutcome("succeed", ttl, [lease.result for lease in items], progresses)
    if kind.reason == "failed" and kind.action != "defer":
        event: Literal["retry", "fail"] = "retry" if kind.action == "retry" else "fail"
        errors = [_encode_error(decision.failure) for decision in items]
        return TrackedOutcome(event, ttl, errors, progresses)
    return TrackedOutcome("hide", ttl, [b""] * len(items), progresses)


def _encode_error(failure: HandlerFailure) -> bytes:
    """Return the error for the record of a tracked message; empty if its job was cancelled."""
    return b"" if failure.kind == "cancelled" else encode_job_error(_describe(failure))


def _has_records(lease: Lease) -> bool:
    return lease.job.is_quarantined or lease.unbegun > 0


def _add_unfinished(job: GroupJob, outcome: Outcome) -> Outcome:
    """Return the outcome of a message, with its unfinished handlers if it is given up."""
    if not isinstance(outcome, DeadLettered | Dropped):
        return outcome
    finished = job.progress.finished
    names = [name for name in job.lane.listener.handlers.by_type if name not in finished]
    if not names:
        return outcome
    return replace(outcome, reason=f"{outcome.reason}; unfinished: {', '.join(names)}")


def _leases_of(kind: Kind, items: list[Any]) -> list[Lease]:
    return [each.lease for each in items] if kind.reason == "failed" else items


def _describe_failure(failure: HandlerFailure) -> tuple[int, str]:
    return round(time.time() * 1000), summarize(failure)[:_MAX_FAILURE_CHARACTERS]
