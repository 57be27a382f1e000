"""
Metrics for Prometheus: of workers, of queues, and of bridges.

    from rsmq.metrics import Metrics
    worker = Worker(queues, middleware=[Metrics()])

Prometheus reads numbers that this process has: a scrape makes no call to Redis, so it is also
answered while Redis is away. Needs the extra ``metrics``; without it, the import raises
MissingExtra.
"""

from __future__ import annotations

from rsmq.errors import MissingExtra
from rsmq.wire.limits import check_whole_number
from rsmq.worker.http_thread import serve_in_thread

try:
    from prometheus_client import make_wsgi_app
except ImportError as error:
    raise MissingExtra("metrics", "rsmq.metrics") from error

from rsmq.metrics.bridges import BridgeMetrics
from rsmq.metrics.queues import QueueMetrics
from rsmq.metrics.workers import Metrics

__all__ = ["BridgeMetrics", "Metrics", "QueueMetrics", "serve"]


def serve(port: int, host: str = "127.0.0.1") -> None:
    """
    Serve the metrics to Prometheus over HTTP, in a thread.

    Args:
        port: from 1.
        host: the address to listen on, of IPv4 or IPv6; by default only this machine can connect.

    Raises:
        InvalidValue: port is not a port number.
        OSError: the port is in use, or the host has no such address.
    """
    check_whole_number("port", port, 1, 65535)
    serve_in_thread(make_wsgi_app(), host, port, "rsmq-metrics")
