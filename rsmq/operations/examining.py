"""
Looking at what stands in Redis as it is, whoever wrote it: the steps of an examination.

Nothing in here changes anything. A step reads about a thousand keys, ids or fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rsmq.lua import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.operations.walk import Place, next_place, step
from rsmq.wire.fields import ATTRIBUTE_FIELDS
from rsmq.wire.keys import Namespace, QueueKeys, key_that_no_program_uses
from rsmq.wire.names import encode_name

#: The fields of a queue's hash that are no messages: ours and Node's, and those of other clients.
FOREIGN_FIELDS = ("createdby", "msgs", "hiddenmsgs")
EXAMINED_FIELDS = (*ATTRIBUTE_FIELDS, *FOREIGN_FIELDS)


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """
    What stands where the names of queues are kept.

    Attributes:
        now_ms: the server's time.
        kind: the key's type, as Redis names it.
        left_ms: ms until it expires; negative for never.
        names: how many names there are.
        info: what INFO answers; None where this user or server does not.
    """

    now_ms: int
    kind: str
    left_ms: int
    names: int
    info: str | None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """
    What there is of a queue.

    Attributes:
        keys: its keys.
        now_ms: the server's time.
        hash_kind: the type of its hash, as Redis names it.
        zset_kind: the type of its sorted set.
        hash_left_ms: ms until the hash expires; negative for never.
        zset_left_ms: ms until the sorted set expires; negative for never.
        listed: whether its name is in the index.
        length: fields of the hash.
        ids: ids in the sorted set.
        fields: attribute fields as stored; those that are missing are left out.
        extensions: the keys of extension data that are there.
    """

    keys: QueueKeys
    now_ms: int
    hash_kind: str
    zset_kind: str
    hash_left_ms: int
    zset_left_ms: int
    listed: bool
    length: int
    ids: int
    fields: dict[str, bytes]
    extensions: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class StoredRow:
    """
    An id in a queue's sorted set, and what is stored of it.

    Attributes:
        id: the id.
        score: its score, as Redis writes it.
        has_body: whether there is a body.
        count: its receive count as stored; None without one.
        first: the time of its first receive as stored; None without one.
    """

    id: bytes
    score: bytes
    has_body: bool
    count: bytes | None
    first: bytes | None


@dataclass(frozen=True, slots=True)
class LooseField:
    """
    A field of a queue's hash that belongs to no id in the queue.

    Attributes:
        field: its name.
        id: the id that it is about; the field itself unless it is a counter.
        has_body: whether that id has a body.
    """

    field: bytes
    id: bytes
    has_body: bool


def examine_index(key: bytes) -> Operation[IndexFacts]:
    """Look at an index of queues, and ask the server for INFO."""

    def parse(reply: Any) -> IndexFacts:
        now, kind, left, names, info = reply
        said = None if info is None else info.decode("utf-8", "replace")
        return IndexFacts(int(now), kind.decode(), left, names, said)

    return Operation(load("examine_index"), (key,), (), parse, Retry.ALWAYS)


def examine_keys(namespace: Namespace, cursor: bytes) -> Operation[tuple[bytes, list[bytes]]]:
    """A step of SCAN for the keys of a namespace: where to go on (b'0' at the end), and keys."""
    prefix = encode_name(namespace.name)
    for special in (b"\\", b"*", b"?", b"[", b"]", b"^"):
        prefix = prefix.replace(special, b"\\" + special)
    return Operation(
        load("examine_keys"),
        (namespace.queues,),
        (cursor, prefix + b":*"),
        lambda reply: (reply[0], reply[1]),
        Retry.ALWAYS,
    )


def examine_queue(namespace: Namespace, qname: str) -> Operation[QueueFacts]:
    """Look at a queue: its keys and attributes, not its messages."""
    keys = namespace.queue(qname)

    def parse(reply: Any) -> QueueFacts:
        now, kind, left, other, other_left, listed, length, ids, values, found = reply
        fields = zip(EXAMINED_FIELDS, values, strict=False)  # none where it is no hash
        extensions = zip(keys.extensions, found, strict=True)
        return QueueFacts(
            keys,
            int(now),
            kind.decode(),
            other.decode(),
            left,
            other_left,
            bool(listed),
            length,
            ids,
            {name: value for name, value in fields if value is not None},
            tuple(key for key, there in extensions if there),
        )

    return Operation(
        load("examine_queue"),
        (keys.hash, keys.zset, namespace.queues, *keys.extensions),
        (encode_name(keys.name), *(name.encode() for name in EXAMINED_FIELDS)),
        parse,
        Retry.ALWAYS,
        (keys.name,),
    )


def examine_messages(
    keys: QueueKeys, place: Place
) -> Operation[tuple[Place | None, int, list[StoredRow]]]:
    """A step along the ids: where to go on, the server's time in ms, and at most 1,000 ids."""
    looked = step("examine_messages", keys, place)

    def parse(reply: Any) -> tuple[Place | None, int, list[StoredRow]]:
        told = reply[3]
        rows = [
            StoredRow(told[at], told[at + 1], bool(told[at + 2]), told[at + 3], told[at + 4])
            for at in range(0, len(told), 5)
        ]
        return next_place(reply), int(reply[2]), rows

    return Operation(looked.script, looked.keys, looked.args, parse, Retry.ALWAYS, looked.queues)


def examine_fields(
    keys: QueueKeys, cursor: bytes, count: int
) -> Operation[tuple[bytes, int, int, list[LooseField]]]:
    """
    A step along the fields of the hash.

    Returns:
        Where to go on (b'0' at the end), the server's time in ms, the bytes that the server went
        through, and the fields that belong to no id in the queue.
    """

    def parse(reply: Any) -> tuple[bytes, int, int, list[LooseField]]:
        cursor, now, size, told = reply
        loose = [
            LooseField(told[at], told[at + 1], bool(told[at + 2])) for at in range(0, len(told), 3)
        ]
        return cursor, int(now), size, loose

    return Operation(
        load("examine_fields"),
        (keys.hash, keys.zset),
        (cursor, digits(count)),
        parse,
        Retry.ALWAYS,
        (keys.name,),
    )


def examine_rights(namespace: Namespace, qname: str) -> Operation[set[str]]:
    """The commands that this user may not send on the keys of a queue."""
    keys = namespace.queue(qname)
    return Operation(
        load("examine_rights"),
        (keys.hash, keys.zset, namespace.queues, key_that_no_program_uses(keys)),
        (encode_name(keys.name),),
        lambda reply: {command.decode().lower() for command in reply},
        Retry.ALWAYS,
        (keys.name,),
    )
