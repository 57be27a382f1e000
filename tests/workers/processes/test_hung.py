"""Handlers that hang or ignore cancellation: their slot becomes free, and the worker can stop."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rsmq import JSON
from tests.scale import WAIT_SECONDS
from tests.workers.processes.conftest import assert_nothing_left, fill, wait_until

VT = 1


@pytest.fixture
def may_return():
    """Return an event that ends hanging handlers; the fixture sets it at the end."""
    event = threading.Event()
    yield event
    event.set()


def hanging_handler(attempts, may_return, is_async):
    """Return a handler that hangs on the first attempt of message 0, and ignores cancellation."""

    def begins_hanging(body, message):
        attempts.append((body["n"], message.attempt, time.monotonic(), message))
        return body["n"] == 0 and message.attempt == 1

    def handle(body, message):
        if begins_hanging(body, message):
            may_return.wait(WAIT_SECONDS)

    async def handle_async(body, message):
        if begins_hanging(body, message):
            while not may_return.is_set():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    attempts[0][3].fail(ValueError("heard, and went on"))

    return handle_async if is_async else handle


@pytest.mark.parametrize("is_async", [False, True])
def test_hanging_handler_occupies_its_slot_for_max_runtime(
    ns, rsmq, raw, create_worker, caplog, may_return, is_async
):
    fill(rsmq, "q", [{"n": n} for n in range(4)])
    attempts = []
    one = create_worker(concurrency=1)
    one.listener("q", vt=VT, codec=JSON, max_runtime=1, backoff=0)(
        hanging_handler(attempts, may_return, is_async)
    )
    one.start()
    wait_until(lambda: len(attempts) == 5)
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)

    assert sorted(attempt[:2] for attempt in attempts) == [(0, 1), (0, 2), (1, 1), (2, 1), (3, 1)]
    by_attempt = {attempt[:2]: attempt for attempt in attempts}
    hung, second = by_attempt[0, 1], by_attempt[0, 2]
    # The time is what the test is about. The worker counts from a moment before the handler's first
    # line, which a busy machine delays; so the bounds are half a second less than max_runtime.
    assert by_attempt[1, 1][2] - hung[2] >= 0.5, "one slot, and it was free before max_runtime"
    assert hung[3].lease_lost
    assert not second[3].lease_lost
    # It is hidden for vt after max_runtime, when the worker gave up its slot.
    assert second[2] - hung[2] >= 0.5 + VT
    assert one.numbers.hung == 1
    assert [record.levelname for record in caplog.records if hung[3].id in record.getMessage()]
    assert "its handler ran for more than 1 s" in caplog.text
    begin = time.monotonic()
    one.stop(grace=1)
    # A stop that waited for the handler would take 60 seconds.
    assert time.monotonic() - begin < 30
    assert_nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_worker_stops_while_all_handlers_hang(ns, rsmq, raw, create_worker, may_return, is_async):
    """Before max_runtime, too: the handlers have only the grace period."""
    ids = fill(rsmq, "q", [{"n": 0} for _ in range(3)])
    attempts = []
    one = create_worker(concurrency=3)
    one.listener("q", vt=300, codec=JSON)(hanging_handler(attempts, may_return, is_async))
    one.start()
    wait_until(lambda: len(attempts) == 3)
    begin = time.monotonic()
    one.stop(grace=0.5)

    # The time is what the test is about: the handlers hang for 60 seconds.
    assert time.monotonic() - begin < 30
    assert [message.id for message in rsmq.receive_messages("q", 10)] == ids
    assert all(attempt[3].lease_lost for attempt in attempts)
    may_return.set()
    # Later calls of these handlers change nothing.
    assert rsmq.get_queue_attributes("q").messages == 3
    assert raw.keys(f"{ns}:x:held:*") == []


@pytest.mark.parametrize("is_async", [False, True])
def test_other_messages_are_handled_after_every_slot_has_hung(
    ns, rsmq, raw, create_worker, may_return, is_async
):
    """Hanging handlers have all slots; at the end they return."""
    fill(rsmq, "q", [{"n": 0} for _ in range(2)] + [{"n": n} for n in range(1, 20)])
    attempts = []
    one = create_worker(concurrency=2)
    one.listener("q", vt=VT, codec=JSON, max_runtime=0.5, backoff=0)(
        hanging_handler(attempts, may_return, is_async)
    )
    one.start()
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    may_return.set()
    # The threads and tasks that hung and return now do not occupy a second slot.
    ids = fill(rsmq, "q", [{"n": n} for n in range(20, 40)])
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop()

    assert one.numbers.hung == 2
    assert len([attempt for attempt in attempts if attempt[0] == 0]) == 4
    assert len(attempts) == 4 + 19 + len(ids)
    assert_nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_hang_on_the_last_attempt_is_dead_lettered(
    ns, rsmq, raw, create_worker, may_return, is_async
):
    rsmq.create_queue("dead")
    [id] = fill(rsmq, "q", [{"n": 0}])
    one = create_worker(concurrency=1)
    one.listener("q", vt=VT, codec=JSON, max_runtime=0.5, max_retries=0, dead_letter_queue="dead")(
        hanging_handler([], may_return, is_async)
    )
    one.start()
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop(grace=0.1)

    [letter] = rsmq.peek_messages("dead")
    assert letter.id == id
    assert letter.reason.exception == "HandlerTimedOut: its handler ran for more than 0.5 s"
    assert letter.reason.attempts == 1
    assert_nothing_left(raw, ns, "q")
