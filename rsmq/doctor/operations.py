"""
Operations of the doctor: the steps of an examination, and repairs.

An ``examine_`` step reads at most 100 ids, about 100 fields or about 1,000 keys, and changes
nothing. A repair checks the faults again in the script that changes them. It is idempotent: a
second run changes nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_keys, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.vocabulary.stored import ALL_QUEUE_FIELDS
from rsmq.wire.fields import DIVIDED
from rsmq.wire.ids import make_id_suffix
from rsmq.wire.keys import Namespace, QueueKeys, unused_key
from rsmq.wire.limits import DEFAULT_DELAY, DEFAULT_MAXSIZE, DEFAULT_VT
from rsmq.wire.names import encode_name

load = loader_of("doctor")

#: A position in a walk through the ids of a queue: the score and the id that were read last.
EntryPosition: TypeAlias = tuple[bytes, bytes]

FIRST_STEP: EntryPosition = (b"", b"")


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """
    The state of the key that has the names of queues, and of the server.

    Attributes:
        now_ms: the server's time, ms.
        kind: the key's type, as Redis names it.
        ttl_ms: ms until the key expires; negative if it does not expire or does not exist.
        name_count: the number of names; 0 if the key is not a set.
        info: the reply to INFO; None if this user or server does not permit it.
    """

    now_ms: int
    kind: str
    ttl_ms: int
    name_count: int
    info: str | None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """
    The keys and attributes of a queue, as stored.

    Attributes:
        now_ms: the server's time, ms.
        hash_kind: the type of its hash, as Redis names it.
        zset_kind: the type of its sorted set, as Redis names it.
        hash_ttl_ms: ms until the hash expires; negative if it does not expire or does not exist.
        zset_ttl_ms: ms until the sorted set expires; negative as above.
        is_listed: whether its name is in the index of queues.
        field_count: the number of fields of the hash.
        id_count: the number of ids in the sorted set.
        fields: attribute fields as stored; missing fields are left out.
        extensions: the keys of extension data that exist, each with its type.
    """

    keys: QueueKeys
    now_ms: int
    hash_kind: str
    zset_kind: str
    hash_ttl_ms: int
    zset_ttl_ms: int
    is_listed: bool
    field_count: int
    id_count: int
    fields: dict[str, bytes]
    extensions: dict[bytes, str]


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """
    An id in a queue's sorted set, and the data that the queue's hash stores for it.

    Attributes:
        score: its score, as Redis writes it.
        has_body: whether the hash has a body for it.
        receive_count: its receive count as stored; None if there is none.
        first_received: the time of its first receive as stored; None if there is none.
    """

    id: bytes
    score: bytes
    has_body: bool
    receive_count: bytes | None
    first_received: bytes | None


@dataclass(frozen=True, slots=True)
class OrphanField:
    """
    A field of a queue's hash that belongs to no id in the queue's sorted set.

    Attributes:
        field: its name.
        id: the id that a counter belongs to; for all other fields, the field's own name.
        has_body: whether the hash has a body for that id.
    """

    field: bytes
    id: bytes
    has_body: bool


def examine_index(key: bytes) -> Operation[IndexFacts]:
    """Read the state of an index of queues, and the server's reply to INFO."""

    def parse(reply: Any) -> IndexFacts:
        now, kind, ttl, name_count, info = reply
        text = None if info is None else info.decode("utf-8", "replace")
        return IndexFacts(int(now), kind.decode(), ttl, name_count, text)

    return on_keys(load("examine_index"), (key,), (), parse)


def examine_queue(namespace: Namespace, qname: str) -> Operation[QueueFacts]:
    """Read a queue's keys and attributes, but not its messages."""
    keys = namespace.queue(qname)

    def parse(reply: Any) -> QueueFacts:
        (
            now, hash_kind, hash_ttl, zset_kind, zset_ttl, is_listed, field_count, id_count,
            values, kinds,
        ) = reply  # fmt: skip
        # The script returns no values if the key is not a hash.
        fields = zip(ALL_QUEUE_FIELDS, values, strict=False)
        extensions = zip(keys.extensions, kinds, strict=True)
        return QueueFacts(
            keys,
            int(now),
            hash_kind.decode(),
            zset_kind.decode(),
            hash_ttl,
            zset_ttl,
            bool(is_listed),
            field_count,
            id_count,
            {name: value for name, value in fields if value is not None},
            {key: kind.decode() for key, kind in extensions if kind != b"none"},
        )

    return on_queue(
        keys,
        load("examine_queue"),
        (keys.hash, keys.zset, namespace.queues, *keys.extensions),
        (encode_name(keys.name), *(name.encode() for name in ALL_QUEUE_FIELDS)),
        parse,
    )


def examine_groups(keys: QueueKeys, position: bytes) -> Operation[tuple[bytes | None, list[bytes]]]:
    """
    Find groups that wait without need, among the next 100 messages that are held back.

    Args:
        position: where the step before has ended; empty at the beginning.

    Returns:
        The position of the next step (None at the end), and the id of the first message of each
        such group.
    """
    return on_queue(
        keys,
        load("examine_groups"),
        (keys.hash, keys.zset, keys.admitted, keys.held_back),
        (position,),
        tuple,
    )


def examine_group_records(keys: QueueKeys, position: bytes) -> Operation[tuple[bytes, list[bytes]]]:
    """
    Find messages that are held back and lack a record, among about 100.

    Args:
        position: where the step before has ended; b'0' at the beginning.

    Returns:
        The position of the next step (b'0' at the end), and the ids of such messages.
    """
    return on_queue(
        keys,
        load("examine_group_records"),
        (keys.hash, keys.zset, keys.admitted, keys.held_back, keys.group_of),
        (position,),
        tuple,
    )


def examine_ungrouped(keys: QueueKeys, ids: Sequence[bytes]) -> Operation[list[bytes]]:
    """
    Find those of some messages whose group is stored nowhere.

    Args:
        ids: at most 100.

    Returns:
        Their ids; none while there is a group in one of the lists that ``x:group_of`` lacks.
    """
    return on_queue(
        keys,
        load("examine_ungrouped"),
        (keys.admitted, keys.held_back, keys.group_of),
        tuple(ids),
        list,
    )


def examine_turns(keys: QueueKeys, most: int) -> Operation[tuple[int, list[bytes]]]:
    """
    Find turns of rates that are so far ahead that no message of the queue explains them.

    Args:
        most: how many keys are returned at most.

    Returns:
        The number of such groups and limit keys, and the names of the first ones. That of a limit
        key begins with the byte 1 and a colon.
    """
    return on_queue(
        keys, load("examine_turns"), (keys.zset, keys.rates, keys.held_back), (digits(most),), tuple
    )


def examine_messages(
    keys: QueueKeys, position: EntryPosition
) -> Operation[tuple[EntryPosition | None, int, list[QueueEntry]]]:
    """
    Read the ids of a queue behind a position, with the data stored for each.

    Args:
        position: the score and the id that were read last; ``FIRST_STEP`` at the beginning.

    Returns:
        The position of the next step (None at the end), the server's time in ms, and at most 100
        entries.
    """

    def parse(reply: Any) -> tuple[EntryPosition | None, int, list[QueueEntry]]:
        values = reply[3]
        entries = [
            QueueEntry(
                values[first],
                values[first + 1],
                bool(values[first + 2]),
                values[first + 3],
                values[first + 4],
            )
            for first in range(0, len(values), 5)
        ]
        next_position = None if reply[0] is None else (reply[0], reply[1])
        return next_position, int(reply[2]), entries

    return on_queue(keys, load("examine_messages"), (keys.hash, keys.zset), position, parse)


def examine_fields(
    keys: QueueKeys, cursor: bytes, count: int
) -> Operation[tuple[bytes, int, int, list[OrphanField]]]:
    """
    Read about ``count`` fields of a queue's hash, and find those that belong to no id.

    Returns:
        The next cursor (b'0' at the end), the server's time in ms, the total size in bytes of the
        values that the server read, and the fields that belong to no id in the queue.
    """

    def parse(reply: Any) -> tuple[bytes, int, int, list[OrphanField]]:
        cursor, now, size, values = reply
        orphans = [
            OrphanField(values[first], values[first + 1], bool(values[first + 2]))
            for first in range(0, len(values), 3)
        ]
        return cursor, int(now), size, orphans

    return on_queue(
        keys, load("examine_fields"), (keys.hash, keys.zset), (cursor, digits(count)), parse
    )


def examine_rights(namespace: Namespace, qname: str) -> Operation[set[str]]:
    """Return the commands, in lower case, that this user may not send on the keys of a queue."""
    keys = namespace.queue(qname)
    return on_queue(
        keys,
        load("examine_rights"),
        (keys.hash, keys.zset, namespace.queues, unused_key(keys)),
        (encode_name(keys.name),),
        lambda reply: {command.decode().lower() for command in reply},
    )


def divide_milliseconds(
    keys: QueueKeys, fields: Mapping[str, bytes], vt: int, delay: int
) -> Operation[int]:
    """
    Store vt and delay in seconds, if they and the values of the last division did not change.

    Args:
        fields: the attribute fields as they were read.
        vt: the new vt, seconds.
        delay: the new delay, seconds.

    Returns:
        1 if they were stored, else 0.
    """
    return _repair(
        "divide_milliseconds",
        (keys.hash,),
        keys,
        [
            *(fields.get(name, b"") for name in ("vt", "delay", DIVIDED)),
            digits(vt),
            digits(delay),
        ],
    )


#: A conditional change of a field: its name, the value that it must still have, and the new value.
#: None means that the field is missing, or is removed. NOW_S and NOW_MS as the new value are
#: replaced by the server's time.
Change: TypeAlias = tuple[bytes, bytes | None, bytes | None]

NOW_S = b"s"

NOW_MS = b"ms"


def repair_fields(keys: QueueKeys, changes: Sequence[Change]) -> Operation[int]:
    """
    Change fields that still have the expected values.

    Counters are changed only if their id is in the queue, other fields only if the hash has ``vt``.

    Returns:
        The number of changed fields; consecutive changes of counters of one id count as one.
    """
    return _repair(
        "repair_fields",
        (keys.hash, keys.zset),
        keys,
        [
            part
            for field, expected, new in changes
            for part in (
                field,
                _encode_value(expected),
                new if new in {NOW_S, NOW_MS} else _encode_value(new),
            )
        ],
    )


def _encode_value(value: bytes | None) -> bytes:
    """Return a value as the script takes it: an empty text is a missing field, not a value."""
    return b"" if value is None else b"=" + value


def repair_listing(namespace: Namespace, qname: str, *, create: bool) -> Operation[int]:
    """
    Make the index of queues and the attributes of a queue agree.

    If neither the hash nor the sorted set exists, the name is removed from the index. A queue with
    all attributes is added to it. A queue that lacks some of vt, delay and maxsize gets their
    defaults, the server's time as created and modified if these are missing, and is added.

    Args:
        create: whether to do this too if vt, delay and maxsize are all missing.

    Returns:
        1 if anything changed, else 0.
    """
    keys = namespace.queue(qname)
    defaults = DEFAULT_VT, DEFAULT_DELAY, DEFAULT_MAXSIZE
    return _repair(
        "repair_listing",
        (keys.hash, keys.zset, namespace.queues),
        keys,
        [encode_name(keys.name), b"1" if create else b"0", *map(digits, defaults)],
    )


def remove_empty_name(namespace: Namespace) -> Operation[int]:
    """
    Remove the empty name from the index of queues, unless there are keys of such a queue.

    Returns:
        1 if anything changed, else 0.
    """
    defaults = DEFAULT_VT, DEFAULT_DELAY, DEFAULT_MAXSIZE
    return on_keys(
        load("repair_listing"),
        (*namespace.nameless_queue, namespace.queues),
        (b"", b"0", *map(digits, defaults)),
        int,
    )


def repair_scores(
    keys: QueueKeys, changes: Sequence[tuple[bytes, bytes, bytes | None]]
) -> Operation[int]:
    """
    Change the scores of ids that still have the expected score.

    Args:
        changes: for each id: the id, the expected score, and the new one (None is now).
    """
    return _repair(
        "repair_scores",
        (keys.zset,),
        keys,
        [part for id, expected, new in changes for part in (id, expected, new or b"")],
    )


def remove_ghost_ids(keys: QueueKeys, ghosts: Sequence[tuple[bytes, bool]]) -> Operation[int]:
    """
    Remove ids that have no body, with their counters.

    Args:
        ghosts: ids, each with whether it is certain that no send of it is in progress. All others
            are removed only if they have been due for ten seconds.
    """
    flat = [part for id, is_certain in ghosts for part in (id, b"1" if is_certain else b"")]
    return _repair("remove_ghost_ids", (keys.hash, keys.zset), keys, flat)


def remove_orphan_fields(keys: QueueKeys, ids: Sequence[bytes], *, bodies: bool) -> Operation[int]:
    """
    Remove the fields of ids that are not in the queue.

    Args:
        bodies: True removes the bodies with their counters; False removes counters only, and only
            those of ids that have no body.

    Returns:
        The number of ids whose fields were removed.
    """
    args = [b"1" if bodies else b"0", *ids]
    return _repair("remove_orphan_fields", (keys.hash, keys.zset), keys, args)


def restore_orphan_bodies(
    keys: QueueKeys, orphans: Sequence[tuple[bytes, int | None]]
) -> Operation[int]:
    """
    Add the ids of bodies to the queue again.

    Args:
        orphans: ids, each with the time in ms from which it is visible (None is now).

    Raises:
        QueueNotFound: the queue does not exist.
    """
    flat = [part for id, due in orphans for part in (id, b"" if due is None else digits(due))]
    return _repair("restore_orphan_bodies", (keys.hash, keys.zset), keys, flat)


def remove_wrong_keys(keys: QueueKeys, kinds: Mapping[bytes, str]) -> Operation[int]:
    """
    Remove keys of a queue that have another type.

    Args:
        kinds: by key the type that it should have, as Redis names it.

    Returns:
        How many were removed.
    """
    types = [kind.encode() for kind in kinds.values()]
    return _repair("remove_wrong_keys", tuple(kinds), keys, types)


def repair_turns(keys: QueueKeys) -> Operation[int]:
    """
    Put turns that no message explains behind the last message of the queue, or now.

    Returns:
        How many were changed, at most 100: 0 if no such turn is left.
    """
    return _repair("repair_turns", (keys.zset, keys.rates, keys.held_back), keys, [])


def replace_ids(keys: QueueKeys, sent: Sequence[tuple[bytes, int]]) -> Operation[int]:
    """
    Give messages new ids. Messages in flight keep theirs.

    Args:
        sent: ids, each with the sent time, in microseconds, for the new id.

    Returns:
        The number of messages that have a new id.
    """
    flat = [part for id, us in sent for part in (id, digits(us), make_id_suffix())]
    return _repair("replace_ids", (keys.hash, keys.zset), keys, flat)


def persist_keys(keys: Sequence[bytes], queues: tuple[str, ...]) -> Operation[int]:
    """Remove the time to live of keys, and return how many had one."""
    return Operation(load("persist_keys"), tuple(keys), (), int, RetryClass.ALWAYS, queues)


def remove_extensions(keys: QueueKeys, extensions: Sequence[bytes]) -> Operation[int]:
    """Remove keys of extension data if the queue has neither a hash nor a sorted set."""
    return _repair("remove_extensions", (keys.hash, keys.zset, *extensions), keys, [])


def _repair(
    name: str, redis_keys: tuple[bytes, ...], keys: QueueKeys, args: Sequence[bytes]
) -> Operation[int]:
    return on_queue(keys, load(name), redis_keys, tuple(args), int)
