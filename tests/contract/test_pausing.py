"""Pausing queues: an attribute that only workers read."""

from __future__ import annotations

import pytest
import redis

from rsmq import InvalidFormat, MissingParameter, QueueNotFound
from tests.expect import refused


def test_a_pause_is_one_field_with_its_time(env, queue):
    fields = env.fields(queue)
    before = env.now_ms()

    assert env.rsmq.pause_queue(queue) is True
    paused = env.fields(queue)
    assert before <= int(paused["x:paused"]) <= env.now_ms()
    assert paused == {**fields, "x:paused": paused["x:paused"]}
    assert env.rsmq.pause_queue(queue) is False
    assert env.fields(queue) == paused
    assert env.rsmq.resume_queue(queue) is True
    resumed = env.fields(queue)
    assert int(paused["x:paused"]) <= int(resumed["x:resumed"]) <= env.now_ms()
    assert resumed == {**fields, "x:resumed": resumed["x:resumed"]}
    assert env.rsmq.resume_queue(queue) is False
    assert env.fields(queue) == resumed


@pytest.mark.parametrize("backend", ["redis"])
def test_a_user_without_the_right_to_hset_resumes_a_queue(env, queue, limited):
    env.rsmq.pause_queue(queue)

    assert limited([f"{env.ns}:*"], "+@all -hset").resume_queue(queue) is True
    assert env.fields(queue).keys().isdisjoint({"x:paused", "x:resumed"})


def test_attributes_report_a_pause(env, queue):
    env.rsmq.create_queue("dead")
    assert env.rsmq.get_queue_attributes(queue).paused is False
    env.rsmq.pause_queue(queue)

    assert env.rsmq.get_queue_attributes(queue).paused is True
    assert env.rsmq.set_queue_attributes(queue, vt=5).paused is True
    assert env.rsmq.set_dead_letter_policy(queue, "dead", 5).paused is True
    assert env.rsmq.get_queue_attributes("dead").paused is False
    env.rsmq.resume_queue(queue)
    assert env.rsmq.get_queue_attributes(queue).paused is False


def test_any_stored_value_is_a_pause(env, queue):
    env.raw.hset(env.hash(queue), "x:paused", "")

    assert env.rsmq.get_queue_attributes(queue).paused is True
    assert env.rsmq.pause_queue(queue) is False
    assert env.fields(queue)["x:paused"] == ""
    assert env.rsmq.resume_queue(queue) is True


def test_a_pause_affects_only_workers(env, queue):
    env.rsmq.pause_queue(queue)
    first, second, third = env.rsmq.send_messages(queue, ["1", "2", "3"])
    fourth = env.rsmq.publish([queue], "4")[queue]

    assert env.rsmq.receive_message(queue).id == first
    assert env.rsmq.pop_message(queue).id == second
    assert [m.id for m in env.rsmq.receive_messages(queue, 9)] == [third, fourth]
    assert env.rsmq.delete_message(queue, first) is True
    assert env.rsmq.create_queue(queue, exist_ok=True) is False
    assert env.rsmq.get_queue_attributes(queue).paused is True


def test_a_purge_keeps_a_pause(env, queue):
    env.rsmq.send_message(queue, "m")
    env.rsmq.pause_queue(queue)
    since = env.fields(queue)["x:paused"]

    assert env.rsmq.purge_queue(queue) == 1
    assert env.fields(queue)["x:paused"] == since
    env.rsmq.resume_queue(queue)
    since = env.fields(queue)["x:resumed"]
    env.rsmq.pause_queue(queue)
    assert env.rsmq.purge_queue(queue) == 0
    assert env.fields(queue)["x:resumed"] == since
    assert env.rsmq.get_queue_attributes(queue).paused is True


def test_deleting_a_queue_removes_its_pause(env, queue):
    env.rsmq.pause_queue(queue)
    env.rsmq.delete_queue(queue)
    assert env.state() == {}
    env.rsmq.create_queue(queue)

    assert env.rsmq.get_queue_attributes(queue).paused is False


@pytest.mark.parametrize("call", ["pause_queue", "resume_queue"])
def test_a_missing_or_incomplete_queue_is_not_paused(env, call):
    with refused(QueueNotFound, "Queue not found") as caught:
        getattr(env.rsmq, call)("q")
    assert caught.error.value == "q"
    assert env.state() == {}
    env.raw.hset(env.hash("q"), mapping={"vt": 30, "delay": 0})
    before = env.state()

    with refused(QueueNotFound, "Queue not found"):
        getattr(env.rsmq, call)("q")
    assert env.state() == before


@pytest.mark.parametrize("call", ["pause_queue", "resume_queue"])
def test_a_key_of_another_type_is_not_paused(env, call):
    env.raw.set(env.hash("q"), "someone else's")
    before = env.state()

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        getattr(env.rsmq, call)("q")
    assert env.state() == before


@pytest.mark.parametrize("backend", ["redis"])
@pytest.mark.parametrize("call", ["pause_queue", "resume_queue"])
@pytest.mark.parametrize(
    ("qname", "kind", "text"),
    [
        (None, MissingParameter, "No qname supplied"),
        ("", MissingParameter, "No qname supplied"),
        ("a b", InvalidFormat, "Invalid qname format"),
        (["q"], InvalidFormat, "Invalid qname format"),
    ],
)
def test_a_bad_name_is_refused_before_anything_is_sent(env, call, qname, kind, text):
    with refused(kind, text):
        getattr(env.rsmq, call)(qname)
    assert env.state() == {}
