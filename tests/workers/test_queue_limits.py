"""Workers and the limits of their queues."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from rsmq.worker import Middleware
from tests.workers.polling import wait_until

#: How many messages are handled.
NUMBER = 12


class Running:
    """A handler that counts its calls at once, and when its messages were received."""

    def __init__(self):
        self._lock = threading.Lock()
        self.current = self.most = 0
        self.handled, self.received_ms = [], []

    def __call__(self, body, message):
        with self._lock:
            self.current += 1
            self.most = max(self.most, self.current)
            self.handled.append(body)
            self.received_ms.append(message.first_received_ms)
        if body == "0" and message.attempt == 1:
            self.leave()
            raise ValueError(body)
        self.leave()

    def leave(self):
        with self._lock:
            self.current -= 1


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_two_workers_have_no_more_messages_in_flight_together(env, rsmq, backend):
    env.create_queues("q", vt=60)
    rsmq.set_queue_limits("q", max_running=2)
    running, most = Running(), []
    for _ in range(2):
        worker = env.create_worker(concurrency=4)
        worker.listener("q", max_retries=2, backoff=0, drop=True)(running)
        worker.start()
    rsmq.send_messages("q", map(str, range(NUMBER)))

    def is_empty():
        attributes = rsmq.get_queue_attributes("q")
        most.append(rsmq.count_messages("q").in_flight)
        return not attributes.messages

    wait_until(is_empty)
    assert sorted(set(running.handled), key=int) == [str(each) for each in range(NUMBER)]
    assert len(running.handled) == NUMBER + 1  # one of them failed
    assert running.most <= 2
    assert max(most) <= 2


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_a_worker_receives_at_the_rate(env, rsmq, backend):
    env.create_queues("q", vt=60)
    rsmq.set_queue_limits("q", rate="19/s")
    running = Running()
    worker = env.create_worker(concurrency=4)
    worker.listener("q", max_retries=2, backoff=0, drop=True)(running)
    worker.start()
    rsmq.send_messages("q", map(str, range(1, 7)))
    wait_until(lambda: not rsmq.get_queue_attributes("q").messages)

    assert sorted(running.handled) == [str(each) for each in range(1, 7)]
    distances = [after - before for before, after in pairwise(sorted(running.received_ms))]
    assert min(distances) >= 1000 // 19  # both times are cut to a whole ms


class Requests(Middleware):
    """A middleware that counts the requests for messages."""

    def __init__(self):
        self.number = 0

    def before_receive(self, queues):
        self.number += 1


def test_a_worker_does_not_ask_again_and_again(env, rsmq):
    env.create_queues("q", vt=60)
    rsmq.set_queue_limits("q", max_running=1, rate="1/d")
    rsmq.send_messages("q", ["a", "b"])
    requests, running, began = Requests(), Running(), time.monotonic()
    worker = env.create_worker(concurrency=1, middleware=[requests])
    worker.listener("q", drop=True)(running)
    worker.start()
    wait_until(lambda: rsmq.get_queue_attributes("q").messages == 1)
    for _ in range(50):  # changes that allow nothing
        rsmq.delete_message("q", rsmq.send_message("q", "c"))

    assert running.handled == ["a"]
    # Limits may be changed, so it asks every five seconds.
    assert requests.number <= 6 + (time.monotonic() - began) / 5
