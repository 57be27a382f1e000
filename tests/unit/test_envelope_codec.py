"""Envelopes: headers travel with a body, and bodies without an envelope stay readable."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq import BYTES, JSON, MSGPACK, TEXT, InvalidFormat, Message, MessageNotString
from rsmq.codecs import EnvelopeCodec, dataclass_codec
from rsmq.headers import HeaderFilter, current_headers, use_headers
from rsmq.operations.arguments import encode_body

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("headers"), inner),
    max_leaves=5,
)
envelopes = st.fixed_dictionaries({"headers": st.dictionaries(st.text(), values), "body": values})


@dataclass
class Order:
    number: int


def stored(codec, body, headers=()):
    with use_headers(dict(headers)):
        return encode_body(body, codec)[0]


def headers_of(raw):
    return Message("orders", "id", raw, 1, None).headers


@settings(max_examples=50)
@given(values | envelopes, st.dictionaries(st.text(min_size=1), st.text()))
def test_every_value_and_header_survives(body, headers):
    codec = EnvelopeCodec(JSON)
    raw = stored(codec, body, headers)

    assert codec.decode(raw) == body
    assert headers_of(raw) == headers


@settings(max_examples=50)
@given(st.text() | envelopes.map(json.dumps), st.booleans())
def test_every_text_survives(body, has_headers):
    codec = EnvelopeCodec(TEXT)
    raw = stored(codec, body, {"a": "b"} if has_headers else {})

    assert codec.decode(raw) == body
    assert headers_of(raw) == ({"a": "b"} if has_headers else {})


def test_an_envelope_is_json_with_two_fields():
    headers = {"request_id": "7f3a"}

    assert stored(EnvelopeCodec(JSON), {"n": [1]}, headers) == (
        b'{"headers":{"request_id":"7f3a"},"body":{"n":[1]}}'
    )
    assert stored(EnvelopeCodec(TEXT), "7", headers) == (
        b'{"headers":{"request_id":"7f3a"},"body":"7"}'
    )
    orders = EnvelopeCodec(dataclass_codec(Order))
    raw = stored(orders, Order(7), headers)
    assert raw == b'{"headers":{"request_id":"7f3a"},"body":{"number":7}}'
    assert orders.decode(raw) == Order(7)


def test_without_headers_the_body_is_that_of_the_inner_codec():
    assert stored(EnvelopeCodec(JSON), {"n": 1}) == b'{"n":1}'
    assert stored(EnvelopeCodec(TEXT), "x") == b"x"


@pytest.mark.parametrize(
    ("raw", "body", "headers"),
    [
        (b'{"n": 1}', {"n": 1}, {}),
        (b' {"body": [1], "headers": {"a": "b", "c": 4}}', [1], {"a": "b"}),
        (b'{"headers": {}, "body": null}', None, {}),
        (b'{"headers": [], "body": 1}', {"headers": [], "body": 1}, {}),
        (b'{"headers": {"a": "b"}}', {"headers": {"a": "b"}}, {}),
        (b'{"headers": {}, "body": 1, "n": 1}', {"headers": {}, "body": 1, "n": 1}, {}),
    ],
)
def test_bodies_of_other_producers_are_read(raw, body, headers):
    assert EnvelopeCodec(JSON).decode(raw) == body
    assert headers_of(raw) == headers


@pytest.mark.parametrize(
    "raw", [b"", b"\xff", b'"headers"', b'{"headers"', b'{"headers":' + b"[" * 100_000]
)
def test_any_bytes_have_no_headers(raw):
    assert headers_of(raw) == {}


def test_binary_codecs_are_refused():
    for inner in (BYTES, MSGPACK):
        with pytest.raises(InvalidFormat, match="An envelope is JSON"):
            EnvelopeCodec(inner)

    class Plain:
        def encode(self, body):
            return body

        def decode(self, raw):
            return raw

    codec = EnvelopeCodec(Plain())
    assert stored(codec, b"\xff") == b"\xff"
    assert stored(codec, b"[1]", {"a": "b"}) == b'{"headers":{"a":"b"},"body":[1]}'
    for body in (b"\xff", "x"):
        with pytest.raises(MessageNotString, match="the inner codec must write JSON"):
            stored(codec, body, {"a": "b"})


def test_a_body_of_an_envelope_must_be_text_for_the_codec_of_text():
    with pytest.raises(ValueError, match="not a string"):
        EnvelopeCodec(TEXT).decode(b'{"headers":{},"body":1}')


def test_headers_are_added_and_end_with_their_block():
    with use_headers({"a": "1", "b": "2"}):
        with use_headers({"b": "3"}):
            assert current_headers() == {"a": "1", "b": "3"}
        assert current_headers() == {"a": "1", "b": "2"}
    assert current_headers() == {}


@pytest.mark.parametrize("headers", ["x", {"": "x"}, {"a": 1}, {1: "a"}])
def test_headers_are_text_by_name(headers):
    with pytest.raises(InvalidFormat), use_headers(headers):
        pass
    assert current_headers() == {}


def test_log_records_have_headers():
    record = logging.makeLogRecord({})
    with use_headers({"request_id": "7f3a"}):
        assert HeaderFilter("request_id", "tenant").filter(record)

    assert (record.request_id, record.tenant) == ("7f3a", "")


def test_it_can_be_copied_to_another_process():
    codec = pickle.loads(pickle.dumps(EnvelopeCodec(JSON)))

    assert repr(codec) == "EnvelopeCodec(rsmq.JSON)"
