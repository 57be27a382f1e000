"""
The metrics of the streams of a session for Prometheus, from the progress that Spark reports.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from rsmq.errors import MissingExtra
from rsmq.spark.stream.acknowledgement import find_offset

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
except ImportError as error:
    raise MissingExtra("metrics", "rsmq.spark.StreamMetrics") from error

#: The metrics of a query, each with its kind, and the field of Spark's progress or of the figures
#: of its sources.
_METRICS: dict[str, tuple[Any, str, str]] = {
    "input_per_second": (
        GaugeMetricFamily, "inputRowsPerSecond", "Messages a second that arrive"
    ),
    "processed_per_second": (
        GaugeMetricFamily, "processedRowsPerSecond", "Messages a second that are processed"
    ),
    "lag": (GaugeMetricFamily, "lag", "Visible and held-back messages of the queues"),
    "oldest_age_seconds": (
        GaugeMetricFamily, "oldestAgeSeconds", "Seconds since the first visible message was sent"
    ),
    "acknowledged": (
        CounterMetricFamily, "acknowledged", "Messages that this run of the query has deleted"
    ),
    "lost": (CounterMetricFamily, "lost", "Messages that other consumers had received meanwhile"),
}  # fmt: skip


@dataclass(slots=True)
class _RunFigures:
    """A run of a query: its last progress, the figures of its sources, and all its batches."""

    query: str
    progress: dict[str, Any] = field(default_factory=dict)
    figures: list[dict[str, Any]] = field(default_factory=list)
    batches: int = 0
    seconds: float = 0.0

    def find(self, key: str) -> float | None:
        """Return a figure: of the progress, or else the sum of those of the sources."""
        values = [each[key] for each in (self.progress, *self.figures) if each.get(key) is not None]
        return sum(values) if values else None


class StreamMetrics(StreamingQueryListener):
    """
    A listener that exports the streams from ``format("rsmq")`` of a session to Prometheus.

    ``spark.streams.addListener(StreamMetrics())``; ``rsmq.metrics.serve(port)`` serves them. A
    scrape makes no call to Redis or Spark. The label ``query`` is the name of the query, else its
    id. A query that has ended has no metrics.

    Gauges: ``rsmq_stream_lag``, ``rsmq_stream_oldest_age_seconds``,
    ``rsmq_stream_input_per_second``, ``rsmq_stream_processed_per_second``, and
    ``rsmq_stream_messages`` by ``queue`` and ``state`` (visible, hidden, and of these held_back and
    retrying). Counters: ``rsmq_stream_acknowledged_total``, ``rsmq_stream_lost_total``. A summary:
    ``rsmq_stream_batch_seconds``.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """
        Register the metrics.

        Args:
            registry: the registry to register them in.
        """
        super().__init__()
        self._lock = threading.Lock()
        self._runs: dict[str, _RunFigures] = {}
        registry.register(self)

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: the last progress holds."""

    def onQueryProgress(self, event: Any) -> None:
        """Note the progress of a query that reads from queues."""
        progress = json.loads(event.progress.json)
        latest = [find_offset(source, "latestOffset") for source in progress["sources"]]
        figures = [each for each in latest if each.keys() >= {"backlog", "lag", "acknowledged"}]
        if not figures:  # no source of this library has reported some
            return
        with self._lock:
            name = progress.get("name") or progress["id"]
            run = self._runs.setdefault(progress["runId"], _RunFigures(name))
            run.progress, run.figures = progress, figures
            run.batches += 1
            run.seconds += progress["durationMs"].get("triggerExecution", 0) / 1000

    def onQueryTerminated(self, event: Any) -> None:
        """Forget a query that has ended."""
        with self._lock:
            self._runs.pop(str(event.runId), None)

    def describe(self) -> list[Any]:
        """Return no metrics: they are known after the first batch."""
        return []

    def collect(self) -> Iterator[Any]:
        """Return the metrics of the last progress of each query."""
        with self._lock:
            runs = list(self._runs.values())
        for name, (kind, key, text) in _METRICS.items():
            family = kind(f"rsmq_stream_{name}", text, labels=["query"])
            for run in runs:
                if (value := run.find(key)) is not None:
                    family.add_metric([run.query], value)
            yield family
        batches = SummaryMetricFamily("rsmq_stream_batch_seconds", "Batches", labels=["query"])
        labels, text = ["query", "queue", "state"], "Messages of the queues of a stream"
        messages = GaugeMetricFamily("rsmq_stream_messages", text, labels=labels)
        for run in runs:
            batches.add_metric([run.query], run.batches, run.seconds)
            for figures in run.figures:
                for queue, counts in figures["backlog"].items():
                    for state, number in counts.items():
                        messages.add_metric([run.query, queue, state], number)
        yield from (batches, messages)
