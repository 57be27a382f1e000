"""Leases: extended while the handler runs, and lost when another consumer receives the message."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from contextlib import suppress

import pytest

from rsmq.worker import HandlerTimedOut, Middleware
from rsmq.worker.loop import heartbeat
from rsmq.worker.run import quarantine
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


class LongHandler:
    """A handler that runs until the test lets it return, or until its lease is lost."""

    def __init__(self):
        self.messages = []
        self.cancelled = []
        self.ended = 0
        self.may_return = threading.Event()

    def handle(self, body, message):
        self.messages.append(message)
        while not self.may_return.is_set() and not message.lease_lost:
            time.sleep(0.002)
        self.ended += 1

    async def handle_async(self, body, message):
        self.messages.append(message)
        try:
            while not self.may_return.is_set():
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.cancelled.append(message.id)
            raise
        finally:
            self.ended += 1


@pytest.fixture
def long_handler():
    long_handler = LongHandler()
    yield long_handler
    long_handler.may_return.set()


#: Visibility timeout, seconds: a lease outlasts a pause of a second.
VT = 1.5

KINDS = pytest.mark.parametrize("kind", ["handle", "handle_async"])


@KINDS
def test_message_stays_hidden_while_its_handler_runs(env, rsmq, long_handler, kind):
    env.create_queues("q")
    worker = env.create_worker(name="w")
    worker.listener("q", vt=VT)(getattr(long_handler, kind))
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: long_handler.messages)
    deadline = time.monotonic() + 1.3 * VT
    remaining_seconds = []
    while time.monotonic() < deadline:
        assert rsmq.receive_message("q") is None
        remaining_seconds.append(env.due_in("q", id))
        time.sleep(0.01)
    long_handler.may_return.set()
    wait_until(lambda: env.is_empty("q"))

    assert max(remaining_seconds) <= VT + 0.05
    assert not long_handler.messages[0].lease_lost
    assert long_handler.messages[0].receive_count == 1
    wait_until(lambda: worker.numbers.handled == 1)
    assert worker.numbers.lost == 0


@KINDS
def test_all_messages_of_a_batch_are_extended(env, rsmq, long_handler, kind):
    env.create_queues("q")
    worker = env.create_worker()
    handle = getattr(long_handler, kind)
    if kind == "handle":
        worker.listener("q", vt=VT, batch=5)(lambda bodies, messages: handle("", messages[0]))
    else:

        @worker.listener("q", vt=VT, batch=5)
        async def later(bodies, messages):
            await handle("", messages[0])

    rsmq.send_messages("q", ["x"] * 5)
    worker.start()
    wait_until(lambda: long_handler.messages)
    deadline = time.monotonic() + 1.3 * VT
    while time.monotonic() < deadline:
        assert rsmq.receive_messages("q", 10) == []
        time.sleep(0.01)
    long_handler.may_return.set()

    wait_until(lambda: worker.numbers.handled == 5)


@KINDS
def test_lease_is_lost_when_another_consumer_receives_the_message(
    env, rsmq, long_handler, kind, hook_recorder, caplog
):
    env.create_queues("q")
    worker = env.create_worker(name="w", middleware=[hook_recorder], concurrency=1)
    worker.listener("q", vt=VT)(getattr(long_handler, kind))
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: long_handler.messages)
    # The worker may extend the lease in between.
    other = wait_until(lambda: env.advance_time("q", 30) or rsmq.receive_message("q", vt=60))
    assert (other.id, other.receive_count) == (id, 2)
    wait_until(lambda: long_handler.ended)

    assert long_handler.messages[0].lease_lost
    assert long_handler.cancelled == ([id] if kind == "handle_async" else [])
    worker.stop()
    assert env.fields("q")[id] == b"x"
    assert env.fields("q")[f"{id}:rc"] == b"2"
    assert env.due_in("q", id) > 50
    assert (worker.numbers.lost, worker.numbers.handled, worker.numbers.failed) == (1, 0, 0)
    assert [(message.id, why) for message, why in hook_recorder.calls_of("lease_lost")] == [
        (id, "another consumer has received or deleted it")
    ]
    assert f"q {id}: lease lost: another consumer has received or deleted it" in caplog.text
    assert env.in_flight("w") == {}
    assert rsmq.delete_message(other)


def test_lease_lost_just_before_the_handler_returns_deletes_nothing(env, rsmq, gate):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)
    worker.listener("q", vt=60)(lambda body: gate())
    id = rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    env.advance_time("q", 100)
    other = rsmq.receive_message("q", vt=60)
    gate.open()
    wait_until(lambda: worker.numbers.lost == 1)

    assert other.receive_count == 2
    assert env.fields("q")[id] == b"x"
    assert env.due_in("q", id) > 50
    assert worker.numbers.handled == 0


@pytest.mark.parametrize("ends", ["raises", "dies"])
def test_failure_after_lost_lease_changes_nothing(env, rsmq, gate, ends):
    env.create_queues("q", "dead")
    worker = env.create_worker(concurrency=1)

    @worker.listener(
        "q", vt=60, backoff=500, dead_letter_queue="dead", max_retries=1 if ends == "raises" else 0
    )
    def handle(body):
        gate()
        raise ValueError

    id = rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    env.advance_time("q", 100)
    rsmq.receive_message("q", vt=60)
    gate.open()
    wait_until(lambda: worker.numbers.lost == 1)

    assert 50 < env.due_in("q", id) <= 60
    assert env.is_empty("dead")
    assert (worker.numbers.retried, worker.numbers.dead) == (0, 0)


@KINDS
def test_lease_is_lost_when_another_client_deletes_the_message(env, rsmq, long_handler, kind):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", vt=VT)(getattr(long_handler, kind))
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: long_handler.messages)
    rsmq.delete_message("q", id)
    wait_until(lambda: long_handler.ended)

    assert long_handler.messages[0].lease_lost
    wait_until(lambda: worker.numbers.lost == 1)
    assert worker.numbers.handled == 0
    assert env.is_empty("q")


def test_lost_lease_in_batch_does_not_cancel_the_other_messages(env, rsmq, long_handler):
    env.create_queues("q")
    worker = env.create_worker()
    batch = []

    @worker.listener("q", vt=VT, batch=2)
    async def handle(bodies, messages):
        batch.extend(messages)
        await long_handler.handle_async("", messages[1])

    ids = rsmq.send_messages("q", ["a", "b"])
    worker.start()
    wait_until(lambda: long_handler.messages)
    rsmq.delete_message("q", ids[0])
    wait_until(lambda: batch[0].lease_lost)
    assert not batch[1].lease_lost
    long_handler.may_return.set()
    wait_until(lambda: worker.numbers.handled == 1)

    assert (long_handler.cancelled, worker.numbers.lost) == ([], 1)
    assert env.is_empty("q")


def test_async_handler_over_max_runtime_is_cancelled_and_retried_after_its_back_off(
    env, rsmq, long_handler, hook_recorder, fast_heartbeat, caplog
):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1, middleware=[hook_recorder])
    worker.listener("q", vt=900, max_runtime=0.1, backoff=500)(long_handler.handle_async)
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: long_handler.cancelled == [id])
    wait_until(lambda: "attempt 1 failed, next in 500 s: HandlerTimedOut" in caplog.text)

    assert 450 < env.due_in("q", id) <= 500
    ((_, after, error),) = hook_recorder.calls_of("after_retry")
    assert (after, type(error)) == (500, HandlerTimedOut)
    assert str(error) == "its handler ran for more than 0.1 s"
    assert isinstance(error.__cause__, asyncio.CancelledError)
    wait_until(lambda: (worker.numbers.hung, worker.numbers.failed) == (1, 1))
    assert worker.numbers.lost == 0
    assert hook_recorder.calls_of("lease_lost") == []
    assert "lease lost" not in caplog.text
    assert env.in_flight(worker.name) == {}


def test_async_handler_that_does_not_end_after_its_cancellation_is_abandoned(
    env, rsmq, long_handler, hook_recorder, fast_heartbeat, monkeypatch
):
    monkeypatch.setattr(heartbeat, "_MAX_TASK_END_SECONDS", 0.1)
    env.create_queues("q")
    worker = env.create_worker(concurrency=1, middleware=[hook_recorder])

    @worker.listener("q", vt=900, max_runtime=0.1, backoff=500)
    async def handle(body, message):
        while not long_handler.may_return.is_set():
            with suppress(asyncio.CancelledError):
                await long_handler.handle_async(body, message)

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)

    assert len(long_handler.cancelled) == 1
    assert 850 < env.due_in("q", id) <= 900
    assert len(hook_recorder.calls_of("lease_lost")) == 1
    assert long_handler.messages[0].lease_lost
    assert (worker.numbers.hung, worker.numbers.failed, worker.numbers.lost) == (1, 1, 0)


def test_hanging_thread_occupies_its_slot_only_until_max_runtime(
    env, rsmq, gate, fast_heartbeat, caplog
):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)
    seen = []

    @worker.listener("q", vt=5, max_runtime=0.2, backoff=500)
    def handle(body, message):
        seen.append((body, message))
        if body == "hangs":
            gate()

    rsmq.send_messages("q", ["hangs", "next"])
    began = time.monotonic()
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    # The time is what the test is about. On a busy machine it is longer, and never shorter.
    assert time.monotonic() - began >= 0.2
    assert [body for body, _ in seen] == ["hangs", "next"]
    assert seen[0][1].lease_lost
    assert "lease lost: its handler ran for more than 0.2 s" in caplog.text
    gate.open()
    rsmq.send_message("q", "after")
    wait_until(lambda: worker.numbers.handled == 2)
    wait_until(lambda: gate.passed == 1)

    assert list(env.scores("q")) == [seen[0][1].id]
    assert (worker.numbers.hung, worker.numbers.retried) == (1, 1)


def test_next_attempt_of_hanging_thread_waits_for_the_end_of_its_lease(
    env, rsmq, gate, hook_recorder, fast_heartbeat
):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1, middleware=[hook_recorder])
    worker.listener("q", vt=60, max_runtime=0.05, backoff=0)(lambda body: gate())
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)

    assert [after for _, after, _ in hook_recorder.calls_of("after_retry")] == [60]
    assert 55 < env.due_in("q", id) <= 60
    assert worker.numbers.received == 1


def test_last_attempt_over_max_runtime_is_dead_lettered(env, rsmq, long_handler, fast_heartbeat):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_runtime=0.05, max_retries=0, dead_letter_queue="dead")(
        long_handler.handle
    )
    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)

    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == "HandlerTimedOut on attempt 1, the last"
    assert letter.reason.exception == "HandlerTimedOut: its handler ran for more than 0.05 s"


def test_async_handler_that_swallows_cancellation_does_not_delete(
    env, rsmq, long_handler, fast_heartbeat
):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)

    @worker.listener("q", max_runtime=0.05, backoff=500)
    async def handle(body, message):
        try:
            await long_handler.handle_async(body, message)
        except asyncio.CancelledError:
            return

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)
    wait_until(lambda: long_handler.ended)
    rsmq.send_message("q", "y")
    wait_until(lambda: len(long_handler.messages) == 2)
    long_handler.may_return.set()
    wait_until(lambda: worker.numbers.handled == 1)

    assert list(env.scores("q")) == [id]


# Messages whose receive count exceeds their attempts, with no recorded outcome.


def send_with_receive_count(env, rsmq, queue, count):
    """Send a message with this receive count, and return its id."""
    id = rsmq.send_message(queue, "often")
    first_received_ms = env.raw.time()[0] * 1000
    fields = {f"{id}:rc": count, f"{id}:fr": first_received_ms}
    env.raw.hset(f"{env.ns}:{queue}:Q", mapping=fields)
    return id


def test_message_received_too_often_is_handled_in_quarantine(env, rsmq, gate):
    env.create_queues("q", "dead")
    worker = env.create_worker(concurrency=4)
    seen, running = [], []

    @worker.listener("q", max_retries=2, dead_letter_queue="dead")
    def handle(body, message):
        running.append(body)
        if body == "often":
            seen.append((message.attempt, list(running)))
            gate()
        running.remove(body)

    send_with_receive_count(env, rsmq, "q", 5)
    worker.start()
    gate.wait_for(1)
    rsmq.send_messages("q", ["x"] * 3)
    assert env.raw.exists(f"{env.ns}:q:x:alone")
    gate.open()
    wait_until(lambda: worker.numbers.handled == 4)
    wait_until(lambda: not env.raw.exists(f"{env.ns}:q:x:alone"))

    assert seen == [(6, ["often"])]
    assert env.is_empty("dead")


def test_message_quarantined_three_times_is_dead_lettered_without_a_call(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    got = []
    worker.listener("q", max_retries=2, dead_letter_queue="dead")(got.append)
    id = send_with_receive_count(env, rsmq, "q", 5)
    env.raw.hset(f"{env.ns}:q:x:alone", id, "3:5")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)

    assert got == []
    (letter,) = rsmq.peek_messages("dead")
    assert letter.reason.text == (
        "received 6 times, and begun 3 times in quarantine; in each run its worker died, or could "
        "not extend the visibility timeout, as while a handler keeps the GIL"
    )
    rsmq.send_message("q", "next")
    wait_until(lambda: got == ["next"])
    assert not env.raw.exists(f"{env.ns}:q:x:alone")


def test_message_whose_lease_is_lost_in_every_call_is_dead_lettered(env, rsmq):
    """No other consumer receives it: each release succeeds."""
    env.create_queues("q", "dead")
    worker = env.create_worker()
    begun = []

    @worker.listener("q", max_retries=1, dead_letter_queue="dead")
    def handle(body, message):
        begun.append(message.attempt)
        message._lease.expires_at = 0  # as after a suspension for longer than vt
        assert message.lease_lost

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1 or len(begun) > 6)

    assert begun == [1, 2, 3, 4, 5, 6], "max_retries + 5 is what docs/workers.md promises"
    assert (
        "in each run its worker died, or could not extend"
        in rsmq.peek_messages("dead")[0].reason.text
    )
    assert not env.raw.exists(f"{env.ns}:q:x:alone")


def test_worker_says_that_a_handler_kept_it_from_extending_its_lease(env, rsmq, caplog):
    env.create_queues("q")
    worker = env.create_worker()
    keep_the_gil = ctypes.PyDLL(None).sleep  # a PyDLL does not release it, as a CDLL does

    @worker.listener("q", vt=2, backoff=0)
    def handle(body, message):
        if message.attempt == 1:
            keep_the_gil(3)

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: "could not run for" in caplog.text)
    wait_until(lambda: worker.numbers.handled)

    assert "a handler keeps the GIL, the process was suspended" in caplog.text
    assert f"Calls that had begun: q {id}" in caplog.text


def test_worker_that_was_late_names_calls_whose_leases_were_lost_meanwhile(env, rsmq, gate, caplog):
    class SlowHook(Middleware):
        def lease_lost(self, message, reason):
            time.sleep(1.2)

    env.create_queues("q")
    worker = env.create_worker(middleware=[SlowHook()], concurrency=1)
    worker.listener("q", vt=3)(lambda body: gate())
    id = rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    rsmq.change_message_visibility("q", id, 0)
    assert rsmq.receive_message("q", vt=60).id == id
    wait_until(lambda: "could not run for" in caplog.text)

    assert f"Calls that had begun: q {id}" in caplog.text
    gate.open()


def test_message_that_fails_in_quarantine_is_dead_lettered(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", max_retries=2, dead_letter_queue="dead", batch=3)
    async def handle(bodies):
        raise ValueError(bodies)

    send_with_receive_count(env, rsmq, "q", 5)
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)

    assert rsmq.peek_messages("dead")[0].reason.text == "ValueError on attempt 6, the last"
    wait_until(lambda: not env.raw.exists(f"{env.ns}:q:x:alone"))


def test_long_call_in_quarantine_does_not_stop_other_queues(env, rsmq, gate, monkeypatch):
    monkeypatch.setattr(quarantine, "EXCLUSIVE_SECONDS", 0.2)
    env.create_queues("q", "other", "dead")
    worker = env.create_worker(concurrency=2)
    begun = []

    @worker.listener("q", max_retries=2, dead_letter_queue="dead")
    def handle(body):
        begun.append(body)
        gate()

    worker.listener("other")(begun.append)
    send_with_receive_count(env, rsmq, "q", 5)
    worker.start()
    gate.wait_for(1)
    rsmq.send_message("other", "beside")
    wait_until(lambda: "beside" in begun)
    assert env.raw.exists(f"{env.ns}:q:x:alone"), "it may still crash the worker"
    gate.open()
    wait_until(lambda: not env.raw.exists(f"{env.ns}:q:x:alone"))

    assert env.is_empty("q")


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
def test_call_in_quarantine_waits_for_a_slot_of_its_listener(
    env, rsmq, gate, monkeypatch, is_async
):
    """Meanwhile other listeners make their calls."""
    monkeypatch.setattr(quarantine, "_MAX_WAIT_SECONDS", 0.05)
    env.create_queues("q", "other", "dead")
    worker = env.create_worker(concurrency=4)
    running, most, begun = [], [], []

    def begin(body):
        running.append(body)
        most.append(len(running))

    def handle(body):
        begin(body)
        if body != "warm":
            gate()
        running.remove(body)

    async def handle_async(body):
        begin(body)
        if body != "warm":
            await asyncio.to_thread(gate)
        running.remove(body)

    worker.listener("q", concurrency=1, max_retries=2, dead_letter_queue="dead")(
        handle_async if is_async else handle
    )
    worker.listener("other")(begun.append)
    rsmq.send_messages("q", ["warm", "long"])  # after the first call, both others are prefetched
    send_with_receive_count(env, rsmq, "q", 5)
    worker.start()
    gate.wait_for(1)
    for number in range(30):
        rsmq.send_message("other", str(number))
        wait_until(lambda number=number: len(begun) == number + 1)
        time.sleep(0.005)
    gate.open()
    wait_until(lambda: worker.numbers.handled == 33)

    assert max(most) == 1
    assert env.is_empty("q")


def test_other_calls_start_between_two_in_quarantine(env, rsmq, monkeypatch):
    """Many suspected messages, each with a long call, leave time for other queues."""
    end_exclusivity = quarantine.Quarantine._end_exclusivity
    is_beside = threading.Event()

    def end_and_note(self, executors):
        end_exclusivity(self, executors)
        if self._run_queue.quarantined_job is None:
            is_beside.set()

    monkeypatch.setattr(quarantine, "EXCLUSIVE_SECONDS", 0.5)
    monkeypatch.setattr(quarantine.Quarantine, "_end_exclusivity", end_and_note)
    env.create_queues("q", "other", "dead")
    worker = env.create_worker(concurrency=1)
    begun = []

    @worker.listener("q", max_retries=2, dead_letter_queue="dead")
    def handle(body):
        begun.append(body)
        is_beside.clear()
        assert is_beside.wait(WAIT_SECONDS)

    worker.listener("other", priority=-1)(begun.append)
    for _ in range(3):
        send_with_receive_count(env, rsmq, "q", 5)
    rsmq.send_message("other", "beside")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 4)

    assert "beside" in begun[:-1]


def test_release_of_a_running_call_in_quarantine_is_not_counted(env, rsmq, gate):
    """The worker has stopped, and was not killed. Earlier runs stay counted."""
    env.create_queues("q", "dead")
    id = send_with_receive_count(env, rsmq, "q", 5)
    env.raw.hset(f"{env.ns}:q:x:alone", id, "2:5")
    for runs in range(1, 5):
        worker = env.create_worker()
        worker.listener("q", max_retries=2, dead_letter_queue="dead")(lambda body: gate())
        worker.start()
        gate.wait_for(runs)
        assert env.raw.hget(f"{env.ns}:q:x:alone", id) == f"3:{5 + runs}".encode()
        worker.stop(0)
        assert env.raw.hget(f"{env.ns}:q:x:alone", id) == b"2:0"

    assert env.is_empty("dead")
