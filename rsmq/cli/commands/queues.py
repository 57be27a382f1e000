"""
The command stats.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_text, to_json_value
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
    counted = [SimpleNamespace(**each) for each in found.values()]
    has_groups = any(each.held_back for each in counted)
    shown = {name: each for name, each in _STATS.items() if has_groups or each != "held_back"}
    call.out.table(counted, shown, show=vars)
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
