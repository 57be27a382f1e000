"""Several queues in one worker: limits, priority, pause, batches and routes."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from rsmq import BYTES, JSON, InvalidFormat, InvalidValue, QueueNotFound
from rsmq.worker import DeadLetter, Discard, Middleware, Retry, event_payload, json_field
from rsmq.worker.runtime import loop, prefetch_plan
from tests.workers.until import until


class Inside:
    """Counts how many are inside at once, of each name and in all."""

    def __init__(self):
        self._lock = threading.Lock()
        self.now = {}
        self.most = {}
        self.order = []
        self.open = threading.Event()

    def enter(self, name):
        with self._lock:
            self.order.append(name)
            for each in (name, "all"):
                self.now[each] = self.now.get(each, 0) + 1
                self.most[each] = max(self.most.get(each, 0), self.now[each])

    def leave(self, name):
        with self._lock:
            for each in (name, "all"):
                self.now[each] -= 1

    def handler(self, name, seconds=0.0):
        def handle(body):
            self.enter(name)
            if seconds:
                time.sleep(seconds)
            else:
                self.open.wait(20)
            self.leave(name)

        return handle

    def async_handler(self, name):
        async def handle(body):
            self.enter(name)
            while not self.open.is_set():
                await asyncio.sleep(0.002)
            self.leave(name)

        return handle


@pytest.fixture
def inside():
    inside = Inside()
    yield inside
    inside.open.set()


def settled(place, *queues):
    return until(lambda: all(place.empty(queue) for queue in queues))


# Limits.


def test_never_more_run_at_once_than_each_queue_and_the_worker_may(place, rsmq, inside):
    place.queues("a", "b", "c")
    worker = place.worker(concurrency=5)
    worker.listener("a", concurrency=2)(inside.handler("a"))
    worker.listener("b", concurrency=1)(inside.async_handler("b"))
    worker.listener("c")(inside.handler("c"))
    for queue in "abc":
        rsmq.send_messages(queue, ["x"] * 20)
    worker.start()
    until(lambda: inside.now.get("all") == 5)
    # Nothing more is taken while all slots are.
    assert sum(len(lane.in_flight) for lane in worker._worker_loop._lanes) == 5
    inside.open.set()
    settled(place, "a", "b", "c")

    assert inside.most["a"] <= 2
    assert inside.most["b"] == 1
    assert inside.most["all"] == 5


def test_a_queue_has_no_more_slots_than_the_worker(place, rsmq, inside):
    place.queues("a")
    worker = place.worker(concurrency=2)
    worker.listener("a", concurrency=100)(inside.handler("a"))
    rsmq.send_messages("a", ["x"] * 10)
    worker.start()
    until(lambda: inside.now.get("all") == 2)
    inside.open.set()
    settled(place, "a")

    assert inside.most["all"] == 2


def test_one_at_a_time_is_in_order(place, rsmq):
    place.queues("a")
    worker = place.worker(concurrency=1)
    got = []
    worker.listener("a")(lambda body: got.append(int(body)))
    rsmq.send_messages("a", map(str, range(500)))
    worker.start()
    settled(place, "a")

    assert got == list(range(500))


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_a_thousand_tasks_run_at_once(place, rsmq):
    place.queues("a")
    worker = place.worker(concurrency=1000)
    inside, most, everybody = 0, 0, asyncio.Event()

    @worker.listener("a")
    async def handle(body):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 1000:
            everybody.set()
        await everybody.wait()
        inside -= 1

    worker.start()
    rsmq.send_messages("a", ["x"] * 1000)
    settled(place, "a")

    assert most == 1000
    until(lambda: worker.numbers.handled == 1000)


def test_threads_end_no_more_than_they_must_and_are_no_more_than_slots(place, rsmq, inside):
    def handlers():
        return [each for each in threading.enumerate() if each.name.startswith("rsmq-handler")]

    place.queues("a")
    worker = place.worker(concurrency=6)
    worker.listener("a")(inside.handler("a"))
    worker.start()
    assert handlers() == []
    rsmq.send_messages("a", ["x"] * 30)
    until(lambda: inside.now.get("all") == 6)
    assert len(handlers()) == 6
    inside.open.set()
    settled(place, "a")
    worker.stop()

    until(lambda: handlers() == [])


# What is held ahead.


def test_long_calls_hold_nothing_ahead(place, rsmq, inside):
    place.queues("a")
    worker = place.worker(concurrency=2, name="w")
    worker.listener("a")(inside.handler("a", 0.15))
    rsmq.send_messages("a", ["x"] * 8)
    worker.start()
    until(lambda: inside.now.get("all") == 2)
    most = 0
    while not place.empty("a"):
        most = max(most, len(place.held("w")))

    assert most <= 4  # two that run, and two that have ended but are not deleted yet
    until(lambda: worker.numbers.handled == 8)
    assert worker.numbers.received == 8


def test_short_calls_hold_as_many_ahead_as_are_begun_soon(place, rsmq):
    place.queues("a")
    worker = place.worker(concurrency=1, name="w")
    worker.listener("a", vt=1)(lambda body: time.sleep(0.005))
    rsmq.send_messages("a", ["x"] * 200)
    worker.start()
    most = 0
    while not place.empty("a"):
        most = max(most, len(place.held("w")))

    assert 5 < most <= 1 + 0.1 / 0.005 + 1


def test_what_waits_too_long_for_a_slot_is_given_back_and_left_to_others(place, rsmq):
    place.queues("a")
    worker = place.worker(concurrency=1, name="w")
    slow, let_go = threading.Event(), threading.Event()

    @worker.listener("a", vt=0.3)
    def handle(body):
        if body == "slow":
            slow.set()
            let_go.wait(20)

    worker.start()
    rsmq.send_messages("a", ["x"] * 300)
    until(lambda: worker._worker_loop._lanes[0].prefetch_limit(time.monotonic()) > 20)
    settled(place, "a")
    rsmq.send_messages("a", ["slow", *["y"] * 20])
    assert slow.wait(10)
    others = []
    until(lambda: others.extend(rsmq.receive_messages("a", 20, vt=60)) or len(others) == 20, 3)
    let_go.set()
    until(lambda: not place.held("w"))

    assert max(each.receive_count for each in others) <= 3  # most of the attempts are left
    until(lambda: worker.numbers.handled == 301)


# Priority.


def test_messages_of_a_higher_priority_go_first(place, rsmq):
    place.queues("low", "high")
    worker = place.worker(concurrency=1)
    got = []
    worker.listener("low", priority=-1)(lambda body: got.append("low"))
    worker.listener("high", priority=1)(lambda body: got.append("high"))
    rsmq.send_messages("low", ["x"] * 20)
    rsmq.send_messages("high", ["x"] * 20)
    worker.start()
    settled(place, "low", "high")

    assert got == ["high"] * 20 + ["low"] * 20


def test_what_comes_later_to_a_queue_of_a_higher_priority_goes_before_what_waits(place, rsmq):
    place.queues("low", "high")
    worker = place.worker(concurrency=1)
    got, gate = [], threading.Semaphore(0)

    def handle(name):
        def handler(body):
            got.append(name)
            gate.acquire()

        return handler

    worker.listener("low")(handle("low"))
    worker.listener("high", priority=1)(handle("high"))
    worker.start()
    rsmq.send_messages("low", ["x"] * 3)
    until(lambda: got == ["low"])
    rsmq.send_messages("high", ["x"] * 3)
    until(lambda: not worker._worker_loop._lanes[1].is_waiting)  # it has been woken
    gate.release(10)
    settled(place, "low", "high")

    assert got == ["low", "high", "high", "high", "low", "low"]


def test_a_queue_of_a_lower_priority_that_starves_has_a_call_now_and_then(place, rsmq, monkeypatch):
    monkeypatch.setattr(prefetch_plan, "STARVATION_SECONDS", 0.1)
    place.queues("low", "high")
    worker = place.worker(concurrency=1)
    got = []

    @worker.listener("high", priority=1)
    def high(body):
        got.append("high")
        time.sleep(0.01)

    worker.listener("low")(lambda body: got.append("low"))
    rsmq.send_messages("low", ["x"] * 3)
    rsmq.send_messages("high", ["x"] * 60)
    worker.start()
    settled(place, "low", "high")

    assert got[0] == "high"
    before_the_last = got[: len(got) - got[::-1].index("high")]
    assert 1 <= before_the_last.count("low") <= 3


@pytest.mark.parametrize("vt", [1.0, 30])
def test_queues_of_one_priority_take_turns(place, rsmq, vt):
    place.queues("a", "b")
    worker = place.worker(concurrency=1)
    got, attempts = [], []

    def handle(name):
        def handler(body, message):
            got.append(name)
            attempts.append(message.attempt)
            time.sleep(0.005)

        return handler

    for queue in "ab":
        worker.listener(queue, vt=vt)(handle(queue))
        rsmq.send_messages(queue, ["x"] * 60)
    worker.start()
    settled(place, "a", "b")

    assert 15 < got[:60].count("a") < 45
    assert set(attempts) == {1}


# Queues that are paused, missing or made.


def test_a_paused_queue_is_left_alone_until_it_is_resumed(place, rsmq, beating):
    place.queues("a", "b")
    worker = place.worker()
    got = []
    worker.listener("a")(got.append)
    worker.listener("b")(got.append)
    worker.start()
    assert rsmq.pause_queue("a")
    rsmq.send_message("a", "a1")
    rsmq.send_message("b", "b1")
    until(lambda: got == ["b1"])
    until(lambda: worker._worker_loop._lanes[0].closed_reason == "p")
    rsmq.send_message("b", "b2")
    until(lambda: got == ["b1", "b2"])
    assert len(place.scores("a")) == 1
    assert rsmq.get_queue_attributes("a").paused
    assert rsmq.receive_message("a", vt=0).body == "a1"
    assert rsmq.resume_queue("a")
    until(lambda: got == ["b1", "b2", "a1"])

    assert not rsmq.get_queue_attributes("a").paused


def test_a_queue_that_is_paused_before_the_start_is_left_alone(place, rsmq, beating):
    place.queues("a")
    rsmq.send_message("a", "x")
    rsmq.pause_queue("a")
    worker = place.worker()
    got = []
    worker.listener("a")(got.append)
    worker.start()
    until(lambda: worker._worker_loop._lanes[0].closed_reason == "p")
    assert got == []
    rsmq.resume_queue("a")

    until(lambda: got == ["x"])


def test_what_is_held_when_a_queue_is_paused_is_finished(place, rsmq, gate, beating):
    place.queues("a")
    worker = place.worker(concurrency=2)
    worker.listener("a")(lambda body: gate())
    worker.start()
    rsmq.send_messages("a", ["x"] * 5)
    gate.wait_for(2)
    rsmq.pause_queue("a")
    gate.open()
    until(lambda: worker.numbers.handled == 2)
    until(lambda: worker._worker_loop._lanes[0].closed_reason == "p")

    assert len(place.scores("a")) == 3


def test_a_missing_queue_is_refused_at_the_start(place, rsmq):
    worker = place.worker(name="w")
    worker.listener("none")(lambda body: None)

    with pytest.raises(QueueNotFound) as caught:
        worker.start()
    assert caught.value.value == "none"
    assert not place.raw.exists(f"{place.ns}:x:workers")


@pytest.mark.parametrize("item", ["dead_letter_queue", "unroutable"])
def test_a_missing_queue_that_messages_may_go_to_is_refused_at_the_start(place, rsmq, item):
    place.queues("q")
    worker = place.worker()
    worker.router("q", by=event_payload, **{item: "none"}).on("a")(lambda body: None)

    with pytest.raises(QueueNotFound) as caught:
        worker.start()
    assert caught.value.value == "none"


def test_queues_are_made_when_asked(place, rsmq):
    worker = place.worker()
    worker.listener("q", create=True, dead_letter_queue="dead")(lambda body: None)
    worker.router(
        "r", create=True, by=event_payload, unroutable="lost", dead_letter_queue="dead"
    ).on("a")(lambda body: None)
    worker.start()

    assert rsmq.list_queues() == ["dead", "lost", "q", "r"]
    assert rsmq.get_queue_attributes("q").vt == 30


def test_a_queue_that_is_there_keeps_its_attributes(place, rsmq):
    place.queues("q", vt=7, maxsize=2048)
    worker = place.worker()
    worker.listener("q", create=True)(lambda body: None)
    worker.start()

    attributes = rsmq.get_queue_attributes("q")
    assert (attributes.vt, attributes.maxsize) == (7, 2048)
    assert worker._worker_loop._lanes[0].vt == 7


def test_a_queue_without_a_visibility_timeout_needs_one_of_the_listener(place, rsmq):
    place.queues("q", vt=0)
    worker = place.worker()
    worker.listener("q")(lambda body: None)

    with pytest.raises(InvalidValue) as caught:
        worker.start()
    assert caught.value.hint.endswith("Say vt= of the listener.")


def test_a_queue_that_is_deleted_and_made_again_while_it_runs_is_served_again(
    place, rsmq, beating, caplog
):
    place.queues("q", "other")
    worker = place.worker()
    got = []
    worker.listener("q")(got.append)
    worker.listener("other")(got.append)
    worker.start()
    rsmq.delete_queue("q")
    until(lambda: "there is no queue q; its listener waits for it" in caplog.text)
    rsmq.send_message("other", "o")
    until(lambda: got == ["o"])
    place.queues("q")
    rsmq.send_message("q", "x")

    until(lambda: got == ["o", "x"])


def test_a_queue_that_is_deleted_while_its_message_is_handled(place, rsmq, gate):
    place.queues("q")
    worker = place.worker(name="w")

    @worker.listener("q")
    def handle(body):
        gate()
        raise ValueError

    worker.start()
    rsmq.send_message("q", "x")
    gate.wait_for(1)
    rsmq.delete_queue("q")
    gate.open()
    until(lambda: worker.numbers.failed == 1)
    worker.stop()

    assert place.raw.keys(f"{place.ns}:q*") == []
    assert place.held("w") == {}


# Batches.


def test_a_batch_is_a_list_of_what_is_there_up_to_its_size(place, rsmq):
    place.queues("q")
    worker = place.worker(concurrency=1)
    got = []
    worker.listener("q", batch=10, codec=JSON)(
        lambda bodies, messages: got.append((bodies, [each.body for each in messages]))
    )
    rsmq.send_messages("q", list(range(25)), codec=JSON)
    worker.start()
    settled(place, "q")

    assert [bodies for bodies, _ in got] == [
        list(range(10)), list(range(10, 20)), list(range(20, 25))
    ]  # fmt: skip
    assert all(bodies == same for bodies, same in got)
    until(lambda: worker.numbers.handled == 25)


def test_a_batch_may_be_taken_without_its_messages_and_by_an_async_function(place, rsmq):
    place.queues("q")
    worker = place.worker()
    got = []

    @worker.listener("q", batch=100)
    async def handle(bodies):
        got.extend(bodies)

    rsmq.send_messages("q", ["a", "b", "c"])
    worker.start()
    settled(place, "q")

    assert sorted(got) == ["a", "b", "c"]


def test_those_of_a_batch_that_failed_are_treated_each_by_its_own_error(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker(concurrency=1)
    errors = {
        "value": ValueError("v"),
        "soon": Retry(after=500),
        "discard": Discard(),
        "dead": DeadLetter("no use"),
    }

    @worker.listener("q", batch=10, dead_letter_queue="dead", no_retry=ValueError)
    def handle(bodies, messages):
        for body, message in zip(bodies, messages, strict=True):
            if body in errors:
                message.fail(errors[body])

    ids = dict(
        zip(
            ["fine", *errors, "also fine"],
            rsmq.send_messages("q", ["fine", *errors, "also fine"]),
            strict=True,
        )
    )
    worker.start()
    until(lambda: worker.numbers.retried == 1 and worker.numbers.dead == 2)

    assert list(place.scores("q")) == [ids["soon"]]
    assert 495 < place.due_in("q", ids["soon"]) <= 500
    assert {each.id: each.reason.text for each in rsmq.peek_messages("dead")} == {
        ids["value"]: "ValueError on attempt 1, which is not retried",
        ids["dead"]: "given up by its handler: no use",
    }
    assert (worker.numbers.handled, worker.numbers.dropped, worker.numbers.failed) == (2, 1, 3)


def test_what_a_batch_raises_is_the_error_of_all_of_which_nothing_else_was_said(place, rsmq):
    place.queues("q")
    worker = place.worker(concurrency=1)

    @worker.listener("q", batch=10, backoff=500)
    def handle(bodies, messages):
        messages[0].fail(Discard())
        raise ValueError

    ids = rsmq.send_messages("q", ["a", "b", "c"])
    worker.start()
    until(lambda: worker.numbers.retried == 2 and worker.numbers.dropped == 1)

    assert sorted(place.scores("q")) == sorted(ids[1:])


def test_one_of_a_batch_that_can_not_be_decoded_does_not_hurt_the_others(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker(concurrency=1)
    got = []
    worker.listener("q", batch=10, codec=JSON, dead_letter_queue="dead")(
        lambda bodies, messages: got.append((bodies, len(messages)))
    )
    ids = rsmq.send_messages("q", [b"1", b"{", b"3"], codec=BYTES)
    worker.start()
    until(lambda: worker.numbers.dead == 1 and worker.numbers.handled == 2)

    assert got == [([1, 3], 2)]
    assert list(place.scores("dead")) == [ids[1]]


def test_a_batch_of_which_none_can_be_decoded_calls_nobody(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker()
    got = []
    worker.listener("q", batch=10, codec=JSON, dead_letter_queue="dead")(got.append)
    rsmq.send_messages("q", ["{", "["])
    worker.start()
    until(lambda: worker.numbers.dead == 2)

    assert got == []


def test_an_error_that_is_none_is_refused_where_it_is_said(place, rsmq):
    place.queues("q")
    worker = place.worker()
    refusals = []

    @worker.listener("q", batch=10)
    def handle(bodies, messages):
        try:
            messages[0].fail("because")
        except InvalidFormat as error:
            refusals.append((str(error), error.hint))

    rsmq.send_message("q", "x")
    worker.start()
    settled(place, "q")

    assert refusals == [("Invalid error format", "It is an exception; got 'because'.")]


def test_a_message_that_is_handled_by_itself_can_be_said_to_have_failed_too(place, rsmq):
    place.queues("q")
    worker = place.worker()
    worker.listener("q")(lambda body, message: message.fail(Retry(after=500)))
    id = rsmq.send_message("q", "x")
    worker.start()
    until(lambda: worker.numbers.retried == 1)

    assert place.due_in("q", id) > 495


# Routes.


def routed(place, by, **options):
    place.queues("q", "dead", "lost")
    worker = place.worker()
    got = []
    router = worker.router("q", by=by, **options)
    router.on("created")(lambda payload: got.append(("created", payload)))
    router.on("changed", "moved")(lambda payload, message: got.append((message.body, payload)))
    worker.start()
    return worker, got


def test_messages_go_to_the_function_of_their_type(place, rsmq):
    worker, got = routed(place, event_payload)
    rsmq.send_message("q", 'created:{"id": 1}')
    rsmq.send_message("q", "moved:here")
    until(lambda: worker.numbers.handled == 2)

    assert sorted(got) == [("created", '{"id": 1}'), ("moved:here", "here")]


def test_a_field_of_an_object_is_its_type(place, rsmq):
    worker, got = routed(place, json_field("type"), codec=JSON)
    rsmq.send_message("q", {"type": "created", "id": 1}, codec=JSON)
    until(lambda: worker.numbers.handled == 1)

    assert got == [("created", {"type": "created", "id": 1})]


def test_a_route_may_be_a_function_of_the_body(place, rsmq):
    worker, got = routed(
        place, lambda body: ("created" if body["new"] else None, body["n"]), codec=JSON
    )
    rsmq.send_message("q", {"new": True, "n": 7}, codec=JSON)
    until(lambda: worker.numbers.handled == 1)

    assert got == [("created", 7)]


@pytest.mark.parametrize(
    ("body", "why"),
    [("gone:1", "there is no handler for 'gone'"), ("none", "the message has no type")],
)
@pytest.mark.parametrize("unroutable", ["lost", None])
def test_messages_without_a_handler_go_to_a_queue_of_their_own_or_die(
    place, rsmq, body, why, unroutable
):
    worker, got = routed(place, event_payload, unroutable=unroutable, dead_letter_queue="dead")
    id = rsmq.send_message("q", body)
    until(lambda: worker.numbers.dead == 1)

    assert got == []
    (letter,) = rsmq.peek_messages(unroutable or "dead")
    assert (letter.id, letter.reason.text) == (id, why)
    assert (letter.reason.queue, letter.reason.attempts) == ("q", 1)


def test_messages_without_a_handler_wait_where_there_is_nowhere_to_go(place, rsmq):
    worker, _ = routed(place, event_payload, backoff=500)
    id = rsmq.send_message("q", "gone:1")
    until(lambda: worker.numbers.retried == 1)

    assert place.due_in("q", id) > 495


@pytest.mark.parametrize("by", [lambda body: 1 / 0, lambda body: 5, lambda body: ([], 1)])
def test_a_route_that_fails_is_a_failure_of_the_message(place, rsmq, by):
    worker, _ = routed(place, by, backoff=500)
    rsmq.send_message("q", "x")
    until(lambda: worker.numbers.retried == 1)

    assert not worker._worker_loop.finished.is_set()


def test_a_message_can_be_sent_to_several_queues_at_once_and_each_is_handled(place, rsmq):
    place.queues("a", "b", "c")
    worker = place.worker()
    got = []
    for queue in "abc":
        worker.listener(queue)(lambda body, message: got.append((message.queue, message.id, body)))
    worker.start()
    ids = rsmq.publish(["a", "b", "c"], "news")
    until(lambda: worker.numbers.handled == 3)

    assert sorted(got) == [(queue, ids[queue], "news") for queue in "abc"]


def test_handlers_send_on_with_the_client_of_the_worker(place, rsmq):
    place.queues("a", "b", "c")
    worker = place.worker(concurrency=4)
    got = []
    worker.listener("a")(lambda body: rsmq.send_message("b", body + "b"))

    @worker.listener("b")
    async def onwards(body):
        await asyncio.to_thread(rsmq.send_message, "c", body + "c")

    worker.listener("c")(got.append)
    worker.start()
    rsmq.send_messages("a", [f"{n}a" for n in range(50)])
    until(lambda: worker.numbers.handled == 150)

    assert sorted(got) == sorted(f"{n}abc" for n in range(50))


def test_a_worker_gives_a_sign_of_life_each_second():
    assert (loop.HEARTBEAT_SECONDS, loop.TTL) == (1, 5)


# Queues and fields that somebody else has broken.


def _of_another_type(place):
    place.raw.delete(place.zset("bad"))
    place.raw.set(place.zset("bad"), "x")


def test_a_queue_that_can_not_be_received_from_does_not_stop_the_others(
    place, rsmq, beating, caplog
):
    place.queues("bad", "good")
    worker = place.worker()
    got = []
    worker.listener("bad", priority=1)(lambda body: None)
    worker.listener("good")(got.append)
    rsmq.pause_queue("bad")
    rsmq.send_message("bad", "x")
    worker.start()
    until(lambda: worker._worker_loop._lanes[0].closed_reason == "p")
    _of_another_type(place)
    place.raw.hdel(f"{place.ns}:bad:Q", "x:paused")
    for number in range(3):
        rsmq.send_message("good", str(number))
        until(lambda: len(got) == number + 1, 3)  # noqa: B023 - used at once
        time.sleep(0.03)  # some beats

    assert got == ["0", "1", "2"]
    until(lambda: any("bad" in record.getMessage() for record in caplog.records), 3)


def test_what_was_received_before_redis_went_away_is_handled_while_a_broken_queue_is_looked_for(
    place, rsmq, monkeypatch
):
    place.queues("a", "b", "c")
    worker = place.worker()
    got, failed = [], []
    for queue in "abc":
        worker.listener(queue)(got.append)
    run = worker.rsmq.run

    def failing(operation):
        if operation.script.name == "receive_for_worker":
            queues = len(operation.queues)
            if queues > 1 and "together" not in failed:
                failed.append("together")
                raise ResponseError("hash value is not an integer")
            if queues == 1 and failed == ["together"] and len(singles) == 1:
                failed.append("alone")
                raise RedisConnectionError("gone")
            if queues == 1:
                singles.append(queues)
        return run(operation)

    singles = []
    for queue in "abc":
        rsmq.send_message(queue, queue)
    monkeypatch.setattr(worker.rsmq, "run", failing)
    worker.start()
    until(lambda: worker.numbers.handled == 3)

    assert failed == ["together", "alone"]
    assert sorted(got) == ["a", "b", "c"]


def test_a_queue_whose_keys_are_destroyed_while_a_message_is_handled_does_not_cost_the_others(
    place, rsmq, gate, beating
):
    place.queues("bad", "good")
    worker = place.worker()
    worker.listener("bad")(lambda body: gate())
    lost = []

    @worker.listener("good", vt=1.5)
    def handle(body, message):
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            time.sleep(0.01)
        lost.append(message.lease_lost)

    worker.start()
    rsmq.send_message("bad", "x")
    gate.wait_for(1)
    rsmq.send_message("good", "x")
    until(lambda: worker.numbers.received == 2)
    _of_another_type(place)
    gate.open()
    until(lambda: worker.numbers.handled == 1, 5)

    assert lost == [False]
    assert place.empty("good")
    place.raw.delete(place.zset("bad"))


# What goes in comes out.


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_bodies_of_any_size_are_handled(place, rsmq, size):
    place.queues("q", maxsize=-1)
    worker = place.worker(concurrency=2)
    got = []
    worker.listener("q", batch=20)(got.extend)
    rsmq.send_messages("q", ["x" * size] * 12)
    worker.start()
    settled(place, "q")

    assert got == ["x" * size] * 12


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_every_message_has_exactly_one_end(place, rsmq, backend):
    place.queues("threads", "tasks", "batches", "dead")
    worker = place.worker(concurrency=20, name="w")
    seen = []
    chance = random.Random(7)

    def outcome(body, message):
        roll = chance.random()
        if roll < 0.1:
            raise Retry(after=0)
        if roll < 0.2:
            raise ValueError
        if roll < 0.25:
            raise DeadLetter
        if roll < 0.3:
            seen.append(body)
            raise Discard
        seen.append(body)

    options = {"backoff": 0, "max_retries": 2, "dead_letter_queue": "dead"}
    worker.listener("threads", **options)(outcome)

    @worker.listener("tasks", **options)
    async def later(body, message):
        await asyncio.sleep(chance.random() / 1000)
        outcome(body, message)

    @worker.listener("batches", batch=7, **options)
    def batch(bodies, messages):
        for body, message in zip(bodies, messages, strict=True):
            try:
                outcome(body, message)
            except Exception as error:  # noqa: BLE001 - whichever it is
                message.fail(error)

    worker.start()
    sent = {}
    for queue in ("threads", "tasks", "batches"):
        for at in range(0, 400, 100):
            bodies = [f"{queue}{n}" for n in range(at, at + 100)]
            sent |= dict(zip(rsmq.send_messages(queue, bodies), bodies, strict=True))
    settled(place, "threads", "tasks", "batches")
    until(lambda: place.held("w") == {})
    worker.stop()
    dead = [each.raw.decode() for each in rsmq.peek_messages("dead", count=2000)]
    numbers = worker.numbers

    assert sorted(seen + dead) == sorted(sent.values())
    assert numbers.handled + numbers.dropped == len(seen)
    assert (numbers.dead, numbers.lost, numbers.released) == (len(dead), 0, 0)
    assert numbers.received == 1200 + numbers.retried
    assert all(each.reason is not None for each in rsmq.peek_messages("dead", count=2000))


def test_an_async_handler_that_blocks_its_loop_keeps_its_lease(place, rsmq):
    place.queues("q")
    worker = place.worker()

    @worker.listener("q", vt=1)
    async def handle(body, message):
        time.sleep(1.5)  # noqa: ASYNC251 - as people do

    rsmq.send_message("q", "x")
    worker.start()
    until(lambda: worker.numbers.received == 1)
    while not place.empty("q"):
        assert rsmq.receive_message("q") is None
        time.sleep(0.01)

    until(lambda: worker.numbers.handled == 1)
    assert worker.numbers.lost == 0


def test_an_empty_queue_of_a_higher_priority_is_not_asked_again_and_again(place, rsmq, gate):
    place.queues("low", "high")
    asked = []

    class Counting(Middleware):
        def before_receive(self, queues):
            asked.append(list(queues))

    worker = place.worker(middleware=[Counting()])
    worker.listener("low", concurrency=1)(lambda body: gate())
    worker.listener("high", priority=1)(lambda body: None)
    worker.start()
    rsmq.send_messages("low", ["x"] * 5)
    until(lambda: worker._worker_loop._lanes[0].calls)
    time.sleep(0.2)
    before = len(asked)
    time.sleep(0.5)

    assert len(asked) - before <= 5


def test_a_queue_whose_vt_is_no_number_keeps_no_other_from_being_looked_at(
    place, rsmq, beating, monkeypatch
):
    place.queues("bad", "good", "dead")
    monkeypatch.setattr(loop, "_MIN_QUEUES_PER_ROUND", 1)
    worker = place.worker()
    worker.listener("bad", vt=5)(lambda body: None)
    worker.listener("good", vt=5)(lambda body: None)
    worker.start()
    place.raw.hset(f"{place.ns}:bad:Q", "vt", "abc")
    rsmq.set_dead_letter_policy("good", "dead", 3)

    until(lambda: worker._worker_loop._lanes[1].policy.dead_letter_queue == "dead")
    assert worker._worker_loop._failures == 0


def test_where_solitary_calls_can_not_be_noted_others_go_on(place, rsmq, caplog):
    place.queues("bad", "good", "dead")
    place.raw.set(f"{place.ns}:bad:x:alone", "x")
    worker = place.worker()
    got = []
    worker.listener("bad", max_retries=0, dead_letter_queue="dead")(got.append)
    worker.listener("good")(got.append)
    rsmq.send_message("bad", "often")
    for _ in range(3):
        rsmq.receive_message("bad", vt=0)
    worker.start()
    until(lambda: got == ["often"])
    rsmq.send_message("good", "x")

    until(lambda: worker.numbers.handled == 2)
    assert "can't be noted" in caplog.text
