"""
Names and ids as bytes: UTF-8, in which bytes that are not UTF-8 are kept as surrogates.
"""

from __future__ import annotations

from collections.abc import Collection

#: The hint of errors about names that have a lone surrogate.
NOT_ENCODABLE = "It contains a lone surrogate, which UTF-8 can't encode."


def encode_name(name: str) -> bytes:
    """Return the bytes in Redis of a queue name or message id."""
    return name.encode("utf-8", "surrogateescape")


def decode_name(raw: bytes) -> str:
    """Return the text of a queue name or message id that was read from Redis."""
    return raw.decode("utf-8", "surrogateescape")


def encode_names(names: Collection[str]) -> list[bytes]:
    """Return the bytes in Redis of many names or ids, in a third of the time of single calls."""
    raws = "\n".join(names).encode("utf-8", "surrogateescape").split(b"\n")
    # An id of another client may contain a line feed.
    return raws if len(raws) == len(names) else [encode_name(name) for name in names]


def decode_names(raws: Collection[bytes]) -> list[str]:
    """Return the texts of many names or ids that were read from Redis, in a third of the time."""
    names = b"\n".join(raws).decode("utf-8", "surrogateescape").split("\n")
    return names if len(names) == len(raws) else [decode_name(raw) for raw in raws]


def is_encodable(name: str) -> bool:
    """Return whether a name has no lone surrogate, except those that represent bytes."""
    try:
        encode_name(name)
    except UnicodeEncodeError:
        return False
    return True


def is_pattern(name: str) -> bool:
    """Return whether a name has a wildcard: ``*``, ``?`` or ``[``."""
    return any(wildcard in name for wildcard in "*?[")
