"""Redrives of given dead letters, and of dead letters to the queues that they came from."""

from __future__ import annotations

import json
import re

import pytest

from rsmq import InvalidFormat, InvalidValue, MissingParameter, QueueNotFound
from tests.contract.conftest import ADMIN
from tests.expect import refused


@pytest.fixture
def dead(env):
    env.rsmq.create_queue("dead")
    return "dead"


def send_dead_letters(env, dead, origins):
    """Send messages that came from these queues as workers record it; return their ids."""
    ids = env.rsmq.send_messages(dead, [f"of {origin}" for origin in origins])
    reason = {"text": "t", "exception": None, "traceback": None, "worker": "w", "attempts": 1}
    records = {
        id: f"5:{json.dumps({**reason, 'queue': origin})}"
        for id, origin in zip(ids, origins, strict=True)
        if origin is not None
    }
    if records:
        env.raw.hset(f"{env.zset(dead)}:x:reasons", mapping=records)
    return ids


def bodies(env, qname):
    """Return the stored bodies of a queue, in its order."""
    ids = env.raw.zrange(env.zset(qname), 0, -1)
    return [env.raw.hget(env.hash(qname), id) for id in ids]


def test_each_dead_letter_returns_to_the_queue_that_its_record_names(env, queue, dead):
    env.rsmq.create_queue("other")
    ids = send_dead_letters(env, dead, [queue, "other", queue, "other"])

    redriven = env.rsmq.redrive_messages(dead)

    assert [old for old, _ in redriven] == [ids[0], ids[2], ids[1], ids[3]]
    assert bodies(env, queue) == [f"of {queue}".encode()] * 2
    assert bodies(env, "other") == [b"of other"] * 2
    assert set(env.scores("other")) == {new for _, new in redriven[2:]}
    assert env.scores(dead) == {}
    assert not env.raw.exists(f"{env.zset(dead)}:x:reasons")


def test_a_dead_letter_without_a_record_returns_to_the_queue_with_the_policy(env, queue, dead):
    env.rsmq.create_queue("other")
    env.rsmq.set_dead_letter_policy("other", dead, 9)
    send_dead_letters(env, dead, [queue, None])

    assert len(env.rsmq.redrive_messages(dead)) == 2
    assert bodies(env, queue) == [f"of {queue}".encode()]
    assert bodies(env, "other") == [b"of None"]


@pytest.mark.parametrize("kind", ["all", "ids"])
def test_without_a_record_and_a_policy_the_destination_is_missing(env, queue, dead, kind):
    ids = send_dead_letters(env, dead, [queue, None])
    before = env.state()

    with refused(MissingParameter, "No destination supplied") as caught:
        env.rsmq.redrive_messages(dead, ids=ids if kind == "ids" else None)

    assert ids[1] in str(caught.error)
    # In the words of Python or of HTTP.
    assert re.search(r"as in destination(=|: )'orders'", str(caught.error))
    assert env.state() == before


def test_a_recorded_queue_that_is_gone_is_queue_not_found(env, queue, dead):
    ids = send_dead_letters(env, dead, ["gone"])

    with refused(QueueNotFound, "Queue not found") as caught:
        env.rsmq.redrive_messages(dead)

    assert caught.error.value == "gone"
    assert set(env.scores(dead)) == set(ids)
    assert len(env.rsmq.redrive_messages(dead, queue)) == 1


def test_a_record_that_names_the_dead_letter_queue_is_no_way_out(env, queue, dead):
    send_dead_letters(env, dead, [dead])

    with refused(MissingParameter, "No destination supplied"):
        env.rsmq.redrive_messages(dead)


@pytest.mark.parametrize(
    "record", [b"5:{", b"5:[1]", b'5:{"queue": 7}', b"no", b"5:" + b"[" * 9000]
)
def test_a_broken_record_counts_as_none(env, queue, dead, record):
    (id,) = send_dead_letters(env, dead, [None])
    env.raw.hset(f"{env.zset(dead)}:x:reasons", id, record)

    with refused(MissingParameter, "No destination supplied"):
        env.rsmq.redrive_messages(dead)


def test_given_ids_are_redriven_also_in_flight_and_others_stay(env, queue, dead):
    ids = send_dead_letters(env, dead, [queue] * 4)
    env.rsmq.receive_message(dead)

    redriven = env.rsmq.redrive_messages(dead, ids=[ids[2], ids[0], "n" * 32, ids[2]])

    assert [old for old, _ in redriven] == [ids[2], ids[0]]
    assert set(env.scores(queue)) == {new for _, new in redriven}
    assert list(env.scores(dead)) == [ids[1], ids[3]]
    assert env.raw.hgetall(env.hash(dead)).keys() >= {id.encode() for id in (ids[1], ids[3])}
    assert not env.raw.hexists(env.hash(dead), f"{ids[0]}:rc")
    assert env.rsmq.redrive_messages(dead, queue, [ids[0]]) == []
    assert env.rsmq.redrive_messages(dead, queue, []) == []


def test_peeked_messages_are_redriven_by_their_ids(env, queue, dead):
    ids = send_dead_letters(env, dead, [queue] * 3)
    peeked = env.rsmq.peek_messages(dead)

    assert [old for old, _ in env.rsmq.redrive_messages(peeked[1:])] == ids[1:]
    assert list(env.scores(dead)) == ids[:1]
    assert len(env.rsmq.redrive_messages([env.rsmq.get_message(dead, ids[0])], queue)) == 1


def test_received_messages_are_redriven_by_their_receipts(env, queue, dead):
    ids = send_dead_letters(env, dead, [queue] * 2)
    late, message = env.rsmq.receive_messages(dead, 2, vt=0)
    env.raw.hset(env.hash(dead), f"{ids[0]}:rc", 2)

    assert [old for old, _ in env.rsmq.redrive_messages([late, message])] == [ids[1]]
    assert list(env.scores(dead)) == ids[:1]


def test_messages_of_several_dead_letter_queues_are_redriven(env, queue, dead):
    env.rsmq.create_queue("dead2")
    send_dead_letters(env, dead, [queue])
    send_dead_letters(env, "dead2", [queue])
    peeked = env.rsmq.peek_messages(dead) + env.rsmq.peek_messages("dead2")

    assert len(env.rsmq.redrive_messages(peeked)) == 2
    assert env.scores(dead) == env.scores("dead2") == {}
    assert len(env.scores(queue)) == 2


def test_thousands_return_in_order_and_as_many_as_the_limit(env, queue, dead):
    env.rsmq.create_queue("other")
    origins = [queue if number % 3 else "other" for number in range(2300)]
    ids = send_dead_letters(env, dead, origins)

    first = env.rsmq.redrive_messages(dead, max_messages=1100)
    assert sorted(old for old, _ in first) == sorted(ids[:1100])
    redriven = first + env.rsmq.redrive_messages(dead)

    new = dict(redriven)
    assert [new[id] for id, origin in zip(ids, origins, strict=True) if origin == queue] == list(
        env.scores(queue)
    )
    assert len(env.scores("other")) == origins.count("other")


def test_given_messages_of_many_bytes_are_redriven_in_steps(env, queue, dead):
    ids = [env.rsmq.send_message(dead, "m" * 60_000) for _ in range(40)]

    assert [old for old, _ in env.rsmq.redrive_messages(dead, queue, ids)] == ids
    assert len(env.scores(queue)) == 40


def test_ids_without_bodies_do_not_stop_the_others(env, queue, dead):
    (id,) = send_dead_letters(env, dead, [queue])
    ghosts = {f"{number:032d}": env.now_ms() - 1 for number in range(1100)}
    env.raw.zadd(env.zset(dead), ghosts)
    reason = env.raw.hget(f"{env.zset(dead)}:x:reasons", id)
    env.raw.hset(f"{env.zset(dead)}:x:reasons", mapping=dict.fromkeys(ghosts, reason))

    assert [old for old, _ in env.rsmq.redrive_messages(dead)] == [id]


@pytest.mark.parametrize("backend", ["redis", "redis-6.2"])
def test_a_user_without_access_to_records_needs_the_policy(env, queue, dead, limited):
    send_dead_letters(env, dead, ["elsewhere"])
    names = (queue, dead)
    index = env.zset("QUEUES")
    admin = limited([*map(env.zset, names), *map(env.hash, names), index], ADMIN)
    with refused(MissingParameter, "No destination supplied"):
        admin.redrive_messages(dead)
    env.rsmq.set_dead_letter_policy(queue, dead, 9)

    assert len(admin.redrive_messages(dead)) == 1
    assert len(env.scores(queue)) == 1


def test_invalid_redrives_of_given_messages_are_refused(env, queue, dead):
    (id,) = send_dead_letters(env, dead, [queue])
    peeked = env.rsmq.peek_messages(dead)
    before = env.state()
    with refused(InvalidFormat, "Invalid max_messages format"):
        env.rsmq.redrive_messages(dead, queue, [id], max_messages=1)
    with refused(InvalidFormat, "Invalid ids format"):
        env.rsmq.redrive_messages(peeked, queue, [id])
    with refused(InvalidFormat, "Invalid ids format"):
        env.rsmq.redrive_messages(dead, queue, id)
    with refused(InvalidFormat, "Invalid messages format"):
        env.rsmq.redrive_messages([id], queue)
    with refused(InvalidFormat, "Invalid destination format"):
        env.rsmq.redrive_messages(peeked, dead)
    with pytest.raises(InvalidValue):
        env.rsmq.redrive_messages(dead, queue, [id] * 10_001)
    assert env.state() == before


def test_messages_of_a_queue_with_a_new_name_return_to_the_only_queue_with_the_policy(
    env, queue, dead
):
    env.rsmq.set_dead_letter_policy(queue, dead, 9)
    send_dead_letters(env, dead, ["its-old-name", queue])

    assert len(env.rsmq.redrive_messages(dead)) == 2
    assert sorted(bodies(env, queue)) == [b"of its-old-name", f"of {queue}".encode()]


@pytest.mark.parametrize("are_chosen", [False, True])
def test_a_queue_that_is_gone_keeps_no_other_message_from_its_queue(env, queue, dead, are_chosen):
    ids = send_dead_letters(env, dead, ["gone", queue, "gone", queue])

    with pytest.raises(QueueNotFound) as caught:
        env.rsmq.redrive_messages(dead, ids=ids if are_chosen else None)

    assert caught.value.value == "gone"
    assert "destination" in str(caught.value)
    assert bodies(env, queue) == [f"of {queue}".encode()] * 2
    assert sorted(env.scores(dead)) == sorted([ids[0], ids[2]])
