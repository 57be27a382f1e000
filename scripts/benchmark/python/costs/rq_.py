"""RQ's worker with its defaults, which forks for each job; usage as ours.py."""

from __future__ import annotations

import sys

from job import bodies
from redis import Redis
from rq import Queue, Worker

port, queues, action, *rest = sys.argv[1:]
client = Redis(port=int(port))
names = [f"q{number}" for number in range(int(queues))]

if action == "send":
    count, size, tracked = rest
    every = [Queue(name, connection=client) for name in names]
    for number, body in enumerate(bodies(count, size)):
        ttl = None if tracked == "1" else 0
        every[number % len(every)].enqueue("job.handle", body, result_ttl=ttl)
else:
    Worker(names, connection=client).work(logging_level="WARNING")
