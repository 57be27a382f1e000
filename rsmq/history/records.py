"""
The stored records of a history, and the form in which they are read: columns of equal steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_MINUTE_MS = 60_000
#: Places among the numbers of the state: the minute of the last record, and the unfinished hour.
_MINUTE, _HOUR = 1, 5
_REPETITION = 0
#: Numbers of a usual record: its minute, its length, and six figures.
_RECORD_LENGTH = 8
#: By the first letter of a chunk's field: its length, and the length of a usual record, in minutes.
_LEVELS = {b"m": (60, 1), b"d": (1440, 60)}


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """
    The figures of one or more minutes, which are not known one by one.

    Attributes:
        begin: Unix minutes, the first one.
        end: Unix minutes, the one behind the last.
        oldest_seconds: the age of the oldest visible message since it became visible; None without
            one.
    """

    begin: int
    end: int
    sent: int
    received: int
    visible: int
    in_flight: int
    delayed: int
    oldest_seconds: int | None


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """
    Messages of several steps whose distribution is not known, since no process recorded them.

    Attributes:
        start_ms: Unix ms.
        end_ms: Unix ms.
        sent: messages that were sent between them.
        received: receives between them.
    """

    start_ms: int
    end_ms: int
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class History:
    """
    The history of a queue, or of all queues, in steps of equal length.

    A column has a value for each step; None if the step was not recorded. The first step begins at
    ``start_ms``. A gauge is the largest value that was read in the step, at the ends of its
    minutes.

    Attributes:
        start_ms: Unix ms of the first step.
        end_ms: Unix ms behind the last step.
        step: seconds of a step.
        sent: messages that were sent.
        received: receives and pops, repeated receives included.
        visible: visible messages.
        in_flight: messages that were received and are hidden, also those that wait for a retry; an
            estimate if there are more than 40 hidden messages.
        delayed: messages that were never received and are hidden; an estimate in the same case.
        oldest_seconds: the seconds since the oldest visible message became visible; 0 without one.
        gaps: what is known of steps without values.
        total_sent: all messages that were sent within these steps, those of gaps included.
        total_received: the same of receives.
    """

    start_ms: int
    end_ms: int
    step: int
    sent: list[int | None]
    received: list[int | None]
    visible: list[int | None]
    in_flight: list[int | None]
    delayed: list[int | None]
    oldest_seconds: list[int | None]
    gaps: list[HistoryGap]
    total_sent: int
    total_received: int


_SUMS = ("sent", "received")
_GAUGES = ("visible", "in_flight", "delayed", "oldest_seconds")
COLUMNS = (*_SUMS, *_GAUGES)


def parse_records(fields: Mapping[bytes, bytes], *, by_hours: bool) -> Iterator[HistoryRecord]:
    """
    Yield the records of a stored history, in no order.

    Args:
        by_hours: whether those of hours are read, which are kept longer, or those of minutes.
    """
    level = b"d" if by_hours else b"m"
    length, unit = _LEVELS[level]
    for name, chunk in fields.items():
        if name[:1] == level and name[1:].isdigit():
            yield from _parse_chunk(unpack_numbers(chunk), int(name[1:]) * length, unit)
    if by_hours:
        yield from _parse_unfinished_hour(fields.get(b"state", b""))


def unpack_numbers(chunk: bytes) -> Iterator[int]:
    """Yield the numbers of a chunk: 7 bits in each byte, the lowest first."""
    number = shift = 0
    for byte in chunk:
        number += (byte & 127) << shift
        if byte < 128:  # noqa: PLR2004 - the last byte of a number
            yield number
            number = shift = 0
        else:
            shift += 7


def _parse_chunk(numbers: Iterator[int], start: int, unit: int) -> Iterator[HistoryRecord]:
    last: HistoryRecord | None = None
    for place in numbers:
        end = start + place + 1
        span = next(numbers)
        if span == _REPETITION:
            while last is not None and last.end < end:
                last = _repeat(last, unit)
                yield last
            continue
        sent, received, visible, in_flight, delayed, oldest = (next(numbers) for _ in range(6))
        last = HistoryRecord(
            end - span, end, sent, received, visible, in_flight, delayed,
            oldest - 1 if oldest else None,
        )  # fmt: skip
        yield last


def _repeat(last: HistoryRecord, unit: int) -> HistoryRecord:
    oldest = None if last.oldest_seconds is None else last.oldest_seconds + 60 * unit
    return HistoryRecord(
        last.end, last.end + unit, 0, 0, last.visible, last.in_flight, last.delayed, oldest
    )


def _parse_unfinished_hour(state: bytes) -> Iterator[HistoryRecord]:
    numbers = list(unpack_numbers(state))
    if numbers and numbers[_HOUR]:
        begin, sent, received, visible, in_flight, delayed, oldest = numbers[_HOUR : _HOUR + 7]
        yield HistoryRecord(
            begin, numbers[_MINUTE], sent, received, visible, in_flight, delayed,
            oldest - 1 if oldest else None,
        )  # fmt: skip


def created_of(state: bytes) -> int | None:
    """Return the creation time of the queue that a stored history is of, Unix seconds."""
    return next(unpack_numbers(state), None)


@dataclass(frozen=True, slots=True)
class RecordedTotals:
    """
    The totals of a queue at its last record.

    Attributes:
        minute: Unix minutes, the end of the last recorded one.
    """

    minute: int
    sent: int
    received: int


def totals_of(state: bytes, created: int) -> RecordedTotals | None:
    """Return the totals at the last record; None without one of the queue of this creation time."""
    numbers = list(unpack_numbers(state))[:4]
    return RecordedTotals(*numbers[1:]) if numbers and numbers[0] == created else None


def last_minute_of(tail: bytes, minute: int) -> tuple[int, int] | None:
    """
    Return what was sent and received in the last recorded minute, from the end of its chunk.

    So a list of many queues needs no whole chunks. A repetition that looks like a usual record is
    possible in theory: its figures are right in ``parse_records`` only.

    Args:
        tail: the last 80 bytes of the chunk, or all of a shorter one.
        minute: Unix minutes, the one behind the record.

    Returns:
        None if the record is of more than a minute, or of another one.
    """
    numbers = list(unpack_numbers(tail))  # the first one may be cut off
    place = (minute - 1) % 60
    match numbers[-_RECORD_LENGTH:]:
        case [at, 1, sent, received, *_] if at == place and len(numbers) >= _RECORD_LENGTH:
            return sent, received
    return (0, 0) if numbers[-2:] == [place, _REPETITION] else None


def make_history(records: Iterable[HistoryRecord], start: int, end: int, step: int) -> History:
    """
    Return the history of records.

    A record that is in one step adds to its values; one that crosses the end of a step is a gap.

    Args:
        start: Unix minutes, a multiple of the step.
        end: the same.
        step: minutes.
    """
    number = (end - start) // step
    columns: dict[str, list[int | None]] = {name: [None] * number for name in COLUMNS}
    gaps: list[HistoryGap] = []
    totals = [0, 0]
    for each in records:
        if each.end <= start or each.begin >= end:
            continue
        if each.begin >= start and each.end <= end:
            totals = [totals[0] + each.sent, totals[1] + each.received]
        at = (each.begin - start) // step
        if each.begin < start or (each.end - 1 - start) // step != at:
            gaps.append(
                HistoryGap(each.begin * _MINUTE_MS, each.end * _MINUTE_MS, each.sent, each.received)
            )
            continue
        for name in _SUMS:
            columns[name][at] = (columns[name][at] or 0) + getattr(each, name)
        for name in _GAUGES:
            columns[name][at] = max(columns[name][at] or 0, getattr(each, name) or 0)
    return History(
        start_ms=start * _MINUTE_MS,
        end_ms=end * _MINUTE_MS,
        step=step * 60,
        **columns,
        gaps=sorted(gaps, key=lambda gap: gap.start_ms),
        total_sent=totals[0],
        total_received=totals[1],
    )


def recent_fields(now_ms: int) -> tuple[str, ...]:
    """Return the fields of a stored history that have its state and the last hour."""
    hour = now_ms // _MINUTE_MS // 60
    return "state", f"m{hour - 1}", f"m{hour}"
