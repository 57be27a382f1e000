"""
The states of a stream's batches, the transitions between them, and what is in flight. Pure.

Three logs decide about a batch, and no process sees all of them. Spark's offset log names the batch
before its tasks run; Spark's commit log names it when its rows are in the sink; Redis has its
receipts from the first received part until the acknowledgement. The source learns of Spark's logs
only by the calls of Spark, and each call proves what came before it:

- ``latestOffset(start)``: ``start`` is in the commit log, because Spark requests a batch only when
  the one before is done. So ``start`` is DONE.
- ``partitions(start, end)``: ``end`` is in the offset log, so ``end`` is LOGGED.
- ``stop``: proves nothing. Spark calls it after a crash, too.

The usual way of a batch is EXPECTED, RECEIVING, RECEIVED, LOGGED, DONE, ACKNOWLEDGED. At most three
batches are on this way at once: tasks process one that is LOGGED, a thread deletes the messages of
the one before, which is DONE, and then receives the one after, as that is EXPECTED.

The point of no return is the reply of ``latestOffset``. Before it, Spark can't know a batch that
this process receives: if the process ends, RECEIVING and RECEIVED are released. With the reply the
batch becomes LOGGED, although Spark has not written it yet. It must stay in Redis as it is, because
a restarted query plans it by its number and its counts. REPLY comes a moment too early: SIGTERM may
end the process between it and the reply. Then WITHDRAW takes it back. With PySpark 4.0 and 4.1, the
first reply of a process is the last batch in Redis, which stays UNKNOWN until PLAN.

UNKNOWN is not "not received". A process that is killed leaves its batches in Redis, so an unknown
batch is searched there first, by its number. One that is found is RECEIVED without a receive. EMPTY
is the result of a search and a receive without messages: an idle query does not search again. A
receive that has failed stays RECEIVING, and so does a batch that a thread has found; they are
searched again. A batch that an earlier process has received is not released: that process may live,
and Spark may have logged the batch there. A successor finds it, or its timeout ends.

A batch may vanish, if its queue is purged or Redis loses data. If Spark does not know it, it is
UNKNOWN again, and another one is received in its place. If Spark does, it is LOST: the query fails,
or continues without it (``failOnDataLoss``). Then Spark commits it, and the rest of its messages is
deleted.

Any state but ACKNOWLEDGED can become DONE: Spark is right. An event that has no transition in the
present state changes nothing. Spark may plan a batch several times, and the second COMMIT of a
batch must not delete anything; so repeated calls need no check of their own. ACKNOWLEDGED is
remembered for the last batch only, as Spark repeats no call of an earlier one.

Two threads send events: the one that Spark calls, and that of the work ahead, which acknowledges
one batch and receives another. The heartbeat sends none. It reads which parts are in flight, and
notes until when they are hidden. A lock protects the table, not a sequence of two calls: the first
thread waits for the work ahead before it looks at the batch of that work. Only the limits of an
EXPECTED batch are read without waiting: RECEIVE removes them before its thread is started.

Some of it is ugly. LOGGED comes too early, as above. And a successor in another process shares none
of this: that it alone receives and releases is ensured by the scripts in Redis, which compare the
owner of the stream.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rsmq.spark.connections import SparkQueue
    from rsmq.spark.operations.batches import LeasedPart
    from rsmq.spark.stream.records import QueueCounts

UNLIMITED = 2**53


class BatchLimits(NamedTuple):
    """
    The limits of a batch, or of the rest of it.

    Attributes:
        messages: the most messages.
        size: the most bytes of bodies, except that the first body of each queue may be larger.
        latest_ms: only messages that became visible until this Unix time in ms are received; None
            is the present.
    """

    messages: int = UNLIMITED
    size: int = UNLIMITED
    latest_ms: int | None = None

    def without(self, messages: int, size: int) -> BatchLimits:
        """Return the rest of the limits."""
        return self._replace(messages=self.messages - messages, size=self.size - size)

    def until(self, latest_ms: int | None) -> BatchLimits:
        """Return the limits with another ``latest_ms``, if that is earlier."""
        times = [each for each in (self.latest_ms, latest_ms) if each is not None]
        return self._replace(latest_ms=min(times, default=None))


class BatchFill:
    """
    A batch that is filled until its limits are reached or its queues have no more messages.

    Attributes:
        is_full: whether the limits have ended the last receive, so that more messages may be
            visible.
    """

    def __init__(self, number: int, limits: BatchLimits) -> None:
        self.number = number
        self.is_full = False
        self._limits = limits
        self._sizes: dict[SparkQueue, list[int]] = {}  # of the parts

    @property
    def counts(self) -> QueueCounts:
        """How many messages the batch has."""
        return {queue: sum(sizes) for queue, sizes in self._sizes.items() if sizes}

    def adopt(self, sizes: dict[SparkQueue, list[int]]) -> None:
        """Note the sizes of the parts of a batch that was received before, which is complete."""
        self._sizes = sizes
        self.is_full = sum(self.counts.values()) >= self._limits.messages

    def divide(
        self, queues: Sequence[SparkQueue], received: list[LeasedPart]
    ) -> Iterator[tuple[SparkQueue, int, BatchLimits]]:
        """
        Yield the next part until the limits are reached or the queues have no more messages.

        Each queue gets an equal share of the limits; the next round divides what a queue did not
        use. May be called again, if the batch is not full.

        Args:
            received: the caller appends the result of each part to it.

        Yields:
            The queue, the number of the part, and its limits.
        """
        for queue in queues:  # also the order of the queues in the offset
            self._sizes.setdefault(queue, [])
        may_have_more = set(queues)
        remaining = list(queues)
        while remaining and self._limits.messages > 0 and self._limits.size > 0:
            share = self._limits._replace(
                messages=-(-self._limits.messages // len(remaining)),
                size=-(-self._limits.size // len(remaining)),
            )
            for queue in list(remaining):
                wanted = share._replace(
                    messages=min(share.messages, self._limits.messages),
                    size=min(share.size, self._limits.size),
                )
                while wanted.messages > 0 and wanted.size > 0:
                    yield queue, len(self._sizes[queue]), wanted
                    part = received.pop()
                    size = wanted.size if part.size is None else part.size
                    if part.messages:
                        self._sizes[queue].append(part.messages)
                        self._limits = self._limits.without(part.messages, size)
                    if not part.may_have_more:
                        may_have_more.discard(queue)
                    # Without a message, its next body does not fit into this batch.
                    if not part.may_have_more or (size and not part.messages):
                        remaining.remove(queue)
                        break
                    wanted = wanted.without(part.messages, size)
        self.is_full = bool(may_have_more)


class BatchState(Enum):
    """The state of a batch, as one process of the stream sees it."""

    UNKNOWN = auto()  # Redis may have parts of it, from an earlier process
    EXPECTED = auto()  # as UNKNOWN; the batch before was full, so more messages are visible
    RECEIVING = auto()  # Redis may have parts of it, which Spark does not know
    EMPTY = auto()  # Redis has no parts of it, and there were no messages for it
    RECEIVED = auto()  # its messages are received, and Spark does not know it yet
    LOGGED = auto()  # Spark has its offset
    LOST = auto()  # as LOGGED, but messages of it are not in Redis any more
    DONE = auto()  # Spark has committed it; its messages are to be deleted
    ACKNOWLEDGED = auto()  # its messages are deleted


class BatchEvent(Enum):
    """An event in the life of a batch."""

    EXPECT = auto()  # the batch before was full
    RECEIVE = auto()  # its receive begins
    COMPLETE = auto()  # its receive has ended, with messages
    FIND_NONE = auto()  # its receive has ended, without a message
    REPLY = auto()  # Spark gets its offset
    WITHDRAW = auto()  # the process ends before Spark gets the offset
    PLAN = auto()  # Spark plans its tasks
    LOSE = auto()  # messages of it are not in Redis any more
    COMMIT = auto()  # Spark has committed it
    ACKNOWLEDGE = auto()  # its messages are deleted
    RELEASE = auto()  # its messages are visible again


_S, _E = BatchState, BatchEvent
_TRANSITIONS: dict[tuple[BatchState, BatchEvent], BatchState] = {
    (_S.UNKNOWN, _E.EXPECT): _S.EXPECTED,
    (_S.UNKNOWN, _E.RECEIVE): _S.RECEIVING,
    (_S.EXPECTED, _E.RECEIVE): _S.RECEIVING,
    (_S.EMPTY, _E.RECEIVE): _S.RECEIVING,
    (_S.RECEIVING, _E.COMPLETE): _S.RECEIVED,
    (_S.RECEIVING, _E.FIND_NONE): _S.EMPTY,
    (_S.RECEIVED, _E.REPLY): _S.LOGGED,
    (_S.RECEIVED, _E.LOSE): _S.UNKNOWN,
    (_S.LOGGED, _E.LOSE): _S.LOST,
    (_S.LOGGED, _E.WITHDRAW): _S.RECEIVED,
    (_S.RECEIVING, _E.RELEASE): _S.UNKNOWN,
    (_S.RECEIVED, _E.RELEASE): _S.UNKNOWN,
    (_S.DONE, _E.ACKNOWLEDGE): _S.ACKNOWLEDGED,
}
#: States in which Spark can't know the batch.
UNLOGGED = (_S.UNKNOWN, _S.EXPECTED, _S.RECEIVING, _S.EMPTY, _S.RECEIVED)
_TRANSITIONS |= {(state, _E.PLAN): _S.LOGGED for state in UNLOGGED}
_TRANSITIONS |= {(state, _E.COMMIT): _S.DONE for state in (*UNLOGGED, _S.LOGGED, _S.LOST)}
#: States in which no part of the batch is extended.
NOT_IN_FLIGHT = (_S.UNKNOWN, _S.EXPECTED, _S.EMPTY, _S.ACKNOWLEDGED)


def change_batch(state: BatchState, event: BatchEvent) -> BatchState:
    """Return the state of a batch after an event, which may be the same."""
    return _TRANSITIONS.get((state, event), state)


@dataclass(slots=True)
class BatchInFlight:
    """
    A batch that a process of the stream knows.

    Attributes:
        state: its state, which ``BatchesInFlight.change`` changes.
        parts: by queue and number of the part, the Unix time in ms until when its messages are
            hidden at least; 0 if that is unknown.
        limits: the limits of an EXPECTED batch.
        fill: a batch that was received ahead.
        is_earlier: whether an earlier process has received it, or a part of it.
        queues: the queues of a DONE batch, with the messages that its offset counts in each.
        earlier_queues: queues in which an earlier process may have left the batch before this one.
    """

    number: int
    state: BatchState = BatchState.UNKNOWN
    parts: dict[tuple[SparkQueue, int], int] = field(default_factory=dict)
    limits: BatchLimits | None = None
    fill: BatchFill | None = None
    is_earlier: bool = False
    queues: dict[SparkQueue, int] = field(default_factory=dict)
    earlier_queues: tuple[SparkQueue, ...] = ()


class BatchesInFlight:
    """The batches that a process of the stream knows: the one owner of what is in flight."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._batches: dict[int, BatchInFlight] = {}

    def get(self, number: int) -> BatchInFlight:
        """Return a batch, which may be UNKNOWN. Only methods of this class change it."""
        return self._batches.get(number) or BatchInFlight(number)

    def change(
        self,
        number: int,
        event: BatchEvent,
        *,
        limits: BatchLimits | None = None,
        fill: BatchFill | None = None,
        queues: Mapping[SparkQueue, int] | None = None,
        earlier_queues: Iterable[SparkQueue] = (),
    ) -> bool:
        """
        Apply an event to a batch. Return whether its state has changed.

        The limits belong to EXPECT, the fill to COMPLETE, and the queues to COMMIT.
        """
        with self._lock:
            batch = self.get(number)
            state = change_batch(batch.state, event)
            if state is batch.state:
                return False
            batch.state, batch.limits, batch.fill = state, limits, fill
            batch.queues, batch.earlier_queues = dict(queues or {}), tuple(earlier_queues)
            if state in NOT_IN_FLIGHT:
                batch.parts, batch.is_earlier = {}, False
            if state is BatchState.ACKNOWLEDGED:
                for each in self.find(BatchState.ACKNOWLEDGED):
                    del self._batches[each.number]
            self._batches[number] = batch
            return True

    def find(self, *states: BatchState) -> list[BatchInFlight]:
        """Return the batches that are in one of some states, the lowest number first."""
        with self._lock:
            return [batch for _, batch in sorted(self._batches.items()) if batch.state in states]

    def note_found(self, number: int) -> None:
        """Note that Redis has parts of a batch: of an earlier process, if this one has none."""
        with self._lock:
            batch = self.get(number)
            batch.is_earlier = batch.is_earlier or not batch.parts

    def track(self, number: int, queue: SparkQueue, parts: Iterable[int]) -> None:
        """Note that parts of a batch are in flight, or may be; not in states without parts."""
        with self._lock:
            batch = self.get(number)
            if batch.state not in NOT_IN_FLIGHT:
                for part in parts:
                    batch.parts.setdefault((queue, part), 0)

    def note_hidden(self, number: int, queue: SparkQueue, part: int, until_ms: int) -> None:
        """Note until which Unix time in ms the messages of a part are hidden at least."""
        with self._lock:
            parts = self.get(number).parts
            if (queue, part) in parts:
                parts[queue, part] = until_ms

    def find_hidden_until(self, number: int) -> int | None:
        """
        Return the Unix time in ms until when a batch's messages are hidden at least.

        It is 0 if that is unknown, and None if the batch has no parts.
        """
        with self._lock:
            return min(self.get(number).parts.values(), default=None)

    def list_parts(self) -> list[tuple[int, SparkQueue, int]]:
        """Return the number, the queue and the part of each part in flight."""
        with self._lock:
            return [
                (number, *part) for number, batch in self._batches.items() for part in batch.parts
            ]
