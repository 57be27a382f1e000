"""
The speed of clients of SQS with ``rsmq web``, beside its own API and another server of SQS.

    .venv/bin/python -m scripts.benchmark.sqs [--messages N] [--other URL --other-pid PID]

It starts Redis and ``rsmq web``. One call or 64 run at a time, and each sends, or receives and
deletes, one message or ten. ``--other`` is the address of a running server such as ``moto_server``,
which gets a tenth of the messages. Beside the time of the calls is the processor time of the
server. Then 80,000 messages in 10,000 groups go through a FIFO queue, and calls are made with
boto3 and, if it is installed, with 64 of aiobotocore at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import aiohttp
import boto3
from botocore.config import Config

from scripts.benchmark.long_polls import read_usage
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


class Aiobotocore:
    """The calls of ten messages with aiobotocore."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.queue = ""

    async def create(self, name: str) -> None:
        self.queue = (await self._client.create_queue(QueueName=name))["QueueUrl"]

    async def send(self, number: int) -> None:
        entries = [{"Id": str(each), "MessageBody": _BODY} for each in range(number)]
        await self._client.send_message_batch(QueueUrl=self.queue, Entries=entries)

    async def consume(self, number: int) -> None:
        answer = await self._client.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=number)
        entries = [
            {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
            for n, each in enumerate(answer.get("Messages", []))
        ]
        if entries:
            await self._client.delete_message_batch(QueueUrl=self.queue, Entries=entries)


@dataclass(frozen=True)
class Place:
    """The address of a server, and its process, if it is known."""

    url: str
    pid: int | None


async def _measure(
    label: str,
    calls: int,
    number: int,
    work: Callable[[int], Awaitable[None]],
    *,
    pid: int | None,
    at_a_time: int = _AT_A_TIME,
) -> None:
    """Run calls, and print the messages of a second, the times of the calls, and the server's."""
    left, times = iter(range(calls)), []
    used = read_usage(pid)[0] if pid else 0.0

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
    line = f"{label:45} {rate:9,.0f} messages/s   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms"
    if pid:
        line += f"   server {(read_usage(pid)[0] - used) / calls * 1000:6.2f} ms"
    print(line, flush=True)


async def _measure_aiobotocore(place: Place, label: str, calls: int) -> None:
    session = importlib.import_module("aiobotocore.session").get_session()
    config = importlib.import_module("aiobotocore.config").AioConfig(
        max_pool_connections=_AT_A_TIME, retries={"max_attempts": 0}, read_timeout=120
    )
    async with session.create_client(
        "sqs", endpoint_url=place.url, region_name="us-east-1", aws_access_key_id="any",
        aws_secret_access_key="any", config=config,  # noqa: S106
    ) as client:  # fmt: skip
        server = Aiobotocore(client)
        await server.create("aiobotocore")
        for what, work in (("send", server.send), ("receive and delete", server.consume)):
            await _measure(
                f"{label}: aiobotocore, {what} 10, 64 at a time", calls, 10, work, pid=place.pid
            )


async def _compare(messages: int, own: Place, url: str, other: Place | None) -> None:
    connector = aiohttp.TCPConnector(limit=_AT_A_TIME)
    async with aiohttp.ClientSession(connector=connector) as session:
        servers: list[tuple[str, Any, int, int | None]] = [
            ("SQS", Sqs(session, own.url), messages, own.pid),
            ("own API", OwnApi(session, url), messages, own.pid),
        ]
        if other is not None:
            servers.append(("the other", Sqs(session, other.url), messages // 10, other.pid))
        for label, server, count, pid in servers:
            for number, at_a_time, share in ((1, 1, 10), (1, _AT_A_TIME, 1), (10, _AT_A_TIME, 10)):
                await server.create(f"q{number}-{at_a_time}")
                calls, name = count // share, f"{number}, {at_a_time} at a time"
                for what, work in (("send", server.send), ("receive and delete", server.consume)):
                    title = f"{label}: {what} {name}"
                    await _measure(title, calls, number, work, pid=pid, at_a_time=at_a_time)
        fifo = Sqs(session, own.url)
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

        await _measure("FIFO: send 10, 10,000 groups", 8000, 10, send, pid=own.pid)
        await _measure("FIFO: receive and delete 10", 8000, 10, fifo.consume, pid=own.pid)
    if find_spec("aiobotocore"):
        await _measure_aiobotocore(own, "SQS", messages // 10)
        if other is not None:
            await _measure_aiobotocore(other, "the other", messages // 100)


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
    parser.add_argument("--other-pid", type=int, help="its process, for its processor time")
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
        other = Place(options.other, options.other_pid) if options.other else None
        asyncio.run(_compare(options.messages, Place(sqs_url, web.pid), url, other))
        _measure_boto(sqs_url, "SQS", 1000)
        if options.other:
            _measure_boto(options.other, "the other", 200)
    finally:
        web.kill()
        web.wait()
        server.stop()


if __name__ == "__main__":
    main()
