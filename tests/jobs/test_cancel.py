"""Jobs are cancelled: at once, or by the worker that has the message."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest

from rsmq import AsyncRSMQ
from rsmq.errors import JobCancelled, JobNotFound, NotTracked
from rsmq.jobs import ReportedProgress
from rsmq.worker import DeadLetter, Defer, Middleware, Retry
from rsmq.worker.run.invoke import current_job
from rsmq.worker.state import lane
from tests.scale import WAIT_SECONDS
from tests.workers.polling import loop_of, wait_until

HOUR, WEEK = 3600, 604_800


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def assert_ttl(env, id, seconds):
    assert seconds - 60 < env.ttl(id) <= seconds


@pytest.fixture(autouse=True)
def fast_renewal(monkeypatch):
    """Extend leases every 0.1 seconds, so that workers learn of a cancel soon."""
    monkeypatch.setattr(lane, "MAX_TRACKED_RENEW_SECONDS", 0.1)


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


async def test_a_job_of_asyncio_is_cancelled(env):
    async with AsyncRSMQ.from_url(env.url, ns=env.ns) as queues:
        await queues.create_queue("q")
        job = queues.job("q", await queues.send_message("q", "x"))
        assert await job.cancel() == "cancelled"
        assert await job.progress() is None


def test_a_message_that_waits_for_a_retry_of_a_worker_without_tracking_is_cancelled_at_once(
    env, rsmq
):
    env.create_queues("q")

    def handle(body):
        raise ValueError(body)

    worker = env.create_worker()
    worker.listener("q", retry_forever=True, backoff=3600)(handle)
    worker.start()
    job = rsmq.job("q", rsmq.send_message("q", "x"))
    wait_until(lambda: worker.numbers.retried == 1)
    assert job.status().state == "retrying"
    assert job.cancel() == "cancelled"
    assert env.is_empty("q")

    again = rsmq.job("q", rsmq.send_message("q", "y", track=True))
    wait_until(lambda: worker.numbers.retried == 2)
    assert [each.id for each in rsmq.jobs("q", state="retrying")] == [again.id]
    env.raw.hincrby(f"{env.ns}:q:Q", f"{again.id}:rc", 1)  # as a receive does
    assert again.status().state == "running"
    assert again.cancel() == "requested"


@pytest.mark.parametrize("backend", ["redis"])
def test_an_administrator_lists_and_cancels_jobs_with_the_documented_rights(env, rsmq):
    env.create_queues("q")
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    rows = [
        row.replace("\\|", "|")
        for row in re.findall(r"^\| (?:producer|consumer|administrator)\b.*$", text, re.MULTILINE)
    ]
    rights = re.findall(r"\+[\w|]+", " ".join(rows))
    rules = ["on", ">secret", f"~{env.ns}:*", "-@all", *rights]
    env.raw.execute_command("ACL", "SETUSER", "admin", *rules)
    client = env.create_client(username="admin", password="secret")
    ids = client.send_messages("q", ["x", "y"], track=True)
    client.receive_message("q")
    assert [status.id for status in client.jobs("q")] == sorted(ids, reverse=True)
    assert {client.job("q", id).cancel() for id in ids} == {"cancelled", "requested"}
    env.raw.execute_command("ACL", "DELUSER", "admin")


def run(env, handler, **options):
    """Return a worker that tracks the messages of queue q, started."""
    worker = env.create_worker(name="w", concurrency=1)
    worker.listener("q", **{"track": True, "vt": 60, "backoff": 0, **options})(handler)
    worker.start()
    return worker


def assert_cancelled(env, rsmq, id):
    with pytest.raises(JobCancelled):
        rsmq.job("q", id).result(WAIT_SECONDS)
    wait_until(lambda: env.is_empty("q"))
    record = env.record(id)
    assert record["state"] == "cancelled"
    assert not {"cancel", "error", "result"} & record.keys()
    assert_ttl(env, id, HOUR)


def test_a_handler_in_a_thread_sees_the_cancel(env, rsmq):
    env.create_queues("q", "dead")
    seen = []

    def handle(body, message):
        wait_until(lambda: message.cancelled)
        seen.append(body)
        raise ValueError("stopped")

    worker = run(env, handle, dead_letter_queue="dead")
    id = rsmq.send_message("q", "x", track=True)
    job = rsmq.job("q", id)
    wait_until(lambda: job.status().state == "running")
    assert job.cancel() == "requested"
    assert_cancelled(env, rsmq, id)
    wait_until(lambda: worker.numbers.dropped == 1)  # it counts after Redis has changed
    assert (seen, env.is_empty("dead")) == (["x"], True)
    assert (worker.numbers.failed, worker.numbers.retried) == (0, 0)


def test_a_cancelled_handler_that_runs_for_too_long_is_not_retried(env, rsmq, gate):
    env.create_queues("q")
    called = []

    class Hooks(Middleware):
        def after_retry(self, message, after, error):
            called.append("after_retry")

        def after_drop(self, message, reason, error):
            called.append(reason)

    def handle(body, message):
        wait_until(lambda: message.cancelled)
        current_job.get().started_at -= 1000
        gate()

    worker = env.create_worker(name="w", concurrency=1, middleware=[Hooks()])
    worker.listener("q", track=True, vt=3, backoff=0, max_runtime=500)(handle)
    worker.start()
    id = rsmq.send_message("q", "x", track=True)
    wait_until(lambda: rsmq.job("q", id).status().state == "running")
    assert rsmq.job("q", id).cancel() == "requested"
    assert_cancelled(env, rsmq, id)
    wait_until(lambda: called)
    assert called == ["its job was cancelled"]
    assert worker.numbers.retried == 0


def test_an_async_handler_is_cancelled(env, rsmq):
    env.create_queues("q")
    seen = []

    async def handle(body):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(body)
            raise

    run(env, handle)
    id = rsmq.send_message("q", "x", track=True)
    wait_until(lambda: rsmq.job("q", id).status().state == "running")
    assert rsmq.job("q", id).cancel() == "requested"
    assert_cancelled(env, rsmq, id)
    assert seen == ["x"]
    assert rsmq.job("q", rsmq.send_message("q", "y", delay=9)).cancel() == "cancelled"


def test_a_handler_that_returns_in_spite_of_the_cancel_has_succeeded(env, rsmq):
    env.create_queues("q")

    begun = threading.Event()

    async def handle(body):
        try:
            begun.set()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done"

    run(env, handle)
    id = rsmq.send_message("q", "x", track=True)
    assert begun.wait(WAIT_SECONDS)
    assert rsmq.job("q", id).cancel() == "requested"
    assert rsmq.job("q", id).result(WAIT_SECONDS) == "done"
    assert "cancel" not in env.record(id)


@pytest.mark.parametrize("error", [ValueError("no"), Retry("later"), Defer(), DeadLetter("no")])
def test_a_failure_that_the_worker_writes_before_it_knows_of_the_cancel_ends_the_job(
    env, rsmq, error
):
    env.create_queues("q", "dead")
    job = None

    def handle(body):
        assert job.cancel() == "requested"
        raise error

    id = rsmq.send_message("q", "x", track=True)
    job = rsmq.job("q", id)
    run(env, handle, dead_letter_queue="dead")
    with pytest.raises(JobCancelled):
        job.result(WAIT_SECONDS)
    wait_until(lambda: env.is_empty("q"))
    assert env.is_empty("dead")


@pytest.mark.parametrize("backend", ["memory"])
def test_a_cancelled_job_whose_dead_letter_queue_is_missing_is_not_said_to_be_retried(env, rsmq):
    env.create_queues("q", "dead")

    class Cancelling(Middleware):
        def before_dead_letter(self, message, queue, reason, error):
            rsmq.delete_queue("dead")
            assert rsmq.job("q", message.id).cancel() == "requested"
            [of_q] = loop_of(worker)._lanes
            for lease in of_q.in_flight:
                lease.mark_cancelled()  # as its next extension does

    def handle(body):
        raise DeadLetter("no")

    worker = env.create_worker(middleware=[Cancelling()])
    worker.listener("q", track=True, dead_letter_queue="dead")(handle)
    worker.start()
    id = rsmq.send_message("q", "x", track=True)
    assert_cancelled(env, rsmq, id)
    wait_until(lambda: worker.numbers.dropped == 1)
    assert worker.numbers.retried == 0


def test_a_message_that_waits_for_a_slot_is_cancelled(env, rsmq, gate):
    env.create_queues("q")
    ids = rsmq.send_messages("q", ["a", "b"], track=True)
    bodies = []

    def handle(body):
        bodies.append(body)
        gate()

    worker = env.create_worker(name="w", concurrency=1)
    worker.listener("q", track=True, vt=3)(handle)
    worker.start()
    gate.wait_for(1)
    assert rsmq.job("q", ids[1]).cancel() in ("requested", "cancelled")
    with pytest.raises(JobCancelled):
        rsmq.job("q", ids[1]).result(WAIT_SECONDS)
    gate.open()
    assert rsmq.job("q", ids[0]).result(WAIT_SECONDS) is None
    assert bodies == ["a"]


def test_a_worker_does_not_call_the_handler_of_a_job_whose_worker_died_after_the_cancel(env, rsmq):
    env.create_queues("q")
    ids = rsmq.send_messages("q", ["a", "b", "c"], track=True)
    rsmq.receive_messages("q", 3)
    assert rsmq.job("q", ids[1]).cancel() == "requested"
    env.raw.hset(env.key(ids[1]), mapping={"done": "3", "total": "", "text": "rows"})
    for id in ids:
        env.raw.zadd(env.queue_key("q"), {id: 1})  # as if the visibility timeouts had ended
    worker = run(env, lambda body: body)
    statuses = rsmq.wait_for_jobs([rsmq.job("q", id) for id in ids], 20)
    assert [status.state for status in statuses] == ["succeeded", "cancelled", "succeeded"]
    assert statuses[1].progress == ReportedProgress(3, None, "rows")
    assert statuses[2].result() == "c"
    wait_until(lambda: worker.numbers.handled == 2)
    assert env.is_empty("q")
    assert env.in_flight("w") == {}


def test_messages_that_are_not_tracked_are_never_cancelled_by_a_worker(env, rsmq, gate):
    env.create_queues("q")
    seen = []

    def handle(body, message):
        gate()
        seen.append(message.cancelled)
        with pytest.raises(NotTracked, match="track=True"):
            message.set_progress(1)

    worker = env.create_worker()
    worker.listener("q")(handle)
    worker.start()
    id = rsmq.send_message("q", "x")
    gate.wait_for(1)
    assert rsmq.job("q", id).cancel() == "requested"
    gate.open()
    wait_until(lambda: worker.numbers.handled == 1)
    assert seen == [False]
    assert rsmq.job("q", id).status().state == "expired"


@pytest.mark.parametrize("backend", ["redis"])
def test_a_worker_that_may_only_read_records_moves_what_is_to_be_cancelled_to_the_dead_letters(
    env, rsmq
):
    env.create_queues("q", "dead")
    keys = [f"~{env.ns}:{end}" for end in ("q", "q:Q", "QUEUES", "dead*", "x:workers", "x:held:*")]
    keys.append(f"%R~{env.ns}:q:x:job:*")
    env.raw.execute_command("ACL", "SETUSER", "reader", "on", ">secret", *keys, "+@all")
    job = rsmq.job("q", rsmq.send_message("q", "x", track=True))
    worker = env.create_worker(rsmq=env.create_client(username="reader", password="secret"))

    @worker.listener("q", track=True, max_retries=0, dead_letter_queue="dead")
    def handle(body):
        assert job.cancel() == "requested"
        raise ValueError

    worker.start()
    wait_until(lambda: env.is_empty("q"))
    worker.stop()
    assert list(env.scores("dead")) == [job.id]
    assert worker.numbers.failed == 1
    env.raw.execute_command("ACL", "DELUSER", "reader")


@pytest.mark.parametrize("backend", ["redis"])
def test_a_worker_without_the_right_to_records_handles_messages_and_learns_of_no_cancel(
    env, rsmq, gate
):
    env.create_queues("q")
    keys = [f"~{env.ns}:{end}" for end in ("q", "q:Q", "QUEUES", "x:workers", "x:held:*")]
    env.raw.execute_command("ACL", "SETUSER", "few", "on", ">secret", *keys, "+@all")
    client = env.create_client(username="few", password="secret")
    seen = []

    def handle(body, message):
        message.set_progress(1)
        gate()
        seen.append(message.cancelled)
        return body

    worker = env.create_worker(rsmq=client)
    worker.listener("q", track=True)(handle)
    worker.start()
    job = rsmq.job("q", rsmq.send_message("q", "x"))
    gate.wait_for(1)
    assert job.cancel() == "requested"
    before = env.scores("q")[job.id]
    wait_until(lambda: env.scores("q")[job.id] > before)  # its lease is extended
    gate.open()
    wait_until(lambda: worker.numbers.handled == 1)
    assert seen == [False]
    assert env.is_empty("q")
    assert job.status().state == "expired"
    worker.stop()
    env.raw.execute_command("ACL", "DELUSER", "few")
