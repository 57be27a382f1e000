"""
Faults of a queue's attributes, and the changes that repair them. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime

from rsmq.doctor.finding import Finding, finding
from rsmq.operations.doctor import NOW_S, Change, QueueFacts
from rsmq.wire.fields import TOTAL_RECEIVED, TOTAL_SENT
from rsmq.wire.limits import (
    DEFAULT_DELAY,
    DEFAULT_VT,
    MAX_MAXSIZE,
    MAX_SECONDS,
    MIN_MAXSIZE,
    UNLIMITED,
)
from rsmq.wire.stored import parse_maxsize, parse_number

_REQUIRED = ("vt", "delay", "maxsize")
_WHOLE = re.compile(rb"[0-9]{1,16}")
_TOTAL = re.compile(rb"-?[0-9]{1,18}")
_SECONDS = 10**11  # above it is ms
_MICROSECONDS = 10**14

# vt of rsmq_async: whole thousands. From ten seconds of ms on they are hours as seconds.
_THOUSAND = 1000
_LIKELY = 10_000

#: A code, what is wrong, and what to store instead.
Wrong = tuple[str, str, Change]


def missing(facts: QueueFacts) -> list[str]:
    """Which of vt, delay and maxsize are not there: only with all three it is a queue."""
    return [name for name in _REQUIRED if name not in facts.fields]


def wrong_attributes(facts: QueueFacts) -> Iterator[Wrong]:
    """Every attribute that is not as Node would write it, with the change that mends it."""
    yield from _numbers(facts.fields)
    yield from _milliseconds(facts.fields)
    yield from _totals(facts)
    # A half-made queue gets its times when it is completed.
    yield from _times(facts.fields, also_missing=not missing(facts))


def attribute_findings(ns: str, facts: QueueFacts) -> list[Finding]:
    """One finding for each kind of fault."""
    grouped: dict[str, list[str]] = {}
    for code, text, _ in wrong_attributes(facts):
        grouped.setdefault(code, []).append(text)
    vt = parse_number(facts.fields.get("vt"))
    unlikely = vt is not None and vt < _LIKELY
    return [
        finding(
            code, ns, facts.keys.name, number=len(texts),
            detail=" and ".join(texts), examples=texts,
            severity="note" if code == "milliseconds" and unlikely else None,
        )
        for code, texts in grouped.items()
    ]  # fmt: skip


def _change(name: str, fields: dict[str, bytes], new: int | bytes) -> Change:
    return name.encode(), fields.get(name), b"%d" % new if isinstance(new, int) else new


def _text(name: str, raw: bytes) -> str:
    return f"{name} is {raw.decode('utf-8', 'backslashreplace')[:40]!r}"


def _numbers(fields: dict[str, bytes]) -> Iterator[Wrong]:
    for name, default in (("vt", DEFAULT_VT), ("delay", DEFAULT_DELAY)):
        raw = fields.get(name)
        if raw is None or (_WHOLE.fullmatch(raw) and int(raw) <= MAX_SECONDS):
            continue
        number = parse_number(raw)
        kept = 0 if number is None else min(max(math.ceil(number), 0), MAX_SECONDS)
        new = default if number is None else kept
        yield "bad-attribute", _text(name, raw), _change(name, fields, new)
    raw = fields.get("maxsize")
    if raw is None or raw == b"-1":
        return
    number = parse_number(raw)
    whole = _WHOLE.fullmatch(raw) is not None
    if whole and number is not None and number > MAX_MAXSIZE:
        yield "large-maxsize", raw.decode(), _change("maxsize", fields, MAX_MAXSIZE)
    elif not whole or number is None or number < MIN_MAXSIZE:
        size = parse_maxsize(raw)
        size = size if size == UNLIMITED else max(size, MIN_MAXSIZE)
        yield "bad-attribute", _text("maxsize", raw), _change("maxsize", fields, size)


def _milliseconds(fields: dict[str, bytes]) -> Iterator[Wrong]:
    # It writes both totals when it creates a queue; Node each with the first send and receive.
    if TOTAL_SENT not in fields or TOTAL_RECEIVED not in fields:
        return
    vt, delay = (parse_number(fields.get(name)) for name in ("vt", "delay"))
    if not vt or vt < _THOUSAND or vt % _THOUSAND or delay is None or delay % _THOUSAND:
        return
    for name, number in (("vt", vt), ("delay", delay)):
        if number:
            new = int(number) // _THOUSAND
            yield "milliseconds", f"{name} {int(number)}", _change(name, fields, new)


def _totals(facts: QueueFacts) -> Iterator[Wrong]:
    for name, new in ((TOTAL_SENT, facts.ids), (TOTAL_RECEIVED, 0)):
        raw = facts.fields.get(name)
        if raw is not None and not _TOTAL.fullmatch(raw):
            yield "bad-total", _text(name, raw), _change(name, facts.fields, new)


def _times(fields: dict[str, bytes], *, also_missing: bool) -> Iterator[Wrong]:
    for name in ("created", "modified"):
        raw = fields.get(name)
        if raw is None:
            if also_missing:
                yield "strange-time", f"{name} is missing", _change(name, fields, NOW_S)
        elif not (_WHOLE.fullmatch(raw) and int(raw) <= _SECONDS):
            yield "strange-time", _text(name, raw), _change(name, fields, _seconds(raw))


def _seconds(raw: bytes) -> int | bytes:
    """Unix seconds of a time that was stored otherwise; now for what is none."""
    number = parse_number(raw)
    if number is not None and number > 0:
        if number <= _SECONDS:
            return int(number)
        return int(number) // (1_000_000 if number > _MICROSECONDS else 1000)
    try:
        return max(int(datetime.fromisoformat(raw.decode()).timestamp()), 0)
    except (ValueError, OverflowError):
        return NOW_S
