"""
The command group rfq: the commands of rfq 1.4.0, with its options, on RSMQ queues.

A message is a JSON object. ``rsmq.compat.rfq_topics`` does the work.

These differences from rfq are intended:

- harvest puts messages back in their old places (rfq: after all other messages);
- list-queue begins with the message that is received next (rfq: ends with it);
- consume writes JSON (rfq: Python);
- purge-queue asks first.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rsmq import __version__
from rsmq.cli.app.call import Call
from rsmq.cli.app.command import YES, Group, complete_queues, options
from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.output import format_body, format_text
from rsmq.cli.app.queue_names import read_each
from rsmq.cli.commands.queues import note_unreadable_queues
from rsmq.compat import rfq_topics as topics
from rsmq.errors import QueueNotFound
from rsmq.errors.printable import format_count

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ

_HELP = """
Run the commands of rfq on RSMQ queues.

A topic is a queue. Its backlog contains the visible messages, its nextlog those in flight, and
those that wait for a retry. The options are those of rfq. Unlike in rfq, harvest keeps the order,
list-queue begins with the message that is received next, consume writes JSON, and purge-queue asks
first.

If neither --url nor RSMQ_URL nor a profile sets the URL of Redis, RFQ_REDIS_HOST and
RFQ_REDIS_PORT do.
"""


class _Rfq(Group):
    """The command group, which also reads the environment variables of rfq for the URL of Redis."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        host, port = (os.environ.get(f"RFQ_REDIS_{name}") for name in ("HOST", "PORT"))
        if host or port:
            url = f"redis://{host or '127.0.0.1'}:{port or 6379}/0"
            ctx.ensure_object(Call).default_url = url
        return super().parse_args(ctx, args)


rfq = _Rfq(
    "rfq",
    help=_HELP,
    examples=["rsmq rfq publish -t ndvi -m '{\"tile\": 7}'", "rsmq rfq consume -t ndvi"],
)


_TOPIC = options(
    "--topic, -t TOPIC  [required]", topic={"shell_complete": complete_queues, "help": None}
)
_LIST = options(
    "--queue, -q, list_name  [default: backlog]",
    list_name={"type": click.Choice(tuple(topics.LISTS)), "help": None},
)


@rfq.subcommand("version", "rsmq rfq version")
def version(call: Call) -> None:
    """Show the versions of this program and of Redis."""
    with call.open() as rsmq:
        found = topics.read_redis_version(rsmq)
    call.out.result(
        {"rsmq": __version__, "redis": found}, [f"rsmq {__version__}", f"redis {found}"]
    )


@rfq.subcommand("info", "rsmq rfq info")
def info(call: Call) -> Exit | None:
    """Show the number of messages in the backlog and the nextlog of each topic."""
    with call.open() as rsmq:
        counted, unreadable = read_each(rsmq.list_queues(), partial(_count, rsmq))
    found = [each for each in counted.values() if each is not None]
    call.out.result(found, (line for each in found for line in _info_lines(each)))
    return note_unreadable_queues(call, unreadable)


def _count(rsmq: RSMQ[Any], topic: str) -> dict[str, Any] | None:
    """Return the numbers of a topic; None if it was deleted meanwhile."""
    try:
        counts = rsmq.count_messages(topic)
    except QueueNotFound:
        return None
    nextlog = topics.count_nextlog(counts)
    return {"topic": topic, "backlog": counts.visible, "nextlog": nextlog}


def _info_lines(topic: dict[str, Any]) -> Iterator[str]:
    yield f"topic\t\t{format_text(topic['topic'])}"
    for name in topics.LISTS:
        yield f"{name}\t\t{topic[name]}\t\t{'#' * int(10 * math.log(topic[name] + 1))}"
    yield ""


@rfq.subcommand("list-topics", "rsmq rfq list-topics")
def list_topics(call: Call) -> None:
    """List the topics: all queues, also those without messages."""
    with call.open() as rsmq:
        names = rsmq.list_queues()
    call.out.result(names, map(format_text, names))


@rfq.subcommand(
    "list-queue", "rsmq rfq list-queue -t ndvi", "rsmq rfq list-queue -t ndvi -q nextlog"
)
@_TOPIC
@_LIST
def list_queue(call: Call, topic: str, list_name: str) -> None:
    """List the ids of messages, beginning with the message that is received next."""
    with call.open() as rsmq, call.out.list_writer() as write_texts:
        for ids in topics.list_ids(rsmq, topic, list_name):
            write_texts(ids)


@rfq.subcommand(
    "purge-queue", "rsmq rfq purge-queue -t ndvi", "rsmq rfq purge-queue -t ndvi -q nextlog -y"
)
@_TOPIC
@_LIST
@YES
def purge_queue(call: Call, topic: str, list_name: str, *, yes: bool) -> None:
    """Remove the messages of the backlog or the nextlog, and print their ids."""
    with call.open() as rsmq:
        counts = rsmq.count_messages(topic)
        number = counts.visible if list_name == "backlog" else topics.count_nextlog(counts)
        call.confirm(
            f"Remove {format_count(number)} in the {list_name} of {format_text(topic)}?", yes=yes
        )
        with call.out.list_writer() as write_texts:
            for ids in topics.purge(rsmq, topic, list_name, number):
                write_texts(ids)


@rfq.subcommand(
    "publish", "rsmq rfq publish -t ndvi -m '{\"tile\": 7}'", "rsmq rfq publish -t t -m {} -f"
)
@_TOPIC
@options("""
    --message, -m, text JSON  The message, a JSON object.  [required]
    --front, -f  Send it to the front: it precedes all messages that are visible now.
    """)
def publish(call: Call, topic: str, text: str, *, front: bool) -> None:
    """
    Publish a message to a topic, and print its id.

    A topic that does not exist is created, without a size limit, because rfq has none.
    """
    try:
        message = json.loads(text)
    except ValueError as error:
        raise Failed(f"The message is not JSON: {error}", hint='As in {"tile": 7}.') from None
    if not isinstance(message, dict):
        raise Failed(f"The message is not a JSON object: {text}", hint='As in {"tile": 7}.')
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    raw = body.encode("utf-8", "surrogatepass")
    with call.open() as rsmq:
        [id] = topics.publish(rsmq, topic, [raw], front=front)
    call.out.result(id, id)


@rfq.subcommand("consume", "rsmq rfq consume -t ndvi", "rsmq rfq consume -t ndvi --keep")
@_TOPIC
@options(
    """
    --keep  Leave the message in the nextlog, and print its id before it.
    --vt DURATION  How long it stays in the nextlog; then it is in the backlog again.
    """,
    vt={"default": topics.DAY_SECONDS, "show_default": True},
)
def consume(call: Call, topic: str, vt: float, *, keep: bool) -> None:
    """
    Wait for a message, print it, and delete it.

    It waits forever, as rfq does. A topic that does not exist is created. The message is deleted
    after it was printed. With --keep it is not deleted: rsmq rfq commit deletes it, and rsmq rfq
    harvest puts it back.
    """
    with call.open() as rsmq:
        message = topics.consume(rsmq, topic, vt)
        call.out.result(
            message,
            f"{message.id}  {_format_message(message.raw)}"
            if keep
            else _format_message(message.raw),
        )
        call.out.flush()
        if not keep:
            rsmq.delete_message(message)


def _format_message(raw: bytes) -> str:
    """Return a message as one line: as JSON if it is valid JSON, else like any other body."""
    try:
        return json.dumps(json.loads(raw))
    except (ValueError, RecursionError):
        return format_body(raw)


@rfq.subcommand("commit", "rsmq rfq commit -t ndvi -m ID")
@_TOPIC
@options("--msgid, -m, id ID  [required]")
def commit(call: Call, topic: str, id: str) -> Exit | None:
    """
    Delete a message that was consumed with --keep.

    A task of rfq does this when it is done. The exit code is 1 if the message does not exist.
    """
    with call.open() as rsmq:
        deleted = rsmq.delete_message(topic, id)
    call.out.result({"id": id, "deleted": deleted}, ())
    return None if deleted else Exit.NOT_ALL


@rfq.subcommand("harvest", "rsmq rfq harvest -t ndvi")
@_TOPIC
def harvest(call: Call, topic: str) -> None:
    """
    Put the messages of the nextlog back into the backlog.

    It prints their ids. Like rfq, it puts back all messages of the nextlog, also those that
    consumers still process. Each message returns to its old place.
    """
    with call.open() as rsmq, call.out.list_writer() as write_texts:
        for ids in topics.harvest(rsmq, topic):
            write_texts(ids)


@rfq.subcommand("peek", "rsmq rfq peek -t ndvi -m ID")
@_TOPIC
@options("--msgid, -m, id ID  [required]")
def peek(call: Call, topic: str, id: str) -> Exit | None:
    """
    Show a message without consuming it.

    The exit code is 1 if the message does not exist.
    """
    with call.open() as rsmq:
        try:
            message = rsmq.get_message(topic, id)
        except QueueNotFound:
            message = None
    call.out.result(message, () if message is None else _format_message(message.raw))
    return Exit.NOT_ALL if message is None else None


@rfq.subcommand("completions", 'eval "$(rsmq rfq completions bash)"')
@click.argument("shell", type=click.Choice(["bash"]))
def completions(_: Call, shell: str) -> None:
    """Print the completion script of a shell, as rsmq completion does."""
    from rsmq.cli.commands.completion import print_script  # noqa: PLC0415 - only here

    print_script(shell)
