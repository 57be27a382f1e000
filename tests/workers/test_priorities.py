"""Weights, strict priority and levels of the queues of a worker."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rsmq import InvalidFormat, InvalidValue, MissingParameter, level_queue
from rsmq.worker import event_payload
from rsmq.worker.receive import prefetch_plan
from rsmq.worker.run import run_queue
from tests.scale import WAIT_SECONDS
from tests.workers.polling import loop_of, state_of, wait_until


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
    monkeypatch.setattr(run_queue, "_MAX_LEFT_SECONDS", 60.0)
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
        release.wait(WAIT_SECONDS)

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


# Levels.


def add_levels(worker, record, *, is_async=False, **options):
    """Add a listener with three levels that records the queue and the body of each call."""
    options = {"levels": {"critical": 10, "high": 6}, "retry_forever": True, **options}
    if is_async:

        @worker.listener("mail", **options)
        async def handle_async(body, message):
            record((message.queue, body))
    else:

        @worker.listener("mail", **options)
        def handle(body, message):
            record((message.queue, body))


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_levels_are_queues_that_one_handler_listens_to(env, rsmq, is_async):
    got = []
    worker = env.create_worker()
    add_levels(worker, got.append, is_async=is_async, create=True)
    assert worker.queues == ["mail", "mail_critical", "mail_high"]
    with worker:
        assert env.raw.smembers(f"{env.ns}:QUEUES") == {b"mail", b"mail_critical", b"mail_high"}
        for queue in ("mail", level_queue("mail", "critical"), level_queue("mail", "high")):
            rsmq.send_message(queue, f"to {queue}")
        wait_until(lambda: len(got) == 3)
        wait_until(lambda: all(env.is_empty(queue) for queue in worker.queues))

    assert sorted(got) == [(queue, f"to {queue}") for queue in worker.queues]
    assert env.raw.hget(f"{env.ns}:mail_critical:Q", "totalrecv") == b"1"


def test_levels_share_the_calls_by_their_numbers(env, rsmq):
    begun = []
    worker = env.create_worker(concurrency=4)
    add_levels(worker, lambda call: begun.append(call[0]), create=True, weight=4)
    for queue, number in (("mail", 800), ("mail_critical", 1700), ("mail_high", 1100)):
        rsmq.create_queue(queue)
        send_many(rsmq, queue, number)
    worker.start()
    wait_until(lambda: len(begun) >= 3000)
    worker.stop()

    shares = {queue: begun[:3000].count(queue) for queue in worker.queues}
    for queue, number in (("mail", 600), ("mail_critical", 1500), ("mail_high", 900)):
        assert abs(shares[queue] - number) <= 150, shares


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_levels_of_a_strict_worker_go_by_their_numbers(env, rsmq, is_async):
    begun = []
    worker = env.create_worker(concurrency=1, strict_priority=True)
    add_levels(worker, lambda call: begun.append(call[0]), is_async=is_async, create=True)
    for queue in worker.queues:
        rsmq.create_queue(queue)
        send_many(rsmq, queue, 50)
    worker.run(until_empty=True)

    assert begun == ["mail_critical"] * 50 + ["mail_high"] * 50 + ["mail"] * 50


def test_priorities_count_before_levels_in_a_strict_worker(env, rsmq):
    begun = []
    worker = env.create_worker(concurrency=1, strict_priority=True)
    add_levels(worker, lambda call: begun.append(call[0]), create=True)
    add_handler(worker, "first", begun.append, is_async=False, priority=1, create=True)
    add_handler(worker, "last", begun.append, is_async=False, priority=-1, weight=100, create=True)
    for queue in worker.queues:
        rsmq.create_queue(queue)
        send_many(rsmq, queue, 2)
    worker.run(until_empty=True)

    assert begun[::2] == ["first", "mail_critical", "mail_high", "mail", "last"]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_concurrency_limits_the_levels_together(env, rsmq, is_async):
    running, counts, release = set(), [], threading.Event()
    worker = env.create_worker(concurrency=8)
    options = {"levels": {"high": 5}, "concurrency": 2, "create": True, "retry_forever": True}

    def begin(message):
        running.add(message.id)
        counts.append(len(running))

    if is_async:

        @worker.listener("mail", **options)
        async def handle_async(body, message):
            begin(message)
            while not release.is_set():
                await asyncio.sleep(0.002)
            running.discard(message.id)
    else:

        @worker.listener("mail", **options)
        def handle(body, message):
            begin(message)
            release.wait(WAIT_SECONDS)
            running.discard(message.id)

    with worker:
        for queue in worker.queues:
            send_many(rsmq, queue, 8)
        wait_until(lambda: len(running) == 2)
        assert state_of(worker).running == 2
        release.set()
        wait_until(lambda: worker.numbers.handled == 16)

    assert max(counts) == 2


def test_dead_letters_of_levels_go_back_to_their_queues(env, rsmq):
    worker = env.create_worker()

    @worker.listener(
        "mail", levels={"critical": 10}, max_retries=0, dead_letter_queue="mail-dead", create=True
    )
    def handle(body):
        raise ValueError(body)

    with worker:
        rsmq.send_message("mail_critical", "x")
        wait_until(lambda: rsmq.peek_messages("mail-dead"))
    assert rsmq.peek_messages("mail-dead")[0].reason.queue == "mail_critical"
    rsmq.redrive_messages("mail-dead")

    assert [each.body for each in rsmq.peek_messages("mail_critical")] == ["x"]


def test_a_router_has_levels_too(env, rsmq):
    got = []
    worker = env.create_worker()
    router = worker.router(
        "mail", by=event_payload, levels={"critical": 10}, create=True, retry_forever=True
    )
    router.on("paid")(lambda payload, message: got.append((message.queue, payload)))
    with worker:
        rsmq.send_message("mail_critical", "paid:17")
        wait_until(lambda: got)

    assert got == [("mail_critical", "17")]


@pytest.mark.parametrize(
    ("levels", "item"),
    [
        ({}, "levels"),
        (["critical"], "levels"),
        ({"default": 5}, "level"),
        ({"very_high": 5}, "level"),
        ({"": 5}, "level"),
        ({5: 5}, "level"),
        ({"x" * 41: 5}, "level"),
        ({"dead": 5}, "levels"),
        ({"taken": 5}, "queue"),
        ({"critical": 0}, "level critical"),
        ({"critical": 101}, "level critical"),
        ({"critical": "5"}, "level critical"),
    ],
)
def test_levels_that_are_invalid_are_refused(env, levels, item):
    worker = env.create_worker()
    worker.listener("mail_taken")(print)
    with pytest.raises((InvalidFormat, InvalidValue), match=f"(?i)invalid {item} |{item} must be"):
        worker.listener("mail", levels=levels, dead_letter_queue="mail_dead")(print)

    assert worker.queues == ["mail_taken"]


def test_the_queue_of_a_level_has_a_name_that_node_allows():
    assert level_queue("m" * 153, "urgent") == "m" * 153 + "_urgent"
    with pytest.raises(InvalidFormat, match="160 characters"):
        level_queue("m" * 154, "urgent")
    with pytest.raises(MissingParameter):
        level_queue("", "urgent")
