"""The names of partitions, and the partition of a key: both are stored or computed elsewhere."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import AsyncPartitions, InvalidFormat, InvalidValue, MissingParameter, Partitions
from rsmq.wire.partitions import names_of_partitions, partition_of_key
from tests.clusters import SLOTS, slot_of

#: docs/partitions.md has the same table, for programs in other languages.
OF_TWELVE = {"customer-7": 6, "customer-8": 0, "order 4711": 9, "Zoë": 0, "注文": 9}


def test_names_stay_the_same():
    assert names_of_partitions("shop", 1) == ["{shop.0of1.4hj}"]
    assert names_of_partitions("shop", 12) == [
        "{shop.0of12.45t}",
        "{shop.1of12.3ct}",
        "{shop.2of12.5zo}",
        "{shop.3of12.0ph}",
        "{shop.4of12.a5n}",
        "{shop.5of12.h5i}",
        "{shop.6of12.5jl}",
        "{shop.7of12.2xd}",
        "{shop.8of12.hdu}",
        "{shop.9of12.egj}",
        "{shop.10of12.9r3}",
        "{shop.11of12.0r4}",
    ]


def test_partitions_of_keys_stay_the_same():
    assert {key: partition_of_key(key, 12) for key in OF_TWELVE} == OF_TWELVE
    assert partition_of_key("customer-7", 1000) == 758


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 6, 12])
def test_nodes_with_equal_ranges_of_slots_differ_by_at_most_one_partition(nodes):
    for count in range(1, 97):
        slots = map(slot_of, names_of_partitions("shop", count))
        found = Counter(slot * nodes // SLOTS for slot in slots)
        each = [found[node] for node in range(nodes)]
        assert max(each) - min(each) <= 1, (count, each)
        if count % nodes == 0:
            assert set(each) == {count // nodes}


@given(ns=st.text(min_size=1).filter(lambda ns: not {"{", "}"} & {*ns}), count=st.integers(1, 1000))
def test_each_partition_lies_in_its_share_of_the_slots(ns, count):
    names = names_of_partitions(ns, count)
    assert [slot_of(name) * count // SLOTS for name in names] == list(range(count))
    assert all(name.startswith(f"{{{ns}.") for name in names)


@given(st.text(min_size=1, max_size=20), st.integers(1, 1000))
def test_each_key_has_one_partition(key, count):
    assert 0 <= partition_of_key(key, count) < count
    assert partition_of_key(key, count) == partition_of_key(key, count)


def test_keys_that_count_up_are_spread_evenly():
    found = Counter(partition_of_key(f"customer-{number}", 12) for number in range(12_000))
    assert found.keys() == set(range(12))
    assert 900 < min(found.values()) <= max(found.values()) < 1100


@pytest.mark.parametrize("kind", [Partitions, AsyncPartitions])
def test_wrong_arguments_are_refused(kind):
    def refused(error, text, **arguments):
        with pytest.raises(error) as caught:
            kind.from_url("redis://127.0.0.1:1", **{"ns": "shop", "count": 12, **arguments})
        assert str(caught.value) == text

    braces = "Pass a name without braces: each partition adds a hash tag of its own"
    refused(InvalidFormat, f"Invalid ns format: '{{shop}}'. {braces}", ns="{shop}")
    refused(InvalidFormat, f"Invalid ns format: ''. {braces}", ns="")
    refused(InvalidFormat, f"Invalid ns format: 7. {braces}", ns=7)
    whole = "Pass a whole number"
    refused(InvalidValue, f"count must be between 1 and 1000, not 0. {whole}", count=0)
    refused(InvalidValue, f"count must be between 1 and 1000, not 1001. {whole}", count=1001)
    refused(InvalidValue, f"count must be between 1 and 1000, not '12'. {whole}", count="12")
    with pytest.raises(InvalidFormat, match="lone surrogate"):
        kind.from_url("redis://127.0.0.1:1", ns="\ud800", count=12)
    with pytest.raises(TypeError, match=r"connect with \w*Partitions\.from_url"):
        kind()


@pytest.mark.parametrize("kind", [Partitions, AsyncPartitions])
def test_a_key_is_a_text_that_is_not_empty(kind):
    partitions = kind.from_url("redis://127.0.0.1:1", ns="shop", count=12)
    rule = "A key is a str, such as the id of a customer or of an order"
    for key, error, text in (
        (None, MissingParameter, f"No key supplied: got None. {rule}"),
        ("", MissingParameter, f"No key supplied: got ''. {rule}"),
        (7, InvalidFormat, f"Invalid key format: 7. {rule}"),
        (b"7", InvalidFormat, f"Invalid key format: b'7'. {rule}"),
    ):
        with pytest.raises(error) as caught:
            partitions.client_for(key)
        assert str(caught.value) == text
    with pytest.raises(InvalidFormat, match="lone surrogate"):
        partitions.client_for("\ud800")


def test_a_partition_is_shown():
    partitions = Partitions.from_url("redis://127.0.0.1:1", ns="shop", count=12)
    assert repr(partitions) == "Partitions(12 from '{shop.0of12.45t}')"
