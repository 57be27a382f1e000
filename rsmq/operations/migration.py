"""
Operations that move messages between a queue and another system or another server.
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
from rsmq.operations.restore import RestoredMessage
from rsmq.wire.keys import QueueKeys

#: The outcome of each message of a call, one digit each, in the order of the call.
Outcomes: TypeAlias = bytes


class UncertainOutcomes(bytes):
    """
    The outcomes of a call whose earlier attempt may already have run.

    The reply to the earlier attempt was lost, and with it the outcomes of the messages that it
    moved.
    """


#: Outcomes of ``add_copies``.
PRESENT, ADDED, CONSUMED = b"0"[0], b"1"[0], b"2"[0]

#: Outcomes of ``move_from_...``: the message was moved; it was copied before, and was removed from
#: the source only; it stays, as its id has another body in the queue.
MOVED, ALREADY_COPIED, CONFLICT = b"1"[0], b"2"[0], b"3"[0]

_NO_MESSAGE = (b"", b"", b"", b"", b"")


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """
    A message that comes from another system or another server.

    Attributes:
        digest: identifies the message among all others of its kind of source; empty if only its id
            does.
        message: the message as the queue stores it; None if nothing is stored, and the element is
            only removed from the source.
    """

    digest: bytes
    message: RestoredMessage | None

    def row(self) -> tuple[bytes, ...]:
        """Return the arguments for this message, in the order of ``incoming.lua``."""
        return self.digest, *(_NO_MESSAGE if self.message is None else self.message.row())


@dataclass(frozen=True, slots=True)
class Destination:
    """
    The place to which messages are moved: a queue, or a hash of messages set aside.

    Attributes:
        keys: the keys of the queue; None if the messages are set aside first.
        aside_key: the key of the hash of messages set aside; empty if there is a queue.
        realtime: whether to publish the number of messages in the queue.
    """

    keys: QueueKeys | None
    aside_key: bytes = b""
    realtime: bool = False


def move_from_list(
    to: Destination,
    key: bytes,
    side: Literal["left", "right"],
    messages: Sequence[tuple[bytes, IncomingMessage]],
    own_keys: Sequence[bytes] = (),
) -> Operation[Outcomes]:
    """
    Move elements of a list, from the end where consumers receive them. Atomic.

    Args:
        to: the destination.
        key: the key of the list.
        side: the end where consumers receive.
        messages: each element and its message, the next one first.
        own_keys: for each message a key that is removed with it; or none for all of them.
    """
    rows = [value for element, message in messages for value in (element, *message.row())]
    return _move(load("move_from_list"), to, (key, *own_keys), (side.encode(),), rows)


def move_from_sorted_set(
    to: Destination, key: bytes, messages: Sequence[tuple[bytes, IncomingMessage]]
) -> Operation[Outcomes]:
    """
    Move members of a sorted set. Atomic.

    Args:
        to: the destination.
        key: the key of the sorted set.
        messages: each member and its message.
    """
    rows = [value for element, message in messages for value in (element, *message.row())]
    return _move(load("move_from_sorted_set"), to, (key,), (), rows)


def move_from_queue(
    to: Destination,
    source_hash: bytes,
    source_zset: bytes,
    source_copied: bytes,
    messages: Sequence[tuple[bytes, float, IncomingMessage]],
) -> Operation[Outcomes]:
    """
    Move messages of another RSMQ queue whose scores are still those that were read. Atomic.

    Args:
        to: the destination.
        source_hash: the key of the other queue's bodies and counters.
        source_zset: the key of its ids.
        source_copied: the key of the digests of messages that were copied to it. Those of removed
            messages are deleted there.
        messages: the id of each message, its score, and the message as the queue stores it.

    Raises:
        NotPossible: the destination is the source.
    """
    if to.keys is not None and source_zset == to.keys.zset:
        raise NotPossible(
            f"The queue {to.keys.name!r} is the source and the target", hint="Give another one."
        )
    rows = [
        value
        for id, score, message in messages
        for value in (id, repr(score).encode(), *message.row())
    ]
    return _move(load("move_from_queue"), to, (source_hash, source_zset, source_copied), (), rows)


def _move(
    script: Script,
    to: Destination,
    keys: Sequence[bytes],
    extra: tuple[bytes, ...],
    rows: list[bytes],
) -> Operation[Outcomes]:
    queue = to.keys
    target = (to.aside_key,) * 3 if queue is None else (queue.hash, queue.zset, queue.copied)
    channel = b"" if queue is None or not to.realtime else queue.channel
    return Operation(
        script,
        (*target, *keys),
        (b"aside" if queue is None else b"queue", *extra, channel, *rows),
        bytes,
        # A second run does not find the messages at the source. Equal elements of a list stay there
        # if the first run has added their ids to the target.
        Retry.ALWAYS,
        () if queue is None else (queue.name,),
        parse_retried=UncertainOutcomes,
    )


def open_copy(
    keys: QueueKeys, *, lifetime: float, list_field: bytes = b"list:", list_digest: bytes = b""
) -> Operation[tuple[int, bytes]]:
    """
    Open a copy, or continue the open one.

    The result is the Unix microsecond when the copy was opened, and the digest of the list that is
    copied, empty for none. If the copy is open, these are the stored ones.

    Args:
        keys: the keys of the queue.
        lifetime: seconds for which the record of the copy is kept.
        list_field: the field in which the digest of a list without ids is stored.
        list_digest: that digest; empty for a source with ids.
    """
    return Operation(
        load("open_copy"),
        (keys.hash, keys.copied),
        (digits(round(lifetime * 1000)), list_field, list_digest),
        lambda reply: (int(reply[0]), bytes(reply[1])),
        Retry.ALWAYS,
        (keys.name,),
    )


def forget_copies(keys: QueueKeys, digests: Sequence[bytes]) -> Operation[int]:
    """
    Delete the digests of messages that can't be added a second time.

    The result is the number of fields that are left in the record of the copy; 0 if it was deleted.
    """
    return Operation(
        load("forget_copies"), (keys.copied,), tuple(digests), int, Retry.ALWAYS, (keys.name,)
    )


def add_copies(
    keys: QueueKeys, messages: Sequence[IncomingMessage], *, realtime: bool, lifetime: float
) -> Operation[Outcomes]:
    """
    Add messages to a queue, each once, even if it was consumed since. Atomic.

    Args:
        keys: the keys of the queue.
        messages: the messages, each with a digest.
        realtime: whether to publish the number of messages in the queue.
        lifetime: seconds for which the digests are kept.
    """
    return Operation(
        load("add_copies"),
        (keys.hash, keys.zset, keys.copied),
        (
            keys.channel if realtime else b"",
            digits(round(lifetime * 1000)),
            *(value for message in messages for value in message.row()),
        ),
        bytes,
        Retry.ALWAYS,
        (keys.name,),
    )


def parse_set_aside(id: bytes, value: bytes) -> IncomingMessage:
    """Parse an entry of the hash of messages set aside: the id is the field."""
    score, count, first, digest, body = value.split(b" ", 4)
    return IncomingMessage(
        digest,
        RestoredMessage(
            id.decode(),
            body,
            int(score) if score else None,
            int(count or 0),
            int(first) if first else None,
        ),
    )


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """
    A received message that is forwarded to another system.

    Attributes:
        message: the received message, as its receipt.
        element: the element that is pushed onto the list.
        key: the key of the hash that is written with it; empty for none.
        fields: the fields of that hash.
    """

    message: Message
    element: bytes
    key: bytes = b""
    fields: Mapping[bytes, bytes] = field(default_factory=dict)

    def row(self) -> tuple[bytes, ...]:
        """Return the arguments for this message, in the order of ``forward_messages.lua``."""
        return (
            self.message.id.encode("utf-8", "surrogateescape"),
            digits(self.message.receive_count),
            self.element,
            digits(2 * len(self.fields)),
            *(value for pair in self.fields.items() for value in pair),
        )


def forward_messages(
    keys: QueueKeys, list_key: bytes, messages: Sequence[OutgoingMessage]
) -> Operation[Outcomes]:
    """
    Push received messages onto a list, and delete them from their queue. Atomic.

    A message is left out if it was deleted, or received again since.
    """
    return Operation(
        load("forward_messages"),
        (keys.hash, keys.zset, list_key, *(each.key for each in messages if each.key)),
        tuple(value for each in messages for value in each.row()),
        bytes,
        Retry.ALWAYS,
        (keys.name,),
    )
