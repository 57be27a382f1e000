"""Messages: send, receive, pop, delete, visibility. The tests also check the raw keys."""

from __future__ import annotations

import re
import string

import pytest

from rsmq import (
    BYTES,
    JSON,
    MSGPACK,
    BodyNotDecodable,
    InvalidFormat,
    InvalidValue,
    MessageNotString,
    MessageTooLong,
    MissingParameter,
)
from tests.expect import refused

ID = re.compile(r"[0-9a-z]{10}[A-Za-z0-9]{22}")


def test_send_writes_body_total_and_score(env, queue):
    before = env.now_ms()
    id = env.rsmq.send_message(queue, "héllo")
    after = env.now_ms()
    us = int(id[:10], 36)

    assert ID.fullmatch(id)
    assert before <= us // 1000 <= after
    assert env.scores(queue) == {id: us // 1000}
    fields = env.fields(queue)
    assert fields.keys() == {"vt", "delay", "maxsize", "created", "modified", "totalsent", id}
    assert (fields[id], fields["totalsent"]) == ("héllo", "1")


@pytest.mark.parametrize(("delay", "ms"), [(0, 0), (1, 1000), (0.0015, 2), (9_999_999, 9999999000)])
def test_send_with_a_delay_of_the_call(env, queue, delay, ms):
    id = env.rsmq.send_message(queue, "m", delay=delay)

    assert env.scores(queue) == {id: int(id[:10], 36) // 1000 + ms}


@pytest.mark.parametrize(
    ("stored", "ms"),
    [("0", 0), ("7", 7000), ("0.5", 500), ("-0.5", 0), ("99999999", 9_999_999_000)],
)
def test_send_with_the_delay_of_the_queue(env, queue, stored, ms):
    env.raw.hset(env.hash(queue), "delay", stored)
    id = env.rsmq.send_message(queue, "m")

    assert env.scores(queue) == {id: int(id[:10], 36) // 1000 + ms}


def test_send_with_an_invalid_stored_delay_is_refused(env, queue):
    env.raw.hset(env.hash(queue), "delay", "soon")
    before = env.state()

    with refused(InvalidValue, "delay must be between 0 and 9999999") as caught:
        env.rsmq.send_message(queue, "m")

    assert caught.error.value == "soon"
    assert env.state() == before
    assert env.rsmq.send_message(queue, "m", delay=0)


@pytest.mark.parametrize(
    ("body", "codec", "raw"),
    [
        ("", None, b""),
        ("a\0b", None, b"a\0b"),
        ("x" * 65536, None, b"x" * 65536),
        ("😀", None, "😀".encode()),
        (bytes(range(256)), BYTES, bytes(range(256))),
        (bytearray(b"ab"), BYTES, b"ab"),
        ({"a": [1, None, "é"]}, JSON, '{"a":[1,null,"é"]}'.encode()),
        ({"a": [1, None, b"\xff"]}, MSGPACK, b"\x81\xa1a\x93\x01\xc0\xc4\x01\xff"),
    ],
)
def test_bodies_are_stored_and_delivered_byte_for_byte(env, queue, body, codec, raw):
    id = env.rsmq.send_message(queue, body, codec=codec)

    assert env.raw.hget(env.hash(queue), id) == raw
    message = env.rsmq.receive_message(queue, codec=codec)
    assert (message.raw, message.body) == (raw, body)


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ("é" * 1024, True),
        ("é" * 1025, False),
        ("😀" * 512, True),
        ("😀" * 513, False),
        ("x" * 1024, True),
        ("x" * 1025, False),
    ],
)
def test_maxsize_counts_utf16_units_as_node_does(env, queue, body, fits):
    env.rsmq.set_queue_attributes(queue, maxsize=1024)
    before = env.state()

    if fits:
        assert env.rsmq.send_message(queue, body)
    else:
        with refused(MessageTooLong, "Message too long") as caught:
            env.rsmq.send_message(queue, body)
        assert caught.error.value in (1025, 1026)
        assert "1024" in str(caught.error)
        assert env.state() == before


def test_maxsize_counts_bytes_of_bytes(env, queue):
    env.rsmq.set_queue_attributes(queue, maxsize=1024)

    assert env.rsmq.send_message(queue, b"\xff" * 1024, codec=BYTES)
    with refused(MessageTooLong, "Message too long"):
        env.rsmq.send_message(queue, b"\xff" * 1025, codec=BYTES)


@pytest.mark.parametrize(
    ("stored", "size", "fits"),
    [
        ("-1", 200_000, True),
        ("65565", 65565, True),
        ("65565", 65566, False),
        ("1048576", 1_048_576, True),
        ("1024.7", 1024, True),
        ("1024.7", 1025, False),
        ("0.5", 65536, True),
        ("0", 65536, True),
        ("0", 65537, False),
        ("big", 65537, False),
    ],
)
def test_maxsize_that_other_clients_stored(env, queue, stored, size, fits):
    env.raw.hset(env.hash(queue), "maxsize", stored)

    if fits:
        assert env.rsmq.send_message(queue, "x" * size)
    else:
        with refused(MessageTooLong, "Message too long"):
            env.rsmq.send_message(queue, "x" * size)


@pytest.mark.refused
@pytest.mark.parametrize(
    ("body", "codec"),
    [
        (123, None),
        (None, None),
        (True, None),
        ({"a": 1}, None),
        (["x"], None),
        (b"bytes", None),
        ("\ud800", None),
        ("text", BYTES),
        (float("nan"), JSON),
        (object(), JSON),
        (object(), MSGPACK),
        (2**70, MSGPACK),
    ],
)
def test_a_body_that_the_codec_cannot_encode_is_refused(env, queue, body, codec):
    before = env.state()

    with refused(MessageNotString, "Message must be a string") as caught:
        env.rsmq.send_message(queue, body, codec=codec)

    assert type(body).__name__ in str(caught.error)
    assert env.state() == before


@pytest.mark.refused
@pytest.mark.parametrize(
    "value", [-1, -0.001, 10_000_000, "5", True, float("nan"), float("inf"), []]
)
def test_a_number_of_a_call_out_of_range_is_refused(env, queue, value):
    env.rsmq.send_message(queue, "m")
    before = env.state()

    with refused(InvalidValue, "delay must be between 0 and 9999999") as caught:
        env.rsmq.send_message(queue, "m", delay=value)
    assert repr(value) in str(caught.error)
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        env.rsmq.receive_message(queue, vt=value)
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        env.rsmq.change_message_visibility(queue, "x" * 32, value)
    assert env.state() == before


@pytest.mark.refused
@pytest.mark.parametrize("value", [-1, 10_000_000, 0.5, "5", True, None, float("nan"), []])
@pytest.mark.parametrize("item", ["vt", "delay"])
def test_an_attribute_out_of_range_is_refused(env, item, value):
    with refused(InvalidValue, f"{item} must be between 0 and 9999999") as caught:
        env.rsmq.create_queue("q", **{item: value})

    assert repr(value) in str(caught.error)
    assert env.state() == {}


@pytest.mark.refused
@pytest.mark.parametrize("value", [1023, 65537, 0, -2, 1024.5, "2048", True, None, 10**400])
def test_a_maxsize_out_of_range_is_refused(env, value):
    with refused(InvalidValue, "maxsize must be between 1024 and 65536"):
        env.rsmq.create_queue("q", maxsize=value)

    assert env.state() == {}


def test_realtime_publishes_the_number_of_messages(env, queue):
    listener = env.raw.pubsub()
    listener.subscribe(f"{env.ns}:rt:{queue}")
    assert listener.get_message(timeout=5)["type"] == "subscribe"
    loud = env.client(realtime=True)

    env.rsmq.send_message(queue, "silent")
    loud.send_message(queue, "heard")
    loud.send_message(queue, "later", delay=60)

    assert [listener.get_message(timeout=5)["data"] for _ in range(2)] == [b"2", b"3"]
    assert listener.get_message(timeout=0.01) is None
    listener.close()


def test_receive_counts_hides_and_returns_the_message(env, queue):
    id = env.rsmq.send_message(queue, "m")
    before = env.now_ms()
    message = env.rsmq.receive_message(queue)
    after = env.now_ms()
    fields = env.fields(queue)

    assert (message.queue, message.id, message.body, message.raw) == (queue, id, "m", b"m")
    assert message.receive_count == 1
    assert before <= message.first_received_ms <= after
    assert message.sent_ms == int(id[:10], 36) / 1000
    assert env.scores(queue) == {id: message.first_received_ms + 30_000}
    assert (fields[f"{id}:rc"], fields["totalrecv"]) == ("1", "1")
    assert fields[f"{id}:fr"] == str(message.first_received_ms)
    assert env.rsmq.receive_message(queue) is None


def test_receive_again_after_the_visibility_timeout(env, queue):
    id = env.rsmq.send_message(queue, "m")
    first = env.rsmq.receive_message(queue, vt=1000)
    env.elapse(queue, 900)
    hidden = env.rsmq.receive_message(queue)
    env.elapse(queue, 100)
    second = env.rsmq.receive_message(queue)

    assert hidden is None
    assert (second.id, second.receive_count) == (id, 2)
    assert second.first_received_ms == first.first_received_ms
    fields = env.fields(queue)
    assert (fields[f"{id}:rc"], fields["totalrecv"]) == ("2", "2")
    assert fields[f"{id}:fr"] == str(first.first_received_ms)


@pytest.mark.parametrize(
    ("stored", "ms"), [("0", 0), ("0.5", 500), ("-0.5", 0), ("30000000", 9_999_999_000)]
)
def test_receive_with_the_vt_of_the_queue(env, queue, stored, ms):
    env.raw.hset(env.hash(queue), "vt", stored)
    id = env.rsmq.send_message(queue, "m")
    message = env.rsmq.receive_message(queue)

    assert env.scores(queue) == {id: message.first_received_ms + ms}


@pytest.mark.parametrize(("vt", "ms"), [(0, 0), (0.25, 250), (9_999_999, 9_999_999_000)])
def test_receive_with_a_vt_of_the_call(env, queue, vt, ms):
    id = env.rsmq.send_message(queue, "m")
    message = env.rsmq.receive_message(queue, vt=vt)

    assert env.scores(queue) == {id: message.first_received_ms + ms}


def test_receive_with_an_invalid_stored_vt_is_refused(env, queue):
    env.raw.hset(env.hash(queue), "vt", "")
    env.rsmq.send_message(queue, "m")
    before = env.state()

    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        env.rsmq.receive_message(queue)

    assert env.state() == before
    assert env.rsmq.receive_message(queue, vt=1).body == "m"


def test_order_is_by_time_of_visibility_then_by_id(env, queue):
    sent = [env.rsmq.send_message(queue, str(number)) for number in range(5)]
    late = env.rsmq.send_message(queue, "late", delay=5)
    env.elapse(queue, 6)
    received = [env.rsmq.receive_message(queue).id for _ in range(6)]

    assert received == [*sent, late]


def test_pop_removes_and_counts(env, queue):
    id = env.rsmq.send_message(queue, "m")
    before = env.now_ms()
    message = env.rsmq.pop_message(queue)

    assert (message.id, message.body, message.receive_count) == (id, "m", 1)
    assert before <= message.first_received_ms <= env.now_ms()
    assert env.scores(queue) == {}
    fields = env.fields(queue)
    assert fields.keys() == {
        "vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv",
    }  # fmt: skip
    assert fields["totalrecv"] == "1"
    assert env.rsmq.pop_message(queue) is None


def test_pop_of_a_message_received_before(env, queue):
    env.rsmq.send_message(queue, "m")
    received = env.rsmq.receive_message(queue, vt=0)
    popped = env.rsmq.pop_message(queue)

    assert popped.receive_count == 2
    assert popped.first_received_ms == received.first_received_ms
    assert env.scores(queue) == {}
    assert not [name for name in env.fields(queue) if name.startswith(popped.id)]


def test_delete_by_receipt(env, queue):
    env.rsmq.send_message(queue, "m")
    message = env.rsmq.receive_message(queue)

    assert env.rsmq.delete_message(message) is True
    assert env.scores(queue) == {}
    assert not [name for name in env.fields(queue) if name.startswith(message.id)]
    assert env.rsmq.delete_message(message) is False


def test_a_late_consumer_cannot_delete_a_message_of_another(env, queue):
    env.rsmq.send_message(queue, "m")
    late = env.rsmq.receive_message(queue, vt=1)
    env.elapse(queue, 2)
    holder = env.rsmq.receive_message(queue)
    before = env.state()

    assert env.rsmq.delete_message(late) is False
    assert env.rsmq.change_message_visibility(late, 0) is False
    assert env.state() == before
    assert env.rsmq.change_message_visibility(holder, 60) is True
    assert env.rsmq.delete_message(holder) is True


def test_a_receive_by_another_client_makes_a_receipt_stale(env, queue):
    id = env.rsmq.send_message(queue, "m")
    message = env.rsmq.receive_message(queue)
    env.raw.hincrby(env.hash(queue), f"{id}:rc", 1)

    assert env.rsmq.delete_message(message) is False
    assert id in env.scores(queue)


def test_a_receipt_is_valid_after_its_timeout_until_the_next_receive(env, queue):
    env.rsmq.send_message(queue, "m")
    message = env.rsmq.receive_message(queue, vt=1)
    env.elapse(queue, 5)

    assert env.rsmq.change_message_visibility(message, 10) is True
    assert env.rsmq.delete_message(message) is True


def test_delete_by_id_removes_a_message_of_any_consumer(env, queue):
    id = env.rsmq.send_message(queue, "m")
    env.rsmq.receive_message(queue)

    assert env.rsmq.delete_message(queue, id) is True
    assert env.rsmq.delete_message(queue, id=id) is False
    assert env.scores(queue) == {}


def test_delete_never_removes_an_attribute(env, queue):
    odd = "a" * 20
    env.raw.hset(env.hash(queue), odd, "an attribute of some client")

    assert env.rsmq.delete_message(queue, odd) is False
    assert env.fields(queue)[odd]


def test_delete_removes_the_fields_that_other_clients_add(env, queue):
    id = env.send_as_apalis(queue)
    env.rsmq.delete_message(queue, id)

    assert not [name for name in env.fields(queue) if name.startswith(id)]


@pytest.mark.parametrize("vt", [0, 0.5, 120, 9_999_999])
def test_change_visibility_counts_from_now(env, queue, vt):
    id = env.rsmq.send_message(queue, "m")
    message = env.rsmq.receive_message(queue)
    counters = env.fields(queue)
    for change in (
        lambda: env.rsmq.change_message_visibility(message, vt),
        lambda: env.rsmq.change_message_visibility(queue, id, vt),
        lambda: env.rsmq.change_message_visibility(queue, id, vt=vt),
        lambda: env.rsmq.change_message_visibility(queue, id=id, vt=vt),
        lambda: env.rsmq.change_message_visibility(message, vt=vt),
    ):
        before = env.now_ms()
        assert change() is True
        assert before <= env.scores(queue)[id] - vt * 1000 <= env.now_ms()

    assert env.fields(queue) == counters


def test_change_visibility_of_a_missing_message(env, queue):
    env.rsmq.send_message(queue, "m")
    message = env.rsmq.pop_message(queue)

    assert env.rsmq.change_message_visibility(message, 5) is False
    assert env.rsmq.change_message_visibility(queue, "x" * 32, 5) is False
    assert env.scores(queue) == {}


@pytest.mark.refused
@pytest.mark.parametrize(
    ("id", "kind", "text"),
    [
        (None, MissingParameter, "No id supplied"),
        ("", MissingParameter, "No id supplied"),
        ("short", InvalidFormat, "Invalid id format"),
        ("x" * 65, InvalidFormat, "Invalid id format"),
        ("x" * 31 + "\n", InvalidFormat, "Invalid id format"),
        ("x" * 31 + "é", InvalidFormat, "Invalid id format"),
        (32, InvalidFormat, "Invalid id format"),
    ],
)
def test_a_bad_id_is_refused(env, queue, id, kind, text):
    with refused(kind, text):
        env.rsmq.delete_message(queue, id)
    with refused(kind, text):
        env.rsmq.change_message_visibility(queue, id, 1)
    with refused(kind, text):
        env.rsmq.get_message(queue, id)


def test_only_a_received_message_is_a_receipt(env, queue):
    id = env.rsmq.send_message(queue, "m")
    stored = env.rsmq.get_message(queue, id)
    message = env.rsmq.receive_message(queue)
    before = env.state()

    for call in (
        lambda: env.rsmq.delete_message(stored),
        lambda: env.rsmq.change_message_visibility(stored, 1),
        lambda: env.rsmq.delete_message(message, id),
        lambda: env.rsmq.change_message_visibility(message, id, 1),
        lambda: env.rsmq.change_message_visibility(message, 500, vt=1),
        lambda: env.rsmq.delete_message(queue, message),
    ):
        with refused(InvalidFormat, "Invalid id format"):
            call()
    with refused(InvalidFormat, "Invalid qname format"):
        env.rsmq.delete_message(b"q", id)
    with refused(MissingParameter, "No qname supplied") as caught:
        env.rsmq.delete_message(None)
    assert "returns None if no message is due" in str(caught.error)
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        env.rsmq.change_message_visibility(message)
    assert env.state() == before


def test_get_message_returns_the_state_and_changes_nothing(env, queue):
    id = env.rsmq.send_message(queue, "m", delay=5)
    delayed = env.rsmq.get_message(queue, id)
    env.elapse(queue, 6)
    before = env.state()
    visible = env.rsmq.get_message(queue, id)
    assert env.state() == before
    message = env.rsmq.receive_message(queue)
    in_flight = env.rsmq.get_message(queue, id)
    env.elapse(queue, 31)
    again = env.rsmq.get_message(queue, id)

    assert [stored.state for stored in (delayed, visible, in_flight, again)] == [
        "delayed", "visible", "in_flight", "visible",
    ]  # fmt: skip
    assert (delayed.receive_count, delayed.first_received_ms) == (0, None)
    assert delayed.last_received_ms is None
    assert delayed.visible_at_ms == int(id[:10], 36) // 1000 + 5000
    assert (in_flight.receive_count, in_flight.body) == (1, "m")
    assert in_flight.first_received_ms == message.first_received_ms
    assert in_flight.last_received_ms == message.first_received_ms
    assert in_flight.visible_at_ms == message.first_received_ms + 30_000
    assert in_flight.sent_ms == message.sent_ms


def test_get_message_returns_none_for_a_missing_message(env, queue):
    ghost = "g" * 32
    env.raw.zadd(env.zset(queue), {ghost: 1})
    env.raw.hset(env.hash(queue), "o" * 32, "an orphan")

    assert env.rsmq.get_message(queue, "x" * 32) is None
    assert env.rsmq.get_message(queue, ghost) is None
    assert env.rsmq.get_message(queue, "o" * 32) is None


def test_a_young_ghost_is_skipped_and_not_removed(env, queue):
    ghost = "g" * 32
    score = env.now_ms() - 5_000
    env.raw.zadd(env.zset(queue), {ghost: score})
    env.raw.hset(env.hash(queue), f"{ghost}:rc", 3)
    id = env.rsmq.send_message(queue, "m")

    assert env.rsmq.receive_message(queue, vt=0).id == id
    assert env.rsmq.pop_message(queue).id == id
    assert env.rsmq.receive_message(queue) is None
    assert env.scores(queue) == {ghost: score}
    assert env.fields(queue)[f"{ghost}:rc"] == "3"


@pytest.mark.parametrize("take", ["receive_message", "pop_message"])
def test_an_old_ghost_is_removed_with_its_counters(env, queue, take):
    ghosts = [f"ghost{number:027}" for number in range(250)]
    env.raw.zadd(env.zset(queue), dict.fromkeys(ghosts, env.now_ms() - 10_100))
    env.raw.hset(
        env.hash(queue), mapping={f"{ghosts[0]}:rc": 3, f"{ghosts[0]}:fr": 1, "totalrecv": 5}
    )
    id = env.rsmq.send_message(queue, "m")

    assert getattr(env.rsmq, take)(queue).id == id
    assert not [name for name in env.fields(queue) if name.startswith("ghost")]
    assert env.scores(queue).keys() <= {id}
    assert env.fields(queue)["totalrecv"] == "6"


def test_a_call_removes_a_thousand_ghosts_at_most(env, queue):
    ghosts = {f"ghost{number:027}": 1 for number in range(1001)}
    env.raw.zadd(env.zset(queue), ghosts)
    id = env.rsmq.send_message(queue, "m")

    assert env.rsmq.receive_message(queue) is None
    assert len(env.scores(queue)) == 2
    assert env.rsmq.receive_message(queue).id == id


def test_a_body_that_is_not_utf8_is_delivered(env, queue):
    id = "hmzz0000000000000000000000000000"
    env.raw.hset(env.hash(queue), id, b"\xff\xfe")
    env.raw.zadd(env.zset(queue), {id: 1})
    message = env.rsmq.receive_message(queue)

    assert message.raw == b"\xff\xfe"
    with pytest.raises(BodyNotDecodable) as caught:
        _ = message.body
    assert (caught.value.queue, caught.value.id, caught.value.raw) == (queue, id, b"\xff\xfe")
    assert isinstance(caught.value.__cause__, UnicodeDecodeError)
    assert env.rsmq.delete_message(message) is True


@pytest.mark.parametrize(
    ("id", "sent_ms"),
    [
        ("loyw3v28AAAAAAAAAAAAAAAAAAAAAA", 1_700_000_000_000),
        ("s44we8AAAAAAAAAAAAAAAAAAAAAA", 1_700_000_000_000),
        ("AbCdEfGhIjKlMnOpQrStUv", None),
        ("gqll7vatq80123456789abcdef0123456789abcdef", 1_700_000_000_000),
        ("GQLL7VATQ8AAAAAAAAAAAAAAAAAAAAAA", 1_700_000_000_000),
        ("0f8fad5b-d9cb-469f-a165-70867728950e", None),
        ("0f8fad5bd9cb469fa16570867728950e", None),
        ("zzzzzzzzzzAAAAAAAAAAAAAAAAAAAAAA", None),
    ],
)
def test_ids_of_other_clients_are_delivered_and_deleted(env, queue, id, sent_ms):
    env.raw.hset(env.hash(queue), id, "m")
    env.raw.zadd(env.zset(queue), {id: 1})
    message = env.rsmq.receive_message(queue, vt=0)

    assert (message.id, message.body, message.sent_ms) == (id, "m", sent_ms)
    assert env.rsmq.get_message(queue, id).sent_ms == sent_ms
    assert env.rsmq.change_message_visibility(message, 0) is True
    assert env.rsmq.delete_message(message) is True
    assert env.scores(queue) == {}


def test_an_odd_id_of_a_received_message_is_not_checked(env, queue):
    odd = "tiny é\n"
    env.raw.hset(env.hash(queue), odd, "m")
    env.raw.zadd(env.zset(queue), {odd: 1})
    message = env.rsmq.receive_message(queue)

    assert message.id == odd
    assert env.rsmq.delete_message(message) is True


@pytest.mark.parametrize("take", ["receive_message", "pop_message"])
def test_a_receive_count_without_a_first_time_gets_one(env, queue, take):
    id = "hmzz0000000000000000000000000000"
    env.raw.hset(env.hash(queue), mapping={id: "m", f"{id}:rc": 1})
    env.raw.zadd(env.zset(queue), {id: 1})
    before = env.now_ms()
    message = getattr(env.rsmq, take)(queue)

    assert message.receive_count == 2
    assert before <= message.first_received_ms <= env.now_ms()
    if take == "receive_message":
        assert env.fields(queue)[f"{id}:fr"] == str(message.first_received_ms)


@pytest.mark.parametrize("first", ["", "soon", "9" * 19])
def test_an_invalid_first_time_is_none(env, queue, first):
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(env.hash(queue), mapping={f"{id}:rc": 1, f"{id}:fr": first})
    message = env.rsmq.receive_message(queue)

    assert message.first_received_ms == (int(first) if first.isdigit() else None)
    assert message.first_received_at is None


@pytest.mark.parametrize("total", ["many", "1.5", "", "007", "9" * 16])
def test_an_invalid_total_does_not_matter_if_nothing_is_visible(env, queue, total):
    env.rsmq.send_message(queue, "m", delay=1000)
    env.raw.hset(env.hash(queue), "totalrecv", total)
    before = env.state()

    assert env.rsmq.receive_message(queue) is None
    assert env.rsmq.pop_message(queue) is None
    assert env.state() == before


def test_counts_beyond_the_precision_of_lua_are_incremented_exactly(env, queue):
    large = 2**60 + 1
    env.raw.hset(env.hash(queue), mapping={"totalsent": large, "totalrecv": large})
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(env.hash(queue), f"{id}:rc", large)
    env.rsmq.receive_message(queue)

    fields = env.fields(queue)
    assert fields["totalsent"] == fields["totalrecv"] == fields[f"{id}:rc"] == str(large + 1)
    assert set(env.scores(queue)) == {id}


@pytest.mark.parametrize(
    "receive",
    [
        lambda rsmq, q: rsmq.receive_message(q),
        lambda rsmq, q: rsmq.pop_message(q),
        lambda rsmq, q: rsmq.receive_messages(q, 2)[0],
        lambda rsmq, q: rsmq.pop_messages(q, 2)[0],
    ],
)
def test_a_first_time_without_a_count_is_ignored(env, queue, receive):
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(env.hash(queue), f"{id}:fr", "5")
    before = env.now_ms()

    message = receive(env.rsmq, queue)

    assert message.receive_count == 1
    assert before <= message.first_received_ms <= env.now_ms()


def test_scripts_that_the_server_forgot_are_sent_again(env, queue):
    flush = env.raw.script_flush
    for round in range(3):
        flush()
        id = env.rsmq.send_message(queue, str(round))
        flush()
        message = env.rsmq.receive_message(queue)
        flush()
        assert env.rsmq.change_message_visibility(message, 5) is True
        flush()
        assert env.rsmq.delete_message(message) is True
        assert message.id == id
        flush()
        assert env.rsmq.get_queue_attributes(queue).total_sent == round + 1


def test_ids_use_the_whole_alphabet(env, queue):
    used = {character for _ in range(100) for character in env.rsmq.send_message(queue, "m")[10:]}

    assert used == set(string.ascii_letters + string.digits)
