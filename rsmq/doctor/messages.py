"""
Faults of messages: ids in the queue, and fields that belong to no message.

The judging is pure. The walks look at a thousand ids or fields at a time, in one round trip each,
while other programs go on; every look is atomic, so that no half of their work is seen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from rsmq.client import RSMQ
from rsmq.doctor.finding import EXAMPLES, Finding, finding
from rsmq.operations.doctor import (
    EXAMINED_FIELDS,
    LooseField,
    QueueFacts,
    StoredRow,
    examine_fields,
    examine_messages,
)
from rsmq.operations.walk import Place
from rsmq.wire.ids import is_reserved_id, parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import MAX_SECONDS
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_seconds

#: How long an id without a body may be a send in progress, or a body without an id a delete, ms.
GRACE_MS = 10_000

_NODE_ID = re.compile(rb"[a-zA-Z0-9:]{32}")
#: An id that tells when it was sent: Node's, and one of a client that writes it in capitals.
_TIMED_ID = re.compile(rb"(?:[0-9a-z]{10}|[0-9A-Z]{10})[A-Za-z0-9]{22}")
_HEX = re.compile(rb"[0-9a-fA-F]{32}")  # as of a UUID, which tells nothing
#: Some clients read the time once for the id and once for the score.
_TWO_STEPS_MS = 1000
_ANY_ID = re.compile(rb"[A-Za-z0-9:_-]{20,64}")
_COUNT = re.compile(rb"[1-9][0-9]{0,14}")
_TIME = re.compile(rb"[0-9]{1,17}")
_ATTRIBUTES = frozenset(name.encode() for name in EXAMINED_FIELDS)

_FARTHEST_MS = MAX_SECONDS * 1000
#: Numbers between these are Unix seconds, and no ms.
_FIRST_SECOND = 1_262_304_000  # 2010-01-01: RSMQ is younger
LAST_SECOND = 10**11
_FIRST_MICROSECOND = 10**15

#: Fields of which a step looks at this many at first, and at most; and at how many bytes, about.
_FIRST_STEP = 100
_STEP = 1000
_STEP_BYTES = 1 << 20

#: How many ids of a kind are remembered, to look at them again.
REMEMBERED = 100_000


def faults_of_row(row: StoredRow, now_ms: int, delay_ms: float) -> Iterator[str]:
    """
    The codes of what is wrong with an id that is in the queue.

    Args:
        row: the id, and what is stored of it.
        now_ms: the server's time.
        delay_ms: the queue's delay.
    """
    if is_reserved_id(row.id):
        yield "attribute-id"
        return
    if not row.has_body:
        if is_ghost(row, now_ms):
            yield "ghost"
        return
    if not _NODE_ID.fullmatch(row.id):
        yield "undeletable-id"
    unit = unit_of(float(row.score), now_ms)
    if unit:
        yield unit
    elif _is_sent_in_future(row, now_ms, delay_ms):
        yield "sent-in-future"
    if (row.count is not None and not is_count(row.count)) or (
        row.first is not None and not is_time(row.first)
    ):
        yield "bad-counter"
    elif (row.count is None) != (row.first is None):
        yield "count-without-time"
    elif row.first is not None and _is_odd_time(int(row.first)):
        yield "odd-first-received"


def _is_sent_in_future(row: StoredRow, now_ms: int, delay_ms: float) -> bool:
    """
    Whether a message waits for a time that the server's clock had passed when it was sent.

    One that is scheduled, by a delay of its own, waits for what its sender wanted.
    """
    if row.count is not None or not _TIMED_ID.fullmatch(row.id) or _HEX.fullmatch(row.id):
        return False
    if not now_ms < min(_sent_ms(row), float(row.score)):
        return False
    wait = wait_ms(row)
    if delay_ms == 0:  # one that was sent to the front may be due before it was sent
        return wait <= _TWO_STEPS_MS
    return 0 <= wait <= _TWO_STEPS_MS or abs(wait - delay_ms) <= _TWO_STEPS_MS


def _sent_ms(row: StoredRow) -> int:
    return int(row.id[:10], 36) // 1000


def wait_ms(row: StoredRow) -> float:
    """How long a message was to wait when it was sent, of one whose id tells when that was."""
    return float(row.score) - _sent_ms(row)


def is_count(stored: bytes) -> bool:
    """Whether it is a receive count that Redis can count up."""
    return _COUNT.fullmatch(stored) is not None


def is_time(stored: bytes) -> bool:
    """Whether it is a time of a first receive, of whatever unit."""
    return _TIME.fullmatch(stored) is not None


def _is_odd_time(number: int) -> bool:
    return _FIRST_SECOND <= number < LAST_SECOND or number >= _FIRST_MICROSECOND


def is_ghost(row: StoredRow, now_ms: int) -> bool:
    """Whether an id has no body, and is not a send in progress by its score."""
    return not row.has_body and (
        now_ms - float(row.score) >= GRACE_MS or is_known_ghost(row, now_ms)
    )


def is_known_ghost(row: StoredRow, now_ms: int) -> bool:
    """Whether an id without a body is none by its time, or by a score that no send has now."""
    return is_old(row.id, now_ms) or unit_of(float(row.score), now_ms) is not None


def looks_like_id(id: bytes) -> bool:
    """Whether it is what a client of RSMQ would take for an id."""
    return _ANY_ID.fullmatch(id) is not None


def is_old(id: bytes, now_ms: int) -> bool:
    """Whether an id tells that its send is longer ago than a send may take."""
    us = parse_sent_us(decode_name(id), now_ms)
    return us is not None and now_ms - us // 1000 >= GRACE_MS


def unit_of(score: float, now_ms: int) -> str | None:
    """The code of a score that is not in milliseconds, or farther ahead than any client may go."""
    if score > now_ms + _FARTHEST_MS:
        microseconds = math.isfinite(score) and score >= _FIRST_MICROSECOND
        if microseconds and score / 1000 <= now_ms + _FARTHEST_MS:
            return "microseconds-score"
        return "far-future"
    return "seconds-score" if _FIRST_SECOND <= score < LAST_SECOND else None


def fault_of_field(loose: LooseField) -> str | None:
    """The code of a field that belongs to no id in the queue; None if it is an attribute."""
    if loose.field in _ATTRIBUTES:
        return None
    if loose.field != loose.id:
        # The counters of a body without an id go with it.
        return None if loose.has_body else "left-over-counter"
    return "orphan-body" if looks_like_id(loose.field) else "odd-field"


def walk_rows(rsmq: RSMQ, keys: QueueKeys) -> Iterator[tuple[int, StoredRow]]:
    """Every id of a queue with the server's time; one that is moved meanwhile may come twice."""
    place: Place | None = (b"-inf", b"0")
    while place:
        place, now, rows = rsmq.run(examine_messages(keys, place))
        for row in rows:
            yield now, row


def walk_fields(rsmq: RSMQ, keys: QueueKeys) -> Iterator[tuple[int, LooseField]]:
    """Every field of a queue's hash that belongs to no id in the queue, with the server's time."""
    cursor, count = b"0", _FIRST_STEP
    while True:
        cursor, now, size, loose = rsmq.run(examine_fields(keys, cursor, count))
        for each in loose:
            yield now, each
        if cursor == b"0":
            return
        # A step of large bodies is smaller: while the server reads them, others wait.
        count = min(max(count * _STEP_BYTES // max(size, 1), 10), _STEP)


class Tally:
    """How often a fault was met, some examples, and which ids."""

    def __init__(self) -> None:
        self.number = 0
        self.ids: dict[bytes, None] = {}

    def add(self, id: bytes) -> None:
        if id in self.ids:
            return
        self.number += 1
        if len(self.ids) < REMEMBERED:
            self.ids[id] = None

    def keep(self, again: Tally | None) -> None:
        """Leave what was met again."""
        met = {} if again is None else again.ids
        self.ids = {id: None for id in self.ids if id in met}
        self.number = len(self.ids) if again is None or again.number <= REMEMBERED else self.number

    def finding(self, code: str, ns: str, queue: str) -> Finding:
        return finding(
            code, ns, queue, number=self.number,
            examples=list(self.ids)[:EXAMPLES],
        )  # fmt: skip


def delay_ms_of(facts: QueueFacts) -> float:
    """The delay of a queue, as far as it is a number."""
    return 1000 * parse_seconds(facts.fields.get("delay", b"0"))


def look_at_messages(rsmq: RSMQ, facts: QueueFacts) -> tuple[int, dict[str, Tally]]:
    """How many ids a queue has, and what is wrong with its messages, by code."""
    keys, delay_ms = facts.keys, delay_ms_of(facts)
    tallies: dict[str, Tally] = {}
    number = 0
    for now, row in walk_rows(rsmq, keys):
        number += 1
        for code in faults_of_row(row, now, delay_ms):
            tallies.setdefault(code, Tally()).add(row.id)
    return number, {**tallies, **look_at_fields(rsmq, keys)}


def look_at_fields(rsmq: RSMQ, keys: QueueKeys) -> dict[str, Tally]:
    """What is wrong with the fields that belong to no id in the queue, by code."""
    tallies: dict[str, Tally] = {}
    for _, loose in walk_fields(rsmq, keys):
        code = fault_of_field(loose)
        if code:
            tallies.setdefault(code, Tally()).add(loose.field)
    return tallies
