"""
The namespaces of partitions, and the partition of a key.

A partition is an ordinary namespace in one slot of Redis Cluster, such as ``{shop.7of12.2xd}``. The
last three characters of its hash tag choose the slot, so that the partitions are spread evenly over
the nodes.
"""

from __future__ import annotations

from binascii import crc_hqx
from functools import lru_cache
from hashlib import sha256
from itertools import count as count_from
from itertools import product

from rsmq.errors import InvalidFormat, MissingParameter, show
from rsmq.wire.limits import check_whole_number
from rsmq.wire.names import NOT_ENCODABLE, encode_name, is_encodable

#: The largest number of partitions.
MAX_PARTITIONS = 1000

_SLOTS = 16384
_SUFFIX_CHARACTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX_LENGTH = 3
_KEY_RULE = "A key is a str, such as the id of a customer or of an order."


def names_of_partitions(ns: object, count: object) -> list[str]:
    """
    Return the namespaces of all partitions, in their order.

    Args:
        ns: the first part of their names.
        count: the number of partitions, 1 to 1,000. It is a part of each name.

    Raises:
        InvalidFormat: ns is not a str, is empty, or has braces or a lone surrogate.
        InvalidValue: count is out of range or not whole.
    """
    if not isinstance(ns, str) or not ns or "{" in ns or "}" in ns:
        raise InvalidFormat(
            "ns",
            value=show(ns),
            hint="Pass a name without braces: each partition adds a hash tag of its own.",
        )
    if not is_encodable(ns):
        raise InvalidFormat("ns", value=show(ns), hint=NOT_ENCODABLE)
    number = check_whole_number("count", count, 1, MAX_PARTITIONS)
    return [_name_in_slot(f"{ns}.{index}of{number}.", index, number) for index in range(number)]


def _name_in_slot(prefix: str, index: int, count: int) -> str:
    """Return a name whose slot is in the middle of the partition's share of all slots."""
    # CRC16 of equally long texts is linear: the suffix changes the slot of the prefix by exclusive
    # or, whichever the prefix is.
    base = crc_hqx(bytes(_SUFFIX_LENGTH), crc_hqx(encode_name(prefix), 0)) % _SLOTS
    suffixes = _suffixes_by_slot()
    middle = (2 * index + 1) * _SLOTS // (2 * count)
    slot = next(slot for slot in count_from(middle) if slot % _SLOTS ^ base in suffixes)
    return f"{{{prefix}{suffixes[slot % _SLOTS ^ base]}}}"


@lru_cache(maxsize=1)
def _suffixes_by_slot() -> dict[int, str]:
    """Return for each slot the first suffix that has it; a few slots have none."""
    found: dict[int, str] = {}
    for characters in product(_SUFFIX_CHARACTERS, repeat=_SUFFIX_LENGTH):
        suffix = bytes(characters)
        found.setdefault(crc_hqx(suffix, 0) % _SLOTS, suffix.decode())
    return found


def partition_of_key(key: object, count: int) -> int:
    """
    Return the number of the partition of a key, from 0.

    It is the first four bytes of the SHA-256 of the key in UTF-8, as a number with the highest byte
    first, modulo the number of partitions.

    Raises:
        MissingParameter: the key is None or empty.
        InvalidFormat: the key is not a str, or has a lone surrogate.
    """
    if key is None or key == "":
        raise MissingParameter("key", value=key, hint=_KEY_RULE)
    if not isinstance(key, str):
        raise InvalidFormat("key", value=show(key), hint=_KEY_RULE)
    try:
        raw = key.encode()
    except UnicodeEncodeError:
        raise InvalidFormat("key", value=show(key), hint=NOT_ENCODABLE) from None
    return int.from_bytes(sha256(raw).digest()[:4]) % count
