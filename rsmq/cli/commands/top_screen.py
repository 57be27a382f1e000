"""
The screen of ``rsmq top``: its table and its keys.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rsmq.cli.app.output import format_age, format_text
from rsmq.cli.commands.figures import Figures, sum_figures
from rsmq.errors import MissingExtra
from rsmq.printable import format_count

try:
    from rich.console import Console, Group, RenderableType
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError as error:
    raise MissingExtra("cli", "rsmq top") from error

#: The spaces between two columns.
_GAP = 2

#: The heading, an empty line and the line about keys or an error, which are always shown.
_OTHER_LINES = 3

HEADINGS = {
    "queue": "queue",
    "visible": "visible",
    "in_flight": "in flight",
    "retrying": "retrying",
    "delayed": "delayed",
    "held_back": "held back",
    "dead": "dead",
    "sent_per_second": "sent/s",
    "received_per_second": "received/s",
    "oldest_seconds": "oldest",
    "due_seconds": "due for",
}


def fit_columns(rows: list[list[str]], width: int | None) -> list[str]:
    """
    Return the names of the columns that fit into a width: without the last ones, if it is narrow.

    The names of the queues are always there.

    Args:
        rows: the texts of the table.
        width: the columns of the terminal; with None all fit.
    """
    names = list(HEADINGS)
    if rows and len(rows[0]) < len(names):
        names.remove("held_back")
    used = 0
    for place, name in enumerate(names):
        used += max(len(text) for text in (HEADINGS[name], *(row[place] for row in rows)))
        if width is not None and place > 0 and used > width:
            return names[:place]
        used += _GAP
    return names


def format_rows(figures: list[Figures]) -> list[list[str]]:
    """
    Return the texts of the table, with a last row of totals if there are several queues.

    The column of those held back is there if there are any.
    """
    rows = [
        [
            format_text(each.queue) + (" (paused)" if each.paused else ""),
            f"{each.visible:,}",
            _mark_estimate(each, f"{each.in_flight:,}"),
            _mark_estimate(each, f"{each.retrying:,}"),
            _mark_estimate(each, f"{each.delayed:,}"),
            _mark_estimate(each, f"{each.held_back:,}"),
            _format_number(each.dead),
            _format_rate(each.sent_per_second),
            _format_rate(each.received_per_second),
            _mark_estimate(each, format_age(each.oldest_seconds)),
            format_age(each.due_seconds),
        ]
        for each in figures
    ]
    if len(figures) > 1:
        sums = sum_figures(figures)
        estimate_mark = "~" if any(each.about for each in figures) else ""
        rows.append(
            [
                format_count(len(figures), "queue"),
                _format_number(sums["visible"]),
                estimate_mark + _format_number(sums["in_flight"]),
                estimate_mark + _format_number(sums["retrying"]),
                estimate_mark + _format_number(sums["delayed"]),
                estimate_mark + _format_number(sums["held_back"]),
                _format_number(sums["dead"]),
                _format_rate(sums["sent_per_second"]),
                _format_rate(sums["received_per_second"]),
                estimate_mark + format_age(sums["oldest_seconds"]),
                format_age(sums["due_seconds"]),
            ]
        )
    if not any(each.held_back for each in figures):
        place = list(HEADINGS).index("held_back")
        rows = [row[:place] + row[place + 1 :] for row in rows]
    return rows


def _mark_estimate(each: Figures, text: str) -> str:
    return f"~{text}" if each.about and text != "-" else text


def _format_number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _format_rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


class Screen:
    """A terminal screen that draws the table and reads keys."""

    def __init__(self, live: Live, *, keys: bool) -> None:
        self._live = live
        self._keys = keys

    def draw(self, figures: list[Figures], *, sort_by: str, error: str | None) -> None:
        """
        Draw the table.

        Args:
            figures: the figures of the queues, in order.
            sort_by: the name of the figure by which they are sorted; its heading is marked.
            error: a line that replaces the line about keys: an error, or queues that can't be read.
        """
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        rows = format_rows(figures)
        names = fit_columns(rows, self._live.console.width)
        for name in names:
            heading = HEADINGS[name]
            style = "reverse" if name == sort_by else "bold"
            justify = "left" if name == "queue" else "right"
            table.add_column(Text(heading, style), justify=justify, no_wrap=True)  # type: ignore[arg-type]
        totals = rows[len(figures) :]
        room = max(self._live.console.height - _OTHER_LINES - len(totals), 1)
        shown = rows[: len(figures)]
        if len(shown) > room:
            shown = shown[: room - 1]
            more = f"and {format_count(len(figures) - len(shown), 'queue')} more"
            totals = [[more, *[""] * (len(rows[0]) - 1)], *totals]
        for row in shown:
            table.add_row(*map(Text, row[: len(names)]))
        for row in totals:
            table.add_row(*map(Text, row[: len(names)]), style="bold")
        footer = Text(error, "red") if error else Text("q quits, s sorts", "dim")
        parts: list[RenderableType] = [table, Text(""), footer]
        self._live.update(Group(*parts), refresh=True)

    def read_key(self, seconds: float) -> str | None:
        """Return the key that is pressed within a number of seconds; None if none is."""
        if not self._keys:
            time.sleep(seconds)
            return None
        # Not by sys.stdin, which reads all that is there: select would not see the further keys.
        keyboard = sys.stdin.fileno()
        readable, _, _ = select.select([keyboard], [], [], seconds)
        return os.read(keyboard, 1).decode("latin-1") or "q" if readable else None


@contextmanager
def open_screen() -> Iterator[Screen]:
    """Open a screen on the whole terminal; restore the terminal at the end, also at a SIGTERM."""
    with _exits_at(signal.SIGTERM, getattr(signal, "SIGHUP", None)), _unbuffered_keys() as keys:
        live = Live(console=Console(), screen=True, auto_refresh=False)
        with live:
            yield Screen(live, keys=keys)


@contextmanager
def _exits_at(*signals: signal.Signals | None) -> Iterator[None]:
    """Let a signal raise SystemExit, with the exit code that a shell has for it."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    previous = {each: signal.signal(each, end) for each in signals if each is not None}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _unbuffered_keys() -> Iterator[bool]:
    """Make keys readable without Enter; yield whether the system and the input support it."""
    try:
        import termios  # noqa: PLC0415 - not everywhere
        import tty  # noqa: PLC0415 - as above
    except ImportError:
        yield False
        return
    if not sys.stdin.isatty():
        yield False
        return
    previous_settings = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, previous_settings)
