"""
The commands create, list, attributes, limit, stats, pause, resume, purge and delete-queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import YES, command, options
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_cell, format_table, format_text, format_time, to_json_value
from rsmq.cli.app.queue_names import expand_patterns, read_each
from rsmq.cli.app.send_options import send_options
from rsmq.errors.printable import format_count
from rsmq.vocabulary.queues import CREATE, LIMIT, SET

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ


@command(
    "create QUEUE...", "rsmq create orders --vt 60", "rsmq create orders orders-dead --exist-ok"
)
@send_options(CREATE)
@options("--exist-ok  Succeed if the queue exists; its attributes are not changed.")
def create(call: Call, /, queues: tuple[str, ...], *, exist_ok: bool, **values: Any) -> None:
    """
    Create queues.

    A queue name has 1 to 160 characters of A-Z a-z 0-9 _ -. With --json, one queue is an object,
    and several are an array.
    """
    with call.open() as rsmq:

        def act(queue: str) -> tuple[dict[str, Any], str]:
            created = rsmq.create_queue(queue, exist_ok=exist_ok, **values)
            return {"created": created}, "created" if created else "exists"

        if len(queues) > 1:
            call.for_each(queues, act)
            return
        (queue,) = queues
        result, text = act(queue)
    call.out.result({"queue": queue, **result}, f"{format_text(queue)}: {text}")


@command("attributes QUEUE", "rsmq attributes orders", "rsmq attributes orders --vt 120")
@send_options(SET)
def attributes(call: Call, /, queue: str, **values: Any) -> None:
    """
    Show the attributes of a queue, or set them.

    With at least one option it sets them, and then shows all attributes.
    The new values do not change when hidden messages become visible.
    """
    with call.open() as rsmq:
        if all(each is None for each in values.values()):
            attributes = rsmq.get_queue_attributes(queue)
        else:
            attributes = rsmq.set_queue_attributes(queue, **values)
    fields = {"queue": queue, **to_json_value(attributes)}
    call.out.result(fields, format_fields(fields))


def format_fields(fields: dict[str, Any]) -> list[str]:
    """Return names and values as lines."""
    texts = {
        name.removesuffix("_ms"): format_time(value) if name.endswith("_ms") else format_cell(value)
        for name, value in fields.items()
    }
    width = max(map(len, texts))
    return [f"{name:{width}}  {text}" for name, text in texts.items()]


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


_UNDO = options("--undo  Keep what is deleted for ten minutes: rsmq undo restores it.")


@command("purge QUEUE...", "rsmq purge orders", "rsmq purge orders --yes --undo")
@YES
@_UNDO
def purge(call: Call, queues: tuple[str, ...], *, yes: bool, undo: bool) -> None:
    """
    Remove all messages of queues.

    Messages that are in flight are removed too. The queues, their attributes and their totals
    stay. It asks first. With --undo nothing is removed if that could not be undone.
    """
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        call.confirm(f"Remove {_contents(rsmq, queues)}?", yes=yes)

        def act(queue: str) -> tuple[dict[str, Any], str]:
            if undo:
                kept = rsmq.trash.purge_queue(queue)
                text = f"{kept.messages:,} removed; rsmq undo {kept.id} restores them"
                return {"removed": kept.messages, "undo": kept.id}, text
            number = rsmq.purge_queue(queue)
            return {"removed": number}, f"{number:,} removed"

        call.for_each(queues, act)


@command("delete-queue QUEUE...", "rsmq delete-queue orders", "rsmq delete-queue old older --yes")
@YES
@_UNDO
def delete_queue(call: Call, queues: tuple[str, ...], *, yes: bool, undo: bool) -> None:
    """
    Delete queues with all their messages.

    Messages that are in flight are deleted too. It asks first, once for all queues. With --undo
    nothing is deleted if that could not be undone.
    """
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        call.confirm(f"Delete {_contents(rsmq, queues)}, and the queues?", yes=yes)

        def act(queue: str) -> tuple[dict[str, Any], str]:
            if undo:
                kept = rsmq.trash.delete_queue(queue)
                return {
                    "deleted": True,
                    "undo": kept.id,
                }, f"deleted; rsmq undo {kept.id} restores it"
            rsmq.delete_queue(queue)
            return {"deleted": True}, "deleted"

        call.for_each(queues, act)


def _contents(rsmq: RSMQ[Any], queues: tuple[str, ...]) -> str:
    """Return the numbers of messages of queues as text. Raise if a queue does not exist."""
    return ", ".join(
        f"{format_count(rsmq.get_queue_attributes(queue).messages)} of {format_text(queue)}"
        for queue in queues
    )
