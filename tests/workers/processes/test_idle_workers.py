"""
Idle workers on one queue: how many of them ask for a message, and who answers if one of them can't.
"""

from __future__ import annotations

import json
import time

import pytest

from tests.workers.processes.conftest import suspend, wait_until

WORKERS = 6
#: By then the workers have found out which of them answers.
WARM_UP_MESSAGES = 60
MESSAGES = 60
#: The longest time between a send and its handler. Generous, because machines are busy; but less
#: than SAFETY_SECONDS (15), after which a worker receives without any event.
WITHIN_SECONDS = 10.0


class Group:
    """Workers in processes, which listen on one queue."""

    def __init__(self, rsmq, start_program):
        rsmq.create_queue("q", vt=60)
        self._rsmq = rsmq
        self.workers = [
            start_program(f"w{number}", {"q": {}}, logs_receives=True) for number in range(WORKERS)
        ]
        for each in self.workers:
            each.wait_for("receive")

    def handle(self, delay=None):
        """Send a message, wait until it is handled, and return the worker that handled it."""
        id = self._rsmq.send_message("q", json.dumps({"n": 0, "do": "return"}), delay=delay)

        def find():
            for each in self.workers:
                if any(event.id == id for event in each.events("end")):
                    return each
            return None

        worker = wait_until(find, WITHIN_SECONDS, "no worker handles the message")
        time.sleep(0.05)
        return worker

    def count_receives(self):
        return sum(len(each.events("receive")) for each in self.workers)


@pytest.fixture
def group(rsmq, start_program):
    return Group(rsmq, start_program)


@pytest.mark.parametrize("delay", [None, 0.03])
def test_few_idle_workers_ask_for_a_message(group, delay):
    for _ in range(WARM_UP_MESSAGES):
        group.handle(delay)
    before = group.count_receives()
    for _ in range(MESSAGES):
        group.handle(delay)
    receives = group.count_receives() - before

    assert MESSAGES <= receives <= MESSAGES * WORKERS / 2


@pytest.mark.parametrize("stop", [suspend, lambda worker: worker.kill()], ids=["SIGSTOP", "kill"])
def test_a_message_is_handled_if_the_worker_that_usually_answers_cannot(group, stop):
    for _ in range(WORKERS - 1):
        for _ in range(10):
            usual = group.handle()
        stop(usual)
        group.workers.remove(usual)
        group.handle()
