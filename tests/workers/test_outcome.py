"""The outcomes of messages, checked in the raw keys."""

from __future__ import annotations

import functools
import json
import logging
import math
import threading

import pytest

from rsmq import BYTES, JSON, MSGPACK
from rsmq.worker import DeadLetter, Discard, Retry, fixed
from tests.workers.polling import state_of, wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def wait_for_numbers(worker, **expected):
    """Wait until the worker's counters have these values, and return all of them."""

    def reached():
        assert state_of(worker).failure is None
        counters = {name: getattr(worker.numbers, name) for name in worker.numbers.__slots__}
        return all(counters[name] == number for name, number in expected.items()) and counters

    return wait_until(reached)


def raising_handler(error, seen=None):
    """Return a handler that raises this error and records attempts."""

    def handle(body, message):
        if seen is not None:
            seen.append(message.attempt)
        raise error

    return handle


def test_handled_message_is_deleted_with_all_its_fields(env, rsmq):
    env.create_queues("q")
    before = env.raw.hgetall(env.queue_key("q") + ":Q")
    worker = env.create_worker(name="w")
    got = []
    worker.listener("q")(lambda body, message: got.append((body, message.queue, message.attempt)))
    worker.start()
    rsmq.send_message("q", "hello")
    wait_for_numbers(worker, handled=1)

    assert got == [("hello", "q", 1)]
    assert env.is_empty("q")
    assert env.in_flight("w") == {}
    after = env.raw.hgetall(env.queue_key("q") + ":Q")
    assert set(after) - set(before) <= {b"totalrecv", b"totalsent"}
    assert (after[b"totalrecv"], after[b"totalsent"]) == (b"1", b"1")


def test_message_of_a_handler_is_a_receipt_with_all_fields(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    got = []
    worker.listener("q", vt=60, codec=JSON)(lambda body, message: got.append(message))
    worker.start()
    id = rsmq.send_message("q", {"a": 1}, codec=JSON)
    wait_for_numbers(worker, handled=1)

    (message,) = got
    assert (message.id, message.raw, message.body) == (id, b'{"a":1}', {"a": 1})
    assert (message.receive_count, message.attempt, message.lease_lost) == (1, 1, False)
    assert message.sent_ms <= message.first_received_ms + 1
    assert not rsmq.delete_message(message)


def test_failed_message_is_hidden_for_its_back_off_and_keeps_its_counters(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(name="w")
    worker.listener("q", vt=60, backoff=500)(raising_handler(ValueError("v")))
    worker.start()
    id = rsmq.send_message("q", "x")
    wait_for_numbers(worker, retried=1)

    assert 495 < env.due_in("q", id) <= 500
    assert env.fields("q")[id] == b"x"
    assert env.fields("q")[f"{id}:rc"] == b"1"
    assert f"{id}:fr" in env.fields("q")
    assert env.in_flight("w") == {}
    assert (worker.numbers.failed, worker.numbers.handled) == (1, 0)


def test_attempt_is_the_receive_count_of_all_consumers(env, rsmq):
    env.create_queues("q", "dead")
    seen = []
    worker = env.create_worker()
    worker.listener("q", backoff=500, max_retries=3, dead_letter_queue="dead")(
        raising_handler(ValueError("v"), seen)
    )
    rsmq.send_message("q", "x")
    rsmq.receive_message("q", vt=0)
    rsmq.receive_message("q", vt=0)
    worker.start()
    wait_for_numbers(worker, retried=1)
    env.advance_time("q", 500)
    wait_for_numbers(worker, dead=1)

    assert seen == [3, 4]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (500, [500, 500, 500]),
        (fixed(0.5 * 10**3), [500, 500, 500]),
        ([100, 200], [100, 200, 200]),
        (lambda attempt: attempt * 100, [100, 200, 300]),
    ],
    ids=["seconds", "fixed", "list", "function"],
)
def test_each_attempt_has_its_back_off(env, rsmq, backoff, expected):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", backoff=backoff)(raising_handler(KeyError()))
    worker.start()
    id = rsmq.send_message("q", "x")
    pauses = []
    for attempt in (1, 2, 3):
        wait_for_numbers(worker, retried=attempt)
        pauses.append(env.due_in("q", id))
        env.advance_time("q", 1000)

    assert pauses == pytest.approx(expected, abs=5)


def test_dead_letter_keeps_its_counters_and_has_a_reason(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker(name="orders-1")

    @worker.listener("q", max_retries=1, backoff=500, dead_letter_queue="dead")
    def handle(body):
        raise ValueError(f"no such thing: {body}")

    worker.start()
    id = rsmq.send_message("q", "x")
    wait_for_numbers(worker, retried=1)
    first = env.fields("q")[f"{id}:fr"]
    env.advance_time("q", 500)
    wait_for_numbers(worker, dead=1)

    assert env.is_empty("q")
    assert env.fields("dead") == {id: b"x", f"{id}:rc": b"2", f"{id}:fr": first}
    assert env.due_in("dead", id) <= 0
    ((stored, record),) = env.raw.hgetall(f"{env.ns}:dead:x:reasons").items()
    died_ms, _, reason = record.partition(b":")
    assert (stored.decode(), json.loads(reason)["attempts"]) == (id, 2)
    (letter,) = rsmq.peek_messages("dead")
    reason = letter.reason
    assert (reason.queue, reason.text) == ("q", "ValueError on attempt 2, the last")
    assert reason.exception == "ValueError: no such thing: x"
    assert reason.traceback.endswith("ValueError: no such thing: x\n")
    assert (reason.worker, reason.attempts, reason.died_ms) == ("orders-1", 2, int(died_ms))
    assert (worker.numbers.failed, worker.numbers.retried) == (2, 1)


def test_redrive_removes_the_reason(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(raising_handler(KeyError()))
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)
    worker.stop()
    ((old, new),) = rsmq.redrive_messages("dead", "q")

    assert old != new
    assert not env.raw.exists(f"{env.ns}:dead:x:reasons")
    assert rsmq.get_message("q", new).reason is None


def test_size_of_a_stored_reason_is_bounded(env, rsmq):
    def deep(depth, text):
        if depth:
            deep(depth - 1, text)
        raise ValueError(text)

    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(lambda body: deep(90, "é" * 9999))
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert len(letter.reason.exception) <= 500
    assert len(letter.reason.traceback) <= 4000
    assert letter.reason.exception.startswith("ValueError: éé")


def test_reason_names_the_raised_exception_not_its_cause(env, rsmq):
    def handle(body):
        try:
            {}[body]
        except KeyError as error:
            raise ValueError("no such order") from error

    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(handle)
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == "ValueError on attempt 1, the last"
    assert letter.reason.exception == "ValueError: no such order"
    assert "KeyError: 'x'" in letter.reason.traceback


def test_retry_after_sets_the_back_off(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", backoff=10)(raising_handler(Retry("busy", after=500)))
    worker.start()
    id = rsmq.send_message("q", "x")
    wait_for_numbers(worker, retried=1)

    assert 495 < env.due_in("q", id) <= 500


def test_retry_after_zero_is_received_again_at_once(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    seen = []

    @worker.listener("q")
    def handle(body, message):
        seen.append(message.attempt)
        if message.attempt < 5:
            raise Retry(after=0)

    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, handled=1, retried=4)

    assert seen == [1, 2, 3, 4, 5]


def test_discarded_message_is_not_dead_lettered(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", dead_letter_queue="dead")(raising_handler(Discard("too old")))
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dropped=1)

    assert env.is_empty("q")
    assert env.is_empty("dead")
    assert (worker.numbers.handled, worker.numbers.failed) == (0, 0)


def test_dead_letter_exception_sets_the_reason(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", dead_letter_queue="dead")(raising_handler(DeadLetter("no such customer")))
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == "given up by its handler: no such customer"
    assert letter.reason.attempts == 1


def test_no_retry_exception_is_dead_lettered_on_the_first_attempt(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", dead_letter_queue="dead", no_retry=(ValueError,))(
        raising_handler(ValueError("v"))
    )
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == "ValueError on attempt 1, which is not retried"


def test_drop_deletes_after_the_last_attempt(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", max_retries=1, backoff=0, drop=True)(raising_handler(ValueError("v")))
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dropped=1, retried=1)

    assert env.is_empty("q")


def test_message_is_retried_forever_by_default(env, rsmq):
    env.create_queues("q")
    seen = []
    worker = env.create_worker()
    worker.listener("q", backoff=500)(raising_handler(ValueError("v"), seen))
    id = rsmq.send_message("q", "x")
    rsmq.receive_message("q", vt=0)
    env.raw.hset(env.queue_key("q") + ":Q", f"{id}:rc", 100_000)
    worker.start()
    wait_for_numbers(worker, retried=1)

    assert seen == [100_001]
    assert env.fields("q")[f"{id}:rc"] == b"100001"
    assert env.due_in("q", id) > 495


def test_dead_letter_policy_of_the_queue_is_the_default(env, rsmq):
    env.create_queues("q", "dead")
    rsmq.set_dead_letter_policy("q", "dead", 2)
    seen = []
    worker = env.create_worker()
    worker.listener("q", backoff=0)(raising_handler(ValueError("v"), seen))
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)

    assert seen == [1, 2]
    assert rsmq.peek_messages("dead")[0].reason.text == "ValueError on attempt 2, the last"


def test_listener_options_override_the_queues_dead_letter_policy(env, rsmq):
    env.create_queues("q", "dead", "mine")
    rsmq.set_dead_letter_policy("q", "dead", 1)
    seen = []
    worker = env.create_worker()
    worker.listener("q", backoff=0, max_retries=3, dead_letter_queue="mine")(
        raising_handler(ValueError("v"), seen)
    )
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)

    assert seen == [1, 2, 3, 4]
    assert env.is_empty("dead")
    assert len(env.scores("mine")) == 1


def test_dead_letter_policy_set_while_the_worker_runs_takes_effect(env, rsmq, fast_heartbeat):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", backoff=500)(raising_handler(ValueError("v")))
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, retried=1)
    rsmq.set_dead_letter_policy("q", "dead", 1)
    wait_until(lambda: state_of(worker).queues["q"].policy.dead_letter_queue == "dead")
    env.advance_time("q", 500)
    wait_for_numbers(worker, dead=1)

    assert len(env.scores("dead")) == 1


def test_messages_wait_while_the_dead_letter_queue_is_missing(env, rsmq, caplog):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_retries=0, backoff=500, dead_letter_queue="dead")(
        raising_handler(ValueError("v"))
    )
    worker.start()
    rsmq.delete_queue("dead")
    id = rsmq.send_message("q", "x")
    wait_for_numbers(worker, retried=1)

    assert 495 < env.due_in("q", id) <= 500
    assert env.fields("q")[f"{id}:rc"] == b"1"
    assert any(
        "queue dead" in line.getMessage() and "stay" in line.getMessage() for line in caplog.records
    )
    rsmq.create_queue("dead")
    env.advance_time("q", 500)
    wait_for_numbers(worker, dead=1)
    assert list(env.scores("dead")) == [id]


@pytest.mark.parametrize("handler", ["plain", "async"])
def test_undecodable_body_is_dead_lettered_at_once(env, rsmq, handler):
    env.create_queues("q", "dead")
    called = []

    async def later(body):
        called.append(body)

    worker = env.create_worker()
    worker.listener("q", codec=JSON, dead_letter_queue="dead")(
        later if handler == "async" else called.append
    )
    worker.start()
    id = rsmq.send_message("q", b"{\xff", codec=BYTES)
    rsmq.send_message("q", {"fine": 1}, codec=JSON)
    wait_for_numbers(worker, dead=1, handled=1)

    assert called == [{"fine": 1}]
    (letter,) = rsmq.peek_messages("dead")
    assert (letter.id, letter.raw) == (id, b"{\xff")
    assert letter.reason.text == f"The codec can't decode the body of message {id} in queue 'q'"
    assert letter.reason.exception.startswith("UnicodeDecodeError: ")


def test_undecodable_body_is_retried_without_a_dead_letter_queue(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", codec=JSON, backoff=500)(lambda body: None)
    worker.start()
    id = rsmq.send_message("q", "{")
    wait_for_numbers(worker, retried=1)

    assert 495 < env.due_in("q", id) <= 500


@pytest.mark.parametrize(
    ("codec", "body"),
    [(JSON, {"a": [1, None, "é"]}), (MSGPACK, {"a": b"\xff", "b": 1.5}), (BYTES, b"\x00\xff")],
)
@pytest.mark.parametrize("set_by", ["listener", "client"])
def test_bodies_are_decoded_with_the_codec_of_the_listener_or_the_client(
    env, rsmq, codec, body, set_by
):
    env.create_queues("q")
    client = env.create_client(codec=codec) if set_by == "client" else rsmq
    worker = env.create_worker(rsmq=client)
    got = []
    worker.listener("q", codec=codec if set_by == "listener" else None)(
        lambda body, message: got.append((body, message.body))
    )
    worker.start()
    rsmq.send_message("q", body, codec=codec)
    wait_for_numbers(worker, handled=1)

    assert got == [(body, body)]


def test_any_exception_of_a_custom_codec_makes_the_body_undecodable(env, rsmq):
    class Broken:
        def encode(self, body):
            return body

        def decode(self, raw):
            raise ZeroDivisionError(raw)

    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", codec=Broken(), dead_letter_queue="dead")(lambda body: None)
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)

    assert rsmq.peek_messages("dead")[0].reason.exception == "ZeroDivisionError: b'x'"


# Whatever a handler raises or returns is the outcome of one message.


class NoText(Exception):
    def __str__(self):
        raise RuntimeError("it has no text")


class Late(Retry):
    def __init__(self):
        super().__init__()
        self.after = "soon"


@pytest.mark.parametrize(
    "error",
    [
        lambda: Retry(after=math.nan),
        lambda: Retry(after="soon"),
        lambda: Retry(after=10**400),
        Late,
        NoText,
        lambda: SystemExit(3),
        KeyboardInterrupt,
        lambda: BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError()]),
    ],
    ids=["nan", "text", "too large", "set later", "no text", "exit", "Ctrl-C", "group"],
)
@pytest.mark.parametrize("handler", ["plain", "async"])
@pytest.mark.parametrize("max_retries", [1, 0])
def test_worker_survives_any_exception_of_a_handler(env, rsmq, error, handler, max_retries):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    def handle(body):
        if body == "bad":
            raise error()

    async def later(body):
        handle(body)

    worker.listener("q", max_retries=max_retries, dead_letter_queue="dead", backoff=500)(
        later if handler == "async" else handle
    )
    worker.start()
    rsmq.send_messages("q", ["bad", "good"])
    expected = {"dead": 1} if max_retries == 0 else {"retried": 1}
    wait_for_numbers(worker, handled=1, **expected)
    is_requested = error is Late and max_retries == 1  # a Retry that was created without an error
    assert worker.numbers.failed == (not is_requested)

    assert not state_of(worker).has_ended
    assert env.scores("dead" if max_retries == 0 else "q").keys() != set()


def test_exception_text_with_surrogates_is_stored(env, rsmq, caplog):
    caplog.set_level(logging.CRITICAL, "rsmq.worker")  # the test's own report can't encode it
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(
        raising_handler(ValueError("\udcff"))
    )
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, dead=1)

    assert rsmq.peek_messages("dead")[0].reason.exception == "ValueError: \udcff"


@pytest.mark.parametrize("backoff", [lambda _: math.nan, lambda _: "soon", lambda: 1])
def test_worker_survives_any_result_of_a_back_off_function(env, rsmq, backoff):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", backoff=backoff)(raising_handler(KeyError()))
    worker.start()
    rsmq.send_message("q", "x")
    wait_for_numbers(worker, retried=1)

    assert not state_of(worker).has_ended


async def _fails(body):
    raise ValueError(body)


class CalledLater:
    async def __call__(self, body):
        raise ValueError(body)


@functools.wraps(len)  # as decorators do that do not support async functions
def _decorated(body):
    return _fails(body)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    "handler", [_decorated, lambda body: _fails(f"{body}!"), functools.partial(CalledLater())]
)
def test_returned_coroutine_is_a_failure(env, rsmq, handler):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(handler)
    worker.start()
    rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.handled + worker.numbers.dead)

    assert (worker.numbers.handled, worker.numbers.dead) == (0, 1)


def test_message_deleted_by_its_handler_counts_as_handled(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(lambda body, message: rsmq.delete_message(message))
    worker.start()
    rsmq.send_messages("q", ["a", "b"])
    wait_for_numbers(worker, handled=2)

    assert env.is_empty("q")
    assert worker.numbers.lost == 0


def test_message_deleted_by_its_failing_handler_stays_deleted(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(body, message):
        rsmq.delete_message(message)
        raise ValueError

    worker.start()
    rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.failed)
    worker.stop()

    assert env.is_empty("q")
    assert env.is_empty("dead")


def test_retried_message_is_handled_again(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)
    seen, hold = [], threading.Event()

    @worker.listener("q")
    def handle(body, message):
        seen.append((body, message.attempt))
        if body == "a" and message.attempt == 1:
            raise Retry(after=0)

    worker.start()
    rsmq.send_messages("q", ["a", "b"])
    wait_for_numbers(worker, handled=2)
    hold.set()

    assert sorted(seen) == [("a", 1), ("a", 2), ("b", 1)]


def test_every_retry_and_dead_letter_is_logged(env, rsmq, caplog):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_retries=1, backoff=0, dead_letter_queue="dead")(
        raising_handler(ValueError("bad\n  value"))
    )
    with caplog.at_level(logging.INFO, "rsmq.worker"):
        worker.start()
        id = rsmq.send_message("q", "x")
        wait_for_numbers(worker, dead=1)
        worker.stop()

    retry, dead = (each for each in caplog.records if hasattr(each, "message_id"))
    assert retry.getMessage() == f"q {id}: attempt 1 failed, next in 0 s: ValueError: bad value"
    assert (retry.levelname, retry.queue, retry.message_id, retry.attempt) == (
        "WARNING",
        "q",
        id,
        1,
    )
    assert dead.getMessage() == (
        f"q {id}: to dead after attempt 2: ValueError on attempt 2, the last: ValueError: bad value"
    )
    assert (dead.levelname, dead.queue, dead.message_id, dead.attempt) == ("ERROR", "q", id, 2)
    assert dead.exc_info[0] is ValueError
