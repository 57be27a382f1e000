"""
The command tail, which shows new messages and changes nothing.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Iterator

import click
from redis.exceptions import RedisError

from rsmq.cli.app.call import BODY, Call
from rsmq.cli.app.command import SECONDS, command, queues_argument
from rsmq.cli.app.errors import ending_of
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import plain, shortened, shown, shown_body, shown_time
from rsmq.client import RSMQ
from rsmq.model import StoredMessage
from rsmq.operations.inspection import new_messages, start_position
from rsmq.operations.walk import Position
from rsmq.wire.keys import QueueKeys

#: How long after its time a message may come, ms: some clients take the time first, then send.
_LATE = 1000
#: Ids of a queue that are remembered, so that no message is shown twice.
_REMEMBERED = 100_000
#: A look takes at most this part of the time; seconds between two at most.
_SHARE, _LONGEST = 0.1, 2.0


@command("tail", "rsmq tail orders", "rsmq tail orders-dead -n 10 --json")
@queues_argument()
@click.option(
    "--number", "-n", type=int, metavar="N", help="First the last N there are, 1 to 10,000."
)
@click.option("--from-start", is_flag=True, help="First all there are.")
@click.option(
    "--interval", type=SECONDS, default=0.1, show_default=True, metavar="SECONDS",
    help="Between two looks.",
)  # fmt: skip
@click.pass_obj
def tail(
    call: Call, queues: tuple[str, ...], number: int | None, interval: float, *, from_start: bool
) -> Exit | None:
    """
    Show messages as they come, and leave them alone.

    Until Ctrl-C. It looks at the queue many times a second and changes nothing: what is deleted
    between two looks is not seen, so that of a queue with quick consumers it shows a part. Shown
    are messages that are sent (delayed ones at once), dead letters that arrive, and, of those that
    were there before, the ones that come back after a visibility timeout; not those that rsmq move
    brings before anybody has received them. With --json a document a line.
    """
    if number is not None and from_start:
        raise click.UsageError("Give --number or --from-start, one of them.")
    if interval <= 0:
        raise click.UsageError("--interval is more than 0.")
    with call.open() as rsmq:
        try:
            followed = [_Followed(rsmq, queue) for queue in dict.fromkeys(queues)]
            for each in followed:
                each.begin(number, all_of_them=from_start)
            _follow(call, followed, interval)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return None


def _follow(call: Call, followed: list[_Followed], interval: float) -> None:
    lost = False
    while True:
        began = time.monotonic()
        try:
            for each in followed:
                for message in each.look():
                    _show(call, message, several=len(followed) > 1)
            lost = False
        except RedisError as error:
            ending = ending_of(error)
            if ending is None or ending.exit is not Exit.UNREACHABLE:
                raise
            if not lost:
                call.out.note(ending.line(as_json=False))
            lost = True
        call.out.flush()
        took = time.monotonic() - began
        time.sleep(max(interval, 0.5 if lost else min(took / _SHARE, _LONGEST)))


def _show(call: Call, message: StoredMessage, *, several: bool) -> None:
    if call.as_json:
        call.out.write(json.dumps(plain(message)).encode() + b"\n")
        return
    cells = [shown_time(message.sent_ms), shown(message.id), f"{message.state:9}"]
    cells = [shown(message.queue)] * several + cells
    head = "  ".join([*cells, ""])
    line = shortened(head + shown_body(message.raw), call.out.width, behind=len(head))
    call.out.result(None, line)


class _Followed:
    """
    A queue, and what was shown of it.

    A look walks through what came since shortly before the look before, and leaves out what it
    knows: so what comes late is not missed.
    """

    def __init__(self, rsmq: RSMQ, queue: str) -> None:
        self._rsmq = rsmq
        self._keys: QueueKeys = rsmq.namespace.queue(queue)
        self._shown: OrderedDict[str, None] = OrderedDict()
        self._first: list[StoredMessage] = []
        self._begin = self._since = 0

    def begin(self, number: int | None, *, all_of_them: bool) -> None:
        """
        Begin now, or with what is there.

        Raises:
            QueueNotFound: there is no such queue.
            InvalidValue: the number is out of range.
        """
        if number is not None:
            self._first = self._rsmq.peek_messages(self._keys.name, -number, number)
        if not all_of_them:
            nothing = new_messages(self._keys, (b"+inf", b"0"), 0, front=False, codec=BODY)
            self._begin = self._since = self._rsmq.run(nothing).now_ms

    def look(self) -> Iterator[StoredMessage]:
        """What came since the last look."""
        first, self._first = self._first, []
        yield from self._unknown(first)
        now = None
        for front in (True, False):
            position: Position | None = start_position(self._since, front=front)
            while position is not None:
                found = self._rsmq.run(
                    new_messages(self._keys, position, self._since, front=front, codec=BODY)
                )
                now = found.now_ms if now is None else now
                yield from self._unknown(found.messages)
                position = found.position
        if now is not None:
            self._since = max(self._begin, now - _LATE)

    def _unknown(self, messages: list[StoredMessage]) -> Iterator[StoredMessage]:
        for message in messages:
            if message.id not in self._shown:
                self._shown[message.id] = None
                yield message
        while len(self._shown) > _REMEMBERED:
            self._shown.popitem(last=False)
