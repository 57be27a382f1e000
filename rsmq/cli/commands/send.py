"""
The commands send and publish.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import SECONDS, Decorator, command, queue_argument, queues_argument
from rsmq.cli.app.errors import Failed, ending_of
from rsmq.cli.app.output import counted, shown
from rsmq.cli.commands.input_batches import Batch, batches_of
from rsmq.errors import MessageTooLong
from rsmq.transport.retry import Failure, classify
from rsmq.wire.limits import MAX_BATCH, MAX_BATCH_BYTES, utf16_length


def _file_option(help: str) -> Decorator:
    kind = click.Path(allow_dash=True)  # the shell completes it
    return click.option("--file", "-f", "path", metavar="FILE", type=kind, help=help)


def _delay_option() -> Decorator:
    return click.option(
        "--delay", type=SECONDS, metavar="SECONDS",
        help="Until they are visible, 0 to 9,999,999; the queue's delay by default.",
    )  # fmt: skip


@command(
    "send",
    "rsmq send orders hello",
    "rsmq send orders --file orders.jsonl",
    "journalctl -f | rsmq send log -",
    "rsmq send images --file cat.png --whole",
)
@queue_argument()
@click.argument("bodies", nargs=-1, metavar="[BODY...]")
@_file_option("Send each line of it; - is the standard input.")
@click.option("--null", "-0", "null", is_flag=True, help="NUL ends a message, not a line's end.")
@click.option("--whole", is_flag=True, help="The file is one message, to the last byte.")
@_delay_option()
@click.option("--front", is_flag=True, help="Before all that wait now.")
@click.option(
    "--dedup-id", metavar="NAME",
    help="Of one message: a second one of this name within five minutes adds nothing.",
)  # fmt: skip
@click.pass_obj
def send(
    call: Call, /, queue: str, bodies: tuple[str, ...], path: str | None, dedup_id: str | None,
    *, null: bool, whole: bool, **how: Any,
) -> None:  # fmt: skip
    """
    Send messages: arguments, lines of a file, or the standard input.

    Prints their ids. Each BODY is a message, and all of them are sent or none; a BODY of just - is
    --file -. Of a file each line is a message, without its line end; an empty line is an empty one.
    Its lines go in batches of at most 10,000, those of a pipe as they come; if it breaks off, it
    says how many were sent. A message is held against the queue's maxsize.
    """
    if bodies == ("-",) and path is None:
        bodies, path = (), "-"
    if bodies and (path is not None or null or whole):
        raise click.UsageError("Give bodies, or a file with --file; not both.")
    if not bodies and path is None:
        raise click.UsageError("Give bodies, or --file FILE; - is the standard input.")
    if dedup_id is not None and len(bodies) != 1 and not whole:
        raise click.UsageError("--dedup-id is that of one message: give one BODY, or --whole.")
    with call.open() as rsmq:
        if path is not None and not whole:
            _send_file(call, partial(rsmq.send_messages, queue, **how), path, null, how["front"])
            return
        raws = [_whole(path)] if path is not None else [os.fsencode(body) for body in bodies]
        if len(raws) == 1:
            ids = [rsmq.send_message(queue, raws[0], dedup_id=dedup_id, **how)]
        else:
            ids = rsmq.send_messages(queue, raws, **how)
    call.out.result(ids, ids)


def _send_file(
    call: Call,
    send_batch: Callable[[list[bytes]], list[str]],
    path: str,
    null: bool,  # noqa: FBT001 - as the option has it
    front: bool,  # noqa: FBT001 - as above
) -> None:
    """Send the pieces of a file, batch by batch."""
    with _opened(path) as file, call.out.listed() as tell, _bar(call, file, path) as advance:
        read: Iterable[Batch] = batches_of(file, b"\0" if null else b"\n")
        if front:
            read = _only_one(read)
        for batch in read:
            try:
                ids = send_batch(batch.bodies)
            except BaseException as error:  # noqa: BLE001 - raised as it is if unforeseen
                raise _broken_off(error, batch) from None
            tell(ids)
            advance(batch.size)


def _only_one(read: Iterable[Batch]) -> list[Batch]:
    """Those that go to the front, as one batch: several would stand before each other."""
    bodies = [body for batch in read for body in batch.bodies]
    size = sum(map(len, bodies))
    if len(bodies) > MAX_BATCH or size > MAX_BATCH_BYTES:
        raise Failed(
            "Too many messages for the front",
            hint=f"They go in one batch, of at most {MAX_BATCH:,} messages and "
            f"{MAX_BATCH_BYTES:,} bytes. Nothing was sent.",
        )
    return [Batch(1, bodies, size)] if bodies else []


def _broken_off(error: BaseException, batch: Batch) -> BaseException:
    """The same error, with what was sent until it."""
    ending = ending_of(error)
    if ending is None:
        return error
    first, last = batch.first, batch.first + len(batch.bodies) - 1
    where = f"Sent before: {counted(first - 1)}; "
    unknown = isinstance(error, KeyboardInterrupt) or (
        isinstance(error, Exception) and classify(error, is_sent=True) is Failure.AMBIGUOUS
    )
    if unknown:
        where += f"lines {first} to {last} may have been sent or not, those after them were not"
    else:
        where += f"those from line {first} on were not"
    if isinstance(error, MessageTooLong):
        where = f"It is line {first + _too_long(batch, error.value)}. {where}"
    hint = f"{ending.hint} " if ending.hint else ""
    text = ending.text.rstrip(".")
    return Failed(text, exit=ending.exit, code=ending.code, hint=f"{hint}{where}.")


def _too_long(batch: Batch, size: object) -> int:
    """The place of the message that the server found too long."""
    return next((at for at, body in enumerate(batch.bodies) if _size(body) == size), 0)


def _size(body: bytes) -> int:
    try:
        return utf16_length(body.decode())
    except UnicodeDecodeError:
        return len(body)


@contextmanager
def _opened(path: str) -> Iterator[BufferedReader]:
    if path == "-":
        yield cast("BufferedReader", sys.stdin.buffer)
        return
    with Path(path).open("rb") as file:
        yield file


def _whole(path: str) -> bytes:
    with _opened(path) as file:
        return file.read()


def _bar(call: Call, file: BufferedReader, path: str) -> Any:
    # On a terminal the ids themselves show how it goes.
    if sys.stdout.isatty():
        return nullcontext(lambda _: None)
    size = None if path == "-" else os.fstat(file.fileno()).st_size
    return call.out.progress("sending", size, unit="bytes")


@command("publish", "rsmq publish mail audit --body 'order 17'")
@queues_argument()
@click.option("--body", metavar="BODY", help="The message.")
@_file_option("The file is the message, to the last byte; - is the standard input.")
@_delay_option()
@click.pass_obj
def publish(
    call: Call, queues: tuple[str, ...], body: str | None, path: str | None, delay: float | None
) -> None:
    """
    Send a message to several queues, all or none.

    Prints the id in each queue. One queue that is missing, or refuses the size, is enough for none.
    """
    if body is not None and path is None:
        raw = os.fsencode(body)
    elif path is not None and body is None:
        raw = _whole(path)
    else:
        raise click.UsageError("Give --body or --file, one of them.")
    with call.open() as rsmq:
        ids = rsmq.publish(queues, raw, delay=delay)
    call.out.result(ids, [f"{shown(queue)}  {id}" for queue, id in ids.items()])
