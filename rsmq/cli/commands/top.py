"""
The command top.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import ErrorReport, Exit, describe_error
from rsmq.cli.app.output import format_table, format_text, to_json_value
from rsmq.cli.commands.figures import SORTS, Figures, NamespacesReader, sort_figures, sum_figures
from rsmq.cli.commands.queues import note_unreadable_queues


@command(
    "top [QUEUE...]",
    "rsmq top",
    "rsmq top 'orders*' --interval 5s",
    "rsmq top --once --sort visible",
    "rsmq top --ns shop --ns mail",
)
@options(
    """
    --interval DURATION  The time between two readings; more than 0.  [default: 1]
    --sort, by    [default: queue]
    --once  Read once, without rates, and end.
    """,
    by={"type": click.Choice(SORTS), "default": "queue", "show_default": True},
)
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
    With several --ns it shows the queues of each namespace; one that fails is left out.
    """
    if interval <= 0:
        raise click.UsageError("--interval is more than 0.")
    with call.open_each() as clients:
        reader = NamespacesReader(clients, queues)
        first = reader.read()  # an error of the first reading ends the program
        if once or not (call.as_json or sys.stdout.isatty()):
            _write_figures(call, sort_figures(first, by), reader)
            for ns, report in reader.failures.items():
                call.out.note(f"{format_text(ns)}: left out. {report.text}.")
            code = note_unreadable_queues(call, reader.unreadable)
            return Exit.NOT_ALL if reader.failures else code
        try:
            if call.as_json:
                _write_repeatedly(call, reader, first, interval, by)
            else:
                _draw_repeatedly(reader, first, interval, by)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return None


def _write_figures(call: Call, figures: list[Figures], reader: NamespacesReader) -> None:
    from rsmq.cli.commands.top_screen import HEADINGS, choose_columns, fit_columns, format_rows  # noqa: PLC0415 - rich takes time to import

    lines: list[str] = []
    if not call.as_json:
        all_names = choose_columns(figures, has_namespaces=reader.has_several)
        rows = format_rows(figures, all_names)
        names = fit_columns(all_names, rows, call.out.width)
        lines = format_table(
            [HEADINGS[name] for name in names],
            [row[: len(names)] for row in rows],
            number_columns=range(names.index("queue") + 1, len(names)),
        )
    call.out.result(_document(figures, reader), lines)
    call.out.flush()


def _document(figures: list[Figures], reader: NamespacesReader) -> dict[str, Any]:
    failed = {ns: report.text for ns, report in reader.failures.items()}
    return {
        "time_ms": round(time.time() * 1000),
        "queues": [to_json_value(each) for each in figures],
        "totals": sum_figures(figures),
        "left_out": dict(reader.unreadable),
        **({"failed": failed} if failed else {}),
    }


def _write_repeatedly(
    call: Call, reader: NamespacesReader, figures: list[Figures], interval: float, by: str
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
    reader: NamespacesReader, figures: list[Figures], interval: float, by: str
) -> None:
    from rsmq.cli.commands.top_screen import open_screen  # noqa: PLC0415 - rich takes time to import

    error_report: ErrorReport | None = None
    with open_screen() as screen:
        while True:
            error = reader.describe_failures() if error_report is None else error_report.text
            draw = partial(screen.draw, error=error, has_namespaces=reader.has_several)
            draw(sort_figures(figures, by), sort_by=by)
            deadline = time.monotonic() + interval
            while (seconds := deadline - time.monotonic()) > 0:
                key = screen.read_key(seconds)
                if key in ("q", "Q", "\x1b"):
                    return
                if key == "s":
                    by = SORTS[(SORTS.index(by) + 1) % len(SORTS)]
                    draw(sort_figures(figures, by), sort_by=by)
            figures, error_report = _read_or_keep(reader, figures)


def _read_or_keep(
    reader: NamespacesReader, previous: list[Figures]
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
