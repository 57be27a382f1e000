"""
Messages on their way between a queue and another system, or another server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rsmq.errors import NotPossible
from rsmq.lua.load import Script, load
from rsmq.model import Message
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.operations.restored import Restored
from rsmq.wire.keys import QueueKeys

#: What became of each message of a call.
Told: TypeAlias = bytes


class Unsure(bytes):
    """Answers of a call that may have run before, and then told others that nobody heard."""


#: Answers of ``land_copies``.
THERE, ADDED, CONSUMED = b"0"[0], b"1"[0], b"2"[0]

#: Answers of the takes: it came to where it goes; it was copied before; its id is another's.
TAKEN, COPIED, OTHER = b"1"[0], b"2"[0], b"3"[0]

_NOWHERE = (b"", b"", b"", b"", b"")


@dataclass(frozen=True, slots=True)
class Arrival:
    """
    A message that arrives from elsewhere.

    Attributes:
        digest: tells it from all others of its source; empty if only its id does.
        message: what it is in the queue; None if it is nothing there, and only taken away.
    """

    digest: bytes
    message: Restored | None

    def row(self) -> tuple[bytes, ...]:
        """As ``landing.lua`` has it."""
        return self.digest, *(_NOWHERE if self.message is None else self.message.row())


@dataclass(frozen=True, slots=True)
class Destination:
    """
    Where taken messages go.

    Attributes:
        keys: the queue; None if they go aside first.
        aside: the key of what is aside.
        realtime: whether to publish the number of messages.
    """

    keys: QueueKeys | None
    aside: bytes = b""
    realtime: bool = False


def take_from_list(
    to: Destination,
    key: bytes,
    side: Literal["left", "right"],
    given: Sequence[tuple[bytes, Arrival]],
    others: Sequence[bytes] = (),
) -> Operation[Told]:
    """Take elements off a list, the next one first; for each may go a key of its own."""
    rows = [value for element, arrival in given for value in (element, *arrival.row())]
    return _take(load("take_from_list"), to, (key, *others), (side.encode(),), rows)


def take_from_sorted_set(
    to: Destination, key: bytes, given: Sequence[tuple[bytes, Arrival]]
) -> Operation[Told]:
    """Take members out of a sorted set."""
    rows = [value for element, arrival in given for value in (element, *arrival.row())]
    return _take(load("take_from_sorted_set"), to, (key,), (), rows)


def take_from_queue(
    to: Destination,
    hash: bytes,
    zset: bytes,
    known: bytes,
    given: Sequence[tuple[bytes, float, Arrival]],
) -> Operation[Told]:
    """
    Take messages out of another RSMQ queue that have the scores that were read.

    Args:
        to: where they go.
        hash: the other queue's bodies and counters.
        zset: its ids.
        known: its digests of what was copied to it, which forgets those that leave.
        given: the id of each, its score, and what it is there.

    Raises:
        NotPossible: they would go to where they are.
    """
    if to.keys is not None and zset == to.keys.zset:
        raise NotPossible(
            f"The queue {to.keys.name!r} is the source and the target", hint="Give another one."
        )
    rows = [
        value
        for id, score, arrival in given
        for value in (id, repr(score).encode(), *arrival.row())
    ]
    return _take(load("take_from_queue"), to, (hash, zset, known), (), rows)


def _take(
    script: Script,
    to: Destination,
    keys: Sequence[bytes],
    extra: tuple[bytes, ...],
    rows: list[bytes],
) -> Operation[Told]:
    queue = to.keys
    at = (to.aside,) * 3 if queue is None else (queue.hash, queue.zset, queue.copied)
    channel = b"" if queue is None or not to.realtime else queue.channel
    return Operation(
        script,
        (*at, *keys),
        (b"aside" if queue is None else b"queue", *extra, channel, *rows),
        bytes,
        # When this comes again, what was taken is gone; and of elements that are all alike those
        # are left alone whose ids went there before.
        Retry.ALWAYS,
        () if queue is None else (queue.name,),
        parse_retried=Unsure,
    )


def open_copy(
    keys: QueueKeys, *, lifetime: float, list_field: bytes = b"list:", of_list: bytes = b""
) -> Operation[tuple[int, bytes]]:
    """
    Open a copy, or go on with the open one.

    The result is the microsecond when it was opened, and the digest of the list that it is of.

    Args:
        keys: the queue.
        lifetime: seconds for which it is kept.
        list_field: under which the digest of a list without ids is kept.
        of_list: that digest; empty for what has ids.
    """
    return Operation(
        load("open_copy"),
        (keys.hash, keys.copied),
        (digits(round(lifetime * 1000)), list_field, of_list),
        lambda reply: (int(reply[0]), bytes(reply[1])),
        Retry.ALWAYS,
        (keys.name,),
    )


def forget_copies(keys: QueueKeys, given: Sequence[bytes]) -> Operation[int]:
    """Forget messages, by their digests, that can't come again; how many are known still."""
    return Operation(
        load("forget_copies"), (keys.copied,), tuple(given), int, Retry.ALWAYS, (keys.name,)
    )


def land_copies(
    keys: QueueKeys, given: Sequence[Arrival], *, realtime: bool, lifetime: float
) -> Operation[Told]:
    """
    Add messages to a queue, each once.

    Args:
        keys: the queue.
        given: the messages, each with a digest.
        realtime: whether to publish the number of messages.
        lifetime: seconds for which the digests are kept.
    """
    return Operation(
        load("land_copies"),
        (keys.hash, keys.zset, keys.copied),
        (
            keys.channel if realtime else b"",
            digits(round(lifetime * 1000)),
            *(value for arrival in given for value in arrival.row()),
        ),
        bytes,
        Retry.ALWAYS,
        (keys.name,),
    )


def unpacked(id: bytes, value: bytes) -> Arrival:
    """What stands aside under an id."""
    score, count, first, digest, body = value.split(b" ", 4)
    return Arrival(
        digest,
        Restored(
            id.decode(),
            body,
            int(score) if score else None,
            int(count or 0),
            int(first) if first else None,
        ),
    )


@dataclass(frozen=True, slots=True)
class Departure:
    """
    A received message on its way to another system.

    Attributes:
        message: its receipt.
        element: what is pushed onto the list.
        key: the key of the hash that goes with it; empty if none does.
        fields: what that holds.
    """

    message: Message
    element: bytes
    key: bytes = b""
    fields: Mapping[bytes, bytes] = field(default_factory=dict)

    def row(self) -> tuple[bytes, ...]:
        """As ``hand_over.lua`` has it."""
        return (
            self.message.id.encode("utf-8", "surrogateescape"),
            digits(self.message.receive_count),
            self.element,
            digits(2 * len(self.fields)),
            *(value for pair in self.fields.items() for value in pair),
        )


def hand_over(keys: QueueKeys, list_key: bytes, given: Sequence[Departure]) -> Operation[Told]:
    """Push received messages onto a list, and delete them, in one step."""
    return Operation(
        load("hand_over"),
        (keys.hash, keys.zset, list_key, *(each.key for each in given if each.key)),
        tuple(value for each in given for value in each.row()),
        bytes,
        Retry.ALWAYS,
        (keys.name,),
    )
