"""
Writes in two steps: tasks stage messages, then one decision publishes them.

A write has a name, and batches with ascending numbers. For each batch one decision is stored, and
its parts are published exactly once, even if processes die and calls are repeated. Every operation
here is idempotent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgpack

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_queue
from rsmq.operations.restore import RestoredMessage, pair_records
from rsmq.operations.scripts import loader_of
from rsmq.operations.send_options import SendOptions
from rsmq.wire.id_arrays import make_joined_suffixes
from rsmq.wire.ids import make_id_suffixes
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import large_body_size
from rsmq.wire.names import decode_name, encode_name

load = loader_of("spark")

#: The parts that are to be published, by the name of their queue.
Decision = dict[str, list[str]]


def stage_messages(
    namespace: Namespace,
    keys: QueueKeys,
    part: str,
    messages: Sequence[bytes] | Sequence[RestoredMessage],
    *,
    largest: int,
    lifetime: float,
    delay: bytes = b"",
    options: SendOptions | None = None,
) -> Operation[bool]:
    """
    Store messages as a part, which no consumer sees until it is published.

    Args:
        part: the name of the part: write, batch, attempt and number, with colons between.
        messages: bodies to send; or each a ``RestoredMessage``, which keeps id, times and counts.
        largest: the size of the largest body, as ``maxsize`` counts it; 0 is not checked.
        lifetime: how long the staged parts of the queue are stored at least, seconds.
        delay: how long the messages are hidden after publishing, in the format of
            ``send_message.lua``; empty is the queue's delay.
        options: the other options of their send, checked; None for none.

    Returns:
        False if the batch is decided already: then nothing is stored.

    Raises:
        MessageTooLong: a body is larger than ``maxsize``, or the part larger than a value that
            Redis accepts.
        QueueNotFound: the queue does not exist.
        InvalidValue: the messages would expire before they are visible.
    """
    expires = b"" if options is None else options.values.get("expires", b"")
    packed: tuple[Any, ...]
    if messages and isinstance(messages[0], RestoredMessage):
        restored = cast("Sequence[RestoredMessage]", messages)
        rows = [value for message in restored for value in message.row()]
        lists = pair_records((each.id, each.records) for each in restored)
        packed = b"restore", b"", rows, *lists
    elif options is not None and options.values:
        suffixes = b"".join(options.mark(make_id_suffixes(len(messages))))
        packed = delay, suffixes, list(messages), options.pack()
    else:
        packed = delay, make_joined_suffixes(len(messages)), list(messages)
    # A part is one value in Redis, so the largest body that can be staged is a little smaller than
    # one that can be sent.
    stored = msgpack.packb(packed, use_bin_type=False)
    return Operation(
        load("stage_messages"),
        (keys.hash, keys.staged, namespace.written),
        (
            part.encode(),
            digits(largest),
            delay,
            digits(round(lifetime * 1000)),
            expires,
            stored,
        ),
        bool,
        RetryClass.ALWAYS,
        (keys.name,),
        large_body=large_body_size(len(stored)),
    )


def decide_write(
    namespace: Namespace,
    write: str,
    batch: int,
    decision: Decision,
    *,
    lifetime: float,
) -> Operation[tuple[int, Decision | None] | None]:
    """
    Store which staged parts of a batch are to be published, unless a decision is stored already.

    Args:
        lifetime: how long the decision and the parts are stored, seconds.

    Returns:
        The number of a batch, and the decision to carry out for it:

        - those that are stored, if that decision was not carried out yet;
        - the stored batch and None, if it is this batch or a later one, and was carried out;
        - else this batch and its decision, which are now stored.

        None if a part of the decision is missing; then nothing is stored.
    """

    def parse(reply: list[Any]) -> tuple[int, Decision | None] | None:
        if not reply:
            return None
        if len(reply) == 1:
            return reply[0], None
        return reply[0], {
            decode_name(queue): [part.decode() for part in parts]
            for queue, *parts in msgpack.unpackb(reply[1], raw=True)
        }

    staged = (namespace.queue(queue).staged for queue in decision)
    packed = [
        [encode_name(queue), *(part.encode() for part in parts)]
        for queue, parts in decision.items()
    ]
    return Operation(
        load("decide_write"),
        (namespace.written, *staged),
        (
            write.encode(),
            digits(batch),
            msgpack.packb(packed, use_bin_type=False),
            digits(round(lifetime * 1000)),
        ),
        parse,
        RetryClass.ALWAYS,
        tuple(decision),
    )


def publish_staged(keys: QueueKeys, part: str, *, realtime: bool) -> Operation[int | None]:
    """
    Send or restore the messages of a staged part; ``realtime`` also notifies as Node does.

    Returns:
        The number of messages that were added: 0 if the part was published before; None if the
        part is not stored any more.
    """
    return on_queue(
        keys,
        load("publish_staged"),
        (keys.hash, keys.zset, keys.staged, keys.dedup, keys.unique, keys.limits, keys.rates),
        (part.encode(), keys.channel if realtime else b""),
        lambda reply: reply,
    )


def finish_write(
    namespace: Namespace, write: str, batch: int, *, lifetime: float
) -> Operation[int]:
    """
    Store that the decision of a batch was carried out, for ``lifetime`` seconds from now.

    The operation returns the number of the last batch that is stored: this one, or a later one.
    """
    return Operation(
        load("finish_write"),
        (namespace.written,),
        (write.encode(), digits(batch), digits(round(lifetime * 1000))),
        int,
        RetryClass.ALWAYS,
    )
