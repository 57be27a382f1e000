"""
Why a message does not move, and why a queue is not drained: from facts to causes, without I/O.
"""

from __future__ import annotations

from enum import StrEnum

from rsmq.explain.observed import ObservedMessage, ObservedQueue, is_nearly_full
from rsmq.wire.jobs import ENDS

#: A queue is filled faster than it is drained if so much more is sent than received.
_FASTER = 1.05
#: From so many lost receives on, a message has a fault of its own.
_LOST_RECEIVES = 2


class Cause(StrEnum):
    """
    Why a message does not move, or a queue is not drained; each is equal to its text.

    Attributes:
        ENDED: the message is gone, and its job has ended.
        DEAD_LETTERED: it is in the dead-letter queue.
        DELETED: it was deleted, which can be undone.
        GONE: it is not in the queue, and no record says why.
        NO_BODY: its id is there without a body.
        NO_ID: its body is there without an id.
        PAUSED: the queue is paused for workers.
        HELD: a worker that is alive has it in flight.
        HELD_BY_DEAD_WORKER: a worker that died had it in flight.
        IN_FLIGHT: a consumer that is not a worker has it in flight.
        DEFERRED: a worker has put it off, for a rate limit, a lock or ``Defer``; likely.
        RETRYING: its handler failed, and it waits for the next attempt; of a queue: most of what
            is received fails.
        DELAYED: it is hidden and was never received.
        HELD_BACK: an earlier message of its group comes first.
        EXPIRED: the next receive removes or moves it, because it is too old.
        EXPIRES: it will be too old at a known time.
        RECEIVED_AGAIN: it was received again and again, and neither deleted nor retried; of a
            queue: one of its messages was.
        OVER_LIMIT: it has had all its attempts: the next receive makes it a dead letter.
        FLOODED: one group or limit key has most of the messages that wait, and others wait too.
        LIMITED: the limits of the queue allow no receive now.
        WEBHOOK_STOPPED: nothing is pushed to a webhook of the queue.
        NO_WORKER: no live worker listens, no stream of Spark reads, and nothing is received.
        WORKERS_BUSY: all slots of the workers are in use.
        STALLED: workers listen, or a stream of Spark reads, and nothing was received for minutes.
        FILLED_FASTER: more is sent than received.
        WAITING: other messages are in front of it; of a queue: messages are visible.
        DRAINING: the queue becomes shorter.
        ALL_HIDDEN: no message of the queue is visible.
        DEAD_WORKER: a worker died with messages of the queue in flight.
        CRASH_LOOP: workers of the queue die again and again.
        BLOCKED_WORKER: a worker of the queue can't call handlers: one of them blocks all others; of
            a message: the one that has it in flight.
        EMPTY: the queue has no messages.
        LATE_SCHEDULE: a schedule that sends to the queue is late, or fails.
        MEMORY: Redis has little memory left.
    """

    ENDED = "ended"
    DEAD_LETTERED = "dead-lettered"
    DELETED = "deleted"
    GONE = "gone"
    NO_BODY = "no-body"
    NO_ID = "no-id"
    PAUSED = "paused"
    HELD = "held"
    HELD_BY_DEAD_WORKER = "held-by-dead-worker"
    IN_FLIGHT = "in-flight"
    DEFERRED = "deferred"
    RETRYING = "retrying"
    DELAYED = "delayed"
    HELD_BACK = "held-back"
    EXPIRED = "expired"
    EXPIRES = "expires"
    RECEIVED_AGAIN = "received-again"
    OVER_LIMIT = "over-limit"
    FLOODED = "flooded"
    LIMITED = "limited"
    WEBHOOK_STOPPED = "webhook-stopped"
    NO_WORKER = "no-worker"
    WORKERS_BUSY = "workers-busy"
    STALLED = "stalled"
    FILLED_FASTER = "filled-faster"
    WAITING = "waiting"
    DRAINING = "draining"
    ALL_HIDDEN = "all-hidden"
    DEAD_WORKER = "dead-worker"
    CRASH_LOOP = "crash-loop"
    BLOCKED_WORKER = "blocked-worker"
    EMPTY = "empty"
    LATE_SCHEDULE = "late-schedule"
    MEMORY = "memory"


def causes_of_message(facts: ObservedMessage) -> list[Cause]:
    """Return why a message does not move: the first one decides, the others hold too."""
    if not facts.is_there:
        return [_absence(facts)]
    is_paused = facts.queue.attributes.paused
    causes = [Cause.PAUSED] if is_paused else []
    if facts.is_hidden:
        state = _hidden_state(facts)
        # A worker finishes its messages, also while the queue is paused.
        causes = [state, *causes] if state is Cause.HELD else [*causes, state]
        if facts.stalled_holder is not None:
            causes.insert(0, Cause.BLOCKED_WORKER)
    if facts.lost_receives >= _LOST_RECEIVES:
        causes.append(Cause.RECEIVED_AGAIN)
    if facts.is_expired:
        causes.append(Cause.EXPIRED)
    elif facts.max_attempts is not None and facts.attempts >= facts.max_attempts:
        causes.append(Cause.OVER_LIMIT)
    if not facts.is_hidden:
        causes += [*_limit(facts.queue), *_push(facts.queue)]
        causes += _before_others(_consumption(facts.queue))
    elif not facts.is_in_flight and _has_no_consumer(facts.queue):
        causes.append(Cause.NO_WORKER)
    if facts.expires_ms is not None and not facts.is_expired:
        causes.append(Cause.EXPIRES)
    return causes


def _before_others(causes: list[Cause]) -> list[Cause]:
    """Return the causes of a queue for one of its messages: its place is first, if it moves on."""
    if not {Cause.FILLED_FASTER, Cause.DRAINING}.intersection(causes):
        return causes
    return [Cause.WAITING, *(each for each in causes if each is not Cause.WAITING)]


def _absence(facts: ObservedMessage) -> Cause:
    if facts.visible_at_ms is not None:
        return Cause.NO_BODY
    if facts.size is not None:
        return Cause.NO_ID
    if facts.dead is not None:
        return Cause.DEAD_LETTERED
    if facts.deletion is not None:
        return Cause.DELETED
    return Cause.GONE if has_no_trace(facts) else Cause.ENDED


def has_no_trace(facts: ObservedMessage) -> bool:
    """Return whether a message is neither in its queue nor a dead letter, nor an ended job."""
    is_somewhere = facts.visible_at_ms is not None or facts.size is not None
    has_outcome = facts.job is not None and facts.job.state in ENDS - {"expired"}
    return not is_somewhere and facts.dead is None and not has_outcome


def _hidden_state(facts: ObservedMessage) -> Cause:
    if facts.before is not None:
        return Cause.HELD_BACK
    if facts.receive_count == 0:
        return Cause.DELAYED
    if facts.last_error is not None:
        return Cause.RETRYING
    if facts.holder is not None:
        return Cause.HELD if facts.holder.alive else Cause.HELD_BY_DEAD_WORKER
    if facts.stream is None and facts.unbegun and facts.queue.can_see_workers:
        return Cause.DEFERRED
    return Cause.IN_FLIGHT


def causes_of_queue(facts: ObservedQueue) -> list[Cause]:
    """Return why a queue is not drained: the first one decides, the others hold too."""
    causes = _causes_of_messages(facts) if facts.attributes.messages else [Cause.EMPTY]
    if facts.stalled_workers and causes[0] is not Cause.PAUSED:
        causes.insert(0, Cause.BLOCKED_WORKER)
    if causes[0] is Cause.EMPTY and facts.attributes.paused:
        causes.append(Cause.PAUSED)
    if facts.stopped_targets and Cause.WEBHOOK_STOPPED not in causes:
        causes.append(Cause.WEBHOOK_STOPPED)
    if facts.late_schedules:
        causes.append(Cause.LATE_SCHEDULE)
    if facts.memory is not None and is_nearly_full(facts.memory):
        causes.append(Cause.MEMORY)
    return causes


def _causes_of_messages(facts: ObservedQueue) -> list[Cause]:
    """Return why the messages of a queue, which has some, are not drained."""
    attributes = facts.attributes
    causes = [Cause.PAUSED] if attributes.paused else []
    if facts.is_received_again and facts.settles_ms is None:
        causes.append(Cause.RECEIVED_AGAIN)
    if attributes.visible_messages:
        causes += [*_flood(facts), *_limit(facts), *_push(facts)]
        consumption = _consumption(facts)
        if facts.handlers_fail and Cause.NO_WORKER not in consumption:
            # A message that is received and fails stays: the queue is not being drained.
            causes.append(Cause.RETRYING)
            consumption = [each for each in consumption if each is not Cause.DRAINING]
        causes += consumption
    else:
        causes.append(Cause.ALL_HIDDEN)
        if _has_no_consumer(facts):
            causes.append(Cause.NO_WORKER)
    if facts.dead_workers:
        causes.append(Cause.DEAD_WORKER)
    if facts.repeated_deaths:
        causes.append(Cause.CRASH_LOOP)
    if facts.is_received_again and facts.settles_ms is not None:
        causes.append(Cause.RECEIVED_AGAIN)
    return causes


def _flood(facts: ObservedQueue) -> list[Cause]:
    is_flooded = facts.largest_group is not None and facts.largest_group.floods
    return [Cause.FLOODED] if is_flooded else []


def _limit(facts: ObservedQueue) -> list[Cause]:
    return [] if facts.limit is None else [Cause.LIMITED]


def _push(facts: ObservedQueue) -> list[Cause]:
    """Return whether a webhook that is stopped holds up the visible messages of a queue."""
    is_held_up = bool(facts.stopped_targets) and not facts.is_received
    return [Cause.WEBHOOK_STOPPED] if is_held_up else []


def _consumption(facts: ObservedQueue) -> list[Cause]:
    """Return what holds up the visible messages of a queue, but for a pause."""
    causes: list[Cause] = []
    if _has_no_consumer(facts):
        return [Cause.NO_WORKER, Cause.WAITING]
    if _are_busy(facts):
        causes.append(Cause.WORKERS_BUSY)
    present = facts.present_rates
    if present is None or facts.attributes.paused:  # rates are of the time before the pause
        return [*causes, Cause.WAITING]
    if not facts.is_received:
        has_listener = bool(facts.live_workers or facts.streams)
        return [*causes, *[Cause.STALLED] * has_listener, Cause.WAITING]
    if present.sent_per_minute > present.received_per_minute * _FASTER:
        return [Cause.FILLED_FASTER, *causes, Cause.WAITING]
    if present.received_per_minute > present.sent_per_minute * _FASTER:
        return [Cause.DRAINING, *causes, Cause.WAITING]
    return [*causes, Cause.WAITING]


def _has_no_consumer(facts: ObservedQueue) -> bool:
    if facts.live_workers or facts.streams:
        return False
    return facts.can_see_workers and not facts.is_received


def _are_busy(facts: ObservedQueue) -> bool:
    live = facts.live_workers
    return bool(live) and all(each.running >= each.slots > 0 for each in live)
