"""arq's worker with its defaults; it has one queue; usage as ours.py."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from arq.connections import RedisSettings, create_pool
from arq.worker import Worker, func
from job import bodies, handle

port, _queues, action, *rest = sys.argv[1:]
settings = RedisSettings(port=int(port))


async def job(_context: Any, body: str) -> str:
    """Handle the body."""
    return handle(body)


async def send(count: str, size: str, tracked: str) -> None:
    """Send the jobs, one by one."""
    pool = await create_pool(settings)
    for body in bodies(count, size):
        await pool.enqueue_job("job" if tracked == "1" else "forgotten", body, _queue_name="q0")


if action == "send":
    asyncio.run(send(*rest))
else:
    asyncio.set_event_loop(asyncio.new_event_loop())
    functions = [func(job, name="job"), func(job, name="forgotten", keep_result=0)]
    Worker(functions, queue_name="q0", redis_settings=settings).run()
