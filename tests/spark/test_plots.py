"""The bins and units of plots, and the axes of the plots themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from matplotlib import dates

from rsmq.spark.pipelines import pictures
from rsmq.spark.pipelines.pictures import choose_bins, choose_unit

START = datetime(2026, 1, 31, 12, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("minutes", "name", "number"),
    [
        (0, "minute", 1),
        (119, "minute", 120),
        (120, "5 minutes", 25),
        (24 * 60, "15 minutes", 97),
        (30 * 24 * 60, "day", 31),
        (365 * 24 * 60, "week", 53),
        (4 * 365 * 24 * 60, "week", 209),
    ],
)
def test_bins_fit_the_span(minutes, name, number):
    bins = choose_bins([START, START + timedelta(minutes=minutes)])
    assert (bins.name, len(bins.starts)) == (name, number)
    assert bins.starts[0] <= START < bins.starts[0] + timedelta(seconds=bins.seconds)
    assert sum(bins.count([(START, 2), (START + timedelta(minutes=minutes), 3)])) == 5


def test_bins_without_messages_are_zero():
    bins = choose_bins([START, START + timedelta(minutes=3)])
    naive = START.replace(tzinfo=None)
    assert bins.count([(naive, 4), (START + timedelta(minutes=3), 1)]) == [4, 0, 0, 1]


@pytest.mark.parametrize(
    ("longest", "unit"),
    [
        (0, ("seconds", 1)), (180, ("seconds", 1)), (181, ("minutes", 60)),
        (10_801, ("hours", 3600)), (4 * 86_400, ("days", 86_400)),
    ],
)  # fmt: skip
def test_unit_of_durations(longest, unit):
    assert choose_unit(longest) == unit


@pytest.mark.parametrize("minutes", [[0], [0, 600]])
def test_axes_begin_at_zero_and_show_only_the_span(minutes):
    queue = {
        "queue": "q", "visible": 3, "in_flight": 0, "retrying": 0, "held_back": 0, "delayed": 0,
        "age_p50": 7200.0, "age_p90": None, "age_p99": 90_000.0,
    }  # fmt: skip
    tables = {
        "queues": (queue,),
        "receive_counts": ({"queue": "q", "receive_count": 0, "messages": 3},),
        "by_minute": tuple(
            {"queue": "q", "minute": START + timedelta(minutes=each), "messages": 2}
            for each in minutes
        ),
        "dead_by_cause": (),
    }
    _, ages, counts, sent = [figure.axes[0] for _, figure in pictures.draw(tables)]
    assert (ages.get_xlabel(), ages.get_xlim()[0]) == ("hours", 0)
    assert ages.get_xlim()[1] < 30
    assert sent.get_ylim()[0] == counts.get_ylim()[0] == 0
    left, right = dates.num2date(sent.get_xlim())
    assert START - timedelta(minutes=30) < left
    assert right < START + timedelta(minutes=minutes[-1] + 30)


def test_each_bar_of_messages_has_its_number():
    rows = tuple(
        {
            "queue": str(total),
            "visible": total - flying,
            "in_flight": flying,
            "retrying": 0,
            "held_back": 0,
            "delayed": 0,
        }
        for total, flying in ((1234, 34), (2, 2), (0, 0))
    )
    axes = pictures._draw_bars(rows, pictures._STATES, "Messages", "messages").axes[0]
    assert [text.get_text() for text in axes.texts] == ["1,234", "2", "0"]
    assert [text.xy[0] for text in axes.texts] == [1234, 2, 0]
    assert axes.get_xlim()[1] > 1234

    by_cause = tuple({"cause": "ValueError", "messages": number} for number in (2, 3))
    axes = pictures._draw_totals(by_cause, "cause", "Dead letters by cause").axes[0]
    assert [text.get_text() for text in axes.texts] == ["5"]


def test_equal_lines_do_not_hide_each_other():
    names = {"a": 2, "b": 2, "c": 5, "d": 2}
    rows = tuple(
        {"queue": name, "minute": START, "messages": number} for name, number in names.items()
    )
    axes = pictures._draw_by_minute(rows, "queue", "Messages sent", "queues").axes[0]
    styles = {line.get_label(): line.get_linestyle() for line in axes.patches}
    assert styles["a"] == styles["c"] == "-"
    # Of three equal lines, each has one dash of three; the first one shows where no other is.
    assert styles["b"] == (8, (4, 8))
    assert styles["d"] == (4, (4, 8))
