"""Records of dead workers that no successor takes over."""

from __future__ import annotations

import json

import pytest

from rsmq.worker.loop import dead_workers
from rsmq.worker.registry import list_workers
from tests.workers.polling import wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


@pytest.fixture
def frequent_looks(monkeypatch, fast_heartbeat):
    monkeypatch.setattr(dead_workers, "INTERVAL_SECONDS", 0.01)


def store_dead_worker(env, name, *, seconds_ago, forget_after_ms=None, held_token=None):
    """Store what a worker leaves that was killed so many seconds after its last heartbeat."""
    seconds, _ = env.raw.time()
    info = {} if forget_after_ms is None else {"forget_after_ms": forget_after_ms}
    expires_ms = (seconds - seconds_ago) * 1000
    env.raw.hset(f"{env.ns}:x:workers", name, f"{expires_ms}:{name}token:{json.dumps(info)}")
    env.raw.hset(f"{env.ns}:x:held:{name}", mapping={"": held_token or f"{name}token", "a": "1:q"})


def test_record_of_an_unnamed_worker_is_deleted_after_its_longest_vt(env, frequent_looks):
    env.create_queues("q")
    store_dead_worker(env, "over", seconds_ago=100, forget_after_ms=90_000)
    store_dead_worker(env, "hidden", seconds_ago=100, forget_after_ms=900_000)
    store_dead_worker(env, "named", seconds_ago=100)
    store_dead_worker(env, "successor", seconds_ago=100, forget_after_ms=90_000, held_token="other")
    store_dead_worker(env, "alive", seconds_ago=-100, forget_after_ms=0)
    worker = env.create_worker(name="w")
    worker.listener("q", retry_forever=True)(lambda body: None)
    worker.start()
    wait_until(lambda: not env.raw.exists(f"{env.ns}:x:held:over"))
    worker.stop()

    assert sorted(env.raw.keys(f"{env.ns}:x:held:*")) == [
        f"{env.ns}:x:held:{name}".encode() for name in ("alive", "hidden", "named", "successor")
    ]
    assert env.raw.hexists(f"{env.ns}:x:workers", "over"), "it stays listed"


def test_many_records_are_deleted_in_steps(env, frequent_looks):
    env.create_queues("q")
    for number in range(35):
        store_dead_worker(env, f"d{number}", seconds_ago=100, forget_after_ms=0)
    worker = env.create_worker()
    worker.listener("q", retry_forever=True)(lambda body: None)
    worker.start()
    wait_until(lambda: env.raw.keys(f"{env.ns}:x:held:d*") == [])


@pytest.mark.parametrize("name", [None, "w"])
def test_workers_without_a_fixed_name_say_when_they_may_be_forgotten(env, fast_heartbeat, name):
    env.create_queues("q", "long")
    worker = env.create_worker(name=name)
    worker.listener("q", vt=10, retry_forever=True)(lambda body: None)
    worker.listener("long", vt=99.5, retry_forever=True)(lambda body: None)
    worker.start()
    key = f"{env.ns}:x:workers"
    wait_until(lambda: b'"handled"' in env.raw.hget(key, worker.name))
    info = json.loads(env.raw.hget(key, worker.name).split(b":", 2)[2])

    assert info.get("forget_after_ms") == (99_500 if name is None else None)


def test_a_worker_says_of_the_last_hour_when_those_of_its_name_died_before_it(env):
    env.create_queues("q")
    seconds, _ = env.raw.time()
    died_ms = (seconds - 60 - 5) * 1000  # it counted as alive for five seconds more
    before = [died_ms - 3_600_000, died_ms - 3_599_999, died_ms - 9]
    entry = f"{died_ms + 5000}:token:{json.dumps({'deaths': before})}"
    env.raw.hset(f"{env.ns}:x:workers", "w", entry)
    worker = env.create_worker(name="w")
    worker.listener("q", retry_forever=True)(lambda body: None)

    def deaths_of(worker_name):
        return [each.deaths for each in list_workers(env.rsmq) if each.name == worker_name]

    worker.start()
    try:
        assert deaths_of("w") == [(*before[1:], died_ms)]
        heartbeats = env.raw.hget(f"{env.ns}:x:workers", "w")
        wait_until(lambda: env.raw.hget(f"{env.ns}:x:workers", "w") != heartbeats)
        assert deaths_of("w") == [(*before[1:], died_ms)]
    finally:
        worker.stop()
    assert list_workers(env.rsmq) == []


@pytest.mark.parametrize("stored", ["no json", "[1]", '{"deaths": 7}', '{"deaths": ["a"]}'])
def test_deaths_that_another_program_has_written_are_ignored(env, stored):
    env.create_queues("q")
    seconds, _ = env.raw.time()
    env.raw.hset(f"{env.ns}:x:workers", "w", f"{(seconds - 60) * 1000}:token:{stored}")
    worker = env.create_worker(name="w")
    worker.listener("q", retry_forever=True)(lambda body: None)
    worker.start()
    try:
        [found] = list_workers(env.rsmq)
        assert found.deaths == ((seconds - 65) * 1000,)
    finally:
        worker.stop()
