"""
Faults of a queue's attributes, and the changes that repair them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TypeAlias

from rsmq.doctor.finding import Finding, make_finding
from rsmq.doctor.message_faults import CLOCK_TOLERANCE_MS
from rsmq.doctor.operations import NOW_S, Change, QueueFacts
from rsmq.vocabulary.queues import CREATE, REQUIRED_ATTRIBUTES
from rsmq.wire.fields import DIVIDED, TOTAL_RECEIVED, TOTAL_SENT
from rsmq.wire.stored import parse_number

_WHOLE_NUMBER = re.compile(rb"[0-9]{1,16}")
_TOTAL = re.compile(rb"[0-9]{1,18}")
_NEGATIVE_TOTAL = re.compile(rb"-[0-9]{1,18}")
_MAX_UNIX_SECONDS = 10**11  # larger times are ms
_MAX_UNIX_MS = 10**14  # larger times are us

_MS_PER_SECOND = 1000
# rsmq_async stores vt and delay in ms, as whole thousands. A vt from 10,000 on is more likely ten
# seconds in ms than almost three hours in seconds.
_LIKELY_MS = 10_000

#: The code of a fault, its text, and the change that repairs it.
AttributeFault: TypeAlias = tuple[str, str, Change]


def find_missing_attributes(facts: QueueFacts) -> list[str]:
    """Return which of vt, delay and maxsize are missing."""
    return [each.field for each in REQUIRED_ATTRIBUTES if each.field not in facts.fields]


def find_attribute_faults(facts: QueueFacts) -> Iterator[AttributeFault]:
    """Yield every attribute that has not the form in which Node writes it, with its repair."""
    yield from _find_bad_numbers(facts.fields)
    yield from _find_milliseconds(facts.fields)
    yield from _find_bad_totals(facts)
    # The repair of an incomplete queue adds the missing times too.
    is_complete = not find_missing_attributes(facts)
    yield from _find_bad_times(facts, report_missing=is_complete)


def make_attribute_findings(ns: str, facts: QueueFacts) -> list[Finding]:
    """Return one finding for each code among the faults of a queue's attributes."""
    texts_by_code: dict[str, list[str]] = {}
    for code, text, _ in find_attribute_faults(facts):
        texts_by_code.setdefault(code, []).append(text)
    vt = parse_number(facts.fields.get("vt"))
    may_be_seconds = vt is not None and vt < _LIKELY_MS
    return [
        make_finding(
            code, ns, facts.keys.name, number=len(texts),
            detail=" and ".join(texts), examples=texts,
            severity="note" if code == "milliseconds" and may_be_seconds else None,
        )
        for code, texts in texts_by_code.items()
    ]  # fmt: skip


def _make_change(name: str, fields: dict[str, bytes], new: int | bytes | None) -> Change:
    return name.encode(), fields.get(name), b"%d" % new if isinstance(new, int) else new


def _describe(name: str, raw: bytes) -> str:
    return f"{name} is {raw.decode('utf-8', 'backslashreplace')[:40]!r}"


def _find_bad_numbers(fields: dict[str, bytes]) -> Iterator[AttributeFault]:
    for each in CREATE.options.values():
        raw = fields.get(each.field)
        if raw is None or raw == str(each.unlimited).encode():
            continue
        number, low, high = parse_number(raw), int(each.low or 0), int(each.high or 0)
        if _WHOLE_NUMBER.fullmatch(raw) and int(raw) >= low:
            if each.name == "maxsize" and int(raw) > high:
                yield "large-maxsize", raw.decode(), _make_change(each.field, fields, high)
                continue
            if int(raw) <= high:
                continue
        value = each.parse(raw) if each.read else number
        new = each.default_in(CREATE) if value is None else each.fit(value)
        change = _make_change(each.field, fields, None if new == each.removing else new)
        yield "bad-attribute", _describe(each.name, raw), change


def _find_milliseconds(fields: dict[str, bytes]) -> Iterator[AttributeFault]:
    # rsmq_async writes both totals when it creates a queue. Node writes totalsent with the first
    # send and totalrecv with the first receive.
    if TOTAL_SENT not in fields or TOTAL_RECEIVED not in fields:
        return
    divided = _parse_divided(fields)
    numbers = {
        name: parse_number(fields.get(name))
        for name in ("vt", "delay")
        if name not in divided or divided[name] != fields.get(name)
    }
    if any(number is None or number % _MS_PER_SECOND for number in numbers.values()):
        return
    if "vt" in numbers and (numbers["vt"] or 0) < _MS_PER_SECOND:
        return
    for name, number in numbers.items():
        if number:
            new = int(number) // _MS_PER_SECOND
            yield "milliseconds", f"{name} {int(number)}", _make_change(name, fields, new)


def _parse_divided(fields: dict[str, bytes]) -> dict[str, bytes]:
    """Return the vt and the delay that the doctor has stored in seconds, if it has."""
    vt, _, delay = fields.get(DIVIDED, b"").partition(b" ")
    return {"vt": vt, "delay": delay} if vt else {}


def _find_bad_totals(facts: QueueFacts) -> Iterator[AttributeFault]:
    for name, new in ((TOTAL_SENT, facts.id_count), (TOTAL_RECEIVED, 0)):
        raw = facts.fields.get(name)
        if raw is not None and not _TOTAL.fullmatch(raw):
            code = "negative-total" if _NEGATIVE_TOTAL.fullmatch(raw) else "bad-total"
            yield code, _describe(name, raw), _make_change(name, facts.fields, new)


def _find_bad_times(facts: QueueFacts, *, report_missing: bool) -> Iterator[AttributeFault]:
    fields, latest = facts.fields, (facts.now_ms + CLOCK_TOLERANCE_MS) // _MS_PER_SECOND
    for name in ("created", "modified"):
        raw = fields.get(name)
        if raw is None:
            if report_missing:
                yield "strange-time", f"{name} is missing", _make_change(name, fields, NOW_S)
        elif not (_WHOLE_NUMBER.fullmatch(raw) and int(raw) <= _MAX_UNIX_SECONDS):
            change = _make_change(name, fields, _to_unix_seconds(raw))
            yield "strange-time", _describe(name, raw), change
        elif int(raw) > latest:
            seconds = int(raw) - facts.now_ms // _MS_PER_SECOND
            yield f"{name}-in-future", str(seconds), _make_change(name, fields, NOW_S)


def _to_unix_seconds(raw: bytes) -> int | bytes:
    """Return a time, stored in any form, as Unix seconds; ``NOW_S`` if it is not a time."""
    number = parse_number(raw)
    if number is not None and number > 0:
        if number <= _MAX_UNIX_SECONDS:
            return int(number)
        return int(number) // (1_000_000 if number > _MAX_UNIX_MS else 1000)
    try:
        return max(int(datetime.fromisoformat(raw.decode()).timestamp()), 0)
    except (ValueError, OverflowError):
        return NOW_S
