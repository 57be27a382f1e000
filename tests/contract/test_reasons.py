"""The reasons that workers store for dead letters, as peek_messages and get_message return them."""

from __future__ import annotations

import json

import pytest

from rsmq.model import DeadLetterReason
from tests.contract.conftest import ADMIN, CONSUMER

REASON = {
    "queue": "orders",
    "text": "its handler raised é 20 times",
    "exception": "ValueError: no number",
    "traceback": "Traceback ...\n  line 1\n",
    "worker": "w1",
    "attempts": 20,
}


def store_reasons(env, qname, records):
    """Store reasons as a worker does: milliseconds and a reason for each id."""
    stored = {id: f"{ms}:{json.dumps(reason)}" for id, (ms, reason) in records.items()}
    env.raw.hset(f"{env.zset(qname)}:x:reasons", mapping=stored)


def test_peek_and_get_return_the_reason_of_a_dead_letter(env, queue):
    ids = env.rsmq.send_messages(queue, ["1", "2", "3"])
    less = {**REASON, "exception": None, "traceback": None}
    store_reasons(env, queue, {ids[0]: (1_700_000_000_123, REASON), ids[2]: (5, less)})
    before = env.state()

    peeked = env.rsmq.peek_messages(queue)
    assert [message.id for message in peeked] == ids
    assert peeked == [env.rsmq.get_message(queue, id) for id in ids]
    reason = peeked[0].reason
    assert reason == DeadLetterReason(**REASON, died_ms=1_700_000_000_123)
    assert reason.died_at.timestamp() == pytest.approx(1_700_000_000.123)
    assert peeked[1].reason is None
    assert peeked[2].reason == DeadLetterReason(**less, died_ms=5)
    assert env.state() == before


def test_without_workers_there_are_no_reasons_and_no_key_of_them(env, queue):
    id = env.rsmq.send_message(queue, "m")

    assert env.rsmq.get_message(queue, id).reason is None
    assert [message.reason for message in env.rsmq.peek_messages(queue)] == [None]
    assert env.rsmq.peek_messages(queue, 5) == []
    assert env.rsmq.get_message(queue, "n" * 32) is None
    assert not env.raw.exists(f"{env.zset(queue)}:x:reasons")


@pytest.mark.parametrize("state", [None, "visible", "in_flight", "delayed"])
def test_each_message_has_its_own_reason_in_long_queues_with_ghosts(env, queue, state):
    ids = env.rsmq.send_messages(queue, ["m"] * 1200, delay=50 if state == "delayed" else 0)
    if state == "in_flight":
        env.rsmq.receive_messages(queue, 1200, vt=50)
        env.raw.zadd(env.zset(queue), dict.fromkeys(ids, env.now_ms() + 50_000))
    ghosts = ids[5:1200:100]
    env.raw.hdel(env.hash(queue), *ghosts)
    reasons = {id: (n, {**REASON, "attempts": n}) for n, id in enumerate(ids) if n % 3}
    store_reasons(env, queue, reasons)

    peeked = env.rsmq.peek_messages(queue, 0, 2000, state=state)
    assert [message.id for message in peeked] == [id for id in ids if id not in ghosts]
    for message in peeked:
        expected = reasons.get(message.id)
        assert (message.reason and message.reason.attempts) == (expected and expected[0])
    last = env.rsmq.peek_messages(queue, -1, 1, state=state)[0]
    assert last.reason.died_ms == reasons[last.id][0]


INVALID_RECORDS = [
    b"",
    b":",
    b"5",
    b"5:",
    b"5:null",
    b"5:[]",
    b"5:{}",
    b"5:{",
    b'5:{"queue":"q"}',
    b"5:" + json.dumps({**REASON, "more": 1}).encode(),
    b"5:" + json.dumps({**REASON, "died_ms": 1}).encode(),
    b":" + json.dumps(REASON).encode(),
    b"x:" + json.dumps(REASON).encode(),
    b"9" * 5000 + b":" + json.dumps(REASON).encode(),
    b"5:\xff\xfe",
    b"\xff",
]


def test_invalid_records_are_ignored(env, queue):
    ids = env.rsmq.send_messages(queue, ["m"] * len(INVALID_RECORDS))
    env.raw.hset(
        f"{env.zset(queue)}:x:reasons", mapping=dict(zip(ids, INVALID_RECORDS, strict=True))
    )

    assert [message.reason for message in env.rsmq.peek_messages(queue, 0, 99)] == [None] * len(ids)
    assert [env.rsmq.get_message(queue, id).reason for id in ids] == [None] * len(ids)


@pytest.mark.parametrize("backend", ["redis"])
def test_a_record_nested_too_deep_is_ignored(env, queue):
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(f"{env.zset(queue)}:x:reasons", id, b"5:" + b"[" * 100_000)

    assert env.rsmq.get_message(queue, id).reason is None
    assert [message.reason for message in env.rsmq.peek_messages(queue)] == [None]


def test_a_key_of_another_type_is_ignored_and_not_changed(env, queue):
    env.rsmq.create_queue("to")
    ids = env.rsmq.send_messages(queue, ["1", "2"])
    env.raw.set(f"{env.zset(queue)}:x:reasons", "someone else's")

    assert env.rsmq.get_message(queue, ids[0]).reason is None
    assert [message.reason for message in env.rsmq.peek_messages(queue)] == [None, None]
    assert [old for old, _ in env.rsmq.redrive_messages(queue, "to")] == ids
    assert env.raw.get(f"{env.zset(queue)}:x:reasons") == b"someone else's"


def test_a_redrive_removes_the_reasons_of_its_messages(env, queue):
    env.rsmq.create_queue("to")
    ids = env.rsmq.send_messages(queue, ["1", "2", "3"])
    store_reasons(env, queue, dict.fromkeys(ids, (5, REASON)))
    store_reasons(env, "to", {ids[0]: (5, REASON)})

    redriven = env.rsmq.redrive_messages(queue, "to", max_messages=2)
    assert [old for old, _ in redriven] == ids[:2]
    assert env.raw.hkeys(f"{env.zset(queue)}:x:reasons") == [ids[2].encode()]
    assert env.raw.hkeys(f"{env.zset('to')}:x:reasons") == [ids[0].encode()]
    assert [m.reason for m in env.rsmq.peek_messages("to")] == [None, None]
    env.rsmq.redrive_messages(queue, "to")
    assert not env.raw.exists(f"{env.zset(queue)}:x:reasons")


def test_a_redrive_of_thousands_removes_all_their_reasons(env, queue):
    env.rsmq.create_queue("to")
    ids = env.rsmq.send_messages(queue, ["m"] * 2300)
    store_reasons(env, queue, dict.fromkeys([*ids, "n" * 32], (5, REASON)))

    assert len(env.rsmq.redrive_messages(queue, "to")) == 2300
    assert env.raw.hkeys(f"{env.zset(queue)}:x:reasons") == [b"n" * 32]


@pytest.mark.parametrize("remove", ["delete_queue", "purge_queue"])
def test_reasons_and_quarantine_records_are_removed_with_the_messages(env, queue, remove):
    env.rsmq.create_queue("other")
    id = env.rsmq.send_message(queue, "m")
    for name in (queue, "other"):
        store_reasons(env, name, {id: (5, REASON)})
        env.raw.hset(f"{env.zset(name)}:x:alone", id, 1)
    env.raw.hset(f"{env.ns}:x:held:w", mapping={"": "t", id: f"1:{queue}"})
    getattr(env.rsmq, remove)(queue)

    assert {key.decode() for key in env.raw.keys(f"{env.ns}:*") if b":x:" in key} == {
        f"{env.zset('other')}:x:reasons", f"{env.zset('other')}:x:alone", f"{env.ns}:x:held:w",
    }  # fmt: skip


@pytest.mark.parametrize("backend", ["redis", "redis-6.2"])
def test_a_user_with_access_to_two_keys_reads_messages_without_reasons(env, queue, limited):
    ids = env.rsmq.send_messages(queue, ["1", "2"])
    store_reasons(env, queue, dict.fromkeys(ids, (5, REASON)))
    consumer = limited([env.zset(queue), env.hash(queue)], f"{CONSUMER} +zrange +zcount")

    in_flight = consumer.receive_message(queue)
    stored = consumer.get_message(queue, in_flight.id)
    assert (stored.id, stored.body, stored.reason) == (ids[0], "1", None)
    for state, expected in ((None, [ids[1], ids[0]]), ("visible", ids[1:]), ("in_flight", ids[:1])):
        peeked = consumer.peek_messages(queue, state=state)
        assert [(message.id, message.reason) for message in peeked] == [
            (id, None) for id in expected
        ]
    assert env.rsmq.get_message(queue, ids[0]).reason.attempts == 20


@pytest.mark.parametrize("backend", ["redis", "redis-6.2"])
def test_a_user_with_access_to_two_queues_redrives_and_leaves_reasons(env, queue, limited):
    env.rsmq.create_queue("to")
    id = env.rsmq.send_message(queue, "m")
    store_reasons(env, queue, {id: (5, REASON)})
    names = (queue, "to")
    admin = limited([*map(env.zset, names), *map(env.hash, names)], ADMIN)

    assert [old for old, _ in admin.redrive_messages(queue, "to")] == [id]
    assert env.scores(queue) == {}
    assert len(env.scores("to")) == 1
    assert env.raw.hexists(f"{env.zset(queue)}:x:reasons", id)
