"""
The queue to which messages come: made if it is missing, and looked at to see what is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rsmq import operations
from rsmq.errors import NotPossible, QueueNotFound, RSMQError
from rsmq.migrate.item import Found
from rsmq.migrate.report import Report
from rsmq.migrate.server import Server
from rsmq.migrate.source import Source
from rsmq.operations.landing import Arrival, Told, land_copies
from rsmq.protocol import QueueKeys

#: Seconds for which it is kept what was copied, after each step of a copy.
COPY_OPEN = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Progress:
    """
    How far it has come.

    Attributes:
        doing: what, in a word.
        done: messages that are done.
        total: how many there were when it began.
    """

    doing: str
    done: int
    total: int


Tell: TypeAlias = Callable[[Progress], None]


def nobody(_: Progress) -> None:
    """Tell nobody."""


def refuse_itself(source: Source, queue: str, target: Server, to: str) -> None:
    """
    Refuse a queue that is its own source.

    Raises:
        NotPossible: it is.
    """
    key = target.rsmq.namespace.queue(to).zset
    if source.holds(queue, key) and source.server.is_also(target):
        raise NotPossible(
            f"The queue {to!r} is the source and the target",
            hint="Give another queue, another namespace or another server.",
        )


def prepare(target: Server, queue: str, found: Found) -> bool:
    """Make the queue if it is missing, with what its source says of it; whether it was made."""
    return target.rsmq.create_queue(queue, **found.attributes, exist_ok=True)


def maxsize(target: Server, queue: str, found: Found) -> int:
    """The limit of the queue, or the one that it will have."""
    try:
        return target.rsmq.get_queue_attributes(queue).maxsize
    except QueueNotFound:
        return found.attributes.get("maxsize", 65536)


def settle(source: Source, target: Server, queue: str, found: Found, report: Report) -> None:
    """Give the queue what else its source had: totals, and the dead-letter policy."""
    stored = found.stored
    if stored is None:
        return
    target.rsmq.run(operations.restore_totals(target.rsmq.namespace.queue(queue), stored))
    dead, limit = stored.dead_letter_queue, stored.max_receives
    if dead is None or not limit:
        return
    policy = f"its policy, dead letters to {dead} after {limit} receives"
    if target.rsmq.get_queue_attributes(queue).dead_letter_queue is not None:
        report.note(f"{policy}: the queue has one of its own")
        return
    if dead not in target.rsmq.list_queues() and dead in source.queues():
        prepare(target, dead, source.look(dead))
    try:
        target.rsmq.set_dead_letter_policy(queue, dead, limit)
    except QueueNotFound:
        report.note(f"{policy}: there is no queue {dead}")
    except RSMQError as error:
        report.note(f"{policy}: {error}")


def land(target: Server, keys: QueueKeys, arrivals: Sequence[Arrival]) -> Told:
    """Add messages that are not there, and were not added before."""
    if not arrivals:
        return b""
    return target.rsmq.run(
        land_copies(keys, arrivals, realtime=target.realtime, lifetime=COPY_OPEN)
    )


def compare(target: Server, keys: QueueKeys, arrivals: Sequence[Arrival]) -> tuple[int, list[str]]:
    """
    See what is in the queue of messages that came there.

    Returns:
        How many are there as they were; and the ids under which there is another body. The others
        were consumed.
    """
    expected = {each.message.id: each.message.raw for each in arrivals if each.message is not None}
    if not expected:
        return 0, []
    bodies = target.raw.hmget(keys.hash, list(expected))
    present, wrong = 0, []
    for (id, raw), body in zip(expected.items(), bodies, strict=True):
        if body == raw:
            present += 1
        elif body is not None:
            wrong.append(id)
    return present, wrong


def is_of_queue(target: Server, keys: QueueKeys) -> bool:
    """Whether what is kept of copies is of this very queue, not of a deleted one of its name."""
    known: bytes | None = target.raw.hget(keys.copied, "created")
    return known is not None and known == (target.raw.hget(keys.hash, "created") or b"")


def checksum(arrivals: Sequence[Arrival]) -> int:
    """The same for the same bodies, in whatever order: sums of it may be added."""
    return sum(
        int.from_bytes(hashlib.blake2b(each.message.raw, digest_size=16).digest(), "big")
        for each in arrivals
        if each.message is not None
    )
