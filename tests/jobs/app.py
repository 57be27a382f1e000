"""A tracking worker, for the test of kills; environment variables name its server and namespace."""

from __future__ import annotations

import os
import random
import time

from rsmq import RSMQ
from rsmq.worker import Discard, Worker

worker = Worker(
    RSMQ.from_url(os.environ.get("JOBS_URL", "memory://"), ns=os.environ.get("JOBS_NS", "jobs")),
    concurrency=4,
)


@worker.listener("q", track=True, vt=1, drop=True, max_retries=1000, backoff=0.02, result_ttl=900)
def handle(body, message):
    time.sleep(random.random() / 100)
    number = int(body)
    if number % 7 == 0:
        raise Discard(body)
    if number % 5 == 0 and message.attempt == 1:
        raise ValueError(body)
    return number
