"""An HTTP server in a thread of this process."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import uvicorn

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.application import CLIENT_OPTIONS
from tests.nodes import wait_until


@contextmanager
def serving(url, *, ns="rsmq", **options):
    """Serve the queues of a Redis, also those with odd names, on a free port; yield its address."""
    queues = AsyncRSMQ.from_url(url, ns=ns, strict_names=False, **CLIENT_OPTIONS)
    app = create_app(queues, auth=False, **options)
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, failure="the server has not started")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
