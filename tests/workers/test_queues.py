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
from rsmq.worker.loop import worker_loop as loop
from rsmq.worker.receive import prefetch_plan, queue_refresh
from tests.scale import WAIT_SECONDS
from tests.workers.polling import state_of, wait_until


class CallCounter:
    """A counter of the calls that run at once, for each name and in total."""

    def __init__(self):
        self._lock = threading.Lock()
        self.current = {}
        self.max_running = {}
        self.order = []
        self.open = threading.Event()

    def enter(self, name):
        with self._lock:
            self.order.append(name)
            for each in (name, "all"):
                self.current[each] = self.current.get(each, 0) + 1
                self.max_running[each] = max(self.max_running.get(each, 0), self.current[each])

    def leave(self, name):
        with self._lock:
            for each in (name, "all"):
                self.current[each] -= 1

    def handler(self, name, seconds=0.0):
        def handle(body):
            self.enter(name)
            if seconds:
                time.sleep(seconds)
            else:
                self.open.wait(WAIT_SECONDS)
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
def running():
    running = CallCounter()
    yield running
    running.open.set()


def wait_until_empty(env, *queues):
    return wait_until(lambda: all(env.is_empty(queue) for queue in queues))


# Limits.


def test_concurrency_limits_of_queues_and_worker_hold(env, rsmq, running):
    env.create_queues("a", "b", "c")
    worker = env.create_worker(concurrency=5)
    worker.listener("a", concurrency=2)(running.handler("a"))
    worker.listener("b", concurrency=1)(running.async_handler("b"))
    worker.listener("c")(running.handler("c"))
    for queue in "abc":
        rsmq.send_messages(queue, ["x"] * 20)
    worker.start()
    wait_until(lambda: running.current.get("all") == 5)
    # No further messages are received while all slots are occupied.
    assert sum(queue.in_flight for queue in state_of(worker).queues.values()) == 5
    running.open.set()
    wait_until_empty(env, "a", "b", "c")

    assert running.max_running["a"] <= 2
    assert running.max_running["b"] == 1
    assert running.max_running["all"] == 5


def test_queue_concurrency_is_capped_by_the_worker(env, rsmq, running):
    env.create_queues("a")
    worker = env.create_worker(concurrency=2)
    worker.listener("a", concurrency=100)(running.handler("a"))
    rsmq.send_messages("a", ["x"] * 10)
    worker.start()
    wait_until(lambda: running.current.get("all") == 2)
    running.open.set()
    wait_until_empty(env, "a")

    assert running.max_running["all"] == 2


def test_concurrency_one_handles_in_order(env, rsmq):
    env.create_queues("a")
    worker = env.create_worker(concurrency=1)
    got = []
    worker.listener("a")(lambda body: got.append(int(body)))
    rsmq.send_messages("a", map(str, range(500)))
    worker.start()
    wait_until_empty(env, "a")

    assert got == list(range(500))


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_a_thousand_tasks_run_at_once(env, rsmq):
    env.create_queues("a")
    worker = env.create_worker(concurrency=1000)
    running, max_running, all_running = 0, 0, asyncio.Event()

    @worker.listener("a")
    async def handle(body):
        nonlocal running, max_running
        running += 1
        max_running = max(max_running, running)
        if running == 1000:
            all_running.set()
        await all_running.wait()
        running -= 1

    worker.start()
    rsmq.send_messages("a", ["x"] * 1000)
    wait_until_empty(env, "a")

    assert max_running == 1000
    wait_until(lambda: worker.numbers.handled == 1000)


def test_handler_threads_start_on_demand_and_do_not_exceed_the_slots(env, rsmq, running):
    earlier = set(threading.enumerate())  # calls of earlier tests may still end

    def handlers():
        running = set(threading.enumerate()) - earlier
        return [each for each in running if each.name.startswith("rsmq-handler")]

    env.create_queues("a")
    worker = env.create_worker(concurrency=6)
    worker.listener("a")(running.handler("a"))
    worker.start()
    assert handlers() == []
    rsmq.send_messages("a", ["x"] * 30)
    wait_until(lambda: running.current.get("all") == 6)
    assert len(handlers()) == 6
    running.open.set()
    wait_until_empty(env, "a")
    worker.stop()

    wait_until(lambda: handlers() == [])


# Prefetched messages.


def test_long_calls_prefetch_nothing(env, rsmq, running):
    env.create_queues("a")
    worker = env.create_worker(concurrency=2, name="w")
    worker.listener("a")(running.handler("a", 0.15))
    rsmq.send_messages("a", ["x"] * 8)
    worker.start()
    wait_until(lambda: running.current.get("all") == 2)
    max_in_flight = 0
    while not env.is_empty("a"):
        max_in_flight = max(max_in_flight, len(env.in_flight("w")))

    assert max_in_flight <= 4  # two that run, and two that have ended but are not deleted yet
    wait_until(lambda: worker.numbers.handled == 8)
    assert worker.numbers.received == 8


def test_short_calls_prefetch_as_many_messages_as_start_soon(env, rsmq):
    env.create_queues("a")
    worker = env.create_worker(concurrency=1, name="w")
    waiting = []

    @worker.listener("a", vt=1)
    def handle(body):
        waiting.append(worker.numbers.received - len(waiting) - 1)
        time.sleep(0.005)

    rsmq.send_messages("a", ["x"] * 200)
    worker.start()
    wait_until_empty(env, "a")

    assert 5 < max(waiting) <= 0.1 / 0.005


def test_prefetched_messages_that_wait_too_long_are_released(env, rsmq):
    env.create_queues("a")
    worker = env.create_worker(concurrency=1, name="w")
    slow, may_return = threading.Event(), threading.Event()

    @worker.listener("a", vt=0.3)
    def handle(body):
        if body == "slow":
            slow.set()
            may_return.wait(WAIT_SECONDS)

    worker.start()
    rsmq.send_messages("a", ["x"] * 300)
    wait_until(lambda: state_of(worker).queues["a"].prefetch_limit > 20)
    wait_until_empty(env, "a")
    rsmq.send_messages("a", ["slow", *["y"] * 20])
    assert slow.wait(WAIT_SECONDS)
    others = []
    wait_until(lambda: others.extend(rsmq.receive_messages("a", 20, vt=60)) or len(others) == 20)
    may_return.set()
    wait_until(lambda: not env.in_flight("w"))

    assert max(each.receive_count for each in others) <= 3  # most of the attempts are left
    wait_until(lambda: worker.numbers.handled == 301)


# Priority.


def test_higher_priority_is_handled_first(env, rsmq):
    env.create_queues("low", "high")
    worker = env.create_worker(concurrency=1)
    got = []
    worker.listener("low", priority=-1)(lambda body: got.append("low"))
    worker.listener("high", priority=1)(lambda body: got.append("high"))
    rsmq.send_messages("low", ["x"] * 20)
    rsmq.send_messages("high", ["x"] * 20)
    worker.start()
    wait_until_empty(env, "low", "high")

    assert got == ["high"] * 20 + ["low"] * 20


def test_later_message_of_higher_priority_overtakes_the_run_queue(env, rsmq):
    env.create_queues("low", "high")
    worker = env.create_worker(concurrency=1)
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
    wait_until(lambda: got == ["low"])
    rsmq.send_messages("high", ["x"] * 3)
    wait_until(lambda: not state_of(worker).queues["high"].is_waiting)  # it has been woken
    gate.release(10)
    wait_until_empty(env, "low", "high")

    assert got == ["low", "high", "high", "high", "low", "low"]


def test_starving_lower_priority_queue_gets_occasional_calls(env, rsmq, monkeypatch):
    monkeypatch.setattr(prefetch_plan, "STARVATION_SECONDS", 0.1)
    env.create_queues("low", "high")
    worker = env.create_worker(concurrency=1)
    got = []

    @worker.listener("high", priority=1)
    def high(body):
        got.append("high")
        time.sleep(0.01)

    worker.listener("low")(lambda body: got.append("low"))
    rsmq.send_messages("low", ["x"] * 3)
    rsmq.send_messages("high", ["x"] * 60)
    worker.start()
    wait_until_empty(env, "low", "high")

    assert got[0] == "high"
    before_the_last = got[: len(got) - got[::-1].index("high")]
    assert 1 <= before_the_last.count("low") <= 3


@pytest.mark.parametrize("vt", [1.0, 30])
def test_queues_of_equal_priority_take_turns(env, rsmq, vt):
    env.create_queues("a", "b")
    worker = env.create_worker(concurrency=1)
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
    wait_until_empty(env, "a", "b")

    assert 15 < got[:60].count("a") < 45
    assert set(attempts) == {1}


# Queues that are paused, missing or created.


def test_paused_queue_is_not_received_from_until_resumed(env, rsmq, fast_heartbeat):
    env.create_queues("a", "b")
    worker = env.create_worker()
    got = []
    worker.listener("a")(got.append)
    worker.listener("b")(got.append)
    worker.start()
    assert rsmq.pause_queue("a")
    rsmq.send_message("a", "a1")
    rsmq.send_message("b", "b1")
    wait_until(lambda: got == ["b1"])
    wait_until(lambda: state_of(worker).queues["a"].closed_reason == "p")
    rsmq.send_message("b", "b2")
    wait_until(lambda: got == ["b1", "b2"])
    assert len(env.scores("a")) == 1
    assert rsmq.get_queue_attributes("a").paused
    assert rsmq.receive_message("a", vt=0).body == "a1"
    assert rsmq.resume_queue("a")
    wait_until(lambda: got == ["b1", "b2", "a1"])

    assert not rsmq.get_queue_attributes("a").paused


def test_queue_paused_before_the_start_is_not_received_from(env, rsmq, fast_heartbeat):
    env.create_queues("a")
    rsmq.send_message("a", "x")
    rsmq.pause_queue("a")
    worker = env.create_worker()
    got = []
    worker.listener("a")(got.append)
    worker.start()
    wait_until(lambda: state_of(worker).queues["a"].closed_reason == "p")
    assert got == []
    rsmq.resume_queue("a")

    wait_until(lambda: got == ["x"])


def test_messages_in_flight_when_a_queue_is_paused_are_finished(env, rsmq, gate, fast_heartbeat):
    env.create_queues("a")
    worker = env.create_worker(concurrency=2)
    worker.listener("a")(lambda body: gate())
    worker.start()
    rsmq.send_messages("a", ["x"] * 5)
    gate.wait_for(2)
    rsmq.pause_queue("a")
    gate.open()
    wait_until(lambda: worker.numbers.handled == 2)
    wait_until(lambda: state_of(worker).queues["a"].closed_reason == "p")

    assert len(env.scores("a")) == 3


def test_a_missing_queue_is_refused_at_the_start(env, rsmq):
    worker = env.create_worker(name="w")
    worker.listener("none")(lambda body: None)

    with pytest.raises(QueueNotFound) as caught:
        worker.start()
    assert caught.value.value == "none"
    assert not env.raw.exists(f"{env.ns}:x:workers")


@pytest.mark.parametrize("item", ["dead_letter_queue", "unroutable"])
def test_missing_target_queue_is_refused_at_the_start(env, rsmq, item):
    env.create_queues("q")
    worker = env.create_worker()
    worker.router("q", by=event_payload, **{item: "none"}).on("a")(lambda body: None)

    with pytest.raises(QueueNotFound) as caught:
        worker.start()
    assert caught.value.value == "none"


def test_create_creates_all_queues_of_a_listener(env, rsmq):
    worker = env.create_worker()
    worker.listener("q", create=True, dead_letter_queue="dead")(lambda body: None)
    worker.router(
        "r", create=True, by=event_payload, unroutable="lost", dead_letter_queue="dead"
    ).on("a")(lambda body: None)
    worker.start()

    assert rsmq.list_queues() == ["dead", "lost", "q", "r"]
    assert rsmq.get_queue_attributes("q").vt == 30


def test_create_keeps_the_attributes_of_an_existing_queue(env, rsmq):
    env.create_queues("q", vt=7, maxsize=2048)
    worker = env.create_worker()
    worker.listener("q", create=True)(lambda body: None)
    worker.start()

    attributes = rsmq.get_queue_attributes("q")
    assert (attributes.vt, attributes.maxsize) == (7, 2048)
    assert state_of(worker).queues["q"].vt == 7


def test_queue_with_vt_zero_needs_vt_of_the_listener(env, rsmq):
    env.create_queues("q", vt=0)
    worker = env.create_worker()
    worker.listener("q")(lambda body: None)

    with pytest.raises(InvalidValue) as caught:
        worker.start()
    assert caught.value.hint.endswith("Pass vt= to the listener.")


def test_queue_deleted_and_created_again_while_the_worker_runs_is_served_again(
    env, rsmq, fast_heartbeat, caplog
):
    env.create_queues("q", "other")
    worker = env.create_worker()
    got = []
    worker.listener("q")(got.append)
    worker.listener("other")(got.append)
    worker.start()
    rsmq.delete_queue("q")
    wait_until(lambda: "there is no queue q; its listener waits for it" in caplog.text)
    rsmq.send_message("other", "o")
    wait_until(lambda: got == ["o"])
    env.create_queues("q")
    rsmq.send_message("q", "x")

    wait_until(lambda: got == ["o", "x"])


def test_queue_deleted_while_its_message_is_handled_leaves_nothing(env, rsmq, gate):
    env.create_queues("q")
    worker = env.create_worker(name="w")

    @worker.listener("q")
    def handle(body):
        gate()
        raise ValueError

    worker.start()
    rsmq.send_message("q", "x")
    gate.wait_for(1)
    rsmq.delete_queue("q")
    gate.open()
    wait_until(lambda: worker.numbers.failed == 1)
    worker.stop()

    assert env.raw.keys(f"{env.ns}:q*") == []
    assert env.in_flight("w") == {}


# Batches.


def test_batch_has_the_available_messages_up_to_its_size(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)
    got = []
    worker.listener("q", batch=10, codec=JSON)(
        lambda bodies, messages: got.append((bodies, [each.body for each in messages]))
    )
    rsmq.send_messages("q", list(range(25)), codec=JSON)
    worker.start()
    wait_until_empty(env, "q")

    assert [bodies for bodies, _ in got] == [
        list(range(10)), list(range(10, 20)), list(range(20, 25))
    ]  # fmt: skip
    assert all(bodies == same for bodies, same in got)
    wait_until(lambda: worker.numbers.handled == 25)


def test_batch_handler_can_be_async_and_take_only_bodies(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    got = []

    @worker.listener("q", batch=100)
    async def handle(bodies):
        got.extend(bodies)

    rsmq.send_messages("q", ["a", "b", "c"])
    worker.start()
    wait_until_empty(env, "q")

    assert sorted(got) == ["a", "b", "c"]


def test_failed_messages_of_a_batch_have_their_own_outcomes(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker(concurrency=1)
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
    wait_until(lambda: worker.numbers.retried == 1 and worker.numbers.dead == 2)

    assert list(env.scores("q")) == [ids["soon"]]
    assert 495 < env.due_in("q", ids["soon"]) <= 500
    assert {each.id: each.reason.text for each in rsmq.peek_messages("dead")} == {
        ids["value"]: "ValueError on attempt 1, which is not retried",
        ids["dead"]: "given up by its handler: no use",
    }
    assert (worker.numbers.handled, worker.numbers.dropped, worker.numbers.failed) == (2, 1, 2)


def test_exception_of_a_batch_applies_to_messages_without_own_error(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)

    @worker.listener("q", batch=10, backoff=500)
    def handle(bodies, messages):
        messages[0].fail(Discard())
        raise ValueError

    ids = rsmq.send_messages("q", ["a", "b", "c"])
    worker.start()
    wait_until(lambda: worker.numbers.retried == 2 and worker.numbers.dropped == 1)

    assert sorted(env.scores("q")) == sorted(ids[1:])


def test_undecodable_message_of_a_batch_does_not_affect_the_others(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker(concurrency=1)
    got = []
    worker.listener("q", batch=10, codec=JSON, dead_letter_queue="dead")(
        lambda bodies, messages: got.append((bodies, len(messages)))
    )
    ids = rsmq.send_messages("q", [b"1", b"{", b"3"], codec=BYTES)
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1 and worker.numbers.handled == 2)

    assert got == [([1, 3], 2)]
    assert list(env.scores("dead")) == [ids[1]]


def test_batch_without_decodable_messages_calls_no_handler(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    got = []
    worker.listener("q", batch=10, codec=JSON, dead_letter_queue="dead")(got.append)
    rsmq.send_messages("q", ["{", "["])
    worker.start()
    wait_until(lambda: worker.numbers.dead == 2)

    assert got == []


def test_fail_refuses_a_value_that_is_not_an_exception(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    refusals = []

    @worker.listener("q", batch=10)
    def handle(bodies, messages):
        try:
            messages[0].fail("because")
        except InvalidFormat as error:
            refusals.append(str(error))

    rsmq.send_message("q", "x")
    worker.start()
    wait_until_empty(env, "q")

    assert refusals == ["Invalid error format: 'because'. It is an exception"]


def test_fail_works_without_a_batch(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(lambda body, message: message.fail(Retry(after=500)))
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)

    assert env.due_in("q", id) > 495


# Routes.


def routed(env, by, **options):
    env.create_queues("q", "dead", "lost")
    worker = env.create_worker()
    got = []
    router = worker.router("q", by=by, **options)
    router.on("created")(lambda payload: got.append(("created", payload)))
    router.on("changed", "moved")(lambda payload, message: got.append((message.body, payload)))
    worker.start()
    return worker, got


def test_messages_are_routed_by_their_type(env, rsmq):
    worker, got = routed(env, event_payload)
    rsmq.send_message("q", 'created:{"id": 1}')
    rsmq.send_message("q", "moved:here")
    wait_until(lambda: worker.numbers.handled == 2)

    assert sorted(got) == [("created", '{"id": 1}'), ("moved:here", "here")]


def test_json_field_routes_by_a_field(env, rsmq):
    worker, got = routed(env, json_field("type"), codec=JSON)
    rsmq.send_message("q", {"type": "created", "id": 1}, codec=JSON)
    wait_until(lambda: worker.numbers.handled == 1)

    assert got == [("created", {"type": "created", "id": 1})]


def test_messages_are_routed_by_a_function_of_the_body(env, rsmq):
    worker, got = routed(
        env, lambda body: ("created" if body["new"] else None, body["n"]), codec=JSON
    )
    rsmq.send_message("q", {"new": True, "n": 7}, codec=JSON)
    wait_until(lambda: worker.numbers.handled == 1)

    assert got == [("created", 7)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [("gone:1", "there is no handler for 'gone'"), ("none", "the message has no type")],
)
@pytest.mark.parametrize("unroutable", ["lost", None])
def test_unroutable_messages_go_to_their_queue_or_are_dead_lettered(
    env, rsmq, body, reason, unroutable
):
    worker, got = routed(env, event_payload, unroutable=unroutable, dead_letter_queue="dead")
    id = rsmq.send_message("q", body)
    wait_until(lambda: worker.numbers.dead == 1)

    assert got == []
    (letter,) = rsmq.peek_messages(unroutable or "dead")
    assert (letter.id, letter.reason.text) == (id, reason)
    assert (letter.reason.queue, letter.reason.attempts) == ("q", 1)


def test_unroutable_messages_are_retried_without_a_target_queue(env, rsmq):
    worker, _ = routed(env, event_payload, backoff=500)
    id = rsmq.send_message("q", "gone:1")
    wait_until(lambda: worker.numbers.retried == 1)

    assert env.due_in("q", id) > 495


@pytest.mark.parametrize("by", [lambda body: 1 / 0, lambda body: 5, lambda body: ([], 1)])
def test_failing_route_function_is_a_failure_of_the_message(env, rsmq, by):
    worker, _ = routed(env, by, backoff=500)
    rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.retried == 1)

    assert not state_of(worker).has_ended


def test_published_message_is_handled_in_each_queue(env, rsmq):
    env.create_queues("a", "b", "c")
    worker = env.create_worker()
    got = []
    for queue in "abc":
        worker.listener(queue)(lambda body, message: got.append((message.queue, message.id, body)))
    worker.start()
    ids = rsmq.publish(["a", "b", "c"], "news")
    wait_until(lambda: worker.numbers.handled == 3)

    assert sorted(got) == [(queue, ids[queue], "news") for queue in "abc"]


def test_handlers_can_send_with_the_client_of_the_worker(env, rsmq):
    env.create_queues("a", "b", "c")
    worker = env.create_worker(concurrency=4)
    got = []
    worker.listener("a")(lambda body: rsmq.send_message("b", body + "b"))

    @worker.listener("b")
    async def forward(body):
        await asyncio.to_thread(rsmq.send_message, "c", body + "c")

    worker.listener("c")(got.append)
    worker.start()
    rsmq.send_messages("a", [f"{n}a" for n in range(50)])
    wait_until(lambda: worker.numbers.handled == 150)

    assert sorted(got) == sorted(f"{n}abc" for n in range(50))


def test_heartbeat_interval_is_a_second():
    assert (loop.HEARTBEAT_SECONDS, loop.TTL) == (1, 5)


# Queues and fields that another client has corrupted.


def make_wrong_type(env):
    env.raw.delete(env.queue_key("bad"))
    env.raw.set(env.queue_key("bad"), "x")


def refuse_threads(monkeypatch, name):
    """Let no thread of this name start; return the list of the refused ones."""
    start = threading.Thread.start
    refused = []

    def refuse(self):
        if self.name == name:
            refused.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return refused


def test_a_worker_receives_while_no_thread_can_be_started_to_wait(
    env, rsmq, monkeypatch, fast_heartbeat
):
    env.create_queues("q")
    handled = []
    worker = env.create_worker()
    worker.listener("q")(handled.append)
    with monkeypatch.context() as broken:
        refused = refuse_threads(broken, "rsmq-watcher")
        worker.start()
        wait_until(lambda: refused)
        rsmq.send_message("q", "1")
        wait_until(lambda: handled == ["1"])
        looks = len(refused)
        wait_until(lambda: len(refused) > looks)
    rsmq.send_message("q", "2")
    wait_until(lambda: handled == ["1", "2"])
    wait_until(lambda: env.is_empty("q"))
    wait_until(lambda: rsmq.watcher.is_tracking or env.url.startswith("memory"))


def test_unreadable_queue_does_not_stop_the_others(env, rsmq, fast_heartbeat, caplog):
    env.create_queues("bad", "good")
    worker = env.create_worker()
    got = []
    worker.listener("bad", priority=1)(lambda body: None)
    worker.listener("good")(got.append)
    rsmq.pause_queue("bad")
    rsmq.send_message("bad", "x")
    worker.start()
    wait_until(lambda: state_of(worker).queues["bad"].closed_reason == "p")
    make_wrong_type(env)
    env.raw.hdel(f"{env.ns}:bad:Q", "x:paused")
    for number in range(3):
        rsmq.send_message("good", str(number))
        wait_until(lambda: len(got) == number + 1)  # noqa: B023 - used at once
        time.sleep(0.03)  # several heartbeats

    assert got == ["0", "1", "2"]
    wait_until(lambda: any("bad" in record.getMessage() for record in caplog.records))


def test_received_messages_are_handled_when_redis_fails_during_the_search_for_a_broken_queue(
    env, rsmq, monkeypatch
):
    env.create_queues("a", "b", "c")
    worker = env.create_worker()
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
    wait_until(lambda: worker.numbers.handled == 3)

    assert failed == ["together", "alone"]
    assert sorted(got) == ["a", "b", "c"]


def test_queue_destroyed_while_its_message_is_handled_does_not_affect_the_others(
    env, rsmq, gate, fast_heartbeat
):
    env.create_queues("bad", "good")
    worker = env.create_worker()
    worker.listener("bad")(lambda body: gate())
    lost, is_extended = [], threading.Event()

    @worker.listener("good", vt=9)
    def handle(body, message):
        is_extended.wait(WAIT_SECONDS)
        lost.append(message.lease_lost)

    worker.start()
    rsmq.send_message("bad", "x")
    gate.wait_for(1)
    id = rsmq.send_message("good", "x")
    wait_until(lambda: worker.numbers.received == 2)
    make_wrong_type(env)
    gate.open()
    before = env.scores("good")[id]
    wait_until(lambda: env.scores("good")[id] > before)  # three seconds after the receive
    is_extended.set()
    wait_until(lambda: worker.numbers.handled == 1)

    assert lost == [False]
    assert env.is_empty("good")
    env.raw.delete(env.queue_key("bad"))


# Every message that is sent is handled.


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_bodies_of_any_size_are_handled(env, rsmq, size):
    env.create_queues("q", maxsize=-1)
    worker = env.create_worker(concurrency=2)
    got = []
    worker.listener("q", batch=20)(got.extend)
    rsmq.send_messages("q", ["x" * size] * 12)
    worker.start()
    wait_until_empty(env, "q")

    assert got == ["x" * size] * 12


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_every_message_has_exactly_one_outcome(env, rsmq, backend):
    env.create_queues("threads", "tasks", "batches", "dead")
    worker = env.create_worker(concurrency=20, name="w")
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
        for start in range(0, 400, 100):
            bodies = [f"{queue}{n}" for n in range(start, start + 100)]
            sent |= dict(zip(rsmq.send_messages(queue, bodies), bodies, strict=True))
    wait_until_empty(env, "threads", "tasks", "batches")
    wait_until(lambda: env.in_flight("w") == {})
    worker.stop()
    dead = [each.raw.decode() for each in rsmq.peek_messages("dead", count=2000)]
    numbers = worker.numbers

    assert sorted(seen + dead) == sorted(sent.values())
    assert numbers.handled + numbers.dropped == len(seen)
    assert (numbers.dead, numbers.lost, numbers.released) == (len(dead), 0, 0)
    assert numbers.received == 1200 + numbers.retried
    assert all(each.reason is not None for each in rsmq.peek_messages("dead", count=2000))


def test_blocking_async_handler_keeps_its_lease(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", vt=1)
    async def handle(body, message):
        time.sleep(1.5)  # noqa: ASYNC251 - as people do

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.received == 1)
    while not env.is_empty("q"):
        assert rsmq.receive_message("q") is None
        time.sleep(0.01)

    wait_until(lambda: worker.numbers.handled == 1)
    assert worker.numbers.lost == 0


def test_empty_higher_priority_queue_is_not_polled(env, rsmq, gate):
    env.create_queues("low", "high")
    receive_calls = []

    class Counting(Middleware):
        def before_receive(self, queues):
            receive_calls.append(list(queues))

    worker = env.create_worker(middleware=[Counting()])
    worker.listener("low", concurrency=1)(lambda body: gate())
    worker.listener("high", priority=1)(lambda body: None)
    worker.start()
    rsmq.send_messages("low", ["x"] * 5)
    wait_until(lambda: state_of(worker).queues["low"].running)
    time.sleep(0.2)
    before = len(receive_calls)
    time.sleep(0.5)

    assert len(receive_calls) - before <= 5


def test_queue_with_invalid_vt_does_not_stop_the_reading_of_others(
    env, rsmq, fast_heartbeat, monkeypatch
):
    env.create_queues("bad", "good", "dead")
    monkeypatch.setattr(queue_refresh, "_MIN_QUEUES_PER_ROUND", 1)
    worker = env.create_worker()
    worker.listener("bad", vt=5)(lambda body: None)
    worker.listener("good", vt=5)(lambda body: None)
    worker.start()
    env.raw.hset(f"{env.ns}:bad:Q", "vt", "abc")
    rsmq.set_dead_letter_policy("good", "dead", 3)

    wait_until(lambda: state_of(worker).queues["good"].policy.dead_letter_queue == "dead")
    assert not state_of(worker).has_failing_server


def test_worker_goes_on_when_quarantine_records_can_not_be_written(env, rsmq, caplog):
    env.create_queues("bad", "good", "dead")
    env.raw.set(f"{env.ns}:bad:x:alone", "x")
    worker = env.create_worker()
    got = []
    worker.listener("bad", max_retries=0, dead_letter_queue="dead")(got.append)
    worker.listener("good")(got.append)
    rsmq.send_message("bad", "often")
    for _ in range(3):
        rsmq.receive_message("bad", vt=0)
    worker.start()
    wait_until(lambda: got == ["often"])
    rsmq.send_message("good", "x")

    wait_until(lambda: worker.numbers.handled == 2)
    assert "the run in quarantine can't be recorded" in caplog.text


@pytest.mark.parametrize("weight", [1, 2])
def test_backlog_of_many_queues_is_not_asked_for_in_each_receive(env, rsmq, hook_recorder, weight):
    names = [f"q{number}" for number in range(150)]
    env.create_queues(*names)
    for name in names:
        rsmq.send_messages(name, ["x"] * 2)
    worker = env.create_worker(concurrency=4, middleware=[hook_recorder])
    handled = []
    for name in names:
        own = weight if name == "q0" else 1  # one with a weight of its own is enough for shares
        worker.listener(name, vt=60, weight=own)(handled.append)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 300)

    asked = [queues for (queues,) in hook_recorder.calls_of("before_receive")]
    assert max(map(len, asked)) == 50
    assert {name for queues in asked for name in queues} == set(names)
