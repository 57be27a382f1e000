"""
The rules about workers that die, and about messages that are received and not deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from rsmq.errors.printable import format_count
from rsmq.explain.alerts.alert import CAUSES, Alert, AlertKind, format_span, list_names
from rsmq.explain.alerts.facts import AlertFacts, RemovedMessage
from rsmq.explain.causes import causes_of_queue
from rsmq.explain.observed import ObservedQueue, find_repeated_deaths
from rsmq.explain.sentences import format_moment, remedy_of_queue
from rsmq.figures.facts import QueueBacklog

#: It lasts until no worker has died for so many seconds, or while its suspect is in flight.
_QUIET_SECONDS = 120
#: From so many lost receives on, a message that was removed may have killed its workers.
_SUSPICIOUS = 2


def find_crash_loops(facts: AlertFacts) -> Iterator[Alert]:
    """Find workers that die again and again, also while all of them are alive."""
    deaths = find_repeated_deaths(facts.workers, facts.now_ms)
    if not deaths:
        return
    names = {name for _, name in deaths}
    since_ms, last_ms = min(deaths)[0], max(deaths)[0]
    workers = f"Worker{'s' if len(names) > 1 else ''} {list_names(names)}"
    queues = {queue for worker in facts.workers if worker.name in names for queue in worker.queues}
    worst = _find_worst(facts, queues)
    suspects = _of_last_death(facts, worst)
    removed = _find_removed(facts, queues, last_ms, worst)
    is_over = removed is not None and removed.at_ms > last_ms
    is_sure = len(suspects) == 1 and _has_cause(facts, suspects[0])
    if removed is not None:
        place, message = removed.destination, removed.id if removed.destination else None
        cause = _describe_removal(removed, facts.now_ms, has_died_since=not is_over)
    else:
        place = suspects[0].name if is_sure else None
        message = suspects[0].repeated.id if is_sure else None
        cause = _accuse(suspects, since_ms, is_tie=len(worst) > 1)
    is_recent = facts.now_ms - last_ms < _QUIET_SECONDS * 1000
    # A suspect that is still in flight crashes the next worker, however long its lease is.
    goes_on = is_recent or (removed is None and bool(suspects))
    yield Alert(
        AlertKind.CRASH_LOOP, "bad" if goes_on and not is_over else "warn", min(names),
        f"{workers} died {format_count(len(deaths), 'time')} in "
        f"{format_span((last_ms - since_ms) / 1000)}.",
        f"The last death was {format_span((facts.now_ms - last_ms) / 1000)} ago. {cause}",
        since_ms, place, message,
    )  # fmt: skip


def _has_cause(facts: AlertFacts, state: QueueBacklog) -> bool:
    """Return whether ``why`` names the crash loop for a queue: its own workers die again."""
    causes = causes_of_queue(facts.observe(state))
    return not CAUSES[AlertKind.CRASH_LOOP].isdisjoint(causes)


def _find_removed(
    facts: AlertFacts, queues: set[str], last_death_ms: int, worst: list[QueueBacklog]
) -> RemovedMessage | None:
    """
    Return the message that was the suspect until a user moved or deleted it.

    While another one is in flight that several workers had, it is the suspect only if it had as
    many lost receives, and no worker has died since.
    """
    found = [
        each
        for each in facts.removed
        if each.queue in queues and (each.destination is None or each.lost >= _SUSPICIOUS)
    ]
    first = max(found, key=lambda each: each.lost, default=None)  # of as many, the newest
    if first is None or not worst:
        return first
    is_worse = first.lost >= worst[0].repeated.lost
    return first if is_worse and first.at_ms > last_death_ms else None


def _describe_removal(removed: RemovedMessage, now_ms: int, *, has_died_since: bool) -> str:
    name = f"{removed.id} of {removed.queue}"
    who = f"at {format_moment(removed.at_ms, now_ms)} {removed.by or 'a caller'}"
    since = (
        "A worker has died since: look at the logs of the workers too."
        if has_died_since
        else "No worker has died since."
    )
    if removed.destination is None:
        return f"The suspect may have been message {name}: {who} deleted it. {since}"
    lost = format_count(removed.lost, "receive")
    return (
        f"The suspect was message {name}, of which {lost} ended without a delete: {who} moved it "
        f"to {removed.destination}. {since}"
    )


def _find_worst(facts: AlertFacts, queues: set[str]) -> list[QueueBacklog]:
    """Return the queues of the messages that were received most often without being deleted."""
    found = [facts.states[name] for name in sorted(queues & facts.states.keys())]
    most = max((each.repeated.lost for each in found), default=0)
    return [each for each in found if most and each.repeated.lost == most]


def _of_last_death(facts: AlertFacts, worst: list[QueueBacklog]) -> list[QueueBacklog]:
    """Return those whose message the last worker that died still has, unless it has none or all."""
    dead = [each for each in facts.workers if not each.alive and each.name in facts.held]
    last = max(dead, key=lambda each: each.seen_ms, default=None)
    if last is None:
        return worst
    ids = facts.held[last.name].ids
    return [each for each in worst if (each.name, each.repeated.id) in ids] or worst


def _accuse(suspects: list[QueueBacklog], first_death_ms: int, *, is_tie: bool) -> str:
    if not suspects:
        return (
            "No message is in flight now that several of these workers had. One that was moved or "
            "deleted since may be the cause; else look at their logs and at the memory of their "
            "machine."
        )
    lost = format_count(suspects[0].repeated.lost, "receive")
    names = " and ".join(_describe(each, first_death_ms) for each in suspects)
    if len(suspects) == 1:
        why = (
            "and the last worker that died had it in flight" if is_tie else "more than of any other"
        )
        return (
            f"The suspect is message {names}: {lost} of it ended without a delete, {why}. If its "
            "handler crashes the worker, delete it or move it."
        )
    return (
        f"One of the messages {names} may crash them: {lost} of each ended without a delete. The "
        "next death shows which."
    )


def _describe(suspect: QueueBacklog, first_death_ms: int) -> str:
    """Return a message with its queue, and when it was received first: a crash follows soon."""
    name = f"{suspect.repeated.id} of {suspect.name}"
    first_ms = suspect.repeated.first_received_ms
    if first_ms is None:
        return name
    seconds = (first_death_ms - first_ms) / 1000
    side = "before" if seconds >= 0 else "after"
    return f"{name} (first received {format_span(abs(seconds))} {side} the first death)"


def find_dead_workers(facts: AlertFacts) -> Iterator[Alert]:
    """Find workers that died with messages in flight which are still hidden."""
    for worker in facts.workers:
        held = facts.held.get(worker.name)
        if worker.alive or held is None:
            continue
        number, queues = sum(held.by_queue.values()), sorted(held.by_queue)
        yield Alert(
            AlertKind.DEAD_WORKER, "bad", worker.name,
            f"Worker {worker.name} died with {format_count(number, 'message')} in flight.",
            f"{', '.join(f'{name}: {held.by_queue[name]:,}' for name in queues)}. "
            f"{'It is' if number == 1 else 'They are'} visible again within "
            f"{format_span((held.last_visible_ms - facts.now_ms) / 1000)}. The worker ran on "
            f"{worker.host or 'an unknown host'}, process {worker.pid}.",
            worker.seen_ms, queues[0] if len(queues) == 1 else None,
        )  # fmt: skip


def received_again(facts: AlertFacts, state: QueueBacklog, queue: ObservedQueue) -> Alert:
    """Return the alert of messages whose receives end without a delete."""
    repeated = state.repeated
    if queue.workers:
        return _received_again_by_workers(facts, state)
    remedy = remedy_of_queue(queue)
    level: Literal["bad", "warn"] = "bad" if queue.settles_ms is None else "warn"
    if not repeated.are_many:
        return _received_again(state, level, remedy)
    target = facts.states.get(state.dead_letter_queue or "")
    # Two receives may be a release. They are not, if messages die of them.
    is_sure = repeated.id is not None or (target is not None and target.fresh > 0)
    return Alert(
        AlertKind.RECEIVED_AGAIN, level if is_sure else "warn", state.name,
        f"Messages of {state.name} are received again before they are deleted.",
        f"{repeated.repeated} of the next {repeated.received} in flight were received before. "
        f"{remedy}",
        None, state.name,
    )  # fmt: skip


def _received_again(state: QueueBacklog, level: Literal["bad", "warn"], remedy: str) -> Alert:
    repeated = state.repeated
    return Alert(
        AlertKind.RECEIVED_AGAIN, level, state.name,
        f"Message {repeated.id} of {state.name} was received "
        f"{format_count(repeated.count, 'time')} and not deleted.",
        f"{format_count(repeated.lost, 'receive')} ended without a delete or a recorded retry. "
        f"{remedy}",
        None, state.name, repeated.id,
    )  # fmt: skip


def _received_again_by_workers(facts: AlertFacts, state: QueueBacklog) -> Alert:
    """Return the alert of a message: of those that the same workers had, one is the suspect."""
    shared = {queue for each in facts.workers if state.name in each.queues for queue in each.queues}
    worst = _of_last_death(facts, _find_worst(facts, shared))
    if state not in worst:
        other = worst[0]
        return _received_again(
            state, "warn",
            f"The same workers had message {other.repeated.id} of {other.name}, of which "
            f"{format_count(other.repeated.lost, 'receive')} ended so. This one may only have been "
            "in flight beside it: look at the other one first.",
        )  # fmt: skip
    others = " and ".join(each.name for each in worst if each is not state)
    return _received_again(
        state, "bad",
        f"As many of a message of {others} did, which the same workers had: one of them may crash "
        "its worker, and the other only be in flight beside it."
        if others
        else "If its handler crashes the worker, delete it or move it to a dead-letter queue.",
    )  # fmt: skip
