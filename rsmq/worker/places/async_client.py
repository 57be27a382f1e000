"""
An asyncio client on the server of a synchronous one, for async handlers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.transport.servers import as_asyncio
from rsmq.type_variables import B_co


class AsyncClient(Generic[B_co]):
    """An asyncio client with the server and the settings of a synchronous one."""

    def __init__(self, rsmq: RSMQ[B_co]) -> None:
        """
        Make it; it connects with its first call.

        Args:
            rsmq: the synchronous client.

        Raises:
            InvalidFormat: the connections of that client have a class of their own, or an option
                that redis.asyncio does not have.
        """
        origin: Any = replace(rsmq.origin, servers=as_asyncio(rsmq.origin.servers))
        self.rsmq: AsyncRSMQ[B_co] = AsyncRSMQ(
            origin,
            ns=rsmq.namespace.name,
            codec=rsmq.codec,
            realtime=rsmq.realtime,
            strict_names=rsmq.namespace.strict_names,
            confirm=rsmq.confirm,
        )

    async def close(self) -> None:
        """Close it, in the event loop that has used it."""
        await self.rsmq.close()
