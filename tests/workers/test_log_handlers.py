"""Handlers, filters and formatters of logging that raise: the worker continues."""

from __future__ import annotations

import logging
import threading

import pytest

from rsmq.worker import DetailedLogging, Middleware
from tests.hostile_errors import Broken
from tests.workers.polling import state_of, wait_until


class FailingHandler(logging.Handler):
    def __init__(self, error):
        super().__init__()
        self.error = error
        self.count = 0

    def emit(self, record):
        self.count += 1
        if isinstance(self.error, Exception) or threading.current_thread().name == "rsmq-worker":
            raise self.error


@pytest.fixture(
    params=[OSError(28, "No space left on device"), ValueError("x"), Broken()], ids=repr
)
def handler(request):
    handler = FailingHandler(request.param)
    for name in ("rsmq.worker", "rsmq.transport"):
        logging.getLogger(name).addHandler(handler)
    yield handler
    for name in ("rsmq.worker", "rsmq.transport"):
        logging.getLogger(name).removeHandler(handler)


class FailingHooks(Middleware):
    def after_receive(self, queue, messages):
        raise OSError("of a hook")


def test_log_handler_that_raises_changes_no_outcome(env, rsmq, handler, caplog):
    caplog.set_level(logging.DEBUG, "rsmq.worker")
    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[DetailedLogging(), FailingHooks()])

    @worker.listener("q", backoff=0, max_retries=1, dead_letter_queue="dead")
    def handle(body):
        if body == "bad":
            raise ValueError(body)

    ids = rsmq.send_messages("q", ["bad", *"abcde"])
    worker.start()
    wait_until(lambda: state_of(worker).failure or worker.numbers.handled == 5)
    wait_until(lambda: state_of(worker).failure or worker.numbers.dead == 1)

    assert state_of(worker).failure is None
    assert not state_of(worker).has_failing_server, "the worker takes the error for one of Redis"
    assert handler.count >= 2
    assert env.is_empty("q")
    assert env.scores("dead").keys() == {ids[0]}


def test_log_records_have_the_place_of_their_call(env, rsmq, caplog):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=500)
    def handle(body):
        raise ValueError(body)

    rsmq.send_message("q", "x")
    worker.start()
    (record,) = wait_until(
        lambda: [each for each in caplog.records if "attempt 1 failed" in each.getMessage()]
    )

    assert (record.filename, record.funcName) == ("logging.py", "after_retry")
    assert record.queue == "q"
