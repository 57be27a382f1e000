"""Listeners that do not receive: declared so, or stopped while the worker runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rsmq import InvalidFormat
from rsmq.worker.state.lane import Lane
from tests.scale import WAIT_SECONDS
from tests.workers.polling import state_of, wait_until


def add_listener(worker, queue, got, *, is_async=False, **options):
    options = {"retry_forever": True, "create": True, **options}
    if is_async:

        @worker.listener(queue, **options)
        async def handle_async(body):
            got.append(body)
    else:
        worker.listener(queue, **options)(got.append)


KINDS = pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])


@KINDS
def test_an_inactive_listener_receives_nothing_before_it_is_started(env, rsmq, is_async):
    got, other = [], []
    worker = env.create_worker()
    add_listener(worker, "later", got, is_async=is_async, active=False)
    add_listener(worker, "now", other)
    assert (worker.queues, worker.active_queues) == (["later", "now"], ["now"])
    with worker:
        rsmq.send_message("later", "a")
        for number in range(20):
            rsmq.send_message("now", str(number))
            wait_until(lambda number=number: len(other) == number + 1)
        assert worker.health().is_ready
        # No receive at all: another consumer's would raise the count by one.
        assert env.raw.hget(f"{env.ns}:later:Q", "totalrecv") is None
        assert got == []
        worker.start_listener("later")
        wait_until(lambda: got == ["a"])
        wait_until(lambda: env.is_empty("later"))
        rsmq.send_message("later", "b")  # it waits for messages, as the others do
        wait_until(lambda: got == ["a", "b"])

    assert worker.active_queues == ["later", "now"]


@KINDS
def test_a_stop_releases_waiting_messages_and_lets_running_calls_end(
    env, rsmq, monkeypatch, is_async
):
    monkeypatch.setattr(Lane, "prefetch_limit", lambda *_: 10)
    env.create_queues("q")
    begun, ended, release = [], [], threading.Event()
    worker = env.create_worker(concurrency=1)
    if is_async:

        @worker.listener("q", retry_forever=True)
        async def handle_async(body):
            begun.append(body)
            while not release.is_set():
                await asyncio.sleep(0.002)
            ended.append(body)
    else:

        @worker.listener("q", retry_forever=True)
        def handle(body):
            begun.append(body)
            release.wait(WAIT_SECONDS)
            ended.append(body)

    rsmq.send_messages("q", list("abcde"))
    with worker:
        wait_until(lambda: begun and state_of(worker).queues["q"].in_flight == 5)
        worker.stop_listener("q")
        wait_until(lambda: rsmq.get_queue_attributes("q").visible_messages == 4)
        assert state_of(worker).queues["q"].in_flight == 1
        release.set()
        wait_until(lambda: worker.numbers.handled == 1)
        wait_until(lambda: rsmq.get_queue_attributes("q").messages == 4)
        assert (begun, ended) == (["a"], ["a"])
        assert worker.active_queues == []
        worker.start_listener("q")
        wait_until(lambda: sorted(ended) == list("abcde"))

    assert env.is_empty("q")


def test_a_handler_stops_its_own_listener(env, rsmq):
    got = []
    worker = env.create_worker(concurrency=1)

    @worker.listener("q", create=True, retry_forever=True)
    def handle(body):
        got.append(body)
        worker.stop_listener("q")

    with worker:
        rsmq.send_message("q", "a")
        wait_until(lambda: worker.numbers.handled == 1)
        rsmq.send_message("q", "b")
        worker.start_listener("q")
        wait_until(lambda: got == ["a", "b"])


def test_a_stopped_listener_stays_stopped_when_the_worker_starts_again(env, rsmq):
    got = []
    worker = env.create_worker()
    add_listener(worker, "q", got)
    rsmq.create_queue("q")
    with worker:
        worker.stop_listener("q")
    rsmq.send_message("q", "a")
    worker.run(until_empty=True)  # its queues count as empty: none is active
    assert got == []
    worker.start_listener("q")
    worker.run(until_empty=True)

    assert got == ["a"]


def test_levels_start_and_stop_together(env, rsmq):
    got = []
    worker = env.create_worker()
    add_listener(worker, "mail", got, levels={"critical": 10}, active=False)
    assert worker.active_queues == []
    with worker:
        rsmq.send_message("mail", "a")
        rsmq.send_message("mail_critical", "b")
        worker.start_listener("mail")
        wait_until(lambda: sorted(got) == ["a", "b"])

    assert worker.active_queues == ["mail", "mail_critical"]


def test_a_listener_of_this_worker_is_stopped_and_not_that_of_another(env, rsmq):
    got, got_by_other = [], []
    worker, other = env.create_worker(), env.create_worker()
    add_listener(worker, "q", got)
    add_listener(other, "q", got_by_other)
    with worker, other:
        worker.stop_listener("q")
        rsmq.send_messages("q", ["x"] * 20)
        wait_until(lambda: len(got) + len(got_by_other) == 20)
        wait_until(lambda: env.is_empty("q"))
        rsmq.send_messages("q", ["y"] * 20)
        wait_until(lambda: got_by_other.count("y") == 20)

    assert env.raw.hget(f"{env.ns}:q:Q", "x:paused") is None


@pytest.mark.parametrize("queue", ["other", "mail_critical", "", None])
def test_a_queue_without_a_listener_is_refused(env, queue):
    worker = env.create_worker()
    add_listener(worker, "mail", [], levels={"critical": 10})
    for method in (worker.start_listener, worker.stop_listener):
        with pytest.raises(InvalidFormat, match="This worker has listeners of mail"):
            method(queue)


@pytest.mark.parametrize("active", ["false", 0, None])
def test_active_is_a_bool(env, active):
    with pytest.raises(InvalidFormat, match="active"):
        env.create_worker().listener("q", active=active)(print)
