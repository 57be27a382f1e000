"""The specifications of what is stored have each key, and each record of a message."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rsmq.vocabulary.stored import MESSAGE_RECORDS
from rsmq.wire.keys import Namespace, _NamespaceKey

COMPAT = Path(__file__).parents[2] / "compat"
QUEUE = Namespace("NS").queue("Q")
KEYS = [
    *(each.decode() for each in QUEUE.extensions),
    *(
        getattr(Namespace("NS"), name).decode()
        for name, each in vars(Namespace).items()
        if isinstance(each, _NamespaceKey)
    ),
]


@pytest.mark.parametrize("key", KEYS)
def test_the_protocol_has_each_key(key):
    protocol = (COMPAT / "PROTOCOL.md").read_text()
    assert f"`{key}`" in protocol or f"`{key.removeprefix('NS:Q:')}`" in protocol


def test_the_format_of_exports_has_each_value_of_a_record():
    text = (COMPAT / "EXPORT.md").read_text()
    rows = text.partition("| `message` | `queue` |")[2].partition("| `end` |")[0]
    named = {
        name
        for row in re.findall(r"^\| \| (.*?) \|", rows, re.MULTILINE)
        for name in re.findall(r"\w+", row)
    }
    assert named >= {value.field for record in MESSAGE_RECORDS for value in record.values}
