"""
The metrics of several worker processes, in the process that supervises them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from rsmq.metrics.tally import Series, Tally
from rsmq.metrics.workers import ALL_SERIES

_RESTARTS = Series("rsmq_worker_restarts", "Worker processes that were started again", ())
_GAUGES = {series.name for series in ALL_SERIES if series.kind == "gauge"}


class ProcessMetrics:
    """
    The sums of the metrics of worker processes, from the snapshots that they send.

    The counters of a process that has ended stay in the sums, so no counter ever decreases. Its
    gauges do not. ``rsmq_worker_restarts_total`` counts processes that were started again.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """
        Register the metrics.

        Args:
            registry: the registry.
        """
        self._lock = Lock()
        self._ended = Tally()
        self._snapshots: dict[str, Mapping[str, Any]] = {}
        self._ended.add(_RESTARTS, (), 0)
        registry.register(self)

    def update(self, name: str, snapshot: Mapping[str, Any]) -> None:
        """Replace the values of a process by its latest snapshot."""
        with self._lock:
            self._snapshots[name] = snapshot

    def end(self, name: str) -> None:
        """Keep the counters of a process that has ended."""
        with self._lock:
            snapshot = self._snapshots.pop(name, None)
            if snapshot is not None:
                values = [each for each in snapshot["values"] if each[0] not in _GAUGES]
                self._ended.merge({**snapshot, "values": values})

    def count_restart(self) -> None:
        """Count a process that is started again."""
        self._ended.add(_RESTARTS, ())

    def describe(self) -> list[Any]:
        """Return the metrics without values, so that the registry finds duplicates."""
        return [series.family() for series in (*ALL_SERIES, _RESTARTS)]

    def collect(self) -> Iterator[Any]:
        """Return the metrics."""
        tally = Tally()
        with self._lock:
            snapshots = [self._ended.snapshot(), *self._snapshots.values()]
        for snapshot in snapshots:
            tally.merge(snapshot)
        return tally.families((*ALL_SERIES, _RESTARTS))
