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

from rsmq.errors import ClientClosed, RSMQError
from rsmq.errors.guarded_log import get_logger
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
            rsmq: an ``RSMQ``.
            looks_at_once: whether it looks first. Otherwise it begins to wait, and looks when the
                server reports that a schedule is due.
        """
        self.fired = 0
        self._client = rsmq
        self._wake_up = Flag()
        self._is_stopping = False
        #: Whether to look now.
        self._is_due = looks_at_once
        #: Whether the last look has found some, due or not.
        self._has_schedules = False
        #: Monotonic seconds of the next look if the server does not report changes.
        self._next_at = time.monotonic() + _POLL_SECONDS
        #: The number of errors in a row.
        self._failures = 0
        #: Monotonic seconds before which it does not look; infinite if this user has no right to.
        self._retry_at = -math.inf
        self._waiter = Waiter((rsmq.namespace.due_schedules,), self._wake_up.set)
        #: The one that the waiter was added to; None before the first time.
        self._watcher: Any = None
        #: Whether the waiter waits, or its wake-up has not been noted yet; and since when.
        self._is_waiting = False
        self._waits_since = -math.inf
        self._unable: set[str] = set()

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
            if self._watcher is not None:
                with suppress(ClientClosed):
                    self._watcher.remove(self._waiter)

    def fire_due(self, *, raises: bool = False) -> int:
        """
        Fire what is due, if it is time to look.

        Args:
            raises: whether errors of the server are raised, and not logged.

        Returns:
            The number of messages that were sent.
        """
        before = self.fired
        if self._is_due and time.monotonic() >= self._retry_at and not self._is_stopping:
            try:
                self._look()
            except ClientClosed:
                raise
            except (RedisError, OSError, RSMQError) as error:
                if raises:
                    raise
                self._note_error(error)
        return self.fired - before

    def _look(self) -> None:
        client = self._client
        while not self._is_stopping:
            found: Firing = client.run_steps(fire_due_schedules(client.namespace))
            self._report(found)
            # With a schedule that it can't compute, it looks again to know when the others are due.
            if not found.has_more and not (found.unable and found.fired):
                break
        self._is_due, self._failures = False, 0
        self._has_schedules = bool(
            found.fired
            or found.failures
            or found.others
            or found.unable
            or found.next_in < math.inf
        )
        now = time.monotonic()
        self._next_at = now + min(
            max(found.next_in, 0.0), _POLL_SECONDS if self._has_schedules else _IDLE_POLL_SECONDS
        )
        if found.unable:
            # Its time has come, so the server's reports say nothing about the others: poll.
            self._retry_at, self._is_due = now + min(max(found.next_in, 0.0), _POLL_SECONDS), True
        self._note_look(has_fired=bool(found.fired))

    def _note_look(self, *, has_fired: bool) -> None:
        waiter = self._waiter
        # A wake-up during the look is not noted yet: it asks for another look.
        if waiter.is_awake and waiter.reason is not None and not self._is_waiting:
            if has_fired:
                self._watcher.note_receive(waiter)
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

    def _note_error(self, error: Exception) -> None:
        self._failures += 1
        seconds = exponential_seconds(self._failures, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        has_no_right = code_of(error) == "NOPERM"
        self._is_due = not has_no_right
        self._retry_at = time.monotonic() + (
            math.inf if has_no_right else with_jitter(seconds, 0.5)
        )
        if has_no_right:  # as intended, if the user's rights end at its queues
            namespace = self._client.namespace
            _log.info(
                "schedules: this user has no right to %s and %s, so this process fires none",
                decode_name(namespace.schedules),
                decode_name(namespace.due_schedules),
            )
        elif self._failures == 1:
            _log.warning("schedules: %s: %s", type(error).__name__, error)

    def _wait(self) -> None:
        """Wait until it is time to look."""
        while not self._is_stopping:
            self._wake_up.clear()
            watcher = self._client.watcher
            self._collect(watcher)
            now = time.monotonic()
            until = self._retry_at if self._is_due else math.inf
            if until <= now:
                return
            self._join(watcher)
            if not watcher.is_tracking and not self._is_due and self._retry_at < math.inf:
                until = self._next_at
            self._wake_up.wait(None if math.isinf(until) else max(until - now, 0.0))

    def _join(self, watcher: Any) -> None:
        """Wait for the reports of the server, unless this user has no right to the schedules."""
        if self._retry_at == math.inf:
            watcher.remove(self._waiter)
            self._is_waiting = False
        elif not self._is_waiting:
            self._is_waiting, self._waits_since = True, time.monotonic()
            self._watcher = watcher
            watcher.add(self._waiter)

    def _collect(self, watcher: Any) -> None:
        """Note whether to look, by a wake-up since the last call."""
        now = time.monotonic()
        if not watcher.is_tracking and now >= self._next_at:
            self._is_due = self._retry_at < math.inf
        waiter = self._waiter
        if not waiter.is_awake or not self._is_waiting:
            return
        self._is_waiting = False
        if waiter.failure is not None:
            _log.warning("waiting for schedules has failed: %s", waiter.failure)
            self._wake_up.wait(_FIRST_PAUSE_SECONDS)
        elif not watcher.is_tracking:
            waiter.empty_receives += 1  # so that its wake-ups become rare
        elif waiter.reason is not None:
            # Without a schedule, a wake-up in case that a report was lost needs no look.
            is_for_tick = waiter.receives_before is not None
            is_sudden = now - self._waits_since < _SUDDEN_SECONDS
            if is_for_tick or self._has_schedules or is_sudden:
                self._is_due = True


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
