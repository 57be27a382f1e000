"""The life of a worker: start, stop, names, hooks, logs; in threads and in event loops."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import logging
import os
import pickle
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from rsmq import JSON, InvalidFormat, Message, WorkerExists, WorkerReplaced
from rsmq.worker import (
    DeadLetter,
    DetailedLogging,
    Discard,
    JSONLines,
    MessageFilter,
    Middleware,
    Retry,
    current_message,
    held_by,
    list_workers,
    registry,
)
from rsmq.worker import worker as worker_module
from rsmq.worker.logging import TextLines
from rsmq.worker.loop.worker_loop import WorkerLoop
from rsmq.worker.operations import Identity, ReceiveRequest, receive_for_worker, register_worker
from tests.bytecodes import signal_at
from tests.scale import WAIT_SECONDS
from tests.workers.polling import loop_of, state_of, wait_until


def worker_threads():
    """Return the names of the threads of workers."""
    return {each.name for each in threading.enumerate() if each.name.startswith("rsmq-")} - {
        "rsmq-watcher"
    }


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def do_nothing(body): ...


#: The modules whose bytecode the main thread executes while it stops a worker.
_STEPPED_MODULES = (
    "rsmq.worker.worker",
    "rsmq.worker.loop.worker_loop",
    "rsmq.transport.signals",
    "threading",
)


# Start and stop.


def test_worker_that_has_nothing_left_to_do_stops_without_a_pause(env, rsmq, monkeypatch):
    pauses = []
    plan_sleep = WorkerLoop._plan_sleep

    def record_pause(self, now):
        pause, jobs = plan_sleep(self, now)
        if self.is_stopping and self._can_end():
            pauses.append(pause)
        return pause, jobs

    monkeypatch.setattr(WorkerLoop, "_plan_sleep", record_pause)
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(lambda _body: worker.stop())
    worker.start()
    rsmq.send_message("q", "a")
    assert loop_of(worker).finished.wait(WAIT_SECONDS)
    assert not any(pauses)


def test_worker_can_be_stopped_after_ctrl_c_at_any_step_of_a_stop(env):
    def interrupt():
        time.sleep(0.005)  # time for the worker's own thread to run
        raise KeyboardInterrupt

    env.create_queues("q")
    files = [sys.modules[name].__file__ for name in _STEPPED_MODULES]
    for step in itertools.count(1):
        worker = env.create_worker()
        worker.listener("q")(do_nothing)
        worker.start()
        with suppress(KeyboardInterrupt), signal_at(step, *files, handler=interrupt) as was_raised:
            worker.stop()
        second_stop = threading.Thread(target=worker.stop, daemon=True)
        second_stop.start()
        second_stop.join(WAIT_SECONDS)
        assert not second_stop.is_alive(), step
        if not was_raised:
            break
    assert step > 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("where", ["wait", "start"])
def test_stop_works_when_a_destructor_swallows_the_signals_exception(
    env, rsmq, monkeypatch, caplog, where
):
    """A signal handler may run inside a destructor, where every exception is discarded."""

    class Swallows:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    caplog.set_level(logging.INFO)
    env.create_queues("q")
    worker = env.create_worker(name="w")
    worker.listener("q")(do_nothing)
    if where == "wait":
        rsmq.run(register_worker(Identity(rsmq.namespace, "w", "t"), {}, ttl=4, dead=""))
        monkeypatch.setattr(registry, "has_died", lambda _: bool(Swallows()) and False)
    else:
        monkeypatch.setattr(
            worker_module, "WorkerLoop", lambda *a, **k: bool(Swallows()) and WorkerLoop(*a, **k)
        )
    worker.run()

    assert "worker w ends" in caplog.messages[-1]
    assert ("before it began" in caplog.messages[-1]) == (where == "wait")


def test_worker_can_be_started_again_after_a_stop(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    got = []
    worker.listener("q")(got.append)
    for round in ("a", "b"):
        worker.start()
        rsmq.send_message("q", round)
        wait_until(lambda: worker.numbers.handled == 1)
        worker.stop()
        assert worker.numbers.handled == 1
        rsmq.send_message("q", "between")
        assert len(env.scores("q")) == 1
        rsmq.pop_message("q")

    assert got == ["a", "b"]
    assert list_workers(rsmq) == []
    assert not env.raw.exists(f"{env.ns}:x:held:{worker.name}")


def test_a_worker_is_a_context_manager(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(do_nothing)
    with worker as entered:
        assert entered is worker
        rsmq.send_message("q", "x")
        wait_until(lambda: worker.numbers.handled == 1)
        assert len(list_workers(rsmq)) == 1

    assert list_workers(rsmq) == []


def test_stop_leaves_no_thread(env, rsmq):
    env.create_queues("q", "r")
    before = worker_threads()
    worker = env.create_worker()
    worker.listener("q")(do_nothing)

    @worker.listener("r")
    async def handle(body): ...

    worker.start()
    rsmq.publish(["q", "r"], "x")
    wait_until(lambda: worker.numbers.handled == 2)
    assert {"rsmq-worker", "rsmq-tasks"} <= worker_threads()
    worker.stop()

    wait_until(lambda: worker_threads() <= before)


def test_start_of_a_running_worker_is_refused(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(do_nothing)
    worker.start()

    with pytest.raises(InvalidFormat) as caught:
        worker.start()
    assert caught.value.hint.startswith("It is running")
    rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.handled == 1)


def test_worker_that_never_started_stops_at_once(env):
    env.create_worker().stop()


def test_stop_waits_for_running_handlers_and_releases_the_other_messages(env, rsmq, gate):
    env.create_queues("q")
    worker = env.create_worker(concurrency=2, name="w", grace=10)
    worker.listener("q")(lambda body: gate())
    ids = rsmq.send_messages("q", ["x"] * 5)
    worker.start()
    gate.wait_for(2)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    wait_until(lambda: state_of(worker).is_stopping)
    time.sleep(0.05)
    assert stopping.is_alive()
    gate.open()
    stopping.join(WAIT_SECONDS)

    assert not stopping.is_alive()
    assert worker.numbers.handled == 2
    assert sorted(env.scores("q")) == sorted(ids[2:])
    assert all(env.due_in("q", id) <= 0 for id in ids[2:])
    assert env.in_flight("w") == {}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_handlers_that_exceed_the_grace_period_have_their_messages_released(env, rsmq, gate, kind):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1, name="w")
    seen = []

    def handle(body, message):
        seen.append(message)
        gate()

    async def later(body, message):
        seen.append(message)
        await asyncio.sleep(20)

    worker.listener("q", vt=60)(later if kind == "async" else handle)
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: seen)
    worker.stop(0.1)

    assert seen[0].lease_lost
    assert env.due_in("q", id) <= 0
    assert env.fields("q")[f"{id}:rc"] == b"1"
    assert env.raw.hget(f"{env.ns}:q:x:unbegun", id) == b"1"
    assert worker.numbers.released == 1
    gate.open()
    assert rsmq.receive_message("q", vt=60).receive_count == 2
    assert env.fields("q")[id] == b"x"


def test_stop_releases_messages_in_their_order(env, rsmq, gate):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)
    worker.listener("q", batch=100)(lambda bodies: gate())
    ids = rsmq.send_messages("q", map(str, range(50)))
    worker.start()
    gate.wait_for(1)
    worker.stop(0)

    assert [each.id for each in rsmq.receive_messages("q", 50)] == ids


def test_handlers_and_hooks_can_stop_the_worker(env, rsmq):
    class Stops(Middleware):
        def after_delete(self, messages):
            worker.stop()

    env.create_queues("q", "r")
    worker = env.create_worker(middleware=[Stops()], grace=50)
    worker.listener("q")(do_nothing)
    other = env.create_worker(grace=50)
    other.listener("r")(lambda body: other.stop())
    worker.start()
    other.start()
    rsmq.publish(["q", "r"], "x")

    # Long before the grace period of 50 seconds ends.
    assert loop_of(worker).finished.wait(WAIT_SECONDS)
    assert loop_of(other).finished.wait(WAIT_SECONDS)
    assert env.is_empty("r")
    assert other.numbers.handled == 1


def test_run_outside_the_main_thread_works_until_stop(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(do_nothing)
    running = threading.Thread(target=worker.run)
    running.start()
    rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.handled == 1)
    worker.stop()
    running.join(WAIT_SECONDS)

    assert not running.is_alive()


# Names.


def test_second_live_worker_of_a_name_is_refused(env, rsmq):
    env.create_queues("q")
    first, second = (
        env.create_worker(name="w"),
        env.create_worker(name="w", rsmq=env.create_client()),
    )
    for worker in (first, second):
        worker.listener("q")(do_nothing)
    first.start()

    with pytest.raises(WorkerExists) as caught:
        second.start()
    assert str(caught.value).startswith("A worker named 'w' is running. It runs on host ")
    assert caught.value.value == "w"
    rsmq.send_message("q", "x")
    wait_until(lambda: first.numbers.handled == 1)


def test_workers_without_a_name_get_unique_names(env, rsmq):
    env.create_queues("q")
    workers = [env.create_worker() for _ in range(3)]
    for worker in workers:
        worker.listener("q")(do_nothing)
        worker.start()

    names = {worker.name for worker in workers}
    assert len(names) == 3
    assert {each.name for each in list_workers(rsmq)} == names


def test_several_workers_on_one_client_share_the_work(env, rsmq):
    env.create_queues("q")
    workers = [env.create_worker(concurrency=2) for _ in range(3)]
    got = []
    for worker in workers:
        worker.listener("q")(lambda body: got.append(body) or time.sleep(0.001))
        worker.start()
    rsmq.send_messages("q", map(str, range(300)))
    wait_until(lambda: env.is_empty("q"))
    for worker in workers:
        worker.stop()

    assert sorted(map(int, got)) == list(range(300))
    assert sum(worker.numbers.handled for worker in workers) == 300
    assert sum(worker.numbers.lost for worker in workers) == 0


def test_list_workers_reports_liveness_and_messages_in_flight(env, rsmq, gate, fast_heartbeat):
    env.create_queues("q", "r")
    worker = env.create_worker(name="w", concurrency=2)
    worker.listener("q")(lambda body: gate())
    worker.listener("r")(do_nothing)
    before_ms = time.time() * 1000
    worker.start()
    id = rsmq.send_message("q", "x")
    gate.wait_for(1)
    info = wait_until(lambda: next((w for w in list_workers(rsmq) if w.queues["q"]), None))

    assert (info.name, info.alive, info.queues) == ("w", True, {"q": 1, "r": 0})
    assert before_ms - 1 <= info.since_ms <= time.time() * 1000 + 1
    assert info.host
    assert info.pid > 1
    assert (info.handled, info.failed) == (0, 0)
    assert held_by(rsmq, "w") == {"q": [id]}
    assert held_by(rsmq, "nobody") == {}
    gate.open()
    wait_until(lambda: list_workers(rsmq)[0].handled == 1)


def test_worker_without_heartbeat_is_dead(env, rsmq):
    env.rsmq.run(register_worker(Identity(rsmq.namespace, "w", "token"), {}, ttl=0.01, dead=""))
    info = wait_until(lambda: next((w for w in list_workers(rsmq) if not w.alive), None))

    assert (info.name, info.host, info.pid, info.queues) == ("w", "", 0, {})


def test_messages_in_flight_of_a_dead_predecessor_are_handled_at_once(env, rsmq, caplog):
    env.create_queues("q")
    dead = Identity(rsmq.namespace, "w", "token")
    rsmq.run(register_worker(dead, {}, ttl=0.05, dead=""))
    want = ReceiveRequest(rsmq.namespace.queue("q"), 500_000, 1, 0, 10)
    ids = rsmq.send_messages("q", ["a", "b", "c"])
    (received_batch,) = rsmq.run(receive_for_worker(dead, [want], 10))
    assert received_batch.ids == ids
    # Another consumer has received this one since: it is fenced.
    env.raw.hincrby(f"{env.ns}:q:Q", f"{ids[2]}:rc", 1)
    got = []
    worker = env.create_worker(name="w", concurrency=1)
    worker.listener("q")(lambda body, message: got.append((body, message.attempt)))
    worker.start()
    wait_until(lambda: worker.numbers.handled == 2)

    assert got == [("a", 2), ("b", 2)]
    assert env.due_in("q", ids[2]) > 400
    assert "worker w: its predecessor died with 2 messages, now due again" in caplog.text
    assert env.in_flight("w") == {}


def test_replaced_worker_stops_and_deletes_nothing(env, rsmq, gate, fast_heartbeat, caplog):
    env.create_queues("q")
    worker = env.create_worker(name="w")
    env.expected_to_fail.append(worker)
    seen = []

    @worker.listener("q", vt=60)
    def handle(body, message):
        seen.append(message)
        gate()

    id = rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    env.raw.hset(f"{env.ns}:x:held:w", "", "another")
    assert loop_of(worker).finished.wait(WAIT_SECONDS)
    assert isinstance(state_of(worker).failure, WorkerReplaced)
    assert seen[0].lease_lost
    gate.open()
    worker.stop()

    assert env.fields("q")[id] == b"x"
    assert "worker w stops: Another worker took over this worker's name. " in caplog.text


# Inside an event loop.


def test_run_async_runs_async_handlers_in_the_callers_loop(env, rsmq):
    env.create_queues("q", "r")
    worker = env.create_worker()
    loops, threads = [], []

    @worker.listener("q")
    async def handle(body):
        loops.append(asyncio.get_running_loop())

    worker.listener("r")(lambda body: threads.append(threading.current_thread()))

    async def main():
        running = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(rsmq.publish, ["q", "r"], "x")
        while worker.numbers.handled < 2:
            await asyncio.sleep(0.002)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())

    assert threads[0].name.startswith("rsmq-handler")
    assert list_workers(rsmq) == []


def test_cancelled_run_async_gives_running_handlers_their_grace_period(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(grace=5)
    ended = []

    async def main():
        inside, may_return = asyncio.Event(), asyncio.Event()

        @worker.listener("q")
        async def handle(body):
            inside.set()
            await may_return.wait()
            ended.append(body)

        running = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(rsmq.send_message, "q", "x")
        await inside.wait()
        running.cancel()
        await asyncio.sleep(0.05)
        assert not running.done()
        may_return.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())

    assert ended == ["x"]
    assert env.is_empty("q")


def test_run_async_ends_when_the_worker_is_stopped(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(do_nothing)

    async def main():
        running = asyncio.create_task(worker.run_async())
        while loop_of(worker) is None:
            await asyncio.sleep(0.002)
        await asyncio.to_thread(worker.stop)
        await asyncio.wait_for(running, WAIT_SECONDS)

    asyncio.run(main())


def test_run_async_raises_what_start_raises(env):
    worker = env.create_worker()
    worker.listener("none")(do_nothing)

    with pytest.raises(Exception, match="Queue not found"):
        asyncio.run(worker.run_async())


def test_run_async_of_a_running_worker_is_refused(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(do_nothing)
    worker.start()

    with pytest.raises(InvalidFormat):
        asyncio.run(worker.run_async())
    rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.handled == 1)


def test_worker_cancelled_during_its_start_does_not_run(env, rsmq):
    env.create_queues("q")
    rsmq.run(register_worker(Identity(rsmq.namespace, "w", "t"), {}, ttl=0.5, dead=""))
    worker = env.create_worker(name="w")
    worker.listener("q")(do_nothing)

    async def main():
        running = asyncio.create_task(worker.run_async())
        await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())

    assert loop_of(worker) is None or state_of(worker).has_ended
    assert not any(each.alive for each in list_workers(rsmq) if each.name == "w")


# Hooks.


def shown_calls(hook_recorder):
    """Return the recorded hook calls, with messages replaced by their bodies."""

    def show(value):
        if isinstance(value, list | tuple):
            return [show(each) for each in value]
        if isinstance(value, BaseException):
            return type(value).__name__
        return getattr(value, "body", value)

    return [(hook, *map(show, args)) for hook, *args in hook_recorder.calls]


def test_hooks_of_a_handled_message(env, rsmq, hook_recorder):
    env.create_queues("q")
    worker = env.create_worker(middleware=[hook_recorder])
    worker.listener("q")(do_nothing)
    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    worker.stop()
    seen = [each for each in shown_calls(hook_recorder) if each[0] != "before_receive"]
    seconds = seen[3][-1]

    assert seen == [
        ("before_start", worker),
        ("after_receive", "q", ["x"]),
        ("before_handle", "x"),
        ("after_handle", "x", None, seconds),
        ("before_delete", ["x"]),
        ("after_delete", ["x"]),
        ("on_success", "x"),
        ("before_stop", worker),
        ("after_stop", worker),
    ]
    assert seconds >= 0
    assert ("before_receive", ["q"]) in shown_calls(hook_recorder)
    assert shown_calls(hook_recorder)[1] == ("before_receive", ["q"])


def test_hooks_of_a_message_that_is_retried_and_dead_lettered(env, rsmq, hook_recorder):
    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[hook_recorder])

    @worker.listener("q", max_retries=1, backoff=0, dead_letter_queue="dead")
    def handle(body):
        raise ValueError(body)

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)
    worker.stop()
    seen = [
        each[:-1] if each[0] == "after_handle" else each
        for each in shown_calls(hook_recorder)
        if each[0] not in {"before_receive", "before_start", "before_stop", "after_stop"}
    ]

    why = "ValueError on attempt 2, the last"
    assert seen == [
        ("after_receive", "q", ["x"]),
        ("before_handle", "x"),
        ("after_handle", "x", "ValueError"),
        ("before_retry", "x", 0, "ValueError"),
        ("after_retry", "x", 0, "ValueError"),
        ("on_failure", "ValueError", "x", False),
        ("on_retry", "ValueError", "x", 0),
        ("after_receive", "q", ["x"]),
        ("before_handle", "x"),
        ("after_handle", "x", "ValueError"),
        ("before_dead_letter", "x", "dead", why, "ValueError"),
        ("after_dead_letter", "x", "dead", why, "ValueError"),
        ("on_failure", "ValueError", "x", True),
    ]


def test_hooks_of_dropped_and_released_messages(env, rsmq, hook_recorder, gate):
    env.create_queues("q")
    worker = env.create_worker(middleware=[hook_recorder], concurrency=1)

    @worker.listener("q", batch=2)
    def handle(bodies, messages):
        if bodies[0] == "drop":
            raise Discard("old")
        gate()

    rsmq.send_message("q", "drop")
    worker.start()
    wait_until(lambda: worker.numbers.dropped == 1)
    assert shown_calls(hook_recorder)[-1] != ("before_receive", ["none"])
    dropped = [
        each for each in shown_calls(hook_recorder) if "delete" in each[0] or "drop" in each[0]
    ]
    rsmq.send_messages("q", ["a", "b"])
    gate.wait_for(1)
    worker.stop(0)

    assert dropped == [
        ("before_delete", ["drop"]),
        ("after_delete", ["drop"]),
        ("after_drop", "drop", "discarded by its handler: old", "Discard"),
    ]
    names = [each[0] for each in shown_calls(hook_recorder)]
    assert hook_recorder.calls_of("after_release")[-1][0] == "q"
    assert (
        sum(count for _, count in hook_recorder.calls_of("after_release"))
        == worker.numbers.released
        >= 1
    )
    assert names.index("before_stop") < names.index("lease_lost") < names.index("after_stop")


@pytest.mark.parametrize(
    ("error", "number"),
    [(Discard(), "dropped"), (DeadLetter("no"), "dead"), (Retry(after=500), "retried")],
)
@pytest.mark.parametrize("batch", [None, 5])
def test_a_middleware_may_refuse_a_message_before_its_handler(env, rsmq, error, number, batch):
    class Refuses(Middleware):
        def before_handle(self, message):
            if message.body == "bad":
                raise error

    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[Refuses()])
    got = []
    worker.listener("q", dead_letter_queue="dead", batch=batch)(got.append)
    rsmq.send_messages("q", ["bad", "good"])
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1 and getattr(worker.numbers, number) == 1)

    assert got == (["good"] if batch is None else [["good"]])


HOOKS = [name for name in vars(Middleware) if not name.startswith("_") and name != "before_handle"]


def test_hooks_that_raise_are_logged_and_change_nothing(env, rsmq, caplog):
    def fails(self, *args):
        raise ZeroDivisionError

    middleware = type("Fails", (Middleware,), dict.fromkeys(HOOKS, fails))()
    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[middleware])

    @worker.listener("q", max_retries=1, backoff=0, dead_letter_queue="dead")
    def handle(body):
        if body == "bad":
            raise ValueError

    rsmq.send_messages("q", ["bad", "good"])
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1 and worker.numbers.dead == 1)
    worker.stop()

    assert [record.levelname for record in caplog.records].count("CRITICAL") == 0
    assert any(
        record.exc_info and record.exc_info[0] is ZeroDivisionError for record in caplog.records
    )


def test_a_middleware_that_is_added_later_comes_after_the_others(env, rsmq):
    order = []

    class First(Middleware):
        def before_handle(self, message):
            order.append("first")

    class Second(Middleware):
        def before_handle(self, message):
            order.append("second")

    env.create_queues("q")
    worker = env.create_worker(middleware=[First()])
    worker.use(Second())
    worker.listener("q")(do_nothing)
    worker.start()
    rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.handled == 1)

    assert order == ["first", "second"]


# The current message, and logs.


def test_current_message_is_set_only_in_its_handler(env, rsmq):
    env.create_queues("q", "r", "b")
    worker = env.create_worker()
    seen = {}
    worker.listener("q")(lambda body: seen.update(q=current_message()))

    @worker.listener("r")
    async def handle(body):
        await asyncio.sleep(0)
        seen["r"] = current_message()
        seen["task"] = await asyncio.create_task(inner())
        seen["thread"] = await asyncio.to_thread(current_message)

    async def inner():
        return current_message()

    worker.listener("b", batch=2)(lambda bodies: seen.update(b=current_message()))
    worker.start()
    ids = rsmq.publish(["q", "r", "b"], "x")
    wait_until(lambda: worker.numbers.handled == 3)

    assert current_message() is None
    assert (seen["q"].id, seen["q"].queue, seen["q"].attempt) == (ids["q"], "q", 1)
    assert [seen[each].id for each in ("r", "task", "thread")] == [ids["r"]] * 3
    assert seen["b"] is None


def test_concurrent_tasks_have_their_own_current_message(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(concurrency=50)
    seen = []

    @worker.listener("q")
    async def handle(body, message):
        await asyncio.sleep(0.01)
        seen.append((message.id, current_message().id))

    ids = rsmq.send_messages("q", ["x"] * 50)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 50)

    assert sorted(seen) == sorted((id, id) for id in ids)


def test_log_lines_of_handlers_have_message_fields_and_can_be_json(env, rsmq):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(MessageFilter())
    handler.setFormatter(JSONLines())
    log = logging.getLogger(f"app.{env.ns}")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q")
    def handle(body):
        log.info("about %s", body)
        try:
            1 / 0  # noqa: B018 - for the traceback
        except ZeroDivisionError:
            log.exception("no\ngood é")

    worker.start()
    id = rsmq.send_message("q", "it")
    wait_until(lambda: worker.numbers.handled == 1)
    log.warning("outside")
    about, no_good, outside = map(json.loads, stream.getvalue().splitlines())

    assert about == {
        "time": about["time"], "level": "info", "logger": log.name, "message": "about it",
        "pid": os.getpid(), "queue": "q", "message_id": id, "attempt": 1,
    }  # fmt: skip
    parsed = time.strptime(about["time"][:19], "%Y-%m-%dT%H:%M:%S")
    assert abs(time.mktime(parsed) - time.mktime(time.gmtime())) < 10
    assert (about["time"][19], about["time"][-1], len(about["time"])) == (".", "Z", 24)
    assert (no_good["message"], no_good["level"]) == ("no\ngood é", "error")
    assert no_good["traceback"].endswith("ZeroDivisionError: division by zero")
    assert set(outside) == {"time", "level", "logger", "message", "pid"}


def format_record(**fields):
    record = logging.makeLogRecord({"msg": "a text", "levelname": "INFO", "name": "app"})
    record.__dict__.update(fields)
    return json.loads(JSONLines(lambda: "orders-1").format(record))


class NoText:
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7), ("é", "é"), ({"a": [1, None]}, {"a": [1, None]}), (None, None),
        (Path("/tmp/x"), "/tmp/x"), (b"raw", "b'raw'"), (float("nan"), "nan"),
        ({(1, 2): 3}, "{(1, 2): 3}"), (NoText(), "<NoText>"),
    ],
)  # fmt: skip
def test_json_lines_have_the_fields_of_extra(value, expected):
    assert format_record(customer=value)["customer"] == expected


def test_fields_of_extra_replace_no_field_of_a_json_line():
    line = format_record(worker="mine", time=5, queue="orders", duration=0.5)

    assert (line["worker"], line["message"]) == ("orders-1", "a text")
    assert (line["extra_worker"], line["extra_time"]) == ("mine", 5)
    assert (line["queue"], line["duration"]) == ("orders", 0.5)
    assert "extra_queue" not in line


def test_json_lines_have_the_stack():
    assert format_record(stack_info="Stack (most recent call last):\n  here")["stack"].endswith(
        "here"
    )


def test_text_line_has_the_worker_and_the_process_and_no_line_breaks():
    record = logging.makeLogRecord(
        {"msg": "first\nsecond", "levelname": "INFO", "name": "app", "created": 1_800_000_000.25,
         "msecs": 250.0, "process": 17}
    )  # fmt: skip

    lines = TextLines(lambda: "orders-1").format(record)
    assert lines == "2027-01-15T08:00:00.250Z INFO [orders-1 17] app: first\\nsecond"
    assert "INFO [17] app: first" in TextLines().format(record)


def test_message_filter_keeps_existing_fields_and_sets_missing_ones_empty():
    record = logging.makeLogRecord({"queue": "mine"})

    assert MessageFilter().filter(record)
    assert (record.queue, record.message_id) == ("mine", "")
    assert logging.Formatter("%(queue)s/%(message_id)s/%(message)s").format(record) == "mine//"


def test_detailed_logging_logs_every_message(env, rsmq, caplog):
    env.create_queues("q")
    worker = env.create_worker(middleware=[DetailedLogging()])

    @worker.listener("q", backoff=500)
    def handle(body):
        if body == "bad":
            raise ValueError

    with caplog.at_level(logging.DEBUG, "rsmq.worker"):
        good, bad = rsmq.send_messages("q", ["good", "bad"])
        worker.start()
        wait_until(lambda: worker.numbers.handled == 1 and worker.numbers.retried == 1)
        worker.stop()
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.DEBUG]

    assert any(line.startswith(f"q {good}: handled in 0.0") for line in lines)
    assert any(line.startswith(f"q {bad}: failed, ValueError, in 0.0") for line in lines)
    assert any(" received" in line for line in lines)


def test_numbers_count_all_outcomes(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    errors = {"d": Discard(), "x": DeadLetter("x"), "r": Retry(after=500), "v": ValueError("v")}

    @worker.listener("q", dead_letter_queue="dead", backoff=500)
    def handle(body):
        if body in errors:
            raise errors[body]

    rsmq.send_messages("q", [*errors, "fine", "fine"])
    worker.start()
    wait_until(lambda: worker.numbers.handled == 2 and worker.numbers.retried == 2)
    wait_until(lambda: worker.numbers.dead == worker.numbers.dropped == 1)
    worker.stop()

    assert str(worker.numbers) == (
        "6 received, 2 handled, 2 failed, 2 retried, 0 deferred, 1 dead, 1 dropped, "
        "0 lost, 0 released, 0 hung"
    )


def test_pickled_message_is_still_a_receipt(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    got = []

    @worker.listener("q", codec=JSON, vt=60)
    def handle(body, message):
        got.append(pickle.loads(pickle.dumps(message)))
        rsmq.delete_message(got[0])

    worker.start()
    id = rsmq.send_message("q", {"a": 1}, codec=JSON)
    wait_until(lambda: worker.numbers.handled == 1)

    (message,) = got
    assert isinstance(message, Message)
    assert (message.id, message.body, message.receive_count) == (id, {"a": 1}, 1)
    assert not getattr(message, "lease_lost", False)


@pytest.mark.parametrize("hook", ["after_handle", "after_receive", "after_delete"])
def test_system_exit_in_a_hook_is_logged(env, rsmq, hook):
    def ends(self, *args):
        raise SystemExit

    env.create_queues("q")
    worker = env.create_worker(
        middleware=[type("Ends", (Middleware,), {hook: ends})()], concurrency=1
    )
    worker.listener("q")(do_nothing)
    worker.start()
    rsmq.send_messages("q", ["a", "b", "c"])
    wait_until(lambda: worker.numbers.handled == 3)

    assert env.is_empty("q")
    assert not state_of(worker).has_ended


def test_batch_over_max_runtime_is_counted_and_retried_per_message(env, rsmq, fast_heartbeat):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)

    @worker.listener("q", batch=3, max_runtime=0.05, backoff=500)
    async def handle(bodies):
        await asyncio.sleep(20)

    ids = rsmq.send_messages("q", ["a", "b", "c"])
    worker.start()
    wait_until(lambda: worker.numbers.retried == 3)

    assert worker.numbers.hung == worker.numbers.failed == 3
    assert all(env.due_in("q", id) > 495 for id in ids)


def test_run_of_a_running_worker_is_refused(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    bodies = []
    worker.listener("q")(bodies.append)
    worker.start()
    with pytest.raises(InvalidFormat, match="worker"):
        worker.run()
    rsmq.send_message("q", "x")

    wait_until(lambda: bodies == ["x"])


def test_start_that_fails_late_leaves_nothing(env, rsmq, monkeypatch):
    env.create_queues("q")
    worker = env.create_worker(name="w")
    worker.listener("q")(lambda body: None)

    def refused(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("rsmq.worker.worker.Threads", refused)
        with pytest.raises(RuntimeError, match="can't start"):
            worker.start()
    assert list_workers(rsmq) == []
    worker.stop()
    worker.start()
    assert [each.alive for each in list_workers(rsmq)] == [True]


@pytest.mark.parametrize("hook", ["before_start", "before_handle", "after_handle", "after_delete"])
@pytest.mark.parametrize("is_async", [False, True])
def test_stop_in_a_hook_returns_at_once(env, rsmq, hook, is_async):
    env.create_queues("q")

    class Stopping(Middleware):
        pass

    setattr(Stopping, hook, lambda self, *_: worker.stop())
    worker = env.create_worker(middleware=[Stopping()], grace=10)

    async def handle(body):
        pass

    worker.listener("q")(handle if is_async else lambda body: None)
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: state_of(worker).has_ended)

    assert worker.numbers.lost == 0
    if hook == "before_start":
        assert env.fields("q").keys() & {id, f"{id}:rc"} == {id}
    else:
        assert worker.numbers.handled == 1
        assert id not in env.fields("q")


def test_stop_during_start_stops_the_worker(env, rsmq, caplog):
    caplog.set_level(logging.INFO, "rsmq.worker")
    env.create_queues("q")
    other = Identity(rsmq.namespace, "w", "other")
    rsmq.run(register_worker(other, {}, ttl=0.6, dead=""))
    worker = env.create_worker(name="w")
    worker.listener("q")(lambda body: None)
    running = threading.Thread(target=worker.run)
    running.start()
    wait_until(lambda: "waits to see whether another one" in caplog.text)
    worker.stop()
    running.join(WAIT_SECONDS)

    assert not running.is_alive()
    assert list_workers(rsmq) == []


def test_stop_tries_each_call_to_a_redis_that_fails_for_a_second(
    env, rsmq, gate, fast_heartbeat, monkeypatch
):
    """By default a call is tried for ``retry_deadline``, which may be longer than all patience."""
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", vt=60)(lambda body: gate())
    rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    limits = []

    def fail(operation):
        if threading.current_thread().name == "rsmq-worker":  # not that of schedules
            limits.append(operation.limit)
        raise ConnectionError("away")

    monkeypatch.setattr(rsmq, "run", fail)
    wait_until(lambda: limits)
    assert limits[0] is None
    worker.stop(0)

    assert limits[-1].seconds == 1
    assert state_of(worker).has_ended
