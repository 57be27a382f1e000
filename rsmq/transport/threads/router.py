"""
The connections of the synchronous client to the servers of a group.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.exceptions import AskError, ClusterDownError, NoPermissionError, RedisError

from rsmq.transport.failure_texts import add_tls_remark
from rsmq.transport.threads.pools import ConnectionProvider, make_provider
from rsmq.transport.topology.address import Address
from rsmq.transport.topology.group import ServerGroup, ServerPool
from rsmq.transport.topology.sentinel import is_primary, replaced_error, replica_error
from rsmq.transport.topology.topology import Question, describe_seeds

#: While a thread refreshes, other threads use what is known, but no longer than this: that thread
#: may have been lost in a fork.
_MAX_REFRESH_SECONDS = 10.0


class ServerRouter:
    """
    The connections to each server of a group, by key.

    Attributes:
        topology: what is known about the servers.
    """

    def __init__(self, group: ServerGroup) -> None:
        """Create a router for a group of servers; nothing is opened."""
        self.topology = group.make_topology()
        self._group = group
        self._providers: dict[Address, ConnectionProvider] = {}
        self._refreshed_by_another_until = 0.0
        self._closed = False

    def connections_for(self, key: bytes) -> ConnectionProvider:
        """
        Return the connections to the server of a key; first ask which it is, if necessary.

        Raises:
            RedisError: no server could say it.
        """
        topology = self.topology
        address = topology.address_of(key)
        if address is None or topology.is_stale:
            now = time.monotonic()
            if not topology.may_refresh(now):
                topology.raise_failed_refresh()
            elif address is None or now >= self._refreshed_by_another_until:
                self._refresh(now)
            address = topology.address_of(key)
            if address is None:
                raise ClusterDownError("No node serves the slot of the key.")
        return self._providers.get(address) or self.connections_to(address)

    def redirected(self, error: AskError) -> ConnectionProvider:
        """Return the connections to the node that a MOVED or ASK error names."""
        return self.connections_to(self.topology.redirected_to(error))

    def describe(self) -> str:
        """Return a text that names the servers."""
        return add_tls_remark(describe_seeds(self.topology), self._group.connection_class)

    def note_lost(self, key: bytes, error: BaseException) -> None:
        """Note that a connection to the server of a key was lost, or that the server refused."""
        address = self.topology.address_of(key)
        if address is not None:
            self.topology.note_failure(error, address)

    def release_idle_connection(self) -> None:
        for provider in list(self._providers.values()):
            provider.release_idle_connection()

    def close(self) -> None:
        self._closed = True
        for provider in list(self._providers.values()):
            provider.close()

    def connections_to(self, address: Address) -> ConnectionProvider:
        """Return the connections to a server."""
        provider = self._providers.get(address)
        if provider is None:
            options = self._group.server_options(address)
            if self._group.service is not None:
                prepare = options.get("redis_connect_func")
                options["redis_connect_func"] = self._require_primary(prepare, address)
            pool = ServerPool(self._group.connection_class, options, self._group.limit)
            new = make_provider(pool, lambda error: self.topology.note_failure(error, address))
            provider = self._providers.setdefault(address, new)  # atomic among threads
            if self._closed:  # while this call learned the address
                provider.close()
        return provider

    def _require_primary(
        self, prepare: Callable[[Any], object] | None, address: Address
    ) -> Callable[[Any], None]:
        """
        Return a function that prepares a new connection, and rejects it if it is to no primary.

        An old primary that has started again says itself that it is one, until the Sentinels make
        it a replica: they are asked too. If none of them answers, the server alone is believed.
        """

        def connect(connection: Any) -> None:
            if prepare is None:
                connection.on_connect()
            else:
                prepare(connection)
            connection.send_command("ROLE")
            with suppress(NoPermissionError):
                if not is_primary(connection.read_response()):
                    raise replica_error(address)
            now = time.monotonic()
            if self.topology.may_refresh(now):
                with suppress(RedisError):
                    self._refresh(now)
            if address not in self.topology.addresses():
                raise replaced_error(address)

        return connect

    def _refresh(self, now: float) -> None:
        self._refreshed_by_another_until = now + _MAX_REFRESH_SECONDS
        steps = self.topology.refresh(now)
        try:
            question = next(steps)
            while True:
                try:
                    answer = self._ask(question)
                except RedisError as error:
                    failure = error
                else:
                    question = steps.send(answer)
                    continue
                question = steps.throw(failure)
        except StopIteration:
            pass
        except RedisError as error:
            self.topology.note_failed_refresh(now, error)
            raise
        finally:
            self._refreshed_by_another_until = 0.0
        for address in list(self._providers):
            if address not in self.topology.addresses():
                gone = self._providers.pop(address, None)
                if gone is not None:
                    gone.close()

    def _ask(self, question: Question) -> Any:
        connection = self._group.make_question_connection(question)
        try:
            connection.connect()
            connection.send_command(*question.command)
            return connection.read_response()
        finally:
            connection.disconnect()
