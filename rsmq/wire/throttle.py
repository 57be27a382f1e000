"""
The limits of a queue as they are stored: ``MESSAGES:NUMBER/UNIT``, each of both may be empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from rsmq.errors import InvalidFormat
from rsmq.wire.limits import check_whole_number

#: The most messages of a queue with a limit that may be in flight.
MAX_RUNNING = 1000
MAX_RATE = 1_000_000

_RATE = re.compile(r"([1-9][0-9]{0,6})/[smhd]")
_STORED = re.compile(rb"([0-9]*):([0-9]+/[smhd])?")


class Throttle(NamedTuple):
    """
    The limits of a queue, each None if there is none.

    Attributes:
        max_running: how many messages may be in flight.
        rate: how many messages may be received in a time, such as ``100/m``.
    """

    max_running: int | None = None
    rate: str | None = None


def encode_throttle(max_running: int | None, rate: str | None) -> bytes:
    """
    Check limits, and return them as they are stored; empty if both are None.

    Raises:
        InvalidValue: max_running is not a whole number from 1 to 1,000.
        InvalidFormat: rate is not a rate.
    """
    if max_running is None and rate is None:
        return b""
    most = (
        ""
        if max_running is None
        else check_whole_number("max_running", max_running, 1, MAX_RUNNING)
    )
    return f"{most}:{'' if rate is None else check_rate(rate)}".encode()


def check_rate(value: object) -> str:
    """
    Check a rate, and return it.

    Raises:
        InvalidFormat: it is not a text such as "10/s", "100/m", "1000/h" or "5000/d".
    """
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) > MAX_RATE:
        raise InvalidFormat(
            "rate",
            value=value,
            hint="A rate is a number from 1 to 1,000,000, a slash, and s, m, h or d, as in "
            '"100/m" for 100 in a minute.',
        )
    return found[0]


def parse_throttle(stored: bytes | None) -> Throttle:
    """Return limits that are stored; none if another program stored something else."""
    found = _STORED.fullmatch(stored or b"")
    if found is None:
        return Throttle()
    max_running, rate = found.groups()
    return Throttle(int(max_running) if max_running else None, rate.decode() if rate else None)


class Limit(NamedTuple):
    """
    A limit of a queue that is reached.

    Attributes:
        seconds: after which time a receive may be allowed.
        is_rate: whether nothing else allows one earlier; else the end of a message in flight does.
    """

    seconds: float
    is_rate: bool


NO_LIMITS: Mapping[int, Limit] = MappingProxyType({})


def parse_limit(ms: int) -> Limit:
    """Return a limit from the reply of a script, as ``throttled_ms`` returns it."""
    return Limit(abs(ms) / 1000, is_rate=ms > 0)
