"""
The report as one HTML page, with its plots inside: it loads nothing, and runs no script.

Names of queues and reasons of dead letters are written by others: each text is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime
from html import escape
from typing import Any

from rsmq.errors.printable import escape_unprintable, format_count
from rsmq.spark.pipelines.bins import choose_unit
from rsmq.spark.pipelines.tables import Rows

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
    return "\n".join(_build_lines(tables, plots, ns, read_at)) + "\n"


def _build_lines(
    tables: dict[str, Rows], plots: dict[str, bytes], ns: str, read_at: datetime
) -> Iterator[str]:
    title = f"Queues of {_to_html(ns)}"
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{title}</h1>"
    yield f"<p>Read on {read_at:%Y-%m-%d at %H:%M:%S} UTC. All times are UTC.</p>"
    yield "<h2>Messages</h2>"
    yield from _build_table(tables["queues"], "Messages by queue")
    for name in ("depth", "age", "receive_counts", "by_minute"):
        yield _build_figure(name, plots[name])
    yield "<h2>Dead letters</h2>"
    if not tables["dead_by_cause"]:
        yield "<p>No reason of a dead letter is stored beside these queues.</p>"
    else:
        yield from _build_table(tables["dead_by_cause"], "Dead letters by cause")
        yield _build_figure("dead_by_cause", plots["dead_by_cause"])
        yield from _build_table(tables["dead_by_worker"], "Dead letters by worker")
        yield _build_figure("dead_by_worker", plots["dead_by_worker"])
        yield _build_figure("dead_by_minute", plots["dead_by_minute"])
    yield "</body></html>"


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
