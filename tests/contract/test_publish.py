"""Publish: one message to all of several queues, or to none. The tests also check the raw keys."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest
import redis

from rsmq import (
    BYTES,
    JSON,
    InvalidFormat,
    InvalidValue,
    MessageNotString,
    MessageTooLong,
    MissingParameter,
    QueueNotFound,
)
from tests.expect import refused

ID = re.compile(r"[0-9a-z]{10}[A-Za-z0-9]{22}")
FIVE = {"vt", "delay", "maxsize", "created", "modified"}


@pytest.fixture
def queues(env):
    """The names of three queues, in the order in which publish gets them."""
    names = ["mail", "audit", "cache"]
    for name in names:
        env.rsmq.create_queue(name)
    return names


def sent_at(id):
    return int(id[:10], 36) // 1000


def test_each_queue_gets_the_same_as_from_a_send(env, queues):
    before = env.now_ms()
    ids = env.rsmq.publish(queues, "héllo")
    after = env.now_ms()

    assert list(ids) == queues
    assert len(set(ids.values())) == 3
    for name, id in ids.items():
        assert ID.fullmatch(id)
        assert before <= sent_at(id) <= after
        assert env.scores(name) == {id: sent_at(id)}
        fields = env.fields(name)
        assert fields.keys() == FIVE | {"totalsent", id}
        assert (fields[id], fields["totalsent"]) == ("héllo", "1")
    assert len({id[:10] for id in ids.values()}) == 1
    assert sorted(env.raw.keys(f"{env.ns}:*")) == sorted(
        key.encode() for key in (f"{env.ns}:QUEUES", *map(env.zset, queues), *map(env.hash, queues))
    )


def test_published_messages_are_received_separately(env, queues):
    env.rsmq.send_message("mail", "before")
    ids = env.rsmq.publish(queues, "m")

    assert env.rsmq.receive_message("audit").id == ids["audit"]
    assert env.rsmq.pop_message("cache").id == ids["cache"]
    assert [m.body for m in env.rsmq.receive_messages("mail", 9)] == ["before", "m"]
    assert env.fields("mail")["totalsent"] == "2"


def test_a_delay_of_the_call_applies_to_all_queues(env, queues):
    env.raw.hset(env.hash("audit"), "delay", "soon")
    env.rsmq.set_queue_attributes("cache", delay=500)

    for delay, ms in ((0, 0), (0.0015, 2), (60, 60_000)):
        for name, id in env.rsmq.publish(queues, "m", delay=delay).items():
            assert env.scores(name)[id] == sent_at(id) + ms


def test_without_a_delay_each_queue_has_its_own(env, queues):
    env.rsmq.set_queue_attributes("audit", delay=7)
    env.raw.hset(env.hash("cache"), "delay", "0.5")
    ids = env.rsmq.publish(queues, "m")

    waited = [env.scores(name)[id] - sent_at(id) for name, id in ids.items()]
    assert waited == [0, 7000, 500]


def test_a_name_twice_counts_once(env, queues):
    ids = env.rsmq.publish(["audit", "mail", "audit"], "m")

    assert list(ids) == ["audit", "mail"]
    assert [len(env.scores(name)) for name in queues] == [1, 1, 0]
    assert env.fields("audit")["totalsent"] == "1"


def test_names_come_from_any_iterable(env, queues):
    assert env.rsmq.publish(iter(queues), "m").keys() == set(queues)
    assert env.rsmq.publish("mail", "m").keys() == {"mail"}


def test_publish_to_many_queues(env):
    names = [f"q{number}" for number in range(120)]
    for name in names:
        env.rsmq.create_queue(name)

    ids = env.rsmq.publish(reversed(names), "m")
    assert list(ids) == names[::-1]
    assert all(env.scores(name).keys() == {ids[name]} for name in names)


def test_bodies_are_stored_byte_for_byte(env, queues):
    for body, codec, raw in (
        ("", None, b""),
        ("a\0b", None, b"a\0b"),
        (bytes(range(256)), BYTES, bytes(range(256))),
        ({"a": [1, None, "é"]}, JSON, '{"a":[1,null,"é"]}'.encode()),
    ):
        for name, id in env.rsmq.publish(queues, body, codec=codec).items():
            assert env.raw.hget(env.hash(name), id) == raw


def test_queues_without_a_limit_take_large_bodies(env, queues):
    for name in queues:
        env.rsmq.set_queue_attributes(name, maxsize=-1)

    assert len(env.rsmq.publish(queues, "x" * 200_000)) == 3


BROKEN = {
    "missing": (lambda env, q: env.rsmq.delete_queue(q), QueueNotFound),
    "half-made": (lambda env, q: env.raw.hdel(env.hash(q), "maxsize"), QueueNotFound),
    "too small": (lambda env, q: env.rsmq.set_queue_attributes(q, maxsize=1024), MessageTooLong),
    "no delay": (lambda env, q: env.raw.hset(env.hash(q), "delay", "soon"), InvalidValue),
    "another zset": (lambda env, q: env.raw.set(env.zset(q), "text"), redis.ResponseError),
    "another hash": (
        lambda env, q: (env.raw.delete(env.hash(q)), env.raw.set(env.hash(q), "text")),
        redis.ResponseError,
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_if_one_queue_refuses_no_queue_gets_the_message(env, queues, broken):
    break_it, kind = BROKEN[broken]
    env.rsmq.publish(queues, "before")
    break_it(env, "cache")
    before = env.state()

    for names in (queues, ["mail", "cache", "audit"], queues[::-1]):
        with pytest.raises(kind) as caught:
            env.rsmq.publish(names, "x" * 1025)
        assert kind is not QueueNotFound or caught.value.value == "cache"
        assert env.state() == before


@pytest.mark.parametrize("backend", ["redis", "redis-6.2", "cluster"])
def test_a_full_server_adds_the_message_to_no_queue(env, queues):
    env.rsmq.publish(queues, "before")
    env.raw.hset(env.hash("cache"), "totalsent", 10**16)
    before = env.state()

    with env.full(), pytest.raises(redis.ResponseError, match="used memory"):
        env.rsmq.publish(queues, "m")
    assert env.state() == before
    assert env.rsmq.publish(queues, "m")


@contextmanager
def notifications(env, queues):
    """Subscribe to the notifications of the queues."""
    node = env.raw
    with node.pubsub() as listener:
        for name in queues:
            listener.subscribe(f"{env.ns}:rt:{name}")
            assert listener.get_message(timeout=5)["type"] == "subscribe"
        yield listener


def test_each_queue_is_notified_with_its_own_number(env, queues):
    loud = env.client(realtime=True)
    env.rsmq.send_messages("audit", ["a", "b"])
    with notifications(env, queues) as listener:
        env.rsmq.publish(queues, "silent")
        loud.publish(queues, "heard")
        received = [listener.get_message(timeout=5) for _ in queues]
        assert listener.get_message(timeout=0.01) is None

    assert {each["channel"].decode().rpartition(":")[2]: each["data"] for each in received} == {
        "mail": b"2", "audit": b"4", "cache": b"2",
    }  # fmt: skip


def test_a_failed_publish_sends_no_notification(env, queues):
    loud = env.client(realtime=True)
    env.raw.set(env.zset("cache"), "text")
    with notifications(env, queues) as listener:
        with pytest.raises(redis.ResponseError):
            loud.publish(queues, "m")
        assert listener.get_message(timeout=0.01) is None


@pytest.mark.parametrize("backend", ["redis"])
@pytest.mark.parametrize(
    ("qnames", "options", "kind", "text"),
    [
        ([], {}, MissingParameter, "No qname supplied"),
        (None, {}, MissingParameter, "No qname supplied"),
        ("", {}, MissingParameter, "No qname supplied"),
        (["mail", None], {}, MissingParameter, "No qname supplied"),
        (["mail", "a b"], {}, InvalidFormat, "Invalid qname format"),
        (["mail", "QUEUES"], {}, InvalidFormat, "Invalid qname format"),
        (b"mail", {}, InvalidFormat, "Invalid qname format"),
        (5, {}, InvalidFormat, "Invalid qnames format"),
        (
            ["mail"] * 10_001,
            {},
            InvalidValue,
            "the number of qnames must be between 0 and 10000",
        ),
        (["mail"], {"delay": -1}, InvalidValue, "delay must be between 0 and 9999999"),
        (["mail"], {"delay": "5"}, InvalidValue, "delay must be between 0 and 9999999"),
        (["mail"], {"codec": 5}, InvalidFormat, "Invalid codec format"),
        (["mail"], {"codec": BYTES}, MessageNotString, "Message must be a string"),
    ],
)
def test_an_invalid_publish_is_refused(env, queues, qnames, options, kind, text):
    before = env.state()

    with pytest.raises(kind) as caught:
        env.rsmq.publish(qnames, "m", **options)
    assert type(caught.value) is kind
    if kind is not MessageNotString:
        assert caught.value.text == text
    assert env.state() == before


def test_a_missing_queue_is_named(env, queues):
    with refused(QueueNotFound, "Queue not found") as caught:
        env.rsmq.publish([*queues, "nowhere"], "m")
    assert caught.error.value == "nowhere"
