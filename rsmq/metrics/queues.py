"""
The metrics of queues, which a thread reads from Redis at intervals.

Prometheus reads the numbers of the last round. So a scrape takes no longer while Redis is away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, CollectorRegistry
from redis.exceptions import RedisError, ResponseError

from rsmq.errors import RSMQError
from rsmq.figures import QueueReader
from rsmq.guarded_log import get_logger
from rsmq.metrics.tally import Series
from rsmq.wire.limits import check_duration
from rsmq.wire.names import is_pattern
from rsmq.worker import list_workers

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ

_log = get_logger("rsmq.metrics")

#: Seconds between two rounds through the queues.
INTERVAL_SECONDS = 10.0
#: How long a round may take. The next one continues with the queues that were left out.
ROUND_SECONDS = 10.0
#: Seconds after which the numbers of a queue are no longer reported.
STALE_SECONDS = 60.0

_UP = Series("rsmq_up", "Whether Redis answered in the last round", (), "gauge")
_CELL_UP = Series(
    "rsmq_cell_up", "Whether the cell of a set answered in the last round", ("cell",), "gauge"
)
_AGE = Series("rsmq_queue_read_age_seconds", "Seconds since the queue was read", kind="gauge")
_FIGURES = {
    "messages": "Messages in the queue",
    "visible": "Messages that are due",
    "hidden": "Messages that are not due: delayed, in flight, or waiting for a retry",
    "in_flight": "Messages that are received and hidden, without those that wait for a retry",
    "retrying": "Messages that have failed, and wait for a retry",
    "held_back": "Messages that wait for another message of their group",
    "unfinished": "Messages that are due or in flight: the number for scalers",
    "oldest_seconds": "Seconds since the oldest message was sent",
    "oldest_due_seconds": "Seconds since the oldest due message became due: the lag of consumers",
    "paused": "Whether the queue is paused for workers",
    "dead_letters": "Messages in the dead-letter queue of the queue's policy",
}
_QUEUE_SERIES = {
    name: Series(f"rsmq_queue_{name}", text, kind="gauge") for name, text in _FIGURES.items()
}


@dataclass(frozen=True, slots=True)
class _Source:
    """
    The queues of a client: those with these names, and all listed ones that match a pattern.

    Attributes:
        names: the names and patterns.
        reader: reads the queues.
        cells: the numbers of the cells that are reported; none of a plain client.
    """

    names: tuple[str, ...]
    reader: QueueReader
    cells: Sequence[int]

    def begin_round(self) -> Sequence[str]:
        """Begin a round, and return the names of the queues; patterns match listed ones."""
        self.reader.begin_round(self.names)
        patterns = [name for name in self.names if is_pattern(name)]
        names = [name for name in self.names if name not in patterns]
        listed = self.reader.list_queues()
        matching = (name for name in listed if any(fnmatchcase(name, each) for each in patterns))
        return list(dict.fromkeys([*names, *matching]))


@dataclass(frozen=True, slots=True)
class _Reading:
    """The figures of a queue at a monotonic time."""

    read_at: float
    figures: dict[str, float]


class QueueCollector:
    """A Prometheus collector of the figures of queues, and the thread that reads them."""

    def __init__(self, interval: float) -> None:
        """
        Make one; the thread starts with the first source.

        Args:
            interval: seconds between two rounds.
        """
        self._interval = interval
        self._lock = Lock()
        self._sources: dict[object, _Source] = {}
        self._readings: dict[str, _Reading] = {}
        #: Whether each cell answered in the last round; empty without a set of cells.
        self._cells_up: dict[int, bool] = {}
        self._is_up = False
        #: Why the queues can't be read, as it was logged; '' if they can.
        self._logged = self._failure = ""
        self._answered_at = time.monotonic()
        self._changed = Event()
        self._thread: Thread | None = None

    def add(self, key: object, rsmq: RSMQ[Any], names: Iterable[str]) -> None:
        """
        Add queues.

        Args:
            key: identifies them for ``remove``.
            rsmq: the client that reads them, of a namespace or of a set of cells.
            names: their names, and patterns of names.
        """
        cells = range(rsmq.engine.place.get("cells", 0))
        source = _Source(tuple(names), QueueReader(rsmq), cells)
        with self._lock:
            self._sources[key] = source
            self._changed.set()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="rsmq-metrics", daemon=True)
                self._thread.start()

    def remove(self, key: object) -> None:
        """Remove queues; after the last ones the thread ends."""
        with self._lock:
            self._sources.pop(key, None)
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.clear()
            with self._lock:
                sources = list(self._sources.values())
                if not sources:
                    self._thread = None
                    self._readings.clear()
                    self._cells_up.clear()
                    return
            self._read_round(sources)
            self._changed.wait(self._interval)

    def _read_round(self, sources: Sequence[_Source]) -> None:
        deadline = time.monotonic() + ROUND_SECONDS
        found: set[str] = set()
        self._failure = ""
        for source in sources:
            try:
                names = source.begin_round()
                found.update(names)
                self._read_source(source, names, deadline)
            except (RedisError, RSMQError, OSError) as error:
                self._note_failure(type(error).__name__)
                found.update(self._readings)
            except Exception as error:  # noqa: BLE001 - one must not end the rounds
                _log.exception("metrics: a round has failed; the next one may not")
                self._note_failure(type(error).__name__)
                found.update(self._readings)
            self._note_cells(source)
        self._log_change()
        for name in self._readings.keys() - found:
            with self._lock:
                del self._readings[name]

    def _note_cells(self, source: _Source) -> None:
        """Note which cells answered. Without one of them, the queues are not completely read."""
        failures = source.reader.failures
        with self._lock:
            self._cells_up |= {cell: cell not in failures for cell in source.cells}
        if failures:
            self._note_failure("a cell does not answer")

    def _note_failure(self, reason: str) -> None:
        """Note that in this round the queues are not completely read."""
        self._is_up, self._failure = False, reason

    def _log_change(self) -> None:
        """Log why the queues can't be read, or that they can again, if that was otherwise."""
        if self._failure != self._logged:
            state = f"can't be read: {self._failure}" if self._failure else "can be read again"
            _log.warning("metrics: the queues %s", state)
            self._logged = self._failure

    def _read_source(self, source: _Source, names: Sequence[str], deadline: float) -> None:
        """Read queues, those first that were read longest ago, until the deadline."""
        in_flight = _count_in_flight(source)
        self._report_answer()
        depths: dict[str, int] = {}
        never = _Reading(0.0, {})
        for name in sorted(names, key=lambda name: self._readings.get(name, never).read_at):
            if time.monotonic() > deadline:
                return
            try:
                figures: dict[str, float] | None = _read_figures(
                    source, name, in_flight.get(name, 0), depths
                )
            except (RSMQError, ResponseError):  # deleted, broken, or without rights for this user
                figures = None
            self._report_answer()
            with self._lock:
                self._readings.pop(name, None)
                if figures is not None:
                    self._readings[name] = _Reading(time.monotonic(), figures)

    def _report_answer(self) -> None:
        self._is_up, self._answered_at = True, time.monotonic()

    def describe(self) -> list[Any]:
        """Return the metrics without values, so that the registry finds duplicates."""
        return [series.family() for series in (_UP, _CELL_UP, _AGE, *_QUEUE_SERIES.values())]

    def collect(self) -> Iterator[Any]:
        """Return the metrics, without a call to Redis."""
        now = time.monotonic()
        with self._lock:
            if not self._sources:
                return
            readings = dict(self._readings)
            cells_up = dict(self._cells_up)
        up, age = _UP.family(), _AGE.family()
        is_late = now - self._answered_at > self._interval + ROUND_SECONDS
        up.add_metric([], float(self._is_up and not is_late))
        yield up
        if cells_up:
            cell_up = _CELL_UP.family()
            for cell, is_up in cells_up.items():
                cell_up.add_metric([str(cell)], float(is_up and not is_late))
            yield cell_up
        for queue, reading in readings.items():
            age.add_metric([queue], now - reading.read_at)
        yield age
        for name, series in _QUEUE_SERIES.items():
            family = series.family()
            for queue, reading in readings.items():
                if name in reading.figures and now - reading.read_at <= STALE_SECONDS:
                    family.add_metric([queue], reading.figures[name])
            yield family


def _read_figures(
    source: _Source, queue: str, in_flight_at_workers: int, depths: dict[str, int]
) -> dict[str, float]:
    """
    Return the figures of a queue.

    Args:
        source: its client.
        queue: its name.
        in_flight_at_workers: how many of its messages live workers have; it replaces the number of
            messages in flight of a queue that is too long to be walked through.
        depths: the depths of dead-letter queues that were read in this round; it is updated.
    """
    attributes = source.reader.get_queue_attributes(queue)
    gauges = source.reader.read(queue, attributes)
    in_flight = in_flight_at_workers if gauges.is_estimate else gauges.in_flight
    figures: dict[str, float] = {
        "messages": attributes.messages,
        "visible": attributes.visible_messages,
        "hidden": attributes.hidden_messages,
        "in_flight": in_flight,
        "unfinished": attributes.visible_messages + in_flight,
        "oldest_seconds": gauges.oldest_seconds or 0.0,
        "oldest_due_seconds": gauges.due_seconds or 0.0,
        "paused": float(attributes.paused),
    }
    if not gauges.is_estimate:
        figures["retrying"] = gauges.retrying
    if gauges.held_back:
        figures["held_back"] = gauges.held_back
    target = attributes.dead_letter_queue
    if target is not None:
        with suppress(RSMQError, ResponseError):  # deleted, or without rights for this user
            if target not in depths:
                depths[target] = source.reader.get_queue_attributes(target).messages
            figures["dead_letters"] = depths[target]
    return figures


def _count_in_flight(source: _Source) -> dict[str, int]:
    """Return how many messages of each queue live workers have in flight."""
    in_flight: dict[str, int] = {}
    for client in source.reader.clients():
        with suppress(ResponseError):  # the user may lack the right
            for worker in list_workers(client):
                for queue, number in worker.queues.items() if worker.alive else ():
                    in_flight[queue] = in_flight.get(queue, 0) + number
    return in_flight


class QueueMetrics:
    """
    The state of queues, read by a thread: the metrics of ``rsmq exporter``.

    Gauges by ``queue``: ``rsmq_queue_messages`` (depth), ``rsmq_queue_visible`` (due),
    ``rsmq_queue_hidden``, ``rsmq_queue_in_flight``, ``rsmq_queue_retrying`` (waiting for a retry
    after a failure), ``rsmq_queue_unfinished`` (due or in flight, without those that wait for a
    retry: for scalers), ``rsmq_queue_oldest_seconds`` (since its send; 0 without a message),
    ``rsmq_queue_oldest_due_seconds`` (since it became due; 0 without a due message),
    ``rsmq_queue_paused`` (1 or 0), ``rsmq_queue_dead_letters`` (depth of the queue of its
    dead-letter policy), ``rsmq_queue_read_age_seconds``. And ``rsmq_up``: 1 if Redis answers. Of a
    queue with more than 10,000 messages, only the messages that workers of this library have count
    as in flight, and ``rsmq_queue_retrying`` is left out.

    Of a set of cells, the numbers of a queue are the sums of the cells that answered in the last
    round. ``rsmq_cell_up``, by ``cell``, is 1 for each of these, and ``rsmq_up`` is 1 if all
    answered. So a set has one more series for each cell, and as many for each queue as a namespace.

    The numbers of a queue that could not be read for 60 seconds are left out; its age stays.
    """

    def __init__(
        self,
        rsmq: RSMQ[Any],
        queues: Iterable[str] = ("*",),
        *,
        registry: CollectorRegistry = REGISTRY,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        """
        Start to read.

        Args:
            rsmq: the client of a namespace or of a set of cells; close it after these metrics.
            queues: the names of the queues, or patterns with ``*``, ``?`` or ``[...]`` of listed
                queues. By default these are all listed queues, also those that are created later.
            registry: the registry to register the metrics in.
            interval: seconds from 1 between two rounds through the queues.

        Raises:
            ValueError: prometheus-client's own, if this registry already has them.
            InvalidValue: interval is out of range.
        """
        self._registry = registry
        self._collector = QueueCollector(check_duration("interval", interval, low=1.0))
        registry.register(self._collector)
        self._collector.add(self, rsmq, queues)

    def close(self) -> None:
        """Stop reading, and remove the metrics from the registry."""
        self._collector.remove(self)
        self._registry.unregister(self._collector)
