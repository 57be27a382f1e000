"""
RQ's workers, with a fork for each job and without: rq_worker.py PORT.

They run one job at a time. ``Worker``, the class that the command ``rq worker`` runs by default,
forks a process for each job; ``SimpleWorker`` runs jobs in its own process. Both are configured for
speed: jobs keep no result (result_ttl 0), and their descriptions are neither created nor logged.
The same workers are used in all slices.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import rq
from handled import Countdown, set_sleep, take_characters
from redis import Redis
from rq import Queue
from rq.job import Job
from rq.worker import BaseWorker
from serve import Stopwatch, serve

client = Redis(port=int(sys.argv[1]))
workers: dict[tuple[str, str], CountingWorker] = {}


class CountingWorker(BaseWorker):
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


class ForkingWorker(CountingWorker, rq.Worker):
    """The usual worker."""


class SimpleWorker(CountingWorker, rq.SimpleWorker):
    """The worker without forks."""


KINDS = {"fork": ForkingWorker, "simple": SimpleWorker}
HANDLERS = {"fork": "handled.handle_in_fork", "simple": "handled.handle"}


def fill(*, way: str, queue: str, body: str, count: int) -> dict[str, Any]:
    """Add jobs to a queue."""
    job = Queue.prepare_data(HANDLERS[way], (body,), result_ttl=0, description="job")
    Queue(queue, connection=client).enqueue_many([job] * count)
    return {}


def versions() -> dict[str, Any]:
    """Return the installed versions."""
    return {"RQ": version("rq"), "the other workers' redis-py": version("redis")}


def run(*, way: str, queue: str, count: int, sleep_ms: int, **_: Any) -> dict[str, Any]:
    """Handle all jobs of a queue, and return the times."""
    if (way, queue) not in workers:
        workers[way, queue] = KINDS[way]([queue], connection=client, log_job_description=False)
    worker = workers[way, queue]
    set_sleep(sleep_ms)
    stopwatch = Stopwatch()
    worker.done = Countdown(count, stopwatch.stop)
    worker.work(burst=True, max_jobs=count, logging_level="WARNING")
    return stopwatch.reply(take_characters())


serve(fill=fill, versions=versions, run=run)
