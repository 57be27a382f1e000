"""
The rules about workers that die, and about messages that are received and not deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from rsmq.explain.sentences import remedy_of_lost_receives
from rsmq.printable import format_count
from rsmq.web.activity.operations import QueueBacklog
from rsmq.web.alerts.alert import Alert, AlertKind, format_span, list_names
from rsmq.web.alerts.facts import AlertFacts, dead_letter_queues

#: Deaths of workers within so many seconds are a crash loop: two of one name, or three.
_LOOP_SECONDS, _OF_ONE_NAME, _OF_ALL = 600, 2, 3
#: It goes on until no worker has died for so many seconds.
_QUIET_SECONDS = 120


def find_crash_loops(facts: AlertFacts) -> Iterator[Alert]:
    """Find workers that die again and again, also while all of them are alive."""
    first_ms = facts.now_ms - _LOOP_SECONDS * 1000
    deaths = [
        (at_ms, worker.name)
        for worker in facts.workers
        for at_ms in (*worker.deaths, *(() if worker.alive else (worker.seen_ms,)))
        if at_ms >= first_ms
    ]
    names = Counter(name for _, name in deaths)
    if len(deaths) < _OF_ALL and max(names.values(), default=0) < _OF_ONE_NAME:
        return
    since_ms, last_ms = min(deaths)[0], max(deaths)[0]
    workers = f"Worker{'s' if len(names) > 1 else ''} {list_names(names)}"
    worst = _find_worst(facts, {
        queue for worker in facts.workers if worker.name in names for queue in worker.queues
    })  # fmt: skip
    suspects = _of_last_death(facts, worst)
    is_sure = len(suspects) == 1
    yield Alert(
        AlertKind.CRASH_LOOP,
        "bad" if facts.now_ms - last_ms < _QUIET_SECONDS * 1000 else "warn",
        min(names),
        f"{workers} died {format_count(len(deaths), 'time')} in "
        f"{format_span((last_ms - since_ms) / 1000)}.",
        f"The last death was {format_span((facts.now_ms - last_ms) / 1000)} ago. "
        + _accuse(suspects, since_ms, is_tie=len(worst) > 1),
        since_ms,
        suspects[0].name if is_sure else None,
        suspects[0].repeated.id if is_sure else None,
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
            "No message is in flight that several of these workers had: look at their logs and at "
            "the memory of their machine."
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


def find_received_again(facts: AlertFacts) -> Iterator[Alert]:
    """Find messages whose receives end without a delete."""
    of_workers = {name for each in facts.workers for name in each.queues}
    targets = dead_letter_queues(facts.states.values())
    for state in facts.states.values():
        if state.name in targets:
            continue
        repeated = state.repeated
        if state.name in of_workers:
            if repeated.id is not None:
                yield _received_again_by_workers(facts, state)
            continue
        remedy = remedy_of_lost_receives(state.vt, has_workers=False)
        if repeated.are_many:
            yield Alert(
                AlertKind.RECEIVED_AGAIN, "warn" if repeated.id is None else "bad", state.name,
                f"Messages of {state.name} are received again before they are deleted.",
                f"{repeated.repeated} of the next {repeated.received} in flight were received "
                f"before. {remedy}",
                None, state.name,
            )  # fmt: skip
        elif repeated.id is not None:
            yield _received_again(state, "bad", remedy)


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
