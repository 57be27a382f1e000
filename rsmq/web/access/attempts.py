"""
Limits on failed attempts to authenticate, by the address of the client.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

_MAX_FAILURES = 10
_WINDOW_SECONDS = 60
_MAX_ADDRESSES = 10_000


#: A caller with IPv6 has at least 2^64 addresses, with these bits in common.
_BITS_OF_CALLER = 64


def _caller_of(address: str) -> str:
    """Return what the addresses of a caller have in common."""
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), _BITS_OF_CALLER), strict=False))


class Attempts:
    """The failures of the last minute, of at most 10,000 callers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def seconds_to_wait(self, address: str) -> int:
        """Return the seconds until an address may try again; 0 if it may now."""
        failures = self._failures.get(_caller_of(address), [])
        recent = [each for each in failures if each > self._clock() - _WINDOW_SECONDS]
        if len(recent) < _MAX_FAILURES:
            return 0
        return max(1, round(recent[-_MAX_FAILURES] + _WINDOW_SECONDS - self._clock()))

    def note_failure(self, address: str) -> None:
        """Count a failure; the address that has failed the longest ago is forgotten."""
        caller = _caller_of(address)
        failures = self._failures.pop(caller, [])[-_MAX_FAILURES + 1 :]
        self._failures[caller] = [*failures, self._clock()]
        while len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)
