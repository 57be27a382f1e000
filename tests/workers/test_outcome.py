"""What becomes of messages, seen in the raw keys."""

from __future__ import annotations

import functools
import json
import logging
import math
import threading

import pytest

from rsmq import BYTES, JSON, MSGPACK
from rsmq.worker import DeadLetter, Discard, Retry, fixed
from tests.workers.until import until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def numbers(worker, **expected):
    """Wait until the worker has these numbers, all others being 0 but received and failed."""

    def reached():
        assert worker._worker_loop.failure is None
        found = {name: getattr(worker.numbers, name) for name in worker.numbers.__slots__}
        return all(found[name] == number for name, number in expected.items()) and found

    return until(reached)


def raising(error, seen=None):
    """A handler that raises this, and notes attempts."""

    def handle(body, message):
        if seen is not None:
            seen.append(message.attempt)
        raise error

    return handle


def test_what_is_handled_is_deleted_with_all_that_is_known_of_it(place, rsmq):
    place.queues("q")
    before = place.raw.hgetall(place.zset("q") + ":Q")
    worker = place.worker(name="w")
    got = []
    worker.listener("q")(lambda body, message: got.append((body, message.queue, message.attempt)))
    worker.start()
    rsmq.send_message("q", "hello")
    numbers(worker, handled=1)

    assert got == [("hello", "q", 1)]
    assert place.empty("q")
    assert place.held("w") == {}
    after = place.raw.hgetall(place.zset("q") + ":Q")
    assert set(after) - set(before) <= {b"totalrecv", b"totalsent"}
    assert (after[b"totalrecv"], after[b"totalsent"]) == (b"1", b"1")


def test_the_message_is_a_receipt_and_says_what_receive_says(place, rsmq):
    place.queues("q")
    worker = place.worker()
    got = []
    worker.listener("q", vt=60, codec=JSON)(lambda body, message: got.append(message))
    worker.start()
    id = rsmq.send_message("q", {"a": 1}, codec=JSON)
    numbers(worker, handled=1)

    (message,) = got
    assert (message.id, message.raw, message.body) == (id, b'{"a":1}', {"a": 1})
    assert (message.receive_count, message.attempt, message.lease_lost) == (1, 1, False)
    assert message.sent_ms <= message.first_received_ms + 1
    assert not rsmq.delete_message(message)


def test_what_raises_is_hidden_for_its_pause_and_keeps_its_counters(place, rsmq):
    place.queues("q")
    worker = place.worker(name="w")
    worker.listener("q", vt=60, backoff=500)(raising(ValueError("v")))
    worker.start()
    id = rsmq.send_message("q", "x")
    numbers(worker, retried=1)

    assert 495 < place.due_in("q", id) <= 500
    assert place.fields("q")[id] == b"x"
    assert place.fields("q")[f"{id}:rc"] == b"1"
    assert f"{id}:fr" in place.fields("q")
    assert place.held("w") == {}
    assert (worker.numbers.failed, worker.numbers.handled) == (1, 0)


def test_the_receive_count_is_the_attempt_whoever_received_it_before(place, rsmq):
    place.queues("q", "dead")
    seen = []
    worker = place.worker()
    worker.listener("q", backoff=500, max_retries=3, dead_letter_queue="dead")(
        raising(ValueError("v"), seen)
    )
    rsmq.send_message("q", "x")
    rsmq.receive_message("q", vt=0)
    rsmq.receive_message("q", vt=0)
    worker.start()
    numbers(worker, retried=1)
    place.elapse("q", 500)
    numbers(worker, dead=1)

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
def test_each_attempt_has_its_pause(place, rsmq, backoff, expected):
    place.queues("q")
    worker = place.worker()
    worker.listener("q", backoff=backoff)(raising(KeyError()))
    worker.start()
    id = rsmq.send_message("q", "x")
    pauses = []
    for attempt in (1, 2, 3):
        numbers(worker, retried=attempt)
        pauses.append(place.due_in("q", id))
        place.elapse("q", 1000)

    assert pauses == pytest.approx(expected, abs=5)


def test_a_dead_letter_keeps_its_counters_and_says_why_it_died(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker(name="orders-1")

    @worker.listener("q", max_retries=1, backoff=500, dead_letter_queue="dead")
    def handle(body):
        raise ValueError(f"no such thing: {body}")

    worker.start()
    id = rsmq.send_message("q", "x")
    numbers(worker, retried=1)
    first = place.fields("q")[f"{id}:fr"]
    place.elapse("q", 500)
    numbers(worker, dead=1)

    assert place.empty("q")
    assert place.fields("dead") == {id: b"x", f"{id}:rc": b"2", f"{id}:fr": first}
    assert place.due_in("dead", id) <= 0
    ((stored, record),) = place.raw.hgetall(f"{place.ns}:dead:x:reasons").items()
    died, _, reason = record.partition(b":")
    assert (stored.decode(), json.loads(reason)["attempts"]) == (id, 2)
    (letter,) = rsmq.peek_messages("dead")
    reason = letter.reason
    assert (reason.queue, reason.text) == ("q", "ValueError on attempt 2, the last")
    assert reason.exception == "ValueError: no such thing: x"
    assert reason.traceback.endswith("ValueError: no such thing: x\n")
    assert (reason.worker, reason.attempts, reason.died_ms) == ("orders-1", 2, int(died))
    assert (worker.numbers.failed, worker.numbers.retried) == (2, 1)


def test_a_redrive_takes_the_reason_away(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(raising(KeyError()))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)
    worker.stop()
    ((old, new),) = rsmq.redrive_messages("dead", "q")

    assert old != new
    assert not place.raw.exists(f"{place.ns}:dead:x:reasons")
    assert rsmq.get_message("q", new).reason is None


def test_what_is_told_of_an_exception_is_bounded(place, rsmq):
    def deep(depth, text):
        if depth:
            deep(depth - 1, text)
        raise ValueError(text)

    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(lambda body: deep(90, "é" * 9999))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert len(letter.reason.exception) <= 500
    assert len(letter.reason.traceback) <= 4000
    assert letter.reason.exception.startswith("ValueError: éé")


def test_a_reason_names_the_exception_that_was_raised_whatever_caused_it(place, rsmq):
    def handle(body):
        try:
            {}[body]
        except KeyError as error:
            raise ValueError("no such order") from error

    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(handle)
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == "ValueError on attempt 1, the last"
    assert letter.reason.exception == "ValueError: no such order"
    assert "KeyError: 'x'" in letter.reason.traceback


def test_a_handler_says_when_it_wants_its_message_again(place, rsmq):
    place.queues("q")
    worker = place.worker()
    worker.listener("q", backoff=10)(raising(Retry("busy", after=500)))
    worker.start()
    id = rsmq.send_message("q", "x")
    numbers(worker, retried=1)

    assert 495 < place.due_in("q", id) <= 500


def test_a_message_that_is_retried_at_once_comes_at_once(place, rsmq):
    place.queues("q")
    worker = place.worker()
    seen = []

    @worker.listener("q")
    def handle(body, message):
        seen.append(message.attempt)
        if message.attempt < 5:
            raise Retry(after=0)

    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, handled=1, retried=4)

    assert seen == [1, 2, 3, 4, 5]


def test_what_is_discarded_is_deleted_although_there_is_a_dead_letter_queue(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", dead_letter_queue="dead")(raising(Discard("too old")))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dropped=1)

    assert place.empty("q")
    assert place.empty("dead")
    assert (worker.numbers.handled, worker.numbers.failed) == (0, 0)


def test_a_handler_gives_a_message_up_with_a_reason(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", dead_letter_queue="dead")(raising(DeadLetter("no such customer")))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == "given up by its handler: no such customer"
    assert letter.reason.attempts == 1


def test_what_is_not_retried_dies_on_its_first_attempt(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", dead_letter_queue="dead", no_retry=(ValueError,))(raising(ValueError("v")))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)

    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == "ValueError on attempt 1, which is not retried"


def test_what_may_be_dropped_is_after_its_last_attempt(place, rsmq):
    place.queues("q")
    worker = place.worker()
    worker.listener("q", max_retries=1, backoff=0, drop=True)(raising(ValueError("v")))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dropped=1, retried=1)

    assert place.empty("q")


def test_where_nothing_is_said_a_message_is_tried_for_ever(place, rsmq):
    place.queues("q")
    seen = []
    worker = place.worker()
    worker.listener("q", backoff=500)(raising(ValueError("v"), seen))
    id = rsmq.send_message("q", "x")
    rsmq.receive_message("q", vt=0)
    place.raw.hset(place.zset("q") + ":Q", f"{id}:rc", 100_000)
    worker.start()
    numbers(worker, retried=1)

    assert seen == [100_001]
    assert place.fields("q")[f"{id}:rc"] == b"100001"
    assert place.due_in("q", id) > 495


def test_a_listener_that_says_nothing_obeys_the_policy_of_its_queue(place, rsmq):
    place.queues("q", "dead")
    rsmq.set_dead_letter_policy("q", "dead", 2)
    seen = []
    worker = place.worker()
    worker.listener("q", backoff=0)(raising(ValueError("v"), seen))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)

    assert seen == [1, 2]
    assert rsmq.peek_messages("dead")[0].reason.text == "ValueError on attempt 2, the last"


def test_what_the_listener_says_comes_before_the_policy_of_its_queue(place, rsmq):
    place.queues("q", "dead", "mine")
    rsmq.set_dead_letter_policy("q", "dead", 1)
    seen = []
    worker = place.worker()
    worker.listener("q", backoff=0, max_retries=3, dead_letter_queue="mine")(
        raising(ValueError("v"), seen)
    )
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)

    assert seen == [1, 2, 3, 4]
    assert place.empty("dead")
    assert len(place.scores("mine")) == 1


def test_a_policy_that_is_set_while_it_runs_is_obeyed(place, rsmq, beating):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", backoff=500)(raising(ValueError("v")))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, retried=1)
    rsmq.set_dead_letter_policy("q", "dead", 1)
    until(lambda: worker._worker_loop._lanes[0].policy.dead_letter_queue == "dead")
    place.elapse("q", 500)
    numbers(worker, dead=1)

    assert len(place.scores("dead")) == 1


def test_where_the_dead_letter_queue_is_gone_messages_stay_until_it_is_back(place, rsmq, caplog):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", max_retries=0, backoff=500, dead_letter_queue="dead")(
        raising(ValueError("v"))
    )
    worker.start()
    rsmq.delete_queue("dead")
    id = rsmq.send_message("q", "x")
    numbers(worker, retried=1)

    assert 495 < place.due_in("q", id) <= 500
    assert place.fields("q")[f"{id}:rc"] == b"1"
    assert any(
        "queue dead" in line.getMessage() and "stay" in line.getMessage() for line in caplog.records
    )
    rsmq.create_queue("dead")
    place.elapse("q", 500)
    numbers(worker, dead=1)
    assert list(place.scores("dead")) == [id]


@pytest.mark.parametrize("handler", ["plain", "async"])
def test_a_body_that_can_not_be_decoded_is_a_dead_letter_at_once(place, rsmq, handler):
    place.queues("q", "dead")
    called = []

    async def later(body):
        called.append(body)

    worker = place.worker()
    worker.listener("q", codec=JSON, dead_letter_queue="dead")(
        later if handler == "async" else called.append
    )
    worker.start()
    id = rsmq.send_message("q", b"{\xff", codec=BYTES)
    rsmq.send_message("q", {"fine": 1}, codec=JSON)
    numbers(worker, dead=1, handled=1)

    assert called == [{"fine": 1}]
    (letter,) = rsmq.peek_messages("dead")
    assert (letter.id, letter.raw) == (id, b"{\xff")
    assert letter.reason.text == f"The body of message {id} in queue q is not decodable"
    assert letter.reason.exception.startswith("UnicodeDecodeError: ")


def test_a_body_that_can_not_be_decoded_waits_where_there_is_nowhere_to_go(place, rsmq):
    place.queues("q")
    worker = place.worker()
    worker.listener("q", codec=JSON, backoff=500)(lambda body: None)
    worker.start()
    id = rsmq.send_message("q", "{")
    numbers(worker, retried=1)

    assert 495 < place.due_in("q", id) <= 500


@pytest.mark.parametrize(
    ("codec", "body"),
    [(JSON, {"a": [1, None, "é"]}), (MSGPACK, {"a": b"\xff", "b": 1.5}), (BYTES, b"\x00\xff")],
)
@pytest.mark.parametrize("said_by", ["listener", "client"])
def test_bodies_are_decoded_by_the_listeners_codec_or_the_clients(
    place, rsmq, codec, body, said_by
):
    place.queues("q")
    client = place.client(codec=codec) if said_by == "client" else rsmq
    worker = place.worker(rsmq=client)
    got = []
    worker.listener("q", codec=codec if said_by == "listener" else None)(
        lambda body, message: got.append((body, message.body))
    )
    worker.start()
    rsmq.send_message("q", body, codec=codec)
    numbers(worker, handled=1)

    assert got == [(body, body)]


def test_an_own_codec_that_raises_anything_is_a_body_that_can_not_be_decoded(place, rsmq):
    class Broken:
        def encode(self, body):
            return body

        def decode(self, raw):
            raise ZeroDivisionError(raw)

    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", codec=Broken(), dead_letter_queue="dead")(lambda body: None)
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)

    assert rsmq.peek_messages("dead")[0].reason.exception == "ZeroDivisionError: b'x'"


# What a program may raise and return, however odd, is an outcome of one message.


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
def test_whatever_a_handler_raises_the_worker_goes_on(place, rsmq, error, handler, max_retries):
    place.queues("q", "dead")
    worker = place.worker()

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
    numbers(worker, handled=1, failed=1)
    expected = {"dead": 1} if max_retries == 0 else {"retried": 1}
    numbers(worker, **expected)

    assert not worker._worker_loop.finished.is_set()
    assert place.scores("dead" if max_retries == 0 else "q").keys() != set()


def test_a_text_that_utf_8_can_not_carry_is_told_all_the_same(place, rsmq, caplog):
    caplog.set_level(logging.CRITICAL, "rsmq.worker")  # the test's own report can't carry it
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(raising(ValueError("\udcff")))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, dead=1)

    assert rsmq.peek_messages("dead")[0].reason.exception == "ValueError: \udcff"


@pytest.mark.parametrize("backoff", [lambda _: math.nan, lambda _: "soon", lambda: 1])
def test_whatever_a_back_off_returns_the_worker_goes_on(place, rsmq, backoff):
    place.queues("q")
    worker = place.worker()
    worker.listener("q", backoff=backoff)(raising(KeyError()))
    worker.start()
    rsmq.send_message("q", "x")
    numbers(worker, retried=1)

    assert not worker._worker_loop.finished.is_set()


async def _fails(body):
    raise ValueError(body)


class CalledLater:
    async def __call__(self, body):
        raise ValueError(body)


@functools.wraps(len)  # as decorators do that know nothing of async functions
def _decorated(body):
    return _fails(body)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    "handler", [_decorated, lambda body: _fails(f"{body}!"), functools.partial(CalledLater())]
)
def test_a_coroutine_that_nobody_awaits_is_not_done(place, rsmq, handler):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(handler)
    worker.start()
    rsmq.send_message("q", "x")
    until(lambda: worker.numbers.handled + worker.numbers.dead)

    assert (worker.numbers.handled, worker.numbers.dead) == (0, 1)


def test_a_message_that_its_handler_deleted_itself_is_done(place, rsmq):
    place.queues("q")
    worker = place.worker()
    worker.listener("q")(lambda body, message: rsmq.delete_message(message))
    worker.start()
    rsmq.send_messages("q", ["a", "b"])
    numbers(worker, handled=2)

    assert place.empty("q")
    assert worker.numbers.lost == 0


def test_a_message_that_its_handler_deleted_and_then_failed_is_gone(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker()

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(body, message):
        rsmq.delete_message(message)
        raise ValueError

    worker.start()
    rsmq.send_message("q", "x")
    until(lambda: worker.numbers.failed)
    worker.stop()

    assert place.empty("q")
    assert place.empty("dead")


def test_a_message_keeps_its_place_in_line_by_its_sent_time_after_a_retry(place, rsmq):
    place.queues("q")
    worker = place.worker(concurrency=1)
    seen, hold = [], threading.Event()

    @worker.listener("q")
    def handle(body, message):
        seen.append((body, message.attempt))
        if body == "a" and message.attempt == 1:
            raise Retry(after=0)

    worker.start()
    rsmq.send_messages("q", ["a", "b"])
    numbers(worker, handled=2)
    hold.set()

    assert sorted(seen) == [("a", 1), ("a", 2), ("b", 1)]


def test_every_retry_and_dead_letter_has_a_line_in_the_log(place, rsmq, caplog):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", max_retries=1, backoff=0, dead_letter_queue="dead")(
        raising(ValueError("bad\n  value"))
    )
    with caplog.at_level(logging.INFO, "rsmq.worker"):
        worker.start()
        id = rsmq.send_message("q", "x")
        numbers(worker, dead=1)
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
