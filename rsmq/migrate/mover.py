"""
Move: each message is removed from the source and added to the target.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from rsmq.errors import NotPossible
from rsmq.migrate import target as arriving
from rsmq.migrate.ids_and_scores import Moves, digest
from rsmq.migrate.report import Report
from rsmq.migrate.run_lock import Alone
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import PAGE, Source
from rsmq.migrate.sources.item import Item, ItemState
from rsmq.migrate.target import Progress, Tell, nobody
from rsmq.operations.migration import (
    ADDED,
    COPIED,
    OTHER,
    TAKEN,
    Arrival,
    Destination,
    Unsure,
    forget_copies,
)

_MODULUS = 1 << 128


def move(
    source: Source,
    queue: str,
    target: Server,
    to: str,
    *,
    in_flight: bool = False,
    dry_run: bool = False,
    tell: Tell = nobody,
) -> Report:
    """
    Move the messages of a queue, from the next one on.

    On one server a message is taken and comes to the queue in one step. Between two servers it is
    first put aside at the source, then added to the queue, compared, and taken from aside; broken
    off in between, the next run goes on with what is aside.

    Args:
        source: where the messages are.
        queue: the queue's name there.
        target: where they go.
        to: the queue's name there; it is made if it is missing.
        in_flight: True also moves messages that someone is handling; else they stay.
        dry_run: True changes nothing and tells what would be done.
        tell: is told the progress.

    Raises:
        SourceNotFound: there is no such queue at the source.
        NotPossible: the queue is its own source; or a copy of the list to it is open.
    """
    began = time.monotonic()
    if not dry_run:
        arriving.refuse_itself(source, queue, target, to)
    refuse_twice(source, queue, target, to)
    found = source.look(queue)
    report = Report(f"{source.kind}:{queue}", to, "move", dry_run)
    for note in found.notes:
        report.note(note)
    if dry_run:
        maxsize = arriving.maxsize(target, to, found)
        _look(source, queue, target, report, maxsize, in_flight=in_flight)
    else:
        arriving.prepare(source, target, to, found, report)
        mover = Mover(source, queue, target, to, report, in_flight=in_flight)
        mover.maxsize = arriving.maxsize(target, to, found)
        try:
            _all(mover, found.total, tell)
        finally:
            mover.release()
        if not in_flight:
            report.left = mover.passed_over + source.number_in_flight(queue)
            report.found["in_flight"] += report.left
        arriving.settle(target, to, found)
        report.verified = report.missing == 0 and not mover.anything_aside()
    report.seconds = time.monotonic() - began
    return report


def _all(mover: Mover, total: int, tell: Tell) -> None:
    mover.resume()
    again = True
    while again:
        taken = mover.taken
        while mover.step():
            done = mover.taken + mover.passed_over
            total = max(total, done)
            tell(Progress("moving", done, total))
        # Others may have come to where those stood that were passed over, and are gone.
        again = mover.passed_over > 0 and mover.taken > taken
    mover.resume()


def refuse_twice(source: Source, queue: str, target: Server, to: str) -> None:
    """
    Refuse to move a list to where a copy of it is open.

    Raises:
        NotPossible: one is.
    """
    keys = target.rsmq.namespace.queue(to)
    if source.has_ids or not arriving.is_of_queue(target, keys):
        return
    if target.raw.hexists(keys.copied, arriving.list_field(queue)):
        raise NotPossible(
            f"A copy of the list {queue!r} to {to!r} is open: moved too, its elements would be "
            "there twice",
            hint="They have no ids. If the copy is what you want, remove the list; if not, remove "
            f"what was copied (rsmq purge {to}), and move. rsmq migrate --copy --finish closes the "
            "copy.",
        )


def _look(
    source: Source, queue: str, target: Server, report: Report, maxsize: int, *, in_flight: bool
) -> None:
    keys = target.rsmq.namespace.queue(report.queue)
    is_open = arriving.is_of_queue(target, keys)
    for arrivals in source.aside(queue):
        report.arrived += len(arrivals)
    for items in source.newest_first(queue):
        for item in items:
            report.found[item.state] += 1
        taken = [
            item for item in items if (in_flight or item.state != "in_flight") and not item.is_half
        ]
        bodies = [item for item in taken if item.body is not None]
        digests = [digest(source.kind, item.identity) for item in bodies if item.identity]
        known = target.raw.hmget(keys.copied, digests) if is_open and digests else []
        before = len(known) - known.count(None)
        report.before += before
        report.left += len(items) - len(taken)
        report.left_out += len(taken) - len(bodies)
        report.arrived += len(bodies) - before
        report.note_items(taken, maxsize)


class Mover:
    """
    Takes messages of a queue, batch by batch.

    Attributes:
        taken: how many it has taken.
        passed_over: how many it has passed over since it began at the first one, as they are in
            flight.
        maxsize: the limit of the queue, for the report.
    """

    def __init__(
        self,
        source: Source,
        queue: str,
        target: Server,
        to: str,
        report: Report,
        *,
        in_flight: bool,
    ) -> None:
        """
        Make it.

        Args:
            source: where the messages are.
            queue: the queue's name there.
            target: where they go.
            to: the queue's name there, which must exist.
            report: what is done is added to it.
            in_flight: whether to take what someone is handling.
        """
        self._source = source
        self._queue = queue
        self._target = target
        self._keys = target.rsmq.namespace.queue(to)
        self._report = report
        self._in_flight = in_flight
        self._moves = Moves(source.kind)
        self._at_once = source.can_be_atomic and target.is_also(source.server)
        aside = source.aside_key(queue)
        # A step at once needs nobody's consent.
        self._alone = Alone(source.server, aside, f"{source.kind}:{queue}") if aside else None
        # What is handled now was taken before what waits.
        self._states: Sequence[ItemState] = (
            ("in_flight", "ready", "delayed") if in_flight else ("ready", "delayed")
        )
        self._skipped: dict[ItemState, int] = {}
        self._others: set[str] = set()
        self._at_end = False
        self.taken = self.passed_over = 0
        self.maxsize = -1

    def step(self, number: int = PAGE, *, with_delayed: bool = True) -> int:
        """
        Move the next messages.

        Args:
            number: how many at most.
            with_delayed: whether those too that are not due.

        Returns:
            How many it has looked at; 0 at the end, after which it begins at the first one again.
        """
        self._hold()
        if self._at_end:
            self._at_end, self.passed_over = False, 0
        for state in self._states:
            if state == "delayed" and not with_delayed:
                continue
            skip = self._skipped.get(state, 0)
            place, items = self._source.next_items(self._queue, state, number, skip)
            if items:
                self._skipped[state] = skip + self._move(place, items)
                return len(items)
        self._skipped.clear()
        self._at_end = True
        return 0

    def resume(self) -> None:
        """Bring what an earlier run has put aside; and forget at the source what it has brought."""
        for arrivals in self._source.aside(self._queue):
            self._hold()
            self._bring(arrivals)
        if not arriving.is_of_queue(self._target, self._keys):
            return
        waiting = [each for found in self._source.may_have_arrived(self._queue) for each in found]
        for at in range(0, len(waiting), PAGE):
            page = waiting[at : at + PAGE]
            known = self._target.raw.hmget(self._keys.copied, [each.digest for each in page])
            self._forget(
                [each for each, is_known in zip(page, known, strict=True) if is_known is not None]
            )

    def release(self) -> None:
        """Let another run move the queue's messages."""
        if self._alone is not None and not self._at_once:
            self._alone.release()

    def _hold(self) -> None:
        if self._alone is not None and not self._at_once:
            self._alone.hold()

    def anything_aside(self) -> bool:
        """Whether messages are still between the two."""
        key = self._source.aside_key(self._queue)
        return bool(key and self._source.server.raw.exists(key))

    def _move(self, place: object, items: list[Item]) -> int:
        """Move messages; how many stay where they are."""
        report = self._report
        wanted = [
            item
            for item in items
            if (self._in_flight or item.state != "in_flight") and not item.is_half
        ]
        self.passed_over += len(items) - len(wanted)
        given = list(zip(wanted, self._moves.arrivals(wanted, self._target.now_us()), strict=True))
        if self._at_once:
            to = Destination(self._keys, realtime=self._target.realtime)
        else:
            to = Destination(None, self._source.aside_key(self._queue))
        told = self._source.take(place, given, to) if given else b""
        if isinstance(told, Unsure):
            report.note("an answer of Redis was lost: what it took is moved, and not counted here")
        answered = list(zip(given, told, strict=True))
        copied = [
            item for (item, _), answer in answered if answer == COPIED and item.body is not None
        ]
        taken = [
            (item, arrival)
            for (item, arrival), answer in answered
            if answer == TAKEN or (answer == COPIED and item.body is None)
        ]
        others = [arrival for (_, arrival), answer in answered if answer == OTHER]
        self._note_others(others)
        self.taken += len(taken) + len(copied)
        gone = [*(item for item, _ in taken), *copied]
        for item in gone:
            report.found[item.state] += 1
        report.note_items(gone, self.maxsize)
        arrivals = [arrival for _, arrival in taken if arrival.message is not None]
        report.before += len(copied)
        report.left_out += len(taken) - len(arrivals)
        if self._at_once:
            self._arrived(arrivals, len(arrivals))
        else:
            self._bring(arrivals)
            nothing = [arrival for _, arrival in taken if arrival.message is None]
            self._source.forget(self._queue, nothing)
        return len(items) - len(wanted) + len(others)

    def _note_others(self, others: list[Arrival]) -> None:
        """Messages that stay, as another one has their id in the queue."""
        ids = {each.message.id for each in others if each.message is not None} - self._others
        self._others |= ids
        self._report.missing += len(ids)
        for id in ids:
            self._report.note("there is another body under its id: it stays", id)

    def _bring(self, aside: list[Arrival]) -> None:
        """Add what stands aside to the queue, see that it is there, and take it from aside."""
        arrivals = [_known(each) for each in aside]
        told = arriving.land(self._target, self._keys, arrivals)
        _, wrong = arriving.compare(self._target, self._keys, arrivals)
        self._note_others(
            [each for each in arrivals if each.message is not None and each.message.id in wrong]
        )
        arrived = [
            each for each in arrivals if each.message is None or each.message.id not in wrong
        ]
        self._arrived(arrived, told.count(ADDED))
        self._forget(arrived)

    def _forget(self, arrived: list[Arrival]) -> None:
        if arrived:
            self._source.forget(self._queue, arrived)
            # Not before: while it was aside, it was known that it must not come again.
            digests = [each.digest for each in arrived if each.digest]
            self._target.rsmq.run(forget_copies(self._keys, digests))

    def _arrived(self, arrivals: list[Arrival], added: int) -> None:
        """Count messages that are where they go, of which so many were not there before."""
        self._report.arrived += added
        self._report.before += len(arrivals) - added
        self._report.checksum += arriving.checksum(arrivals)
        self._report.checksum %= _MODULUS


def _known(arrival: Arrival) -> Arrival:
    """With a digest, by which the other server knows it again."""
    if arrival.digest or arrival.message is None:
        return arrival
    return replace(arrival, digest=digest("id", arrival.message.id.encode()))
