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

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import DURATION, command, queues_argument
from rsmq.cli.app.errors import ErrorReport, Failed, describe_error
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import format_table, format_text, to_json_value
from rsmq.cli.commands.figures import SORTS, Figures, FiguresReader, sort_figures, sum_figures
from rsmq.cli.commands.queues import note_unreadable_queues


@command("top", "rsmq top", "rsmq top 'orders*' --interval 5s", "rsmq top --once --sort visible")
@queues_argument(required=False)
@click.option(
    "--interval", type=DURATION, default=1, show_default=True, metavar="DURATION",
    help="The time between two readings; more than 0.",
)  # fmt: skip
@click.option("--sort", "by", type=click.Choice(SORTS), default="queue", show_default=True)
@click.option("--once", is_flag=True, help="Read once, without rates, and end.")
@click.pass_obj
def top(
    call: Call, queues: tuple[str, ...], interval: float, by: str, *, once: bool
) -> Exit | None:
    """
    Watch queues: counts, rates and the oldest message.

    Without a QUEUE it shows all listed queues; a pattern shows those that match it. A narrow
    terminal shows fewer columns. The key q quits, and s sorts by the next column. The
    column "dead" has the number of messages in the dead-letter queue of the queue. A number after ~
    is an estimate, for a queue of more than 10,000 messages: 400 hidden messages are looked at, and
    the message that is received next counts as the oldest. If the output is not a
    terminal, the table is printed once. With --json it prints one document per line until Ctrl-C.
    """
    if interval <= 0:
        raise click.UsageError("--interval is more than 0.")
    with call.open() as rsmq:
        reader = FiguresReader(rsmq, queues)
        first = reader.read()  # an error of the first reading ends the program
        if once or not (call.as_json or sys.stdout.isatty()):
            _write_figures(call, sort_figures(first, by), reader)
            if report := reader.describe_failed_cells():
                raise Failed(report.text, exit=report.exit, code=report.code, hint=report.hint)
            return note_unreadable_queues(call, reader.unreadable)
        try:
            if call.as_json:
                _write_repeatedly(call, reader, first, interval, by)
            else:
                _draw_repeatedly(reader, first, interval, by)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return None


def _write_figures(call: Call, figures: list[Figures], reader: FiguresReader) -> None:
    from rsmq.cli.commands.top_screen import (  # noqa: PLC0415 - rich takes time to import
        HEADINGS,
        fit_columns,
        format_rows,
    )

    lines: list[str] = []
    if not call.as_json:
        rows = format_rows(figures)
        names = fit_columns(rows, call.out.width)
        lines = format_table(
            [HEADINGS[name] for name in names],
            [row[: len(names)] for row in rows],
            number_columns=range(1, len(HEADINGS)),
        )
    call.out.result(_document(figures, reader), lines)
    call.out.flush()


def _document(figures: list[Figures], reader: FiguresReader) -> dict[str, Any]:
    failed_cells = reader.describe_failed_cells()
    return {
        "time_ms": round(time.time() * 1000),
        "queues": [to_json_value(each) for each in figures],
        "totals": sum_figures(figures),
        "left_out": dict(reader.unreadable),
        **({} if failed_cells is None else {"failed_cells": failed_cells.text}),
    }


def _write_repeatedly(
    call: Call, reader: FiguresReader, figures: list[Figures], interval: float, by: str
) -> None:
    error_report: ErrorReport | None = None
    while True:
        if error_report is None:
            _write_figures(call, sort_figures(figures, by), reader)
        else:
            call.out.write(
                json.dumps({"error": error_report.code, "message": error_report.text}).encode()
            )
            call.out.write(b"\n")
            call.out.flush()
        time.sleep(interval)
        figures, error_report = _read_or_keep(reader, figures)


def _draw_repeatedly(
    reader: FiguresReader, figures: list[Figures], interval: float, by: str
) -> None:
    from rsmq.cli.commands.top_screen import open_screen  # noqa: PLC0415 - rich takes time to import

    error_report: ErrorReport | None = None
    with open_screen() as screen:
        while True:
            error_report = error_report or reader.describe_failed_cells()
            error_text = (
                _format_unreadable(reader.unreadable) if error_report is None else error_report.text
            )
            screen.draw(sort_figures(figures, by), sort_by=by, error=error_text)
            deadline = time.monotonic() + interval
            while (seconds := deadline - time.monotonic()) > 0:
                key = screen.read_key(seconds)
                if key in ("q", "Q", "\x1b"):
                    return
                if key == "s":
                    by = SORTS[(SORTS.index(by) + 1) % len(SORTS)]
                    screen.draw(sort_figures(figures, by), sort_by=by, error=error_text)
            figures, error_report = _read_or_keep(reader, figures)


def _format_unreadable(unreadable: Mapping[str, str]) -> str | None:
    return (
        "; ".join(f"{format_text(queue)}: {reason}" for queue, reason in unreadable.items()) or None
    )


def _read_or_keep(
    reader: FiguresReader, previous: list[Figures]
) -> tuple[list[Figures], ErrorReport | None]:
    """Read the figures. If Redis fails, return the previous figures and the report of the error."""
    from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

    try:
        return reader.read(), None
    except RedisError as error:
        report = describe_error(error)
        if report is None:
            raise
        return previous, report
