"""The numpy forms of requests, ids and scores give the bytes and values of the plain ones."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from rsmq.spark.connections import pack_fields
from rsmq.spark.read.record_batch import build_arrow_schema, build_record_batch, decode_lossy
from rsmq.spark.read.scan import SeenIds, parse_scores
from rsmq.spark.read.schema import make_fields
from rsmq.transport.packing import pack
from rsmq.wire import ids as wire_ids
from rsmq.wire.id_arrays import make_joined_suffixes, parse_sent_us_array
from rsmq.wire.ids import make_id_suffixes, parse_sent_us
from rsmq.wire.keys import Namespace

NODE_IDS = st.builds(
    lambda time, number: time.encode() + make_id_suffixes(number + 1)[number],
    st.text("0123456789abcdefghijklmnopqrstuvwxyz", min_size=10, max_size=10),
    st.integers(0, 5),
)
OTHER_IDS = st.one_of(
    st.binary(max_size=40),
    st.text("0123456789abcdefXYZ:-", min_size=20, max_size=44).map(str.encode),
    st.text("0123456789abcdef", min_size=32, max_size=32).map(str.encode),
    st.text("0123456789", min_size=32, max_size=32).map(str.encode),
)


@given(st.one_of(st.lists(NODE_IDS), st.lists(st.one_of(NODE_IDS, OTHER_IDS))))
def test_sent_times_are_those_of_single_ids(ids):
    us, is_missing = parse_sent_us_array(ids)
    times = [
        None if is_missing is not None and is_missing[place] else int(us[place])
        for place in range(len(ids))
    ]
    assert times == [parse_sent_us(id.decode("utf-8", "surrogateescape")) for id in ids]


@given(
    st.one_of(st.lists(NODE_IDS, min_size=1), st.lists(st.one_of(NODE_IDS, OTHER_IDS), min_size=1)),
    st.lists(st.sampled_from([b"", b":rc", b":fr"]), min_size=1, max_size=3),
)
def test_a_request_has_the_bytes_of_hiredis(ids, suffixes):
    fields = [id + suffix for id in ids for suffix in suffixes]
    packed = b"".join(map(bytes, pack_fields(b"ns:q:Q", ids, suffixes)))
    assert packed == b"".join(pack((b"HMGET", b"ns:q:Q", *fields)))


ID_SCHEMA = build_arrow_schema(StructType([make_fields(is_binary=False)["id"]]))


@settings(max_examples=40)
@given(st.one_of(st.lists(NODE_IDS), st.lists(st.one_of(NODE_IDS, OTHER_IDS))))
def test_ids_in_a_frame_are_those_of_single_ids(ids):
    batch = build_record_batch(ID_SCHEMA, Namespace().queue("q"), {"id": ids})
    batch.validate(full=True)
    assert batch.column("id").to_pylist() == [decode_lossy(id) for id in ids]


@given(
    st.one_of(
        st.lists(st.integers(10**12, 10**13 - 1)),
        st.lists(st.one_of(st.integers(0, 2**63), st.floats(allow_nan=False))),
    )
)
def test_scores_are_those_of_float(numbers):
    texts = [b"%r" % number for number in numbers]
    assert list(parse_scores(texts)) == [float(text) for text in texts]


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 30).map(b"%d".__mod__))))
def test_ids_of_a_scan_come_once(steps):
    seen, found = SeenIds(), []
    for ids in steps:
        found += seen.drop_seen([value for id in ids for value in (id, b"score of " + id)])
    assert found[1::2] == [b"score of " + id for id in found[::2]]
    assert found[::2] == list(dict.fromkeys(id for ids in steps for id in ids))


def test_joined_suffixes_are_sorted_ones(monkeypatch):
    characters = b"".join(make_id_suffixes(50)[::-1])
    monkeypatch.setattr(wire_ids.os, "urandom", lambda _: characters + bytes(22))
    monkeypatch.setattr(wire_ids, "_TO_ALPHABET", bytes(range(256)))
    assert make_joined_suffixes(50) == b"".join(make_id_suffixes(50))
    assert make_joined_suffixes(50) == b"".join(sorted(make_id_suffixes(50)))
    assert make_joined_suffixes(0) == b""
