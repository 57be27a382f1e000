"""Text that is safe to print."""

from __future__ import annotations

import pytest

from rsmq.printable import escape_unprintable


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
