"""A tracking worker whose handler runs in child processes, which import this module."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from rsmq import RSMQ
from rsmq.worker import HandlerCancelled, Worker

#: The handler writes its process id to it, and what has interrupted it.
EVENTS = Path(os.environ.get("JOBS_EVENTS", os.devnull))

rsmq = RSMQ.from_url(
    os.environ.get("JOBS_URL", "redis://127.0.0.1:1"), ns=os.environ.get("JOBS_NS", "jobs")
)
worker = Worker(rsmq, concurrency=1, grace=5)


@worker.listener("q", track=True, process=True, drop=True, max_retries=0)
def handle(body, message):
    EVENTS.write_text(str(os.getpid()))
    for number in range(3):
        message.set_progress(number, 3, body)
    if body == "halt":  # as C code that keeps the GIL
        os.kill(os.getpid(), signal.SIGSTOP)
    if body == "return":
        message.set_progress(3, 3, "all")
        return 3
    try:
        time.sleep(60)
    except HandlerCancelled:
        EVENTS.write_text(f"{os.getpid()} {message.cancelled}")
        while body == "stay":
            with suppress(HandlerCancelled):
                time.sleep(60)
        raise
