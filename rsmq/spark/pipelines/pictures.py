"""
The pictures of a report, and its HTML page with them inside: it loads nothing, and runs no script.

Names of queues and reasons of dead letters are written by others: each text is escaped.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.ticker

from rsmq.errors.printable import escape_unprintable, format_count
from rsmq.spark.pipelines.queues import MAX_RECEIVE_COUNT, Rows

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
_AGES = {"age_p50": "#8cb4d2", "age_p90": "#3274a1", "age_p99": "#1c4461"}
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
_CONTEXT: Any = {"text.parse_math": False, "svg.hashsalt": "rsmq"}


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
    with mpl.rc_context(_CONTEXT), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box; the tables have it.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        for name, figure in _draw_figures(tables):
            yield name, figure
            plt.close(figure)


def _draw_figures(tables: dict[str, Rows]) -> Iterator[tuple[str, Any]]:
    queues, dead = tables["queues"], tables["dead_by_cause"]
    longest = max((row[name] or 0 for row in queues for name in _AGES), default=0)
    unit, seconds = choose_unit(longest)
    in_unit = [{**row, **{name: (row[name] or 0) / seconds for name in _AGES}} for row in queues]
    yield "depth", _draw_bars(queues, _STATES, "Messages", "messages")
    yield "age", _draw_bars(in_unit, _AGES, "Age of messages, percentiles", unit, stacked=False)
    yield "receive_counts", _draw_receive_counts(tables["receive_counts"])
    yield "by_minute", _draw_by_minute(tables["by_minute"], "queue", "Messages sent", "queues")
    if dead:
        by_worker, by_minute = tables["dead_by_worker"], tables["dead_by_minute"]
        yield "dead_by_cause", _draw_totals(dead, "cause", "Dead letters by cause")
        yield "dead_by_worker", _draw_totals(by_worker, "worker", "Dead letters by worker")
        title = "Dead letters over time"
        yield "dead_by_minute", _draw_by_minute(by_minute, "cause", title, "causes")


def _make_label(text: str) -> str:
    """Return a text as a label: on one line, not too long, and shown in legends."""
    label = escape_unprintable(text)
    if len(label) > _MAX_LABEL_CHARACTERS:
        label = label[: _MAX_LABEL_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"
    # A legend leaves out labels that begin with an underscore.
    return f" {label}" if label.startswith("_") else label


def _count_messages(rows: Rows, column: str) -> Counter[str]:
    """Return the messages of each value of a column, of all queues together."""
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row[column]] += row["messages"]
    return totals


def _new_axes(title: str, height: float = 4, left_out: int = 0, things: str = "ones") -> Any:
    figure, axes = plt.subplots(figsize=(9, height), layout="constrained")
    axes.set_title(title + (f" ({left_out} smaller {things} left out)" if left_out else ""))
    return figure, axes


def _show_whole_numbers(axis: Any) -> None:
    axis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))


def _draw_totals(rows: Rows, column: str, title: str) -> Any:
    totals = _count_messages(rows, column)
    largest = totals.most_common(_MAX_LINES)
    shown = [{"queue": name, "messages": number} for name, number in largest]
    left_out = len(totals) - len(shown)
    return _draw_bars(shown, {"messages": _DEAD}, title, "messages", left_out=left_out)


def _draw_bars(
    rows: Sequence[dict[str, Any]],
    parts: dict[str, str],
    title: str,
    unit: str,
    *,
    stacked: bool = True,
    left_out: int = 0,
) -> Any:
    names = [_make_label(row["queue"]) for row in rows]
    figure, axes = _new_axes(title, max(2.0, 0.5 * len(names) + 1), left_out)
    begin = [0.0] * len(names)
    height = 0.8 if stacked else 0.8 / len(parts)
    for place, (part, colour) in enumerate(parts.items()):
        widths = [row[part] or 0 for row in rows]
        shift = 0 if stacked else (place - len(parts) / 2 + 0.5) * height
        positions = [row + shift for row in range(len(names))]
        look = {"label": _PARTS.get(part, part), "color": colour}
        bars = axes.barh(positions, widths, height, begin if stacked else None, **look)
        begin = [left + width for left, width in zip(begin, widths, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_xlim(left=0)
    if stacked:  # a bar of few messages can't be seen beside one of many
        axes.bar_label(bars, [f"{total:,.0f}" for total in begin], padding=3)
        axes.set_xlim(right=_ROOM_FOR_NUMBERS * max(begin, default=0) or 1)
    if unit == "messages":
        _show_whole_numbers(axes.xaxis)
    if len(parts) > 1:
        figure.legend(loc="outside right upper")
    return figure


def _draw_receive_counts(rows: Rows) -> Any:
    figure, axes = _new_axes("Receive counts")
    queues = sorted({row["queue"] for row in rows})
    counts = range(max((row["receive_count"] for row in rows), default=0) + 1)
    bottoms = [0] * len(counts)
    for queue in queues:
        messages = {row["receive_count"]: row["messages"] for row in rows if row["queue"] == queue}
        heights = [messages.get(count, 0) for count in counts]
        axes.bar(counts, heights, bottom=bottoms, label=_make_label(queue))
        bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
    names = [f"{count}+" if count == MAX_RECEIVE_COUNT else str(count) for count in counts]
    axes.set_xticks(counts, names)
    axes.set_xlabel("times received")
    axes.set_ylabel("messages")
    _show_whole_numbers(axes.yaxis)
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
        gap = _DASH_POINTS * (len(names) - 1)
        for place, name in enumerate(names[1:]):  # the first one shows between the dashes
            styles[name] = gap - _DASH_POINTS * place, (_DASH_POINTS, gap)
    return styles


def _draw_by_minute(rows: Rows, column: str, title: str, things: str) -> Any:
    """Draw the messages by time, with a line for each value of a column."""
    totals = _count_messages(rows, column)
    shown = sorted(name for name, _ in totals.most_common(_MAX_LINES))
    figure, axes = _new_axes(title, left_out=len(totals) - len(shown), things=things)
    axes.set_xlabel("time (UTC)")
    if shown:
        bins = choose_bins(row["minute"] for row in rows)
        width = timedelta(seconds=bins.seconds)
        edges = [time_axis.date2num(each) for each in (*bins.starts, bins.starts[-1] + width)]
        counts = {
            name: bins.count((r["minute"], r["messages"]) for r in rows if r[column] == name)
            for name in shown
        }
        for name, style in _choose_styles(counts).items():
            look = {"linewidth": 1.5, "linestyle": style}
            axes.stairs(counts[name], edges, label=_make_label(name), **look)
        margin = edges[1] - edges[0]
        axes.set_xlim(edges[0] - margin, edges[-1] + margin)
        axes.xaxis_date("UTC")
        locator = time_axis.AutoDateLocator(minticks=2, maxticks=8, tz="UTC")
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(time_axis.ConciseDateFormatter(locator, tz="UTC"))
        axes.set_ylabel(f"messages per {bins.name}")
        axes.set_ylim(bottom=0)
        _show_whole_numbers(axes.yaxis)
        figure.legend(loc="outside right upper")
    return figure


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

#: The widths of bins in seconds, and their names; wider ones are whole weeks.
_WIDTHS = {
    _MINUTE: "minute", 5 * _MINUTE: "5 minutes", 15 * _MINUTE: "15 minutes", _HOUR: "hour",
    6 * _HOUR: "6 hours", _DAY: "day", 7 * _DAY: "week",
}  # fmt: skip

#: The most bins of a plot, unless there are more weeks.
_MAX_BINS = 120

#: The units of durations, each with its seconds and the longest duration that is shown in it.
_UNITS = (
    ("seconds", 1, 3 * _MINUTE),
    ("minutes", _MINUTE, 3 * _HOUR),
    ("hours", _HOUR, 3 * _DAY),
    ("days", _DAY, float("inf")),
)


@dataclass(frozen=True, slots=True)
class Bins:
    """
    The bins of a time axis, without gaps.

    Attributes:
        starts: the start of each bin, UTC.
        seconds: the width of a bin.
        name: the width in words.
    """

    starts: list[datetime]
    seconds: int
    name: str

    def count(self, numbers: Iterable[tuple[datetime, int]]) -> list[int]:
        """Return the sum of the numbers in each bin; 0 for an empty one."""
        sums = [0] * len(self.starts)
        first = self.starts[0].timestamp()
        for time, number in numbers:
            sums[int(_to_utc(time).timestamp() - first) // self.seconds] += number
        return sums


def choose_bins(times: Iterable[datetime]) -> Bins:
    """Return bins from the first to the last of the times; naive times are UTC."""
    seconds = [_to_utc(time).timestamp() for time in times]
    first, last = min(seconds), max(seconds)
    width = next((w for w in _WIDTHS if last // w - first // w < _MAX_BINS), max(_WIDTHS))
    starts = range(int(first // width) * width, int(last) + 1, width)
    return Bins([datetime.fromtimestamp(each, UTC) for each in starts], width, _WIDTHS[width])


def choose_unit(longest: float) -> tuple[str, int]:
    """Return the unit in which durations up to ``longest`` seconds are shown, and its seconds."""
    return next((name, seconds) for name, seconds, most in _UNITS if longest <= most)


def _to_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


#: The most rows of a table; the Parquet files have all.
_MAX_ROWS = 200

#: A browser refuses everything but the style and the plots of the page itself.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem;
       color: #1a1a1a; background: #fff; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { padding: .25rem .5rem; text-align: left; vertical-align: top;
         border-bottom: 1px solid #d0d0d0; }
th { vertical-align: bottom; } .number { text-align: right; } td.number { white-space: nowrap; }
bdi { display: inline-block; min-width: 9rem; overflow-wrap: anywhere; }
.time { white-space: nowrap; }
"""

#: The headings of columns; those of other columns are their names, with spaces.
_HEADINGS = {
    "age_p50": "median age", "age_p90": "age, 90 %", "age_p99": "age, 99 %", "age_max": "oldest",
    "bytes": "bytes", "mean_bytes": "mean bytes", "max_bytes": "most bytes",
    "first_died": "first died (UTC)", "last_died": "last died (UTC)", "example": "last exception",
}  # fmt: skip

_ALTERNATIVES = {
    "depth": "Bars of the messages of each queue: visible, in flight, retrying, held back, delayed",
    "age": "Bars of the percentiles of the age of messages, for each queue",
    "receive_counts": "Bars of the messages by how often they were received",
    "by_minute": "Lines of the messages sent by time, for each queue",
    "dead_by_cause": "Bars of the dead letters by cause",
    "dead_by_worker": "Bars of the dead letters by worker",
    "dead_by_minute": "Lines of the dead letters by time, for each cause",
}


def build_page(tables: dict[str, Rows], plots: dict[str, bytes], ns: str, read_at: datetime) -> str:
    """
    Return the page.

    Args:
        tables: the tables of a ``Report`` by name.
        plots: the plots by name, as SVG.
        ns: the namespace of the queues.
        read_at: when the queues were read, UTC.
    """
    title = f"Queues of {_to_html(ns)}"
    figures = {name: _build_figure(name, svg) for name, svg in plots.items()}
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        f"<p>Read on {read_at:%Y-%m-%d at %H:%M:%S} UTC. All times are UTC.</p>",
        "<h2>Messages</h2>",
        *_build_table(tables["queues"], "Messages by queue"),
        *(figures[name] for name in ("depth", "age", "receive_counts", "by_minute")),
        "<h2>Dead letters</h2>",
    ]
    if tables["dead_by_cause"]:
        lines += _build_table(tables["dead_by_cause"], "Dead letters by cause")
        lines.append(figures["dead_by_cause"])
        lines += _build_table(tables["dead_by_worker"], "Dead letters by worker")
        lines += figures["dead_by_worker"], figures["dead_by_minute"]
    else:
        lines.append("<p>No reason of a dead letter is stored beside these queues.</p>")
    return "\n".join([*lines, "</body></html>", ""])


def _build_figure(name: str, svg: bytes) -> str:
    # As an image: a script inside it would not run, and names inside it stay apart.
    data = base64.b64encode(svg).decode()
    return (
        f'<figure><img alt="{_ALTERNATIVES[name]}" src="data:image/svg+xml;base64,{data}"></figure>'
    )


def _build_table(rows: Rows, caption: str) -> Iterator[str]:
    shown = rows[:_MAX_ROWS]
    if len(shown) < len(rows):
        caption += f" ({format_count(len(rows) - len(shown), 'more row')} left out)"
    names = list(shown[0])
    numbers = {
        name for name in names if all(isinstance(row[name], int | float | None) for row in shown)
    }
    yield f'<div class="table"><table><caption>{caption}</caption><thead><tr>'
    for name in names:
        heading = _HEADINGS.get(name, name.replace("_", " "))
        yield f'<th scope="col"{_make_class(name in numbers, None)}>{heading}</th>'
    yield "</tr></thead><tbody>"
    for row in shown:
        cells = (
            f"<td{_make_class(name in numbers, row[name])}>{_format_cell(name, row[name])}</td>"
            for name in names
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _make_class(is_number: bool, value: Any) -> str:  # noqa: FBT001 - of a column
    if is_number:
        return ' class="number"'
    return ' class="time"' if isinstance(value, datetime) else ""


def _format_cell(name: str, value: Any) -> str:
    if value is None:
        return "\N{EN DASH}"
    if name.startswith("age_"):
        unit, seconds = choose_unit(value)
        return f"{value / seconds:,.1f} {unit}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, int | float):
        return f"{value:,}"
    return f"<bdi>{_to_html(value)}</bdi>"


def _to_html(text: str) -> str:
    return escape(escape_unprintable(text))
