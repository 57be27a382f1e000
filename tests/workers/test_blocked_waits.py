"""A handler that waits for a job which its own worker can't begin."""

from __future__ import annotations

import logging

import pytest

from rsmq.errors import JobNotEnded
from tests.scale import WAIT_SECONDS

TEXT = "its handler waits for a job of queue"


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


@pytest.fixture
def wait_in_handler(env, rsmq, caplog):
    """Return a function that lets a handler of queue a wait for a job; it returns the warnings."""
    env.create_queues("a", "b", "c")

    def run(awaited, *, concurrency, limit=None, times=2):
        worker = env.create_worker(concurrency=concurrency)
        waited = []

        @worker.listener("a", concurrency=limit, drop=True, max_retries=0)
        def handle(body):
            id = rsmq.send_message(awaited, "x", track=True, delay=60)
            with pytest.raises(JobNotEnded):
                rsmq.job(awaited, id).result(timeout=0.01)
            waited.append(body)

        worker.listener("b", drop=True, max_retries=0)(lambda _body: None)
        rsmq.send_messages("a", [str(number) for number in range(times)])
        with caplog.at_level(logging.WARNING, "rsmq.worker"):
            worker.run(until_empty=True, timeout=WAIT_SECONDS)
        assert len(waited) == times
        return [each.getMessage() for each in caplog.records if TEXT in each.getMessage()]

    return run


@pytest.mark.parametrize("awaited", ["a", "b"])
def test_a_worker_with_one_slot_warns_once(wait_in_handler, awaited):
    [warning] = wait_in_handler(awaited, concurrency=1)
    assert f"{TEXT} {awaited}, which has to wait for the only slot" in warning
    assert "then=" in warning


def test_a_listener_with_one_slot_warns_of_its_own_queue_only(wait_in_handler):
    assert wait_in_handler("b", concurrency=2, limit=1) == []
    assert len(wait_in_handler("a", concurrency=2, limit=1)) == 1


def test_no_wait_is_reported_that_can_end(wait_in_handler):
    assert wait_in_handler("a", concurrency=4) == []
    assert wait_in_handler("c", concurrency=1) == []  # of another worker


def test_a_wait_outside_of_handlers_is_not_reported(env, rsmq, caplog):
    env.create_queues("a")
    id = rsmq.send_message("a", "x", track=True)
    with caplog.at_level(logging.WARNING), pytest.raises(JobNotEnded):
        rsmq.job("a", id).result(timeout=0.01)
    assert TEXT not in caplog.text
