# Generated from rsmq/cells/membership.py by scripts/generate-sync. Do not edit.
"""
The set to which cells belong: each has the id of its set, its number and the number of cells.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from time import monotonic

from redis.exceptions import RedisError

from rsmq._sync.cell_client import CellClient
from rsmq.cells.failures import pause_seconds
from rsmq.cells.records import describe_record
from rsmq.cells.time_limits import current_time_limit
from rsmq.errors import CellsMismatch, ClientClosed
from rsmq.guarded_log import get_logger
from rsmq.operations.cells import CellRecord, claim_cell
from rsmq.transport.threads.caller import Caller
from rsmq.transport.threads.interruption import pause

_log = get_logger("rsmq.cells")

#: Seconds after which the record of a cell is read again before its next use.
RECHECK_SECONDS = 60.0


class Membership:
    """
    The checks that cells belong to one set.

    A cell is checked before its first use, again after a call in it has failed, since another
    server may be there now, and each minute.

    Attributes:
        checked: the cells that were checked at least once.
        is_closed: whether all later checks raise ClientClosed.
    """

    def __init__(
        self,
        callers: Sequence[Caller],
        clients: Sequence[CellClient],
        prompt_clients: Sequence[CellClient],
        retry_deadline: float,
    ) -> None:
        """
        Prepare the checks; nothing is opened.

        Args:
            callers: the caller of each cell.
            prompt_clients: the client of each cell that does not retry.
            retry_deadline: seconds for retries.
        """
        self.checked: set[int] = set()
        self.is_closed = False
        self._number = len(clients)
        self._callers = callers
        self._clients = clients
        self._prompt_clients = prompt_clients
        self._namespaces = [client.namespace for client in clients]
        self._retry_deadline = retry_deadline
        self._set_id = ""
        self._checked_callers: set[int] = set()
        #: The monotonic seconds until which each cell needs no check.
        self._valid_until: dict[int, float] = {}

    def check(self, cell: int, clients: Sequence[CellClient]) -> None:
        """
        Check before a use of a cell that it belongs to this set; store its record if it has none.

        Args:
            clients: the clients of the call that needs it.

        Raises:
            ClientClosed: close() was called.
            CellsMismatch: it belongs to another set.
            RedisError, OSError: it can't be reached.
        """
        if self.is_closed:
            raise ClientClosed
        now, client = monotonic(), clients[cell]
        if now < self._valid_until.get(cell, 0.0) and not client.has_failed:
            return
        self.learn_set(clients)
        client.has_failed = False  # unless the check fails
        if cell not in self.checked or not self._has_record(cell, clients):
            self._claim(cell, clients, self._set_id)
        self.checked.add(cell)
        self._valid_until[cell] = now + RECHECK_SECONDS

    def _has_record(self, cell: int, clients: Sequence[CellClient]) -> bool:
        """
        Check the record of a cell that was checked before. Return whether it has one.

        Raises:
            CellsMismatch: it belongs to another set.
            RedisError, OSError: it can't be reached.
        """
        record = self.record_of(cell, clients[cell])
        if record is not None:
            self._require(cell, record, self._set_id)
            return True
        _log.warning(
            "Cell %d (%s) has lost its record: its server has lost data, or is another one. The "
            "record is stored again. Compare the cells with rsmq doctor.",
            cell,
            self._namespaces[cell].name,
        )
        self._checked_callers.discard(id(self._callers[cell]))
        return False

    def learn_set(self, clients: Sequence[CellClient]) -> None:
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
        does_retry = clients is self._clients
        limit = current_time_limit() if does_retry else None
        until = monotonic() + (self._retry_deadline if does_retry else 0.0)
        until = until if limit is None else limit.ends_at
        passes = 0
        while True:
            if self.is_closed:
                raise ClientClosed
            failures = self._look_for_set()
            if self._set_id:
                return
            if not failures:
                break
            passes += 1
            seconds = pause_seconds(passes)
            if monotonic() + seconds >= until:
                raise failures[0]
            pause(seconds)
        record = self._claim(0, clients, secrets.token_hex(8))
        assert record is not None  # noqa: S101 - it was stored, or another client has stored one
        self._set_id = record.set_id

    def _look_for_set(self) -> list[Exception]:
        """Look for the id of the set in one cell after another; return the errors of cells."""
        failures: list[Exception] = []
        for cell in range(self._number):
            try:
                record = self._claim(cell, self._prompt_clients, "")
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
        claim = claim_cell(namespace, set_id, cell, self._number)
        claim.limit = current_time_limit()
        record = clients[cell].run(claim)
        if record is not None:
            self._require(cell, record, set_id or record.set_id)
        return record

    def _require(self, cell: int, record: CellRecord, set_id: str) -> None:
        expected = CellRecord(set_id, cell, self._number)
        if record != expected:
            name = self._namespaces[cell].name
            raise CellsMismatch(name, describe_record(record), describe_record(expected))

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
        others = [each for each in range(self._number) if self._callers[each] is not caller]
        if not others or id(caller) in self._checked_callers:
            return
        if self.record_of(cell, clients[cell]) is not None:
            return
        for other in others:
            record = self.record_of(other, clients[cell])
            if record is None:
                continue
            try:
                is_elsewhere = self.record_of(other, clients[other]) is not None
            except (RedisError, OSError):  # not known
                continue
            if not is_elsewhere:
                name = self._namespaces[other].name
                place = f"on the server that this client uses for cell {cell}"
                stored = f"{describe_record(record)} {place}"
                raise CellsMismatch(name, stored, "on that of its own URL")
        self._checked_callers.add(id(caller))

    def record_of(self, cell: int, client: CellClient) -> CellRecord | None:
        """Return the record of a cell on the server of a client."""
        read = claim_cell(self._namespaces[cell], "", cell, self._number)
        read.limit = current_time_limit()
        return client.run(read)
