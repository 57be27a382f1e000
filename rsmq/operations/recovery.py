"""
Operations on messages in flight with other consumers: recover abandoned ones, release all.
"""

from __future__ import annotations

from typing import Any

from rsmq.codecs import Codec, bind_codec
from rsmq.model import Message
from rsmq.operations.arguments import digits, encode_vt
from rsmq.operations.batches import release_messages, release_receipts
from rsmq.operations.lost_replies import LostReplies
from rsmq.operations.operation import Operation, RetryClass, Steps
from rsmq.operations.replies import parse_message
from rsmq.operations.scripts import load
from rsmq.operations.walk import Position, parse_next_position, walk_step
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    Seconds,
    check_whole_number,
    to_milliseconds,
)

_MESSAGES_PER_STEP = 1000


def recover_messages(
    namespace: Namespace,
    qname: str,
    max_messages: int,
    *,
    idle: Seconds,
    vt: Seconds | None,
    codec: Codec,
    losses: LostReplies,
) -> Steps[list[Message]]:
    """Receive messages again that were received some time ago and not deleted."""
    keys = namespace.queue(qname)
    checked_max = check_whole_number("max_messages", max_messages, 1, MAX_BATCH)
    encoded_idle = digits(to_milliseconds("idle", idle))
    encoded_vt = encode_vt(vt)
    times = (encoded_idle, encoded_vt)
    bound = bind_codec(codec, keys.zset)
    return _recover(namespace, keys, checked_max, times, bound, losses=losses)


def _recover(
    namespace: Namespace,
    keys: QueueKeys,
    max_messages: int,
    times: tuple[bytes, bytes],
    codec: Codec,
    *,
    losses: LostReplies,
) -> Steps[list[Message]]:
    idle, vt = times
    recovered: list[Message] = []
    max_messages = losses.limit(max_messages)
    max_bytes = losses.limit(MAX_BATCH_BYTES)
    position: Position | None = (b"", b"0")
    receipts: list[bytes] = []
    try:
        # All receipts are read first. A recovered message gets a new score, at which the walk would
        # find it again.
        while position and len(receipts) < 2 * max_messages:
            reply = yield walk_step("received_messages", keys, position, idle)
            receipts += reply[2]
            position = parse_next_position(reply)
        receipts = receipts[: 2 * max_messages]
        while receipts and max_bytes > 0:
            step = receipts[: 2 * _MESSAGES_PER_STEP]
            args = (idle, vt, digits(max_bytes), keys.namespace, *step)
            examined, messages = yield _recover_step(namespace, keys, args, codec, losses)
            recovered += messages
            max_bytes -= sum(len(message.raw) for message in messages)
            if recovered and examined < min(len(receipts) // 2, _MESSAGES_PER_STEP):
                # The next body is larger than the bytes that are left.

                break
            receipts = receipts[2 * examined :]
    except GeneratorExit:
        raise
    except BaseException:
        release = _release(namespace, recovered)
        if release is not None:
            yield release
        raise
    return recovered


def _recover_step(
    namespace: Namespace,
    keys: QueueKeys,
    args: tuple[bytes, ...],
    codec: Codec,
    losses: LostReplies,
) -> Operation[tuple[int, list[Message]]]:
    number = (len(args) - 4) // 2

    def parse(reply: Any) -> tuple[int, list[Message]]:
        values = [reply[1][at : at + 4] for at in range(0, len(reply[1]), 4)]
        parsed = (parse_message(keys.name, codec, each) for each in values)
        return reply[0], [message for message in parsed if message is not None]

    operation = Operation(
        load("recover_messages"),
        (keys.hash, keys.zset),
        args,
        parse,
        RetryClass.ONCE,
        (keys.name,),
        undo=lambda result: _release(namespace, result[1]),
    )
    return losses.watch(
        operation,
        args[1],
        number,
        nothing=lambda: (number, []),
        repeat=lambda: _recover_step(namespace, keys, args, codec, losses),
        has_messages=lambda result: result[1],
    )


def _release(namespace: Namespace, messages: list[Message]) -> Operation[list[str]] | None:
    return release_messages(namespace, messages, None) if messages else None


def release_all_messages(namespace: Namespace, qname: str) -> Steps[int]:
    """Make every message in flight visible now; the result is how many."""
    return _release_all(namespace.queue(qname))


def _release_all(keys: QueueKeys) -> Steps[int]:
    released = 0
    position: Position | None = (b"", b"0")
    while position:
        reply: list[Any] = yield walk_step("received_messages", keys, position, b"")
        if reply[2]:
            released += yield release_receipts(keys, reply[2])
        position = parse_next_position(reply)
    return released
