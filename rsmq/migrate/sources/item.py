"""
Places and messages of a source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rsmq.model import QueueAttributes

#: How messages lie in a place: a list whose consumers take from its left or right end, a sorted
#: set, or an RSMQ queue.
Shape: TypeAlias = Literal["left", "right", "sorted", "queue"]

#: As a source sees its messages. What is ready can be taken now.
ItemState: TypeAlias = Literal["ready", "delayed", "in_flight"]

STATES: tuple[ItemState, ...] = ("ready", "delayed", "in_flight")


@dataclass(frozen=True, slots=True)
class Place:
    """
    A key of a source in which messages lie.

    Attributes:
        key: the key.
        shape: how they lie there.
        state: what they are; of an RSMQ queue each message tells.
        hash: the key of an RSMQ queue's bodies and counters.
    """

    key: bytes
    shape: Shape
    state: ItemState
    hash: bytes = b""


@dataclass(frozen=True, slots=True)
class Element:
    """
    What stands in a place for one message.

    Attributes:
        raw: an element of a list, or a member of a sorted set.
        score: the member's.
    """

    raw: bytes
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """
    A message of a source.

    Attributes:
        element: what stands for it.
        state: what it is there.
        body: its body as it will be in the queue; None if it goes nowhere, as one that its
            system has deleted.
        identity: tells it from all others of its kind of source; empty where it has nothing of
            its own, as an element of a plain list.
        id: an RSMQ id, which it keeps.
        sent_us: when it was sent, Unix microseconds; None if nothing tells.
        due_ms: when it becomes visible, Unix ms; None is where it stands in the order.
        receive_count: how often it was received.
        first_received_ms: when for the first time; None is not known.
        others: keys that go with it.
        is_half: whether it may be half of a send that is under way: it stays where it is.
        notes: what of it has no place in a queue, in a few words each.
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


@dataclass(frozen=True, slots=True)
class Found:
    """
    A queue of a source.

    Attributes:
        name: its name there.
        counts: how many messages it has, by state.
        attributes: what of its settings a queue of RSMQ has too: vt, delay, maxsize.
        notes: what of it has no place in a queue.
        stored: all attributes, of an RSMQ queue.
    """

    name: str
    counts: Mapping[ItemState, int]
    attributes: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stored: QueueAttributes | None = None

    @property
    def total(self) -> int:
        """All its messages."""
        return sum(self.counts.values())
