"""
Draws plots of measured figures as SVG: ``python -m scripts.benchmark.plots`` writes them.

The colours are readable on a light and on a dark ground.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from scripts.benchmark.figures import show_digits

MEASURED = Path(__file__).parent / "measured"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
_WIDTH, _LABELS, _VALUES, _ROW = 720, 210, 70, 22
_OURS, _OTHERS, _TEXT = "#218bff", "#8c959f", "#6e7781"
_CLIENTS = (
    "rsmq, from_url",
    "rsmq, batches of 100",
    "rsmq, asyncio, 100 at a time",
    "Node rsmq, 1 at a time",
    "Node rsmq, 100 at a time",
    "PyRSMQ",
    "php-rsmq",
    "BullMQ, 1 at a time",
    "BullMQ, 100 at a time",
)


@dataclass(frozen=True, slots=True)
class Panel:
    """
    Bars with a scale of their own.

    Attributes:
        title: what they show, with its unit.
        values: the value of each contender.
    """

    title: str
    values: dict[str, float]


def draw(title: str, panels: list[Panel]) -> str:
    """
    Draw panels below each other.

    Args:
        title: what the whole plot shows.
        panels: its panels.

    Returns:
        The text of the SVG.
    """
    rows: list[str] = []
    y = 0
    for panel in panels:
        y += 30
        rows.append(f'<text x="0" y="{y - 8}" font-weight="600">{escape(panel.title)}</text>')
        scale = (_WIDTH - _LABELS - _VALUES) / max(panel.values.values())
        for name, value in panel.values.items():
            width = max(value * scale, 1)
            colour = _OURS if name.startswith("rsmq") else _OTHERS
            rows.append(
                f'<text x="{_LABELS - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
                f'<rect x="{_LABELS}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="2"'
                f' fill="{colour}"/>'
                f'<text x="{_LABELS + width + 6:.1f}" y="{y + 15}">{show_digits(value)}</text>'
            )
            y += _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 4}" role="img"'
        f' aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="13"'
        f' fill="{_TEXT}">\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _read(name: str) -> Any:
    return json.loads((MEASURED / name).read_text())


def draw_clients() -> str:
    """Draw how many messages of 100 B the clients send, and receive and delete."""
    measured = {
        (each["action"], each["contender"]): each["messages_per_second"]["median"]
        for each in _read("bench.json")["throughput"]
        if each["body_bytes"] == 100  # noqa: PLR2004
    }
    return draw(
        "Messages of 100 B a second, by client",
        [
            Panel(title, {each: measured[action, each] for each in _CLIENTS})
            for action, title in (
                ("send", "sent, messages a second"),
                ("receive", "received and deleted, messages a second"),
            )
        ],
    )


def draw_workers() -> str:
    """Draw how many jobs the workers handle, 8 at a time, by the time of their handler."""
    panels: dict[int, dict[str, float]] = {}
    for each in _read("bench.json")["handler_times"]:
        if each["at_a_time"] == 8:  # noqa: PLR2004
            values = panels.setdefault(each["sleep_ms"], {})
            values[each["contender"]] = each["jobs_per_second"]["median"]
    return draw(
        "Jobs a second of workers, 8 at a time",
        [
            Panel(f"handlers that sleep {sleep_ms} ms, jobs a second", values)
            for sleep_ms, values in panels.items()
        ],
    )


PLOTS = {"bench-clients.svg": draw_clients, "bench-workers.svg": draw_workers}

if __name__ == "__main__":
    for name, plot in PLOTS.items():
        (IMAGES / name).write_text(plot())
