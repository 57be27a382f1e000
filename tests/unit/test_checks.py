"""The checks in scripts/checks find the faults that they search for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "scripts" / "checks"


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "source",
    [
        'key = name + b":Q"',
        'key = f"{ns}:QUEUES"',
        'field = "x:dlq"',
        'key = b"rsmq:x:acked"',
        'fields = ("totalrecv", "totalsent")',
        'count = id + ":rc"',
    ],
)
def test_a_key_or_field_in_code_is_found(source):
    assert load("key_names").spelled(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A queue is the hash ns:q:Q"""',
        'hint = "Look at it with HGETALL rsmq:q:Q"',
        "total = attributes.total_sent",
        'option = "--max"',
    ],
)
def test_keys_in_texts_for_people_are_allowed(source):
    assert not load("key_names").spelled(source)


def test_a_class_name_that_is_used_twice_is_found():
    sources = {"a.py": "class Lease: ...\n", "b.py": "class Lease: ...\nclass Other: ...\n"}

    assert load("class_names").repeated(sources) == {"Lease": ["a.py", "b.py"]}
