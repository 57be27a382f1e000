"""
SAQ's worker, in asyncio: saq_worker.py PORT.

Finished jobs are deleted at once (ttl -1). A burst ends by itself when no job arrives for a moment,
and leaves its connections usable for the next slice; that is after the measured time.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.metadata import version
from typing import Any

from handled import Countdown, handle_async, set_sleep, take_characters
from saq import Queue, Worker
from serve import Stopwatch, serve

DELETE_AT_ONCE_TTL = -1
DEQUEUE_TIMEOUT_SECONDS = 0.05
TIMEOUT_SECONDS = 60  # longer than any slice

runner = asyncio.Runner()
queues: dict[str, Queue] = {}
logging.getLogger("saq").setLevel(logging.ERROR)  # it warns at each stop


def queue_of(name: str) -> Queue:
    """Return the queue, with its connections."""
    if name not in queues:
        queues[name] = Queue.from_url(f"redis://127.0.0.1:{sys.argv[1]}/0", name=name)
    return queues[name]


async def add(queue: Queue, body: str, count: int) -> None:
    """
    Add jobs, as many at a time as the queue allows.

    A worker sweeps when it starts, unless one has in the last minute, and then aborts jobs that it
    has just received itself. To prevent that, this function sweeps first.
    """
    await queue.sweep()
    sends = (queue.enqueue("handler", body=body, ttl=DELETE_AT_ONCE_TTL) for _ in range(count))
    await asyncio.gather(*sends)


async def handler(_context: Any, *, body: str) -> None:
    """Handle the body."""
    await handle_async(body)


async def work(queue: Queue, count: int, concurrency: int) -> Stopwatch:
    """Run all jobs, and return the stopwatch."""
    done = asyncio.Event()
    countdown = Countdown(count, done.set)

    async def after_process(_context: Any) -> None:
        countdown.step()

    worker = Worker(
        queue,
        [("handler", handler)],
        concurrency=concurrency,
        after_process=after_process,
        burst=True,
        dequeue_timeout=DEQUEUE_TIMEOUT_SECONDS,
    )
    stopwatch = Stopwatch()
    worker_task = asyncio.create_task(worker.start())
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await done.wait()
    stopwatch.stop()
    await worker_task
    return stopwatch


def fill(*, queue: str, body: str, count: int, **_: Any) -> dict[str, Any]:
    """Add jobs to a queue."""
    runner.run(add(queue_of(queue), body, count))
    return {}


def versions() -> dict[str, Any]:
    """Return the installed versions."""
    return {"SAQ": version("saq")}


def run(*, queue: str, count: int, step: int, sleep_ms: int, **_: Any) -> dict[str, Any]:
    """Handle all jobs of a queue, ``step`` at a time, and return the times."""
    set_sleep(sleep_ms)
    stopwatch = runner.run(work(queue_of(queue), count, step))
    return stopwatch.reply(take_characters())


serve(fill=fill, versions=versions, run=run)
