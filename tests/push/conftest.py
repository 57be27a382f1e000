"""Receivers, and workers that push to them."""

from __future__ import annotations

import base64
import time

import pytest

from rsmq.worker import Worker
from tests.push.receiver import Receiver
from tests.scale import WAIT_SECONDS

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
LOCAL = {"allow_http": True, "allow": "127.0.0.0/8"}


def wait_until(condition, seconds=WAIT_SECONDS):
    """Wait until the condition is true, and return its result."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.005)
    return value


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def make_receiver():
    made = []

    def make(*arguments, **options):
        made.append(Receiver(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def make_worker(rsmq):
    """Return a worker with a webhook for the queue q, which is created."""
    rsmq.create_queue("q", exist_ok=True)
    workers = []

    def make(url, *, client=None, concurrency=8, middleware=(), **options):
        worker = Worker(client or rsmq, concurrency=concurrency, middleware=middleware)
        worker.webhook("q", url, **{**LOCAL, "backoff": 0, **options})
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.stop(0)


def dead_letters(rsmq):
    """Return the dead letters, with their reasons, by id."""
    found = {}
    start = 0
    while part := rsmq.peek_messages("q-dead", start=start, count=1000):
        found |= {each.id: each for each in part}
        start += len(part)
    return found
