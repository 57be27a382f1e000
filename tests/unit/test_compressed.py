"""Compressed bodies: they arrive as they were sent, also plain ones, and bombs don't go off."""

from __future__ import annotations

import pickle
import random
import sys
import zlib
from base64 import b64encode
from dataclasses import dataclass

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rsmq import BYTES, JSON, MSGPACK, TEXT, InvalidFormat, InvalidValue, Message, MissingExtra
from rsmq.codecs import CannotDecode, Compressed, EnvelopeCodec, dataclass_codec
from rsmq.headers import use_headers

ROWS = [{"number": number, "item": "a small thing"} for number in range(200)]


@dataclass
class Order:
    text: str


def stored(codec, body):
    encoded = codec.encode(body)
    return encoded.encode() if isinstance(encoded, str) else encoded


def body_of(steps, payload):
    return b"rsmq-body/1:%b::%b" % (steps, b64encode(payload))


@pytest.mark.parametrize("method", ["zstd", "zlib"])
@pytest.mark.parametrize(
    ("inner", "body"),
    [
        (TEXT, "über " * 1000),
        (BYTES, b"\0\xff" * 3000),
        (JSON, ROWS),
        (MSGPACK, ROWS),
        (dataclass_codec(Order), Order("x" * 5000)),
        (EnvelopeCodec(JSON), ROWS),
    ],
)
def test_a_large_body_is_compressed_and_arrives(inner, body, method):
    codec = Compressed(inner, method=method)
    raw = stored(codec, body)

    size = len(stored(inner, body))
    assert raw.startswith(b"rsmq-body/1:%b=%d::" % (method.encode(), size))
    assert raw.isascii()
    assert len(raw) < size / 3
    assert codec.decode(raw) == body
    assert Compressed(inner, above=0).decode(raw) == body


@given(st.text(), st.integers(0, 100))
def test_each_text_arrives(body, above):
    codec = Compressed(TEXT, above=above, method="zlib")
    assert codec.decode(stored(codec, body)) == body


def test_a_small_body_and_one_that_does_not_get_smaller_stay_plain():
    noise = random.Random(1).randbytes(5000)

    assert Compressed(JSON).encode({"a": 1}) == '{"a":1}'
    assert Compressed(BYTES).encode(noise) == noise
    assert Compressed(TEXT, above=20).encode("x" * 20) == "x" * 20
    assert Compressed(TEXT, above=501).encode("x" * 500) == "x" * 500
    assert Compressed(TEXT, above=500).encode("x" * 500).startswith("rsmq-body/1:zstd=500::")


def test_a_reader_reads_plain_bodies():
    assert Compressed(JSON).decode(b'{"a":1}') == {"a": 1}


def test_a_text_that_begins_like_the_form_arrives():
    codec = Compressed(TEXT)
    raw = stored(codec, "rsmq-body/1:x")

    assert raw == body_of(b"", b"rsmq-body/1:x")
    assert codec.decode(raw) == "rsmq-body/1:x"


def test_headers_are_in_clear_text_before_the_payload():
    codec = Compressed(EnvelopeCodec(JSON))
    with use_headers({"request_id": "7f3a"}):
        large, small = stored(codec, ROWS), stored(codec, 1)

    assert large.split(b":")[2] == b"headers=%7B%22request_id%22%3A%227f3a%22%7D"
    assert small == b'{"headers":{"request_id":"7f3a"},"body":1}'
    for raw, body in ((large, ROWS), (small, 1)):
        assert codec.decode(raw) == body
        assert Message("q", "id", raw, 1, None).headers == {"request_id": "7f3a"}
    assert codec.writes_headers
    assert not Compressed(JSON).writes_headers
    assert stored(codec, {"headers": {}, "body": 1}) == (
        b'{"headers":{},"body":{"headers":{},"body":1}}'
    )


def test_a_codec_is_pickled():
    codec = Compressed(EnvelopeCodec(JSON), above=9, method="zlib", limit=10_000)
    copy = pickle.loads(pickle.dumps(codec))

    assert (
        repr(copy)
        == repr(codec)
        == ("Compressed(EnvelopeCodec(rsmq.JSON), above=9, method='zlib')")
    )
    assert copy.decode(stored(codec, "x" * 500)) == "x" * 500
    with pytest.raises(CannotDecode, match="the limit is 10,000"):
        copy.decode(stored(Compressed(JSON), "x" * 20_000))


@pytest.mark.parametrize("method", ["zstd", "zlib"])
@pytest.mark.parametrize("difference", [-1, 1])
def test_the_declared_size_is_the_size(method, difference):
    compress = zlib.compress if method == "zlib" else zstandard.ZstdCompressor().compress
    raw = body_of(f"{method}={5000 + difference}".encode(), compress(b"x" * 5000))

    with pytest.raises(CannotDecode, match="does not have its declared size"):
        Compressed(BYTES).decode(raw)


@pytest.mark.parametrize("method", ["zstd", "zlib"])
def test_a_bomb_is_not_inflated_beyond_its_declared_size(method):
    size = 300_000_000
    if method == "zlib":
        deflater = zlib.compressobj()
        parts = (deflater.compress(bytes(1_000_000)) for _ in range(size // 1_000_000))
        payload = b"".join(parts) + deflater.flush()
    else:
        compressor = zstandard.ZstdCompressor().compressobj()
        parts = (compressor.compress(bytes(1_000_000)) for _ in range(size // 1_000_000))
        payload = b"".join(parts) + compressor.flush()

    with pytest.raises(CannotDecode, match="300,000,000 bytes, and the limit is 67,108,864"):
        Compressed(BYTES).decode(body_of(f"{method}={size}".encode(), payload))
    with pytest.raises(CannotDecode, match="does not have its declared size"):
        Compressed(BYTES).decode(body_of(f"{method}=1000".encode(), payload))


@pytest.mark.parametrize("method", ["zstd", "zlib"])
@pytest.mark.parametrize("payload", [b"", b"no such thing", b"\x28\xb5\x2f\xfd", b"x\x9c"])
def test_damaged_bytes_are_named(method, payload):
    with pytest.raises(CannotDecode, match="damaged"):
        Compressed(BYTES).decode(body_of(f"{method}=10".encode(), payload))


@pytest.mark.parametrize("declared", [b"zlib", b"zlib=", b"zlib=x", b"zlib=-1", b"zlib=1/2"])
def test_a_damaged_size_is_named(declared):
    with pytest.raises(CannotDecode, match="The declared size of the compressed body is damaged"):
        Compressed(BYTES).decode(body_of(declared, zlib.compress(b"")))


def test_bytes_behind_the_compressed_ones_are_refused():
    raw = body_of(b"zlib=10", zlib.compress(b"x" * 10) + b"more")
    with pytest.raises(CannotDecode, match="damaged"):
        Compressed(BYTES).decode(raw)


@pytest.mark.parametrize(
    ("raw", "text", "hint"),
    [
        (body_of(b"aes256gcm=k2", b""), "The body is encrypted with the key 'k2'", "Encrypted("),
        (body_of(b"stored=a/1/b", b""), "The body is stored elsewhere", "codec=Stored"),
        (body_of(b"brotli=10", b""), "The body has the step 'brotli'", "Update rsmq"),
        (b"rsmq-body/2:x::", "The body has version 2", "Update rsmq"),
    ],
)
def test_what_this_codec_can_not_undo_is_named(raw, text, hint):
    with pytest.raises(CannotDecode) as caught:
        Compressed(JSON).decode(raw)
    assert str(caught.value).startswith(text)
    assert hint in caught.value.hint


def test_zstd_without_its_extra(monkeypatch):
    raw = stored(Compressed(JSON, method="zstd"), ROWS)
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(MissingExtra, match="bodies"):
        Compressed(JSON, method="zstd")
    with pytest.raises(MissingExtra, match="bodies"):
        Compressed(JSON, method="zlib").decode(raw)
    monkeypatch.setattr("rsmq.codecs.compression.find_spec", lambda _: None)
    assert stored(Compressed(JSON), ROWS).startswith(b"rsmq-body/1:zlib=")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: Compressed("JSON"), InvalidFormat),
        (lambda: Compressed(Compressed(JSON)), InvalidFormat),
        (lambda: EnvelopeCodec(Compressed(JSON)), InvalidFormat),
        (lambda: Compressed(JSON, method="gzip"), InvalidFormat),
        (lambda: Compressed(JSON, above=-1), InvalidValue),
        (lambda: Compressed(JSON, above=True), InvalidValue),
        (lambda: Compressed(JSON, above="2"), InvalidValue),
        (lambda: Compressed(JSON, limit=0), InvalidValue),
        (lambda: Compressed(JSON, limit=2**40), InvalidValue),
    ],
)
def test_what_is_refused(make, kind):
    with pytest.raises(kind):
        make()
