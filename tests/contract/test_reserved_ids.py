"""
Ids that equal names of attributes: their fields are not bodies.

They are never delivered, and only the id is removed. Other short ids are legal.
"""

from __future__ import annotations

import pytest

from rsmq.operations.reading import get_messages, scan_ids
from rsmq.vocabulary.queues import ATTRIBUTE_FIELDS
from tests.contract.test_counters import RECEIVES, is_possible

#: Names of attributes, and ids that begin as the fields of extensions do.
RESERVED = (*ATTRIBUTE_FIELDS, "x:", "x:new", "x:" + "a" * 30)
#: Unusual ids that are legal.
LEGAL = ("a", "vt2", "VT", "modified!", "x", "X:dlq", "y:max")


@pytest.fixture
def only_message(env, queue):
    """The id of the only message of a queue that has all attributes, and ids of reserved names."""
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 9)
    env.rsmq.pause_queue(queue)
    env.raw.hset(env.hash(queue), mapping={"x:new": "1", "x:" + "a" * 30: "2", "totalrecv": "5"})
    env.raw.zadd(env.zset(queue), {name: 1000 + place for place, name in enumerate(RESERVED)})
    return env.rsmq.send_message(queue, "m")


def attributes(env, queue, id):
    return {
        name: value
        for name, value in env.fields(queue).items()
        if not name.startswith(id) and name not in {"totalrecv", "totalsent", "modified"}
    }


@pytest.mark.parametrize("receive", RECEIVES)
def test_no_receive_delivers_a_reserved_id(env, queue, only_message, receive):
    if not is_possible(env, receive):
        return
    before = attributes(env, queue, only_message)
    if receive == "receive_for_worker":
        env.rsmq.resume_queue(queue)
        del before["x:paused"]
        before["x:resumed"] = env.fields(queue)["x:resumed"]
    assert [id for id, _ in RECEIVES[receive](env, queue)] == [only_message]
    assert attributes(env, queue, only_message) == before
    assert set(env.scores(queue)) <= {only_message}
    assert env.fields(queue)["totalrecv"] == "6"
    assert env.rsmq.receive_message(queue) is None
    assert env.rsmq.get_queue_attributes(queue).max_receives == 9


@pytest.mark.parametrize("receive", RECEIVES)
def test_a_queue_with_only_reserved_ids_delivers_nothing(env, queue, receive):
    if not is_possible(env, receive):
        return
    if receive == "lease_messages":
        env.rsmq.send_message(queue, "m")  # without a message there is no lease
    names = ("vt", "delay", "maxsize", "created", "modified")
    before = {name: env.fields(queue)[name] for name in names}
    env.raw.zadd(env.zset(queue), {"vt": 1, "created": 2})

    assert len(RECEIVES[receive](env, queue)) == (receive == "lease_messages")
    assert not env.scores(queue).keys() & {"vt", "created"}
    assert {name: env.fields(queue)[name] for name in names} == before


@pytest.mark.parametrize("receive", RECEIVES)
def test_other_short_ids_are_delivered(env, queue, receive):
    if not is_possible(env, receive):
        return
    for place, id in enumerate(LEGAL):
        env.raw.hset(env.hash(queue), id, f"body of {id}")
        env.raw.zadd(env.zset(queue), {id: 1000 + place})
    found = RECEIVES[receive](env, queue)
    if receive not in {"receive_for_worker", "lease_messages"}:
        while more := RECEIVES[receive](env, queue):
            found += more

    assert [id for id, _ in found] == list(LEGAL)


def test_deleting_a_message_with_a_reserved_id_deletes_no_attribute(env, queue):
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


def test_sweep_and_redrive_do_not_change_attributes(env, queue, only_message):
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    env.raw.hset(env.hash(queue), mapping={f"{name}:rc": 3 for name in RESERVED})
    env.raw.hset(env.hash(queue), f"{only_message}:rc", 3)
    before, dead = attributes(env, queue, only_message), attributes(env, "dead", only_message)
    assert env.rsmq.sweep_dead_letters(queue) == [only_message]
    assert attributes(env, queue, only_message) == before
    assert attributes(env, "dead", only_message) == dead
    assert list(env.scores("dead")) == [only_message]

    env.raw.zadd(env.zset("dead"), {"vt": 1, "x:max": 2})
    ((old, new),) = env.rsmq.redrive_messages("dead", queue)
    assert old == only_message
    assert attributes(env, "dead", only_message) == dead
    assert new in env.scores(queue)


def test_a_recovery_leaves_out_reserved_ids(env, queue, only_message):
    env.raw.hset(env.hash(queue), mapping={f"{name}:rc": 1 for name in RESERVED})
    env.rsmq.receive_message(queue)  # removes the reserved ids that are due
    env.raw.zadd(env.zset(queue), {"vt": 1, "x:max": 2})
    before = attributes(env, queue, only_message)

    assert [message.id for message in env.rsmq.recover_messages(queue, 10, idle=0)] == [
        only_message
    ]
    assert attributes(env, queue, only_message) == before


def test_reserved_ids_are_neither_peeked_nor_counted(env, queue, only_message):
    assert [message.id for message in env.rsmq.peek_messages(queue, 0, 100)] == [only_message]
    assert [m.id for m in env.rsmq.peek_messages(queue, 0, 100, state="visible")] == [only_message]
    assert env.rsmq.count_messages(queue).visible == 1
    assert env.rsmq.get_message(queue, "x:" + "a" * 30) is None


def test_a_walk_over_all_ids_leaves_out_reserved_ids(env, queue, only_message):
    if env.backend == "acl":
        return  # exports need other rights
    keys = env.rsmq.namespace.queue(queue)
    _, found = env.rsmq.run(scan_ids(keys, b"0"))
    assert found[::2] == [only_message.encode()]
    names = [name.encode() for name in RESERVED]
    looked_up = env.rsmq.run(get_messages(keys, [*names, only_message.encode()]))
    assert [message and message.id for message in looked_up.messages] == [
        *[None] * len(RESERVED), only_message,
    ]  # fmt: skip
