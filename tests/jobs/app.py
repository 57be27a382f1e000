"""A tracking worker, for the test of kills; environment variables name its server and namespace."""

from __future__ import annotations

import json
import os
import random
import secrets
import time

import redis

from rsmq import RSMQ
from rsmq.worker import Discard, Worker

URL, NS = os.environ.get("JOBS_URL", "memory://"), os.environ.get("JOBS_NS", "jobs")
worker = Worker(RSMQ.from_url(URL, ns=NS), concurrency=4)


@worker.listener(
    "q", track=True, vt=1, drop=True, max_retries=1_000_000, backoff=0.02, result_ttl=900
)
def handle(body, message):
    """Write what this call does to the ledger, and do it."""
    time.sleep(random.random() / 200)
    number, token = int(body), secrets.token_hex(4)
    message.set_progress(number, text=token)
    state = "succeeded"
    if number % 7 == 0:
        state = "failed"
    elif number % 5 == 0 and message.attempt == 1:
        state = "retrying"
    entry = {"state": state, "attempt": message.attempt, "token": token}
    ledger.rpush(f"{NS}:ledger:{number}", json.dumps(entry))
    if state == "failed":
        raise Discard(token)
    if state == "retrying":
        raise ValueError(token)
    return token


if "JOBS_URL" in os.environ:
    ledger = redis.Redis.from_url(URL)
