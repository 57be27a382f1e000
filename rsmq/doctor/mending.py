"""
``repair``: safe repairs, and those that a person has asked for by name.

Each step is an atomic script that looks again at what it changes, for about a thousand ids; other
programs go on between them. What is broken off goes on when it is run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rsmq.client import RSMQ
from rsmq.doctor.attributes import wrong_attributes
from rsmq.doctor.catalogue import WAYS
from rsmq.doctor.finding import Finding
from rsmq.doctor.messages import (
    GRACE_MS,
    LAST_SECOND,
    REMEMBERED,
    delay_ms_of,
    fault_of_field,
    faults_of_row,
    is_count,
    is_known_ghost,
    is_old,
    is_time,
    looks_like_id,
    wait_ms,
    walk_fields,
    walk_rows,
)
from rsmq.doctor.queues import facts_of
from rsmq.errors import InvalidFormat, QueueNotFound, show, show_all
from rsmq.operations.doctor import (
    NOW_MS,
    Change,
    StoredRow,
    mend_fields,
    mend_listing,
    mend_scores,
    persist_keys,
    remint_messages,
    remove_extensions,
    remove_ghosts,
    remove_left_over,
    restore_orphans,
)
from rsmq.operations.operation import Operation
from rsmq.operations.queues import create_queue
from rsmq.wire.fields import DEAD_LETTER_QUEUE, first_received_field, receive_count_field
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import DEFAULT_DELAY, DEFAULT_MAXSIZE, DEFAULT_VT
from rsmq.wire.names import decode_name

T = TypeVar("T")

#: In this order: a queue is made whole before its messages, and unlisted when they are gone. What
#: are milliseconds may be too large a number of seconds too, and must not be cut before.
_ORDER = (
    "expiring", "half-queue", "messages-without-queue", "unlisted-queue", "milliseconds",
    "bad-attribute", "large-maxsize", "bad-total", "strange-time", "dead-letter-gone",
    "ids-without-queue", "attribute-id", "ghost", "bad-counter", "count-without-time",
    "odd-first-received", "microseconds-score", "seconds-score", "far-future", "sent-in-future",
    "orphan-body", "left-over-counter", "undeletable-id", "left-over-extension",
    "listed-without-queue",
)  # fmt: skip

_A_STEP = 1000


@dataclass(frozen=True, slots=True)
class Repair:
    """
    What was done about a finding.

    Attributes:
        finding: what was found.
        number: how many keys, ids, fields or bodies were mended; fewer than were found where
            some were in order by then, or where a message is held by somebody now.
    """

    finding: Finding
    number: int


def repair(
    rsmq: RSMQ,
    findings: Iterable[Finding],
    *,
    also: Collection[str] = (),
    progress: Callable[[Finding, int], None] | None = None,
) -> list[Repair]:
    """
    Mend what an examination found. It may be run again, and broken off anywhere.

    What one repair uncovers (a restored body may have a bad counter) another examination finds.

    Without ``also`` no body, no message and no receive count that Redis can count up is removed or
    changed. Bodies without an id are touched when they were seen twice, ten seconds apart, unless
    all their ids tell that they are older: that takes ten seconds a queue.

    Args:
        rsmq: a client of the namespace.
        findings: what to mend; those that no repair can mend are passed over.
        also: the names of repairs that must be asked for, of ``Finding.ways``.
        progress: called with the finding and the number that is done, after each step.

    Returns:
        What was done, in the order in which it was.

    Raises:
        InvalidFormat: there is no repair of such a name, or two exclude one another.
    """
    _check(also)
    mended = _Mending(rsmq, also, progress)
    chosen = [each for each in findings if each.safe or set(each.ways) & set(also)]
    chosen = [each for each in chosen if each.code in _ORDER]
    chosen.sort(key=lambda each: _ORDER.index(each.code))
    return [Repair(each, mended.mend(each)) for each in chosen]


def _check(also: Collection[str]) -> None:
    known = tuple(WAYS)
    for way in also:
        if way not in known:
            hint = f"Repairs that must be asked for are {show_all(known)}; got {show(way)}."
            raise InvalidFormat("also", value=way, hint=hint)
    for code in set(WAYS.values()):
        ways = [way for way in WAYS if WAYS[way] == code and way in also]
        if len(ways) > 1:
            hint = f"{show(ways[0])} and {show(ways[1])} exclude one another; choose one."
            raise InvalidFormat("also", value=ways, hint=hint)


class _Mending:
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

    def mend(self, finding: Finding) -> int:
        """Mend one finding; how many of it."""
        try:
            return self._mend(finding)
        except QueueNotFound:  # deleted meanwhile
            return 0

    def _mend(self, finding: Finding) -> int:
        if finding.queue is None:
            # Of the namespace only the index can be mended.
            return self._rsmq.run(persist_keys([self._namespace.queues], ()))
        keys = self._namespace.queue(finding.queue)
        whole = self._whole(finding, keys)
        if whole is not None:
            return self._rsmq.run(whole)
        if finding.code in {"orphan-body", "left-over-counter"}:
            return self._fields(finding, keys)
        if finding.code in _OF_ROWS:
            choose, build = _OF_ROWS[finding.code]
            return self._rows(finding, keys, choose, build)
        return self._attributes(finding, keys)

    def _whole(self, finding: Finding, keys: QueueKeys) -> Operation[int] | None:
        name = keys.name
        if finding.code == "expiring":
            return persist_keys([keys.hash, keys.zset], (name,))
        if finding.code in {"half-queue", "unlisted-queue", "listed-without-queue"}:
            return mend_listing(self._namespace, name, make=False)
        if finding.code == "messages-without-queue":
            return mend_listing(self._namespace, name, make=True)
        if finding.code == "left-over-extension":
            kept = [key for key in keys.extensions if key != keys.staged]
            return remove_extensions(keys, kept)
        return None

    def _attributes(self, finding: Finding, keys: QueueKeys) -> int:
        facts = facts_of(self._rsmq, self._namespace, keys.name)
        if facts is None or facts.hash_kind != "hash":
            return 0
        if finding.code == "dead-letter-gone":
            return self._dead_letter_queue(facts.fields.get(DEAD_LETTER_QUEUE))
        changes = [change for code, _, change in wrong_attributes(facts) if code == finding.code]
        return self._rsmq.run(mend_fields(keys, changes)) if changes else 0

    def _dead_letter_queue(self, target: bytes | None) -> int:
        if target is None:
            return 0
        made = create_queue(
            self._namespace, decode_name(target), vt=DEFAULT_VT,
            delay=DEFAULT_DELAY, maxsize=DEFAULT_MAXSIZE, exist_ok=True,
        )  # fmt: skip
        return int(self._rsmq.run(made))

    def _rows(
        self,
        finding: Finding,
        keys: QueueKeys,
        choose: Callable[[StoredRow, int], T | None],
        build: Callable[[QueueKeys, list[T]], Operation[int]],
    ) -> int:
        """Ids are gathered first: a walk would stumble over what is changed behind it."""
        # Where there is no queue, something else may stand in the sorted set.
        only_ids = finding.code == "ids-without-queue"
        code = "ghost" if only_ids else finding.code
        facts = facts_of(self._rsmq, self._namespace, keys.name)
        delay_ms = 0 if facts is None else delay_ms_of(facts)
        done = 0
        while True:
            found: list[T] = []
            for now, row in walk_rows(self._rsmq, keys):
                if only_ids and not looks_like_id(row.id):
                    continue
                if code in faults_of_row(row, now, delay_ms):
                    chosen = choose(row, now)
                    if chosen is not None:
                        found.append(chosen)
                if len(found) == REMEMBERED:
                    break
            before = done
            for part in _parts(found):
                done += self._rsmq.run(build(keys, part))
                self._tell(finding, done)
            if len(found) < REMEMBERED or done == before:
                return done

    def _fields(self, finding: Finding, keys: QueueKeys) -> int:
        build = self._of_fields(finding.code, keys)
        if build is None:
            return 0
        done = 0
        while True:
            loose, young = self._loose(finding.code, keys)
            if finding.code == "orphan-body" and young:
                # They may be half of a send or of a delete now.
                time.sleep(GRACE_MS / 1000)
                again, _ = self._loose(finding.code, keys)
                loose = {id: None for id in loose if id in again}
            before = done
            for part in _parts(list(loose)):
                done += self._rsmq.run(build(part))
                self._tell(finding, done)
            if len(loose) < REMEMBERED or done == before:
                return done

    def _loose(self, code: str, keys: QueueKeys) -> tuple[dict[bytes, None], bool]:
        """Ids with such fields, and whether one of them does not tell that it is old."""
        found: dict[bytes, None] = {}
        young = False
        for now, loose in walk_fields(self._rsmq, keys):
            if fault_of_field(loose) == code:
                found[loose.id] = None
                young = young or not is_old(loose.id, now)
            if len(found) == REMEMBERED:
                break
        return found, young

    def _of_fields(
        self, code: str, keys: QueueKeys
    ) -> Callable[[Sequence[bytes]], Operation[int]] | None:
        if code == "left-over-counter":
            return lambda ids: remove_left_over(keys, ids, bodies=False)
        if "orphan-body:restore" in self._also:
            return lambda ids: restore_orphans(keys, [(id, _sent(id)) for id in ids])
        if "orphan-body:remove" in self._also:
            return lambda ids: remove_left_over(keys, ids, bodies=True)
        return None

    def _tell(self, finding: Finding, done: int) -> None:
        if self._progress:
            self._progress(finding, done)


def _sent(id: bytes) -> int | None:
    us = parse_sent_us(decode_name(id))
    return None if us is None else us // 1000


def _parts(found: list[T]) -> Iterator[list[T]]:
    for at in range(0, len(found), _A_STEP):
        yield found[at : at + _A_STEP]


def _ghost(row: StoredRow, now: int) -> tuple[bytes, bool]:
    return row.id, is_known_ghost(row, now)


def _counters(row: StoredRow, now: int) -> list[Change]:  # noqa: ARG001 - as the others have it
    """Changes after which a message has both a receive count and a time, or none of them."""
    count, first = receive_count_field(row.id), first_received_field(row.id)
    if row.count is None:
        return [(first, row.first, None)]
    changes: list[Change] = [] if is_count(row.count) else [(count, row.count, b"1")]
    if row.first is None or not is_time(row.first):
        changes.append((first, row.first, NOW_MS))
    return changes


def _mend_counters(keys: QueueKeys, found: list[list[Change]]) -> Operation[int]:
    return mend_fields(keys, [change for changes in found for change in changes])


def _from_microseconds(row: StoredRow, now: int) -> tuple[bytes, bytes, bytes]:  # noqa: ARG001
    return row.id, row.score, b"%d" % (float(row.score) // 1000)


def _from_seconds(row: StoredRow, now: int) -> tuple[bytes, bytes, bytes]:  # noqa: ARG001
    return row.id, row.score, b"%d" % round(float(row.score) * 1000)


def _first(row: StoredRow, now: int) -> list[Change]:  # noqa: ARG001
    first = int(row.first or 0)
    new = first * 1000 if first < LAST_SECOND else first // 1000
    return [(first_received_field(row.id), row.first, b"%d" % new)]


def _visible_now(row: StoredRow, now: int) -> tuple[bytes, bytes, None]:  # noqa: ARG001
    return row.id, row.score, None


def _sent_now(row: StoredRow, now: int) -> tuple[bytes, bytes, bytes]:
    return row.id, row.score, b"%d" % (now + max(wait_ms(row), 0))


def _reminted(row: StoredRow, now: int) -> tuple[bytes, int] | None:
    """When it was sent, as the old id tells, or its score."""
    if row.count is not None and float(row.score) > now:
        return None  # held: its holder will delete it under the old id
    us = parse_sent_us(decode_name(row.id), now)
    return row.id, int(min(max(float(row.score), 0), now)) * 1000 if us is None else us


_OF_ROWS: dict[str, tuple[Callable[[StoredRow, int], Any], Callable[..., Operation[int]]]] = {
    "attribute-id": (_ghost, remove_ghosts),
    "ghost": (_ghost, remove_ghosts),
    "ids-without-queue": (_ghost, remove_ghosts),
    "bad-counter": (_counters, _mend_counters),
    "count-without-time": (_counters, _mend_counters),
    "odd-first-received": (_first, _mend_counters),
    "microseconds-score": (_from_microseconds, mend_scores),
    "seconds-score": (_from_seconds, mend_scores),
    "far-future": (_visible_now, mend_scores),
    "sent-in-future": (_sent_now, mend_scores),
    "undeletable-id": (_reminted, remint_messages),
}
