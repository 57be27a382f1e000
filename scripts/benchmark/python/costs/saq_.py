"""SAQ's worker with its defaults; it has one queue; usage as ours.py."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from job import bodies, handle
from saq import Queue, Worker

port, _queues, action, *rest = sys.argv[1:]
queue = Queue.from_url(f"redis://127.0.0.1:{port}/0", name="q0")


async def job(_context: Any, *, body: str) -> str:
    """Handle the body."""
    return handle(body)


async def send(count: str, size: str, tracked: str) -> None:
    """Send the jobs, one by one."""
    for body in bodies(count, size):
        await queue.enqueue("job", body=body, ttl=600 if tracked == "1" else -1)
    await queue.disconnect()


if action == "send":
    asyncio.run(send(*rest))
else:
    asyncio.run(Worker(queue, [("job", job)]).start())
