"""
Operations on queues: create, delete, list, attributes, limits, pause, purge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rsmq.errors import NoAttributeSupplied, QueueExists, QueueNotFound
from rsmq.model import QueueAttributes
from rsmq.operations.operation import Operation, RetryClass, Steps, on_keys, on_queue
from rsmq.operations.plain import plain_command
from rsmq.operations.replies import parse_attributes
from rsmq.operations.scripts import load
from rsmq.vocabulary.queues import CREATE, SET, QueueAttribute, encode_attributes
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name, encode_name
from rsmq.wire.throttle import encode_throttle

#: Names that one step of ``list_queues_in_steps`` reads.
_NAMES_PER_STEP = 1500


def create_queue(
    namespace: Namespace,
    qname: str,
    *,
    exist_ok: bool,
    fields: Mapping[str, bytes] | None = None,
    **attributes: Any,
) -> Operation[bool]:
    """
    Create a queue, or complete one that lacks attributes; the result is whether it did.

    Args:
        fields: further fields of its hash, as they are stored.
        attributes: those of ``CREATE``; the others have their defaults.
    """
    keys = namespace.queue(qname)
    defaults = {name: each.default_in(CREATE) for name, each in CREATE.options.items()}
    encoded = encode_attributes({**defaults, **attributes}, CREATE)
    passed = [each.parse(value) for each, value in encoded.items()]

    def parse(reply: Any) -> bool:
        if not reply[0] and not exist_ok:
            raise QueueExists(keys.name, namespace.name)
        return bool(reply[0])

    def parse_retried(reply: Any) -> bool:
        # The attempt whose reply was lost may have created just this queue.
        stored = zip(encoded, [*reply[1:], *[b""] * len(encoded)], strict=False)
        return [each.parse(value) for each, value in stored] == passed or parse(reply)

    return Operation(
        load("create_queue"),
        (keys.hash, keys.zset, namespace.queues),
        (
            encode_name(keys.name),
            *_pair_fields(encoded),
            *(each for name, value in (fields or {}).items() for each in (name.encode(), value)),
        ),
        parse,
        RetryClass.ALWAYS,
        (keys.name,),
        parse_retried,
    )


def _pair_fields(encoded: Mapping[QueueAttribute, bytes]) -> Iterator[bytes]:
    """Yield field, value, field ... as scripts take them."""
    for attribute, value in encoded.items():
        yield attribute.field.encode()
        yield value


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
    return on_keys(
        load("list_queues"), (namespace.queues,), (), lambda reply: sorted(map(decode_name, reply))
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
    step.fallback = on_keys(
        load("list_queues"), (namespace.queues,), (), lambda reply: (b"0", reply)
    )
    return step


def get_queue_attributes(namespace: Namespace, qname: str) -> Operation[QueueAttributes]:
    """Return a queue's attributes and counts."""
    keys = namespace.queue(qname)
    return on_queue(
        keys, load("get_queue_attributes"), (keys.hash, keys.zset), (), parse_attributes
    )


def set_queue_attributes(
    namespace: Namespace, qname: str, **attributes: Any
) -> Operation[QueueAttributes]:
    """Set attributes of a queue, those of ``SET``; None does not change an attribute."""
    if all(each is None for each in attributes.values()):
        raise NoAttributeSupplied
    keys = namespace.queue(qname)
    return on_queue(
        keys,
        load("set_queue_attributes"),
        (keys.hash, keys.zset),
        tuple(_pair_fields(encode_attributes(attributes, SET))),
        parse_attributes,
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
    return on_queue(
        keys,
        load("set_queue_limits"),
        (keys.hash, keys.zset, keys.running),
        (encode_throttle(max_running, rate),),
        parse_attributes,
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
