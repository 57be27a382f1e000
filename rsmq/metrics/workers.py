"""
The metrics of workers: a middleware.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, CollectorRegistry

from rsmq import __version__
from rsmq.history.call_records import HISTOGRAM_SECONDS
from rsmq.metrics.queues import INTERVAL_SECONDS, QueueCollector
from rsmq.metrics.tally import Series, Tally
from rsmq.worker import Delivery, Discard, Middleware, Retry
from rsmq.worker.middleware import MiddlewareOfEachWorker

if TYPE_CHECKING:
    from rsmq.worker import Worker

#: The buckets of histograms, seconds.
BUCKETS = HISTOGRAM_SECONDS

_RECEIVED = Series("rsmq_messages_received", "Messages received")
_HANDLED = Series("rsmq_messages_handled", "Messages whose handlers returned")
_FAILED = Series(
    "rsmq_messages_failed", "Messages that could not be handled", ("ns", "queue", "exception")
)
_RETRIED = Series("rsmq_messages_retried", "Messages hidden until a next attempt")
_DEFERRED = Series("rsmq_messages_deferred", "Messages hidden until a later call: no attempts")
_DEAD_LETTERED = Series(
    "rsmq_messages_dead_lettered", "Messages given up, by target", ("ns", "queue", "target")
)
_DROPPED = Series("rsmq_messages_dropped", "Messages deleted without being handled")
_RELEASED = Series("rsmq_messages_released", "Messages released")
_LEASES_LOST = Series("rsmq_leases_lost", "Messages whose lease was lost")
_DURATION = Series(
    "rsmq_handler_duration_seconds",
    "How long handlers take",
    kind="histogram",
    buckets=BUCKETS,
)
_WAIT = Series(
    "rsmq_message_wait_duration_seconds",
    "The time from the send of a message to its first handler call",
    kind="histogram",
    buckets=BUCKETS,
)
_RUNNING = Series("rsmq_handlers_running", "Handlers that run now", kind="gauge")
_INFO = Series(
    "rsmq_worker_info",
    "A running worker; the value is 1",
    ("ns", "worker", "host", "pid", "version"),
    kind="gauge",
)
_PUSHES = Series(
    "rsmq_pushes",
    "Messages pushed by webhooks, by the class of the answer's status",
    ("ns", "queue", "target", "status"),
)
_PUSH_DURATION = Series(
    "rsmq_push_duration_seconds",
    "How long pushes take",
    ("ns", "queue", "target"),
    kind="histogram",
    buckets=BUCKETS,
)
_TARGET_STATE = Series(
    "rsmq_push_target_state",
    "The state of a webhook's target; 1 for the present one",
    ("ns", "queue", "target", "state"),
    kind="gauge",
)
_TARGET_STATES = ("closed", "open", "trial", "paused", "gone")
#: The names of exceptions that a process counts apart; further ones are counted as one.
_MAX_EXCEPTIONS, _OTHER_EXCEPTIONS = 100, "other"
#: The metrics of a worker.
ALL_SERIES = (
    _RECEIVED, _HANDLED, _FAILED, _RETRIED, _DEFERRED, _DEAD_LETTERED, _DROPPED, _RELEASED,
    _LEASES_LOST, _DURATION, _WAIT, _RUNNING, _INFO, _PUSHES, _PUSH_DURATION,
    _TARGET_STATE,
)  # fmt: skip


class Metrics(MiddlewareOfEachWorker):
    """
    A middleware that counts the messages of workers, by ``ns`` and ``queue``.

    Counters: ``rsmq_messages_received_total``, ``_handled_total``, ``_failed_total`` (also by
    ``exception``), ``_retried_total``, ``_deferred_total``, ``_dead_lettered_total`` (also by
    ``target``), ``_dropped_total``, ``_released_total``, ``rsmq_leases_lost_total``. A requested
    ``Retry``, a ``Defer`` and a ``Discard`` are not failures. Histograms:
    ``rsmq_handler_duration_seconds``; ``rsmq_message_wait_duration_seconds``, from the
    send to the first handler call. Gauges: ``rsmq_handlers_running``, ``rsmq_worker_info``
    (by ``ns``, ``worker``, ``host``, ``pid``, ``version``).

    Of webhooks, also by ``target``, the URL without the text of its query: the counter
    ``rsmq_pushes_total`` (by ``status``: 2xx to 5xx, or none), the histogram
    ``rsmq_push_duration_seconds``, and the gauge ``rsmq_push_target_state`` (by ``state``).

    A scrape makes no call to Redis.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, queues: bool = False) -> None:
        """
        Create the metrics. One object may serve several workers.

        Args:
            registry: the registry to register them in.
            queues: whether the state of the workers' queues is reported too, as ``QueueMetrics``
                does. With many processes, run one ``rsmq exporter`` instead.

        Raises:
            ValueError: prometheus-client's own, if this registry already has them.
        """
        self.tally = Tally()
        #: The names of exceptions that are counted apart.
        self.failures: set[str] = set()
        #: The last states of targets, by namespace, queue and target.
        self.target_states: dict[tuple[str, str, str], str] = {}
        self.queues = QueueCollector(INTERVAL_SECONDS) if queues else None
        registry.register(self)
        if self.queues is not None:
            registry.register(self.queues)

    def describe(self) -> list[Any]:
        """Return the metrics without values, so that the registry finds duplicates."""
        return [series.family() for series in ALL_SERIES]

    def collect(self) -> Iterator[Any]:
        """Return the metrics."""
        return self.tally.families(ALL_SERIES)

    def snapshot(self) -> dict[str, Any]:
        """Return all values for ``ProcessMetrics`` in another process, as values of msgpack."""
        return self.tally.snapshot()

    def for_worker(self, worker: Worker) -> Middleware:
        """Return hooks that count with the namespace of the worker."""
        return _WorkerHooks(self, worker.rsmq.namespace.name)


class _WorkerHooks(Middleware):
    """The hooks of one worker."""

    def __init__(self, metrics: Metrics, ns: str) -> None:
        self._metrics = metrics
        self._ns = ns
        self._counted_as_running: set[int] = set()

    def before_start(self, worker: Worker) -> None:
        for queue in worker.queues:  # so that they have a value from the first scrape on
            for series in (
                _RECEIVED, _HANDLED, _RETRIED, _DEFERRED, _DROPPED, _RELEASED, _LEASES_LOST,
            ):  # fmt: skip
                self._metrics.tally.add(series, (self._ns, queue), 0)
        for labels in worker.dead_letter_targets:
            self._metrics.tally.add(_DEAD_LETTERED, (self._ns, *labels), 0)
        self._metrics.tally.add(_INFO, _describe_worker(worker, self._ns))
        if self._metrics.queues is not None:
            self._metrics.queues.add(worker, worker.rsmq, worker.queues)

    def after_stop(self, worker: Worker) -> None:
        self._metrics.tally.add(_INFO, _describe_worker(worker, self._ns), -1)
        if self._metrics.queues is not None:
            self._metrics.queues.remove(worker)

    def after_receive(self, queue: str, messages: Sequence[Delivery]) -> None:
        self._metrics.tally.add(_RECEIVED, (self._ns, queue), len(messages))

    def before_handle(self, message: Delivery) -> None:
        labels = (self._ns, message.queue)
        self._metrics.tally.add(_RUNNING, labels)
        self._counted_as_running.add(id(message))
        if message.waited_seconds is not None:
            self._metrics.tally.observe(_WAIT, labels, message.waited_seconds)

    def after_handle(self, message: Delivery, error: BaseException | None, seconds: float) -> None:
        labels = (self._ns, message.queue)
        # It is missing if the before_handle of an earlier middleware raised.
        if id(message) in self._counted_as_running:
            self._counted_as_running.discard(id(message))
            self._metrics.tally.add(_RUNNING, labels, -1)
        self._metrics.tally.observe(_DURATION, labels, seconds)
        if error is None:
            self._metrics.tally.add(_HANDLED, labels)

    def _count_failure(self, message: Delivery, error: BaseException) -> None:
        kind = type(error).__name__
        # Programs make classes as they run: Prometheus keeps a series for each name forever.
        if len(self._metrics.failures) >= _MAX_EXCEPTIONS and kind not in self._metrics.failures:
            kind = _OTHER_EXCEPTIONS
        self._metrics.failures.add(kind)
        self._metrics.tally.add(_FAILED, (self._ns, message.queue, kind))

    def after_retry(self, message: Delivery, after: float, error: BaseException) -> None:
        if not isinstance(error, Retry):
            self._count_failure(message, error)
        self._metrics.tally.add(_RETRIED, (self._ns, message.queue))

    def after_defer(self, message: Delivery, after: float, error: BaseException) -> None:
        self._metrics.tally.add(_DEFERRED, (self._ns, message.queue))

    def after_dead_letter(
        self, message: Delivery, queue: str, reason: str, error: BaseException
    ) -> None:
        self._count_failure(message, error)
        self._metrics.tally.add(_DEAD_LETTERED, (self._ns, message.queue, queue))

    def after_drop(self, message: Delivery, reason: str, error: BaseException) -> None:
        if not isinstance(error, Discard):
            self._count_failure(message, error)
        self._metrics.tally.add(_DROPPED, (self._ns, message.queue))

    def after_release(self, queue: str, count: int) -> None:
        self._metrics.tally.add(_RELEASED, (self._ns, queue), count)

    def after_push(
        self, message: Delivery, target: str, status: int | None, seconds: float
    ) -> None:
        status_class = "none" if status is None else f"{status // 100}xx"
        self._metrics.tally.add(_PUSHES, (self._ns, message.queue, target, status_class))
        self._metrics.tally.observe(_PUSH_DURATION, (self._ns, message.queue, target), seconds)

    def after_target_change(self, queue: str, target: str, state: str, answer: str) -> None:
        previous = self._metrics.target_states.get((self._ns, queue, target))
        self._metrics.target_states[self._ns, queue, target] = state
        for each in _TARGET_STATES:
            change = (each == state) - (each == previous)
            self._metrics.tally.add(_TARGET_STATE, (self._ns, queue, target, each), change)

    def lease_lost(self, message: Delivery, reason: str) -> None:
        self._metrics.tally.add(_LEASES_LOST, (self._ns, message.queue))


def _describe_worker(worker: Worker, ns: str) -> tuple[str, ...]:
    return ns, str(worker.name), socket.gethostname(), str(os.getpid()), __version__
