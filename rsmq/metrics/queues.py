"""
The metrics of queues, which threads read from Redis at intervals, one for each namespace.

Prometheus reads the numbers of the last round. So a scrape takes no longer while Redis is away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, CollectorRegistry
from redis.exceptions import RedisError, ResponseError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.figures import QueueReader
from rsmq.history.call_operations import read_calls_in_steps
from rsmq.history.call_records import TASK_COUNTERS, TASK_HISTOGRAMS, CallCounts, make_histogram
from rsmq.metrics.tally import Series
from rsmq.wire.limits import check_duration
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

_UP = Series("rsmq_up", "Whether Redis answered in the last round", ("ns",), "gauge")
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
_OF_TASKS = {
    field: Series(*described, ("ns", "queue", "task"), kind)
    for kind, table in (("counter", TASK_COUNTERS), ("histogram", TASK_HISTOGRAMS))
    for field, described in table.items()
}


@dataclass(frozen=True, slots=True)
class _Reading:
    """The figures of a queue at a monotonic time."""

    read_at: float
    figures: dict[str, float]


class _Source:
    """
    Queues of a namespace, and the thread that reads them.

    Attributes:
        ns: the namespace.
    """

    def __init__(self, rsmq: RSMQ[Any], names: Iterable[str], interval: float) -> None:
        """
        Start the thread.

        Args:
            rsmq: the client that reads the queues.
            names: their names, and patterns of the names of listed queues.
            interval: seconds between two rounds.
        """
        self.ns = rsmq.namespace.name
        self._rsmq = rsmq
        self._reader = QueueReader(rsmq)
        self._names = tuple(names)
        self._interval = interval
        self._lock = Lock()
        self._readings: dict[str, _Reading] = {}
        #: The counts that workers have written, by queue and task. The thread changes it.
        self.tasks: dict[tuple[str, str], CallCounts] = {}
        self._is_up = False
        #: Why the queues can't be read, as it was logged; '' if they can.
        self._logged = ""
        self._answered_at = time.monotonic()
        self._stopped = Event()
        Thread(target=self._run, name="rsmq-metrics", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end after its round."""
        self._stopped.set()

    def is_up(self) -> bool:
        """Return whether Redis answered in the last round, and not too long ago."""
        silence = time.monotonic() - self._answered_at
        return self._is_up and silence <= self._interval + ROUND_SECONDS

    def readings(self) -> dict[str, _Reading]:
        """Return the last reading of each queue."""
        with self._lock:
            return dict(self._readings)

    def _run(self) -> None:
        self._read_round()
        while not self._stopped.wait(self._interval):
            self._read_round()

    def _read_round(self) -> None:
        failure = ""
        try:
            names = self._reader.begin_round(self._names)
            with self._lock:
                for gone in self._readings.keys() - names:
                    del self._readings[gone]
            self._read_queues(names)
            self.tasks = self._read_tasks(names)
        except (RedisError, RSMQError, OSError) as error:
            failure = type(error).__name__
        except Exception as error:  # noqa: BLE001 - one must not end the rounds
            _log.exception("metrics: a round has failed; the next one may not")
            failure = type(error).__name__
        if self._stopped.is_set():  # its client may be closed already
            return
        if failure:
            self._is_up = False
        if failure != self._logged:
            state = f"can't be read: {failure}" if failure else "can be read again"
            _log.warning("metrics: the queues of %s %s", self.ns, state)
            self._logged = failure

    def _read_queues(self, names: Sequence[str]) -> None:
        """Read queues, those first that were read longest ago, until the round is over."""
        deadline = time.monotonic() + ROUND_SECONDS
        in_flight = _count_in_flight(self._rsmq)
        self._report_answer()
        depths: dict[str, int] = {}
        never = _Reading(0.0, {})
        for name in sorted(names, key=lambda name: self._readings.get(name, never).read_at):
            if time.monotonic() > deadline:
                return
            try:
                figures: dict[str, float] | None = _read_figures(
                    self._reader, name, in_flight.get(name, 0), depths
                )
            except (RSMQError, ResponseError):  # deleted, broken, or without rights for this user
                figures = None
            self._report_answer()
            with self._lock:
                self._readings.pop(name, None)
                if figures is not None:
                    self._readings[name] = _Reading(time.monotonic(), figures)

    def _read_tasks(self, names: Sequence[str]) -> dict[tuple[str, str], CallCounts]:
        try:
            _, found = self._rsmq.run_steps(read_calls_in_steps(self._rsmq.namespace, names))
        except ResponseError:  # the user may lack the right
            return {}
        return {name: each.total for name, each in found.items()}

    def _report_answer(self) -> None:
        self._is_up, self._answered_at = True, time.monotonic()


class QueueCollector:
    """A Prometheus collector of the figures of queues, each namespace read by its own threads."""

    def __init__(self, interval: float) -> None:
        """
        Make one.

        Args:
            interval: seconds between two rounds through the queues of a namespace.
        """
        self._interval = interval
        self._sources: dict[object, _Source] = {}

    def add(self, key: object, rsmq: RSMQ[Any], names: Iterable[str]) -> None:
        """
        Add queues.

        Args:
            key: identifies them for ``remove``.
            rsmq: the client that reads them.
            names: their names, and patterns of names.
        """
        self._sources[key] = _Source(rsmq, names, self._interval)

    def remove(self, key: object) -> None:
        """Remove queues, and end their thread."""
        source = self._sources.pop(key, None)
        if source is not None:
            source.stop()

    def describe(self) -> list[Any]:
        """Return the metrics without values, so that the registry finds duplicates."""
        return [
            series.family() for series in (_UP, _AGE, *_QUEUE_SERIES.values(), *_OF_TASKS.values())
        ]

    def collect(self) -> Iterator[Any]:
        """Return the metrics, without a call to Redis."""
        now = time.monotonic()
        up: dict[str, bool] = {}
        readings: dict[tuple[str, str], _Reading] = {}
        for source in list(self._sources.values()):
            up[source.ns] = source.is_up() and up.get(source.ns, True)
            readings |= {(source.ns, queue): each for queue, each in source.readings().items()}
        if not up:
            return
        yield _fill(_UP, {(ns,): is_up for ns, is_up in up.items()})
        yield _fill(_AGE, {labels: now - each.read_at for labels, each in readings.items()})
        for name, series in _QUEUE_SERIES.items():
            yield _fill(
                series,
                {
                    labels: each.figures[name]
                    for labels, each in readings.items()
                    if name in each.figures and now - each.read_at <= STALE_SECONDS
                },
            )
        yield from self._collect_tasks()

    def _collect_tasks(self) -> Iterator[Any]:
        tasks = {
            (source.ns, *name): counts
            for source in list(self._sources.values())
            for name, counts in source.tasks.items()
        }
        for field, series in _OF_TASKS.items():
            family = series.family()
            for labels, counts in tasks.items():
                value = getattr(counts, field)
                if series.kind == "counter":
                    family.add_metric(labels, value)
                else:
                    family.add_metric(labels, *make_histogram(value))
            yield family


def _fill(series: Series, values: Mapping[tuple[str, ...], float]) -> Any:
    """Return a metric with its values by label."""
    family = series.family()
    for labels, value in values.items():
        family.add_metric(labels, float(value))
    return family


def _read_figures(
    reader: QueueReader, queue: str, in_flight_at_workers: int, depths: dict[str, int]
) -> dict[str, float]:
    """
    Return the figures of a queue.

    Args:
        reader: reads it.
        queue: its name.
        in_flight_at_workers: how many of its messages live workers have; it replaces the number of
            messages in flight of a queue that is too long to be walked through.
        depths: the depths of dead-letter queues that were read in this round; it is updated.
    """
    attributes = reader.get_queue_attributes(queue)
    gauges = reader.read(queue, attributes)
    in_flight = in_flight_at_workers if gauges.is_estimate else gauges.hidden.in_flight
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
        figures["retrying"] = gauges.hidden.retrying
    if gauges.hidden.held_back:
        figures["held_back"] = gauges.hidden.held_back
    target = attributes.dead_letter_queue
    if target is not None:
        with suppress(RSMQError, ResponseError):  # deleted, or without rights for this user
            if target not in depths:
                depths[target] = reader.get_queue_attributes(target).messages
            figures["dead_letters"] = depths[target]
    return figures


def _count_in_flight(rsmq: RSMQ[Any]) -> dict[str, int]:
    """Return how many messages of each queue live workers have in flight."""
    in_flight: dict[str, int] = {}
    with suppress(ResponseError):  # the user may lack the right
        for worker in list_workers(rsmq):
            for queue, number in worker.queues.items() if worker.alive else ():
                in_flight[queue] = in_flight.get(queue, 0) + number
    return in_flight


class QueueMetrics:
    """
    The state of queues, read by a thread: the metrics of ``rsmq exporter``.

    Gauges by ``ns`` and ``queue``: ``rsmq_queue_messages`` (depth), ``rsmq_queue_visible`` (due),
    ``rsmq_queue_hidden``, ``rsmq_queue_in_flight``, ``rsmq_queue_retrying`` (waiting for a retry
    after a failure), ``rsmq_queue_unfinished`` (due or in flight, without those that wait for a
    retry: for scalers), ``rsmq_queue_oldest_seconds`` (since its send; 0 without a message),
    ``rsmq_queue_oldest_due_seconds`` (since it became due; 0 without a due message),
    ``rsmq_queue_paused`` (1 or 0), ``rsmq_queue_dead_letters`` (depth of the queue of its
    dead-letter policy), ``rsmq_queue_read_age_seconds``. And ``rsmq_up``, by ``ns``: 1 if Redis
    answers. Of a queue with more than 10,000 messages, only the messages that workers of this
    library have count as in flight, and ``rsmq_queue_retrying`` is left out.

    By ``ns``, ``queue`` and ``task``, of what workers have counted: the counters
    ``rsmq_task_calls_total``, ``_failed_total``, ``_retried_total``, ``_dead_letters_total``, and
    the histograms ``rsmq_task_wait_seconds`` and ``rsmq_task_duration_seconds``.

    Each namespace has a thread of its own, so one that does not answer does not hide the others.
    The numbers of a queue that could not be read for 60 seconds are left out; its age stays.
    """

    def __init__(
        self,
        rsmq: RSMQ[Any] | Sequence[RSMQ[Any]],
        queues: Iterable[str] = ("*",),
        *,
        registry: CollectorRegistry = REGISTRY,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        """
        Start to read.

        Args:
            rsmq: the client, or one client for each namespace; close it after these metrics.
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
        self._clients = rsmq if isinstance(rsmq, Sequence) else [rsmq]
        names = tuple(queues)
        for each in self._clients:
            self._collector.add(each, each, names)

    def close(self) -> None:
        """Stop reading, and remove the metrics from the registry."""
        for each in self._clients:
            self._collector.remove(each)
        self._registry.unregister(self._collector)
