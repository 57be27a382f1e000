"""
This library: ours.py PORT QUEUES with one of

    send COUNT SIZE TRACKED
    work TRACKED
    wait COUNT
"""

from __future__ import annotations

import asyncio
import sys

from job import bodies, handle

from rsmq import AsyncRSMQ
from rsmq.tasks import Tasks

port, queues, action, *rest = sys.argv[1:]
tasks = Tasks.from_url(f"redis://127.0.0.1:{port}/0")
jobs = [
    tasks.task(queue=f"q{number}", name=f"job{number}", track=rest[-1] == "1")(handle)
    for number in range(int(queues))
]


async def wait(count: int) -> None:
    """Wait for messages with many calls at a time, which no message ends."""
    async with AsyncRSMQ.from_url(f"redis://127.0.0.1:{port}/0") as rsmq:
        names = [f"q{number}" for number in range(int(queues))]
        for name in names:
            await rsmq.create_queue(name)
        calls = (
            rsmq.receive_message(names[number % len(names)], wait=600) for number in range(count)
        )
        await asyncio.gather(*calls)


if action == "send":
    count, size, _ = rest
    for number, body in enumerate(bodies(count, size)):
        jobs[number % len(jobs)].send(body)
elif action == "work":
    tasks.worker().run()
else:
    asyncio.run(wait(int(rest[0])))
