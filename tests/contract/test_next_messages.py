"""Messages that are sent when others have been handled: one script deletes and sends."""

from __future__ import annotations

import pytest

from rsmq.operations.plain import plain_command
from rsmq.wire.keys import Namespace
from rsmq.worker.operations import (
    MAP_LIFETIME_SECONDS,
    FollowingMessage,
    Identity,
    ReceiveRequest,
    TrackedOutcome,
    finish_messages,
    receive_for_worker,
    register_worker,
)
from tests.contract.conftest import CLUSTERS, Env


@pytest.fixture(params=["redis", "redis-6.2", *CLUSTERS, "redis-py, RESP3", "memory"])
def env(request, mode):
    env = Env(request.param, mode, request)
    yield env
    env.close()


@pytest.fixture
def me(env):
    """A registered worker, and the queues a and b."""
    me = Identity(Namespace(env.ns), "w", "mine")
    env.rsmq.run(register_worker(me, {"pid": 1}, ttl=10, dead=""))
    env.rsmq.create_queue("a")
    env.rsmq.create_queue("b", maxsize=1024)
    return me


def queue(env, name):
    return Namespace(env.ns).queue(name)


def receive(env, me, number, *, is_tracked=False):
    """Send messages to queue a, receive them as a worker does, and return their ids."""
    for body in range(number):
        env.rsmq.send_message("a", str(body), **({"track": True} if is_tracked else {}))
    request = ReceiveRequest(queue(env, "a"), 60_000, 1, 0, number, is_tracked=is_tracked)
    (result,) = env.rsmq.run(receive_for_worker(me, [request], number))
    assert len(result.ids) == number
    return result.ids


def finish(env, me, messages, count=1, **options):
    operation = finish_messages(me, queue(env, "a"), count, messages, **options)
    return [each.decode() for each in env.rsmq.run(operation)]


def to_b(body):
    return FollowingMessage("b", body, len(body))


def in_flight(env, me):
    return {id.decode() for id in env.raw.hgetall(me.in_flight_key) if id}


def bodies(env, name):
    ids = env.raw.zrange(env.zset(name), 0, -1)
    return [env.raw.hget(env.hash(name), id) for id in ids]


def test_messages_are_deleted_and_the_next_ones_sent_in_their_order(env, me):
    ids = receive(env, me, 3)
    bodies_of_next = [b"%d" % number for number in range(3)]

    results = finish(env, me, [(id, to_b(b)) for id, b in zip(ids, bodies_of_next, strict=True)])
    assert results == ["1", "1", "1"]
    assert env.scores("a") == {}
    assert not [name for name in env.fields("a") if name.startswith(tuple(ids))]
    assert bodies(env, "b") == bodies_of_next
    assert env.raw.hget(env.hash("b"), "totalsent") == b"3"
    assert in_flight(env, me) == set()


def test_what_is_refused_stays_in_flight_and_the_others_are_finished(env, me):
    ids = receive(env, me, 4)
    env.raw.set(env.zset("broken"), "of another program")
    env.raw.hset(env.hash("broken"), mapping={"vt": 30, "delay": 0, "maxsize": 1024})
    before = {id: score for id, score in env.scores("a").items() if id in ids[:3]}

    refused_and_sent = finish(
        env,
        me,
        [
            (ids[0], FollowingMessage("missing", b"x", 1)),
            (ids[1], to_b(b"x" * 2000)),
            (ids[2], FollowingMessage("broken", b"x", 1)),
            (ids[3], to_b(b"sent")),
        ],
    )
    assert refused_and_sent[0] == f"QUEUENOTFOUND {env.hash('missing')}"
    assert refused_and_sent[1] == "MESSAGETOOLONG 2000 1024"
    assert "WRONGTYPE" in refused_and_sent[2]
    assert refused_and_sent[3] == "1"
    assert env.scores("a") == before
    assert bodies(env, "b") == [b"sent"]
    assert in_flight(env, me) == set(ids[:3])
    assert env.raw.hget(env.hash("broken"), "totalsent") is None
    assert not env.raw.exists(env.hash("missing"))


def test_a_message_that_another_consumer_has_sends_nothing(env, me):
    first, second, third = receive(env, me, 3)
    env.rsmq.change_message_visibility("a", first, 0)
    assert env.rsmq.receive_message("a", vt=60).id == first
    env.rsmq.delete_message("a", second)
    # The receive count of an orphan: its message is in no sorted set.
    env.raw.zrem(env.zset("a"), third)

    assert finish(env, me, [(id, to_b(b"x")) for id in (first, second, third)]) == ["2", "0", "0"]
    assert bodies(env, "b") == []
    assert env.scores("a").keys() == {first}
    assert in_flight(env, me) == set()


def test_a_repetition_sends_nothing_again(env, me):
    ids = receive(env, me, 2)
    operation = finish_messages(me, queue(env, "a"), 1, [(id, to_b(b"x")) for id in ids])
    assert env.rsmq.run(operation) == [b"1", b"1"]
    again = env.rsmq.run(operation)
    assert again == [b"0", b"0"]
    assert operation.parse_retried(again) == [b"1", b"1"]
    assert bodies(env, "b") == [b"x", b"x"]


def test_a_replaced_worker_finishes_its_messages_too(env, me):
    (id,) = receive(env, me, 1)
    env.raw.hset(me.in_flight_key, "", "of its successor")
    assert finish(env, me, [(id, to_b(b"x"))]) == ["1"]
    assert bodies(env, "b") == [b"x"]
    assert in_flight(env, me) == {id}  # the successor's, and void


def test_the_records_of_tracked_messages_end_in_the_same_step(env, me):
    ids = receive(env, me, 2, is_tracked=True)
    results = finish(
        env,
        me,
        [(ids[0], to_b(b"x")), (ids[1], FollowingMessage("missing", b"x", 1))],
        tracked=TrackedOutcome("succeed", 60, [b"7", b"8"], [b"1 2 half", b""]),
    )
    assert results[0] == "1"
    records = [env.raw.hgetall(queue(env, "a").job(id)) for id in ids]
    assert records[0][b"state"] == b"succeeded"
    assert (records[0][b"result"], records[0][b"text"]) == (b"7", b"half")
    assert records[1][b"state"] == b"running"
    (sent,) = env.scores("b")
    assert records[0][b"next"] == f"{sent} b".encode()
    assert b"next" not in records[1]


def test_an_untracked_message_gets_no_record_of_what_followed_it(env, me):
    (id,) = receive(env, me, 1)
    assert finish(env, me, [(id, to_b(b"x"))]) == ["1"]
    assert bodies(env, "b") == [b"x"]
    assert not env.raw.exists(queue(env, "a").job(id))


def test_the_last_message_of_a_map_sends_what_follows_it(env, me):
    ids = receive(env, me, 3)
    key = Namespace(env.ns).task_map("m")
    env.raw.hset(key, mapping={"0": "", "1": "", "then": "3:end"})

    def of_map(id, number):
        return id, FollowingMessage("b", b"", 0, map_id="m", number=number)

    # A second message of an item counts nothing.
    assert finish(env, me, [of_map(ids[0], "0"), of_map(ids[1], "0")]) == ["1", "1"]
    assert env.raw.hgetall(key) == {b"1": b"", b"then": b"3:end"}
    assert 0 < env.raw.pttl(key) <= MAP_LIFETIME_SECONDS * 1000
    assert bodies(env, "b") == []
    env.rsmq.set_queue_attributes("b", maxsize=1024)
    assert finish(env, me, [of_map(ids[2], "1")]) == ["1"]
    assert not env.raw.exists(key)
    assert bodies(env, "b") == [b"end"]
    assert env.scores("a") == {}


def test_what_follows_a_map_is_refused_before_its_record_changes(env, me):
    (id,) = receive(env, me, 1)
    key = Namespace(env.ns).task_map("m")
    record = {b"0": b"", b"then": b"2000:" + b"x" * 2000}
    env.raw.hset(key, mapping=record)
    follows = FollowingMessage("b", b"", 0, map_id="m", number="0")

    assert finish(env, me, [(id, follows)]) == ["MESSAGETOOLONG 2000 1024"]
    assert env.raw.hgetall(key) == record
    assert env.scores("a").keys() == {id}


def test_the_notification_of_node_is_published(env, me):
    (id,) = receive(env, me, 1)
    with env.raw.pubsub() as pubsub:
        pubsub.subscribe(queue(env, "b").channel)
        assert pubsub.get_message(timeout=10)["type"] == "subscribe"
        assert finish(env, me, [(id, to_b(b"x"))], realtime=True) == ["1"]
        assert pubsub.get_message(timeout=10)["data"] == b"1"


def test_a_queue_of_another_type_changes_nothing(env, me):
    (id,) = receive(env, me, 1)
    env.rsmq.run(plain_command("DEL", env.zset("a").encode()))
    env.raw.set(env.zset("a"), "of another program")
    with pytest.raises(Exception, match="WRONGTYPE"):
        finish(env, me, [(id, to_b(b"x"))])
    assert bodies(env, "b") == []
