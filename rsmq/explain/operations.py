"""
Operations that read what queues and messages wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rsmq.control.operations import parse_workers
from rsmq.explain.observed import DeadLetterPlace, MessageBefore, ObservedMessage, ObservedQueue
from rsmq.explain.rates import with_rates
from rsmq.figures.facts import parse_activity, parse_repeated
from rsmq.figures.operations import SAMPLE, parse_hidden
from rsmq.history.records import recent_fields
from rsmq.jobs.operations import JobRecord
from rsmq.jobs.status import JobStatus, return_unchanged
from rsmq.model import QueueAttributes
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, on_queue
from rsmq.operations.plain import encode_command, parse_fields, plain_command, plain_commands
from rsmq.operations.replies import parse_attributes, parse_reason
from rsmq.operations.scripts import loader_of
from rsmq.trash.deletion import Deletion
from rsmq.wire.groups import parse_group
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name, encode_name
from rsmq.wire.stored import parse_integer, parse_number
from rsmq.wire.streams import StreamInfo, parse_streams
from rsmq.wire.throttle import parse_limit

load = loader_of("explain")

#: The values at the begin of a reply that are about the queue.
_OF_QUEUE = 5


def read_message_state(namespace: Namespace, qname: str, id: str) -> Operation[ObservedMessage]:
    """Read what is known of a message, but for the rates of its queue."""
    keys = namespace.queue(qname)

    def parse(reply: Any) -> ObservedMessage:
        *of_queue, stored, records, job, has_dead_letter_queue, dead, before = reply
        queue = _parse_queue(keys, of_queue)
        score, size, count, first, ids_before, raw_holder = stored
        holder = None if raw_holder is None else decode_name(raw_holder)
        if holder == "":  # there are too many workers to ask all of them
            queue = replace(queue, can_see_workers=False)
        unbegun, error, reason, max_retries, own_expiry, quarantine, failed_receive, stream = (
            records
        )
        target = queue.attributes.dead_letter_queue
        return ObservedMessage(
            queue,
            id,
            visible_at_ms=None if score is None else float(score),
            size=size,
            receive_count=parse_integer(count) or 0,
            first_received_ms=parse_integer(first),
            ids_before=ids_before,
            unbegun=unbegun,
            last_error=None if error is None else error.decode(errors="replace"),
            reason=parse_reason(reason),
            max_retries=max_retries,
            expires_ms=_expiry(queue.attributes, id, queue.now_ms, parse_integer(own_expiry)),
            quarantine_runs=parse_integer((quarantine or b"").partition(b":")[0]) or 0,
            failed_receive=failed_receive,
            holder=next((each for each in queue.workers if each.name == holder), None),
            stream=None if stream is None else (decode_name(stream[0]), int(stream[1])),
            job=_parse_job(keys.name, id, job),
            dead=None
            if dead is None or target is None
            else DeadLetterPlace(target, float(dead[0]), parse_reason(dead[1])),
            has_dead_letter_queue=bool(has_dead_letter_queue),
            before=_parse_before(before),
        )

    return on_queue(
        keys,
        load("read_message_state"),
        (keys.hash, keys.zset),
        (
            encode_name(id),
            encode_name(namespace.name),
            namespace.workers,
            namespace.held_prefix,
            encode_name(keys.name),
        ),
        parse,
    )


def read_queue_state(namespace: Namespace, qname: str) -> Operation[ObservedQueue]:
    """Read what is known of a queue, but for its rates."""
    keys = namespace.queue(qname)

    def parse(reply: Any) -> ObservedQueue:
        hidden, *again = reply[_OF_QUEUE:]
        queue = _parse_queue(keys, reply[:_OF_QUEUE])
        return replace(queue, hidden=parse_hidden(hidden), repeated=parse_repeated(again))

    return on_queue(
        keys,
        load("read_queue_state"),
        (keys.hash, keys.zset),
        (digits(SAMPLE), namespace.workers),
        parse,
    )


def _parse_queue(keys: QueueKeys, found: Sequence[Any]) -> ObservedQueue:
    """Return what the first values of a reply say of the queue."""
    described, raw_now, stored, resumed, limit = found
    now = int(raw_now)
    pairs = () if stored is None else zip(stored[::2], stored[1::2], strict=True)
    _, registered = parse_workers(now, {decode_name(name): entry for name, entry in pairs})
    return ObservedQueue(
        keys.name,
        now,
        parse_attributes(described),
        tuple(each for each in registered if keys.name in each.queues),
        can_see_workers=stored is not None,
        resumed_ms=parse_number(resumed),
        limit=parse_limit(limit) if limit else None,
    )


def _parse_before(stored: Any) -> MessageBefore | None:
    if stored is None:
        return None
    group, id, score, count = (*stored, None, None, None)[:4]
    return MessageBefore(
        parse_group(group),
        None if id is None else decode_name(id),
        None if score is None else float(score),
        parse_integer(count) or 0,
    )


def _parse_job(qname: str, id: str, stored: Any) -> JobStatus[object] | None:
    return None if stored is None else JobRecord(*stored).to_status(qname, id, return_unchanged)


def _expiry(attributes: QueueAttributes, id: str, now: int, own_ms: float | None) -> float | None:
    sent_us = parse_sent_us(id, now) if attributes.keep is not None else None
    times = [] if own_ms is None else [own_ms]
    if sent_us is not None and attributes.keep is not None:
        times.append(sent_us / 1000 + attributes.keep * 1000)
    return min(times, default=None)


def read_rates(namespace: Namespace, facts: ObservedQueue) -> Operation[ObservedQueue]:
    """Return what is known of a queue, with how fast it was filled and drained of late."""
    attributes, history = facts.attributes, namespace.queue(facts.name).history
    created = b"" if attributes.created is None else digits(int(attributes.created.timestamp()))
    totals = digits(attributes.total_sent), digits(attributes.total_received), created

    def parse(reply: Any) -> ObservedQueue:
        return with_rates(facts, parse_activity((*totals, *reply), facts.name, facts.now_ms))

    return plain_command("HMGET", history, *recent_fields(facts.now_ms), parse=parse)


def read_streams(namespace: Namespace, facts: ObservedQueue) -> Operation[tuple[StreamInfo, ...]]:
    """Read which streams of Spark receive from a queue, or wait for its messages."""

    def parse(reply: Any) -> tuple[StreamInfo, ...]:
        found = parse_streams(parse_fields(reply), facts.now_ms).values()
        return tuple(each for each in found if facts.name in each.received)

    return plain_command("HGETALL", namespace.streams, parse=parse)


def read_memory(namespace: Namespace) -> Operation[tuple[int, int] | None]:
    """Read the used bytes and ``maxmemory`` of Redis; None if there is no limit."""

    def parse(reply: bytes) -> tuple[int, int] | None:
        facts = dict(line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
        limit = int(facts.get("maxmemory", "0"))
        return (int(facts["used_memory"]), limit) if limit else None

    return plain_command("INFO", "memory", key=namespace.queues, parse=parse)


def read_holders(
    namespace: Namespace, qname: str, names: Sequence[str], receipts: Sequence[tuple[str, int]]
) -> Operation[dict[str, str]]:
    """
    Read which workers have messages in flight: plain commands in one round trip.

    Args:
        names: the names of the workers.
        receipts: the ids and receive counts of messages of the queue.

    Returns:
        The name of the worker by the id of the message, of those that a worker has.
    """
    queue = encode_name(namespace.queue(qname).name)
    ids = [encode_name(id) for id, _ in receipts]
    wanted = [b"%d:%b" % (count, queue) for _, count in receipts]

    def parse(replies: Any) -> dict[str, str]:
        return {
            id: name
            for name, found in zip(names, replies, strict=True)
            for (id, _), receipt, held in zip(receipts, wanted, found, strict=True)
            if held == receipt
        }

    commands = [
        encode_command(("HMGET", namespace.held_prefix + encode_name(name), *ids)) for name in names
    ]
    operation: Operation[Any] = plain_commands(namespace.workers, commands)
    operation.parse = parse
    return operation


def find_in_trash(
    namespace: Namespace, deletions: Sequence[Deletion], id: str
) -> Operation[int | None]:
    """Return the index of the deletion that keeps a message, if one does; in one round trip."""
    commands = [
        encode_command(("HEXISTS", namespace.in_trash(each.id, "hash"), encode_name(id)))
        for each in deletions
    ]
    operation: Operation[Any] = plain_commands(namespace.trash, commands)
    operation.parse = lambda replies: replies.index(1) if 1 in replies else None
    return operation
