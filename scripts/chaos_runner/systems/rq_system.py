"""
RQ. The module is the producer, ``rq worker`` runs jobs, each in a process of its own.

The safe settings retry a job three times.
"""

from __future__ import annotations

import sys

from redis import Redis
from rq import Queue, Retry, get_current_job

from scripts.chaos_runner.systems.steps import IS_SAFE, PORT, handle, produce

queue = Queue(connection=Redis(port=PORT))


def work(body: str) -> None:
    """Handle a job."""
    handle(get_current_job().id, body)


def _enqueue(body: str) -> str:
    name = "scripts.chaos_runner.systems.rq_system.work"
    return queue.enqueue(name, body, retry=Retry(max=3) if IS_SAFE else None).id


if __name__ == "__main__":
    produce(_enqueue, float(sys.argv[1]))
