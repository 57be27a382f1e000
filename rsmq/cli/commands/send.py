"""
The commands send and publish.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import Exit, Failed, describe_error
from rsmq.cli.app.output import format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.cli.app.send_options import call_options, drop_unset, find_unique, send_options
from rsmq.cli.commands.input_batches import InputBatch, read_batches
from rsmq.errors import MessageTooLong
from rsmq.errors.printable import format_count
from rsmq.vocabulary.sends import PUBLISH, SEND, as_batch
from rsmq.wire.limits import MAX_BATCH, MAX_BATCH_BYTES, utf16_length


@command(
    "send QUEUE",
    "rsmq send orders hello",
    "rsmq send orders --file orders.jsonl",
    "journalctl -f | rsmq send log -",
    "rsmq send images --file cat.png --whole",
)
@click.argument("bodies", nargs=-1, metavar="[BODY...]")
@options("""
    --file, -f, path FILE  Send each line of the file as a message; - is the standard input.
    --null, -0, null  A NUL byte ends a message, instead of a line end.
    --whole  Send the whole file as one message.
    """)
@send_options(SEND)
@call_options("send_message")
def send(
    call: Call, /, queue: str, bodies: tuple[str, ...], path: str | None,
    *, null: bool, whole: bool, timeout: float | None, **values: Any,
) -> None:  # fmt: skip
    """
    Send messages: arguments, lines of a file, or the standard input.

    It prints the ids of the messages. Each BODY is a message; all of them are sent, or none. A
    single BODY - is the same as --file -. Each line of a file is a message, without its line end;
    an empty line is an empty message. Lines are sent in batches of at most 10,000, and lines of a
    pipe as they arrive. If sending fails, the error says how many messages were sent. The size of a
    message must not exceed the maxsize of the queue.
    """
    if bodies == ("-",) and path is None:
        bodies, path = (), "-"
    if bodies and (path is not None or null or whole):
        raise click.UsageError("Give bodies, or a file with --file; not both.")
    if not bodies and path is None:
        raise click.UsageError("Give bodies, or --file FILE; - is the standard input.")
    options = drop_unset(values)
    if (option := find_unique(options)) and len(bodies) != 1 and not whole:
        raise click.UsageError(f"{option} is that of one message: give one BODY, or --whole.")
    with call.open() as rsmq:

        def send_batch(raws: list[bytes]) -> list[str]:
            return rsmq.send_messages(queue, raws, timeout=timeout, **as_batch(options, len(raws)))

        if path is not None and not whole:
            _send_file(call, send_batch, path, null, "front" in options)
            return
        raws = [_read_file(path)] if path is not None else [os.fsencode(body) for body in bodies]
        if len(raws) == 1:
            ids = [rsmq.send_message(queue, raws[0], timeout=timeout, **options)]
        else:
            ids = send_batch(raws)
    call.out.result(ids, ids)


def _send_file(
    call: Call,
    send_batch: Callable[[list[bytes]], list[str]],
    path: str,
    null: bool,  # noqa: FBT001 - as the option has it
    front: bool,  # noqa: FBT001 - as above
) -> None:
    """Send the pieces of a file, batch by batch."""
    with (
        _open_input(path) as file,
        call.out.list_writer() as write_texts,
        _show_progress(call, file, path) as advance,
    ):
        batches: Iterable[InputBatch] = read_batches(file, b"\0" if null else b"\n")
        if front:
            batches = _merge_into_one_batch(batches)
        for batch in batches:
            try:
                ids = send_batch(batch.bodies)
            except BaseException as error:  # noqa: BLE001 - raised unchanged if it is not expected
                raise _add_sent_count(error, batch) from None
            try:
                write_texts(ids)
            except OSError as error:
                raise Failed(
                    f"The ids can't be written: {error.strerror}",
                    exit=Exit.NOT_ALL,
                    code="file",
                    hint=f"Sent before: {format_count(batch.first - 1 + len(batch.bodies))}; those "
                    "after them were not.",
                ) from None
            advance(batch.size)


def _merge_into_one_batch(batches: Iterable[InputBatch]) -> list[InputBatch]:
    """Return messages for the front as one batch: of several batches, the last would be first."""
    bodies = [body for batch in batches for body in batch.bodies]
    size = sum(map(len, bodies))
    if len(bodies) > MAX_BATCH or size > MAX_BATCH_BYTES:
        raise Failed(
            "Too many messages for the front",
            hint=f"They go in one batch, of at most {MAX_BATCH:,} messages and "
            f"{MAX_BATCH_BYTES:,} bytes. Nothing was sent.",
        )
    return [InputBatch(1, bodies, size)] if bodies else []


def _add_sent_count(error: BaseException, batch: InputBatch) -> BaseException:
    """Return the error with a hint that says how many messages were sent before it."""
    report = describe_error(error)
    if report is None:
        return error
    from rsmq.transport.retry import Failure, classify  # noqa: PLC0415 - takes time

    first, last = batch.first, batch.first + len(batch.bodies) - 1
    progress = f"Sent before: {format_count(first - 1)}; "
    is_ambiguous = isinstance(error, KeyboardInterrupt) or (
        isinstance(error, Exception) and classify(error, is_sent=True) is Failure.AMBIGUOUS
    )
    if is_ambiguous:
        progress += f"lines {first} to {last} may have been sent or not, those after them were not"
    else:
        progress += f"those from line {first} on were not"
    if isinstance(error, MessageTooLong):
        progress = f"It is line {first + _find_too_long(batch, error.value)}. {progress}"
    hint = f"{report.hint} " if report.hint else ""
    text = report.text.rstrip(".")
    return Failed(text, exit=report.exit, code=report.code, hint=f"{hint}{progress}.")


def _find_too_long(batch: InputBatch, size: object) -> int:
    """Return the index of the first message that has the size that the server refused."""
    return next((index for index, body in enumerate(batch.bodies) if _body_size(body) == size), 0)


def _body_size(body: bytes) -> int:
    try:
        return utf16_length(body.decode())
    except UnicodeDecodeError:
        return len(body)


@contextmanager
def _open_input(path: str) -> Iterator[BufferedReader]:
    if path == "-":
        yield cast("BufferedReader", sys.stdin.buffer)
        return
    with Path(path).open("rb") as file:
        yield file


def _read_file(path: str) -> bytes:
    with _open_input(path) as file:
        return file.read()


def _show_progress(call: Call, file: BufferedReader, path: str) -> Any:
    # On a terminal the ids that are printed show the progress.
    if sys.stdout.isatty():
        return nullcontext(lambda _: None)
    size = None if path == "-" else os.fstat(file.fileno()).st_size
    return call.out.progress("sending", size, unit="bytes")


@command("publish QUEUE...", "rsmq publish mail audit --body 'order 17'")
@options("--body BODY  The body of the message.")
@options("--file, -f, path FILE  Send the whole file as the message; - is the standard input.")
@send_options(PUBLISH)
@call_options("publish")
def publish(
    call: Call, /, queues: tuple[str, ...], body: str | None, path: str | None,
    *, timeout: float | None, **values: Any,
) -> None:  # fmt: skip
    """
    Send a message to several queues, all or none.

    It prints the id of the message in each queue. If a queue is missing or refuses the size, the
    message is sent to none of the queues.
    """
    if body is not None and path is None:
        raw = os.fsencode(body)
    elif path is not None and body is None:
        raw = _read_file(path)
    else:
        raise click.UsageError("Give --body or --file, one of them.")
    with call.open() as rsmq:
        ids = rsmq.publish(
            expand_patterns(rsmq, queues), raw, timeout=timeout, **drop_unset(values)
        )
    call.out.result(ids, [f"{format_text(queue)}  {id}" for queue, id in ids.items()])
