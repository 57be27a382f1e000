"""The numpy forms of requests and ids give the bytes and times of the plain ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rsmq.spark.read.field_request import pack_fields
from rsmq.transport.socket import pack
from rsmq.wire.id_arrays import parse_sent_us_array
from rsmq.wire.ids import make_id_suffixes, parse_sent_us

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
