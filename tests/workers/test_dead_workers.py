"""Records of dead workers that no successor takes over."""

from __future__ import annotations

import json

import pytest

from rsmq.worker.places import dead_workers
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
