"""
``repair``: safe repairs, and those that the caller has chosen by name.

Each step is an atomic script for at most 100 ids. It checks each fault again before the change.
Other programs run between the steps. An interrupted repair is continued by running it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from redis.exceptions import RedisError, ResponseError

from rsmq._sync.client import RSMQ
from rsmq.doctor.attribute_faults import find_attribute_faults
from rsmq.doctor.catalogue import OPT_IN_REPAIRS
from rsmq.doctor.finding import Finding
from rsmq.doctor.message_faults import (
    GRACE_MS,
    MAX_REMEMBERED_IDS,
    UNIX_SECONDS_LIMIT,
    find_entry_faults,
    find_field_fault,
    find_ungrouped,
    get_delay_ms,
    get_initial_wait_ms,
    is_certain_ghost,
    is_old,
    is_receive_count,
    is_time,
    looks_held_back,
    looks_like_id,
    walk_entries,
    walk_orphan_fields,
)
from rsmq.doctor.operations import (
    NOW_MS,
    Change,
    QueueEntry,
    QueueFacts,
    divide_milliseconds,
    persist_keys,
    remove_empty_name,
    remove_extensions,
    remove_ghost_ids,
    remove_orphan_fields,
    remove_wrong_keys,
    repair_fields,
    repair_listing,
    repair_scores,
    repair_turns,
    replace_ids,
    restore_orphan_bodies,
)
from rsmq.doctor.queue_faults import get_group_kinds, read_queue_facts
from rsmq.errors import InvalidFormat, QueueNotFound, show, show_all
from rsmq.operations.operation import Operation
from rsmq.operations.queues import create_queue
from rsmq.operations.sweeping import sweep_groups
from rsmq.transport.retry import Failure, classify
from rsmq.wire.fields import DEAD_LETTER_QUEUE, first_received_field, receive_count_field
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_number

T = TypeVar("T")

#: The order of repairs. A queue is repaired before its messages, and removed from the list after
#: them. Milliseconds are divided before bad attributes: a vt in ms may also be too large a number
#: of seconds, and would be lowered to the limit.
_REPAIR_ORDER = (
    "empty-name", "expiring", "half-queue", "messages-without-queue", "unlisted-queue",
    "milliseconds", "bad-attribute", "large-maxsize", "bad-total", "negative-total", "strange-time",
    "modified-in-future", "created-in-future", "dead-letter-gone", "ids-without-queue",
    "attribute-id", "ghost", "bad-counter", "count-without-time", "odd-first-received",
    "first-received-in-future", "microseconds-score", "seconds-score", "far-future",
    "sent-in-future", "orphan-body", "left-over-counter", "undeletable-id",
    "wrong-group-key", "lost-group-record", "lost-group", "waiting-group", "far-turn",
    "left-over-extension", "listed-without-queue",
)  # fmt: skip

#: The repairs of records of groups and of rates.
_RECORD_REPAIRS = {
    "wrong-group-key", "lost-group-record", "lost-group", "waiting-group", "far-turn",
}  # fmt: skip

_IDS_PER_STEP = 100

#: How often attributes are read and repaired, if other programs change them in between.
_ATTRIBUTE_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Repair:
    """
    The result of the repair of a finding.

    Attributes:
        finding: the finding.
        number: the number of repaired keys, ids, fields or bodies. Less than the finding's if some
            no longer had the fault, if a message is in flight, or after an error.
        error: the error of Redis that ended this repair; None if there was none. A lost connection,
            or a server that refuses all calls, is also the error of all repairs after it, which
            were not tried.
    """

    finding: Finding
    number: int
    error: RedisError | None = None


def repair(
    rsmq: RSMQ[Any],
    findings: Iterable[Finding],
    *,
    also: Collection[str] = (),
    progress: Callable[[Finding, int], None] | None = None,
) -> list[Repair]:
    """
    Repair the faults that an examination found. Idempotent; may be interrupted at any point.

    If Redis refuses the repair of one finding, the others are still repaired.

    A repair may make other faults visible: a restored body may have a bad counter. Another
    examination finds these.

    Without ``also``, no body, no message and no receive count that Redis can increment is removed
    or changed. Bodies without an id are repaired only if all their ids show that they are older
    than ten seconds, or if two checks, ten seconds apart, find them: this takes ten seconds for
    each such queue.

    Args:
        rsmq: a client of the namespace.
        findings: the faults. Those that no repair is available for are skipped.
        also: the names of repairs that are not safe, from ``Finding.ways``.
        progress: called after each step of repairs of messages, with the finding and the number of
            repaired ids or fields.

    Returns:
        The results, in the order of the repairs. ``Repair.error`` says which of them failed.

    Raises:
        InvalidFormat: a repair with this name does not exist, or two of them exclude one another.
    """
    _check_repair_names(also)
    chosen = [finding for finding in findings if finding.safe or set(finding.ways) & set(also)]
    chosen = [finding for finding in chosen if finding.code in _REPAIR_ORDER]
    chosen.sort(key=lambda finding: _REPAIR_ORDER.index(finding.code))
    repairer = _Repairer(rsmq, also, progress)
    return [repairer.repair(finding) for finding in chosen]


def _check_repair_names(also: Collection[str]) -> None:
    names = tuple(OPT_IN_REPAIRS)
    for name in also:
        if name not in names:
            hint = f"Repairs that must be asked for are {show_all(names)}."
            raise InvalidFormat("also", value=name, hint=hint)
    for code in set(OPT_IN_REPAIRS.values()):
        chosen = [name for name in names if OPT_IN_REPAIRS[name] == code and name in also]
        if len(chosen) > 1:
            hint = f"{show(chosen[0])} and {show(chosen[1])} exclude one another; choose one."
            raise InvalidFormat("also", value=chosen, hint=hint)


class _Repairer:
    """One run of ``repair``."""

    def __init__(
        self,
        rsmq: RSMQ,
        also: Collection[str],
        progress: Callable[[Finding, int], None] | None,
    ) -> None:
        self._rsmq = rsmq
        self._namespace = Namespace(rsmq.namespace.name, strict_names=False)
        self._also = set(also)
        self._progress = progress
        # The number of ids or fields that the current repair has repaired so far.
        self._done = 0
        # The error after which no further repair is tried.
        self._final_error: RedisError | None = None

    def repair(self, finding: Finding) -> Repair:
        """Repair one finding."""
        self._done = 0
        if self._final_error is not None:
            return Repair(finding, 0, self._final_error)
        try:
            return Repair(finding, self._repair(finding))
        except QueueNotFound:  # deleted since the examination
            return Repair(finding, self._done)
        except RedisError as error:
            if _concerns_all_calls(error):
                self._final_error = error
            return Repair(finding, self._done, error)

    def _repair(self, finding: Finding) -> int:
        if finding.queue is None:
            # The repairs for a namespace: its index expires, or contains an empty name.
            return self._rsmq.run(
                remove_empty_name(self._namespace)
                if finding.code == "empty-name"
                else persist_keys([self._namespace.queues], ())
            )
        keys = self._namespace.queue(finding.queue)
        operation = self._make_queue_repair(finding, keys)
        if operation is not None:
            return self._rsmq.run(operation)
        if finding.code in _RECORD_REPAIRS:
            return self._repair_records(finding, keys)
        if finding.code in {"orphan-body", "left-over-counter"}:
            return self._repair_orphan_fields(finding, keys)
        if finding.code in _ENTRY_REPAIRS:
            choose, build = _ENTRY_REPAIRS[finding.code]
            return self._repair_entries(finding, keys, choose, build)
        return self._repair_attributes(finding, keys)

    def _make_queue_repair(self, finding: Finding, keys: QueueKeys) -> Operation[int] | None:
        """Return the repair of a queue as a whole; None if the finding is not about that."""
        name = keys.name
        if finding.code == "expiring":
            return persist_keys([keys.hash, keys.zset], (name,))
        if finding.code in {"half-queue", "unlisted-queue", "listed-without-queue"}:
            return repair_listing(self._namespace, name, create=False)
        if finding.code == "messages-without-queue":
            return repair_listing(self._namespace, name, create=True)
        if finding.code == "left-over-extension":
            left_over = [key for key in keys.extensions if key != keys.staged]
            return remove_extensions(keys, left_over)
        return None

    def _repair_lost_groups(self, finding: Finding, keys: QueueKeys) -> int:
        """Make messages whose groups are lost visible, in the order of their sends."""
        held_back = {
            entry.id: entry
            for now, entry in walk_entries(self._rsmq, keys)
            if looks_held_back(entry, now)
        }
        done = 0
        for part in _split_into_steps(list(find_ungrouped(self._rsmq, keys, held_back).ids)):
            changes = [(id, held_back[id].score, b"%d" % (_parse_sent_ms(id) or 0)) for id in part]
            done += self._rsmq.run(repair_scores(keys, changes))
            self._report_progress(finding, done)
        return done

    def _repair_groups(self, finding: Finding, keys: QueueKeys) -> int:
        number = finding.number
        if finding.code == "wrong-group-key":
            number = self._done = self._rsmq.run(remove_wrong_keys(keys, get_group_kinds(keys)))
        admitted = self._rsmq.run_steps(sweep_groups(self._namespace, keys.name))
        return admitted if finding.code == "waiting-group" else number

    def _repair_records(self, finding: Finding, keys: QueueKeys) -> int:
        """Repair the records of groups or of rates."""
        if finding.code == "lost-group":
            return self._repair_lost_groups(finding, keys)
        if finding.code != "far-turn":
            return self._repair_groups(finding, keys)
        while number := self._rsmq.run(repair_turns(keys)):
            self._done += number
        return self._done

    def _repair_attributes(self, finding: Finding, keys: QueueKeys) -> int:
        done = 0
        for _ in range(_ATTRIBUTE_ATTEMPTS):
            facts = read_queue_facts(self._rsmq, self._namespace, keys.name)
            if facts is None or facts.hash_kind != "hash":
                return done
            if finding.code == "dead-letter-gone":
                return self._create_dead_letter_queue(facts.fields.get(DEAD_LETTER_QUEUE))
            changes = [
                change for code, _, change in find_attribute_faults(facts) if code == finding.code
            ]
            if not changes:
                return done
            if finding.code == "milliseconds":
                number = len(changes) * self._rsmq.run(_divide(keys, facts, changes))
            else:
                number = self._rsmq.run(repair_fields(keys, changes))
            done += number
            if number == len(changes):
                return done
        return done

    def _create_dead_letter_queue(self, target: bytes | None) -> int:
        if target is None:
            return 0
        operation = create_queue(self._namespace, decode_name(target), exist_ok=True)
        return int(self._rsmq.run(operation))

    def _repair_entries(
        self,
        finding: Finding,
        keys: QueueKeys,
        choose: Callable[[QueueEntry, int], T | None],
        build: Callable[[QueueKeys, list[T]], Operation[int]],
    ) -> int:
        """
        Repair ids in the queue.

        Ids are collected first, and changed when the walk is over: a change during the walk would
        make it skip or repeat ids.

        Args:
            finding: the finding.
            keys: the queue's keys.
            choose: returns the change of an entry, by the server's time in ms; None to skip it.
            build: returns the operation that makes these changes.
        """
        # If the queue has no hash, its sorted set may also have members of another program.
        only_ids = finding.code == "ids-without-queue"
        code = "ghost" if only_ids else finding.code
        facts = read_queue_facts(self._rsmq, self._namespace, keys.name)
        delay_ms = 0 if facts is None else get_delay_ms(facts)
        done = 0
        while True:
            changes: list[T] = []
            for now, entry in walk_entries(self._rsmq, keys):
                if only_ids and not looks_like_id(entry.id):
                    continue
                if code in find_entry_faults(entry, now, delay_ms):
                    change = choose(entry, now)
                    if change is not None:
                        changes.append(change)
                if len(changes) == MAX_REMEMBERED_IDS:
                    break
            done_before = done
            for part in _split_into_steps(changes):
                done += self._rsmq.run(build(keys, part))
                self._report_progress(finding, done)
            if len(changes) < MAX_REMEMBERED_IDS or done == done_before:
                return done

    def _repair_orphan_fields(self, finding: Finding, keys: QueueKeys) -> int:
        build = self._choose_field_repair(finding.code, keys)
        if build is None:
            return 0
        done = 0
        while True:
            ids, has_young = self._find_orphan_ids(finding.code, keys)
            if finding.code == "orphan-body" and has_young:
                # Some may be a send or a delete in progress.
                time.sleep(GRACE_MS / 1000)
                confirmed, _ = self._find_orphan_ids(finding.code, keys)
                ids = {id: None for id in ids if id in confirmed}
            done_before = done
            # The first messages of a group are restored first: the others wait for them.
            for part in _split_into_steps(sorted(ids)):
                done += self._rsmq.run(build(part))
                self._report_progress(finding, done)
            if len(ids) < MAX_REMEMBERED_IDS or done == done_before:
                return done

    def _find_orphan_ids(self, code: str, keys: QueueKeys) -> tuple[dict[bytes, None], bool]:
        """Return ids of faulty fields, and whether one of them may be younger than ``GRACE_MS``."""
        ids: dict[bytes, None] = {}
        has_young = False
        for now, orphan in walk_orphan_fields(self._rsmq, keys):
            if find_field_fault(orphan) == code:
                ids[orphan.id] = None
                has_young = has_young or not is_old(orphan.id, now)
            if len(ids) == MAX_REMEMBERED_IDS:
                break
        return ids, has_young

    def _choose_field_repair(
        self, code: str, keys: QueueKeys
    ) -> Callable[[Sequence[bytes]], Operation[int]] | None:
        """Return the function from ids to the operation that repairs their fields, if chosen."""
        if code == "left-over-counter":
            return lambda ids: remove_orphan_fields(keys, ids, bodies=False)
        if "orphan-body:restore" in self._also:
            return lambda ids: restore_orphan_bodies(keys, [(id, _parse_sent_ms(id)) for id in ids])
        if "orphan-body:remove" in self._also:
            return lambda ids: remove_orphan_fields(keys, ids, bodies=True)
        return None

    def _report_progress(self, finding: Finding, done: int) -> None:
        self._done = done
        if self._progress:
            self._progress(finding, done)


def _concerns_all_calls(error: RedisError) -> bool:
    """Return whether further calls would fail too: a lost connection, or a read-only server."""
    is_refusal = isinstance(error, ResponseError)
    return not is_refusal or classify(error, is_sent=False) is Failure.NOTHING_RAN


def _divide(keys: QueueKeys, facts: QueueFacts, changes: list[Change]) -> Operation[int]:
    """Return the operation that stores vt and delay in seconds, of which some are in ms."""
    new = {field: value for field, _, value in changes}
    vt, delay = (
        int(parse_number(new.get(name) or facts.fields[name.decode()]) or 0)
        for name in (b"vt", b"delay")
    )
    return divide_milliseconds(keys, facts.fields, vt, delay)


def _parse_sent_ms(id: bytes) -> int | None:
    us = parse_sent_us(decode_name(id))
    return None if us is None else us // 1000


def _split_into_steps(changes: list[T]) -> Iterator[list[T]]:
    for first in range(0, len(changes), _IDS_PER_STEP):
        yield changes[first : first + _IDS_PER_STEP]


def _choose_ghost(entry: QueueEntry, now: int) -> tuple[bytes, bool]:
    return entry.id, is_certain_ghost(entry, now)


def _choose_counters(entry: QueueEntry, _now: int) -> list[Change]:
    """Return changes that give a message both a receive count and a time, or neither."""
    count_field, time_field = receive_count_field(entry.id), first_received_field(entry.id)
    count, time = entry.receive_count, entry.first_received
    if count is None:
        return [(time_field, time, None)]
    changes: list[Change] = [] if is_receive_count(count) else [(count_field, count, b"1")]
    if time is None or not is_time(time):
        changes.append((time_field, time, NOW_MS))
    return changes


def _repair_counters(keys: QueueKeys, groups: list[list[Change]]) -> Operation[int]:
    return repair_fields(keys, [change for changes in groups for change in changes])


def _choose_score_from_us(entry: QueueEntry, _now: int) -> tuple[bytes, bytes, bytes]:
    return entry.id, entry.score, b"%d" % (float(entry.score) // 1000)


def _choose_score_from_seconds(entry: QueueEntry, _now: int) -> tuple[bytes, bytes, bytes]:
    return entry.id, entry.score, b"%d" % round(float(entry.score) * 1000)


def _choose_first_received(entry: QueueEntry, _now: int) -> list[Change]:
    time = int(entry.first_received or 0)
    new = time * 1000 if time < UNIX_SECONDS_LIMIT else time // 1000
    return [(first_received_field(entry.id), entry.first_received, b"%d" % new)]


def _choose_first_received_now(entry: QueueEntry, _now: int) -> list[Change]:
    return [(first_received_field(entry.id), entry.first_received, NOW_MS)]


def _choose_visible_now(entry: QueueEntry, _now: int) -> tuple[bytes, bytes, None]:
    return entry.id, entry.score, None


def _choose_sent_now(entry: QueueEntry, now: int) -> tuple[bytes, bytes, bytes]:
    return entry.id, entry.score, b"%d" % (now + max(get_initial_wait_ms(entry), 0))


def _choose_new_sent_time(entry: QueueEntry, now: int) -> tuple[bytes, int] | None:
    """Return the sent time in us for a new id: that of the old id, or else of its score."""
    if entry.receive_count is not None and float(entry.score) > now:
        return None  # in flight: its consumer will delete it by the old id
    us = parse_sent_us(decode_name(entry.id), now)
    return entry.id, int(min(max(float(entry.score), 0), now)) * 1000 if us is None else us


#: For each code: the function from an entry and the server's time in ms to its change (None to
#: skip the entry), and the function from changes to the operation that makes them.
_ENTRY_REPAIRS: dict[
    str, tuple[Callable[[QueueEntry, int], Any], Callable[..., Operation[int]]]
] = {
    "attribute-id": (_choose_ghost, remove_ghost_ids),
    "ghost": (_choose_ghost, remove_ghost_ids),
    "ids-without-queue": (_choose_ghost, remove_ghost_ids),
    "bad-counter": (_choose_counters, _repair_counters),
    "count-without-time": (_choose_counters, _repair_counters),
    "odd-first-received": (_choose_first_received, _repair_counters),
    "first-received-in-future": (_choose_first_received_now, _repair_counters),
    "microseconds-score": (_choose_score_from_us, repair_scores),
    "seconds-score": (_choose_score_from_seconds, repair_scores),
    "far-future": (_choose_visible_now, repair_scores),
    "sent-in-future": (_choose_sent_now, repair_scores),
    "undeletable-id": (_choose_new_sent_time, replace_ids),
}
