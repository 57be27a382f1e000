"""The text form of bodies with steps: what is written is read, and nothing else is."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq.wire.body_format import (
    BodyStep,
    FormatError,
    FormattedBody,
    add_origin,
    describe,
    headers_of,
    is_formatted,
    key_id_of,
    name_object,
    owned_object,
    parse_body,
    stored_size,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
steps = st.builds(
    BodyStep,
    st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=12),
    st.lists(text, max_size=3).filter(lambda found: found != [""]).map(tuple),
)
bodies = st.builds(
    FormattedBody,
    st.lists(steps, max_size=4, unique_by=lambda step: step.name).map(tuple),
    st.binary(max_size=200),
    st.none() | st.binary(min_size=1, max_size=30),
    st.dictionaries(text, text, max_size=3),
)


@given(bodies)
def test_a_body_is_read_as_it_was_written(body):
    written = body.format()

    assert written.isascii()
    assert is_formatted(written.encode())
    assert parse_body(written.encode()) == body
    assert headers_of(written.encode()) == body.headers


@given(bodies, st.binary(min_size=1, max_size=30), st.binary(max_size=10))
def test_an_origin_is_added_once(body, origin, other):
    raw = body.format().encode()
    moved = add_origin(raw, origin)

    expected = body.origin or origin
    assert parse_body(moved) == FormattedBody(body.steps, body.payload, expected, body.headers)
    assert add_origin(moved, b"rsmq:elsewhere") == moved
    assert add_origin(other, origin) == other


@given(st.binary(max_size=60))
def test_any_bytes_behind_the_prefix_are_read_or_refused(rest):
    for raw in (b"rsmq-body/" + rest, b"rsmq-body/1:" + rest):
        with contextlib.suppress(FormatError):
            parse_body(raw)
        assert describe(raw)
        assert add_origin(raw, b"rsmq:orders").startswith(b"rsmq-body/")
        headers_of(raw)
        key_id_of(raw)


def test_the_form_is_this_text():
    steps = (BodyStep("zstd", ("10240",)), BodyStep("aes256gcm", ("k2",)))
    body = FormattedBody(steps, b"\0\1\2", b"rsmq:orders", {"a": "b"})

    assert body.format() == (
        "rsmq-body/1:zstd=10240,aes256gcm=k2:"
        "from=rsmq%3Aorders;headers=%7B%22a%22%3A%22b%22%7D:AAEC"
    )
    assert describe(body.format().encode()) == (
        "compressed (zstd, 10,240 bytes) and encrypted (key k2)"
    )
    assert key_id_of(body.format().encode()) == "k2"
    assert describe(b"{}") == ""
    assert key_id_of(b"{}") is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"rsmq-body/2:x::", "The body has version 2 of the format of bodies"),
        (b"rsmq-body/:x::", "The body begins as one in the format of bodies, and is damaged"),
        (b"rsmq-body/1:zlib", "The body begins as one in the format of bodies, and is damaged"),
        (b"rsmq-body/1:::AAE", "The payload of the body is not base64"),
        (b"rsmq-body/1:::AA\nEC", "The payload of the body is not base64"),
        (b"rsmq-body/1::headers=x:", "The headers of the body are damaged"),
        (b"rsmq-body/1::headers=%5B%5D:", "The headers of the body are damaged"),
        (b"rsmq-body/1:zlib=9,zlib=9::", "The body has a step twice, and is damaged"),
        (b"rsmq-body/1:zlib=%ff::", "The format of the body is damaged"),
    ],
)
def test_a_damaged_body_is_named(raw, text):
    with pytest.raises(FormatError) as caught:
        parse_body(raw)
    assert str(caught.value) == text


def test_a_newer_version_names_the_remedy():
    with pytest.raises(FormatError) as caught:
        parse_body(b"rsmq-body/12:x::")
    assert caught.value.hint == "Update rsmq: this version reads version 1."


ID = "hocfdlzqs8mf9oJypfX0YbIG5vOe9dTs"


def test_a_message_owns_the_object_that_its_id_names():
    name = name_object(ID.encode())
    assert name == name_object(ID[-22:].encode()) == name_object(f"{ID[:-2]}Gr".encode())
    reference = f"rsmq-body/1:zstd=9,stored={name}/123/{'0' * 64}::".encode()
    assert owned_object(reference, ID) == name
    assert stored_size(reference) == 123
    assert owned_object(add_origin(reference, b"rsmq:orders"), ID) is None
    assert owned_object(reference, f"{ID[:-5]}AAAAA") is None
    for other in (
        b"5",
        b"rsmq-body/1:zstd=9::",
        b"rsmq-body/1:stored=:x",
        b"rsmq-body/2:stored=9::",
    ):
        assert owned_object(other, ID) is None
        assert stored_size(other) is None


@given(st.binary(max_size=60), st.text(max_size=40))
def test_any_bytes_have_no_owner_or_one_object(raw, id):
    for each in (raw, b"rsmq-body/1:stored=" + raw):
        assert owned_object(each, id) in {None, name_object(id.encode("utf-8", "surrogateescape"))}
