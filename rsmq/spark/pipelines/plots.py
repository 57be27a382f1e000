"""
The plots of a report.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.ticker

from rsmq.spark.pipelines.bins import choose_bins, choose_unit

mpl.use("Agg")  # files only, on machines without a screen

from matplotlib import dates
from matplotlib import pyplot as plt

#: Untyped, unlike the rest of matplotlib.
time_axis: Any = dates

Rows = tuple[dict[str, Any], ...]

_STATES = {"visible": "#3274a1", "in_flight": "#e1812c", "delayed": "#b0b0b0"}
#: More lines would be hard to distinguish; smaller queues are left out, and the title reports it.
_MAX_LINES = 10


def draw(folder: Path, tables: dict[str, Rows]) -> list[str]:
    """Write plots of the tables of a report into a folder, and return the paths of the files."""
    ages = {"age_p50": "#8cb4d2", "age_p90": "#3274a1", "age_p99": "#1c4461"}
    longest = max((row[name] or 0 for row in tables["queues"] for name in ages), default=0)
    unit, seconds = choose_unit(longest)
    in_unit = tuple(
        {**row, **{name: (row[name] or 0) / seconds for name in ages}} for row in tables["queues"]
    )
    files = [
        _draw_bars(folder / "depth.png", tables["queues"], _STATES, "Messages", "messages"),
        _draw_bars(
            folder / "age.png",
            in_unit,
            ages,
            "Age of messages, percentiles",
            unit,
            stacked=False,
        ),
        _draw_receive_counts(folder / "receive_counts.png", tables["receive_counts"]),
        _draw_by_minute(folder / "by_minute.png", tables["by_minute"]),
    ]
    return [str(file) for file in files]


def _draw_bars(
    file: Path, rows: Rows, parts: dict[str, str], title: str, unit: str, *, stacked: bool = True
) -> Path:
    names = [row["queue"] for row in rows]
    figure, axes = plt.subplots(figsize=(9, max(2.0, 0.5 * len(names) + 1)), layout="constrained")
    begin = [0.0] * len(names)
    height = 0.8 if stacked else 0.8 / len(parts)
    for place, (part, colour) in enumerate(parts.items()):
        widths = [row[part] or 0 for row in rows]
        positions = [
            row + (0 if stacked else (place - len(parts) / 2 + 0.5) * height)
            for row in range(len(names))
        ]
        axes.barh(positions, widths, height, begin if stacked else None, label=part, color=colour)
        begin = [left + width for left, width in zip(begin, widths, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_xlim(left=0)
    axes.set_title(title)
    figure.legend(loc="outside right upper")
    return _save(figure, file)


def _draw_receive_counts(file: Path, rows: Rows) -> Path:
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    queues = sorted({row["queue"] for row in rows})
    counts = range(max((row["receive_count"] for row in rows), default=0) + 1)
    bottoms = [0] * len(counts)
    for queue in queues:
        messages = {row["receive_count"]: row["messages"] for row in rows if row["queue"] == queue}
        heights = [messages.get(count, 0) for count in counts]
        axes.bar(counts, heights, bottom=bottoms, label=queue)
        bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
    axes.set_xticks(counts, [f"{count}+" if count == 10 else str(count) for count in counts])  # noqa: PLR2004
    axes.set_xlabel("times received")
    axes.set_ylabel("messages")
    axes.set_title("Receive counts")
    if 0 < len(queues) <= _MAX_LINES:
        figure.legend(loc="outside right upper")
    return _save(figure, file)


def _draw_by_minute(file: Path, rows: Rows) -> Path:
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["queue"]] = totals.get(row["queue"], 0) + row["messages"]
    shown = sorted(totals, key=lambda queue: -totals[queue])[:_MAX_LINES]
    if shown:
        bins = choose_bins(row["minute"] for row in rows)
        width = timedelta(seconds=bins.seconds)
        starts = [bins.starts[0] - width, *bins.starts]
        edges = [time_axis.date2num(start + width) for start in starts]
        for queue in sorted(shown):
            numbers = [(row["minute"], row["messages"]) for row in rows if row["queue"] == queue]
            axes.stairs(bins.count(numbers), edges, label=queue, linewidth=1.5)
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
    axes.set_title("Messages sent" + (f" ({left_out} smaller queues left out)" if left_out else ""))
    axes.set_xlabel("time (UTC)")
    return _save(figure, file)


def _save(figure: Any, file: Path) -> Path:
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return file
