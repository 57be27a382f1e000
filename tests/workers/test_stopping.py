"""``message.stopping``: handlers see that their worker stops."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rsmq.tasks import Tasks
from rsmq.worker import Defer, StopEvent, Worker, current_message
from tests.workers.polling import wait_until


@pytest.fixture
def worker(env):
    env.create_queues("q")
    worker = Worker(env.rsmq, concurrency=2)
    yield worker
    worker.stop(0)


def test_handler_in_a_thread_sees_that_the_worker_stops(env, worker):
    begun, seen = threading.Event(), []

    @worker.listener("q", retry_forever=True)
    def handle(body):
        stopping = current_message().stopping
        seen.append(bool(stopping))
        begun.set()
        seen.append(stopping.wait(60))
        raise Defer("half done", after=10)

    env.rsmq.send_message("q", "a")
    worker.start()
    assert begun.wait(60)
    worker.stop(grace=60)
    [id] = env.scores("q")

    assert seen == [False, True]
    assert worker.numbers.deferred == 1
    assert env.raw.hget(f"{env.ns}:q:x:unbegun", id) is not None  # so it is no attempt


def test_async_handler_sees_that_the_worker_stops(env, worker):
    begun, seen = threading.Event(), []

    @worker.listener("q", retry_forever=True)
    async def handle(body, message):
        seen.append(await message.stopping.wait_async(0))
        begun.set()
        seen.append(await message.stopping.wait_async())

    env.rsmq.send_messages("q", ["a", "b"])
    worker.start()
    assert begun.wait(60)
    worker.stop(grace=60)

    assert sorted(seen) == [False, False, True, True]
    assert worker.numbers.handled == 2


def test_messages_of_a_batch_and_of_another_listener_have_the_same_event(env, worker):
    env.create_queues("other")
    events = []

    @worker.listener("q", batch=10, retry_forever=True)
    def handle(bodies, messages):
        events.extend(message.stopping for message in messages)

    @worker.listener("other", retry_forever=True)
    def handle_other(body, message):
        events.append(message.stopping)

    env.rsmq.send_messages("q", ["a", "b"])
    env.rsmq.send_message("other", "c")
    worker.run(until_empty=True, timeout=60)

    assert len(events) == 3
    assert len(set(events)) == 1


def test_next_run_of_a_worker_has_an_event_of_its_own(env, worker):
    events = []

    @worker.listener("q", retry_forever=True)
    def handle(body, message):
        events.append((message.stopping, message.stopping.is_set()))

    for body in "ab":
        env.rsmq.send_message("q", body)
        worker.run(until_empty=True, timeout=60)

    assert [is_set for _, is_set in events] == [False, False]
    assert events[0][0] is not events[1][0]
    assert all(event.is_set() for event, _ in events)


def test_immediate_calls_never_stop(rsmq):
    tasks = Tasks(rsmq)

    @tasks.task(track=True)
    def stops() -> bool:
        return bool(current_message().stopping)

    with tasks.immediate():
        assert stops.send().result() is False


def test_wait_ends_after_its_timeout():
    event = StopEvent()

    assert not event.wait(0)
    assert not event.wait(0.01)
    assert not asyncio.run(event.wait_async(0.01))
    event.set()
    assert event.wait()
    assert asyncio.run(event.wait_async())


def test_all_waiting_threads_and_tasks_wake():
    event, results = StopEvent(), []

    async def wait_in_loop():
        results.extend(await asyncio.gather(*(event.wait_async() for _ in range(3))))

    threads = [threading.Thread(target=lambda: results.append(event.wait())) for _ in range(3)]
    threads.append(threading.Thread(target=asyncio.run, args=(wait_in_loop(),)))
    for each in threads:
        each.start()
    wait_until(lambda: len(event._waiting) == 3)
    event.set()
    for each in threads:
        each.join(60)

    assert results == [True] * 6


def test_event_is_set_although_a_waiting_loop_was_closed():
    event = StopEvent()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(event.wait_async())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    event.set()

    assert event
    waiting._log_destroy_pending = False
