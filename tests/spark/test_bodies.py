"""The option codec: frames, streams and writes with bodies that are compressed and encrypted."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from rsmq import JSON
from rsmq.body_stores import RedisStore
from rsmq.codecs import Compressed, Encrypted, Stored
from rsmq.errors import BodyUnavailable, NotPossible
from rsmq.spark import InvalidOption
from rsmq.wire.body_format import parse_body
from tests.spark.conftest import columns

KEY = bytes(range(32))
CODEC = Encrypted(Compressed(JSON), keys={"k1": KEY})
BODY = ["a small thing"] * 500
PROGRAM = f"""
from rsmq import JSON
from rsmq.codecs import Compressed, Encrypted

codec = Encrypted(Compressed(JSON), keys={{"k1": {KEY!r}}})
"""


@pytest.fixture
def codec(tmp_path, monkeypatch, queue):
    (tmp_path / "bodies_of_spark_test.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    return {"codec": "bodies_of_spark_test:codec"}


def test_a_frame_has_what_is_inside(env, codec):
    env.rsmq.send_messages("q", [BODY, 5], codec=CODEC)
    env.rsmq.send_message("q", "plain")
    env.rsmq.send_message("q", 1, codec=Encrypted(JSON, keys={"k9": KEY}))

    texts = [row["message"] for row in env.read(queue="q", **codec)]
    assert texts[:3] == [JSON.encode(BODY), "5", "plain"]
    assert texts[3].startswith("rsmq-body/1:aes256gcm=k9:from=")
    binary = [row["message"] for row in env.read(queue="q", bodyType="binary", **codec)]
    assert binary == [each.encode() for each in texts]


def test_without_the_codec_a_frame_has_the_stored_texts_with_their_queue(env, codec):
    env.rsmq.send_messages("q", [BODY, 5], codec=CODEC)
    texts = [row["message"].encode() for row in env.read(queue="q")]
    assert {parse_body(each).origin for each in texts} == {f"{env.ns}:q".encode()}
    assert [CODEC.for_queue(b"rsmq:other").decode(each) for each in texts] == [BODY, 5]


class _Away(RedisStore):
    def read(self, place, name, size):
        raise TimeoutError


def test_a_frame_loads_what_is_stored_elsewhere(env, monkeypatch, queue, server):
    store = RedisStore(server.url)
    module = ModuleType("stores_of_spark_test")
    module.codec = Stored(JSON, store=store, above=20)
    module.away = Stored(JSON, store=_Away(server.url), above=20)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    env.rsmq.send_messages("q", [BODY, 5], codec=module.codec)

    texts = [row["message"] for row in env.read(queue="q", codec="stores_of_spark_test:codec")]
    assert texts == [JSON.encode(BODY), "5"]
    with pytest.raises(BodyUnavailable):
        env.read(queue="q", codec="stores_of_spark_test:away")
    reference, _ = (row["message"] for row in env.read(queue="q"))
    assert reference.startswith("rsmq-body/1:stored=")

    stream = env.query(queue="q")
    with pytest.raises(NotPossible, match="A body is stored elsewhere"):
        stream.run()
    assert env.raw.hlen(env.keys().hash) >= 2  # none was acknowledged
    assert len(env.scores()) == 2

    env.rsmq.create_queue("p")
    elsewhere = reference.replace(f"from={env.ns}", "from=another")
    for each in (reference, elsewhere):  # the object may be deleted with the first message
        with pytest.raises(NotPossible, match="can't be copied by its reference"):
            env.write(columns(message="string"), queue="p").run([{"message": each}])
    env.write(columns(message="string"), queue="p", codec="stores_of_spark_test:codec").run(
        [{"message": texts[0]}]
    )
    (message,) = env.rsmq.peek_messages("p", codec=module.codec)
    assert message.body == BODY


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_write_encrypts(env, codec, delivery, kind):
    text = JSON.encode(BODY)
    body = text.encode() if kind == "binary" else text
    env.write(columns(message=kind), delivery=delivery, **codec).run([{"message": body}])

    (message,) = env.rsmq.peek_messages("q", codec=CODEC)
    assert message.raw.startswith(b"rsmq-body/1:zstd=")
    assert message.body == BODY


def test_a_write_leaves_what_is_encrypted(env, codec):
    env.rsmq.create_queue("other")
    env.rsmq.send_message("other", BODY, codec=CODEC)
    (row,) = env.read(queue="other")
    env.write(columns(message="string"), **codec).run([{"message": row["message"]}])

    (message,) = env.rsmq.peek_messages("q", codec=CODEC)
    assert message.raw == row["message"].encode()
    assert message.body == BODY


@pytest.mark.parametrize("name", ["nothing", "no_such_module:codec", "rsmq:RSMQ"])
def test_a_codec_that_is_not_there(env, queue, name):
    with pytest.raises(InvalidOption, match="Option codec: "):
        env.source(queue="q", codec=name).schema()
