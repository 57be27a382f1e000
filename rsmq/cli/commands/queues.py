"""
The commands limit and stats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_table, format_text, format_time, to_json_value
from rsmq.cli.app.queue_names import expand_patterns, read_each
from rsmq.cli.app.send_options import send_options
from rsmq.errors.printable import format_count
from rsmq.vocabulary.queues import LIMIT


@command(
    "limit QUEUE",
    "rsmq limit api",
    "rsmq limit api --max-running 5 --rate 100/m",
    "rsmq limit api --remove",
)
@send_options(LIMIT)
@options("--remove  Remove the limits.")
def limit(
    call: Call, queue: str, *, max_running: int | None, rate: str | None, remove: bool
) -> None:
    """
    Show, set or remove a queue's limits.

    A limit that is not named is removed. Workers and all other receives of this library obey the
    limits; consumers of other libraries do not.
    """
    sets = max_running is not None or rate is not None
    if remove and sets:
        raise click.UsageError("--remove goes without --max-running and without --rate.")
    with call.open() as rsmq:
        if remove or sets:
            attributes = rsmq.set_queue_limits(queue, max_running=max_running, rate=rate)
        else:
            attributes = rsmq.get_queue_attributes(queue)
    running = attributes.max_running
    texts = [] if running is None else [f"at most {format_count(running, 'message')} in flight"]
    texts += [] if attributes.rate is None else [f"at most {attributes.rate}"]
    call.out.result(
        {"queue": queue, "max_running": running, "rate": attributes.rate},
        f"{format_text(queue)}: {', '.join(texts) or 'no limits'}",
    )


@command("stats [QUEUE...]", "rsmq stats", "rsmq stats orders orders-dead --json")
def stats(call: Call, queues: tuple[str, ...]) -> Exit | None:
    """
    Count the messages of queues by state.

    Without a QUEUE it counts those of all listed queues. It reads each queue in steps of a thousand
    messages, which takes a while if there are millions; rsmq attributes is fast for any queue. The
    exit code is 1 if a listed queue can't be read.
    """
    with call.open() as rsmq:

        def read(queue: str) -> dict[str, Any]:
            attributes, counts = rsmq.get_queue_attributes(queue), rsmq.count_messages(queue)
            return {"queue": queue, **to_json_value(counts), **to_json_value(attributes)}

        names = expand_patterns(rsmq, queues) or rsmq.list_queues()
        found, unreadable = read_each(names, read, are_named=bool(queues))
    counted = list(found.values())
    shown = _STATS if any(each["held_back"] for each in counted) else _STATS_WITHOUT_GROUPS
    rows = [[_format_stat(name, each) for name in shown] for each in counted]
    call.out.result(counted, format_table(list(shown), rows))
    return note_unreadable_queues(call, unreadable)


def note_unreadable_queues(call: Call, unreadable: Mapping[str, str]) -> Exit | None:
    """Write which queues can't be read, each with the reason; return the exit code."""
    for queue, reason in unreadable.items():
        call.out.note(f"{format_text(queue)}: left out. {reason}.")
    return Exit.NOT_ALL if unreadable else None


#: By its heading the field of a column of ``rsmq stats``.
_STATS = {
    "queue": "queue",
    "visible": "visible",
    "in flight": "in_flight",
    "retrying": "retrying",
    "delayed": "delayed",
    "held back": "held_back",
    "sent": "total_sent",
    "received": "total_received",
    "oldest sent": "oldest_sent_ms",
    "due since": "due_since_ms",
}
_STATS_WITHOUT_GROUPS = [name for name in _STATS if name != "held back"]


def _format_stat(heading: str, fields: dict[str, Any]) -> Any:
    value = fields[_STATS[heading]]
    if heading == "queue":
        return format_text(value)
    return format_time(value) if _STATS[heading].endswith("_ms") else value
