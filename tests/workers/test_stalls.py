"""Handlers that can't be called: one blocks the event loop, or the system allows no thread."""

from __future__ import annotations

import asyncio
import threading
import traceback

import pytest

from rsmq import ExecutorStalled
from rsmq.worker import listener as listeners
from rsmq.worker.run import blocked_loop
from rsmq.worker.run import threads as handler_threads
from tests.workers.polling import state_of, wait_until


@pytest.fixture
def early(monkeypatch):
    """An event loop counts as blocked after a second, also if the visibility timeout is long."""
    monkeypatch.setattr(blocked_loop, "_MAX_SILENT_SECONDS", 1.0)


@pytest.fixture
def refusals(monkeypatch):
    """Let the system allow no thread for handlers until the list is emptied."""
    refused, start = [True], threading.Thread.start

    def refuse(thread):
        if refused and thread.name.startswith("rsmq-handler"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return refused


def stall_lines(caplog):
    """
    Return the log records of event loops that a handler blocks.

    A machine that is slow may let them seem blocked before.
    """
    return [each for each in caplog.records if "The handler of" in each.getMessage()]


def test_worker_whose_event_loop_is_blocked_receives_nothing_for_async_handlers_and_is_not_ready(
    env, rsmq, gate, early, caplog
):
    env.create_queues("q", "plain")
    worker = env.create_worker(concurrency=4)
    handled = []

    @worker.listener("q", vt=60, concurrency=3)
    async def block_the_loop(body):
        gate()

    worker.listener("plain")(handled.append)
    ids = rsmq.send_messages("q", ["x"] * 3)
    worker.start()
    wait_until(lambda: stall_lines(caplog))
    health = worker.health()

    assert (health.is_running, health.is_healthy, health.is_ready) == (True, True, False)
    (line,) = stall_lines(caplog)
    assert "receives nothing for q:" in line.getMessage()
    assert any(
        f"The handler of q with message {id} blocks the event loop" in line.getMessage()
        for id in ids
    )
    # Its exc_text is set later than it is in the list of records.
    assert "block_the_loop" in "".join(traceback.format_exception(*line.exc_info))
    wait_until(lambda: rsmq.workers.list()[0].stalled)
    stalled = rsmq.workers.list()[0].stalled
    assert stalled.queue == "q"
    assert stalled.id in ids
    assert "blocks the event loop" in stalled.cause
    wait_until(lambda: rsmq.get_queue_attributes("q").visible_messages == 2)
    rsmq.send_messages("q", ["x"] * 5)
    rsmq.send_message("plain", "x")
    wait_until(lambda: handled)
    attributes = rsmq.get_queue_attributes("q")
    assert (attributes.messages, attributes.visible_messages) == (8, 7)

    gate.open()
    wait_until(lambda: rsmq.workers.list()[0].stalled is None)
    wait_until(lambda: worker.numbers.handled == 9)

    assert worker.health().is_ready
    assert (worker.numbers.failed, worker.numbers.lost) == (0, 0)
    assert "can call handlers again" in caplog.text


def test_call_that_blocks_the_event_loop_too_long_fails_and_ends_the_worker(
    env, rsmq, gate, early, monkeypatch
):
    monkeypatch.setattr(listeners, "DEFAULT_MAX_BLOCKING_SECONDS", 1.5)
    env.create_queues("q", "other")
    worker = env.create_worker(grace=60)
    env.expected_to_fail.append(worker)
    waiting = threading.Event()

    @worker.listener("q", vt=60, backoff=900)
    async def handle(body):
        gate()

    @worker.listener("other", vt=60, max_runtime=600)
    async def wait(body):
        waiting.set()
        await asyncio.sleep(300)

    rsmq.send_message("other", "x")
    worker.start()
    wait_until(waiting.is_set)
    id = rsmq.send_message("q", "x")
    wait_until(lambda: state_of(worker).has_ended)

    failure = state_of(worker).failure
    assert isinstance(failure, ExecutorStalled)
    assert f"The handler of q with message {id} blocks the event loop" in str(failure)
    assert not worker.health().is_healthy
    assert (worker.numbers.failed, worker.numbers.retried) == (1, 1)
    assert env.due_in("q", id) > 600
    assert rsmq.get_queue_attributes("other").visible_messages == 1
    assert env.raw.exists(f"{env.ns}:other:x:unbegun"), "the call was interrupted: no attempt"
    assert env.in_flight(worker.name) == {}


def test_task_of_a_handler_that_blocks_the_event_loop_too_long_ends_the_worker(
    env, rsmq, gate, early, monkeypatch
):
    monkeypatch.setattr(listeners, "DEFAULT_MAX_BLOCKING_SECONDS", 1.5)
    monkeypatch.setattr(blocked_loop, "DEFAULT_MAX_BLOCKING_SECONDS", 1.5)
    env.create_queues("q")
    worker = env.create_worker(grace=60)
    env.expected_to_fail.append(worker)

    async def block():
        gate()

    @worker.listener("q", vt=60)
    async def handle(body):
        await asyncio.gather(block(), block())

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: state_of(worker).has_ended)

    failure = state_of(worker).failure
    assert isinstance(failure, ExecutorStalled)
    assert "A task or callback blocks the event loop" in str(failure)
    assert rsmq.get_queue_attributes("q").visible_messages == 1
    assert env.in_flight(worker.name) == {}


def test_worker_without_a_thread_receives_nothing_and_logs_once(env, rsmq, refusals, caplog):
    env.create_queues("q")
    worker = env.create_worker(concurrency=2)
    handled = []
    worker.listener("q", vt=60)(handled.append)
    rsmq.send_messages("q", ["x"] * 5)
    worker.start()
    wait_until(lambda: worker.health().is_stalled)
    health = worker.health()

    assert (health.is_healthy, health.is_ready) == (True, False)
    wait_until(lambda: rsmq.get_queue_attributes("q").visible_messages == 5)
    lines = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(lines) == 2
    assert "can't start new thread" in lines[0]
    assert "receives nothing for q: The system allows no thread" in lines[1]

    refusals.clear()
    wait_until(lambda: len(handled) == 5)
    wait_until(lambda: worker.health().is_ready)


def test_worker_without_a_thread_for_too_long_ends(env, rsmq, refusals, monkeypatch):
    monkeypatch.setattr(handler_threads, "_MAX_STALL_SECONDS", 0.5)
    env.create_queues("q")
    worker = env.create_worker()
    env.expected_to_fail.append(worker)
    worker.listener("q", vt=60)(print)
    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: state_of(worker).has_ended)

    assert isinstance(state_of(worker).failure, ExecutorStalled)
    assert rsmq.get_queue_attributes("q").visible_messages == 1
    assert env.in_flight(worker.name) == {}


def test_worker_with_fewer_threads_than_slots_handles_its_messages(
    env, rsmq, refusals, gate, caplog
):
    refusals.clear()
    env.create_queues("q")
    worker = env.create_worker(concurrency=4)
    worker.listener("q", vt=60)(lambda body: gate())
    rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    refusals.append(True)
    rsmq.send_messages("q", ["x"] * 9)
    wait_until(lambda: "no thread for handlers more than 1" in caplog.text)
    gate.open()
    wait_until(lambda: worker.numbers.handled == 10)

    assert worker.health().is_ready
    assert gate.max_inside == 1
    assert caplog.text.count("no thread for handlers") == 1
