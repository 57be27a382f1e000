"""Tasks that follow others, in workers that are killed."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager

import redis

from rsmq.tasks import Tasks
from rsmq.worker.middlewares import CallContext

QUEUES = ("first", "second", "items", "ends")
NAMES = ("first", "second", "item", "end")


def declare(tasks):
    """Declare the tasks; the last ones note that they ran, in a list."""
    url, ns = os.environ.get("TASKS_URL"), os.environ.get("TASKS_NS")
    raw = None if url is None else redis.Redis.from_url(url)

    def note(what):
        raw.rpush(f"{ns}:done", json.dumps(what))
        if what != "end" and not raw.sismember(f"{ns}:commits", what - 1):
            raw.rpush(f"{ns}:done", json.dumps("before its commit"))

    options = {"vt": 1, "max_retries": 10_000, "backoff": 0.1}

    @tasks.task(queue="first", name="first", track=True, **options)
    def first(number: int) -> int:
        time.sleep(0.02)
        return number + 1

    @tasks.task(queue="second", name="second", **options)
    def second(number: int) -> None:
        note(number)

    @tasks.task(queue="items", name="item", **options)
    def item(number: int) -> None:
        time.sleep(0.02)

    @tasks.task(queue="ends", name="end", **options)
    def end() -> None:
        note("end")


class WithCommits:
    """Makes workers of tasks whose calls end with a commit that takes a moment."""

    def __init__(self, tasks):
        self._tasks = tasks

    def worker(self):
        return self._tasks.worker(middleware=[CallContext(commit)])


@contextmanager
def commit(message):
    yield
    if message.queue == "first":
        time.sleep(0.01)
        with redis.Redis.from_url(os.environ["TASKS_URL"]) as raw:
            raw.sadd(f"{os.environ['TASKS_NS']}:commits", message.body["args"]["number"])


if "TASKS_URL" in os.environ:
    tasks = Tasks.from_url(os.environ["TASKS_URL"], ns=os.environ["TASKS_NS"])
    declare(tasks)
    workers = WithCommits(tasks)
