"""
The plots of a report.
"""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.ticker

from rsmq.errors.printable import escape_unprintable
from rsmq.spark.pipelines.bins import choose_bins, choose_unit
from rsmq.spark.pipelines.tables import Rows

mpl.use("Agg")  # files only, on machines without a screen

from matplotlib import dates
from matplotlib import pyplot as plt

#: Untyped, unlike the rest of matplotlib.
time_axis: Any = dates

_DEAD = "#a13232"
_STATES = {
    "visible": "#3274a1", "in_flight": "#e1812c", "retrying": "#c03d3e", "held_back": "#9372b2",
    "delayed": "#b0b0b0",
}  # fmt: skip
#: The names of parts in legends.
_PARTS = {
    "in_flight": "in flight", "held_back": "held back", "age_p50": "median", "age_p90": "90 %",
    "age_p99": "99 %",
}  # fmt: skip
#: More lines would be hard to distinguish; smaller queues are left out, and the title reports it.
_MAX_LINES = 10
#: The longest label; the rest of a longer one is left out.
_MAX_LABEL_CHARACTERS = 40

#: The length of the axis of stacked bars, relative to the longest bar: numbers are behind the bars.
_ROOM_FOR_NUMBERS = 1.15

#: The length of a dash of a line that covers an equal one.
_DASH_POINTS = 4.0

#: Texts are data: a dollar sign does not begin a formula.
_STYLE: Any = {"text.parse_math": False, "svg.hashsalt": "rsmq"}


def write_png(folder: Path, tables: dict[str, Rows]) -> list[str]:
    """Write plots of the tables of a report into a folder, and return the paths of the files."""
    files = []
    for name, figure in draw(tables):
        files.append(str(folder / f"{name}.png"))
        figure.savefig(files[-1], dpi=120)
    return files


def draw_svg(tables: dict[str, Rows]) -> dict[str, bytes]:
    """Return plots of the tables of a report by name, as SVG that needs no other file."""
    plots = {}
    for name, figure in draw(tables):
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
        plots[name] = file.getvalue()
    return plots


def draw(tables: dict[str, Rows]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the figure of each plot; a figure is open until the next one."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box; the tables have it.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        for name, figure in _draw_figures(tables):
            yield name, figure
            plt.close(figure)


def _draw_figures(tables: dict[str, Rows]) -> Iterator[tuple[str, Any]]:
    ages = {"age_p50": "#8cb4d2", "age_p90": "#3274a1", "age_p99": "#1c4461"}
    longest = max((row[name] or 0 for row in tables["queues"] for name in ages), default=0)
    unit, seconds = choose_unit(longest)
    in_unit = tuple(
        {**row, **{name: (row[name] or 0) / seconds for name in ages}} for row in tables["queues"]
    )
    yield "depth", _draw_bars(tables["queues"], _STATES, "Messages", "messages")
    yield "age", _draw_bars(in_unit, ages, "Age of messages, percentiles", unit, stacked=False)
    yield "receive_counts", _draw_receive_counts(tables["receive_counts"])
    yield "by_minute", _draw_by_minute(tables["by_minute"], "queue", "Messages sent", "queues")
    if tables["dead_by_cause"]:
        by_cause, by_worker = tables["dead_by_cause"], tables["dead_by_worker"]
        yield "dead_by_cause", _draw_totals(by_cause, "cause", "Dead letters by cause")
        yield "dead_by_worker", _draw_totals(by_worker, "worker", "Dead letters by worker")
        yield (
            "dead_by_minute",
            _draw_by_minute(tables["dead_by_minute"], "cause", "Dead letters over time", "causes"),
        )


def _make_label(text: str) -> str:
    """Return a text as a label: on one line, not too long, and shown in legends."""
    label = escape_unprintable(text)
    if len(label) > _MAX_LABEL_CHARACTERS:
        label = label[: _MAX_LABEL_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"
    # A legend leaves out labels that begin with an underscore.
    return f" {label}" if label.startswith("_") else label


def _draw_totals(rows: Rows, column: str, title: str) -> Any:
    """Draw the messages of each value of a column, of all queues together."""
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row[column]] += row["messages"]
    largest = totals.most_common(_MAX_LINES)
    shown = tuple({"queue": name, "messages": number} for name, number in largest)
    if left_out := len(totals) - len(shown):
        title += f" ({left_out} smaller ones left out)"
    return _draw_bars(shown, {"messages": _DEAD}, title, "messages")


def _draw_bars(
    rows: Rows, parts: dict[str, str], title: str, unit: str, *, stacked: bool = True
) -> Any:
    names = [_make_label(row["queue"]) for row in rows]
    figure, axes = plt.subplots(figsize=(9, max(2.0, 0.5 * len(names) + 1)), layout="constrained")
    begin = [0.0] * len(names)
    height = 0.8 if stacked else 0.8 / len(parts)
    for place, (part, colour) in enumerate(parts.items()):
        widths = [row[part] or 0 for row in rows]
        positions = [
            row + (0 if stacked else (place - len(parts) / 2 + 0.5) * height)
            for row in range(len(names))
        ]
        bars = axes.barh(
            positions,
            widths,
            height,
            begin if stacked else None,
            label=_PARTS.get(part, part),
            color=colour,
        )
        begin = [left + width for left, width in zip(begin, widths, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_xlim(left=0)
    if stacked:  # a bar of few messages can't be seen beside one of many
        axes.bar_label(bars, [f"{total:,.0f}" for total in begin], padding=3)
        axes.set_xlim(right=_ROOM_FOR_NUMBERS * max(begin, default=0) or 1)
    axes.set_title(title)
    if unit == "messages":
        axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    if len(parts) > 1:
        figure.legend(loc="outside right upper")
    return figure


def _draw_receive_counts(rows: Rows) -> Any:
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    queues = sorted({row["queue"] for row in rows})
    counts = range(max((row["receive_count"] for row in rows), default=0) + 1)
    bottoms = [0] * len(counts)
    for queue in queues:
        messages = {row["receive_count"]: row["messages"] for row in rows if row["queue"] == queue}
        heights = [messages.get(count, 0) for count in counts]
        axes.bar(counts, heights, bottom=bottoms, label=_make_label(queue))
        bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
    axes.set_xticks(counts, [f"{count}+" if count == 10 else str(count) for count in counts])  # noqa: PLR2004
    axes.set_xlabel("times received")
    axes.set_ylabel("messages")
    axes.set_title("Receive counts")
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    if 0 < len(queues) <= _MAX_LINES:
        figure.legend(loc="outside right upper")
    return figure


def _choose_styles(lines: dict[str, Any]) -> dict[str, Any]:
    """Return the style of each line: equal lines have dashes in turn, so that all are visible."""
    equal: dict[tuple[Any, ...], list[str]] = {}
    for name, values in lines.items():
        equal.setdefault(tuple(values), []).append(name)
    styles: dict[str, Any] = dict.fromkeys(lines, "-")
    for names in equal.values():
        for place, name in enumerate(names[1:], 1):  # the first one shows between the dashes
            period = _DASH_POINTS * len(names)
            pattern = _DASH_POINTS, period - _DASH_POINTS
            styles[name] = period - _DASH_POINTS * place, pattern
    return styles


def _draw_by_minute(rows: Rows, column: str, title: str, things: str) -> Any:
    """Draw the messages by time, with a line for each value of a column."""
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    totals: dict[str, int] = {}
    for row in rows:
        totals[row[column]] = totals.get(row[column], 0) + row["messages"]
    shown = sorted(totals, key=lambda name: -totals[name])[:_MAX_LINES]
    if shown:
        bins = choose_bins(row["minute"] for row in rows)
        width = timedelta(seconds=bins.seconds)
        starts = [bins.starts[0] - width, *bins.starts]
        edges = [time_axis.date2num(start + width) for start in starts]
        counts = {
            name: bins.count(
                [(row["minute"], row["messages"]) for row in rows if row[column] == name]
            )
            for name in sorted(shown)
        }
        for name, style in _choose_styles(counts).items():
            axes.stairs(
                counts[name], edges, label=_make_label(name), linewidth=1.5, linestyle=style
            )
        margin = edges[1] - edges[0]
        axes.set_xlim(edges[0] - margin, edges[-1] + margin)
        axes.xaxis_date("UTC")
        locator = time_axis.AutoDateLocator(minticks=2, maxticks=8, tz="UTC")
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(time_axis.ConciseDateFormatter(locator, tz="UTC"))
        axes.set_ylabel(f"messages per {bins.name}")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
        figure.legend(loc="outside right upper")
    left_out = len(totals) - len(shown)
    axes.set_title(title + (f" ({left_out} smaller {things} left out)" if left_out else ""))
    axes.set_xlabel("time (UTC)")
    return figure
