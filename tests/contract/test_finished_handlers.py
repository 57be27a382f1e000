"""The record of which handlers of a message have finished, by its raw key."""

from __future__ import annotations

import pytest

from rsmq.wire.keys import Namespace
from rsmq.worker.operations import list_finished, record_finished
from tests.contract.conftest import CLUSTERS, Env

DAY = 86_400_000


@pytest.fixture(params=["redis", "redis-6.2", *CLUSTERS, "redis-py, RESP3", "memory"])
def env(request, mode):
    env = Env(request.param, mode, request)
    env.keys = Namespace(env.ns).queue("q")
    env.rsmq.create_queue("q")
    yield env
    env.close()


def receive(env):
    [id] = env.rsmq.send_messages("q", ["x"])
    assert env.rsmq.receive_message("q", vt=90).id == id
    return id


def record(env, *records):
    return env.rsmq.run(record_finished(env.keys, records))


def finished(env, *ids):
    return env.rsmq.run(list_finished(env.keys, ids))


def stored(env):
    return env.raw.hgetall(env.keys.finished)


def test_finished_handlers_are_recorded_for_a_week(env):
    id = receive(env)
    before = env.state()

    assert record(env, (id, 1, ["a", "b.c"])) == 1
    created = env.raw.hget(env.keys.hash, "created")
    assert stored(env) == {b"": created, id.encode(): b"a,b.c"}
    assert 7 * DAY - 5000 < env.raw.pttl(env.keys.finished) <= 7 * DAY
    assert finished(env, id, "none") == [["a", "b.c"], []]
    assert record(env, (id, 1, ["a", "b.c"])) == 1
    assert record(env, (id, 1, ())) == 0
    assert finished(env, id) == [[]]
    env.raw.delete(env.keys.finished)
    assert env.state() == before


def test_nothing_is_recorded_for_a_message_that_was_received_again_or_deleted(env):
    again, deleted = receive(env), receive(env)
    env.raw.hset(env.keys.hash, f"{again}:rc", 2)
    env.rsmq.delete_message("q", deleted)

    assert record(env, (again, 1, ["a"]), (deleted, 1, ["a"])) == 0
    assert stored(env) == {}


def test_a_record_of_an_earlier_queue_of_the_name_is_void(env):
    id = receive(env)
    record(env, (id, 1, ["a"]))
    env.raw.hset(env.keys.finished, "", "1")

    assert finished(env, id) == [[]]
    assert record(env, (id, 1, ["b"])) == 1
    assert finished(env, id) == [["b"]]


@pytest.mark.parametrize("call", ["delete_queue", "purge_queue"])
def test_records_are_deleted_with_the_messages(env, call):
    record(env, (receive(env), 1, ["a"]))
    getattr(env.rsmq, call)("q")

    assert not env.raw.exists(env.keys.finished)
