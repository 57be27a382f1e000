"""
Operations on many messages in one call: receive, pop, delete, change visibility, release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, show
from rsmq.model import Message
from rsmq.operations.arguments import Receipts, digits, encode_sent_ms, encode_vt, resolve_queues
from rsmq.operations.lost_replies import LostReplies
from rsmq.operations.operation import Operation, RetryClass, Steps, on_queue
from rsmq.operations.replies import ReceivedMessages, parse_leases, parse_messages, parse_received
from rsmq.operations.scripts import load
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    Seconds,
    check_whole_number,
    to_milliseconds,
)
from rsmq.wire.names import decode_name
from rsmq.wire.throttle import NO_LIMITS, Limit

#: The maximum number of queues that one script receives from.
QUEUES_PER_STEP = 1000


@dataclass(frozen=True, slots=True)
class ReceiveInSteps:
    """
    A receive from so many queues that a single script would block the server.

    Attributes:
        steps: starts one attempt to receive from all queues, as steps.
        keys: for each queue its hash and its sorted set.
        undo: as in ``Operation``.
        rebuild: as in ``Operation``; None, because each step is built when it is needed.
    """

    steps: Callable[[], Steps[list[Message]]]
    keys: tuple[bytes, ...]
    undo: Callable[[list[Message]], Operation[list[str]] | None] | None
    queues: tuple[str, ...]
    rebuild: None = None


class LeasedMessages(ReceivedMessages):
    """
    Received messages, with the ends of their leases.

    Attributes:
        lease_ends: by queue, the ``time.monotonic()`` from which the leases may have ended.
    """

    def __init__(
        self,
        messages: list[Message],
        lease_ends: dict[str, float],
        *,
        has_more: bool = False,
        limits: Mapping[int, Limit] = NO_LIMITS,
    ) -> None:
        super().__init__(messages, has_more=has_more, limits=limits)
        self.lease_ends = lease_ends


@dataclass(frozen=True, slots=True)
class _Limits:
    """
    The limits of a step that receives messages.

    Attributes:
        max_bytes: the maximum number of bytes of their bodies.
        may_exceed: whether the first message may have more bytes than that.
    """

    max_messages: int
    max_bytes: int = MAX_BATCH_BYTES
    may_exceed: bool = True

    def reduce(self, losses: LostReplies) -> _Limits:
        """Return the limits of the next request, after replies that were lost."""
        if not losses.halvings:
            return self
        return _Limits(
            losses.limit(self.max_messages), losses.limit(self.max_bytes), self.may_exceed
        )

    def args(self) -> tuple[bytes, bytes, bytes]:
        return digits(self.max_messages), digits(self.max_bytes), b"1" if self.may_exceed else b""


def receive_messages(
    namespace: Namespace,
    qnames: str | Iterable[str],
    max_messages: int,
    *,
    vt: Seconds | None,
    codec: Codec,
    losses: LostReplies,
    extend_groups: bool = False,
) -> Operation[ReceivedMessages] | ReceiveInSteps:
    """Receive visible messages and hide them, with the queues' order as priority."""
    if not isinstance(extend_groups, bool):
        hint = "Pass True or False."
        raise InvalidFormat("extend_groups", value=show(extend_groups), hint=hint)
    queues = resolve_queues(namespace, qnames)
    limits = _Limits(check_whole_number("max_messages", max_messages, 1, MAX_BATCH))
    receive = _Receive(namespace, encode_vt(vt), codec, losses, extend_groups)
    if len(queues) <= QUEUES_PER_STEP:
        return receive.step(queues, limits)
    return ReceiveInSteps(
        lambda: _receive_in_steps(
            queues, limits, receive.vt, receive.step, receive.undo, losses=losses
        ),
        _hash_and_zset_keys(queues),
        receive.undo,
        _names(queues),
    )


def receive_leased(
    namespace: Namespace,
    qnames: str | Iterable[str],
    batch: int,
    *,
    vt: Seconds | None,
    codec: Codec,
    losses: LostReplies,
) -> ReceiveInSteps:
    """
    Receive as ``receive_messages``, at most ``batch``; the result is ``LeasedMessages``.

    The lease of a message begins before the step that receives it is sent, so it ends for the
    client before it ends on the server.
    """
    queues = resolve_queues(namespace, qnames)
    limits = _Limits(check_whole_number("batch", batch, 1, MAX_BATCH))
    encoded_vt = encode_vt(vt)

    def attempt() -> Steps[ReceivedMessages]:
        receive = _LeasedReceive(namespace, encoded_vt, codec, losses)
        if len(queues) <= QUEUES_PER_STEP:
            messages = yield receive.step(queues, limits)
        else:
            messages = yield from _receive_in_steps(
                queues, limits, encoded_vt, receive.step, receive.undo, losses=losses
            )
        return LeasedMessages(
            messages, receive.lease_ends, has_more=messages.has_more, limits=messages.limits
        )

    undo = _Receive(namespace, encoded_vt, codec, losses).undo
    return ReceiveInSteps(attempt, _hash_and_zset_keys(queues), undo, _names(queues))


@dataclass(frozen=True, slots=True)
class _Receive:
    """
    A receive of many, from any number of queues.

    Attributes:
        vt: the visibility timeout in the format of ``receive_messages.lua``.
        extends: whether the next messages of their groups are received too.
    """

    namespace: Namespace
    vt: bytes
    codec: Codec
    losses: LostReplies
    extends: bool = False

    def step(self, queues: list[QueueKeys], limits: _Limits) -> Operation[ReceivedMessages]:
        """Return one atomic receive."""
        reduced = limits.reduce(self.losses)
        max_messages, max_bytes, may_exceed = reduced.args()
        names = _names(queues)
        operation = Operation(
            load("receive_messages"),
            _hash_and_zset_keys(queues),
            (
                max_messages,
                max_bytes,
                self.vt,
                queues[0].namespace,
                may_exceed,
                b"1" if self.extends else b"",
            ),
            self.make_parse(queues),
            RetryClass.ONCE,
            names,
            undo=self.undo,
        )
        return self.losses.watch(
            operation,
            self.vt,
            reduced.max_messages,
            nothing=_no_messages,
            repeat=lambda: self.step(queues, limits),
        )

    def make_parse(self, queues: list[QueueKeys]) -> Callable[[Any], ReceivedMessages]:
        """Return the parser of the reply."""
        return lambda reply: parse_received(queues, self.codec, reply)

    def undo(self, messages: list[Message]) -> Operation[list[str]] | None:
        return release_messages(self.namespace, messages, None) if messages else None


@dataclass(frozen=True, slots=True)
class _LeasedReceive(_Receive):
    """
    A receive whose result has the ends of the leases.

    Attributes:
        lease_ends: as in ``LeasedMessages``.
    """

    lease_ends: dict[str, float] = field(default_factory=dict)

    def make_parse(self, queues: list[QueueKeys]) -> Callable[[Any], ReceivedMessages]:
        started, names = monotonic(), _names(queues)

        def parse(reply: Any) -> ReceivedMessages:
            leases = parse_leases(names, reply)
            self.lease_ends.update((name, started + seconds) for name, seconds in leases.items())
            return parse_received(queues, self.codec, reply)

        return parse


def pop_messages(
    namespace: Namespace,
    qnames: str | Iterable[str],
    max_messages: int,
    *,
    codec: Codec,
    losses: LostReplies,
) -> Operation[ReceivedMessages] | ReceiveInSteps:
    """Receive visible messages and delete them, with the queues' order as priority."""
    queues = resolve_queues(namespace, qnames)
    limits = _Limits(check_whole_number("max_messages", max_messages, 1, MAX_BATCH))

    def step(queues: list[QueueKeys], limits: _Limits) -> Operation[ReceivedMessages]:
        reduced = limits.reduce(losses)
        max_messages, max_bytes, may_exceed = reduced.args()
        names = _names(queues)
        operation = Operation(
            load("pop_messages"),
            _hash_and_zset_keys(queues),
            (max_messages, max_bytes, queues[0].namespace, may_exceed),
            lambda reply: parse_messages(queues, codec, reply),
            RetryClass.NEVER,
            names,
        )
        return losses.watch(
            operation,
            b"0",
            reduced.max_messages,
            nothing=_no_messages,
            repeat=lambda: step(queues, limits),
        )

    if len(queues) <= QUEUES_PER_STEP:
        return step(queues, limits)
    return ReceiveInSteps(
        lambda: _receive_in_steps(queues, limits, b"0", step, None, losses=losses),
        _hash_and_zset_keys(queues),
        None,
        _names(queues),
    )


def _receive_in_steps(
    queues: list[QueueKeys],
    limits: _Limits,
    vt: bytes,
    step: Callable[[list[QueueKeys], _Limits], Operation[ReceivedMessages]],
    undo: Callable[[list[Message]], Operation[list[str]] | None] | None,
    *,
    losses: LostReplies,
) -> Steps[ReceivedMessages]:
    chunks = [queues[at : at + QUEUES_PER_STEP] for at in range(0, len(queues), QUEUES_PER_STEP)]
    for chunk in chunks:
        yield Operation(
            load("require_queues"),
            tuple(keys.hash for keys in chunk),
            (vt,),
            bool,
            RetryClass.ALWAYS,
            _names(chunk),
        )
    received = ReceivedMessages([], has_more=False)
    try:
        for chunk in chunks:
            messages: ReceivedMessages = yield step(chunk, limits)
            received += messages
            received.has_more |= messages.has_more
            limits = _Limits(
                limits.max_messages - len(messages),
                limits.max_bytes - sum(len(message.raw) for message in messages),
                may_exceed=not received,
            )
            # A request that was halved may have left messages of the earlier queues.
            if limits.max_messages == 0 or limits.max_bytes <= 0 or (messages and losses.halvings):
                received.has_more |= chunk is not chunks[-1]  # the others may have some
                break
    except GeneratorExit:
        raise
    except BaseException as error:
        if undo is None and received and isinstance(error, Exception):
            return received  # popped messages exist nowhere else
        undo_operation = undo and undo(received)
        if undo_operation:
            yield undo_operation
        raise
    return received


def _no_messages() -> ReceivedMessages:
    return ReceivedMessages([], has_more=False)


def _hash_and_zset_keys(queues: list[QueueKeys]) -> tuple[bytes, ...]:
    return tuple(key for keys in queues for key in (keys.hash, keys.zset))


def _names(queues: list[QueueKeys]) -> tuple[str, ...]:
    return tuple(keys.name for keys in queues)


def delete_messages(
    namespace: Namespace, messages: Iterable[Message] | str, ids: Iterable[str] | None
) -> Operation[list[str]]:
    """Delete messages by their receipts or by bare ids; the result is the ids deleted."""
    receipts = Receipts(namespace, messages, ids)
    return Operation(
        load("delete_messages"),
        receipts.keys,
        receipts.args,
        lambda reply: receipts.select_ids(reply, b"1"),
        RetryClass.ALWAYS,
        receipts.names,
        # If a message is gone, the attempt whose reply was lost may have removed it.
        parse_retried=lambda reply: receipts.select_ids(reply, b"10"),
    )


def change_messages_visibility(
    namespace: Namespace,
    messages: Iterable[Message] | str,
    ids: Any,
    vt: Seconds | None,
) -> Operation[list[str]]:
    """Hide messages for vt seconds from now; the result is the ids changed."""
    if not isinstance(messages, str) and vt is None:
        ids, vt = None, ids  # the argument after messages is vt
    receipts = Receipts(namespace, messages, ids)
    return Operation(
        load("change_messages_visibility"),
        receipts.keys,
        (digits(to_milliseconds("vt", vt)), *receipts.args),
        lambda reply: receipts.select_ids(reply, b"1"),
        RetryClass.ALWAYS,
        receipts.names,
    )


def release_messages(
    namespace: Namespace, messages: Iterable[Message] | str, ids: Iterable[str] | None
) -> Operation[list[str]]:
    """Make messages visible at once, by their sent time; the result is the ids released."""
    receipts = Receipts(namespace, messages, ids, with_sent=True)
    return Operation(
        load("release_messages"),
        receipts.keys,
        receipts.args,
        lambda reply: receipts.select_ids(reply, b"1"),
        # A retry by bare ids could release messages that another consumer has received since.
        RetryClass.NEVER if isinstance(messages, str) else RetryClass.ALWAYS,
        receipts.names,
    )


def release_receipts(keys: QueueKeys, receipts: list[bytes]) -> Operation[int]:
    """
    Release messages of a queue; the result is how many.

    Args:
        receipts: ids and receive counts in turn, as stored.
    """
    groups: dict[bytes, list[bytes]] = {}
    for id, count in zip(receipts[::2], receipts[1::2], strict=True):
        groups.setdefault(count, []).extend((id, encode_sent_ms(decode_name(id))))
    args: list[bytes] = []
    for count, group in groups.items():
        args += digits(len(group) // 2), count, *group
    return on_queue(
        keys,
        load("release_messages"),
        (keys.hash, keys.zset) * len(groups),
        tuple(args),
        lambda reply: int(reply.count(b"1")),
    )
