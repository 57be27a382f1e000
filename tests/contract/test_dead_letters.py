"""Dead letters: policy, sweep, redrive, move. The tests also check the raw keys."""

from __future__ import annotations

import time

import pytest

from rsmq import InvalidFormat, InvalidValue, MissingParameter, QueueNotFound
from rsmq.operations.dead_letters import redrive_messages
from rsmq.wire.keys import Namespace
from tests.expect import refused


@pytest.fixture
def dead(env, queue):
    """The name of the dead-letter queue of ``queue``, whose limit is two receives."""
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 2)
    return "dead"


def receive_twice(env, queue):
    for _ in range(2):
        received = env.rsmq.receive_messages(queue, 100, vt=0)
    return received


def test_a_policy_is_two_fields(env, queue):
    env.rsmq.create_queue("dead")
    fields = env.fields(queue)
    attributes = env.rsmq.set_dead_letter_policy(queue, "dead", 5)

    assert (attributes.dead_letter_queue, attributes.max_receives) == ("dead", 5)
    assert env.rsmq.get_queue_attributes(queue).max_receives == 5
    changed = env.fields(queue)
    assert changed == {**fields, "x:dlq": "dead", "x:max": "5", "modified": changed["modified"]}
    assert env.rsmq.set_dead_letter_policy(queue, None).dead_letter_queue is None
    assert env.fields(queue).keys() == fields.keys()


@pytest.mark.parametrize(
    ("target", "limit", "kind", "text"),
    [
        ("missing", 5, QueueNotFound, "Queue not found"),
        ("q", 5, InvalidFormat, "Invalid dead_letter_queue format"),
        ("a b", 5, InvalidFormat, "Invalid qname format"),
        ("", 5, MissingParameter, "No qname supplied"),
        ("dead", 0, InvalidValue, "max_receives must be between 1 and 1000000"),
        ("dead", None, InvalidValue, "max_receives must be between 1 and 1000000"),
        ("dead", 2.5, InvalidValue, "max_receives must be between 1 and 1000000"),
        ("dead", True, InvalidValue, "max_receives must be between 1 and 1000000"),
    ],
)
def test_an_invalid_policy_is_refused(env, queue, target, limit, kind, text):
    env.rsmq.create_queue("dead")
    before = env.state()

    with refused(kind, text):
        env.rsmq.set_dead_letter_policy(queue, target, limit)
    assert env.state() == before


def test_a_policy_of_a_missing_queue(env, queue):
    for target, limit in ((queue, 5), (None, None)):
        with refused(QueueNotFound, "Queue not found") as caught:
            env.rsmq.set_dead_letter_policy("missing", target, limit)
        assert caught.error.value == "missing"


RECEIVES = {
    "receive_message": lambda rsmq, q: rsmq.receive_message(q),
    "pop_message": lambda rsmq, q: rsmq.pop_message(q),
    "receive_messages": lambda rsmq, q: next(iter(rsmq.receive_messages(q, 5)), None),
    "pop_messages": lambda rsmq, q: next(iter(rsmq.pop_messages([q], 5)), None),
    "recover_messages": lambda rsmq, q: next(iter(rsmq.recover_messages(q, 5, idle=0)), None),
}


def test_an_additional_field_is_moved_with_its_message(env, queue, dead):
    id = env.rsmq.send_message(queue, "poison")
    receive_twice(env, queue)
    env.raw.hset(env.hash(queue), f"{id}:meta", "not apalis")
    env.elapse(queue, 100)

    assert env.rsmq.receive_message(queue) is None
    assert not any(id in name for name in env.fields(queue))
    assert env.fields(dead)[f"{id}:meta"] == "not apalis"


@pytest.mark.parametrize("receive", RECEIVES)
def test_a_message_received_too_often_is_moved(env, queue, dead, receive):
    poison = env.send_as_apalis(queue, "poison")
    first = receive_twice(env, queue)[0].first_received_ms
    env.raw.hset(env.hash(dead), "maxsize", "1")
    good = env.rsmq.send_message(queue, "good")
    if receive == "recover_messages":
        env.raw.hset(env.hash(queue), f"{good}:rc", "1")
    if receive in ("receive_message", "receive_messages"):
        env.raw.zadd(env.zset(queue), {poison: env.now_ms() - 90_000})
    env.elapse(queue, 100)
    before = env.now_ms()

    assert RECEIVES[receive](env.rsmq, queue).id == good
    assert poison not in env.scores(queue)
    assert not any(poison in name for name in env.fields(queue))
    fields = env.fields(dead)
    assert (fields[poison], fields[f"{poison}:rc"], fields["totalsent"]) == ("poison", "2", "1")
    assert (fields[f"{poison}:fr"], fields[f"{poison}:meta"]) == (str(first), "apalis")
    assert before <= env.scores(dead)[poison] <= env.now_ms()
    message = env.rsmq.receive_message(dead)
    assert (message.id, message.receive_count, message.first_received_ms) == (poison, 3, first)


@pytest.mark.parametrize("receive", RECEIVES)
def test_nothing_is_received_if_all_messages_are_poison(env, queue, dead, receive):
    ids = env.rsmq.send_messages(queue, ["1", "2", "3"])
    receive_twice(env, queue)

    assert RECEIVES[receive](env.rsmq, queue) is None
    assert env.scores(queue) == {}
    assert set(env.scores(dead)) == set(ids)
    assert env.fields(queue)["totalrecv"] == "6"


@pytest.mark.parametrize("receive", RECEIVES)
def test_a_policy_with_a_missing_target_has_no_effect(env, queue, dead, receive):
    poison = env.rsmq.send_message(queue, "poison")
    receive_twice(env, queue)
    env.rsmq.delete_queue(dead)

    message = RECEIVES[receive](env.rsmq, queue)
    assert (message.id, message.receive_count) == (poison, 3)
    assert env.rsmq.sweep_dead_letters(queue) == []
    assert not env.raw.exists(env.hash(dead), env.zset(dead))


def break_dead_letter_queue(env, dead):
    """Yield after each change that makes the dead-letter queue unable to store a message."""
    env.raw.set(env.zset(dead), "text")
    yield
    env.raw.delete(env.zset(dead), env.hash(dead))
    env.raw.set(env.hash(dead), "text")
    yield


@pytest.mark.parametrize("receive", RECEIVES)
def test_a_policy_with_a_broken_target_has_no_effect(env, queue, dead, receive):
    for _ in break_dead_letter_queue(env, dead):
        poison = env.rsmq.send_message(queue, "poison")
        receive_twice(env, queue)
        before = {key: value for key, value in env.state().items() if b"dead" in key}

        assert RECEIVES[receive](env.rsmq, queue).id == poison
        assert env.rsmq.sweep_dead_letters(queue) == []
        assert {key: value for key, value in env.state().items() if b"dead" in key} == before
        env.rsmq.purge_queue(queue)


def test_two_queues_cannot_be_each_others_dead_letter_queue(env, queue, dead):
    before = env.state()

    with refused(InvalidFormat, "Invalid dead_letter_queue format") as caught:
        env.rsmq.set_dead_letter_policy(dead, queue, 5)
    assert "circulate" in str(caught.error)
    assert env.state() == before


@pytest.mark.refused
def test_a_limit_without_a_queue_is_refused(env, queue):
    with refused(InvalidFormat, "Invalid max_receives format"):
        env.rsmq.set_dead_letter_policy(queue, None, 5)


def test_a_redrive_of_a_missing_queue_is_queue_not_found(env, queue):
    with refused(QueueNotFound, "Queue not found") as caught:
        env.rsmq.redrive_messages("missing")
    assert caught.error.value == "missing"


def call_after_each(steps, act):
    """Run the same steps, and call the function after each."""
    operation = next(steps)
    while True:
        result = yield operation
        act()
        try:
            operation = steps.send(result)
        except StopIteration as end:
            return end.value


def test_messages_that_become_due_during_a_redrive_are_not_redriven(env, queue, dead):
    env.rsmq.set_queue_attributes(dead, maxsize=-1)
    ids = [env.rsmq.send_message(dead, "m" * 600_000) for _ in range(3)]  # one for each step
    late = []

    def send_late():
        if len(late) == 9:
            return
        time.sleep(0.002)  # later than the step, to the millisecond
        late.append(f"{len(late):032}")
        env.raw.hset(env.hash(dead), late[-1], "late")
        env.raw.zadd(env.zset(dead), {late[-1]: env.now_ms()})

    steps = redrive_messages(Namespace(env.ns), dead, queue, None)
    redriven = env.rsmq.run_steps(call_after_each(steps, send_late))

    assert [old for old, _ in redriven] == ids
    assert len(late) == 4
    assert env.scores(dead).keys() == set(late)
    assert [old for old, _ in env.rsmq.redrive_messages(dead, queue)] == late


def test_a_sweep_leaves_ghosts(env, queue, dead):
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(env.hash(queue), f"{id}:rc", 5)
    env.raw.hdel(env.hash(queue), id)

    assert env.rsmq.sweep_dead_letters(queue) == []
    assert set(env.scores(queue)) == {id}


@pytest.mark.parametrize("stored", [{"x:max": "often"}, {"x:dlq": "q"}, {"x:dlq": "nowhere"}])
def test_invalid_stored_policies_have_no_effect(env, queue, dead, stored):
    poison = env.rsmq.send_message(queue, "poison")
    receive_twice(env, queue)
    env.raw.hset(env.hash(queue), mapping=stored)

    assert env.rsmq.receive_message(queue).id == poison
    assert env.rsmq.sweep_dead_letters(queue) == []


def test_purge_keeps_the_policy(env, queue, dead):
    env.rsmq.purge_queue(queue)

    assert env.rsmq.get_queue_attributes(queue).dead_letter_queue == dead


def test_a_sweep_moves_only_visible_messages(env, queue, dead):
    ids = env.rsmq.send_messages(queue, [str(n) for n in range(6)])
    for id in ids[:4]:
        env.raw.hset(env.hash(queue), f"{id}:rc", 2)
    env.rsmq.change_message_visibility(queue, ids[3], 500)
    env.raw.hset(env.hash(queue), f"{ids[4]}:rc", 1)

    assert env.rsmq.sweep_dead_letters(queue, 2) == ids[:2]
    assert env.rsmq.sweep_dead_letters(queue) == [ids[2]]
    assert env.rsmq.sweep_dead_letters(queue) == []
    assert set(env.scores(queue)) == set(ids[3:])
    assert set(env.scores(dead)) == set(ids[:3])
    assert env.fields(dead)["totalsent"] == "3"


def test_a_sweep_of_a_long_queue_of_one_score(env, queue, dead):
    ids = env.rsmq.send_messages(queue, ["m"] * 2300)
    poison = ids[::5]
    env.raw.hset(env.hash(queue), mapping={f"{id}:rc": 2 for id in poison})

    assert env.rsmq.sweep_dead_letters(queue, 300) == poison[:300]
    assert env.rsmq.sweep_dead_letters(queue) == poison[300:]
    assert len(env.scores(queue)) == 2300 - len(poison)


def test_an_invalid_sweep_is_refused(env, queue):
    assert env.rsmq.sweep_dead_letters(queue) == []
    with refused(QueueNotFound, "Queue not found"):
        env.rsmq.sweep_dead_letters("missing")
    with refused(InvalidValue, "max_messages must be between 1 and 10000"):
        env.rsmq.sweep_dead_letters(queue, 0)


def test_redriven_messages_are_new_and_in_the_old_order(env, queue, dead):
    ids = env.rsmq.send_messages(queue, ["1", "2", "3"])
    receive_twice(env, queue)
    env.rsmq.sweep_dead_letters(queue)
    before = env.now_ms()

    redriven = env.rsmq.redrive_messages(dead)
    assert [old for old, _ in redriven] == ids
    new = [id for _, id in redriven]
    assert new == sorted(new)
    assert not set(new) & set(ids)
    assert env.scores(dead) == {}
    assert not any(id in name for id in ids for name in env.fields(dead))
    us = int(new[0][:10], 36)
    assert before <= us // 1000 <= env.now_ms()
    assert env.scores(queue) == dict.fromkeys(new, us // 1000)
    fields = env.fields(queue)
    assert [fields[id] for id in new] == ["1", "2", "3"]
    assert not any(name.endswith((":rc", ":fr")) for name in fields)
    assert fields["totalsent"] == "6"
    assert [m.receive_count for m in env.rsmq.receive_messages(queue, 9)] == [1, 1, 1]


def test_a_redrive_obeys_its_limit_and_leaves_messages_in_flight(env, queue, dead):
    ids = env.rsmq.send_messages(dead, [str(n) for n in range(5)])
    in_flight = env.rsmq.receive_message(dead)
    env.rsmq.create_queue("elsewhere")

    redriven = env.rsmq.redrive_messages(dead, "elsewhere", max_messages=3)
    assert [old for old, _ in redriven] == ids[1:4]
    assert set(env.scores(dead)) == {in_flight.id, ids[4]}
    assert len(env.scores("elsewhere")) == 3
    assert env.rsmq.redrive_messages(dead, queue) == [(ids[4], next(iter(env.scores(queue))))]
    assert env.rsmq.redrive_messages(dead, queue) == []


def test_a_redrive_of_thousands(env, queue, dead):
    ids = env.rsmq.send_messages(dead, ["m"] * 2300)

    redriven = env.rsmq.redrive_messages(dead)
    assert [old for old, _ in redriven] == ids
    assert set(env.scores(queue)) == {new for _, new in redriven}
    assert env.scores(dead) == {}


def test_a_redrive_finds_the_queue_whose_policy_names_its_source(env, queue, dead):
    env.rsmq.send_message(dead, "m")
    env.rsmq.create_queue("other")
    env.rsmq.send_message("other", "m")
    env.raw.sadd(f"{env.ns}:QUEUES", "a b", "Q:Q", "")
    before = env.state()
    with refused(MissingParameter, "No destination supplied") as caught:
        env.rsmq.redrive_messages("other")
    assert "No queue" in str(caught.error)
    assert env.state() == before
    env.rsmq.set_dead_letter_policy("other", dead, 9)
    with refused(MissingParameter, "No destination supplied") as caught:
        env.rsmq.redrive_messages(dead)
    assert set(caught.error.value) == {queue, "other"}
    env.rsmq.set_dead_letter_policy(queue, None)
    assert len(env.rsmq.redrive_messages(dead)) == 1
    assert len(env.scores("other")) == 2


def test_an_invalid_redrive_is_refused(env, queue, dead):
    env.rsmq.send_message(dead, "m")
    before = env.state()
    with refused(InvalidFormat, "Invalid destination format"):
        env.rsmq.redrive_messages(dead, dead)
    for names in ((dead, "missing"), ("missing", dead)):
        with refused(QueueNotFound, "Queue not found") as caught:
            env.rsmq.redrive_messages(*names)
        assert caught.error.value == "missing"
    with refused(InvalidValue, "max_messages must be between 1 and 1000000000"):
        env.rsmq.redrive_messages(dead, queue, max_messages=0)
    assert env.state() == before


def test_a_move_by_receipts(env, queue):
    env.rsmq.create_queue("to")
    ids = env.rsmq.send_messages(queue, ["1", "2"])
    in_flight = env.rsmq.receive_messages(queue, 2)
    stale = env.rsmq.receive_messages(queue, 2)
    assert stale == []
    env.rsmq.change_message_visibility(in_flight[1], 0)
    env.rsmq.receive_message(queue)
    before = env.now_ms()

    assert env.rsmq.move_messages(in_flight, "to") == ids[:1]
    assert before <= env.scores("to")[ids[0]] <= env.now_ms()
    fields = env.fields("to")
    assert (fields[ids[0]], fields[f"{ids[0]}:rc"]) == ("1", "1")
    assert fields[f"{ids[0]}:fr"] == str(in_flight[0].first_received_ms)
    assert fields["totalsent"] == "1"
    assert set(env.scores(queue)) == {ids[1]}
    assert not any(ids[0] in name for name in env.fields(queue))


def test_a_move_by_ids_keeps_the_order_and_delays(env, queue):
    env.rsmq.create_queue("to")
    ids = env.rsmq.send_messages(queue, ["1", "2"])
    later = env.rsmq.send_message(queue, "3", delay=500)
    scores = env.scores(queue)

    moved = env.rsmq.move_messages(queue, "to", [*ids, later, "n" * 32])
    assert moved == [*ids, later]
    assert env.scores("to") == scores
    assert env.fields("to")["totalsent"] == "3"
    assert env.scores(queue) == {}


def test_a_ghost_is_not_moved(env, queue):
    env.rsmq.create_queue("to")
    id = env.rsmq.send_message(queue, "m")
    env.raw.hdel(env.hash(queue), id)

    assert env.rsmq.move_messages(queue, "to", [id]) == []
    assert env.scores("to") == {}


def test_an_invalid_move_is_refused(env, queue):
    env.rsmq.create_queue("to")
    id = env.rsmq.send_message(queue, "m")
    before = env.state()
    with refused(InvalidFormat, "Invalid destination format"):
        env.rsmq.move_messages(queue, queue, [id])
    for source, destination in ((queue, "missing"), ("missing", queue)):
        with refused(QueueNotFound, "Queue not found") as caught:
            env.rsmq.move_messages(source, destination, ids=[id])
        assert caught.error.value == "missing"
    assert env.state() == before
