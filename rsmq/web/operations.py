"""
Reads of several queues or messages in one script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.figures.operations import HiddenCounts, parse_hidden
from rsmq.lua.load import loader_of
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name, encode_name
from rsmq.wire.stored import parse_number

load = loader_of("web")


@dataclass(frozen=True, slots=True)
class SortValue:
    """
    What a list of queues is sorted by.

    Attributes:
        value: None if the queue has none.
        dead_letter_queue: that of its policy; None without a policy.
    """

    value: float | None
    dead_letter_queue: str | None


def sort_values(
    namespace: Namespace, qnames: Sequence[str], sort: str
) -> Operation[dict[str, SortValue]]:
    """Return what those of some queues that can be read are sorted by."""
    queues = [namespace.queue(name) for name in qnames]

    def parse(reply: Any) -> dict[str, SortValue]:
        return {
            keys.name: SortValue(parse_number(found[0]), found[1] and decode_name(found[1]))
            for keys, found in zip(queues, reply, strict=True)
            if found
        }

    return Operation(
        load("sort_values"),
        tuple(key for keys in queues for key in (keys.hash, keys.zset)),
        (sort.encode(), encode_name(f"{namespace.name}:")),
        parse,
        RetryClass.ALWAYS,
    )


@dataclass(frozen=True, slots=True)
class NextMessage:
    """
    A message that waits for its time.

    Attributes:
        id: as it is stored.
        visible_at_ms: Unix ms.
        error: the failure of its last attempt; None if it was never received.
    """

    id: str
    visible_at_ms: float
    receive_count: int
    error: str | None


@dataclass(frozen=True, slots=True)
class HiddenMessages:
    """
    The hidden messages of a queue.

    Attributes:
        counts: their numbers by state.
        next: the next ones that are delayed or wait for a retry.
    """

    counts: HiddenCounts
    next: tuple[NextMessage, ...]


#: Hidden messages of a queue that are counted at most, and the next ones that are looked at.
_SAMPLE, _NEXT = 100, 50
_VALUES_PER_MESSAGE = 4


def next_hidden(
    namespace: Namespace, qnames: Sequence[str]
) -> Operation[dict[str, HiddenMessages]]:
    """Count the hidden messages of some queues, and return their next delayed and retrying ones."""
    queues = [namespace.queue(name) for name in qnames]

    def parse(reply: Any) -> dict[str, HiddenMessages]:
        return {
            keys.name: HiddenMessages(parse_hidden(found[0]), _parse_next(found[1]))
            for keys, found in zip(queues, reply, strict=True)
            if found
        }

    return Operation(
        load("next_hidden"),
        tuple(key for keys in queues for key in (keys.hash, keys.zset)),
        (digits(_SAMPLE), digits(_NEXT)),
        parse,
        RetryClass.ALWAYS,
    )


def _parse_next(values: list[Any]) -> tuple[NextMessage, ...]:
    rows = zip(*(values[at::_VALUES_PER_MESSAGE] for at in range(_VALUES_PER_MESSAGE)), strict=True)
    return tuple(
        NextMessage(
            decode_name(id),
            float(score),
            int(parse_number(count) or 0),
            None if error is None else decode_name(error),
        )
        for id, score, count, error in rows
    )


def held_messages(
    keys: QueueKeys, receipts: Sequence[tuple[str, int]]
) -> Operation[tuple[int, Sequence[float | None]]]:
    """
    Return the server's time in Unix ms, and when messages are visible again.

    Args:
        receipts: their ids and receive counts; of one that was settled or received again, None.
    """
    words = [(encode_name(id), digits(count)) for id, count in receipts]
    return Operation(
        load("held_messages"),
        (keys.hash, keys.zset),
        tuple(word for pair in words for word in pair),
        lambda reply: (int(reply[0]), list(map(parse_number, reply[1:]))),
        RetryClass.ALWAYS,
        (keys.name,),
    )
