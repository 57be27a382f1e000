"""
The address of a server, and the slot of a key.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

#: The number of slots of Redis Cluster.
SLOT_COUNT = 16384

_MAX_CACHED_KEYS = 65_536


class Address(NamedTuple):
    """The host and the port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


#: Replaces the address that a cluster or a Sentinel reports by the one that this process can reach.
AddressRemap: TypeAlias = Callable[[tuple[str, int]], tuple[str, int]]


@lru_cache(_MAX_CACHED_KEYS)
def slot_of(key: bytes) -> int:
    """Return the slot of a key in Redis Cluster: only the part in its first braces counts."""
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    if start >= 0 and end > start + 1:
        key = key[start + 1 : end]
    return binascii.crc_hqx(key, 0) % SLOT_COUNT
