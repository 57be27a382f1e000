"""Rate limits and locks by key: their scripts, by their raw keys."""

from __future__ import annotations

import pytest

from rsmq.wire.keys import Namespace
from rsmq.worker.operations import lock_keys, take_permits, unlock_keys
from tests.contract.conftest import CLUSTERS, Env

DAY = 86_400_000


@pytest.fixture(params=["redis", "redis-6.2", *CLUSTERS, "redis-py, RESP3", "memory"])
def env(request, mode):
    env = Env(request.param, mode, request)
    env.keys = Namespace(env.ns).queue("q")
    env.rate = Namespace(env.ns).rate("mail", "")
    env.rsmq.create_queue("q")
    yield env
    env.close()


def take(env, *wanted, limit=10, period=600.0, keys=None):
    return env.rsmq.run(take_permits(keys or [env.rate], limit, period, wanted))


def test_permits_of_a_period_are_given_once(env):
    before = env.now_ms()
    [(allowed, free_in)] = take(env, 4)
    assert (allowed, free_in) == (4, 0)
    until = float(env.raw.hget(env.rate, "until"))
    assert before + 4 * 60_000 <= until <= env.now_ms() + 4 * 60_000
    assert 0 < env.raw.pttl(env.rate) <= 4 * 60_000 + 1000
    [(allowed, free_in)] = take(env, 10)
    assert allowed == 6
    assert 50 < free_in <= 60
    [(allowed, free_in)] = take(env, 1)
    assert allowed == 0
    assert 290 < free_in <= 300, "four messages have the turns before it"
    now, turn = env.now_ms(), float(env.raw.hget(env.rate, "turn"))
    assert now + 290_000 < turn <= now + 300_000


def test_a_key_lives_until_its_last_turn(env):
    take(env, 25)

    assert 14 * 60_000 < env.raw.pttl(env.rate) <= 15 * 60_000 + 1000


def test_a_turn_is_a_week_away_at_most(env):
    take(env, 11, limit=1, period=86_400)
    assert (
        7 * DAY - 5000 < float(env.raw.hget(env.rate, "turn")) - env.now_ms() - 3 * DAY <= 7 * DAY
    )
    [(_, free_in)] = take(env, 1, limit=1, period=86_400)

    assert 7 * DAY < free_in * 1000 + 5000 <= 8 * DAY + 5000


@pytest.mark.parametrize(("idle", "is_void"), [(110_000, False), (140_000, True)])
def test_turns_that_nobody_takes_are_void(env, idle, is_void):
    """Their messages were deleted: two permits and ten seconds are left unused."""
    take(env, 100)
    now = env.now_ms()
    env.raw.hset(env.rate, "until", now + 600_000 - idle)
    [(allowed, free_in)] = take(env, 10)

    assert allowed == idle // 60_000
    assert free_in < 60 if is_void else free_in > 5000


def test_permits_become_free_one_after_the_other(env):
    take(env, 10)
    env.raw.hincrbyfloat(env.rate, "until", -180_000)  # as if three minutes had passed

    assert take(env, 10)[0][0] == 3


def test_each_key_has_a_limit_of_its_own(env):
    keys = [Namespace(env.ns).rate("mail", key) for key in ("a", "b")]
    [(a, free_a), (b, free_b)] = take(env, 12, 2, keys=keys)

    assert (a, b, free_b) == (10, 2, 0)
    assert free_a > 50
    assert {key.decode() for key in env.raw.keys(f"{env.ns}:x:rate:*")} == {
        f"{env.ns}:x:rate:mail:a", f"{env.ns}:x:rate:mail:b",
    }  # fmt: skip


def test_a_limit_that_has_become_shorter_is_not_used_up_for_the_old_period(env):
    take(env, 10, period=60_000)

    assert take(env, 1, period=1)[0][1] <= 1


def receive(env, vt=90):
    [id] = env.rsmq.send_messages("q", ["x"])
    assert env.rsmq.receive_message("q", vt=vt).id == id
    return id


def lock(env, *messages):
    return env.rsmq.run(lock_keys(env.keys, messages))


def locks(env):
    stored = env.raw.hgetall(env.keys.locks)
    return {field: value for field, value in stored.items() if field not in (b"", b":")}


def test_one_message_in_flight_has_the_lock_of_a_key(env):
    first, second = receive(env), receive(env)

    assert lock(env, (first, 1, "k"), (second, 1, "k"), (second, 1, "")) == [True, False, True]
    assert locks(env) == {b"=k": f"1:{first}".encode(), b"=": f"1:{second}".encode()}
    assert env.raw.hget(env.keys.locks, "") == env.raw.hget(env.keys.hash, "created")
    assert 7 * DAY - 5000 < env.raw.pttl(env.keys.locks) <= 7 * DAY
    assert lock(env, (first, 1, "k")) == [True]  # a repetition of the call


def test_locks_of_different_names_have_nothing_in_common(env):
    first, second = receive(env), receive(env)
    lock(env, (first, 1, "k"))

    assert env.rsmq.run(lock_keys(env.keys, [(second, 1, "k")], name="n")) == [True]
    assert locks(env) == {b"=k": f"1:{first}".encode(), b"n=k": f"1:{second}".encode()}
    assert env.rsmq.run(unlock_keys(env.keys, [(second, 1, "k")], name="n")) == 1


@pytest.mark.parametrize("end", ["delete", "release", "receive", "expire"])
def test_a_lock_ends_with_the_receive_of_its_message(env, end):
    first, second = receive(env), receive(env)
    lock(env, (first, 1, "k"))
    assert lock(env, (second, 1, "k")) == [False]
    if end == "delete":
        env.rsmq.delete_message("q", first)
    elif end == "release":
        env.rsmq.release_messages("q", [first])
    elif end == "receive":
        env.raw.hincrby(env.keys.hash, f"{first}:rc", 1)
    else:
        env.raw.zadd(env.keys.zset, {first: env.now_ms() - 1})

    assert lock(env, (second, 1, "k")) == [True]
    assert locks(env) == {b"=k": f"1:{second}".encode()}


def test_only_the_owner_of_a_lock_unlocks_it(env):
    first, second = receive(env), receive(env)
    lock(env, (first, 1, "k"))

    assert env.rsmq.run(unlock_keys(env.keys, [(second, 1, "k"), (first, 2, "k")])) == 0
    assert env.rsmq.run(unlock_keys(env.keys, [(first, 1, "k"), (first, 1, "k")])) == 1
    assert locks(env) == {}


def test_void_locks_are_cleared(env):
    live = receive(env)
    lock(env, (live, 1, "live"))
    env.raw.hset(env.keys.locks, mapping={f"=k{n}": f"1:{'i' * 32}" for n in range(10_500)})
    for _ in range(12):
        lock(env, (live, 1, "live"))

    assert env.raw.hlen(env.keys.locks) <= 10_001
    assert lock(env, (receive(env), 1, "live")) == [False]


@pytest.mark.parametrize("call", ["delete_queue", "purge_queue"])
def test_locks_are_deleted_with_the_messages(env, call):
    lock(env, (receive(env), 1, "k"))
    getattr(env.rsmq, call)("q")

    assert not env.raw.exists(env.keys.locks)
