"""The record of a tracked message says what has become of it."""

from __future__ import annotations

import threading

import pytest

from rsmq import InvalidFormat, InvalidValue
from rsmq.errors import JobCancelled, JobExpired, JobFailed, JobNotEnded, JobNotFound
from rsmq.worker import Defer, Discard
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until

WEEK = 604_800
HOUR = 3600


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def run(env, handler, *, queue="q", **options):
    """Return a worker that tracks the messages of a queue, started."""
    worker = env.create_worker(name="w", concurrency=1)
    worker.listener(queue, **{"track": True, "backoff": 0, **options})(handler)
    worker.start()
    return worker


def assert_ttl(env, id, seconds):
    assert seconds - 60 < env.ttl(id) <= seconds


def test_send_with_track_writes_the_record_of_each_new_message(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    ids = rsmq.send_messages("q", ["a", "b"], track=True, delay=100)
    assert env.record(id) == {"state": "waiting"}
    assert [env.record(each) for each in ids] == [{"state": "waiting"}] * 2
    assert_ttl(env, id, WEEK)
    assert_ttl(env, ids[0], WEEK + 100)
    assert rsmq.job("q", ids[0]).status().state == "waiting"

    again = rsmq.send_message("q", "x", unique_key="k", track=True)
    env.raw.delete(env.key(again))
    assert rsmq.send_message("q", "y", unique_key="k", track=True) == again
    assert env.record(again) == {}


def test_send_with_track_writes_the_record_of_a_message_that_it_replaces(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", unique_key="k", delay=500)
    options = {"unique_key": "k", "replace": True}
    assert rsmq.send_message("q", "y", **options) == id
    assert env.record(id) == {}
    assert rsmq.send_message("q", "z", track=True, **options) == id
    assert env.record(id) == {"state": "waiting"}
    assert_ttl(env, id, WEEK + 500)  # it keeps its place


def test_a_handler_that_returns_makes_its_job_succeed_with_its_result(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    seen = []

    def handle(body, message):
        seen.append((env.record(id), env.ttl(id), rsmq.job("q", id).status()))
        return {"size": len(body), "name": "é"}

    run(env, handle, result_ttl=50)
    assert rsmq.job("q", id).result(WAIT_SECONDS) == {"size": 1, "name": "é"}
    [(record, ttl, status)] = seen
    assert record.pop("begun").isdigit()
    assert record == {"state": "running", "attempt": "1", "receives": "1", "worker": "w"}
    assert WEEK < ttl <= WEEK + 30
    assert (status.state, status.attempt, status.worker, status.is_ended) == (
        "running", 1, "w", False,
    )  # fmt: skip
    with pytest.raises(JobNotEnded):
        status.result()
    record = env.record(id)
    assert int(record["ended"]) >= int(record["begun"])
    assert (record["state"], record["result"]) == ("succeeded", '{"size": 1, "name": "é"}')
    assert_ttl(env, id, 50)
    status = rsmq.job("q", id).status()
    assert status.ended_at >= status.begun_at
    assert env.is_empty("q")


def test_a_tracking_listener_makes_the_record_of_messages_that_others_have_sent(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x")
    assert env.records() == []
    assert rsmq.job("q", id).status().state == "waiting"
    run(env, lambda body: None)
    assert rsmq.job("q", id).result(WAIT_SECONDS) is None
    assert env.record(id)["result"] == "null"
    assert_ttl(env, id, HOUR)


def test_messages_of_a_listener_that_does_not_track_have_no_record(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q", retry_forever=True)(lambda body: 7)
    rsmq.send_messages("q", ["x"] * 20)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 20)
    assert env.records() == []


def test_retries_and_the_last_failure_are_recorded(env, rsmq):
    env.create_queues("q", "dead")
    id = rsmq.send_message("q", "x", track=True)
    states = []

    def handle(body, message):
        states.append(env.record(id))
        raise ValueError(f"boom {message.attempt}")

    worker = run(env, handle, backoff=500, max_retries=1, dead_letter_queue="dead")
    wait_until(lambda: worker.numbers.retried == 1)
    record = env.record(id)
    assert (record["state"], record["error"]) == ("retrying", "ValueError: boom 1")
    assert_ttl(env, id, WEEK + 500)
    status = rsmq.job("q", id).status()
    assert (status.state, status.attempt, status.error) == ("retrying", 1, "ValueError: boom 1")
    env.advance_time("q", 500)
    with pytest.raises(JobFailed, match="boom 2") as raised:
        rsmq.job("q", id).result(WAIT_SECONDS)
    assert raised.value.error == "ValueError: boom 2"
    assert states[1]["attempt"] == "2"
    assert env.record(id)["state"] == "failed"
    assert_ttl(env, id, HOUR)
    assert list(env.scores("dead")) == [id]


@pytest.mark.parametrize("error", [ValueError("no"), Discard("no")])
def test_a_message_that_is_dropped_has_failed(env, rsmq, error):
    env.create_queues("q")

    def handle(body):
        raise error

    run(env, handle, drop=True, max_retries=0)
    id = rsmq.send_message("q", "x")
    job = rsmq.job("q", id)
    with pytest.raises(JobFailed, match="no"):
        job.result(WAIT_SECONDS)
    assert env.record(id)["error"] == f"{type(error).__name__}: no"
    assert_ttl(env, id, HOUR)


def test_a_deferred_message_waits_and_its_attempt_does_not_count(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    calls = []

    def handle(body, message):
        calls.append(message.attempt)
        if len(calls) == 1:
            raise Defer(after=500)
        return len(calls)

    worker = run(env, handle)
    wait_until(lambda: worker.numbers.deferred == 1)
    assert env.record(id)["state"] == "waiting"
    assert rsmq.job("q", id).status().state == "waiting"
    assert_ttl(env, id, WEEK + 500)
    env.advance_time("q", 500)
    assert rsmq.job("q", id).result(WAIT_SECONDS) == 2
    assert env.record(id)["attempt"] == "1"


@pytest.mark.parametrize(
    ("result", "text"),
    [(object(), "not JSON"), (float("nan"), "not JSON"), ("x" * 65_535, "65,537 bytes")],
)
def test_a_result_that_cannot_be_stored_fails_the_job_at_once(env, rsmq, result, text):
    env.create_queues("q", "dead")
    run(env, lambda body: result, dead_letter_queue="dead")
    id = rsmq.send_message("q", "x")
    with pytest.raises(JobFailed, match=text):
        rsmq.job("q", id).result(WAIT_SECONDS)
    assert env.record(id)["attempt"] == "1"
    assert "result" not in env.record(id)


def test_the_largest_result_is_stored(env, rsmq):
    env.create_queues("q")
    run(env, lambda body: "x" * 65_534)
    id = rsmq.send_message("q", "x")
    assert len(rsmq.job("q", id).result(WAIT_SECONDS)) == 65_534


def test_a_message_that_another_client_deletes_leaves_an_expired_job(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    env.raw.zrem(f"{env.ns}:q", id)  # as Node's deleteMessage
    env.raw.hdel(f"{env.ns}:q:Q", id, f"{id}:rc", f"{id}:fr")
    status = rsmq.job("q", id).status()
    assert (status.state, status.is_ended) == ("expired", True)
    assert env.record(id)["state"] == "expired"
    assert_ttl(env, id, HOUR)
    with pytest.raises(JobExpired, match="outcome is not known"):
        rsmq.job("q", id).result(WAIT_SECONDS)


@pytest.mark.parametrize("change", ["purge_queue", "delete_queue"])
def test_jobs_of_a_purged_or_deleted_queue_expire(env, rsmq, change):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    getattr(rsmq, change)("q")
    assert rsmq.job("q", id).status().state == "expired"


def test_a_job_without_record_and_message_is_not_found(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x")
    rsmq.delete_message("q", id)
    job = rsmq.job("q", id)
    for call in (job.status, job.result, lambda: rsmq.wait_for_jobs([job])):
        with pytest.raises(JobNotFound, match="result_ttl"):
            call()


def test_a_job_that_a_killed_worker_had_waits_when_its_lease_is_over(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    begun, go = threading.Event(), threading.Event()

    def handle(body):
        begun.set()
        go.wait(WAIT_SECONDS)

    worker = run(env, handle)
    begun.wait(WAIT_SECONDS)
    job = rsmq.job("q", id)
    assert job.status().state == "running"
    env.raw.zadd(f"{env.ns}:q", {id: 1})  # as if its visibility timeout had ended
    assert job.status().state == "waiting"
    assert rsmq.receive_message("q").id == id  # a consumer that does not track
    assert env.record(id)["receives"] == "1"
    assert job.status().state == "running"
    go.set()
    wait_until(lambda: worker.numbers.lost == 1)
    assert env.record(id)["state"] == "running"


def test_a_message_that_a_stopping_worker_releases_waits(env, rsmq):
    env.create_queues("q")
    ids = rsmq.send_messages("q", ["a", "b"], track=True)
    begun, go = threading.Event(), threading.Event()

    def handle(body):
        begun.set()
        go.wait(WAIT_SECONDS)

    worker = run(env, handle)
    begun.wait(WAIT_SECONDS)
    worker.stop(0)
    go.set()
    assert [env.record(id)["state"] for id in ids] == ["waiting", "waiting"]
    assert all(rsmq.job("q", id).status().state == "waiting" for id in ids)


def test_a_restored_message_begins_its_ended_job_again(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    env.raw.hset(env.key(id), mapping={"state": "succeeded", "result": "1", "ended": "5"})
    assert rsmq.job("q", id).result(0) == 1
    run(env, lambda body: 2)
    wait_until(lambda: env.is_empty("q"))
    assert rsmq.job("q", id).result(WAIT_SECONDS) == 2


def test_cancelled_jobs_raise(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x", track=True)
    env.raw.hset(env.key(id), "state", "cancelled")
    with pytest.raises(JobCancelled):
        rsmq.job("q", id).result(0)


def test_a_key_of_another_type_does_not_stop_the_worker(env, rsmq):
    env.create_queues("q")
    id = rsmq.send_message("q", "x")
    env.raw.set(env.key(id), "text")
    worker = run(env, lambda body: 1)
    wait_until(lambda: worker.numbers.handled == 1)
    assert env.is_empty("q")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"track": 1}, InvalidFormat, "True or False"),
        ({"track": True, "batch": 10}, InvalidFormat, "batch can't be tracked"),
        ({"result_ttl": 0}, InvalidValue, "result_ttl"),
    ],
)
def test_options_that_do_not_fit_are_refused(env, options, error, text):
    worker = env.create_worker()
    with pytest.raises(error, match=text):
        worker.listener("q", **options)(print)
    with pytest.raises(InvalidFormat, match="several handlers"):
        worker.handlers("q", track=True)
    with pytest.raises(InvalidFormat, match="track"):
        env.rsmq.send_message("q", "x", track="yes")


def test_without_a_record_errors_name_track_and_the_state(rsmq):
    rsmq.create_queue("q", exist_ok=True)
    id = rsmq.send_message("q", "x")
    with pytest.raises(JobNotEnded, match=r"waiting, attempt 0.*track=True.*rsmq workers"):
        rsmq.job("q", id).result(timeout=0)
    assert not rsmq.job("q", id).status().is_tracked
    rsmq.delete_message("q", id)
    with pytest.raises(JobNotFound, match="track=True"):
        rsmq.job("q", id).result(timeout=0)


def test_a_job_of_a_missing_queue_names_the_queue(rsmq):
    id = "0" * 32
    with pytest.raises(JobNotFound, match="no queue 'paymnts'"):
        rsmq.job("paymnts", id).status()
