"""
Counters and histograms of a process, which threads add to and Prometheus reads.

Those of prometheus-client would add a series ``_created`` to each, unless these series were
switched off for the whole process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """
    The description of a metric.

    Attributes:
        name: its name without a suffix.
        text: its help text.
        labels: the names of its labels.
        kind: counter, gauge or histogram.
        buckets: the upper bounds of the buckets of a histogram, ascending.
    """

    name: str
    text: str
    labels: tuple[str, ...] = ("ns", "queue")
    kind: str = "counter"
    buckets: tuple[float, ...] = ()

    def family(self) -> Any:
        """Return the metric without values, as prometheus-client represents it."""
        families = {
            "counter": CounterMetricFamily,
            "gauge": GaugeMetricFamily,
            "histogram": HistogramMetricFamily,
        }
        return families[self.kind](self.name, self.text, labels=self.labels)


@dataclass(slots=True)
class _Histogram:
    counts: list[int]
    total: float = 0.0


@dataclass(slots=True)
class Tally:
    """The values of metrics, by name and labels. Its methods may be called from any thread."""

    _values: dict[str, dict[Labels, float]] = field(default_factory=dict)
    _histograms: dict[str, dict[Labels, _Histogram]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def add(self, series: Series, labels: Labels, number: float = 1) -> None:
        """Add a number to a counter or gauge."""
        with self._lock:
            values = self._values.setdefault(series.name, {})
            values[labels] = values.get(labels, 0) + number

    def observe(self, series: Series, labels: Labels, seconds: float) -> None:
        """Add a duration to a histogram."""
        with self._lock:
            histograms = self._histograms.setdefault(series.name, {})
            histogram = histograms.get(labels)
            if histogram is None:
                histogram = histograms[labels] = _Histogram([0] * (len(series.buckets) + 1))
            histogram.counts[bisect_left(series.buckets, seconds)] += 1
            histogram.total += seconds

    def snapshot(self) -> dict[str, Any]:
        """Return all values, as values of msgpack."""
        with self._lock:
            return {
                "values": [
                    [name, list(labels), value]
                    for name, values in self._values.items()
                    for labels, value in values.items()
                ],
                "histograms": [
                    [name, list(labels), list(histogram.counts), histogram.total]
                    for name, histograms in self._histograms.items()
                    for labels, histogram in histograms.items()
                ],
            }

    def merge(self, snapshot: Mapping[str, Any]) -> None:
        """Add the values of another tally."""
        with self._lock:
            for name, labels, value in snapshot["values"]:
                values = self._values.setdefault(name, {})
                values[tuple(labels)] = values.get(tuple(labels), 0) + value
            for name, labels, counts, total in snapshot["histograms"]:
                histograms = self._histograms.setdefault(name, {})
                found = histograms.setdefault(tuple(labels), _Histogram([0] * len(counts)))
                found.counts = [sum(pair) for pair in zip(found.counts, counts, strict=True)]
                found.total += total

    def families(self, all_series: Sequence[Series]) -> Iterator[Any]:
        """Return metrics with their values, as prometheus-client represents them."""
        for series in all_series:
            family = series.family()
            with self._lock:
                if series.kind == "histogram":
                    self._fill_histogram(family, series, self._histograms.get(series.name, {}))
                else:
                    for labels, value in self._values.get(series.name, {}).items():
                        family.add_metric(labels, value)
            yield family

    def _fill_histogram(
        self, family: Any, series: Series, histograms: Mapping[Labels, _Histogram]
    ) -> None:
        bounds = [*map(_format_bound, series.buckets), "+Inf"]
        for labels, histogram in histograms.items():
            below, buckets = 0, []
            for bound, count in zip(bounds, histogram.counts, strict=True):
                below += count
                buckets.append((bound, below))
            family.add_metric(labels, buckets, sum_value=histogram.total)


def _format_bound(bound: float) -> str:
    return repr(float(bound))
