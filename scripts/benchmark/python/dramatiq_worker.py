"""
dramatiq's worker, with handlers in threads: dramatiq_worker.py PORT.

Its only middleware is Retries, which makes it reliable, and one that counts acknowledged jobs. By
default it prefetches at most two jobs per thread and sleeps at least 5 ms when it has them. A
handler that does nothing then waits: 2,000 jobs per second with 8 threads. With a prefetch of 1,000
it reaches six times that; more has no effect. Idle threads poll every 0.1 s, not every second, so
that it stops sooner; that is after the measured time.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib.metadata import version
from typing import Any

from redis import Redis

PREFETCH = 1000
os.environ["dramatiq_queue_prefetch"] = str(PREFETCH)  # noqa: SIM112 - read when it is imported

from dramatiq import Actor, actor  # noqa: E402
from dramatiq.brokers.redis import RedisBroker  # noqa: E402
from dramatiq.middleware import Middleware, Retries  # noqa: E402
from dramatiq.worker import Worker  # noqa: E402
from handled import Countdown, handle, set_sleep, take_characters  # noqa: E402
from serve import Stopwatch, serve  # noqa: E402

WORKER_TIMEOUT_MS = 100
TIMEOUT_SECONDS = 60  # longer than any slice

client = Redis(port=int(sys.argv[1]))


class AcknowledgementCounter(Middleware):
    """A middleware that counts acknowledged jobs."""

    def __init__(self, countdown: Countdown) -> None:
        self._countdown = countdown

    def after_ack(self, *_: Any) -> None:
        self._countdown.step()


def actor_of(queue: str, *middleware: Middleware) -> Actor:
    """
    Return the handler of a queue, with a broker of its own: workers leave state in their broker.
    """
    broker = RedisBroker(client=client, middleware=[Retries(), *middleware])
    return actor(handle, broker=broker, queue_name=queue)


def fill(*, queue: str, body: str, count: int, **_: Any) -> dict[str, Any]:
    """Add jobs to a queue one by one, as dramatiq's groups do too."""
    handler = actor_of(queue)
    for _ in range(count):
        handler.send(body)
    return {}


def versions() -> dict[str, Any]:
    """Return the installed versions."""
    return {"dramatiq": version("dramatiq")}


def run(*, queue: str, count: int, step: int, sleep_ms: int, **_: Any) -> dict[str, Any]:
    """Handle all jobs of a queue in ``step`` threads, and return the times."""
    set_sleep(sleep_ms)
    done = threading.Event()
    handler = actor_of(queue, AcknowledgementCounter(Countdown(count, done.set)))
    worker = Worker(handler.broker, worker_threads=step, worker_timeout=WORKER_TIMEOUT_MS)
    stopwatch = Stopwatch()
    worker.start()
    done.wait(TIMEOUT_SECONDS)
    stopwatch.stop()
    worker.stop()
    return stopwatch.reply(take_characters())


serve(fill=fill, versions=versions, run=run)
