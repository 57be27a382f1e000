"""Receives that began no handler call: what is stored of them, and where they do not count."""

from __future__ import annotations

import pytest

from rsmq.wire.keys import Namespace
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    dead_letter_messages,
    receive_for_worker,
    record_quarantine_run,
    register_worker,
    settle_messages,
)
from tests.contract.conftest import CLUSTERS, Env

DAY = 86_400_000


@pytest.fixture(params=["redis", "redis-6.2", *CLUSTERS, "redis-py, RESP3", "memory"])
def env(request, mode):
    env = Env(request.param, mode, request)
    env.keys = Namespace(env.ns).queue("q")
    env.dead = Namespace(env.ns).queue("dead")
    env.me = Identity(Namespace(env.ns), "w", "mine")
    env.rsmq.create_queue("q")
    env.rsmq.create_queue("dead")
    assert env.rsmq.run(register_worker(env.me, {}, ttl=10, dead="")) is None
    yield env
    env.close()


def receive(env):
    """Receive all as a worker does. Return id, receive count and unbegun receives of each."""
    [result] = env.rsmq.run(
        receive_for_worker(env.me, [ReceiveRequest(env.keys, 60_000, 1, 0, 10_000)], 10_000)
    )
    default = (1, 0, 0)
    return [
        (id, *result.redelivered.get(place, default)[::2]) for place, id in enumerate(result.ids)
    ]


def release(env, *records, count, keys=None):
    group = Settlement(keys or env.keys, "unbegun", count, records)
    return env.rsmq.run(settle_messages(env.me, [group]))


def created(env, qname="q"):
    return env.raw.hget(f"{env.ns}:{qname}:Q", "created")


def stored(env, keys=None):
    return env.raw.hgetall((keys or env.keys).unbegun)


def received_and_released(env, number=1, *, times=1):
    """Send messages; a worker receives and releases them so many times, without a call."""
    ids = env.rsmq.send_messages("q", ["x"] * number)
    for time in range(1, times + 1):
        assert len(receive(env)) == number
        assert release(env, *((id, time) for id in ids), count=time) == b"1" * number
    return ids


def test_release_stores_the_number_and_makes_the_message_visible(env):
    [id] = received_and_released(env)

    assert stored(env) == {b"": created(env), id.encode(): b"1"}
    assert 7 * DAY - 5000 < env.raw.pttl(env.keys.unbegun) <= 7 * DAY
    assert env.raw.hget(env.keys.hash, f"{id}:rc") == b"1"
    assert env.raw.hgetall(env.me.in_flight_key) == {b"": b"mine"}
    assert receive(env) == [(id, 2, 1)]


def test_repeated_release_stores_the_same(env):
    [id] = received_and_released(env, times=2)
    assert release(env, (id, 2), count=2) == b"1"

    assert stored(env)[id.encode()] == b"2"


def test_release_of_another_receipt_stores_nothing(env):
    [id] = received_and_released(env)
    env.rsmq.receive_message("q")

    assert release(env, (id, 5), count=1) == b"2"
    assert release(env, ("a" * 32, 5), count=1) == b"0"
    assert stored(env) == {b"": created(env), id.encode(): b"1"}


def test_first_receives_read_no_record(env):
    received_and_released(env)
    env.rsmq.pop_message("q")
    ids = env.rsmq.send_messages("q", ["x"] * 3)

    assert sorted(receive(env)) == sorted((id, 1, 0) for id in ids)


def test_record_of_an_earlier_queue_of_the_name_is_void(env):
    [id] = received_and_released(env)
    env.raw.hset(env.keys.hash, "created", int(created(env)) + 1)
    assert receive(env) == [(id, 2, 0)]
    release(env, (id, 1), count=2)

    assert stored(env) == {b"": created(env), id.encode(): b"1"}


@pytest.mark.parametrize("value", [b"x", b"-1", b"1.5", b"9" * 30, b""])
def test_record_that_is_no_number_counts_as_none(env, value):
    [id] = received_and_released(env)
    env.raw.hset(env.keys.unbegun, id, value)

    assert receive(env) == [(id, 2, 0)]


def test_record_of_another_type_changes_nothing_else(env):
    [id] = env.rsmq.send_messages("q", ["x"])
    env.raw.set(env.keys.unbegun, "not ours")
    assert receive(env) == [(id, 1, 0)]
    assert release(env, (id, 1), count=1) == b"1"
    assert receive(env) == [(id, 2, 0)]
    assert (
        env.rsmq.run(settle_messages(env.me, [Settlement(env.keys, "delete", 2, [id], True)]))
        == b"1"
    )

    assert env.raw.get(env.keys.unbegun) == b"not ours"


@pytest.mark.parametrize("env", ["redis", "redis-6.2"], indirect=True)
def test_records_are_bounded(env):
    ids = env.rsmq.send_messages("q", ["x"] * 3)
    receive(env)
    env.raw.hset(env.keys.unbegun, mapping={"": created(env)})
    for begin in range(0, 100_000, 10_000):
        stale = {f"{number:032d}": 1 for number in range(begin, begin + 10_000)}
        env.raw.hset(env.keys.unbegun, mapping=stale)
    for id in ids:
        release(env, (id, 1), count=1)
        assert env.raw.hlen(env.keys.unbegun) <= 100_001

    # Messages that have left the queue make room.
    assert all(env.raw.hexists(env.keys.unbegun, id) for id in ids)
    assert env.raw.hlen(env.keys.unbegun) < 99_900


@pytest.mark.parametrize("env", ["redis", "redis-6.2"], indirect=True)
def test_full_record_stores_no_more(env):
    ids = env.rsmq.send_messages("q", ["x"] * 2)
    receive(env)
    others = [f"{number:032d}" for number in range(100_000)]
    for begin in range(0, 100_000, 10_000):
        part = others[begin : begin + 10_000]
        env.raw.hset(env.keys.unbegun, mapping=dict.fromkeys(part, 1))
        env.raw.zadd(env.keys.zset, dict.fromkeys(part, 9e15))
    env.raw.hset(env.keys.unbegun, "", created(env))

    assert release(env, (ids[0], 1), count=1) == b"1"
    assert not env.raw.hexists(env.keys.unbegun, ids[0])
    assert env.raw.hlen(env.keys.unbegun) <= 100_002


def test_settling_deletes_the_record_with_the_message(env):
    kept, deleted = received_and_released(env, 2)
    receive(env)
    groups = [
        Settlement(env.keys, "delete", 2, [deleted], True),
        Settlement(env.keys, "hide", 2, [(kept, 1000)], True),
    ]

    assert env.rsmq.run(settle_messages(env.me, groups)) == b"11"
    assert stored(env) == {b"": created(env), kept.encode(): b"1"}


def test_release_keeps_the_quarantine_record(env):
    [id] = env.rsmq.send_messages("q", ["x"])
    receive(env)
    env.rsmq.run(record_quarantine_run(env.keys, id, 1))
    release(env, (id, 1), count=1)

    assert env.raw.hgetall(env.keys.quarantined) == {id.encode(): b"1:1"}


def test_queue_takes_its_record_along(env):
    received_and_released(env)
    env.rsmq.purge_queue("q")
    assert not env.raw.exists(env.keys.unbegun)
    received_and_released(env)
    env.rsmq.delete_queue("q")

    assert not env.raw.exists(env.keys.unbegun)


# The dead-letter policy of the queue: only receives that may have begun a call count.


def take_by_receive(env):
    message = env.rsmq.receive_message("q")
    return [] if message is None else [message.id]


def take_by_receive_many(env):
    return [message.id for message in env.rsmq.receive_messages("q", 10)]


def take_by_pop(env):
    message = env.rsmq.pop_message("q")
    return [] if message is None else [message.id]


def take_by_pop_many(env):
    return [message.id for message in env.rsmq.pop_messages("q", 10)]


TAKES = [take_by_receive, take_by_receive_many, take_by_pop, take_by_pop_many]


@pytest.mark.parametrize("take", TAKES)
def test_message_with_unbegun_receives_is_delivered_up_to_the_limit(env, take):
    [id] = received_and_released(env, times=4)
    env.rsmq.set_dead_letter_policy("q", "dead", 2)
    env.rsmq.receive_message("q", vt=0)

    assert env.rsmq.sweep_dead_letters("q") == []
    assert take(env) == [id]


@pytest.mark.parametrize("take", TAKES)
def test_message_is_dead_lettered_at_the_limit_of_begun_receives(env, take):
    [id] = received_and_released(env, times=4)
    env.rsmq.set_dead_letter_policy("q", "dead", 2)
    for _ in range(2):
        env.rsmq.receive_message("q", vt=0)

    assert take(env) == []
    assert env.raw.zrange(env.dead.zset, 0, -1) == [id.encode()]
    assert stored(env, env.dead) == {b"": created(env, "dead"), id.encode(): b"4"}
    assert stored(env) == {b"": created(env)}


def test_sweep_counts_begun_receives_only(env):
    first, second = received_and_released(env, 2, times=4)
    env.rsmq.set_dead_letter_policy("q", "dead", 2)
    env.raw.hset(env.keys.unbegun, second, 2)

    assert env.rsmq.sweep_dead_letters("q") == [second]
    assert env.raw.zrange(env.keys.zset, 0, -1) == [first.encode()]
    assert env.raw.zrange(env.dead.zset, 0, -1) == [second.encode()]


def test_recover_counts_begun_receives_only(env):
    first, second = received_and_released(env, 2, times=4)
    env.rsmq.set_dead_letter_policy("q", "dead", 2)
    env.raw.hset(env.keys.unbegun, second, 2)

    assert [message.id for message in env.rsmq.recover_messages("q", 10, idle=0)] == [first]
    assert env.raw.zrange(env.dead.zset, 0, -1) == [second.encode()]


# Where the record goes when its message leaves the queue.


def test_move_takes_the_record_along(env):
    [id] = received_and_released(env, times=3)
    env.rsmq.move_messages("q", "dead", [id])

    assert stored(env, env.dead) == {b"": created(env, "dead"), id.encode(): b"3"}
    assert stored(env) == {b"": created(env)}


def test_dead_letter_takes_the_record_along_and_redrive_drops_it(env):
    [id] = received_and_released(env, times=3)
    receive(env)
    operation = dead_letter_messages(env.me, env.keys, env.dead, [(id, 4, {"queue": "q"})])
    assert env.rsmq.run(operation) == b"1"
    assert stored(env, env.dead)[id.encode()] == b"3"
    [(_, new)] = env.rsmq.redrive_messages("dead", "q")

    assert receive(env) == [(new, 1, 0)]
