"""
The times at which a schedule is due, its ticks. Without I/O or clock.

A rule is an expression of cron in a time zone, or an interval. Its ticks are a fixed set of
instants, which depends on nothing else: not on the time of the call, on earlier ticks, or on the
start of a process. So each process computes the same ones.

- Ticks of an interval are its multiples since 1970-01-01 UTC: those of an hour are the full hours.
- Ticks of an expression are local times, which cronsim computes, by the rules of Debian's cron.
  An expression with a fixed minute and hour has one tick for each local time: one that the clocks
  skip in spring is due when they have been put forward, and one that they repeat in autumn is due
  the first time only. Two local times that become the same instant are one tick. An expression with
  ``*`` in minute or hour, or with six fields, is due at each instant whose local time matches: in
  no skipped hour, and in both repeated ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

from rsmq.errors import InvalidFormat, MissingExtra, show

if TYPE_CHECKING:
    from cronsim import CronSim

#: Other forms of expressions.
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)
_DAY_MS = 86_400_000
#: The first window in which the latest ticks are looked for; each further one is longer.
_FIRST_WINDOW_MS = 60_000
_WINDOW_FACTOR = 8
#: The numbers of values of the fields, from the day of the week to the second.
_FIELD_SIZES = (7, 12, 31, 24, 60, 60)
_CRON_RULE = (
    "An expression has five fields (minute, hour, day of month, month, day of week), or six with "
    "the second before them; or it is @hourly, @daily, @weekly, @monthly or @yearly."
)


def to_ms(time: datetime) -> int:
    """Return the Unix ms of an aware datetime, cut to a whole number."""
    return (time - _EPOCH) // _MILLISECOND


def to_time(ms: int) -> datetime:
    """Return the aware datetime, in UTC, of Unix ms."""
    return _EPOCH + ms * _MILLISECOND


@lru_cache(maxsize=256)
def find_zone(name: str) -> tzinfo:
    """
    Return a time zone.

    Raises:
        InvalidFormat: there is no such zone.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (TypeError, ValueError, OSError, KeyError):
        hint = "Pass the name of a zone of the IANA database, as in 'Europe/Berlin'."
        if not available_timezones():
            hint = "This system has no data of time zones: pip install tzdata."
        raise InvalidFormat("timezone", value=show(name), hint=hint) from None


def check_cron(expression: object, zone: tzinfo) -> str:
    """
    Check an expression, and return it with single blanks.

    Raises:
        MissingExtra: the extra ``schedules`` is not installed.
        InvalidFormat: it is not an expression, is never due, or has a step that is larger than its
            field, as in ``*/61``.
    """
    if not isinstance(expression, str):
        raise InvalidFormat("cron", value=show(expression), hint=_CRON_RULE)
    text = " ".join(expression.split())
    if next_tick(text, zone, to_ms(datetime(2025, 1, 1, tzinfo=UTC))) is None:
        raise InvalidFormat("cron", value=show(text), hint="It is never due.")
    _check_steps(text)
    return text


def _check_steps(text: str) -> None:
    """
    Check that no step is larger than its field, so that it would be without effect.

    Raises:
        InvalidFormat: one is.
    """
    for field, size in zip(reversed(text.split()), _FIELD_SIZES, strict=False):
        for term in field.split(","):
            step = term.partition("/")[2]
            if step and int(step) > size:
                raise InvalidFormat(
                    "cron",
                    value=show(text),
                    hint=f"A step of its field is at most {size}, and {term} has {step}. every= is "
                    "for other intervals.",
                )


def next_tick(rule: str | int, zone: tzinfo, after_ms: int) -> int | None:
    """
    Return the first tick after a time, Unix ms; None if there is none within 50 years.

    Args:
        rule: an expression; or an interval in ms.
        zone: the time zone of an expression.
        after_ms: Unix ms; the tick is later.

    Raises:
        MissingExtra: the extra ``schedules`` is not installed.
        InvalidFormat: it is not an expression.
    """
    return next(ticks_after(rule, zone, after_ms), None)


def ticks_after(rule: str | int, zone: tzinfo, after_ms: int) -> Iterator[int]:
    """Return all ticks after a time, in order; see ``next_tick``."""
    if isinstance(rule, int):
        tick = after_ms - after_ms % rule
        while True:
            tick += rule
            yield tick
    for tick in _cron_ticks(rule, zone, after_ms):
        # Among local times that the clocks repeat or skip, some have the same instant as the one
        # before, or an earlier one.
        if tick > after_ms:
            after_ms = tick
            yield tick


def latest_ticks(
    rule: str | int, zone: tzinfo, from_ms: int, until_ms: int, number: int
) -> list[int]:
    """
    Return the latest ticks of a span, in order.

    Args:
        from_ms: the beginning of the span, which may be a tick of it.
        until_ms: its end, which may be one too.
        number: the number of ticks at most.
    """
    window = _FIRST_WINDOW_MS
    while True:
        after = max(from_ms - 1, until_ms - window)
        ticks: list[int] = []
        for tick in ticks_after(rule, zone, after):
            if tick > until_ms:
                break
            ticks.append(tick)
        if len(ticks) >= number or after < from_ms:
            return ticks[-number:]
        window *= _WINDOW_FACTOR


def upcoming_ticks(rule: str | int, zone: tzinfo, after_ms: int, number: int) -> list[int]:
    """Return the next ticks after a time, in order."""
    return list(islice(ticks_after(rule, zone, after_ms), number))


def _cron_ticks(expression: str, zone: tzinfo, after_ms: int) -> Iterator[int]:
    """Return the ticks of an expression, which may repeat, or begin a little too early."""
    text = NICKNAMES.get(expression.lower(), expression)
    after = to_time(after_ms).astimezone(zone)
    if zone is UTC or _has_fixed_times(text):
        yield from map(to_ms, _simulate(text, after))
        return
    # cronsim steps by whole hours, which is wrong where the clocks change by half an hour. So it
    # gets local times without a zone, from one change of the clocks to the next.
    offset = _offset_at(zone, after_ms)
    begin, checked_ms = after.replace(tzinfo=None), after_ms
    while True:
        changed_ms = None
        for local in _simulate(text, begin):
            tick = to_ms(local.replace(tzinfo=UTC) - offset)
            changed_ms = _find_change(zone, offset, checked_ms, tick)
            if changed_ms is not None:
                break
            checked_ms = tick
            yield tick
        if changed_ms is None:
            return
        offset, checked_ms = _offset_at(zone, changed_ms), changed_ms
        begin = (to_time(changed_ms) + offset - _SECOND).replace(tzinfo=None)


def _simulate(expression: str, after: datetime) -> CronSim:
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - needs an extra
    except ImportError:
        raise MissingExtra("schedules", "A schedule with cron") from None
    try:
        return CronSim(expression, after)
    except CronSimError as error:
        raise InvalidFormat("cron", value=show(expression), hint=f"{error}. {_CRON_RULE}") from None


def _has_fixed_times(expression: str) -> bool:
    """Return whether cronsim handles changes of the clocks as Debian's cron does."""
    fields = expression.split()
    return len(fields) == 5 and not fields[0].startswith("*") and not fields[1].startswith("*")  # noqa: PLR2004 - without seconds


def _offset_at(zone: tzinfo, ms: int) -> timedelta:
    return to_time(ms).astimezone(zone).utcoffset() or timedelta()


def _find_change(zone: tzinfo, offset: timedelta, from_ms: int, until_ms: int) -> int | None:
    """Return when a zone first has another offset, after one time and up to another; or None."""
    low = from_ms
    while low < until_ms:
        high = min(low + _DAY_MS, until_ms)
        if _offset_at(zone, high) == offset:
            low = high
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset_at(zone, middle) == offset else (low, middle)
        return high
    return None
