"""Workers are killed while tasks follow others: none is lost or sent twice; each has its result."""

from __future__ import annotations

import json
import random
import time

import pytest

from rsmq.tasks import RESULT, Tasks
from tests.scale import WAIT_SECONDS, scaled
from tests.schedules.conftest import wait_until
from tests.tasks.kills_app import NAMES, QUEUES, declare
from tests.workers.processes.forks import start_command

pytestmark = pytest.mark.slow

CHAINS = ITEMS = scaled(300, 5000)
KILLS = scaled(6, 100)
APP = "tests.tasks.kills_app"


def test_each_next_task_is_sent_once_through_kills(server, ns):
    environment = {"TASKS_URL": server.url, "TASKS_NS": ns}

    def start(*arguments):
        return start_command("worker", f"{APP}:workers", *arguments, environment=environment)

    chance = random.Random(38)
    with Tasks.from_url(server.url, ns=ns) as tasks:
        declare(tasks)
        first, second, item, end = (tasks._by_name[name] for name in NAMES)
        jobs = tasks.send_many(
            first.options(then=second.signature(RESULT)).signature(number)
            for number in range(CHAINS)
        )
        tasks.map(item, range(ITEMS), then=end.signature())
        with server.raw() as raw:

            def left():
                return sum(raw.zcard(f"{ns}:{queue}") for queue in ("first", "items"))

            for _ in range(KILLS):
                workers, begun = [start(), start()], left()
                wait_until(lambda begun=begun: not begun or left() < begun)
                time.sleep(chance.random() / 20)
                for worker in workers:
                    worker.kill()
                    worker.wait()
        # Messages that a killed worker had in flight become visible after their timeouts.
        while any(tasks.client.get_queue_attributes(queue).messages for queue in QUEUES):
            assert start("--burst").wait(WAIT_SECONDS) == 0
            time.sleep(0.2)

        # The script that sends the next task has ended the record.
        statuses = tasks.client.wait_for_jobs(jobs, timeout=0)
        assert [each.result() for each in statuses] == list(range(1, CHAINS + 1))
        sent = {queue: tasks.client.get_queue_attributes(queue).total_sent for queue in QUEUES}
        assert sent == {"first": CHAINS, "second": CHAINS, "items": ITEMS, "ends": 1}
        with server.raw() as raw:
            done = [json.loads(each) for each in raw.lrange(f"{ns}:done", 0, -1)]
            assert raw.keys(f"{ns}:x:map:*") == []
            assert not [key for key in raw.keys(f"{ns}:*-dead") if raw.zcard(key)]
        assert {each for each in done if each != "end"} == set(range(1, CHAINS + 1))
        assert done.count("end") >= 1
