"""Deduplication of sends: dedup_id and its window, on raw keys."""

from __future__ import annotations

import pytest
import redis

from rsmq import RSMQ, InvalidFormat, InvalidValue, MessageTooLong, QueueNotFound
from tests.contract.test_groups import recreate_as_node
from tests.expect import refused


def records(env, queue):
    return f"{env.ns}:{queue}:x:dedup"


def test_a_second_send_stores_nothing(env, queue):
    id = env.rsmq.send_message(queue, "m", dedup_id="order 1", delay=7)
    before = env.state()

    assert env.rsmq.send_message(queue, "other", dedup_id="order 1") == id
    assert env.state() == before
    assert env.fields(queue)["totalsent"] == "1"
    assert env.rsmq.send_message(queue, "m", dedup_id="order 2") != id
    assert env.rsmq.send_message(queue, "m") != id


def test_a_second_send_stores_nothing_after_the_first_message_was_popped(env, queue):
    id = env.rsmq.send_message(queue, "m", dedup_id="x")
    assert env.rsmq.pop_message(queue).id == id

    assert env.rsmq.send_message(queue, "m", dedup_id="x") == id
    assert env.scores(queue) == {}


def test_each_queue_has_its_own_dedup_ids(env, queue):
    env.rsmq.create_queue("p")

    assert env.rsmq.send_message(queue, "m", dedup_id="x") != env.rsmq.send_message(
        "p", "m", dedup_id="x"
    )


def test_after_its_window_a_dedup_id_can_be_used_again(env, queue):
    id = env.rsmq.send_message(queue, "m", dedup_id="x", dedup_window=5)
    key = records(env, queue)
    ends, created, stored = env.raw.hget(key, "x").split(b":")
    assert stored.decode() == id
    assert created.decode() == env.fields(queue)["created"]
    assert int(ends) == int(id[:10], 36) // 1000 + 5000
    assert 0 < env.raw.pttl(key) <= 5000
    env.raw.hset(key, "x", b"%d:%s:%s" % (int(ends) - 5001, created, stored))

    assert env.rsmq.send_message(queue, "m", dedup_id="x") != id
    assert env.raw.pttl(key) > 200_000


def test_expired_dedup_ids_are_removed(env, queue):
    key = records(env, queue)
    old = {f"old {n}": f"{env.now_ms() - 1}::i" for n in range(2000)}
    env.raw.hset(key, mapping=old)
    for n in range(400):
        env.rsmq.send_message(queue, "m", dedup_id=f"new {n}")

    stored_ids = env.raw.hkeys(key)
    assert sum(name.startswith(b"new") for name in stored_ids) == 400
    assert sum(name.startswith(b"old") for name in stored_ids) == 0


@pytest.mark.parametrize("gone", ["purge_queue", "delete_queue"])
def test_a_purged_or_recreated_queue_has_no_dedup_ids(env, queue, gone):
    id = env.rsmq.send_message(queue, "m", dedup_id="x")
    getattr(env.rsmq, gone)(queue)
    assert not env.raw.exists(records(env, queue))
    env.rsmq.create_queue(queue, exist_ok=True)

    assert env.rsmq.send_message(queue, "m", dedup_id="x") != id


def test_a_queue_that_node_recreated_has_no_dedup_ids(env, queue):
    id = env.rsmq.send_message(queue, "m", dedup_id="x")
    env.raw.hincrby(env.hash(queue), "created", 1)

    assert env.rsmq.send_message(queue, "m", dedup_id="x") != id


def test_a_queue_that_node_recreated_within_a_second_has_no_dedup_ids(env, queue):
    a, b = env.rsmq.send_messages(queue, ["old", "old"], dedup_ids=["a", "b"])
    recreate_as_node(env, queue)

    new = env.rsmq.send_message(queue, "new", dedup_id="a")
    assert new != a
    assert list(env.scores(queue)) == [new]
    assert set(env.raw.hkeys(records(env, queue))) == {b"a", b""}
    assert env.rsmq.send_message(queue, "new", dedup_id="b") != b
    assert env.rsmq.send_message(queue, "new", dedup_id="a") == new
    assert len(env.scores(queue)) == 2


def test_dedup_ids_in_a_batch(env, queue):
    first = env.rsmq.send_message(queue, "0", dedup_id="a")
    ids = env.rsmq.send_messages(
        queue, ["1", "2", "3", "4", "5"], dedup_ids=["b", "a", None, "b", None]
    )

    assert ids[1] == first
    assert ids[0] == ids[3]
    assert len({*ids, first}) == 4
    assert [m.body for m in env.rsmq.receive_messages(queue, 9)] == ["0", "1", "3", "5"]
    assert env.fields(queue)["totalsent"] == "4"
    before = env.state()
    assert env.rsmq.send_messages(queue, ["1", "2"], dedup_ids=["b", "a"]) == [ids[0], first]
    assert env.state() == before


def test_large_bodies_with_dedup_ids(env, queue):
    ids = env.rsmq.send_messages(queue, ["x" * 9000, "y" * 9000], dedup_ids=["a", "b"])

    assert (
        env.rsmq.send_messages(queue, ["x" * 9000, "y" * 9000], dedup_ids=["b", "a"]) == ids[::-1]
    )
    assert len(env.scores(queue)) == 2


@pytest.mark.refused
@pytest.mark.parametrize("name", ["", "x" * 129, 5, b"x", "\ud800"])
def test_an_invalid_dedup_id_is_refused(env, queue, name):
    before = env.state()
    with refused(InvalidFormat, "Invalid dedup_id format"):
        env.rsmq.send_message(queue, "m", dedup_id=name)
    with refused(InvalidFormat, "Invalid dedup_id format"):
        env.rsmq.send_messages(queue, ["m"], dedup_ids=[name])
    assert env.state() == before


def test_a_dedup_id_may_have_any_characters(env, queue):
    for name in ("é😀" * 64, "a:b\0c\n", "0"):
        id = env.rsmq.send_message(queue, "m", dedup_id=name)
        assert env.rsmq.send_message(queue, "m", dedup_id=name) == id


@pytest.mark.refused
@pytest.mark.parametrize("window", [0, 0.999, -1, 10_000_000, "5", None, True])
def test_an_invalid_window_is_refused(env, queue, window):
    with pytest.raises(InvalidValue, match="dedup_window must be between"):
        env.rsmq.send_message(queue, "m", dedup_id="x", dedup_window=window)
    with pytest.raises(InvalidValue, match="dedup_window must be between"):
        env.rsmq.send_messages(queue, ["m"], dedup_ids=["x"], dedup_window=window)


def test_a_batch_needs_as_many_dedup_ids_as_bodies(env, queue):
    for names in (["a"], ["a", "b", "c"], "ab", 5):
        with refused(InvalidFormat, "Invalid dedup_ids format"):
            env.rsmq.send_messages(queue, ["1", "2"], dedup_ids=names)


def test_a_refused_send_stores_no_dedup_id(env, queue):
    with refused(MessageTooLong, "Message too long"):
        env.rsmq.send_message(queue, "x" * 70_000, dedup_id="x")
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.send_message("missing", "m", dedup_id="x")
    assert not env.raw.exists(records(env, queue), records(env, "missing"))
    env.raw.set(records(env, queue), "text")
    before = env.state()
    with pytest.raises(redis.ResponseError):
        env.rsmq.send_message(queue, "m", dedup_id="x")
    assert env.state() == before


def test_dedup_ids_work_if_created_is_a_fraction(env, queue):
    env.raw.hset(env.hash(queue), "created", "1700000000.5")
    id = env.rsmq.send_message(queue, "m", dedup_id="x")

    assert env.rsmq.send_message(queue, "m", dedup_id="x") == id


def test_a_shorter_window_does_not_shorten_other_windows(env, queue):
    env.rsmq.send_message(queue, "m", dedup_id="x", dedup_window=1000)
    env.rsmq.send_message(queue, "m", dedup_id="y", dedup_window=1)
    env.rsmq.send_messages(queue, ["m"], dedup_ids=["z"], dedup_window=1)

    assert env.raw.pttl(records(env, queue)) > 900_000


@pytest.mark.parametrize("backend", ["redis", "redis-6.2"])
def test_a_user_without_all_rights_stores_no_dedup_id(env, queue):
    env.raw.execute_command(
        "ACL", "SETUSER", f"{env.ns}-half", "on", ">x", f"~{env.ns}:*", "+@all", "-hscan"
    )
    half = RSMQ.from_url(f"redis://{env.ns}-half:x@127.0.0.1:{env.server.port}/0", ns=env.ns)
    before = env.state()
    with pytest.raises(redis.ResponseError):
        half.send_message(queue, "m", dedup_id="x")
    with pytest.raises(redis.ResponseError):
        half.send_messages(queue, ["m"], dedup_ids=["x"])
    half.close()
    assert env.state() == before
