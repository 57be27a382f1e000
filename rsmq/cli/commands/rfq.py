"""
The command group rfq: the commands of rfq 1.4.0, with its options, on RSMQ queues.

A topic is a queue, the backlog its visible messages, the nextlog those in flight; a message is a
JSON object. Different on purpose: harvest puts messages back where they stood (rfq: behind all
others), list-queue begins with the message that comes next (rfq: ends with it), consume writes JSON
(rfq: Python), purge-queue asks. Messages that are delayed, of which rfq has none, are in neither
list.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
from redis.exceptions import RedisError

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import SECONDS, Decorator, Group, command, complete_queues, yes_option
from rsmq.cli.app.errors import Failed, why_odd
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import counted, shown, shown_body
from rsmq.cli.commands.queues import tell_odd
from rsmq.client import RSMQ
from rsmq.errors import QueueNotFound, RSMQError
from rsmq.model import Message
from rsmq.operations.walk import Position, parse_next_position, walk_step
from rsmq.wire.limits import MAX_BATCH, UNLIMITED

_STATES: dict[str, Any] = {"backlog": "visible", "nextlog": "in_flight"}

#: rfq knows no visibility timeout: what is consumed and kept is hidden until commit or harvest.
_A_DAY = 86_400

_HELP = """
The commands of rfq, on these queues.

A topic is a queue, the backlog its visible messages, the nextlog those in flight. The options are
rfq's. Other than there, harvest keeps the order, list-queue begins with what comes next, consume
writes JSON and purge-queue asks.

Where neither --url nor RSMQ_URL nor a profile says where Redis is, RFQ_REDIS_HOST and
RFQ_REDIS_PORT do.
"""


class _Rfq(Group):
    """The group, with rfq's own variables for where Redis is."""

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


def _topic() -> Decorator:
    return click.option(
        "--topic", "-t", required=True, metavar="TOPIC", shell_complete=complete_queues
    )


def _list() -> Decorator:
    return click.option(
        "--queue", "-q", "which", type=click.Choice(tuple(_STATES)), default="backlog",
        show_default=True,
    )  # fmt: skip


def _verb(name: str, *examples: str) -> Callable[[Callable[..., Any]], Any]:
    def add(function: Callable[..., Any]) -> Any:
        made = command(name, *examples)(function)
        rfq.add_command(made)
        return made

    return add


@_verb("version", "rsmq rfq version")
@click.pass_obj
def version(call: Call) -> None:
    """Show the versions of this program and of Redis."""
    from importlib.metadata import version as version_of  # noqa: PLC0415 - takes time

    from redis import Redis  # noqa: PLC0415 - only here

    with call.open() as rsmq:  # the url is checked here
        rsmq.list_queues()
    with Redis.from_url(call.place.url) as redis:
        found = redis.info("server").get("redis_version", "?")
    ours = version_of("rsmq")
    call.out.result({"rsmq": ours, "redis": found}, [f"rsmq {ours}", f"redis {found}"])


@_verb("info", "rsmq rfq info")
@click.pass_obj
def info(call: Call) -> Exit | None:
    """Show how many messages topics have, in backlog and nextlog."""
    told = []
    odd: dict[str, str] = {}
    with call.open() as rsmq:
        for topic in rsmq.list_queues():
            try:
                counts = rsmq.count_messages(topic)
            except QueueNotFound:
                continue
            except (RSMQError, RedisError) as error:
                why = why_odd(error)
                if why is None:
                    raise
                odd[topic] = why
                continue
            told.append({"topic": topic, "backlog": counts.visible, "nextlog": counts.in_flight})
    call.out.result(told, (line for each in told for line in _info(each)))
    return tell_odd(call, odd)


def _info(told: dict[str, Any]) -> Iterator[str]:
    yield f"topic\t\t{shown(told['topic'])}"
    for name in _STATES:
        yield f"{name}\t\t{told[name]}\t\t{'#' * int(10 * math.log(told[name] + 1))}"
    yield ""


@_verb("list-topics", "rsmq rfq list-topics")
@click.pass_obj
def list_topics(call: Call) -> None:
    """List the topics: all queues, those without messages too."""
    with call.open() as rsmq:
        topics = rsmq.list_queues()
    call.out.result(topics, map(shown, topics))


@_verb("list-queue", "rsmq rfq list-queue -t ndvi", "rsmq rfq list-queue -t ndvi -q nextlog")
@_topic()
@_list()
@click.pass_obj
def list_queue(call: Call, topic: str, which: str) -> None:
    """List the ids of messages, the one that comes next first."""
    with call.open() as rsmq, call.out.listed() as tell:
        for ids in _ids(rsmq, topic, which):
            tell(ids)


def _ids(rsmq: RSMQ, topic: str, which: str) -> Iterator[list[str]]:
    start = 0
    while found := rsmq.peek_messages(topic, start, MAX_BATCH, state=_STATES[which]):
        yield [message.id for message in found]
        start += len(found)


@_verb("purge-queue", "rsmq rfq purge-queue -t ndvi", "rsmq rfq purge-queue -t ndvi -q nextlog -y")
@_topic()
@_list()
@yes_option()
@click.pass_obj
def purge_queue(call: Call, topic: str, which: str, *, yes: bool) -> None:
    """Remove the messages of a list, and print their ids."""
    with call.open() as rsmq:
        counts = rsmq.count_messages(topic)
        number = counts.visible if which == "backlog" else counts.in_flight
        call.confirm(f"Remove {counted(number)} in the {which} of {shown(topic)}?", yes=yes)
        with call.out.listed() as tell:
            for ids in _purged(rsmq, topic, which, number):
                tell(ids)


def _purged(rsmq: RSMQ, topic: str, which: str, number: int) -> Iterable[list[str]]:
    if which == "nextlog":
        for ids in list(_ids(rsmq, topic, which)):
            yield rsmq.delete_messages(topic, ids)
        return
    # Popped, so that what a consumer receives meanwhile is left to it.
    left = number
    while left > 0 and (popped := rsmq.pop_messages(topic, min(left, MAX_BATCH))):
        left -= len(popped)
        yield [message.id for message in popped]


@_verb("publish", "rsmq rfq publish -t ndvi -m '{\"tile\": 7}'", "rsmq rfq publish -t t -m {} -f")
@_topic()
@click.option("--message", "-m", "text", required=True, metavar="JSON", help="An object.")
@click.option("--front", "-f", is_flag=True, help="Before all that wait now.")
@click.pass_obj
def publish(call: Call, topic: str, text: str, *, front: bool) -> None:
    """
    Publish a message to a topic, and print its id.

    A topic that does not exist is created, without a size limit, as rfq has none.
    """
    try:
        message = json.loads(text)
    except ValueError as error:
        raise Failed(f"The message is no JSON: {error}", hint='As in {"tile": 7}.') from None
    if not isinstance(message, dict):
        raise Failed(f"The message is no object: {text}", hint='As in {"tile": 7}.')
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    raw = body.encode("utf-8", "surrogatepass")
    with call.open() as rsmq:
        try:
            id = rsmq.send_message(topic, raw, front=front)
        except QueueNotFound:
            rsmq.create_queue(topic, maxsize=UNLIMITED, exist_ok=True)
            id = rsmq.send_message(topic, raw, front=front)
    call.out.result(id, id)


@_verb("consume", "rsmq rfq consume -t ndvi", "rsmq rfq consume -t ndvi --keep")
@_topic()
@click.option("--keep", is_flag=True, help="Leave it in the nextlog, and print its id before it.")
@click.option(
    "--vt", type=SECONDS, default=_A_DAY, show_default=True, metavar="SECONDS",
    help="How long it is in the nextlog at most; then it is in the backlog again.",
)  # fmt: skip
@click.pass_obj
def consume(call: Call, topic: str, vt: float, *, keep: bool) -> None:
    """
    Wait for a message, print it, and delete it.

    It waits forever, as rfq does; a topic that does not exist is created. The message is deleted
    when it has been written. With --keep it is not: rsmq rfq commit deletes it, rsmq rfq harvest
    puts it back.
    """
    with call.open() as rsmq:
        message = _received(rsmq, topic, vt)
        call.out.result(
            message, f"{message.id}  {_json(message.raw)}" if keep else _json(message.raw)
        )
        call.out.flush()
        if not keep:
            rsmq.delete_message(message)


def _received(rsmq: RSMQ, topic: str, vt: float) -> Message:
    while True:
        try:
            message = rsmq.receive_message(topic, vt=vt, wait=None)
        except QueueNotFound:
            rsmq.create_queue(topic, maxsize=UNLIMITED, exist_ok=True)
        else:
            if message is not None:
                return message


def _json(raw: bytes) -> str:
    """A message in one line: as JSON if it is, else as any body."""
    try:
        return json.dumps(json.loads(raw))
    except (ValueError, RecursionError):
        return shown_body(raw)


@_verb("commit", "rsmq rfq commit -t ndvi -m ID")
@_topic()
@click.option("--msgid", "-m", "id", required=True, metavar="ID")
@click.pass_obj
def commit(call: Call, topic: str, id: str) -> Exit | None:
    """
    Delete a message that was consumed with --keep.

    What a task of rfq does when it is done. Exit code 1 if it is not there.
    """
    with call.open() as rsmq:
        deleted = rsmq.delete_message(topic, id)
    call.out.result({"id": id, "deleted": deleted}, ())
    return None if deleted else Exit.NOT_ALL


@_verb("harvest", "rsmq rfq harvest -t ndvi")
@_topic()
@click.pass_obj
def harvest(call: Call, topic: str) -> None:
    """
    Put messages back from the nextlog.

    Prints their ids. All of them, those of living consumers too, as rfq does; each where it stood.
    """
    with call.open() as rsmq, call.out.listed() as tell:
        keys = rsmq.namespace.queue(topic)
        position: Position | None = (b"", b"0")
        while position is not None:
            reply = rsmq.run(walk_step("received_messages", keys, position, b""))
            ids = [id.decode("utf-8", "surrogateescape") for id in reply[2][::2]]
            tell(rsmq.release_messages(topic, ids) if ids else ())
            position = parse_next_position(reply)


@_verb("peek", "rsmq rfq peek -t ndvi -m ID")
@_topic()
@click.option("--msgid", "-m", "id", required=True, metavar="ID")
@click.pass_obj
def peek(call: Call, topic: str, id: str) -> Exit | None:
    """
    Show a message without consuming it.

    Exit code 1 if it is not there.
    """
    with call.open() as rsmq:
        try:
            message = rsmq.get_message(topic, id)
        except QueueNotFound:
            message = None
    call.out.result(message, () if message is None else _json(message.raw))
    return Exit.NOT_ALL if message is None else None


@_verb("completions", 'eval "$(rsmq rfq completions bash)"')
@click.argument("shell", type=click.Choice(["bash"]))
@click.pass_context
def completions(ctx: click.Context, shell: str) -> None:
    """Print a script for the shell: that of rsmq completion."""
    from rsmq.cli.commands.completion import completion  # noqa: PLC0415 - only here

    ctx.invoke(completion, shell=shell)
