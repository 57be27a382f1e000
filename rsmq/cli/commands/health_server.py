"""
An HTTP server for probes: ``/healthz`` and ``/readyz``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rsmq.cli.app.errors import Failed
from rsmq.wire.limits import check_whole_number

_OK, _NOT_FOUND, _UNAVAILABLE = 200, 404, 503


def serve_health(
    port: int, host: str, is_healthy: Callable[[], bool], is_ready: Callable[[], bool]
) -> None:
    """
    Serve probes in a thread, until the process ends.

    Args:
        port: from 1.
        host: the address to listen on.
        is_healthy: returns whether ``/healthz`` answers 200; otherwise 503.
        is_ready: the same for ``/readyz``.

    Raises:
        InvalidValue: port is not a port number.
        Failed: the port is in use.
    """
    check_whole_number("health_port", port, 1, 65535)
    probes: Mapping[str, Callable[[], bool]] = {"/healthz": is_healthy, "/readyz": is_ready}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            probe = probes.get(self.path.partition("?")[0])
            if probe is None:
                self._answer(_NOT_FOUND, "not found: /healthz or /readyz")
            elif probe():
                self._answer(_OK, "ok")
            else:
                self._answer(_UNAVAILABLE, "not ready" if probe is is_ready else "not healthy")

        do_HEAD = do_GET  # noqa: N815 - as above

        def _answer(self, code: int, text: str) -> None:
            body = f"{text}\n".encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Log nothing: probes come every few seconds."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise Failed(f"port {port}: {error.strerror}") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="rsmq-health", daemon=True).start()
