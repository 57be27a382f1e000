"""
How many messages to request from which queue, and in which order. Pure.

Queues of a higher priority come first. Among queues of one priority the one comes first that was
asked longest ago. If queues of a higher priority fill all slots, the others would starve: so a
queue that was not asked for STARVATION_SECONDS comes first, for one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rsmq.operations.lost_replies import LostReplies
from rsmq.worker.operations import ReceiveRequest
from rsmq.worker.state.lane import CellQueue, Lane

#: How long a queue is not asked before it comes first.
STARVATION_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """
    A request for messages of one lane.

    Attributes:
        prefetch: messages that may wait for a slot.
        is_starved: whether it comes first because the lane has starved.
    """

    lane: Lane
    prefetch: int
    max_messages: int
    is_starved: bool

    def to_request(self, queue: CellQueue) -> ReceiveRequest:
        """Return the request to one of the lane's queues."""
        lane, fill_seconds = self.lane, self.lane.fill_seconds
        return ReceiveRequest(
            queue.keys,
            round(lane.vt * 1000),
            lane.size,
            self.prefetch,
            self.max_messages,
            None if fill_seconds is None else round(fill_seconds * 1000),
        )


def reduce_requests(
    requests: Sequence[ReceiveRequest], losses: LostReplies
) -> list[ReceiveRequest]:
    """Return the first of some requests, reduced to as many messages as replies may have."""
    left = losses.limit(sum(each.max_messages for each in requests))
    reduced: list[ReceiveRequest] = []
    for each in requests:
        if left == 0:
            break
        number = min(each.max_messages, left)
        reduced.append(replace(each, max_messages=number))
        left -= number
    return reduced


def order_lanes(lanes: Sequence[Lane], now: float) -> list[tuple[Lane, bool]]:
    """Return the lanes in the order in which they are asked, and whether each is starved."""
    if len(lanes) == 1:
        return [(lanes[0], False)]
    marked = [
        (lane, now - lane.last_request_at >= STARVATION_SECONDS and not lane.is_waiting)
        for lane in lanes
    ]
    # If all have starved, none starves because of another.
    if all(starved or lane.is_waiting for lane, starved in marked):
        marked = [(lane, False) for lane, _ in marked]
    return sorted(
        marked, key=lambda each: (not each[1], -each[0].listener.priority, each[0].last_request_at)
    )


def plan_requests(
    lanes: Sequence[Lane], free: int, ready: Mapping[int, int], now: float
) -> tuple[list[PlannedRequest], int]:
    """
    Return the requests to be made.

    Args:
        lanes: the lanes whose queues may have due messages.
        free: number of free slots.
        ready: number of calls that wait for a slot, by priority. Those of a lane's priority or a
            higher one start before the messages that are requested here.
        now: monotonic seconds.

    Returns:
        The requests in order, which may be none, and the number of slots for their messages.
    """
    requests: list[PlannedRequest] = []
    slots = 0
    highest = max((lane.listener.priority for lane in lanes if not lane.is_waiting), default=0)
    for lane, starved in order_lanes(lanes, now):
        size, waiting, priority = lane.size, len(lane.ready), lane.listener.priority
        open_slots = free - sum(
            count for priority_of_ready, count in ready.items() if priority_of_ready >= priority
        )
        startable = max(min(lane.limit - len(lane.calls) - waiting, open_slots), 0)
        # A prefetched message could start before a later one of a higher priority.
        prefetch = lane.prefetch_limit(now) if priority >= highest else 0
        max_messages = startable * size + prefetch
        if startable == 0:
            max_messages = prefetch - waiting * size
            if 2 * waiting * size > prefetch:  # ask later for more messages at once
                max_messages = 0
        if starved and len(lane.calls) + waiting < lane.limit:
            max_messages = prefetch = size
        allowance = lane.allowance()
        if allowance is not None:
            max_messages = min(max_messages, allowance)
        if max_messages > 0:
            if not requests or open_slots > slots:
                slots = max(open_slots, 0)
            requests.append(PlannedRequest(lane, prefetch, max_messages, starved))
    return requests, slots
