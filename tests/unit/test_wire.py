"""Keys, names, ids and numbers as they are stored in Redis."""

from __future__ import annotations

import enum
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import InvalidFormat, InvalidValue, MissingParameter
from rsmq.wire.ids import (
    ID_ALPHABET,
    has_reserved_ids,
    make_id_suffix,
    parse_sent_us,
    parse_sent_us_many,
)
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import check_maxsize, check_seconds, to_milliseconds, utf16_length
from rsmq.wire.names import decode_name, decode_names, encode_name, encode_names
from rsmq.wire.stored import parse_maxsize, parse_number, parse_seconds, parse_time
from rsmq.wire.streams import StreamInfo, parse_streams
from tests.expect import refused

NAMES = st.text("abcXYZ019_-", min_size=1, max_size=160)
MICROSECONDS = st.integers(1_262_304_000_000_000, 36**10 - 1)


def base36(number):
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


@given(NAMES)
def test_keys_are_those_of_node(name):
    keys = Namespace("rsmq").queue(name)

    assert keys.zset == f"rsmq:{name}".encode()
    assert keys.hash == f"rsmq:{name}:Q".encode()
    assert keys.channel == f"rsmq:rt:{name}".encode()
    assert Namespace("rsmq").queues == b"rsmq:QUEUES"


@given(st.text())
def test_a_name_is_refused_or_has_keys(name):
    """Any text is either accepted or refused with an error of the library."""
    plain = name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()
    if plain and len(name) <= 160 and name != "QUEUES":
        assert Namespace().queue(name).name == name
    else:
        with pytest.raises((InvalidFormat, MissingParameter)):
            Namespace().queue(name)


@given(st.text(min_size=1))
def test_without_strict_names_keys_of_queues_never_collide(name):
    tolerant = Namespace(strict_names=False)
    try:
        keys = tolerant.queue(name)
    except InvalidFormat:
        is_reserved = name == "QUEUES" or name.endswith(":Q") or ":x:" in f":{name}"
        assert is_reserved or not encodable(name)
    else:
        assert keys.zset != tolerant.queues
        assert name == "Q" or not keys.zset.endswith(b":Q")


@given(
    st.text(alphabet="ax:", min_size=1, max_size=6),
    st.sampled_from(["x:dedup", "x:workers", "x:acked", "x:held:w", "q:x:leases", "q", ""]),
    st.text(alphabet="ax:", max_size=3),
)
def test_without_strict_names_no_queue_has_a_key_of_extension_data(before, end, more):
    tolerant = Namespace(strict_names=False)
    of_namespace = {tolerant.workers, tolerant.written, tolerant.acknowledged, tolerant.held("w")}
    found = []
    for name in {before, f"{before}:{end}", end, f"{end}{more}"} - {""}:
        try:
            found.append(tolerant.queue(name))
        except InvalidFormat:
            assert name.endswith(":Q") or ":x:" in f":{name}"
    extensions = of_namespace.union(*(keys.extensions for keys in found))
    assert not extensions & {key for keys in found for key in (keys.zset, keys.hash)}


@pytest.mark.parametrize("name", ["q:x:dedup", "a:x:", "x:workers", "x:held:w", ":x:"])
def test_a_name_that_could_be_a_key_of_extension_data_is_refused(name):
    with pytest.raises(InvalidFormat, match="Invalid qname format") as caught:
        Namespace(strict_names=False).queue(name)
    assert caught.value.value == name
    assert "Use another name" in caught.value.hint
    with pytest.raises(InvalidFormat) as by_strict_names:
        Namespace().queue(name)
    assert by_strict_names.value.hint == caught.value.hint
    assert Namespace(strict_names=False).queue("q:x").zset == b"rsmq:q:x"
    assert Namespace().queue("x").zset == b"rsmq:x"


def encodable(text):
    return not any(0xD800 <= ord(character) <= 0xDC7F or 0xDD00 <= ord(character) <= 0xDFFF
                   for character in text)  # fmt: skip


def test_a_name_may_be_a_member_of_an_enum():
    class Name(str, enum.Enum):  # noqa: UP042 - older programs have such enums
        ORDERS = "orders"

    keys = Namespace().queue(Name.ORDERS)

    assert (keys.name, type(keys.name), keys.zset) == ("orders", str, b"rsmq:orders")


@pytest.mark.parametrize(
    ("ns", "kind", "text"),
    [
        ("", MissingParameter, "No ns supplied"),
        (None, MissingParameter, "No ns supplied"),
        (b"rsmq", InvalidFormat, "Invalid ns format"),
        ("\ud800", InvalidFormat, "Invalid ns format"),
    ],
)
def test_an_invalid_namespace_is_refused(ns, kind, text):
    with refused(kind, text):
        Namespace(ns)


def test_a_queue_whose_keys_would_be_another_queues_is_refused():
    with refused(InvalidFormat, "Invalid qname format"):
        Namespace("rsmq:a").queue("Q")

    assert Namespace("rsmq").queue("Q").zset == b"rsmq:Q"


@pytest.mark.parametrize(
    ("ns", "tag"),
    [
        ("rsmq", None),
        ("{rsmq}", "rsmq"),
        ("a{b}c{d}", "b"),
        ("{}", None),
        ("{}{a}", None),
        ("a}{", None),
        ("{a", None),
    ],
)
def test_the_hash_tag_is_found_as_redis_cluster_finds_it(ns, tag):
    assert Namespace(ns).hash_tag == tag


@given(st.binary())
def test_names_and_ids_of_any_bytes_are_decoded_and_encoded_unchanged(raw):
    assert encode_name(decode_name(raw)) == raw


@pytest.mark.parametrize(
    "raws", [[], [b""], [b"a", b"b"], [b"a\nb", b"c"], [b"\n", b"\xff\xe4", "é".encode()]]
)
def test_many_names_are_decoded_like_single_ones(raws):
    names = decode_names(raws)

    assert names == [decode_name(raw) for raw in raws]
    assert encode_names(names) == raws


@given(MICROSECONDS)
def test_the_time_of_an_id_in_nodes_form(us):
    id = base36(us) + "A" * 22

    assert len(id) == 32
    assert parse_sent_us(id) == parse_sent_us(id.upper()) == us
    assert parse_sent_us(id, us // 1000) == us
    assert parse_sent_us(id, us // 1000 - 86_400_001) is None


@given(st.integers(1_262_304_000_000, 36**8 - 1))
def test_the_time_of_an_id_in_milliseconds(ms):
    assert parse_sent_us(base36(ms).zfill(8) + "A" * 22) == ms * 1000


@given(st.integers(1_262_304_000, 36**6 - 1))
def test_the_time_of_an_id_in_seconds(seconds):
    id = base36(seconds).zfill(6) + "A" * 22

    assert len(id) == 28
    assert parse_sent_us(id) == seconds * 1_000_000


def test_the_time_of_an_id_in_milliseconds_times_a_million():
    id = base36(1_700_000_000_123 * 10**6) + "A" * 22

    assert len(id) == 34
    assert parse_sent_us(id) == 1_700_000_000_123_000


@given(st.text(max_size=64))
def test_any_id_has_a_plausible_time_or_none(id):
    us = parse_sent_us(id, 1_800_000_000_000)

    assert us is None or 1_262_304_000_000_000 <= us <= 1_800_086_400_000_000


def test_ids_from_uuids_have_no_time():
    assert parse_sent_us("f0f0f0f0f0" + "0" * 22) is None


def test_the_random_part_of_an_id():
    suffixes = {make_id_suffix() for _ in range(1000)}

    assert len(suffixes) == 1000
    assert {len(suffix) for suffix in suffixes} == {22}
    assert set(b"".join(suffixes)) == set(ID_ALPHABET)
    assert len(ID_ALPHABET) == 62


@given(st.floats(0, 9_999_999) | st.integers(0, 9_999_999))
def test_seconds_of_a_call_become_milliseconds(seconds):
    assert abs(to_milliseconds("vt", seconds) - seconds * 1000) <= 0.5


@given(
    st.integers(max_value=-1)
    | st.integers(10_000_000)
    | st.floats(max_value=-0.001)
    | st.floats(10_000_000)
    | st.just(float("nan"))
    | st.booleans()
    | st.text()
    | st.none()
    | st.binary()
    | st.lists(st.integers())
)
def test_an_invalid_number_of_seconds_is_refused(value):
    for rule in (to_milliseconds, check_seconds):
        with refused(InvalidValue, "vt must be between 0 and 9999999"):
            rule("vt", value)


@given(st.floats(0.001, 9_999_998.9).filter(lambda value: not value.is_integer()))
def test_seconds_of_a_queue_are_integers(value):
    with refused(InvalidValue, "delay must be between 0 and 9999999") as caught:
        check_seconds("delay", value)

    assert "whole" in caught.error.hint


@given(st.integers(1024, 65536) | st.just(-1))
def test_a_maxsize_in_range_is_valid(value):
    assert check_maxsize(value) == check_maxsize(float(value)) == value


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"30", 30),
        (b"-1", -1),
        (b"+5", 5),
        (b"0.5", 0.5),
        (b".5", 0.5),
        (b"5.", 5),
        (b"1e3", None),
        (b"0x10", None),
        (b"inf", None),
        (b"nan", None),
        (b"", None),
        (b".", None),
        (b"-", None),
        (b" 1", None),
        (b"1\n", None),
        (b"1" * 21, None),
        (None, None),
    ],
)
def test_stored_numbers(raw, number):
    assert parse_number(raw) == number


@given(st.binary(max_size=30))
def test_parsers_of_stored_values_never_raise(raw):
    parse_number(raw)
    parse_maxsize(raw)
    parse_seconds(raw)
    parse_time(raw)


def test_stored_times():
    assert parse_time(b"1700000000") == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert parse_time(b"1700000000000") == parse_time(b"1700000000")
    assert parse_time(b"2026-01-02T03:04:05Z") is None


@given(st.text())
def test_utf16_units(text):
    expected = sum(2 if ord(character) > 0xFFFF else 1 for character in text)

    assert utf16_length(text) == expected


@given(
    st.lists(
        st.one_of(
            st.from_regex(r"[0-9a-z]{10}[A-Za-z0-9]{22}", fullmatch=True),
            st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
            st.text("abzAZ09:_-", min_size=20, max_size=42),
        )
    )
)
def test_the_times_of_many_ids_equal_those_of_single_ids(ids):
    raws = [id.encode() for id in ids]

    assert parse_sent_us_many(raws) == [parse_sent_us(id) for id in ids]


@pytest.mark.parametrize(
    ("raws", "expected"),
    [([], False), ([b"a", b"b"], False), ([b"a", b"x:b"], True), ([b"vt", b"a"], True)],
)
def test_reserved_ids_are_found_among_many(raws, expected):
    assert has_reserved_ids(raws) is expected


@pytest.mark.parametrize(
    "entry",
    [
        b'[Infinity, "s", {"q": 1}]',
        b'[900, "s", {"q": Infinity}]',
        b'[900, "s", {"q": "many"}]',
        b'[900, "s", {"q": null}]',
        b'[900, "s", ["q"]]',
        b'[900, "s", [["q", 1]]]',
        b'{"ms": 900}',
        b"\xff",
    ],
)
def test_an_entry_of_a_stream_of_another_form_is_left_out(entry):
    found = parse_streams({b"bad": entry, b"good": b'[900, "s", {"q": 2}]'}, 1000)
    assert found == {"good": StreamInfo("s", 900, {"q": 2})}
