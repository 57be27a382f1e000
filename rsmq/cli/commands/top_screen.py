"""
The screen of ``rsmq top``: its table and its keys.
"""

from __future__ import annotations

import dataclasses
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rsmq.cli.app.output import format_age, format_text
from rsmq.cli.app.signals import handling
from rsmq.cli.commands.figures import Figures, sum_figures
from rsmq.errors import MissingExtra
from rsmq.errors.printable import format_count

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
    "ns": "ns",
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
#: Numbers that are estimated for a long queue, and the columns with other formats.
_ESTIMATED = ("in_flight", "retrying", "delayed", "held_back")
_RATES = ("sent_per_second", "received_per_second")
_AGES = ("oldest_seconds", "due_seconds")


def choose_columns(figures: list[Figures], *, has_namespaces: bool) -> list[str]:
    """
    Return the names of the columns. The column of those held back is there if there are any.

    Args:
        has_namespaces: whether there are several namespaces, which have a column.
    """
    left_out = set() if has_namespaces else {"ns"}
    if not any(each.held_back for each in figures):
        left_out.add("held_back")
    return [name for name in HEADINGS if name not in left_out]


def fit_columns(names: list[str], rows: list[list[str]], width: int | None) -> list[str]:
    """
    Return the names of the columns that fit into a width: without the last ones, if it is narrow.

    The names of the queues are always there.

    Args:
        names: the names of all columns.
        rows: the texts of the table.
        width: the columns of the terminal; with None all fit.
    """
    used = 0
    for place, name in enumerate(names):
        used += max(len(text) for text in (HEADINGS[name], *(row[place] for row in rows)))
        if width is not None and name not in {"ns", "queue"} and used > width:
            return names[:place]
        used += _GAP
    return names


def format_rows(figures: list[Figures], names: list[str]) -> list[list[str]]:
    """
    Return the texts of the table, with a last row of totals if there are several queues.

    Args:
        names: the names of the columns.
    """
    rows = [
        {
            "ns": format_text(each.ns),
            "queue": format_text(each.queue) + (" (paused)" if each.paused else ""),
            **_format_numbers(dataclasses.asdict(each), "~" if each.about else ""),
        }
        for each in figures
    ]
    if len(figures) > 1:
        mark = "~" if any(each.about for each in figures) else ""
        sums = _format_numbers(sum_figures(figures), mark)
        rows.append({"ns": "", "queue": format_count(len(figures), "queue"), **sums})
    return [[row[name] for name in names] for row in rows]


def _format_numbers(values: Mapping[str, Any], mark: str) -> dict[str, str]:
    """Return the texts of the numbers of a row; those that are estimated begin with the mark."""
    texts = {
        **{name: _format_number(values[name]) for name in ("visible", "dead", *_ESTIMATED)},
        **{name: _format_rate(values[name]) for name in _RATES},
        **{name: format_age(values[name]) for name in _AGES},
    }
    marked = (*_ESTIMATED, "oldest_seconds")
    return texts | {name: mark + texts[name] for name in marked if texts[name] != "-"}


def _format_number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _format_rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


class Screen:
    """A terminal screen that draws the table and reads keys."""

    def __init__(self, live: Live, *, keys: bool) -> None:
        self._live = live
        self._keys = keys

    def draw(
        self, figures: list[Figures], *, sort_by: str, error: str | None, has_namespaces: bool
    ) -> None:
        """
        Draw the table.

        Args:
            figures: the figures of the queues, in order.
            sort_by: the name of the figure by which they are sorted; its heading is marked.
            error: a line that replaces the line about keys: an error, or queues that can't be read.
            has_namespaces: whether there are several namespaces, which have a column.
        """
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        all_names = choose_columns(figures, has_namespaces=has_namespaces)
        rows = format_rows(figures, all_names)
        names = fit_columns(all_names, rows, self._live.console.width)
        for name in names:
            heading = HEADINGS[name]
            style = "reverse" if name == sort_by else "bold"
            justify = "left" if name in {"ns", "queue"} else "right"
            table.add_column(Text(heading, style), justify=justify, no_wrap=True)  # type: ignore[arg-type]
        totals = rows[len(figures) :]
        room = max(self._live.console.height - _OTHER_LINES - len(totals), 1)
        shown = rows[: len(figures)]
        if len(shown) > room:
            shown = shown[: room - 1]
            more = f"and {format_count(len(figures) - len(shown), 'queue')} more"
            totals = [[more if name == "queue" else "" for name in all_names], *totals]
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
    ends = (getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
    with handling(_exit, *ends), _unbuffered_keys() as keys:
        live = Live(console=Console(), screen=True, auto_refresh=False)
        with live:
            yield Screen(live, keys=keys)


def _exit(number: int, _: object) -> None:
    """Raise SystemExit, with the exit code that a shell has for a signal."""
    raise SystemExit(128 + number)


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
