"""
SAQ's worker, in asyncio: saq_worker.py PORT.

Finished jobs are deleted at once (ttl -1). A burst ends by itself when nothing comes for a
moment, and so leaves its connections whole for the next slice; that is after the time is taken.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.metadata import version
from typing import Any

from handled import Countdown, handle, take_characters
from saq import Queue, Worker
from serve import Stopwatch, serve

KEEP_NOTHING = -1
MOMENT = 0.05  # seconds
LONG = 60  # seconds; longer than any slice

runner = asyncio.Runner()
queues: dict[str, Queue] = {}
logging.getLogger("saq").setLevel(logging.ERROR)  # it warns of each stop


def queue_of(name: str) -> Queue:
    """The queue, with its connections."""
    if name not in queues:
        queues[name] = Queue.from_url(f"redis://127.0.0.1:{sys.argv[1]}/0", name=name)
    return queues[name]


async def add(queue: Queue, body: str, count: int) -> None:
    """
    Add jobs, as many at a time as the queue allows.

    A worker sweeps when it starts, if nobody has for a minute, and then aborts jobs that it has
    just taken itself: so we sweep before.
    """
    await queue.sweep()
    sends = (queue.enqueue("handler", body=body, ttl=KEEP_NOTHING) for _ in range(count))
    await asyncio.gather(*sends)


async def handler(_context: Any, *, body: str) -> None:
    """Do nothing."""
    handle(body)


async def work(queue: Queue, count: int, concurrency: int) -> Stopwatch:
    """Do all jobs."""
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
        dequeue_timeout=MOMENT,
    )
    stopwatch = Stopwatch()
    working = asyncio.create_task(worker.start())
    async with asyncio.timeout(LONG):
        await done.wait()
    stopwatch.stop()
    await working
    return stopwatch


def fill(queue: str, body: str, count: int) -> dict[str, Any]:
    """Add jobs to a queue."""
    runner.run(add(queue_of(queue), body, count))
    return {}


def versions() -> dict[str, Any]:
    """What is installed."""
    return {"SAQ": version("saq")}


def run(*, queue: str, count: int, step: int, **_: Any) -> dict[str, Any]:
    """Handle all jobs of a queue, ``step`` at a time; what it took."""
    stopwatch = runner.run(work(queue_of(queue), count, step))
    return stopwatch.answer(take_characters())


serve(fill=fill, versions=versions, run=run)
