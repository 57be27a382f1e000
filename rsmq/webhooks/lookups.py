"""
Look-ups of host names, one at a time for each host.

Each runs in a thread of its own. Those of the event loop are few, and all that it looks up shares
them, so a host whose name server does not answer would delay all others.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class FoundAddress:
    """
    An address of a host.

    Attributes:
        text: the address, with its zone if it has one.
        protocol: the protocol of its sockets.
    """

    text: str
    family: int
    protocol: int


_Lookups: TypeAlias = dict[tuple[str, int], "asyncio.Future[list[FoundAddress]]"]

#: The running look-ups of each event loop, by host and family.
_running: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Lookups] = (
    weakref.WeakKeyDictionary()
)


async def look_up(host: str, family: int) -> list[FoundAddress]:
    """
    Return the addresses of a host. Calls that come during a look-up get its result.

    If a call is cancelled, the look-up continues: the system can't end it.

    Args:
        family: the family of the addresses; ``socket.AF_UNSPEC`` for all.

    Raises:
        OSError: the host was not found, or no thread can be started.
        ValueError: it is not a name.
    """
    loop = asyncio.get_running_loop()
    lookups = _running.setdefault(loop, {})
    key = (host, family)
    found = lookups.get(key)
    if found is None:
        found = loop.create_future()
        thread = threading.Thread(
            target=_run, args=(loop, found, host, family), name="rsmq-lookup", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            raise OSError(f"no thread for the look-up: {error}") from error
        lookups[key] = found
        found.add_done_callback(lambda _: lookups.pop(key))
    return await asyncio.shield(found)


def _run(
    loop: asyncio.AbstractEventLoop,
    found: asyncio.Future[list[FoundAddress]],
    host: str,
    family: int,
) -> None:
    result: list[FoundAddress] | Exception
    try:
        result = _ask_system(host, family)
    except Exception as error:  # noqa: BLE001 - the waiting calls raise it
        result = error
    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(_finish, found, result)


def _finish(
    found: asyncio.Future[list[FoundAddress]], result: list[FoundAddress] | Exception
) -> None:
    if isinstance(result, Exception):
        found.set_exception(result)
        found.exception()  # so that it is not logged if all calls were cancelled
    else:
        found.set_result(result)


def _ask_system(host: str, family: int) -> list[FoundAddress]:
    found = []
    for kind, _, protocol, _, place in socket.getaddrinfo(
        host, None, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    ):
        text = str(place[0])
        if kind == socket.AF_INET6:
            if len(place) < 4:  # noqa: PLR2004 - Python was built without IPv6
                continue
            if place[3]:  # the zone of a link-local address
                text, _ = socket.getnameinfo(place, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        found.append(FoundAddress(text, kind, protocol))
    return found
