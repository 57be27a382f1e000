"""An HTTP client that calls an ASGI application, and that can leave at any moment."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import unquote

from rsmq import AsyncRSMQ


def open_queues(url, **options):
    """Return a client."""
    return AsyncRSMQ.from_url(url, **options)


class Reply:
    """
    An answer.

    Attributes:
        headers: by names in lower case.
    """

    def __init__(self, status, headers, content):
        self.status = status
        self.headers = {name.decode().lower(): value.decode() for name, value in headers}
        self.content = content

    @property
    def json(self):
        return json.loads(self.content)


class Http:
    """Sends requests to an application."""

    def __init__(self, app, prefix="/api/v1", headers=None, peer="127.0.0.1"):
        self.app = app
        self.prefix = prefix
        self.headers = headers or {}
        self.peer = peer

    async def __call__(
        self, method, path, content=None, *, body=None, headers=None, left=None, sent=None
    ):
        """
        Send a request.

        Args:
            content: a value of JSON.
            body: the bytes of the body instead.
            left: an event: when it is set, the client has left. Without one, the client of a tail,
                which does not end, has left at once.
            sent: a list that gets the events of the answer.
        """
        sent = [] if sent is None else sent
        if content is not None:
            body = json.dumps(content).encode()
        all_headers = {"host": "localhost", **self.headers, **(headers or {})}
        if content is not None:
            all_headers.setdefault("content-type", "application/json")
        path, _, query = (self.prefix + path).partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(k.lower().encode(), v.encode()) for k, v in all_headers.items()],
            "client": (self.peer, 1),
            "server": ("localhost", 80),
        }
        if left is None:
            left = asyncio.Event()
            if path.endswith("/tail"):
                left.set()
        events = [{"type": "http.request", "body": body or b"", "more_body": False}]

        async def receive():
            if events:
                return events.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(event):
            sent.append(event)

        await self.app(scope, receive, send)
        if not sent:
            return None
        content = b"".join(each.get("body", b"") for each in sent[1:])
        return Reply(sent[0]["status"], sent[0]["headers"], content)
