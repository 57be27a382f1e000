"""
The delayed and the retrying messages of all queues, without a walk through any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rsmq.figures.operations import HiddenCounts
from rsmq.web.client import Client
from rsmq.web.each_queue import is_readable
from rsmq.web.operations import HiddenMessages, NextMessage, next_hidden
from rsmq.wire.keys import Namespace

#: Queues that are looked at: those with the most hidden messages.
MAX_QUEUES = 50
#: Queues that one script reads, so that it takes less than 5 ms.
_STEP = 10


@dataclass(frozen=True, slots=True)
class WaitingCounts:
    """
    The hidden messages of a queue by state.

    Attributes:
        next_ms: Unix ms at which the next delayed or retrying one becomes visible, if it is among
            the next hidden ones.
    """

    queue: str
    counts: HiddenCounts
    next_ms: float | None


@dataclass(frozen=True, slots=True)
class WaitingMessages:
    """
    The messages that wait for their time.

    Attributes:
        messages: the next ones of all these queues, each with the name of its queue.
        others: queues with hidden messages that were not looked at.
    """

    queues: list[WaitingCounts]
    messages: list[tuple[str, NextMessage]]
    others: int


async def read_waiting(queues: Client, hidden: Mapping[str, float], limit: int) -> WaitingMessages:
    """
    Count the delayed and retrying messages of queues, and return the next ones.

    It takes a command for each ten of the fifty queues that have the most hidden messages. A
    message behind fifty that are in flight is not among the next ones.

    Args:
        hidden: the numbers of hidden messages of queues.
        limit: the messages to return at most.
    """
    chosen = sorted((name for name in hidden if hidden[name]), key=lambda each: -hidden[each])
    found: dict[str, HiddenMessages] = {}
    namespace = Namespace(queues.namespace.name, strict_names=False)
    readable = [name for name in chosen[:MAX_QUEUES] if is_readable(namespace, name)]
    for start in range(0, len(readable), _STEP):
        of_step = await queues.run(next_hidden(namespace, readable[start : start + _STEP]))
        found |= of_step
    messages = [(name, each) for name, hidden in found.items() for each in hidden.next]
    messages.sort(key=lambda each: (each[1].visible_at_ms, each[0], each[1].id))
    counts = [
        WaitingCounts(name, each.counts, each.next[0].visible_at_ms if each.next else None)
        for name, each in found.items()
    ]
    return WaitingMessages(counts, messages[:limit], max(len(chosen) - MAX_QUEUES, 0))
