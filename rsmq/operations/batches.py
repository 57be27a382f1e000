"""
Many messages in one call: receive, pop, delete, hide, release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rsmq import protocol
from rsmq.codecs import Codec
from rsmq.lua import load
from rsmq.model import Message
from rsmq.operations.arguments import Receipts, digits, queues_of, sent_ms
from rsmq.operations.operation import Operation, Retry
from rsmq.operations.replies import messages_of
from rsmq.protocol import Namespace, QueueKeys

_BYTES = digits(protocol.MAX_BATCH_BYTES)


def receive_messages(
    namespace: Namespace,
    qnames: str | Iterable[str],
    max_messages: int,
    *,
    vt: float | None,
    codec: Codec,
) -> Operation[list[Message]]:
    """Receive messages that are due, of earlier queues first, and hide them."""
    queues = queues_of(namespace, qnames)
    most = protocol.whole("max_messages", max_messages, 1, protocol.MAX_BATCH)
    hidden = b"" if vt is None else digits(protocol.milliseconds("vt", vt))

    def give_back(messages: list[Message]) -> Operation[list[str]] | None:
        return release_messages(namespace, messages, None) if messages else None

    return Operation(
        load("receive_messages"),
        *_several(queues, (digits(most), _BYTES, hidden, queues[0].namespace)),
        _received(queues, codec),
        Retry.ONCE,
        tuple(keys.name for keys in queues),
        give_back=give_back,
    )


def pop_messages(
    namespace: Namespace, qnames: str | Iterable[str], max_messages: int, *, codec: Codec
) -> Operation[list[Message]]:
    """Receive messages that are due, of earlier queues first, and remove them."""
    queues = queues_of(namespace, qnames)
    most = protocol.whole("max_messages", max_messages, 1, protocol.MAX_BATCH)
    return Operation(
        load("pop_messages"),
        *_several(queues, (digits(most), _BYTES, queues[0].namespace)),
        _received(queues, codec),
        Retry.NEVER,
        tuple(keys.name for keys in queues),
    )


def _several(
    queues: list[QueueKeys], args: tuple[bytes, ...]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    return tuple(key for keys in queues for key in (keys.hash, keys.zset)), args


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
        settle=lambda reply: receipts.told(reply, b"10"),
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
        (digits(protocol.milliseconds("vt", vt)), *receipts.args),
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
        groups.setdefault(count, []).extend((id, sent_ms(protocol.decode_name(id))))
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
