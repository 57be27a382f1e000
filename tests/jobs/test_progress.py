"""Handlers report their progress, which is written with the extension of their leases."""

from __future__ import annotations

import threading
import time

import pytest

from rsmq.errors import InvalidFormat, InvalidValue
from rsmq.jobs import ReportedProgress
from rsmq.wire.jobs import encode_progress
from rsmq.worker.state import lane
from rsmq.worker.state.jobs import TrackedJob
from rsmq.worker.state.lane import Lane
from tests.scale import WAIT_SECONDS
from tests.workers.polling import loop_of, wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def test_progress_is_written_by_the_extension_and_with_the_outcome(env, rsmq, monkeypatch):
    monkeypatch.setattr(lane, "MIN_PROGRESS_SECONDS", 0.1)
    env.create_queues("q")
    go = threading.Event()

    def handle(body, message):
        message.set_progress(1)
        message.set_progress(2.5, 10, "x" * 501)
        go.wait(WAIT_SECONDS)
        message.set_progress(10, 10, "all\n")
        return "done"

    worker = env.create_worker()
    worker.listener("q", track=True)(handle)
    worker.start()
    id = rsmq.send_message("q", "x")
    job = rsmq.job("q", id)
    wait_until(lambda: job.progress() is not None)
    assert job.progress() == ReportedProgress(2.5, 10, "x" * 500)
    record = env.record(id)
    assert (record["done"], record["total"], record["state"]) == ("2.5", "10", "running")
    go.set()
    assert job.result(WAIT_SECONDS) == "done"
    assert job.progress() == ReportedProgress(10, 10, "all\n")


def test_a_new_attempt_begins_without_progress(env, rsmq):
    env.create_queues("q")
    seen = []

    async def handle(body, message):
        seen.append(rsmq.job("q", message.id).progress())
        if message.attempt == 1:
            message.set_progress(7)
            raise ValueError("again")

    worker = env.create_worker()
    worker.listener("q", track=True, backoff=500)(handle)
    worker.start()
    id = rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.retried == 1)
    assert rsmq.job("q", id).progress() == ReportedProgress(7)
    env.advance_time("q", 500)
    assert rsmq.job("q", id).result(WAIT_SECONDS) is None
    assert seen == [None, None]
    assert rsmq.job("q", id).progress() is None


@pytest.mark.parametrize("number", [-1, 2**53, float("nan"), True, "3", None])
def test_progress_that_is_no_number_is_refused(number):
    with pytest.raises(InvalidValue, match="done must be between 0 and"):
        encode_progress(number, None, "")


def test_other_values_that_do_not_fit_are_refused():
    with pytest.raises(InvalidValue, match="total"):
        encode_progress(1, -1, "")
    with pytest.raises(InvalidFormat, match="text"):
        encode_progress(1, 2, b"x")


def test_leases_of_tracked_messages_are_extended_every_two_seconds_at_least(env):
    env.create_queues("q", "short", "untracked")
    worker = env.create_worker()
    worker.listener("q", track=True, vt=30)(print)
    worker.listener("short", track=True, vt=3)(print)
    worker.listener("untracked", vt=30)(print)
    worker.start()
    lanes = {each.name: each for each in loop_of(worker)._lanes}
    found = {name: lane.renew_seconds for name, lane in lanes.items()}
    assert found == {"q": 2.0, "short": 1.0, "untracked": 10.0}
    # Those that were received at nearly the same time are extended together.
    assert {lanes["q"].renewal_after(at) for at in (100.0, 100.1, 100.24)} == {102.0}
    assert lanes["short"].renewal_after(100.1) == 101.0
    assert lanes["untracked"].renewal_after(100.1) == 110.1


def test_leases_with_progress_are_extended_together_whenever_it_is_reported(env):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", track=True, vt=30)(print)
    worker.start()
    [of_q] = loop_of(worker)._lanes
    # No loop extends it.
    lane = Lane(of_q.listener, of_q.keys, of_q.vt, of_q.codec, 1, of_q.policy)
    before = time.monotonic()
    jobs = [TrackedJob(lane, str(n), b"", 1, None, before - 1.2 - n / 100) for n in range(9)]
    lane.add(jobs, before + 60)
    for job in jobs:
        lane.renew_lease_soon(job)
        assert job.renew_at >= before
        assert job.renew_at % 0.25 == 0
