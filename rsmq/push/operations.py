"""
Operations on subscribers.
"""

from __future__ import annotations

from collections.abc import Sequence

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_keys, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import MAX_BATCH_BYTES
from rsmq.wire.names import decode_name, encode_name

load = loader_of("push")

#: The most subscribers of a namespace, and of one queue.
MAX_SUBSCRIBERS, MAX_SUBSCRIBERS_OF_QUEUE = 1000, 100
#: The results of a fan-out that has moved nothing.
RECORD_CHANGED, SOURCE_PAUSED = -1, -2
#: The most copies that one call of a fan-out makes, of all messages together.
_MAX_COPIES = 1000


def add_subscriber(
    namespace: Namespace, source: str, name: str, record: bytes, target: str, *, replace: bool
) -> Operation[tuple[str, bytes]]:
    """
    Add a subscriber of a queue, whose own queue is ``SOURCE-NAME``; forget the state of its target.

    A repeated call finds the record that the first one has stored.

    Args:
        source: the queue that it subscribes to.
        record: its settings as JSON, without the time.
        target: the field of the target.
        replace: whether the settings of a subscriber of this name are replaced.

    Returns:
        The outcome and the record, or the name that it names; see ``add_subscriber.lua``.
    """
    keys, of_source = namespace.queue(f"{source}-{name}"), namespace.queue(source)
    return on_queue(
        of_source,
        load("add_subscriber"),
        (
            namespace.subscribers,
            of_source.hash,
            keys.hash,
            keys.zset,
            namespace.queues,
            namespace.push_targets,
        ),
        (
            encode_name(source),
            name.encode(),
            encode_name(keys.name),
            record,
            b"1" if replace else b"",
            digits(MAX_SUBSCRIBERS),
            digits(MAX_SUBSCRIBERS_OF_QUEUE),
            target.encode(),
        ),
        lambda reply: (reply[0].decode(), reply[1]),
    )


def remove_subscriber(namespace: Namespace, field: str, own: str, mode: str) -> Operation[int]:
    """
    Remove a subscriber.

    Args:
        field: its field in the record of subscribers.
        own: the name of its queue.
        mode: ``drop``, ``drain`` or ``finish``; see ``remove_subscriber.lua``.

    Returns:
        0 if there is nothing to remove, 1 if it is removed when its queue is empty, 2 if it was
        removed.
    """
    keys = namespace.queue(own)
    return Operation(
        load("remove_subscriber"),
        (namespace.subscribers, keys.hash, keys.zset, namespace.queues, *keys.extensions),
        (encode_name(field), encode_name(own), mode.encode()),
        int,
        # Another client may have added the subscriber again; a retry would drop the new one.
        RetryClass.NEVER if mode == "drop" else RetryClass.ALWAYS,
        (keys.name,),
        # The attempt whose reply was lost may have removed it.
        parse_retried=lambda reply: reply or 2,
    )


def list_subscribers(namespace: Namespace, version: bytes) -> Operation[dict[str, bytes] | None]:
    """
    Return the record of subscribers; the empty field has its version.

    Args:
        version: the version that the caller has read; empty for none.

    Returns:
        The record; None if the stored one still has this version.
    """
    return on_keys(
        load("list_subscribers"),
        (namespace.subscribers,),
        (version,),
        lambda reply: (
            None
            if reply is None
            else {
                decode_name(field): record
                for field, record in zip(reply[::2], reply[1::2], strict=True)
            }
        ),
    )


def fan_out(
    namespace: Namespace, source: str, subscriber_queues: Sequence[str], version: bytes
) -> Operation[int]:
    """
    Move visible messages of a queue to the queues of all its subscribers, in one atomic step.

    A repeated call moves the next messages.

    Args:
        version: the version of the record of subscribers that the caller has read.

    Returns:
        How many were moved; or RECORD_CHANGED or SOURCE_PAUSED.
    """
    keys, queues = namespace.queue(source), [namespace.queue(each) for each in subscriber_queues]
    number = len(queues)
    return on_queue(
        keys,
        load("fan_out"),
        (
            namespace.subscribers,
            namespace.queues,
            keys.hash,
            keys.zset,
            *(key for each in queues for key in (each.hash, each.zset)),
        ),
        (
            version,
            keys.namespace,
            digits(max(1, _MAX_COPIES // number)),
            digits(MAX_BATCH_BYTES // number),
            *(encode_name(each.name) for each in queues),
        ),
        int,
    )
