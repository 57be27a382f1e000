"""
Move: each message is taken from the source and comes to the queue.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from rsmq.migrate import arriving
from rsmq.migrate.arriving import Progress, Tell, nobody
from rsmq.migrate.ids import digest
from rsmq.migrate.item import Item, ItemState
from rsmq.migrate.placing import Moves
from rsmq.migrate.report import Report
from rsmq.migrate.server import Server
from rsmq.migrate.source import PAGE, Source
from rsmq.operations.landing import Arrival, Destination

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
        NotPossible: the queue is its own source.
    """
    began = time.monotonic()
    arriving.refuse_itself(source, queue, target, to)
    found = source.look(queue)
    report = Report(f"{source.kind}:{queue}", to, "move", dry_run)
    for note in found.notes:
        report.note(note)
    if dry_run:
        _look(source, queue, report, arriving.maxsize(target, to, found), in_flight=in_flight)
    else:
        report.created = arriving.prepare(target, to, found)
        mover = Mover(source, queue, target, to, report, in_flight=in_flight)
        mover.maxsize = arriving.maxsize(target, to, found)
        mover.resume()
        total, again = found.total, True
        while again:
            taken = mover.taken
            while mover.step():
                done = mover.taken + mover.passed_over
                total = max(total, done)
                tell(Progress("moving", done, total))
            # Others may have come to where those stood that were passed over, and are gone.
            again = mover.passed_over > 0 and mover.taken > taken
        mover.resume()
        if not in_flight:
            report.left = mover.passed_over + source.number_in_flight(queue)
            report.found["in_flight"] += report.left
        arriving.settle(source, target, to, found, report)
        report.verified = report.missing == 0 and not mover.anything_aside()
    report.seconds = time.monotonic() - began
    return report


def _look(source: Source, queue: str, report: Report, maxsize: int, *, in_flight: bool) -> None:
    for arrivals in source.aside(queue):
        report.arrived += len(arrivals)
    for items in source.newest_first(queue):
        for item in items:
            report.found[item.state] += 1
        taken = [item for item in items if in_flight or item.state != "in_flight"]
        with_body = sum(item.body is not None for item in taken)
        report.left += len(items) - len(taken)
        report.left_out += len(taken) - with_body
        report.arrived += with_body
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
        self._at_once = source.can_be_atomic and source.server.is_also(target)
        # What is handled now was taken before what waits.
        self._states: Sequence[ItemState] = (
            ("in_flight", "ready", "delayed") if in_flight else ("ready", "delayed")
        )
        self._skipped = 0
        self._at_end = False
        self.taken = self.passed_over = 0
        self.maxsize = -1

    def step(self, number: int = PAGE) -> int:
        """
        Move the next messages.

        Args:
            number: how many at most.

        Returns:
            How many it has looked at; 0 at the end, after which it begins at the first one again.
        """
        if self._at_end:
            self._at_end, self.passed_over = False, 0
        for state in self._states:
            place, items = self._source.next_items(self._queue, state, number, self._skipped)
            if items:
                self._move(place, items)
                return len(items)
            self._skipped = 0
        self._at_end = True
        return 0

    def resume(self) -> None:
        """Bring what an earlier run has put aside; and forget at the source what it has brought."""
        for arrivals in self._source.aside(self._queue):
            self._bring(arrivals)
        waiting = [each for found in self._source.may_have_arrived(self._queue) for each in found]
        for at in range(0, len(waiting), PAGE):
            page = waiting[at : at + PAGE]
            known = self._target.raw.hmget(self._keys.copied, [each.digest for each in page])
            self._forget(
                [each for each, is_known in zip(page, known, strict=True) if is_known is not None]
            )

    def anything_aside(self) -> bool:
        """Whether messages are still between the two."""
        key = self._source.aside_key(self._queue)
        return bool(key and self._source.server.raw.exists(key))

    def _move(self, place: object, items: list[Item]) -> None:
        report = self._report
        wanted = [item for item in items if self._in_flight or item.state != "in_flight"]
        self._skipped += len(items) - len(wanted)
        self.passed_over += len(items) - len(wanted)
        given = list(zip(wanted, self._moves.arrivals(wanted, self._target.now_us()), strict=True))
        if self._at_once:
            to = Destination(self._keys, realtime=self._target.realtime)
        else:
            to = Destination(None, self._source.aside_key(self._queue))
            given = [(item, _known(arrival)) for item, arrival in given]
        told = self._source.take(place, given, to) if given else []
        taken = [pair for pair, was_taken in zip(given, told, strict=True) if was_taken]
        self.taken += len(taken)
        for item, _ in taken:
            report.found[item.state] += 1
        report.note_items((item for item, _ in taken), self.maxsize)
        arrivals = [arrival for _, arrival in taken if arrival.message is not None]
        report.left_out += len(taken) - len(arrivals)
        if self._at_once:
            self._arrived(arrivals)
        else:
            self._bring(arrivals)
            nothing = [arrival for _, arrival in taken if arrival.message is None]
            self._source.forget(self._queue, nothing)

    def _bring(self, arrivals: list[Arrival]) -> None:
        """Add what stands aside to the queue, see that it is there, and take it from aside."""
        arriving.land(self._target, self._keys, arrivals)
        _, wrong = arriving.compare(self._target, self._keys, arrivals)
        for id in wrong:
            self._report.missing += 1
            self._report.note("there is another body under its id: it stays aside", id)
        arrived = [
            each for each in arrivals if each.message is None or each.message.id not in wrong
        ]
        self._arrived(arrived)
        self._forget(arrived)

    def _forget(self, arrived: list[Arrival]) -> None:
        if arrived:
            self._source.forget(self._queue, arrived)
            # Not before: while it was aside, it was known that it must not come again.
            self._target.raw.hdel(self._keys.copied, *(each.digest for each in arrived))

    def _arrived(self, arrivals: list[Arrival]) -> None:
        self._report.arrived += len(arrivals)
        self._report.checksum += arriving.checksum(arrivals)
        self._report.checksum %= _MODULUS


def _known(arrival: Arrival) -> Arrival:
    """With a digest, by which the other server knows it again."""
    if arrival.digest or arrival.message is None:
        return arrival
    return replace(arrival, digest=digest("id", arrival.message.id.encode()))
