"""
The servers of a group, for the asyncio client. ``threads/router.py`` is the same for threads.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from redis.exceptions import AskError, ClusterDownError, NoPermissionError, RedisError

from rsmq.errors import ClientClosed
from rsmq.transport.asyncio_.multiplexed import retrieve_exception
from rsmq.transport.failure_texts import add_tls_remark
from rsmq.transport.topology.address import Address
from rsmq.transport.topology.group import ServerGroup, ServerPool
from rsmq.transport.topology.sentinel import is_primary, replaced_error, replica_error
from rsmq.transport.topology.topology import Question, describe_seeds


class _Closable(Protocol):
    async def close(self) -> None: ...

    def retire(self) -> None: ...


C = TypeVar("C", bound=_Closable)


class AsyncServerRouter(Generic[C]):
    """
    The callers of each server of a group, by key.

    Attributes:
        topology: what is known about the servers.
    """

    def __init__(self, group: ServerGroup, make_caller: Callable[[ServerPool], C]) -> None:
        self.topology = group.make_topology()
        self._group = group
        self._make_caller = make_caller
        self._callers: dict[Address, C] = {}
        self._closed = False
        self._refreshes: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    async def server_of(self, key: bytes) -> tuple[Address, C]:
        """
        Return the server of a key; first ask which it is, if necessary.

        Raises:
            ClientClosed: close() was called.
            RedisError, OSError: no server could say it.
        """
        topology = self.topology
        address = topology.address_of(key)
        if address is None or topology.is_stale:
            if topology.may_refresh(time.monotonic()):
                await self._refresh_once()
            else:
                topology.raise_failed_refresh()
            address = topology.address_of(key)
            if address is None:
                raise ClusterDownError("No node serves the slot of the key.")
        return address, self._callers.get(address) or self.connections_to(address)

    def redirected(self, error: AskError) -> tuple[Address, C]:
        """Return the node that a MOVED or ASK error names."""
        address = self.topology.redirected_to(error)
        return address, self.connections_to(address)

    def describe(self) -> str:
        """Return a text that names the servers."""
        return add_tls_remark(describe_seeds(self.topology), self._group.connection_class)

    def note_lost(self, key: bytes, error: BaseException) -> None:
        """Note that a connection to the server of a key was lost, or that the server refused."""
        address = self.topology.address_of(key)
        if address is not None:
            self.topology.note_failure(error, address)

    async def close(self) -> None:
        """Close the connections to all servers."""
        self._closed = True
        running = asyncio.get_running_loop()
        for loop, task in list(self._refreshes.items()):
            if loop is running:
                task.cancel()
                await asyncio.wait((task,))
            elif not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        await asyncio.gather(*(each.close() for each in list(self._callers.values())))

    def connections_to(self, address: Address) -> C:
        """Return the caller for a server."""
        caller = self._callers.get(address)
        if caller is None:
            options = self._group.server_options(address)
            if self._group.service is not None:
                prepare = options.get("redis_connect_func")
                options["redis_connect_func"] = self._require_primary(prepare, address)
            new = self._make_caller(ServerPool(self._group.connection_class, options))
            caller = self._callers.setdefault(address, new)  # atomic among threads
            if self._closed:  # while this call learned the address
                raise ClientClosed
        return caller

    def _require_primary(
        self, prepare: Callable[[Any], Any] | None, address: Address
    ) -> Callable[[Any], Awaitable[None]]:
        """Return a function that prepares a new connection, and rejects it if it is not usable."""

        async def connect(connection: Any) -> None:
            if prepare is None:
                await connection.on_connect()
            else:
                prepared = prepare(connection)
                if inspect.isawaitable(prepared):
                    await prepared
            await connection.send_command("ROLE")
            with suppress(NoPermissionError):
                if not is_primary(await connection.read_response()):
                    raise replica_error(address)
            if self.topology.may_refresh(time.monotonic()):
                with suppress(RedisError, OSError):
                    await self._refresh_once()
            if address not in self.topology.addresses():
                raise replaced_error(address)

        return connect

    async def _refresh_once(self) -> None:
        """Refresh; calls of the same event loop that need it too wait for the same refresh."""
        if self._closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        task = self._refreshes.get(loop)
        if task is None:
            task = self._refreshes[loop] = asyncio.ensure_future(self._refresh())
            task.add_done_callback(lambda _: self._refreshes.pop(loop, None))
            task.add_done_callback(retrieve_exception)  # if all waiting calls are cancelled
        await asyncio.wait((task,))
        if task.cancelled():
            if self._closed:
                raise ClientClosed
            raise ClusterDownError("Asking for the servers was cancelled.")
        error = task.exception()
        if error is not None:
            if not isinstance(error, (RedisError, OSError)):
                raise error
            # Each waiting call raises its own copy of the error.
            raise type(error)(*error.args) from error

    async def _refresh(self) -> None:
        now = time.monotonic()
        steps = self.topology.refresh(now)
        try:
            question = next(steps)
            while True:
                try:
                    answer = await self._ask(question)
                except (RedisError, OSError) as error:
                    failure = error
                else:
                    question = steps.send(answer)
                    continue
                question = steps.throw(failure)
        except StopIteration:
            pass
        except (RedisError, OSError) as error:
            self.topology.note_failed_refresh(now, error)
            raise
        for address, caller in list(self._callers.items()):
            if address not in self.topology.addresses():
                caller.retire()

    def retire(self) -> None:
        """Close the connections when their calls have ended. New calls open others."""
        for caller in list(self._callers.values()):
            caller.retire()

    async def _ask(self, question: Question) -> Any:
        connection = self._group.make_question_connection(question)
        try:
            await connection.connect()
            await connection.send_command(*question.command)
            return await connection.read_response()
        finally:
            await connection.disconnect(nowait=True)
