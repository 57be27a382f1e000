"""The codec that carries the context of a trace: bodies survive, with an envelope and without."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from rsmq import BYTES, JSON, MSGPACK, TEXT, InvalidFormat, Message
from rsmq.opentelemetry import TracedCodec, message_context
from rsmq.operations.arguments import encode_body
from tests.expect import refused

TRACER = TracerProvider().get_tracer("test")
PREFIX = "rsmq-trace:1 "
TRACEPARENT = b"00-" + b"1" * 32 + b"-" + b"1" * 16 + b"-01"


def stored(codec, body):
    """Return the bytes that a send stores."""
    raw, _ = encode_body(body, codec)
    return raw


def message(raw):
    return Message("orders", "id", raw, 1, None)


def sent_in(raw):
    return get_current_span(message_context(message(raw))).get_span_context()


@given(st.text() | st.text().map(lambda text: f"{PREFIX}{text}\n{text}"), st.booleans())
def test_every_text_survives(body, in_span):
    codec = TracedCodec(TEXT)
    with TRACER.start_as_current_span("send") as span:
        raw = stored(codec, body) if in_span else None
    raw = stored(codec, body) if raw is None else raw

    assert codec.decode(raw) == body
    sent = sent_in(raw)
    assert sent.is_valid == in_span
    assert not in_span or (sent.span_id, sent.is_remote) == (span.get_span_context().span_id, True)


@given(st.binary() | st.binary().map(lambda end: PREFIX.encode() + b"{}\n" + end))
def test_every_byte_survives(body):
    codec = TracedCodec(BYTES)
    with TRACER.start_as_current_span("send"):
        assert codec.decode(stored(codec, body)) == body
    assert codec.decode(stored(codec, body)) == body


@pytest.mark.parametrize("inner", [JSON, MSGPACK])
def test_values_survive(inner):
    codec = TracedCodec(inner)
    with TRACER.start_as_current_span("send"):
        raw = stored(codec, {"a": [1, "ä\n"]})

    assert raw.startswith(PREFIX.encode())
    assert codec.decode(raw) == {"a": [1, "ä\n"]}


def test_the_bytes_after_the_first_line_are_those_of_the_inner_codec():
    with TRACER.start_as_current_span("send"):
        raw = stored(TracedCodec(JSON), {"ä": 1})

    assert raw.partition(b"\n")[2] == '{"ä":1}'.encode()


def test_text_is_counted_as_text():
    with TRACER.start_as_current_span("send"):
        raw, size = encode_body("😀", TracedCodec(TEXT))

    assert size == len(raw) - 4 + 2  # four bytes, two UTF-16 code units


def test_without_a_context_the_body_is_unchanged():
    assert stored(TracedCodec(JSON), {"a": 1}) == b'{"a":1}'
    assert stored(TracedCodec(BYTES), b"a") == b"a"


def test_bodies_of_other_producers_are_decoded():
    assert TracedCodec(JSON).decode(b'{"a":1}') == {"a": 1}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"rsmq-trace:1",
        b"rsmq-trace:1 ",
        b'rsmq-trace:1 {"traceparent":"00-'
        + b"1" * 32
        + b"-"
        + b"1" * 16
        + b'-01"}',  # no line end
        b"rsmq-trace:1 {\nbody",
        b"rsmq-trace:1 [1]\nbody",
        b"rsmq-trace:1 \xff\nbody",
        b"rsmq-trace:1 " + b"[" * 100_000 + b"\nbody",
        b'rsmq-trace:2 {"traceparent":"x"}\nbody',
    ],
)
def test_bytes_that_are_not_an_envelope_are_the_body(raw):
    assert TracedCodec(BYTES).decode(raw) == raw
    assert not sent_in(raw).is_valid


@pytest.mark.parametrize("headers", [b"{}", b'{"traceparent":1}', b'{"traceparent":"x"}'])
def test_an_envelope_without_a_valid_context_is_removed(headers):
    raw = b"rsmq-trace:1 " + headers + b"\nbody"

    assert TracedCodec(TEXT).decode(raw) == "body"
    assert not sent_in(raw).is_valid


def test_the_message_context_has_the_baggage_of_the_send_and_nothing_of_the_caller():
    token = context.attach(baggage.set_baggage("tenant", "ä b"))
    raw = stored(TracedCodec(TEXT), "body")
    context.detach(token)
    with TRACER.start_as_current_span("caller"):
        found = message_context(message(raw))

    assert baggage.get_all(found) == {"tenant": "ä b"}
    assert not get_current_span(found).get_span_context().is_valid


def test_a_codec_is_required():
    with refused(InvalidFormat, "Invalid codec format"):
        TracedCodec("json")


def test_errors_of_the_inner_codec_are_raised():
    with pytest.raises(TypeError):
        TracedCodec(JSON).encode({1, 2})
    with pytest.raises(ValueError, match="Expecting"):
        TracedCodec(JSON).decode(b"x")

    class Broken:
        def encode(self, body):
            return 1

        def decode(self, raw):
            return raw

    assert TracedCodec(Broken()).encode("x") == 1  # encode_body refuses it


def test_the_codec_shows_its_inner_codec_and_can_be_pickled():
    codec = pickle.loads(pickle.dumps(TracedCodec(JSON)))

    assert repr(codec) == "TracedCodec(rsmq.JSON)"
    assert codec.decode(b'rsmq-trace:1 {}\n{"a":1}') == {"a": 1}
