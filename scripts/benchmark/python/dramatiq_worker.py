"""
dramatiq's worker, with handlers in threads: dramatiq_worker.py PORT.

Of its middleware only Retries, which is what makes it reliable, and one that counts what was
acknowledged. By default it fetches no more than two jobs a thread ahead and sleeps at least 5 ms
when it has them, which makes a handler that does nothing wait: 2,000 jobs a second with 8 threads.
With 1,000 ahead it comes to six times that; more adds nothing. Idle threads look up every 0.1 s,
not every second, so that it stops sooner, which is after the time is taken.
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
from handled import Countdown, handle, take_characters  # noqa: E402
from serve import Stopwatch, serve  # noqa: E402

TIMEOUT = 100  # milliseconds
LONG = 60  # seconds; longer than any slice

client = Redis(port=int(sys.argv[1]))


class Acknowledged(Middleware):
    """Counts what was acknowledged."""

    def __init__(self, countdown: Countdown) -> None:
        self._countdown = countdown

    def after_ack(self, *_: Any) -> None:
        self._countdown.step()


def actor_of(queue: str, *middleware: Middleware) -> Actor:
    """The handler of a queue, with a broker of its own: workers leave traces in theirs."""
    broker = RedisBroker(client=client, middleware=[Retries(), *middleware])
    return actor(handle, broker=broker, queue_name=queue)


def fill(queue: str, body: str, count: int) -> dict[str, Any]:
    """Add jobs to a queue; its groups send one by one too."""
    handler = actor_of(queue)
    for _ in range(count):
        handler.send(body)
    return {}


def versions() -> dict[str, Any]:
    """What is installed."""
    return {"dramatiq": version("dramatiq")}


def run(*, queue: str, count: int, step: int, **_: Any) -> dict[str, Any]:
    """Handle all jobs of a queue in ``step`` threads; what it took."""
    done = threading.Event()
    handler = actor_of(queue, Acknowledged(Countdown(count, done.set)))
    worker = Worker(handler.broker, worker_threads=step, worker_timeout=TIMEOUT)
    stopwatch = Stopwatch()
    worker.start()
    done.wait(LONG)
    stopwatch.stop()
    worker.stop()
    return stopwatch.answer(take_characters())


serve(fill=fill, versions=versions, run=run)
