"""
Reads the facts from which alerts follow.

It takes a script for each 100 queues whose messages wait, and a command each for workers,
schedules, webhooks, deletions, memory, the history, and the targets and silences of alerts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from redis.exceptions import ResponseError

from rsmq.aio import AsyncRSMQ
from rsmq.control.operations import list_workers, parse_workers
from rsmq.errors import RSMQError
from rsmq.explain.alerts.facts import AlertFacts, HeldMessages, RemovedMessage, WaitingFlow
from rsmq.explain.alerts.record import AlertRecord
from rsmq.explain.alerts.record_operations import read_record
from rsmq.explain.alerts.rules import WAIT_SECONDS, may_need_activity
from rsmq.explain.async_reader import observe_message
from rsmq.explain.held import choose_dead, read_held
from rsmq.explain.observed import find_repeated_deaths, is_nearly_full
from rsmq.explain.operations import read_memory
from rsmq.figures.facts import (
    ACTIVITY,
    ATTRIBUTES,
    BODIES,
    GROUPS,
    LargestGroup,
    QueueActivity,
    QueueBacklog,
)
from rsmq.figures.reading import read_queues_in_steps
from rsmq.history.recent_calls import TaskMinutes
from rsmq.jobs.flows.operations import list_flows, read_flow
from rsmq.jobs.flows.status import FlowState, FlowStatus, NodeState
from rsmq.model import QueueAttributes
from rsmq.operations.plain import plain_command
from rsmq.trash.deletion import Deletion
from rsmq.webhooks.operations import list_push_targets
from rsmq.webhooks.shared_breaker import parse_targets
from rsmq.wire.stored import parse_integer
from rsmq.wire.workers import WorkerInfo

#: The queues that wait the longest, which are looked at closely.
_MAX_QUEUES = 300


#: The flows that are looked at: of the last ones the oldest, and the most nodes of one.
_MAX_FLOWS, _MAX_READ_FLOWS, _MAX_NODES = 100, 3, 200
_SENT = {NodeState.WAITING, NodeState.RUNNING, NodeState.RETRYING}

Client: TypeAlias = AsyncRSMQ[Any]
ReadRemovals: TypeAlias = Callable[[int], Awaitable[Sequence[RemovedMessage]]]


async def read_facts(
    queues: Client,
    walk: tuple[Mapping[str, QueueBacklog], float],
    may_see: Callable[[str], bool],
    *,
    sees_all: bool,
    read_removals: ReadRemovals | None = None,
    tasks: Sequence[TaskMinutes] = (),
) -> AlertFacts:
    """
    Read the facts that a caller may know.

    Args:
        walk: what waits in the queues that it may see, and how many seconds ago it was read.
        may_see: whether the caller may know what happens in a queue.
        sees_all: whether it may know what concerns no single queue.
        read_removals: returns the messages that people have moved or deleted since a Unix ms; None
            if that is not known. It is called if workers die again and again.
        tasks: the calls of the tasks of these queues in the last hour.
    """
    states, age = walk
    namespace = queues.namespace
    of_queues = asyncio.gather(
        queues.run(list_workers(namespace)),
        queues.run(list_push_targets(namespace)),
        queues.schedules.list(),
        _read_deletions(queues),
        _read_memory(queues) if sees_all else _nothing(),
        _read_recorded_minute(queues) if sees_all else _nothing(),
    )
    (found, stored, schedules, deletions, memory, minute), record = await asyncio.gather(
        of_queues, _read_record(queues)
    )
    now_ms, workers = parse_workers(*found)
    if not sees_all:
        workers = [each.restrict(may_see) for each in workers if any(map(may_see, each.queues))]
    deaths = find_repeated_deaths(workers, now_ms) if read_removals is not None else []
    activities, groups = await _read_activities(queues, states.values(), now_ms)
    return AlertFacts(
        now_ms,
        states,
        activities,
        workers,
        await _read_held(queues, workers, may_see),
        [each for _, each in parse_targets(stored[1]) if may_see(each.queue)],
        [
            each
            for each in schedules
            if (may_see(each.definition.queue) if each.definition else sees_all)
        ],
        [each for each in deletions if may_see(each.queue)],
        memory,
        minute if sees_all else 0,
        age,
        await read_removals(min(deaths)[0]) if deaths and read_removals is not None else [],
        record,
        sees_all,
        await _read_bodies(queues, states) if memory and is_nearly_full(memory) else {},
        await _read_waiting_flows(queues, now_ms) if sees_all else [],
        tasks,
        groups,
        await _read_limits(queues, groups),
    )


async def _nothing() -> None:
    return None


async def _read_activities(
    queues: Client, states: Iterable[QueueBacklog], now_ms: int
) -> tuple[dict[str, QueueActivity], dict[str, LargestGroup]]:
    chosen = [each for each in states if may_need_activity(each, now_ms)]
    chosen.sort(key=lambda each: each.visible_since_ms or 0)
    names = [each.name for each in chosen[:_MAX_QUEUES]]
    reading = read_queues_in_steps(queues.namespace, names, ACTIVITY, GROUPS)
    found = await queues.run_steps(reading)
    return (
        {name: each[ACTIVITY] for name, each in found.items() if ACTIVITY in each},
        {name: group for name, each in found.items() if (group := each.get(GROUPS))},
    )


async def _read_limits(
    queues: Client, groups: Mapping[str, LargestGroup]
) -> Mapping[str, QueueAttributes]:
    names = [name for name, each in groups.items() if each.floods]
    found = await queues.run_steps(read_queues_in_steps(queues.namespace, names, ATTRIBUTES))
    return {name: each[ATTRIBUTES] for name, each in found.items()}


async def _read_bodies(queues: Client, states: Mapping[str, QueueBacklog]) -> Mapping[str, int]:
    names = sorted(states, key=lambda name: -states[name].messages)[:_MAX_QUEUES]
    found = await queues.run_steps(read_queues_in_steps(queues.namespace, names, BODIES))
    return {name: each[BODIES] for name, each in found.items()}


async def _read_waiting_flows(queues: Client, now_ms: int) -> list[WaitingFlow]:
    """Return the running ones of the last flows none of whose nodes runs, the oldest first."""
    try:
        listed = await queues.run(list_flows(queues.namespace, None, _MAX_FLOWS))
    except ResponseError:  # the user has no right to them
        return []
    old = [each for each in reversed(listed) if _may_be_stuck(each, now_ms)]
    return [found for each in old[:_MAX_READ_FLOWS] if (found := await _read_waiting(queues, each))]


def _may_be_stuck(flow: FlowStatus, now_ms: int) -> bool:
    age = now_ms / 1000 - flow.sent_at.timestamp()
    return flow.state is FlowState.RUNNING and age >= WAIT_SECONDS and flow.total <= _MAX_NODES


async def _read_waiting(queues: Client, flow: FlowStatus) -> WaitingFlow | None:
    read = await queues.run(read_flow(queues.namespace, flow.id, "all", only_reads=True))
    sent = [each for each in read.nodes if each.state in _SENT] if read else []
    if not sent or any(each.state is NodeState.RUNNING for each in sent):
        return None
    node = sent[0]
    try:
        message = await observe_message(queues, node.queue, node.id or "")
    except (RSMQError, ResponseError):  # its queue is gone
        return None
    sent_ms = round(flow.sent_at.timestamp() * 1000)
    return WaitingFlow(flow.id, node.task, node.number, message, sent_ms)


async def _read_deletions(queues: Client) -> Sequence[Deletion]:
    try:
        return await queues.trash.list()
    except ResponseError:  # the user has no right to the trash
        return []


async def _read_held(
    queues: Client, workers: Iterable[WorkerInfo], may_see: Callable[[str], bool]
) -> Mapping[str, HeldMessages]:
    names = choose_dead(workers)
    found: dict[str, HeldMessages] = {}
    held = await queues.run_steps(read_held(queues.namespace, names))
    for name in names:
        hidden = [each for each in held[name] if each.is_hidden and may_see(each.queue)]
        if hidden:
            by_queue = Counter(each.queue for each in hidden)
            last = max(each.visible_at_ms or 0 for each in hidden)
            ids = frozenset((each.queue, each.id) for each in hidden)
            found[name] = HeldMessages(by_queue, last, ids)
    return found


async def _read_memory(queues: Client) -> tuple[int, int] | None:
    try:
        return await queues.run(read_memory(queues.namespace))
    except ResponseError:  # the user may not read it
        return None


async def _read_record(queues: Client) -> AlertRecord:
    try:
        return await queues.run(read_record(queues.namespace))
    except ResponseError:  # as for deletions
        return AlertRecord()


async def _read_recorded_minute(queues: Client) -> int | None:
    read = plain_command("HGET", queues.namespace.history, "finished", parse=parse_integer)
    try:
        return await queues.run(read) or None
    except ResponseError:
        return 0
