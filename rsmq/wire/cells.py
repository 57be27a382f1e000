"""
The namespaces of cells, and the ids of their messages.

A set of cells is one logical namespace over several slots of Redis Cluster, or several servers. A
cell is an ordinary namespace in one slot: ``{rsmq.0.x7c}``. The last three characters of the hash
tag choose the slot, so that any number of cells is spread evenly over the nodes.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import product

from rsmq.errors import InvalidFormat, InvalidValue, show
from rsmq.wire.ids import check_id
from rsmq.wire.limits import check_whole_number
from rsmq.wire.names import NOT_ENCODABLE, is_encodable

#: The largest number of cells of a set.
MAX_CELLS = 1000

_SLOTS = 16384
#: In which twelfth of the slots each of twelve cells in a row lies. The first N of any number of
#: cells differ by at most one on 2, 3, 4, 6 and 12 nodes with equal ranges of slots.
_TWELFTHS = (0, 6, 9, 3, 4, 10, 7, 1, 8, 2, 11, 5)
_BUCKETS = 12**3
_SUFFIX_CHARACTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX_LENGTH = 3

_ID = re.compile(r"(0|[1-9][0-9]{0,2})-(.*)", re.DOTALL)


def name_of_cell(ns: str, index: int) -> str:
    """
    Return the namespace of a cell, which does not depend on the number of cells.

    Args:
        ns: the name of the set.
        index: the number of the cell, from 0.
    """
    prefix = f"{ns}.{index}."
    # CRC16 of equally long texts is linear: the suffix changes the slot of the prefix by exclusive
    # or, whichever the prefix is.
    base = crc_hqx(bytes(_SUFFIX_LENGTH), crc_hqx(prefix.encode("utf-8", "surrogateescape"), 0))
    bucket = 0
    for _ in range(3):
        index, digit = divmod(index, 12)
        bucket = bucket * 12 + _TWELFTHS[digit]
    first, end = (-(-each * _SLOTS // _BUCKETS) for each in (bucket, bucket + 1))
    suffixes = _suffixes_by_slot()
    suffix = next(
        suffixes[wanted]
        for slot in range(first, end)
        if (wanted := (slot ^ base) % _SLOTS) in suffixes
    )
    return f"{{{prefix}{suffix}}}"


def name_of_set(cell: str) -> str:
    """Return the name of the set of a cell, from the namespace of the cell."""
    return cell[1:-1].rsplit(".", 2)[0]


@lru_cache(maxsize=1)
def _suffixes_by_slot() -> dict[int, str]:
    """Return for each slot the first suffix that has it; a few slots have none."""
    found: dict[int, str] = {}
    for characters in product(_SUFFIX_CHARACTERS, repeat=_SUFFIX_LENGTH):
        suffix = bytes(characters)
        found.setdefault(crc_hqx(suffix, 0) % _SLOTS, suffix.decode())
    return found


def check_set(ns: object, number: object) -> tuple[str, int]:
    """
    Check the name of a set and the number of its cells, and return them.

    Raises:
        InvalidFormat: the name is not a str, or it has braces or a lone surrogate.
        InvalidValue: the number is not whole, or not from 1 to 1,000.
    """
    if isinstance(ns, str) and not is_encodable(ns):
        raise InvalidFormat("ns", value=show(ns), hint=NOT_ENCODABLE)
    if not isinstance(ns, str) or not ns or "{" in ns or "}" in ns:
        raise InvalidFormat(
            "ns",
            value=show(ns),
            hint="The name of a set of cells has no braces: each cell adds a hash tag of its own.",
        )
    return ns, check_whole_number("cells", number, 1, MAX_CELLS)


def cell_of_key(key: str, number: int) -> int:
    """
    Return the cell of a key.

    Args:
        key: any text that can be encoded.
        number: the number of cells.
    """
    digest = blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest) % number


def join_id(index: int, id: str) -> str:
    """Return the id of a message with the number of its cell: ``7-hod98j94h7...``."""
    return f"{index}-{id}"


def join_ids(index: int, ids: Iterable[str]) -> list[str]:
    """Return the ids of messages with the number of their cell."""
    prefix = f"{index}-"
    return [prefix + id for id in ids]


def split_id(id: object, number: int) -> tuple[int | None, str]:
    """
    Return the number of the cell, and the id as it is stored.

    Args:
        id: an id with the number of its cell, or a bare id, whose cell is not known.
        number: the number of cells.

    Raises:
        MissingParameter: the id is None or empty.
        InvalidFormat: it is not an id.
        InvalidValue: there is no such cell.
    """
    match = _ID.fullmatch(id) if isinstance(id, str) else None
    if match is None:
        return None, check_id(id)
    try:
        stored = check_id(match[2])
    except InvalidFormat:
        return None, check_id(id)
    index = int(match[1])
    if index >= number:
        raise InvalidValue(
            "the cell of the id",
            0,
            number - 1,
            value=index,
            hint="The number before the first hyphen is that of the cell.",
        )
    return index, stored
