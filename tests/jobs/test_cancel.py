"""Jobs are cancelled: at once, or by the worker that has the message."""

from __future__ import annotations

import asyncio

import pytest

from rsmq import AsyncRSMQ, Cells
from rsmq.errors import JobCancelled, JobNotFound

HOUR, WEEK = 3600, 604_800


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def assert_ttl(env, id, seconds):
    assert seconds - 60 < env.ttl(id) <= seconds


@pytest.mark.parametrize("track", [True, False])
@pytest.mark.parametrize("delay", [0, 500])
def test_a_job_that_waits_is_cancelled_at_once(env, rsmq, track, delay):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=track, delay=delay)
    job = rsmq.job("q", id)
    assert job.cancel() == "cancelled"
    assert env.is_empty("q")
    record = env.record(id)
    assert record.pop("ended").isdigit()
    assert record == {"state": "cancelled"}
    assert_ttl(env, id, HOUR)
    with pytest.raises(JobCancelled):
        job.result(0)
    assert job.cancel() == "cancelled"


def test_a_job_in_flight_is_asked_to_be_cancelled(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    message = rsmq.receive_message("q", vt=500)  # as a client in another language does
    job = rsmq.job("q", id)
    assert job.cancel() == "requested"
    record = env.record(id)
    assert record.pop("cancel").isdigit()
    assert record == {"state": "running", "receives": "1"}
    assert_ttl(env, id, WEEK + 500)
    assert (job.status().state, job.status().is_cancelling) == ("running", True)
    assert job.cancel() == "requested"

    rsmq.release_messages([message])
    assert job.cancel() == "cancelled"
    assert env.is_empty("q")
    assert "cancel" not in env.record(id)
    assert not job.status().is_cancelling


def test_the_cancel_of_a_job_that_has_ended_changes_nothing(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    env.raw.hset(env.key(id), mapping={"state": "succeeded", "result": "1", "ended": "5"})
    before = env.record(id)
    assert rsmq.job("q", id).cancel() == "ended"
    assert env.record(id) == before

    gone = rsmq.send_message("q", "x", track=True)
    rsmq.delete_message("q", gone)
    assert rsmq.job("q", gone).cancel() == "ended"
    assert rsmq.job("q", gone).status().state == "expired"
    with pytest.raises(JobNotFound):
        rsmq.job("q", "1" * 32).cancel()


def test_a_job_of_asyncio_and_of_a_cell_is_cancelled(env):
    async def main():
        async with AsyncRSMQ.from_url(env.url, ns=env.ns) as queues:
            await queues.create_queue("q")
            job = queues.job("q", await queues.send_message("q", "x"))
            assert await job.cancel() == "cancelled"
            assert await job.progress() is None

    asyncio.run(main())
    with Cells.from_url(env.url, cells=2, ns=f"{env.ns}:set") as queues:
        queues.create_queue("q")
        jobs = [queues.job("q", queues.send_message("q", "x")) for _ in range(2)]
        assert [job.cancel() for job in jobs] == ["cancelled"] * 2
