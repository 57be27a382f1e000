"""A worker whose handlers run in child processes, which import this module."""

from __future__ import annotations

import os
from contextvars import ContextVar
from pathlib import Path

from rsmq import RSMQ
from rsmq.worker import Middleware, Worker

EVENTS = Path(os.environ.get("CONTEXT_APP_EVENTS", os.devnull))

rsmq = RSMQ.from_url(
    os.environ.get("CONTEXT_APP_URL", "redis://127.0.0.1:1"),
    ns=os.environ.get("CONTEXT_APP_NS", "rsmq"),
)
tenant: ContextVar[str] = ContextVar("tenant", default="none")
session: ContextVar[str] = ContextVar("session", default="none")


class OpenSession(Middleware):
    def child_start(self, worker):
        session.set("open")


worker = Worker(rsmq, concurrency=1, grace=5, middleware=[OpenSession()])


@worker.listener("q", process=True, drop=True, max_retries=0, max_runtime=30)
def handle(body):
    with EVENTS.open("a") as file:
        file.write(f"{tenant.get()} {session.get()}\n")
    tenant.set(body)
    session.set(body)
