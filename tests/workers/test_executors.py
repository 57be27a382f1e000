"""The event loop or a thread of the handlers ends before the worker stops."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from rsmq import ExecutorEnded
from rsmq.worker.run import invoke, tasks
from tests.workers.polling import state_of, wait_until


def _exit_in_a_task(body):
    async def end():
        sys.exit(3)

    asyncio.get_running_loop().create_task(end())


def _stop_the_loop(body):
    asyncio.get_running_loop().stop()


def _interrupt_in_a_callback(body):
    def interrupt():
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(interrupt)


ENDS = {
    "sys.exit in a task": (_exit_in_a_task, "SystemExit: 3"),
    "loop.stop": (_stop_the_loop, "Its event loop was stopped"),
    "a callback raises": (_interrupt_in_a_callback, "KeyboardInterrupt"),
}


@pytest.mark.parametrize("name", ENDS)
def test_worker_whose_event_loop_ends_fails_and_releases_its_messages(env, rsmq, name):
    end, cause = ENDS[name]
    env.create_queues("q", "plain")
    worker = env.create_worker(grace=5)
    env.expected_to_fail.append(worker)

    @worker.listener("q", vt=60, concurrency=5)
    async def handle(body):
        if body == "end":
            end(body)
        await asyncio.sleep(30)

    worker.listener("plain")(print)
    rsmq.send_messages("q", ["x"] * 4 + ["end"] + ["x"] * 15)
    worker.start()
    wait_until(lambda: state_of(worker).has_ended)

    failure = state_of(worker).failure
    assert isinstance(failure, ExecutorEnded)
    assert cause in str(failure)
    health = worker.health()
    assert (health.is_healthy, health.is_ready) == (False, False)
    assert worker.numbers.failed == worker.numbers.lost == 0
    assert worker.numbers.released >= 5
    assert rsmq.get_queue_attributes("q").visible_messages == 20
    assert env.in_flight(worker.name) == {}


@pytest.mark.parametrize("name", ENDS)
def test_message_that_ends_the_event_loop_in_each_run_becomes_a_dead_letter(env, rsmq, name):
    env.create_queues("q", "dead")
    id = rsmq.send_message("q", "poison")
    attempts = []

    def run():
        worker = env.create_worker(name="w", grace=5)

        @worker.listener("q", vt=60, max_retries=1, backoff=0, dead_letter_queue="dead")
        async def handle(body, message):
            attempts.append(message.attempt)
            ENDS[name][0](body)
            await asyncio.sleep(30)

        env.expected_to_fail.append(worker)
        worker.start()
        wait_until(lambda: state_of(worker).has_ended or worker.numbers.dead)
        worker.stop()

    while env.scores("dead").keys() != {id}:
        assert len(attempts) < 10
        run()

    assert attempts == [1, 2, 3, 4, 5, 6]
    assert env.is_empty("q")
    assert not env.raw.exists(f"{env.ns}:q:x:unbegun")


def test_run_raises_the_end_of_the_event_loop(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(grace=5)
    env.expected_to_fail.append(worker)

    @worker.listener("q")
    async def handle(body):
        _stop_the_loop(body)

    rsmq.send_message("q", "x")
    with pytest.raises(ExecutorEnded):
        worker.run()


def test_worker_on_an_event_loop_that_was_closed_fails(env, rsmq, fast_heartbeat):
    env.create_queues("q")
    worker = env.create_worker(grace=5)
    env.expected_to_fail.append(worker)

    @worker.listener("q", vt=60)
    async def handle(body):
        await asyncio.sleep(30)

    async def begin():
        await asyncio.to_thread(worker.start, loop=asyncio.get_running_loop())
        rsmq.send_message("q", "x")
        while not state_of(worker).running:
            await asyncio.sleep(0.01)

    asyncio.run(begin())
    wait_until(lambda: state_of(worker).has_ended)

    assert isinstance(state_of(worker).failure, ExecutorEnded)
    assert env.in_flight(worker.name) == {}
    assert not worker.health().is_healthy


def test_worker_on_an_event_loop_that_runs_no_longer_fails(env, rsmq, fast_heartbeat, monkeypatch):
    monkeypatch.setattr(tasks, "_MAX_PAUSE_SECONDS", 0.1)
    env.create_queues("q")
    worker = env.create_worker(grace=5)
    env.expected_to_fail.append(worker)

    @worker.listener("q", vt=60)
    async def handle(body):
        await asyncio.sleep(30)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    worker.start(loop=loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    wait_until(lambda: state_of(worker).has_ended)

    assert isinstance(state_of(worker).failure, ExecutorEnded)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_worker_whose_thread_ends_fails_and_other_calls_end(env, rsmq, gate, monkeypatch):
    call = invoke.Invoker.call

    def end_thread(invoker, job):
        if job.leases[0].raw == b"end":
            raise SystemExit(4)
        call(invoker, job)

    monkeypatch.setattr(invoke.Invoker, "call", end_thread)
    env.create_queues("q")
    worker = env.create_worker(grace=20, concurrency=2)
    env.expected_to_fail.append(worker)
    worker.listener("q", vt=60)(lambda body: gate())
    rsmq.send_message("q", "long")
    worker.start()
    gate.wait_for(1)
    id = rsmq.send_message("q", "end")
    wait_until(lambda: state_of(worker).failure)
    health = worker.health()
    gate.open()
    wait_until(lambda: state_of(worker).has_ended)

    assert isinstance(state_of(worker).failure, ExecutorEnded)
    assert "SystemExit: 4" in str(state_of(worker).failure)
    assert (health.is_running, health.is_healthy, health.is_ready) == (True, False, False)
    assert worker.numbers.handled == 1
    assert env.scores("q").keys() == {id}
    assert rsmq.get_queue_attributes("q").visible_messages == 1


def test_idle_tasks_that_were_cancelled_are_replaced(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(concurrency=2)

    @worker.listener("q", backoff=0)
    async def handle(body):
        if body == "cancel":
            for each in asyncio.all_tasks() - {asyncio.current_task()}:
                each.cancel()

    worker.start()
    for number in range(10):
        rsmq.send_messages("q", ["cancel", "x", "x"])
        wait_until(lambda number=number: worker.numbers.handled + worker.numbers.retried >= number)
    wait_until(lambda: rsmq.get_queue_attributes("q").messages == 0)

    assert state_of(worker).running == 0


def test_stopped_worker_is_healthy(env):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q")
    async def handle(body):
        pass

    worker.start()
    worker.stop()

    assert state_of(worker).failure is None
    assert worker.health().is_healthy
