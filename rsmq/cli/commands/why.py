"""
The commands why and dead-letters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import argument, command, options
from rsmq.cli.app.output import format_table, format_text, format_time, to_json_value

if TYPE_CHECKING:
    from rsmq.explain import Explanation, ObservedQueue, QueueRates, TimelineEvent
    from rsmq.explain.failure_groups import FailureGroup

#: Without a history, the queue is read again after so many seconds.
_WATCHED_SECONDS = 1.0


@command("why QUEUE [ID]", "rsmq why orders", "rsmq why orders ID")
def why(call: Call, queue: str, id: str | None) -> None:
    """
    Say why a message does not move, or why a queue is not drained.

    The first line is the cause that decides, and the next lines hold too. With an ID the events of
    the message follow; ~ is before what is concluded from others and not stored. All times are in
    UTC. Without a history, which rsmq web records, it reads the queue again after a second.
    """
    from rsmq.explain import QueueRates, explain_message, explain_queue, message_timeline  # noqa: PLC0415 - takes time
    from rsmq.explain.reader import observe_message, observe_queue  # noqa: PLC0415 - as above
    from rsmq.figures import RatesReader  # noqa: PLC0415 - as above

    with call.open() as rsmq:

        def rates_of(facts: ObservedQueue) -> QueueRates | None:
            """Return how fast the queue changes, if it is not known and there are messages."""
            if facts.rates is not None or not facts.attributes.visible_messages:
                return facts.rates
            reader = RatesReader()
            reader.note(queue, facts.attributes)
            time.sleep(_WATCHED_SECONDS)
            found = reader.note(queue, rsmq.get_queue_attributes(queue))
            if found is None or not found.received:  # a second without a receive says nothing
                return None
            return QueueRates(found.sent * 60, found.received * 60, found.seconds)

        if id is None:
            of_queue = observe_queue(rsmq, queue)
            _write(call, explain_queue(replace(of_queue, rates=rates_of(of_queue))))
            return
        facts = observe_message(rsmq, queue, id)
        if facts.is_there and not facts.is_hidden:
            facts = replace(facts, queue=replace(facts.queue, rates=rates_of(facts.queue)))
        _write(call, explain_message(facts), message_timeline(facts))


def _write(call: Call, explanation: Explanation, events: list[TimelineEvent] | None = None) -> None:
    names = ("queue", "id", "cause", "sentence", "causes")
    document = to_json_value({name: getattr(explanation, name) for name in names})
    lines = [each.text for each in explanation.causes]
    if events is not None:
        document["events"] = to_json_value(events)
        rows = [
            (("~" if each.is_estimate else " ") + format_time(each.at_ms), format_text(each.text))
            for each in events
        ]
        lines += ["", *format_table((" at", "event"), rows)] if rows else []
    call.out.result(document, lines)


@command("dead-letters", "rsmq dead-letters orders-dead")
@argument("DEAD_LETTER_QUEUE", "queue")
@options(
    """
    --count, --number, -n N  The highest number of dead letters to look at.  [default: 10000]
    """,
    count={"type": click.IntRange(1, 1000000)},
)
def dead_letters(call: Call, queue: str, count: int) -> None:
    """
    Show the dead letters of a queue in groups of the same cause.

    The cause is the type of the exception, its text without numbers, ids and quoted values, and the
    functions of its traceback. The column "again" has how many of them had been redriven before.
    The key is stable: cause:KEY is a filter of the HTTP API.
    """
    from rsmq.explain.failure_groups import group_dead_letters  # noqa: PLC0415 - takes time

    with call.open() as rsmq:
        groups = rsmq.run_steps(group_dead_letters(rsmq.namespace, queue, count)).groups()
    call.out.table(groups, _COLUMNS, show=_to_json, keep=18)


def _describe(group: FailureGroup) -> str:
    cause = group.cause
    if cause.exception is None and not cause.text:
        return "no reason is recorded: received too often"
    text = f"{cause.exception}: {cause.text}" if cause.exception else cause.text
    return f"{text.removesuffix(': ')} in {cause.frames[-1]}" if cause.frames else text


_COLUMNS: dict[str, str | Callable[[FailureGroup], str]] = {
    "key": lambda each: each.cause.key,
    "count": "count",
    "again": "redriven",
    "last": "last_died_ms",
    "id": lambda each: each.ids[0],
    "cause": lambda each: format_text(_describe(each)),
}


def _to_json(group: FailureGroup) -> dict[str, Any]:
    names = ("count", "first_died_ms", "last_died_ms", "ids", "queues", "redriven")
    numbers = {name: getattr(group, name) for name in names}
    shown: dict[str, Any] = to_json_value({**to_json_value(group.cause), **numbers})
    return {**shown, "queues": dict(group.queues), "example": group.example_text}
