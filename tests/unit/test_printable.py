"""Texts for people: safe to print, and with nouns that agree with their numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rsmq
from rsmq.errors.printable import escape_unprintable, format_count


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("größe", "größe"),
        ("", ""),
        ("größe\x1b[31m", r"größe\x1b[31m"),
        ("a\nb\tc", r"a\nb\tc"),
        (b"\xffa\n", r"\xffa\n"),
        ("\udcff", r"\udcff"),
        ("a\u202eb", r"a\u202eb"),
    ],
)
def test_unprintable_characters_are_escaped(value, escaped):
    assert escape_unprintable(value) == escaped
    assert escape_unprintable(value).isprintable()


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 messages"), (1, "1 message"), (1234, "1,234 messages"), (1.0, "1 message")],
)
def test_a_noun_agrees_with_its_number(number, text):
    assert format_count(number) == text
    assert format_count(number, "more row") == text.replace("message", "more row")


def test_every_number_with_a_noun_of_the_library_is_formatted():
    """``f"{number} messages"`` is wrong for one message; constants may stand there."""
    nouns = "messages|queues|cells|workers|ids|rows|seconds|receives|bytes|secrets|processes"
    variable = r"\{(?![A-Z_]+(:[^}]*)?\})[^{}]*\}|%[ds]|%\.0f"
    pattern = re.compile(rf"({variable}) (more )?({nouns})\b")
    found = [
        f"{path.name}: {each[0]}"
        for path in Path(rsmq.__file__).parent.rglob("*.py")
        for each in pattern.finditer(path.read_text())
    ]

    assert found == []
