"""
Charts as numbers: templates draw them as SVG, so that no text becomes markup here.

A series is a list of values at equal steps of time; None is a gap, which is drawn as a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: The size of a chart, in units of its view box.
WIDTH, HEIGHT = 720, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 22, 10, 24
SPARK_WIDTH, SPARK_HEIGHT = 120, 26
_MAX_TICKS = 5

Values = Sequence[float | None]


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
    """A mark of an axis: its place in the view box, and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """
    A chart of lines over time.

    Attributes:
        title: what it shows, with its unit.
        lines: the series.
        y_ticks: marks of the values.
        x_ticks: marks of the time.
        times: the text of each step, for the table.
    """

    title: str
    lines: tuple[Line, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    times: Sequence[str]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def make_chart(
    title: str, series: Sequence[tuple[str, Values]], times: Sequence[str], *, marks: int = 6
) -> Chart:
    """
    Return a chart.

    Args:
        title: what it shows, with its unit.
        series: the name and the values of each line, all as long as ``times``.
        times: the text of each step.
        marks: about how many marks the axis of the time has.
    """
    known = [value for _, values in series for value in values if value is not None]
    ticks = nice_ticks(max(known, default=0))
    top = ticks[-1] or 1
    count = max(len(times) - 1, 1)

    def x(index: int) -> float:
        return round(_LEFT + index * (WIDTH - _LEFT - _RIGHT) / count, 1)

    def y(value: float) -> float:
        return round(HEIGHT - _BOTTOM - value * (HEIGHT - _TOP - _BOTTOM) / top, 1)

    lines = []
    for number, (name, values) in enumerate(series, 1):
        points = [None if each is None else (x(at), y(each)) for at, each in enumerate(values)]
        paths, areas = _draw(points, HEIGHT - _BOTTOM)
        lines.append(Line(number, name, paths, areas, values))
    step = max(round(count / marks), 1)
    return Chart(
        title,
        tuple(lines),
        tuple(Tick(y(value), short_number(value)) for value in ticks),
        tuple(Tick(x(at), times[at]) for at in range(0, len(times), step)),
        times,
    )


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
    points: Sequence[tuple[float, float] | None], bottom: float
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pieces: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is not None:
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    paths, areas = [], []
    for piece in pieces:
        if not piece:
            continue
        if len(piece) == 1:  # a single step between two gaps is a short line
            piece.append((piece[0][0] + 1, piece[0][1]))
        path = "M" + "L".join(f"{px:g} {py:g}" for px, py in piece)
        paths.append(path)
        areas.append(f"{path}L{piece[-1][0]:g} {bottom:g}L{piece[0][0]:g} {bottom:g}Z")
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
