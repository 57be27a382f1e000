"""
The target queue of a migration: created, filled and compared with its source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from rsmq.errors import NotPossible, QueueNotFound, RSMQError
from rsmq.errors.printable import format_count
from rsmq.migrate.operations import (
    NO_CLAIM,
    NO_WATERMARK,
    IncomingMessage,
    Outcomes,
    RunClaim,
    Watermark,
    add_copies,
)
from rsmq.migrate.report import MigrationReport
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.migrate.sources.item import Found
from rsmq.model import QueueAttributes
from rsmq.operations.copying import (
    compare_fields,
    compare_settings,
    copy_policy,
    copy_queue,
    fit_fields,
    fit_settings,
    read_fields,
)
from rsmq.operations.reading import read_records
from rsmq.operations.restore import restore_totals
from rsmq.vocabulary.queues import COPIED_ATTRIBUTES, CREATE, POLICY
from rsmq.vocabulary.stored import MESSAGE_RECORDS, STORED_FACTS
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import DEFAULT_MAXSIZE
from rsmq.wire.names import decode_name, encode_name

#: Seconds after each step of a copy for which the digests of the copied messages are kept.
COPY_LIFETIME_SECONDS = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Progress:
    """
    The progress of a run.

    Attributes:
        doing: the current phase, in a word.
        done: the number of messages that are done in this phase.
        total: the number of messages when the run began, or ``done`` if that is more.
    """

    doing: str
    done: int
    total: int


ProgressCallback: TypeAlias = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Do nothing."""


def refuse_same_queue(source: Source, queue: str, target: Server, to: str) -> None:
    """
    Refuse a target queue that is the source.

    Args:
        source: the source.
        queue: the name of the queue at the source.
        target: the target server.
        to: the name of the target queue.

    Raises:
        NotPossible: both are the same queue.
    """
    key = target.rsmq.namespace.queue(to).zset
    if source.holds(queue, key) and target.is_also(source.server):
        raise NotPossible(
            f"The queue {to!r} is the source and the target",
            hint="Give another queue, another namespace or another server.",
        )


def prepare(
    source: Source, target: Server, queue: str, found: Found, report: MigrationReport
) -> None:
    """
    Create the target queue if it is missing, with the attributes, further fields and policy of its
    source.

    An existing queue keeps its own. The report notes each difference. A queue to which nothing was
    sent yet is paused if its source is.

    Args:
        source: the source.
        target: the target server.
        queue: the name of the target queue.
        found: the queue at the source.
        report: the report of the run.
    """
    rsmq = target.rsmq
    report.created = rsmq.run_steps(
        copy_queue(rsmq.namespace, queue, found.settings, found.fields, if_unused={"paused"})
    )
    if report.created and found.stored is not None:
        # Now, and not at the end: the record of the copy belongs to this creation time.
        creation = replace(found.stored, total_sent=0, total_received=0)
        rsmq.run(restore_totals(rsmq.namespace.queue(queue), creation))
    if report.created:
        _copy_policy(source, target, queue, found, report)
    note_differences(found, rsmq.get_queue_attributes(queue), report)
    note_fields(target, queue, found, report)


def note_fields(target: Server, queue: str, found: Found, report: MigrationReport) -> None:
    """Note each further field of the source's queue that the queue does not have."""
    stored = target.rsmq.run(read_fields(target.rsmq.namespace.queue(queue).hash))
    _note_missing(queue, found, stored, report)


def _note_missing(
    queue: str, found: Found, stored: Mapping[str, bytes], report: MigrationReport
) -> None:
    for _, text in compare_fields(queue, found.fields, stored):
        report.note(text)


def note_differences(found: Found, stored: QueueAttributes, report: MigrationReport) -> None:
    """Note each setting of the source that the queue does not have, and whether it is paused."""
    if found.settings.get("paused"):
        _note_pause(report, is_paused=stored.paused)
    attributes = {each.name: each for each in COPIED_ATTRIBUTES if each.name != "paused"}
    for each in compare_settings(found.settings, stored):
        attribute = attributes.get(each.name)
        if attribute is None or attribute.name in POLICY.options:
            continue
        wanted, has = (attribute.fit(value) for value in (each.wanted, each.has))
        is_set = attribute.name in CREATE.options or each.wanted != attribute.default
        if is_set and wanted != has:
            shown = "none" if has is None else f"{has:g}" if isinstance(has, float) else has
            report.note(f"its {attribute.name} of {wanted}: the queue has {shown}")
            report.lost_settings |= attribute.ends_messages and wanted != attribute.removing
    policy = _policy_of(found)
    if policy and not report.created and policy != (stored.dead_letter_queue, stored.max_receives):
        report.note(f"{_describe(policy)}: the queue keeps its own, or none")


def preview_settings(target: Server, queue: str, found: Found, report: MigrationReport) -> None:
    """Note what a run would note about the settings of the target queue, without a change."""
    is_paused = bool(found.settings.get("paused"))
    try:
        stored = target.rsmq.get_queue_attributes(queue)
    except QueueNotFound:
        if is_paused:
            _note_pause(report, is_paused=True)
        _note_missing(queue, found, fit_fields(queue, found.fields), report)
        return
    is_unused = not (stored.total_sent or stored.messages)
    stored = replace(stored, paused=stored.paused or (is_unused and is_paused))
    note_differences(found, stored, report)
    note_fields(target, queue, found, report)


def _note_pause(report: MigrationReport, *, is_paused: bool) -> None:
    report.note(f"it is paused for workers: the queue is {'too' if is_paused else 'not'}")


def _policy_of(found: Found) -> tuple[str, int] | None:
    name, most = (found.settings.get(each) for each in POLICY.options)
    return None if name is None or not most else (name, most)


def _describe(policy: tuple[str, int]) -> str:
    return f"its policy, dead letters to {policy[0]} after {format_count(policy[1], 'receive')}"


def _copy_policy(
    source: Source, target: Server, queue: str, found: Found, report: MigrationReport
) -> None:
    """Set the dead-letter policy of the source, and create its queue if the source has it."""
    rsmq, policy = target.rsmq, _policy_of(found)
    text = "its policy" if policy is None else _describe(policy)
    name = None if policy is None else policy[0]
    if name is not None and name not in rsmq.list_queues() and name in source.queues():
        of_name = source.look(name)
        rsmq.run_steps(copy_queue(rsmq.namespace, name, of_name.settings, of_name.fields))
    try:
        rsmq.run_steps(copy_policy(rsmq.namespace, queue, found.settings))
    except QueueNotFound:
        report.note(f"{text}: there is no queue {name}")
    except RSMQError as error:
        report.note(f"{text}: {error}")


def read_maxsize(target: Server, queue: str, found: Found) -> int:
    """Return the maxsize of the target queue, or the one that it is created with."""
    try:
        return target.rsmq.get_queue_attributes(queue).maxsize
    except QueueNotFound:
        return int(fit_settings(found.settings).get("maxsize", DEFAULT_MAXSIZE))


def finish(target: Server, queue: str, found: Found) -> None:
    """Raise the totals of the target queue to those of the source, if that is an RSMQ queue."""
    if found.stored is not None:
        keys = target.rsmq.namespace.queue(queue)
        target.rsmq.run(restore_totals(keys, replace(found.stored, created=None)))


def add_messages(
    target: Server,
    keys: QueueKeys,
    messages: Sequence[IncomingMessage],
    claim: RunClaim = NO_CLAIM,
    watermark: Watermark = NO_WATERMARK,
) -> Outcomes:
    """
    Add messages that are not in the queue, and were not added before.

    Args:
        target: the target server.
        keys: the keys of the queue.
        messages: the messages.
        claim: the right of the run to add messages.
        watermark: the watermark of the source behind these messages.

    Raises:
        RunReplaced: another run has taken the right.
    """
    if not messages:
        return b""
    return target.rsmq.run(
        add_copies(
            keys,
            messages,
            realtime=target.realtime,
            lifetime=COPY_LIFETIME_SECONDS,
            claim=claim,
            watermark=watermark,
        )
    )


def compare_bodies(
    target: Server, keys: QueueKeys, messages: Sequence[IncomingMessage]
) -> tuple[int, list[str]]:
    """
    Compare messages that were added to the queue with their bodies there.

    Returns:
        The number of messages that have the same body in the queue; and the ids that have another
        body. All other messages were consumed.
    """
    expected = {each.message.id: each.message.raw for each in messages if each.message is not None}
    if not expected:
        return 0, []
    bodies = target.call("HMGET", keys.hash, *expected)
    present, wrong = 0, []
    for (id, raw), body in zip(expected.items(), bodies, strict=True):
        if body == raw:
            present += 1
        elif body is not None:
            wrong.append(id)
    return present, wrong


def find_other_records(
    target: Server, keys: QueueKeys, messages: Sequence[IncomingMessage]
) -> Iterator[tuple[str, str]]:
    """Yield ids of messages in the queue without a record of their source, and its facts."""
    for record in MESSAGE_RECORDS:
        expected = {
            encode_name(each.message.id): each.message.records[record.key]
            for each in messages
            if each.message is not None and record.key in each.message.records
        }
        if not expected:
            continue
        facts = [each.name for each in STORED_FACTS if each.key == record.key]
        found = read_records(record, target.hmget, keys.zset, keys.hash, [*expected])
        bodies = target.hmget(keys.hash, [*expected])  # later: a message may be gone since
        for (id, text), body in zip(expected.items(), bodies, strict=True):
            if body is not None and (id not in found or found[id].text != text):
                yield decode_name(id), " and ".join(facts)


def list_field(queue: str) -> bytes:
    """
    Return the field for the digest of a copied list without ids, in the record of the copy.

    It has a colon, so it differs from the digest of any message.
    """
    return b"list:" + encode_name(queue)


def has_copy_record(target: Server, keys: QueueKeys) -> bool:
    """Return whether the queue has a record of copies. That of a deleted queue does not count."""
    created: bytes | None = target.call("HGET", keys.copied, "created")
    return created is not None and created == (target.call("HGET", keys.hash, "created") or b"")


def sum_checksums(messages: Sequence[IncomingMessage]) -> int:
    """
    Return the sum of the 128-bit hashes of the bodies.

    It does not depend on the order of the messages. Sums of batches may be added.
    """
    return sum(
        int.from_bytes(hashlib.blake2b(each.message.raw, digest_size=16).digest(), "big")
        for each in messages
        if each.message is not None
    )
