"""A worker with several handlers for one message, in child processes, which import this module."""

from __future__ import annotations

import os
from pathlib import Path

from rsmq import RSMQ
from rsmq.worker import Worker

EVENTS = Path(os.environ.get("GROUP_APP_EVENTS", os.devnull))

rsmq = RSMQ.from_url(
    os.environ.get("GROUP_APP_URL", "redis://127.0.0.1:1"),
    ns=os.environ.get("GROUP_APP_NS", "rsmq"),
)
worker = Worker(rsmq, concurrency=2, grace=5)
group = worker.handlers(
    "q", process=True, max_retries=3, backoff=0.01, dead_letter_queue="dead", max_runtime=30
)


def note(name, message):
    with EVENTS.open("a") as file:
        file.write(f"{name}{message.attempt}\n")


@group.handler()
def first(body, message):
    note("first", message)


@group.handler()
def second(body, message):
    note("second", message)
    if message.attempt == 1:
        os._exit(3)
    if message.attempt == 2:
        raise ValueError(body)


@group.handler()
def third(body, message):
    note("third", message)
