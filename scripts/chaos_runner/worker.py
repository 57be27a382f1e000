"""
A worker that records the calls of its handlers, one for messages and one for tasks.

    python -m scripts.chaos_runner.worker URL NAMESPACE FILE NAME SEED

A few calls raise an error, and are retried. A handler that raises is recorded as unknown: its
message must not be gone.
"""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

from rsmq import RSMQ, TEXT
from rsmq.worker import Delivery, fixed

from .client import QUEUE, VT_SECONDS
from .recorder import Recorder
from .task_functions import declare

_FAILING_SHARE = 0.02
_CONCURRENCY = 4


def main(url: str, ns: str, path: str, name: str, seed: str) -> None:
    """Run until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # until the worker runs
    recorder = Recorder(Path(path))
    chance = random.Random(seed)  # noqa: S311

    def handle(message: Delivery, body: str, result: str | None = None) -> None:
        op = recorder.begin("handle", id=message.id, body=body, count=message.receive_count)
        if chance.random() < _FAILING_SHARE:
            recorder.end(op, "unknown")
            raise RuntimeError("This call fails on purpose.")
        recorder.end(op, result=result)

    tasks, _work = declare(RSMQ.from_url(url, ns=ns), handle)
    worker = tasks.worker(name=name, concurrency=_CONCURRENCY)

    @worker.listener(QUEUE, vt=VT_SECONDS, codec=TEXT, backoff=fixed(0.2), retry_forever=True)
    def work(body: str, message: Delivery) -> None:
        handle(message, body)

    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
