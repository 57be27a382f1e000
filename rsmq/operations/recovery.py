"""
Messages that others hold: take over what was abandoned, let go of all.
"""

from __future__ import annotations

from typing import Any

from rsmq import protocol
from rsmq.codecs import Codec
from rsmq.lua import load
from rsmq.model import Message
from rsmq.operations.arguments import digits
from rsmq.operations.batches import release_messages
from rsmq.operations.operation import Operation, Retry, Steps
from rsmq.operations.replies import messages_of
from rsmq.operations.walk import Place, next_place, step
from rsmq.protocol import Namespace, QueueKeys


def recover_messages(
    namespace: Namespace,
    qname: str,
    max_messages: int,
    *,
    idle: float,
    vt: float | None,
    codec: Codec,
) -> Steps[list[Message]]:
    """Receive again what was received a time ago and not deleted."""
    keys = namespace.queue(qname)
    most = protocol.whole("max_messages", max_messages, 1, protocol.MAX_BATCH)
    since = digits(protocol.milliseconds("idle", idle))
    hidden = b"" if vt is None else digits(protocol.milliseconds("vt", vt))
    return _recover(namespace, keys, most, (since, hidden), codec)


def _recover(
    namespace: Namespace, keys: QueueKeys, most: int, times: tuple[bytes, bytes], codec: Codec
) -> Steps[list[Message]]:
    # By id: with a short vt, a message that was taken may come along again in a later step.
    taken: dict[str, Message] = {}
    place: Place | None = (b"-inf", b"0")
    to, room = b"", protocol.MAX_BATCH_BYTES
    try:
        while place and len(taken) < most and room > 0:
            reply = yield Operation(
                load("recover_messages"),
                (keys.hash, keys.zset),
                (
                    *place,
                    to,
                    *times,
                    digits(most - len(taken)),
                    digits(room),
                    protocol.encode_name(namespace.name),
                ),
                lambda reply: reply,
                Retry.ONCE,
                (keys.name,),
                give_back=lambda reply: _back(namespace, _taken(keys, codec, reply)),
            )
            for message in _taken(keys, codec, reply):
                taken[message.id] = message
                room -= len(message.raw)
            place, to = next_place(reply), reply[2]
    except BaseException:
        release = _back(namespace, list(taken.values()))
        if release is not None:
            yield release
        raise
    return list(taken.values())


def _taken(keys: QueueKeys, codec: Codec, reply: list[Any]) -> list[Message]:
    return messages_of((keys.name,), codec, reply[3:])


def _back(namespace: Namespace, messages: list[Message]) -> Operation[list[str]] | None:
    return release_messages(namespace, messages, None) if messages else None


def release_all_messages(namespace: Namespace, qname: str) -> Steps[int]:
    """Make every received and hidden message visible now; how many."""
    return _release_all(namespace, namespace.queue(qname))


def _release_all(namespace: Namespace, keys: QueueKeys) -> Steps[int]:
    released = 0
    place: Place | None = (b"", b"0")
    while place:
        reply = yield step("release_all_messages", keys, place)
        receipts = [
            Message(keys.name, protocol.decode_name(id), b"", int(count), None, None)
            for id, count in zip(reply[2][::2], reply[2][1::2], strict=True)
        ]
        if receipts:
            released += len((yield release_messages(namespace, receipts, None)))
        place = next_place(reply)
    return released
