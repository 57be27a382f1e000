"""Ids of migrated messages: Node's form, the time that they contain, and their order."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rsmq.migrate.ids_and_scores import (
    NumberedIds,
    derive_id,
    derive_numbered_id,
    encode_time,
    make_digest,
)
from rsmq.wire.ids import check_id, parse_sent_us

NODES_ID = re.compile(r"[0-9a-z]{10}[A-Za-z0-9]{22}")

# From 2010, the earliest time that parsers of ids accept, to the largest with ten digits.
times = st.integers(1_262_304_000_000_000, 36**10 - 1)
kinds = st.sampled_from(["rfq", "list", "rqueue", "redisrq", "rsmq"])
identities = st.binary(max_size=80)


def sent_us(id):
    """Return the time that a parser finds in the id."""
    return parse_sent_us(id, int(id[:10], 36) // 1000)


@given(times)
def test_ten_digits_contain_the_microsecond(us):
    assert int(encode_time(us), 36) == us
    assert len(encode_time(us)) == 10


@given(times, kinds, identities)
def test_derived_id_has_nodes_form_and_is_deterministic(us, kind, identity):
    id = derive_id(us, kind, identity)

    assert NODES_ID.fullmatch(id)
    assert id == derive_id(us, kind, identity)
    assert check_id(id) == id
    assert int(id[:10], 36) == us
    # An id that could be the hexadecimal digits of a uuid has no time; that needs 22 such digits.
    assert sent_us(id) == us or re.fullmatch("[0-9a-f]{32}", id)


@given(times, kinds, kinds, identities, identities)
def test_messages_of_different_sources_get_different_ids(us, kind, other_kind, identity, other):
    is_same = (kind, identity) == (other_kind, other)

    assert (derive_id(us, kind, identity) == derive_id(us, other_kind, other)) is is_same
    assert (make_digest(kind, identity) == make_digest(other_kind, other)) is is_same


@given(kinds, identities)
def test_digest_has_sixteen_characters_without_a_space(kind, identity):
    """The fields of a staged message are separated by spaces."""
    assert re.fullmatch(rb"[A-Za-z0-9+/]{16}", make_digest(kind, identity))


@given(times, kinds, st.lists(st.integers(0, 62**6 - 1), min_size=2, unique=True), identities)
def test_numbered_ids_of_equal_time_sort_by_number(us, kind, numbers, identity):
    ids = [derive_numbered_id(us, number, kind, identity) for number in sorted(numbers)]

    assert all(NODES_ID.fullmatch(id) for id in ids)
    assert ids == sorted(ids)
    assert {int(id[:10], 36) for id in ids} == {us}


@given(st.lists(times, min_size=1, max_size=60))
def test_new_ids_of_equal_time_sort_by_creation(times_us):
    ids = NumberedIds()
    created = [ids.make(us) for us in times_us for _ in range(2)]

    assert [int(id[:10], 36) for id in created] == [us for us in times_us for _ in range(2)]
    assert all(NODES_ID.fullmatch(id) for id in created)
    assert sorted(created, key=lambda id: id[:10]) == sorted(created)
    assert len(set(created)) == len(created)
