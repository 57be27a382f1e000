"""
The command history.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import Failed
from rsmq.cli.app.output import format_table, format_time, to_json_value
from rsmq.cli.app.send_options import call_options

if TYPE_CHECKING:
    from rsmq.history import History

_HEADINGS = (
    "from", "to", "sent", "received", "visible", "in flight", "delayed", "oldest s",
)  # fmt: skip


@command("history [QUEUE]", "rsmq history orders", "rsmq history --last 1d --step 1h --json")
@options("--last DURATION=3600  How far back; an hour by default.")
@call_options("history")
def history(call: Call, queue: str | None, last: float, step: float) -> None:
    """
    Show what was sent and received, and how many messages there were.

    Without a queue it shows the sums of all queues. All times are in UTC. rsmq web records the
    history once a minute, unless it has --no-record. A dash is a step without a record; a
    row in place of several is what is known of them together.
    """
    if step != int(step):
        raise Failed(f"The step is not in whole seconds: {step}")
    end = datetime.now(UTC)
    try:
        start = end - timedelta(seconds=last)
    except OverflowError:
        raise Failed(f"--last is too long: {last} s") from None
    with call.open() as rsmq:
        found = rsmq.history(queue, start=start, end=end, step=int(step))
    lines = format_table(
        _HEADINGS, _rows(found), number_columns=range(2, len(_HEADINGS)), width=call.out.width
    )
    call.out.result(to_json_value(found), lines)


def _rows(history: History) -> list[tuple[object, ...]]:
    """Return a row for each step, and in place of those of a gap one for all of them."""
    columns = zip(
        history.sent, history.received, history.visible, history.in_flight, history.delayed,
        history.oldest_seconds, strict=True,
    )  # fmt: skip
    step_ms = history.step * 1000
    rows: list[tuple[int, int, tuple[object, ...]]] = [
        (each.start_ms, each.end_ms, (each.sent, each.received, None, None, None, None))
        for each in history.gaps
    ]
    covered = [(each.start_ms, each.end_ms) for each in history.gaps]
    for number, values in enumerate(columns):
        begin = history.start_ms + number * step_ms
        is_in_gap = any(first <= begin and begin + step_ms <= last for first, last in covered)
        if values[0] is not None or not is_in_gap:
            rows.append((begin, begin + step_ms, values))
    rows.sort(key=lambda row: row[:2])
    return [(format_time(begin), format_time(end), *values) for begin, end, values in rows]
