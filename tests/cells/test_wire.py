"""The namespaces of cells, and the ids of their messages."""

from __future__ import annotations

import copy
import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import InvalidFormat, InvalidValue, MissingParameter
from rsmq.cells.messages import add_cell, group_messages, to_stored
from rsmq.codecs import TEXT
from rsmq.model import make_received_message
from rsmq.wire.cells import MAX_CELLS, cell_of_key, check_set, join_id, name_of_cell, split_id
from tests.clusters import slot_of

ID = "hoftr3aqr809RIedwa8CRMbsWFtlwrpT"


@pytest.mark.parametrize("ns", ["rsmq", "x", "a-long-name-of-a-set", "grüße"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 6, 12])
def test_any_number_of_cells_is_spread_evenly(ns, nodes):
    borders = [round(index * 16384 / nodes) for index in range(nodes + 1)]
    loads = Counter()
    for index in range(MAX_CELLS):
        slot = slot_of(name_of_cell(ns, index))
        loads[next(node for node in range(nodes) if slot < borders[node + 1])] += 1
        assert max(loads.values()) == -(-(index + 1) // nodes)


@pytest.mark.parametrize("nodes", [5, 7, 8, 9, 10, 11])
def test_other_numbers_of_nodes_have_at_most_two_cells_more_than_necessary(nodes):
    borders = [round(index * 16384 / nodes) for index in range(nodes + 1)]
    loads = Counter()
    for index in range(256):
        slot = slot_of(name_of_cell("rsmq", index))
        loads[next(node for node in range(nodes) if slot < borders[node + 1])] += 1
        assert max(loads.values()) <= -(-(index + 1) // nodes) + 2


def test_names_are_stable():
    """Stored data depends on them."""
    names = [name_of_cell("rsmq", index) for index in (0, 1, 2, 11, 12, 999)]
    assert names == [
        "{rsmq.0.b0a}", "{rsmq.1.c5t}", "{rsmq.2.6wv}", "{rsmq.11.0fz}", "{rsmq.12.iee}",
        "{rsmq.999.3q4}",
    ]  # fmt: skip


def test_cells_of_keys_are_stable():
    assert [cell_of_key(key, 12) for key in ("", "a", "user-1", "user-2")] == [0, 11, 8, 8]


@given(st.integers(0, 11), st.text("abcXYZ019:_-", min_size=20, max_size=64))
def test_ids_are_joined_and_split(cell, id):
    assert split_id(join_id(cell, id), 12) == (cell, id)


@pytest.mark.parametrize(
    "id", [ID, "550e8400-e29b-41d4-a716-446655440000", f"007-{ID}", f"1000-{ID}", "1-" + "a" * 19]
)
def test_bare_ids_have_no_cell(id):
    """A number with zeros in front, of four digits, or before too few characters is not a cell."""
    assert split_id(id, 1000) == (None, id)


@pytest.mark.parametrize(
    ("id", "error"),
    [(None, MissingParameter), ("", MissingParameter), ("x", InvalidFormat), (5, InvalidFormat),
     ("12-" + ID, InvalidValue), ("3-" + "ä" * 32, InvalidFormat)],
)  # fmt: skip
def test_ids_that_are_refused(id, error):
    with pytest.raises(error):
        split_id(id, 12)


@pytest.mark.parametrize("ns", ["{rsmq}", "a}", "", None, 7])
def test_names_of_sets_that_are_refused(ns):
    with pytest.raises(InvalidFormat, match="no braces"):
        check_set(ns, 3)


@pytest.mark.parametrize("number", [0, 1001, -1, 1.5, "3", None, True])
def test_numbers_of_cells_that_are_refused(number):
    with pytest.raises((InvalidValue, InvalidFormat)):
        check_set("rsmq", number)


def test_messages_of_cells_can_be_copied_and_compared():
    message = make_received_message("q", ID, b"body", 2, 5, TEXT)
    found = add_cell(7, message)
    assert found is message
    assert (found.id, found.cell, found.body) == ("7-" + ID, 7, "body")
    assert repr(found).startswith(f"CellMessage(queue='q', id='7-{ID}', raw=<4 bytes>")
    for other in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert other == found
        assert hash(other) == hash(found)
        assert other.cell == 7
    assert add_cell(6, make_received_message("q", ID, b"body", 2, 5, TEXT)) != found
    stored = to_stored(found)
    assert (stored.id, type(stored).__name__) == (ID, "Message")
    assert stored.sent_ms == found.sent_ms
    assert group_messages([found], 12) == {7: {("q", 2): {ID: 0}}}
