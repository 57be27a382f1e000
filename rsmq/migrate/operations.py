"""
Operations that move messages between a queue and another system or another server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from rsmq.errors import NotPossible
from rsmq.model import Message
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_keys, on_queue
from rsmq.operations.restore import RestoredMessage
from rsmq.operations.scripts import Script, loader_of
from rsmq.vocabulary.stored import MESSAGE_RECORDS
from rsmq.wire.keys import QueueKeys

load = loader_of("migrate")

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

#: The outcome of all messages of ``move_from_...`` if another run has changed the watermark.
CHANGED = b"4"[0]

#: Comes before each record in the place of a unique key.
_MARK = b"\0"

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
        unique_key: the unique key that the message gets, if it is free; empty for none. A message
            with records gets none.
    """

    digest: bytes
    message: RestoredMessage | None
    unique_key: bytes = b""

    def row(self) -> tuple[bytes, ...]:
        """Return the arguments for this message, in the order of ``incoming.lua``."""
        message = _NO_MESSAGE if self.message is None else self.message.row()
        records = {} if self.message is None else self.message.records
        texts = [records.get(each.key, b"") for each in MESSAGE_RECORDS]
        label = _MARK + _MARK.join(texts).rstrip(_MARK) if any(texts) else self.unique_key
        return self.digest, *message, label


@dataclass(frozen=True, slots=True)
class Watermark:
    """
    The score and the id of the last message that was added in the order of its source.

    It is stored beside the target queue, so that a run continues in the order of the one before.

    Attributes:
        field: its field in the record of copies; empty to store none.
        after: the watermark behind the messages of a call.
        before: the watermark that was read before the call; empty for none.
    """

    field: bytes = b""
    after: bytes = b""
    before: bytes = b""


NO_WATERMARK = Watermark()


@dataclass(frozen=True, slots=True)
class RunClaim:
    """
    The right of a run to add messages to a queue, which a later run takes from it.

    Attributes:
        field: its field in the record of copies; empty if no right is needed.
        run: the value of that field while the run has the right.
    """

    field: bytes = b""
    run: bytes = b""


NO_CLAIM = RunClaim()


@dataclass(frozen=True, slots=True)
class ToQueue:
    """
    A queue to which messages are moved.

    Attributes:
        realtime: whether to publish the number of messages in the queue.
        watermark: the watermark of the source. If another run has changed it, nothing is moved.
        lifetime: seconds for which the watermark is kept.
    """

    keys: QueueKeys
    realtime: bool = False
    watermark: Watermark = NO_WATERMARK
    lifetime: float = 0.0


@dataclass(frozen=True, slots=True)
class ToAside:
    """
    A hash in which messages are set aside, on their way to another server.

    Attributes:
        key: the key of the hash.
        lock_key: the key of the lock of the run.
        run: the value of the lock.
        target: the target queue, as the hash names it.
    """

    key: bytes
    lock_key: bytes
    run: bytes
    target: bytes


#: Where messages are moved to.
Destination: TypeAlias = ToQueue | ToAside


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
        side: the end where consumers receive.
        messages: each element and its message, the next one first.
        own_keys: for each message a key that is removed with it; or none for all of them.
    """
    rows = [value for element, message in messages for value in (element, *message.row())]
    has_keys = any(message.unique_key for _, message in messages)
    script = load("move_from_list")
    return _move(script, to, (key, *own_keys), (side.encode(),), rows, has_keys=has_keys)


def move_from_sorted_set(
    to: Destination, key: bytes, messages: Sequence[tuple[bytes, IncomingMessage]]
) -> Operation[Outcomes]:
    """
    Move members of a sorted set. Atomic.

    Args:
        messages: each member and its message.
    """
    rows = [value for element, message in messages for value in (element, *message.row())]
    has_keys = any(message.unique_key for _, message in messages)
    return _move(load("move_from_sorted_set"), to, (key,), (), rows, has_keys=has_keys)


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
        source_hash: the key of the other queue's bodies and counters.
        source_zset: the key of its ids.
        source_copied: the key of the digests of messages that were copied to it. Those of removed
            messages are deleted there.
        messages: the id of each message, its score, and the message as the queue stores it.

    Raises:
        NotPossible: the destination is the source.
    """
    if isinstance(to, ToQueue) and source_zset == to.keys.zset:
        raise NotPossible(
            f"The queue {to.keys.name!r} is the source and the target", hint="Give another one."
        )
    rows = [
        value
        for id, score, message in messages
        for value in (id, repr(score).encode(), *message.row())
    ]
    keys = source_hash, source_zset, source_copied
    return _move(load("move_from_queue"), to, keys, (), rows, has_keys=False)


def _move(
    script: Script,
    to: Destination,
    keys: Sequence[bytes],
    extra: tuple[bytes, ...],
    rows: list[bytes],
    *,
    has_keys: bool,
) -> Operation[Outcomes]:
    target: tuple[bytes, bytes, bytes, bytes]
    header: tuple[bytes, ...]
    queues: tuple[str, ...]
    if isinstance(to, ToQueue):
        mark, channel = to.watermark, to.keys.channel if to.realtime else b""
        unique = _unique(to.keys, has_keys=has_keys)
        target, queues = (to.keys.hash, to.keys.zset, to.keys.copied, unique), (to.keys.name,)
        lifetime = digits(round(to.lifetime * 1000))
        header = b"queue", channel, mark.before, mark.after, mark.field, lifetime
    else:
        target, queues = (to.lock_key, to.key, to.key, to.key), ()
        header = b"aside", b"", to.run, to.target, b"", b""
    return Operation(
        script,
        (*target, *keys),
        (*header, *extra, *rows),
        bytes,
        # A second run does not find the messages at the source. Equal elements of a list stay there
        # if the first run has added their ids to the target.
        RetryClass.ALWAYS,
        queues,
        parse_retried=UncertainOutcomes,
    )


def _unique(keys: QueueKeys, *, has_keys: bool) -> bytes:
    """Return the key of unique keys; the queue's hash if none is used: users may lack the right."""
    return keys.unique if has_keys else keys.hash


def open_copy(
    keys: QueueKeys, *, lifetime: float, list_field: bytes = b"list:", list_digest: bytes = b""
) -> Operation[tuple[int, bytes]]:
    """
    Open a copy, or continue the open one.

    The result is the Unix microsecond when the copy was opened, and the digest of the list that is
    copied, empty for none. If the copy is open, these are the stored ones.

    Args:
        lifetime: seconds for which the record of the copy is kept.
        list_field: the field in which the digest of a list without ids is stored.
        list_digest: that digest; empty for a source with ids.
    """
    return on_queue(
        keys,
        load("open_copy"),
        (keys.hash, keys.copied),
        (digits(round(lifetime * 1000)), list_field, list_digest),
        lambda reply: (int(reply[0]), bytes(reply[1])),
    )


def begin_move(keys: QueueKeys, claim: RunClaim, *, lifetime: float) -> Operation[None]:
    """
    Give a run of a move the right to add messages. The run that had it loses it.

    Args:
        lifetime: seconds for which it is kept.
    """
    return on_queue(
        keys,
        load("begin_move"),
        (keys.hash, keys.copied),
        (claim.field, claim.run, digits(round(lifetime * 1000))),
        lambda _: None,
    )


def replace_lock(key: bytes, holder: bytes | None, run: bytes, lifetime: float) -> Operation[bool]:
    """
    Give a lock to a run, unless its holder has changed; the result is whether the run has it.

    Args:
        key: the key of the lock.
        holder: the holder that was read; None if there was none.
        run: the new holder.
        lifetime: seconds until the lock ends by itself.
    """
    return on_keys(
        load("replace_lock"), (key,), (holder or b"", run, digits(round(lifetime * 1000))), bool
    )


def forget_copies(
    keys: QueueKeys, fields: Sequence[bytes], claim: RunClaim = NO_CLAIM
) -> Operation[int]:
    """
    Delete the digests of messages that can't be added a second time, or facts about a run.

    The result is the number of fields that are left in the record of the copy; 0 if it was deleted.

    Args:
        fields: the digests, and the names of other fields.
        claim: the right of the run. Without it nothing is deleted.
    """
    return on_queue(
        keys,
        load("forget_copies"),
        (keys.hash, keys.copied),
        (claim.field, claim.run, *fields),
        int,
    )


def add_copies(
    keys: QueueKeys,
    messages: Sequence[IncomingMessage],
    *,
    realtime: bool,
    lifetime: float,
    claim: RunClaim = NO_CLAIM,
    watermark: Watermark = NO_WATERMARK,
) -> Operation[Outcomes]:
    """
    Add messages to a queue, each once, even if it was consumed since. Atomic.

    Args:
        messages: the messages, each with a digest.
        realtime: whether to publish the number of messages in the queue.
        lifetime: seconds for which the digests are kept.
        claim: the right of the run. Without it nothing is added.
        watermark: the watermark of the source, which is stored.
    """
    return on_queue(
        keys,
        load("add_copies"),
        (
            keys.hash,
            keys.zset,
            keys.copied,
            _unique(keys, has_keys=any(each.unique_key for each in messages)),
        ),
        (
            keys.channel if realtime else b"",
            digits(round(lifetime * 1000)),
            claim.field,
            claim.run,
            watermark.field,
            watermark.after,
            *(value for message in messages for value in message.row()),
        ),
        bytes,
    )


def forget_set_aside(aside_key: bytes, ids: Sequence[str]) -> Operation[int]:
    """
    Delete messages that were set aside. The result is the number of messages that are left.

    Args:
        aside_key: the key of the hash of messages set aside.
    """
    return on_keys(load("forget_set_aside"), (aside_key,), tuple(id.encode() for id in ids), int)


def parse_set_aside(id: bytes, value: bytes) -> IncomingMessage:
    """Parse an entry of the hash of messages set aside: the id is the field."""
    score, count, first, digest_and_key, body = value.split(b" ", 4)
    digest, _, quoted = digest_and_key.partition(b":")
    label = unquote_to_bytes(quoted)
    unique_key, *texts = label.split(_MARK)
    records = zip(MESSAGE_RECORDS, texts, strict=False)
    return IncomingMessage(
        digest,
        RestoredMessage(
            id.decode(),
            body,
            int(score) if score else None,
            int(count or 0),
            int(first) if first else None,
            {record.key: text for record, text in records if text},
        ),
        unique_key,
    )


#: The type of key onto which messages are pushed.
TargetShape: TypeAlias = Literal["list", "stream"]


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """
    A received message that is forwarded to another system.

    Attributes:
        message: the received message, as its receipt.
        element: the element that is pushed onto the list; empty for a stream.
        key: the key of the hash that is written with it; empty for none.
        fields: the fields of that hash, or of the entry of the stream.
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
    keys: QueueKeys, shape: TargetShape, target: bytes, messages: Sequence[OutgoingMessage]
) -> Operation[Outcomes]:
    """
    Push received messages onto a list or a stream, and delete them from their queue. Atomic.

    A message is left out if it was deleted, or received again since.

    Args:
        shape: whether the target is a list or a stream.
        target: the key of the list or the stream.
    """
    return on_queue(
        keys,
        load("forward_messages"),
        (keys.hash, keys.zset, target, *(each.key for each in messages if each.key)),
        (shape.encode(), *(value for each in messages for value in each.row())),
        bytes,
    )
