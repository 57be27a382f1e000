"""
The client that the server calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

from rsmq.aio import AsyncRSMQ

Client: TypeAlias = AsyncRSMQ[Any]

#: So an answer comes within a second while Redis refuses connections, or is not there.
CLIENT_OPTIONS: dict[str, Any] = {"retry_deadline": 0.5, "socket_connect_timeout": 0.5}


@asynccontextmanager
async def open_clients(
    url: str, namespaces: Iterable[str], options: Mapping[str, Any]
) -> AsyncIterator[list[Client]]:
    """
    Open a client of each namespace, and close them at the end.

    Args:
        options: further arguments of ``AsyncRSMQ.from_url``.

    Raises:
        RSMQError: the URL, a namespace or an option is invalid.
    """
    arguments = {**options, **CLIENT_OPTIONS}
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(AsyncRSMQ.from_url(url, ns=ns, **arguments))
            for ns in namespaces
        ]
