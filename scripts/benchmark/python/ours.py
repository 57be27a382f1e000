"""This library in each of its variants, and redis-py's pipeline of its script: ours.py PORT."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import perf_counter
from typing import Any

import redis
from serve import measure, serve

from rsmq import RSMQ, AsyncRSMQ
from scripts.benchmark.operations import Operations

PORT = int(sys.argv[1])
URL = f"redis://127.0.0.1:{PORT}/0"


client = redis.Redis(port=PORT)
from_url = RSMQ.from_url(URL)
with_provided_client = RSMQ(client)
operations = Operations(client)
aio = AsyncRSMQ.from_url(URL)
runner = asyncio.Runner()
executor = ThreadPoolExecutor(200)  # whose threads stay, and their connections with them


def send(rsmq: RSMQ, queue: str, body: str, count: int) -> int:
    """Send one by one."""
    for _ in range(count):
        rsmq.send_message(queue, body)
    return 0


def receive(rsmq: RSMQ, queue: str, count: int) -> int:
    """Receive and delete one by one; return the number of characters received."""
    characters = 0
    for _ in range(count):
        message = rsmq.receive_message(queue)
        characters += len(message.body)
        rsmq.delete_message(message)
    return characters


def send_batches(queue: str, body: str, count: int, step: int) -> int:
    """Send ``step`` messages per call."""
    for _ in range(count // step):
        from_url.send_messages(queue, [body] * step)
    return 0


def receive_batches(queue: str, count: int, step: int) -> int:
    """Receive and delete ``step`` messages per call; return the number of characters received."""
    characters = 0
    for _ in range(count // step):
        messages = from_url.receive_messages(queue, step)
        characters += sum(len(message.body) for message in messages)
        from_url.delete_messages(messages)
    return characters


def send_in_pipelines(queue: str, body: str, count: int, step: int) -> int:
    """Send ``step`` messages per pipeline, each with its own command."""
    for _ in range(count // step):
        pipeline = client.pipeline(transaction=False)
        for _ in range(step):
            operation = operations.send_message(queue, body)
            pipeline.execute_command(
                "EVALSHA",
                operation.script.sha1,
                len(operation.keys),
                *operation.keys,
                *operation.args,
            )
        pipeline.execute()
    return 0


async def aio_send(queue: str, body: str) -> int:
    """Send one message."""
    await aio.send_message(queue, body)
    return 0


async def aio_receive(queue: str) -> int:
    """Receive and delete one message; return the number of characters received."""
    message = await aio.receive_message(queue)
    characters = len(message.body)
    await aio.delete_message(message)
    return characters


async def run_concurrently(call: Callable[[], Awaitable[int]], count: int, concurrency: int) -> int:
    """Call it ``count`` times, ``concurrency`` of them at a time; return the sum of the results."""

    async def run_sequentially() -> int:
        return sum([await call() for _ in range(count // concurrency)])

    return sum(await asyncio.gather(*(run_sequentially() for _ in range(concurrency))))


WAYS: dict[tuple[str, str], Callable[[str, str, int, int], int]] = {
    ("send", "from_url"): lambda queue, body, count, _: send(from_url, queue, body, count),
    ("send", "handed in"): lambda queue, body, count, _: send(
        with_provided_client, queue, body, count
    ),
    ("send", "batches"): send_batches,
    ("send", "pipelines"): send_in_pipelines,
    ("send", "asyncio"): lambda queue, body, count, step: runner.run(
        run_concurrently(lambda: aio_send(queue, body), count, step)
    ),
    ("receive", "from_url"): lambda queue, _, count, __: receive(from_url, queue, count),
    ("receive", "handed in"): lambda queue, _, count, __: receive(
        with_provided_client, queue, count
    ),
    ("receive", "batches"): lambda queue, _, count, step: receive_batches(queue, count, step),
    ("receive", "asyncio"): lambda queue, _, count, step: runner.run(
        run_concurrently(lambda: aio_receive(queue), count, step)
    ),
}


def run(
    *, action: str, way: str, queue: str, body: str, count: int, step: int, **_: Any
) -> dict[str, Any]:
    """Run an action in one of the variants, and return the times."""
    work = WAYS[action, way]
    return measure(lambda: work(queue, body, count, step))


def mix(
    *, way: str, queues: list[str], bodies: list[str], count: int, at_a_time: int, limit: float
) -> dict[str, Any]:
    """Send, receive and delete, each caller one call after the other; also return their times."""
    milliseconds: list[float] = []

    def note(*times: float) -> None:
        milliseconds.extend((end - begin) * 1000 for begin, end in pairwise(times))

    def work(first: int) -> int:
        characters = 0
        for number in range(first, count, at_a_time):
            queue, body = queues[number % len(queues)], bodies[number % len(bodies)]
            begin = perf_counter()
            from_url.send_message(queue, body, timeout=limit)
            sent = perf_counter()
            message = from_url.receive_message(queue)
            received = perf_counter()
            from_url.delete_message(message)
            note(begin, sent, received, perf_counter())
            characters += len(message.body)
        return characters

    async def aio_work(first: int) -> int:
        characters = 0
        for number in range(first, count, at_a_time):
            queue, body = queues[number % len(queues)], bodies[number % len(bodies)]
            begin = perf_counter()
            await aio.send_message(queue, body, timeout=limit)
            sent = perf_counter()
            message = await aio.receive_message(queue)
            received = perf_counter()
            await aio.delete_message(message)
            note(begin, sent, received, perf_counter())
            characters += len(message.body)
        return characters

    async def aio_work_all() -> int:
        return sum(await asyncio.gather(*map(aio_work, range(at_a_time))))

    if way == "asyncio":
        times = measure(lambda: runner.run(aio_work_all()))
    else:
        times = measure(lambda: sum(executor.map(work, range(at_a_time))))
    return {**times, "milliseconds": milliseconds}


client.script_load(operations.send_message("any", "").script.source)
serve(run=run, mix=mix)
