"""dramatiq's worker with 8 threads in one process, its default; usage as ours.py."""

from __future__ import annotations

import signal
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from job import bodies, handle

port, queues, action, *rest = sys.argv[1:]
broker = RedisBroker(port=int(port))
broker.add_middleware(Results(backend=RedisBackend(port=int(port))))
jobs = [
    dramatiq.actor(
        handle,
        broker=broker,
        actor_name=f"job{number}{stored}",
        queue_name=f"q{number}",
        store_results=bool(stored),
    )
    for number in range(int(queues))
    for stored in ("", "s")
]

if action == "send":
    count, size, tracked = rest
    for number, body in enumerate(bodies(count, size)):
        jobs[number % int(queues) * 2 + int(tracked)].send(body)
else:
    worker = dramatiq.Worker(broker)
    worker.start()
    signal.sigwait({signal.SIGTERM})
    worker.stop()
