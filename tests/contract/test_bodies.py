"""Bodies with steps, through both clients and on each way of a body, with the raw keys."""

from __future__ import annotations

import pytest

from rsmq import JSON, TEXT, BodyNotDecodable, MessageTooLong
from rsmq.codecs import Compressed, EnvelopeCodec
from rsmq.headers import use_headers
from tests.expect import refused

ROWS = [{"number": number, "item": "a small thing"} for number in range(200)]
CODEC = Compressed(JSON, method="zlib")


def test_a_compressed_body_is_stored_as_text_and_arrives(env, queue):
    id = env.rsmq.send_message(queue, ROWS, codec=CODEC)
    ids = env.rsmq.send_messages(queue, [ROWS, 1], codec=CODEC)

    stored = env.fields(queue)
    expected = CODEC.encode(ROWS)
    assert expected.startswith(f"rsmq-body/1:zlib={len(JSON.encode(ROWS))}::")
    assert [stored[each] for each in (id, *ids)] == [expected, expected, "1"]

    assert env.rsmq.get_message(queue, id, codec=CODEC).body == ROWS
    assert [each.body for each in env.rsmq.peek_messages(queue, codec=CODEC)] == [ROWS, ROWS, 1]
    assert env.rsmq.receive_message(queue, codec=CODEC).body == ROWS
    assert env.rsmq.pop_message(queue, codec=CODEC).body == ROWS
    assert [each.body for each in env.rsmq.receive_messages(queue, 2, codec=CODEC)] == [1]


def test_a_published_body_is_the_same_in_each_queue(env, queue):
    env.rsmq.create_queue("other")
    ids = env.rsmq.publish([queue, "other"], ROWS, codec=CODEC)

    for name, id in ids.items():
        assert env.fields(name)[id].startswith("rsmq-body/1:zlib=")
        assert env.rsmq.receive_message(name, codec=CODEC).body == ROWS


def test_the_limit_of_the_queue_counts_what_is_stored(env):
    env.rsmq.create_queue("small", maxsize=1024)
    with refused(MessageTooLong, "Message too long"):
        env.rsmq.send_message("small", ROWS, codec=JSON)
    env.rsmq.send_message("small", ROWS, codec=CODEC)
    assert env.rsmq.receive_message("small", codec=CODEC).body == ROWS


def test_a_consumer_without_the_codec_gets_a_named_error(env, queue):
    env.rsmq.send_message(queue, ROWS, codec=CODEC)
    message = env.rsmq.receive_message(queue, codec=JSON)

    with pytest.raises(BodyNotDecodable) as caught:
        _ = message.body
    assert f"The body is compressed (zlib, {len(JSON.encode(ROWS)):,} bytes)" in str(caught.value)
    assert message.raw.decode()[40:] not in str(caught.value)
    assert env.rsmq.get_message(queue, message.id, codec=TEXT).body == CODEC.encode(ROWS)


def test_headers_are_read_without_the_codec(env, queue):
    with use_headers({"request_id": "7f3a"}):
        encoded = Compressed(EnvelopeCodec(JSON)).encode(ROWS)
    env.rsmq.send_message(queue, encoded, codec=TEXT)

    message = env.rsmq.receive_message(queue)
    assert message.headers == {"request_id": "7f3a"}
