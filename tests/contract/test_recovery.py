"""Recover and release messages of other consumers. The tests also check the raw keys."""

from __future__ import annotations

import pytest

from rsmq import BYTES, InvalidValue, QueueNotFound
from tests.expect import refused


def test_recovered_messages_are_received_again(env, queue):
    ids = env.rsmq.send_messages(queue, ["1", "2", "3"])
    old = env.rsmq.receive_messages(queue, 2)
    env.elapse(queue, 12)
    env.rsmq.receive_message(queue)
    before = env.now_ms()
    recovered = env.rsmq.recover_messages(queue, 10, idle=10, vt=99)
    after = env.now_ms()

    assert [(m.id, m.body, m.receive_count) for m in recovered] == [
        (ids[0], "1", 2),
        (ids[1], "2", 2),
    ]
    assert [m.first_received_ms for m in recovered] == [m.first_received_ms for m in old]
    scores, fields = env.scores(queue), env.fields(queue)
    for id in ids[:2]:
        assert before + 99_000 <= scores[id] <= after + 99_000
        assert fields[f"{id}:rc"] == "2"
    assert fields[f"{ids[2]}:rc"] == "1"
    assert fields["totalrecv"] == "5"
    assert env.rsmq.delete_messages(old) == []
    assert env.rsmq.delete_messages(recovered) == ids[:2]


def test_the_longest_idle_messages_are_recovered_first(env, queue):
    env.rsmq.send_messages(queue, ["1", "2", "3"])
    for _ in range(3):
        env.rsmq.receive_message(queue)
        env.elapse(queue, 5)

    assert [m.body for m in env.rsmq.recover_messages(queue, 2, idle=4)] == ["1", "2"]
    assert [m.body for m in env.rsmq.recover_messages(queue, 2, idle=4)] == ["3"]
    assert env.rsmq.recover_messages(queue, 2, idle=4) == []


def test_idle_time_is_calculated_from_the_score_and_the_vt_of_the_queue(env, queue):
    env.rsmq.send_messages(queue, ["longer", "shorter"])
    env.rsmq.receive_message(queue, vt=100)
    env.rsmq.receive_message(queue, vt=10)
    env.elapse(queue, 25)

    assert [m.body for m in env.rsmq.recover_messages(queue, 9, idle=40)] == ["shorter"]
    assert env.rsmq.recover_messages(queue, 9, idle=10) == []


def test_visible_messages_are_recovered_if_they_were_received_before(env, queue):
    ids = env.rsmq.send_messages(queue, ["1", "2"])
    env.rsmq.receive_message(queue)
    env.rsmq.send_message(queue, "later", delay=5)
    env.elapse(queue, 31)

    assert [m.id for m in env.rsmq.recover_messages(queue, 9, idle=30)] == [ids[0]]


def test_a_receive_count_without_a_first_time_gets_one(env, queue):
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(env.hash(queue), f"{id}:rc", 4)
    before = env.now_ms()

    message = env.rsmq.recover_messages(queue, 1, idle=0)[0]
    assert message.receive_count == 5
    assert before <= message.first_received_ms <= env.now_ms()
    assert env.fields(queue)[f"{id}:fr"] == str(message.first_received_ms)


def test_thousands_are_recovered_among_thousands(env, queue):
    ids = env.rsmq.send_messages(queue, ["m"] * 2500)
    env.raw.hset(env.hash(queue), mapping={f"{id}:rc": 1 for id in ids[::2]})

    recovered = env.rsmq.recover_messages(queue, 1100, idle=0)
    assert [m.id for m in recovered] == ids[::2][:1100]
    assert env.rsmq.delete_messages(recovered) == [m.id for m in recovered]


@pytest.mark.parametrize("vt", [0, 5])
def test_with_a_short_vt_each_message_is_recovered_once(env, queue, vt):
    ids = env.rsmq.send_messages(queue, ["m"] * 2500)
    env.rsmq.receive_messages(queue, 2500)

    recovered = env.rsmq.recover_messages(queue, 10_000, idle=0, vt=vt)
    assert [m.id for m in recovered] == ids
    assert {m.receive_count for m in recovered} == {2}
    assert env.fields(queue)["totalrecv"] == "5000"


def test_messages_with_invalid_counts_are_recovered_and_released(env, queue):
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(env.hash(queue), mapping={f"{id}:rc": "abc", "totalrecv": "many"})

    (message,) = env.rsmq.recover_messages(queue, 5, idle=0)
    assert (message.id, message.receive_count) == (id, 1)
    fields = env.fields(queue)
    assert (fields[f"{id}:rc"], fields["totalrecv"]) == ("1", "1")
    env.raw.hset(env.hash(queue), f"{id}:rc", "abc")
    env.rsmq.change_message_visibility(queue, id, 500)
    assert env.rsmq.release_all_messages(queue) == 1
    assert env.rsmq.get_message(queue, id).state == "visible"


def test_bodies_of_a_recovery_are_bounded(env, queue):
    env.rsmq.set_queue_attributes(queue, maxsize=-1)
    for _ in range(4):
        env.rsmq.send_message(queue, b"x" * (6 * 1024 * 1024), codec=BYTES)
        env.rsmq.receive_message(queue)

    assert len(env.rsmq.recover_messages(queue, 9, idle=0)) == 2
    assert env.fields(queue)["totalrecv"] == "6"


@pytest.mark.refused
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"idle": -1}, "idle must be between 0 and 9999999"),
        ({"idle": None}, "idle must be between 0 and 9999999"),
        ({"idle": 0, "vt": -1}, "vt must be between 0 and 9999999"),
        ({"idle": 0, "max_messages": 0}, "max_messages must be between 1 and 10000"),
    ],
)
def test_an_invalid_recovery_is_refused(env, queue, options, text):
    with refused(InvalidValue, text):
        env.rsmq.recover_messages(queue, **{"max_messages": 5, **options})


def test_recovery_from_a_missing_or_broken_queue(env, queue):
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.recover_messages("missing", 1, idle=0)
    env.rsmq.send_message(queue, "m")
    env.rsmq.receive_message(queue)
    env.raw.hset(env.hash(queue), "vt", "soon")
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        env.rsmq.recover_messages(queue, 1, idle=0, vt=5)


def test_all_messages_in_flight_are_released_and_delayed_ones_are_not(env, queue):
    ids = env.rsmq.send_messages(queue, ["1", "2", "3"])
    in_flight = env.rsmq.receive_messages(queue, 2)
    env.rsmq.change_message_visibility(in_flight[1], 5000)
    later = env.rsmq.send_message(queue, "later", delay=400)
    before = env.scores(queue)

    assert env.rsmq.release_all_messages(queue) == 2
    us = int(ids[0][:10], 36)
    assert env.scores(queue) == {**dict.fromkeys(ids, us // 1000), later: before[later]}
    assert env.rsmq.release_all_messages(queue) == 0
    assert [m.id for m in env.rsmq.receive_messages(queue, 9)] == ids
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.release_all_messages("missing")


def test_thousands_of_one_score_are_released(env, queue):
    ids = env.rsmq.send_messages(queue, ["m"] * 2500, delay=60)
    env.raw.hset(env.hash(queue), mapping={f"{id}:rc": 1 for id in ids[::2]})

    assert env.rsmq.release_all_messages(queue) == 1250
    scores = env.scores(queue)
    assert {scores[id] for id in ids[::2]} == {int(ids[0][:10], 36) // 1000}
    assert {scores[id] for id in ids[1::2]} == {int(ids[0][:10], 36) // 1000 + 60_000}
