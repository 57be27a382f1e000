"""
Many messages sent in one call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, InvalidValue
from rsmq.lua.load import load
from rsmq.operations.arguments import (
    dedup_ms,
    digits,
    encode_body,
    listed,
    queues_of,
    waiting,
)
from rsmq.operations.operation import Operation, Retry, Steps
from rsmq.wire import limits
from rsmq.wire.ids import make_id_suffix, make_id_suffixes
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH_BYTES, check_body_size, check_dedup_id
from rsmq.wire.names import decode_name

#: From this mean size on, bytes, bodies go beside the script: what goes through it is copied twice.
LARGE = 8192

_FIELDS_A_COMMAND = 2000


def send_messages(
    namespace: Namespace,
    qname: str,
    bodies: Iterable[object],
    *,
    delay: float | None,
    front: bool,
    dedup_ids: Iterable[str | None] | None,
    dedup_window: float,
    codec: Codec,
    realtime: bool,
) -> Steps[list[str]]:
    """Add messages to a queue, in order; their ids."""
    keys = namespace.queue(qname)
    wait = waiting(delay, front=front)
    encoded = [encode_body(body, codec) for body in listed("bodies", bodies)]
    names = None if dedup_ids is None else _names(dedup_ids, len(encoded))
    window = b"" if names is None else dedup_ms(dedup_window)
    raws = [raw for raw, _ in encoded]
    total = sum(map(len, raws))
    if total > MAX_BATCH_BYTES:
        check_body_size(max(map(len, raws)))
        raise InvalidValue(
            "the bytes of bodies",
            0,
            MAX_BATCH_BYTES,
            value=total,
            hint=f"The bodies of a batch have at most {MAX_BATCH_BYTES} bytes in all; got "
            f"{total}. Make several calls.",
        )
    largest = max((size for _, size in encoded), default=1)
    channel = keys.channel if realtime else b""
    if names is None:
        return send_raws(keys, raws, largest=largest, wait=wait, channel=channel)
    batch = _Batch(keys, raws, make_id_suffixes(len(raws)), digits(largest), wait, channel)
    return _one(batch.at_once(names, window))


def publish(
    namespace: Namespace,
    qnames: Iterable[str],
    body: object,
    *,
    delay: float | None,
    codec: Codec,
    realtime: bool,
) -> Operation[dict[str, str]]:
    """Add a message to each of several queues, or to none; the ids by queue."""
    queues = queues_of(namespace, qnames)
    wait = waiting(delay, front=False)
    raw, size = encode_body(body, codec)
    check_body_size(len(raw))
    messages = (
        part for keys in queues for part in (make_id_suffix(), keys.channel if realtime else b"")
    )
    return Operation(
        load("publish"),
        tuple(key for keys in queues for key in (keys.hash, keys.zset)),
        (raw, digits(size), wait, *messages),
        lambda reply: {keys.name: decode_name(id) for keys, id in zip(queues, reply, strict=True)},
        Retry.NEVER,
        tuple(keys.name for keys in queues),
    )


def send_raws(
    keys: QueueKeys, raws: list[bytes], *, largest: int, wait: bytes, channel: bytes
) -> Steps[list[str]]:
    """
    Add messages to a queue, in order; their ids.

    Args:
        keys: the queue's.
        raws: the bodies; a batch at most.
        largest: the size of the largest, as maxsize counts it; 0 is any size.
        wait: their delay, as ``send_messages.lua`` takes it.
        channel: where to publish, empty for nowhere.
    """
    total = sum(map(len, raws))
    if total > limits.MAX_BODY_BYTES:
        check_body_size(max(map(len, raws)))
    batch = _Batch(keys, raws, make_id_suffixes(len(raws)), digits(largest), wait, channel)
    if len(raws) > 1 and total >= LARGE * len(raws):
        return batch.in_two()
    return _one(batch.at_once(None, b""))


def send_named(
    keys: QueueKeys,
    body: tuple[bytes, bytes],
    wait: bytes,
    channel: bytes,
    name: tuple[bytes, bytes],
) -> Operation[str]:
    """One message under a name: a batch of one."""
    raw, size = body
    batch = _Batch(keys, [raw], [make_id_suffix()], size, wait, channel)
    operation: Operation[Any] = batch.at_once([name[0]], name[1])
    parse = operation.parse
    operation.parse = lambda reply: parse(reply)[0]
    return operation


def _one(operation: Operation[list[str]]) -> Steps[list[str]]:
    ids: list[str] = yield operation
    return ids


def _names(dedup_ids: Iterable[str | None], number: int) -> list[bytes]:
    names = [
        b"" if name is None else check_dedup_id(name) for name in listed("dedup_ids", dedup_ids)
    ]
    if len(names) != number:
        raise InvalidFormat(
            "dedup_ids",
            value=len(names),
            hint=f"There is one for each body, or None; got {len(names)} for {number} bodies.",
        )
    return names


@dataclass(frozen=True, slots=True)
class _Batch:
    """
    What is to be sent.

    Attributes:
        keys: the queue's.
        raws: the bodies, bytes.
        suffixes: the second parts of their ids, sorted.
        largest: the size of the largest body, as maxsize counts it.
        wait: their delay, as ``send_messages.lua`` takes it.
        channel: where to publish, empty for nowhere.
    """

    keys: QueueKeys
    raws: list[bytes]
    suffixes: list[bytes]
    largest: bytes
    wait: bytes
    channel: bytes

    def at_once(self, names: list[bytes] | None, window: bytes) -> Operation[list[str]]:
        """One script with all bodies; with names, those that were sent before are left out."""

        def parse(reply: Any) -> list[str]:
            time, told = reply
            ids = [(time + suffix).decode("ascii") for suffix in self.suffixes]
            if told is None:
                return ids
            return [decode_name(known) or id for known, id in zip(told, ids, strict=True)]

        records: tuple[bytes, ...] = ()
        values = self.raws
        if names is not None:
            records = (self.keys.dedup,)
            values = [value for pair in zip(self.raws, names, strict=True) for value in pair]
        return Operation(
            load("send_messages"),
            (self.keys.hash, self.keys.zset, *records),
            (self.largest, self.wait, b"".join(self.suffixes), self.channel, window, *values),
            parse,
            Retry.ALWAYS if names is not None and all(names) else Retry.NEVER,
            (self.keys.name,),
        )

    def in_two(self) -> Steps[list[str]]:
        """
        The bodies as plain commands: Redis keeps what it read, where a script makes copies.

        The ids need the server's time, and whether MULTI is permitted must be known before
        anything is sent in one; the first step brings both.
        """
        time = yield Operation(
            load("begin_send"),
            (self.keys.hash, self.keys.zset),
            (self.largest, self.wait),
            lambda reply: reply,
            Retry.ALWAYS,
            (self.keys.name,),
            prelude=(),
            fallback=self.at_once(None, b""),
        )
        if isinstance(time, list):  # sent at once, where MULTI is not to be had
            return time
        ids = [time + suffix for suffix in self.suffixes]
        fields = [value for pair in zip(ids, self.raws, strict=True) for value in pair]
        yield Operation(
            load("finish_send"),
            (self.keys.hash, self.keys.zset),
            (self.largest, self.wait, digits(int(time, 36) // 1000), self.channel, *ids),
            lambda reply: reply,
            Retry.NEVER,
            (self.keys.name,),
            prelude=tuple(
                (b"HSET", self.keys.hash, *fields[at : at + _FIELDS_A_COMMAND])
                for at in range(0, len(fields), _FIELDS_A_COMMAND)
            ),
        )
        return [id.decode("ascii") for id in ids]
