"""
Repairs of what other clients and accidents leave. Each step looks again at what it changes.

All may run twice: what is in order by then stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rsmq.lua import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.wire.ids import make_id_suffix
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import DEFAULT_DELAY, DEFAULT_MAXSIZE, DEFAULT_VT
from rsmq.wire.names import encode_name

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
