"""An application whose requests send tasks, with a worker in its process."""

from __future__ import annotations

import asyncio
import os
import sys

from fastapi import FastAPI

from rsmq.fastapi import RequestIds, healthz, lifespan, readyz
from rsmq.headers import current_headers
from rsmq.tasks import Tasks

URL, NS = os.environ["TEST_URL"], os.environ["TEST_NS"]
tasks = Tasks.from_url(URL, ns=NS)


@tasks.task(queue="work", name="work")
async def work(number: int) -> None:
    await asyncio.sleep(0.01)
    print("ran", number, current_headers()["request_id"], flush=True)


app = FastAPI(
    lifespan=lifespan(tasks=tasks, worker=tasks.worker(concurrency=4)),
)
app.add_middleware(RequestIds)
app.add_route("/healthz", healthz)
app.add_route("/readyz", readyz)


@app.post("/orders/{number}")
async def send_work(number: int) -> int:
    print("begun", number, file=sys.stdout, flush=True)
    await asyncio.sleep(0.02)
    await work.asend(number)
    return number
