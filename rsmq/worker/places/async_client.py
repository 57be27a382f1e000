"""
An asyncio client on the server of a synchronous one, for async handlers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic

from rsmq._sync.cells import Cells
from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.cells.cells import AsyncCells
from rsmq.transport.servers import as_asyncio
from rsmq.type_variables import B_co


class AsyncClient(Generic[B_co]):
    """An asyncio client with the server and the settings of a synchronous one."""

    def __init__(self, rsmq: RSMQ[B_co] | Cells) -> None:
        """
        Make it; it connects with its first call.

        Args:
            rsmq: the synchronous client.

        Raises:
            InvalidFormat: the connections of that client have a class of their own, or an option
                that redis.asyncio does not have.
        """
        clients = rsmq.cells
        first = clients[0]
        settings: dict[str, Any] = {
            "codec": first.codec,
            "realtime": first.realtime,
            "strict_names": first.namespace.strict_names,
            "confirm": first._confirm,  # noqa: SLF001 - a setting of the client, like the others
            **rsmq.engine.place,
        }
        origins = [client.origin for client in clients]
        # Cells on the same servers share one origin, and so they share connections.
        copies = {id(each): replace(each, servers=as_asyncio(each.servers)) for each in origins}
        connections: Any = [copies[id(each)] for each in origins]
        self.rsmq: AsyncRSMQ[B_co] | AsyncCells
        if "cells" in settings:
            self.rsmq = AsyncCells(connections, **settings)
        else:
            self.rsmq = AsyncRSMQ(connections[0], **settings)

    async def close(self) -> None:
        """Close it, in the event loop that has used it."""
        await self.rsmq.close()
