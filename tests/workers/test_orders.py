"""Orders to workers, which they read with their sign of life: ``queues.workers``."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from rsmq import AsyncRSMQ, InvalidFormat, InvalidValue
from rsmq.control import asyncio_
from rsmq.errors import MissingParameter, NotPossible, WorkerNotFound
from rsmq.wire.orders import NO_ORDERS, Orders, read_orders, read_report
from rsmq.worker import Worker, held_by, list_workers
from tests.workers.polling import wait_until

HERE = Path(__file__)


@pytest.fixture
def worker(env):
    env.create_queues("q", "other")
    worker = Worker(env.rsmq, name="w", concurrency=2, grace=5)
    yield worker
    worker.stop(0)


class Gate:
    """A handler whose calls wait until it is opened."""

    def __init__(self):
        self.open = threading.Event()
        self.begun = []

    def __call__(self, body):
        self.begun.append(body)
        self.open.wait(60)


@pytest.fixture
def gate(worker):
    gate = Gate()
    worker.listener("q", retry_forever=True)(gate)
    yield gate
    gate.open.set()


def stored_orders(env):
    stored = env.raw.hget(f"{env.ns}:x:held:w", ":orders")
    return None if stored is None else json.loads(stored.partition(b":")[2])


def info(env):
    [worker] = env.rsmq.workers.list()
    return worker


def test_paused_worker_receives_nothing_until_it_is_resumed(env, worker, gate):
    gate.open.set()
    worker.start()
    env.rsmq.workers.pause("w")
    wait_until(lambda: info(env).paused)
    env.rsmq.send_message("q", "a")
    env.rsmq.workers.list()

    assert set(stored_orders(env)) == {"pause"}
    assert worker.health().is_running
    assert gate.begun == []
    env.rsmq.workers.resume("w")
    wait_until(lambda: gate.begun == ["a"])
    wait_until(lambda: not info(env).paused)
    assert env.raw.hget(f"{env.ns}:x:held:w", ":orders") is None


def test_pause_releases_what_waits_and_ends_by_itself(env, worker, gate):
    env.rsmq.send_messages("q", ["a", "b", "c", "d"])
    worker.start()
    wait_until(lambda: len(gate.begun) == 2)
    env.rsmq.workers.pause("w", seconds=3)
    wait_until(lambda: info(env).paused)
    wait_until(lambda: env.rsmq.count_messages("q").visible == 2)
    gate.open.set()

    wait_until(lambda: sorted(gate.begun) == ["a", "b", "c", "d"])
    wait_until(lambda: stored_orders(env) is None)


def test_concurrency_is_raised_and_lowered(env, worker, gate):
    env.rsmq.send_messages("q", [str(number) for number in range(8)])
    worker.start()
    wait_until(lambda: len(gate.begun) == 2)
    env.rsmq.workers.set_concurrency("w", 5)
    wait_until(lambda: len(gate.begun) == 5)
    wait_until(lambda: info(env).slots == 5)
    env.rsmq.workers.set_concurrency("w", 1)
    wait_until(lambda: info(env).slots == 1)
    gate.open.set()
    wait_until(lambda: env.is_empty("q"))

    assert worker.concurrency == 2
    env.rsmq.workers.set_concurrency("w", None)
    wait_until(lambda: info(env).slots == 2)


def test_concurrency_of_async_handlers_is_raised(env, worker):
    running = []
    end = threading.Event()

    @worker.listener("q", retry_forever=True)
    async def handle(body):
        running.append(body)
        while not end.is_set():
            await asyncio.sleep(0.01)

    env.rsmq.send_messages("q", [str(number) for number in range(4)])
    worker.start()
    wait_until(lambda: len(running) == 2)
    env.rsmq.workers.set_concurrency("w", 4)
    wait_until(lambda: len(running) == 4)
    end.set()


def test_concurrency_of_a_listener_and_reserved_slots_stay(env, worker):
    begun, end = [], threading.Event()

    @worker.listener("q", retry_forever=True, concurrency=1)
    def handle(body):
        begun.append(body)
        end.wait(60)

    @worker.listener("other", retry_forever=True, concurrency=(1, 2))
    def handle_other(body):
        begun.append(body)
        end.wait(60)

    worker.start()
    env.rsmq.workers.set_concurrency("w", 1)
    wait_until(lambda: "concurrency" in (stored_orders(env) or {}))
    env.rsmq.workers.set_concurrency("w", 8)
    wait_until(lambda: info(env).slots == 8)
    env.rsmq.send_messages("q", ["a", "b"])
    env.rsmq.send_messages("other", ["c", "d", "e"])
    wait_until(lambda: len(begun) == 3)
    env.rsmq.workers.set_concurrency("w", 1)
    wait_until(lambda: info(env).slots == 2)  # one is reserved, and the other listener needs one
    assert len(begun) == 3
    end.set()


def test_stop_ends_the_run_and_its_orders(env, worker, gate):
    gate.open.set()
    run = threading.Thread(target=worker.run)
    run.start()
    wait_until(env.rsmq.workers.list)
    env.rsmq.workers.pause("w")
    wait_until(lambda: info(env).paused)
    env.rsmq.workers.stop("w", grace=1)
    run.join(60)

    assert not run.is_alive()
    assert env.rsmq.workers.list() == []
    assert not env.raw.exists(f"{env.ns}:x:held:w")
    env.rsmq.send_message("q", "a")
    worker.run(until_empty=True, timeout=60)
    assert gate.begun == ["a"]


def test_stop_leaves_the_grace_period_of_the_worker(env, worker, gate):
    env.rsmq.send_message("q", "a")
    worker.start()
    wait_until(lambda: gate.begun)
    assert info(env).ends_by_ms is None
    env.rsmq.workers.stop("w")
    wait_until(lambda: worker.health().is_stopping)
    wait_until(lambda: info(env).ends_by_ms)
    entry = env.raw.hget(f"{env.ns}:x:workers", "w").split(b":", 2)[2]
    assert json.loads(entry)["ends_by_ms"] == info(env).ends_by_ms > info(env).since_ms
    gate.open.set()
    wait_until(lambda: not worker.health().is_running)

    assert worker.numbers.handled == 1


def test_orders_of_a_dead_worker_are_not_those_of_its_successor(env, worker, gate):
    gate.open.set()
    key = f"{env.ns}:x:held:w"
    env.raw.hset(f"{env.ns}:x:workers", "w", b"0000000000001:dead:{}")
    env.raw.hset(key, mapping={"": "dead", ":orders": '9999999999999:{"pause": {"ends": '
                               '"9999999999999", "value": ""}}', ":running": "[]"})  # fmt: skip
    env.rsmq.send_message("q", "a")
    worker.start()
    wait_until(lambda: gate.begun == ["a"])

    assert not env.raw.hexists(key, ":orders")
    wait_until(lambda: env.raw.hkeys(key) == [b""])  # the message is settled


def test_orders_and_reports_are_no_messages_in_flight(env, worker, gate):
    env.rsmq.send_message("q", "a")
    worker.start()
    wait_until(lambda: gate.begun)
    env.rsmq.workers.running("w")
    [id] = env.scores("q")

    assert held_by(env.rsmq, "w") == {"q": [id]}
    assert {b":orders", b":running"} <= set(env.raw.hkeys(f"{env.ns}:x:held:w"))


def test_running_shows_calls_in_threads_with_their_lines(env, worker, gate):
    env.rsmq.send_messages("q", ["a", "b"])
    worker.start()
    wait_until(lambda: len(gate.begun) == 2)
    calls = env.rsmq.workers.running("w")

    assert {call.id for call in calls} == set(env.scores("q"))
    for call in calls:
        assert (call.queue, call.messages, call.attempt, call.kind) == ("q", 1, 1, "thread")
        assert call.seconds >= 0
        [line] = [line for line in call.stack if line.file == str(HERE)]
        assert line.function == "Gate.__call__"
        assert HERE.read_text().splitlines()[line.line - 1].strip() == "self.open.wait(60)"
        assert call.stack[0] == line
        assert "'a'" not in str(call)


def test_running_shows_tasks_that_wait_and_batches(env, worker):
    begun, end = [], threading.Event()

    async def inner():
        while not end.is_set():
            await asyncio.sleep(0.01)

    @worker.listener("q", retry_forever=True, batch=10)
    async def handle(bodies):
        begun.extend(bodies)
        await inner()

    env.rsmq.send_messages("q", ["a", "b"])
    worker.start()
    wait_until(lambda: len(begun) == 2)
    calls = env.rsmq.workers.running("w")
    end.set()

    assert sum(call.messages for call in calls) == 2
    for call in calls:
        assert call.kind == "task"
        names = [line.function.rpartition(".")[2] for line in call.stack if line.file == str(HERE)]
        assert names == ["handle", "inner"]
        assert call.stack[0].function.endswith("handle")


def test_report_is_removed_when_the_worker_is_asked_no_longer(env, worker, gate, monkeypatch):
    monkeypatch.setattr(asyncio_, "_WATCH_SECONDS", 2.0)
    env.rsmq.send_message("q", "a")
    worker.start()
    wait_until(lambda: gate.begun)

    async def ask():
        async with AsyncRSMQ.from_url(env.url, ns=env.ns) as queues:
            return await queues.workers.running("w")

    assert [call.queue for call in asyncio.run(ask())] == ["q"]
    wait_until(lambda: not env.raw.hexists(f"{env.ns}:x:held:w", ":running"))
    assert stored_orders(env) is None


def test_worker_that_does_not_answer_is_an_error(env, monkeypatch):
    monkeypatch.setattr("rsmq.control.threads._ANSWER_SECONDS", 0.2)
    env.raw.hset(f"{env.ns}:x:workers", "w", b"9999999999999:token:{}")
    env.raw.hset(f"{env.ns}:x:held:w", "", "token")
    with pytest.raises(NotPossible, match="has not answered"):
        env.rsmq.workers.running("w")


@pytest.mark.parametrize("entry", [None, b"0000000000001:token:{}", b"9999999999999:other:{}"])
def test_order_to_a_worker_that_is_not_alive_is_refused(env, entry):
    if entry is not None:
        env.raw.hset(f"{env.ns}:x:workers", "w", entry)
        env.raw.hset(f"{env.ns}:x:held:w", "", "token")
    for order in (env.rsmq.workers.pause, env.rsmq.workers.resume, env.rsmq.workers.stop,
                  env.rsmq.workers.running):  # fmt: skip
        with pytest.raises(WorkerNotFound) as caught:
            order("w")
        assert caught.value.code == "workerNotFound"
        assert caught.value.value == "w"
    assert not env.raw.hexists(f"{env.ns}:x:held:w", ":orders")


def test_wrong_arguments_are_refused(env):
    workers = env.rsmq.workers
    with pytest.raises(MissingParameter):
        workers.pause("")
    with pytest.raises(InvalidFormat):
        workers.resume("a b")
    for call in (
        lambda: workers.pause("w", seconds=-1),
        lambda: workers.pause("w", seconds=0),
        lambda: workers.set_concurrency("w", 2, seconds=0.5),
        lambda: workers.set_concurrency("w", 0),
        lambda: workers.set_concurrency("w", 10_001),
        lambda: workers.set_concurrency("w", 2, seconds=10_000_000),
        lambda: workers.stop("w", grace=-1),
    ):
        with pytest.raises(InvalidValue):
            call()


def test_list_has_the_workers_as_the_function_has_them(env, worker, gate):
    worker.start()

    assert [each.name for each in env.rsmq.workers.list()] == ["w"]
    assert [each.name for each in list_workers(env.rsmq)] == ["w"]


@pytest.mark.parametrize("stored", [
    b"no JSON", b"[]", b"{}", b'{"pause": 1}', b'{"pause": {"ends": "x", "value": ""}}',
    b'{"concurrency": {"ends": "20", "value": "many"}}',
    b'{"pause": {"ends": "10", "value": ""}}',
])  # fmt: skip
def test_orders_that_have_ended_or_can_not_be_read_are_none(stored):
    assert read_orders(10, stored) == NO_ORDERS


def test_orders_are_read():
    stored = {
        "pause": {"ends": "20", "value": ""},
        "concurrency": {"ends": "20", "value": "3"},
        "running": {"ends": "5", "value": ""},
        "stop": {"ends": "20", "value": "2.5"},
        "later": {"ends": "20", "value": "unknown"},
    }

    assert read_orders(10, json.dumps(stored).encode()) == Orders(
        is_paused=True, concurrency=3, is_to_stop=True, grace=2.5
    )


@pytest.mark.parametrize("stored", [None, b"no JSON", b"[1]", b'[["q"]]', b"{}1"])
def test_report_that_can_not_be_read_is_none(stored):
    assert read_report(stored) is None
