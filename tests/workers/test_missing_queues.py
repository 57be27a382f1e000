"""Queues that are missing while a worker runs: deleted, or lost with the data of Redis."""

from __future__ import annotations

import logging

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from rsmq import QueueNotFound
from rsmq.worker import DeadLetter
from rsmq.worker.settle import settler as settle
from tests.workers.polling import state_of, wait_until


def failing(body):
    raise ValueError(body)


def is_closed_as_missing(worker):
    return state_of(worker).queues["q"].closed_reason == "m"


def lose_all_data(env):
    keys = env.raw.keys(f"{env.ns}:*")
    env.raw.delete(*keys)


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_worker_creates_its_queues_again_after_redis_has_lost_its_data(env, rsmq, fast_heartbeat):
    worker = env.create_worker(name="w")
    got = []
    worker.listener("q", create=True, max_retries=0, dead_letter_queue="dead")(got.append)
    worker.start()
    rsmq.send_message("q", "before")
    wait_until(lambda: got == ["before"])
    lose_all_data(env)
    wait_until(lambda: rsmq.list_queues() == ["dead", "q"])
    rsmq.send_message("q", "after")

    wait_until(lambda: got == ["before", "after"])
    assert env.raw.hget(f"{env.ns}:q:Q", "vt") == b"30"
    wait_until(lambda: worker.health().is_ready)


def test_worker_is_not_ready_while_a_queue_is_missing_that_it_does_not_create(
    env, rsmq, fast_heartbeat
):
    env.create_queues("q")
    worker = env.create_worker()
    got = []
    worker.listener("q")(got.append)
    worker.start()
    wait_until(lambda: worker.health().is_ready)
    lose_all_data(env)
    wait_until(lambda: is_closed_as_missing(worker))
    readiness, heartbeats = set(), set()
    while len(heartbeats) < 20:  # it looks at the queue again in each
        heartbeats.add(state_of(worker).heartbeat_at)
        readiness.add(worker.health().is_ready)

    assert readiness == {False}
    assert worker.health().missing_queues == ("q",)
    assert worker.health().is_healthy
    assert rsmq.list_queues() == []
    env.create_queues("q")
    rsmq.send_message("q", "x")
    wait_until(lambda: got == ["x"])
    assert worker.health().is_ready


def test_a_paused_queue_leaves_the_worker_ready(env, rsmq, fast_heartbeat):
    env.create_queues("q")
    worker = env.create_worker()
    worker.listener("q")(print)
    worker.start()
    rsmq.pause_queue("q")
    wait_until(lambda: state_of(worker).queues["q"].closed_reason == "p")
    wait_until(lambda: worker.health().is_ready)
    assert worker.health().missing_queues == ()


def test_attributes_of_a_queue_that_was_created_again_are_used(env, rsmq, fast_heartbeat):
    env.create_queues("q", vt=20)
    worker = env.create_worker()
    worker.listener("q", backoff=500)(failing)
    worker.start()
    rsmq.delete_queue("q")
    wait_until(lambda: is_closed_as_missing(worker))
    env.create_queues("dead")
    policy = {"x:dlq": "dead", "x:max": 1}
    stored = {"vt": 40, "delay": 0, "maxsize": 65536, "created": 1, "modified": 1, **policy}
    env.raw.hset(f"{env.ns}:q:Q", mapping=stored)
    rsmq.send_message("q", "x")

    wait_until(lambda: worker.numbers.dead == 1)
    assert state_of(worker).queues["q"].vt == 40
    assert len(env.scores("dead")) == 1


@pytest.mark.parametrize("has_only_dead_letters", [False, True])
def test_a_deleted_dead_letter_queue_is_created_again(env, rsmq, has_only_dead_letters):
    worker = env.create_worker()
    attempts = []

    @worker.listener("q", create=True, max_retries=2, backoff=0, dead_letter_queue="dead")
    def handle(body, message):
        attempts.append(message.attempt)
        if has_only_dead_letters:
            raise DeadLetter("no use")
        raise ValueError

    worker.start()
    rsmq.delete_queue("dead")
    id = rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.dead == 1)

    assert attempts == ([1] if has_only_dead_letters else [1, 2, 3])
    assert list(env.scores("dead")) == [id]
    assert env.raw.sismember(f"{env.ns}:QUEUES", "dead")
    assert env.is_empty("q")


def test_a_dead_letter_queue_that_may_not_be_created_again_is_logged_once(
    env, rsmq, caplog, monkeypatch
):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", create=True, max_retries=0, dead_letter_queue="dead")(failing)
    worker.start()

    def refuse(*_args):
        raise NoPermissionError("this user has no permissions")

    monkeypatch.setattr(settle, "open_needed_queues", refuse)
    rsmq.delete_queue("dead")
    rsmq.send_message("q", "x")
    for number in range(1, 4):
        wait_until(lambda number=number: worker.numbers.retried == number)
        env.advance_time("q", 1000)

    lines = [line for line in caplog.messages if "queue dead" in line]
    assert len(lines) == 1
    assert "can't be created again: this user has no permissions" in lines[0]


def test_messages_wait_longer_and_longer_while_their_dead_letter_queue_is_missing(
    env, rsmq, caplog
):
    caplog.set_level(logging.INFO, "rsmq.worker")
    env.create_queues("q", "dead")
    worker = env.create_worker()
    worker.listener("q", max_retries=2, backoff=0, dead_letter_queue="dead")(failing)
    worker.start()
    rsmq.delete_queue("dead")
    id = rsmq.send_message("q", "x")
    wait_until(lambda: worker.numbers.retried == 3)
    assert 3 < env.due_in("q", id) <= 4
    env.advance_time("q", 10)
    wait_until(lambda: worker.numbers.retried == 4)
    assert 7 < env.due_in("q", id) <= 8
    assert env.fields("q")[f"{id}:rc"] == b"4"
    lines = [line.getMessage() for line in caplog.records if "queue dead" in line.getMessage()]
    assert len(lines) == 1
    assert "there is no queue dead" in lines[0]
    rsmq.create_queue("dead")
    env.advance_time("q", 10)
    wait_until(lambda: worker.numbers.dead == 1)

    assert list(env.scores("dead")) == [id]
    wait_until(lambda: "dead-letter queue dead is back" in caplog.text)


def test_a_queue_that_can_not_be_created_again_does_not_stop_the_others(
    env, rsmq, monkeypatch, fast_heartbeat, caplog
):
    env.create_queues("other")
    worker = env.create_worker()
    got = []
    worker.listener("q", create=True)(got.append)
    worker.listener("other")(got.append)
    worker.start()
    refusals = []
    run = worker.rsmq.run

    def refusing(operation):
        if operation.script.name == "create_queue":
            refusals.append(operation)
            raise ResponseError("OOM command not allowed when used memory > 'maxmemory'.")
        return run(operation)

    with monkeypatch.context() as patch:
        patch.setattr(worker.rsmq, "run", refusing)
        env.raw.delete(f"{env.ns}:q:Q")
        env.raw.srem(f"{env.ns}:QUEUES", "q")
        wait_until(lambda: len(refusals) >= 3)
        rsmq.send_message("other", "o")
        wait_until(lambda: got == ["o"])
        assert not worker.health().is_ready
    wait_until(lambda: worker.health().is_ready)
    rsmq.send_message("q", "x")
    wait_until(lambda: got == ["o", "x"])

    refused = [line.getMessage() for line in caplog.records if "OOM" in line.getMessage()]
    assert len(refused) == 1
    assert not state_of(worker).has_failing_server


def test_a_queue_that_is_missing_at_the_start_is_still_refused_without_create(env, rsmq):
    worker = env.create_worker()
    worker.listener("none")(print)

    with pytest.raises(QueueNotFound):
        worker.start()
