"""
The requests of `rsmq web` with a key, and of another server that has the routes of rest-rsmq.

    .venv/bin/python -m scripts.benchmark.web [REST_RSMQ_PORT REST_RSMQ_PID]

Prints the requests per second of 8 connections, and the processor time of the server for one. The
second is less disturbed by other programs of the machine. The other server has a Redis of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scripts.benchmark.server import Server

NUMBER = 3000
CONNECTIONS = 8
BODY = "x" * 100

Make = Callable[[int], bytes]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Target:
    """A server, and how it is asked."""

    def __init__(self, name: str, port: int, pid: int, key: str | None = None) -> None:
        self.name = name
        self.port = port
        self.pid = pid
        self._key = "" if key is None else f"Authorization: Bearer {key}\r\n"

    def request(self, method: str, path: str, content: Any = None) -> bytes:
        """Return the bytes of a request."""
        body = b"" if content is None else json.dumps(content).encode()
        kind = "Content-Type: application/json\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{self._key}{kind}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def ask(self, method: str, path: str, content: Any = None) -> None:
        """Send one request."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(self.request(method, path, content))
        _parse(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async def measure(self, what: str, make: Make) -> list[Any]:
        """Send requests, print the figures, and return the answers."""
        loop, requests = asyncio.get_running_loop(), map(make, range(NUMBER))
        answers: list[bytes] = []
        cpu, began = cpu_seconds(self.pid), time.perf_counter()
        opened = [
            await loop.create_connection(lambda: _Asker(requests, answers), "127.0.0.1", self.port)
            for _ in range(CONNECTIONS)
        ]
        await asyncio.gather(*(asker.ended for _, asker in opened))
        seconds, cpu = time.perf_counter() - began, cpu_seconds(self.pid) - cpu
        each_us = 1e6 * cpu / NUMBER
        print(f"{self.name:10} {what:8} {NUMBER / seconds:7.0f}/s {each_us:6.0f} us of a processor")
        return [json.loads(each) if each else None for each in answers]


class _Asker(asyncio.Protocol):
    """A connection that sends the next request when it has an answer: streams take far longer."""

    def __init__(self, requests: Iterator[bytes], answers: list[bytes]) -> None:
        self._requests = requests
        self._answers = answers
        self._received = b""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._received += data
        body = _parse(self._received)
        if body is not None:
            self._received = b""
            self._answers.append(body)
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(exc or EOFError("the server has closed the connection"))

    def _ask(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self.ended.set_result(None)
            self._transport.close()
        else:
            self._transport.write(request)


def _parse(received: bytes) -> bytes | None:
    """Return the body of an answer; None if a part of it is still missing."""
    head, end, body = received.partition(b"\r\n\r\n")
    size = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    if not head.startswith(b"HTTP/1.1 2"):
        raise SystemExit(f"the server has answered {received.decode()}")
    return body if end and len(body) == int(size or 0) else None


async def measure_api(target: Target) -> None:
    """Measure the API of this library."""
    queue = "/api/v1/queues/bench"
    await target.ask("PUT", queue)
    send = target.request("POST", f"{queue}/messages", {"body": BODY})
    await target.measure("send", lambda _: send)
    receive = target.request("POST", "/api/v1/receive", {"queues": ["bench"], "vt": 600})
    found = [each["messages"][0] for each in await target.measure("receive", lambda _: receive)]

    def delete(number: int) -> bytes:
        message = found[number]
        path = f"{queue}/messages/{message['id']}?receipt={message['receipt']}"
        return target.request("DELETE", path)

    await target.measure("delete", delete)


async def measure_rest_rsmq(target: Target) -> None:
    """Measure the routes of rest-rsmq."""
    name = f"bench{time.time_ns()}"
    await target.ask("POST", f"/queues/{name}", {"vt": 600})
    send = target.request("POST", f"/messages/{name}", {"message": BODY})
    await target.measure("send", lambda _: send)
    receive = target.request("GET", f"/messages/{name}")
    found = await target.measure("receive", lambda _: receive)
    await target.measure(
        "delete", lambda number: target.request("DELETE", f"/messages/{name}/{found[number]['id']}")
    )


def main() -> None:
    """Measure, twice in turns."""
    others = []
    if len(sys.argv) > 1:
        port, pid = map(int, sys.argv[1:])
        others.append(Target("rest-rsmq", port, pid))
    with Server() as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "rsmq", "web", "--port", "0"],
            env={**os.environ, "RSMQ_URL": server.url, "RSMQ_CONFIG": "/dev/null"},
            stderr=subprocess.PIPE,
            text=True,
        )
        lines: Any = process.stderr
        try:
            port = urlsplit(lines.readline().partition(": Ctrl")[0]).port or 0
            key = lines.readline().partition(": ")[2].strip()
            ours = Target("rsmq web", port, process.pid, key)
            for _ in range(2):
                asyncio.run(measure_api(ours))
                for each in others:
                    asyncio.run(measure_rest_rsmq(each))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
