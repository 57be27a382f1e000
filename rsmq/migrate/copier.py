"""
Copy: the source stays unchanged, and each of its messages is added to the target once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from redis.exceptions import RedisError

from rsmq.errors import RSMQError, RunReplaced, SourceChanged
from rsmq.errors.printable import format_count
from rsmq.migrate import target as target_queue
from rsmq.migrate.ids_and_scores import CopyConverter, derive_numbered_id
from rsmq.migrate.operations import ADDED, NO_CLAIM, IncomingMessage, RunClaim, open_copy
from rsmq.migrate.report import MigrationReport, add_progress, display_name
from rsmq.migrate.schedules import look
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.migrate.sources.item import STATES, Item
from rsmq.migrate.target import Progress, ProgressCallback, ignore_progress
from rsmq.wire.keys import COPY_BEGUN_FIELD

_MODULUS = 1 << 128

# A limit, since a source may receive messages faster than they are copied.
_MAX_PASSES = 10


def copy(
    source: Source,
    queue: str,
    target: Server,
    to: str,
    *,
    finish: bool = False,
    dry_run: bool = False,
    tell: ProgressCallback = ignore_progress,
) -> MigrationReport:
    """
    Copy the messages of a queue, also those in flight.

    The id of a copy is derived from the message at the source. A record beside the target queue
    says which messages were copied, for 30 days after the last step. So another run adds new
    messages only, and does not add again what was consumed. A run reads the source until a pass
    finds nothing new, and compares the messages with their bodies in the target queue.

    Args:
        source: the source.
        queue: the name of the queue at the source.
        target: the target server.
        to: the name of the target queue; it is created if it is missing.
        finish: True deletes the record of the copy at the end, if the copy is verified.
        dry_run: True changes nothing; the report says what a run would do.
        tell: is called with the progress.

    Returns:
        The report.

    Raises:
        SourceNotFound: there is no such queue at the source.
        NotPossible: the target queue is the source.
        SourceChanged: elements were added to or removed from a plain list, which has no ids, since
            the copy began.
        RunReplaced: another run has finished the copy meanwhile (``finish``), or the target queue
            was deleted.
    """
    began = time.monotonic()
    if not dry_run:
        target_queue.refuse_same_queue(source, queue, target, to)
    found = source.look(queue)
    report = MigrationReport(f"{source.kind}:{queue}", to, "copy", dry_run)
    for note in found.notes:
        report.note(note)
    if finish:
        report.note("--finish closes the copy: another one, or a move, would bring all of it again")
    copier = Copier(source, queue, target, report, tell)
    copier.maxsize = target_queue.read_maxsize(target, to, found)
    copier.total = found.total
    if dry_run:
        target_queue.preview_settings(target, to, found, report)
        copier.preview()
    else:
        target_queue.prepare(source, target, to, found, report)
        try:
            copier.run()
        except (RedisError, RSMQError) as error:
            add_progress(error, copier.added, copier.describe_progress())
            raise
        target_queue.finish(target, to, found)
        if finish and report.verified:
            target.call("UNLINK", copier.keys.copied)
    report.seconds = time.monotonic() - began
    return report


class Copier:
    """
    One run of a copy.

    Attributes:
        keys: the keys of the target queue.
        maxsize: the maxsize of the target queue, for the report.
        total: the number of messages when the run began.
        added: the number of messages that it has added.
    """

    def __init__(
        self,
        source: Source,
        queue: str,
        target: Server,
        report: MigrationReport,
        report_progress: ProgressCallback,
    ) -> None:
        self._source = source
        self._queue = queue
        self._target = target
        self._report = report
        self._report_progress = report_progress
        self.keys = target.rsmq.namespace.queue(report.queue)
        self._is_open = False
        self._claim = NO_CLAIM
        self.maxsize = -1
        self.total = 0
        self.added = 0

    def run(self) -> None:
        """Read the source again and again until a pass finds nothing new."""
        report = self._report
        arrived = before_run = 0
        for number in range(1, _MAX_PASSES + 1):
            before = self._run_pass("copying" if number == 1 else "comparing")
            arrived += report.arrived
            if number == 1:
                before_run = before
            elif report.arrived == 0:
                break
        else:
            report.note("messages keep coming: run it again when no program sends them there")
        is_complete = report.arrived == 0 and report.missing == 0
        report.verified = is_complete and not report.other_records and not report.lost_settings
        report.arrived, report.before = arrived, before_run

    def describe_progress(self) -> str:
        """Return what was done before an error."""
        name = f"{self._source.kind}:{self._queue}"
        return f"{format_count(self.added)} of {name} copied before."

    def preview(self) -> None:
        """Count what a run would do: read the source, the record of the copy, and the queue."""
        report = self._report
        for items, messages in self._read_messages():
            if report.way == "verify":
                look(self._target, report, items)
            copied, new = self._split_copied(messages)
            ids = [each.message.id for each in new if each.message is not None]
            scores = self._target.pipelined([("ZSCORE", self.keys.zset, id) for id in ids])
            copied += [each for each, score in zip(new, scores, strict=True) if score is not None]
            report.arrived += scores.count(None)
            report.before += self._compare(copied)

    def _run_pass(self, phase: str) -> int:
        """Read the source once, and add new messages. Return how many were there before."""
        report = self._report
        self._reset_counts()
        before = done = 0
        for items, messages in self._read_messages():
            report.checksum = (report.checksum + target_queue.sum_checksums(messages)) % _MODULUS
            copied, new = self._split_copied(messages)
            outcomes = target_queue.add_messages(self._target, self.keys, new, self._claim)
            report.arrived += outcomes.count(ADDED)
            self.added += outcomes.count(ADDED)
            copied += [
                each for each, outcome in zip(new, outcomes, strict=True) if outcome != ADDED
            ]
            before += self._compare(copied)
            done += len(items)
            self._report_progress(Progress(phase, done, max(self.total, done)))
        return before

    def _read_messages(self) -> Iterator[tuple[list[Item], list[IncomingMessage]]]:
        """Read the source once: yield items, and those of them that a copy takes. Count both."""
        now_us = self._target.now_us()
        converter = CopyConverter(self._source.kind, self._open_copy()[0])
        for items in self._read_items():
            self._count(items)
            messages = [
                each for each in converter.convert(items, now_us) if each.message is not None
            ]
            self._report.left_out += len(items) - len(messages)
            yield items, messages

    def _split_copied(
        self, messages: list[IncomingMessage]
    ) -> tuple[list[IncomingMessage], list[IncomingMessage]]:
        """Return the messages that were copied before, and the new ones."""
        digests = [each.digest for each in messages]
        if not self._is_open:
            return [], messages
        found = self._target.call("HMGET", self.keys.copied, *digests) if digests else []
        split: tuple[list[IncomingMessage], list[IncomingMessage]] = ([], [])
        for message, stored in zip(messages, found, strict=True):
            split[stored is None].append(message)
        return split

    def _compare(self, copied: list[IncomingMessage]) -> int:
        """Count what became of copied messages. Return how many are in the queue."""
        present, wrong = target_queue.compare_bodies(self._target, self.keys, copied)
        self._report.missing += len(wrong)
        self._report.consumed += len(copied) - present - len(wrong)
        for id in wrong:
            self._report.note("there is another body under its id", id)
        for id, facts in target_queue.find_other_records(self._target, self.keys, copied):
            self._report.note(f"its {facts} are not those of the source", id)
            self._report.other_records += 1
        return present

    def _open_copy(self, list_digest: bytes = b"") -> tuple[int, bytes]:
        """
        Open the copy, or continue the open one. A dry run only reads.

        Returns:
            The Unix microsecond when it was opened, which is the sent time of messages that have
            none; and the digest of the list that is copied.
        """
        if not self._report.dry_run:
            self._is_open = True
            begun_us, copied_digest = self._target.rsmq.run(
                open_copy(
                    self.keys,
                    lifetime=target_queue.COPY_LIFETIME_SECONDS,
                    list_field=target_queue.list_field(self._queue),
                    list_digest=list_digest,
                )
            )
            claim = RunClaim(COPY_BEGUN_FIELD, b"%d" % begun_us)
            if self._claim not in {NO_CLAIM, claim}:  # another run has finished the copy meanwhile
                raise RunReplaced(self.keys.copied.decode("utf-8", "surrogateescape"))
            self._claim = claim
            return begun_us, copied_digest
        self._is_open = target_queue.has_copy_record(self._target, self.keys)
        fields = COPY_BEGUN_FIELD, target_queue.list_field(self._queue)
        found = self._target.call("HMGET", self.keys.copied, *fields)
        begun, stored_digest = found if self._is_open else (None, None)
        return int(begun or self._target.now_us()), stored_digest or list_digest

    def _reset_counts(self) -> None:
        """Reset the counts of the report: those of the last pass count."""
        report = self._report
        report.found = dict.fromkeys(STATES, 0)
        report.arrived = report.consumed = report.left_out = report.missing = report.checksum = 0
        report.other_records = 0
        for note in report.notes.values():
            if note.number:
                note.number, note.examples = 0, []

    def _count(self, items: list[Item]) -> None:
        for item in items:
            self._report.found[item.state] += 1
            if self._source.has_ids and item.body is not None and not item.identity:
                self._report.note(
                    "without an id: a copy leaves it out, a move takes it", display_name(item)
                )
        self._report.note_items(items, self.maxsize)

    def _read_items(self) -> Iterator[list[Item]]:
        return self._source.newest_first(self._queue) if self._source.has_ids else self._read_list()

    def _read_list(self) -> Iterator[list[Item]]:
        """
        Read a plain list, whose elements have no ids.

        Their places identify them as long as no element is added or removed.

        Raises:
            SourceChanged: the list differs from the one that the copy was opened with, or changes
                meanwhile.
        """
        fingerprint, total = self._fingerprint()
        sent_us, copied_fingerprint = self._open_copy(fingerprint)
        if copied_fingerprint != fingerprint:
            raise self._source_changed()
        hash_state = hashlib.blake2b(digest_size=12)
        place = total
        for items in self._source.newest_first(self._queue):
            numbered_items = []
            for item in items:
                place -= 1
                _add(hash_state, item)
                identity = b"%b:%d" % (fingerprint, place)
                id = derive_numbered_id(sent_us, max(place, 0), self._source.kind, identity)
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
        if hash_state.hexdigest().encode() != fingerprint:
            raise self._source_changed()

    def _fingerprint(self) -> tuple[bytes, int]:
        """Return the hash of all elements of a plain list, and their number."""
        hash_state = hashlib.blake2b(digest_size=12)
        total = 0
        for items in self._source.newest_first(self._queue):
            for item in items:
                _add(hash_state, item)
            total += len(items)
            self._report_progress(Progress("reading", total, max(self.total, total)))
        return hash_state.hexdigest().encode(), total

    def _source_changed(self) -> SourceChanged:
        return SourceChanged(
            f"The list {self._queue!r} was changed since the copy began",
            value=self._queue,
            hint="Its elements have no ids, so a copy can't tell which of them it has. Stop its "
            "producers and workers, remove what was copied (rsmq purge), and copy again; or move "
            "them: a move is possible while they work.",
        )


def _add(hash_state: hashlib.blake2b, item: Item) -> None:
    hash_state.update(b"%d:%b" % (len(item.element.raw), item.element.raw))
