"""A worker with limits whose handler runs in child processes, which import this module."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rsmq import RSMQ
from rsmq.worker import Worker
from rsmq.worker.middlewares import LockByKey, Permission, RateLimit

EVENTS = Path(os.environ.get("LIMITED_APP_EVENTS", os.devnull))

rsmq = RSMQ.from_url(
    os.environ.get("LIMITED_APP_URL", "redis://127.0.0.1:1"),
    ns=os.environ.get("LIMITED_APP_NS", "rsmq"),
)
worker = Worker(
    rsmq,
    concurrency=2,
    grace=5,
    middleware=[
        RateLimit(4, 600),
        LockByKey(lambda message: message.body[0], after=0.1),
        Permission(lambda message: message.body != "x!", otherwise="discard"),
    ],
)


@worker.listener("q", process=True, retry_forever=True, max_runtime=30)
def handle(body, message):
    for event in ("begin", "end"):
        with EVENTS.open("a") as file:
            file.write(f"{event} {body} {message.attempt}\n")
        time.sleep(0.02)
