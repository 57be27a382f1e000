"""
Batches of a stream that are received together and acknowledged together.

A batch has a name, ``{lease}:{number}``, and parts. What it holds is kept beside the queue as
receipts, so that whoever knows the name can read, extend and acknowledge it, after a restart too.
Everything here is done at most once however often it is run: part by part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from rsmq.lua.load import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH_BYTES
from rsmq.wire.names import encode_name
from rsmq.wire.stored import parse_integer

#: Messages of a part.
PART = 1000

_ROOM = digits(MAX_BATCH_BYTES)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """
    Where messages go that were received too often, whatever the queue's policy says.

    Attributes:
        queue: the dead-letter queue.
        max_receives: receives after which a message goes there.
    """

    queue: str
    max_receives: int


@dataclass(frozen=True, slots=True)
class LeasedMessages:
    """
    The messages of a part that the lease still holds, column by column.

    Attributes:
        ids: their ids, as stored.
        raws: their bodies.
        receive_counts: how often each was received, this time included.
        first_received_ms: when each was first received; None where another client left it out.
    """

    ids: list[bytes]
    raws: list[bytes]
    receive_counts: list[int]
    first_received_ms: list[int | None]


class Batch(NamedTuple):
    """
    A batch of a lease; as text its name.

    Attributes:
        lease: the name of the lease.
        number: the number of the batch, from 1.
    """

    lease: str
    number: int

    def __str__(self) -> str:
        return f"{self.lease}:{self.number}"


def sizes_of(packed: bytes | None) -> list[int]:
    """The sizes of a batch's parts, as its field of the queue's leases has them."""
    return [] if packed is None else msgpack.unpackb(packed)[1:]


def lease_messages(
    namespace: Namespace,
    keys: QueueKeys,
    batch: Batch,
    part: int,
    most: int,
    *,
    vt: float,
    latest_ms: int | None,
    lifetime: float,
    dead_letters: DeadLetters | None,
    query: str,
) -> Operation[tuple[int, bool]]:
    """
    Receive messages as a part of a batch; how many, and whether there may be more.

    A part that is there already stays as it is. ``query`` is as for acknowledge_leased.

    Raises:
        CheckpointSetBack: there is no part of this batch, and it, or a later one, was acknowledged.
    """
    return Operation(
        load("lease_messages"),
        (keys.hash, keys.zset, keys.leases, namespace.acknowledged),
        (
            batch.lease.encode(),
            digits(batch.number),
            digits(part),
            digits(min(most, PART)),
            _ROOM,
            digits(round(vt * 1000)),
            b"" if latest_ms is None else digits(latest_ms),
            digits(round(lifetime * 1000)),
            keys.namespace,
            b"" if dead_letters is None else encode_name(dead_letters.queue),
            b"" if dead_letters is None else digits(dead_letters.max_receives),
            encode_name(query),
        ),
        lambda reply: (reply[0], bool(reply[1])),
        Retry.ALWAYS,
        (keys.name,),
    )


def leased_messages(keys: QueueKeys, batch: Batch, part: int) -> Operation[LeasedMessages | None]:
    """What a part holds; None if there is no such part. Changes nothing."""
    return _of_part("leased_messages", keys, batch, part, parse=_leased)


def _leased(reply: Any) -> LeasedMessages | None:
    if reply is None:
        return None
    packed, told = reply
    now, ids, again = msgpack.unpackb(packed, raw=True)
    counts: list[int] = [1] * len(ids)
    firsts: list[int | None] = [now] * len(ids)
    for at in range(0, len(again), 3):
        place = again[at] - 1
        counts[place] = int(again[at + 1])
        firsts[place] = parse_integer(again[at + 2] or None)
    if len(told) < 2 * len(ids):  # some are held no more
        places = [place - 1 for place in told[::2]]
        ids = [ids[place] for place in places]
        counts = [counts[place] for place in places]
        firsts = [firsts[place] for place in places]
    return LeasedMessages(ids, told[1::2], counts, firsts)


def acknowledge_leased(
    namespace: Namespace,
    keys: QueueKeys,
    batch: Batch,
    part: int,
    *,
    lifetime: float,
    query: str,
) -> Operation[tuple[int, int]]:
    """
    Remove what a part holds, and store the number of the batch as acknowledged.

    Args:
        namespace: the queue's.
        keys: the queue's.
        batch: which.
        part: its number; where there is no such part, only the number of the batch is stored.
        lifetime: how long that number is kept, seconds.
        query: the name under which it is kept, for all queues of the query.

    Returns:
        How many were removed, and how many another consumer has received since.
    """
    return Operation(
        load("acknowledge_leased"),
        (keys.hash, keys.zset, keys.leases, namespace.acknowledged),
        (
            batch.lease.encode(),
            digits(batch.number),
            digits(part),
            digits(round(lifetime * 1000)),
            encode_name(query),
        ),
        tuple,
        Retry.ALWAYS,
        (keys.name,),
    )


def keep_acknowledged(
    namespace: Namespace, query: str, *, lifetime: float
) -> Operation[int | None]:
    """Keep the number of the last batch that a query acknowledged for longer; that number."""
    return Operation(
        load("keep_acknowledged"),
        (namespace.acknowledged,),
        (encode_name(query), digits(round(lifetime * 1000))),
        lambda reply: reply,
        Retry.ALWAYS,
    )


def extend_leased(
    keys: QueueKeys, batch: Batch, part: int, *, vt: float, lifetime: float
) -> Operation[tuple[int, int]]:
    """Hide what a part holds for longer; how many, and how many another consumer has by now."""
    times = digits(round(vt * 1000)), digits(round(lifetime * 1000))
    return _of_part("extend_leased", keys, batch, part, *times, parse=tuple)


def _of_part(
    name: str, keys: QueueKeys, batch: Batch, part: int, *args: bytes, parse: Any
) -> Operation[Any]:
    return Operation(
        load(name),
        (keys.hash, keys.zset, keys.leases),
        (f"{batch}:{part}".encode(), *args),
        parse,
        Retry.ALWAYS,
        (keys.name,),
    )


def hold_lease(
    keys: QueueKeys, lease: str, holder: str, *, seconds: float, lifetime: float
) -> Operation[float]:
    """Be the holder of a lease for a time; 0, or for how many seconds another one is."""
    return Operation(
        load("hold_lease"),
        (keys.hash, keys.leases),
        (
            lease.encode(),
            holder.encode(),
            digits(round(seconds * 1000)),
            digits(round(lifetime * 1000)),
        ),
        lambda reply: reply / 1000,
        Retry.ALWAYS,
        (keys.name,),
    )


def forget_leases(keys: QueueKeys) -> Operation[int]:
    """Forget what nobody has kept for as long as it was to be kept; how many fields."""
    return Operation(load("forget_leases"), (keys.leases,), (), int, Retry.ALWAYS, (keys.name,))
