"""The table of a queue's attributes, and the lists that are compared with it."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import RSMQ, AsyncRSMQ, InvalidValue, QueueAttributes
from rsmq.vocabulary.queues import (
    ATTRIBUTE_FIELDS,
    COPIED_ATTRIBUTES,
    CREATE,
    QUEUE_ATTRIBUTES,
    REQUIRED_ATTRIBUTES,
    SET,
    read_attributes,
)
from rsmq.vocabulary.sends import ValueKind
from rsmq.wire.fields import NODE_ATTRIBUTES

ROOT = Path(__file__).parents[2]
#: What is counted, and not stored.
COUNTED = {"messages", "hidden_messages", "visible_messages", "next_due_ms"}
NUMBERS = [each for each in CREATE.options.values() if each.high is not None]


def test_the_model_has_each_attribute_and_its_default():
    of_model = {each.name: each.default for each in fields(QueueAttributes)}

    assert of_model.keys() - COUNTED == {each.name for each in QUEUE_ATTRIBUTES}
    for each in QUEUE_ATTRIBUTES:
        assert of_model[each.name] in {MISSING, each.default}, each.name


def test_each_attribute_is_set_by_methods_that_both_clients_have():
    for each in QUEUE_ATTRIBUTES:
        assert all(hasattr(kind, name) for name in each.calls for kind in (RSMQ, AsyncRSMQ))
        assert each.calls or not each.is_copied, each.name


def test_a_queue_that_is_created_has_a_value_for_each_argument():
    for each in CREATE.options.values():
        assert each.default_in(CREATE) is not None, each.name
        assert each.parse(each.encode(each.default_in(CREATE))) == each.default, each.name
        assert (each in REQUIRED_ATTRIBUTES) != (each.removing is not None), each.name


@pytest.mark.parametrize("attribute", NUMBERS, ids=lambda each: each.name)
def test_a_number_is_checked_stored_and_read_as_its_range_says(attribute):
    low, high = int(attribute.low), int(attribute.high)
    for value in {low, high, attribute.unlimited} - {None, attribute.removing}:
        assert attribute.encode(value) == b"%d" % value
        assert attribute.parse(b"%d" % value) == attribute.fit(value) == value
    for value in (low - 2, high + 1, low + 0.5, "5", True):
        with pytest.raises(InvalidValue) as caught:
            attribute.encode(value)
        assert str(caught.value).startswith(f"{attribute.name} must be between {low} and {high}")
    assert attribute.fit(high + 1) == high
    assert attribute.fit(low + 0.5) == low + 1
    if attribute.kind is ValueKind.SECONDS:
        assert attribute.text.endswith(("0 to 9,999,999.", "0 to 9,999,999; 0 is never."))


@given(st.binary(max_size=30))
def test_values_of_other_clients_are_read_without_an_error(raw):
    assert QueueAttributes(
        **read_attributes(dict.fromkeys(ATTRIBUTE_FIELDS, raw)), **dict.fromkeys(COUNTED, 0)
    )


def test_the_fields_that_other_clients_know_are_those_of_node():
    assert {each.encode() for each in ATTRIBUTE_FIELDS if ":" not in each} == NODE_ATTRIBUTES
    assert all(len(each) < 20 for each in ATTRIBUTE_FIELDS)


def test_each_attribute_is_described_where_its_calls_are():
    for call in (CREATE, SET):
        for name, each in call.options.items():
            text = " ".join(getattr(RSMQ, call.name).__doc__.split())
            assert f"{name}: {each.detail}" in text


def test_the_documents_have_each_attribute():
    export = (ROOT / "compat" / "EXPORT.md").read_text()
    rows = export.partition("| `queue` | `queue` |")[2].partition("| `message` |")[0]
    named = {
        name
        for row in re.findall(r"^\| \| (.*?) \|", rows, re.MULTILINE)
        for name in re.findall(r"\w+", row)
    }
    assert named >= {each.name for each in QUEUE_ATTRIBUTES}

    protocol = (ROOT / "compat" / "PROTOCOL.md").read_text()
    assert all(f"`{field}`" in protocol for field in ATTRIBUTE_FIELDS)


def test_copies_have_all_settings():
    assert {each.name for each in QUEUE_ATTRIBUTES} - {each.name for each in COPIED_ATTRIBUTES} == {
        "total_received", "total_sent", "created", "modified",
    }  # fmt: skip
