"""SIGTERM at random points: running handlers finish, other messages are due at once, in order."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.scale import WAIT_SECONDS, scaled
from tests.workers.processes.conftest import (
    assert_nothing_left,
    fill,
    now_ms,
    receive_count,
    scores,
    wait_until,
)

ROUNDS = scaled(5, 300)


def receive_counts(raw, ns, queue, ids):
    return {id: receive_count(raw, ns, queue, id) for id in ids}


def test_sigterm_finishes_running_handlers_and_releases_other_messages(
    ns, rsmq, raw, start_program
):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"RSMQ_SEED={seed}")
    chance = random.Random(seed)
    queues = "threads", "tasks"
    sent = {
        queue: fill(
            rsmq,
            queue,
            [
                {"n": n, "do": "sleep", "for": chance.choice([0, 0.01, 0.2])}
                for n in range(40 * ROUNDS)
            ],
        )
        for queue in queues
    }
    handled = {}
    for _ in range(ROUNDS):
        one = start_program(
            "one",
            {queue: {"vt": 300, "is_async": queue == "tasks"} for queue in queues},
            concurrency=5,
            grace=60,
        )
        one.wait_for("started")
        time.sleep(chance.uniform(0, 0.6))
        before = now_ms(raw)

        assert one.stop(60) == 0, one
        begun = {(event.id, event.count) for event in one.events("begin")}
        ended = {(event.id, event.count) for event in one.events("end")}
        assert begun == ended
        assert not handled.keys() & {id for id, _ in ended}
        handled.update(ended)
        for queue in queues:
            left = scores(raw, ns, queue)
            assert list(left) == [id for id in sent[queue] if id in left]
            assert all(due <= before for due in left.values())
            assert not left.keys() & handled.keys()
        assert raw.keys(f"{ns}:x:held:*") == []
    for queue in queues:
        # Every receive is counted, of remaining and of deleted messages.
        left = receive_counts(raw, ns, queue, scores(raw, ns, queue))
        done = [handled[id] for id in sent[queue] if id in handled]
        received = rsmq.get_queue_attributes(queue).total_received
        assert sum(left.values()) + sum(done) == received
    last = start_program("one", {queue: {"is_async": queue == "tasks"} for queue in queues})
    wait_until(lambda: not any(raw.zcard(f"{ns}:{queue}") for queue in queues))
    assert last.stop() == 0
    rest = [event.id for event in last.events("end")]

    assert sorted([*handled, *rest]) == sorted(id for ids in sent.values() for id in ids)
    assert_nothing_left(raw, ns, *queues)


@pytest.mark.parametrize("is_async", [False, True])
def test_messages_of_handlers_that_exceed_the_grace_period_are_released(
    ns, rsmq, raw, start_program, is_async
):
    ids = fill(rsmq, "q", [{"n": n, "do": "watch", "for": 60} for n in range(6)])
    one = start_program("one", {"q": {"vt": 300, "is_async": is_async}}, concurrency=4, grace=0.5)
    one.wait_for("begin", 4)
    sent_ms = now_ms(raw)

    assert one.stop() == 0

    left = scores(raw, ns, "q")
    assert list(left) == ids
    assert max(left.values()) <= sent_ms
    assert list(receive_counts(raw, ns, "q", ids).values()) == [1, 1, 1, 1, 0, 0]
    assert len(one.events("lost")) == 4
    if is_async:
        assert len(one.events("cancelled")) == 4
    assert raw.keys(f"{ns}:x:held:*") == []
    assert "releases 4 messages" in one.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_the_worker_at_once(ns, rsmq, raw, start_program, number):
    ids = fill(rsmq, "q", [{"n": n, "do": "sleep", "for": 60} for n in range(3)])
    one = start_program("one", {"q": {"vt": 300}}, grace=60)
    one.wait_for("begin", 3)
    one.signal(number)
    wait_until(lambda: "stops, by" in one.log())
    assert one.process.poll() is None

    def signal_again():  # two signals in quick succession count as one
        one.signal(number)
        return one.process.poll() is not None

    wait_until(signal_again)
    assert one.wait() == 128 + number
    after = start_program("one", {"q": {"vt": 300}}, concurrency=3)
    again = after.wait_for("begin", 3)
    assert {(event.id, event.count) for event in again} == {(id, 2) for id in ids}


@pytest.mark.parametrize(
    "order", [(signal.SIGTERM, signal.SIGCONT), (signal.SIGCONT, signal.SIGTERM)]
)
def test_sigterm_at_the_end_of_a_suspension_stops_the_worker(ns, rsmq, raw, start_program, order):
    """The system may deliver such a signal to another thread than the sleeping main thread."""
    rsmq.create_queue("q")
    programs = [start_program(f"w{number}", {"q": {}}) for number in range(4)]
    for each in programs:
        each.wait_for("started")
    time.sleep(1)
    for each in programs:
        each.signal(signal.SIGSTOP)
    time.sleep(1.5)
    for each in programs:
        for number in order:
            each.signal(number)
    assert [each.wait(WAIT_SECONDS) for each in programs] == [0] * len(programs)


def test_sigterm_while_messages_wait_for_quarantine(ns, rsmq, raw, start_program):
    """They are released, and are not treated as poison messages afterwards."""
    rsmq.create_queue("dead")
    ids = fill(rsmq, "q", [{"n": n, "do": "sleep", "for": 0.3} for n in range(4)])
    for _ in range(3):  # runs that are interrupted add no attempts
        rsmq.receive_messages("q", 4, vt=0)
    listeners = {"q": {"vt": 300, "max_retries": 0, "dead_letter_queue": "dead"}}
    for grace in (0, 5, 0, 5, 0):
        one = start_program("one", listeners, grace=grace)
        wait_until(lambda: one.events("begin") or not raw.zcard(f"{ns}:q"))  # noqa: B023
        assert one.stop() == 0
        assert raw.keys(f"{ns}:q:x:alone") == []
    last = start_program("one", listeners)
    wait_until(lambda: not raw.zcard(f"{ns}:q"))
    assert last.stop() == 0

    assert rsmq.peek_messages("dead") == []
    assert len(ids) == 4
    assert_nothing_left(raw, ns, "q")


def test_sigterm_while_redis_is_away(ns, rsmq, raw, start_program, own_server):
    """It ends within the grace period and a call's timeout; its messages wait for its successor."""
    with own_server.client(ns) as away:
        [id] = fill(away, "q", [{"n": 0, "do": "watch", "for": 60}])
    listeners = {"q": {"vt": 300}}
    one = start_program("one", listeners, grace=0.5, url=own_server.url)
    one.wait_for("begin")
    own_server.kill()
    begin = time.monotonic()

    assert one.stop(60) == 0
    # The time is what the test is about: the grace period is 0.5 seconds, and a call to a server
    # that does not answer takes 5.
    assert time.monotonic() - begin < 40
    assert "could not release its messages" in one.log()
    own_server.start()
    again = start_program("one", listeners, url=own_server.url).wait_for("begin")
    assert [(event.id, event.count) for event in again] == [(id, 2)]
