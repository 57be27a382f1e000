"""
Message ids: their alphabet, how a new one is made, and the time that an id contains.

Source: npm rsmq 0.12.4, index.js, ``_makeid``.
"""

from __future__ import annotations

import hashlib
import os
import re
from binascii import crc32
from collections.abc import Collection, Iterator

from rsmq.errors import InvalidFormat, MissingParameter, show
from rsmq.wire.fields import EXTENSION_PREFIX, NODE_ATTRIBUTES
from rsmq.wire.names import decode_names

ID_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
ID_RANDOM_LENGTH = 22

_BARE_ID = re.compile(r"[A-Za-z0-9:_-]{20,64}")
_FLOW_ID = re.compile(r"[A-Za-z0-9]{22}")
_HEX = re.compile(r"[0-9a-f]{32}")
_ID_RULE = "An id has 20 to 64 characters of A-Z a-z 0-9 : _ -"

EARLIEST_US = 1_262_304_000_000_000  # 2010-01-01, before the first release of RSMQ
_LATEST_US = 36**10 - 1  # the latest time of ten digits, in 2085
_DAY_US = 86_400_000_000

#: By the number of digits of the time part: microseconds in a unit, and their divisor.
_TIME_UNITS = {10: (1, 1), 8: (1_000, 1), 6: (1_000_000, 1), 12: (1, 1_000)}
NODE_ID_LENGTH = 32
_OLDESTNODE_ID_LENGTH = 42

_TO_ALPHABET = bytes(ID_ALPHABET[byte % 62] for byte in range(256))
_MAX_ATTRIBUTE_LENGTH = max(map(len, NODE_ATTRIBUTES))
_BIASED_BYTES = bytes(range(248, 256))  # 248 = 4 * 62: they would make some characters likelier

#: The end of the id of a redriven message: this mark, 14 random characters, and three that check
#: them.
_REDRIVE_MARK = b"0Redo"

#: The end of the id of a scheduled message: this mark, the tick in ms as nine digits in base 36,
#: five random characters, and three that check the others.
_TICK_MARK = b"0Tick"
_TICK_DIGITS = 9
_TICK_RANDOM_LENGTH = 5
_CHECK_LENGTH = 3
_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"

#: The end of the id of a message with a group, so that a delete knows when to look for its group.
GROUP_MARK = b"Gr"

#: The end of the id of a node of a flow, so that a delete knows when to look for its flow.
NODE_MARK = b"Fr"

_suffix_pool: Iterator[bytes] = iter(())


def check_id(id: object) -> str:
    """
    Check a message id that a caller passes without its message, and return it.

    Raises:
        MissingParameter: the id is None or empty.
        InvalidFormat: it is not 20 to 64 characters of ``[A-Za-z0-9:_-]``.
    """
    if id is None or id == "":
        raise MissingParameter("id", value=id, hint=f"{_ID_RULE}.")
    if not isinstance(id, str) or not _BARE_ID.fullmatch(id):
        raise InvalidFormat("id", value=id, hint=f"{_ID_RULE}.")
    return id


def check_flow_id(id: object) -> str:
    """
    Check the id of a flow of tasks, and return it.

    Raises:
        InvalidFormat: it is not 22 characters of ``[A-Za-z0-9]``.
    """
    if not isinstance(id, str) or not _FLOW_ID.fullmatch(id):
        raise InvalidFormat("id", value=show(id), hint="The id of a flow is 22 letters and digits.")
    return id


def make_flow_id(dedup_id: str | None) -> str:
    """Return the id of a new flow: a random one, or that of all flows with this dedup_id."""
    if dedup_id is None:
        return make_id_suffix().decode()
    number, digest = int.from_bytes(hashlib.sha256(dedup_id.encode()).digest(), "big"), []
    for _ in range(ID_RANDOM_LENGTH):
        number, at = divmod(number, len(ID_ALPHABET))
        digest.append(ID_ALPHABET[at])
    return bytes(digest).decode()


def is_reserved_id(raw: bytes) -> bool:
    """Return whether an id, as stored in Redis, is the name of an attribute."""
    return raw in NODE_ATTRIBUTES or raw.startswith(EXTENSION_PREFIX)


def has_reserved_ids(raws: Collection[bytes]) -> bool:
    """Return whether any of many ids may be reserved, in a tenth of the time of single checks."""
    if min(map(len, raws), default=0) > _MAX_ATTRIBUTE_LENGTH and b":" not in b"".join(raws):
        return False
    joined = b"\n%b\n" % b"\n".join(raws)
    if b"\n" + EXTENSION_PREFIX in joined:
        return True
    return any(b"\n%b\n" % name in joined for name in NODE_ATTRIBUTES)


def make_id_suffix() -> bytes:
    """Return the 22 random characters of a new id, from the operating system's generator."""
    global _suffix_pool  # noqa: PLW0603 - making many at once takes a third of the time
    suffix = next(_suffix_pool, None)
    while suffix is None:
        _suffix_pool = iter(make_id_suffixes(256))
        suffix = next(_suffix_pool, None)
    return suffix


def _clear_suffix_pool() -> None:
    global _suffix_pool  # noqa: PLW0603 - a child process must not reuse its parent's suffixes
    _suffix_pool = iter(())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_clear_suffix_pool)


def make_id_suffixes(number: int) -> list[bytes]:
    """
    Return the random characters of the ids of a batch, sorted.

    All ids of a batch begin with the same time, so the suffixes decide their order.
    """
    characters = make_random_characters(number * ID_RANDOM_LENGTH)
    ends = range(ID_RANDOM_LENGTH, len(characters) + 1, ID_RANDOM_LENGTH)
    return sorted(characters[end - ID_RANDOM_LENGTH : end] for end in ends)


def mark_group(suffix: bytes) -> bytes:
    """Return the random characters of the id of a message with a group."""
    return suffix[: -len(GROUP_MARK)] + GROUP_MARK


def mark_node(suffix: bytes) -> bytes:
    """Return the random characters of the id of a node of a flow."""
    return suffix[: -len(NODE_MARK)] + NODE_MARK


def may_have_group(id: str) -> bool:
    """Return whether a message with this id may have a group."""
    return id.endswith(GROUP_MARK.decode())


def mark_if_grouped(suffix: bytes, old: bytes) -> bytes:
    """Return the random characters of a new id for the message with an old id."""
    return mark_group(suffix) if old.endswith(GROUP_MARK) else suffix


def make_random_characters(number: int) -> bytes:
    """Return random characters of ``ID_ALPHABET``, from the operating system's generator."""
    characters = b""
    while len(characters) < number:
        missing = number - len(characters)
        characters += os.urandom(missing + missing // 16 + 32).translate(
            _TO_ALPHABET, _BIASED_BYTES
        )
    return characters[:number]


def make_tick_suffix(tick_ms: int) -> bytes:
    """
    Return the 22 last characters of the id of a scheduled message, which contain its tick.

    Args:
        tick_ms: the tick, Unix ms from 1970 to the year 5188.
    """
    digits = ""
    for _ in range(_TICK_DIGITS):
        tick_ms, digit = divmod(tick_ms, 36)
        digits = _BASE_36[digit] + digits
    checked = _TICK_MARK + digits.encode() + make_id_suffix()[:_TICK_RANDOM_LENGTH]
    return checked + _make_check(checked)


def parse_tick_ms(id: str) -> int | None:
    """Return the tick that the id of a scheduled message contains, Unix ms; None of any other."""
    suffix = id[-ID_RANDOM_LENGTH:].encode("utf-8", "surrogateescape")
    if len(id) != NODE_ID_LENGTH or not suffix.startswith(_TICK_MARK):
        return None
    checked = suffix[:-_CHECK_LENGTH]
    digits = suffix[len(_TICK_MARK) : len(_TICK_MARK) + _TICK_DIGITS]
    expected = checked + _make_check(checked)
    if (
        suffix not in {expected, mark_group(expected)}
        or not digits.isalnum()
        or not digits.isascii()
    ):
        return None
    return int(digits, 36)


def make_redrive_suffixes(number: int) -> list[bytes]:
    """Return the 22 last characters of the ids of redriven messages, sorted."""
    length = ID_RANDOM_LENGTH - _CHECK_LENGTH
    checked = [(_REDRIVE_MARK + each)[:length] for each in make_id_suffixes(number)]
    return [each + _make_check(each) for each in checked]


def is_redriven(id: str) -> bool:
    """Return whether a redrive gave a message this id."""
    suffix = id[-ID_RANDOM_LENGTH:].encode("utf-8", "surrogateescape")
    checked = suffix[:-_CHECK_LENGTH]
    return (
        len(id) == NODE_ID_LENGTH
        and suffix.startswith(_REDRIVE_MARK)
        and (suffix.endswith(GROUP_MARK) or suffix == checked + _make_check(checked))
    )


def _make_check(checked: bytes) -> bytes:
    number, check = crc32(checked), b""
    for _ in range(_CHECK_LENGTH):
        number, at = divmod(number, len(ID_ALPHABET))
        check += ID_ALPHABET[at : at + 1]
    return check


def parse_sent_us(id: str, seen_ms: int | None = None) -> int | None:
    """
    Return when a message was sent, according to its id.

    Ids of the Node client and its ports are ten base-36 digits of microseconds and 22 random
    characters. Other clients use milliseconds (8 digits), seconds (6) or milliseconds times a
    million (12).

    Args:
        id: the id of a message of any client.
        seen_ms: a Unix time in ms at which the message already existed; None if unknown.

    Returns:
        Unix microseconds, or None if the id contains no plausible time.
    """
    if len(id) == NODE_ID_LENGTH and not id.islower() and id.isascii() and id.isalnum():
        us = int(id[:10], 36)  # a Node id: with capitals it is not a hexadecimal number
        if EARLIEST_US <= us <= (_LATEST_US if seen_ms is None else seen_ms * 1000 + _DAY_US):
            return us
    digits = id[:10] if len(id) == _OLDESTNODE_ID_LENGTH else id[:-ID_RANDOM_LENGTH]
    unit = _TIME_UNITS.get(len(digits))
    if unit is None or not (digits.isascii() and digits.isalnum()):
        return None
    if _HEX.fullmatch(id):
        return None
    factor, divisor = unit
    us = int(digits, 36) * factor // divisor
    latest = _LATEST_US if seen_ms is None else seen_ms * 1000 + _DAY_US
    return us if EARLIEST_US <= us <= latest else None


def parse_sent_us_many(ids: Collection[bytes]) -> list[int | None]:
    """Return ``parse_sent_us`` of many ids as stored in Redis; three times as fast for Node ids."""
    if set(map(len, ids)) == {NODE_ID_LENGTH} and b"".join(ids).isalnum():
        times_us = [int(id[:10], 36) for id in ids if not id.islower()]
        if len(times_us) == len(ids) and min(times_us) >= EARLIEST_US:
            return list(times_us)
    return [parse_sent_us(id) for id in decode_names(ids)]
