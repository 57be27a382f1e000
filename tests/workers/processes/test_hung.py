"""Handlers that hang, or hear no cancellation: their slot is free again, and the worker stops."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rsmq import JSON
from tests.workers.processes.conftest import fill, nothing_left, until

VT = 1


@pytest.fixture
def released():
    """Set at the end: lets go what hangs."""
    event = threading.Event()
    yield event
    event.set()


def hanging(attempts, released, is_async):
    """A handler that hangs on the first attempt of the first message, whatever is done to it."""

    def begun(body, message):
        attempts.append((body["n"], message.attempt, time.monotonic(), message))
        return body["n"] == 0 and message.attempt == 1

    def handle(body, message):
        if begun(body, message):
            released.wait(60)

    async def handle_async(body, message):
        if begun(body, message):
            while not released.is_set():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    attempts[0][3].fail(ValueError("heard, and went on"))

    return handle_async if is_async else handle


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_hangs_costs_its_slot_for_max_runtime(
    ns, rsmq, raw, worker, caplog, released, is_async
):
    fill(rsmq, "q", [{"n": n} for n in range(4)])
    attempts = []
    one = worker(concurrency=1)
    one.listener("q", vt=VT, codec=JSON, max_runtime=1, backoff=0)(
        hanging(attempts, released, is_async)
    )
    one.start()
    until(lambda: len(attempts) == 5)
    until(lambda: raw.zcard(f"{ns}:q") == 0)

    assert sorted(attempt[:2] for attempt in attempts) == [(0, 1), (0, 2), (1, 1), (2, 1), (3, 1)]
    by = {attempt[:2]: attempt for attempt in attempts}
    hung, again = by[0, 1], by[0, 2]
    # The time is what the test is about. The worker counts from a moment before the handler's first
    # line, which a busy machine delays; so the bounds are half a second less than max_runtime.
    assert by[1, 1][2] - hung[2] >= 0.5, "one slot, and it was free before max_runtime"
    assert hung[3].lease_lost
    assert not again[3].lease_lost
    # Let go no sooner than max_runtime, and hidden for vt from then on.
    assert again[2] - hung[2] >= 0.5 + VT
    assert one.numbers.hung == 1
    assert [record.levelname for record in caplog.records if hung[3].id in record.getMessage()]
    assert "its handler ran for more than 1 s" in caplog.text
    begin = time.monotonic()
    one.stop(grace=1)
    # A stop that waited for the handler would take 60 seconds.
    assert time.monotonic() - begin < 30
    nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_worker_stops_though_all_its_handlers_hang(ns, rsmq, raw, worker, released, is_async):
    """Before max_runtime too: grace is all that they have."""
    ids = fill(rsmq, "q", [{"n": 0} for _ in range(3)])
    attempts = []
    one = worker(concurrency=3)
    one.listener("q", vt=300, codec=JSON)(hanging(attempts, released, is_async))
    one.start()
    until(lambda: len(attempts) == 3)
    begin = time.monotonic()
    one.stop(grace=0.5)

    # The time is what the test is about: the handlers hang for 60 seconds.
    assert time.monotonic() - begin < 30
    assert [message.id for message in rsmq.receive_messages("q", 10)] == ids
    assert all(attempt[3].lease_lost for attempt in attempts)
    released.set()
    # What they do from now on touches nothing.
    assert rsmq.get_queue_attributes("q").messages == 3
    assert raw.keys(f"{ns}:x:held:*") == []


@pytest.mark.parametrize("is_async", [False, True])
def test_hung_handlers_on_every_slot_let_all_others_have_their_turn(
    ns, rsmq, raw, worker, released, is_async
):
    """More of them than there are slots, one after the other; at the end they all come back."""
    fill(rsmq, "q", [{"n": 0} for _ in range(5)] + [{"n": n} for n in range(1, 20)])
    attempts = []
    one = worker(concurrency=2)
    one.listener("q", vt=VT, codec=JSON, max_runtime=0.5, backoff=0)(
        hanging(attempts, released, is_async)
    )
    one.start()
    until(lambda: raw.zcard(f"{ns}:q") == 0, 40)
    released.set()
    # The threads and tasks that hung, and end now, take no slot twice.
    ids = fill(rsmq, "q", [{"n": n} for n in range(20, 40)])
    until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop()

    assert one.numbers.hung == 5
    assert len([attempt for attempt in attempts if attempt[0] == 0]) == 10
    assert len(attempts) == 10 + 19 + len(ids)
    nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_one_that_hangs_on_its_last_attempt_dies(ns, rsmq, raw, worker, released, is_async):
    rsmq.create_queue("dead")
    [id] = fill(rsmq, "q", [{"n": 0}])
    one = worker(concurrency=1)
    one.listener("q", vt=VT, codec=JSON, max_runtime=0.5, max_retries=0, dead_letter_queue="dead")(
        hanging([], released, is_async)
    )
    one.start()
    until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop(grace=0.1)

    [grave] = rsmq.peek_messages("dead")
    assert grave.id == id
    assert grave.reason.exception == "HandlerTimedOut: its handler ran for more than 0.5 s"
    assert grave.reason.attempts == 1
    nothing_left(raw, ns, "q")
