"""
Metrics for Prometheus: a middleware with counters of workers, gauges of queues, and metrics of
bridges.

    from rsmq.metrics import Metrics
    worker = Worker(queues, middleware=[Metrics()])

Needs the extra ``metrics``. Without it, the import raises MissingExtra.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from rsmq.errors import MissingExtra, RSMQError
from rsmq.gauges import FRESH_SECONDS, MAX_WALKED_MESSAGES, GaugeReader
from rsmq.wire.limits import check_whole_number
from rsmq.worker import Delivery, Discard, Middleware

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client import start_http_server as _start
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
except ImportError as error:
    raise MissingExtra("metrics", "rsmq.metrics") from error

if TYPE_CHECKING:
    from rsmq.client import RSMQ
    from rsmq.migrate import Bridge
    from rsmq.worker import Worker

_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600)


class Metrics(Middleware):
    """
    A middleware that counts a worker's messages by queue, and reports the state of its queues.

    Counters: ``rsmq_messages_received_total``, ``_handled_total``, ``_failed_total`` (also by
    ``exception``), ``_retried_total``, ``_dead_lettered_total`` (also by ``target``),
    ``_dropped_total``, ``_released_total``, ``_leases_lost_total``. Histogram:
    ``rsmq_handler_seconds``. Gauges: ``rsmq_handlers_running``. Gauges that are read from Redis
    when Prometheus asks for them, at most every five seconds: ``rsmq_queue_messages`` (depth),
    ``rsmq_queue_visible``, ``rsmq_queue_hidden``; and for queues of up to 10,000 messages
    ``rsmq_queue_in_flight`` and ``rsmq_queue_oldest_seconds`` (0 without a message).
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """
        Create the metrics. One object may serve several workers.

        Args:
            registry: the registry to register them in.

        Raises:
            ValueError: prometheus-client's own, if this registry already has them.
        """

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"rsmq_{name}", text, ["queue", *labels], registry=registry)

        self._received = counter("messages_received", "Messages received")
        self._handled = counter("messages_handled", "Messages whose handlers returned")
        self._failed = counter("messages_failed", "Messages that could not be handled", "exception")
        self._retried = counter("messages_retried", "Messages hidden until a next attempt")
        self._dead_lettered = counter(
            "messages_dead_lettered", "Messages given up, by target", "target"
        )
        self._dropped = counter("messages_dropped", "Messages deleted without being handled")
        self._released = counter("messages_released", "Messages released")
        self._leases_lost = counter("leases_lost", "Messages whose lease was lost")
        self._seconds = Histogram(
            "rsmq_handler_seconds",
            "How long handlers take",
            ["queue"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._running = Gauge(
            "rsmq_handlers_running", "Handlers that run now", ["queue"], registry=registry
        )
        self._counted_as_running: set[int] = set()
        self._queues = _QueueCollector()
        registry.register(self._queues)

    def before_start(self, worker: Worker) -> None:
        self._queues.add(worker)
        for queue in worker.queues:  # so that they have a value from the first scrape on
            for counter in (self._received, self._handled, self._retried, self._dropped):
                counter.labels(queue)
            for counter in (self._released, self._leases_lost):
                counter.labels(queue)

    def after_stop(self, worker: Worker) -> None:
        self._queues.remove(worker)

    def after_receive(self, queue: str, messages: Sequence[Delivery]) -> None:
        self._received.labels(queue).inc(len(messages))

    def before_handle(self, message: Delivery) -> None:
        self._running.labels(message.queue).inc()
        self._counted_as_running.add(id(message))

    def after_handle(self, message: Delivery, error: BaseException | None, seconds: float) -> None:
        # It is missing if the before_handle of an earlier middleware raised.
        if id(message) in self._counted_as_running:
            self._counted_as_running.discard(id(message))
            self._running.labels(message.queue).dec()
        self._seconds.labels(message.queue).observe(seconds)
        if error is None:
            self._handled.labels(message.queue).inc()

    def _count_failure(self, message: Delivery, error: BaseException) -> None:
        if not isinstance(error, Discard):
            self._failed.labels(message.queue, type(error).__name__).inc()

    def after_retry(self, message: Delivery, after: float, error: BaseException) -> None:
        self._count_failure(message, error)
        self._retried.labels(message.queue).inc()

    def after_dead_letter(
        self, message: Delivery, queue: str, reason: str, error: BaseException
    ) -> None:
        self._count_failure(message, error)
        self._dead_lettered.labels(message.queue, queue).inc()

    def after_drop(self, message: Delivery, reason: str, error: BaseException) -> None:
        self._count_failure(message, error)
        self._dropped.labels(message.queue).inc()

    def after_release(self, queue: str, count: int) -> None:
        self._released.labels(queue).inc(count)

    def lease_lost(self, message: Delivery, reason: str) -> None:
        self._leases_lost.labels(message.queue).inc()


class _QueueCollector:
    """A Prometheus collector that reads the queues of workers when it is asked for metrics."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._workers: list[Worker] = []
        self._read_at = -FRESH_SECONDS
        self._read: list[tuple[str, dict[str, float]]] = []

    def add(self, worker: Worker) -> None:
        with self._lock:
            self._workers.append(worker)
            self._read_at = -FRESH_SECONDS

    def remove(self, worker: Worker) -> None:
        with self._lock:
            self._workers = [each for each in self._workers if each is not worker]
            self._read_at = -FRESH_SECONDS

    def describe(self) -> list[Any]:
        """Return no metrics, so that registering does not read from Redis."""
        return []

    def collect(self) -> Iterator[Any]:
        """Return the gauges, read now or at most five seconds ago."""
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_SECONDS:
                # Several workers may have the same queue.
                queues = {queue: worker.rsmq for worker in self._workers for queue in worker.queues}
                self._read = [
                    (queue, figures)
                    for queue, rsmq in queues.items()
                    for figures in _read_gauges(rsmq, queue)
                ]
                self._read_at = time.monotonic()
            read = self._read
        for name, text in _GAUGES.items():
            gauge = GaugeMetricFamily(f"rsmq_queue_{name}", text, labels=["queue"])
            for queue, figures in read:
                if name in figures:
                    gauge.add_metric([queue], figures[name])
            yield gauge


_GAUGES = {
    "messages": "Messages in the queue",
    "visible": "Messages that are due",
    "hidden": "Messages that are not due, delayed or in flight",
    "in_flight": "Messages that are received and hidden",
    "oldest_seconds": "Seconds since the oldest message was sent",
}


def _read_gauges(rsmq: RSMQ, queue: str) -> Iterator[dict[str, float]]:
    """Yield the gauges of a queue; nothing if it can't be read now."""
    try:
        attributes = rsmq.get_queue_attributes(queue)
        figures: dict[str, float] = {
            "messages": attributes.messages,
            "visible": attributes.visible_messages,
            "hidden": attributes.hidden_messages,
        }
        if attributes.messages <= MAX_WALKED_MESSAGES:
            gauges = GaugeReader(rsmq).read(queue, attributes)
            figures["in_flight"] = gauges.in_flight
            figures["oldest_seconds"] = gauges.oldest_seconds or 0.0
    except (RedisError, RSMQError, OSError):
        return
    yield figures


class BridgeMetrics:
    """
    The metrics of a bridge, which are read from it when Prometheus asks for them.

    Counters: ``rsmq_bridge_moved_total``, ``rsmq_bridge_reconnects_total``. Gauges:
    ``rsmq_bridge_waiting`` (messages that can be moved now; missing while the server is away) and
    ``rsmq_bridge_last_move_timestamp_seconds`` (Unix seconds; 0 before the first message). Labels:
    ``source`` and ``target``.
    """

    def __init__(
        self, bridge: Bridge, source: str, target: str, registry: CollectorRegistry = REGISTRY
    ) -> None:
        """
        Register the metrics of a bridge.

        Args:
            bridge: the bridge.
            source: the name of its source, for the label.
            target: the name of its target, for the label.
            registry: the registry to register them in.
        """
        self._bridge = bridge
        self._labels = {"source": source, "target": target}
        registry.register(self)

    def describe(self) -> list[Any]:
        """Return no metrics, so that registering does not read from Redis."""
        return []

    def collect(self) -> Iterator[Any]:
        """Return the metrics."""
        bridge = self._bridge
        for kind, name, text, value in (
            (CounterMetricFamily, "moved", "Messages moved", bridge.moved),
            (CounterMetricFamily, "reconnects", "Connections that broke", bridge.reconnects),
            (
                GaugeMetricFamily,
                "last_move_timestamp_seconds",
                "When a message was last moved",
                bridge.moved_at,
            ),
            (GaugeMetricFamily, "waiting", "Messages that can be moved now", self._count_waiting()),
        ):
            if value is not None:
                family = kind(f"rsmq_bridge_{name}", text, labels=list(self._labels))
                family.add_metric(list(self._labels.values()), value)
                yield family

    def _count_waiting(self) -> int | None:
        try:
            return self._bridge.count_waiting()
        except (RedisError, RSMQError, OSError):
            return None


def serve(port: int, host: str = "127.0.0.1") -> None:
    """
    Serve the metrics to Prometheus over HTTP, in a thread.

    Args:
        port: from 1.
        host: the address to listen on; by default only this machine can connect.

    Raises:
        InvalidValue: port is not a port number.
        OSError: the port is in use.
    """
    check_whole_number("port", port, 1, 65535)
    _start(port, addr=host)
