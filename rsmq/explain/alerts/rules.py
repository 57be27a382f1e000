"""
The rules: facts in, alerts out, without I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rsmq.errors.printable import format_count
from rsmq.explain.alerts.alert import CAUSES, Alert, AlertKind, format_span, list_names
from rsmq.explain.alerts.crashes import find_crash_loops, find_dead_workers, received_again
from rsmq.explain.alerts.facts import AlertFacts, dead_letter_queues
from rsmq.explain.alerts.failures import find_failing_tasks, find_failing_workers
from rsmq.explain.alerts.restarts import find_not_restarted
from rsmq.explain.causes import Cause, causes_of_message, causes_of_queue
from rsmq.explain.observed import (
    FULL_SHARE,
    IDLE_MINUTES,
    MISSING_QUEUE,
    ObservedQueue,
    find_late_schedules,
    find_stalled_workers,
    find_stopped_targets,
    is_nearly_full,
)
from rsmq.explain.sentences import (
    describe_flood,
    describe_late_schedule,
    describe_memory,
    describe_message_cause,
    describe_stalled,
    describe_target,
    format_moment,
    remedy_of_flood,
    remedy_of_stalled,
)
from rsmq.figures.facts import QueueActivity, QueueBacklog
from rsmq.schedules.definition import StoredSchedule
from rsmq.trash.deletion import UNKNOWN_CALLER, DeletionKind

#: A message that waits for so long is looked at.
WAIT_SECONDS = 60
#: A queue grows if, in so many minutes, more was sent than received: by this factor and number.
_GROWTH_MINUTES, _FASTER, _MIN_GROWTH = 15, 1.05, 100
#: A burst does not count as growth: more was sent in so many of the last recorded minutes.
_GROWING_MINUTES, _OF_MINUTES = 3, 5
#: A history is not recorded after so many minutes.
_UNRECORDED_MINUTES = 5
_NOTHING_RECEIVED = f"nothing was received in the last {IDLE_MINUTES} minutes"
#: A purge of more messages is shown.
_MIN_PURGED = 100


def find_alerts(facts: AlertFacts) -> list[Alert]:
    """
    Return what is wrong, the worst first.

    Alerts of a kind are sorted by what does not change while they last, because a person clicks on
    them: the level, since when, the subject.
    """
    found = [alert for rule in _RULES for alert in rule(facts)]
    found += _find_queue_alerts(facts)
    # The suspect of a crash loop is named once.
    suspects = {(each.queue, each.message) for each in found if each.kind is AlertKind.CRASH_LOOP}
    found = [
        each
        for each in found
        if each.kind is not AlertKind.RECEIVED_AGAIN
        or each.message is None
        or (each.queue, each.message) not in suspects
    ]
    order = list(AlertKind)
    found.sort(
        key=lambda each: (
            order.index(each.kind), each.level, each.since_ms or facts.now_ms, each.subject,
        )
    )  # fmt: skip
    return found


def _find_queue_alerts(facts: AlertFacts) -> Iterator[Alert]:
    """Find what is wrong with the messages of queues: causes of ``why``, beyond a threshold."""
    targets = dead_letter_queues(facts.states.values())
    for state in facts.states.values():
        repeats = state.repeated.id is not None or state.repeated.are_many
        if not (state.paused_ms or repeats or may_need_activity(state, facts.now_ms)):
            continue
        queue = facts.observe(state)
        causes = set(causes_of_queue(queue))
        if causes & CAUSES[AlertKind.PAUSED] and state.messages:
            yield _paused(state)
        if state.name in targets:  # dead letters need no consumer
            continue
        if causes & CAUSES[AlertKind.RECEIVED_AGAIN]:
            yield received_again(facts, state, queue)
        if causes & CAUSES[AlertKind.FLOODED]:
            yield _flooded(state, queue)
        if causes & CAUSES[AlertKind.NOT_RECEIVED]:
            yield from _not_received(state, queue)
        elif _has_lost_its_workers(facts, state, queue):
            yield _left_alone(state, queue)
        elif causes & CAUSES[AlertKind.GROWING] and state.name in facts.activities:
            yield from _growing(state, facts.activities[state.name], facts.now_ms)


def may_need_activity(state: QueueBacklog, now_ms: int) -> bool:
    """Return whether it must be known what happens in a queue."""
    waits = state.visible_since_ms is not None and now_ms - state.visible_since_ms >= (
        WAIT_SECONDS * 1000
    )
    return state.paused_ms is None and (waits or state.visible >= _MIN_GROWTH)


def _find_blocked_workers(facts: AlertFacts) -> Iterator[Alert]:
    for worker, stalled in find_stalled_workers(facts.workers):
        others = sorted(name for name in worker.queues if name != stalled.queue)
        yield Alert(
            AlertKind.BLOCKED_WORKER, "bad", worker.name,
            describe_stalled(worker.name, stalled, facts.now_ms),
            f"Messages of {list_names(others)} may wait for it too. " * bool(others)
            + (
                remedy_of_stalled(None)
                if worker.ends_by_ms is None
                else f"It stops by {format_moment(worker.ends_by_ms, facts.now_ms)}: its calls "
                "have its grace period to end."
            ),
            stalled.since_ms, stalled.queue or None,
        )  # fmt: skip


def _find_full_memory(facts: AlertFacts) -> Iterator[Alert]:
    if facts.memory is None or not is_nearly_full(facts.memory):
        return
    used, limit = facts.memory
    largest = max(facts.bodies, key=lambda name: facts.bodies[name], default=None)
    bodies = "" if largest is None else _describe_largest(facts, facts.states[largest])
    yield Alert(
        AlertKind.MEMORY, "bad" if used / limit >= (1 + FULL_SHARE) / 2 else "warn", "",
        describe_memory(facts.memory),
        f"used_memory is {used / 1e6:,.1f} MB, maxmemory {limit / 1e6:,.1f} MB.{bodies} Raise "
        "maxmemory to win time.", None, largest,
    )  # fmt: skip


def _describe_largest(facts: AlertFacts, state: QueueBacklog) -> str:
    """Return what the queue whose bodies need the most memory has, and what to do about it."""
    queue, number = facts.observe(state), format_count(state.messages, "message")
    text = (
        f" The bodies of {state.name} need the most: about {facts.bodies[state.name] / 1e6:,.1f} "
        f"MB in {number}."
    )
    if queue.live_workers:
        return f"{text} Its page can export and purge them."
    since = f", and {_NOTHING_RECEIVED}" if queue.received_lately == 0 else ""
    return (
        f"{text} No live worker of this library listens to it{since}: start one, or export and "
        "purge them on its page."
    )


#: The causes for which a node of a flow waits until an operator acts.
_STUCK = {
    Cause.PAUSED, Cause.NO_WORKER, Cause.STALLED, Cause.HELD_BY_DEAD_WORKER, Cause.BLOCKED_WORKER,
    Cause.NO_BODY, Cause.NO_ID,
}  # fmt: skip


def _find_stuck_flows(facts: AlertFacts) -> Iterator[Alert]:
    for flow in facts.flows:
        message, causes = flow.message, causes_of_message(flow.message)
        cause = causes[0]
        waits_ms = (message.visible_at_ms or 0) - facts.now_ms
        if cause is Cause.RETRYING and waits_ms >= WAIT_SECONDS * 1000:
            # The error may quote a body, which a caller who sees figures may not see.
            text = (
                f"It failed {format_count(message.attempts, 'time')}, and waits for a retry for "
                f"another {format_span(waits_ms / 1000)}. The page of the flow says why, and can "
                "run it now."
            )
        elif cause in _STUCK and Cause.DELAYED not in causes:
            text = describe_message_cause(cause, message)
        else:
            continue
        yield Alert(
            AlertKind.FLOW_STUCK, "warn", flow.id,
            f"Flow {flow.id} is stuck at node {flow.number}, {flow.task}.", text,
            flow.sent_ms, message.queue.name,
        )  # fmt: skip


def _not_received(state: QueueBacklog, queue: ObservedQueue) -> Iterator[Alert]:
    since = state.visible_since_ms
    if since is None or state.paused_ms is not None:
        return
    waits = (queue.now_ms - since) / 1000
    due_seconds = (queue.now_ms - max(since, state.resumed_ms or 0)) / 1000
    has_workers = bool(queue.live_workers)
    is_sure = queue.received_lately == 0 and not has_workers
    if due_seconds < (WAIT_SECONDS if is_sure else IDLE_MINUTES * 60):
        return
    yield Alert(
        AlertKind.NOT_RECEIVED, "bad", state.name,
        f"{state.name} has live workers, and they receive nothing."
        if has_workers
        else f"No consumer receives from {state.name}.",
        f"{format_count(state.visible, 'message')} visible, the first one for "
        f"{format_span(waits)}. "
        f"{'' if has_workers else 'No live worker of this library listens. '}"
        + (
            "It is not recorded whether other consumers receive."
            if queue.received_lately is None
            else f"{_NOTHING_RECEIVED.capitalize()}."
        ),
        int(since), state.name,
    )  # fmt: skip


def _has_lost_its_workers(facts: AlertFacts, state: QueueBacklog, queue: ObservedQueue) -> bool:
    """
    Return whether messages wait, and the workers that ran others within the hour are gone.

    A worker that is stopped leaves the registry at once, and what it received counts for minutes.
    A queue without calls may have slow consumers of other kinds.
    """
    activity, since = facts.activities.get(state.name), state.visible_since_ms
    if activity is None or since is None or state.paused_ms is not None or queue.live_workers:
        return False
    if activity.received_since != 0 or _sum_of(activity.hour.received[-1:]):
        return False
    waits_ms = facts.now_ms - max(since, state.resumed_ms or 0)
    has_calls = any(each.queue == state.name for each in facts.tasks)
    return has_calls and waits_ms >= WAIT_SECONDS * 1000


def _left_alone(state: QueueBacklog, queue: ObservedQueue) -> Alert:
    since = state.visible_since_ms or 0
    return Alert(
        AlertKind.NOT_RECEIVED, "bad", state.name,
        f"No live worker listens to {state.name} any more.",
        f"{format_count(state.visible, 'message')} visible, the first one for "
        f"{format_span((queue.now_ms - since) / 1000)}. Its workers ran others within the last "
        "hour. One that was stopped is back when its supervisor starts it; else start it.",
        int(since), state.name,
    )  # fmt: skip


def _flooded(state: QueueBacklog, queue: ObservedQueue) -> Alert:
    return Alert(
        AlertKind.FLOODED, "warn", state.name, describe_flood(queue),
        remedy_of_flood(queue), None, state.name,
    )  # fmt: skip


def _growing(state: QueueBacklog, activity: QueueActivity, now_ms: int) -> Iterator[Alert]:
    minutes = _growth_minutes(state, now_ms)
    if activity.sent_since is None or activity.received_since is None:
        return
    if minutes < _GROWING_MINUTES:
        return
    recorded = [each for each in activity.hour.visible[-minutes:] if each is not None]
    sent = activity.sent_since + _sum_of(activity.hour.sent[-minutes:])
    received = activity.received_since + _sum_of(activity.hour.received[-minutes:])
    grows = sent > received * _FASTER and sent - received >= _MIN_GROWTH
    if not recorded or not grows or state.visible < recorded[0] + _MIN_GROWTH:
        return
    if _count_growing_minutes(activity, minutes) < _GROWING_MINUTES:
        return
    yield Alert(
        AlertKind.GROWING, "warn", state.name,
        f"{state.name} grows: more is sent than received.",
        f"In the last {minutes} minutes {format_count(sent, 'message')} sent and "
        f"{received:,} received; {state.visible:,} are visible.",
        None, state.name,
    )  # fmt: skip


def _growth_minutes(state: QueueBacklog, now_ms: int) -> int:
    """Return the minutes in which a queue may grow: those since it was resumed."""
    if state.resumed_ms is None:
        return _GROWTH_MINUTES
    return min(now_ms // 60_000 - int(state.resumed_ms) // 60_000 - 1, _GROWTH_MINUTES)


def _count_growing_minutes(activity: QueueActivity, most: int) -> int:
    """Return in how many of the last minutes more was sent than received."""
    minutes = zip(activity.hour.sent, activity.hour.received, strict=True)
    recent = [*minutes][-min(most, _OF_MINUTES) :]
    return sum((sent or 0) > (received or 0) for sent, received in recent)


def _sum_of(column: list[int | None]) -> int:
    return sum(each or 0 for each in column)


def _find_new_dead_letters(facts: AlertFacts) -> Iterator[Alert]:
    for name, sources in dead_letter_queues(facts.states.values()).items():
        state = facts.states.get(name)
        if state is None or not state.fresh:
            continue
        since = state.fresh_since_ms
        yield Alert(
            AlertKind.NEW_DEAD_LETTERS, "warn", name,
            f"{format_count(state.fresh, 'new dead letter')} in {name} within the last hour.",
            f"{format_count(state.messages, 'dead letter')} in all. "
            + (
                f"It is the dead-letter queue of {list_names(sources)}."
                if sources
                else "Workers have moved them there; no policy names this queue."
            ),
            None if since is None else int(since), name, sources=tuple(sorted(sources)),
        )  # fmt: skip


def _paused(state: QueueBacklog) -> Alert:
    return Alert(
        AlertKind.PAUSED, "warn", state.name,
        f"{state.name} is paused, with {format_count(state.messages, 'message')}.",
        "Workers of this library receive nothing from it; other clients do not know of it.",
        int(state.paused_ms or 0), state.name,
    )  # fmt: skip


def _find_stopped_webhooks(facts: AlertFacts) -> Iterator[Alert]:
    for target in find_stopped_targets(facts.targets):
        yield Alert(
            AlertKind.WEBHOOK_STOPPED, "bad", target.queue,
            f"Nothing is pushed to the webhook of {target.queue}."
            if target.refusal is not None
            else f"The webhook of {target.queue} is stopped.",
            describe_target(target, facts.now_ms), None, target.queue,
        )  # fmt: skip


def _find_late_schedules(facts: AlertFacts) -> Iterator[Alert]:
    for schedule, late in find_late_schedules(facts.schedules, facts.now_ms):
        since = schedule.next_attempt_at if late else schedule.failed_at
        yield Alert(
            AlertKind.LATE_SCHEDULE, "bad" if late else "warn", schedule.name,
            describe_late_schedule(schedule, late),
            "A worker, rsmq scheduler or rsmq web --push runs them."
            if late
            else _describe_failure(schedule, facts),
            None if since is None else int(since.timestamp() * 1000),
            schedule.definition.queue if schedule.definition else None,
        )  # fmt: skip


def _describe_failure(schedule: StoredSchedule, facts: AlertFacts) -> str:
    """Return why a schedule fails, and who has deleted its queue, if that can be undone."""
    queue = schedule.definition.queue if schedule.definition else None
    failure = (schedule.failure or "The cause is not known").rstrip(".")
    if queue in facts.states and failure.startswith(MISSING_QUEUE):
        return f"Queue {queue} did not exist, and exists now. It is tried again."
    for each in facts.deletions:
        if each.queue == queue and each.is_open(facts.now_ms, DeletionKind.DELETE_QUEUE):
            at = format_moment(each.deleted_ms, facts.now_ms)
            by = "A caller" if each.by in {"", UNKNOWN_CALLER} else each.by
            return (
                f"{by} deleted {queue} at {at}, which the page of the schedule can undo. Its "
                f"failure: {failure.partition('. ')[0]}. It is tried again."
            )
    return f"{failure}. It is tried again."


def _find_missing_records(facts: AlertFacts) -> Iterator[Alert]:
    if facts.recorded_minute == 0 or not facts.states:
        return
    now = facts.now_ms // 60_000
    last = facts.recorded_minute
    if last is None or now - last >= _UNRECORDED_MINUTES:
        yield Alert(
            AlertKind.NOT_RECORDED, "warn", "",
            "The history is not recorded, so charts have a gap and rates are not known.",
            "rsmq web records it, unless it runs with --no-record or --read-only.",
            None if last is None else last * 60_000, None,
        )  # fmt: skip


def _find_unsent(facts: AlertFacts) -> Iterator[Alert]:
    for name, status in facts.record.reported_targets() if facts.sees_all else ():
        lost = f"{format_count(status.lost, 'message')} given up"
        failed = f"{format_count(status.failures, 'attempt')} in a row failed"
        yield Alert(
            AlertKind.ALERTS_NOT_SENT, "warn", name,
            f"Alerts do not reach the target {name}."
            if status.failures
            else f"An alert did not reach the target {name}.",
            f"{failed}, {lost}. The last answer: {status.answer}.",
            status.failing_ms or status.lost_ms, None,
        )  # fmt: skip


def _find_purges(facts: AlertFacts) -> Iterator[Alert]:
    for each in facts.deletions:
        is_large = each.messages > _MIN_PURGED
        if is_large and each.is_open_purge(each.queue, facts.now_ms) and each.queue in facts.states:
            yield Alert(
                AlertKind.PURGED, "note", each.queue,
                f"{format_count(each.messages, 'message')} of {each.queue} were purged.",
                "It can be undone for another "
                f"{format_span((each.until_ms - facts.now_ms) / 1000)}.",
                each.deleted_ms, each.queue,
            )  # fmt: skip


_RULES: tuple[Callable[[AlertFacts], Iterator[Alert]], ...] = (
    find_crash_loops,
    find_dead_workers,
    _find_blocked_workers,
    _find_full_memory,
    _find_stopped_webhooks,
    find_failing_tasks,
    find_failing_workers,
    _find_stuck_flows,
    _find_new_dead_letters,
    _find_late_schedules,
    _find_missing_records,
    _find_unsent,
    find_not_restarted,
    _find_purges,
)
