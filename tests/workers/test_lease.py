"""What is held is extended while its handler runs, and let go when it is somebody else's."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rsmq.worker import HandlerTimedOut
from tests.workers.until import until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


class Long:
    """A handler that runs until it may end, or learns that its lease is lost."""

    def __init__(self):
        self.messages = []
        self.cancelled = []
        self.ended = 0
        self.let_go = threading.Event()

    def plain(self, body, message):
        self.messages.append(message)
        while not self.let_go.is_set() and not message.lease_lost:
            time.sleep(0.002)
        self.ended += 1

    async def later(self, body, message):
        self.messages.append(message)
        try:
            while not self.let_go.is_set():
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.cancelled.append(message.id)
            raise
        finally:
            self.ended += 1


@pytest.fixture
def long():
    long = Long()
    yield long
    long.let_go.set()


#: Visibility timeout, seconds: the lease outlasts a pause of a second.
VT = 1.5

KINDS = pytest.mark.parametrize("kind", ["plain", "later"])


@KINDS
def test_nobody_else_gets_a_message_while_its_handler_runs(place, rsmq, long, kind):
    place.queues("q")
    worker = place.worker(name="w")
    worker.listener("q", vt=VT)(getattr(long, kind))
    id = rsmq.send_message("q", "x")
    worker.start()
    until(lambda: long.messages)
    deadline = time.monotonic() + 1.3 * VT
    dues = []
    while time.monotonic() < deadline:
        assert rsmq.receive_message("q") is None
        dues.append(place.due_in("q", id))
        time.sleep(0.01)
    long.let_go.set()
    until(lambda: place.empty("q"))

    assert max(dues) <= VT + 0.05
    assert not long.messages[0].lease_lost
    assert long.messages[0].receive_count == 1
    until(lambda: worker.numbers.handled == 1)
    assert worker.numbers.lost == 0


@KINDS
def test_all_of_a_batch_are_extended(place, rsmq, long, kind):
    place.queues("q")
    worker = place.worker()
    handle = getattr(long, kind)
    if kind == "plain":
        worker.listener("q", vt=VT, batch=5)(lambda bodies, messages: handle("", messages[0]))
    else:

        @worker.listener("q", vt=VT, batch=5)
        async def later(bodies, messages):
            await handle("", messages[0])

    rsmq.send_messages("q", ["x"] * 5)
    worker.start()
    until(lambda: long.messages)
    deadline = time.monotonic() + 1.3 * VT
    while time.monotonic() < deadline:
        assert rsmq.receive_messages("q", 10) == []
        time.sleep(0.01)
    long.let_go.set()

    until(lambda: worker.numbers.handled == 5)


@KINDS
def test_a_lease_that_somebody_took_is_lost_and_nothing_is_deleted(
    place, rsmq, long, kind, noted, caplog
):
    place.queues("q")
    worker = place.worker(name="w", middleware=[noted], concurrency=1)
    worker.listener("q", vt=VT)(getattr(long, kind))
    id = rsmq.send_message("q", "x")
    worker.start()
    until(lambda: long.messages)
    # The worker may extend it in between.
    other = until(lambda: place.elapse("q", 30) or rsmq.receive_message("q", vt=60))
    assert (other.id, other.receive_count) == (id, 2)
    until(lambda: long.ended)

    assert long.messages[0].lease_lost
    assert long.cancelled == ([id] if kind == "later" else [])
    worker.stop()
    assert place.fields("q")[id] == b"x"
    assert place.fields("q")[f"{id}:rc"] == b"2"
    assert place.due_in("q", id) > 50
    assert (worker.numbers.lost, worker.numbers.handled, worker.numbers.failed) == (1, 0, 0)
    assert [(message.id, why) for message, why in noted.of("lease_lost")] == [
        (id, "somebody has received or deleted it")
    ]
    assert f"q {id}: let go: somebody has received or deleted it" in caplog.text
    assert place.held("w") == {}
    assert rsmq.delete_message(other)


def test_a_lease_that_is_lost_just_before_the_end_deletes_nothing(place, rsmq, gate):
    place.queues("q")
    worker = place.worker(concurrency=1)
    worker.listener("q", vt=60)(lambda body: gate())
    id = rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    place.elapse("q", 100)
    other = rsmq.receive_message("q", vt=60)
    gate.open()
    until(lambda: worker.numbers.lost == 1)

    assert other.receive_count == 2
    assert place.fields("q")[id] == b"x"
    assert place.due_in("q", id) > 50
    assert worker.numbers.handled == 0


@pytest.mark.parametrize("ends", ["raises", "dies"])
def test_a_failure_after_the_lease_was_lost_changes_nothing(place, rsmq, gate, ends):
    place.queues("q", "dead")
    worker = place.worker(concurrency=1)

    @worker.listener(
        "q", vt=60, backoff=500, dead_letter_queue="dead", max_retries=1 if ends == "raises" else 0
    )
    def handle(body):
        gate()
        raise ValueError

    id = rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    place.elapse("q", 100)
    rsmq.receive_message("q", vt=60)
    gate.open()
    until(lambda: worker.numbers.lost == 1)

    assert 50 < place.due_in("q", id) <= 60
    assert place.empty("dead")
    assert (worker.numbers.retried, worker.numbers.dead) == (0, 0)


@KINDS
def test_a_message_that_somebody_deleted_is_lost(place, rsmq, long, kind):
    place.queues("q")
    worker = place.worker()
    worker.listener("q", vt=VT)(getattr(long, kind))
    id = rsmq.send_message("q", "x")
    worker.start()
    until(lambda: long.messages)
    rsmq.delete_message("q", id)
    until(lambda: long.ended)

    assert long.messages[0].lease_lost
    assert (worker.numbers.lost, worker.numbers.handled) == (1, 0)
    assert place.empty("q")


def test_one_of_a_batch_that_is_lost_does_not_cancel_the_others(place, rsmq, long):
    place.queues("q")
    worker = place.worker()
    batch = []

    @worker.listener("q", vt=VT, batch=2)
    async def handle(bodies, messages):
        batch.extend(messages)
        await long.later("", messages[1])

    ids = rsmq.send_messages("q", ["a", "b"])
    worker.start()
    until(lambda: long.messages)
    rsmq.delete_message("q", ids[0])
    until(lambda: batch[0].lease_lost)
    assert not batch[1].lease_lost
    long.let_go.set()
    until(lambda: worker.numbers.handled == 1)

    assert (long.cancelled, worker.numbers.lost) == ([], 1)
    assert place.empty("q")


def test_an_async_handler_that_runs_too_long_is_cancelled_and_its_message_tried_again(
    place, rsmq, long, noted, beating
):
    place.queues("q")
    worker = place.worker(concurrency=1, middleware=[noted])
    worker.listener("q", vt=1, max_runtime=0.1, backoff=500)(long.later)
    id = rsmq.send_message("q", "x")
    worker.start()
    until(lambda: long.cancelled == [id])
    until(lambda: worker.numbers.retried == 1)

    assert long.messages[0].lease_lost
    assert 495 < place.due_in("q", id) <= 500
    ((_, after, error),) = noted.of("after_retry")
    assert (after, type(error)) == (500, HandlerTimedOut)
    assert str(error) == "its handler ran for more than 0.1 s"
    assert (worker.numbers.hung, worker.numbers.failed, worker.numbers.lost) == (1, 1, 0)


def test_a_thread_that_hangs_costs_its_slot_until_then_and_others_go_on(
    place, rsmq, gate, beating, caplog
):
    place.queues("q")
    worker = place.worker(concurrency=1)
    seen = []

    @worker.listener("q", vt=0.5, max_runtime=0.2, backoff=500)
    def handle(body, message):
        seen.append((body, message))
        if body == "hangs":
            gate()

    rsmq.send_messages("q", ["hangs", "next"])
    began = time.monotonic()
    worker.start()
    until(lambda: worker.numbers.handled == 1)
    # The time is what the test is about. On a busy machine it is longer, and never shorter.
    assert time.monotonic() - began >= 0.2
    assert [body for body, _ in seen] == ["hangs", "next"]
    assert seen[0][1].lease_lost
    assert "let go: its handler ran for more than 0.2 s" in caplog.text
    gate.open()
    rsmq.send_message("q", "after")
    until(lambda: worker.numbers.handled == 2)
    until(lambda: gate.passed == 1)

    assert list(place.scores("q")) == [seen[0][1].id]
    assert (worker.numbers.hung, worker.numbers.retried) == (1, 1)


def test_the_next_attempt_of_a_thread_that_hangs_does_not_begin_before_its_lease_is_over(
    place, rsmq, gate, noted, beating
):
    place.queues("q")
    worker = place.worker(concurrency=1, middleware=[noted])
    worker.listener("q", vt=60, max_runtime=0.05, backoff=0)(lambda body: gate())
    id = rsmq.send_message("q", "x")
    worker.start()
    until(lambda: worker.numbers.retried == 1)

    assert [after for _, after, _ in noted.of("after_retry")] == [60]
    assert 55 < place.due_in("q", id) <= 60
    assert worker.numbers.received == 1


def test_one_that_runs_too_long_for_the_last_time_is_a_dead_letter(place, rsmq, long, beating):
    place.queues("q", "dead")
    worker = place.worker()
    worker.listener("q", max_runtime=0.05, max_retries=0, dead_letter_queue="dead")(long.plain)
    rsmq.send_message("q", "x")
    worker.start()
    until(lambda: worker.numbers.dead == 1)

    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == "HandlerTimedOut on attempt 1, the last"
    assert letter.reason.exception == "HandlerTimedOut: its handler ran for more than 0.05 s"


def test_an_async_handler_that_swallows_its_cancellation_does_not_delete(
    place, rsmq, long, beating
):
    place.queues("q")
    worker = place.worker(concurrency=1)

    @worker.listener("q", max_runtime=0.05, backoff=500)
    async def handle(body, message):
        try:
            await long.later(body, message)
        except asyncio.CancelledError:
            return

    id = rsmq.send_message("q", "x")
    worker.start()
    until(lambda: worker.numbers.retried == 1)
    until(lambda: long.ended)
    rsmq.send_message("q", "y")
    until(lambda: len(long.messages) == 2)
    long.let_go.set()
    until(lambda: worker.numbers.handled == 1)

    assert list(place.scores("q")) == [id]


# Messages that were received more often than they may be, of which nobody said what became.


def often(place, rsmq, queue, count):
    """A message that has been received so often, and is due."""
    id = rsmq.send_message(queue, "often")
    place.raw.hset(f"{place.ns}:{queue}:Q", mapping={f"{id}:rc": count, f"{id}:fr": 1})
    return id


def test_one_that_was_received_too_often_is_handled_once_more_with_nothing_beside_it(
    place, rsmq, gate
):
    place.queues("q", "dead")
    worker = place.worker(concurrency=4)
    seen, beside = [], []

    @worker.listener("q", max_retries=2, dead_letter_queue="dead")
    def handle(body, message):
        beside.append(body)
        if body == "often":
            seen.append((message.attempt, list(beside)))
            gate()
        beside.remove(body)

    often(place, rsmq, "q", 5)
    worker.start()
    gate.wait_for(1)
    rsmq.send_messages("q", ["x"] * 3)
    assert place.raw.exists(f"{place.ns}:q:x:alone")
    gate.open()
    until(lambda: worker.numbers.handled == 4)
    until(lambda: not place.raw.exists(f"{place.ns}:q:x:alone"))

    assert seen == [(6, ["often"])]
    assert place.empty("dead")


def test_one_that_was_alone_thrice_and_never_ended_is_a_dead_letter_without_a_call(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker()
    got = []
    worker.listener("q", max_retries=2, dead_letter_queue="dead")(got.append)
    id = often(place, rsmq, "q", 5)
    place.raw.hset(f"{place.ns}:q:x:alone", id, "3:5")
    worker.start()
    until(lambda: worker.numbers.dead == 1)

    assert got == []
    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == (
        "received 6 times, and begun 3 times with nothing beside it; its handler never ended"
    )
    rsmq.send_message("q", "next")
    until(lambda: got == ["next"])
    assert not place.raw.exists(f"{place.ns}:q:x:alone")


def test_one_whose_handler_gives_up_on_its_lost_lease_each_time_is_a_dead_letter(place, rsmq):
    """Nobody else receives it: each time its release succeeds."""
    place.queues("q", "dead")
    worker = place.worker()
    begun = []

    @worker.listener("q", max_retries=1, dead_letter_queue="dead")
    def handle(body, message):
        begun.append(message.attempt)
        message._lease.expires_at = 0  # as after a suspension for longer than vt
        assert message.lease_lost

    rsmq.send_message("q", "x")
    worker.start()
    until(lambda: worker.numbers.dead == 1 or len(begun) > 6)

    assert begun == [1, 2, 3, 4, 5, 6], "max_retries + 5 is what the README promises"
    assert "its handler never ended" in rsmq.peek_messages("dead")[0].reason.text
    assert not place.raw.exists(f"{place.ns}:q:x:alone")


def test_one_that_fails_alone_is_a_dead_letter(place, rsmq):
    place.queues("q", "dead")
    worker = place.worker()

    @worker.listener("q", max_retries=2, dead_letter_queue="dead", batch=3)
    async def handle(bodies):
        raise ValueError(bodies)

    often(place, rsmq, "q", 5)
    worker.start()
    until(lambda: worker.numbers.dead == 1)

    assert rsmq.peek_messages("dead")[0].reason.text == "ValueError on attempt 6, the last"
    until(lambda: not place.raw.exists(f"{place.ns}:q:x:alone"))
