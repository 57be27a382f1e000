"""
arq's worker, in asyncio: arq_worker.py PORT.

It keeps no results, and polls for jobs each millisecond while a slot is free. Without any pause, or
with more or fewer jobs per read, it was not faster.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from typing import Any

from arq.connections import RedisSettings, create_pool
from arq.worker import Worker
from handled import Countdown, handle_async, set_sleep, take_characters
from serve import Stopwatch, serve

POLL_SECONDS = 0.001
TIMEOUT_SECONDS = 60  # longer than any slice

runner = asyncio.Runner()
pool = runner.run(create_pool(RedisSettings(port=int(sys.argv[1]))))


async def add(queue: str, body: str, count: int) -> None:
    """Add jobs one by one, because arq has no other way; this time is not measured."""
    for _ in range(count):
        await pool.enqueue_job("handler", body, _queue_name=queue)


async def handler(_context: Any, body: str) -> None:
    """Handle the body."""
    await handle_async(body)


async def work(queue: str, count: int, concurrency: int) -> Stopwatch:
    """Run all jobs, and return the stopwatch."""
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
        poll_delay=POLL_SECONDS,
    )
    stopwatch = Stopwatch()
    worker_task = asyncio.create_task(worker.main())
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await done.wait()
    stopwatch.stop()
    worker.burst = True  # ends it by itself; with burst from the start it would poll more
    await worker_task
    return stopwatch


def fill(*, queue: str, body: str, count: int, **_: Any) -> dict[str, Any]:
    """Add jobs to a queue."""
    runner.run(add(queue, body, count))
    return {}


def versions() -> dict[str, Any]:
    """Return the installed versions."""
    return {"arq": version("arq")}


def run(*, queue: str, count: int, step: int, sleep_ms: int, **_: Any) -> dict[str, Any]:
    """Handle all jobs of a queue, ``step`` at a time, and return the times."""
    set_sleep(sleep_ms)
    stopwatch = runner.run(work(queue, count, step))
    return stopwatch.reply(take_characters())


serve(fill=fill, versions=versions, run=run)
