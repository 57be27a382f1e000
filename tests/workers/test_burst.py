"""Runs until the queues are empty, and the choice of what happens to messages that always fail."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from types import SimpleNamespace

import pytest

from rsmq import RSMQ, InvalidFormat, InvalidValue, NotEmptyInTime
from rsmq.worker import DeadLetter, Defer, Discard, Retry
from rsmq.worker.loop import burst
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    receive_for_worker,
    settle_messages,
)
from rsmq.worker.settle.settler import Settler
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.workers.polling import wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def test_run_ends_when_the_queues_are_empty(env, rsmq):
    env.create_queues("q", "other", "dead")
    worker = env.create_worker(concurrency=3)
    seen = []

    @worker.listener("q", max_retries=1, backoff=0.2, dead_letter_queue="dead")
    def handle(body, message):
        seen.append((body, message.attempt))
        if body == "fails":
            raise ValueError(body)
        if body == "sends":
            time.sleep(0.1)
            rsmq.send_message("other", "later")

    worker.listener("other")(seen.append)
    rsmq.send_messages("q", ["x", "fails", "sends"])
    delayed = rsmq.send_message("q", "delayed", delay=100)
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert sorted(map(str, seen)) == sorted(
        map(str, [("x", 1), ("fails", 1), ("fails", 2), ("sends", 1), "later"])
    )
    assert list(env.scores("q")) == [delayed]
    assert env.in_flight(worker.name) == {}
    assert len(env.scores("dead")) == 1


def test_run_on_empty_queues_ends_at_once_and_can_be_repeated(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    seen = []
    worker.listener("q")(seen.append)
    for number in range(3):
        worker.run(until_empty=True, timeout=WAIT_SECONDS)
        rsmq.send_message("q", str(number))
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert seen == ["0", "1", "2"]


def test_messages_of_other_consumers_are_not_waited_for(env, rsmq):
    env.create_queues("q", "held")
    worker = env.create_worker()

    @worker.listener("q", backoff=100)
    def handle(body, message):
        raise ValueError(body)

    worker.listener("held")(lambda body: None)
    rsmq.send_message("held", "x")
    rsmq.receive_message("held", vt=100)
    id = rsmq.send_message("q", "x")
    running = threading.Thread(target=lambda: worker.run(until_empty=True, timeout=WAIT_SECONDS))
    running.start()
    wait_until(lambda: worker.numbers.retried == 1)
    env.advance_time("q", 100)
    rsmq.receive_message("q", vt=100)  # the worker or this client receives it
    if env.fields("q")[f"{id}:rc"] == b"3":
        env.advance_time("q", 100)
    rsmq.delete_message("q", id)
    running.join(WAIT_SECONDS)

    assert not running.is_alive()


def test_timeout_names_the_rest(env, rsmq, gate):
    env.create_queues("q", "empty")
    worker = env.create_worker(concurrency=1, grace=0.1)
    worker.listener("q")(lambda body: gate())
    worker.listener("empty")(lambda body: None)
    rsmq.send_messages("q", ["x"] * 3)
    with pytest.raises(NotEmptyInTime) as caught:
        worker.run(until_empty=True, timeout=0.5)

    assert caught.value.value.startswith("q: ")
    assert "empty" not in caught.value.value
    assert len(env.scores("q")) == 3


def test_timeout_holds_while_redis_is_away(env, gate):
    server = Server(redis_7())
    with RSMQ.from_url(server.url, retry_deadline=0.5) as rsmq:
        rsmq.create_queue("q")
        worker = env.create_worker(rsmq=rsmq, grace=0.1)
        worker.listener("q", retry_forever=True)(lambda body: gate())
        rsmq.send_message("q", "x")
        threading.Timer(0.3, server.kill).start()
        with pytest.raises(NotEmptyInTime):
            worker.run(until_empty=True, timeout=1)
    server.stop()


def test_queue_that_can_not_be_read_counts_as_empty(env, rsmq):
    env.create_queues("q", "broken", "breaks")
    worker = env.create_worker()
    seen = []
    for queue in ("q", "broken"):
        worker.listener(queue, vt=30, retry_forever=True)(seen.append)
    rsmq.send_message("q", "x")

    @worker.listener("breaks", vt=30, retry_forever=True)
    def break_queue(body):
        env.raw.delete(f"{env.ns}:broken:Q", f"{env.ns}:broken")
        env.raw.set(f"{env.ns}:broken:Q", "not a hash")

    rsmq.send_message("breaks", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert seen == ["x"]


def test_first_error_of_a_handler_is_raised(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker(concurrency=1)

    @worker.listener("q", backoff=100, dead_letter_queue="dead")
    def handle(body, message):
        if body == "retry" and message.attempt == 1:
            raise Retry(after=0)
        if body == "discard":
            raise Discard
        if body == "dead":
            raise DeadLetter
        if body == "fails":
            raise ValueError(body)

    rsmq.send_messages("q", ["retry", "discard", "dead"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS, raise_errors=True)
    id = rsmq.send_message("q", "fails")
    with pytest.raises(ValueError, match="fails"):
        worker.run(until_empty=True, timeout=WAIT_SECONDS, raise_errors=True)

    assert env.due_in("q", id) > 50, "its outcome is written"


@pytest.fixture
def late_reply(monkeypatch):
    """The worker gets to know only after many checks of its queues that an outcome is written."""
    finish_write = Settler._finish_write

    def finish_late(*args):
        time.sleep(6 * burst.POLL_SECONDS)
        finish_write(*args)

    monkeypatch.setattr(Settler, "_finish_write", finish_late)


@pytest.mark.usefixtures("late_reply")
def test_retry_whose_reply_is_late_is_waited_for(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    attempts = []

    @worker.listener("q", backoff=1, drop=True)
    def handle(body, message):
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise ValueError(body)

    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert attempts == [1, 2]


@pytest.mark.usefixtures("late_reply")
def test_error_whose_reply_is_late_is_raised(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", max_retries=0, drop=True)
    def handle(body):
        raise ValueError(body)

    rsmq.send_message("q", "fails")
    with pytest.raises(ValueError, match="fails"):
        worker.run(until_empty=True, timeout=WAIT_SECONDS, raise_errors=True)

    assert env.scores("q") == {}


class HandDriven:
    """A run until empty, and a worker whose steps the test makes. Its message is in flight."""

    def __init__(self, env, rsmq):
        self.env, self.rsmq = env, rsmq
        self.identity = Identity(rsmq.namespace, "w", "token")
        self.run = burst.Burst(None, stops_at_error=False)
        self.send("q")
        self.receive()
        self.reply()

    def send(self, queue="other"):
        self.next = SimpleNamespace(
            queue=queue, id=self.rsmq.send_message(queue, "x"), receive_count=0
        )

    def receive(self):
        """Receive what was sent last, or is to be tried again."""
        self.message = self.next
        keys = self.rsmq.namespace.queue(self.message.queue)
        self.env.advance_time(self.message.queue, 500)
        request = ReceiveRequest(keys, 30_000, 1, 0, 1)
        self.rsmq.run(receive_for_worker(self.identity, [request], 1))
        self.message.receive_count += 1

    def reply(self):
        self.run.after_receive(self.message.queue, [self.message])

    def settle(self, action, item):
        keys = self.rsmq.namespace.queue(self.message.queue)
        group = Settlement(keys, action, self.message.receive_count, [item])
        assert self.rsmq.run(settle_messages(self.identity, [group])) == b"1"

    def delete(self):
        self.settle("delete", self.message.id)

    def retry(self):
        self.run.before_retry(self.message, 500, Retry())
        self.settle("retry", (self.message.id, 500_000, "Retry: "))

    def defer(self):
        self.run.before_defer(self.message, 500, Defer())
        self.settle("defer", (self.message.id, 500_000, 1))

    def is_done(self):
        return self.run.is_done(self.rsmq, "w", ["other", "q"])


_CHECKS = ("_describe_in_flight", "_describe_due", "_describe_in_flight")


@pytest.mark.parametrize(
    "steps",
    [
        ["retry", "receive"],
        ["defer", "receive", "reply"],
        ["send", "delete"],  # a task that is followed by another one
        ["send", "delete", "receive"],
        ["send", "delete", "receive", "reply"],
    ],
    ids=" ".join,
)
def test_a_run_never_ends_while_a_message_is_there_whatever_happens_between_its_checks(
    env, rsmq, monkeypatch, steps
):
    """The checks are not of one moment. Each step is made before, between or after them."""
    places = itertools.combinations_with_replacement(range(len(_CHECKS) + 1), len(steps))
    for at in places:
        env.create_queues("q", "other")
        driven = HandDriven(env, rsmq)
        made = [0]

        def make(place, at=at, driven=driven):
            for step, step_place in zip(steps, at, strict=True):
                if step_place == place:
                    getattr(driven, step)()

        def follow(original, made=made, make=make):
            def check_and_make_steps(clients, name):
                found = original(clients, name)
                if name != "other":  # after that of the last queue
                    made[0] += 1
                    make(made[0])
                return found

            return check_and_make_steps

        make(0)
        with monkeypatch.context() as patch:
            for check in set(_CHECKS):
                patch.setattr(burst, check, follow(getattr(burst, check)))
            assert not driven.is_done(), at
        rsmq.delete_queue("q")
        rsmq.delete_queue("other")
        env.raw.delete(f"{env.ns}:x:held:w")


@pytest.mark.parametrize("again", ["retry", "defer"])
def test_a_retry_that_is_scheduled_while_the_one_before_is_checked_is_waited_for(
    env, rsmq, monkeypatch, again
):
    env.create_queues("q", "other")
    driven = HandDriven(env, rsmq)
    driven.defer()
    driven.receive()
    original = rsmq.get_message

    def get_message(*arguments):
        found = original(*arguments)  # it was received again
        driven.reply()
        getattr(driven, again)()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(rsmq, "get_message", get_message)
        patch.setattr(burst, "_describe_in_flight", lambda *_: "")  # as of a moment before
        assert not driven.is_done()
    assert not driven.is_done()


def test_a_run_ends_when_the_last_message_is_deleted(env, rsmq):
    env.create_queues("q", "other")
    driven = HandDriven(env, rsmq)
    assert not driven.is_done(), "it is in flight"
    driven.delete()
    assert driven.is_done()


def test_a_message_that_another_consumer_has_received_is_not_waited_for(env, rsmq):
    env.create_queues("q", "other")
    driven = HandDriven(env, rsmq)
    driven.retry()
    assert not driven.is_done()
    env.advance_time("q", 500)
    rsmq.receive_message("q", vt=500)

    assert [driven.is_done() for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"timeout": 5}, InvalidFormat),
        ({"raise_errors": True}, InvalidFormat),
        ({"until_empty": True, "timeout": -1}, InvalidValue),
        ({"until_empty": True, "timeout": "5"}, InvalidValue),
    ],
)
def test_wrong_arguments_of_run_are_refused(env, arguments, error):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(lambda body: None)
    with pytest.raises(error):
        worker.run(**arguments)


# Messages that always fail.


def start_and_stop(worker):
    worker.start()
    worker.stop()


def test_listener_that_retries_forever_silently_is_reported(env, caplog):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(lambda body: None)
    start_and_stop(worker)

    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    text = record.getMessage()
    assert text.startswith("queue q: ")
    assert all(
        choice in text for choice in ("dead_letter_queue=", "drop=True", "retry_forever=True")
    )


@pytest.mark.parametrize(
    "options", [{"dead_letter_queue": "dead"}, {"drop": True}, {"retry_forever": True}, {}]
)
def test_choice_is_not_reported(env, rsmq, caplog, options):
    env.create_queues("q", "dead")
    if not options:
        rsmq.set_dead_letter_policy("q", "dead", 3)
    worker = env.create_worker(strict=True)
    worker.listener("q", **options)(lambda body: None)
    start_and_stop(worker)

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_strict_worker_does_not_start_without_a_choice(env, rsmq):
    env.create_queues("q")
    rsmq.send_message("q", "x")
    worker = env.create_worker(strict=True)
    worker.listener("q")(lambda body: None)
    with pytest.raises(InvalidFormat, match="retry_forever=True"):
        worker.start()

    assert not any(name.endswith(b":rc") for name in env.raw.hkeys(f"{env.ns}:q:Q"))
    assert env.raw.keys(f"{env.ns}:x:*") == []


@pytest.mark.parametrize(
    "options", [{"dead_letter_queue": "dead"}, {"drop": True}, {"max_retries": 3}]
)
def test_retry_forever_goes_with_no_other_choice(env, options):
    worker = env.create_worker()
    with pytest.raises(InvalidFormat, match="retried forever"):
        worker.listener("q", retry_forever=True, **options)(lambda body: None)


def test_message_that_is_retried_forever_is_reported_at_its_tenth_attempt(env, rsmq, caplog):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", retry_forever=True, backoff=0)
    def handle(body, message):
        if message.attempt < 13:
            raise ValueError

    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert worker.numbers.handled == 1
    assert [
        record.getMessage().partition(": ")[2]
        for record in caplog.records
        if "retried forever" in record.getMessage()
    ] == ["failed 10 times, and is retried forever"]
