"""
The command top.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import click
from redis.exceptions import RedisError

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import SECONDS, command, queues_argument
from rsmq.cli.app.errors import Ending, ending_of
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import plain, shown, table
from rsmq.cli.commands.figures import SORTS, Figures, Reader, in_order, totals
from rsmq.cli.commands.queues import tell_odd


@command("top", "rsmq top", "rsmq top orders --interval 5", "rsmq top --once --sort visible")
@queues_argument(required=False)
@click.option(
    "--interval", type=SECONDS, default=1, show_default=True, metavar="SECONDS",
    help="Between two readings.",
)  # fmt: skip
@click.option("--sort", "by", type=click.Choice(SORTS), default="queue", show_default=True)
@click.option("--once", is_flag=True, help="Read once, without rates, and end.")
@click.pass_obj
def top(
    call: Call, queues: tuple[str, ...], interval: float, by: str, *, once: bool
) -> Exit | None:
    """
    Watch queues: counts, rates and the oldest message.

    Without a QUEUE all that are listed. q quits, s sorts by the next column. "dead" counts the
    messages in the queue's dead-letter queue. Of a queue of more than 10,000 messages what stands
    after ~ is an estimate: all that is hidden counts as in flight, the first one due as the oldest.
    Where the output is not a terminal it is printed once; with --json a document a line, until
    Ctrl-C.
    """
    if interval <= 0:
        raise click.UsageError("--interval is more than 0.")
    with call.open() as rsmq:
        reader = Reader(rsmq, queues)
        first = reader.read()  # what is wrong from the start ends it
        if once or not (call.as_json or sys.stdout.isatty()):
            _print(call, in_order(first, by), reader.odd)
            return tell_odd(call, reader.odd)
        try:
            if call.as_json:
                _print_on(call, reader, first, interval, by)
            else:
                _draw_on(reader, first, interval, by)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return None


def _print(call: Call, read: list[Figures], odd: Mapping[str, str]) -> None:
    from rsmq.cli.commands.top_screen import HEADINGS, rows  # noqa: PLC0415 - rich takes time to import

    lines = [] if call.as_json else table(tuple(HEADINGS.values()), rows(read), numbers=range(1, 8))
    call.out.result(_document(read, odd), lines)
    call.out.flush()


def _document(read: list[Figures], odd: Mapping[str, str]) -> dict[str, Any]:
    return {
        "time_ms": round(time.time() * 1000),
        "queues": [plain(each) for each in read],
        "totals": totals(read),
        "left_out": dict(odd),
    }


def _print_on(call: Call, reader: Reader, read: list[Figures], interval: float, by: str) -> None:
    trouble: Ending | None = None
    while True:
        if trouble is None:
            _print(call, in_order(read, by), reader.odd)
        else:
            call.out.write(json.dumps({"error": trouble.code, "message": trouble.text}).encode())
            call.out.write(b"\n")
            call.out.flush()
        time.sleep(interval)
        read, trouble = _read(reader, read)


def _draw_on(reader: Reader, read: list[Figures], interval: float, by: str) -> None:
    from rsmq.cli.commands.top_screen import screen  # noqa: PLC0415 - rich takes time to import

    trouble: Ending | None = None
    with screen() as drawn:
        while True:
            told = _left_out(reader.odd) if trouble is None else trouble.text
            drawn.draw(in_order(read, by), by=by, trouble=told)
            until = time.monotonic() + interval
            while (left := until - time.monotonic()) > 0:
                key = drawn.key(left)
                if key in ("q", "Q", "\x1b"):
                    return
                if key == "s":
                    by = SORTS[(SORTS.index(by) + 1) % len(SORTS)]
                    drawn.draw(in_order(read, by), by=by, trouble=told)
            read, trouble = _read(reader, read)


def _left_out(odd: Mapping[str, str]) -> str | None:
    return "; ".join(f"{shown(queue)}: {why}" for queue, why in odd.items()) or None


def _read(reader: Reader, before: list[Figures]) -> tuple[list[Figures], Ending | None]:
    """How the queues stand; or how they stood, and why that can't be read now."""
    try:
        return reader.read(), None
    except RedisError as error:
        ending = ending_of(error)
        if ending is None:
            raise
        return before, ending
