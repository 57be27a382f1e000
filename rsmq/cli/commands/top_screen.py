"""
The screen of ``rsmq top``: its table and its keys.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rsmq.cli.app.output import shown
from rsmq.cli.commands.figures import Figures, totals

HEADINGS = {
    "queue": "queue",
    "visible": "visible",
    "in_flight": "in flight",
    "delayed": "delayed",
    "dead": "dead",
    "sent_per_second": "sent/s",
    "received_per_second": "received/s",
    "oldest_seconds": "oldest",
}


def rows(read: list[Figures]) -> list[list[str]]:
    """The texts of the table, and below them the totals."""
    told = [
        [
            shown(each.queue) + (" (paused)" if each.paused else ""),
            f"{each.visible:,}",
            _about(each, f"{each.in_flight:,}"),
            "-" if each.about else f"{each.delayed:,}",
            _number(each.dead),
            _rate(each.sent_per_second),
            _rate(each.received_per_second),
            _about(each, _age(each.oldest_seconds)),
        ]
        for each in read
    ]
    if len(read) > 1:
        sums = totals(read)
        about = "~" if any(each.about for each in read) else ""
        told.append(
            [
                f"{len(read)} queues",
                _number(sums["visible"]),
                about + _number(sums["in_flight"]),
                about + _number(sums["delayed"]),
                _number(sums["dead"]),
                _rate(sums["sent_per_second"]),
                _rate(sums["received_per_second"]),
                about + _age(sums["oldest_seconds"]),
            ]
        )
    return told


def _about(each: Figures, text: str) -> str:
    return f"~{text}" if each.about and text != "-" else text


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


def _age(seconds: float | None) -> str:
    """An age in its two largest units."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    for unit, smaller, size, small in (("d", "h", 86_400, 3600), ("h", "m", 3600, 60)):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // small}{smaller}"
    return f"{whole // 60}m {whole % 60}s" if whole >= 60 else f"{whole}s"  # noqa: PLR2004 - a minute


class Screen:
    """Draws, and tells which keys are pressed."""

    def __init__(self, live: Live, *, keys: bool) -> None:
        self._live = live
        self._keys = keys

    def draw(self, read: list[Figures], *, by: str, trouble: str | None) -> None:
        """
        Draw the table.

        Args:
            read: how the queues stand, in order.
            by: what they are sorted by.
            trouble: what is wrong with Redis now; None if nothing is.
        """
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name, heading in HEADINGS.items():
            marked = "reverse" if name == by else "bold"
            justify = "left" if name == "queue" else "right"
            table.add_column(Text(heading, marked), justify=justify, no_wrap=True)  # type: ignore[arg-type]
        told = rows(read)
        for at, row in enumerate(told):
            is_sum = len(told) > len(read) and at == len(told) - 1
            table.add_row(*map(Text, row), style="bold" if is_sum else "")
        foot = Text(trouble, "red") if trouble else Text("q quits, s sorts", "dim")
        parts: list[RenderableType] = [table, Text(""), foot]
        self._live.update(Group(*parts), refresh=True)

    def key(self, seconds: float) -> str | None:
        """The key that is pressed within a time; None if none is."""
        if not self._keys:
            time.sleep(seconds)
            return None
        readable, _, _ = select.select([sys.stdin], [], [], seconds)
        return sys.stdin.read(1) or "q" if readable else None


@contextmanager
def screen() -> Iterator[Screen]:
    """The whole terminal, until it is left; then it is as it was."""
    with _keys_at_once() as keys:
        live = Live(console=Console(), screen=True, auto_refresh=False)
        with live:
            yield Screen(live, keys=keys)


@contextmanager
def _keys_at_once() -> Iterator[bool]:
    """Let keys be read without Enter, where there is a way; whether there is."""
    try:
        import termios  # noqa: PLC0415 - not everywhere
        import tty  # noqa: PLC0415 - as above
    except ImportError:
        yield False
        return
    if not sys.stdin.isatty():
        yield False
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
