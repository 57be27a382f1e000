"""
Operations on queues: create, delete, list, attributes, limits, pause, purge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rsmq.errors import NoAttributeSupplied, QueueExists, QueueNotFound
from rsmq.lua.load import load
from rsmq.model import Expired, QueueAttributes
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, Steps
from rsmq.operations.plain import plain_command
from rsmq.operations.replies import parse_attributes
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import (
    DEFAULT_KEEP,
    Seconds,
    check_expired,
    check_maxsize,
    check_seconds,
)
from rsmq.wire.names import decode_name, encode_name
from rsmq.wire.throttle import encode_throttle

#: Names that one step of ``list_queues_in_steps`` reads.
_NAMES_PER_STEP = 1500


def create_queue(
    namespace: Namespace,
    qname: str,
    *,
    vt: Seconds,
    delay: Seconds,
    maxsize: int,
    exist_ok: bool,
    keep: Seconds = DEFAULT_KEEP,
) -> Operation[bool]:
    """Create a queue, or complete one that lacks attributes; the result is whether it did."""
    keys = namespace.queue(qname)
    attributes = (
        digits(check_seconds("vt", vt)),
        digits(check_seconds("delay", delay)),
        digits(check_maxsize(maxsize)),
        digits(check_seconds("keep", keep)),
    )

    def parse(reply: Any) -> bool:
        if not reply[0] and not exist_ok:
            raise QueueExists(keys.name, namespace.name)
        return bool(reply[0])

    def parse_retried(reply: Any) -> bool:
        # The attempt whose reply was lost may have created just this queue.
        return tuple(reply[1:]) == attributes or parse(reply)

    return Operation(
        load("create_queue"),
        (keys.hash, keys.zset, namespace.queues),
        (encode_name(keys.name), *attributes),
        parse,
        RetryClass.ALWAYS,
        (keys.name,),
        parse_retried,
    )


def delete_queue(namespace: Namespace, qname: str) -> Operation[None]:
    """Delete a queue and all its messages."""
    keys = namespace.queue(qname)

    def parse(reply: Any) -> None:
        if not reply:
            raise QueueNotFound(keys.name, namespace.name)

    return Operation(
        load("delete_queue"),
        (keys.hash, keys.zset, namespace.queues, *keys.extensions),
        (encode_name(keys.name),),
        parse,
        # Another client may have created the queue again; a retry would delete the new one.
        RetryClass.NEVER,
        (keys.name,),
    )


def list_queues(namespace: Namespace) -> Operation[list[str]]:
    """Return the names of all listed queues, sorted."""
    return Operation(
        load("list_queues"),
        (namespace.queues,),
        (),
        lambda reply: sorted(map(decode_name, reply)),
        RetryClass.ALWAYS,
    )


def list_queues_in_steps(namespace: Namespace) -> Steps[list[str]]:
    """
    Return the names of all listed queues, sorted, in steps of about 1,500 names.

    ``list_queues`` holds the server for some ms if there are 10,000 queues. These steps hold it for
    a fraction of a ms each. So the names are not those of one moment: a queue that is listed all
    the time is among them, and one that is created or deleted meanwhile may be. A cursor belongs
    to one server: after a failover between two steps, names may be missing.

    For a user who may not send SSCAN, the only step is ``list_queues``.
    """
    names: set[str] = set()
    cursor = b"0"
    while True:
        cursor, members = yield _list_step(namespace, cursor)
        names.update(map(decode_name, members))
        if cursor == b"0":
            return sorted(names)


def _list_step(namespace: Namespace, cursor: bytes) -> Operation[tuple[bytes, list[bytes]]]:
    """Return a step that lists names from a cursor on; its result has the next one, or 0."""
    words = "SSCAN", namespace.queues, cursor, "COUNT", _NAMES_PER_STEP
    step = plain_command(*words, parse=lambda reply: (bytes(reply[0]), list(reply[1])))
    step.fallback = Operation(
        load("list_queues"),
        (namespace.queues,),
        (),
        lambda reply: (b"0", reply),
        RetryClass.ALWAYS,
    )
    return step


def get_queue_attributes(namespace: Namespace, qname: str) -> Operation[QueueAttributes]:
    """Return a queue's attributes and counts."""
    keys = namespace.queue(qname)
    return Operation(
        load("get_queue_attributes"),
        (keys.hash, keys.zset),
        (),
        parse_attributes,
        RetryClass.ALWAYS,
        (keys.name,),
    )


def describe_queues(
    namespace: Namespace, qnames: Sequence[str]
) -> Operation[dict[str, QueueAttributes | None]]:
    """
    Return the attributes and counts of several queues at one moment, by their names.

    A queue that does not exist, and one that ``get_queue_attributes`` can't read, has None.
    """
    queues = [namespace.queue(name) for name in qnames]

    def parse(reply: Any) -> dict[str, QueueAttributes | None]:
        return {
            keys.name: None if each is None else parse_attributes(each)
            for keys, each in zip(queues, reply, strict=True)
        }

    return Operation(
        load("describe_queues"),
        tuple(key for keys in queues for key in (keys.hash, keys.zset)),
        (),
        parse,
        RetryClass.ALWAYS,
    )


def set_queue_attributes(
    namespace: Namespace,
    qname: str,
    *,
    vt: Seconds | None,
    delay: Seconds | None,
    maxsize: int | None,
    keep: Seconds | None = None,
    expired: Expired | None = None,
) -> Operation[QueueAttributes]:
    """Set attributes of a queue; None does not change an attribute."""
    if all(each is None for each in (vt, delay, maxsize, keep, expired)):
        raise NoAttributeSupplied
    keys = namespace.queue(qname)
    # In the order of the Node client.
    new_vt = b"" if vt is None else digits(check_seconds("vt", vt))
    new_maxsize = b"" if maxsize is None else digits(check_maxsize(maxsize))
    new_delay = b"" if delay is None else digits(check_seconds("delay", delay))
    new_keep = b"" if keep is None else digits(check_seconds("keep", keep))
    new_expired = b"" if expired is None else check_expired(expired).encode()
    return Operation(
        load("set_queue_attributes"),
        (keys.hash, keys.zset),
        (new_vt, new_delay, new_maxsize, new_keep, new_expired),
        parse_attributes,
        RetryClass.ALWAYS,
        (keys.name,),
    )


def pause_queue(namespace: Namespace, qname: str, *, pause: bool) -> Operation[bool]:
    """Pause a queue for workers, or resume it; the result is whether that changed anything."""
    keys = namespace.queue(qname)
    return Operation(
        load("pause_queue"),
        (keys.hash,),
        (b"1" if pause else b"0",),
        bool,
        RetryClass.ALWAYS,
        (keys.name,),
        parse_retried=lambda _: True,
    )


def set_queue_limits(
    namespace: Namespace, qname: str, *, max_running: int | None, rate: str | None
) -> Operation[QueueAttributes]:
    """Set the limits of a queue; None removes a limit."""
    keys = namespace.queue(qname)
    return Operation(
        load("set_queue_limits"),
        (keys.hash, keys.zset, keys.running),
        (encode_throttle(max_running, rate),),
        parse_attributes,
        RetryClass.ALWAYS,
        (keys.name,),
    )


def purge_queue(namespace: Namespace, qname: str) -> Operation[int]:
    """Remove all messages of a queue; the result is the number of ids removed."""
    keys = namespace.queue(qname)
    return Operation(
        load("purge_queue"),
        (keys.hash, keys.zset, *keys.extensions_of_messages),
        (),
        int,
        RetryClass.NEVER,
        (keys.name,),
    )
