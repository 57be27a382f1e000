"""
The calls of a set of cells: which cell they go to, and what happens if a cell is down.

Generated from ``engine_aio.py`` by ``scripts/generate-sync``: change it there.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from redis.exceptions import RedisError

from rsmq.cells.failures import Failures
from rsmq.cells.messages import CellMessage, add_cell_to_all, group_messages
from rsmq.cells.records import describe_record
from rsmq.client import RSMQ
from rsmq.codecs import Codec
from rsmq.errors import CellsMismatch, ClientClosed, NotReplicated, PartlyDone, RSMQError
from rsmq.model import Message
from rsmq.operations.arguments import resolve_queues
from rsmq.operations.batches import LeasedMessages, ReceiveInSteps
from rsmq.operations.cells import CellRecord, claim_cell
from rsmq.operations.operation import Operation
from rsmq.transport.backoff import exponential_seconds
from rsmq.transport.retry import Failure, classify, code_of, has_not_run, is_limited_to_keys
from rsmq.transport.sync import Caller
from rsmq.transport.topology.address import Address
from rsmq.waiting.cells import CellQueues
from rsmq.waiting.cells_sync import CellWatchers, finish, pause
from rsmq.wire.cells import join_ids
from rsmq.wire.limits import Seconds, check_wait

T = TypeVar("T")

#: The pause before cells that are down are tried again: doubled from the first to the longest.
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5


class CellClient(RSMQ[Any]):
    """The client of one cell, on connections that it shares with other cells."""

    def __init__(
        self,
        caller: Caller,
        ns: str,
        settings: dict[str, Any],
        retry_deadline: float | None = None,
    ) -> None:
        """
        Create a client; nothing is opened.

        Args:
            caller: runs its operations.
            ns: the namespace of the cell.
            settings: the other arguments of ``RSMQ``.
            retry_deadline: seconds for retries; None is the deadline of the caller.
        """
        self._configure(
            ns,
            settings["codec"],
            realtime=settings["realtime"],
            strict_names=settings["strict_names"],
        )
        self._require_copies(
            settings["min_replicas"], settings["replica_timeout"], settings["fsync"]
        )
        self._use_caller(caller)
        self._own_deadline = retry_deadline

    def codec_for(self, codec: Codec | None) -> Codec:
        """Return the codec of a call, or that of the client."""
        return self._codec_for(codec)

    def receive_leased(self, receive: ReceiveInSteps) -> LeasedMessages:
        """Receive messages with the ends of their leases, without waiting."""
        return self._receive_leased(receive, 0)

    def run(self, operation: Operation[T]) -> T:
        """See ``RSMQ.run``."""
        operation.retry_deadline = self._own_deadline
        return super().run(operation)

    @property
    def address(self) -> Address | None:
        """The server of the cell, of a cluster or of Sentinels, after a call; else None."""
        return self._caller.address_of(self.namespace.queues)

    def run_once(self, operation: Operation[T]) -> T:
        """Run an operation without retries: for monitoring, which reads again soon."""
        operation.retry_deadline = 0.0
        return super().run(operation)


#: A function that receives at most so many messages from one cell.
Receive: TypeAlias = Callable[[CellClient, int], Sequence[Message]]


class CellEngine:
    """
    The cells of a set, and the rules by which calls go to them.

    Attributes:
        number: the number of cells.
        clients: the client of each cell.
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
            namespaces: the namespace of each cell.
            settings: the arguments of ``RSMQ`` for each cell.
        """
        self.number = len(namespaces)
        pairs = list(zip(callers, namespaces, strict=True))
        self.clients = [CellClient(caller, ns, settings) for caller, ns in pairs]
        self.prompt_clients = [CellClient(caller, ns, settings, 0.0) for caller, ns in pairs]
        self._callers = callers
        self._retry_deadline = max(caller.origin.retry_deadline for caller in callers)
        self._failures = Failures()
        self._namespaces = [client.namespace for client in self.clients]
        self.watchers = CellWatchers(list(zip(callers, self._namespaces, strict=True)))
        self._set_id = ""
        self._checked: set[int] = set()
        self._checked_callers: set[int] = set()
        self._next = random.randrange(self.number)  # noqa: S311 - spreads load, keeps no secret
        self._closed = False
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
        self._check(cell, self.clients)
        return self.clients[cell]

    def prompt_client(self, cell: int) -> CellClient:
        """
        Return the client of a cell that does not retry.

        Raises:
            RedisError, OSError: the cell can't be checked; its server is left alone for a while.
        """
        try:
            self._check(cell, self.prompt_clients)
        except (RedisError, OSError) as error:
            self._note_failure(cell, error)
            raise
        return self.prompt_clients[cell]

    def _check(self, cell: int, clients: Sequence[CellClient]) -> None:
        if self._closed:
            raise ClientClosed
        if cell in self._checked:
            return
        self._learn_set(clients)
        self._claim(cell, clients, self._set_id)
        self._checked.add(cell)

    def _learn_set(self, clients: Sequence[CellClient]) -> None:
        """
        Learn the id of the set: that of the first cell with a record. Without one, make a set.

        Args:
            clients: the clients of the calls that need it. If they retry, all cells are tried
                until the deadline, which is not longer with more cells.

        Raises:
            ClientClosed: close() was called.
            RedisError, OSError: no cell that can be reached has a record, and others may have one.
            CellsMismatch: the cell belongs to another set.
        """
        if self._set_id:
            return
        does_retry = clients is self.clients
        until = monotonic() + (self._retry_deadline if does_retry else 0.0)
        passes = 0
        while True:
            if self._closed:
                raise ClientClosed
            failures = self._look_for_set()
            if self._set_id:
                return
            if not failures:
                break
            passes += 1
            seconds = _pause_seconds(passes)
            if monotonic() + seconds >= until:
                raise failures[0]
            pause(seconds)
        record = self._claim(0, clients, secrets.token_hex(8))
        assert record is not None  # noqa: S101 - it was stored, or another client has stored one
        self._set_id = record.set_id

    def _look_for_set(self) -> list[Exception]:
        """Look for the id of the set in one cell after another; return the errors of cells."""
        failures: list[Exception] = []
        for cell in range(self.number):
            try:
                record = self._claim(cell, self.prompt_clients, "")
            except (RedisError, OSError) as error:
                failures.append(error)
                continue
            if record is not None:
                self._set_id = record.set_id
                break
        return failures

    def _claim(self, cell: int, clients: Sequence[CellClient], set_id: str) -> CellRecord | None:
        namespace = self._namespaces[cell]
        if set_id:
            self._check_server(cell, clients)
        record = clients[cell].run(claim_cell(namespace, set_id, cell, self.number))
        if record is not None:
            expected = CellRecord(set_id or record.set_id, cell, self.number)
            if record != expected:
                raise CellsMismatch(
                    namespace.name, describe_record(record), describe_record(expected)
                )
        return record

    def _check_server(self, cell: int, clients: Sequence[CellClient]) -> None:
        """
        Check that a server has no cell that this client looks for on another server.

        Otherwise a client with the servers in another order would find no record in any cell, and
        make a second set. A server that has the record of the cell is right. So is one that has
        other cells which are also where this client looks for them: it may have several addresses,
        or be the former server of cells that were moved.

        Raises:
            CellsMismatch: it has one.
        """
        caller = self._callers[cell]
        others = [each for each in range(self.number) if self._callers[each] is not caller]
        if not others or id(caller) in self._checked_callers:
            return
        if self._record_of(cell, clients[cell]) is not None:
            return
        for other in others:
            record = self._record_of(other, clients[cell])
            if record is None:
                continue
            try:
                is_elsewhere = self._record_of(other, clients[other]) is not None
            except (RedisError, OSError):  # not known
                continue
            if not is_elsewhere:
                name = self._namespaces[other].name
                place = f"on the server that this client uses for cell {cell}"
                stored = f"{describe_record(record)} {place}"
                raise CellsMismatch(name, stored, "on that of its own URL")
        self._checked_callers.add(id(caller))

    def _record_of(self, cell: int, client: CellClient) -> CellRecord | None:
        """Return the record of a cell on the server of a client."""
        return client.run(claim_cell(self._namespaces[cell], "", cell, self.number))

    def on_each(
        self,
        call: Callable[[CellClient], T],
        *,
        ignored: tuple[type[RSMQError], ...] = (),
    ) -> list[T]:
        """
        Make a call in each cell, one after another, and return the results.

        Args:
            call: makes the call with the client of a cell.
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
        self._learn_set(self.clients)
        results: dict[int, T] = {}
        errors: dict[int, Exception] = {}
        for cell in range(self.number):
            try:
                results[cell] = call(self.client(cell))
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
        """
        self._learn_set(self.clients)
        done: list[str] = []
        errors: dict[int, Exception] = {}
        for cell, argument in of_cells.items():
            try:
                ids = call(self.client(cell), argument)
            except (CellsMismatch, ClientClosed):
                raise
            except (RedisError, OSError, RSMQError) as error:
                if len(of_cells) == 1:
                    raise
                errors[cell] = error
                ids = error.result if isinstance(error, NotReplicated) else []
            done += join_ids(cell, ids)
        if errors:
            first = _first(errors)
            is_same = len(errors) == len(of_cells) and len({type(e) for e in errors.values()}) == 1
            if is_same and not done and isinstance(first, RSMQError):
                raise first
            self.raise_partly_done(errors, done)
        return done

    def up_to(
        self,
        number: int | None,
        call: Callable[[CellClient, Any], list[T]],
        add_cell: Callable[[int, T], T],
    ) -> list[T]:
        """
        Make a call in each cell until there are so many results.

        Args:
            number: the number of results at most; None is all.
            call: makes the call with the client of a cell, and the number of results at most.
            add_cell: adds the number of the cell to a result.

        Raises:
            RSMQError: the error of the call, if it has the same one in all cells.
            PartlyDone: some cells can't be reached, or have errors.
        """
        self._learn_set(self.clients)
        found: list[T] = []
        errors: dict[int, Exception] = {}
        for cell in range(self.number):
            left = None if number is None else number - len(found)
            if left == 0:
                break
            try:
                results = call(self.client(cell), left)
            except (CellsMismatch, ClientClosed):
                raise
            except (RedisError, OSError, RSMQError) as error:
                errors[cell] = error
                results = error.result if isinstance(error, NotReplicated) else []
            found += [add_cell(cell, each) for each in results]
        if len(errors) == self.number and len({type(each) for each in errors.values()}) == 1:
            raise errors[0]
        if errors:
            self.raise_partly_done(errors, found)
        return found

    def raise_partly_done(self, errors: Mapping[int, Exception], result: Any) -> None:
        """
        Raise PartlyDone.

        A subclass may note the errors instead: then the call returns the results of the others.

        Args:
            errors: the errors by cell.
            result: the result of the call in the other cells.
        """
        raise PartlyDone(errors, self.number, result) from _first(errors)

    def in_any(self, call: Callable[[CellClient], T]) -> tuple[int, T]:
        """
        Make a call in the next cell; if it can't run there, in another one.

        Args:
            call: makes the call with the client of a cell.

        Returns:
            The cell and the result.

        Raises:
            RedisError, OSError: the call may have run; or no cell can be reached until the
                deadline.
        """
        first = self.next_cell()
        until = monotonic() + self._retry_deadline
        passes = 0
        while True:
            passes += 1
            failures: list[Exception] = []
            for each in range(first, first + self.number):
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
                    # A server without memory refuses the first write of a script.
                    if not has_not_run(error) and not _is_out_of_memory(error):
                        raise
                    failures.append(error)
                else:
                    self._failures.forget(self.server_of(cell))
                    return cell, result
            seconds = _pause_seconds(passes)
            if all(map(_is_out_of_memory, failures)) or monotonic() + seconds >= until:
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
            receive: receives from one cell.
            queues: the queues.
            max_messages: the number of messages at most.
            wait: seconds to wait for the first message; None waits forever.
            one_cell: whether the messages must be from one cell, as for a pop.

        Raises:
            PartlyDone: no cell that can be reached has a message, and some can't be reached.
        """
        seconds = check_wait(wait)
        until = None if seconds is None else monotonic() + seconds
        look = _Look(self, receive, queues, max_messages, one_cell=one_cell)
        if self._closed:
            raise ClientClosed
        found = look.at(self.watchers.due_cells(queues))
        if found:
            return found
        if seconds == 0:
            return look.at_all()
        waiter = self.watchers.waiter(queues)
        try:
            if len(self._checked) < self.number:  # so that it is known which server has each cell
                unchecked = [cell for cell in range(self.number) if cell not in self._checked]
                found = look.at(unchecked)
            while not found:
                cells = waiter.wait(None if until is None else until - monotonic())
                if not cells:
                    look.raise_recent_errors()
                    return []
                found = look.at(cells)
                if not found:
                    look.raise_errors_of_all()
                    waiter.note_empty()
            waiter.note_receive({message.cell for message in found})
        except BaseException:
            self.release(found)
            raise
        finally:
            waiter.close()
        return found

    def receive_from_all(
        self, receive: Receive, queues: CellQueues, max_messages: int
    ) -> list[CellMessage[Any]]:
        """
        Receive messages from all cells in turn.

        Raises:
            PartlyDone: no cell that can be reached has a message, and some can't be reached.
        """
        return _Look(self, receive, queues, max_messages, one_cell=False).at_all()

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
            cell: the cell.
            client: its client.
            receive: receives from it.
            queues: the queues.
            max_messages: the number of messages at most in found.
            found: gets the messages at once, so that an interruption hides none of them.

        Raises:
            RedisError, OSError: the cell can't be reached.
        """
        left = max_messages - len(found)
        try:
            found += add_cell_to_all(cell, receive(client, left))
        except (RedisError, OSError) as error:
            self._note_failure(cell, error)
            raise
        self._failures.forget(self.server_of(cell))
        is_drained = len(found) < max_messages
        self.watchers.note_look(queues, cell, is_drained=is_drained)

    def recent_failure(self, cell: int) -> Exception | None:
        """Return the failure because of which a cell is left alone now; None if it is not."""
        return self._failures.recent(self.server_of(cell))

    def server_of(self, cell: int) -> Hashable:
        """Return a value that is the same for cells on the same server, as far as it is known."""
        caller = self._callers[cell]
        return id(caller), caller.address_of(self._namespaces[cell].queues)

    def _forget_failure(self, cell: int) -> None:
        if self._failures:
            self._failures.forget(self.server_of(cell))

    def _note_failure(self, cell: int, error: Exception) -> None:
        if not is_limited_to_keys(error):  # other cells of the server may have no error
            self._failures.note(self.server_of(cell), error)
        self.watchers.note_failure()

    def release(self, messages: Sequence[Message]) -> None:
        """Release received messages, also if the task is cancelled again; errors are ignored."""
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
        self._closed = True
        self.watchers.close()
        for client in (*self.clients, *self.prompt_clients):
            client.close()


class _Look:
    """
    The looks of one receive at the cells.

    Attributes:
        errors: the last error of each cell that could not be reached.
    """

    def __init__(
        self,
        engine: CellEngine,
        receive: Receive,
        queues: CellQueues,
        max_messages: int,
        *,
        one_cell: bool,
    ) -> None:
        self.errors: dict[int, Exception] = {}
        self._engine = engine
        self._receive = receive
        self._queues = queues
        self._max_messages = max_messages
        self._one_cell = one_cell
        self._all_down_since: float | None = None

    def at(self, cells: Iterable[int], *, is_patient: bool = False) -> list[CellMessage[Any]]:
        """
        Receive from these cells, until there are as many messages as wished.

        Args:
            cells: the cells.
            is_patient: whether to try cells again that could not be reached just now.
        """
        found: list[CellMessage[Any]] = []
        try:
            for cell in cells:
                recent = None if is_patient else self._engine.recent_failure(cell)
                if recent is not None and not _is_out_of_memory(recent):  # receives free memory
                    self.errors[cell] = recent
                    continue
                try:
                    client = self._engine.prompt_client(cell)
                except (RedisError, OSError) as error:
                    self.errors[cell] = error
                    continue
                try:
                    self._engine.look_at(
                        cell,
                        client,
                        self._receive,
                        self._queues,
                        max_messages=self._max_messages,
                        found=found,
                    )
                except (RedisError, OSError) as error:
                    if self._one_cell and _may_have_run(error):
                        raise  # it may have popped messages, whose reply was lost
                    self.errors[cell] = error
                    continue
                self.errors.pop(cell, None)
                if len(found) >= self._max_messages or (found and self._one_cell):
                    break
        except BaseException:
            if not self._one_cell:
                self._engine.release(found)
            raise
        return found

    def at_all(self) -> list[CellMessage[Any]]:
        """
        Receive from all cells. Those that can't be reached are tried again until the deadline.

        A cell whose server rejects the call is not tried again.

        Raises:
            PartlyDone: no other cell has a message.
            RedisError, OSError: no cell can be reached.
        """
        number = self._engine.number
        first = self._engine.next_cell()
        found = self.at(each % number for each in range(first, first + number))
        until = monotonic() + self._engine.retry_deadline
        passes = 0
        while self.errors and not found:
            passes += 1
            seconds = _pause_seconds(passes)
            retried = [cell for cell, error in self.errors.items() if not _is_final(error)]
            if not retried or monotonic() + seconds >= until:
                self.raise_errors()
            pause(seconds)
            found = self.at(retried, is_patient=True)
        return found

    def raise_errors(self) -> None:
        """Raise PartlyDone if some cells could not be reached; if none could, its error."""
        if len(self.errors) == self._engine.number:
            raise _first(self.errors)
        if self.errors:
            raise PartlyDone(self.errors, self._engine.number, []) from _first(self.errors)

    def raise_recent_errors(self) -> None:
        """Raise PartlyDone if some cells could not be reached just now, also by other calls."""
        for cell in range(self._engine.number):
            recent = self._engine.recent_failure(cell)
            if recent is not None and not _is_out_of_memory(recent):
                self.errors[cell] = recent
        self.raise_errors()

    def raise_errors_of_all(self) -> None:
        """Raise the error if no cell could be reached for longer than the deadline."""
        if len(self.errors) < self._engine.number:
            self._all_down_since = None
        elif self._all_down_since is None:
            self._all_down_since = monotonic()
        elif monotonic() >= self._all_down_since + self._engine.retry_deadline:
            self.raise_errors()


def _pause_seconds(passes: int) -> float:
    return exponential_seconds(passes, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)


def _is_out_of_memory(error: Exception) -> bool:
    return code_of(error) == "OOM"


def _may_have_run(error: Exception) -> bool:
    return not has_not_run(error) and classify(error, is_sent=True) is Failure.AMBIGUOUS


def _is_final(error: Exception) -> bool:
    """Return whether a call that is repeated would get the same error."""
    return not has_not_run(error) and classify(error, is_sent=True) is Failure.FINAL


def _first(errors: Mapping[int, Exception]) -> Exception:
    return next(iter(errors.values()))
