"""
Pushes a second to a local server: a webhook, and a plain loop of its HTTP client beside it.

    .venv/bin/python -m scripts.benchmark.pushes [--rounds N] [--messages N]

Both send the same requests, signed, 64 at a time, with a time-out of 10 seconds, over connections
that are used again. The webhook also receives each message from Redis and deletes it; its time runs
from before the worker starts until the last message is deleted. Each round measures both, in random
order; the ratios are medians over the rounds. The ratio of the processor times of this process is
the steadier one on a machine that does other work too.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from rsmq import BYTES, RSMQ
from rsmq.webhooks.signatures import Signer
from rsmq.worker import Worker
from scripts.benchmark.cases import SMALL
from scripts.benchmark.contender import FOLDER, ContenderFailed
from scripts.benchmark.figures import Track, summary
from scripts.benchmark.server import Server

QUEUE = "pushes"
AT_A_TIME = 64
WEBHOOK, PLAIN = "rsmq, webhook", "aiohttp, plain loop"
BODY = b"x" * SMALL
KEY = b"k" * 32
SIGNER = Signer([KEY])
MESSAGES_IN_A_BATCH = 1000
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Cost:
    """The time for some pushes, and the processor time of this process for them, in seconds."""

    seconds: float
    cpu_seconds: float


@contextmanager
def start_target() -> Iterator[str]:
    """Run the HTTP server during the block, and return its URL."""
    process = subprocess.Popen(
        [sys.executable, str(FOLDER / "python" / "target.py")],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise ContenderFailed("the HTTP server did not start")
        yield f"http://127.0.0.1:{int(line)}/hooks"
    finally:
        process.terminate()
        process.communicate()


def push(rsmq: RSMQ[bytes], url: str, messages: int) -> Cost:
    """Push messages with a webhook, and return the cost."""
    for _ in range(0, messages, MESSAGES_IN_A_BATCH):
        rsmq.send_messages(QUEUE, [BODY] * min(messages, MESSAGES_IN_A_BATCH))
    count = rsmq.get_queue_attributes(QUEUE).messages
    worker = Worker(rsmq, concurrency=AT_A_TIME)
    worker.webhook(
        QUEUE,
        url,
        secret=KEY,
        allow_http=True,
        allow="127.0.0.1",
        dead_letter_queue=f"{QUEUE}-dead",
    )
    read = start_clocks()
    with worker:
        while worker.numbers.handled < count:
            if read().seconds > TIMEOUT_SECONDS:
                raise ContenderFailed(f"the webhook: {worker.numbers}")
            time.sleep(0.01)
        cost = read()
    return Cost(cost.seconds * messages / count, cost.cpu_seconds * messages / count)


def start_clocks() -> Callable[[], Cost]:
    """Return a function that returns the times since now."""
    began, cpu_began = time.perf_counter(), time.process_time()
    return lambda: Cost(time.perf_counter() - began, time.process_time() - cpu_began)


def headers_of(number: int) -> dict[str, str]:
    """Return the headers of a webhook's request."""
    id, timestamp = f"{number:032}", int(time.time())
    return {
        "Content-Type": "application/octet-stream",
        "rsmq-queue": QUEUE,
        "rsmq-receive-count": "1",
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": SIGNER.sign(id, timestamp, BODY),
    }


async def post(url: str, messages: int) -> Cost:
    """Post the same requests with a plain loop of the client, and return the cost."""
    left = messages
    read = start_clocks()
    timeout = aiohttp.ClientTimeout(total=10)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def run() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                async with session.post(url, data=BODY, headers=headers_of(left)) as response:
                    await response.read()
                    if response.status != 204:  # noqa: PLR2004 - the server's only answer
                        raise ContenderFailed(f"the plain loop: {response.status}")

        await asyncio.gather(*(run() for _ in range(AT_A_TIME)))
    return read()


def measure(rounds: int, messages: int, track: Track) -> dict[str, Any]:
    """Measure both in turns, in random order."""
    costs: dict[str, list[Cost]] = {WEBHOOK: [], PLAIN: []}
    with Server() as server, start_target() as url, RSMQ.from_url(server.url, codec=BYTES) as rsmq:
        for name in (QUEUE, f"{QUEUE}-dead"):
            rsmq.create_queue(name)
        measured = {
            WEBHOOK: lambda: push(rsmq, url, messages),
            PLAIN: lambda: asyncio.run(post(url, messages)),
        }
        for run in measured.values():
            run()  # imports and scripts
        schedule = [name for _ in range(rounds) for name in random.sample(list(measured), 2)]
        for name in track(schedule, description="Pushes"):
            costs[name].append(measured[name]())
    rates = {
        name: summary([messages / each.seconds for each in values])
        for name, values in costs.items()
    }
    pairs = list(zip(costs[PLAIN], costs[WEBHOOK], strict=True))
    return {
        "messages": messages,
        "at_a_time": AT_A_TIME,
        "rates": rates,
        "ratio": statistics.median(plain.seconds / ours.seconds for plain, ours in pairs),
        "cpu_ratio": statistics.median(
            plain.cpu_seconds / ours.cpu_seconds for plain, ours in pairs
        ),
    }


def main() -> None:
    """Print both rates, and the ratios."""
    parser = argparse.ArgumentParser(prog="pushes")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--messages", type=int, default=4000)
    arguments = parser.parse_args()
    results = measure(
        arguments.rounds,
        arguments.messages,
        lambda schedule, description: schedule,  # noqa: ARG005 - no progress bar
    )
    for name, rate in results["rates"].items():
        low, high = rate["middle_half"]
        print(f"{name}: {rate['median']:,.0f} a second, middle half {low:,.0f} to {high:,.0f}")
    print(f"ratio of the rates: {results['ratio']:.2f}")
    print(f"ratio of the processor times, plain loop to webhook: {results['cpu_ratio']:.2f}")


if __name__ == "__main__":
    main()
