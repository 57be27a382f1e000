"""
The command exporter.
"""

from __future__ import annotations

import signal
import threading

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.signals import handling
from rsmq.cli.commands.metrics_server import serve_metrics


@command(
    "exporter [QUEUE...]",
    "rsmq exporter",
    "rsmq exporter 'orders*' --port 9200 --host 0.0.0.0",
    "rsmq exporter --ns shop --ns mail",
)
@options("""
    --port PORT  Serve the metrics on this port.  [default: 9109]
    --host ADDRESS  Serve the metrics on this address.  [default: 127.0.0.1]
    --interval DURATION  The time between two readings of the queues; from 1 second.  [default: 10]
    """)
def exporter(call: Call, queues: tuple[str, ...], port: int, host: str, interval: float) -> None:
    """
    Serve the state of queues to Prometheus.

    Without a QUEUE it serves all listed queues; a pattern serves those that match it, also queues
    that are created later. It needs the extra metrics. A thread reads the queues, so a scrape makes
    no call to Redis. While Redis is away, rsmq_up is 0; after 60 seconds the numbers of the queues
    are left out. With several --ns it serves the queues of each namespace, by the label ns. It runs
    until Ctrl-C or SIGTERM.
    """
    from rsmq.metrics import QueueMetrics  # noqa: PLC0415 - needs an extra

    ended = threading.Event()
    with (
        handling(lambda *_: ended.set(), signal.SIGINT, signal.SIGTERM),
        call.open_each() as clients,
    ):
        metrics = QueueMetrics(clients, queues or ("*",), interval=interval)
        try:
            serve_metrics(port, host)
            name = f"[{host}]" if ":" in host else host
            call.out.note(f"http://{name}:{port}/metrics: Ctrl-C ends it")
            while not ended.wait(1):
                pass
        finally:
            metrics.close()
