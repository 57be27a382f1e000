"""Codecs: bodies are encoded to bytes and decoded again."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgpack import Timestamp

from rsmq import BYTES, JSON, MSGPACK, TEXT, InvalidFormat
from rsmq.codecs import CannotEncode, check_codec
from tests.expect import refused

KEY_HINT = "As the key of a map, use a str, bytes, a number or a datetime."
TIME_HINT = "In UTC it is not between the years 1 and 9999."

ZONES = [timezone(timedelta(hours=hours)) for hours in (-14, 0, 14)]

SCALARS = st.none() | st.booleans() | st.text() | st.integers(-(2**63), 2**64 - 1)
TREES = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.text())
def test_text(body):
    assert TEXT.decode(TEXT.encode(body).encode()) == body


@given(st.binary())
def test_bytes(body):
    assert BYTES.decode(BYTES.encode(body)) == body
    assert BYTES.encode(bytearray(body)) == BYTES.encode(memoryview(body)) == body


@given(TREES)
def test_json(body):
    assert JSON.decode(JSON.encode(body).encode()) == body


@given(TREES | st.binary() | st.lists(st.binary()))
def test_msgpack(body):
    assert MSGPACK.decode(MSGPACK.encode(body)) == body


def test_msgpack_encodes_aware_datetimes_and_keys_of_any_type():
    body = {1: datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC), b"k": None}

    assert MSGPACK.decode(MSGPACK.encode(body)) == body


@pytest.mark.parametrize(
    ("body", "part", "hint"),
    [
        ({(1, 2): 3}, "tuple", KEY_HINT),
        ([{"a": {"b": [{"c": 1, (1,): 2}]}}], "tuple", KEY_HINT),
        (({(): 2},), "tuple", KEY_HINT),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "datetime", TIME_HINT),
        ({"at": [datetime.max.replace(tzinfo=ZONES[0])]}, "datetime", TIME_HINT),
        ({"a": Timestamp(2**40)}, "Timestamp", TIME_HINT),
    ],
)
def test_msgpack_refuses_what_it_could_not_decode(body, part, hint):
    with refused(CannotEncode, f"MSGPACK can't encode {part}") as caught:
        MSGPACK.encode(body)

    assert caught.error.hint == hint


@given(
    st.recursive(
        st.none() | st.integers() | st.datetimes(timezones=st.sampled_from(ZONES)) | st.text(),
        lambda parts: (
            st.lists(parts)
            | st.dictionaries(st.tuples(st.integers()) | st.text() | st.none(), parts)
        ),
    )
)
def test_msgpack_decodes_whatever_it_encodes(body):
    try:
        raw = MSGPACK.encode(body)
    except (CannotEncode, OverflowError, UnicodeEncodeError):
        return
    MSGPACK.decode(raw)


def test_json_is_compact_and_not_escaped():
    assert JSON.encode({"a": [1, "é😀"]}) == '{"a":[1,"é😀"]}'


@pytest.mark.parametrize("codec", [TEXT, BYTES, JSON, MSGPACK])
def test_codecs_can_be_pickled(codec):
    assert pickle.loads(pickle.dumps(codec)) is codec
    assert repr(codec).startswith("rsmq.")
    assert check_codec(codec) is codec


def test_any_object_with_both_methods_is_a_codec():
    class Own:
        def encode(self, body):
            return body

        def decode(self, raw):
            return raw

    own = Own()

    assert check_codec(own) is own


@pytest.mark.parametrize("value", ["json", None, 3, type(JSON)])
def test_an_invalid_codec_is_refused(value):
    with refused(InvalidFormat, "Invalid codec format"):
        check_codec(value)
