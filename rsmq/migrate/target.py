"""
The target queue: created if it is missing, and examined before a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rsmq.errors import NotPossible, QueueNotFound, RSMQError
from rsmq.migrate.report import Report
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.migrate.sources.item import Found
from rsmq.operations.migration import Arrival, Told, land_copies
from rsmq.operations.restored import restore_totals
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import encode_name

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
    if source.holds(queue, key) and target.is_also(source.server):
        raise NotPossible(
            f"The queue {to!r} is the source and the target",
            hint="Give another queue, another namespace or another server.",
        )


def prepare(source: Source, target: Server, queue: str, found: Found, report: Report) -> None:
    """
    Make the queue if it is missing, with what its source says of it: attributes, and the policy.

    A queue that is there keeps its own, and what is different is noted.
    """
    try:
        stored = target.rsmq.get_queue_attributes(queue)
    except QueueNotFound:
        report.created = target.rsmq.create_queue(queue, **found.attributes, exist_ok=True)
        _bring_policy(source, target, queue, found, report)
        return
    for name, value in found.attributes.items():
        if (there := getattr(stored, name)) != value:
            report.note(f"its {name} of {value}: the queue has {there:g}")
    policy = _policy(found)
    if policy and policy != (stored.dead_letter_queue, stored.max_receives):
        report.note(f"{_shown(policy)}: the queue keeps its own, or none")


def _policy(found: Found) -> tuple[str, int] | None:
    stored = found.stored
    if stored is None or stored.dead_letter_queue is None or not stored.max_receives:
        return None
    return stored.dead_letter_queue, stored.max_receives


def _shown(policy: tuple[str, int]) -> str:
    return f"its policy, dead letters to {policy[0]} after {policy[1]} receives"


def _bring_policy(source: Source, target: Server, queue: str, found: Found, report: Report) -> None:
    policy = _policy(found)
    if policy is None:
        return
    dead, limit = policy
    if dead not in target.rsmq.list_queues() and dead in source.queues():
        target.rsmq.create_queue(dead, **source.look(dead).attributes, exist_ok=True)
    try:
        target.rsmq.set_dead_letter_policy(queue, dead, limit)
    except QueueNotFound:
        report.note(f"{_shown(policy)}: there is no queue {dead}")
    except RSMQError as error:
        report.note(f"{_shown(policy)}: {error}")


def maxsize(target: Server, queue: str, found: Found) -> int:
    """The limit of the queue, or the one that it will have."""
    try:
        return target.rsmq.get_queue_attributes(queue).maxsize
    except QueueNotFound:
        return found.attributes.get("maxsize", 65536)


def settle(target: Server, queue: str, found: Found) -> None:
    """Raise the queue's totals to those of its source."""
    if found.stored is not None:
        keys = target.rsmq.namespace.queue(queue)
        target.rsmq.run(restore_totals(keys, found.stored))


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


def list_field(queue: str) -> bytes:
    """Under which a copy keeps what list without ids it is of: no digest has a colon."""
    return b"list:" + encode_name(queue)


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
