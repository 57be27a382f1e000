"""
The server of metrics for Prometheus beside a program.
"""

from __future__ import annotations

from rsmq.cli.app.command import options
from rsmq.cli.app.errors import Failed

metrics_options = options("""
    --metrics-port PORT  Serve metrics for Prometheus on this port (needs the extra metrics).
    --metrics-host ADDRESS  Serve metrics on this address.  [default: 127.0.0.1]
    """)


def serve_metrics(port: int, host: str) -> None:
    """
    Serve the metrics of this process in a thread, until the process ends.

    Raises:
        Failed: the port is in use, or the host has no such address.
        MissingExtra: the extra metrics is not installed.
    """
    from rsmq.metrics import serve  # noqa: PLC0415 - needs an extra

    try:
        serve(port, host)
    except OSError as error:
        raise Failed(f"port {port}: {error.strerror}") from None
