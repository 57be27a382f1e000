"""
Copy: the source stays unchanged, and each of its messages is added to the target once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from rsmq.errors import SourceChanged
from rsmq.migrate import target as arriving
from rsmq.migrate.ids_and_scores import Copies, numbered
from rsmq.migrate.report import Report, name_of
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.migrate.sources.item import STATES, Item
from rsmq.migrate.target import Progress, Tell, nobody
from rsmq.operations.migration import ADDED, Arrival, open_copy

_MODULUS = 1 << 128

# A source to which messages come faster than they are copied would never be done.
_PASSES = 10


def copy(
    source: Source,
    queue: str,
    target: Server,
    to: str,
    *,
    finish: bool = False,
    dry_run: bool = False,
    tell: Tell = nobody,
) -> Report:
    """
    Copy the messages of a queue, those in flight too.

    Each gets an id that is made of its source's, and while the copy is open it is kept which were
    copied, for 30 days after the last step: run again, it copies what is new, and brings nothing
    back that was consumed. It reads the source until a reading finds nothing new, and compares
    what it finds with what is in the queue.

    Args:
        source: where the messages are.
        queue: the queue's name there.
        target: where they go.
        to: the queue's name there; it is made if it is missing.
        finish: True closes the copy at the end: what was copied is forgotten.
        dry_run: True changes nothing and tells what would be done.
        tell: is told the progress.

    Raises:
        SourceNotFound: there is no such queue at the source.
        NotPossible: the queue is its own source.
        SourceChanged: elements of a plain list, which have no ids, have come or gone since the copy
            began.
    """
    began = time.monotonic()
    if not dry_run:
        arriving.refuse_itself(source, queue, target, to)
    found = source.look(queue)
    report = Report(f"{source.kind}:{queue}", to, "copy", dry_run)
    for note in found.notes:
        report.note(note)
    if finish:
        report.note("--finish closes the copy: another one, or a move, would bring all of it again")
    run = _Copy(source, queue, target, report, tell)
    run.maxsize = arriving.maxsize(target, to, found)
    run.total = found.total
    if dry_run:
        run.look()
    else:
        arriving.prepare(source, target, to, found, report)
        run.all()
        arriving.settle(target, to, found)
        if finish and report.verified:
            target.raw.unlink(run.keys.copied)
    report.seconds = time.monotonic() - began
    return report


class _Copy:
    """One run of it."""

    def __init__(
        self, source: Source, queue: str, target: Server, report: Report, tell: Tell
    ) -> None:
        self._source = source
        self._queue = queue
        self._target = target
        self._report = report
        self._tell = tell
        self.keys = target.rsmq.namespace.queue(report.queue)
        self._is_open = False
        self.maxsize = -1
        self.total = 0

    def all(self) -> None:
        """Read the source again and again until nothing is new."""
        report = self._report
        arrived = first = 0
        for number in range(1, _PASSES + 1):
            before = self._pass("copying" if number == 1 else "comparing")
            arrived += report.arrived
            if number == 1:
                first = before
            elif report.arrived == 0:
                break
        else:
            report.note("messages keep coming: run it again when nobody sends them there")
        report.verified = report.arrived == 0 and report.missing == 0
        report.arrived, report.before = arrived, first

    def look(self) -> None:
        """Read the source, and what is known of it in the queue."""
        report = self._report
        copies = Copies(self._source.kind, self._open()[0])
        for items in self._items():
            self._count(items)
            arrivals = [
                each
                for each in copies.arrivals(items, self._target.now_us())
                if each.message is not None
            ]
            report.left_out += len(items) - len(arrivals)
            known, new = self._apart(arrivals)
            ids = [each.message.id for each in new if each.message is not None]
            scores = self._target.pipelined(
                lambda pipeline, id: pipeline.zscore(self.keys.zset, id), ids
            )
            known += [each for each, score in zip(new, scores, strict=True) if score is not None]
            report.arrived += scores.count(None)
            report.before += self._compare(known)

    def _pass(self, doing: str) -> int:
        """Read it once; how many were there before."""
        report = self._report
        self._begin_pass()
        now_us = self._target.now_us()
        copies = Copies(self._source.kind, self._open()[0])
        before = done = 0
        for items in self._items():
            self._count(items)
            arrivals = [each for each in copies.arrivals(items, now_us) if each.message is not None]
            report.left_out += len(items) - len(arrivals)
            report.checksum = (report.checksum + arriving.checksum(arrivals)) % _MODULUS
            known, new = self._apart(arrivals)
            told = arriving.land(self._target, self.keys, new)
            report.arrived += told.count(ADDED)
            known += [each for each, answer in zip(new, told, strict=True) if answer != ADDED]
            before += self._compare(known)
            done += len(items)
            self._tell(Progress(doing, done, max(self.total, done)))
        return before

    def _apart(self, arrivals: list[Arrival]) -> tuple[list[Arrival], list[Arrival]]:
        """Those that were copied before, and the others."""
        digests = [each.digest for each in arrivals]
        if not self._is_open:
            return [], arrivals
        found = self._target.raw.hmget(self.keys.copied, digests) if digests else []
        apart: tuple[list[Arrival], list[Arrival]] = ([], [])
        for arrival, stored in zip(arrivals, found, strict=True):
            apart[stored is None].append(arrival)
        return apart

    def _compare(self, known: list[Arrival]) -> int:
        """See what became of messages that were copied; how many are in the queue."""
        present, wrong = arriving.compare(self._target, self.keys, known)
        self._report.missing += len(wrong)
        self._report.consumed += len(known) - present - len(wrong)
        for id in wrong:
            self._report.note("there is another body under its id", id)
        return present

    def _open(self, of_list: bytes = b"") -> tuple[int, bytes]:
        """
        Open the copy, or go on with the open one; a dry run only looks.

        Returns:
            The microsecond when it was opened, by which messages are dated that have no time; and
            the digest of the list that it is of.
        """
        if not self._report.dry_run:
            self._is_open = True
            return self._target.rsmq.run(
                open_copy(
                    self.keys,
                    lifetime=arriving.COPY_OPEN,
                    list_field=arriving.list_field(self._queue),
                    of_list=of_list,
                )
            )
        self._is_open = arriving.is_of_queue(self._target, self.keys)
        found = self._target.raw.hmget(self.keys.copied, "begun", arriving.list_field(self._queue))
        begun, known = found if self._is_open else (None, None)
        return int(begun or self._target.now_us()), known or of_list

    def _begin_pass(self) -> None:
        report = self._report
        report.found = dict.fromkeys(STATES, 0)
        report.arrived = report.consumed = report.left_out = report.missing = report.checksum = 0
        for note in report.notes.values():
            if note.number:
                note.number, note.examples = 0, []

    def _count(self, items: list[Item]) -> None:
        for item in items:
            self._report.found[item.state] += 1
            if self._source.has_ids and item.body is not None and not item.identity:
                self._report.note(
                    "without an id: a copy leaves it out, a move takes it", name_of(item)
                )
        self._report.note_items(items, self.maxsize)

    def _items(self) -> Iterator[list[Item]]:
        if self._source.has_ids:
            return self._source.newest_first(self._queue)
        return self._numbered()

    def _numbered(self) -> Iterator[list[Item]]:
        """Elements of a plain list, whose identity is their place while nobody touches it."""
        fingerprint, total = self._fingerprint()
        sent_us, of = self._open(fingerprint)
        if of != fingerprint:
            raise self._changed()
        known = hashlib.blake2b(digest_size=12)
        place = total
        for items in self._source.newest_first(self._queue):
            numbered_items = []
            for item in items:
                place -= 1
                _add(known, item)
                identity = b"%b:%d" % (fingerprint, place)
                id = numbered(sent_us, max(place, 0), self._source.kind, identity)
                numbered_items.append(
                    Item(
                        item.element,
                        item.state,
                        item.body,
                        identity,
                        id,
                        sent_us,
                        receive_count=item.receive_count,
                        first_received_ms=item.first_received_ms,
                    )
                )
            yield numbered_items
        if known.hexdigest().encode() != fingerprint:
            raise self._changed()

    def _fingerprint(self) -> tuple[bytes, int]:
        known = hashlib.blake2b(digest_size=12)
        total = 0
        for items in self._source.newest_first(self._queue):
            for item in items:
                _add(known, item)
            total += len(items)
            self._tell(Progress("reading", total, max(self.total, total)))
        return known.hexdigest().encode(), total

    def _changed(self) -> SourceChanged:
        return SourceChanged(
            f"The list {self._queue!r} was touched since the copy began",
            value=self._queue,
            hint="Its elements have no ids, so a copy can't tell which of them it has. Stop its "
            "producers and workers, remove what was copied (rsmq purge), and copy again; or move "
            "them: a move may go on while they work.",
        )


def _add(known: hashlib.blake2b, item: Item) -> None:
    known.update(b"%d:%b" % (len(item.element.raw), item.element.raw))
