"""
The accepted deviations in PROTOCOL.md, one test each, named as in its table.

Each test shows what Node 0.12.4 does and what this library does instead, on the same keys.
"""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from compat.peers import Refused
from rsmq import (
    BYTES,
    BodyNotDecodable,
    InvalidFormat,
    InvalidValue,
    MessageNotString,
    QueueNotFound,
)
from tests.expect import refused

PLAIN = {"vt": "30", "delay": "0", "maxsize": "65536", "created": "1700000000", "modified": "1"}
ID = "h0pefu1000" + "A" * 22


@pytest.fixture
def rsmq(our_client):
    return our_client.client()


@pytest.fixture
def write_queue(keys):
    """
    Return a function that writes a queue as another client might have: attributes, ids and fields.
    """

    def write(*, fields=(), ids=(), listed=True, **attributes):
        keys.raw.delete(*(keys.list_keys() or ["none"]))
        hash = {**PLAIN, **dict(fields), **attributes}
        hash = {name: value for name, value in hash.items() if value is not None}
        keys.raw.hset(f"{keys.ns}:q:Q", mapping=hash)
        if ids:
            keys.raw.zadd(f"{keys.ns}:q", dict(ids))
        if listed:
            keys.raw.sadd(f"{keys.ns}:QUEUES", "q")

    return write


def error_name(call, *args, **options):
    """Return Node's name of the error that the call raises."""
    with pytest.raises(Refused) as caught:
        call(*args, **options)
    return caught.value.name


def test_reserved_name(rsmq, node, keys):
    node.create_queue("QUEUES")
    lost_id = node.send_message("QUEUES", "lost")

    assert keys.raw.type(f"{keys.ns}:QUEUES") == b"set"
    assert lost_id.encode() in keys.fields("QUEUES")
    with refused(InvalidFormat, "Invalid qname format"):
        rsmq.create_queue("QUEUES")
    with refused(InvalidFormat, "Invalid qname format"):
        rsmq.send_message("QUEUES", "not lost")


def test_numbers(rsmq, node, keys):
    for value, truncated in (("1.9", b"1"), (0.5, b"0"), ("5abc", b"5"), (1e300, b"1")):
        node.create_queue("q", vt=value)
        assert keys.fields("q")[b"vt"] == truncated
        node.delete_queue("q")
        with refused(InvalidValue, "vt must be between 0 and 9999999"):
            rsmq.create_queue("q", vt=value)
        assert keys.list_keys() == []

    # In calls, fractions count in this library, and Node truncates them.
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "m").encode()
    assert keys.scores("q")[id] + 1500 == _score_at_send(keys, rsmq.receive_message("q", vt=1.5))
    rsmq.change_message_visibility("q", id.decode(), 0)
    message = node.receive_message("q", vt=1.5)
    assert 0 <= keys.scores("q")[id] - 1000 - message["fr"] < 5000


def _score_at_send(keys, message):
    """Return the score of a message, minus the time between its send and its receive."""
    elapsed_ms = message.first_received_ms - int(message.sent_ms)
    return keys.scores("q")[message.id.encode()] - elapsed_ms


def test_no_stringified_names(rsmq, node, keys):
    assert node.create_queue(7)
    assert node.create_queue(["a"])
    assert error_name(node.create_queue, 0) == "missingParameter"
    assert keys.names() == {"7", "a"}
    for name in (7, ["a"], 0):
        with refused(InvalidFormat, "Invalid qname format"):
            rsmq.create_queue(name)


def test_own_checks_first(rsmq, node, keys):
    assert error_name(node.receive_message, "nosuch", vt=-1) == "queueNotFound"
    assert error_name(node.send_message, "nosuch", "m", delay=-1) == "queueNotFound"
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        rsmq.receive_message("nosuch", vt=-1)
    with refused(InvalidValue, "delay must be between 0 and 9999999"):
        rsmq.send_message("nosuch", "m", delay=-1)
    # With a single fault the error is Node's.
    with refused(QueueNotFound, "Queue not found"):
        rsmq.receive_message("nosuch", vt=1)


@pytest.mark.parametrize(
    ("id", "sent_ms"),
    [
        ("loyw3v28" + "A" * 22, 1_700_000_000_000),  # rsmq_async 1 to 15: milliseconds
        ("s44we8" + "A" * 22, 1_700_000_000_000),  # rsmq_async 7: seconds
        ("A" * 22, None),  # Go, Ruby: no time
        ("gqll7vatq8" + "0123456789abcdef" * 2, 1_700_000_000_000),  # Node before 0.3
        ("0f8fad5b-d9cb-469f-a165-70867728950e", None),  # a UUID
    ],
)
def test_foreign_ids(rsmq, node, write_queue, id, sent_ms):
    due = {"fields": {id: "body"}, "ids": {id: 1}}
    write_queue(**due)
    assert node.receive_message("q", vt=0)["id"] == id
    assert error_name(node.delete_message, "q", id) == "invalidFormat"
    assert error_name(node.change_message_visibility, "q", id, 1) == "invalidFormat"

    write_queue(**due)
    message = rsmq.receive_message("q", vt=0)
    assert (message.id, message.sent_ms) == (id, sent_ms)
    assert rsmq.change_message_visibility("q", id, 0) is True
    assert rsmq.delete_message("q", id) is True


def test_ghosts(rsmq, node, write_queue, keys):
    write_queue(ids={ID: 1})
    assert node.receive_message("q", vt=0)["message"] is None
    assert keys.fields("q")[b"totalrecv"] == b"1"

    write_queue(ids={ID: 1})
    assert rsmq.receive_message("q") is None
    assert keys.scores("q") == {}
    assert b"totalrecv" not in keys.fields("q")

    # It may be a send in progress: it is skipped, and not deleted, so that the body can follow.
    score = keys.now_ms() - 5000
    write_queue(fields={"B" * 32: "body"}, ids={ID: score, "B" * 32: score + 1})
    assert rsmq.receive_message("q").id == "B" * 32
    assert keys.scores("q")[ID.encode()] == score


def test_missing_first_received(rsmq, node, write_queue, keys):
    received = {"fields": {ID: "body", f"{ID}:rc": "1"}, "ids": {ID: 1}}
    write_queue(**received)
    assert node.receive_message("q")["fr"] == 0

    write_queue(**received)
    message = rsmq.receive_message("q")
    assert message.receive_count == 2
    assert keys.fields("q")[f"{ID}:fr".encode()] == b"%d" % message.first_received_ms


def test_half_made_queues(rsmq, node, write_queue, keys):
    write_queue(delay=None, maxsize=None)
    assert node.get_queue_attributes("q")["delay"] is None  # NaN
    assert error_name(node.send_message, "q", "m") == "queueNotFound"
    assert error_name(node.create_queue, "q", delay=4) == "queueExists"
    assert keys.fields("q")[b"delay"] == b"4"  # the queue was completed nevertheless

    write_queue(delay=None, maxsize=None)
    with refused(QueueNotFound, "Queue not found"):
        rsmq.get_queue_attributes("q")
    assert rsmq.create_queue("q", vt=9, delay=4) is True
    assert keys.fields("q")[b"vt"] == b"30"
    assert keys.fields("q")[b"delay"] == b"4"
    assert node.send_message("q", "m")


def test_unlisted_queues(rsmq, node, write_queue):
    write_queue(listed=False)
    assert error_name(node.create_queue, "q") == "queueExists"
    assert node.list_queues() == []

    assert rsmq.create_queue("q", exist_ok=True) is False
    assert rsmq.list_queues() == node.list_queues() == ["q"]


def test_foreign_attributes(rsmq, node, write_queue, keys):
    write_queue(vt="0.5", fields={ID: "body"}, ids={ID: 1})
    assert node.get_queue_attributes("q")["vt"] == 0
    assert rsmq.get_queue_attributes("q").vt == 0.5
    message = rsmq.receive_message("q")
    assert keys.scores("q")[ID.encode()] == message.first_received_ms + 500

    write_queue(vt="10000000", fields={ID: "body"}, ids={ID: 1})
    assert error_name(node.receive_message, "q") == "invalidValue"
    message = rsmq.receive_message("q")
    assert keys.scores("q")[ID.encode()] == message.first_received_ms + 9_999_999_000

    write_queue(vt="")
    assert node.get_queue_attributes("q")["vt"] is None  # NaN
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        rsmq.get_queue_attributes("q")

    write_queue(maxsize="0")
    assert error_name(node.send_message, "q", "m") == "messageTooLong"
    assert rsmq.send_message("q", "m")


def test_foreign_times(rsmq, node, write_queue):
    write_queue(modified="1700000000123", created="2026-01-02T03:04:05Z")
    attributes = node.get_queue_attributes("q")
    assert (attributes["created"], attributes["modified"]) == (2026, 1700000000123)

    attributes = rsmq.get_queue_attributes("q")
    assert attributes.created is None
    assert attributes.modified.timestamp() == 1700000000.123


def test_bodies_that_are_no_text(rsmq, node, write_queue, keys):
    due = {"fields": {ID: b"\xff\xfe\0abc\xc3"}, "ids": {ID: 1}}
    write_queue(**due)
    assert node.receive_message("q")["message"] == "\ufffd\ufffd\0abc\ufffd"

    write_queue(**due)
    message = rsmq.receive_message("q")
    assert message.raw == b"\xff\xfe\0abc\xc3"
    with pytest.raises(BodyNotDecodable):
        _ = message.body
    assert rsmq.get_message("q", ID, codec=BYTES).body == message.raw

    write_queue()
    id = node.send_message("q", "a\ud800b")
    assert keys.fields("q")[id.encode()] == "a\ufffdb".encode()
    with refused(MessageNotString, "Message must be a string"):
        rsmq.send_message("q", "a\ud800b")


def test_wrong_types(rsmq, node, write_queue, keys):
    write_queue()
    keys.raw.set(f"{keys.ns}:q", "no sorted set")
    lost_id = node.send_message("q", "lost")
    assert lost_id.encode() in keys.fields("q")

    assert isinstance(node.get_queue_attributes("q")["msgs"], dict)  # the error, as an object
    assert node.delete_message("q", ID) is False

    before = keys.fields("q")
    for call in (
        lambda: rsmq.send_message("q", "not lost"),
        lambda: rsmq.get_queue_attributes("q"),
        lambda: rsmq.delete_message("q", ID),
        lambda: rsmq.receive_message("q"),
    ):
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            call()
    assert keys.fields("q") == before

    keys.raw.set(f"{keys.ns}:s:Q", "no hash")
    assert node.create_queue("s") is True
    assert keys.names() == {"q", "s"}
    keys.raw.srem(f"{keys.ns}:QUEUES", "s")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        rsmq.create_queue("s")
    assert keys.names() == {"q"}


def test_odd_counters(rsmq, node, write_queue, keys):
    write_queue(totalsent="many", totalrecv="1.5")
    node.send_message("q", "not counted")
    assert len(keys.scores("q")) == 1
    assert keys.fields("q")[b"totalsent"] == b"many"
    rsmq.send_message("q", "counted")
    assert keys.fields("q")[b"totalsent"] == b"1"

    write_queue(fields={ID: "body", f"{ID}:rc": "1.5"}, ids={ID: 1})
    now_ms = keys.raw.time()[0] * 1000
    assert error_name(node.receive_message, "q", vt=100) == "ReplyError"
    assert keys.scores("q")[ID.encode()] > now_ms
    keys.raw.zadd(f"{keys.ns}:q", {ID: 1})
    message = rsmq.receive_message("q")
    assert (message.id, message.receive_count) == (ID, 2)
    assert keys.fields("q")[f"{ID}:rc".encode()] == b"2"


def test_lost_scripts(rsmq, node, write_queue, keys):
    write_queue(fields={ID: "body"}, ids={ID: 1})
    node.receive_message("q", vt=0)
    rsmq.receive_message("q", vt=0)
    keys.raw.script_flush()
    assert error_name(node.receive_message, "q", vt=0) == "ReplyError"
    node.close_clients(node.ns)  # a new connection loads the scripts again

    assert rsmq.receive_message("q").receive_count == 3


def test_hidden_messages(rsmq, node, write_queue, keys):
    """For Node a message that became due within the current second is still hidden."""
    while keys.now_ms() % 1000 > 500:
        pass
    due = keys.now_ms() // 1000 * 1000
    write_queue(fields={ID: "body"}, ids={ID: due})
    assert node.get_queue_attributes("q")["hiddenmsgs"] == 1
    assert rsmq.get_queue_attributes("q").hidden_messages == 0


def test_deletes_of_what_is_left_over(rsmq, node, write_queue, keys):
    write_queue(ids={ID: 1})  # an id without a body
    assert node.delete_message("q", ID) is False
    assert keys.scores("q") == {}
    write_queue(ids={ID: 1})
    assert rsmq.delete_message("q", ID) is True
    assert keys.scores("q") == {}

    write_queue(fields={ID: "body"})  # a body without an id
    assert node.delete_message("q", ID) is False
    assert ID.encode() not in keys.fields("q")
    write_queue(fields={ID: "body"})
    assert rsmq.delete_message("q", ID) is False
    assert ID.encode() in keys.fields("q")

    apalis = ID.lower()  # apalis-rsmq's ids have no capitals, and its messages one more field
    write_queue(fields={apalis: "body", f"{apalis}:meta": "{}"}, ids={apalis: 1})
    assert node.delete_message("q", apalis) is True
    assert f"{apalis}:meta".encode() in keys.fields("q")
    write_queue(fields={apalis: "body", f"{apalis}:meta": "{}"}, ids={apalis: 1})
    assert rsmq.delete_message("q", apalis) is True
    assert f"{apalis}:meta".encode() not in keys.fields("q")
