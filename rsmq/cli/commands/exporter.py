"""
The command exporter.
"""

from __future__ import annotations

import signal
import threading

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import DURATION, command, queues_argument
from rsmq.cli.app.errors import Failed


@command(
    "exporter",
    "rsmq exporter",
    "rsmq exporter 'orders*' --port 9200 --host 0.0.0.0",
    "rsmq exporter --ns shop --ns mail",
)
@queues_argument(required=False)
@click.option(
    "--port", type=int, default=9109, show_default=True, metavar="PORT",
    help="Serve the metrics on this port.",
)  # fmt: skip
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="Serve the metrics on this address.",
)  # fmt: skip
@click.option(
    "--interval", type=DURATION, default=10, show_default=True, metavar="DURATION",
    help="The time between two readings of the queues; from 1 second.",
)  # fmt: skip
@click.pass_obj
def exporter(call: Call, queues: tuple[str, ...], port: int, host: str, interval: float) -> None:
    """
    Serve the state of queues to Prometheus.

    Without a QUEUE it serves all listed queues; a pattern serves those that match it, also queues
    that are created later. It needs the extra metrics. A thread reads the queues, so a scrape makes
    no call to Redis. While Redis is away, rsmq_up is 0; after 60 seconds the numbers of the queues
    are left out. With several --ns it serves the queues of each namespace, by the label ns. It runs
    until Ctrl-C or SIGTERM.
    """
    from rsmq.metrics import QueueMetrics, serve  # noqa: PLC0415 - needs an extra

    ended = threading.Event()
    previous = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with call.open_each() as clients:
            metrics = QueueMetrics(clients, queues or ("*",), interval=interval)
            try:
                serve(port, host)
                name = f"[{host}]" if ":" in host else host
                call.out.note(f"http://{name}:{port}/metrics: Ctrl-C ends it")
                while not ended.wait(1):
                    pass
            except OSError as error:
                raise Failed(f"port {port}: {error.strerror}") from None
            finally:
                metrics.close()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
