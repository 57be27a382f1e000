"""
Access to the cells that a worker works in. A server that fails is left alone for a while.

The home cell has the worker's sign of life, and decides who has its name. In another cell the name
is stored at the first receive. If another worker's token is stored there, the home is asked: then
either this worker ends, because it was replaced, or it takes the cell over from its predecessor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq._sync.client import RSMQ
from rsmq.errors import CellsMismatch, ClientClosed, RSMQError, WorkerReplaced
from rsmq.guarded_log import get_logger
from rsmq.printable import format_count
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.transport.retry import is_limited_to_keys
from rsmq.waiting.cells.queues import CellQueues
from rsmq.wire.cells import cell_of_key
from rsmq.worker.delivery import delivery_class_of
from rsmq.worker.operations import Identity, claim_name, keep_name, list_in_flight
from rsmq.worker.places.arrivals import CellArrivals, QueueArrivals
from rsmq.worker.settle.release import release_receipts
from rsmq.worker.state.lane import Arrivals, Cell, Lane

T = TypeVar("T")

_log = get_logger("rsmq.worker")

#: The pause after a failed call to Redis: doubled from the first to the longest. With several
#: servers it is twice as long as a call that timed out: a server that hangs stops the others only
#: a third of the time.
_FIRST_RETRY_PAUSE_SECONDS = 0.1
_MAX_RETRY_PAUSE_SECONDS = 2.0
_PAUSE_PER_TIMEOUT = 2.0
#: How long a stopping worker tries each call to a server that fails.
_STOPPING_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _Failing:
    """
    A server that fails, or a cell whose keys are the cause.

    Attributes:
        error: the last failure.
        count: the number of failures in a row.
        retry_at: monotonic seconds before which no call is made.
        has_succeeded: whether the calls of this turn of the loop have succeeded so far.
    """

    error: BaseException
    count: int = 0
    retry_at: float = 0.0
    has_succeeded: bool = False


class CellAccess:
    """
    The cells of a worker, and the calls in them.

    Attributes:
        starting_client: the client of the home for the start of the worker, which may retry calls.
        home: the cell that has the worker's sign of life.
        open_cells: the cells that were opened, by their numbers; the home is one from the start.
        is_stopping: whether the worker stops. Then calls to a server that fails take no longer than
            a second, not ``retry_deadline``. Written by ``WorkerLoop.stop``, in any thread.
    """

    is_stopping = False

    def __init__(self, rsmq: RSMQ[Any], name: str, token: str) -> None:
        """
        Open the home, which the worker's name decides, so that a successor finds it again.

        Args:
            rsmq: the client.
            name: the worker's name.
            token: its unique token.

        Raises:
            CellsMismatch: the home belongs to another set of cells.
            RedisError, OSError: the home can't be reached.
        """
        self.name = name
        self._engine = rsmq.engine
        self._token = token
        self._failing: dict[Hashable, _Failing] = {}
        self.open_cells: dict[int, Cell] = {}
        home = self._number_of(name)
        self.starting_client: RSMQ[Any] = self._engine.client(home)  # checks it, with retries
        self.home = self.open(home)
        self.home.is_used = True

    @property
    def missing(self) -> list[int]:
        """The numbers of the cells that are not open yet."""
        if len(self.open_cells) == self._engine.number:
            return []
        return [each for each in range(self._engine.number) if each not in self.open_cells]

    def open(self, index: int) -> Cell:
        """
        Open a cell, and return it.

        Raises:
            CellsMismatch: it belongs to another set of cells.
            RedisError, OSError: it can't be reached.
        """
        client = self._engine.prompt_client(index)
        cell = self.open_cells[index] = Cell(
            index,
            client,
            Identity(client.namespace, self.name, self._token),
            delivery_class_of(self._engine.message_class(index)),
            partial(self._retry_at, index),
        )
        return cell

    def check(self, index: int) -> None:
        """
        Check that an open cell still belongs to the set, if the last check was some time ago.

        Raises:
            CellsMismatch: it belongs to another set.
            RedisError, OSError: it can't be reached.
        """
        self._engine.prompt_client(index)

    def make_arrivals(self, lane: Lane, wake_up: Callable[[], object]) -> Arrivals:
        """Return the arrivals of messages in the queues of a lane."""
        watchers = self._engine.watchers
        if watchers is None:
            return QueueArrivals(self.home.client, lane, wake_up)
        namespaces = [client.namespace for client in self._engine.clients]
        return CellArrivals(watchers, CellQueues(namespaces, (lane.name,)), lane, wake_up)

    def cell_of_queue(self, queue: str) -> Cell | None:
        """Return the cell that has the shared state of a queue; None if it is not open yet."""
        return self.open_cells.get(self._number_of(queue))

    def _number_of(self, name: str) -> int:
        """Return the number of the cell that has the shared state of a queue or worker."""
        return cell_of_key(name, self._engine.number)

    def describe(self, cell: Cell) -> str:
        """Return a text that names a cell in a log line; empty if there is only one."""
        return "" if self._engine.number == 1 else f" in cell {cell.number}"

    # Failures.

    def _places_of(self, index: int) -> tuple[Hashable, Hashable]:
        """Return the keys of a cell in ``_failing``: that of its server, and its own."""
        return self._engine.server_of(index), ("cell", index)

    def _failures_of(self, index: int) -> list[_Failing]:
        places = self._places_of(index)
        return [self._failing[place] for place in places if place in self._failing]

    def _retry_at(self, index: int) -> float:
        """See ``Cell.retry_at``."""
        if not self._failing:
            return 0.0
        retry_at = max((each.retry_at for each in self._failures_of(index)), default=0.0)
        return retry_at if retry_at > time.monotonic() else 0.0

    def retry_at(self) -> float:
        """Return the monotonic seconds at which a server that has failed is tried again."""
        if not self._failing:
            return math.inf
        now = time.monotonic()
        return min(
            (each.retry_at for each in self._failing.values() if each.retry_at > now),
            default=math.inf,
        )

    def retry_now(self) -> None:
        """Let servers that have failed be tried again at once."""
        for failing in self._failing.values():
            failing.retry_at = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether a server fails."""
        return bool(self._failing)

    def is_answering(self, cell: Cell) -> bool:
        """Return whether calls in a cell succeed, as far as is known."""
        return not self._failing or not self._failures_of(cell.number)

    def last_error(self, cell: Cell) -> str:
        """Return the last error of the server of a cell that fails, as text."""
        failures = self._failures_of(cell.number)
        return "; ".join(f"{type(each.error).__name__}: {each.error}" for each in failures)

    @property
    def are_all_failing(self) -> bool:
        """Whether no call can be made in any cell now."""
        return bool(self._failing) and all(cell.retry_at() for cell in self.open_cells.values())

    def attempt(self, index: int, call: Callable[[], T]) -> T | None:
        """
        Make a call in a cell, unless its server has failed a short time ago.

        Returns:
            Its result; None if it was not made, or has failed.

        Raises:
            WorkerReplaced: another worker has the name.
            CellsMismatch: the cell belongs to another set.
            ClientClosed: the client was closed.
        """
        if self._failing and self._retry_at(index):
            return None
        began = time.monotonic()
        has_failed = bool(self._failing and self._failures_of(index))
        if (cell := self.open_cells.get(index)) is not None:
            cell.max_seconds = _STOPPING_SECONDS if has_failed and self.is_stopping else None
        try:
            if has_failed:
                self.check(index)
            result = call()
        except (ClientClosed, CellsMismatch):
            raise
        except WorkerReplaced as error:
            cell = self.open_cells.get(index)
            if cell is None or cell is self.home:
                raise
            self._reclaim(cell, error)
            return None
        except (RedisError, RSMQError, OSError) as error:
            self._note_failure(index, error, time.monotonic() - began)
            return None
        if self._failing:
            for failing in self._failures_of(index):
                failing.has_succeeded = True
        return result

    def _note_failure(self, index: int, error: BaseException, seconds: float) -> None:
        self._engine.note_failure()
        of_server, of_cell = self._places_of(index)
        is_of_cell = is_limited_to_keys(error) or isinstance(error, WorkerReplaced)
        place = of_cell if is_of_cell else of_server
        failing = self._failing.setdefault(place, _Failing(error))
        failing.error = error
        failing.count += 1
        failing.has_succeeded = False
        pause = with_jitter(
            exponential_seconds(failing.count, _FIRST_RETRY_PAUSE_SECONDS, _MAX_RETRY_PAUSE_SECONDS)
        )
        if self._engine.number > 1 and isinstance(error, RedisTimeoutError):
            pause = max(pause, _PAUSE_PER_TIMEOUT * seconds)
        failing.retry_at = time.monotonic() + pause
        if failing.count in (1, 5) or failing.count % 30 == 0:
            place = "" if self._engine.number == 1 else f" in cell {index}"
            _log.warning(
                "worker %s continues to try%s: %s: %s",
                self.name,
                place,
                type(error).__name__,
                error,
            )

    def end_turn(self) -> None:
        """Note the end of a turn of the loop: forget the servers that work again, or have gone."""
        if not self._failing:
            return
        numbers = range(self._engine.number)
        present = {place for index in numbers for place in self._places_of(index)}
        for place in self._failing.keys() - present:
            del self._failing[place]
        for server in [each for each, failing in self._failing.items() if failing.has_succeeded]:
            del self._failing[server]
            _log.info("worker %s: Redis answers again", self.name)

    # The name.

    def take_over(self, cell: Cell) -> int:
        """
        Give this worker its name in a cell, and release what a predecessor had in flight there.

        Returns:
            How many messages the predecessor had in flight.
        """
        cell.is_used = True
        if cell is not self.home and not cell.client.run(claim_name(cell.identity)):
            return 0
        in_flight = cell.client.run_steps(list_in_flight(cell.client.namespace, self.name))
        released = release_receipts(cell, in_flight, are_begun=True)
        if released:
            _log.warning(
                "worker %s: its predecessor died with %s%s, now due again",
                self.name,
                format_count(released),
                self.describe(cell),
            )
        return sum(map(len, in_flight.values()))

    def keep_name(self, cell: Cell) -> bool:
        """
        Check that this worker has its name in a cell, and let its record there live on.

        Returns:
            True.

        Raises:
            WorkerReplaced: another worker has the name.
        """
        cell.run(keep_name(cell.identity))
        return True

    def _reclaim(self, cell: Cell, replaced: WorkerReplaced) -> None:
        """
        Take a cell over from a predecessor that still worked there when this worker started.

        Raises:
            WorkerReplaced: by the home, this worker is the predecessor.
        """
        if not self.attempt(self.home.number, partial(self.keep_name, self.home)):
            self._note_failure(cell.number, replaced, 0.0)
            return
        try:
            cell.client.run(claim_name(cell.identity))
            cell.has_unknown_messages = True
        except (RedisError, RSMQError, OSError) as error:
            self._note_failure(cell.number, error, 0.0)
