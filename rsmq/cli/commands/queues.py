"""
The command stats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_table, format_text, format_time, to_json_value
from rsmq.cli.app.queue_names import expand_patterns, read_each


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
