"""
Reads the facts of a queue or a message, with an asyncio client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from redis.exceptions import ResponseError

from rsmq.aio import AsyncRSMQ
from rsmq.control.operations import list_workers, parse_workers
from rsmq.errors import RSMQError
from rsmq.explain.causes import has_no_trace
from rsmq.explain.held import choose_dead, read_held
from rsmq.explain.observed import ObservedMessage, ObservedQueue
from rsmq.explain.operations import (
    find_in_trash,
    read_holders,
    read_memory,
    read_message_state,
    read_queue_state,
    read_rates,
    read_streams,
)
from rsmq.figures.facts import GROUPS, LargestGroup
from rsmq.figures.reading import read_queues_in_steps
from rsmq.model import StoredMessage
from rsmq.schedules.definition import StoredSchedule
from rsmq.schedules.operations import read_schedules
from rsmq.trash.deletion import Deletion, DeletionState
from rsmq.trash.operations import read_trash
from rsmq.webhooks.operations import list_push_targets
from rsmq.webhooks.shared_breaker import PushTarget, parse_targets

_IDS_PER_STEP = 1000


async def observe_message(rsmq: AsyncRSMQ[Any], qname: str, id: str) -> ObservedMessage:
    """
    Return what is known of a message, from four round trips. Nothing is changed.

    Args:
        rsmq: an asyncio client.
        qname: the name of the queue.
        id: the id of the message, also of one that is not in the queue.

    Raises:
        QueueNotFound: the queue does not exist.
    """
    facts = await rsmq.run(read_message_state(rsmq.namespace, qname, id))
    if has_no_trace(facts):
        return replace(facts, deletion=await _find_deletion(rsmq, qname, id))
    queue = replace(facts.queue, targets=await _find_targets(rsmq, qname))
    return replace(facts, queue=await _add_rates(rsmq, await _add_streams(rsmq, queue)))


async def find_holders(
    rsmq: AsyncRSMQ[Any], messages: Sequence[StoredMessage[Any]]
) -> dict[str, str]:
    """
    Return by the id of a message the name of the worker that has it in flight.

    It is read after the messages, and only if one is in flight: a list of workers, and one command
    for each of them. Consumers that are not workers are unknown, and so are all if the user lacks
    the right to their records.

    Args:
        rsmq: the asyncio client that has read the messages.
        messages: messages of one queue.
    """
    receipts = [(each.id, each.receive_count) for each in messages if each.state == "in_flight"]
    if not receipts:
        return {}
    holders: dict[str, str] = {}
    try:
        _, workers = parse_workers(*(await rsmq.run(list_workers(rsmq.namespace))))
        names = sorted(each.name for each in workers)
        for at in range(0, len(receipts) if names else 0, _IDS_PER_STEP):
            step = receipts[at : at + _IDS_PER_STEP]
            found = await rsmq.run(read_holders(rsmq.namespace, messages[0].queue, names, step))
            holders |= found
    except ResponseError:  # the user has no right to them
        return {}
    return holders


async def _find_held(client: AsyncRSMQ[Any], facts: ObservedQueue) -> dict[str, int]:
    """Return how many messages of a queue dead workers still have in flight, by their names."""
    dead = choose_dead(facts.workers)
    try:
        held = await client.run_steps(read_held(client.namespace, dead)) if dead else {}
    except (ResponseError, RSMQError):  # no right to their records, or a name of another program
        return {}
    return {
        worker: sum(each.queue == facts.name and each.is_hidden for each in messages)
        for worker, messages in held.items()
    }


async def _find_targets(client: AsyncRSMQ[Any], qname: str) -> tuple[PushTarget, ...]:
    """Return the targets of the webhooks of a queue."""
    try:
        _, stored = await client.run(list_push_targets(client.namespace))
    except ResponseError:  # the user has no right to them
        return ()
    return tuple(each for _, each in parse_targets(stored) if each.queue == qname)


async def _find_schedules(client: AsyncRSMQ[Any], qname: str) -> tuple[StoredSchedule, ...]:
    """Return the schedules that send to a queue."""
    try:
        _, records = await client.run(read_schedules(client.namespace))
    except ResponseError:  # as above
        return ()
    schedules = [each.to_schedule() for each in records]
    return tuple(each for each in schedules if each.definition and each.definition.queue == qname)


async def _find_memory(client: AsyncRSMQ[Any]) -> tuple[int, int] | None:
    try:
        return await client.run(read_memory(client.namespace))
    except ResponseError:  # as above
        return None


async def _find_largest_group(client: AsyncRSMQ[Any], qname: str) -> LargestGroup | None:
    found = await client.run_steps(read_queues_in_steps(client.namespace, [qname], GROUPS))
    return found[qname][GROUPS] if qname in found else None


async def _find_purge(client: AsyncRSMQ[Any], facts: ObservedQueue) -> Deletion | None:
    """Return the last purge of a queue, if it has removed messages and can be undone."""
    try:
        _, deletions = await client.run(read_trash(client.namespace))
    except ResponseError:  # the user has no right to the trash
        return None
    return next((each for each in deletions if each.is_open_purge(facts.name, facts.now_ms)), None)


async def _find_deletion(client: AsyncRSMQ[Any], qname: str, id: str) -> Deletion | None:
    """Return the deletion that has removed a message, if it can be undone."""
    try:
        _, deletions = await client.run(read_trash(client.namespace))
        kept = [
            each for each in deletions if each.queue == qname and each.state is DeletionState.KEPT
        ]
        place = await client.run(find_in_trash(client.namespace, kept, id)) if kept else None
    except ResponseError:  # the user has no right to the trash
        return None
    return None if place is None else kept[place]


async def _add_streams(client: AsyncRSMQ[Any], facts: ObservedQueue) -> ObservedQueue:
    """Return the facts with the streams of Spark that read from the queue."""
    try:
        return replace(facts, streams=await client.run(read_streams(client.namespace, facts)))
    except ResponseError:  # the user has no right to them
        return facts


async def _add_rates(client: AsyncRSMQ[Any], facts: ObservedQueue) -> ObservedQueue:
    """Return the facts with the rates of the queue, if the user has the right to its history."""
    try:
        return await client.run(read_rates(client.namespace, facts))
    except ResponseError:
        return facts


async def observe_queue(
    rsmq: AsyncRSMQ[Any], qname: str, *, sees_server: bool = True
) -> ObservedQueue:
    """
    Return what is known of a queue, from seven round trips, and eight if it is empty.

    Of workers that died it also reads what they had in flight, in a round trip each and one for
    all. Nothing is changed.

    Args:
        rsmq: an asyncio client.
        qname: the name of the queue.
        sees_server: whether the memory of Redis is read too.

    Raises:
        QueueNotFound: the queue does not exist.
    """
    facts = await rsmq.run(read_queue_state(rsmq.namespace, qname))
    facts = replace(
        facts,
        largest_group=await _find_largest_group(rsmq, qname),
        held=await _find_held(rsmq, facts),
        targets=await _find_targets(rsmq, qname),
        schedules=await _find_schedules(rsmq, qname),
        memory=await _find_memory(rsmq) if sees_server else None,
    )
    if not facts.attributes.messages:
        facts = replace(facts, purge=await _find_purge(rsmq, facts))
    return await _add_rates(rsmq, await _add_streams(rsmq, facts))
