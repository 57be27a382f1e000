"""
The command keys.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from rsmq.body_stores.walk import read_keys, read_parameters
from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.output import format_table, format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.wire.body_format import key_id_of
from rsmq.wire.keys import find_owner

_COLUMNS = ("messages", "schedules", "results", "undo", "other")


@command("keys [QUEUE...]", "rsmq keys", "rsmq keys 'orders*' --json")
def keys(call: Call, queues: tuple[str, ...]) -> None:
    """
    Count the messages that each key has encrypted.

    A key that is not listed is needed no more: by no message of the queues, also no dead letter and
    no argument of a task; by no schedule, result, or message that rsmq undo can restore; and by
    nothing else, such as a flow of tasks. Exports are not counted. With queues, only their messages
    and results are. All values are read in steps; a message that comes or moves meanwhile may be
    left out.
    """
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with call.open() as rsmq:
        names = set(expand_patterns(rsmq, queues))
        with call.out.progress("reading", None) as advance:
            for key in dict.fromkeys(read_keys(rsmq)):
                kind, queue = find_owner(rsmq.namespace, key)
                if kind != "schedules" and (not names or queue in names):
                    for key_id in read_parameters(rsmq, key, b"aes256gcm"):
                        found[key_id, queue][kind] += 1
                advance(1)
        for each in () if queues else rsmq.schedules.list():
            key_id_of_schedule = each.definition and key_id_of(each.definition.body)
            if each.definition and key_id_of_schedule:
                found[key_id_of_schedule, each.definition.queue]["schedules"] += 1
    rows = [
        {"key": key_id, "queue": queue, **{kind: counts[kind] for kind in _COLUMNS}}
        for (key_id, queue), counts in sorted(found.items())
    ]
    columns = ["key", "queue", *_COLUMNS]
    cells = [[format_text(str(value)) for value in each.values()] for each in rows]
    call.out.result(rows, format_table(columns, cells) if rows else ())
    if not rows:
        call.out.note("no encrypted bodies")
