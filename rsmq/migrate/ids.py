"""
Ids for messages that come from elsewhere: the time when they were sent, and 22 characters more.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from itertools import count, product

from rsmq.wire.ids import ID_ALPHABET, ID_RANDOM_LENGTH, make_id_suffix

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_TWO_DIGITS = ["".join(pair) for pair in product(_DIGITS, repeat=2)]
# In the order in which ids sort.
_CHARACTERS = "".join(sorted(ID_ALPHABET.decode()))
_TWO_CHARACTERS = ["".join(pair) for pair in product(_CHARACTERS, repeat=2)]
_NUMBER_LENGTH = 6
_LATEST_US = 36**10 - 1
_ANY_BYTE = bytes(ID_ALPHABET[byte % len(ID_ALPHABET)] for byte in range(256))


def time_part(us: int) -> str:
    """
    Ten base-36 digits.

    Args:
        us: Unix microseconds; what ten digits can't tell is the nearest that they can.
    """
    us, a = divmod(min(max(us, 0), _LATEST_US), 1296)
    us, b = divmod(us, 1296)
    us, c = divmod(us, 1296)
    e, d = divmod(us, 1296)
    two = _TWO_DIGITS
    return two[e] + two[d] + two[c] + two[b] + two[a]


def derived(us: int, kind: str, identity: bytes) -> str:
    """The id that a message gets whenever it is copied."""
    return time_part(us) + _suffix(kind, identity)


def numbered(us: int, number: int, kind: str, identity: bytes) -> str:
    """The same; where times are equal it sorts by its number."""
    return time_part(us) + _six_characters(number) + _suffix(kind, identity)[_NUMBER_LENGTH:]


def digest(kind: str, identity: bytes) -> bytes:
    """Sixteen characters by which a message is known again."""
    known = hashlib.blake2b(kind.encode() + b"\0" + identity, digest_size=12).digest()
    return b2a_base64(known, newline=False)


def _suffix(kind: str, identity: bytes) -> str:
    known = hashlib.sha256(kind.encode() + b"\0" + identity).digest()
    return known[:ID_RANDOM_LENGTH].translate(_ANY_BYTE).decode()


class Numbered:
    """New ids that sort as they were made, where their times are equal."""

    def __init__(self) -> None:
        self._numbers = count()

    def make(self, us: int) -> str:
        """
        A new id.

        Args:
            us: Unix microseconds.
        """
        random = make_id_suffix()[_NUMBER_LENGTH:].decode()
        return time_part(us) + _six_characters(next(self._numbers)) + random


def _six_characters(number: int) -> str:
    number, c = divmod(number, 3844)
    a, b = divmod(number, 3844)
    return _TWO_CHARACTERS[a] + _TWO_CHARACTERS[b] + _TWO_CHARACTERS[c]
