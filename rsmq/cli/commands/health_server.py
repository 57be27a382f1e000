"""
An HTTP server for probes: ``/healthz`` and ``/readyz``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from rsmq.cli.app.errors import Failed
from rsmq.wire.limits import check_whole_number
from rsmq.worker.http_thread import serve_in_thread

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_OK, _NOT_FOUND, _UNAVAILABLE = "200 OK", "404 Not Found", "503 Service Unavailable"
_NOT_ALLOWED = "405 Method Not Allowed"


def serve_health(
    port: int, host: str, is_healthy: Callable[[], bool], is_ready: Callable[[], bool]
) -> None:
    """
    Serve probes in a thread, until the process ends.

    Args:
        port: from 1.
        host: the address to listen on, of IPv4 or IPv6.
        is_healthy: returns whether ``/healthz`` answers 200; otherwise 503.
        is_ready: the same for ``/readyz``.

    Raises:
        InvalidValue: port is not a port number.
        Failed: the port is in use, or the host has no such address.
    """
    check_whole_number("health_port", port, 1, 65535)
    probes: Mapping[str, tuple[Callable[[], bool], str]] = {
        "/healthz": (is_healthy, "not healthy"),
        "/readyz": (is_ready, "not ready"),
    }

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        probe, method = probes.get(environ["PATH_INFO"]), environ["REQUEST_METHOD"]
        if method not in {"GET", "HEAD"}:
            status, text = _NOT_ALLOWED, "GET or HEAD"
        elif probe is None:
            status, text = _NOT_FOUND, "not found: /healthz or /readyz"
        else:
            status, text = (_OK, "ok") if probe[0]() else (_UNAVAILABLE, probe[1])
        body = f"{text}\n".encode()
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
        ]
        start_response(status, headers)
        return [b"" if method == "HEAD" else body]

    try:
        serve_in_thread(answer, host, port, "rsmq-health")
    except OSError as error:
        raise Failed(f"port {port}: {error.strerror}") from None
