"""Queues: create, delete, list, attributes, purge. The tests also check the raw keys."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import redis

from rsmq import (
    InvalidFormat,
    InvalidValue,
    MissingParameter,
    NoAttributeSupplied,
    QueueExists,
    QueueNotFound,
)
from rsmq.figures.facts import ATTRIBUTES
from rsmq.figures.reading import read_queues
from rsmq.wire.keys import Namespace
from tests.expect import refused

FIVE = {"vt": "30", "delay": "0", "maxsize": "65536", "created": "1", "modified": "1"}


def test_create_writes_five_fields_and_the_index(env):
    created = env.rsmq.create_queue("q")
    now = env.now_ms() // 1000
    fields = env.fields("q")

    assert created is True
    assert fields.keys() == FIVE.keys()
    assert (fields["vt"], fields["delay"], fields["maxsize"]) == ("30", "0", "65536")
    assert fields["created"] == fields["modified"]
    assert now - 2 <= int(fields["created"]) <= now
    assert env.raw.smembers(f"{env.ns}:QUEUES") == {b"q"}
    assert sorted(env.raw.keys(f"{env.ns}:*")) == sorted(
        [f"{env.ns}:QUEUES".encode(), f"{env.ns}:q:Q".encode()]
    )
    assert env.raw.ttl(env.hash("q")) == -1


@pytest.mark.parametrize(
    ("attributes", "stored"),
    [
        ({"vt": 0, "delay": 9_999_999, "maxsize": 1024}, ("0", "9999999", "1024")),
        ({"vt": 9_999_999, "delay": 1.0, "maxsize": -1}, ("9999999", "1", "-1")),
        ({"vt": 2.0, "delay": 0, "maxsize": 65536.0}, ("2", "0", "65536")),
    ],
)
def test_create_stores_attributes_as_plain_integers(env, attributes, stored):
    env.rsmq.create_queue("q", **attributes)
    fields = env.fields("q")

    assert (fields["vt"], fields["delay"], fields["maxsize"]) == stored


def test_create_of_an_existing_queue_changes_nothing(env, queue):
    before = env.state()

    with refused(QueueExists, "Queue exists") as caught:
        env.rsmq.create_queue(queue, vt=99)

    assert (caught.error.code, caught.error.value) == ("queueExists", "q")
    assert env.rsmq.create_queue(queue, vt=99, exist_ok=True) is False
    assert env.state() == before


@pytest.mark.parametrize("missing", ["vt", "delay", "maxsize"])
def test_create_completes_an_incomplete_queue(env, missing):
    kept = {name: value for name, value in FIVE.items() if name != missing}
    env.raw.hset(env.hash("q"), mapping=kept)

    with pytest.raises(QueueNotFound):
        env.rsmq.send_message("q", "m")
    created = env.rsmq.create_queue("q", vt=7, delay=8, maxsize=2048)

    assert created is True
    wanted = {"vt": "7", "delay": "8", "maxsize": "2048"}
    assert env.fields("q") == kept | {missing: wanted[missing]}


def test_create_lists_a_queue_that_was_not_listed(env):
    env.raw.hset(env.hash("q"), mapping=FIVE)

    with pytest.raises(QueueExists):
        env.rsmq.create_queue("q")

    assert env.rsmq.list_queues() == ["q"]


@pytest.mark.parametrize("suffix", ["", ":Q"])
@pytest.mark.parametrize(
    "operation",
    [
        "create", "delete", "send", "attributes", "purge", "set",
        "receive", "pop", "remove", "change", "get",
    ],
)  # fmt: skip
def test_a_key_of_another_type_is_reported_and_nothing_changes(env, suffix, operation):
    if suffix == "":
        env.raw.hset(env.hash("q"), mapping=FIVE)
    else:
        env.raw.zadd(env.zset("q"), {"i" * 32: 1})
    env.raw.set(env.zset("q") + suffix, "someone else's")
    before = env.state()
    call = {
        "create": lambda: env.rsmq.create_queue("q"),
        "delete": lambda: env.rsmq.delete_queue("q"),
        "send": lambda: env.rsmq.send_message("q", "m"),
        "attributes": lambda: env.rsmq.get_queue_attributes("q"),
        "purge": lambda: env.rsmq.purge_queue("q"),
        "set": lambda: env.rsmq.set_queue_attributes("q", vt=1),
        "receive": lambda: env.rsmq.receive_message("q"),
        "pop": lambda: env.rsmq.pop_message("q"),
        "remove": lambda: env.rsmq.delete_message("q", "i" * 32),
        "change": lambda: env.rsmq.change_message_visibility("q", "i" * 32, 1),
        "get": lambda: env.rsmq.get_message("q", "i" * 32),
    }[operation]

    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE") as caught:
        call()

    assert "another type" in str(caught.value)
    assert env.state() == before


def test_delete_leaves_no_key_behind(env, queue):
    for body in "abc":
        env.rsmq.send_message(queue, body)
    env.rsmq.receive_message(queue)

    assert env.rsmq.delete_queue(queue) is None
    assert env.state() == {}


def test_delete_of_a_missing_queue_is_queue_not_found(env):
    with refused(QueueNotFound, "Queue not found") as caught:
        env.rsmq.delete_queue("q")

    assert (caught.error.code, caught.error.value) == ("queueNotFound", "q")
    assert "'q'" in str(caught.error)


def test_delete_removes_an_incomplete_queue(env):
    env.raw.hset(env.hash("q"), "totalsent", 1)
    env.raw.zadd(env.zset("q"), {"x": 1})

    env.rsmq.delete_queue("q")

    assert env.state() == {}


def test_list_is_sorted_and_empty_without_queues(env):
    assert env.rsmq.list_queues() == []

    for name in ("b", "a", "C"):
        env.rsmq.create_queue(name)

    assert env.rsmq.list_queues() == ["C", "a", "b"]


def test_namespaces_are_separate(env, queue):
    other = env.client(ns=env.ns.replace("t", "other"))

    if env.backend == "acl":
        with pytest.raises(redis.exceptions.NoPermissionError) as caught:
            other.list_queues()
        assert "docs/security.md lists the commands" in str(caught.value)
    else:
        assert other.list_queues() == []


def test_attributes_of_a_new_queue(env):
    env.rsmq.create_queue("q", vt=5, delay=1, maxsize=-1)
    attributes = env.rsmq.get_queue_attributes("q")
    stored = int(env.fields("q")["created"])

    assert (attributes.vt, attributes.delay, attributes.maxsize) == (5, 1, -1)
    assert (attributes.total_received, attributes.total_sent) == (0, 0)
    assert attributes.created == attributes.modified == datetime.fromtimestamp(stored, UTC)
    assert (attributes.messages, attributes.hidden_messages) == (0, 0)
    assert attributes.visible_messages == 0
    assert attributes.next_due_ms is None
    assert attributes.dead_letter_queue is None
    assert attributes.max_receives is None


def test_attributes_count_hidden_and_visible_messages_to_the_millisecond(env, queue):
    for body in "abc":
        env.rsmq.send_message(queue, body)
    env.rsmq.send_message(queue, "later", delay=100)
    env.rsmq.receive_message(queue, vt=50)
    attributes = env.rsmq.get_queue_attributes(queue)

    assert (attributes.messages, attributes.hidden_messages) == (4, 2)
    assert attributes.visible_messages == 2
    assert (attributes.total_sent, attributes.total_received) == (4, 1)
    assert attributes.next_due_ms == min(
        score for score in env.scores(queue).values() if score > env.now_ms()
    )


@pytest.mark.parametrize(
    ("field", "raw", "attribute", "expected"),
    [
        ("vt", "0.5", "vt", 0.5),
        ("vt", "-0.5", "vt", 0),
        ("vt", "30000000", "vt", 9_999_999),
        ("delay", "1.50", "delay", 1.5),
        ("maxsize", "1024.7", "maxsize", 1024),
        ("maxsize", "65565", "maxsize", 65565),
        ("maxsize", "1048576", "maxsize", 1048576),
        ("maxsize", "0", "maxsize", 65536),
        ("maxsize", "-7", "maxsize", 65536),
        ("maxsize", "big", "maxsize", 65536),
        ("created", "2026-01-02T03:04:05.6Z", "created", None),
        ("created", "", "created", None),
        ("modified", "1700000000123", "modified", datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)),
        ("modified", "1700000000.5", "modified", datetime(2023, 11, 14, 22, 13, 20, 500000, UTC)),
        ("modified", "9" * 20, "modified", None),
        ("totalrecv", "NaN", "total_received", 0),
        ("x:dlq", "dead", "dead_letter_queue", "dead"),
        ("x:max", "5", "max_receives", 5),
    ],
)
def test_attributes_that_other_clients_wrote_are_read(env, queue, field, raw, attribute, expected):
    env.raw.hset(env.hash(queue), field, raw)

    assert getattr(env.rsmq.get_queue_attributes(queue), attribute) == expected


@pytest.mark.parametrize("field", ["created", "modified", "totalsent", "totalrecv"])
def test_attributes_without_a_field_that_other_clients_leave_out(env, queue, field):
    env.raw.hdel(env.hash(queue), field)

    attributes = env.rsmq.get_queue_attributes(queue)

    expected = 0 if field.startswith("total") else None
    names = {"totalsent": "total_sent", "totalrecv": "total_received"}
    assert getattr(attributes, names.get(field, field)) == expected


@pytest.mark.parametrize("item", ["vt", "delay"])
@pytest.mark.parametrize("raw", ["", "abc", "nan", "inf", "0x10", "1e3", " 3", "9" * 21])
def test_an_invalid_stored_number_is_named_and_can_be_repaired(env, queue, item, raw):
    env.raw.hset(env.hash(queue), item, raw)

    with refused(InvalidValue, f"{item} must be between 0 and 9999999") as caught:
        env.rsmq.get_queue_attributes(queue)
    assert caught.error.value == raw
    assert env.method("set_queue_attributes") in str(caught.error)

    before = env.state()
    other = {"vt": "delay", "delay": "vt"}[item]
    with pytest.raises(InvalidValue):
        env.rsmq.set_queue_attributes(queue, **{other: 1})
    assert env.state() == before

    assert getattr(env.rsmq.set_queue_attributes(queue, **{item: 3}), item) == 3


def test_attributes_of_a_missing_or_incomplete_queue(env):
    with pytest.raises(QueueNotFound):
        env.rsmq.get_queue_attributes("q")

    env.raw.hset(env.hash("q"), mapping={"vt": 30, "delay": 0})
    with pytest.raises(QueueNotFound):
        env.rsmq.get_queue_attributes("q")


def test_set_writes_the_supplied_attributes_and_returns_all(env, queue):
    env.raw.hset(env.hash(queue), "modified", 1)
    attributes = env.rsmq.set_queue_attributes(queue, vt=10, maxsize=-1)
    fields = env.fields(queue)

    assert (attributes.vt, attributes.delay, attributes.maxsize) == (10, 0, -1)
    assert (fields["vt"], fields["delay"], fields["maxsize"]) == ("10", "0", "-1")
    assert env.now_ms() // 1000 - 2 <= int(fields["modified"]) <= env.now_ms() // 1000
    assert attributes.modified == datetime.fromtimestamp(int(fields["modified"]), UTC)
    assert fields.keys() == FIVE.keys()


def test_set_without_an_attribute(env, queue):
    before = env.state()

    with refused(NoAttributeSupplied, "No attribute was supplied"):
        env.rsmq.set_queue_attributes(queue)

    assert env.state() == before


def test_set_does_not_create_a_queue(env):
    with pytest.raises(QueueNotFound):
        env.rsmq.set_queue_attributes("q", vt=1)

    assert env.state() == {}


def test_purge_keeps_the_queue_and_removes_all_messages(env, queue):
    for body in "abc":
        env.rsmq.send_message(queue, body)
    env.rsmq.receive_message(queue)
    env.raw.hset(env.hash(queue), mapping={"x:dlq": "dead", "x:max": 5, "orphan": "body"})

    assert env.rsmq.purge_queue(queue) == 3

    fields = env.fields(queue)
    assert fields.keys() == FIVE.keys() | {"totalsent", "totalrecv", "x:dlq", "x:max"}
    assert (fields["totalsent"], fields["totalrecv"], fields["x:max"]) == ("3", "1", "5")
    assert env.raw.exists(env.zset(queue)) == 0
    assert env.rsmq.list_queues() == [queue]
    assert env.rsmq.purge_queue(queue) == 0


def test_purge_of_a_missing_queue(env):
    with pytest.raises(QueueNotFound):
        env.rsmq.purge_queue("q")

    assert env.state() == {}


CALLS = {
    "create_queue": lambda rsmq, qname: rsmq.create_queue(qname),
    "delete_queue": lambda rsmq, qname: rsmq.delete_queue(qname),
    "get_queue_attributes": lambda rsmq, qname: rsmq.get_queue_attributes(qname),
    "set_queue_attributes": lambda rsmq, qname: rsmq.set_queue_attributes(qname, vt=1),
    "purge_queue": lambda rsmq, qname: rsmq.purge_queue(qname),
    "send_message": lambda rsmq, qname: rsmq.send_message(qname, "m"),
    "receive_message": lambda rsmq, qname: rsmq.receive_message(qname),
    "pop_message": lambda rsmq, qname: rsmq.pop_message(qname),
    "delete_message": lambda rsmq, qname: rsmq.delete_message(qname, "x" * 32),
    "change_message_visibility": lambda rsmq, qname: rsmq.change_message_visibility(
        qname, "x" * 32, 1
    ),
    "get_message": lambda rsmq, qname: rsmq.get_message(qname, "x" * 32),
}


@pytest.mark.refused
@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize(
    ("qname", "error", "text"),
    [
        (None, MissingParameter, "No qname supplied"),
        ("", MissingParameter, "No qname supplied"),
        ("a b", InvalidFormat, "Invalid qname format"),
        ("q\n", InvalidFormat, "Invalid qname format"),
        ("é", InvalidFormat, "Invalid qname format"),
        ("x" * 161, InvalidFormat, "Invalid qname format"),
        ("QUEUES", InvalidFormat, "Invalid qname format"),
        ("a:Q", InvalidFormat, "Invalid qname format"),
        (b"q", InvalidFormat, "Invalid qname format"),
        (3, InvalidFormat, "Invalid qname format"),
        (["q"], InvalidFormat, "Invalid qname format"),
    ],
)
def test_a_bad_name_is_refused_before_anything_is_sent(env, operation, qname, error, text):
    with refused(error, text):
        CALLS[operation](env.rsmq, qname)

    assert env.state() == {}


@pytest.mark.parametrize("operation", CALLS)
def test_a_missing_queue_is_queue_not_found_except_in_delete_message(env, operation):
    if operation == "create_queue":
        assert CALLS[operation](env.rsmq, "q") is True
    elif operation == "delete_message":
        assert CALLS[operation](env.rsmq, "q") is False
    else:
        with refused(QueueNotFound, "Queue not found"):
            CALLS[operation](env.rsmq, "q")
        assert env.state() == {}


def test_names_of_other_clients_are_allowed_without_strict_names(env):
    tolerant = env.client(strict_names=False)
    for name in ("a.b/c", "zwei Wörter", "😀", "a:b", "x" * 300):
        tolerant.create_queue(name)
        tolerant.send_message(name, "m")

        assert tolerant.pop_message(name).body == "m"
        assert name in env.rsmq.list_queues()
        with pytest.raises(InvalidFormat):
            env.rsmq.pop_message(name)

    for name in ("QUEUES", "a:Q", ""):
        with pytest.raises((InvalidFormat, MissingParameter)):
            tolerant.create_queue(name)


def test_several_queues_are_described_in_one_call(env, queue):
    env.rsmq.send_messages(queue, ["a", "b"])
    env.rsmq.receive_message(queue, vt=60)
    env.raw.hset(env.hash("no-number"), mapping={"vt": "soon", "delay": "0", "maxsize": "65536"})
    env.raw.hset(env.hash("other-type"), mapping={"vt": "1", "delay": "0", "maxsize": "65536"})
    env.raw.set(env.zset("other-type"), "text")
    before = env.state()
    names = [queue, "missing", "no-number", "other-type"]
    namespace = Namespace(env.ns)
    keys = [namespace.queue(name) for name in names]
    found = env.rsmq.run(read_queues(namespace, keys, (ATTRIBUTES,)))

    assert list(found) == [queue]
    attributes = found[queue][ATTRIBUTES]
    assert attributes == env.rsmq.get_queue_attributes(queue)
    assert (attributes.messages, attributes.hidden_messages) == (2, 1)
    assert env.state() == before
