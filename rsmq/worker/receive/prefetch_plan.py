"""
How many messages to request from which queue, and in which order. Pure.

Queues of a higher priority come first. Among queues of one priority the one comes first that was
asked longest ago, or whose turn is next by their weights. If queues of a higher priority fill all
slots, the others would starve: so a queue that was not asked for STARVATION_SECONDS comes first,
for one call, unless the worker is strict.

A lane that may use slots that are reserved for it comes before all others but the starved ones, for
as many calls. So messages of the others, which can't use these slots, do not delay it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from operator import itemgetter

from rsmq.operations.lost_replies import LostReplies
from rsmq.worker.operations import ReceiveRequest
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.shares import MAX_SHARED_PREFETCH, Shares

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

    def to_request(self) -> ReceiveRequest:
        """Return the request to the lane's queue."""
        lane, fill_seconds = self.lane, self.lane.fill_seconds
        return ReceiveRequest(
            lane.keys,
            round(lane.vt * 1000),
            lane.size,
            self.prefetch,
            self.max_messages,
            None if fill_seconds is None else round(fill_seconds * 1000),
            lane.listener.result_ttl is not None,
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


def order_lanes(
    lanes: Sequence[Lane],
    now: float,
    shares: Mapping[Lane, Shares[Lane]] | None = None,
    *,
    is_strict: bool = False,
) -> list[tuple[Lane, bool]]:
    """Return the lanes in the order in which they are asked, and whether each is starved."""
    if len(lanes) == 1:
        return [(lanes[0], False)]
    if shares is not None:
        return _order_by_turn(lanes, now, shares, is_strict=is_strict)
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


def without_lanes_ahead(
    lanes: Sequence[Lane],
    open_lanes: Sequence[Lane],
    shares: Mapping[Lane, Shares[Lane]],
    *,
    is_strict: bool = False,
) -> list[Lane]:
    """
    Return those of the lanes that are not ahead of a lane that is left out for a moment.

    In a strict worker all lanes of a lower priority are ahead of it.

    Args:
        lanes: the lanes that may be asked.
        open_lanes: these, and those whose outcomes have to be written first.
        shares: by lane, the shares of the lanes of its priority.
        is_strict: whether a lower priority gets no call while a higher one has due messages.
    """
    late = [each for each in open_lanes if each not in lanes and not each.is_waiting]
    highest = max((each.listener.priority for each in late), default=-math.inf)
    return [
        lane
        for lane in lanes
        if not (is_strict and lane.listener.priority < highest)
        and not any(_is_ahead(lane, each, shares) for each in late)
    ]


def _is_ahead(lane: Lane, other: Lane, shares: Mapping[Lane, Shares[Lane]]) -> bool:
    of_lane = shares[lane]
    return other in of_lane.weights and of_lane.turn(lane, len(lane.queued)) > of_lane.turn(
        other, len(other.queued)
    )


def _order_by_turn(
    lanes: Sequence[Lane], now: float, shares: Mapping[Lane, Shares[Lane]], *, is_strict: bool
) -> list[tuple[Lane, bool]]:
    """Return as ``order_lanes`` does; lanes of one priority do not starve each other."""
    active = [lane.listener.priority for lane in lanes if not lane.is_waiting]
    highest = max(active, default=0)
    marked = [
        (
            lane,
            not is_strict
            and lane.listener.priority < highest
            and now - lane.last_request_at >= STARVATION_SECONDS
            and not lane.is_waiting,
        )
        for lane in lanes
    ]
    return sorted(
        marked,
        key=lambda each: (
            not each[1],
            -each[0].listener.priority,
            shares[each[0]].turn(each[0], len(each[0].queued)),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Sharing:
    """
    The common parts of the lanes of one priority in a plan.

    Attributes:
        shares: their shares.
        total: the weight of those that have due messages.
        with_room: those of them that may be asked and may have more calls.
        total_with_room: the weight of these.
        ready: the two lowest turns of those that have waiting calls, with their lanes.
        low: the two lowest turns of those that have waiting calls or room, with their lanes.
    """

    shares: Shares[Lane]
    total: int
    with_room: frozenset[Lane]
    total_with_room: int
    ready: Sequence[tuple[float, Lane]]
    low: Sequence[tuple[float, Lane]]


def _sum_up(shares: Shares[Lane], lanes: Collection[Lane]) -> _Sharing:
    weights = shares.weights
    active = [each for each in weights if not (each.is_waiting or each.is_closed)]
    with_room = frozenset(each for each in active if each in lanes and _room(each) > 0)
    turns = [(shares.turn(each), each) for each in active if each.queued or each in with_room]
    return _Sharing(
        shares,
        sum(weights[each] for each in active),
        with_room,
        sum(weights[each] for each in with_room),
        nsmallest(2, (each for each in turns if each[1].queued), key=itemgetter(0)),
        nsmallest(2, turns, key=itemgetter(0)),
    )


def _lowest_of_others(turns: Sequence[tuple[float, Lane]], lane: Lane) -> float | None:
    return next((turn for turn, each in turns if each is not lane), None)


def _share_slots(
    lane: Lane, sharing: _Sharing, startable: int, open_slots: int, prefetch: int
) -> tuple[int, int]:
    """
    Return how many calls of a lane may start, and how many of its messages may wait for a slot, so
    that the lanes of its priority get their shares.

    The shares are those of calls that start, but the plan decides which ones can. So a lane that is
    behind the waiting calls of others is asked for as many calls as it is owed, also if its own are
    so slow that nothing would be prefetched; and one that is ahead of others is asked for less.
    """
    shares, total = sharing.shares, sharing.total
    weight, waiting = shares.weights[lane], len(lane.queued)
    total_with_room = sharing.total_with_room + (0 if lane in sharing.with_room else weight)
    startable = min(startable, math.ceil(max(open_slots, 0) * weight / total_with_room))
    prefetch = math.ceil(min(prefetch, MAX_SHARED_PREFETCH) * weight / total)
    low, ready = (_lowest_of_others(each, lane) for each in (sharing.low, sharing.ready))
    if low is not None:
        ahead = low + MAX_SHARED_PREFETCH / total - shares.turn(lane)
        prefetch = min(prefetch, max(math.ceil(ahead * weight), 0) * lane.size)
    if ready is not None:
        behind = ready - shares.turn(lane, waiting)
        if behind >= 0:
            owed = min(int(behind * weight) + 1, max(_room(lane), 0))
            prefetch = max(prefetch, (waiting + owed) * lane.size)
    return startable, prefetch


def _room(lane: Lane) -> int:
    """Return how many more calls a lane may have, beside its running and waiting ones."""
    return lane.limit_now - len(lane.calls) - len(lane.queued)


def _count_open_reserved(lane: Lane) -> int:
    """Return how many more calls of a lane have a reserved slot; not positive if none has one."""
    return lane.reserved - len(lane.calls) - len(lane.queued)


def _put_reserving_first(ordered: list[tuple[Lane, bool]]) -> list[tuple[Lane, bool]]:
    if not any(lane.reserved for lane, _ in ordered):
        return ordered
    return sorted(
        ordered,
        key=lambda each: not each[1] and (each[0].is_waiting or _count_open_reserved(each[0]) <= 0),
    )


def plan_requests(
    lanes: Sequence[Lane],
    free: int,
    ready: Mapping[int, int],
    now: float,
    shares: Mapping[Lane, Shares[Lane]] | None = None,
    *,
    is_strict: bool = False,
) -> tuple[list[PlannedRequest], int]:
    """
    Return the requests to be made.

    Args:
        lanes: the lanes whose queues may have due messages.
        free: number of free slots.
        ready: number of calls that wait for a slot, by priority. Those of a lane's priority or a
            higher one start before the messages that are requested here.
        now: monotonic seconds.
        shares: by lane, the shares of the lanes of its priority; None if their weights are equal.
        is_strict: whether no lane starves, because a higher priority always goes first.

    Returns:
        The requests in order, which may be none, and the number of slots for their messages.
    """
    requests: list[PlannedRequest] = []
    slots = 0
    highest = max((lane.listener.priority for lane in lanes if not lane.is_waiting), default=0)
    sharings: dict[int, _Sharing] = {}
    ordered = order_lanes(lanes, now, shares, is_strict=is_strict)
    for lane, starved in _put_reserving_first(ordered):
        size, waiting, priority = lane.size, len(lane.queued), lane.listener.priority
        open_slots = free - sum(
            count for priority_of_ready, count in ready.items() if priority_of_ready >= priority
        )
        reserved = _count_open_reserved(lane)
        open_slots = max(open_slots, reserved)
        room = lane.limit_now - len(lane.calls) - waiting if reserved <= 0 else reserved
        startable = max(min(room, open_slots), 0)
        # A prefetched message could start before a later one of a higher priority.
        prefetch = lane.prefetch_limit(now) if priority >= highest else 0
        if shares is not None and not lane.is_waiting and priority >= highest and reserved <= 0:
            sharing = sharings.get(priority)
            if sharing is None:
                sharing = sharings[priority] = _sum_up(shares[lane], frozenset(lanes))
            startable, prefetch = _share_slots(lane, sharing, startable, open_slots, prefetch)
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
