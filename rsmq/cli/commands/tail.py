"""
The command tail, which shows new messages and changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import BODY_CODEC, Call
from rsmq.cli.app.command import DURATION, command, queues_argument
from rsmq.cli.app.errors import describe_error
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import format_body, format_text, format_time, to_json_value, truncate
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.model import StoredMessage
from rsmq.operations.following import QueueFollower, pause_after_poll

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ


@command("tail", "rsmq tail orders", "rsmq tail orders-dead -n 10 --json")
@queues_argument()
@click.option(
    "--number",
    "-n",
    type=int,
    metavar="N",
    help="Begin with the last N messages of the queue, 1 to 10,000.",
)
@click.option("--from-start", is_flag=True, help="Begin with all messages of the queue.")
@click.option(
    "--interval", type=DURATION, default=0.1, show_default=True, metavar="DURATION",
    help="The time between two polls; more than 0.",
)  # fmt: skip
@click.pass_obj
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
    Of a set of cells it shows the messages of all cells that can be reached at the start.
    """
    if number is not None and from_start:
        raise click.UsageError("Give --number or --from-start, one of them.")
    if interval <= 0:
        raise click.UsageError("--interval is more than 0.")
    with call.open_queues() as rsmq:
        try:
            names = expand_patterns(rsmq, queues)
            followed = _start(rsmq, names, number, all_of_them=from_start)
            _follow(call, followed, interval, has_queue_column=len(names) > 1)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return None


def _start(
    rsmq: RSMQ[Any],
    queues: Sequence[str],
    number: int | None,
    *,
    all_of_them: bool,
) -> list[_FollowedQueue]:
    """Return the queues, each begun, of all cells that can be reached."""
    followed: list[_FollowedQueue] = []
    for queue in queues:

        def begin(client: RSMQ[Any], queue: str = queue) -> _FollowedQueue:
            started = _FollowedQueue(client, queue)
            started.start(number, all_of_them=all_of_them)
            return started

        by_cell = rsmq.engine.by_cell(begin)
        for cell, each in by_cell.items():
            each.cell, each.show_id = cell, partial(rsmq.engine.show_id, cell)
        _keep_last(list(by_cell.values()), number)
        followed += by_cell.values()
    return followed


def _keep_last(of_cells: list[_FollowedQueue], number: int | None) -> None:
    """Of the last messages of each cell, keep the last ones of all."""
    ordered = sorted(
        (message.visible_at_ms, cell, place)
        for cell, each in enumerate(of_cells)
        for place, message in enumerate(each.initial)
    )
    kept = {(cell, place) for _, cell, place in ordered[-(number or len(ordered) or 1) :]}
    for cell, each in enumerate(of_cells):
        each.initial = [
            message for place, message in enumerate(each.initial) if (cell, place) in kept
        ]


def _follow(
    call: Call, followed: list[_FollowedQueue], interval: float, *, has_queue_column: bool
) -> None:
    from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

    write = partial(_write_message, call, has_queue_column=has_queue_column)
    unreachable: set[int] = set()
    while True:
        started_at = time.monotonic()
        failed: set[int] = set()
        for each in followed:
            if each.cell in failed:
                continue
            try:
                each.poll(write)
            except RedisError as error:
                report = describe_error(error)
                if report is None or report.exit is not Exit.UNREACHABLE:
                    raise
                failed.add(each.cell)
                if each.cell not in unreachable:
                    prefix = "" if call.cells is None else f"cell {each.cell}: "
                    call.out.note(prefix + report.line(as_json=False))
        unreachable = failed
        call.out.flush()
        seconds = time.monotonic() - started_at
        time.sleep(max(interval, 0.5) if unreachable else pause_after_poll(interval, seconds))


def _write_message(call: Call, message: StoredMessage, *, has_queue_column: bool) -> None:
    if call.as_json:
        call.out.write(json.dumps(to_json_value(message)).encode() + b"\n")
        return
    cells = [format_time(message.sent_ms), format_text(message.id), f"{message.state:9}"]
    cells = [format_text(message.queue)] * has_queue_column + cells
    prefix = "  ".join([*cells, ""])
    line = truncate(prefix + format_body(message.raw), call.out.width, keep=len(prefix))
    call.out.result(None, line)


class _FollowedQueue:
    """A queue of one cell, or of a plain client."""

    def __init__(self, rsmq: RSMQ[Any], queue: str) -> None:
        self._rsmq = rsmq
        self._name = queue
        self._follower = QueueFollower(rsmq.namespace.queue(queue), BODY_CODEC)
        #: The number of its cell, and what returns an id as it is shown.
        self.cell = 0
        self.show_id: Callable[[str], str] = str
        #: The messages that the first poll shows.
        self.initial: list[StoredMessage] = []

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
            self.initial = self._rsmq.peek_messages(self._name, -number, number)
        if not all_of_them:
            self._rsmq.run_steps(self._follower.start())

    def poll(self, write: Callable[[StoredMessage], None]) -> None:
        """Write the messages that were added or became due since the last poll, each only once."""

        def take(messages: list[StoredMessage]) -> None:
            for message in messages:
                write(replace(message, id=self.show_id(message.id)))

        initial, self.initial = self.initial, []
        take(self._follower.skip_found(initial))
        self._rsmq.run_steps(self._follower.poll(take))
