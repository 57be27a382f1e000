"""Encrypted bodies: keys, rotation, what is refused, and bytes of another implementation."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import (
    BYTES,
    JSON,
    MSGPACK,
    TEXT,
    BodyNotDecodable,
    BodyUnavailable,
    InvalidFormat,
    Message,
    MessageNotString,
    MissingExtra,
    MissingParameter,
)
from rsmq.codecs import CannotDecode, CannotEncode, Compressed, Encrypted, EnvelopeCodec
from rsmq.codecs import keys as keys_module
from rsmq.headers import use_headers
from rsmq.operations.arguments import encode_body
from rsmq.wire.body_format import parse_body

K1, K2 = bytes(range(32)), bytes(range(32, 64))
PLACE = b"rsmq:orders"


def bound(inner=JSON, place=PLACE, keys=None, **options):
    return Encrypted(inner, keys=keys or {"k1": K1}, **options).for_queue(place)


def stored(codec, body):
    return encode_body(body, codec)[0]


@pytest.mark.parametrize(
    ("inner", "body"),
    [
        (TEXT, ""),
        (TEXT, "über " * 1000),
        (BYTES, b"\0\xff" * 3000),
        (JSON, {"a": [1, None]}),
        (MSGPACK, {"a": b"\xff"}),
        (Compressed(JSON), ["a small thing"] * 1000),
        (EnvelopeCodec(TEXT), "text"),
    ],
)
def test_a_body_arrives_and_can_not_be_read(inner, body):
    codec = bound(inner)
    raw = stored(codec, body)

    assert codec.decode(raw) == body
    assert raw.startswith(b"rsmq-body/1:")
    assert b"aes256gcm=k1:" in raw
    assert b"small" not in raw
    assert stored(codec, body) != raw


@given(st.binary(max_size=300))
def test_all_bytes_arrive(body):
    codec = bound(BYTES)
    assert codec.decode(stored(codec, body)) == body


def test_compression_comes_first():
    raw = stored(bound(Compressed(JSON, method="zlib")), ["a small thing"] * 1000)
    assert raw.startswith(b"rsmq-body/1:zlib=16001,aes256gcm=k1::")
    assert len(raw) < 1000


def test_nonces_differ():
    nonces = {parse_body(stored(bound(), 1)).payload[:12] for _ in range(1000)}
    assert len(nonces) == 1000


@pytest.mark.parametrize("at", range(0, 28, 3))
def test_a_changed_bit_is_found(at):
    body = parse_body(stored(bound(), 1))
    payload = bytearray(body.payload)
    payload[at] ^= 1
    raw = b"rsmq-body/1:aes256gcm=k1::" + b64encode(payload)

    with pytest.raises(CannotDecode, match="The body does not open with the key 'k1'"):
        bound().decode(raw)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"zlib=16001", b"zlib=16000"),
        (b"zlib=16001,", b""),
        (b"::", b":from=rsmq%3Aother:"),
        (b"=k1", b"=k2"),
    ],
)
def test_the_steps_the_key_and_the_queue_are_authenticated(old, new):
    codec = bound(Compressed(JSON, method="zlib"), keys={"k1": K1, "k2": K1})
    raw = stored(codec, ["a small thing"] * 1000)
    assert codec.decode(raw)

    with pytest.raises(CannotDecode, match="does not open"):
        codec.decode(raw.replace(old, new))


@pytest.mark.parametrize("place", [b"rsmq:other", b"other:orders", b"rsmq", b""])
def test_another_queue_can_not_read_it(place):
    with pytest.raises(CannotDecode, match="does not open with the key 'k1'") as caught:
        bound(place=place).decode(stored(bound(), 1))
    assert "copied here from another queue by hand" in caught.value.hint


def test_a_body_that_was_moved_names_its_queue():
    raw = stored(bound(), {"a": 1}).replace(b"::", b":from=rsmq%3Aorders:")
    assert bound(place=b"rsmq:dead").decode(raw) == {"a": 1}


def test_keys_rotate():
    old = stored(bound(keys={"k1": K1}), 1)
    both = bound(keys={"k2": K2, "k1": K1})

    assert both.decode(old) == 1
    assert stored(both, 1).startswith(b"rsmq-body/1:aes256gcm=k2::")
    with pytest.raises(CannotDecode, match="the key 'k2', which the codec does not have"):
        bound(keys={"k1": K1}).decode(stored(both, 1))
    with pytest.raises(CannotDecode, match="does not open"):
        bound(keys={"k1": K2}).decode(old)


def test_an_error_has_the_id_of_the_key_and_no_bytes():
    raw = stored(bound(), {"secret": "value"})
    for codec in (bound(keys={"k9": K2}), bound(keys={"k1": K2}), JSON, Compressed(JSON)):
        with pytest.raises(BodyNotDecodable) as caught:
            _ = Message("orders", "id", raw, 1, None, codec).body
        assert caught.value.key_id == "k1"
        assert "k1" in str(caught.value)
        for text in (str(caught.value), repr(caught.value), str(caught.value.value)):
            assert raw.decode()[30:40] not in text


def test_plain_bodies_are_read_until_they_are_refused():
    sealed, plain = stored(bound(), 1), b"1"
    compressed = stored(Compressed(JSON), ["a small thing"] * 1000)
    strict = bound(allow_plain=False)

    assert [bound().decode(each) for each in (sealed, plain)] == [1, 1]
    assert bound().decode(compressed)
    assert strict.decode(sealed) == 1
    for raw in (plain, compressed, b"rsmq-body/1:::MQ=="):
        with pytest.raises(CannotDecode, match="The body is not encrypted"):
            strict.decode(raw)


def test_headers_are_in_clear_text():
    codec = bound(EnvelopeCodec(JSON))
    with use_headers({"request_id": "7f3a"}):
        raw = stored(codec, {"secret": 1})
    assert Message("orders", "id", raw, 1, None).headers == {"request_id": "7f3a"}
    assert codec.decode(raw) == {"secret": 1}
    assert codec.writes_headers


def test_without_a_queue_it_is_refused():
    codec = Encrypted(JSON, keys={"k1": K1})
    with pytest.raises(CannotEncode):
        codec.encode(1)
    with pytest.raises(CannotDecode):
        codec.decode(b"1")
    with pytest.raises(MessageNotString, match="for_queue"):
        encode_body(1, codec)


def test_a_keyed_hash():
    codec = Encrypted(JSON, keys={"k1": K1, "k2": K2})
    assert codec.keyed("customer-17") == codec.keyed("customer-17")
    assert codec.keyed("customer-17") != codec.keyed("customer-18")
    assert codec.keyed("customer-17") != Encrypted(JSON, keys={"k1": K2}).keyed("customer-17")
    assert len(codec.keyed("customer-17")) == 43


def test_keys_of_a_file_and_of_the_environment(tmp_path, monkeypatch):
    text = f"k2:{b64encode(K2).decode()}\nk1:{b64encode(K1).decode()}\n"
    path = tmp_path / "keys"
    path.write_text(text)
    monkeypatch.setenv("BODY_KEYS", text.replace("\n", ","))

    for keys in (path, str(path), "env:BODY_KEYS", {"k2": b64encode(K2).decode(), "k1": K1}):
        codec = bound(keys=keys)
        assert stored(codec, 1).startswith(b"rsmq-body/1:aes256gcm=k2::")
        assert codec.decode(stored(bound(), 1)) == 1
        assert repr(codec) == "Encrypted(rsmq.JSON, keys=<k2, k1>)"


def test_keys_of_a_function(monkeypatch):
    asked = []
    current = ["k1"]

    def ask(id):
        asked.append(id)
        return (current[0], {"k1": K1, "k2": K2}[current[0]]) if id is None else {"k2": K2}[id]

    now = [1000.0]
    monkeypatch.setattr(keys_module, "monotonic", lambda: now[0])
    codec = bound(keys=ask)
    assert asked == []
    assert codec.decode(stored(codec, 1)) == codec.decode(stored(codec, 1)) == 1
    assert asked == [None]

    current[0] = "k2"
    now[0] += 299
    assert parse_body(stored(codec, 1)).steps[0].parameters == ("k1",)
    now[0] += 2
    assert parse_body(stored(codec, 1)).steps[0].parameters == ("k2",)
    assert asked == [None, None]

    other = bound(keys=ask)
    assert other.decode(stored(bound(keys={"k2": K2}), 1)) == 1
    with pytest.raises(CannotDecode, match="the key 'k1', which the codec does not have"):
        other.decode(stored(bound(keys={"k1": K1}), 1))


def test_many_keys_of_a_function_are_forgotten():
    codec = Encrypted(JSON, keys=lambda id: ("k1", K1) if id is None else K2)
    for number in range(1100):
        raw = stored(bound(keys={f"other{number}": K2}), number)
        assert codec.for_queue(PLACE).decode(raw) == number
    assert codec.for_queue(PLACE).decode(stored(codec.for_queue(PLACE), 1)) == 1


def test_a_codec_is_pickled():
    codec = pickle.loads(pickle.dumps(Encrypted(Compressed(JSON), keys={"k2": K2, "k1": K1})))
    raw = stored(codec.for_queue(PLACE), 1)
    assert raw.startswith(b"rsmq-body/1:aes256gcm=k2::")
    assert pickle.loads(pickle.dumps(codec.for_queue(PLACE))).decode(raw) == 1


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({}, InvalidFormat),
        ({"k1": b"short"}, InvalidFormat),
        ({"k1": "no base64 at all"}, InvalidFormat),
        ({"k1": b64encode(b"short").decode()}, InvalidFormat),
        ({"a:b": K1}, InvalidFormat),
        ({"": K1}, InvalidFormat),
        ({1: K1}, InvalidFormat),
        (K1, InvalidFormat),
        (None, InvalidFormat),
        ("env:NO_SUCH_KEYS", MissingParameter),
        ("/no/such/file", OSError),
    ],
)
def test_keys_that_are_refused(keys, kind):
    with pytest.raises(kind) as caught:
        Encrypted(JSON, keys=keys)
    assert K1.decode() not in str(caught.value)


def test_a_file_without_ids(tmp_path):
    path = tmp_path / "keys"
    for text in (b64encode(K1).decode(), "k1:", "  \n"):
        path.write_text(text)
        with pytest.raises(InvalidFormat) as caught:
            Encrypted(JSON, keys=path)
        assert b64encode(K1).decode() not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda keys: Compressed(Encrypted(JSON, keys=keys)),
        lambda keys: Encrypted(Encrypted(JSON, keys=keys), keys=keys),
        lambda keys: EnvelopeCodec(Encrypted(JSON, keys=keys)),
        lambda keys: Encrypted(JSON, keys=keys, allow_plain=False) and Encrypted(5, keys=keys),
    ],
)
def test_a_wrong_order_is_refused(make):
    with pytest.raises(InvalidFormat):
        make({"k1": K1})


@pytest.mark.parametrize(
    "raw",
    [
        b"rsmq-body/1:aes256gcm::AAAA",
        b"rsmq-body/1:aes256gcm=::AAAA",
        b"rsmq-body/1:aes256gcm=k1/k2::AAAA",
        b"rsmq-body/1:aes256gcm=k%00::AAAA",
        b"rsmq-body/1:aes256gcm=k1::",
        b"rsmq-body/1:aes256gcm=k1::AAAA",
        b"rsmq-body/1:aes256gcm=k1::!",
        b"rsmq-body/1:aes256gcm=k1,rot13=1::AAAA",
    ],
)
def test_damaged_bodies_are_named(raw):
    with pytest.raises(CannotDecode):
        bound().decode(raw)


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(MissingExtra, match="bodies"):
        Encrypted(JSON, keys={"k1": K1})


_NODE = """
const crypto = require('crypto')
const [key, nonce, body, associated] = process.argv.slice(1).map((each) => Buffer.from(each, 'hex'))
const cipher = crypto.createCipheriv('aes-256-gcm', key, nonce)
cipher.setAAD(associated)
const sealed = Buffer.concat([cipher.update(body), cipher.final(), cipher.getAuthTag()])
process.stdout.write(Buffer.concat([nonce, sealed]).toString('base64'))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_another_implementation_computes_the_same_bytes(monkeypatch):
    nonce = bytes(range(100, 112))
    monkeypatch.setattr("rsmq.codecs.encryption.urandom", lambda _: nonce)
    raw = stored(bound(), {"a": "ü"})

    body = JSON.encode({"a": "ü"}).encode()
    values = (K1, nonce, body, b"rsmq-body/1:aes256gcm=k1:rsmq:orders")
    program = ["node", "-e", _NODE, *(each.hex() for each in values)]
    other = subprocess.run(program, capture_output=True, check=True).stdout
    assert raw == b"rsmq-body/1:aes256gcm=k1::" + other


def test_a_vector_of_nist():
    """The 16th case of the GCM specification, with AES-256."""
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308" * 2)
    nonce = bytes.fromhex("cafebabefacedbaddecaf888")
    plain = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e24"
        "49a6b525b16aedf5aa0de657ba637b39"
    )
    associated = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    cipher = keys_module.Keys({"k": key}).current()[1]
    assert cipher.encrypt(nonce, plain, associated).hex() == (
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b10"
        "56828838c5f61e6393ba7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b"
    )


def test_a_key_that_can_not_be_reached_is_not_a_fault_of_the_body():
    raw = stored(bound(), 1)

    def ask(id):
        raise OSError("away")

    away = bound(keys=ask)
    with pytest.raises(BodyUnavailable, match="The key k1 can't be reached now") as caught:
        _ = Message("orders", "id", raw, 1, None, away).body
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(BodyUnavailable, match="The key for new bodies can't be reached now"):
        stored(away, 1)
