"""
``Worker``, the public class: checks its settings, starts and stops the runtime.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Protocol, Self, runtime_checkable

from redis.exceptions import RedisError

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.codecs.type_variables import B_co
from rsmq.errors import InvalidFormat, NotEmptyInTime, RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.schedules.scheduler import SchedulerThread
from rsmq.transport.process_identity import describe_process
from rsmq.wire.limits import check_duration, check_whole_number
from rsmq.worker.children.child_process import ChildSettings
from rsmq.worker.children.child_state import is_child
from rsmq.worker.children.import_name import find_import_name
from rsmq.worker.children.processes import ChildProcesses, ThreadsWithChildren
from rsmq.worker.configuration import Configuration
from rsmq.worker.connection import WorkerConnection, make_async_client
from rsmq.worker.health import Health
from rsmq.worker.listener import MAX_CONCURRENCY, Listener, check_reservations, rank_levels
from rsmq.worker.loop.burst import POLL_SECONDS, Burst
from rsmq.worker.loop.shutdown import Signals, StoppedAtStart
from rsmq.worker.loop.worker_loop import LoopSettings, WorkerLoop
from rsmq.worker.middleware import Hooks, Middleware, MiddlewareOfEachWorker, MiddlewareOfOneWorker
from rsmq.worker.receive.open_lane import open_lane
from rsmq.worker.run.blocked_waits import note_blocked_queues
from rsmq.worker.run.invoke import Invoker, current_job
from rsmq.worker.run.tasks import EventLoopTasks
from rsmq.worker.run.threads import Threads
from rsmq.worker.settle.release import release_predecessor
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.numbers import Numbers

_log = get_logger("rsmq.worker")

#: How long the end of a program waits for a worker that was not stopped.
_AT_EXIT_SECONDS = 2.0
#: Seconds between two checks whether the worker has ended.
_POLL_SECONDS = 1.0
#: Seconds between two log lines with the counters.
_LOG_INTERVAL_SECONDS = 60.0
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")
_MAX_HOST_CHARACTERS = 100


@runtime_checkable
class WorkerSource(Protocol):
    """An object that makes a worker, as ``rsmq.tasks.Tasks`` does."""

    def worker(self) -> Worker[Any]:
        """Return a new worker."""


class Worker(Configuration[B_co]):
    """
    Calls functions with the messages of queues.

    - If a handler returns, its message is deleted.
    - If it raises, the message is hidden until the next attempt. This changes only the visibility
      of the message; the next receive raises its receive count, for other clients too.
    - While a handler runs, the message's visibility timeout is extended after each third of it.
    - Delivery is at least once: a message may be handled twice, after a crash or a lost lease.

    Plain functions run in threads, async ones as tasks of one event loop. One thread of the worker
    makes its calls to Redis. The worker's methods may be called from any thread.

    Type checkers check that a handler accepts the bodies that its codec decodes: the codec of its
    listener, otherwise that of the client. ``Worker[B]`` is the worker of an ``RSMQ[B]``.

    Attributes:
        rsmq: the client.
        name: its name; None until the worker starts if it was made without one.
        concurrency: maximum number of concurrent handler calls.
        grace: seconds that handlers have to end when the worker stops.
        strict: whether a listener must choose what happens to messages that always fail.
        mixed: whether plain functions may run in threads beside listeners with ``process=True``.
        strict_priority: whether lower priorities wait for as long as higher ones have due messages.
        child_settings: the settings of child processes, which ``rsmq-worker`` sets; None finds the
            module of the worker.
        source: an object whose method ``worker()`` has made this worker, and makes it in child
            processes too; None if there is none.
    """

    def __init__(
        self,
        rsmq: RSMQ[B_co],
        *,
        name: str | None = None,
        concurrency: int = 8,
        grace: float = 30.0,
        middleware: Iterable[Middleware] = (),
        strict: bool = False,
        mixed: bool = False,
        strict_priority: bool = False,
    ) -> None:
        """
        Make a worker; it does nothing before ``run`` or ``start``.

        Args:
            rsmq: a synchronous client, also for async handlers. Close it after
                the worker.
            name: 1 to 160 characters of ``A-Z a-z 0-9 _ -``, the same at every start, and used by
                one live worker only. When a worker starts, it releases the messages that a killed
                worker of this name had in flight. None generates a name; then messages of a killed
                worker become visible again when their visibility timeouts end.
            concurrency: maximum number of concurrent handler calls, in threads and tasks together,
                from 1 to 10,000.
            grace: seconds from 0 that running handlers have to end when the worker stops. Messages
                that are unfinished then are released.
            middleware: hooks, called in this order; the worker adds ``Logging`` before them.
            strict: whether ``start`` raises an error for a listener whose messages are retried
                forever without ``retry_forever=True``, instead of logging a warning.
            mixed: whether plain functions may run in threads of a worker that also has listeners
                with ``process=True``. A thread can keep the GIL or crash the worker's process,
                which ends the child processes too.
            strict_priority: whether a queue of a lower priority gets no call at all while one of a
                higher priority has due messages and may make calls. Otherwise a queue that has
                waited for ten seconds gets one call in between.

        Raises:
            MissingParameter, InvalidFormat: name, client or middleware is invalid.
            InvalidValue: concurrency or grace is out of range.
        """
        self._worker_loop: WorkerLoop | None = None
        self._lanes: list[Lane] = []
        super().__init__(rsmq, name, middleware)
        self.concurrency = concurrency
        self.grace = grace
        self.strict = strict
        self.mixed = mixed
        self.strict_priority = strict_priority
        self.child_settings: ChildSettings | None = None
        self.source: WorkerSource | None = None
        self._thread: threading.Thread | None = None
        self._starter: threading.Thread | None = None
        self._signals: Signals | None = None  # while run() starts the worker
        self._is_starting = False
        self._requested_grace: float | None = None
        self._connection: WorkerConnection | None = None
        self._generated_name: str | None = None
        self._burst: Burst | None = None  # while run(until_empty=True) runs
        self._async_client: AsyncRSMQ[B_co] | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._check()

    @property
    def _is_running(self) -> bool:
        return self._worker_loop is not None and not self._worker_loop.finished.is_set()

    @property
    def is_using_middleware(self) -> bool:
        """Whether it starts or runs, in this process."""
        return self._pid == os.getpid() and (self._is_starting or self._is_running)

    def _check(self) -> None:
        check_whole_number("concurrency", self.concurrency, 1, MAX_CONCURRENCY)
        check_duration("grace", self.grace)
        if self.name is not None:
            self.rsmq.namespace.held(self.name)

    @property
    def numbers(self) -> Numbers:
        """The counters since the last start, at this moment."""
        return self._worker_loop.numbers if self._worker_loop is not None else Numbers()

    @property
    def dead_letter_targets(self) -> list[tuple[str, str]]:
        """The queues of its listeners, with those that their dead letters are moved to."""
        return [
            (lane.listener.queue, target)
            for lane in self._lanes
            for target in (*lane.listener.target_queues, lane.policy.dead_letter_queue)
            if target is not None
        ]

    @property
    def aio(self) -> AsyncRSMQ[B_co]:
        """
        An asyncio client for async handlers, on the server and with the settings of ``rsmq``.

        Use it in the event loop of the handlers only. The worker closes it when it stops. A
        synchronous client would stop all async handlers during each call; the worker logs a warning
        about the first such call.

        Raises:
            InvalidFormat: ``rsmq`` was made with a client of redis-py for Sentinel.
        """
        with self._lock:
            if self._async_client is None:
                self._async_client = make_async_client(self.rsmq)
            return self._async_client

    def _apply_switches(self) -> None:
        worker_loop = self._worker_loop
        if worker_loop is not None:
            worker_loop.apply_switches()

    async def _close_async_clients(self) -> None:
        with self._lock:
            client, self._async_client = self._async_client, None
        if client is not None:
            await client.close()
        for webhook in self._webhooks:
            await webhook.close()

    def health(self) -> Health:
        """Return the state of the worker, for probes. It makes no call to Redis."""
        now, worker_loop = time.monotonic(), self._worker_loop
        state = None if worker_loop is None else worker_loop.state()
        if state is None or state.has_ended:
            return Health(
                has_failed=state is not None and state.failure is not None,
                is_stopping=state is not None and state.is_stopping,
            )
        return Health(
            has_failed=state.failure is not None,
            is_running=True,
            is_stopping=state.is_stopping,
            heartbeat_age_seconds=now - state.heartbeat_at,
            turn_age_seconds=now - state.turn_at,
            missing_queues=state.missing_queues,
            is_stalled=state.is_stalled,
        )

    def start(self, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """
        Start to receive, in threads of its own, and return.

        Args:
            loop: the running event loop for async handlers; None makes one in its own thread.

        Raises:
            QueueNotFound: a queue is missing that is not to be created.
            InvalidFormat: there are no listeners, or the worker runs already; or it is strict, and
                a listener retries forever without ``retry_forever=True``; or a ready-made
                middleware is used by another running worker.
            InvalidValue: concurrency or grace is out of range, or a queue's own vt is too short.
            WorkerExists: another worker of the name is alive. A killed worker counts as alive for
                five seconds if its process can't be checked; this method waits for that.
            Errors of redis-py: the server can't be reached.
        """
        self._refuse_while_running()
        atexit.unregister(self._at_exit)
        self._pid = os.getpid()
        if not self._listeners or not all(
            each.handlers.by_type for each in self._listeners.values()
        ):
            raise InvalidFormat(
                "worker",
                hint="It has no handlers: decorate a function with worker.listener(queue), or with "
                "router.on(type).",
            )
        if is_child():
            raise InvalidFormat(
                "worker",
                hint="A child process imports this module, and the module starts the worker. Start "
                'it under if __name__ == "__main__":.',
            )
        self._check()
        check_reservations(self._listeners.values(), self.concurrency)
        if self.name is None:
            self.name = self._generated_name = _generate_name()
        self._is_starting, self._requested_grace = True, None
        children: ChildProcesses | None = None
        try:
            for each in self._middleware:
                if isinstance(each, MiddlewareOfOneWorker):
                    each.claim(self)
            children = self._start_children()
            self._register(loop, children)
        except BaseException:
            if children is not None:
                children.close()
            raise
        finally:
            self._is_starting = False

    def _all_listeners(self) -> list[Listener]:
        return [part for each in self._listeners.values() for part in each.with_parts]

    def _start_children(self) -> ChildProcesses | None:
        """Start the first child process if a listener needs one."""
        listeners = self._all_listeners()
        if not any(each.process for each in listeners):
            return None
        for each in listeners:
            if not (self.mixed or each.process or each.handlers.is_async):
                raise InvalidFormat(
                    "listener",
                    value=each.queue,
                    hint="Its function would run in a thread, beside listeners with process=True. "
                    "Pass process=True here too, or mixed=True to the worker.",
                )
        settings = self.child_settings
        if settings is None:
            settings = ChildSettings(find_import_name(self, self.source), list(sys.path))
        children = ChildProcesses(replace(settings, name=self.name))
        if self._burst is None or not self._burst.stops_at_error:
            children.start()  # else the first call starts it, and its error ends the run
        return children

    def prepare_child(self, name: str | None) -> dict[str, Lane]:
        """
        Prepare calls in a child process: run ``child_start``. A child process calls this.

        Args:
            name: the worker's name.

        Returns:
            The lanes of the listeners with ``process=True``, by queue.

        Raises:
            The errors of ``child_start``.
        """
        self.name = name
        for each in self._middleware:
            each.child_start(self)
        lanes: dict[str, Lane] = {}
        for listener in self._listeners.values():
            if any(each.process for each in listener.with_parts):
                lanes[listener.queue] = Lane(
                    listener,
                    self.rsmq.namespace.queue(listener.queue),
                    listener.vt or 0.0,
                    self.rsmq.codec if listener.codec is None else listener.codec,
                    1,
                    listener.policy,
                )
        note_blocked_queues(lanes.values(), self._listeners.values(), self.concurrency)
        return lanes

    def _register(
        self, loop: asyncio.AbstractEventLoop | None, children: ChildProcesses | None
    ) -> None:
        """Register the worker under its name, and start the runtime."""
        connection = WorkerConnection(self.rsmq, str(self.name), secrets.token_hex(8))
        listeners = self._listeners.values()
        lanes = [
            open_lane(
                each,
                self.rsmq,
                self.concurrency,
                is_strict=self.strict,
                is_burst=self._burst is not None,
            )
            for each in (rank_levels(listeners) if self.strict_priority else listeners)
        ]
        note_blocked_queues(lanes, listeners, self.concurrency)
        process_facts = describe_process()
        self._connection = connection
        info = {**process_facts, "queues": dict.fromkeys(self.queues, 0)}
        registered_at, deaths = connection.register(info, self._raise_if_signalled)
        if deaths:
            process_facts["deaths"] = deaths
        try:
            self._start_runtime(lanes, connection, process_facts, registered_at, loop, children)
        except BaseException:
            self._worker_loop = self._starter = None
            self._leave_before_work()
            raise

    def _start_runtime(  # noqa: PLR0917 - called in one place
        self,
        lanes: list[Lane],
        connection: WorkerConnection,
        process_facts: dict[str, Any],
        registered_at: float,
        loop: asyncio.AbstractEventLoop | None,
        children: ChildProcesses | None,
    ) -> None:
        """Start the runtime; the worker is registered."""
        self._starter = threading.current_thread()
        self._raise_if_signalled()
        has_fixed_name = self.name != self._generated_name
        has_dead_messages = has_fixed_name and release_predecessor(connection)
        for definition in self._schedules.values():
            self.rsmq.schedules.declare(definition)
        own = [
            each.for_worker(self) if isinstance(each, MiddlewareOfEachWorker) else each
            for each in self._middleware
        ]
        hooks = Hooks([*own, *([self._burst] if self._burst else [])])
        for webhook in self._webhooks:
            webhook.hooks = hooks
        self._lanes = lanes
        worker_loop = self._worker_loop = WorkerLoop(
            connection,
            lanes,
            hooks,
            self,
            LoopSettings(
                slots=self.concurrency,
                facts=process_facts,
                grace=self.grace,
                registered_at=registered_at if has_fixed_name else None,
                is_strict=self.strict_priority,
                inactive=self._inactive,
            ),
            scheduler=SchedulerThread(self.rsmq),
        )
        if has_dead_messages:
            worker_loop.limit_prefetch()
        invoker = Invoker(
            hooks,
            worker_loop.report_finished,
            None if children is None else children.call,
            worker_loop.report_progress,
        )
        arguments = worker_loop.run_queue, invoker, worker_loop.report_idle, self.concurrency
        threads = (
            Threads(*arguments) if children is None else ThreadsWithChildren(*arguments, children)
        )
        tasks = EventLoopTasks(*arguments, self._close_async_clients)
        if any(each.handlers.is_async for each in self._all_listeners()):
            tasks.start(loop)
        for lane in chain.from_iterable(each.parts for each in lanes):
            if lane.is_async:
                lane.cancel, lane.time_out = tasks.cancel, tasks.time_out
        hooks.call("before_start", self)
        _log.info(
            "worker %s begins: %s, concurrency %d",
            self.name,
            ", ".join(self._listeners),
            self.concurrency,
        )
        self._thread = threading.Thread(
            target=worker_loop.run,
            args=({False: threads, True: tasks},),
            name="rsmq-worker",
            daemon=True,
        )
        self._thread.start()
        self._starter, self._is_starting = None, False
        if self._requested_grace is not None:
            worker_loop.stop(self._requested_grace)
        atexit.register(self._at_exit)

    def _raise_if_signalled(self) -> None:
        if self._signals is not None and self._signals.has_come:
            raise StoppedAtStart

    def _at_exit(self) -> None:
        """
        Release the messages in flight when the program ends without having stopped the worker.
        """
        worker_loop = self._worker_loop
        if (
            worker_loop is not None
            and os.getpid() == self._pid
            and not worker_loop.finished.is_set()
        ):
            _log.warning("worker %s was not stopped before the end of its program", self.name)
            worker_loop.stop(0, is_at_exit=True)
            worker_loop.finished.wait(_AT_EXIT_SECONDS)

    def stop(self, grace: float | None = None) -> None:
        """
        Stop receiving, let running handlers end, release the other messages, and return.

        In a handler or a hook of this worker it only requests the stop, and returns at once.

        Args:
            grace: seconds that running handlers have; None is the worker's.

        Raises:
            InvalidValue: grace is out of range.
        """
        seconds = self.grace if grace is None else check_duration("grace", grace)
        worker_loop = self._worker_loop
        if self._is_starting and (worker_loop is None or worker_loop.finished.is_set()):
            self._requested_grace = seconds  # it stops as soon as it has started
            if self._is_starting:
                return
            worker_loop = self._worker_loop
        if worker_loop is None:
            return
        worker_loop.stop(seconds)
        if current_job.get() is not None or threading.current_thread() in (
            self._thread,
            self._starter,
        ):
            return
        while not worker_loop.finished.wait(_POLL_SECONDS):  # other threads may wait for it too
            pass

    def run(
        self,
        *,
        until_empty: bool = False,
        timeout: float | None = None,
        raise_errors: bool = False,
    ) -> None:
        """
        Run until SIGTERM or SIGINT, or until ``stop`` is called in another thread.

        Call it in the main thread; elsewhere it ignores signals. The first signal stops receiving
        and gives running handlers ``grace`` seconds. Messages that are unfinished then are
        released; their receive counts do not change. A second signal ends the process at once.

        Args:
            until_empty: True stops the worker when none of its active queues has a message that is
                due, in flight at this worker, or hidden until a retry that this worker has
                scheduled.
                Messages that are delayed, or in flight elsewhere, are not waited for.
            timeout: with until_empty: seconds after which the worker stops and NotEmptyInTime is
                raised; None waits forever.
            raise_errors: with until_empty: True stops the worker at the first exception of a
                handler, when its outcome is written, and raises it. Retry, Defer, Discard
                and DeadLetter are no errors. It is for tests.

        Raises:
            The errors of ``start``; and the error that ended the worker, such as WorkerReplaced.
            NotEmptyInTime: messages are left after the timeout.
            InvalidFormat: timeout or raise_errors without until_empty.
            InvalidValue: timeout is out of range.
        """
        self._run_until(until_empty, timeout, raise_errors=raise_errors)

    def _run_until(
        self,
        until_empty: bool,  # noqa: FBT001 - as ``run`` and ``run_async`` have it
        timeout: float | None,
        *,
        raise_errors: bool,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not until_empty and (timeout is not None or raise_errors):
            raise InvalidFormat(
                "until_empty", value=until_empty, hint="timeout and raise_errors need it."
            )
        if timeout is not None:
            timeout = check_duration("timeout", timeout)
        self._refuse_while_running()
        self._burst = Burst(timeout, stops_at_error=raise_errors) if until_empty else None
        try:
            self._run(loop)
        finally:
            self._burst = None

    def _run(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._worker_loop = self._connection = None
        with Signals(self._stop_on_signal, lambda: f"worker {self.name}") as signals:
            self._signals = signals
            try:
                self.start(loop=loop)
            except StoppedAtStart:
                self._leave_before_work()
                _log.info("worker %s ends before it began: %s", self.name, self.numbers)
                return
            finally:
                self._signals = None
            worker_loop = self._worker_loop
            assert worker_loop is not None  # noqa: S101 - it has started
            if signals.has_come:
                worker_loop.stop(self.grace)
            logged, next_log_at = "", time.monotonic() + _LOG_INTERVAL_SECONDS
            # Wait in short steps: after a suspension (SIGSTOP) the system may deliver a signal to
            # another thread, and Python calls its handler only when this thread wakes.
            burst, failure = self._burst, None
            while not worker_loop.finished.wait(_POLL_SECONDS if burst is None else POLL_SECONDS):
                if burst is not None and failure is None:
                    failure = self._check_burst(burst, worker_loop)
                if time.monotonic() >= next_log_at:
                    next_log_at = time.monotonic() + _LOG_INTERVAL_SECONDS
                    if str(self.numbers) != logged:
                        logged = str(self.numbers)
                        _log.info("worker %s: %s", self.name, logged)
        _log.info("worker %s ends: %s", self.name, self.numbers)
        if worker_loop.failure is not None:
            raise worker_loop.failure
        if burst is not None and burst.stops_at_error and failure is None:
            failure = burst.error  # its reply came after the last check
        if failure is not None:
            raise failure

    def _check_burst(self, burst: Burst, worker_loop: WorkerLoop) -> BaseException | None:
        """Stop the worker if its queues are empty, or because of the error that is returned."""
        failure: BaseException | None = burst.error if burst.stops_at_error else None
        is_done = failure is not None
        try:
            is_done = is_done or burst.is_done(self.rsmq, str(self.name), self.active_queues)
        except NotEmptyInTime as error:
            failure, is_done = error, True
        except (RedisError, RSMQError, OSError) as error:
            failure, is_done = error, True
        if is_done:
            worker_loop.stop(self.grace)
        return failure

    def _leave_before_work(self) -> None:
        if self._connection is not None and self._connection.is_registered:
            with suppress(RSMQError, RedisError, OSError):
                self._connection.unregister()

    async def run_async(
        self,
        *,
        until_empty: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - as ``run`` has it
        raise_errors: bool = False,
    ) -> None:
        """
        Run inside a running event loop, which also runs async handlers, until it is cancelled.

        A cancellation stops the worker as ``stop`` does, and this method returns when it has
        stopped: wait for it, also after you have cancelled it. It ignores signals.

        Args:
            until_empty: as for ``run``, as the others.
            timeout: seconds, with until_empty.
            raise_errors: True raises the first exception of a handler, with until_empty.

        Raises:
            The errors of ``run``.
        """
        loop = asyncio.get_running_loop()
        # No task: a program may cancel all tasks, and a thread can't be cancelled.
        in_context = contextvars.copy_context().run
        is_burst = until_empty or timeout is not None or raise_errors
        work = partial(self.start, loop=loop)
        if is_burst:
            work = partial(
                self._run_until, until_empty, timeout, raise_errors=raise_errors, loop=loop
            )
        starting = loop.run_in_executor(None, in_context, work)
        try:
            await asyncio.shield(starting)
            worker_loop = self._worker_loop
            while worker_loop is not None and not worker_loop.finished.is_set():  # noqa: ASYNC110 - threads set it
                await asyncio.sleep(0.1)
            if worker_loop is not None and worker_loop.failure is not None:
                raise worker_loop.failure
        finally:
            is_cancelled = False
            while is_burst and not starting.done():  # again, because it may not have begun
                is_cancelled |= await _wait_for(loop.run_in_executor(None, self.stop))
                is_cancelled |= await _wait_for(asyncio.ensure_future(asyncio.sleep(POLL_SECONDS)))
            is_cancelled |= await _wait_for(starting)
            if not starting.cancelled() and starting.exception() is None:
                is_cancelled |= await _wait_for(loop.run_in_executor(None, self.stop))
            if is_cancelled:
                raise asyncio.CancelledError

    def _stop_on_signal(self, name: str) -> bool:
        worker_loop = self._worker_loop
        if worker_loop is None:
            return False
        _log.info(
            "worker %s stops, by %s: handlers have %g s to end; again to end at once",
            self.name,
            name,
            self.grace,
        )
        worker_loop.stop(self.grace)
        return True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Worker({self.rsmq!r}, name={self.name!r}, concurrency={self.concurrency})"


async def _wait_for(future: asyncio.Future[None]) -> bool:
    """Wait for the end of a future. Return whether this task was cancelled meanwhile."""
    is_cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            is_cancelled = True
    return is_cancelled


def _generate_name() -> str:
    host = (
        _INVALID_NAME_CHARACTERS.sub("-", socket.gethostname())[:_MAX_HOST_CHARACTERS] or "worker"
    )
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
