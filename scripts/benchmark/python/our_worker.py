"""
This library's worker, with a handler in threads or in asyncio: our_worker.py PORT.

The time ends when the worker has stopped, because it may delete the last messages only then.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from handled import Countdown, handle, handle_async, set_sleep, take_characters
from serve import measure, serve

from rsmq import RSMQ
from rsmq.worker import Worker

TIMEOUT_SECONDS = 60  # longer than any slice

rsmq = RSMQ.from_url(f"redis://127.0.0.1:{sys.argv[1]}/0")


def listen_in_threads(worker: Worker, queue: str, handled: Countdown) -> None:
    """Add a plain function as the listener."""

    @worker.listener(queue, vt=TIMEOUT_SECONDS, retry_forever=True)
    def listener(body: str, _message: Any) -> None:
        handle(body)
        handled.step()


def listen_in_asyncio(worker: Worker, queue: str, handled: Countdown) -> None:
    """Add a coroutine function as the listener."""

    @worker.listener(queue, vt=TIMEOUT_SECONDS, retry_forever=True)
    async def listener(body: str, _message: Any) -> None:
        await handle_async(body)
        handled.step()


LISTENERS = {"threads": listen_in_threads, "asyncio": listen_in_asyncio}


def run(*, way: str, queue: str, count: int, step: int, sleep_ms: int, **_: Any) -> dict[str, Any]:
    """Handle all messages of a queue, ``step`` at a time, and return the times."""
    set_sleep(sleep_ms)
    done = threading.Event()
    worker = Worker(rsmq, concurrency=step)
    LISTENERS[way](worker, queue, Countdown(count, done.set))

    def work() -> int:
        worker.start()
        done.wait(TIMEOUT_SECONDS)
        worker.stop()
        return take_characters()

    return measure(work)


serve(run=run)
