"""
Every foreign client and this library on one queue, in both orders.

Each client sees what the other does, and the raw keys agree with PROTOCOL.md, whichever client
wrote them. ``a`` does the first step, ``b`` the next.
"""

from __future__ import annotations

import random
import re

import pytest

from compat.peers import PEERS, OldNode, Php, PyRSMQ, Refused

TEXTS = [
    "hello world",
    "h\u00e9llo w\u00f6rld \u2014 \u00f1",
    "\u65e5\u672c\u8a9e \u05e2\u05d1\u05e8\u05d9\u05ea \u0e44\u0e17\u0e22",
    "\U0001f600\U0001f680 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\0nul\0",
    "line\r\nline\u2028separator\ufeff",
    '{"a":1,"b":[true,null]}',
    "30",
    " ",
    "x" * 65536,
    "\U0001f600" * 32768,  # two UTF-16 units each: as large as the previous one
]


def random_text(seed, length=200):
    """Return code points of all planes except surrogates, which are not characters."""
    source = random.Random(seed)
    points = (source.randrange(0x110000) for _ in range(length))
    return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)


def attributes(client, qname):
    result = client.get_queue_attributes(qname)
    return {name: result[name] for name in ("vt", "delay", "maxsize", "totalsent", "totalrecv")}


@pytest.mark.proves("createQueue", "getQueueAttributes", "listQueues")
def test_created_queue_exists_for_the_other_client(pair, keys):
    a, b = pair
    before = keys.now_ms() // 1000

    assert a.create_queue("q", vt=5, delay=2, maxsize=2048)

    stored = keys.fields("q")
    created = int(stored[b"created"])
    assert before <= created <= keys.now_ms() // 1000
    assert stored == {
        b"vt": b"5", b"delay": b"2", b"maxsize": b"2048",
        b"created": b"%d" % created, b"modified": b"%d" % created,
    }  # fmt: skip
    assert keys.names() == {"q"}
    assert b.list_queues() == a.list_queues() == ["q"]
    result = {"vt": 5, "delay": 2, "maxsize": 2048, "totalsent": 0, "totalrecv": 0}
    assert attributes(b, "q") == attributes(a, "q") == result
    assert b.get_queue_attributes("q")["created"] == created
    with pytest.raises(Refused) as refused:
        b.create_queue("q")
    assert refused.value.name == "queueExists"
    assert keys.fields("q") == stored


@pytest.mark.proves("createQueue")
def test_defaults_are_equal(pair, keys):
    a, b = pair
    a.create_queue("a")
    b.create_queue("b")
    attributes_of_a, attributes_of_b = keys.fields("a"), keys.fields("b")

    for name in (b"vt", b"delay"):
        assert attributes_of_a[name] == attributes_of_b[name]
    if any(type(client) is PyRSMQ for client in pair):
        assert sorted((attributes_of_a[b"maxsize"], attributes_of_b[b"maxsize"])) == [
            b"65536",
            b"65565",
        ]
    else:
        assert attributes_of_a[b"maxsize"] == attributes_of_b[b"maxsize"] == b"65536"


@pytest.mark.proves("sendMessage", "receiveMessage", "deleteMessage")
def test_sent_message_is_received_by_the_other_client(pair, keys):
    a, b = pair
    a.create_queue("q", maxsize=65536)
    empty = [""] if a.sends_empty_bodies else []
    for text in [*TEXTS, *empty, *(random_text(seed) for seed in range(5))]:
        before_ms = keys.now_ms()
        id = a.send_message("q", text)
        after = keys.now_ms()

        assert re.fullmatch("[0-9a-z]{10}[A-Za-z0-9]{22}", id)
        sent = int(id[:10], 36) // 1000
        assert before_ms <= sent <= after
        assert keys.scores("q") == {id.encode(): sent}
        assert keys.fields("q")[id.encode()] == text.encode()

        before_ms = keys.now_ms()
        message = b.receive_message("q", vt=60)
        after = keys.now_ms()

        assert (message["id"], message["message"], message["rc"]) == (id, text, 1)
        assert before_ms <= message["fr"] <= after
        if "sent" in message:
            decimals = 0 if isinstance(b, OldNode) else 3
            exact = int(id[:10], 36) / 1000
            assert message["sent"] == (exact if decimals else exact // 1)
        assert keys.scores("q") == {id.encode(): message["fr"] + 60_000}
        stored = keys.fields("q")
        assert stored[id.encode() + b":rc"] == b"1"
        assert stored[id.encode() + b":fr"] == b"%d" % message["fr"]

        assert b.delete_message("q", id) is True
        assert not any(name.startswith(id.encode()) for name in keys.fields("q"))
        assert keys.scores("q") == {}
        assert a.delete_message("q", id) is (type(a) is PyRSMQ)  # it reports only absence
    assert b.receive_message("q") is None


@pytest.mark.proves("sendMessage", "receiveMessage")
def test_messages_are_received_in_their_order(pair):
    a, b = pair
    a.create_queue("q")
    ids = [(a, b)[n % 2].send_message("q", str(n)) for n in range(20)]

    assert [(b, a)[n % 2].receive_message("q")["id"] for n in range(20)] == ids


@pytest.mark.proves("sendMessage", "receiveMessage", "popMessage")
def test_delay_applies_to_the_other_client(pair, keys):
    a, b = pair
    a.create_queue("q", delay=30)
    by_queue = a.send_message("q", "by the queue")
    by_call = a.send_message("q", "by the call", delay=3600)
    without_delay = a.send_message("q", "at once", delay=0)
    scores = keys.scores("q")

    for id, delay in ((by_queue, 30), (by_call, 3600), (without_delay, 0)):
        assert scores[id.encode()] == int(id[:10], 36) // 1000 + delay * 1000
    assert b.pop_message("q")["id"] == without_delay
    assert b.receive_message("q") is None
    assert b.pop_message("q") is None
    keys.advance_time("q", 30)
    assert b.receive_message("q")["id"] == by_queue
    keys.advance_time("q", 3600)
    assert b.pop_message("q")["id"] == by_queue  # the 30 s of its receive ended first
    assert b.pop_message("q")["id"] == by_call


@pytest.mark.proves("receiveMessage", "popMessage", "getQueueAttributes")
def test_message_is_received_again_with_its_counters(pair, keys):
    a, b = pair
    a.create_queue("q", vt=30)
    id = a.send_message("q", "again")
    first = a.receive_message("q")

    assert first["rc"] == 1
    assert b.receive_message("q") is None
    keys.advance_time("q", 30)
    second = b.receive_message("q", vt=10)
    assert (second["id"], second["rc"], second["fr"]) == (id, 2, first["fr"])
    keys.advance_time("q", 10)
    third = a.receive_message("q", vt=10)
    assert (third["id"], third["rc"], third["fr"]) == (id, 3, first["fr"])
    assert keys.fields("q")[b"totalrecv"] == b"3"
    keys.advance_time("q", 10)
    last = b.pop_message("q")
    assert (last["id"], last["rc"], last["fr"]) == (id, 4, first["fr"])
    assert sorted(keys.fields("q")) == [
        b"created", b"delay", b"maxsize", b"modified", b"totalrecv", b"totalsent", b"vt",
    ]  # fmt: skip
    for client in (a, b):
        assert attributes(client, "q")["totalsent"] == 1
        assert attributes(client, "q")["totalrecv"] == 4


@pytest.mark.proves("popMessage")
def test_pop_removes_all_fields_of_the_message(pair, keys):
    a, b = pair
    a.create_queue("q")
    id = a.send_message("q", "\0 once")
    before = keys.now_ms()
    message = b.pop_message("q")

    assert (message["id"], message["message"], message["rc"]) == (id, "\0 once", 1)
    assert before <= message["fr"] <= keys.now_ms()
    assert keys.scores("q") == {}
    assert not any(name.startswith(id.encode()) for name in keys.fields("q"))
    assert a.pop_message("q") is None
    assert keys.fields("q")[b"totalrecv"] == b"1"


@pytest.mark.proves("changeMessageVisibility")
def test_changed_visibility_applies_to_the_other_client(pair, keys):
    a, b = pair
    a.create_queue("q")
    id = a.send_message("q", "held")
    in_flight = a.receive_message("q")
    counters = keys.fields("q")

    before = keys.now_ms()
    assert b.change_message_visibility("q", id, 300) is True
    assert before + 300_000 <= keys.scores("q")[id.encode()] <= keys.now_ms() + 300_000
    assert a.receive_message("q") is None
    assert b.change_message_visibility("q", id, 0) is True
    assert keys.fields("q") == counters
    received_again = a.receive_message("q")
    assert (received_again["id"], received_again["rc"], received_again["fr"]) == (
        id,
        2,
        in_flight["fr"],
    )
    unknown = "0" * 32
    assert b.change_message_visibility("q", unknown, 5) is False
    assert list(keys.scores("q")) == [id.encode()]


@pytest.mark.proves("deleteMessage")
def test_other_client_can_delete_a_message_received_or_not(pair, keys):
    a, b = pair
    a.create_queue("q")
    received_first = a.send_message("q", "kept")
    fresh = a.send_message("q", "never received")
    a.change_message_visibility("q", fresh, 500)
    received = a.receive_message("q")["id"]

    assert received == received_first
    assert b.delete_message("q", fresh) is True
    assert b.delete_message("q", received) is True
    assert keys.scores("q") == {}
    assert sorted(keys.fields("q")) == [
        b"created", b"delay", b"maxsize", b"modified", b"totalrecv", b"totalsent", b"vt",
    ]  # fmt: skip


@pytest.mark.proves("setQueueAttributes", "getQueueAttributes")
def test_changed_attributes_apply_to_the_other_client(pair, keys):
    a, b = pair
    b.create_queue("q")
    keys.raw.hset(f"{keys.ns}:q:Q", mapping={"created": 1700000000, "modified": 1700000000})

    changed = a.set_queue_attributes("q", vt=7, delay=0, maxsize=1024)

    stored = keys.fields("q")
    assert (stored[b"vt"], stored[b"delay"], stored[b"maxsize"]) == (b"7", b"0", b"1024")
    assert stored[b"created"] == b"1700000000"
    if type(a) is OldNode:
        assert stored[b"modified"] == b"1700000000"
    else:
        assert abs(int(stored[b"modified"]) - keys.now_ms() // 1000) <= 1
    for result in (changed, b.get_queue_attributes("q")):
        assert (result["vt"], result["delay"], result["maxsize"]) == (7, 0, 1024)
        assert (result["msgs"], result["hiddenmsgs"]) == (0, 0)
    b.send_message("q", "y" * 1024)
    if not isinstance(b, PyRSMQ):
        with pytest.raises(Refused) as refused:
            b.send_message("q", "y" * 1025)
        assert refused.value.name == "messageTooLong"
    message = b.receive_message("q")
    assert keys.scores("q")[message["id"].encode()] == message["fr"] + 7000


@pytest.mark.proves("getQueueAttributes")
def test_counts_are_equal(pair, keys):
    a, b = pair
    a.create_queue("q")
    for number in range(5):
        a.send_message("q", str(number))
    keys.advance_time("q", 2)  # Node counts messages due within this second as hidden
    a.receive_message("q", vt=60)
    b.receive_message("q", vt=60)
    b.send_message("q", "later", delay=60)

    for client in (a, b):
        result = client.get_queue_attributes("q")
        assert (result["msgs"], result["totalsent"], result["totalrecv"]) == (6, 6, 2)
        assert result["hiddenmsgs"] == (0 if type(client) is Php else 3)


@pytest.mark.proves("deleteQueue")
def test_queue_deleted_by_the_other_client_leaves_no_key(pair, keys):
    a, b = pair
    a.create_queue("q")
    a.create_queue("other")
    for number in range(3):
        a.send_message("q", str(number))
    a.receive_message("q")
    b.delete_queue("q")

    assert keys.list_keys() == [f"{keys.ns}:QUEUES".encode(), f"{keys.ns}:other:Q".encode()]
    assert keys.names() == {"other"}
    for client in (a, b):
        with pytest.raises(Refused) as refused:
            client.receive_message("q")
        assert refused.value.name == "queueNotFound"
        with pytest.raises(Refused) as refused:
            client.delete_queue("q")
        assert refused.value.name == "queueNotFound"
        assert client.list_queues() == ["other"]
    b.delete_queue("other")
    assert keys.list_keys() == []


@pytest.mark.proves("sendMessage", "receiveMessage", "popMessage", "changeMessageVisibility")
def test_missing_queue_is_the_same_error_for_both(pair, keys):
    for client in pair:
        for call in (
            lambda client: client.send_message("nosuch", "m"),
            lambda client: client.receive_message("nosuch"),
            lambda client: client.pop_message("nosuch"),
            lambda client: client.change_message_visibility("nosuch", "0" * 32, 1),
            lambda client: client.get_queue_attributes("nosuch"),
            lambda client: client.delete_queue("nosuch"),
        ):
            with pytest.raises(Refused) as refused:
                call(client)
            assert refused.value.name == "queueNotFound"
    assert keys.list_keys() == []


@pytest.mark.parametrize(
    "peer", [kind for kind in PEERS if "realtime" not in kind.missing_operations], indirect=True
)
@pytest.mark.proves("realtime")
def test_notification_is_received_by_the_other_client(pair, keys):
    a, b = pair
    a.create_queue("q")
    a.send_message("q", "before")
    b.receive_message("q")
    # Only php-rsmq has a dollar sign in its channel.
    channel = f"{keys.ns}:rt:{'$' if isinstance(a, Php) else ''}q"

    with b.listening(channel) as received:
        if isinstance(a, Php) and a.is_original:
            with pytest.raises(Refused):  # the message is stored nevertheless
                a.send_message("q", "loud", realtime=True)
            a.send_message("q", "still silent")
        else:
            a.send_message("q", "loud", realtime=True)
            a.send_message("q", "silent")

    # All messages are counted, also hidden ones and this one.
    assert received == ([] if isinstance(a, Php) and a.is_original else [(channel, "2")])
    assert len(keys.scores("q")) == 3
