"""Peek and count, on raw keys that other clients may have written."""

from __future__ import annotations

import pytest

from rsmq import JSON, InvalidFormat, InvalidValue, MessageCounts, QueueNotFound
from tests.expect import refused


@pytest.fixture
def mixed(env, queue):
    """The ids of each state, which has three, and of all states."""
    ids = env.rsmq.send_messages(queue, [str(n) for n in range(9)])
    received = env.rsmq.receive_messages(queue, 3, vt=100)
    for message, vt in zip(received, (300, 100, 200), strict=True):
        env.rsmq.change_message_visibility(message, vt)
    for id, delay in zip(ids[3:6], (150, 250, 350), strict=True):
        env.rsmq.change_message_visibility(queue, id, delay)
    return {
        "visible": ids[6:],
        "in_flight": [ids[1], ids[2], ids[0]],
        "delayed": ids[3:6],
        None: [*ids[6:], ids[1], ids[3], ids[2], ids[4], ids[0], ids[5]],
    }


@pytest.mark.parametrize("state", [None, "visible", "in_flight", "delayed"])
def test_a_peek_starts_at_any_place_from_both_ends(env, queue, mixed, state):
    before = env.state()
    expected = mixed[state]

    def peek(*places):
        return [m.id for m in env.rsmq.peek_messages(queue, *places, state=state)]

    assert peek() == expected
    for start in range(len(expected) + 2):
        assert peek(start, 2) == expected[start : start + 2]
    for start in range(1, len(expected) + 1):
        assert peek(-start, 2) == expected[len(expected) - start :][:2]
    assert peek(-100, 1) == expected[:1]
    assert env.state() == before


def test_a_peek_reports_the_state_of_each_message(env, queue, mixed):
    visible, in_flight, delayed = (
        env.rsmq.peek_messages(queue, 0, 1, state=state)[0]
        for state in ("visible", "in_flight", "delayed")
    )

    assert visible == env.rsmq.get_message(queue, mixed["visible"][0])
    assert in_flight == env.rsmq.get_message(queue, mixed["in_flight"][0])
    assert delayed == env.rsmq.get_message(queue, mixed["delayed"][0])
    assert (visible.body, visible.state, visible.receive_count) == ("6", "visible", 0)
    assert (in_flight.state, in_flight.receive_count) == ("in_flight", 1)
    score = env.scores(queue)[in_flight.id]
    assert (in_flight.visible_at_ms, in_flight.last_received_ms) == (score, score - 30_000)
    assert (delayed.state, delayed.last_received_ms) == ("delayed", None)


def test_a_long_queue_is_peeked_in_steps(env, queue):
    ids = env.rsmq.send_messages(queue, ["m"] * 2500)
    assert [m.id for m in env.rsmq.peek_messages(queue, 0, 3000)] == ids
    assert [m.id for m in env.rsmq.peek_messages(queue, 1700, 3)] == ids[1700:1703]
    env.rsmq.change_messages_visibility(queue, ids, 500)
    env.raw.hset(env.hash(queue), mapping={f"{id}:rc": 1 for id in ids[::2]})

    def peek(start, count, state):
        return [m.id for m in env.rsmq.peek_messages(queue, start, count, state=state)]

    assert peek(0, 3000, "in_flight") == ids[::2]
    assert peek(0, 3000, "delayed") == ids[1::2]
    assert peek(1100, 5, "delayed") == ids[1::2][1100:1105]
    assert peek(-2, 5, "in_flight") == ids[::2][-2:]
    assert peek(0, 5, "visible") == []
    counts = env.rsmq.count_messages(queue)
    assert (counts.visible, counts.in_flight, counts.delayed) == (0, 1250, 1250)


def test_many_large_bodies_are_peeked_in_steps(env, queue):
    bodies = ["x" * 65536 for _ in range(40)]
    env.rsmq.send_messages(queue, bodies)

    assert [m.body for m in env.rsmq.peek_messages(queue, 0, 40)] == bodies


def test_counts_of_states(env, queue, mixed):
    before = env.state()
    first = min(mixed[None])
    scores = env.scores(queue)
    due_since = min(scores[id] for id in mixed["visible"])

    counts = env.rsmq.count_messages(queue)
    assert counts == MessageCounts(3, 3, 3, int(first[:10], 36) / 1000, due_since)
    assert counts.due_since_at.timestamp() == pytest.approx(due_since / 1000)
    assert counts.oldest_sent_at.timestamp() == pytest.approx(int(first[:10], 36) / 1e6, abs=1e-5)
    assert env.state() == before


def test_counts_of_an_empty_queue(env, queue):
    assert env.rsmq.count_messages(queue) == MessageCounts(0, 0, 0, None)
    assert env.rsmq.count_messages(queue).oldest_sent_at is None
    assert env.rsmq.count_messages(queue).due_since_at is None
    assert env.rsmq.peek_messages(queue) == env.rsmq.peek_messages(queue, -5) == []


def test_the_oldest_message_is_found_by_the_times_in_ids(env, queue):
    now = env.now_ms()
    for id in ("0123456789abcdef" * 2, "z" * 32, "x" * 20):
        env.raw.hset(env.hash(queue), id, "m")
        env.raw.zadd(env.zset(queue), {id: now - 5})
    assert env.rsmq.count_messages(queue) == MessageCounts(3, 0, 0, None, now - 5)
    id = env.rsmq.send_message(queue, "m", delay=9)
    env.rsmq.send_message(queue, "younger, and due before")

    assert env.rsmq.count_messages(queue).oldest_sent_ms == int(id[:10], 36) / 1000


def test_messages_that_are_not_due_are_due_since_no_time(env, queue):
    env.rsmq.send_message(queue, "later", delay=9)
    env.rsmq.send_message(queue, "in flight", front=True)
    env.rsmq.receive_message(queue)
    assert env.rsmq.count_messages(queue).due_since_ms is None
    long_ago = env.now_ms() - 3_000_000
    ids = env.rsmq.send_messages(queue, ["m"] * 1500)
    env.raw.zadd(env.zset(queue), {ids[700]: long_ago, "g" * 32: long_ago - 5})

    assert env.rsmq.count_messages(queue).due_since_ms == long_ago


def test_ids_without_bodies_are_not_counted(env, queue):
    id = env.rsmq.send_message(queue, "m")
    now = env.now_ms()
    env.raw.zadd(env.zset(queue), {"g" * 32: now - 10, "h" * 32: now + 99_000})

    assert [m.id for m in env.rsmq.peek_messages(queue)] == [id]
    counts = env.rsmq.count_messages(queue)
    assert (counts.visible, counts.in_flight, counts.delayed) == (1, 0, 0)


def test_the_codec_of_a_peek(env, queue):
    env.rsmq.send_message(queue, {"a": 1}, codec=JSON)

    assert env.rsmq.peek_messages(queue, codec=JSON)[0].body == {"a": 1}


@pytest.mark.refused
@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"start": 1.5}, InvalidValue, "start must be between -1000000000 and 1000000000"),
        ({"count": 0}, InvalidValue, "count must be between 1 and 10000"),
        ({"count": 10_001}, InvalidValue, "count must be between 1 and 10000"),
        ({"count": "5"}, InvalidValue, "count must be between 1 and 10000"),
        ({"state": "hidden"}, InvalidFormat, "Invalid state format"),
        ({"state": 5}, InvalidFormat, "Invalid state format"),
        ({"codec": 5}, InvalidFormat, "Invalid codec format"),
    ],
)
def test_a_peek_with_invalid_arguments_is_refused(env, queue, options, kind, text):
    with refused(kind, text):
        env.rsmq.peek_messages(queue, **options)


def test_peek_and_count_of_a_missing_queue(env):
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.peek_messages("q")
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.peek_messages("q", -1, state="delayed")
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.count_messages("q")
