"""
Ids that are the names of attributes: their fields are no bodies.

They are never delivered, and only the id is removed. Other short ids are legal.
"""

from __future__ import annotations

import pytest

from rsmq.operations.reading import get_messages, scan_ids
from rsmq.wire.fields import ATTRIBUTE_FIELDS
from tests.contract.test_counters import RECEIVES, is_possible

#: Attribute names, and what else begins as those of extensions do.
RESERVED = (*ATTRIBUTE_FIELDS, "x:", "x:new", "x:" + "a" * 30)
#: Legal ids, however odd.
LEGAL = ("a", "vt2", "VT", "modified!", "x", "X:dlq", "y:max")


@pytest.fixture
def odd(env, queue):
    """A queue with all attributes, whose ids are reserved names, due before its one message."""
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 9)
    env.rsmq.pause_queue(queue)
    env.raw.hset(env.hash(queue), mapping={"x:new": "1", "x:" + "a" * 30: "2", "totalrecv": "5"})
    env.raw.zadd(env.zset(queue), {name: 1000 + at for at, name in enumerate(RESERVED)})
    return env.rsmq.send_message(queue, "m")


def attributes(env, queue, id):
    return {
        name: value
        for name, value in env.fields(queue).items()
        if not name.startswith(id) and name not in {"totalrecv", "totalsent", "modified"}
    }


@pytest.mark.parametrize("receive", RECEIVES)
def test_no_receive_delivers_a_reserved_id(env, queue, odd, receive):
    if not is_possible(env, receive):
        return
    before = attributes(env, queue, odd)
    if receive == "receive_for_worker":
        env.rsmq.resume_queue(queue)
        del before["x:paused"]
    assert [id for id, _ in RECEIVES[receive](env.rsmq, queue)] == [odd]
    assert attributes(env, queue, odd) == before
    assert set(env.scores(queue)) <= {odd}
    assert env.fields(queue)["totalrecv"] == "6"
    assert env.rsmq.receive_message(queue) is None
    assert env.rsmq.get_queue_attributes(queue).max_receives == 9


@pytest.mark.parametrize("receive", RECEIVES)
def test_a_queue_of_reserved_ids_alone_has_nothing_to_deliver(env, queue, receive):
    if not is_possible(env, receive):
        return
    if receive == "lease_messages":
        env.rsmq.send_message(queue, "m")  # else there is no lease to be looked at
    names = ("vt", "delay", "maxsize", "created", "modified")
    before = {name: env.fields(queue)[name] for name in names}
    env.raw.zadd(env.zset(queue), {"vt": 1, "created": 2})

    assert len(RECEIVES[receive](env.rsmq, queue)) == (receive == "lease_messages")
    assert not env.scores(queue).keys() & {"vt", "created"}
    assert {name: env.fields(queue)[name] for name in names} == before


@pytest.mark.parametrize("receive", RECEIVES)
def test_other_short_ids_are_delivered(env, queue, receive):
    if not is_possible(env, receive):
        return
    for at, id in enumerate(LEGAL):
        env.raw.hset(env.hash(queue), id, f"body of {id}")
        env.raw.zadd(env.zset(queue), {id: 1000 + at})
    found = RECEIVES[receive](env.rsmq, queue)
    if receive not in {"receive_for_worker", "lease_messages"}:
        while more := RECEIVES[receive](env.rsmq, queue):
            found += more

    assert [id for id, _ in found] == list(LEGAL)


def test_a_message_that_somebody_made_of_a_reserved_id_deletes_no_attribute(env, queue):
    from rsmq import Message

    env.raw.zadd(env.zset(queue), {"vt": 1})
    env.raw.hset(env.hash(queue), mapping={"vt:rc": 1, "vt:fr": 5})  # as Node has received it
    message = Message(queue, "vt", b"30", 1, 5)
    before = env.rsmq.get_queue_attributes(queue)

    assert env.rsmq.delete_message(message) is True
    assert env.scores(queue) == {}
    assert env.rsmq.get_queue_attributes(queue).vt == before.vt
    env.raw.zadd(env.zset(queue), {"vt": 1})
    env.raw.hset(env.hash(queue), mapping={"vt:rc": 1, "vt:fr": 5})
    assert env.rsmq.delete_messages([message]) == ["vt"]
    assert env.rsmq.get_queue_attributes(queue).vt == before.vt


def test_dead_letters_and_moves_leave_attributes_where_they_are(env, queue, odd):
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    env.raw.hset(env.hash(queue), mapping={f"{name}:rc": 3 for name in RESERVED})
    env.raw.hset(env.hash(queue), f"{odd}:rc", 3)
    before, dead = attributes(env, queue, odd), attributes(env, "dead", odd)
    assert env.rsmq.sweep_dead_letters(queue) == [odd]
    assert attributes(env, queue, odd) == before
    assert attributes(env, "dead", odd) == dead
    assert list(env.scores("dead")) == [odd]

    env.raw.zadd(env.zset("dead"), {"vt": 1, "x:max": 2})
    ((old, new),) = env.rsmq.redrive_messages("dead", queue)
    assert old == odd
    assert attributes(env, "dead", odd) == dead
    assert new in env.scores(queue)


def test_what_was_received_long_ago_is_recovered_without_them(env, queue, odd):
    env.raw.hset(env.hash(queue), mapping={f"{name}:rc": 1 for name in RESERVED})
    env.rsmq.receive_message(queue)  # removes those that are due
    env.raw.zadd(env.zset(queue), {"vt": 1, "x:max": 2})
    before = attributes(env, queue, odd)

    assert [message.id for message in env.rsmq.recover_messages(queue, 10, idle=0)] == [odd]
    assert attributes(env, queue, odd) == before


def test_they_are_neither_shown_nor_counted(env, queue, odd):
    assert [message.id for message in env.rsmq.peek_messages(queue, 0, 100)] == [odd]
    assert [m.id for m in env.rsmq.peek_messages(queue, 0, 100, state="visible")] == [odd]
    assert env.rsmq.count_messages(queue).visible == 1
    assert env.rsmq.get_message(queue, "x:" + "a" * 30) is None


def test_a_walk_over_all_ids_passes_them_over(env, queue, odd):
    if env.backend == "acl":
        return  # exports have rights of their own
    keys = env.rsmq.namespace.queue(queue)
    _, found = env.rsmq.run(scan_ids(keys, b"0"))
    assert found[::2] == [odd.encode()]
    names = [name.encode() for name in RESERVED]
    looked_up = env.rsmq.run(get_messages(keys, [*names, odd.encode()]))
    assert [message and message.id for message in looked_up.messages] == [
        *[None] * len(RESERVED), odd,
    ]  # fmt: skip
