"""
The command keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.output import format_table, format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.codecs import BYTES
from rsmq.errors import QueueNotFound
from rsmq.search.operations import SearchPosition, search_step
from rsmq.wire.body_format import key_id_of

#: The bytes of a body that are read: what is before its payload, as far as the id of the key.
_HEAD_BYTES = 200


@command("keys [QUEUE...]", "rsmq keys", "rsmq keys 'orders*' --json")
def keys(call: Call, queues: tuple[str, ...]) -> None:
    """
    Count the messages that each key has encrypted.

    A key that is not listed is needed no more: by no message of the queues, also no dead letter,
    and by no schedule. Arguments of tasks, results, exports, and messages that rsmq undo can
    restore are not counted. The beginnings of bodies are read in steps; a message that comes
    meanwhile may be left out.
    """
    with call.open() as rsmq:
        names = expand_patterns(rsmq, queues) or tuple(rsmq.list_queues())
        total = sum(rsmq.get_queue_attributes(each).messages for each in names)
        found: Counter[tuple[str, str]] = Counter()
        with call.out.progress("reading", total or None) as advance:
            for name in names:
                for key_id in _read_queue(rsmq, name, advance):
                    found[key_id, name] += 1
        scheduled: Counter[tuple[str, str]] = Counter()
        for each in () if queues else rsmq.schedules.list():
            id_of_schedule = each.definition and key_id_of(each.definition.body)
            if each.definition and id_of_schedule:
                scheduled[id_of_schedule, each.definition.queue] += 1
    rows = [
        {"key": key_id, "queue": name, "messages": found[key_id, name],
         "schedules": scheduled[key_id, name]}
        for key_id, name in sorted(found.keys() | scheduled.keys())
    ]  # fmt: skip
    columns = ["key", "queue", "messages", "schedules"]
    cells = [[format_text(str(value)) for value in each.values()] for each in rows]
    call.out.result(rows, format_table(columns, cells) if rows else ())
    if not rows:
        call.out.note("no encrypted bodies")


def _read_queue(rsmq: RSMQ[Any], name: str, advance: Any) -> Iterator[str]:
    """Yield the id of the key of each encrypted message."""
    queue = rsmq.namespace.queue(name)
    position: SearchPosition | None = SearchPosition()
    while position is not None:
        try:
            step = rsmq.run(search_step(queue, position, codec=BYTES, cut=_HEAD_BYTES))
        except QueueNotFound:  # it was deleted meanwhile
            return
        yield from filter(None, (key_id_of(each.message.raw) for each in step.candidates))
        advance(step.scanned)
        position = step.position
