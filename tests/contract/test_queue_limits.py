"""The limits of a queue, on raw keys: messages in flight, and receives in a time."""

from __future__ import annotations

import pytest
import redis

from rsmq import TEXT, InvalidFormat, InvalidValue, QueueNotFound
from rsmq.operations.batches import receive_messages
from rsmq.operations.lost_replies import LostReplies
from rsmq.wire.keys import Namespace
from tests.contract.conftest import CONSUMER
from tests.expect import refused


@pytest.fixture(params=["acl", "http", "memory"])
def backend(request):
    return request.param


def running_key(env, queue="q"):
    return f"{env.ns}:{queue}:x:running"


def running(env, queue="q"):
    """Return the messages that count as in flight, with their receive counts."""
    stored = env.raw.zrange(running_key(env, queue), 0, -1, withscores=True)
    return {id.decode(): int(count) for id, count in stored if id not in (b"", b":")}


def used_until_us(env, queue="q"):
    return env.raw.zscore(running_key(env, queue), "")


def allow_next(env, queue="q"):
    """Let the time pass until the rate allows the next receive."""
    env.raw.zadd(running_key(env, queue), {"": 0})


def delete_as_node(env, id, queue="q"):
    env.raw.zrem(env.zset(queue), id)
    env.raw.hdel(env.hash(queue), id, f"{id}:rc", f"{id}:fr")


def receive_one(env, queue="q"):
    return env.rsmq.receive_message(queue, vt=60)


def receive_many(env, queue="q"):
    return next(iter(env.rsmq.receive_messages(queue, 1, vt=60)), None)


RECEIVES = [receive_one, receive_many]


def test_limits_are_one_field_among_the_attributes(env, queue):
    fields = env.fields(queue)
    both = env.rsmq.set_queue_limits(queue, max_running=5, rate="100/m")
    assert (both.max_running, both.rate) == (5, "100/m")
    stored = env.fields(queue)
    assert stored == {**fields, "x:throttle": "5:100/m", "modified": stored["modified"]}
    assert env.rsmq.set_queue_attributes(queue, vt=30).rate == "100/m"

    rate = env.rsmq.set_queue_limits(queue, rate="5000/d")
    assert (rate.max_running, rate.rate) == (None, "5000/d")
    assert env.fields(queue)["x:throttle"] == ":5000/d"
    number = env.rsmq.set_queue_limits(queue, max_running=1000)
    assert (number.max_running, number.rate) == (1000, None)
    assert env.fields(queue)["x:throttle"] == "1000:"

    none = env.rsmq.set_queue_limits(queue)
    assert (none.max_running, none.rate) == (None, None)
    assert "x:throttle" not in env.fields(queue)


def test_a_queue_without_limits_has_no_further_key(env, queue):
    env.rsmq.send_messages(queue, ["1", "2"])
    receive_one(env)
    receive_many(env)

    assert not env.raw.exists(running_key(env))
    assert env.rsmq.get_queue_attributes(queue).max_running is None


@pytest.mark.parametrize("number", [0, 1001])
def test_a_number_out_of_range_is_refused(env, queue, number):
    with refused(InvalidValue, "max_running must be between 1 and 1000"):
        env.rsmq.set_queue_limits(queue, max_running=number)


@pytest.mark.parametrize("rate", ["", "5", "0/s", "1000001/s", "5/w", "5 /s", "-5/s"])
def test_a_text_that_is_no_rate_is_refused(env, queue, rate):
    with refused(InvalidFormat, "Invalid rate format"):
        env.rsmq.set_queue_limits(queue, rate=rate)


def test_limits_need_a_queue(env):
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.set_queue_limits("no", max_running=1)
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.set_queue_limits("no")


@pytest.mark.parametrize("stored", ["", "5", "5:100/w"])
def test_what_another_program_has_stored_is_no_limit(env, queue, stored):
    env.raw.hset(env.hash(queue), "x:throttle", stored)
    env.rsmq.send_messages(queue, ["1", "2", "3"])

    assert env.rsmq.get_queue_attributes(queue).max_running is None
    assert env.rsmq.get_queue_attributes(queue).rate is None
    assert receive_one(env).body == "1"
    assert receive_many(env).body == "2"
    assert env.rsmq.pop_message(queue).body == "3"


@pytest.mark.parametrize("backend", ["redis-6.2", "cluster", "acl", "http", "memory"])
@pytest.mark.parametrize("receive", RECEIVES)
def test_no_more_messages_are_in_flight(env, queue, receive):
    env.rsmq.set_queue_limits(queue, max_running=2)
    first, second, third = env.rsmq.send_messages(queue, ["1", "2", "3"])

    assert [receive(env).id, receive(env).id] == [first, second]
    state = env.state()
    assert receive(env) is None
    assert env.state() == state
    assert running(env) == {first: 1, second: 1}
    assert third in env.scores(queue)


@pytest.mark.parametrize("receive", RECEIVES)
@pytest.mark.parametrize("end", ["delete", "node", "release", "vt", "retry", "received"])
def test_a_message_that_is_not_in_flight_makes_room(env, queue, receive, end):
    env.rsmq.set_queue_limits(queue, max_running=1)
    first, second = env.rsmq.send_messages(queue, ["1", "2"])
    message = receive(env)
    if end == "delete":
        env.rsmq.delete_message(message)
    elif end == "node":
        delete_as_node(env, first)
    elif end == "release":
        env.rsmq.release_messages([message])
    elif end == "vt":
        env.elapse(queue, 61)
    elif end == "retry":
        created = env.fields(queue)["created"]
        mapping = {"": created, first: "1:ValueError: x"}
        env.raw.hset(f"{env.ns}:{queue}:x:retrying", mapping=mapping)
    else:  # by another client, after its visibility timeout
        env.raw.hincrby(env.hash(queue), f"{first}:rc", 1)

    received = receive(env)
    expected = {first: 2} if end == "release" else {second: 1}
    assert running(env) == expected
    assert received.id in expected
    assert receive(env) is None


def test_a_batch_has_what_the_limits_allow(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=3)
    ids = env.rsmq.send_messages(queue, ["1", "2", "3", "4", "5"])
    receive_one(env)

    assert [each.id for each in env.rsmq.receive_messages(queue, 9, vt=60)] == ids[1:3]
    assert env.rsmq.receive_messages(queue, 9) == []
    assert list(running(env)) == sorted(ids[:3])


def test_another_queue_of_the_call_is_received_from(env, queue):
    env.rsmq.create_queue("other")
    env.rsmq.set_queue_limits(queue, max_running=1)
    env.rsmq.send_messages(queue, ["1", "2"])
    env.rsmq.send_messages("other", ["3", "4"])

    received = env.rsmq.receive_messages([queue, "other"], 2)
    assert [each.body for each in received] == ["1", "3"]
    assert [each.body for each in env.rsmq.receive_messages([queue, "other"], 2)] == ["4"]


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_a_receive_says_for_how_long_the_limits_allow_no_more(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=1)
    env.rsmq.send_messages(queue, ["1", "2", "3"])

    def receive():
        return env.rsmq.run(
            receive_messages(Namespace(env.ns), [queue], 2, vt=2, codec=TEXT, losses=LostReplies())
        )

    first = receive()
    assert len(first) == 1
    assert not first.has_more
    limit = first.limits[0]
    assert 0 < limit.seconds <= 2
    assert not limit.is_rate
    assert receive().limits[0].seconds <= limit.seconds

    env.rsmq.set_queue_limits(queue, max_running=9, rate="1/h")
    assert len(receive()) == 1
    assert receive().limits == {0: (5.0, True)}  # the limits may be changed


def test_a_popped_message_is_not_in_flight(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=1)
    env.rsmq.send_messages(queue, ["1", "2", "3", "4"])
    receive_one(env)

    assert env.rsmq.pop_message(queue).body == "2"
    assert [each.body for each in env.rsmq.pop_messages(queue, 5)] == ["3", "4"]


def pop_one(env):
    return env.rsmq.pop_message("q")


def pop_many(env):
    return next(iter(env.rsmq.pop_messages("q", 5)), None)


@pytest.mark.parametrize("receive", [*RECEIVES, pop_one, pop_many])
def test_receives_are_spaced_evenly(env, queue, receive):
    env.rsmq.set_queue_limits(queue, rate="100/h")
    env.rsmq.send_messages(queue, ["1", "2", "3"])
    before = env.now_ms()

    assert receive(env).body == "1"
    assert 36_000 <= used_until_us(env) / 1000 - before < 46_000
    state = env.state()
    assert receive(env) is None
    assert env.state() == state
    allow_next(env)
    assert receive(env).body == "2"
    assert receive(env) is None


@pytest.mark.parametrize(
    ("rate", "number"), [("9/s", 1), ("30/s", 3), ("1000/s", 100), ("999/m", 1)]
)
def test_a_tenth_of_a_second_can_be_caught_up(env, queue, rate, number):
    env.rsmq.set_queue_limits(queue, rate=rate)
    env.rsmq.send_messages(queue, ["m"] * (number + 60))
    before = env.now_ms() * 1000
    received = len(env.rsmq.receive_messages(queue, number + 60))
    interval = {"9/s": 111_112, "30/s": 33_334, "1000/s": 1000, "999/m": 60_061}[rate]

    assert received == number
    assert used_until_us(env) >= before + number * interval


def test_a_clock_that_is_set_back_stops_nothing(env, queue):
    env.rsmq.set_queue_limits(queue, rate="1/d")
    env.rsmq.send_messages(queue, ["1", "2"])
    receive_one(env)
    env.rsmq.set_queue_limits(queue, max_running=9, rate="1000/s")  # of a day, a millisecond

    assert [each.body for each in env.rsmq.receive_messages(queue, 1, wait=30)] == ["2"]


def test_a_repeated_receive_counts_for_the_rate(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=5, rate="1/h")
    env.rsmq.send_message(queue, "1")
    message = receive_one(env)
    env.rsmq.release_messages([message])

    assert receive_one(env) is None
    allow_next(env)
    assert receive_one(env).receive_count == 2
    assert running(env) == {message.id: 2}


def test_a_recovered_message_keeps_its_place(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=1)
    env.rsmq.send_messages(queue, ["1", "2"])
    env.rsmq.set_queue_attributes(queue, vt=60)
    message = env.rsmq.receive_message(queue)

    (recovered,) = env.rsmq.recover_messages(queue, 5, idle=0)
    assert (recovered.id, recovered.receive_count) == (message.id, 2)
    assert running(env) == {message.id: 2}
    assert receive_one(env) is None


def test_a_recover_takes_no_message_beyond_the_limit(env, queue):
    env.rsmq.set_queue_attributes(queue, vt=60)
    env.rsmq.send_messages(queue, ["1", "2", "3"])
    env.rsmq.receive_messages(queue, 3)  # before there are limits: they count as those of others
    env.rsmq.set_queue_limits(queue, max_running=2)

    assert len(env.rsmq.recover_messages(queue, 5, idle=0)) == 2
    assert len(running(env)) == 2


def test_a_waiting_receive_gets_the_message_that_a_rate_allows(env, queue):
    env.rsmq.set_queue_limits(queue, rate="10/s")
    env.rsmq.send_messages(queue, ["1", "2", "3"])

    bodies = [env.rsmq.receive_message(queue, wait=30).body for _ in range(3)]
    assert bodies == ["1", "2", "3"]


def test_a_waiting_receive_gets_the_message_after_the_end_of_a_lease(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=1)
    env.rsmq.send_messages(queue, ["1", "2"])
    env.rsmq.receive_message(queue, vt=0.2)

    assert env.rsmq.receive_message(queue, wait=30) is not None


def test_purge_and_delete_remove_what_is_used(env, queue):
    for remove in (env.rsmq.purge_queue, env.rsmq.delete_queue):
        env.rsmq.set_queue_limits(queue, max_running=1)
        env.rsmq.send_message(queue, "1")
        assert receive_one(env)
        remove(queue)
        assert not env.raw.exists(running_key(env))


def test_purge_keeps_the_limits(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=1, rate="1/h")
    env.rsmq.purge_queue(queue)

    assert env.fields(queue)["x:throttle"] == "1:1/h"


def test_what_is_used_belongs_to_one_queue(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=1, rate="1/h")
    env.rsmq.send_messages(queue, ["1", "2"])
    receive_one(env)
    env.raw.hset(env.hash(queue), "created", 5)  # Node has deleted it, and it was created again

    assert receive_one(env).body == "2"
    assert len(running(env)) == 1


def test_the_end_of_a_limit_of_messages_forgets_them(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=1)
    env.rsmq.send_messages(queue, ["1", "2"])
    receive_one(env)
    env.rsmq.set_queue_limits(queue, rate="10/s")
    assert not running(env)
    env.rsmq.set_queue_limits(queue)
    assert not env.raw.exists(running_key(env))
    assert receive_one(env).body == "2"


@pytest.mark.parametrize("backend", ["redis", "redis-6.2"])
def test_a_user_without_the_right_receives_nothing(env, queue, limited):
    env.rsmq.set_queue_limits(queue, max_running=1)
    env.rsmq.send_message(queue, "1")
    state = env.state()
    client = limited([env.zset(queue), env.hash(queue)], CONSUMER)

    for receive in (
        lambda: client.receive_message(queue),
        lambda: client.receive_messages(queue, 5),
    ):
        with pytest.raises(redis.exceptions.ResponseError, match=r"docs/security\.md"):
            receive()
    assert env.state() == state


@pytest.mark.parametrize("backend", ["redis", "redis-6.2", "acl"])
@pytest.mark.parametrize("receive", RECEIVES)
def test_limits_hold_while_memory_is_full(env, queue, receive):
    env.rsmq.set_queue_limits(queue, max_running=1, rate="1000000/s")
    env.rsmq.send_messages(queue, ["1", "2"])
    with env.full():
        message = receive(env)
        assert receive(env) is None
        env.rsmq.delete_message(message)
        assert receive(env).body == "2"
        env.rsmq.set_queue_limits(queue)
