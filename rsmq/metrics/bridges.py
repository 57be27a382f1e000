"""
The metrics of bridges.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from redis.exceptions import RedisError

from rsmq.errors import RSMQError

#: Seconds between two counts of the waiting messages.
INTERVAL_SECONDS = 1.0

if TYPE_CHECKING:
    from rsmq.migrate import Bridge


class BridgeMetrics:
    """
    The metrics of a bridge. A scrape makes no call to Redis.

    Counters: ``rsmq_bridge_moved_total``, ``rsmq_bridge_reconnects_total``. Gauges:
    ``rsmq_bridge_waiting`` (messages that can be moved now, counted once a second; missing while
    the server is away) and ``rsmq_bridge_last_move_timestamp_seconds`` (Unix seconds; 0 before the
    first message). Labels:
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
        self._waiting: int | None = None
        registry.register(self)
        Thread(target=self._count_repeatedly, name="rsmq-metrics", daemon=True).start()

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
            (GaugeMetricFamily, "waiting", "Messages that can be moved now", self._waiting),
        ):
            if value is not None:
                family = kind(f"rsmq_bridge_{name}", text, labels=list(self._labels))
                family.add_metric(list(self._labels.values()), value)
                yield family

    def _count_repeatedly(self) -> None:
        while True:
            try:
                self._waiting = self._bridge.count_waiting()
            except (RedisError, RSMQError, OSError):
                self._waiting = None
            time.sleep(INTERVAL_SECONDS)
