"""Weights and strict priority of the queues of a worker."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rsmq import InvalidFormat, InvalidValue
from rsmq.worker.receive import prefetch_plan
from tests.workers.polling import loop_of, wait_until


def add_handler(worker, queue, record, *, is_async, seconds=0.0, **options):
    """Add a listener that records the name of its queue for each call that begins."""
    options = {"retry_forever": True, **options}
    if is_async:

        @worker.listener(queue, **options)
        async def handle_async(body):
            record(queue)
            if seconds:
                await asyncio.sleep(seconds)
    else:

        @worker.listener(queue, **options)
        def handle(body):
            record(queue)
            if seconds:
                time.sleep(seconds)


def send_many(rsmq, queue, number):
    for at in range(0, number, 5000):
        rsmq.send_messages(queue, ["x"] * min(5000, number - at))


KINDS = [(False, False), (True, True), (False, True)]


@pytest.mark.parametrize(
    ("kinds", "seconds"),
    [(KINDS[0], (0, 0)), (KINDS[1], (0.0002, 0)), (KINDS[2], (0, 0))],
    ids=["plain", "async of different durations", "mixed"],
)
def test_shares_of_calls_follow_the_weights(env, rsmq, kinds, seconds):
    begun, calls = [], 10_000
    env.create_queues("a", "b")
    worker = env.create_worker(concurrency=4)
    for queue, weight, is_async, duration in zip("ab", (3, 1), kinds, seconds, strict=True):
        add_handler(worker, queue, begun.append, is_async=is_async, seconds=duration, weight=weight)
    send_many(rsmq, "a", 8500)
    send_many(rsmq, "b", 3500)  # neither is empty before 10,000 calls have begun
    worker.start()
    wait_until(lambda: len(begun) >= calls)
    worker.stop()

    assert 0.70 * calls <= begun[:calls].count("a") <= 0.80 * calls
    # The smaller share too is right within a twentieth of itself.
    assert 0.95 * calls / 4 <= begun[:calls].count("b") <= 1.05 * calls / 4


def test_a_queue_without_messages_gives_its_share_away_and_saves_nothing(env, rsmq):
    begun = []
    env.create_queues("heavy", "light")
    worker = env.create_worker(concurrency=1)
    for queue, weight in (("heavy", 10), ("light", 1)):
        add_handler(worker, queue, begun.append, is_async=False, weight=weight)
    send_many(rsmq, "light", 300)
    worker.start()
    wait_until(lambda: len(begun) >= 300)
    send_many(rsmq, "heavy", 1500)  # it would be owed 3,000 calls
    send_many(rsmq, "light", 300)
    wait_until(lambda: len(begun) >= 1500)
    worker.stop()
    of_heavy = [at for at, queue in enumerate(begun) if queue == "heavy"]

    # Of 1,100 calls from the first one on, a tenth are the other queue's.
    assert begun[:300].count("light") == 300
    assert 60 <= begun[of_heavy[0] :][:1100].count("light") <= 150


def test_equal_weights_keep_the_order_of_before(env):
    """The run queue without shares: nothing is paid for them."""
    env.create_queues("a", "b", "c")
    worker = env.create_worker()
    for queue, options in (("a", {"weight": 7}), ("b", {"weight": 7}), ("c", {"priority": 1})):
        add_handler(worker, queue, lambda _: None, is_async=False, **options)
    worker.start()

    assert loop_of(worker).run_queue.shares is None


@pytest.mark.parametrize("kinds", KINDS, ids=["plain", "async", "mixed"])
def test_a_strict_worker_begins_nothing_of_a_lower_priority_before_a_higher(
    env, rsmq, monkeypatch, kinds
):
    monkeypatch.setattr(prefetch_plan, "STARVATION_SECONDS", 0.0)
    begun = []
    env.create_queues("low", "high")
    worker = env.create_worker(concurrency=1, strict_priority=True)
    for queue, priority, is_async in zip(("low", "high"), (0, 1), kinds, strict=True):
        add_handler(worker, queue, begun.append, is_async=is_async, priority=priority)
    send_many(rsmq, "low", 300)
    send_many(rsmq, "high", 1500)
    worker.start()
    wait_until(lambda: len(begun) == 1800)

    assert begun == ["high"] * 1500 + ["low"] * 300


def test_several_slots_of_a_strict_worker_begin_the_higher_priority_first(env, rsmq, monkeypatch):
    monkeypatch.setattr(prefetch_plan, "STARVATION_SECONDS", 0.0)
    begun = []
    env.create_queues("low", "high")
    worker = env.create_worker(concurrency=8, strict_priority=True)
    for queue, priority in (("low", 0), ("high", 1)):
        add_handler(worker, queue, begun.append, is_async=False, seconds=0.002, priority=priority)
    send_many(rsmq, "low", 50)
    send_many(rsmq, "high", 300)
    worker.start()
    wait_until(lambda: len(begun) == 350)

    # A thread may record its call after seven later ones have recorded theirs.
    assert begun[:300].count("low") <= 7


def test_a_strict_queue_at_its_own_concurrency_lets_others_begin(env, rsmq):
    begun, release = [], threading.Event()
    env.create_queues("low", "high")
    worker = env.create_worker(concurrency=2, strict_priority=True)

    @worker.listener("high", priority=1, concurrency=1, retry_forever=True)
    def high(body):
        begun.append("high")
        release.wait(20)

    add_handler(worker, "low", begun.append, is_async=False)
    send_many(rsmq, "high", 2)
    send_many(rsmq, "low", 2)
    worker.start()
    wait_until(lambda: sorted(begun) == ["high", "low", "low"])
    release.set()
    wait_until(lambda: len(begun) == 4)


@pytest.mark.parametrize("weight", [0, 101, -1, 10**9])
def test_a_weight_out_of_range_is_refused(env, weight):
    with pytest.raises(InvalidValue, match=f"weight.*{weight}"):
        env.create_worker().listener("q", weight=weight)(print)


@pytest.mark.parametrize("weight", [1.5, "3", None, True])
def test_a_weight_that_is_no_whole_number_is_refused(env, weight):
    with pytest.raises((InvalidFormat, InvalidValue), match="weight"):
        env.create_worker().listener("q", weight=weight)(print)
