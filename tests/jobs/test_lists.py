"""The jobs of a queue, found among all keys of the database."""

from __future__ import annotations

import asyncio

import pytest

from rsmq import AsyncRSMQ, InvalidFormat, InvalidValue


def test_the_jobs_of_a_queue_are_listed_the_last_first(env, rsmq):
    other = rsmq.namespace.queue("q2").job("i" * 32)
    env.raw.hset(other, "state", "failed")
    env.raw.mset({f"{env.ns}:other:{number}": "" for number in range(2500)})  # several steps
    env.create_queues("q")
    ids = [rsmq.send_message("q", "m", track=True) for _ in range(5)]
    rsmq.send_message("q", "untracked")
    key = env.key(ids[1])
    env.raw.hset(key, mapping={"state": "failed", "error": "E: e", "attempt": 2})
    rsmq.delete_message("q", ids[3])

    assert [each.id for each in rsmq.jobs("q")] == ids[::-1]
    assert [each.id for each in rsmq.jobs("q", max_jobs=2)] == ids[:2:-1]
    [failed] = rsmq.jobs("q", state="failed")
    assert (failed.id, failed.queue, failed.error, failed.attempt) == (ids[1], "q", "E: e", 2)
    # A record says waiting although its message is gone.
    [expired] = rsmq.jobs("q", state="expired")
    assert expired.id == ids[3]
    assert rsmq.jobs("q", state="running") == rsmq.jobs("missing") == []


def test_a_name_that_looks_like_a_pattern_is_only_itself(env):
    rsmq = env.create_client(strict_names=False)
    for name in ("a*", "ab"):
        rsmq.create_queue(name)
        rsmq.send_message(name, "m", track=True)
    assert [each.queue for each in rsmq.jobs("a*")] == ["a*"]


def test_asyncio_lists_jobs_too(env):
    env.create_queues("q")
    id = env.rsmq.send_message("q", "m", track=True)

    async def list_all():
        async with AsyncRSMQ.from_url(env.url, ns=env.ns) as rsmq:
            return await rsmq.jobs("q", state="waiting")

    assert [each.id for each in asyncio.run(list_all())] == [id]


def test_a_wrong_state_or_number_is_refused(rsmq):
    with pytest.raises(InvalidFormat, match="The states are waiting, running"):
        rsmq.jobs("q", state="done")
    with pytest.raises(InvalidValue):
        rsmq.jobs("q", max_jobs=0)
