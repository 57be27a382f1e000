"""
Operations of the doctor: the steps of an examination, and repairs.

An ``examine_`` step reads about a thousand keys, ids or fields, and changes nothing. A repair looks
again at what it changes, and may run twice: a second run changes nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rsmq.lua.load import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.operations.walk import Place, next_place, step
from rsmq.wire.fields import ATTRIBUTE_FIELDS
from rsmq.wire.ids import make_id_suffix
from rsmq.wire.keys import Namespace, QueueKeys, key_that_no_program_uses
from rsmq.wire.limits import DEFAULT_DELAY, DEFAULT_MAXSIZE, DEFAULT_VT
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
        fields = zip(EXAMINED_FIELDS, values, strict=False)  # none where it is not a hash
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


#: A field, what must stand there still (None is nothing), and what is to stand there: None is
#: nothing, NOW_S and NOW_MS are the server's time.
Change: TypeAlias = tuple[bytes, bytes | None, bytes | None]

NOW_S = b"s"

NOW_MS = b"ms"


def mend_fields(keys: QueueKeys, changes: Sequence[Change]) -> Operation[int]:
    """Change fields that are as they were seen; counters of ids in the queue only; of how many."""
    return _mend(
        "mend_fields",
        (keys.hash, keys.zset),
        keys,
        [
            part
            for field, seen, new in changes
            for part in (field, _stood(seen), new if new in {NOW_S, NOW_MS} else _stood(new))
        ],
    )


def _stood(value: bytes | None) -> bytes:
    return b"" if value is None else b"=" + value


def mend_listing(namespace: Namespace, qname: str, *, make: bool) -> Operation[int]:
    """
    Complete a half-made queue with defaults and list it; unlist one of which nothing is there.

    Args:
        namespace: the namespace.
        qname: the queue's name.
        make: True also makes a queue of a hash that has none of vt, delay and maxsize.
    """
    keys = namespace.queue(qname)
    defaults = DEFAULT_VT, DEFAULT_DELAY, DEFAULT_MAXSIZE
    return _mend(
        "mend_listing",
        (keys.hash, keys.zset, namespace.queues),
        keys,
        [encode_name(keys.name), b"1" if make else b"0", *map(digits, defaults)],
    )


def mend_scores(
    keys: QueueKeys, changes: Sequence[tuple[bytes, bytes, bytes | None]]
) -> Operation[int]:
    """Give ids another score (None is now) if theirs is the one that was seen; how many."""
    return _mend(
        "mend_scores",
        (keys.zset,),
        keys,
        [part for id, seen, new in changes for part in (id, seen, new or b"")],
    )


def remove_ghosts(keys: QueueKeys, ghosts: Sequence[tuple[bytes, bool]]) -> Operation[int]:
    """
    Remove ids that have no body; how many.

    Args:
        keys: the queue's.
        ghosts: ids, each with whether it is known to be no send in progress; of the others those
            are removed that have been due for ten seconds.
    """
    flat = [part for id, known in ghosts for part in (id, b"1" if known else b"")]
    return _mend("remove_ghosts", (keys.hash, keys.zset), keys, flat)


def remove_left_over(keys: QueueKeys, ids: Sequence[bytes], *, bodies: bool) -> Operation[int]:
    """Remove counters of ids that are not in the queue; True: also their bodies. Of how many."""
    return _mend("remove_left_over", (keys.hash, keys.zset), keys, [b"1" if bodies else b"0", *ids])


def restore_orphans(keys: QueueKeys, orphans: Sequence[tuple[bytes, int | None]]) -> Operation[int]:
    """Put ids that have a body back into the queue, due at these ms (None is now); how many."""
    flat = [part for id, due in orphans for part in (id, b"" if due is None else digits(due))]
    return _mend("restore_orphans", (keys.hash, keys.zset), keys, flat)


def remint_messages(keys: QueueKeys, sent: Sequence[tuple[bytes, int]]) -> Operation[int]:
    """Give messages that nobody holds a new id, which tells these microseconds; how many."""
    flat = [part for id, us in sent for part in (id, digits(us), make_id_suffix())]
    return _mend("remint_messages", (keys.hash, keys.zset), keys, flat)


def persist_keys(keys: Sequence[bytes], queues: tuple[str, ...]) -> Operation[int]:
    """Take the time to live off keys; off how many."""
    return Operation(load("persist_keys"), tuple(keys), (), int, Retry.ALWAYS, queues)


def remove_extensions(keys: QueueKeys, extensions: Sequence[bytes]) -> Operation[int]:
    """Remove extension data if neither hash nor sorted set is there; how many keys."""
    return _mend("remove_extensions", (keys.hash, keys.zset, *extensions), keys, [])


def _mend(
    name: str, redis_keys: tuple[bytes, ...], keys: QueueKeys, args: Sequence[bytes]
) -> Operation[int]:
    return Operation(load(name), redis_keys, tuple(args), int, Retry.ALWAYS, (keys.name,))
