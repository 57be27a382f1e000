"""
A step of an operation of many messages: one script that changes at most 200 messages
(a release at most 1,000).

A step may run twice, if its process ends before it is recorded: the second run finds only the
messages that are still there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rsmq.model import State
from rsmq.operations.arguments import digits
from rsmq.operations.batches import release_receipts
from rsmq.operations.dead_letters import redrive_step
from rsmq.operations.walk import parse_next_position, walk_step
from rsmq.search.message_filter import SearchFilter, parse_filter
from rsmq.search.operations import STEP, SearchCandidate, SearchPosition, search_step
from rsmq.search.redaction import Redaction
from rsmq.trash.operations import CLOSED, MessageRow, delete_step
from rsmq.web.bodies import BODIES, bodies_of
from rsmq.web.bulk.records import OperationKind, OperationRecord
from rsmq.web.client import Client
from rsmq.web.search import MessageQuery, find_fitting, open_found
from rsmq.web.selection.operations import delete_rows, move_rows
from rsmq.wire.names import encode_name

#: Ms for which an operation adds to a deletion that can be undone; then it begins another one.
_PART_MS = 60_000
#: The bytes of a body that say whether it can be searched.
_HEAD_BYTES = 256
_WALKS = {OperationKind.SWEEP: "sweep_dead_letters", OperationKind.SWEEP_EXPIRED: "sweep_expired"}


@dataclass(frozen=True, slots=True)
class BulkStep:
    """
    The result of a step.

    Attributes:
        cursor: where the next step begins; None after the last one.
        done: messages that were changed.
        scanned: messages that were looked at.
        left: dead letters that stay because the queue that they came from is gone.
    """

    cursor: Any
    done: int
    scanned: int
    left: int = 0


async def run_step(queues: Client, record: OperationRecord, most: int) -> BulkStep:
    """
    Run the next step.

    Args:
        most: the messages to change at most.

    Raises:
        RSMQError, RedisError, OSError: it can't run; the same step may be run again.
    """
    if record.kind is OperationKind.REDRIVE and "filter" not in record.arguments:
        return await _redrive(queues, record, most)
    if record.kind in _WALKS:
        return await _sweep(queues, record, most)
    if record.kind is OperationKind.RELEASE_ALL:
        return await _release(queues, record)
    return await _change_found(queues, record, most)


async def _redrive(client: Client, record: OperationRecord, most: int) -> BulkStep:
    (skip,) = record.cursor or [0]
    looked, redriven, left = await client.run_steps(
        _redrive_some(client, record, skip=skip, max_messages=most)
    )
    cursor = [skip + looked - redriven] if looked else None
    return BulkStep(cursor, redriven, looked, left)


def _redrive_some(client: Client, record: OperationRecord, **which: Any) -> Any:
    return redrive_step(
        client.namespace,
        record.queue,
        record.arguments.get("destination"),
        last_ms=record.fence_ms,
        **which,
    )


async def _sweep(client: Client, record: OperationRecord, most: int) -> BulkStep:
    keys = client.namespace.queue(record.queue)
    score, seen = record.cursor or ["-inf", "0"]
    position = (score.encode(), seen.encode())
    name = _WALKS[record.kind]
    reply = await client.run(walk_step(name, keys, position, digits(most), keys.namespace))
    behind = parse_next_position(reply)
    cursor = None if behind is None else [each.decode() for each in behind]
    return BulkStep(cursor, len(reply[2]), len(reply[2]))


async def _release(client: Client, record: OperationRecord) -> BulkStep:
    keys = client.namespace.queue(record.queue)
    score, seen = record.cursor or ["", "0"]
    position = (score.encode(), seen.encode())
    reply = await client.run(walk_step("received_messages", keys, position, b""))
    # By receipt: one that was received again since is not released.
    done = await client.run(release_receipts(keys, reply[2])) if reply[2] else 0
    behind = parse_next_position(reply)
    cursor = None if behind is None else [each.decode() for each in behind]
    return BulkStep(cursor, done, len(reply[2]) // 2)


async def _change_found(client: Client, record: OperationRecord, most: int) -> BulkStep:
    text = record.arguments.get("filter")
    filter = SearchFilter() if text is None else parse_filter(text)
    score, id, part = record.cursor or ["", "", 0]
    is_redrive = record.kind is OperationKind.REDRIVE
    state: State | None = "visible" if is_redrive else record.arguments.get("state")
    query = MessageQuery(record.queue, state, filter, most, Redaction())
    fields, codec = {term.field for term in filter.terms}, bodies_of(client)
    is_opened = codec is not BODIES and bool(fields & {"body", "json"})
    found = await client.run(
        search_step(
            client.namespace.queue(record.queue),
            SearchPosition(score, id),
            codec=codec,
            state=state,
            # Terms of json and cause are compared here: few of those found may fit.
            count=STEP if is_opened or fields & {"json", "cause"} else most,
            cut=None if is_opened or "json" in fields else _HEAD_BYTES if "body" in fields else 0,
            terms=[each for each in filter.terms if not is_opened or each.field != "body"],
        )
    )
    if is_opened:
        found = replace(found, candidates=await open_found(found.candidates, codec))
    skips = "skip_in_flight" in record.arguments
    candidates = [
        each
        for each in found.candidates
        if _was_there(each, record.fence_ms) and not (skips and each.message.state == "in_flight")
    ]
    fitting, looked = await find_fitting(query, candidates, most)
    chosen = [candidates[at] for at in fitting]
    scanned, behind = found.scanned, found.position
    if looked < len(candidates):
        last = candidates[looked - 1]
        scanned, behind = found.candidates.index(last) + 1, last.position
    done = left = 0
    if chosen and is_redrive:
        receipts = [(each.message.id, each.message.receive_count) for each in chosen]
        _, done, left = await client.run_steps(_redrive_some(client, record, receipts=receipts))
    elif chosen and "undo" in record.arguments:
        done, part = await _delete_to_trash(client, record, chosen, part)
    elif chosen:
        done = await _change(client, record, chosen)
    cursor = None if behind is None else [behind.score, behind.id, part]
    return BulkStep(cursor, done, scanned, left)


def _was_there(candidate: SearchCandidate, fence_ms: int) -> bool:
    """Return whether a message was sent before a time of the server, or has died before it."""
    message = candidate.message
    at_ms = message.visible_at_ms if candidate.sent_us is None else candidate.sent_us // 1000
    return (at_ms if message.reason is None else message.reason.died_ms) <= fence_ms


async def _change(client: Client, record: OperationRecord, chosen: list[SearchCandidate]) -> int:
    keys = client.namespace.queue(record.queue)
    done: int
    if record.kind is OperationKind.RELEASE:
        pairs = ((each.message.id, each.message.receive_count) for each in chosen)
        receipts = [part for id, count in pairs for part in (encode_name(id), digits(count))]
        done = await client.run(release_receipts(keys, receipts))
        return done
    rows = _rows_of(chosen)
    if record.kind is OperationKind.MOVE:
        to = client.namespace.queue(record.arguments["destination"])
        done = await client.run(move_rows(keys, to, rows, strict=False))
    else:
        done = await client.run(delete_rows(keys, rows, strict=False))
    return done


def _rows_of(chosen: list[SearchCandidate]) -> list[MessageRow]:
    """Return messages as they were found: one that was received since is not moved or deleted."""
    return [
        (each.message.id, str(each.message.receive_count), each.position.score) for each in chosen
    ]


async def _delete_to_trash(
    client: Client, record: OperationRecord, chosen: list[SearchCandidate], part: int
) -> tuple[int, int]:
    """
    Delete messages so that they can be undone.

    An operation may take longer than the ten minutes of an undo. So it has a deletion for each
    minute, and these end one after the other.

    Args:
        part: the number of the deletion that the step before has added to.

    Returns:
        The number of messages that were deleted, and that of the last deletion.
    """
    deleted, rows = 0, _rows_of(chosen)
    while rows:
        id = record.arguments["undo"] + (f"-{part}" if part else "")
        step = delete_step(
            client.namespace, id, record.queue, record.creator, rows, open_ms=_PART_MS
        )
        _, looked, answers = await client.run(step)
        if looked == CLOSED:
            part += 1
            continue
        deleted += answers.count(b"1")
        rows = rows[looked:]
    return deleted, part
