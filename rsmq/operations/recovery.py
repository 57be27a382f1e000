"""
Messages in flight elsewhere: recover abandoned ones, release all.
"""

from __future__ import annotations

from typing import Any

from rsmq.codecs import Codec
from rsmq.lua.load import load
from rsmq.model import Message
from rsmq.operations.arguments import digits
from rsmq.operations.batches import release_messages, release_receipts
from rsmq.operations.operation import Operation, Retry, Steps
from rsmq.operations.replies import message_of
from rsmq.operations.walk import Place, next_place, step
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH, MAX_BATCH_BYTES, check_whole_number, to_milliseconds

_A_STEP = 1000


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
    most = check_whole_number("max_messages", max_messages, 1, MAX_BATCH)
    since = digits(to_milliseconds("idle", idle))
    hidden = b"" if vt is None else digits(to_milliseconds("vt", vt))
    return _recover(namespace, keys, most, (since, hidden), codec)


def _recover(
    namespace: Namespace, keys: QueueKeys, most: int, times: tuple[bytes, bytes], codec: Codec
) -> Steps[list[Message]]:
    idle, hidden = times
    taken: list[Message] = []
    room = MAX_BATCH_BYTES
    place: Place | None = (b"", b"0")
    receipts: list[bytes] = []
    try:
        # Receipts are gathered first, so that none is met again where it goes when it is taken.
        while place and len(receipts) < 2 * most:
            reply = yield step("received_messages", keys, place, idle)
            receipts += reply[2]
            place = next_place(reply)
        receipts = receipts[: 2 * most]
        while receipts and room > 0:
            looked_at, messages = yield Operation(
                load("recover_messages"),
                (keys.hash, keys.zset),
                (
                    idle,
                    hidden,
                    digits(room),
                    keys.namespace,
                    *receipts[: 2 * _A_STEP],
                ),
                lambda reply: (
                    reply[0],
                    [
                        message_of(keys.name, codec, reply[1][at : at + 4])
                        for at in range(0, len(reply[1]), 4)
                    ],
                ),
                Retry.ONCE,
                (keys.name,),
                undo=lambda result: _back(namespace, result[1]),
            )
            taken += messages
            room -= sum(len(message.raw) for message in messages)
            if taken and looked_at < min(len(receipts) // 2, _A_STEP):  # no room for the next
                break
            receipts = receipts[2 * looked_at :]
    except GeneratorExit:
        raise
    except BaseException:
        undo = _back(namespace, taken)
        if undo is not None:
            yield undo
        raise
    return taken


def _back(namespace: Namespace, messages: list[Message]) -> Operation[list[str]] | None:
    return release_messages(namespace, messages, None) if messages else None


def release_all_messages(namespace: Namespace, qname: str) -> Steps[int]:
    """Make every received and hidden message visible now; how many."""
    return _release_all(namespace.queue(qname))


def _release_all(keys: QueueKeys) -> Steps[int]:
    released = 0
    place: Place | None = (b"", b"0")
    while place:
        reply: list[Any] = yield step("received_messages", keys, place, b"")
        if reply[2]:
            released += yield release_receipts(keys, reply[2])
        place = next_place(reply)
    return released
