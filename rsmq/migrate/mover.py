"""
Move: each message is removed from the source and added to the target.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from redis.exceptions import RedisError

from rsmq.errors import NotPossible, RSMQError, RunReplaced
from rsmq.errors.printable import format_count
from rsmq.migrate import target as target_queue
from rsmq.migrate.ids_and_scores import MoveConverter, make_digest
from rsmq.migrate.move_run import MoveRun
from rsmq.migrate.operations import (
    ADDED,
    ALREADY_COPIED,
    CHANGED,
    CONFLICT,
    MOVED,
    NO_WATERMARK,
    Destination,
    IncomingMessage,
    ToQueue,
    UncertainOutcomes,
    Watermark,
    forget_copies,
)
from rsmq.migrate.preview import preview_move
from rsmq.migrate.report import MigrationReport, add_progress
from rsmq.migrate.schedules import take_over
from rsmq.migrate.server import Server
from rsmq.migrate.set_aside import count_set_aside
from rsmq.migrate.sources.base import PAGE_SIZE, Source, score_and_id
from rsmq.migrate.sources.item import Item, ItemState
from rsmq.migrate.target import Progress, ProgressCallback, ignore_progress
from rsmq.wire.keys import order_field

_MODULUS = 1 << 128


def move(
    source: Source,
    queue: str,
    target: Server,
    to: str,
    *,
    in_flight: bool = False,
    dry_run: bool = False,
    tell: ProgressCallback = ignore_progress,
) -> MigrationReport:
    """
    Move the messages of a queue, the next one first.

    On one server a message is moved in one atomic step. Between two servers it is first set aside
    at the source, then added to the target queue, compared, and removed from aside. If a run breaks
    off in between, the next run continues with the messages set aside.

    Args:
        source: the source.
        queue: the name of the queue at the source.
        target: the target server.
        to: the name of the target queue; it is created if it is missing.
        in_flight: True also moves messages in flight; otherwise these stay at the source.
        dry_run: True changes nothing; the report says what a run would do.
        tell: is called with the progress.

    Returns:
        The report.

    Raises:
        SourceNotFound: there is no such queue at the source.
        NotPossible: the target queue is the source; a copy of a list without ids to it is open;
            another run moves the same queue between two servers; or messages were set aside for
            another target queue.
    """
    began = time.monotonic()
    if not dry_run:
        target_queue.refuse_same_queue(source, queue, target, to)
    refuse_open_copy(source, queue, target, to)
    found = source.look(queue)
    report = MigrationReport(f"{source.kind}:{queue}", to, "move", dry_run)
    for note in found.notes:
        report.note(note)
    if dry_run:
        maxsize = target_queue.read_maxsize(target, to, found)
        target_queue.preview_settings(target, to, found, report)
        preview_move(source, queue, target, report, maxsize, in_flight=in_flight)
    else:
        target_queue.prepare(source, target, to, found, report)
        mover = Mover(source, queue, target, to, report, in_flight=in_flight)
        mover.maxsize = target_queue.read_maxsize(target, to, found)
        try:
            _move_all(mover, found.total, tell)
            mover.complete()
        except (RedisError, RSMQError) as error:
            add_progress(error, report.arrived, mover.describe_progress())
            raise
        finally:
            mover.release()
        if not in_flight:
            report.left = mover.skipped + source.number_in_flight(queue)
            report.found["in_flight"] += report.left
        target_queue.finish(target, to, found)
        is_complete = report.missing == 0 and report.has_all_schedules and not report.lost_settings
        report.verified = is_complete and not mover.has_messages_aside()
    report.seconds = time.monotonic() - began
    return report


def _move_all(mover: Mover, total: int, report_progress: ProgressCallback) -> None:
    mover.resume()
    again = True
    while again:
        removed = mover.removed
        while mover.step():
            done = mover.removed + mover.skipped
            total = max(total, done)
            report_progress(Progress("moving", done, total))
        # Skipped messages may be gone, and other messages may be in their places now.
        again = mover.skipped > 0 and mover.removed > removed
    mover.resume()


def refuse_open_copy(source: Source, queue: str, target: Server, to: str) -> None:
    """
    Refuse to move a list without ids if a copy of it to the target queue is open.

    Raises:
        NotPossible: a copy is open. Its elements would be in the target queue twice.
    """
    keys = target.rsmq.namespace.queue(to)
    if source.has_ids or not target_queue.has_copy_record(target, keys):
        return
    if target.call("HEXISTS", keys.copied, target_queue.list_field(queue)):
        raise NotPossible(
            f"A copy of the list {queue!r} to {to!r} is open: moved too, its elements would be "
            "there twice",
            hint="They have no ids. If the copy is what you want, remove the list; if not, remove "
            f"what was copied (rsmq purge {to}), and move. rsmq migrate --copy --finish closes the "
            "copy.",
        )


class _Order:
    """
    The order of messages in the target queue: of those that were in flight, or of the others.

    Attributes:
        converter: their converter.
        field: the field of their watermark in the record of copies.
        stored: the watermark in that field; empty for none.
    """

    def __init__(self, kind: str, field: bytes) -> None:
        self.converter = MoveConverter(kind)
        self.field = field
        self.stored = b""

    def watermark(self) -> Watermark:
        """Return the watermark behind the converted messages, if it is not the stored one."""
        after = self.converter.watermark
        return NO_WATERMARK if after == self.stored else Watermark(self.field, after, self.stored)


class Mover:
    """
    A run of a move, which moves messages in batches.

    Attributes:
        removed: the number of messages that it has removed from the source.
        skipped: the number of messages that it has skipped since it last began at the first one:
            those in flight, and those whose send is not complete.
        maxsize: the maxsize of the target queue, for the report.
        is_at_end: whether the last step found no message.
    """

    def __init__(
        self,
        source: Source,
        queue: str,
        target: Server,
        to: str,
        report: MigrationReport,
        *,
        in_flight: bool,
    ) -> None:
        """
        Prepare a move without changing anything.

        Args:
            source: the source.
            queue: the name of the queue at the source.
            target: the target server.
            to: the name of the target queue, which must exist.
            report: the report in which it counts.
            in_flight: whether to move messages in flight.
        """
        self._source = source
        self._queue = queue
        self._target = target
        self._keys = target.rsmq.namespace.queue(to)
        self._report = report
        self._in_flight = in_flight
        self._is_atomic = source.can_be_atomic and target.is_also(source.server)
        name = f"{source.kind}:{queue}"
        self._in_flight_order = _Order(source.kind, order_field(name, in_flight=True))
        self._ready_order = _Order(source.kind, order_field(name))
        self._run = MoveRun(source, queue, target, self._keys, is_atomic=self._is_atomic)
        # Messages in flight were received before those that are ready, so they come first.
        self._states: Sequence[ItemState] = (
            ("in_flight", "ready", "delayed") if in_flight else ("ready", "delayed")
        )
        self._skipped_by_state: dict[ItemState, int] = {}
        self._conflicts: set[str] = set()
        self.is_at_end = False
        self.removed = self.skipped = 0
        self.maxsize = -1

    def step(self, number: int = PAGE_SIZE, *, with_delayed: bool = True) -> int:
        """
        Move the next messages.

        Args:
            number: the number of messages at most.
            with_delayed: whether to move messages that are not due yet.

        Returns:
            The number of messages that it has read. 0 at the end, after which it begins at the
            first one again.

        Raises:
            NotPossible: another run moves the same queue between two servers.
        """
        try:
            return self._step(number, with_delayed=with_delayed)
        except RunReplaced:
            self._run.lose_claim()
            self.skipped = 0
            self.resume()  # fails if the other run has not ended
            return self._step(number, with_delayed=with_delayed)

    def _step(self, number: int, *, with_delayed: bool) -> int:
        if not self._run.acquire():
            self.resume()
        if self.is_at_end:
            self.is_at_end, self.skipped = False, 0
        for state in self._states:
            if state == "delayed" and not with_delayed:
                continue
            skip = self._skipped_by_state.get(state, 0)
            place, items = self._source.next_items(self._queue, state, number, skip)
            if items:
                self._skipped_by_state[state] = skip + self._move(state, place, items)
                return len(items)
        self._skipped_by_state.clear()
        self.is_at_end = True
        return 0

    def resume(self) -> None:
        """
        Continue what an earlier run began.

        Add the messages set aside to the target queue. Acknowledge those that are still at the
        source although the target queue has them. Continue in the order of the last run.

        Raises:
            NotPossible: another run moves the same queue; or the messages were set aside for
                another target queue.
        """
        self._run.acquire()
        while not self._resume():
            pass

    def _resume(self) -> bool:
        """Continue what an earlier run began. Return False if another run may have done so."""
        self._skipped_by_state.clear()
        self._read_watermarks()
        now_ms = self._target.now_us() // 1000
        for messages in self._source.aside(self._queue):
            if not self._run.acquire():
                return False  # another run may have moved these messages since they were read
            self._add_set_aside(messages)
            self._continue_after(messages, now_ms)
        if target_queue.has_copy_record(self._target, self._keys):
            self._acknowledge_copied()
        return True

    def _continue_after(self, set_aside: list[IncomingMessage], now_ms: int) -> None:
        """
        Continue behind messages that an earlier run has set aside.

        Those with a score after ``now_ms`` are delayed, and have no place in the order of others.
        Those that were received were in flight.
        """
        for each in sorted(set_aside, key=score_and_id):
            score, id = score_and_id(each)
            if score <= now_ms:
                was_received = each.message is not None and each.message.receive_count > 0
                order = self._in_flight_order if was_received else self._ready_order
                order.converter.include(score, id)
        self._separate_orders()

    def _separate_orders(self) -> None:
        """Put ready messages behind those in flight, and those in flight before ready ones."""
        in_flight, ready = self._in_flight_order.converter, self._ready_order.converter
        if in_flight.last is not None:
            ready.continue_after(*in_flight.last)
        in_flight.stay_before(ready.first)

    def _acknowledge_copied(self) -> None:
        """Remove messages from the source that the target queue has, or had."""
        pending = [each for found in self._source.may_have_arrived(self._queue) for each in found]
        for at in range(0, len(pending), PAGE_SIZE):
            page = pending[at : at + PAGE_SIZE]
            copied = self._target.call("HMGET", self._keys.copied, *(each.digest for each in page))
            self._forget(
                [each for each, stored in zip(page, copied, strict=True) if stored is not None]
            )

    def complete(self) -> None:
        """Delete the facts about this run beside the target queue: there is nothing to continue."""
        self._run.complete([self._in_flight_order.field, self._ready_order.field])

    def release(self) -> None:
        """Release the lock, so that another run can move the queue's messages."""
        self._run.release()

    def _read_watermarks(self) -> None:
        orders = self._in_flight_order, self._ready_order
        stored: list[bytes | None] = [None, None]
        if target_queue.has_copy_record(self._target, self._keys):
            stored = self._target.call("HMGET", self._keys.copied, *(each.field for each in orders))
        for order, watermark in zip(orders, stored, strict=True):
            order.stored = watermark or b""
            order.converter.continue_from(order.stored)
        self._separate_orders()

    def has_messages_aside(self) -> bool:
        """Return whether messages are set aside at the source."""
        return self._count_aside() > 0

    def _count_aside(self) -> int:
        return count_set_aside(self._source, self._queue)

    def describe_progress(self) -> str:
        """Return what was done before an error."""
        name = f"{self._source.kind}:{self._queue}"
        parts = [f"{format_count(self._report.arrived)} of {name} moved before"]
        with suppress(RedisError, RSMQError):  # it may be out of reach
            if aside := self._count_aside():
                parts.append(f"{format_count(aside)} set aside at the source")
        if not self._source.aside_key(self._queue):
            parts.append("those of the last step are in flight at the source")
        return f"{'; '.join(parts)}."

    def _move(self, state: ItemState, place: object, items: list[Item]) -> int:
        """Move messages of one state. Return how many stay where they are."""
        report = self._report
        movable = [
            item
            for item in items
            if (self._in_flight or item.state != "in_flight") and not item.is_half
        ]
        order = self._in_flight_order if state == "in_flight" else self._ready_order
        messages_to_add = order.converter.convert(movable, self._target.now_us())
        batch = list(zip(movable, messages_to_add, strict=True))
        watermark = order.watermark()
        self._separate_orders()
        take_over(self._target, report, movable)
        outcomes = self._source.take(place, batch, self._destination(watermark)) if batch else b""
        if CHANGED in outcomes:
            self._read_watermarks()
            return 0
        order.stored = order.converter.watermark
        self.skipped += len(items) - len(movable)
        if isinstance(outcomes, UncertainOutcomes):
            report.note("a reply of Redis was lost: its messages are moved, but not counted here")
        pairs = list(zip(batch, outcomes, strict=True))
        copied = [
            item
            for (item, _), outcome in pairs
            if outcome == ALREADY_COPIED and item.body is not None
        ]
        moved = [
            (item, message)
            for (item, message), outcome in pairs
            if outcome == MOVED or (outcome == ALREADY_COPIED and item.body is None)
        ]
        conflicts = [message for (_, message), outcome in pairs if outcome == CONFLICT]
        self._note_conflicts(conflicts)
        self.removed += len(moved) + len(copied)
        removed = [*(item for item, _ in moved), *copied]
        for item in removed:
            report.found[item.state] += 1
        report.note_items(removed, self.maxsize)
        messages = [message for _, message in moved if message.message is not None]
        report.before += len(copied)
        report.left_out += len(moved) - len(messages)
        if self._is_atomic:
            self._count_arrived(messages, len(messages))
        else:
            self._add_set_aside(messages, watermark)
            without_message = [message for _, message in moved if message.message is None]
            self._source.forget(self._queue, without_message)
        return len(items) - len(movable) + len(conflicts)

    def _destination(self, watermark: Watermark) -> Destination:
        lifetime = target_queue.COPY_LIFETIME_SECONDS
        return self._run.destination() or ToQueue(
            self._keys, self._target.realtime, watermark, lifetime
        )

    def _note_conflicts(self, messages: list[IncomingMessage]) -> None:
        """Note messages that stay, as the target queue has another body under their id."""
        ids = {each.message.id for each in messages if each.message is not None} - self._conflicts
        self._conflicts |= ids
        self._report.missing += len(ids)
        for id in ids:
            self._report.note("there is another body under its id: it stays", id)

    def _add_set_aside(
        self, set_aside: list[IncomingMessage], watermark: Watermark = NO_WATERMARK
    ) -> None:
        """Add messages set aside to the target queue, compare them, and remove them from aside."""
        messages = [_with_digest(each) for each in set_aside]
        outcomes = target_queue.add_messages(
            self._target, self._keys, messages, self._run.claim, watermark
        )
        _, wrong = target_queue.compare_bodies(self._target, self._keys, messages)
        self._note_conflicts(
            [each for each in messages if each.message is not None and each.message.id in wrong]
        )
        arrived = [
            each for each in messages if each.message is None or each.message.id not in wrong
        ]
        self._count_arrived(arrived, outcomes.count(ADDED))
        self._forget(arrived)

    def _forget(self, arrived: list[IncomingMessage]) -> None:
        if arrived:
            self._source.forget(self._queue, arrived)
            # Only now: as long as a message is set aside, its digest prevents a second addition.
            digests = [each.digest for each in arrived if each.digest]
            self._target.rsmq.run(forget_copies(self._keys, digests, self._run.claim))

    def _count_arrived(self, messages: list[IncomingMessage], added: int) -> None:
        """
        Count messages that are in the target queue.

        Args:
            messages: the messages.
            added: how many of them were not there before.
        """
        self._report.arrived += added
        self._report.before += len(messages) - added
        self._report.checksum += target_queue.sum_checksums(messages)
        self._report.checksum %= _MODULUS


def _with_digest(message: IncomingMessage) -> IncomingMessage:
    """Give a message without a digest one that is made of its id, which the target needs."""
    if message.digest or message.message is None:
        return message
    return replace(message, digest=make_digest("id", message.message.id.encode()))
