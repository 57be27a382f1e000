"""
Synchronous parts of this library on the asyncio client of a server: the doctor, and the registries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from rsmq.web.client import Client

T = TypeVar("T")


class BlockingClient:
    """The parts of a synchronous client that are used here, for a thread beside the event loop."""

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self.namespace = client.namespace

    def run(self, operation: Any) -> Any:
        """Run an operation in the event loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(self._client.run(operation), self._loop).result()

    def run_steps(self, steps: Any) -> Any:
        """Run an operation of several steps in the event loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(self._client.run_steps(steps), self._loop).result()


async def in_thread(queues: Client, call: Callable[[Any], T]) -> T:
    """Return the result of a function of a synchronous client."""
    return await asyncio.to_thread(call, BlockingClient(queues, asyncio.get_running_loop()))
