"""
Operations that send many messages in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from rsmq.codecs import Codec, QueueCodec, bind_codec, blocks
from rsmq.errors import InvalidValue
from rsmq.operations.arguments import check_batch, digits, encode_body, resolve_queues
from rsmq.operations.confirmation import Confirm
from rsmq.operations.operation import Operation, RetryClass, Steps
from rsmq.operations.scripts import load
from rsmq.operations.send_options import SendOptions, check_send
from rsmq.operations.time_limit import TimeLimit
from rsmq.vocabulary.sends import BATCH, PUBLISH
from rsmq.wire.body_format import add_origin
from rsmq.wire.ids import make_id_suffix, make_id_suffixes
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH_BYTES, check_body_size, large_body_size
from rsmq.wire.names import decode_name

#: The mean size, in bytes, from which on bodies are sent as plain commands: arguments of a script
#: are copied twice.
LARGE_BODY_BYTES = 8192

_FIELDS_PER_COMMAND = 2000


class MessageKeys(Protocol):
    """The name of a queue and the keys of its messages, as ``QueueKeys`` has them."""

    @property
    def name(self) -> str: ...

    @property
    def hash(self) -> bytes: ...

    @property
    def zset(self) -> bytes: ...


def send_messages(
    namespace: Namespace,
    qname: str,
    bodies: Iterable[object],
    options: Mapping[str, Any],
    *,
    codec: Codec,
    realtime: bool,
    confirmation: Confirm | None = None,
    limit: TimeLimit | None = None,
) -> Steps[list[str]]:
    """
    Add messages to a queue, in order; the result is their ids.

    Args:
        options: the arguments of ``send_messages`` that are in ``SEND_OPTIONS``.
    """
    keys = namespace.queue(qname)
    found = check_batch("bodies", bodies)
    delay, checked = check_send(options, BATCH, len(found))
    id_ends = make_id_suffixes(len(found))
    if blocks(codec):
        encoded = [
            encode_body(body, codec.for_message(keys.zset, id_end))
            for body, id_end in zip(found, id_ends, strict=True)
        ]
    else:
        bound = bind_codec(codec, keys.zset)
        encoded = [encode_body(body, bound) for body in found]
    raws = [raw for raw, _ in encoded]
    total = sum(map(len, raws))
    if total > MAX_BATCH_BYTES:
        check_body_size(max(map(len, raws)))
        raise InvalidValue(
            "the bytes of bodies",
            0,
            MAX_BATCH_BYTES,
            value=total,
            hint="Make several calls.",
        )
    largest = max((size for _, size in encoded), default=1)
    channel = keys.channel if realtime else b""
    batch = _Batch(keys, raws, id_ends, digits(largest), delay, channel, confirmation, limit)
    return _send_batch(keys, batch, checked)


def publish(
    namespace: Namespace,
    qnames: Iterable[str],
    body: object,
    options: Mapping[str, Any],
    *,
    codec: Codec,
    realtime: bool,
    confirmation: Confirm | None = None,
    limit: TimeLimit | None = None,
) -> Operation[dict[str, str]]:
    """
    Add a message to each of several queues, or to none; the result is the ids by queue.

    Args:
        options: the arguments of ``publish`` that are in ``SEND_OPTIONS``.
    """
    queues = resolve_queues(namespace, qnames)
    delay, checked = check_send(options, PUBLISH)
    packed = b"" if checked is None else checked.pack()
    if isinstance(codec, QueueCodec) and queues:  # one body for all, with the queue it is made for
        raw, size = encode_body(body, codec.for_queue(queues[0].zset))
        size += len(with_origin := add_origin(raw, queues[0].zset)) - len(raw)
        raw = with_origin
    else:
        raw, size = encode_body(body, codec)
    messages = (
        part for keys in queues for part in (make_id_suffix(), keys.channel if realtime else b"")
    )
    return Operation(
        load("publish"),
        tuple(key for keys in queues for key in (keys.hash, keys.zset)),
        (raw, digits(size), delay, packed, *messages),
        lambda reply: {keys.name: decode_name(id) for keys, id in zip(queues, reply, strict=True)},
        RetryClass.NEVER,
        tuple(keys.name for keys in queues),
        confirmation=confirmation,
        limit=limit,
        large_body=large_body_size(len(raw)),
    )


def send_raws(
    keys: QueueKeys,
    raws: list[bytes],
    *,
    largest: int,
    delay: bytes = b"",
    channel: bytes = b"",
    options: SendOptions | None = None,
) -> Steps[list[str]]:
    """
    Add messages to a queue, in order; the result is their ids.

    Args:
        raws: the bodies, at most a batch.
        largest: the size of the largest body, as maxsize counts it; 0 disables the check.
        delay: their delay, in the format of ``send_messages.lua``.
        channel: the channel to publish to; empty for none.
        options: their options, checked; None for none.
    """
    suffixes = make_id_suffixes(len(raws))
    batch = _Batch(keys, raws, suffixes, digits(largest), delay, channel)
    return _send_batch(keys, batch, options)


def _send_batch(keys: QueueKeys, batch: _Batch, options: SendOptions | None) -> Steps[list[str]]:
    if options is not None:
        batch.suffixes = options.mark(batch.suffixes)
        return _single_step(batch.with_options(keys, options))
    number = len(batch.raws)
    if number > 1 and sum(map(len, batch.raws)) >= LARGE_BODY_BYTES * number:
        return batch.in_two_steps()
    return _single_step(batch.in_one_step())


def send_with_options(
    keys: QueueKeys,
    body: tuple[bytes, bytes],
    delay: bytes,
    channel: bytes,
    options: SendOptions,
    *,
    id_end: bytes,
    confirmation: Confirm | None,
    limit: TimeLimit | None,
) -> Operation[str]:
    """
    Add a message with options: a batch of one; the result is its id.

    Args:
        body: the body, and its size as maxsize counts it.
        delay: its delay, in the format of ``send_messages.lua``.
        channel: the channel to publish to; empty for none.
        id_end: the random part of its id.
    """
    raw, size = body
    suffixes = options.mark([id_end])
    if options.groups is not None and options.has_groups_only:
        return Operation(
            load("send_to_group"),
            (keys.hash, keys.zset, keys.admitted, keys.held_back, keys.group_of),
            (raw, size, delay, *suffixes, channel, *options.groups),
            decode_name,
            RetryClass.NEVER,
            (keys.name,),
            confirmation=confirmation,
            limit=limit,
            large_body=large_body_size(len(raw)),
        )
    batch = _Batch(keys, [raw], suffixes, size, delay, channel, confirmation, limit)
    operation: Operation[Any] = batch.with_options(keys, options)
    parse = operation.parse
    operation.parse = lambda reply: parse(reply)[0]
    return operation


def set_counted_size(operation: Operation[str], size: int) -> None:
    """Let a send have another size for maxsize; 0 disables the check."""
    at = 0 if operation.script.name == "send_with_options" else 1
    operation.args = (*operation.args[:at], digits(size), *operation.args[at + 1 :])


def _single_step(operation: Operation[list[str]]) -> Steps[list[str]]:
    ids: list[str] = yield operation
    return ids


@dataclass(slots=True)  # not frozen: made for every send, it takes a third of the time
class _Batch:
    """
    Messages to send to a queue.

    Attributes:
        raws: the bodies, bytes.
        suffixes: the random parts of their ids, sorted.
        largest: the size of the largest body, as maxsize counts it.
        delay: their delay, in the format of ``send_messages.lua``.
        channel: the channel to publish to; empty for none.
    """

    keys: MessageKeys
    raws: list[bytes]
    suffixes: list[bytes]
    largest: bytes
    delay: bytes
    channel: bytes
    confirmation: Confirm | None = None
    limit: TimeLimit | None = None

    def large_body(self) -> int:
        """See ``Operation.large_body``."""
        return large_body_size(max(map(len, self.raws), default=0))

    def in_one_step(self) -> Operation[list[str]]:
        """Return one script with all bodies."""
        return Operation(
            load("send_messages"),
            (self.keys.hash, self.keys.zset),
            (self.largest, self.delay, b"".join(self.suffixes), self.channel, *self.raws),
            self.ids,
            RetryClass.NEVER,
            (self.keys.name,),
            confirmation=self.confirmation,
            limit=self.limit,
            large_body=self.large_body(),
        )

    def with_options(self, keys: QueueKeys, options: SendOptions) -> Operation[list[str]]:
        """Return one script with all bodies; it leaves out those that have an earlier message."""

        def parse(reply: Any) -> list[str]:
            time, earlier_ids = reply
            return [
                decode_name(earlier) or id
                for earlier, id in zip(earlier_ids, self.ids(time), strict=True)
            ]

        suffixes = b"".join(self.suffixes)
        if options.groups is not None and options.has_groups_only:
            pairs = zip(self.raws, options.groups, strict=True)
            return Operation(
                load("send_to_groups"),
                (keys.hash, keys.zset),
                (self.largest, self.delay, suffixes, self.channel, *chain.from_iterable(pairs)),
                self.ids,
                RetryClass.NEVER,
                (self.keys.name,),
                confirmation=self.confirmation,
                limit=self.limit,
                large_body=self.large_body(),
            )
        return Operation(
            load("send_with_options"),
            (keys.hash, keys.zset, *options.keys(keys)),
            (self.largest, self.delay, suffixes, self.channel, options.pack(), *self.raws),
            parse,
            RetryClass.ALWAYS if options.may_repeat else RetryClass.NEVER,
            (self.keys.name,),
            confirmation=self.confirmation,
            limit=self.limit,
            large_body=self.large_body(),
        )

    def ids(self, time: bytes) -> list[str]:
        """Return the ids of the messages, from their first part."""
        return [(time + suffix).decode("ascii") for suffix in self.suffixes]

    def in_two_steps(self) -> Steps[list[str]]:
        """
        Send the bodies as plain commands: Redis stores them without the copies that a script makes.

        The ids need the server's time, and a client must know whether MULTI is permitted before it
        sends anything in one. The first step finds out both.
        """
        begin = _begin_send(self.keys, self.largest, self.delay)
        begin.fallback, begin.limit = self.in_one_step(), self.limit
        begun = yield begin
        if isinstance(begun, list):  # the fallback has sent them, since MULTI is not available
            return begun
        ids: list[str] = yield self.finish(begun[0])
        return ids

    def finish(self, time: bytes) -> Operation[list[str]]:
        """Return the second of two steps. ``time`` is the first part of the ids."""
        ids = [time + suffix for suffix in self.suffixes]
        fields = [value for pair in zip(ids, self.raws, strict=True) for value in pair]
        return Operation(
            load("finish_send"),
            (self.keys.hash, self.keys.zset),
            (self.largest, self.delay, digits(int(time, 36) // 1000), self.channel, *ids),
            lambda _reply: [id.decode("ascii") for id in ids],
            RetryClass.NEVER,
            (self.keys.name,),
            commands=tuple(
                (b"HSET", self.keys.hash, *fields[at : at + _FIELDS_PER_COMMAND])
                for at in range(0, len(fields), _FIELDS_PER_COMMAND)
            ),
            confirmation=self.confirmation,
            limit=self.limit,
            large_body=self.large_body(),
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error reply of a single call in a batch; the text is that of its script."""

    text: str


def send_each(
    keys: MessageKeys,
    messages: Sequence[tuple[bytes, bytes]],
    delay: bytes,
    suffixes: Sequence[bytes],
) -> Steps[list[bytes | Refusal]]:
    """
    Add the messages of several calls, in order; the result is the reply for each call.

    Args:
        messages: for each the body's size as maxsize counts it, and the body.
        delay: their delay, in the format of ``send_each.lua``.
        suffixes: for each message the random characters of its id, sorted.
    """
    time, limit = yield Operation(
        load("send_each"),
        (keys.hash, keys.zset),
        (delay, b"".join(suffixes), *chain.from_iterable(messages)),
        lambda reply: reply,
        RetryClass.NEVER,
        (keys.name,),
    )
    replies, _ = _replies_to_each(messages, suffixes, time, limit)
    return replies


def send_each_in_two_steps(
    keys: MessageKeys,
    messages: Sequence[tuple[bytes, bytes]],
    delay: bytes,
    suffixes: Sequence[bytes],
    cancelled: Callable[[], Collection[int]],
) -> Steps[list[bytes | Refusal]]:
    """
    Do what ``send_each`` does for large bodies, in two steps; the first one changes nothing.

    The messages have the time and the place in the queue of the first step, and can be received
    after the second.

    Args:
        keys, messages, delay, suffixes: as those of ``send_each``.
        cancelled: returns the positions of the calls that were cancelled, which are not sent.
    """
    time, limit = yield _begin_send(keys, b"0", delay)
    replies, fitting = _replies_to_each(messages, suffixes, time, limit)
    left_out = cancelled()
    if left_out:
        fitting = [at for at in fitting if at not in left_out]
    if fitting:
        batch = _Batch(
            keys,
            [messages[at][1] for at in fitting],
            [suffixes[at] for at in fitting],
            digits(max(int(messages[at][0]) for at in fitting)),
            delay,
            b"",
        )
        yield batch.finish(time)
    return replies


def _replies_to_each(
    messages: Sequence[tuple[bytes, bytes]], suffixes: Sequence[bytes], time: bytes, limit: int
) -> tuple[list[bytes | Refusal], Sequence[int]]:
    """Return the reply for each message, and the positions of those that are not too long."""
    replies: list[bytes | Refusal] = [time + suffix for suffix in suffixes]
    fitting: Sequence[int] = range(len(messages))
    if limit != -1 and max([int(size) for size, _ in messages]) > limit:
        fitting = [at for at in fitting if int(messages[at][0]) <= limit]
        for at in {*range(len(messages))} - {*fitting}:
            replies[at] = Refusal(f"MESSAGETOOLONG {int(messages[at][0])} {limit}")
    return replies, fitting


def _begin_send(keys: MessageKeys, largest: bytes, delay: bytes) -> Operation[Any]:
    return Operation(
        load("begin_send"),
        (keys.hash, keys.zset),
        (largest, delay),
        tuple,
        RetryClass.ALWAYS,
        (keys.name,),
        commands=(),
    )
