"""Tasks that follow others, in workers that are killed."""

from __future__ import annotations

import json
import os
import time

import redis

from rsmq.tasks import Tasks

QUEUES = ("first", "second", "items", "ends")
NAMES = ("first", "second", "item", "end")


def declare(tasks):
    """Declare the tasks; the last ones note that they ran, in a list."""
    url, ns = os.environ.get("TASKS_URL"), os.environ.get("TASKS_NS")
    raw = None if url is None else redis.Redis.from_url(url)

    def note(what):
        raw.rpush(f"{ns}:done", json.dumps(what))

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


if "TASKS_URL" in os.environ:
    tasks = Tasks.from_url(os.environ["TASKS_URL"], ns=os.environ["TASKS_NS"])
    declare(tasks)
