"""
The process side of schedules: a thread waits until a schedule is due, and fires it.

Any number of processes do this for the same namespace. They wait as receives wait: the server
reports changes of the sorted set of due schedules, so that idle processes send nothing, and one of
many wakes up for a tick.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import CellsMismatch, ClientClosed, RSMQError
from rsmq.guarded_log import get_logger
from rsmq.schedules.operations import Firing, fire_due_schedules
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.transport.retry import code_of
from rsmq.transport.signals import Flag
from rsmq.waiting.schedule import Waiter
from rsmq.wire.names import decode_name

_log = get_logger("rsmq.schedules")

#: The pause between two looks while a server does not report changes: with and without schedules.
_POLL_SECONDS = 1.0
_IDLE_POLL_SECONDS = 10.0
#: The pause after an error, doubled from the first to the longest.
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
#: A wake-up so short after the last one, for no message, is an error of the server's reply.
_SUDDEN_SECONDS = 5.0


class _CellState:
    """
    What is known of the schedules of a cell.

    Attributes:
        is_due: whether to look at it now.
        has_schedules: whether the last look has found some, due or not.
        next_at: monotonic seconds of the next look if the server does not report changes.
        failures: the number of errors in a row.
        retry_at: monotonic seconds before which it is left alone; infinite if this user has no
            right to it.
        joined_at: when it was waited for last.
    """

    def __init__(self, *, is_due: bool) -> None:
        self.is_due = is_due
        self.has_schedules = False
        self.next_at = time.monotonic() + _POLL_SECONDS
        self.failures = 0
        self.retry_at = -math.inf
        self.joined_at = -math.inf


class Scheduler:
    """
    Fires the schedules of a client that are due.

    Attributes:
        fired: the number of messages that it has sent.
    """

    def __init__(self, rsmq: Any, *, looks_at_once: bool = False) -> None:
        """
        Make it; nothing is read.

        Args:
            rsmq: an ``RSMQ`` or ``Cells``.
            looks_at_once: whether it looks at all cells first. Otherwise it begins to wait, and
                looks at a cell when its server reports that a schedule is due.
        """
        self.fired = 0
        self._engine = rsmq.engine
        self._clients = rsmq.cells
        self._cells = [_CellState(is_due=looks_at_once) for _ in self._clients]
        self._wake_up = Flag()
        self._is_stopping = False
        self._waiters: dict[Any, Waiter] = {}
        #: Those that are waiting, or whose wake-ups have not been noted yet.
        self._joined: set[Waiter] = set()
        self._unable: set[str] = set()
        keys = (client.namespace.due_schedules for client in self._clients)
        self._cell_of_key = {key: cell for cell, key in enumerate(keys)}

    def stop(self) -> None:
        """Let ``run`` return after the present call; from any thread or signal handler."""
        self._is_stopping = True
        self._wake_up.set()

    def run(self) -> None:
        """Fire schedules until ``stop`` is called, or the client is closed."""
        try:
            while not self._is_stopping:
                self.fire_due()
                self._wait()
        except ClientClosed:
            pass
        finally:
            for watcher, waiter in self._waiters.items():
                with suppress(ClientClosed):
                    watcher.remove(waiter)

    def fire_due(self, *, raises: bool = False) -> int:
        """
        Fire what is due in the cells that are to be looked at.

        Args:
            raises: whether errors of a server are raised, and not logged.

        Returns:
            The number of messages that were sent.
        """
        before = self.fired
        for number, cell in enumerate(self._cells):
            if cell.is_due and time.monotonic() >= cell.retry_at and not self._is_stopping:
                try:
                    self._look(number, cell)
                except ClientClosed:
                    raise
                except (RedisError, OSError, RSMQError) as error:
                    if raises:
                        raise
                    self._note_error(number, cell, error)
        return self.fired - before

    def _look(self, number: int, cell: _CellState) -> None:
        client = self._engine.prompt_client(number)
        while not self._is_stopping:
            found: Firing = client.run_steps(fire_due_schedules(client.namespace))
            self._report(found)
            # With a schedule that it can't compute, it looks again to know when the others are due.
            if not found.has_more and not (found.unable and found.fired):
                break
        cell.is_due, cell.failures = False, 0
        cell.has_schedules = bool(
            found.fired
            or found.failures
            or found.others
            or found.unable
            or found.next_in < math.inf
        )
        now = time.monotonic()
        cell.next_at = now + min(
            max(found.next_in, 0.0), _POLL_SECONDS if cell.has_schedules else _IDLE_POLL_SECONDS
        )
        if found.unable:
            # Its time has come, so the server's reports say nothing about the others: poll.
            cell.retry_at, cell.is_due = now + min(max(found.next_in, 0.0), _POLL_SECONDS), True
        self._note_look(number, has_fired=bool(found.fired))

    def _note_look(self, number: int, *, has_fired: bool) -> None:
        key = self._clients[number].namespace.due_schedules
        for watcher, waiter in self._waiters.items():
            # A wake-up during the look is not noted yet: it asks for another look.
            if waiter.is_awake and waiter.reason == key and waiter not in self._joined:
                if has_fired:
                    watcher.note_receive(waiter)
                    waiter.empty_receives = 0
                else:
                    waiter.empty_receives += 1

    def _report(self, found: Firing) -> None:
        for name, ids in found.fired.items():
            self.fired += len(ids)
            if ids:
                _log.debug("schedule %s: sent %s", name, ids[-1])
            elif name in found.joined:
                text = "schedule %s: not sent, as message %s with its unique_key is in the queue"
                _log.info(text, name, found.joined[name])
            else:
                _log.warning("schedule %s: a tick was missed, and is skipped", name)
        for name, reason in found.failures.items():
            _log.warning("schedule %s: not sent, and tried again: %s", name, reason)
        for name, reason in found.unable.items():
            if name not in self._unable:
                self._unable.add(name)
                _log.warning("schedule %s: this process can't fire it: %s", name, reason)

    def _note_error(self, number: int, cell: _CellState, error: Exception) -> None:
        cell.failures += 1
        where = f" of cell {number}" if len(self._cells) > 1 else ""
        seconds = exponential_seconds(cell.failures, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        if code_of(error) == "NOPERM" or isinstance(error, CellsMismatch):
            seconds = math.inf
        cell.retry_at = time.monotonic() + with_jitter(seconds, 0.5)
        cell.is_due = not math.isinf(seconds)
        if code_of(error) == "NOPERM":  # as intended, if the user's rights end at its queues
            namespace = self._clients[number].namespace
            _log.info(
                "schedules%s: this user has no right to %s and %s, so this process fires none",
                where,
                decode_name(namespace.schedules),
                decode_name(namespace.due_schedules),
            )
        elif cell.failures == 1:
            rest = "" if cell.is_due else ". This process fires none"
            _log.warning("schedules%s: %s: %s%s", where, type(error).__name__, error, rest)

    def _wait(self) -> None:
        """Wait until there is something to look at."""
        while not self._is_stopping:
            self._wake_up.clear()
            groups = self._groups()
            self._collect(groups)
            now = time.monotonic()
            until = min((cell.retry_at for cell in self._cells if cell.is_due), default=math.inf)
            if until <= now:
                return
            self._join(groups)
            for watcher, cells in groups:
                if not watcher.is_tracking:
                    # Those that are due wait for their retry: their next look is in the past.
                    polls = [self._cells[each] for each in cells if not self._cells[each].is_due]
                    until = min([until, *(of.next_at for of in polls if of.retry_at < math.inf)])
            self._wake_up.wait(None if math.isinf(until) else max(until - now, 0.0))

    def _groups(self) -> list[tuple[Any, list[int]]]:
        """Return the watchers of the servers, each with its cells."""
        watchers = self._engine.watchers
        if watchers is None:
            return [(self._clients[0].watcher, [0])]
        groups: list[tuple[Any, list[int]]] = watchers.groups()
        return groups

    def _join(self, groups: list[tuple[Any, list[int]]]) -> None:
        """Wait for the reports of all servers."""
        waiters: dict[Any, Waiter] = {}
        now = time.monotonic()
        for watcher, cells in groups:
            keys = tuple(
                self._clients[each].namespace.due_schedules
                for each in cells
                if self._cells[each].retry_at < math.inf
            )
            waiter = self._waiters.pop(watcher, None)
            if waiter is not None and waiter.queues != keys:
                self._leave(watcher, waiter)
                waiter = None
            if waiter is None:
                waiter = Waiter(keys, self._wake_up.set)
            if waiter not in self._joined and keys:
                for each in cells:
                    self._cells[each].joined_at = now
                self._joined.add(waiter)
                watcher.add(waiter)
            waiters[watcher] = waiter
        for watcher, waiter in self._waiters.items():  # their cells are on other servers now
            self._leave(watcher, waiter)
        self._waiters = waiters

    def _leave(self, watcher: Any, waiter: Waiter) -> None:
        self._joined.discard(waiter)
        watcher.remove(waiter)

    def _collect(self, groups: list[tuple[Any, list[int]]]) -> None:
        """Note which cells to look at, by the wake-ups since the last call."""
        now = time.monotonic()
        for watcher, cells in groups:
            if not watcher.is_tracking:
                for each in cells:
                    if now >= self._cells[each].next_at:
                        self._cells[each].is_due = self._cells[each].retry_at < math.inf
            waiter = self._waiters.get(watcher)
            if waiter is None or not waiter.is_awake or waiter not in self._joined:
                continue
            self._joined.remove(waiter)
            if waiter.failure is not None:
                _log.warning("waiting for schedules has failed: %s", waiter.failure)
                self._wake_up.wait(_FIRST_PAUSE_SECONDS)
            elif not watcher.is_tracking:
                waiter.empty_receives += 1  # so that its wake-ups become rare
            elif waiter.reason is not None:
                cell = self._cells[self._cell_of_key[waiter.reason]]
                # Without a schedule, a wake-up in case that a report was lost needs no look.
                is_for_tick = waiter.receives_before is not None
                if is_for_tick or cell.has_schedules or now - cell.joined_at < _SUDDEN_SECONDS:
                    cell.is_due = True


class _SharedThread:
    """The scheduler of a client, in a thread that does not outlive the process."""

    def __init__(self, rsmq: Any) -> None:
        self.users = 0
        self.scheduler = Scheduler(rsmq)
        self.thread = threading.Thread(target=self._run, name="rsmq-scheduler", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.scheduler.run()
        except Exception:  # noqa: BLE001 - the worker must not be stopped by it
            _log.critical("schedules are not fired by this process any more", exc_info=True)


#: The threads that run, by client; a signal handler may stop its worker in the middle of a call.
_threads: dict[Any, _SharedThread] = {}
_threads_lock = threading.RLock()


class SchedulerThread:
    """A worker's use of the thread with the scheduler, which all workers of a client share."""

    def __init__(self, rsmq: Any) -> None:
        self._rsmq = rsmq
        self._shared: _SharedThread | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start the thread, if no other worker has started it."""
        with _threads_lock:
            if self._is_stopped:
                return
            shared = _threads.get(self._rsmq)
            if shared is None or not shared.thread.is_alive():  # as after a fork
                shared = _threads[self._rsmq] = _SharedThread(self._rsmq)
            shared.users += 1
            self._shared = shared

    def stop(self) -> None:
        """Let it end if no other worker uses it; from any thread or signal handler."""
        with _threads_lock:
            shared = self._shared
            if not self._is_stopped and shared is not None:
                shared.users -= 1
            self._is_stopped = True
            if shared is None or shared.users:
                return
            if _threads.get(self._rsmq) is shared:
                del _threads[self._rsmq]
        shared.scheduler.stop()

    def join(self) -> None:
        """Wait until the thread has ended, a second at most, if no other worker uses it."""
        if self._shared is not None and not self._shared.users:
            self._shared.thread.join(1.0)
