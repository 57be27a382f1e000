"""Calls that exceed max_runtime and do not end."""

from __future__ import annotations

import threading

from rsmq import TooManyHungCalls
from tests.workers.polling import state_of, wait_until


def handler_threads():
    return [each for each in threading.enumerate() if each.name.startswith("rsmq-handler")]


def test_worker_stops_when_as_many_calls_hang_as_its_concurrency(env, gate, fast_heartbeat, caplog):
    env.create_queues("q")
    worker = env.create_worker(concurrency=2, grace=0.1)
    env.expected_to_fail.append(worker)
    before = len(handler_threads())
    worker.listener("q", max_runtime=0.05, backoff=900)(lambda body: gate())
    env.rsmq.send_messages("q", ["x"] * 10)
    worker.start()
    wait_until(lambda: state_of(worker).has_ended)

    failure = state_of(worker).failure
    assert isinstance(failure, TooManyHungCalls)
    assert failure.value == 2
    assert gate.max_inside <= 4, "two abandoned calls, and two in the slots"
    assert len(handler_threads()) - before <= 4
    assert "Too many handler calls hang" in caplog.text
    assert env.in_flight(worker.name) == {}
    assert len(env.scores("q")) == 10


def test_calls_that_end_late_make_room_for_others_that_hang(env, gate, fast_heartbeat):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)
    worker.listener("q", max_runtime=0.05, backoff=900)(lambda body: gate())
    worker.start()
    for number in range(1, 4):
        gate.close()
        env.rsmq.send_message("q", "x")
        wait_until(lambda number=number: worker.numbers.hung == number)
        gate.open()
        wait_until(lambda: gate.inside == 0)

    assert not state_of(worker).has_ended
