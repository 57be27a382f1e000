"""
Text that is safe to print: names and bodies may hold control characters of terminals.
"""

from __future__ import annotations


def escape_unprintable(value: str | bytes) -> str:
    """Return a text whose unprintable characters, and bytes that are not UTF-8, are escaped."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
