"""
Many messages in one call: receive, pop, delete, change visibility, release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rsmq.codecs import Codec
from rsmq.lua.load import load
from rsmq.model import Message
from rsmq.operations.arguments import Receipts, digits, queues_of, sent_ms
from rsmq.operations.operation import Operation, Retry, Steps
from rsmq.operations.replies import messages_of
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH, MAX_BATCH_BYTES, check_whole_number, to_milliseconds
from rsmq.wire.names import decode_name

#: Queues that one script receives from.
QUEUES_A_STEP = 1000


@dataclass(frozen=True, slots=True)
class ReceiveInSteps:
    """
    A receive from so many queues that one script would block the server.

    Attributes:
        steps: makes the steps of one look into all of them.
        keys: of each queue hash and sorted set.
        undo: as of ``Operation``.
    """

    steps: Callable[[], Steps[list[Message]]]
    keys: tuple[bytes, ...]
    undo: Callable[[list[Message]], Operation[list[str]] | None] | None


@dataclass(frozen=True, slots=True)
class _Limits:
    """
    What a step may receive.

    Attributes:
        most: how many messages.
        room: bytes of their bodies.
        first: whether the first message may have more bytes than that.
    """

    most: int
    room: int = MAX_BATCH_BYTES
    first: bool = True

    def args(self) -> tuple[bytes, bytes, bytes]:
        return digits(self.most), digits(self.room), b"1" if self.first else b""


def receive_messages(
    namespace: Namespace,
    qnames: str | Iterable[str],
    max_messages: int,
    *,
    vt: float | None,
    codec: Codec,
) -> Operation[list[Message]] | ReceiveInSteps:
    """Receive messages that are due, of earlier queues first, and hide them."""
    queues = queues_of(namespace, qnames)
    limits = _Limits(check_whole_number("max_messages", max_messages, 1, MAX_BATCH))
    hidden = b"" if vt is None else digits(to_milliseconds("vt", vt))

    def undo(messages: list[Message]) -> Operation[list[str]] | None:
        return release_messages(namespace, messages, None) if messages else None

    def step(queues: list[QueueKeys], limits: _Limits) -> Operation[list[Message]]:
        most, room, first = limits.args()
        return Operation(
            load("receive_messages"),
            _keys_of(queues),
            (most, room, hidden, queues[0].namespace, first),
            _received(queues, codec),
            Retry.ONCE,
            tuple(keys.name for keys in queues),
            undo=undo,
        )

    if len(queues) <= QUEUES_A_STEP:
        return step(queues, limits)
    return ReceiveInSteps(
        lambda: _in_steps(queues, limits, hidden, step, undo),
        _keys_of(queues),
        undo,
    )


def pop_messages(
    namespace: Namespace, qnames: str | Iterable[str], max_messages: int, *, codec: Codec
) -> Operation[list[Message]] | ReceiveInSteps:
    """Receive messages that are due, of earlier queues first, and remove them."""
    queues = queues_of(namespace, qnames)
    limits = _Limits(check_whole_number("max_messages", max_messages, 1, MAX_BATCH))

    def step(queues: list[QueueKeys], limits: _Limits) -> Operation[list[Message]]:
        most, room, first = limits.args()
        return Operation(
            load("pop_messages"),
            _keys_of(queues),
            (most, room, queues[0].namespace, first),
            _received(queues, codec),
            Retry.NEVER,
            tuple(keys.name for keys in queues),
        )

    if len(queues) <= QUEUES_A_STEP:
        return step(queues, limits)
    return ReceiveInSteps(
        lambda: _in_steps(queues, limits, b"0", step, None),
        _keys_of(queues),
        None,
    )


def _in_steps(
    queues: list[QueueKeys],
    limits: _Limits,
    vt: bytes,
    step: Callable[[list[QueueKeys], _Limits], Operation[list[Message]]],
    undo: Callable[[list[Message]], Operation[list[str]] | None] | None,
) -> Steps[list[Message]]:
    parts = [queues[at : at + QUEUES_A_STEP] for at in range(0, len(queues), QUEUES_A_STEP)]
    for part in parts:
        yield Operation(
            load("require_queues"),
            tuple(keys.hash for keys in part),
            (vt,),
            bool,
            Retry.ALWAYS,
            tuple(keys.name for keys in part),
        )
    received: list[Message] = []
    try:
        for part in parts:
            messages: list[Message] = yield step(part, limits)
            received += messages
            limits = _Limits(
                limits.most - len(messages),
                limits.room - sum(len(message.raw) for message in messages),
                first=not received,
            )
            if limits.most == 0 or limits.room <= 0:
                break
    except GeneratorExit:
        raise
    except BaseException as error:
        if undo is None and received and isinstance(error, Exception):
            return received  # they are removed already: only the caller still has them
        release = undo and undo(received)
        if release:
            yield release
        raise
    return received


def _keys_of(queues: list[QueueKeys]) -> tuple[bytes, ...]:
    return tuple(key for keys in queues for key in (keys.hash, keys.zset))


def _received(queues: list[QueueKeys], codec: Codec) -> Callable[[Any], list[Message]]:
    names = [keys.name for keys in queues]
    return lambda reply: messages_of(names, codec, reply)


def delete_messages(
    namespace: Namespace, messages: Iterable[Message] | str, ids: Iterable[str] | None
) -> Operation[list[str]]:
    """Remove messages, by their receipts or by bare ids; the ids removed."""
    receipts = Receipts(namespace, messages, ids)
    return Operation(
        load("delete_messages"),
        receipts.keys,
        receipts.args,
        lambda reply: receipts.told(reply, b"1"),
        Retry.ALWAYS,
        receipts.names,
        # What the attempt removed whose reply was lost is not in the queue any more.
        parse_retried=lambda reply: receipts.told(reply, b"10"),
    )


def change_messages_visibility(
    namespace: Namespace,
    messages: Iterable[Message] | str,
    ids: Any,
    vt: float | None,
) -> Operation[list[str]]:
    """Hide messages for vt seconds from now; the ids changed."""
    if not isinstance(messages, str) and vt is None:
        ids, vt = None, ids  # what follows messages is vt
    receipts = Receipts(namespace, messages, ids)
    return Operation(
        load("change_messages_visibility"),
        receipts.keys,
        (digits(to_milliseconds("vt", vt)), *receipts.args),
        lambda reply: receipts.told(reply, b"1"),
        Retry.ALWAYS,
        receipts.names,
    )


def release_messages(
    namespace: Namespace, messages: Iterable[Message] | str, ids: Iterable[str] | None
) -> Operation[list[str]]:
    """Make messages visible now, where they stood by their sent time; the ids released."""
    receipts = Receipts(namespace, messages, ids, with_sent=True)
    return Operation(
        load("release_messages"),
        receipts.keys,
        receipts.args,
        lambda reply: receipts.told(reply, b"1"),
        # A second run by bare ids could release what another has received meanwhile.
        Retry.NEVER if isinstance(messages, str) else Retry.ALWAYS,
        receipts.names,
    )


def release_receipts(keys: QueueKeys, receipts: list[bytes]) -> Operation[int]:
    """Release messages of a queue by ids and receive counts as they are stored; how many."""
    groups: dict[bytes, list[bytes]] = {}
    for id, count in zip(receipts[::2], receipts[1::2], strict=True):
        groups.setdefault(count, []).extend((id, sent_ms(decode_name(id))))
    args: list[bytes] = []
    for count, group in groups.items():
        args += digits(len(group) // 2), count, *group
    return Operation(
        load("release_messages"),
        (keys.hash, keys.zset) * len(groups),
        tuple(args),
        lambda reply: int(reply.count(b"1")),
        Retry.ALWAYS,
        (keys.name,),
    )
