"""
An HTTP server in a thread, for probes and metrics.
"""

from __future__ import annotations

import socket
import threading
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


class _HTTPServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind the address. Its base would also ask DNS for a name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Log nothing: requests come every few seconds."""


def serve_in_thread(app: WSGIApplication, host: str, port: int, name: str) -> None:
    """
    Serve an application of WSGI in a thread, until the process ends.

    Args:
        app: the application; it may be called by several threads.
        host: the address to listen on, of IPv4 or IPv6, or a name of it.
        port: from 1 to 65535.
        name: the name of the thread.

    Raises:
        OSError: the port is in use, or the host has no such address.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(error.errno, f"{host!r}: {error.strerror}") from None
    # Of a name with both, IPv4: probes may ask 127.0.0.1 of a server on localhost.
    of_ipv4 = [each for each in addresses if each[0] == socket.AF_INET]
    family, _, _, _, address = (of_ipv4 or addresses)[0]
    server_class = type("Server", (_HTTPServer,), {"address_family": family})
    server = server_class(address, _Handler)
    server.set_app(app)
    threading.Thread(target=server.serve_forever, name=name, daemon=True).start()
