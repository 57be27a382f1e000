"""
Batches of a stream, whose messages are received together and acknowledged together.

A batch has the name ``{stream}:{number}`` and consists of parts. Redis stores its receipts beside
the queue, so any process that knows the name can read, extend and acknowledge the batch, after a
restart too. Every operation here is idempotent, and works on one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from rsmq.errors import NewerVersion
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH_BYTES
from rsmq.wire.names import encode_name
from rsmq.wire.stored import parse_integer

load = loader_of("spark")

#: The most messages of a part.
MAX_PART_MESSAGES = 1000
#: How long the number of a query's last acknowledged batch is stored after its last start or
#: heartbeat: so long, a checkpoint that is older than that number is refused.
ACKNOWLEDGED_SECONDS = 366 * 86_400


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """
    The dead-letter policy of a stream, which replaces the policies of its queues.

    Attributes:
        max_receives: the receive count at which a message is moved instead of received again.
    """

    queue: str
    max_receives: int


@dataclass(frozen=True, slots=True)
class PartReceipts:
    """
    The receipts of the messages of a part, column by column.

    Attributes:
        ids: their ids, as stored.
        receive_counts: how often each was received, including this time.
        first_received_ms: when each was first received, Unix ms; None if that is not a number.
        follows: the places of those that are behind the message before them in their group.
    """

    ids: list[bytes]
    receive_counts: list[int]
    first_received_ms: list[int | None]
    follows: tuple[int, ...] = ()

    def find_valid(self, is_valid: Sequence[bool]) -> list[int]:
        """
        Return the places of messages that a batch may have.

        Those behind one of their group that is not valid are given up with it, as by
        ``acknowledge_leased``.
        """
        valid = list(is_valid)
        for place in self.follows:
            valid[place] = valid[place] and valid[place - 1]
        return [place for place, each in enumerate(valid) if each]


class Batch(NamedTuple):
    """
    The identity of a batch; as a text, its name.

    Attributes:
        number: the number of the batch, from 1.
        query: the name of the query, for all its queues: under it the number of the last
            acknowledged batch is stored.
        holder: the id of the process that receives and releases.
    """

    stream: str
    number: int
    query: str
    holder: str = ""

    def __str__(self) -> str:
        return f"{self.stream}:{self.number}"


class LeasedPart(NamedTuple):
    """
    The result of ``lease_messages``.

    Attributes:
        messages: the number of messages in the part.
        size: the bytes of their bodies, or ``max_bytes`` if not even one body fits; None if the
            part existed already.
        may_have_more: whether there may be more to receive.
        hidden_until_ms: the Unix time in ms until when they are hidden; 0 if the part existed.
    """

    messages: int
    size: int | None
    may_have_more: bool
    hidden_until_ms: int = 0


def unpack_record(packed: bytes) -> list[Any]:
    """
    Return the record of a batch: the Unix time in ms when it expires, and the sizes of its parts.

    Raises:
        NewerVersion: it begins with a text, the version of a form that this library does not know.
    """
    record: list[Any] = msgpack.unpackb(packed, raw=True)
    if isinstance(record[0], bytes):
        raise NewerVersion("A batch in Redis", record[0].decode("utf-8", "replace"))
    return record


def parse_part_sizes(packed: bytes | None) -> list[int]:
    """
    Return the sizes of a batch's parts, from its field in the leases of a queue.

    Raises:
        NewerVersion: as of ``unpack_record``.
    """
    return [] if packed is None else unpack_record(packed)[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLimits:
    """
    The messages of a part of a batch, and for how long it has them.

    Attributes:
        max_messages: the most messages to receive; more than 1,000 count as 1,000.
        max_bytes: the most bytes of bodies in the part.
        is_first: whether the first body of the part may be larger than that.
        has_rows: whether each message with a group is followed by the next ones of its group.
        vt: the visibility timeout, seconds.
        latest_ms: receives only messages that became visible until this Unix time in ms; None is
            the server's present time.
        lifetime: how long the receipts are stored, seconds.
        dead_letters: the dead-letter policy; None is the queue's own.
    """

    max_messages: int
    vt: float
    latest_ms: int | None
    lifetime: float
    dead_letters: DeadLetterPolicy | None
    max_bytes: int = MAX_BATCH_BYTES
    is_first: bool = True
    has_rows: bool = False


def lease_messages(
    namespace: Namespace,
    keys: QueueKeys,
    batch: Batch,
    part: int,
    wanted: PartLimits,
) -> Operation[LeasedPart]:
    """
    Receive messages as a part of a batch; if the part exists already, change nothing.

    Args:
        part: the number of the part, from 0.
        wanted: which messages, and for how long.

    Raises:
        LeaseTakenOver: another process has taken over the query.
        CheckpointSetBack: the part does not exist, and the batch or a later one was acknowledged.
    """
    policy = wanted.dead_letters
    target = (b"", b"") if policy is None else (encode_name(policy.queue), policy.max_receives)
    return _on_part(
        "lease_messages",
        namespace,
        keys,
        (batch.stream, batch.number, part),
        (min(wanted.max_messages, MAX_PART_MESSAGES), wanted.max_bytes, _ms(wanted.vt)),
        (wanted.latest_ms, _ms(wanted.lifetime), keys.namespace, *target),
        (encode_name(batch.query), batch.holder, wanted.is_first, wanted.has_rows),
        parse=lambda reply: LeasedPart(
            reply[0], None if reply[1] < 0 else reply[1], bool(reply[2]), reply[3]
        ),
    )


def name_part(batch: Batch, part: int) -> bytes:
    """Return the field of a part in the leases of a queue."""
    return f"{batch}:{part}".encode()


def parse_receipts(packed: bytes) -> PartReceipts:
    """Return the receipts of a part, from its field in the leases of a queue."""
    received_ms, ids, received_before, *follows = msgpack.unpackb(packed, raw=True)
    counts: list[int] = [1] * len(ids)
    first_ms: list[int | None] = [received_ms] * len(ids)
    for index in range(0, len(received_before), 3):
        place = received_before[index] - 1
        counts[place] = int(received_before[index + 1])
        first_ms[place] = parse_integer(received_before[index + 2] or None)
    behind = tuple(at - 1 for places in follows for at in places)
    return PartReceipts(ids, counts, first_ms, behind)


def acknowledge_leased(
    namespace: Namespace,
    keys: QueueKeys,
    batch: Batch,
    part: int,
    *,
    counts: bytes = b"",
    latest_ms: int | None = None,
) -> Operation[tuple[int, int]]:
    """
    Delete the messages of a part, and store the number of the batch as acknowledged.

    Args:
        part: the number of the part; if it does not exist, only the number of the batch is stored.
        counts: JSON of what the offset of the batch counts in each queue, which is stored, too. If
            it is empty, what was stored with the same number stays.
        latest_ms: the Unix time in ms from which the next messages of the groups are due, unless
            they are due later; None is the server's present time.

    Returns:
        How many messages were deleted, and how many another consumer has received since, or are
        behind such a message of their group.
    """
    return _on_part(
        "acknowledge_leased",
        namespace,
        keys,
        (batch.stream, batch.number, part, _ms(ACKNOWLEDGED_SECONDS)),
        (encode_name(batch.query), counts, latest_ms),
        parse=tuple,
    )


def take_over_ownership(namespace: Namespace, query: str, holder: str) -> Operation[int]:
    """
    Take over a query: ``lease_messages`` refuses every other process from now on.

    Args:
        query: the query's name, as in ``Batch``.
        holder: the id of the process.

    Returns:
        The number of the last batch that the query acknowledged; 0 if there is none.
    """
    return _on_acknowledged("take_over_lease", namespace, query, holder.encode(), parse=int)


def release_leased(
    namespace: Namespace, keys: QueueKeys, batch: Batch, part: int, *, has_policy: bool
) -> Operation[int]:
    """
    Remove the last part of a batch, and make its messages visible whose receipts are still valid.

    Changes nothing if ``part`` is not the last part. If there is a dead-letter policy, this receive
    of the messages does not count for it, as they were not processed.

    Args:
        part: the number of the part, from 0.
        has_policy: whether the stream has a dead-letter policy, beside those of queues.

    Raises:
        LeaseTakenOver: another process has taken over the query.
    """
    return _on_part(
        "release_leased",
        namespace,
        keys,
        (batch.stream, batch.number, part, encode_name(batch.query), batch.holder, has_policy),
        parse=int,
    )


def keep_acknowledged(namespace: Namespace, query: str) -> Operation[int | None]:
    """
    Store the number of the last batch that a query acknowledged for ``ACKNOWLEDGED_SECONDS`` more.

    The operation returns that number; None if no number is stored.
    """
    return _on_acknowledged("keep_acknowledged", namespace, query, parse=lambda reply: reply)


def _on_acknowledged(
    name: str, namespace: Namespace, query: str, *holder: bytes, parse: Any
) -> Operation[Any]:
    """Return the operation of a script on the last acknowledged batch of a query."""
    args = encode_name(query), *holder, digits(_ms(ACKNOWLEDGED_SECONDS))
    return Operation(load(name), (namespace.acknowledged,), args, parse, RetryClass.ALWAYS)


def extend_leased(
    keys: QueueKeys, batch: Batch, part: int, *, vt: float, lifetime: float
) -> Operation[tuple[int, int, int]]:
    """
    Hide the messages of a part for ``vt`` seconds from now, unless they are hidden for longer.

    Also stores the receipts for ``lifetime`` seconds from now.

    Returns:
        How many messages have valid receipts, how many another consumer has received since, and the
        Unix time in ms until when those with valid receipts are hidden at least.
    """
    keys_of_queue = keys.hash, keys.zset, keys.leases
    args = name_part(batch, part), digits(_ms(vt)), digits(_ms(lifetime))
    return on_queue(keys, load("extend_leased"), keys_of_queue, args, tuple)


def _on_part(
    name: str,
    namespace: Namespace,
    keys: QueueKeys,
    *arguments: tuple[bytes | str | int | None, ...],
    parse: Any,
) -> Operation[Any]:
    """Return the operation of a script on a part of a batch; None and False are empty arguments."""
    return on_queue(
        keys,
        load(name),
        (keys.hash, keys.zset, keys.leases, namespace.acknowledged),
        tuple(_encode(each) for group in arguments for each in group),
        parse,
    )


def _encode(argument: bytes | str | int | None) -> bytes:
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, str):
        return argument.encode()
    if argument is None or isinstance(argument, bool):
        return b"1" if argument else b""
    return digits(argument)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def acquire_ownership(
    keys: QueueKeys, stream: str, holder: str, *, seconds: float, lifetime: float
) -> Operation[float]:
    """
    Acquire or renew the ownership of a stream on a queue, unless another holder has it.

    Args:
        holder: the id of the process that acquires it.
        seconds: for how long it is acquired.
        lifetime: how long the leases of the queue are stored at least, seconds.

    Returns:
        0; or if another holder has it, the seconds until that ends.
    """
    args = stream.encode(), holder.encode(), digits(_ms(seconds)), digits(_ms(lifetime))
    return on_queue(
        keys, load("acquire_lease"), (keys.hash, keys.leases), args, lambda reply: reply / 1000
    )


def release_ownership(keys: QueueKeys, stream: str, holder: str) -> Operation[bool]:
    """
    Release the ownership of a stream on a queue, so that another holder can acquire it at once.

    Args:
        holder: the id of the process that has acquired it.

    Returns:
        False if this holder does not have it; then nothing is changed.
    """
    args = stream.encode(), holder.encode()
    return on_queue(keys, load("release_lease"), (keys.leases,), args, bool)


def delete_expired_leases(keys: QueueKeys) -> Operation[int]:
    """
    Delete batches whose lifetime is over, and leases whose holder does not renew them any more.

    The operation returns the number of deleted fields.
    """
    script = load("delete_expired_leases")
    return on_queue(keys, script, (keys.leases,), (), int)
