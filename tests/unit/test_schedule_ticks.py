"""The ticks of schedules: changes of the clocks, intervals, and ticks that were missed."""

from __future__ import annotations

import sys
import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq.errors import InvalidFormat, MissingExtra
from rsmq.schedules.missed import MAX_MISSED, plan_ticks
from rsmq.schedules.ticks import (
    NICKNAMES,
    check_cron,
    find_zone,
    latest_ticks,
    next_tick,
    ticks_after,
    to_ms,
    to_time,
    upcoming_ticks,
)


def ms(text):
    return to_ms(datetime.fromisoformat(text))


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # Berlin: 02:00 is followed by 03:00 in March, 03:00 by 02:00 in October.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T01:00Z 2026-03-30T00:30Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", "2026-10-25T00:30Z 2026-10-26T01:30Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:15Z", "2026-10-26T01:30Z"),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T01:00Z 2026-03-30T01:00Z"),
        (
            "0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
            "2026-03-29T01:00Z 2026-03-30T00:00Z 2026-03-30T00:30Z",
        ),
        (
            "0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
            "2026-03-29T01:00Z 2026-03-30T00:00Z 2026-03-30T01:00Z",
        ),
        (
            "0 * * * *", "Europe/Berlin", "2026-10-24T23:30Z",
            "2026-10-25T00:00Z 2026-10-25T01:00Z 2026-10-25T02:00Z",
        ),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-30T00:00Z"),
        ("@daily", "Europe/Berlin", "2026-03-28T23:00Z", "2026-03-29T22:00Z 2026-03-30T22:00Z"),
        # New York.
        (
            "30 2 * * *", "America/New_York", "2026-03-07T12:00Z",
            "2026-03-08T07:00Z 2026-03-09T06:30Z",
        ),
        (
            "30 1 * * *", "America/New_York", "2026-10-31T12:00Z",
            "2026-11-01T05:30Z 2026-11-02T06:30Z",
        ),
        # Lord Howe: by half an hour.
        (
            "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z",
            "2026-10-03T15:30Z 2026-10-04T15:15Z",
        ),
        (
            "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00Z",
            "2026-04-04T14:45Z 2026-04-05T15:15Z",
        ),
        # Santiago: at midnight.
        (
            "0 0 * * *", "America/Santiago", "2026-09-05T12:00Z",
            "2026-09-06T04:00Z 2026-09-07T03:00Z",
        ),
        (
            "30 23 * * *", "America/Santiago", "2026-04-04T12:00Z",
            "2026-04-05T02:30Z 2026-04-06T03:30Z",
        ),
        # Kolkata: no change.
        ("0 9 * * 1-5", "Asia/Kolkata", "2026-05-01T12:00Z", "2026-05-04T03:30Z 2026-05-05T03:30Z"),
        ("0 0 1 1 *", "Asia/Kolkata", "2026-05-01T12:00Z", "2026-12-31T18:30Z 2027-12-31T18:30Z"),
        # Leap days, ends of months, seconds, names.
        ("0 12 29 2 *", "UTC", "2026-01-01T00:00Z", "2028-02-29T12:00Z 2032-02-29T12:00Z"),
        ("0 0 L * *", "UTC", "2028-02-01T00:00Z", "2028-02-29T00:00Z 2028-03-31T00:00Z"),
        ("@yearly", "UTC", "2026-01-01T00:00Z", "2027-01-01T00:00Z"),
        ("@monthly", "UTC", "2026-01-31T00:00Z", "2026-02-01T00:00Z"),
        ("@weekly", "UTC", "2026-11-25T00:00Z", "2026-11-29T00:00Z"),
        ("@hourly", "UTC", "2026-11-25T00:00Z", "2026-11-25T01:00Z"),
        ("*/20 * * * * *", "UTC", "2026-11-25T00:00Z", "2026-11-25T00:00:20Z 2026-11-25T00:00:40Z"),
        ("0 8 * * MON", "UTC", "2026-11-25T00:00Z", "2026-11-30T08:00Z"),
    ],
)  # fmt: skip
def test_an_expression_is_due_at(expression, zone, after, expected):
    expected = [ms(each) for each in expected.split()]

    assert upcoming_ticks(expression, find_zone(zone), ms(after), len(expected)) == expected


@pytest.mark.parametrize(
    ("every_ms", "after", "expected"),
    [
        (3_600_000, "2026-11-25T00:00:00.001Z", "2026-11-25T01:00Z"),
        (3_600_000, "2026-11-25T01:00Z", "2026-11-25T02:00Z"),
        (100, "2026-11-25T00:00:00.150Z", "2026-11-25T00:00:00.200Z"),
        (604_800_000, "2026-11-25T00:00Z", "2026-11-26T00:00Z"),  # 1970-01-01 was a Thursday
    ],
)
def test_an_interval_is_due_at_its_multiples(every_ms, after, expected):
    assert next_tick(every_ms, UTC, ms(after)) == ms(expected)


@pytest.mark.parametrize(("expression", "minutes", "hours"), [
    ("*/15 2 * * *", range(0, 60, 15), [2]),
    ("*/10 * * * *", range(0, 60, 10), range(24)),
    ("5 */2 * * *", [5], range(0, 24, 2)),
    ("*/30 1,2 * * *", [0, 30], [1, 2]),
])  # fmt: skip
@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("Australia/Lord_Howe", "2026-04-04"),
        ("Australia/Lord_Howe", "2026-10-03"),
        ("Europe/Berlin", "2026-03-29"),
        ("Europe/Berlin", "2026-10-25"),
        ("America/New_York", "2026-03-08"),
        ("America/New_York", "2026-11-01"),
        ("America/Santiago", "2026-04-04"),
        ("America/Santiago", "2026-09-05"),
    ],
)
def test_an_expression_with_an_asterisk_matches_each_instant(day, expression, minutes, hours, name):
    """As a clock on the wall shows them, minute by minute, over changes of the clocks."""
    zone, start = find_zone(name), ms(f"{day}T00:00Z") - 86_400_000
    instants = range(start + 60_000, start + 4 * 86_400_000, 60_000)
    locals_ = ((each, to_time(each).astimezone(zone)) for each in instants)
    matching = [each for each, at in locals_ if at.minute in minutes and at.hour in hours]

    assert upcoming_ticks(expression, zone, start, len(matching)) == matching


_expressions = st.sampled_from(
    [*NICKNAMES, "30 2 * * *", "0,30 2 * * *", "0 2,3 * * *", "*/15 * * * *", "*/15 2 * * *",
     "7 1-3 * * *", "0 */2 * * *", "30 0 * * *", "*/30 * * * * *", 90_000, 700]
)  # fmt: skip
_zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]
)
#: Near changes of the clocks.
_times = st.builds(
    lambda day, seconds: to_ms(datetime.fromisoformat(day) + timedelta(seconds=seconds)),
    st.sampled_from(
        ["2026-03-29T01:00Z", "2026-10-25T01:00Z", "2026-03-08T07:00Z", "2026-11-01T06:00Z",
         "2026-10-03T15:30Z", "2026-04-04T15:00Z", "2026-09-06T04:00Z", "2026-04-05T03:00Z"]
    ),
    st.integers(-9000, 9000),
)  # fmt: skip


@given(_expressions, _zones, _times, st.integers(0, 7_200_000))
def test_ticks_do_not_depend_on_where_they_are_counted_from(expression, zone, start, later):
    zone = find_zone(zone)
    following = []
    for tick in ticks_after(expression, zone, start):
        following.append(tick)
        if tick > start + later:
            break

    assert following == sorted(set(following))
    assert next_tick(expression, zone, start + later) == following[-1]
    assert latest_ticks(expression, zone, start + 1, start + later, 5) == following[:-1][-5:]


@pytest.mark.parametrize(
    "expression", ["", "* * * *", "60 * * * *", "0 0 31 2 *", "a b c d e", 5, None, "@fortnightly"]
)
def test_an_expression_that_is_none_is_refused(expression):
    with pytest.raises(InvalidFormat) as info:
        check_cron(expression, UTC)
    assert info.value.hint


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("*/61 * * * *", r"at most 60, and \*/61 has 61"),
        ("5,0/90 * * * *", "at most 60, and 0/90 has 90"),
        ("0 */25 * * *", r"at most 24, and \*/25 has 25"),
        ("0 0 */32 * *", "at most 31"),
        ("0 0 1 */13 *", "at most 12"),
        ("0 0 * * */8", "at most 7"),
        ("*/61 * * * * *", "at most 60"),
    ],
)
def test_a_step_that_is_larger_than_its_field_is_refused(expression, rule):
    with pytest.raises(InvalidFormat, match=rule):
        check_cron(expression, UTC)
    assert next_tick(expression, UTC, 0) is not None  # a stored one is still sent


@pytest.mark.parametrize(
    "expression",
    ["*/60 */24 * * *", "1-59/2 * * * *", "0 0 L * *", "0 0 * * 5#2", "*/30 * * * * *"],
)
def test_steps_up_to_the_size_of_a_field_are_accepted(expression):
    assert check_cron(expression, UTC) == expression


def test_without_data_of_time_zones_the_remedy_is_to_install_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    find_zone.cache_clear()
    try:
        with pytest.raises(InvalidFormat, match="no data of time zones: pip install tzdata"):
            find_zone("Europe/Berlin")
        assert find_zone("UTC") is UTC
    finally:
        zoneinfo.reset_tzpath()


@pytest.mark.parametrize("name", ["Europe/Atlantis", "", "../x", "/etc/passwd", None, 5])
def test_an_unknown_zone_is_refused(name):
    with pytest.raises(InvalidFormat, match="Europe/Berlin"):
        find_zone(name)


def test_without_cronsim_only_intervals_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "cronsim", None)

    assert next_tick(1000, UTC, 0) == 1000
    with pytest.raises(MissingExtra, match=r"pip install '.\[schedules\]'"):
        next_tick("* * * * *", UTC, 0)


def plan(tick, now, missed, *, rule=60_000, jitter=0):
    return plan_ticks(rule, UTC, tick, now, missed=missed, jitter_ms=jitter)


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_a_tick_in_time_is_fired(missed):
    found = plan(60_000, 60_400, missed)

    assert (found.ticks, found.last_ms, found.next_ms) == ([60_000], 60_000, 120_000)


@pytest.mark.parametrize(
    ("missed", "now", "ticks", "next_ms"),
    [
        ("skip", 190_000, [180_000], 240_000),  # the last one is in time
        ("once", 190_000, [180_000], 240_000),
        ("all", 190_000, [60_000, 120_000, 180_000], 240_000),
    ],
)
def test_ticks_that_were_missed(missed, now, ticks, next_ms):
    found = plan(60_000, now, missed)

    assert (found.ticks, found.last_ms, found.next_ms) == (ticks, 180_000, next_ms)


@pytest.mark.parametrize(("missed", "is_fired"), [("skip", False), ("once", True), ("all", True)])
def test_a_tick_that_is_late_by_more_than_a_minute_is_missed(missed, is_fired):
    day = 86_400_000
    found = plan(day, day + 60_001, missed, rule=day)

    assert (found.ticks, found.last_ms, found.next_ms) == ([day] * is_fired, day, 2 * day)
    assert plan(day, day + 60_000, missed, rule=day).ticks == [day]


def test_of_many_missed_ticks_the_latest_thousand_are_fired():
    found = plan(1000, 3_000_000, "all", rule=1000)

    assert found.ticks == list(range(3_000_000 - (MAX_MISSED - 1) * 1000, 3_000_001, 1000))
    assert found.next_ms == 3_001_000


def test_a_tick_that_waits_for_its_jitter_is_not_missed():
    found = plan(60_000, 250_000, "skip", jitter=200_000)

    assert (found.ticks, found.next_ms) == ([60_000], 120_000)


@given(
    st.sampled_from(["skip", "once", "all"]), st.integers(1, 10_000), st.integers(0, 10**7),
    st.integers(0, 10**5),
)  # fmt: skip
def test_the_next_tick_is_later_than_all_that_are_due(missed, rule, late, jitter):
    tick = 7 * rule
    found = plan(tick, tick + late, missed, rule=rule, jitter=jitter)

    assert found.ticks == sorted(set(found.ticks))
    assert all(tick <= each <= found.last_ms for each in found.ticks)
    assert found.next_ms == found.last_ms + rule
    assert found.next_ms > tick + late - jitter


def test_times_are_converted_exactly():
    assert to_time(1_795_649_004_057).isoformat() == "2026-11-25T23:23:24.057000+00:00"
    assert to_ms(to_time(1_795_649_004_057)) == 1_795_649_004_057
