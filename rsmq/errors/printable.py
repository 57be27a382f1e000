"""
Text for people: safe to print, and with nouns that agree with their numbers.

Names and bodies may hold control characters of terminals.
"""

from __future__ import annotations


def escape_unprintable(value: str | bytes) -> str:
    """Return a text whose unprintable characters, and bytes that are not UTF-8, are escaped."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def format_count(number: float, noun: str = "message") -> str:
    """Return a number with a noun, as in "1 message" or "1,000 messages"."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}{'s' * (number != 1)}"
