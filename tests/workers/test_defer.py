"""Messages that are deferred: neither attempts nor failures, within a limit."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

from rsmq import InvalidFormat, InvalidValue
from rsmq.worker import Defer, Discard, Middleware
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    receive_for_worker,
    settle_messages,
)
from tests.scale import WAIT_SECONDS
from tests.workers.polling import state_of, wait_until


def unbegun(env, queue="q"):
    """Return the record of the receives that are no attempts, by message id, from its raw key."""
    stored = env.raw.hgetall(f"{env.ns}:{queue}:x:unbegun")
    return {id.decode(): int(number) for id, number in stored.items() if id not in (b"", b":")}


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


@pytest.mark.parametrize("kind", ["thread", "task", "batch", "hook", "fail"])
def test_a_deferred_message_has_no_attempt(env, rsmq, kind):
    env.create_queues("q", "dead")
    attempts = []

    def handle(body, message):
        attempts.append((message.receive_count, message.attempt))
        if len(attempts) <= 5 and kind != "hook":
            raise Defer("locked", after=0)

    async def handle_later(body, message):
        handle(body, message)

    def handle_batch(bodies, messages):
        if kind == "batch":
            handle(bodies[0], messages[0])
            return
        try:
            handle(bodies[0], messages[0])
        except Defer as error:
            messages[0].fail(error)

    class Refusing(Middleware):
        def before_handle(self, message):
            if message.receive_count <= 5:
                attempts.append((message.receive_count, message.attempt))
                raise Defer("locked", after=0)

    worker = env.create_worker(middleware=[Refusing()] if kind == "hook" else [])
    batch = 10 if kind in ("batch", "fail") else None
    handler = {"task": handle_later, "batch": handle_batch, "fail": handle_batch}.get(kind, handle)
    worker.listener("q", max_retries=0, dead_letter_queue="dead", batch=batch)(handler)
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)

    assert attempts == [(count, 1) for count in range(1, 7)]
    numbers = worker.numbers
    assert (numbers.deferred, numbers.failed, numbers.retried, numbers.dead) == (5, 0, 0, 0)
    assert (numbers.received, numbers.released, numbers.lost) == (6, 0, 0)
    assert env.is_empty("q")
    assert id not in unbegun(env)


def test_a_deferred_message_is_hidden_and_counted(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(name="w")

    @worker.listener("q", retry_forever=True)
    def handle(body):
        raise Defer(after=500)

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)
    assert 495 < env.due_in("q", id) <= 500
    assert env.fields("q")[f"{id}:rc"] == b"1"
    assert unbegun(env) == {id: 1}
    assert env.in_flight("w") == {}
    env.advance_time("q", 500)
    wait_until(lambda: worker.numbers.deferred == 2)

    assert unbegun(env) == {id: 2}


def test_the_pause_is_the_back_off_unless_it_is_named(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=300)
    def handle(body):
        raise Defer("not now")

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)

    assert 295 < env.due_in("q", id) <= 300


def test_the_back_off_grows_with_each_deferral(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=[100, 200, 300], retry_forever=True)
    def handle(body):
        raise Defer("not now")

    id = rsmq.send_message("q", "x")
    worker.start()
    for number, pause in enumerate([100, 200, 300, 300], 1):
        wait_until(lambda: worker.numbers.deferred == number)  # noqa: B023 - used at once
        assert pause - 50 < env.due_in("q", id) <= pause
        env.advance_time("q", pause)

    wait_until(lambda: unbegun(env) == {id: 5})


@pytest.mark.parametrize(
    ("after", "pause"), [(0, 0.1), (0.01, 0.1), (0.2, 0.2), (None, 0.1), (604_800, 604_800)]
)
def test_a_pause_has_a_minimum(env, rsmq, hook_recorder, after, pause):
    env.create_queues("q")
    worker = env.create_worker(middleware=[hook_recorder])

    @worker.listener("q", backoff=0)
    def handle(body, message):
        if message.receive_count == 1:
            raise Defer(after=after)

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)

    [[_, seconds, _]] = hook_recorder.calls_of("before_defer")
    assert seconds == pause


def test_a_back_off_of_more_than_a_week_is_a_week(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=9_999_999)
    def handle(body):
        raise Defer

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)

    assert 604_700 < env.due_in("q", id) <= 604_800


def test_jobs_behind_a_lock_are_all_handled(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker(concurrency=8)
    lock, handled = threading.Lock(), []

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(body):
        if not lock.acquire(blocking=False):
            raise Defer("another job has the lock", after=0.01)
        try:
            threading.Event().wait(0.02)
            handled.append(body)
        finally:
            lock.release()

    bodies = [str(number) for number in range(10)]
    rsmq.send_messages("q", bodies)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 10)

    assert sorted(handled) == bodies
    assert env.is_empty("dead")


def test_receives_that_were_deferred_do_not_count_for_the_policy_of_the_queue(env, rsmq):
    env.create_queues("q", "dead")
    rsmq.set_dead_letter_policy("q", "dead", 2)
    worker = env.create_worker()

    @worker.listener("q")
    def handle(body):
        raise Defer(after=500)

    id = rsmq.send_message("q", "x")
    worker.start()
    for number in range(1, 5):
        wait_until(lambda: worker.numbers.deferred == number)  # noqa: B023 - used at once
        env.advance_time("q", 500)
    worker.stop()
    env.advance_time("q", 500)

    for _ in range(2):  # two receives are left
        assert rsmq.receive_message("q", vt=0).id == id
    assert rsmq.receive_message("q", vt=0) is None
    assert list(env.scores("dead")) == [id]


def read_deferrals(reason):
    """Return the number of deferrals and the time in seconds that a reason names."""
    found = re.fullmatch(r"deferred too often, (\d+) times in (\d+) s: locked", reason.text)
    return int(found[1]), int(found[2])


@pytest.mark.parametrize(
    ("options", "deferrals", "age"),
    [({"max_deferrals": 2}, 2, 0), ({"max_deferred_seconds": 60}, 20, 100)],
)
def test_a_message_that_is_deferred_too_often_fails(env, rsmq, caplog, options, deferrals, age):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", dead_letter_queue="dead", **options)
    def handle(body):
        raise Defer("locked", after=500)

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)
    if "max_deferred_seconds" in options:
        first = int(env.raw.hget(f"{env.ns}:q:Q", f"{id}:fr"))
        env.raw.hset(f"{env.ns}:q:Q", f"{id}:fr", first - 100_000)
        env.raw.hset(f"{env.ns}:q:Q", f"{id}:rc", 20)
        env.raw.hset(f"{env.ns}:q:x:unbegun", id, 20)
    else:
        env.advance_time("q", 500)
        wait_until(lambda: worker.numbers.deferred == 2)
    env.advance_time("q", 500)
    wait_until(lambda: worker.numbers.dead == 1)

    [letter] = rsmq.peek_messages("dead")
    assert letter.id == id
    number, seconds = read_deferrals(letter.reason)
    assert number == deferrals
    assert seconds >= age
    assert letter.reason.attempts == 1
    assert worker.numbers.failed == 1
    wait_until(lambda: any(record.levelname == "ERROR" for record in caplog.records))


def test_the_default_limits_are_a_week_and_ten_thousand_times(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(print)
    worker.start()
    policy = state_of(worker).queues["q"].policy

    assert (policy.max_deferrals, policy.max_deferred_seconds) == (10_000, 7 * 86_400)
    assert policy.may_defer(9_999, 7 * 86_400 - 1)
    assert not policy.may_defer(10_000, 0)
    assert not policy.may_defer(1, 7 * 86_400)  # an interrupted run
    assert policy.may_defer(19, 7 * 86_400, free=20)
    assert not policy.may_defer(20, 7 * 86_400, free=20)
    assert policy.may_defer(0, 30 * 86_400)  # it was retried before


@pytest.mark.parametrize("deploys", [0, 3])
def test_an_old_message_is_not_given_up_by_its_first_deferrals(env, rsmq, deploys):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", dead_letter_queue="dead", max_retries=100)
    def handle(body):
        raise Defer("locked", after=500)

    id = rsmq.send_message("q", "x")
    for _ in range(10):  # it has failed, or was released by deploys
        rsmq.receive_message("q", vt=0)
    first = int(env.raw.hget(f"{env.ns}:q:Q", f"{id}:fr"))
    env.raw.hset(f"{env.ns}:q:Q", f"{id}:fr", first - 8 * 86_400_000)
    if deploys:
        created = env.raw.hget(f"{env.ns}:q:Q", "created")
        env.raw.hset(f"{env.ns}:q:x:unbegun", mapping={"": created, id: deploys})
    worker.start()
    for number in range(1, 21 - deploys):
        wait_until(lambda: worker.numbers.deferred == number)  # noqa: B023 - used at once
        assert unbegun(env) == {id: deploys + number}
        env.advance_time("q", 500)
    wait_until(lambda: worker.numbers.dead == 1)

    [letter] = rsmq.peek_messages("dead")
    number, seconds = read_deferrals(letter.reason)
    assert number == 20
    assert seconds >= 8 * 86_400


def test_deferrals_are_not_logged_as_failures(env, rsmq, caplog):
    caplog.set_level("DEBUG", "rsmq.worker")
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", retry_forever=True)
    def handle(body):
        raise Defer("another job\nhas the lock", after=500)

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)
    worker.stop()

    lines = [(each.levelname, each.getMessage()) for each in caplog.records if id in each.message]
    assert lines == [("INFO", f"q {id}: deferred, next in 500 s: Defer: another job has the lock")]


def test_hooks_of_a_deferred_message(env, rsmq, hook_recorder):
    env.create_queues("q")
    worker = env.create_worker(middleware=[hook_recorder])

    @worker.listener("q", backoff=0)
    def handle(body):
        raise Defer("locked", after=500)

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)
    worker.stop()

    names = [name for name in hook_recorder.names() if name != "before_receive"]
    assert names == [
        "before_start", "after_receive", "before_handle", "after_handle", "before_defer",
        "after_defer", "before_stop", "after_stop",
    ]  # fmt: skip
    for hook in ("before_defer", "after_defer"):
        [[message, after, error]] = hook_recorder.calls_of(hook)
        assert (message.body, after, type(error), str(error)) == ("x", 500, Defer, "locked")


def test_a_run_until_empty_waits_for_deferred_messages(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    calls = []

    @worker.listener("q")
    def handle(body):
        calls.append(body)
        if len(calls) < 3:
            raise Defer(after=0.1)

    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS, raise_errors=True)

    assert len(calls) == 3
    assert env.is_empty("q")


def test_a_deferral_in_quarantine_is_a_known_outcome(env, rsmq, caplog):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    attempts = []

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(body, message):
        attempts.append(message.attempt)
        if len(attempts) < 6:
            raise Defer(after=0)
        raise Discard

    rsmq.send_message("q", "x")
    for _ in range(4):
        rsmq.receive_message("q", vt=0)
    worker.start()
    wait_until(lambda: worker.numbers.dropped == 1)

    assert attempts == [5] * 6
    assert env.raw.hlen(f"{env.ns}:q:x:alone") == 0


def test_a_repeated_deferral_counts_once(env, rsmq):
    """The write is repeated after a lost reply."""
    env.create_queues("q")
    id = rsmq.send_message("q", "x")
    worker, keys = Identity(rsmq.namespace, "w", "token"), rsmq.namespace.queue("q")
    rsmq.run(receive_for_worker(worker, [ReceiveRequest(keys, 30_000, 1, 0, 1)], 1))
    group = Settlement(keys, "defer", 1, [(id, 500_000, 1)])
    for _ in range(2):
        assert rsmq.run(settle_messages(worker, [group])) == b"1"

    assert unbegun(env) == {id: 1}
    assert env.in_flight("w") == {}
    assert 495 < env.due_in("q", id) <= 500


@pytest.mark.parametrize("after", [-1, 604_801, "x"])
def test_a_pause_out_of_range_is_refused(after):
    with pytest.raises(InvalidValue):
        Defer(after=after)


def test_a_number_as_reason_is_refused():
    with pytest.raises(InvalidFormat) as caught:
        Defer(30)
    assert caught.value.hint == "Use Defer(after=30)."


def test_a_pause_that_was_changed_is_replaced_by_the_back_off(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=300)
    async def handle(body):
        error = Defer(after=1)
        error.after = "soon"
        await asyncio.sleep(0)
        raise error

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)

    assert 295 < env.due_in("q", id) <= 300
