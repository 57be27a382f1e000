"""
A real HTTP server whose answers a test decides, byte by byte.

It keeps connections open, so that a test sees which requests shared one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus


@dataclass(frozen=True)
class Request:
    """A request; the names of headers are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass(frozen=True)
class Reply:
    """
    An answer.

    Attributes:
        raw: its bytes.
        close: whether the connection is closed after them.
        delay: seconds before it is sent.
        drip: seconds between two bytes; 0 sends all at once.
        unasked: bytes that are sent when the client has had time to read the answer, though no
            further request asked for them.
    """

    raw: bytes
    close: bool = False
    delay: float = 0.0
    drip: float = 0.0
    unasked: bytes = b""


def reply(status, body=b"", *, headers=(), length=None, **options):
    """Return an answer; ``length`` is a Content-Length that need not be true."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *headers]
    lines.append(f"Content-Length: {len(body) if length is None else length}")
    return Reply("\r\n".join([*lines, "", ""]).encode() + body, **options)


OK = reply(204)


@dataclass
class Receiver:
    """
    The server, in a thread of its own.

    Attributes:
        answer: returns the reply to a request; called in the server's thread.
        requests: all requests.
        answered: the ids of the messages to which the status line of a 2xx was sent.
        connections: how many connections were made.
        has_sent_unasked: set when bytes that no request asked for have been sent.
    """

    answer: Callable[[Request], Reply] = lambda _: OK
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    connections: int = 0
    has_sent_unasked: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._numbers = itertools.count(1)
        self._writers: set[asyncio.StreamWriter] = set()
        self._transports: set[asyncio.Transport] = set()
        self._tasks: set[asyncio.Task] = set()
        self._server = None
        self.start()

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}/hooks"

    def start(self):
        """Listen, on the same port as before."""
        self._call(self._start())

    def stop(self):
        """Close the listening socket and all connections, as if the process had been killed."""
        self._call(self._stop())

    def close(self):
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _start(self):
        self._server = await asyncio.start_server(
            self._serve, self.host, self.port, ssl=self.tls, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self):
        if self._server is None:
            return
        # Python 3.11 does not close a connection that it is accepting when the server is closed.
        for each in self._server.sockets:
            self._loop.remove_reader(each.fileno())
        await asyncio.sleep(0.05)
        self._server.close()
        self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for transport in self._transports:
            transport.abort()
        self._transports.clear()
        await asyncio.sleep(0.05)

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        self._transports.add(writer.transport)
        task = asyncio.current_task()
        self._tasks.add(task)
        number = next(self._numbers)
        self.connections += 1
        try:
            while await self._serve_one(reader, writer, number):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort() if self._server is None else writer.close()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await writer.wait_closed()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _serve_one(self, reader, writer, number):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (each.partition(":") for each in lines)
        }
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(line, headers, body, number)
        self.requests.append(request)
        answer = self.answer(request)
        await asyncio.sleep(answer.delay)
        if answer.raw[9:10] == b"2":  # before the rest, which the client need not read
            self.answered.add(headers.get("webhook-id", ""))
        if answer.drip:
            for byte in answer.raw:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(answer.drip)
        else:
            writer.write(answer.raw)
            await writer.drain()
        if answer.unasked:
            await asyncio.sleep(0.3)
            writer.write(answer.unasked)
            await writer.drain()
            self.has_sent_unasked.set()
        return not answer.close
