"""
The command tail, which shows new messages and changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import Exit, describe_error
from rsmq.cli.app.output import (
    format_message_body,
    format_text,
    format_time,
    to_json_value,
    truncate,
)
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.model import StoredMessage
from rsmq.operations.following import QueueFollower, pause_after_poll

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ


@command("tail QUEUE...", "rsmq tail orders", "rsmq tail orders-dead -n 10 --json")
@options("""
    --number, -n N  Begin with the last N messages of the queue, 1 to 10,000.
    --from-start  Begin with all messages of the queue.
    --interval DURATION  The time between two polls; more than 0.  [default: 0.1]
    """)
def tail(
    call: Call, queues: tuple[str, ...], number: int | None, interval: float, *, from_start: bool
) -> Exit | None:
    """
    Show new messages without receiving them.

    It runs until Ctrl-C. It reads the queue many times per second and changes nothing. A message
    that is deleted between two polls is not shown, so for a queue with fast consumers it shows only
    a part of the messages. It shows new messages (delayed ones at once), new dead letters, and
    older messages that become visible again after a visibility timeout. It does not show messages
    that rsmq move adds and that were never received. With --json it prints one document per line.
    """
    if number is not None and from_start:
        raise click.UsageError("Give --number or --from-start, one of them.")
    if interval <= 0:
        raise click.UsageError("--interval is more than 0.")
    with call.open() as rsmq:
        try:
            names = expand_patterns(rsmq, queues)
            followed = [_FollowedQueue(rsmq, name) for name in names]
            for each in followed:
                each.start(number, all_of_them=from_start)
            _follow(call, followed, interval, has_queue_column=len(names) > 1)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return None


def _follow(
    call: Call, followed: list[_FollowedQueue], interval: float, *, has_queue_column: bool
) -> None:
    from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

    write = partial(_write_message, call, has_queue_column=has_queue_column)
    is_reachable = True
    while True:
        started_at = time.monotonic()
        was_reachable, is_reachable = is_reachable, True
        try:
            for each in followed:
                each.poll(write)
        except RedisError as error:
            report = describe_error(error)
            if report is None or report.exit is not Exit.UNREACHABLE:
                raise
            is_reachable = False
            if was_reachable:
                call.out.note(report.line(as_json=False))
        call.out.flush()
        seconds = time.monotonic() - started_at
        time.sleep(pause_after_poll(interval, seconds) if is_reachable else max(interval, 0.5))


def _write_message(call: Call, message: StoredMessage, *, has_queue_column: bool) -> None:
    if call.as_json:
        call.out.write(json.dumps(to_json_value(message)).encode() + b"\n")
        return
    cells = [format_time(message.sent_ms), format_text(message.id), f"{message.state:9}"]
    cells = [format_text(message.queue)] * has_queue_column + cells
    prefix = "  ".join([*cells, ""])
    line = truncate(prefix + format_message_body(message), call.out.width, keep=len(prefix))
    call.out.result(None, line)


class _FollowedQueue:
    """A queue and what was shown of it."""

    def __init__(self, rsmq: RSMQ[Any], queue: str) -> None:
        self._rsmq = rsmq
        self._name = queue
        self._follower = QueueFollower(rsmq.namespace.queue(queue), rsmq.codec)
        #: The messages that the first poll shows.
        self._initial: list[StoredMessage] = []

    def start(self, number: int | None, *, all_of_them: bool) -> None:
        """
        Begin with new messages, or with messages that the queue already contains.

        Args:
            number: the number of last messages to begin with; None for none.

        Raises:
            QueueNotFound: the queue does not exist.
            InvalidValue: the number is out of range.
        """
        if number is not None:
            self._initial = self._rsmq.peek_messages(self._name, -number, number)
        if not all_of_them:
            self._rsmq.run_steps(self._follower.start())

    def poll(self, write: Callable[[StoredMessage], None]) -> None:
        """Write the messages that were added or became due since the last poll, each only once."""

        def take(messages: list[StoredMessage]) -> None:
            for message in messages:
                write(message)

        initial, self._initial = self._initial, []
        take(self._follower.skip_found(initial))
        self._rsmq.run_steps(self._follower.poll(take))
