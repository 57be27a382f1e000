"""
arq's worker, in asyncio: arq_worker.py PORT.

It keeps no results, and asks for jobs each millisecond that it has a place free; without any
pause, or reading more or fewer jobs at a time, it was no faster.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from typing import Any

from arq.connections import RedisSettings, create_pool
from arq.worker import Worker
from handled import Countdown, handle, take_characters
from serve import Stopwatch, serve

PAUSE = 0.001  # seconds
LONG = 60  # seconds; longer than any slice

runner = asyncio.Runner()
pool = runner.run(create_pool(RedisSettings(port=int(sys.argv[1]))))


async def add(queue: str, body: str, count: int) -> None:
    """Add jobs, one by one: there is no other way, and no hurry."""
    for _ in range(count):
        await pool.enqueue_job("handler", body, _queue_name=queue)


async def handler(_context: Any, body: str) -> None:
    """Do nothing."""
    handle(body)


async def work(queue: str, count: int, concurrency: int) -> Stopwatch:
    """Do all jobs."""
    done = asyncio.Event()
    countdown = Countdown(count, done.set)

    async def after_job_end(_context: Any) -> None:
        countdown.step()

    worker = Worker(
        [handler],
        queue_name=queue,
        redis_pool=pool,
        handle_signals=False,
        after_job_end=after_job_end,
        max_jobs=concurrency,
        keep_result=0,
        poll_delay=PAUSE,
    )
    stopwatch = Stopwatch()
    working = asyncio.create_task(worker.main())
    async with asyncio.timeout(LONG):
        await done.wait()
    stopwatch.stop()
    worker.burst = True  # so that it ends by itself; all along, it would ask more at each poll
    await working
    return stopwatch


def fill(queue: str, body: str, count: int) -> dict[str, Any]:
    """Add jobs to a queue."""
    runner.run(add(queue, body, count))
    return {}


def versions() -> dict[str, Any]:
    """What is installed."""
    return {"arq": version("arq")}


def run(*, queue: str, count: int, step: int, **_: Any) -> dict[str, Any]:
    """Handle all jobs of a queue, ``step`` at a time; what it took."""
    stopwatch = runner.run(work(queue, count, step))
    return stopwatch.answer(take_characters())


serve(fill=fill, versions=versions, run=run)
