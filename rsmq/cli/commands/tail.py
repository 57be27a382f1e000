"""
The command tail, which shows new messages and changes nothing.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
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
from rsmq.operations.inspection import new_messages, start_position
from rsmq.operations.walk import Position
from rsmq.wire.keys import QueueKeys

if TYPE_CHECKING:
    from rsmq._sync.cells import Cells
    from rsmq._sync.client import RSMQ

#: A message may appear so long after its sent time, because some clients read the time first and
#: send later.
_LATE_MS = 1000
#: The most ids of a queue that are remembered, so that no message is shown twice.
_MAX_REMEMBERED_IDS = 100_000
#: Polling takes at most this share of the time.
_MAX_POLLING_SHARE = 0.1
#: The pause for that is at most so long.
_MAX_PAUSE_SECONDS = 2.0


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
            if report := call.describe_failed_cells():
                call.out.note(report.line(as_json=False))
            _follow(call, followed, interval, has_queue_column=len(names) > 1)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return None


def _start(
    rsmq: RSMQ[Any] | Cells,
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

    unreachable: set[int] = set()
    while True:
        started_at = time.monotonic()
        failed: set[int] = set()
        for each in followed:
            if each.cell in failed:
                continue
            try:
                for message in each.poll():
                    _write_message(call, message, has_queue_column=has_queue_column)
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
        time.sleep(
            max(
                interval,
                0.5 if unreachable else min(seconds / _MAX_POLLING_SHARE, _MAX_PAUSE_SECONDS),
            )
        )


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
    """
    A queue, and the ids of its messages that were shown.

    A poll reads the messages since shortly before the previous poll, and leaves out those that were
    shown. So it also finds messages that appear a little after their sent time.
    """

    def __init__(self, rsmq: RSMQ[Any], queue: str) -> None:
        self._rsmq = rsmq
        #: The number of its cell, and what returns an id as it is shown.
        self.cell = 0
        self.show_id: Callable[[str], str] = str
        self._keys: QueueKeys = rsmq.namespace.queue(queue)
        self._shown_ids: OrderedDict[str, None] = OrderedDict()
        #: The messages that the first poll shows.
        self.initial: list[StoredMessage] = []
        self._start_ms = self._since_ms = 0

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
            self.initial = self._rsmq.peek_messages(self._keys.name, -number, number)
        if not all_of_them:
            no_messages = new_messages(
                self._keys, (b"+inf", b"0"), 0, front=False, codec=BODY_CODEC
            )
            self._start_ms = self._since_ms = self._rsmq.run(no_messages).now_ms

    def poll(self) -> Iterator[StoredMessage]:
        """Yield the messages that were added or became due since the last poll, each only once."""
        initial, self.initial = self.initial, []
        yield from self._skip_shown(initial)
        now = None
        for front in (True, False):
            position: Position | None = start_position(self._since_ms, front=front)
            while position is not None:
                found = self._rsmq.run(
                    new_messages(
                        self._keys, position, self._since_ms, front=front, codec=BODY_CODEC
                    )
                )
                now = found.now_ms if now is None else now
                yield from self._skip_shown(found.messages)
                position = found.position
        if now is not None:
            self._since_ms = max(self._start_ms, now - _LATE_MS)

    def _skip_shown(self, messages: list[StoredMessage]) -> Iterator[StoredMessage]:
        for message in messages:
            if message.id not in self._shown_ids:
                self._shown_ids[message.id] = None
                yield replace(message, id=self.show_id(message.id))
        while len(self._shown_ids) > _MAX_REMEMBERED_IDS:
            self._shown_ids.popitem(last=False)
