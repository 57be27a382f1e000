"""
The commands receive, pop and recover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import VT, command, options, read_duration
from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.cli.commands.message_output import BodyFormat, PoppedWriter, raw_options, write_messages
from rsmq.errors.printable import format_count
from rsmq.model import Message
from rsmq.wire.limits import MAX_BATCH, check_whole_number

_FOREVER = "forever"


def _parse_wait(text: str | float) -> float | None:
    return None if text == _FOREVER else read_duration(text)


_NUMBER = options("--number, -n N  The highest number of messages, 1 to 10,000.  [default: 1]")
_WAIT = options(
    f"--wait DURATION  How long to wait for the first message, or {_FOREVER}.  [default: 0]",
    wait={"type": _parse_wait},
)


@contextmanager
def _released_if_unread(call: Call, rsmq: Any, messages: Sequence[Message]) -> Iterator[None]:
    """Release messages if the reader of the output closes the pipe: it may not have read them."""
    try:
        yield
        call.out.flush()
    except BrokenPipeError:
        number = len(rsmq.release_messages(messages))
        raise Failed(
            f"The reader has closed the pipe; {format_count(number)} released",
            exit=Exit.CLOSED_PIPE,
            code="closedPipe",
        ) from None


@command(
    "receive QUEUE...",
    "rsmq receive orders",
    "rsmq receive urgent orders -n 100 --wait 20 --json",
    "rsmq receive images --raw > image",
)
@_NUMBER
@VT
@_WAIT
@raw_options
def receive(
    call: Call, queues: tuple[str, ...], number: int, vt: float | None, wait: float | None,
    *, bodies: BodyFormat | None,
) -> Exit | None:  # fmt: skip
    """
    Receive messages and hide them from others.

    A message becomes visible again when its visibility timeout ends. rsmq delete deletes it before,
    and rsmq visibility extends the timeout. Of several queues the first has precedence. If the
    reader of the output closes the pipe, all of them are released. The exit code is 1 if no message
    is visible within --wait.
    """
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        messages = rsmq.receive_messages(queues, number, vt=vt, wait=wait)
        with _released_if_unread(call, rsmq, messages):
            return write_messages(call, messages, bodies, has_queue_column=len(queues) > 1)


#: The number of messages that pop removes at a time: so many can be lost if a write fails.
_POP_BATCH = 10


@command("pop QUEUE...", "rsmq pop orders", "rsmq pop orders -n 100 --raw > lines")
@_NUMBER
@_WAIT
@raw_options
def pop(
    call: Call,
    queues: tuple[str, ...],
    number: int,
    wait: float | None,
    *,
    bodies: BodyFormat | None,
) -> Exit | None:
    """
    Receive messages and delete them at once.

    Delivery is at most once: if the program can't write a popped message, the message is lost. So
    it pops ten messages at a time, and writes them before it pops the next. With rsmq receive no
    message is lost. Of several queues the first has precedence. The exit code is 1 if no message is
    visible within --wait, and if a message can't be written; the error has the number of these.
    """
    check_whole_number("max_messages", number, 1, MAX_BATCH)
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        writer = PoppedWriter(call, bodies, has_queue_column=len(queues) > 1)
        while writer.number < number:
            size = min(number - writer.number, _POP_BATCH)
            messages = rsmq.pop_messages(queues, size, wait=0 if writer.number else wait)
            writer.write(messages)
            if len(messages) < size:
                break
    writer.end()
    if writer.number == 0:
        call.out.note("no message")
        return Exit.NOT_ALL
    return None


@command("recover QUEUE", "rsmq recover orders --idle 3600")
@options("""
    --idle DURATION  Only messages that were last received so long ago, 0 to 9,999,999; 0 for all.
        [required]
    """)
@options("--number, -n N  The highest number of messages, 1 to 10,000.  [default: 10]")
@VT
@raw_options
def recover(
    call: Call,
    queue: str,
    idle: float,
    number: int,
    vt: float | None,
    *,
    bodies: BodyFormat | None,
) -> Exit | None:
    """
    Receive abandoned messages again.

    These are messages in flight that were received at least --idle seconds ago. Their receive
    counts rise by one, so that the earlier consumers can no longer delete or extend them. The exit
    code is 1 if there are none.
    """
    with call.open() as rsmq:
        messages = rsmq.recover_messages(queue, number, idle=idle, vt=vt)
        with _released_if_unread(call, rsmq, messages):
            return write_messages(call, messages, bodies)
