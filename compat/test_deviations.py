"""
PROTOCOL.md's accepted deviations, one test each, under the name that the table gives it.

Each shows what Node 0.12.4 does and what this library does instead, on the same keys.
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
def rsmq(ours):
    return ours.client()


@pytest.fixture
def stored(keys):
    """Writes a queue as some client may have left it: attributes, ids and fields."""

    def write(*, fields=(), ids=(), listed=True, **attributes):
        keys.raw.delete(*(keys.all() or ["none"]))
        hash = {**PLAIN, **dict(fields), **attributes}
        hash = {name: value for name, value in hash.items() if value is not None}
        keys.raw.hset(f"{keys.ns}:q:Q", mapping=hash)
        if ids:
            keys.raw.zadd(f"{keys.ns}:q", dict(ids))
        if listed:
            keys.raw.sadd(f"{keys.ns}:QUEUES", "q")

    return write


def code(call, *args, **options):
    """Node's name of the error that the call ends in."""
    with pytest.raises(Refused) as caught:
        call(*args, **options)
    return caught.value.name


def test_reserved_name(rsmq, node, keys):
    node.create_queue("QUEUES")
    lost = node.send_message("QUEUES", "lost")

    assert keys.raw.type(f"{keys.ns}:QUEUES") == b"set"
    assert lost.encode() in keys.fields("QUEUES")
    with refused(InvalidFormat, "Invalid qname format"):
        rsmq.create_queue("QUEUES")
    with refused(InvalidFormat, "Invalid qname format"):
        rsmq.send_message("QUEUES", "not lost")


def test_numbers(rsmq, node, keys):
    for given, cut in (("1.9", b"1"), (0.5, b"0"), ("5abc", b"5"), (1e300, b"1")):
        node.create_queue("q", vt=given)
        assert keys.fields("q")[b"vt"] == cut
        node.delete_queue("q")
        with refused(InvalidValue, "vt must be between 0 and 9999999"):
            rsmq.create_queue("q", vt=given)
        assert keys.all() == []

    # In a call, fractions count here, and Node cuts them.
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "m").encode()
    assert keys.scores("q")[id] + 1500 == _held(keys, rsmq.receive_message("q", vt=1.5))
    rsmq.change_message_visibility("q", id.decode(), 0)
    message = node.receive_message("q", vt=1.5)
    assert 0 <= keys.scores("q")[id] - 1000 - message["fr"] < 5000


def _held(keys, message):
    """The score of a message, less what passed between its send and its receive."""
    passed = message.first_received_ms - int(message.sent_ms)
    return keys.scores("q")[message.id.encode()] - passed


def test_no_stringified_names(rsmq, node, keys):
    assert node.create_queue(7)
    assert node.create_queue(["a"])
    assert code(node.create_queue, 0) == "missingParameter"
    assert keys.names() == {"7", "a"}
    for name in (7, ["a"], 0):
        with refused(InvalidFormat, "Invalid qname format"):
            rsmq.create_queue(name)


def test_own_checks_first(rsmq, node, keys):
    assert code(node.receive_message, "nosuch", vt=-1) == "queueNotFound"
    assert code(node.send_message, "nosuch", "m", delay=-1) == "queueNotFound"
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        rsmq.receive_message("nosuch", vt=-1)
    with refused(InvalidValue, "delay must be between 0 and 9999999"):
        rsmq.send_message("nosuch", "m", delay=-1)
    # Alone, each is what Node says.
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
def test_foreign_ids(rsmq, node, stored, id, sent_ms):
    due = {"fields": {id: "body"}, "ids": {id: 1}}
    stored(**due)
    assert node.receive_message("q", vt=0)["id"] == id
    assert code(node.delete_message, "q", id) == "invalidFormat"
    assert code(node.change_message_visibility, "q", id, 1) == "invalidFormat"

    stored(**due)
    message = rsmq.receive_message("q", vt=0)
    assert (message.id, message.sent_ms) == (id, sent_ms)
    assert rsmq.change_message_visibility("q", id, 0) is True
    assert rsmq.delete_message("q", id) is True


def test_ghosts(rsmq, node, stored, keys):
    stored(ids={ID: 1})
    assert node.receive_message("q", vt=0)["message"] is None
    assert keys.fields("q")[b"totalrecv"] == b"1"

    stored(ids={ID: 1})
    assert rsmq.receive_message("q") is None
    assert keys.scores("q") == {}
    assert b"totalrecv" not in keys.fields("q")

    # Perhaps a send in progress: stepped over, and left for its second half to come.
    score = keys.now_ms() - 5000
    stored(fields={"B" * 32: "body"}, ids={ID: score, "B" * 32: score + 1})
    assert rsmq.receive_message("q").id == "B" * 32
    assert keys.scores("q")[ID.encode()] == score


def test_missing_first_received(rsmq, node, stored, keys):
    received = {"fields": {ID: "body", f"{ID}:rc": "1"}, "ids": {ID: 1}}
    stored(**received)
    assert node.receive_message("q")["fr"] == 0

    stored(**received)
    message = rsmq.receive_message("q")
    assert message.receive_count == 2
    assert keys.fields("q")[f"{ID}:fr".encode()] == b"%d" % message.first_received_ms


def test_half_made_queues(rsmq, node, stored, keys):
    stored(delay=None, maxsize=None)
    assert node.get_queue_attributes("q")["delay"] is None  # NaN
    assert code(node.send_message, "q", "m") == "queueNotFound"
    assert code(node.create_queue, "q", delay=4) == "queueExists"
    assert keys.fields("q")[b"delay"] == b"4"  # it has completed it all the same

    stored(delay=None, maxsize=None)
    with refused(QueueNotFound, "Queue not found"):
        rsmq.get_queue_attributes("q")
    assert rsmq.create_queue("q", vt=9, delay=4) is True
    assert keys.fields("q")[b"vt"] == b"30"
    assert keys.fields("q")[b"delay"] == b"4"
    assert node.send_message("q", "m")


def test_unlisted_queues(rsmq, node, stored):
    stored(listed=False)
    assert code(node.create_queue, "q") == "queueExists"
    assert node.list_queues() == []

    assert rsmq.create_queue("q", exist_ok=True) is False
    assert rsmq.list_queues() == node.list_queues() == ["q"]


def test_foreign_attributes(rsmq, node, stored, keys):
    stored(vt="0.5", fields={ID: "body"}, ids={ID: 1})
    assert node.get_queue_attributes("q")["vt"] == 0
    assert rsmq.get_queue_attributes("q").vt == 0.5
    message = rsmq.receive_message("q")
    assert keys.scores("q")[ID.encode()] == message.first_received_ms + 500

    stored(vt="10000000", fields={ID: "body"}, ids={ID: 1})
    assert code(node.receive_message, "q") == "invalidValue"
    message = rsmq.receive_message("q")
    assert keys.scores("q")[ID.encode()] == message.first_received_ms + 9_999_999_000

    stored(vt="")
    assert node.get_queue_attributes("q")["vt"] is None  # NaN
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        rsmq.get_queue_attributes("q")

    stored(maxsize="0")
    assert code(node.send_message, "q", "m") == "messageTooLong"
    assert rsmq.send_message("q", "m")


def test_foreign_times(rsmq, node, stored):
    stored(modified="1700000000123", created="2026-01-02T03:04:05Z")
    read = node.get_queue_attributes("q")
    assert (read["created"], read["modified"]) == (2026, 1700000000123)

    read = rsmq.get_queue_attributes("q")
    assert read.created is None
    assert read.modified.timestamp() == 1700000000.123


def test_bodies_that_are_no_text(rsmq, node, stored, keys):
    due = {"fields": {ID: b"\xff\xfe\0abc\xc3"}, "ids": {ID: 1}}
    stored(**due)
    assert node.receive_message("q")["message"] == "\ufffd\ufffd\0abc\ufffd"

    stored(**due)
    message = rsmq.receive_message("q")
    assert message.raw == b"\xff\xfe\0abc\xc3"
    with pytest.raises(BodyNotDecodable):
        _ = message.body
    assert rsmq.get_message("q", ID, codec=BYTES).body == message.raw

    stored()
    id = node.send_message("q", "a\ud800b")
    assert keys.fields("q")[id.encode()] == "a\ufffdb".encode()
    with refused(MessageNotString, "Message must be a string"):
        rsmq.send_message("q", "a\ud800b")


def test_wrong_types(rsmq, node, stored, keys):
    stored()
    keys.raw.set(f"{keys.ns}:q", "no sorted set")
    lost = node.send_message("q", "lost")
    assert lost.encode() in keys.fields("q")

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


def test_odd_counters(rsmq, node, stored, keys):
    stored(totalsent="many", totalrecv="1.5")
    node.send_message("q", "not counted")
    assert len(keys.scores("q")) == 1
    assert keys.fields("q")[b"totalsent"] == b"many"
    rsmq.send_message("q", "counted")
    assert keys.fields("q")[b"totalsent"] == b"1"

    stored(fields={ID: "body", f"{ID}:rc": "1.5"}, ids={ID: 1})
    now_ms = keys.raw.time()[0] * 1000
    assert code(node.receive_message, "q", vt=100) == "ReplyError"
    assert keys.scores("q")[ID.encode()] > now_ms
    keys.raw.zadd(f"{keys.ns}:q", {ID: 1})
    message = rsmq.receive_message("q")
    assert (message.id, message.receive_count) == (ID, 2)
    assert keys.fields("q")[f"{ID}:rc".encode()] == b"2"


def test_lost_scripts(rsmq, node, stored, keys):
    stored(fields={ID: "body"}, ids={ID: 1})
    node.receive_message("q", vt=0)
    rsmq.receive_message("q", vt=0)
    keys.raw.script_flush()
    assert code(node.receive_message, "q", vt=0) == "ReplyError"
    node.forget(node.ns)  # a new connection loads them again

    assert rsmq.receive_message("q").receive_count == 3


def test_hidden_messages(rsmq, node, stored, keys):
    """A message that became due within the current second is hidden for Node."""
    while keys.now_ms() % 1000 > 500:
        pass
    due = keys.now_ms() // 1000 * 1000
    stored(fields={ID: "body"}, ids={ID: due})
    assert node.get_queue_attributes("q")["hiddenmsgs"] == 1
    assert rsmq.get_queue_attributes("q").hidden_messages == 0


def test_deletes_of_what_is_left_over(rsmq, node, stored, keys):
    stored(ids={ID: 1})  # an id without a body
    assert node.delete_message("q", ID) is False
    assert keys.scores("q") == {}
    stored(ids={ID: 1})
    assert rsmq.delete_message("q", ID) is True
    assert keys.scores("q") == {}

    stored(fields={ID: "body"})  # a body without an id
    assert node.delete_message("q", ID) is False
    assert ID.encode() not in keys.fields("q")
    stored(fields={ID: "body"})
    assert rsmq.delete_message("q", ID) is False
    assert ID.encode() in keys.fields("q")

    apalis = ID.lower()  # apalis-rsmq's ids have no capitals, and its messages a field more
    stored(fields={apalis: "body", f"{apalis}:meta": "{}"}, ids={apalis: 1})
    assert node.delete_message("q", apalis) is True
    assert f"{apalis}:meta".encode() in keys.fields("q")
    stored(fields={apalis: "body", f"{apalis}:meta": "{}"}, ids={apalis: 1})
    assert rsmq.delete_message("q", apalis) is True
    assert f"{apalis}:meta".encode() not in keys.fields("q")
