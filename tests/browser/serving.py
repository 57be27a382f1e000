"""An HTTP server in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack, contextmanager

import uvicorn

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from tests.nodes import wait_until


@contextmanager
def serving(url, *namespaces, retry_deadline=5.0, **options):
    """
    Serve the queues of a Redis, also those with odd names, on a free port; yield its address.

    Args:
        namespaces: the default one if there is none.
    """
    config = {"port": 0, "lifespan": "off", "log_level": "warning", "timeout_graceful_shutdown": 1}
    servers = []

    async def serve():
        common = {"strict_names": False, "retry_deadline": retry_deadline}
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(AsyncRSMQ.from_url(url, ns=name, **common))
                for name in namespaces or ("rsmq",)
            ]
            app = create_app(clients, auth=False, **options)
            servers.append(uvicorn.Server(uvicorn.Config(app, **config)))
            await servers[0].serve()

    thread = threading.Thread(target=asyncio.run, args=[serve()], daemon=True)
    thread.start()
    try:
        wait_until(lambda: servers and servers[0].started, failure="the server has not started")
        port = servers[0].servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        servers[0].should_exit = True
        thread.join(20)
