"""
Writes in two steps: tasks stage messages, one decision publishes them.

A write has a name and batches with growing numbers; of each batch one decision is carried out,
once, however often it is asked for and whoever dies half-way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from rsmq.lua.load import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.operations.restore import RestoredMessage
from rsmq.wire.ids import make_id_suffixes
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import check_body_size
from rsmq.wire.names import decode_name, encode_name

#: By a queue's name: the parts of it that count.
Decision = dict[str, list[str]]


def stage_messages(
    keys: QueueKeys,
    part: str,
    messages: Sequence[bytes] | Sequence[RestoredMessage],
    *,
    largest: int,
    delay_ms: int | None,
    lifetime: float,
) -> Operation[int]:
    """Stage messages under a name: ``RestoredMessage`` for a restore, otherwise bodies."""
    delay = b"" if delay_ms is None else digits(delay_ms)
    packed: tuple[bytes, bytes, list[Any]]
    if messages and isinstance(messages[0], RestoredMessage):
        rows = [value for message in messages for value in message.row()]  # type: ignore[union-attr]
        packed = b"restore", b"", rows
    else:
        packed = delay, b"".join(make_id_suffixes(len(messages))), list(messages)
    # All of it is one value: so the largest body that can be staged is somewhat smaller.
    stored = msgpack.packb(packed, use_bin_type=False)
    check_body_size(len(stored))
    return Operation(
        load("stage_messages"),
        (keys.hash, keys.staged),
        (
            part.encode(),
            digits(largest),
            delay,
            digits(round(lifetime * 1000)),
            stored,
        ),
        int,
        Retry.ALWAYS,
        (keys.name,),
    )


def adopt_staged(
    namespace: Namespace, write: str, batch: int, decision: Decision, *, lifetime: float
) -> Operation[tuple[int, Decision | None] | None]:
    """
    Decide what counts, if nothing is decided yet.

    The result is a batch and what is to be carried out of it, None when it was carried out; or
    nothing if parts are missing.
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

    packed = [
        [encode_name(queue), *(part.encode() for part in parts)]
        for queue, parts in decision.items()
    ]
    return Operation(
        load("adopt_staged"),
        (namespace.written, *(namespace.queue(queue).staged for queue in decision)),
        (
            write.encode(),
            digits(batch),
            msgpack.packb(packed, use_bin_type=False),
            digits(round(lifetime * 1000)),
        ),
        parse,
        Retry.ALWAYS,
        tuple(decision),
    )


def publish_staged(keys: QueueKeys, part: str, *, realtime: bool) -> Operation[int | None]:
    """Send what was staged under a name; how many, 0 if it was sent before, None if it is lost."""
    return Operation(
        load("publish_staged"),
        (keys.hash, keys.zset, keys.staged),
        (part.encode(), keys.channel if realtime else b""),
        lambda reply: reply,
        Retry.ALWAYS,
        (keys.name,),
    )


def finish_staged(
    namespace: Namespace, write: str, batch: int, *, lifetime: float
) -> Operation[int]:
    """Note that what was decided of a batch was carried out; the last batch that is noted."""
    return Operation(
        load("finish_staged"),
        (namespace.written,),
        (write.encode(), digits(batch), digits(round(lifetime * 1000))),
        int,
        Retry.ALWAYS,
    )
