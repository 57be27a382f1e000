"""
This library's worker, with a handler in threads or in asyncio: our_worker.py PORT.

The time ends when the worker has stopped: it may delete last what it handled last.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from handled import Countdown, handle, take_characters
from serve import serve, timed

from rsmq import RSMQ
from rsmq.worker import Worker

LONG = 60  # seconds; longer than any slice

rsmq = RSMQ.from_url(f"redis://127.0.0.1:{sys.argv[1]}/0")


def listen_in_threads(worker: Worker, queue: str, handled: Countdown) -> None:
    """Give it a plain function."""

    @worker.listener(queue, vt=LONG)
    def listener(body: str, _message: Any) -> None:
        handle(body)
        handled.step()


def listen_in_asyncio(worker: Worker, queue: str, handled: Countdown) -> None:
    """Give it a coroutine function."""

    @worker.listener(queue, vt=LONG)
    async def listener(body: str, _message: Any) -> None:
        handle(body)
        handled.step()


LISTEN = {"threads": listen_in_threads, "asyncio": listen_in_asyncio}


def run(*, way: str, queue: str, count: int, step: int, **_: Any) -> dict[str, Any]:
    """Handle all messages of a queue, ``step`` at a time; what it took."""
    done = threading.Event()
    worker = Worker(rsmq, concurrency=step)
    LISTEN[way](worker, queue, Countdown(count, done.set))

    def work() -> int:
        worker.start()
        done.wait(LONG)
        worker.stop()
        return take_characters()

    return timed(work)


serve(run=run)
