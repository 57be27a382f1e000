"""
The queues, places and messages of a source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rsmq.model import QueueAttributes

#: How messages are stored in a place: a list whose consumers receive at its left or right end, a
#: sorted set, or an RSMQ queue.
Shape: TypeAlias = Literal["left", "right", "sorted", "queue"]

#: The state of a message at its source. A ready message can be received now.
ItemState: TypeAlias = Literal["ready", "delayed", "in_flight"]

STATES: tuple[ItemState, ...] = ("ready", "delayed", "in_flight")


@dataclass(frozen=True, slots=True)
class Place:
    """
    A key of a source with messages.

    Attributes:
        key: the key.
        shape: how messages are stored there.
        state: the state of its messages; in an RSMQ queue each message has its own.
        hash: the key of an RSMQ queue's bodies and counters; else empty.
    """

    key: bytes
    shape: Shape
    state: ItemState
    hash: bytes = b""


@dataclass(frozen=True, slots=True)
class Element:
    """
    The element of a list, or the member of a sorted set, that stands for a message.

    Attributes:
        raw: the element or the member.
        score: the score of the member; None for an element of a list.
    """

    raw: bytes
    score: float | None = None


@dataclass(frozen=True, slots=True)
class PeriodicMessage:
    """
    A periodic message of Rqueue, which can be added as a schedule.

    Attributes:
        id: its id in Rqueue, the same for each of its times.
        every: seconds between two of its times.
        body: the body of each time, as a move stores it.
        due_ms: the time that this message stands for, Unix ms. The schedule sends those after it.
    """

    id: str
    every: float
    body: bytes
    due_ms: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """
    A message of a source.

    Attributes:
        element: the element that stands for it.
        state: its state at the source.
        body: its body as the target queue stores it; None if it is not added there, as a message
            that its system has deleted.
        identity: identifies it among all messages of its kind of source; empty if it has no
            identity, as an element of a plain list.
        id: its RSMQ id, which it keeps; None if it gets a new one.
        sent_us: when it was sent, Unix microseconds; None if unknown.
        due_ms: when it becomes visible, Unix ms; None keeps its place in the order.
        receive_count: how often it was received.
        first_received_ms: when it was first received, Unix ms; None if unknown.
        others: keys that are removed with it.
        is_half: whether it may be part of a send that is not complete: it stays at the source.
        notes: its properties that a queue of RSMQ can't store, in a few words each.
        unique_key: the unique key that it gets; empty for none.
        records: its records by key, as ``RestoredMessage`` has them.
        periodic: the schedule that continues it; None if it is not taken over.
    """

    element: Element
    state: ItemState
    body: bytes | None
    identity: bytes = b""
    id: str | None = None
    sent_us: int | None = None
    due_ms: int | None = None
    receive_count: int = 0
    first_received_ms: int | None = None
    others: tuple[bytes, ...] = ()
    is_half: bool = False
    notes: tuple[str, ...] = ()
    unique_key: bytes = b""
    records: Mapping[str, bytes] = field(default_factory=dict)
    periodic: PeriodicMessage | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """
    A queue of a source.

    Attributes:
        name: its name at the source.
        counts: the number of its messages, by state.
        settings: the attributes that a queue of RSMQ has too, by name.
        notes: its properties that a queue of RSMQ can't store.
        stored: all attributes, if it is an RSMQ queue.
        fields: the other fields that a copy gets, if it is an RSMQ queue, as they are stored.
    """

    name: str
    counts: Mapping[ItemState, int]
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stored: QueueAttributes | None = None
    fields: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of all its messages."""
        return sum(self.counts.values())
