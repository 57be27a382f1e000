"""Waiting for results."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rsmq import AsyncRSMQ, InvalidValue
from rsmq.errors import ClientClosed, JobExpired, JobFailed, JobNotEnded, JobNotFound
from rsmq.jobs import threads as sync_jobs
from rsmq.waiting import schedule, tracking
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until


def in_thread(call):
    """Start a call in a thread; return a function that returns its result or raises its error."""
    results = []

    def run():
        try:
            results.append((call(), None))
        except Exception as error:  # noqa: BLE001 - for the test
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()

    def get():
        thread.join(WAIT_SECONDS)
        [(result, error)] = results
        if error is not None:
            raise error
        return result

    return get


def track(env, handler, queue="q", **options):
    worker = env.create_worker()
    worker.listener(queue, track=True, backoff=0, **options)(handler)
    worker.start()
    return worker


def count_calls(env):
    """Return how many commands clients have sent, and scripts."""
    stats = env.raw.info("commandstats")
    return {name: stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "hget")}


def test_a_wait_asks_nothing_while_nothing_changes(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    get = in_thread(lambda: rsmq.job("q", id).result(WAIT_SECONDS))
    wait_until(lambda: env.raw.info("clients").get("tracking_clients"))
    wait_until(lambda: rsmq.watcher.is_tracking)

    def is_quiet():
        before = count_calls(env)
        time.sleep(0.5)
        return count_calls(env) == before

    wait_until(is_quiet)  # a call that polls is never quiet
    track(env, lambda body: "done")
    assert get() == "done"


def test_all_waiters_of_a_job_are_woken(env, rsmq, monkeypatch):
    for module in (schedule, tracking):
        monkeypatch.setattr(module, "SAFETY_SECONDS", 3600.0)  # only the change wakes them
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    gets = [in_thread(lambda: rsmq.job("q", id).result(WAIT_SECONDS)) for _ in range(20)]
    wait_until(lambda: rsmq.watcher.is_tracking)
    track(env, lambda body: body)
    assert [get() for get in gets] == ["x"] * 20


def test_many_jobs_are_waited_for_together(env, rsmq):
    env.create_queues("q")
    ids = rsmq.send_messages("q", [str(number) for number in range(300)], track=True)
    jobs = [rsmq.job("q", id) for id in ids]
    get = in_thread(lambda: rsmq.wait_for_jobs(jobs, 30))

    def handle(body):
        if body == "7":
            raise ValueError("seven")
        return int(body)

    track(env, handle, max_retries=0, drop=True)
    statuses = get()
    assert [status.id for status in statuses] == ids
    assert statuses[8].result() == 8
    with pytest.raises(JobFailed, match="seven"):
        statuses[7].result()
    assert rsmq.wait_for_jobs([]) == []


def test_a_wait_ends_with_its_timeout(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    job = rsmq.job("q", id)
    for seconds in (0, 0.05):
        with pytest.raises(TimeoutError) as raised:
            job.result(seconds)
        assert isinstance(raised.value, JobNotEnded)
    with pytest.raises(InvalidValue):
        job.result(-1)
    assert env.record(id) == {"state": "waiting"}


def test_a_wait_for_a_record_whose_time_has_ended_says_so(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    get = in_thread(lambda: rsmq.job("q", id).result(WAIT_SECONDS))
    wait_until(lambda: rsmq.watcher.is_tracking)
    env.raw.hdel(f"{env.ns}:q:Q", id)
    env.raw.delete(env.key(id))  # as at the end of its time to live
    with pytest.raises(JobExpired):
        get()
    with pytest.raises(JobNotFound):
        rsmq.job("q", id).result(0)


def at_each_read(monkeypatch, change):
    """Call a function with what each read of jobs has found."""
    find = sync_jobs._find

    def find_and_change(jobs):
        found, has_queue = find(jobs)
        change({job.id: found[at] for at, job in enumerate(jobs) if at in found})
        return found, has_queue

    monkeypatch.setattr(sync_jobs, "_find", find_and_change)


def test_a_record_that_expires_after_its_end_was_read_keeps_its_result(env, rsmq, monkeypatch):
    env.create_queues("q")
    ids = rsmq.send_messages("q", ["a", "b", "c"], track=True)

    def change(found):
        states = [found[id].state if id in found else None for id in ids]
        if states[0] == "waiting":
            env.raw.hset(env.key(ids[0]), mapping={"state": "succeeded", "result": "1"})
        elif states[0] == "succeeded":
            env.raw.delete(env.key(ids[0]))  # as at the end of its time to live
            env.raw.delete(env.key(ids[1]))  # as if it had ended since the last read
            env.raw.hdel(f"{env.ns}:q:Q", *ids[:2])
            env.raw.hset(env.key(ids[2]), mapping={"state": "succeeded", "result": "3"})

    at_each_read(monkeypatch, change)
    statuses = rsmq.wait_for_jobs([rsmq.job("q", id) for id in ids], 10)
    assert [status.state for status in statuses] == ["succeeded", "expired", "succeeded"]
    assert [statuses[at].result() for at in (0, 2)] == [1, 3]
    with pytest.raises(JobExpired):
        statuses[1].result()


def test_jobs_are_read_several_times_before_the_first_record_can_expire():
    def seconds(queues, shortest, waited=0.0, took=0.0):
        return sync_jobs._seconds_between_reads(queues, shortest, waited=waited, took=took)

    assert seconds(["a", "b"], {"a": 8, "b": 4}, 100) == 1
    assert seconds(["a"], {"a": 3600}) == 30
    assert seconds(["a"], {"a": 4}, took=0.1) == 2


def test_a_wait_for_jobs_of_which_none_has_ended_reads_in_growing_pauses():
    waited, pauses = 0.0, []
    while waited < 100:
        pauses.append(sync_jobs._seconds_between_reads(["a"], {}, waited=waited, took=0))
        waited += pauses[-1]
    assert pauses == [0.25, 0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_wait_survives_a_lost_connection(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    get = in_thread(lambda: rsmq.job("q", id).result(WAIT_SECONDS))
    wait_until(lambda: rsmq.watcher.is_tracking)
    env.raw.client_kill_filter(_type="normal", skipme=True)
    track(env, lambda body: "done")
    assert get() == "done"


def test_a_wait_ends_when_its_client_is_closed(env):
    env.create_queues("q")
    client = env.create_client()
    id = client.send_message("q", "x", track=True)
    get = in_thread(lambda: client.job("q", id).result(WAIT_SECONDS))
    wait_until(lambda: client.watcher.is_tracking)
    client.close()
    with pytest.raises(ClientClosed):
        get()


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_await_waits_for_the_result(env, backend):
    env.create_queues("q")

    async def main():
        async with AsyncRSMQ.from_url(env.url, ns=env.ns) as queues:
            ids = await queues.send_messages("q", ["1", "2"], track=True)
            first, second = (queues.job("q", id) for id in ids)
            waiting = asyncio.ensure_future(asyncio.wait_for(first, WAIT_SECONDS))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            track(env, int)
            assert await waiting == 1
            assert await second == 2
            assert (await second.status()).state == "succeeded"
            statuses = await queues.wait_for_jobs([second, first], 20)
            assert [status.result() for status in statuses] == [2, 1]

    asyncio.run(main())


def test_a_cancelled_wait_leaves_the_job_alone(env):
    env.create_queues("q")

    async def main():
        async with AsyncRSMQ.from_url(env.url, ns=env.ns) as queues:
            id = await queues.send_message("q", "x", track=True)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(queues.job("q", id).result(), 0.1)
            assert env.record(id) == {"state": "waiting"}

    asyncio.run(main())


def test_the_synchronous_handle_explains_await(env, rsmq):
    env.create_queues("q")

    async def main():
        await rsmq.job("q", "x" * 32)

    with pytest.raises(TypeError, match="AsyncRSMQ"):
        asyncio.run(main())
