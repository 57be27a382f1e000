"""Sends with a unique_key, replace and max_wait, on raw keys."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import redis

from rsmq import InvalidFormat, InvalidValue, MessageTooLong, QueueNotFound
from tests.expect import refused


def keys_of(env, queue):
    return {
        key.decode(): id.decode()
        for key, id in env.raw.hgetall(f"{env.ns}:{queue}:x:unique").items()
    }


def sent_ms(id):
    return int(id[:10], 36) // 1000


def test_while_a_message_has_the_key_a_send_adds_nothing(env, queue):
    id = env.rsmq.send_message(queue, "m", unique_key="tenant 1", delay=7)
    before = env.state()

    assert env.rsmq.send_message(queue, "other", unique_key="tenant 1") == id
    assert env.state() == before
    assert keys_of(env, queue) == {"tenant 1": id}
    assert env.raw.ttl(f"{env.ns}:{queue}:x:unique") == -1
    assert env.fields(queue)["totalsent"] == "1"
    assert env.rsmq.send_message(queue, "m", unique_key="tenant 2") != id
    assert env.rsmq.send_message(queue, "m") != id


def test_a_message_in_flight_or_released_keeps_its_key(env, queue):
    id = env.rsmq.send_message(queue, "m", unique_key="x")
    message = env.rsmq.receive_message(queue)

    assert env.rsmq.send_message(queue, "m", unique_key="x") == id
    env.rsmq.release_messages([message])
    assert env.rsmq.send_message(queue, "m", unique_key="x") == id
    assert list(env.scores(queue)) == [id]


def pop(env, queue):
    env.rsmq.pop_message(queue)


def delete(env, queue):
    env.rsmq.delete_message(env.rsmq.receive_message(queue))


def delete_as_node(env, queue):
    id = next(iter(env.scores(queue)))
    env.raw.zrem(env.zset(queue), id)
    env.raw.hdel(env.hash(queue), id, f"{id}:rc", f"{id}:fr")


def leave_an_orphan_body(env, queue):
    env.raw.zrem(env.zset(queue), next(iter(env.scores(queue))))


def leave_a_ghost_id(env, queue):
    env.raw.hdel(env.hash(queue), next(iter(env.scores(queue))))


def move_to_dead_letters(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    env.rsmq.receive_message(queue, vt=0)
    assert env.rsmq.receive_message(queue) is None


def move(env, queue):
    env.rsmq.create_queue("other")
    env.rsmq.move_messages(queue, "other", list(env.scores(queue)))


def purge(env, queue):
    env.rsmq.purge_queue(queue)
    assert keys_of(env, queue) == {}


def create_again(env, queue):
    env.rsmq.delete_queue(queue)
    assert keys_of(env, queue) == {}
    env.rsmq.create_queue(queue)


def create_again_as_node(env, queue):
    env.raw.delete(env.zset(queue))
    env.raw.delete(env.hash(queue))
    env.raw.srem(f"{env.ns}:QUEUES", queue)
    env.rsmq.create_queue(queue)


@pytest.mark.parametrize(
    "end",
    [
        pop, delete, delete_as_node, leave_an_orphan_body, leave_a_ghost_id, move_to_dead_letters,
        move, purge, create_again, create_again_as_node,
    ],
)  # fmt: skip
def test_a_key_is_free_once_its_message_has_left_the_queue(env, queue, end):
    first = env.rsmq.send_message(queue, "m", unique_key="x")
    end(env, queue)

    second = env.rsmq.send_message(queue, "n", unique_key="x")
    assert second != first
    assert env.fields(queue)[second] == "n"
    assert keys_of(env, queue) == {"x": second}
    assert env.rsmq.send_message(queue, "o", unique_key="x") == second


def test_a_replaced_message_has_the_new_body_and_keeps_its_id_and_place(env, queue):
    first = env.rsmq.send_message(queue, "1", unique_key="x")
    env.rsmq.send_message(queue, "behind")
    before = env.scores(queue)

    assert env.rsmq.send_message(queue, "22", unique_key="x", replace=True) == first
    assert env.scores(queue) == before
    assert env.fields(queue)["totalsent"] == "2"
    assert env.rsmq.send_message(queue, "333", unique_key="x", replace=True, delay=0) == first
    assert env.scores(queue) == before
    assert [m.body for m in env.rsmq.receive_messages(queue, 9)] == ["333", "behind"]


def test_a_replaced_message_gets_the_time_of_the_last_send(env, queue):
    send = env.rsmq.send_message
    first = send(queue, "1", unique_key="x", replace=True, delay=100)
    assert env.scores(queue) == {first: sent_ms(first) + 100_000}

    before = env.now_ms()
    assert send(queue, "2", unique_key="x", replace=True, delay=200) == first
    assert before + 200_000 <= env.scores(queue)[first] <= env.now_ms() + 200_000
    at = datetime.fromtimestamp(sent_ms(first) // 1000 + 1000, UTC)
    assert send(queue, "3", unique_key="x", replace=True, deliver_at=at) == first
    assert env.scores(queue) == {first: at.timestamp() * 1000}
    assert send(queue, "4", unique_key="x", replace=True, delay=0) == first
    assert before <= env.scores(queue)[first] <= env.now_ms()
    other = send(queue, "other", front=True)
    assert send(queue, "5", unique_key="x", replace=True, front=True) == first
    assert list(env.scores(queue)) == [first, other]
    assert env.fields(queue)[first] == "5"


def test_a_message_is_put_off_until_max_wait_after_its_first_send(env, queue):
    send = env.rsmq.send_message
    first = send(queue, "1", unique_key="x", replace=True, delay=100, max_wait=250)
    assert env.scores(queue) == {first: sent_ms(first) + 100_000}
    for delay in (200, 250):
        assert send(queue, "2", unique_key="x", replace=True, delay=delay, max_wait=250) == first
    assert env.scores(queue) == {first: sent_ms(first) + 250_000}
    assert send(queue, "3", unique_key="x", replace=True, delay=1, max_wait=1) == first
    assert env.scores(queue) == {first: sent_ms(first) + 1_000}


def test_a_message_that_was_received_is_not_replaced_and_gives_its_key_away(env, queue):
    send = env.rsmq.send_message
    running = send(queue, "running", unique_key="x")
    message = env.rsmq.receive_message(queue)

    waiting = send(queue, "waiting", unique_key="x", replace=True)
    assert waiting != running
    assert send(queue, "newer", unique_key="x", replace=True) == waiting
    assert send(queue, "newest", unique_key="x") == waiting
    assert env.fields(queue)[running] == "running"
    assert env.rsmq.delete_message(message)
    assert keys_of(env, queue) == {"x": waiting}
    assert send(queue, "newest", unique_key="x", replace=True) == waiting
    assert env.fields(queue)[waiting] == "newest"
    assert env.fields(queue)["totalsent"] == "2"


def test_unique_keys_in_a_batch(env, queue):
    first = env.rsmq.send_message(queue, "0", unique_key="a")
    bodies = ["1", "2", "3", "4", "5"]
    keys = ["b", "a", None, "b", None]
    ids = env.rsmq.send_messages(queue, bodies, unique_keys=keys)

    assert ids[1] == first
    assert ids[0] == ids[3]
    assert len({*ids, first}) == 4
    assert [m.body for m in env.rsmq.peek_messages(queue)] == ["0", "1", "3", "5"]
    again = env.rsmq.send_messages(queue, bodies, unique_keys=keys, replace=True)
    assert again[0] == again[3] == ids[0]
    assert again[1] == first
    assert [m.body for m in env.rsmq.peek_messages(queue)] == ["2", "4", "3", "5", "3", "5"]
    assert env.fields(queue)["totalsent"] == "6"
    new = env.rsmq.send_messages(queue, ["6", "7"], unique_keys=["n", "n"], replace=True, delay=9)
    assert new[0] == new[1]
    assert env.fields(queue)[new[0]] == "7"
    assert env.rsmq.send_messages(queue, [], unique_keys=[], replace=True) == []


def test_a_dedup_id_is_looked_up_before_the_unique_key(env, queue):
    send = env.rsmq.send_message
    first = send(queue, "1", unique_key="x", dedup_id="d1")
    assert send(queue, "2", unique_key="x", dedup_id="d2", replace=True) == first
    assert env.fields(queue)[first] == "2"
    # Both names are those of the first message: a repeated call finds it, and replaces nothing.
    before = env.fields(queue), env.scores(queue)
    for name in ("d1", "d2"):
        assert send(queue, "late", unique_key="x", dedup_id=name, replace=True) == first
    assert (env.fields(queue), env.scores(queue)) == before
    env.rsmq.pop_message(queue)
    assert send(queue, "late", unique_key="x", dedup_id="d2") == first
    assert env.scores(queue) == {}
    assert send(queue, "3", unique_key="x", dedup_id="d3") != first


def test_a_batch_with_dedup_ids_and_unique_keys(env, queue):
    ids = env.rsmq.send_messages(
        queue, ["1", "2", "3", "4"],
        dedup_ids=["d", "d", None, "e"], unique_keys=["a", "b", "a", None],
    )  # fmt: skip
    assert ids[0] == ids[1] == ids[2] != ids[3]
    assert keys_of(env, queue) == {"a": ids[0]}
    assert [m.body for m in env.rsmq.receive_messages(queue, 9)] == ["1", "4"]


@pytest.mark.parametrize("backend", ["redis", "redis-6.2", "memory"])
def test_free_keys_are_removed_by_later_sends(env, queue):
    live = env.rsmq.send_messages(queue, ["m"] * 20, unique_keys=[f"live {n}" for n in range(20)])
    unused = {f"gone {n}": "0" * 10 + f"{n:022}" for n in range(1000)}
    env.raw.hset(f"{env.ns}:{queue}:x:unique", mapping=unused)
    env.rsmq.send_messages(queue, ["m"] * 600, unique_keys=[f"new {n % 9}" for n in range(600)])

    stored = keys_of(env, queue)
    assert sum(key.startswith("gone") for key in stored) == 0
    assert [stored[f"live {n}"] for n in range(20)] == live
    assert len(stored) == 29


@pytest.mark.parametrize("backend", ["memory"])
@pytest.mark.parametrize("key", ["", "x" * 129, 5, b"x", "\ud800"])
def test_an_invalid_unique_key_is_refused(env, queue, key):
    before = env.state()
    with refused(InvalidFormat, "Invalid unique_key format"):
        env.rsmq.send_message(queue, "m", unique_key=key)
    with refused(InvalidFormat, "Invalid unique_key format"):
        env.rsmq.send_messages(queue, ["m"], unique_keys=[key])
    assert env.state() == before


def test_a_unique_key_may_have_any_characters(env, queue):
    for key in ("é😀" * 64, "a:b\0c\n", "0"):
        id = env.rsmq.send_message(queue, "m", unique_key=key)
        assert env.rsmq.send_message(queue, "m", unique_key=key) == id


def test_a_refused_send_stores_no_key(env, queue):
    held = env.rsmq.send_message(queue, "m", unique_key="held")
    before = env.state()
    for key in ("x", "held"):
        with refused(MessageTooLong, "Message too long"):
            env.rsmq.send_message(queue, "x" * 70_000, unique_key=key, replace=True)
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.send_message("missing", "m", unique_key="x")
    assert env.state() == before
    env.raw.delete(f"{env.ns}:{queue}:x:unique")
    env.raw.set(f"{env.ns}:{queue}:x:unique", "text")
    before = env.state()
    with pytest.raises(redis.ResponseError):
        env.rsmq.send_message(queue, "m", unique_key="x")
    assert env.state() == before
    assert held in env.scores(queue)


@pytest.mark.parametrize("backend", ["memory"])
@pytest.mark.parametrize("value", [-1, 10_000_000, "5", True])
def test_an_invalid_max_wait_is_refused(env, queue, value):
    with refused(InvalidValue, "max_wait must be between 0 and 9999999"):
        env.rsmq.send_message(queue, "m", unique_key="x", replace=True, delay=0, max_wait=value)


@pytest.mark.parametrize("backend", ["redis"])
def test_a_queue_without_unique_keys_has_no_key_of_them(env, queue):
    env.rsmq.send_message(queue, "m", dedup_id="d")
    env.rsmq.send_messages(queue, ["m"])

    assert not env.raw.exists(f"{env.ns}:{queue}:x:unique")


@pytest.mark.parametrize("backend", ["redis"])
def test_realtime_notifies_of_new_messages_only(env, queue):
    client = env.client(realtime=True)
    with env.raw.pubsub() as pubsub:
        pubsub.subscribe(f"{env.ns}:rt:{queue}")
        client.send_message(queue, "1", unique_key="x")
        client.send_message(queue, "2", unique_key="x")
        client.send_message(queue, "3", unique_key="x", replace=True)
        client.send_messages(queue, ["4", "5"], unique_keys=["x", "y"])
        heard = []
        while len(heard) < 2:
            message = pubsub.get_message(ignore_subscribe_messages=True, timeout=10)
            heard += [message["data"]] if message else []
    assert heard == [b"1", b"2"]
