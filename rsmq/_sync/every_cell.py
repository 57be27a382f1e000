# Generated from rsmq/cells/every_cell.py by scripts/generate-sync. Do not edit.
"""
Calls that are made in several cells, one after another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias, TypeVar

from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq._sync.cell_client import CellClient
from rsmq.cells.failures import first_error, raise_unconfirmed
from rsmq.errors import CellsMismatch, ClientClosed, NotReplicated, PartlyDone, RSMQError
from rsmq.transport.retry import has_not_run
from rsmq.wire.cells import join_ids

T = TypeVar("T")

#: The servers that a call in several cells could not reach until its deadline, with their errors.
_LostServers: TypeAlias = dict[Hashable, Exception]


class EveryCell(ABC):
    """
    The calls of a set that concern several cells.

    Attributes:
        number: the number of cells.
    """

    number: int

    @abstractmethod
    def client(self, cell: int) -> CellClient:
        """Return the client of a cell, which has been checked."""

    @abstractmethod
    def prompt_client(self, cell: int) -> CellClient:
        """As ``client``, but return the client that does not retry."""

    @abstractmethod
    def server_of(self, cell: int) -> Hashable:
        """Return a value that is the same for cells on the same server, as far as it is known."""

    @abstractmethod
    def _learn_set(self) -> None:
        """Learn the id of the set, before the first call."""

    def on_each(
        self,
        call: Callable[[CellClient], T],
        *,
        ignored: tuple[type[RSMQError], ...] = (),
    ) -> list[T]:
        """
        Make a call in each cell, one after another, and return the results.

        Args:
            ignored: errors of a call that count as done, unless it has them in all cells.

        Raises:
            RSMQError: the error of the call, if it has the same one in all cells.
            PartlyDone: some cells can't be reached, or have errors.
        """
        return list((self.by_cell(call, ignored=ignored)).values())

    def by_cell(
        self,
        call: Callable[[CellClient], T],
        *,
        ignored: tuple[type[RSMQError], ...] = (),
    ) -> dict[int, T]:
        """Make a call in each cell as ``on_each`` does, and return the results by cell."""
        self._learn_set()
        results: dict[int, T] = {}
        errors: dict[int, Exception] = {}
        lost: _LostServers = {}
        for cell in range(self.number):
            try:
                results[cell] = self._call_in(cell, lost, call)
            except (CellsMismatch, ClientClosed):
                raise
            except (RedisError, OSError, RSMQError) as error:
                errors[cell] = error
        if len(errors) == self.number and len({type(each) for each in errors.values()}) == 1:
            raise errors[0]
        errors = {cell: each for cell, each in errors.items() if not isinstance(each, ignored)}
        if errors:
            self.raise_partly_done(errors, list(results.values()))
        return results

    def in_cells(
        self,
        of_cells: Mapping[int, Any],
        call: Callable[[CellClient, Any], list[str]],
    ) -> list[str]:
        """
        Make a call in some cells, one after another, and return the ids of all.

        Args:
            of_cells: the argument of the call by cell.
            call: makes the call with the client of a cell and its argument; it returns ids.

        Raises:
            RedisError, OSError, RSMQError: the error of the only cell.
            RSMQError: the error of the call, if it has the same one in all of these cells.
            PartlyDone: some of several cells can't be reached, or have errors.
            NotReplicated: it ran in all of these cells, and some have not confirmed it in time.
        """
        self._learn_set()
        done: list[str] = []
        errors: dict[int, Exception] = {}
        lost: _LostServers = {}
        unconfirmed: dict[int, NotReplicated] = {}
        for cell, argument in of_cells.items():
            try:
                ids = self._call_in(cell, lost, call, argument)
            except (CellsMismatch, ClientClosed):
                raise
            except NotReplicated as error:
                unconfirmed[cell] = error
                ids = error.result
            except (RedisError, OSError, RSMQError) as error:
                if len(of_cells) == 1:
                    raise
                errors[cell] = error
                continue
            done += join_ids(cell, ids)
        if errors:
            first = first_error(errors)
            is_same = len(errors) == len(of_cells) and len({type(e) for e in errors.values()}) == 1
            if is_same and isinstance(first, RSMQError):
                raise first
            self.raise_partly_done(errors, done, unconfirmed)
        raise_unconfirmed(unconfirmed, done)
        return done

    def up_to(
        self,
        number: int | None,
        call: Callable[[CellClient, Any], list[T]],
        add_cell: Callable[[int, T], T],
    ) -> list[T]:
        """
        Make a call in each cell until there are so many results, or one is not confirmed in time.

        Args:
            number: the number of results at most; None is all.
            call: makes the call with the client of a cell, and the number of results at most.

        Raises:
            RSMQError: the error of the call, if it has the same one in all cells.
            PartlyDone: some cells can't be reached, or have errors.
            NotReplicated: a cell has not confirmed the call in time; later cells were not called.
        """
        self._learn_set()
        found: list[T] = []
        errors: dict[int, Exception] = {}
        lost: _LostServers = {}
        unconfirmed: dict[int, NotReplicated] = {}
        for cell in range(self.number):
            left = None if number is None else number - len(found)
            if left == 0 or unconfirmed:
                break
            try:
                results = self._call_in(cell, lost, call, left)
            except (CellsMismatch, ClientClosed):
                raise
            except NotReplicated as error:
                unconfirmed[cell] = error
                results = error.result
            except (RedisError, OSError, RSMQError) as error:
                errors[cell] = error
                continue
            found += [add_cell(cell, each) for each in results]
        if len(errors) == self.number and len({type(each) for each in errors.values()}) == 1:
            raise errors[0]
        if errors:
            self.raise_partly_done(errors, found, unconfirmed)
        raise_unconfirmed(unconfirmed, found)
        return found

    def _call_in(
        self,
        cell: int,
        lost: _LostServers,
        call: Callable[..., T],
        *arguments: Any,
    ) -> T:
        """
        Make a call in a cell, as a part of one in several cells.

        It waits for each server once until the deadline. In the other cells of a server that was
        not reached by then, the call is tried once; if the server hung, it is not tried.

        Args:
            lost: the servers that were not reached; changed.
            call: makes the call with its client and the arguments.
            arguments: the other arguments of ``call``.
        """
        earlier = lost.get(self.server_of(cell)) if lost else None
        if isinstance(earlier, RedisTimeoutError):
            raise earlier
        try:
            client = self.client(cell) if earlier is None else self.prompt_client(cell)
            return call(client, *arguments)
        except (RedisError, OSError) as error:
            if has_not_run(error) or isinstance(error, RedisTimeoutError):
                lost[self.server_of(cell)] = error
            raise

    def raise_partly_done(
        self,
        errors: Mapping[int, Exception],
        result: Any,
        unconfirmed: Mapping[int, NotReplicated] | None = None,
    ) -> None:
        """
        Raise PartlyDone.

        A subclass may note the errors instead: then the call returns the results of the others.

        Args:
            result: the result of the call in the other cells.
            unconfirmed: the errors of cells that have not confirmed the call in time.
        """
        error = PartlyDone(errors, self.number, result)
        if unconfirmed:
            cells = ", ".join(map(str, unconfirmed))
            error.add_note(f"Stored, but not confirmed by replicas, in these cells: {cells}")
        raise error from first_error(errors)
