"""
The texts of causes: a sentence for each, with its evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from rsmq.errors.printable import escape_unprintable, format_count
from rsmq.explain.causes import Cause
from rsmq.explain.observed import IDLE_MINUTES, ObservedMessage, ObservedQueue
from rsmq.figures import HiddenCounts
from rsmq.model import QueueAttributes
from rsmq.schedules.definition import StoredSchedule
from rsmq.trash.deletion import UNKNOWN_CALLER, Deletion, DeletionKind
from rsmq.webhooks.shared_breaker import PushTarget
from rsmq.wire.workers import StalledHandlers, WorkerInfo

_UNITS = ((86_400, "days"), (3600, "h"), (60, "min"))
#: From this many of a unit on, a span is shown in it.
_MIN_OF_UNIT = 2


def describe_message_cause(cause: Cause, facts: ObservedMessage) -> str:
    """Return the sentence of a cause of a message."""
    of_message = _OF_MESSAGE.get(cause)
    text = of_message(facts) if of_message is not None else _OF_QUEUE[cause](facts.queue)
    return escape_unprintable(text)


def describe_queue_cause(cause: Cause, facts: ObservedQueue) -> str:
    """Return the sentence of a cause of a queue."""
    return escape_unprintable(_OF_QUEUE[cause](facts))


def format_moment(ms: float, now_ms: float) -> str:
    """Return a Unix time in ms as a time in UTC, with its date if that is not today's."""
    try:
        moment, now = (datetime.fromtimestamp(each / 1000, UTC) for each in (ms, now_ms))
    except (OverflowError, OSError, ValueError):
        return f"{ms:.0f} ms"
    is_today = moment.date() == now.date()
    return moment.strftime("%H:%M:%S UTC" if is_today else "%Y-%m-%d %H:%M:%S UTC")


def format_span(seconds: float) -> str:
    """Return a span of time in its largest unit, as in "40 s" or "6 min"."""
    for size, unit in _UNITS:
        if seconds >= _MIN_OF_UNIT * size:
            return f"{round(seconds / size):,} {unit}"
    return f"{max(round(seconds), 0)} s"


def _at(ms: float, now_ms: float) -> str:
    """Return a time, and how far away it is."""
    seconds = (ms - now_ms) / 1000
    away = f"in {format_span(seconds)}" if seconds >= 0 else f"{format_span(-seconds)} ago"
    return f"{format_moment(ms, now_ms)} ({away})"


def _visible_at(facts: ObservedMessage) -> str:
    return _at(facts.visible_at_ms or 0, facts.queue.now_ms)


def _target(facts: ObservedMessage) -> str:
    return f"queue {facts.queue.attributes.dead_letter_queue}"


def _ended(facts: ObservedMessage) -> str:
    job = facts.job
    if job is None or job.ended_at is None:
        return "It is gone, and its job has ended."
    by = "" if job.worker is None else f" in worker {job.worker}"
    ended = _at(job.ended_at.timestamp() * 1000, facts.queue.now_ms)
    error = "" if job.error is None or job.state != "failed" else f": {job.error}"
    attempt = "" if not job.attempt else f", attempt {job.attempt}{by}"
    return f"It is gone, and its job has ended: {job.state} at {ended}{attempt}{error}."


def _dead_lettered(facts: ObservedMessage) -> str:
    dead = facts.dead
    if dead is None:
        return "It is a dead letter."
    since = (
        f"It is a dead letter in queue {dead.queue} since {_at(dead.died_ms, facts.queue.now_ms)}"
    )
    if dead.reason is None:
        return f"{since}: it was received too often."
    exception = "" if dead.reason.exception is None else f" {dead.reason.exception}."
    return f"{since}: {dead.reason.text.rstrip('.')}.{exception}"


def _by(deletion: Deletion) -> str:
    """Return who has deleted, for a sentence; nothing if that is not known."""
    return f" by {deletion.by}" if deletion.by not in ("", UNKNOWN_CALLER) else ""


def _deleted(facts: ObservedMessage) -> str:
    deletion, now = facts.deletion, facts.queue.now_ms
    if deletion is None:
        return _gone(facts)
    how = "a purge" if deletion.kind is DeletionKind.PURGE else "a deletion"
    return (
        f"It was removed by {how}{_by(deletion)} at {_at(deletion.deleted_ms, now)}, which can be "
        f"undone until {format_moment(deletion.until_ms, now)}."
    )


def _gone(facts: ObservedMessage) -> str:
    queue, created, sent = facts.queue, facts.queue.attributes.created, facts.sent_ms
    begin = f"It is not in queue {queue.name}"
    if sent is None:
        return f"{begin}: it was never sent, or was deleted or moved, of which there is no record."
    if created is not None and sent < created.timestamp() * 1000 - 1000:
        return (
            f"{begin}: its id is older than the queue, which was created at "
            f"{format_moment(created.timestamp() * 1000, queue.now_ms)}."
        )
    return (
        f"{begin}: its id says that it was sent at {_at(sent, queue.now_ms)}, and since then it "
        "was deleted or moved, of which there is no record."
    )


def _held(facts: ObservedMessage) -> str:
    name = "" if facts.holder is None else facts.holder.name
    return (
        f"Worker {name} has it in flight, receive {facts.receive_count:,}; if it is neither "
        f"settled nor extended, it becomes visible again at {_visible_at(facts)}."
    )


def _held_by_dead_worker(facts: ObservedMessage) -> str:
    if facts.holder is None:
        return _in_flight(facts)
    return (
        f"Worker {facts.holder.name} had it in flight and has been "
        f"{_dead_for(facts.holder, facts.queue)}; it is visible again at {_visible_at(facts)}, "
        "or when a worker of this name starts."
    )


def describe_stalled(name: str, stalled: StalledHandlers, now_ms: float) -> str:
    """Return since when a worker can't call handlers, and why."""
    since = format_span((now_ms - stalled.since_ms) / 1000)
    return f"Worker {name} has called no handler for {since}: {stalled.cause}."


def remedy_of_stalled(receives: int | None) -> str:
    """
    Return what to do about a call that blocks a worker.

    Args:
        receives: how often its message was received; None if that is not known.
    """
    times = f"The message was received {receives:,} times. " if (receives or 0) > 1 else ""
    return (
        f"{times}The message may block the next worker too: move it to another queue, or delete "
        "it. Then stop the worker, so that its supervisor starts it again."
    )


def _held_by_blocked_worker(facts: ObservedMessage) -> str:
    stalled = facts.stalled_holder
    if facts.holder is None or stalled is None:
        return _blocked_worker(facts.queue)
    text = describe_stalled(facts.holder.name, stalled, facts.queue.now_ms)
    return f"{text} {remedy_of_stalled(facts.receive_count)}" if stalled.id == facts.id else text


def _dead_for(worker: WorkerInfo, queue: ObservedQueue) -> str:
    return f"dead for {format_span((queue.now_ms - worker.seen_ms) / 1000)}"


def _in_flight(facts: ObservedMessage) -> str:
    if facts.stream is not None:
        stream, batch = facts.stream
        return (
            f"The stream of Spark {stream} has it in its batch {batch:,}, receive "
            f"{facts.receive_count:,}; it is deleted when Spark has stored the batch. If the query "
            f"does not run, it becomes visible again at {_visible_at(facts)}."
        )
    who = (
        "A consumer that is not a worker of this library, such as a Node or PHP program,"
        if facts.queue.can_see_workers
        else "A consumer, which could not be looked up,"
    )
    return (
        f"{who} has it in flight, receive {facts.receive_count:,}; if it is not deleted, it "
        f"becomes visible again at {_visible_at(facts)}."
    )


def _deferred(facts: ObservedMessage) -> str:
    return (
        f"A worker has probably put it off, for a rate limit, a lock or Defer, until "
        f"{_visible_at(facts)}: no worker has it, and {facts.unbegun:,} of its "
        f"{format_count(facts.receive_count, 'receive')} began no call."
    )


def _retrying(facts: ObservedMessage) -> str:
    of = "" if facts.max_attempts is None else f" of {facts.max_attempts:,}"
    error = facts.last_error or "its handler failed"
    return (
        f"It waits for a retry until {_visible_at(facts)}, after attempt {facts.attempts:,}{of}: "
        f"{error}."
    )


def _delayed(facts: ObservedMessage) -> str:
    return f"It is delayed until {_visible_at(facts)}."


def _held_back(facts: ObservedMessage) -> str:
    before, now_ms = facts.before, facts.queue.now_ms
    if before is None or before.id is None or before.visible_at_ms is None:
        return (
            "It is held back: the messages of its group before it are gone, and the next sweep or "
            "send of the group makes it visible."
        )
    if before.visible_at_ms <= now_ms:
        state = "is visible"
    else:
        state = "is hidden" if before.receive_count == 0 else "is in flight, or waits for a retry,"
        state = f"{state} until {_at(before.visible_at_ms, now_ms)}"
    limit_key, most = before.group.limit_key, before.group.max_running
    if limit_key is None:
        return (
            f"It is held back: message {before.id} of its group {before.group.group} comes first, "
            f"and {state}."
        )
    return (
        f"It is held back: at most {format_count(most or 1, 'message')} of limit key {limit_key} "
        f"may run at a time. The first one, {before.id}, {state}."
    )


def _expired(facts: ObservedMessage) -> str:
    moves = facts.queue.attributes.expired == "dead-letter"
    what = f"moves it to {_target(facts)}" if moves else "removes it"
    since = _at(facts.expires_ms or 0, facts.queue.now_ms)
    return f"It is expired since {since}: the next receive {what}."


def _expires(facts: ObservedMessage) -> str:
    return f"It expires at {_at(facts.expires_ms or 0, facts.queue.now_ms)}."


def _received_again(facts: ObservedMessage) -> str:
    lost = facts.lost_receives
    before = facts.receive_count - facts.is_in_flight
    which = "each receive" if lost == before else f"the last {format_count(lost, 'receive')}"
    ended = f"{which}{' before this one' if facts.is_in_flight else ''} ended without a delete"
    remedy = _remedy(facts.queue, facts.settles_ms)
    return f"It was received {format_count(facts.receive_count, 'time')}; {ended}. {remedy}"


def _remedy_of_lost_receives(vt: float, *, has_workers: bool) -> str:
    """
    Return what to do about messages whose receives end without a delete.

    Args:
        vt: the visibility timeout of their queue, seconds.
        has_workers: whether workers listen, which extend it: then it is not too short.
    """
    if has_workers:
        return (
            "If its handler crashes the worker, delete it or move it to a dead-letter queue. It "
            "may only have been in flight beside such a message."
        )
    return (
        "A consumer may have released what it received, which is not recorded. Otherwise the "
        f"handler may take longer than the visibility timeout of {format_span(vt)}: make that "
        "longer than its slowest run, or delete sooner."
    )


def remedy_of_queue(queue: ObservedQueue) -> str:
    """Return what to do about messages of a queue whose receives end without a delete."""
    return _remedy(queue, queue.settles_ms)


def _remedy(queue: ObservedQueue, settles_ms: float | None) -> str:
    attributes = queue.attributes
    if settles_ms is not None and attributes.modified is not None:
        return _remedy_after_change(attributes.modified, settles_ms, queue.now_ms)
    return _remedy_of_lost_receives(attributes.vt, has_workers=bool(queue.workers))


def _remedy_after_change(changed: datetime, settles_ms: float, now_ms: float) -> str:
    """
    Return what is said of lost receives that may be of the time before a change of their queue.

    Args:
        changed: when the attributes of the queue were set.
        settles_ms: Unix ms until which the receives may be of the time before.
        now_ms: the server's time, Unix ms.
    """
    return (
        "This began before the attributes of the queue were changed at "
        f"{_at(changed.timestamp() * 1000, now_ms)}, and may be over: look again at "
        f"{format_moment(settles_ms, now_ms)}."
    )


def _over_limit(facts: ObservedMessage) -> str:
    had = f"It has had {facts.attempts:,} of {format_count(facts.max_attempts or 0, 'attempt')}"
    if facts.is_in_flight:
        return f"{had}: if this one does not succeed, it is moved to {_target(facts)}."
    return f"{had}: the next receive makes it a dead letter in {_target(facts)}."


_NO_BODY = (
    "Its id is in the queue and its body is missing, so no consumer gets it; a receive removes the "
    "id when it has been visible for ten seconds, and rsmq doctor finds it."
)
_NO_ID = (
    "Its body is there and its id is not in the queue, so no consumer gets it; rsmq doctor can "
    "restore it."
)


def _waiting(facts: ObservedMessage) -> str:
    if not facts.ids_before:
        return "It is visible, and the next message that is received."
    before = f"It is visible, with {format_count(facts.ids_before)} before it"
    if facts.queue.attributes.paused:
        return f"{before}."
    rates = facts.queue.present_rates if facts.queue.was_resumed else facts.queue.rates
    if rates is None:
        return f"{before}; {_unknown_rates(facts.queue)}."
    if not rates.received_per_minute:
        return f"{before}; none was received in the last {format_span(rates.seconds)}."
    seconds = (facts.ids_before + 1) / rates.received_per_minute * 60
    return (
        f"{before}; at the present rate, {rates.received_per_minute:,.0f} a minute, it is received "
        f"in about {format_span(seconds)}."
    )


_OF_MESSAGE: Mapping[Cause, Callable[[ObservedMessage], str]] = {
    Cause.ENDED: _ended, Cause.DEAD_LETTERED: _dead_lettered, Cause.GONE: _gone,
    Cause.DELETED: _deleted,
    Cause.NO_BODY: lambda _: _NO_BODY, Cause.NO_ID: lambda _: _NO_ID, Cause.HELD: _held,
    Cause.HELD_BY_DEAD_WORKER: _held_by_dead_worker, Cause.IN_FLIGHT: _in_flight,
    Cause.BLOCKED_WORKER: _held_by_blocked_worker,
    Cause.DEFERRED: _deferred, Cause.RETRYING: _retrying, Cause.DELAYED: _delayed,
    Cause.HELD_BACK: _held_back,
    Cause.EXPIRED: _expired, Cause.EXPIRES: _expires, Cause.OVER_LIMIT: _over_limit,
    Cause.WAITING: _waiting, Cause.RECEIVED_AGAIN: _received_again,
}  # fmt: skip


def _paused(facts: ObservedQueue) -> str:
    return f"Queue {facts.name} is paused: workers do not receive from it until it is resumed."


def _no_worker(facts: ObservedQueue) -> str:
    dead = [each for each in facts.workers if not each.alive]
    last = max(dead, key=lambda each: each.seen_ms, default=None)
    note = "" if last is None else f"; worker {last.name} has been {_dead_for(last, facts)}"
    return (
        f"No live worker listens to queue {facts.name}, and no other consumer is known to "
        f"receive{note}."
    )


def _limited(facts: ObservedQueue) -> str:
    limit, attributes = facts.limit, facts.attributes
    if limit is not None and limit.is_rate:
        return (
            f"Queue {facts.name} is at its rate of {attributes.rate}: the next message is received "
            "when that allows it."
        )
    number = format_count(attributes.max_running or 0, "message")
    return (
        f"Queue {facts.name} is at its limit of {number} in flight: the next one is received when "
        "one of them is deleted, fails or becomes visible."
    )


def describe_flood(facts: ObservedQueue) -> str:
    """Return which group or limit key holds up the others, and what the limits are."""
    found, attributes = facts.largest_group, facts.attributes
    if found is None:
        return ""
    kind = "Group" if found.name.limit_key is None else "Limit key"
    name = found.name.limit_key or found.name.group
    held = f", and {found.held_back:,} more are held back" if found.held_back else ""
    limits = []
    if found.name.max_running:
        limits.append(f"Its sends let {found.name.max_running:,} of the key run at a time")
    if attributes.max_running or attributes.rate:
        limits.append(f"The limits of the queue allow {_show_limits(attributes)}")
    text = "".join(f" {each}." for each in limits)
    others = format_count(found.total - found.admitted, "message")
    return (
        f"{kind} {name} floods queue {facts.name}: it has {found.admitted:,} of the "
        f"{format_count(found.total)} that may run{held}. So {others} of others "
        f"{'waits' if found.total - found.admitted == 1 else 'wait'} among them.{text}"
    )


def remedy_of_flood(facts: ObservedQueue) -> str:
    """Return what to do about a group or limit key that holds up the others."""
    slots, most = sum(each.slots for each in facts.live_workers), facts.attributes.max_running
    if most and (not slots or most < slots):
        hint = f": its workers have {slots:,} slots" if slots else ""
        first = f"Raise the limit of {format_count(most, 'message')} in flight{hint}."
    elif slots:
        first = f"Start more workers: those that listen have {slots:,} slots, which are the limit."
    else:
        first = "Start more consumers."
    rates, speed = facts.present_rates, ""
    if rates is not None and rates.received_per_minute:
        seconds = facts.attributes.visible_messages / rates.received_per_minute * 60
        speed = (
            f" In the last {format_span(rates.seconds)} {rates.received_per_minute:,.0f} a minute "
            f"were received; at this rate it takes about {format_span(seconds)}."
        )
    return (
        f"{first} Or move or delete messages of the key. Its sender may pass a smaller max_running "
        f"with each message, so that other keys have their turns.{speed}"
    )


def _show_limits(attributes: QueueAttributes) -> str:
    most = f"{attributes.max_running:,} in flight" if attributes.max_running else None
    return " and ".join(filter(None, [most, attributes.rate]))


def _workers_busy(facts: ObservedQueue) -> str:
    live = facts.live_workers
    calls = format_count(sum(each.running for each in live), "call")
    return f"All slots of {_listeners(live)} are in use, by {calls}."


def _streams(facts: ObservedQueue) -> str:
    """Return that streams of Spark read the queue, as a sentence after others; empty if none do."""
    found = sorted(facts.streams, key=lambda each: each.name)
    if not found:
        return ""
    shown = ", ".join(each.name for each in found[:_MAX_SENTENCES])
    shown += " and others" * (len(found) > _MAX_SENTENCES)
    read = (
        f"The stream of Spark {shown} reads"
        if len(found) == 1
        else f"Streams of Spark ({shown}) read"
    )
    seconds = (facts.now_ms - max(each.seen_ms for each in found)) / 1000
    return f" {read} it, as of {format_span(seconds)} ago."


def _listeners(live: list[WorkerInfo]) -> str:
    if len(live) == 1:
        return f"worker {live[0].name}, the only one that listens,"
    return f"the {format_count(len(live), 'worker')} that listen"


def _stalled(facts: ObservedQueue) -> str:
    live, seconds = facts.live_workers, 0.0 if facts.rates is None else facts.rates.seconds
    if facts.rates is not None and facts.rates.received_per_minute:
        seconds = IDLE_MINUTES * 60
    return (
        f"Nothing was received from queue {facts.name} in the last {format_span(seconds)}, by "
        f"{_listeners(live) + ' or by others' if live else 'any consumer'}.{_streams(facts)}"
    )


def _unknown_rates(facts: ObservedQueue) -> str:
    if facts.rates is None or facts.resumed_ms is None:
        return "how fast they are received is not recorded"
    return (
        f"the queue was resumed at {_at(facts.resumed_ms, facts.now_ms)}, and how fast they are "
        "received since is known after the next full minute"
    )


def _rates(facts: ObservedQueue) -> str:
    rates = facts.present_rates
    if rates is None:
        return ""
    return (
        f"{format_count(round(rates.sent_per_minute))} a minute were sent, and "
        f"{rates.received_per_minute:,.0f} received, in the last {format_span(rates.seconds)}"
    )


def _filled_faster(facts: ObservedQueue) -> str:
    return f"Queue {facts.name} is filled faster than it is drained: {_rates(facts)}."


def _handlers_fail(facts: ObservedQueue) -> str:
    hidden = facts.hidden or HiddenCounts()
    about = "about " * bool(hidden.margin)
    return (
        f"Handlers of queue {facts.name} fail: {about}{format_count(hidden.retrying)} wait for a "
        f"retry. {_visible(facts)}"
    )


def _draining(facts: ObservedQueue) -> str:
    rates = facts.present_rates
    if rates is None:
        return _visible(facts)
    per_minute = rates.received_per_minute - rates.sent_per_minute
    seconds = facts.attributes.visible_messages / per_minute * 60
    return (
        f"Queue {facts.name} is being drained: {_rates(facts)}, so its "
        f"{format_count(facts.attributes.visible_messages, 'visible message')} take about "
        f"{format_span(seconds)}."
    )


def _visible(facts: ObservedQueue) -> str:
    number = facts.attributes.visible_messages
    waits = f"{format_count(number)} of queue {facts.name} {'is' if number == 1 else 'are'} visible"
    if facts.attributes.paused:
        return f"{waits}."
    if facts.present_rates is None:
        return f"{waits}; {_unknown_rates(facts)}.{_streams(facts)}"
    return f"{waits}; {_rates(facts)}.{_streams(facts)}"


def _all_hidden(facts: ObservedQueue) -> str:
    hidden, next_due = facts.hidden, facts.attributes.next_due_ms
    states = ""
    if hidden is not None:
        about = "about " * bool(hidden.margin)
        states = (
            f": {about}{hidden.in_flight:,} in flight, {hidden.delayed:,} delayed, "
            f"{hidden.retrying:,} waiting for a retry"
            + f", {hidden.held_back:,} held back behind others of their groups"
            * bool(hidden.held_back)
        )
    # The scores of those held back say nothing.
    has_due = hidden is None or hidden.in_flight + hidden.delayed + hidden.retrying > 0
    first = ""
    if next_due is not None and has_due:
        first = f"; the next one is visible at {_at(next_due, facts.now_ms)}"
    return f"No message of queue {facts.name} is visible{states}{first}.{_streams(facts)}"


def _dead_worker(facts: ObservedQueue) -> str:
    texts = [
        f"worker {each.name}, {_dead_for(each, facts)}, had "
        f"{format_count(facts.in_flight_of(each))} of queue {facts.name} in flight"
        for each in facts.dead_workers
    ]
    text = "; ".join(texts[:3]) + ("; and others" if len(texts) > 3 else "")  # noqa: PLR2004
    return f"{text[0].upper()}{text[1:]}."


def _crash_loop(facts: ObservedQueue) -> str:
    deaths = facts.repeated_deaths
    names = sorted({name for _, name in deaths})
    shown = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")  # noqa: PLR2004
    first_ms, last_ms = min(deaths)[0], max(deaths)[0]
    return (
        f"Workers of queue {facts.name} die again and again: "
        f"{format_count(len(deaths), 'death')} of {shown} within "
        f"{format_span((last_ms - first_ms) / 1000)}, the last one "
        f"{format_span((facts.now_ms - last_ms) / 1000)} ago."
    )


def _blocked_worker(facts: ObservedQueue) -> str:
    found = facts.stalled_workers[:_MAX_SENTENCES]
    return " ".join(describe_stalled(each.name, why, facts.now_ms) for each, why in found)


def _message_received_again(facts: ObservedQueue) -> str:
    repeated, remedy = facts.repeated, remedy_of_queue(facts)
    if repeated.are_many and not facts.workers:
        return (
            f"Messages of queue {facts.name} are received again before they are deleted, "
            f"{repeated.repeated} of the next {repeated.received} in flight. {remedy}"
        )
    return (
        f"Message {repeated.id} of queue {facts.name} was received "
        f"{format_count(repeated.count, 'time')} and not deleted. {remedy}"
    )


def _empty(facts: ObservedQueue) -> str:
    paused = ", and it is paused" if facts.attributes.paused else ""
    return f"Queue {facts.name} has no messages{paused}.{_purge(facts)}{_streams(facts)}"


def _purge(facts: ObservedQueue) -> str:
    purge = facts.purge
    if purge is None:
        return ""
    verb = "was" if purge.messages == 1 else "were"
    return (
        f" {format_count(purge.messages)} {verb} purged{_by(purge)} at "
        f"{_at(purge.deleted_ms, facts.now_ms)}, which can be undone until "
        f"{format_moment(purge.until_ms, facts.now_ms)}."
    )


#: Of several webhooks or schedules so many have a sentence.
_MAX_SENTENCES = 3


def describe_target(target: PushTarget, now_ms: float) -> str:
    """Return why nothing is pushed to a target, and when it is tried again."""
    if target.refusal is not None:
        return f"{target.url}: a process that should push says: {target.refusal}"
    again = ""
    if target.until_ms is not None:
        again = f" It is tried again in {format_span((target.until_ms - now_ms) / 1000)}."
    answer = target.answer or "not recorded"
    return f"{target.url} is {target.state}; its last answer was {answer}.{again}"


def describe_late_schedule(schedule: StoredSchedule, late: float) -> str:
    """Return that a schedule is late, or with 0 seconds that it fails."""
    if late:
        return f"The schedule {schedule.name} is {format_span(late)} late: nothing runs schedules."
    return f"The schedule {schedule.name} has failed {format_count(schedule.failures, 'time')}."


def describe_memory(memory: tuple[int, int]) -> str:
    """Return how much of its memory Redis uses."""
    used, limit = memory
    return f"Redis uses {used / limit:.0%} of its memory; when it is full, sends are refused."


def _webhook_stopped(facts: ObservedQueue) -> str:
    targets = facts.stopped_targets[:_MAX_SENTENCES]
    texts = " ".join(describe_target(each, facts.now_ms) for each in targets)
    return f"A webhook of queue {facts.name} is stopped: {texts}"


def _late_schedule(facts: ObservedQueue) -> str:
    found = facts.late_schedules[:_MAX_SENTENCES]
    texts = " ".join(describe_late_schedule(*each) for each in found)
    return f"{texts} It sends to queue {facts.name}." if len(found) == 1 else texts


_OF_QUEUE: Mapping[Cause, Callable[[ObservedQueue], str]] = {
    Cause.PAUSED: _paused, Cause.NO_WORKER: _no_worker, Cause.WORKERS_BUSY: _workers_busy,
    Cause.RETRYING: _handlers_fail, Cause.LIMITED: _limited,
    Cause.STALLED: _stalled, Cause.FILLED_FASTER: _filled_faster, Cause.DRAINING: _draining,
    Cause.WAITING: _visible, Cause.ALL_HIDDEN: _all_hidden, Cause.DEAD_WORKER: _dead_worker,
    Cause.EMPTY: _empty, Cause.RECEIVED_AGAIN: _message_received_again,
    Cause.CRASH_LOOP: _crash_loop, Cause.WEBHOOK_STOPPED: _webhook_stopped,
    Cause.FLOODED: describe_flood,
    Cause.LATE_SCHEDULE: _late_schedule, Cause.BLOCKED_WORKER: _blocked_worker,
    Cause.MEMORY: lambda facts: describe_memory(facts.memory or (0, 1)),
}  # fmt: skip
