"""
Long polls of SQS in one process of ``rsmq web``: what many of them cost, and how soon they end.

    .venv/bin/python -m scripts.benchmark.long_polls [--polls N] [--messages N]

It starts Redis and ``rsmq web``, and opens connections with a long poll each. First nothing is
sent: the memory and the processor time of the process are those of polls that wait. Then messages
are sent one at a time, by each kind of client, and the time from the send to the answer of a poll
is measured: from the begin of the call, or from the time at which a message becomes visible. Last,
how long the event loop of the process has run meanwhile, and how long it has waited for a processor
that others had: a time of a poll can't be shorter than such a wait.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rsmq import AsyncRSMQ
from tests.servers import Server, redis_7

_ACCOUNT = "000000000000"
_NODE = """
const RSMQ = require("rsmq");
const rsmq = new RSMQ({ port: Number(process.argv[2]) });
process.stdin.on("data", () => rsmq.sendMessage({ qname: "q0", message: "a" }, () => {}));
console.log("ready");
"""
#: The body of a message that a poll does not delete when it is received first.
_KEPT = "kept"
_WAIT_SECONDS = 20
_SEND_PAUSE_SECONDS = 0.05
_IDLE_SECONDS = 10


class Polls:
    """
    Connections with a long poll each, which begins again after each answer.

    Attributes:
        ready: set when all of them have been sent once.
        received: the answers: when, in Unix seconds, and the message.
    """

    def __init__(self, port: int, number: int, queues: int) -> None:
        self._port, self._number, self._queues = port, number, queues
        self.ready = asyncio.Event()
        self._sent = 0
        self.received: asyncio.Queue[tuple[float, dict[str, Any]]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._kept: set[str] = set()

    async def start(self) -> None:
        for number in range(self._number):
            queue = f"q{number % self._queues}"
            # So that not all of them end at the same moment.
            self._tasks.append(asyncio.create_task(self._poll(queue, number % _WAIT_SECONDS + 1)))
            if number % 50 == 0:
                await asyncio.sleep(0.01)
        await self.ready.wait()

    async def stop(self) -> None:
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _poll(self, queue: str, wait: int) -> None:
        connection = await asyncio.open_connection("127.0.0.1", self._port)
        is_first = True
        while True:
            waiting = call(connection, "ReceiveMessage", queue, WaitTimeSeconds=wait)
            self._sent += is_first
            is_first = False
            if self._sent == self._number:
                self.ready.set()
            answer, wait = await waiting, _WAIT_SECONDS
            for message in answer.get("Messages", []):
                self.received.put_nowait((time.time(), message))
                if message["Body"] == _KEPT and message["MessageId"] not in self._kept:
                    self._kept.add(message["MessageId"])
                    continue
                handle = message["ReceiptHandle"]
                await call(connection, "DeleteMessage", queue, ReceiptHandle=handle)


async def call(connection: Any, operation: str, queue: str, **parameters: Any) -> dict[str, Any]:
    """Call an operation of the JSON protocol on a connection that stays open."""
    reader, writer = connection
    body = json.dumps({"QueueUrl": f"http://localhost/{_ACCOUNT}/{queue}", **parameters}).encode()
    head = (
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"X-Amz-Target: AmazonSQS.{operation}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    status, _, headers = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
    fields = dict(each.lower().split(b": ", 1) for each in headers.strip().split(b"\r\n"))
    content = await reader.readexactly(int(fields[b"content-length"]))
    if b" 200 " not in status + b" ":
        raise RuntimeError(status, content)
    found: dict[str, Any] = json.loads(content or b"{}")
    return found


def read_usage(pid: int) -> tuple[float, float]:
    """Return the seconds of processor time that a process has used, and its memory in MiB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), memory / 2**20


def read_schedule(pid: int) -> tuple[float, float, float]:
    """Return the time, and for how long the main thread of a process has run, and waited to run."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return time.time(), int(ran) / 1e9, int(waited) / 1e9


async def measure_wakes(
    label: str, polls: Polls, count: int, send: Callable[[int], Awaitable[float]]
) -> None:
    """
    Send messages one at a time, and print the times until a poll has each.

    Args:
        send: sends a message, and returns the Unix seconds from which the time counts.
    """
    times = []
    for number in range(count):
        await asyncio.sleep(_SEND_PAUSE_SECONDS)
        begun = await send(number)
        at, _ = await polls.received.get()
        times.append((at - begun) * 1000)
    times.sort()
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    print(f"{label:34} p50 {p50:6.1f} ms   p99 {p99:6.1f} ms   most {times[-1]:6.1f}", flush=True)


async def measure(port: int, server: Server, pid: int, polls_wanted: int, count: int) -> None:
    """Measure what polls on 100 queues cost, and how soon those of one of them end."""
    queues = AsyncRSMQ.from_url(server.url)
    for number in range(100):
        await queues.create_queue(f"q{number}")
    _, before = read_usage(pid)
    polls = Polls(port, polls_wanted, 100)
    await polls.start()
    await asyncio.sleep(3)
    used, _ = read_usage(pid)
    await asyncio.sleep(_IDLE_SECONDS)
    after, memory = read_usage(pid)
    share = (after - used) / _IDLE_SECONDS
    each = (memory - before) * 1024 / polls_wanted
    print(
        f"{polls_wanted:,} polls on 100 queues: {memory:.0f} MiB, {each:.0f} KiB for each, "
        f"{share:.1%} of a processor while nothing is sent"
    )
    node = await asyncio.create_subprocess_exec(
        "node", "-e", _NODE, "-", str(server.port), cwd=Path("compat/node"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    to_node, from_node = node.stdin, node.stdout
    if to_node is None or from_node is None:
        raise RuntimeError
    await from_node.readline()  # it is ready

    async def by_python(_: int) -> float:
        begun = time.time()
        await queues.send_message("q0", "a")
        return begun

    async def by_node(_: int) -> float:
        begun = time.time()
        to_node.write(b"\n")
        await to_node.drain()
        return begun

    async def call_once(operation: str, **parameters: Any) -> float:
        """Call an operation on a new connection: the server closes one that is idle for long."""
        connection = await asyncio.open_connection("127.0.0.1", port)
        begun = time.time()
        await call(connection, operation, "q0", **parameters)
        connection[1].close()
        return begun

    async def by_sqs(_: int) -> float:
        return await call_once("SendMessage", MessageBody="a")

    async def by_a_delay(_: int) -> float:
        id = await queues.send_message("q0", "a", delay=0.2)
        message = await queues.get_message("q0", id)
        return message.visible_at_ms / 1000 if message else 0

    async def by_visibility(_: int) -> float:
        await queues.send_message("q0", _KEPT)
        _at, message = await polls.received.get()
        handle = message["ReceiptHandle"]
        return await call_once("ChangeMessageVisibility", VisibilityTimeout=0, ReceiptHandle=handle)

    since = read_schedule(pid)
    try:
        for label, send in (
            ("a send by Python", by_python), ("a send by Node", by_node), ("a send by SQS", by_sqs),
            ("the end of a delay of 0.2 s", by_a_delay), ("a visibility set to 0", by_visibility),
        ):  # fmt: skip
            await measure_wakes(label, polls, count, send)
        seconds, ran, waited = (b - a for a, b in zip(since, read_schedule(pid), strict=True))
        print(f"the event loop ran {ran / seconds:.1%}, and waited to run {waited / seconds:.1%}")
    finally:
        await polls.stop()
        node.terminate()
        await node.wait()
        await queues.close()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--polls", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=200, help="by each kind of client")
    options = parser.parse_args()
    gc.disable()  # else the times of polls are also those of the collections here
    server = Server(redis_7())
    command = [sys.executable, "-m", "rsmq", "web", "--port", "0", "--sqs-port", "0", "--no-auth"]
    environment = {**os.environ, "RSMQ_URL": server.url, "RSMQ_CONFIG": "/dev/null"}
    web = subprocess.Popen(
        [*command, "--no-record"], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        lines = iter(web.stderr.readline, "") if web.stderr else iter(())
        url = next(each for each in lines if "Amazon SQS" in each).rpartition(": ")[0]
        port = int(url.rpartition(":")[2])
        asyncio.run(measure(port, server, web.pid, options.polls, options.messages))
    finally:
        web.kill()
        web.wait()
        server.stop()


if __name__ == "__main__":
    main()
