"""
Charts as numbers: templates draw them as SVG, so that no text becomes markup here.

A series is a list of values at equal steps of time; None is a gap, which is drawn as a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

#: The size of a chart, in units of its view box, which is stretched; the texts are beside it.
WIDTH, HEIGHT = 720, 190
_TOP, _BOTTOM = 2, 2
SPARK_WIDTH, SPARK_HEIGHT = 120, 26
_MAX_TICKS = 5
#: The width of a step between two gaps, in the same units: a person must see it.
_MARK_WIDTH = 4
_X_TEXTS = 5

Values = Sequence[float | None]
_Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """
    A series, drawn.

    Attributes:
        number: of its colour, from 1.
        name: what the legend says.
        paths: the ``d`` of each piece without a gap.
        areas: the ``d`` of the same pieces, closed at the bottom.
        values: the series itself, for the table beside the chart.
    """

    number: int
    name: str
    paths: tuple[str, ...]
    areas: tuple[str, ...]
    values: Values


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the axis of the values: its place in the view box, and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """
    A moment that is marked.

    Attributes:
        at: its place in the view box; before a chart is made, its share of the time.
        text: what happened, and when.
        is_change: whether a user has changed the queue then; else it is a mark, as of a deploy.
    """

    at: float
    text: str
    is_change: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """
    A chart of lines over time.

    Attributes:
        title: what it shows, with its unit.
        lines: the series.
        y_ticks: marks of the values at equal distances, the highest first.
        x_texts: times at equal distances, from the first step to the last.
        times: the text of each step, for the table.
        marks: moments that are marked.
    """

    title: str
    lines: tuple[Line, ...]
    y_ticks: tuple[Tick, ...]
    x_texts: tuple[str, ...]
    times: Sequence[str]
    marks: tuple[Mark, ...] = ()
    width: int = WIDTH
    height: int = HEIGHT


def make_chart(
    title: str,
    series: Sequence[tuple[str, Values]],
    times: Sequence[str],
    *,
    is_stacked: bool = False,
    has_open_end: bool = False,
    marks: Iterable[Mark] = (),
) -> Chart:
    """
    Return a chart.

    Args:
        title: what it shows, with its unit.
        series: the name and the values of each line, all as long as ``times``.
        times: the text of each step.
        is_stacked: whether each line is drawn on top of the one before.
        has_open_end: whether the last step is not over, and its value is a sum: the line ends
            before it, and the table says that it is not over.
        marks: moments, whose places are shares of the time.
    """
    count = max(len(times) - 1, 1)
    texts = [times[round(at * count / (_X_TEXTS - 1))] for at in range(_X_TEXTS)] if times else []
    tops = _add_up(series) if is_stacked else [values for _, values in series]
    if has_open_end:
        tops = [without_end(values) for values in tops]
        times = [*times[:-1], *(f"{each}, so far" for each in times[-1:])]
    known = [value for values in tops for value in values if value is not None]
    ticks = nice_ticks(max(known, default=0))
    highest = ticks[-1] or 1

    def place(values: Values) -> list[_Point | None]:
        return [
            None
            if value is None
            else (
                round(at * WIDTH / count, 1),
                round(HEIGHT - _BOTTOM - value * (HEIGHT - _TOP - _BOTTOM) / highest, 1),
            )
            for at, value in enumerate(values)
        ]

    lines = []
    below: Sequence[_Point | None] | None = None
    for number, ((name, values), top) in enumerate(zip(series, tops, strict=True), 1):
        points = place(top)
        paths, areas = _draw(points, HEIGHT - _BOTTOM, below)
        # Areas of lines that cross each other hide them.
        lines.append(
            Line(number, name, paths, areas if is_stacked or len(series) == 1 else (), values)
        )
        below = points if is_stacked else None
    return Chart(
        title,
        tuple(lines),
        tuple(
            Tick(
                round(HEIGHT - _BOTTOM - value * (HEIGHT - _TOP - _BOTTOM) / highest, 1),
                short_number(value),
            )
            for value in reversed(ticks)
        ),
        tuple(texts),
        times,
        tuple(replace(each, at=round(each.at * WIDTH, 1)) for each in marks),
    )


def without_end(values: Values) -> Values:
    """Return a series without the value of its last step, which is not over."""
    return [*values[:-1], None] if values else values


def _add_up(series: Sequence[tuple[str, Values]]) -> list[Values]:
    """Return the sums of each series and those before it; None where one of them has no value."""
    sums: list[Values] = []
    for _, values in series:
        before = sums[-1] if sums else [0] * len(values)
        sums.append(
            [
                None if one is None or other is None else one + other
                for one, other in zip(before, values, strict=True)
            ]
        )
    return sums


def make_spark(values: Values) -> tuple[str, ...]:
    """Return the ``d`` of each piece of a small line without axes."""
    top = max((value for value in values if value is not None), default=0) or 1
    count = max(len(values) - 1, 1)
    points = [
        None
        if value is None
        else (
            round(1 + at * (SPARK_WIDTH - 2) / count, 1),
            round(SPARK_HEIGHT - 2 - value * (SPARK_HEIGHT - 5) / top, 1),
        )
        for at, value in enumerate(values)
    ]
    return _draw(points, SPARK_HEIGHT)[0]


def _draw(
    points: Sequence[_Point | None], bottom: float, below: Sequence[_Point | None] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the pieces of a line, and the areas between it and the one below or the bottom."""
    pieces: list[list[tuple[_Point, _Point]]] = [[]]
    for at, point in enumerate(points):
        if point is None:
            if pieces[-1]:
                pieces.append([])
            continue
        under = below[at] if below is not None else None
        pieces[-1].append((point, under or (point[0], bottom)))
    paths, areas = [], []
    for piece in pieces:
        if not piece:
            continue
        if len(piece) == 1:  # a single step between two gaps is a mark
            (x, y), (_, low) = piece[0]
            left = max(x - _MARK_WIDTH / 2, 0)
            piece[:] = [((at, y), (at, low)) for at in (left, left + _MARK_WIDTH)]
        path = "M" + "L".join(f"{x:g} {y:g}" for (x, y), _ in piece)
        back = "L".join(f"{x:g} {y:g}" for _, (x, y) in reversed(piece))
        paths.append(path)
        areas.append(f"{path}L{back}Z")
    return tuple(paths), tuple(areas)


def nice_ticks(top: float) -> list[float]:
    """Return round values from 0 to at least ``top``, at equal distances."""
    if top <= 0:
        return [0, 1]
    rough = top / (_MAX_TICKS - 1)
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    return [step * index for index in range(math.ceil(top / step) + 1)]


def short_number(value: float) -> str:
    """Return a number in few characters, as in 12.5k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
