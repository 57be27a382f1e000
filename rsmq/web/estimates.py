"""
The numbers of messages of a queue by state, read at a bounded cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rsmq.aio import AsyncRSMQ
from rsmq.figures.operations import MAX_WALKED_MESSAGES, sample_hidden
from rsmq.model import MessageCounts


@dataclass(frozen=True, slots=True)
class EstimatedCounts:
    """
    The numbers of messages of a queue by state.

    Attributes:
        counts: the numbers; of a long queue in_flight, retrying, delayed, held_back and
            oldest_sent_ms are estimates: that is the send of the message that is received next.
        margin: by how much in_flight, retrying and delayed differ at most, with a probability of
            95 %; 0 if they are exact.
        is_estimate: whether the queue is long.
    """

    counts: MessageCounts
    margin: int
    is_estimate: bool


async def estimate_counts(
    rsmq: AsyncRSMQ[Any], qname: str, *, exact_up_to: int | None = None
) -> EstimatedCounts:
    """
    Count the messages of a queue by state; of many, a sample of the hidden ones.

    Args:
        exact_up_to: the largest number of messages that are all looked at; None is 10,000.

    Raises:
        QueueNotFound: the queue does not exist.
    """
    attributes = await rsmq.get_queue_attributes(qname)
    most = MAX_WALKED_MESSAGES if exact_up_to is None else exact_up_to
    if attributes.messages <= most:
        return EstimatedCounts(await rsmq.count_messages(qname), 0, is_estimate=False)
    hidden = await rsmq.run(sample_hidden(rsmq.namespace.queue(qname)))
    first = next(iter(await rsmq.peek_messages(qname, 0, 1)), None)
    is_due = first is not None and first.state == "visible"
    return EstimatedCounts(
        MessageCounts(
            visible=attributes.visible_messages,
            in_flight=hidden.in_flight,
            delayed=hidden.delayed,
            oldest_sent_ms=None if first is None else first.sent_ms,
            due_since_ms=first.visible_at_ms if first is not None and is_due else None,
            retrying=hidden.retrying,
            held_back=hidden.held_back,
        ),
        hidden.margin,
        is_estimate=True,
    )
