# Generated from rsmq/cells/engine.py by scripts/generate-sync. Do not edit.
"""
The calls of a set of cells: which cell they go to, and what happens if a cell is down.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from time import monotonic
from typing import Any, TypeVar, cast

from redis.exceptions import RedisError

from rsmq._sync.cell_client import CellClient
from rsmq._sync.every_cell import EveryCell
from rsmq._sync.look import Look, Receive
from rsmq._sync.membership import Membership
from rsmq.cells.failures import Failures, is_write_refused, pause_seconds
from rsmq.cells.messages import CellMessage, group_messages
from rsmq.cells.time_limits import current_time_limit
from rsmq.errors import ClientClosed, RSMQError
from rsmq.model import Message
from rsmq.operations.arguments import resolve_queues
from rsmq.operations.cells import CellRecord
from rsmq.transport.retry import has_not_run, is_limited_to_keys
from rsmq.transport.threads.caller import Caller
from rsmq.transport.threads.interruption import deferred_signals, finish, pause
from rsmq.waiting.cells.queues import CellQueues
from rsmq.waiting.cells.threads import CellWatchers
from rsmq.wire.cells import join_id, name_of_set, split_id
from rsmq.wire.limits import Seconds, check_wait

#: Not the generator of the module, which the application may seed.
_chance = random.SystemRandom()

T = TypeVar("T")


class CellEngine(EveryCell):
    """
    The cells of a set, and the rules by which calls go to them.

    Attributes:
        number: the number of cells.
        prompt_clients: as ``clients``, without retries: another cell can do the call at once.
        watchers: the watchers of the servers.
    """

    def __init__(
        self, callers: Sequence[Caller], namespaces: Sequence[str], settings: dict[str, Any]
    ) -> None:
        """
        Prepare the cells; nothing is opened.

        Args:
            callers: the caller of each cell; several cells may share one.
            settings: the arguments of ``RSMQ`` for each cell.
        """
        self.number: int = len(namespaces)
        places = list(zip(range(self.number), callers, namespaces, strict=True))
        self.clients: list[CellClient] = [
            CellClient(cell, caller, ns, settings) for cell, caller, ns in places
        ]
        self.prompt_clients: list[CellClient] = [
            CellClient(cell, caller, ns, settings, 0.0) for cell, caller, ns in places
        ]
        self._callers = callers
        self._retry_deadline = max(caller.origin.retry_deadline for caller in callers)
        self._failures = Failures()
        self._namespaces = [client.namespace for client in self.clients]
        self.watchers: CellWatchers = CellWatchers(
            list(zip(callers, self._namespaces, strict=True))
        )
        self._membership = Membership(
            callers, self.clients, self.prompt_clients, self._retry_deadline
        )
        self._next = _chance.randrange(self.number)
        self._queues = lru_cache(maxsize=64)(self._compute_queues)
        self._queues_of_one = lru_cache(maxsize=64)(self._resolve_queues)

    def _compute_queues(self, names: tuple[str, ...]) -> CellQueues:
        return CellQueues(self._namespaces, names)

    def _resolve_queues(self, qnames: str | Iterable[str]) -> CellQueues:
        resolved = resolve_queues(self._namespaces[0], qnames)
        return self._queues(tuple(keys.name for keys in resolved))

    def queues(self, qnames: str | Iterable[str]) -> CellQueues:
        """
        Return the keys of queues in all cells.

        Raises:
            MissingParameter, InvalidFormat, InvalidValue: as of ``RSMQ.receive_messages``.
        """
        if qnames.__class__ is str:
            return self._queues_of_one(qnames)
        return self._resolve_queues(qnames)

    @property
    def place(self) -> dict[str, Any]:
        """The arguments of ``from_url`` that name the queues: ``ns`` and ``cells``."""
        return {"ns": name_of_set(self._namespaces[0].name), "cells": self.number}

    def message_class(self, cell: int) -> type[CellMessage[Any]]:
        """Return the class of the messages of a cell."""
        return self.clients[cell].message_class

    def show_id(self, cell: int, id: str) -> str:
        """Return the id of a message with the number of its cell, from the id as it is stored."""
        return join_id(cell, id)

    def split_id(self, id: str) -> tuple[int | None, str]:
        """Return the cell of an id, None if it is not known, and the id as it is stored."""
        return split_id(id, self.number)

    def next_cell(self) -> int:
        """Return the cell whose turn it is."""
        self._next = (self._next + 1) % self.number
        return self._next

    def client(self, cell: int) -> CellClient:
        """
        Return the client of a cell; before its first use, check that it belongs to this set.

        Raises:
            ClientClosed: close() was called.
            CellsMismatch: it belongs to another set.
        """
        self._membership.check(cell, self.clients)
        return self.clients[cell]

    def _learn_set(self) -> None:
        self._membership.learn_set(self.clients)

    def prompt_client(self, cell: int) -> CellClient:
        """
        Return the client of a cell that does not retry.

        Raises:
            RedisError, OSError: the cell can't be checked; its server is left alone for a while.
        """
        try:
            self._membership.check(cell, self.prompt_clients)
        except (RedisError, OSError) as error:
            self._note_failure(cell, error)
            raise
        return self.prompt_clients[cell]

    def record_of(self, cell: int) -> CellRecord | None:
        """
        Return the record of a cell without retries, and store none; None if it has none.

        Raises:
            RedisError, OSError: it can't be reached.
        """
        return self._membership.record_of(cell, self.prompt_clients[cell])

    def in_any(self, call: Callable[[CellClient], T]) -> tuple[int, T]:
        """
        Make a call in the next cell; if it can't run there, in another one.

        Returns:
            The cell and the result.

        Raises:
            RedisError, OSError: the call may have run; or no cell can be reached until the
                deadline.
        """
        first = self.next_cell()
        limit = current_time_limit()
        until = monotonic() + self._retry_deadline if limit is None else limit.ends_at
        passes = 0
        while True:
            passes += 1
            failures: list[Exception] = []
            for each in range(first, first + self.number):
                if failures and limit is not None and limit.is_over():
                    raise failures[-1]
                cell = each % self.number
                recent = self.recent_failure(cell) if passes == 1 else None
                if recent is not None:
                    failures.append(recent)
                    continue
                try:
                    client = self.prompt_client(cell)
                except (RedisError, OSError) as error:
                    failures.append(error)
                    continue
                try:
                    result = call(client)
                except (RedisError, OSError) as error:
                    self._note_failure(cell, error)
                    if not has_not_run(error) and not is_write_refused(error):
                        raise
                    failures.append(error)
                else:
                    self._forget_failure(cell)
                    return cell, result
            seconds = pause_seconds(passes)
            if all(map(is_write_refused, failures)) or monotonic() + seconds >= until:
                raise failures[-1]
            pause(seconds)

    def receive(
        self,
        receive: Receive,
        queues: CellQueues,
        max_messages: int,
        wait: Seconds | None,
        *,
        one_cell: bool = False,
    ) -> list[CellMessage[Any]]:
        """
        Receive messages from the cells that have some.

        Args:
            max_messages: the number of messages at most.
            wait: seconds to wait for the first message; None waits forever.
            one_cell: whether the messages must be from one cell, as for a pop.

        Raises:
            PartlyDone: no cell that can be reached has a message, and some can't be reached.
        """
        seconds = check_wait(wait)
        until = None if seconds is None else monotonic() + seconds
        look = Look(self, receive, queues, max_messages, one_cell=one_cell)
        if self._membership.is_closed:
            raise ClientClosed
        found = look.at(self.watchers.due_cells(queues))
        if found:
            return found
        if seconds == 0:
            return look.at_all()
        waiter = self.watchers.waiter(queues)
        try:
            try:
                checked = self._membership.checked
                if len(checked) < self.number:  # so that it is known which server has each cell
                    unchecked = [cell for cell in range(self.number) if cell not in checked]
                    found = look.at(unchecked)
                while not found:
                    cells = waiter.wait(None if until is None else until - monotonic())
                    if not cells:
                        unread = [c for c in waiter.unread_cells if c not in look.cells]
                        found = look.at(unread)
                        if not found:
                            look.raise_recent_errors()
                        return found
                    found = look.at(cells)
                    if not found:
                        look.raise_errors_of_all()
                        waiter.note_empty()
                waiter.note_receive({message.cell for message in found})
            finally:
                waiter.close()
        except BaseException:
            self.release(found)
            raise
        return found

    def receive_from_all(
        self, receive: Receive, queues: CellQueues, max_messages: int
    ) -> list[CellMessage[Any]]:
        """
        Receive messages from all cells in turn.

        Raises:
            PartlyDone: no cell that can be reached has a message, and some can't be reached.
        """
        return Look(self, receive, queues, max_messages, one_cell=False).at_all()

    def look_at(
        self,
        cell: int,
        client: CellClient,
        receive: Receive,
        queues: CellQueues,
        *,
        max_messages: int,
        found: list[CellMessage[Any]],
    ) -> None:
        """
        Receive messages from one cell, without retries.

        Args:
            max_messages: the number of messages at most in found.
            found: gets the messages at once, so that an interruption hides none of them.

        Raises:
            RedisError, OSError: the cell can't be reached.
        """
        left = max_messages - len(found)
        try:
            with deferred_signals():  # until the messages are in found
                received = receive(client, left)
                found += cast("list[CellMessage[Any]]", received)
                self._forget_failure(cell)
                self.watchers.note_look(
                    queues, cell, is_drained=not received.has_more, limits=received.limits
                )
        except (RedisError, OSError) as error:
            self._note_failure(cell, error)
            raise

    def recent_failure(self, cell: int) -> Exception | None:
        """Return the failure because of which a cell is left alone now; None if it is not."""
        return self._failures.recent(self.server_of(cell)) if self._failures else None

    def server_of(self, cell: int) -> Hashable:
        """Return a value that is the same for cells on the same server, as far as it is known."""
        caller = self._callers[cell]
        return id(caller), caller.address_of(self._namespaces[cell].queues)

    def note_failure(self) -> None:
        """Note that a call failed: the cells may be on other servers now."""
        self.watchers.note_failure()

    def _forget_failure(self, cell: int) -> None:
        if self._failures:
            self._failures.forget(self.server_of(cell))

    def _note_failure(self, cell: int, error: Exception) -> None:
        if not is_limited_to_keys(error):  # other cells of the server may have no error
            self._failures.note(self.server_of(cell), error)
        self.note_failure()

    def release(self, messages: Sequence[Message]) -> None:
        """Release received messages, also if the call is interrupted again; errors are ignored."""
        if messages:
            finish(lambda: self._release(messages))

    def _release(self, messages: Sequence[Message]) -> None:
        of_cells: Mapping[int, Any] = group_messages(messages, self.number)
        for cell, of_cell in of_cells.items():
            with suppress(RedisError, OSError, RSMQError):
                self.prompt_clients[cell].release_messages(of_cell)

    @property
    def retry_deadline(self) -> float:
        """Seconds for retries."""
        return self._retry_deadline

    def close(self) -> None:
        """Close the connections, and end all waits with ClientClosed."""
        self._membership.is_closed = True
        self.watchers.close()
        for client in (*self.clients, *self.prompt_clients):
            client.close()
