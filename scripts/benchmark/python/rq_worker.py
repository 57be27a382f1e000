"""
RQ's SimpleWorker: rq_worker.py PORT.

It runs one job at a time in its own process; the default worker forks a process for each job, which
takes longer than everything else. It is configured for speed: jobs keep no result (result_ttl 0),
and their descriptions are neither created nor logged. The same worker is used in all slices.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

from handled import Countdown, take_characters
from redis import Redis
from rq import Queue, SimpleWorker
from rq.job import Job
from serve import Stopwatch, serve

client = Redis(port=int(sys.argv[1]))
workers: dict[str, Worker] = {}


class Worker(SimpleWorker):
    """A worker that counts the jobs that it has finished and acknowledged."""

    done: Countdown

    def execute_job(self, job: Job, queue: Queue) -> None:
        super().execute_job(job, queue)
        self.done.step()

    def unsubscribe(self) -> None:
        """
        Stop the thread first: otherwise it may wait again after its wake-up, and delay the stop by
        a second.
        """
        self.pubsub_thread.stop()
        super().unsubscribe()


def fill(queue: str, body: str, count: int) -> dict[str, Any]:
    """Add jobs to a queue."""
    job = Queue.prepare_data("handled.handle", (body,), result_ttl=0, description="job")
    Queue(queue, connection=client).enqueue_many([job] * count)
    return {}


def versions() -> dict[str, Any]:
    """Return the installed versions."""
    return {"RQ": version("rq"), "the other workers' redis-py": version("redis")}


def run(*, queue: str, count: int, **_: Any) -> dict[str, Any]:
    """Handle all jobs of a queue, and return the times."""
    if queue not in workers:
        workers[queue] = Worker([queue], connection=client, log_job_description=False)
    stopwatch = Stopwatch()
    workers[queue].done = Countdown(count, stopwatch.stop)
    workers[queue].work(burst=True, max_jobs=count, logging_level="WARNING")
    return stopwatch.reply(take_characters())


serve(fill=fill, versions=versions, run=run)
