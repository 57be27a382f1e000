"""Tasks of flows, in workers that are killed."""

from __future__ import annotations

import os
import time

import redis

from rsmq.tasks import RESULT, Tasks, current_flow
from rsmq.worker import DeadLetter, current_message

QUEUES = ("even", "odd")


def declare(tasks):
    """Declare two tasks in a queue each, which add their arguments; each call is noted."""
    url, ns = os.environ.get("TASKS_URL"), os.environ.get("TASKS_NS")
    raw = None if url is None else redis.Redis.from_url(url)

    def add(own: int, results: list[int | None], fails: bool) -> int:
        place = current_message().body["flow"]
        raw.hincrby(f"{ns}:calls", f"{place['id']}:{place['node']}", 1)
        time.sleep(0.01)
        if fails:
            raise DeadLetter("it has to fail")
        return own + sum(each or 0 for each in results)

    def make(queue):
        @tasks.task(
            queue=queue, name=queue, track=True, vt=1, max_retries=10_000, backoff=0.1,
            result_ttl=3600,
        )  # fmt: skip
        def call(own: int, results: list[int | None], fails: bool = False) -> int:
            return add(own, results, fails)

        return call

    calls = [make(queue) for queue in QUEUES]

    @tasks.task(
        queue=QUEUES[0], name="split", track=True, vt=1, max_retries=10_000, backoff=0.1,
        result_ttl=3600,
    )  # fmt: skip
    def split(number: int) -> int:
        """Add so many nodes, and one after them, for which the next node of the flow waits."""
        flow = current_flow()
        added = [flow.add(calls[each % 2].signature(each, [])) for each in range(number)]
        flow.add(calls[1].signature(0, RESULT(added)), awaited=True)
        return add(number, [], False)

    return [*calls, split]


if "TASKS_URL" in os.environ:
    tasks = Tasks.from_url(os.environ["TASKS_URL"], ns=os.environ["TASKS_NS"], retry_deadline=60)
    declare(tasks)
