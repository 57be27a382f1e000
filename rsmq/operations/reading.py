"""
All of a queue, read in steps: its ids, and its messages by their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.codecs import BYTES
from rsmq.lua.load import load
from rsmq.model import StoredMessage
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.operations.replies import stored_message_of
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import decode_name

_ROOM = digits(1024 * 1024)
_VALUES = 4  # that the script tells of an id


def scan_ids(keys: QueueKeys, cursor: bytes) -> Operation[tuple[bytes, list[bytes]]]:
    """
    A step of a walk over all ids, in no order: the next cursor, then ids and scores in turn.

    The first cursor is ``b"0"``, and so is the one at the end. What is in the queue from the first
    step to the last is met, whoever receives it meanwhile; some of it twice.
    """
    return Operation(
        load("scan_ids"),
        (keys.hash, keys.zset),
        (cursor,),
        lambda reply: (reply[0], reply[1]),
        Retry.ALWAYS,
        (keys.name,),
    )


@dataclass(frozen=True, slots=True)
class LookedUp:
    """
    What became of ids that were looked up.

    Attributes:
        now_ms: Unix ms of the look.
        messages: of each id, in order, its message; None without one. May be shorter than the ids
            were, but not empty: what is missing is to be looked up next.
        ghosts: how many of those without a message are ids without a body.
    """

    now_ms: int
    messages: list[StoredMessage | None]
    ghosts: int


def get_messages(keys: QueueKeys, ids: Sequence[bytes]) -> Operation[LookedUp]:
    """Look up messages by their ids as they stand in Redis, at most a thousand."""

    def parse(reply: Any) -> LookedUp:
        now, vt, told, reasons = reply
        messages: list[StoredMessage | None] = []
        ghosts = 0
        for place in range(len(told) // _VALUES):
            raw, count, first, score = told[_VALUES * place : _VALUES * (place + 1)]
            if raw is None or score is None:
                messages.append(None)
                ghosts += score is not None
                continue
            reason = reasons[place] if reasons else None
            stored = raw, count, first, score, now, vt, reason
            messages.append(stored_message_of(keys.name, decode_name(ids[place]), BYTES, stored))
        return LookedUp(int(now), messages, ghosts)

    return Operation(
        load("get_messages"),
        (keys.hash, keys.zset),
        (_ROOM, *ids),
        parse,
        Retry.ALWAYS,
        (keys.name,),
    )
