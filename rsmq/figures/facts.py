"""
The facts that are read of many queues at once, and how they are parsed.

A caller names the facts that it wants. One script reads all of them of some queues; see
``reading.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar

from rsmq.figures.operations import HiddenCounts, parse_hidden
from rsmq.history.operations import parse_created
from rsmq.history.records import (
    History,
    RecordedTotals,
    last_minute_of,
    make_history,
    parse_records,
    totals_of,
)
from rsmq.model import QueueAttributes
from rsmq.operations.replies import parse_attributes
from rsmq.wire.groups import GroupName, parse_group
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_integer, parse_number, parse_time

T = TypeVar("T")

#: Seconds for which messages of a queue are new.
NEW_SECONDS = 3600
_MINUTE_MS = 60_000
_HOUR_MINUTES = 60
#: A rate is not known if nothing was recorded for so long.
_MAX_SINCE_SECONDS = 180
_CACHED_HISTORIES = 2048
#: Fewer messages may have been in flight when a consumer died.
_MIN_REPEATED = 3
_VALUES_PER_MESSAGE = 4


@dataclass(frozen=True, eq=False)
class QueueFact(Generic[T]):
    """
    A fact of a queue.

    Attributes:
        name: that in ``read_queues.lua``.
        parse: converts what the script returns; its other arguments are the name of the queue, and
            the server's time in Unix ms.
        step: queues of which one script reads it, in about half a millisecond.
        has_history: whether it needs the history of the queue.
    """

    name: str
    parse: Callable[[Any, str, int], T]
    step: int
    has_history: bool = False


@dataclass(frozen=True, slots=True)
class RepeatedReceives:
    """
    Receives that ended without a delete or a recorded retry, of the next ten hidden messages.

    A release by a consumer that is not a worker counts too: nothing records it.

    Attributes:
        id: of a message in flight that had at least two of them; None without one.
        count: how often it was received.
        repeated: messages that had at least one.
        received: messages that were received.
        lost: of how many receives of the message nothing is known; at least two with an id.
        first_received_ms: Unix ms of the first receive of the message, if it is known.
        last_first_received_ms: the last Unix ms at which one of the repeated messages was received
            first; None if one is not known.
    """

    id: str | None = None
    count: int = 0
    repeated: int = 0
    received: int = 0
    lost: int = 0
    first_received_ms: int | None = None
    last_first_received_ms: int | None = None

    @property
    def are_many(self) -> bool:
        """Whether so many messages are received again that it is not the fault of one of them."""
        return self.repeated >= _MIN_REPEATED and 2 * self.repeated >= self.received


def parse_repeated(found: Sequence[Any]) -> RepeatedReceives:
    """Return what ``received_again.lua`` has returned."""
    id, count, lost, repeated, received, first, last = found
    name = None if id is None else decode_name(id)
    return RepeatedReceives(
        name, count, repeated, received, lost, parse_integer(first), parse_integer(last)
    )


@dataclass(frozen=True, slots=True)
class QueueBacklog:
    """
    The waiting messages of a queue.

    Attributes:
        name: its name.
        messages: messages in it.
        visible: those that are visible now.
        visible_since_ms: Unix ms since when the first visible one is visible; None without one.
        fresh: those that became visible in the last hour.
        fresh_since_ms: Unix ms at which the first of these did.
        dead_letter_queue: that of its policy; None without a policy.
        paused_ms: Unix ms of its pause; None if it is not paused.
        vt: its visibility timeout in seconds.
        repeated: the receives that ended without a delete, of its next hidden messages.
        has_reasons: whether workers have moved messages to it, as their dead-letter queue.
        dead_letters: messages in the dead-letter queue of its policy; None without a policy.
        sent: messages that were ever sent; None if that is not stored.
        received: receives, as above.
        created: Unix seconds of its creation, as above.
        modified: when its attributes were set; None if that is not stored.
        resumed_ms: Unix ms of its last resume; None without one.
    """

    name: str
    messages: int
    visible: int = 0
    visible_since_ms: float | None = None
    fresh: int = 0
    fresh_since_ms: float | None = None
    dead_letter_queue: str | None = None
    paused_ms: float | None = None
    vt: float = 0
    repeated: RepeatedReceives = field(default_factory=RepeatedReceives)
    has_reasons: bool = False
    dead_letters: int | None = None
    sent: float | None = None
    received: float | None = None
    created: float | None = None
    modified: datetime | None = None
    resumed_ms: float | None = None


def _parse_backlog(stored: Any, name: str, _: int) -> QueueBacklog:
    messages, visible, first, fresh, first_fresh, target, dead_letters, paused, *rest = stored
    vt, has_reasons, sent, received, created, modified, resumed, *repeated = rest
    return QueueBacklog(
        name, messages, visible, parse_number(first), fresh, parse_number(first_fresh),
        target and decode_name(target), parse_number(paused), parse_number(vt) or 0,
        parse_repeated(repeated), bool(has_reasons), dead_letters, parse_number(sent),
        parse_number(received), parse_number(created), parse_time(modified), parse_number(resumed),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueActivity:
    """
    The sends and receives of a queue.

    Attributes:
        sent_per_second: messages per second in the last one or two minutes; None if they were not
            recorded.
        received_per_second: receives per second, as above.
        sent_since: messages that were sent since the last record; None without a record.
        received_since: receives, as above.
        hour: the last hour in minutes.
    """

    sent_per_second: float | None
    received_per_second: float | None
    sent_since: int | None
    received_since: int | None
    hour: History


def parse_activity(stored: Sequence[bytes | None], _: str, now_ms: int) -> QueueActivity:
    """
    Return what was sent and received in a queue.

    Args:
        stored: the totals of sends and receives, the time of creation, and the fields of the
            history that ``recent_fields`` names; as they are stored.
        now_ms: Unix ms.
    """
    sent, received, created, state, *chunks = stored
    recorded = totals_of(state or b"", parse_created(created))
    minute = now_ms // _MINUTE_MS
    if recorded is None:
        return QueueActivity(None, None, None, None, _hour_before(b"", b"", minute))
    hour = _hour_before(chunks[0] or b"", chunks[1] or b"", minute)
    sent_since = _since(sent, recorded.sent)
    received_since = _since(received, recorded.received)
    return QueueActivity(
        _rate(sent_since, _last(hour, hour.sent, recorded), recorded, now_ms),
        _rate(received_since, _last(hour, hour.received, recorded), recorded, now_ms),
        sent_since,
        received_since,
        hour,
    )


def _since(total: bytes | None, recorded: int) -> int:
    now = int(parse_number(total) or 0)
    return now - recorded if now >= recorded else now  # a smaller one has begun again


def _last(hour: History, column: list[int | None], recorded: RecordedTotals) -> int | None:
    """Return the value of the last recorded minute."""
    at = recorded.minute - 1 - hour.start_ms // _MINUTE_MS
    return column[at] if 0 <= at < len(column) else None


def _rate(since: int, last: int | None, recorded: RecordedTotals, now_ms: int) -> float | None:
    """Return a rate from the last recorded minute, and what was counted since."""
    seconds = now_ms / 1000 - recorded.minute * 60
    if seconds > _MAX_SINCE_SECONDS:
        return None
    if last is None:
        return since / max(seconds, 1)
    return (last + since) / (seconds + 60)


@lru_cache(_CACHED_HISTORIES)
def _hour_before(before: bytes, now: bytes, minute: int) -> History:
    """Return the last hour: chunks change once a minute, and pages read them every two seconds."""
    hour = minute // 60
    records = parse_records({b"m%d" % (hour - 1): before, b"m%d" % hour: now}, by_hours=False)
    return make_history(records, minute - _HOUR_MINUTES, minute, 1)


@dataclass(frozen=True, slots=True)
class QueueRate:
    """Messages and receives of a queue in a second, as ``QueueActivity`` has them."""

    sent_per_second: float
    received_per_second: float


def _parse_rate(stored: Any, _: str, now_ms: int) -> QueueRate | None:
    sent, received, created, state, tail = stored
    recorded = totals_of(state or b"", parse_created(created))
    if recorded is None:
        return None
    last_sent, last_received = last_minute_of(tail or b"", recorded.minute) or (None, None)
    sent_rate = _rate(_since(sent, recorded.sent), last_sent, recorded, now_ms)
    received_rate = _rate(_since(received, recorded.received), last_received, recorded, now_ms)
    if sent_rate is None or received_rate is None:
        return None
    return QueueRate(sent_rate, received_rate)


@dataclass(frozen=True, slots=True)
class NextMessage:
    """
    A message that waits for its time.

    Attributes:
        id: as it is stored.
        visible_at_ms: Unix ms.
        error: the failure of its last attempt; None if it was never received.
    """

    id: str
    visible_at_ms: float
    receive_count: int
    error: str | None


def _parse_next(values: list[Any], _name: str, _now_ms: int) -> tuple[NextMessage, ...]:
    rows = zip(*(values[at::_VALUES_PER_MESSAGE] for at in range(_VALUES_PER_MESSAGE)), strict=True)
    return tuple(
        NextMessage(
            decode_name(id),
            float(score),
            int(parse_number(count) or 0),
            None if error is None else decode_name(error),
        )
        for id, score, count, error in rows
    )


@dataclass(frozen=True, slots=True)
class LargestGroup:
    """
    The group or the limit key of a queue with the most admitted messages: those that may run.

    Attributes:
        name: the group.
        admitted: how many admitted messages it has.
        held_back: how many it has held back.
        total: the admitted messages of all groups of the queue.
    """

    name: GroupName
    admitted: int
    held_back: int
    total: int

    @property
    def floods(self) -> bool:
        """Whether it has most of the messages that may run, and other groups wait among them."""
        is_most = self.admitted >= max(_MIN_FLOOD, _FLOOD_SHARE * self.total)
        return self.total > self.admitted and is_most


#: A group with so many messages, and with such a share of all, floods its queue.
_MIN_FLOOD, _FLOOD_SHARE = 50, 0.6


def parse_largest_group(stored: Sequence[bytes], *_: object) -> LargestGroup:
    """Return what ``largest_group.lua`` has returned."""
    name, *numbers = stored
    return LargestGroup(parse_group(name), *map(int, numbers))


#: The attributes and counts of a queue: 10 µs of Redis's time.
ATTRIBUTES: QueueFact[QueueAttributes] = QueueFact(
    "attributes", lambda stored, *_: parse_attributes(stored), 50
)
#: The backlog: 3 to 15 µs.
BACKLOG = QueueFact("backlog", _parse_backlog, 150)
#: The activity: 4 µs.
ACTIVITY = QueueFact("activity", parse_activity, 100, has_history=True)
#: The rates alone, for lists of many queues: 3 µs. None if they are not known.
RATES = QueueFact("rates", _parse_rate, 150, has_history=True)
#: The numbers of hidden messages by state, of more than 100 a sample: up to 0.2 ms.
HIDDEN: QueueFact[HiddenCounts] = QueueFact("hidden", lambda stored, *_: parse_hidden(stored), 10)
#: The next delayed and retrying messages, of the next 50 hidden ones.
NEXT = QueueFact("next", _parse_next, 10)
#: The group with the most admitted messages, by a sample of 50 of them: 50 µs; None without groups.
GROUPS = QueueFact("groups", parse_largest_group, 10)
#: The bytes of its bodies, by a sample of 20 messages: 20 µs.
BODIES: QueueFact[int] = QueueFact("bodies", lambda stored, *_: int(stored), 25)
#: When messages of receipts are visible again, Unix ms; None if one was settled or received again.
RECEIPTS: QueueFact[list[float | None]] = QueueFact(
    "receipts", lambda stored, *_: list(map(parse_number, stored)), 150
)
