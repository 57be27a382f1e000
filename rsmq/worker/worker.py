"""
``Worker``, the public class: checks its settings, starts and stops the runtime.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from redis.exceptions import RedisError

from rsmq.client import RSMQ
from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, RSMQError, show
from rsmq.operations.worker import Identity, held_messages, leave_worker
from rsmq.transport.process_identity import describe_process
from rsmq.wire.limits import check_whole_number, to_milliseconds
from rsmq.worker.listener import (
    MAX_CONCURRENCY,
    MAX_RUNTIME,
    Handlers,
    Listener,
    checked_vt,
    listener,
)
from rsmq.worker.logging import Logging
from rsmq.worker.middleware import Hooks, Middleware
from rsmq.worker.numbers import Numbers
from rsmq.worker.outcome import Backoff
from rsmq.worker.registry import enter
from rsmq.worker.router import Router
from rsmq.worker.routing import Route
from rsmq.worker.runtime.invoke import Invoker, current
from rsmq.worker.runtime.loop import WorkerLoop
from rsmq.worker.runtime.message_state import Lane
from rsmq.worker.runtime.settle import give_back
from rsmq.worker.runtime.shutdown import Signals, StoppedAtStart
from rsmq.worker.runtime.tasks import Tasks
from rsmq.worker.runtime.threads import Threads

_log = logging.getLogger("rsmq.worker")

Function = TypeVar("Function", bound=Callable[..., Any])

#: Seconds that the end of a program leaves to a worker that nobody has stopped.
_AT_EXIT = 2.0
#: Seconds between two looks at whether it has ended.
_A_LOOK = 1.0
#: Seconds between two lines with numbers.
_NUMBERS = 60.0
_OTHERS = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_HOST = 100


class Worker:
    """
    Calls functions with the messages of queues.

    A handler that returns has its message deleted; one that raises has it back after a pause, by a
    change of visibility on the message itself, so that the receive count is the number of the
    attempt, for other clients too. While a handler runs, the message's visibility timeout is
    extended at a third of it. At least once: a message may be handled twice, after a crash or a
    lost lease.

    Plain functions run in threads, async ones as tasks of one event loop. One thread of the worker
    talks to Redis; what other threads do to it is safe.

    Attributes:
        rsmq: the client.
        name: its name; None until it starts, if it was given none.
        concurrency: calls of handlers at once at most.
        grace: seconds that handlers have to end when the worker stops.
    """

    def __init__(
        self,
        rsmq: RSMQ,
        *,
        name: str | None = None,
        concurrency: int = 8,
        grace: float = 30.0,
        middleware: Iterable[Middleware] = (),
    ) -> None:
        """
        Make a worker; it does nothing before ``run`` or ``start``.

        Args:
            rsmq: a synchronous client, also for async handlers. Close it after the worker.
            name: 1 to 160 characters of ``A-Z a-z 0-9 _ -``, the same at every start and of one
                live worker only: what a worker of this name held when it was killed is given back
                at once when the next one starts. None makes a name up, and such messages come back
                with their visibility timeout.
            concurrency: calls of handlers at once at most, in threads and tasks together, from 1
                to 10,000.
            grace: seconds from 0 that running handlers have to end when the worker stops; what is
                left then is given back.
            middleware: hooks, called in this order; ``Logging`` comes first by itself.

        Raises:
            MissingParameter, InvalidFormat: name or client is not what it must be.
            InvalidValue: concurrency or grace is out of range.
        """
        if not isinstance(rsmq, RSMQ):
            raise InvalidFormat(
                "client",
                value=type(rsmq).__name__,
                hint=f"A worker takes an RSMQ, not {type(rsmq).__name__}: async handlers run on an "
                "event loop all the same.",
            )
        self.rsmq = rsmq
        self.name = name
        self.concurrency = concurrency
        self.grace = grace
        self._middleware: list[Middleware] = [Logging()]
        given = [middleware] if isinstance(middleware, Middleware) else middleware
        self._listeners: dict[str, Listener] = {}
        self._worker_loop: WorkerLoop | None = None
        self._thread: threading.Thread | None = None
        self._starter: threading.Thread | None = None
        self._signals: Signals | None = None  # while run() begins
        self._starting = False
        self._stop_asked: float | None = None
        self._identity: Identity | None = None
        self._made_up: str | None = None
        self._pid = os.getpid()
        for each in given:
            self.use(each)
        self._check()

    def _check(self) -> None:
        check_whole_number("concurrency", self.concurrency, 1, MAX_CONCURRENCY)
        to_milliseconds("grace", self.grace)
        if self.name is not None:
            self.rsmq.namespace.held(self.name)

    def use(self, middleware: Middleware) -> None:
        """
        Add a middleware, after the others; before the worker starts.

        Args:
            middleware: hooks.

        Raises:
            InvalidFormat: it is not an object of a subclass of Middleware, or the worker runs.
        """
        if not isinstance(middleware, Middleware):
            raise InvalidFormat(
                "middleware",
                value=show(middleware),
                hint="It is an object of a subclass of Middleware, made with brackets: "
                f"middleware=[Counting()]; got {show(middleware)}.",
            )
        self._refuse_while_running()
        self._middleware.append(middleware)

    def has(self, kind: type[Middleware]) -> bool:
        """
        Whether it has a middleware of a kind.

        Args:
            kind: a class.
        """
        return any(isinstance(each, kind) for each in self._middleware)

    def listener(
        self,
        queue: str,
        *,
        vt: float | None = None,
        codec: Codec | None = None,
        batch: int | None = None,
        concurrency: int | None = None,
        priority: int = 0,
        max_retries: int | None = None,
        backoff: Backoff | Sequence[float] | float | None = None,
        no_retry: type[BaseException] | Iterable[type[BaseException]] = (),
        dead_letter_queue: str | None = None,
        drop: bool = False,
        max_runtime: float = MAX_RUNTIME,
        create: bool = False,
    ) -> Callable[[Function], Function]:
        """
        A decorator: the function is called with the messages of a queue.

        It takes the decoded body, or the body and the message (a ``Delivery``); with ``batch``
        lists of both.

        Args:
            queue: the queue's name; one listener a queue.
            vt: the visibility timeout, seconds from 0.1: after a crash the message comes back when
                it is over. None is the queue's own.
            codec: how bodies are decoded; None is the client's.
            batch: 1 to 10,000: the function takes lists of up to so many messages. All are done
                when it returns, but those of which ``message.fail(error)`` says otherwise; when it
                raises, the others have failed too. None is one message a call.
            concurrency: calls of this function at once at most; None is the worker's.
            priority: messages of a higher one go first, always; but a queue that has waited for
                ten seconds has one call in between.
            max_retries: how often a message is tried again, from 0: it is handled once more than
                that. None is 5 where there is a dead_letter_queue or drop, what the queue's own
                dead-letter policy says if it has one, and else forever.
            backoff: the pause before the next attempt: ``exponential(first, cap)``,
                ``fixed(seconds)``, seconds, a list of seconds by attempt (the last one repeats),
                or a function of the attempt, from 1. None is exponential(1, 300).
            no_retry: exceptions after which a message is not tried again.
            dead_letter_queue: where a message goes after the last attempt, with why it died. It
                must exist, or be created. None is that of the queue's own policy.
            drop: True deletes it instead.
            max_runtime: the longest time a call may take, seconds, found out to a second. After
                that the message counts as failed, and what the function does is waited for no
                longer: a thread stays until it ends by itself, a task is cancelled.
            create: True creates the queue, and the dead-letter queue, where they are missing.

        Raises:
            MissingParameter: the queue's name is empty.
            InvalidFormat: a name, the function or something else is not what it must be; or the
                queue has a listener already; or max_retries is given and nothing says what
                becomes of a message then.
            InvalidValue: a number is out of range.
        """
        self._check_queue(queue)

        def register(function: Function) -> Function:
            handlers = Handlers()
            handlers.add("", function)
            self._listen(
                listener(
                    queue,
                    handlers,
                    vt=vt,
                    codec=codec,
                    batch=batch,
                    concurrency=concurrency,
                    priority=priority,
                    max_retries=max_retries,
                    backoff=backoff,
                    no_retry=no_retry,
                    dead_letter_queue=dead_letter_queue,
                    unroutable=None,
                    drop=drop,
                    max_runtime=max_runtime,
                    create=create,
                )
            )
            return function

        return register

    def router(
        self,
        queue: str,
        *,
        by: Route,
        unroutable: str | None = None,
        vt: float | None = None,
        codec: Codec | None = None,
        concurrency: int | None = None,
        priority: int = 0,
        max_retries: int | None = None,
        backoff: Backoff | Sequence[float] | float | None = None,
        no_retry: type[BaseException] | Iterable[type[BaseException]] = (),
        dead_letter_queue: str | None = None,
        drop: bool = False,
        max_runtime: float = MAX_RUNTIME,
        create: bool = False,
    ) -> Router:
        """
        A listener with a function for each type of message: ``router.on("created")`` decorates.

        Args:
            queue: as of ``listener``, like all that is not named here.
            by: tells the type of a decoded body and what its function gets of it:
                ``event_payload``, ``json_field("type")``, or a function of the body that returns
                (type, payload), with None for no type.
            unroutable: where messages go for which there is no function, with why. It must exist,
                or be created. None is the dead-letter queue.
            vt: see ``listener``.
            codec: see ``listener``.
            concurrency: see ``listener``.
            priority: see ``listener``.
            max_retries: see ``listener``.
            backoff: see ``listener``.
            no_retry: see ``listener``.
            dead_letter_queue: see ``listener``.
            drop: see ``listener``; unroutable messages too.
            max_runtime: see ``listener``.
            create: see ``listener``.

        Raises:
            As of ``listener``.
        """
        if not callable(by):
            raise InvalidFormat(
                "by",
                value=show(by),
                hint="It is event_payload, json_field(name), or a function of the body that "
                f"returns (type, payload); got {show(by)}.",
            )
        self._check_queue(queue)
        handlers = Handlers(by)
        self._listen(
            listener(
                queue,
                handlers,
                vt=vt,
                codec=codec,
                batch=None,
                concurrency=concurrency,
                priority=priority,
                max_retries=max_retries,
                backoff=backoff,
                no_retry=no_retry,
                dead_letter_queue=dead_letter_queue,
                unroutable=unroutable,
                drop=drop,
                max_runtime=max_runtime,
                create=create,
            )
        )
        return Router(handlers)

    def _check_queue(self, queue: object) -> None:
        """Now, and not when the function is there: it never is where the brackets were left out."""
        if callable(queue):
            raise InvalidFormat(
                "queue",
                value=show(queue),
                hint='Name the queue: @worker.listener("orders"), with brackets.',
            )
        self.rsmq.namespace.queue(queue)  # type: ignore[arg-type]

    def _refuse_while_running(self) -> None:
        if self._worker_loop is not None and not self._worker_loop.over.is_set():
            raise InvalidFormat(
                "worker", value=self.name, hint="It runs already: stop it before it is changed."
            )

    def _listen(self, new: Listener) -> None:
        self._refuse_while_running()
        for name in (new.queue, *new.others):
            self.rsmq.namespace.queue(name)
        if new.queue in self._listeners:
            raise InvalidFormat(
                "queue",
                value=new.queue,
                hint=f"Queue {show(new.queue)} has a listener already; router() calls several "
                "functions, by the type of the message.",
            )
        self._listeners[new.queue] = new

    @property
    def numbers(self) -> Numbers:
        """What has happened since the last start, as it is now."""
        return self._worker_loop.numbers if self._worker_loop is not None else Numbers()

    @property
    def queues(self) -> list[str]:
        """The names of the queues that have listeners."""
        return list(self._listeners)

    def start(self, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """
        Begin to receive, in threads of its own; returns when it does.

        Args:
            loop: the running event loop on which async handlers run; None makes one, in a thread.

        Raises:
            QueueNotFound: a queue is missing that is not to be created.
            InvalidFormat: there are no listeners, or the worker runs already.
            InvalidValue: concurrency or grace is out of range, or a queue's own vt is too short.
            WorkerExists: another worker of the name is alive. One that was killed counts as alive
                for five seconds where its process can't be looked for; this waits for that.
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
                hint="It has nothing to call: decorate a function with worker.listener(queue), or "
                "one of a router with router.on(type).",
            )
        self._check()
        self._starting, self._stop_asked = True, None
        try:
            self._enter(loop)
        finally:
            self._starting = False

    def _enter(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Take the worker's name, and begin."""
        lanes = [self._lane(each) for each in self._listeners.values()]
        named = self.name is not None and self.name != self._made_up
        if self.name is None:
            self.name = self._made_up = _made_up_name()
        identity = Identity(self.rsmq.namespace, self.name, secrets.token_hex(8))
        about = describe_process()
        self._identity = identity
        says = {**about, "queues": dict.fromkeys(self.queues, 0)}
        enter(self.rsmq, identity, says, self._raise_if_told)
        try:
            self._begin(lanes, identity, about, loop, named=named)
        except BaseException:
            self._worker_loop = self._starter = None
            self._leave_before_work()
            raise

    def _begin(
        self,
        lanes: list[Lane],
        identity: Identity,
        about: dict[str, Any],
        loop: asyncio.AbstractEventLoop | None,
        *,
        named: bool,
    ) -> None:
        """Begin under a name that is this worker's."""
        self._starter = threading.current_thread()
        self._raise_if_told()
        died_before = self._take_over(identity)
        hooks = Hooks(self._middleware)
        worker_loop = self._worker_loop = WorkerLoop(
            self.rsmq, identity, lanes, hooks, self.concurrency, about, self, named=named
        )
        if died_before:
            worker_loop.be_careful()
        invoker = Invoker(hooks, worker_loop.ended)
        threads = Threads(worker_loop.run_queue, invoker, worker_loop.idle, self.concurrency)
        tasks = Tasks(worker_loop.run_queue, invoker, worker_loop.idle, self.concurrency)
        if any(each.handlers.is_async for each in self._listeners.values()):
            tasks.start(loop)
        for lane in lanes:
            if lane.listener.handlers.is_async:
                lane.cancel = tasks.cancel
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
        self._starter, self._starting = None, False
        if self._stop_asked is not None:
            worker_loop.stop(self._stop_asked)
        atexit.register(self._at_exit)

    def _raise_if_told(self) -> None:
        if self._signals is not None and self._signals.came:
            raise StoppedAtStart

    def _at_exit(self) -> None:
        """The program ends, and nobody has stopped the worker: give back what it holds."""
        worker_loop = self._worker_loop
        if worker_loop is not None and os.getpid() == self._pid and not worker_loop.over.is_set():
            _log.warning("worker %s was not stopped before the end of its program", self.name)
            worker_loop.stop(0)
            worker_loop.over.wait(_AT_EXIT)

    def _lane(self, each: Listener) -> Lane:
        if each.create:
            for name in (each.queue, *each.others):
                self.rsmq.create_queue(name, exist_ok=True)
        attributes = self.rsmq.get_queue_attributes(each.queue)
        for name in each.others:
            self.rsmq.get_queue_attributes(name)
        lane = Lane(
            each,
            self.rsmq.namespace.queue(each.queue),
            checked_vt(attributes.vt) if each.vt is None else each.vt,
            each.codec or self.rsmq.codec,
            min(each.concurrency or self.concurrency, self.concurrency),
            each.policy,
        )
        lane.adopt(attributes)
        if lane.policy.dead_letter_queue is None and not lane.policy.drop:
            _log.info(
                "queue %s has no dead_letter_queue: what fails is tried again for ever", each.queue
            )
        return lane

    def _take_over(self, identity: Identity) -> bool:
        """Give back what a dead predecessor of the name held; True if there was something."""
        held = self.rsmq.run_steps(held_messages(self.rsmq.namespace, identity.name))
        released = give_back(self.rsmq, identity, held)
        if released:
            _log.warning(
                "worker %s: its predecessor died with %d messages, which are due again",
                identity.name,
                released,
            )
        return bool(held)

    def stop(self, grace: float | None = None) -> None:
        """
        Receive no more, let running handlers end, and give back what is left; returns after that.

        In a handler or a hook of this worker it only asks for that, and returns at once.

        Args:
            grace: seconds that running handlers have; None is the worker's.

        Raises:
            InvalidValue: grace is out of range.
        """
        seconds = self.grace if grace is None else to_milliseconds("grace", grace) / 1000
        worker_loop = self._worker_loop
        if self._starting and (worker_loop is None or worker_loop.over.is_set()):
            self._stop_asked = seconds  # it stops as soon as it has begun
            if self._starting:
                return
            worker_loop = self._worker_loop
        if worker_loop is None:
            return
        worker_loop.stop(seconds)
        if current.get() is not None or threading.current_thread() in (self._thread, self._starter):
            return
        while not worker_loop.over.wait(_A_LOOK):  # others may wait for it too
            pass

    def run(self) -> None:
        """
        Work until SIGTERM or SIGINT, or stop() in another thread; in the main thread.

        The first signal stops receiving and gives running handlers ``grace`` seconds; what is left
        is given back, in order, with its receive count as it is. A second signal ends the process
        at once. Outside the main thread no signals are looked at.

        Raises:
            As of ``start``; and what made the worker fail, such as WorkerReplaced.
        """
        self._refuse_while_running()
        self._worker_loop = self._identity = None
        with Signals(self._stop_by, lambda: f"worker {self.name}") as signals:
            self._signals = signals
            try:
                self.start()
            except StoppedAtStart:
                self._leave_before_work()
                _log.info("worker %s ends before it began: %s", self.name, self.numbers)
                return
            finally:
                self._signals = None
            worker_loop = self._worker_loop
            assert worker_loop is not None  # noqa: S101 - it has started
            if signals.came:
                worker_loop.stop(self.grace)
            said, log_at = "", time.monotonic() + _NUMBERS
            # In short steps: after a suspension (SIGSTOP) the system may hand a signal to another
            # thread, and Python calls its handler only when this thread wakes.
            while not worker_loop.over.wait(_A_LOOK):
                if time.monotonic() >= log_at:
                    log_at = time.monotonic() + _NUMBERS
                    if str(self.numbers) != said:
                        said = str(self.numbers)
                        _log.info("worker %s: %s", self.name, said)
        _log.info("worker %s ends: %s", self.name, self.numbers)
        if worker_loop.failure is not None:
            raise worker_loop.failure

    def _leave_before_work(self) -> None:
        if self._identity is not None:
            with suppress(RSMQError, RedisError, OSError):
                self.rsmq.run(leave_worker(self._identity))

    async def run_async(self) -> None:
        """
        Work inside a running event loop, on which async handlers run, until it is cancelled.

        A cancellation stops it as stop() does. No signals are looked at.

        Raises:
            As of ``run``.
        """
        loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(asyncio.to_thread(self.start, loop=loop))
        try:
            await asyncio.shield(starting)
            worker_loop = self._worker_loop
            while worker_loop is not None and not worker_loop.over.is_set():  # noqa: ASYNC110 - threads set it
                await asyncio.sleep(0.1)
            if worker_loop is not None and worker_loop.failure is not None:
                raise worker_loop.failure
        finally:
            # Also where it was cancelled while it began: a thread can't be called off.
            await asyncio.shield(asyncio.ensure_future(self._stop_when_started(starting)))

    async def _stop_when_started(self, starting: asyncio.Future[None]) -> None:
        try:
            await starting
        except Exception:  # noqa: BLE001 - told already, or nobody is there to be told
            return
        await asyncio.to_thread(self.stop)

    def _stop_by(self, name: str) -> bool:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Worker({self.rsmq!r}, name={self.name!r}, concurrency={self.concurrency})"


def _made_up_name() -> str:
    host = _OTHERS.sub("-", socket.gethostname())[:_LONGEST_HOST] or "worker"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
