"""
The groups of messages as they are stored, and the rates of keys.

A group is its name. The group of a limit key is the byte 1, how many of its messages may run at a
time, a colon, and the key; 0 stands for a key that has a rate and no such limit.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rsmq.errors import InvalidFormat
from rsmq.wire.limits import check_label
from rsmq.wire.names import decode_name
from rsmq.wire.throttle import check_rate

_LIMIT_MARK = b"\1"
_LIMIT = re.compile(rb"\x01(\d{1,4}):(.+)", re.DOTALL)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class GroupName(NamedTuple):
    """
    The group of a message, as a caller sees it.

    Attributes:
        group: its name; None if it is that of a limit key.
        limit_key: the key; None for another group.
        max_running: how many messages of the limit key may run at a time; None for another group.
    """

    group: str | None = None
    limit_key: str | None = None
    max_running: int | None = None


def check_group(value: object) -> bytes:
    """
    Check the name of a group, and return it as it is stored.

    Raises:
        InvalidFormat: it is not a str of 1 to 128 characters, or has a zero byte, or begins with
            the byte 1.
    """
    name = _check_name("group", value)
    if name.startswith(_LIMIT_MARK):
        raise InvalidFormat(
            "group", value=value, hint="A group does not begin with the character U+0001."
        )
    return name


def make_limit_group(limit_key: object, max_running: int) -> bytes:
    """
    Return the group of a limit key as it is stored.

    Args:
        max_running: 1 to MAX_RUNNING; 0 for a key that has only a rate.

    Raises:
        InvalidFormat: the key is not a str of 1 to 128 characters, or has a zero byte.
    """
    return b"%b%d:%b" % (_LIMIT_MARK, max_running, _check_name("limit_key", limit_key))


def holds_back(group: bytes) -> bool:
    """Return whether messages of a group may be held back: not if its key has only a rate."""
    return bool(group) and not group.startswith(b"\x010:")


def parse_group(stored: bytes) -> GroupName:
    """Return a group that is stored."""
    found = _LIMIT.fullmatch(stored)
    if found is None:
        return GroupName(decode_name(stored))
    return GroupName(None, decode_name(found[2]), int(found[1]))


def parse_rate(value: object) -> int:
    """
    Return the microseconds between two messages at a rate, rounded up.

    Raises:
        InvalidFormat: it is not a rate.
    """
    number, _, unit = check_rate(value).partition("/")
    return -(-_UNIT_SECONDS[unit] * 1_000_000 // int(number))


def _check_name(item: str, value: object) -> bytes:
    name = check_label(item, value)
    if b"\0" in name:
        raise InvalidFormat(item, value=value, hint=f"A {item} is a text without zero bytes.")
    return name
