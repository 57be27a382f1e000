"""
Faults of messages: ids in the queue, and fields that belong to no message.

The checks are pure functions. A walk reads at most 100 ids, or about 100 fields, in each round
trip, while other programs continue. Each step is atomic, so it sees none of their scripts or
transactions half done.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from rsmq._sync.client import RSMQ
from rsmq.doctor.finding import MAX_EXAMPLES, Finding, make_finding
from rsmq.doctor.operations import (
    FIRST_STEP,
    EntryPosition,
    OrphanField,
    QueueEntry,
    QueueFacts,
    examine_fields,
    examine_messages,
    examine_ungrouped,
)
from rsmq.vocabulary.stored import ALL_QUEUE_FIELDS
from rsmq.wire.fields import GROUPED
from rsmq.wire.ids import is_reserved_id, parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import MAX_SECONDS
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_seconds

#: For this time, ms, an id without a body may be a send in progress, and a body without an id a
#: send or a delete in progress.
GRACE_MS = 10_000

_NODE_ID = re.compile(rb"[a-zA-Z0-9:]{32}")
#: An id that contains its sent time: Node's form, and that of a client that uses capital digits.
_TIMED_ID = re.compile(rb"(?:[0-9a-z]{10}|[0-9A-Z]{10})[A-Za-z0-9]{22}")
_HEX_ID = re.compile(rb"[0-9a-fA-F]{32}")  # as of a UUID, which contains no sent time
_ANY_ID = re.compile(rb"[A-Za-z0-9:_-]{20,64}")
_RECEIVE_COUNT = re.compile(rb"[1-9][0-9]{0,14}")
_TIME = re.compile(rb"[0-9]{1,17}")
_ATTRIBUTES = frozenset(name.encode() for name in ALL_QUEUE_FIELDS)

#: Some clients read the clock once for the id, and again for the score.
_SCORE_TOLERANCE_MS = 1000

#: The clock of a client may be ahead by so much.
CLOCK_TOLERANCE_MS = 60_000

#: The score of a message that is held back is so much later than its send, until a sweep renews it.
_HELD_BACK_MS = 86_400_000

_MAX_HIDDEN_MS = MAX_SECONDS * 1000
#: A time from _MIN_UNIX_SECONDS to below UNIX_SECONDS_LIMIT is in seconds, not in ms.
_MIN_UNIX_SECONDS = 1_262_304_000  # 2010-01-01: older than RSMQ
UNIX_SECONDS_LIMIT = 10**11
_MIN_UNIX_US = 10**15

#: How many fields the first step of a walk reads, and any later step at most.
_FIRST_STEP_FIELDS = 10
_MAX_STEP_FIELDS = 100
#: How many bytes a step should read, about.
_STEP_BYTES = 1 << 18

#: How many ids with a fault are kept in memory at most, for a second check or for the repair.
MAX_REMEMBERED_IDS = 100_000


def find_entry_faults(entry: QueueEntry, now_ms: int, delay_ms: float) -> Iterator[str]:
    """
    Yield the codes of the faults of an id in the queue.

    Args:
        entry: the id, and the data stored for it.
        now_ms: the server's time, ms.
        delay_ms: the queue's delay, ms.
    """
    if is_reserved_id(entry.id):
        yield "attribute-id"
        return
    if not entry.has_body:
        if is_ghost(entry, now_ms):
            yield "ghost"
        return
    if not _NODE_ID.fullmatch(entry.id):
        yield "undeletable-id"
    score_fault = find_score_fault(float(entry.score), now_ms)
    if score_fault:
        yield score_fault
    elif _is_sent_in_future(entry, now_ms, delay_ms):
        yield "sent-in-future"
    yield from _find_counter_faults(entry, now_ms)


def _find_counter_faults(entry: QueueEntry, now_ms: int) -> Iterator[str]:
    count, time = entry.receive_count, entry.first_received
    if (count is not None and not is_receive_count(count)) or (
        time is not None and not is_time(time)
    ):
        yield "bad-counter"
    elif (count is None) != (time is None):
        yield "count-without-time"
    elif time is not None and _is_odd_time(int(time)):
        yield "odd-first-received"
    elif time is not None and int(time) > now_ms + CLOCK_TOLERANCE_MS:
        yield "first-received-in-future"


def _is_sent_in_future(entry: QueueEntry, now_ms: int, delay_ms: float) -> bool:
    """
    Return whether a message is hidden only because the clock was ahead when it was sent.

    This is so if it was never received, its id and its score are in the future, and it was to wait
    no longer than the queue's delay. A message with a delay of its own is hidden on purpose.
    """
    if entry.receive_count is not None:
        return False
    if not _TIMED_ID.fullmatch(entry.id) or _HEX_ID.fullmatch(entry.id):
        return False
    if not now_ms < min(_parse_sent_ms(entry), float(entry.score)):
        return False
    wait_ms = get_initial_wait_ms(entry)
    if delay_ms == 0:  # the score of a message that was sent to the front may be before its id
        return wait_ms <= _SCORE_TOLERANCE_MS
    has_no_wait = 0 <= wait_ms <= _SCORE_TOLERANCE_MS
    return has_no_wait or abs(wait_ms - delay_ms) <= _SCORE_TOLERANCE_MS


def _parse_sent_ms(entry: QueueEntry) -> int:
    return int(entry.id[:10], 36) // 1000


def get_initial_wait_ms(entry: QueueEntry) -> float:
    """Return the ms from a message's sent time to its score; its id must contain the sent time."""
    return float(entry.score) - _parse_sent_ms(entry)


def is_receive_count(stored: bytes) -> bool:
    """Return whether a stored value is a receive count that Redis can increment."""
    return _RECEIVE_COUNT.fullmatch(stored) is not None


def is_time(stored: bytes) -> bool:
    """Return whether a stored value can be the time of a first receive, in any unit."""
    return _TIME.fullmatch(stored) is not None


def _is_odd_time(number: int) -> bool:
    """Return whether a time is in seconds or microseconds."""
    return _MIN_UNIX_SECONDS <= number < UNIX_SECONDS_LIMIT or number >= _MIN_UNIX_US


def is_ghost(entry: QueueEntry, now_ms: int) -> bool:
    """Return whether an id has no body and, by its score or its id, is not a send in progress."""
    return not entry.has_body and (
        now_ms - float(entry.score) >= GRACE_MS or is_certain_ghost(entry, now_ms)
    )


def is_certain_ghost(entry: QueueEntry, now_ms: int) -> bool:
    """
    Return whether an id without a body is certainly not a send in progress.

    Either its sent time is too long ago, or no send of now would give it its score.
    """
    return is_old(entry.id, now_ms) or find_score_fault(float(entry.score), now_ms) is not None


def looks_held_back(entry: QueueEntry, now_ms: int) -> bool:
    """
    Return whether a message has the id of one with a group, and the score of one that is held back.

    So has one of 3,844 messages without a group that were sent with a delay of a day.
    """
    return (
        entry.has_body
        and entry.receive_count is None
        and entry.id.endswith(b"Gr")
        and _TIMED_ID.fullmatch(entry.id) is not None
        and float(entry.score) > now_ms
        and abs(get_initial_wait_ms(entry) - _HELD_BACK_MS) <= _SCORE_TOLERANCE_MS
    )


def looks_like_id(id: bytes) -> bool:
    """Return whether a text has a form that the ids of some RSMQ client have."""
    return _ANY_ID.fullmatch(id) is not None


def is_old(id: bytes, now_ms: int) -> bool:
    """Return whether an id contains a sent time at least ``GRACE_MS`` ago."""
    us = parse_sent_us(decode_name(id), now_ms)
    return us is not None and now_ms - us // 1000 >= GRACE_MS


def find_score_fault(score: float, now_ms: int) -> str | None:
    """Return the code of a score that is not in ms, or is later than any client may hide."""
    if score > now_ms + _MAX_HIDDEN_MS:
        may_be_us = math.isfinite(score) and score >= _MIN_UNIX_US
        if may_be_us and score / 1000 <= now_ms + _MAX_HIDDEN_MS:
            return "microseconds-score"
        return "far-future"
    return "seconds-score" if _MIN_UNIX_SECONDS <= score < UNIX_SECONDS_LIMIT else None


def find_field_fault(orphan: OrphanField) -> str | None:
    """Return the code of a field that belongs to no id in the queue; None if it has no fault."""
    if orphan.field in _ATTRIBUTES:
        return None
    if orphan.field != orphan.id:
        # The counters of an orphan body are removed or restored with it.
        return None if orphan.has_body else "left-over-counter"
    return "orphan-body" if looks_like_id(orphan.field) else "odd-field"


def walk_entries(rsmq: RSMQ, keys: QueueKeys) -> Iterator[tuple[int, QueueEntry]]:
    """
    Yield every id of a queue, each with the server's time in ms.

    If its score changes during the walk, an id may be yielded twice, or not.
    """
    position: EntryPosition | None = FIRST_STEP
    while position:
        position, now, entries = rsmq.run(examine_messages(keys, position))
        for entry in entries:
            yield now, entry


def find_ungrouped(rsmq: RSMQ, keys: QueueKeys, ids: Iterable[bytes]) -> FaultCount:
    """Return those of some messages whose group is stored nowhere."""
    found, rest = FaultCount(), list(ids)
    for first in range(0, len(rest), 100):
        for id in rsmq.run(examine_ungrouped(keys, rest[first : first + 100])):
            found.add(id)
    return found


def walk_orphan_fields(rsmq: RSMQ, keys: QueueKeys) -> Iterator[tuple[int, OrphanField]]:
    """
    Yield every field of a queue's hash that belongs to no id in the queue.

    Each comes with the server's time in ms. As SCAN does, the walk may yield a field twice.
    """
    cursor, count = b"0", _FIRST_STEP_FIELDS
    while True:
        cursor, now, size, orphans = rsmq.run(examine_fields(keys, cursor, count))
        for orphan in orphans:
            yield now, orphan
        if cursor == b"0":
            return
        # Large bodies make steps smaller: the server answers other clients only between steps.
        count = min(max(count * _STEP_BYTES // max(size, 1), 1), _MAX_STEP_FIELDS)


class FaultCount:
    """The number of ids or fields that have a certain fault, and their names."""

    def __init__(self) -> None:
        self.number = 0
        self.ids: dict[bytes, None] = {}

    def add(self, id: bytes) -> None:
        """Count an id or field. One that is remembered is not counted twice."""
        if id in self.ids:
            return
        self.number += 1
        if len(self.ids) < MAX_REMEMBERED_IDS:
            self.ids[id] = None

    def keep_confirmed(self, recheck: FaultCount | None) -> None:
        """Remove the ids that a second check did not find; None if it found none."""
        confirmed = {} if recheck is None else recheck.ids
        self.ids = {id: None for id in self.ids if id in confirmed}
        # If the second check found more ids than it remembers, their number can't be known.
        if recheck is None or recheck.number <= MAX_REMEMBERED_IDS:
            self.number = len(self.ids)

    def make_finding(self, code: str, ns: str, queue: str) -> Finding:
        """Return the finding for this fault of a queue."""
        examples = list(self.ids)[:MAX_EXAMPLES]
        return make_finding(code, ns, queue, number=self.number, examples=examples)


def get_delay_ms(facts: QueueFacts) -> float:
    """Return a queue's delay in ms, as far as the stored value is a number."""
    return 1000 * parse_seconds(facts.fields.get("delay", b"0"))


def tally_message_faults(rsmq: RSMQ, facts: QueueFacts) -> tuple[int, dict[str, FaultCount]]:
    """
    Return the number of ids in a queue, and the faults of its messages, by code.

    Of those of ``lost-group``, ``find_ungrouped`` finds the ones that are.
    """
    keys, delay_ms = facts.keys, get_delay_ms(facts)
    tallies: dict[str, FaultCount] = {}
    number = 0
    for now, entry in walk_entries(rsmq, keys):
        number += 1
        for code in find_entry_faults(entry, now, delay_ms):
            tallies.setdefault(code, FaultCount()).add(entry.id)
        if GROUPED in facts.fields and looks_held_back(entry, now):
            tallies.setdefault("lost-group", FaultCount()).add(entry.id)
    return number, {**tallies, **tally_field_faults(rsmq, keys)}


def tally_field_faults(rsmq: RSMQ, keys: QueueKeys) -> dict[str, FaultCount]:
    """Return the faults of the fields that belong to no id in the queue, by code."""
    tallies: dict[str, FaultCount] = {}
    for _, orphan in walk_orphan_fields(rsmq, keys):
        code = find_field_fault(orphan)
        if code:
            tallies.setdefault(code, FaultCount()).add(orphan.field)
    return tallies
