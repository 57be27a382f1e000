"""Exceptions of handlers that raise when they are read: the worker continues."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass

import pytest

from rsmq.metrics import Metrics
from rsmq.worker import Middleware
from tests.hostile_errors import HOSTILE_ERRORS, Broken, make_hostile_error
from tests.scale import WAIT_SECONDS
from tests.workers.polling import state_of, wait_until


class Reader(Middleware):
    """A middleware that reads the errors, as those of applications do."""

    def __init__(self):
        self.errors = []

    def after_retry(self, message, after, error):
        self.errors.append(str(error))

    def after_dead_letter(self, message, queue, reason, error):
        self.errors.append(str(error))


def wait_for(worker, **expected):
    def is_reached():
        assert state_of(worker).failure is None
        return all(getattr(worker.numbers, name) == n for name, n in expected.items())

    wait_until(is_reached)


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
@pytest.mark.parametrize("kind", HOSTILE_ERRORS)
def test_message_whose_error_cannot_be_read_is_retried_and_becomes_a_dead_letter(
    env, rsmq, caplog, kind, is_async
):
    caplog.set_level(logging.DEBUG, "rsmq.worker")
    env.create_queues("q", "dead")
    reader = Reader()
    worker = env.create_worker(name="w", middleware=[reader])

    def handle(body):
        if body == "bad":
            raise make_hostile_error(kind)

    async def handle_async(body):
        handle(body)

    worker.listener("q", max_retries=1, backoff=0, dead_letter_queue="dead")(
        handle_async if is_async else handle
    )
    id = rsmq.send_message("q", "bad")
    worker.start()
    wait_for(worker, retried=1, dead=1)
    rsmq.send_message("q", "good")
    wait_for(worker, handled=1)

    (stored,) = env.raw.hgetall(f"{env.ns}:dead:x:reasons").values()
    reason = json.loads(stored.partition(b":")[2])
    assert reason["queue"] == "q"
    assert reason["attempts"] == 2
    assert reason["text"].endswith("on attempt 2, the last")
    assert len(reason["exception"]) <= 500
    assert len(reason["traceback"]) <= 4000
    assert env.scores("dead").keys() == {id}
    assert len(reader.errors) == 2
    lines = [record.getMessage() for record in caplog.records]
    assert any("attempt 1 failed, next in" in line for line in lines)
    assert any("to dead after attempt 2" in line for line in lines)
    assert not any(line.endswith(" failed") for line in lines)


#: Errors of which even the class can not be read, and others.
WORST_ERRORS = ["__str__", "__class__", "__cause__", "__eq__", "raising __getattribute__", "group"]


@pytest.mark.parametrize("kind", WORST_ERRORS)
def test_messages_of_a_batch_may_have_errors_that_cannot_be_read(env, rsmq, kind):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", batch=2, max_retries=0, dead_letter_queue="dead")
    def handle(bodies, messages):
        for body, message in zip(bodies, messages, strict=True):
            if body == "bad":
                message.fail(make_hostile_error(kind))

    bad, _good = rsmq.send_messages("q", ["bad", "good"])
    worker.start()
    wait_for(worker, handled=1, dead=1)

    assert env.scores("dead").keys() == {bad}


@pytest.mark.parametrize("kind", WORST_ERRORS)
def test_hook_whose_error_cannot_be_read_does_not_end_the_worker(env, rsmq, kind):
    class Failing(Middleware):
        def before_receive(self, queues):
            raise make_hostile_error(kind)

        def after_handle(self, message, error, seconds):
            raise make_hostile_error(kind)

        def before_handle(self, message):
            if message.body == "bad":
                raise make_hostile_error(kind)

    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[Failing()])
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(print)
    rsmq.send_messages("q", ["bad", "good"])
    worker.start()
    wait_for(worker, handled=1, dead=1)


@pytest.mark.parametrize("kind", WORST_ERRORS)
def test_failures_are_counted_by_the_name_of_their_class(env, rsmq, kind):
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[Metrics(registry)])

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(_body):
        raise make_hostile_error(kind)

    rsmq.send_message("q", "bad")
    worker.start()
    wait_for(worker, dead=1)

    name = type.__dict__["__name__"].__get__(type(make_hostile_error(kind)))
    labels = {"ns": env.ns, "queue": "q", "exception": name}
    wait_until(lambda: registry.get_sample_value("rsmq_messages_failed_total", labels) == 1)


def test_text_of_an_error_is_read_in_the_thread_of_its_handler(env, rsmq):
    threads = set()

    class SlowText(Exception):
        def __str__(self):
            threads.add(threading.current_thread().name)
            return "a text"

    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=500)
    def handle(_body):
        raise SlowText

    rsmq.send_message("q", "bad")
    worker.start()
    wait_for(worker, retried=1)

    assert threads == {"rsmq-handler-1"}


@dataclass
class PaymentFailed(Exception):
    """As classes with __eq__ and without __hash__ are, it can't be hashed."""

    code: int


def test_an_exception_of_a_dataclass_reaches_hooks_and_callers_as_itself(env, rsmq):
    from prometheus_client import CollectorRegistry

    calls = []

    class Uncomparable(PaymentFailed):
        def __eq__(self, other):
            calls.append("__eq__")
            raise Broken

        def __hash__(self):
            calls.append("__hash__")
            raise Broken

    env.create_queues("q")
    errors = []

    class Hooks(Middleware):
        def after_handle(self, message, error, seconds):
            errors.append(error)

        def after_drop(self, message, reason, error):
            errors.append(error)

    worker = env.create_worker(middleware=[Hooks()])
    raised = [PaymentFailed(1), Uncomparable(2)]

    @worker.listener("q", max_retries=0, drop=True)
    def handle(body):
        raise raised[int(body)]

    rsmq.send_message("q", "0")
    with pytest.raises(PaymentFailed) as caught:
        worker.run(until_empty=True, timeout=WAIT_SECONDS, raise_errors=True)
    rsmq.send_message("q", "1")
    worker = env.create_worker(middleware=[Hooks(), Metrics(CollectorRegistry())])
    worker.listener("q", max_retries=0, drop=True)(handle)
    worker.start()
    wait_for(worker, dropped=1)

    assert caught.value is raised[0]
    assert [any(each is error for each in errors) for error in raised] == [True, True]
    assert {type(each) for each in errors} == {PaymentFailed, Uncomparable}
    assert calls == []


def test_fields_of_a_dead_letter_are_not_read_from_errors_of_the_program(env, rsmq):
    error = ValueError("x")
    error.dead_letter_fields = {"queue": "other", "text": "other"}
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(_body):
        raise error

    rsmq.send_message("q", "bad")
    worker.start()
    wait_for(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert (letter.reason.queue, letter.reason.text) == ("q", "ValueError on attempt 1, the last")


def test_back_off_that_raises_a_base_exception_is_replaced(env, rsmq):
    def backoff(_attempt):
        raise Broken

    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=backoff)
    def handle(body):
        if body == "bad":
            raise ValueError

    rsmq.send_messages("q", ["bad", "good"])
    worker.start()
    wait_for(worker, handled=1, retried=1)
