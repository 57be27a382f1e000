"""
Synchronous parts of this library on the asyncio client of a server: the doctor, and the registries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from rsmq.web.client import Client

T = TypeVar("T")


class BlockingClient:
    """
    What these parts need of a synchronous client, for a thread beside the event loop.

    Attributes:
        cells: one for each cell; a client itself is the only one.
        engine: ``place`` has the arguments that name the queues.
    """

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self.namespace = client.namespace
        self.cells: tuple[BlockingClient, ...] = (self,)
        self.engine = SimpleNamespace(place={"ns": client.namespace.name})

    def run(self, operation: Any) -> Any:
        """Run an operation in the event loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(self._client.run(operation), self._loop).result()

    def run_steps(self, steps: Any) -> Any:
        """Run an operation of several steps in the event loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(self._client.run_steps(steps), self._loop).result()


async def in_thread(queues: Client, call: Callable[[Any], T]) -> T:
    """Return the result of a function of a synchronous client, or of a set of cells."""
    loop = asyncio.get_running_loop()
    cells = tuple(BlockingClient(each, loop) for each in queues.cells)
    place = queues.engine.place
    first: Any = cells[0]
    if "cells" in place:
        first = SimpleNamespace(cells=cells, engine=SimpleNamespace(place=place))
    return await asyncio.to_thread(call, first)


async def in_each_cell(queues: Client, call: Callable[[Any], T]) -> dict[int, T]:
    """Return by cell the result of a function of a synchronous client."""
    engine: Any = queues.engine
    loop = asyncio.get_running_loop()

    async def of_cell(client: Any) -> T:
        return await asyncio.to_thread(call, BlockingClient(client, loop))

    results: dict[int, T] = await engine.by_cell(of_cell)
    return results
