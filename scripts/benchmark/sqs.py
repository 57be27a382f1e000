"""
The speed of clients of SQS with ``rsmq web``, beside its own API and another server of SQS.

    .venv/bin/python -m scripts.benchmark.sqs [--messages N] [--other URL]

It starts Redis and ``rsmq web``. One call or 64 run at a time, and each sends, or receives and
deletes, one message or ten. ``--other`` is the address of a running server such as ``moto_server``,
which gets a tenth of the messages. Then 80,000 messages in 10,000 groups go through a FIFO queue.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import boto3
from botocore.config import Config

from tests.servers import Server, redis_7

_AT_A_TIME = 64
_BODY = "x" * 100
_SERVER_FAULT = 500


class Sqs:
    """Calls of the JSON protocol."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self.queue = ""

    async def call(self, operation: str, **parameters: Any) -> Any:
        headers = {
            "X-Amz-Target": f"AmazonSQS.{operation}",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/sqs/aws4_request, "
            "SignedHeaders=host, Signature=a",
        }
        body = {"QueueUrl": self.queue, **parameters}
        while True:  # as SDKs do, if Redis did not answer in time
            async with self._session.post(
                self._url, data=json.dumps(body), headers=headers
            ) as reply:
                content = await reply.read()
                if reply.status < _SERVER_FAULT:
                    reply.raise_for_status()
                    return json.loads(content or b"{}")

    async def create(self, name: str, **attributes: str) -> None:
        answer = await self.call("CreateQueue", QueueName=name, Attributes=attributes)
        self.queue = answer["QueueUrl"]

    async def send(self, number: int) -> None:
        if number == 1:
            await self.call("SendMessage", MessageBody=_BODY)
            return
        entries = [{"Id": str(each), "MessageBody": _BODY} for each in range(number)]
        await self.call("SendMessageBatch", Entries=entries)

    async def consume(self, number: int) -> None:
        answer = await self.call("ReceiveMessage", MaxNumberOfMessages=number)
        handles = [each["ReceiptHandle"] for each in answer.get("Messages", [])]
        if len(handles) == 1:
            await self.call("DeleteMessage", ReceiptHandle=handles[0])
        elif handles:
            entries = [{"Id": str(n), "ReceiptHandle": each} for n, each in enumerate(handles)]
            await self.call("DeleteMessageBatch", Entries=entries)


class OwnApi:
    """The same calls of the API of ``rsmq web``."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, f"{url}/api/v1"

    async def _call(self, method: str, path: str, content: Any = None) -> Any:
        while True:
            async with self._session.request(method, self._url + path, json=content) as reply:
                read = await reply.read()
                if reply.status < _SERVER_FAULT:
                    reply.raise_for_status()
                    return json.loads(read or b"{}")

    async def create(self, name: str, **_: str) -> None:
        await self._call("PUT", f"/queues/{name}")
        self._queue = f"/queues/{name}"
        self._name = name

    async def send(self, number: int) -> None:
        if number == 1:
            await self._call("POST", f"{self._queue}/messages", {"body": _BODY})
            return
        messages = [{"body": _BODY}] * number
        await self._call("POST", f"{self._queue}/messages:batch", {"messages": messages})

    async def consume(self, number: int) -> None:
        found = await self._call("POST", "/receive", {"queues": [self._name], "max": number})
        messages = found["messages"]
        if len(messages) == 1:
            id, receipt = messages[0]["id"], messages[0]["receipt"]
            await self._call("DELETE", f"{self._queue}/messages/{id}?receipt={receipt}")
        elif messages:
            receipts = [each["receipt"] for each in messages]
            await self._call("POST", f"{self._queue}/messages:delete", {"receipts": receipts})


async def _measure(
    label: str,
    calls: int,
    number: int,
    work: Callable[[int], Awaitable[None]],
    at_a_time: int = _AT_A_TIME,
) -> None:
    """Run calls, and print the messages of a second and the times of the calls."""
    left, times = iter(range(calls)), []

    async def run() -> None:
        for _ in left:
            begun = time.perf_counter()
            await work(number)
            times.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(at_a_time)))
    rate = calls * number / (time.perf_counter() - begun)
    p50 = statistics.median(times) * 1000
    p99 = sorted(times)[int(len(times) * 0.99)] * 1000
    print(f"{label:45} {rate:9,.0f} messages/s   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms", flush=True)


async def _compare(messages: int, sqs_url: str, url: str, other: str | None) -> None:
    connector = aiohttp.TCPConnector(limit=_AT_A_TIME)
    async with aiohttp.ClientSession(connector=connector) as session:
        servers: list[tuple[str, Any, int]] = [
            ("SQS", Sqs(session, sqs_url), messages), ("own API", OwnApi(session, url), messages),
        ]  # fmt: skip
        if other is not None:
            servers.append(("the other", Sqs(session, other), messages // 10))
        for label, server, count in servers:
            for number, at_a_time, share in ((1, 1, 10), (1, _AT_A_TIME, 1), (10, _AT_A_TIME, 10)):
                await server.create(f"q{number}-{at_a_time}")
                calls, name = count // share, f"{number}, {at_a_time} at a time"
                for what, work in (("send", server.send), ("receive and delete", server.consume)):
                    await _measure(f"{label}: {what} {name}", calls, number, work, at_a_time)
        fifo = Sqs(session, sqs_url)
        await fifo.create("q.fifo", FifoQueue="true", ContentBasedDeduplication="false")
        numbers = iter(range(8000))

        async def send(_: int) -> None:
            batch = next(numbers)
            entries = [
                {
                    "Id": str(n), "MessageBody": _BODY, "MessageDeduplicationId": f"{batch}-{n}",
                    "MessageGroupId": f"g{(10 * batch + n) % 10_000}",
                }
                for n in range(10)
            ]  # fmt: skip
            await fifo.call("SendMessageBatch", Entries=entries)

        await _measure("FIFO: send 10, 10,000 groups", 8000, 10, send)
        await _measure("FIFO: receive and delete 10", 8000, 10, fifo.consume)


def _measure_boto(url: str, label: str, count: int) -> None:
    client = boto3.client(
        "sqs", endpoint_url=url, region_name="us-east-1", aws_access_key_id="any",
        aws_secret_access_key="any", config=Config(retries={"max_attempts": 0}),  # noqa: S106
    )  # fmt: skip
    queue = client.create_queue(QueueName="boto")["QueueUrl"]
    begun = time.perf_counter()
    for _ in range(count):
        client.send_message(QueueUrl=queue, MessageBody=_BODY)
    middle = time.perf_counter()
    for _ in range(count):
        (message,) = client.receive_message(QueueUrl=queue)["Messages"]
        client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    sends, receives = count / (middle - begun), count / (time.perf_counter() - middle)
    print(
        f"{label}: boto3, one thread: {sends:,.0f} sends/s, {receives:,.0f} receives and deletes/s"
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--other", help="the address of another server of SQS")
    options = parser.parse_args()
    server = Server(redis_7())
    command = [sys.executable, "-m", "rsmq", "web", "--port", "0", "--sqs-port", "0", "--no-auth"]
    environment = {**os.environ, "RSMQ_URL": server.url, "RSMQ_CONFIG": "/dev/null"}
    web = subprocess.Popen(
        [*command, "--no-record"], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        lines = iter(web.stderr.readline, "") if web.stderr else iter(())
        url = next(each for each in lines if "/api/v1" in each).partition("/api/v1")[0]
        sqs_url = next(each for each in lines if "Amazon SQS" in each).rpartition(": ")[0]
        asyncio.run(_compare(options.messages, sqs_url, url, options.other))
        _measure_boto(sqs_url, "SQS", 1000)
        if options.other:
            _measure_boto(options.other, "the other", 200)
    finally:
        web.kill()
        web.wait()
        server.stop()


if __name__ == "__main__":
    main()
