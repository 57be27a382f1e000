"""
``Tasks``, the declarations that producers and workers share.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar, Unpack, cast, overload

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.codecs import JSON
from rsmq.codecs.type_variables import A_contra, R_co
from rsmq.errors import InvalidFormat, MissingExtra, Shown, show, show_type
from rsmq.errors.misuse import NamesElsewhere, warn_in_event_loop
from rsmq.jobs.asyncio_ import AsyncJobHandle, AsyncMapJobs
from rsmq.jobs.status import FollowingJob, JobStatus
from rsmq.jobs.threads import JobHandle, MapJobs
from rsmq.operations.operation import Operation
from rsmq.tasks.declared_queue import DeclaredQueue
from rsmq.tasks.flow import Flow, FlowOptions
from rsmq.tasks.graph import Node
from rsmq.tasks.immediate import Immediate, make_hooks, make_immediate_id
from rsmq.tasks.operations import start_map
from rsmq.tasks.other_names import OF_DECLARATIONS, OF_DECLARED_OPTIONS
from rsmq.tasks.sealed_values import SealedValues, find_values
from rsmq.tasks.sends import asyncio_, threads
from rsmq.tasks.sends.groups import Group, make_groups
from rsmq.tasks.shared_queues import SharedQueues
from rsmq.tasks.signature import Signature, check_call, takes_result, with_result
from rsmq.tasks.task import BoundTask, DeclaredTask, check_name, check_next, default_name
from rsmq.vocabulary.schedule_times import ScheduleTimes
from rsmq.vocabulary.sends import TASK
from rsmq.wire.ids import make_flow_id
from rsmq.wire.keys import DEFAULT_NS
from rsmq.wire.limits import MAX_BATCH, check_label, check_whole_number
from rsmq.worker.connection import make_async_client
from rsmq.worker.listener import ListenerOptions, check_option_names, is_generator_function
from rsmq.worker.middleware import Middleware
from rsmq.worker.worker import Worker

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")

DEFAULT_QUEUE = "tasks"
_ASYNC_SENDS = "Use await task.asend(...), tasks.asend_many(...) or tasks.amap(...)"
#: The options that name a single message.
_NOT_OF_MAPS = [each.name for each in TASK.options.values() if each.is_unique]
#: For how long a map with a dedup_id is sent once.
_DEDUP_SECONDS = 86_400


class TaskDecorator(Protocol):
    """Makes a function a task; the result of an async function is what awaiting it returns."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> DeclaredTask[P, T, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> DeclaredTask[P, T, T]: ...


class TakesItem(Protocol[A_contra, R_co]):
    """A task that can be called with one argument, for type checkers."""

    def signature(self, item: A_contra, /) -> Signature[R_co]: ...


class _MapPlan(NamedTuple):
    """The calls of a map, the operation that stores its record, its messages, and its end."""

    signatures: list[Signature[Any]]
    start: Operation[bool]
    groups: list[Group]
    then: Signature[Any]

    def end(self, jobs: Iterable[JobHandle[Any] | AsyncJobHandle[Any]]) -> Signature[Any]:
        """Return the call that follows jobs that have ended here."""
        ended = [each.ended for each in jobs]
        raws = [b"null" if each is None else each.raw_result or b"null" for each in ended]
        return with_result(self.then, [json.loads(raw) for raw in raws])


def _once(call: Signature[Any], map_id: str, part: object) -> Signature[Any]:
    """Return a part of a map that is sent once."""
    send = {**call.options.send, "dedup_id": f"{map_id}:{part}", "dedup_window": _DEDUP_SECONDS}
    return replace(call, options=replace(call.options, send=send))


def _facts_of_job(
    signature: Signature[Any],
    ended: JobStatus[Any] | None,
    make: Callable[[Signature[Any], str], Any],
) -> dict[str, Any]:
    """Return the arguments of a handle by keyword; ``make`` makes that of the call that follows."""
    task, then = signature.declared, signature.options.then
    follow = None if then is None else lambda place: make(then, place.id)
    return {
        "decode": task.decode_result, "is_tracked": task.is_tracked, "ended": ended,
        "follow": follow,
    }  # fmt: skip


class Tasks(NamesElsewhere):
    """
    Functions that messages call, declared once for the programs that send and the workers.

    A message is an ordinary one with the JSON body ``{"task": NAME, "args": {...}}``, so programs
    in any language can send a task. Its methods may be called from any thread.
    """

    _elsewhere = OF_DECLARATIONS

    def __init__(self, client: RSMQ[Any]) -> None:
        """
        Make it without tasks; it connects with the first call.

        Args:
            client: a synchronous client with any codec. It is also used for the workers and, with
                connections of their own, for ``asend``. It can be closed with ``close``. If its
                codec is ``Compressed`` or ``Encrypted``, arguments and results have its steps.

        Raises:
            InvalidFormat: it is not such a client.
        """
        if not isinstance(client, RSMQ):
            raise InvalidFormat(
                "client",
                value=show_type(client),
                hint="Pass an RSMQ, or use Tasks.from_url('redis://127.0.0.1:6379/0'). "
                "asend() sends from asyncio.",
            )
        self.client = client
        self.values: SealedValues | None = find_values(client.codec)
        self._queues: dict[str, DeclaredQueue] = {}
        self._by_name: dict[str, DeclaredTask[..., Any, Any]] = {}
        self._schedules: dict[str, tuple[Signature[Any], ScheduleTimes]] = {}
        self._shared_queues = SharedQueues(client)
        self._async_client: AsyncRSMQ[Any] | None = None
        self._lock = threading.Lock()
        self._is_immediate = False
        self._immediate = Immediate(self._by_name, self._encode_result)
        self._middleware: list[Middleware] = []

    @classmethod
    def from_url(cls, url: str, *, ns: str = DEFAULT_NS, **options: Any) -> Self:
        """
        Make it with a client of its own.

        Args:
            url: as for ``RSMQ.from_url``: ``redis://``, ``rediss://``, ``redis+cluster://``,
                ``redis+sentinel://``, ``unix://`` or ``memory://NAME``.
            ns: the namespace.
            options: the other options of ``RSMQ.from_url``.

        Raises:
            The errors of ``RSMQ.from_url``.
        """
        return cls(RSMQ.from_url(url, ns=ns, **options))

    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> DeclaredTask[P, T, Coroutine[Any, Any, T]]: ...
    @overload
    def task(self, function: Callable[P, T], /) -> DeclaredTask[P, T, T]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        queue: str = DEFAULT_QUEUE,
        name: str | None = None,
        **options: Unpack[ListenerOptions],
    ) -> TaskDecorator: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        queue: str = DEFAULT_QUEUE,
        name: str | None = None,
        **options: Any,
    ) -> Any:
        """
        Return a decorator that makes a function a task; ``@tasks.task`` is one without options.

        A plain function runs in a thread of the worker, an async one in its event loop, and with
        ``process=True`` in a child process; the tasks of a queue may be of all kinds, and share its
        slots. Options belong to the task, but for those of ``Tasks.queue``: ``concurrency``,
        ``levels``, ``priority``, ``weight``, ``create`` and ``active`` belong to the queue, and its
        tasks must not pass different ones. The worker's code decides: its options count for each
        attempt, of any sender, and ``max_retries`` of a send before them. A function
        of the same module and name replaces the one before, as when a module is loaded again, or a
        cell of a notebook is run again.

        Args:
            function: the function, without brackets behind ``task``.
            queue: the name of the queue. It is created where it is missing, by sends and workers.
            name: the name in bodies, 1 to 200 printable characters. It must not change while
                messages with it are in the queue. None is ``module.function``.
            **options: those of ``Worker.listener``. If tasks of the queue have different
                options, ``vt`` is the least for which the messages of this one are hidden. Without
                ``dead_letter_queue``, ``drop`` and ``retry_forever`` a message that always fails is
                moved to the queue ``QUEUE-dead``. ``create`` is True unless it is passed.

        Raises:
            InvalidFormat: the function is not one, or has parameters that can't be passed by name;
                another function has this name; the queue has another value of an option; or an
                option is invalid.
            InvalidValue: a number is out of range.
            MissingParameter: the name of the queue is empty.
            TypeError: there is no such option.
        """
        if function is not None:
            return self._declare(function, DEFAULT_QUEUE, None, {})
        if callable(queue):
            raise InvalidFormat("queue", value=show(queue), hint="Write @tasks.task, or name it.")
        self._check_options(self.task, options)

        def declare(function: Callable[..., Any]) -> DeclaredTask[..., Any, Any]:
            return self._declare(function, queue, name, cast("ListenerOptions", options))

        return declare

    def _declare(
        self, function: Callable[..., Any], queue: str, name: str | None, options: ListenerOptions
    ) -> DeclaredTask[..., Any, Any]:
        if not callable(function) or isinstance(function, type | DeclaredTask):
            raise InvalidFormat("task", value=show(function), hint="It is a function.")
        if is_generator_function(function):
            hint = "It has a yield, so a call would not run it."
            raise InvalidFormat("task", value=show(function), hint=hint)
        name = default_name(function) if name is None else check_name(name)
        self.client.namespace.queue(queue)
        replaced = self._by_name.get(name)
        if replaced is not None and not replaced.is_replaced_by(function):
            raise InvalidFormat(
                "name",
                value=name,
                hint=f"There is a task of this name, for queue {replaced.queue!r}. Pass another "
                "one with name=.",
            )
        declared = self._queues.get(queue) or DeclaredQueue(queue)
        task: DeclaredTask[..., Any, Any] = DeclaredTask(self, function, name, queue, options)
        others = {key: each for key, each in declared.tasks.items() if each is not replaced}
        checked = self._check(DeclaredQueue(queue, declared.options, {**others, name: task}))
        if replaced is not None:
            self._remove(replaced)
        self._by_name[name] = task
        self._shared_queues.add(queue, name)
        self._set_queue(checked)
        return task

    def _check(self, declared: DeclaredQueue) -> DeclaredQueue:
        """Check the options and functions of a queue before anything is changed, by a worker."""
        if declared.tasks:
            declared.add_to(Worker(self.client), self._encode_result)
        return declared

    def _set_queue(self, declared: DeclaredQueue) -> None:
        self._queues[declared.name] = declared
        declared.prepare_tasks()

    def _remove(self, task: DeclaredTask[..., Any, Any]) -> None:
        del self._queues[task.queue].tasks[task.name]
        self._shared_queues.remove(task.queue, task.name)

    def queue(self, name: str = DEFAULT_QUEUE, **options: Unpack[ListenerOptions]) -> None:
        """
        Declare how the tasks of a queue are received; before or after its tasks.

        ``concurrency``, ``levels``, ``priority``, ``weight``, ``create`` and ``active`` belong to
        the queue: the calls of all its tasks together are at most ``concurrency``. All other
        options are defaults of its tasks. A second call replaces the first one.

        Args:
            name: the name of the queue.
            **options: those of ``Worker.listener``.

        Raises:
            InvalidFormat: an option is invalid, or a task has passed another value for one that
                belongs to the queue.
            InvalidValue: a number is out of range.
            MissingParameter: the name is empty.
            TypeError: there is no such option.
        """
        self._check_options(self.queue, options)
        self.client.namespace.queue(name)
        tasks = self._queues[name].tasks if name in self._queues else {}
        self._set_queue(self._check(DeclaredQueue(name, options, tasks)))

    def _check_options(self, method: Callable[..., Any], options: Mapping[str, object]) -> None:
        for option in options.keys() & OF_DECLARED_OPTIONS.keys():
            raise TypeError(f"There is no option {option!r}. Use {OF_DECLARED_OPTIONS[option]}")
        check_option_names(method, options, ListenerOptions)

    def schedule(
        self, name: str, signature: Signature[Any], **options: Unpack[ScheduleTimes]
    ) -> None:
        """
        Declare a schedule that sends a task at set times; each worker stores it when it starts.

        Any worker of the namespace, or ``rsmq scheduler``, sends its messages, each tick exactly
        once. The worker's handler finds the time of the tick in ``current_message().scheduled_at``.

        Args:
            name: 1 to 160 characters of ``A-Z a-z 0-9 _ - .``.
            signature: the call, as in ``report.signature(2026)``.
            **options: ``cron`` or ``every``, ``timezone``, ``missed``, ``jitter``, ``version``,
                and options of a send, as for ``Worker.schedule``. With ``unique_key`` nothing is
                sent while an earlier call with that key is not done, so calls do not pile up or
                overlap.

        Raises:
            InvalidFormat: it is not a signature of a task that is declared here, has options other
                than ``level`` and ``then``, or the name is declared already with others.
        """
        check_call("signature", signature, self)
        signature.check_has_arguments()
        if signature.options.send:
            raise InvalidFormat(
                "signature",
                value=show(signature.options),
                hint="A schedule has its own times: pass a call without options but level and "
                "then. schedule itself takes unique_key and other options of a send.",
            )
        if self._schedules.get(name, (signature, options)) != (signature, options):
            hint = "This schedule is declared already, with another call or other options."
            raise InvalidFormat("name", value=name, hint=hint)
        with suppress(MissingExtra):  # a program that only sends need not have it
            _add_schedule(Worker(self.client), name, signature, options)
        self._schedules[name] = signature, options

    def middleware(self, *middleware: Middleware) -> None:
        """
        Add hooks to every later worker of these tasks, and to calls within ``immediate``.

        ``rsmq-worker MODULE:tasks``, ``worker``, ``run_all`` and ``arun_all`` run them, before the
        middleware that is passed to ``worker``. A call within ``immediate`` runs ``before_handle``,
        ``after_handle``, ``on_success``, ``on_failure`` and ``on_retry``, but not those of
        middleware that needs a worker: ``RateLimit``, ``LockByKey``, ``SlowCalls`` and ``Metrics``.

        Args:
            middleware: hooks, called in this order, after those that were added before.

        Raises:
            InvalidFormat: one is not an object of a subclass of Middleware.
        """
        Worker(self.client, middleware=middleware)  # checks them
        self._middleware += middleware
        self._immediate.hooks = make_hooks(self._middleware)

    def worker(
        self,
        *,
        name: str | None = None,
        concurrency: int = 8,
        grace: float = 30.0,
        middleware: Iterable[Middleware] = (),
        strict: bool = False,
        mixed: bool = True,
        strict_priority: bool = False,
    ) -> Worker[Any]:
        """
        Return a new worker of all tasks that are declared now, with their schedules.

        It is an ordinary ``Worker``: further listeners can be added. ``rsmq-worker MODULE:tasks``
        runs one too.

        Args:
            name: as for ``Worker``, as all others.
            concurrency: maximum number of concurrent calls.
            grace: seconds that running calls have to end when the worker stops.
            middleware: hooks, called after those of ``Tasks.middleware``.
            strict: whether an error replaces a warning.
            mixed: whether threads may run beside tasks with ``process=True``. A thread can keep the
                GIL or crash the worker's process, which ends the child processes too.
            strict_priority: whether queues of lower priorities wait for higher ones.

        Raises:
            InvalidFormat: there is no task, an annotation of a task can't be read, or a schedule is
                invalid.
            The errors of ``Worker``.
        """
        if not self._by_name:
            raise InvalidFormat(
                "tasks",
                hint="There is no task: decorate a function with @tasks.task(queue='mail'), and "
                "import its module.",
            )
        self._shared_queues.warn()
        worker = Worker(
            self.client,
            name=name,
            concurrency=concurrency,
            grace=grace,
            middleware=[*self._middleware, *middleware],
            strict=strict,
            mixed=mixed,
            strict_priority=strict_priority,
        )
        worker.source = self
        for declared in self._queues.values():
            for task in declared.tasks.values():
                task.arguments.prepare(has_result=task.is_tracked)
            if declared.tasks:
                declared.add_to(worker, self._encode_result)
        for schedule, (signature, options) in self._schedules.items():
            _add_schedule(worker, schedule, signature, options)
        return worker

    def send(self, signature: Signature[T]) -> JobHandle[T]:
        """
        Send a call. ``Task.send`` and ``Signature.send`` do the same.

        Args:
            signature: the call of a task that is declared here.

        Raises:
            InvalidFormat: it is not such a call.
            The errors of ``Task.send``.
        """
        check_call("signature", signature, self)
        if self._is_immediate:
            id = make_immediate_id()
            return self._make_job(signature, id, self._immediate.run(signature, id))
        warn_in_event_loop("send of a task", _ASYNC_SENDS)
        signature.check_has_arguments()
        return self._make_job(signature, threads.send_call(self.client, signature))

    async def asend(self, signature: Signature[T]) -> AsyncJobHandle[T]:
        """
        Send a call from asyncio. ``Task.asend`` and ``Signature.asend`` do the same.

        Args:
            signature: the call of a task that is declared here.

        Raises:
            InvalidFormat: it is not such a call.
            The errors of ``Task.send``.
        """
        check_call("signature", signature, self)
        if self._is_immediate:
            id = make_immediate_id()
            ended = await self._immediate.arun(signature, id)
            return self._make_async_job(signature, id, ended)
        signature.check_has_arguments()
        return self._make_async_job(signature, await asyncio_.send_call(self.aio, signature))

    def send_many(self, signatures: Iterable[Signature[T]]) -> list[JobHandle[T]]:
        """
        Send calls of any tasks that are declared here, in order.

        Calls of one queue with the same options are one ``send_messages``: one atomic step for up
        to 10,000. ``dedup_id``, ``unique_key``, ``group`` and ``limit_key`` may differ. If this
        raises an error, earlier batches are sent.

        Args:
            signatures: the calls, as in ``welcome.signature(id) for id in ids``.

        Returns:
            The jobs, in the order of the calls.

        Raises:
            The errors of ``Task.send``.
        """
        checked = self._check_calls(signatures)
        if self._is_immediate:
            return [self.send(each) for each in checked]
        return self._send_groups(checked, make_groups(checked))

    def _check_calls(self, signatures: Iterable[Signature[T]]) -> list[Signature[T]]:
        checked: list[Signature[T]] = [check_call("signature", each, self) for each in signatures]
        for each in checked:
            each.check_has_arguments()
        return checked

    def _send_groups(
        self, signatures: list[Signature[T]], groups: Iterable[Group]
    ) -> list[JobHandle[T]]:
        warn_in_event_loop("send of tasks", _ASYNC_SENDS)
        ids = threads.send_groups(self.client, signatures, groups)
        return [self._make_job(each, id) for each, id in zip(signatures, ids, strict=True)]

    async def asend_many(self, signatures: Iterable[Signature[T]]) -> list[AsyncJobHandle[T]]:
        """
        Send calls of any tasks from asyncio, as ``send_many`` does.

        Args:
            signatures: the calls.

        Raises:
            The errors of ``Task.send``.
        """
        checked = self._check_calls(signatures)
        if self._is_immediate:
            return [await self.asend(each) for each in checked]
        return await self._asend_groups(checked, make_groups(checked))

    async def _asend_groups(
        self, signatures: list[Signature[T]], groups: Iterable[Group]
    ) -> list[AsyncJobHandle[T]]:
        ids = await asyncio_.send_groups(self.aio, signatures, groups)
        return [self._make_async_job(each, id) for each, id in zip(signatures, ids, strict=True)]

    def _make_job(
        self, signature: Signature[T], id: str, ended: JobStatus[T] | None = None
    ) -> JobHandle[T]:
        """Return the handle on a message that was sent, or on a call that has ended."""
        facts = _facts_of_job(signature, ended, self._make_job)
        return JobHandle(self.client, signature.queue, id, **facts)

    def _make_async_job(
        self, signature: Signature[T], id: str, ended: JobStatus[T] | None = None
    ) -> AsyncJobHandle[T]:
        """Return the same for asyncio."""
        facts = _facts_of_job(signature, ended, self._make_async_job)
        return AsyncJobHandle(self.client if ended else self.aio, signature.queue, id, **facts)

    def map(
        self,
        task: TakesItem[A, T],
        items: Iterable[A],
        *,
        then: Signature[U],
        dedup_id: str | None = None,
    ) -> MapJobs[T, U]:
        """
        Send a task for each item, and another call after all of them have returned.

        The record ``NS:x:map:ID`` has the items that have not returned, so each counts once, also
        if its message is delivered again or its worker is killed; the script that deletes the last
        message sends ``then``. The record expires seven days after the last of them that returned;
        then ``then`` is not sent. Nor is it while a message is a dead letter: redrive it. First
        the record is stored, then the messages are sent in one atomic step, so no message counts
        without it. If this raises a connection error, the messages may have been sent; with a
        dedup_id the call may be repeated.

        Args:
            task: the task, which may have the options ``level``, ``delay``, ``deliver_at`` and
                ``front``.
            items: up to 10,000 values; each is passed as the first argument.
            then: the call that follows, with the options ``level`` and ``then``; without items it
                is sent at once. Its argument ``RESULT`` is the list of the results, in the order of
                the items; then the task has ``track=True``, and its own result is stored for it.
            dedup_id: 1 to 128 characters: for a day, a map with this id and as many items is sent
                once, and later calls return the same jobs.

        Returns:
            The jobs of the items, in order. Its ``following`` waits until all have succeeded, and
            returns the job of ``then``; for that the task has ``track=True``.

        Raises:
            InvalidFormat: an argument is invalid.
            InvalidValue: there are more than 10,000 items.
            MessageTooLong: the body of ``then`` is larger than the maxsize of its queue.
            The errors of ``Task.send``.
        """
        plan = self._plan_map(task, items, then, dedup_id)

        def follow(place: FollowingJob) -> JobHandle[U]:
            return self._make_job(then, place.id)

        if self._is_immediate or not plan.signatures:
            jobs = [self.send(each) for each in plan.signatures]
            return MapJobs(jobs, follow, self.send(plan.end(jobs)))
        threads.run(self.client, plan.start)
        return MapJobs(self._send_groups(plan.signatures, plan.groups), follow)

    async def amap(
        self,
        task: TakesItem[A, T],
        items: Iterable[A],
        *,
        then: Signature[U],
        dedup_id: str | None = None,
    ) -> AsyncMapJobs[T, U]:
        """
        Send a task for each item from asyncio, and another call after all of them; see ``map``.

        Args:
            task: the task.
            items: up to 10,000 values.
            then: the call that follows.
            dedup_id: as for ``map``.

        Raises:
            The errors of ``map``.
        """
        plan = self._plan_map(task, items, then, dedup_id)

        def follow(place: FollowingJob) -> AsyncJobHandle[U]:
            return self._make_async_job(then, place.id)

        if self._is_immediate or not plan.signatures:
            jobs = [await self.asend(each) for each in plan.signatures]
            return AsyncMapJobs(jobs, follow, await self.asend(plan.end(jobs)))
        await asyncio_.run(self.aio, plan.start)
        return AsyncMapJobs(await self._asend_groups(plan.signatures, plan.groups), follow)

    def _plan_map(
        self,
        task: TakesItem[A, Any],
        items: Iterable[A],
        then: Signature[Any],
        dedup_id: str | None,
    ) -> _MapPlan:
        """Return the calls of a map, checked, and what is sent."""
        if not isinstance(task, BoundTask):
            hint = "Pass a task, as in tasks.map(resize, paths, then=report.signature())."
            raise InvalidFormat("task", value=show(task), hint=hint)
        task.check_is_of(self)
        takes_results = takes_result(check_next(then, self))
        signatures = [task.signature(item) for item in items]
        check_whole_number("number of items", len(signatures), 0, MAX_BATCH)
        for each in signatures[:1]:
            options = each.options
            if options.then or not options.send.keys().isdisjoint(_NOT_OF_MAPS):
                raise InvalidFormat(
                    "task",
                    value=show(options),
                    hint=f"The task of a map has no then, {' or '.join(_NOT_OF_MAPS)}.",
                )
            if takes_results and not each.declared.is_tracked:
                hint = f"It takes RESULT: declare task {each.task} with track=True."
                raise InvalidFormat("then", value=Shown(then.task), hint=hint)
        if dedup_id is not None:
            check_label("dedup_id", dedup_id)
        map_id = make_flow_id(dedup_id)
        if dedup_id is not None:
            then = then if signatures else _once(then, map_id, "then")
            signatures = [_once(each, map_id, at) for at, each in enumerate(signatures)]
        of_map = {"id": map_id, "queue": then.queue, **({"results": True} if takes_results else {})}
        groups = [
            (queue, places, [
                {**body, "map": {"id": map_id, "number": place, **of_map}}
                for place, body in zip(places, bodies, strict=True)
            ], options)
            for queue, places, bodies, options in make_groups(signatures)
        ]  # fmt: skip
        start = start_map(self.client.namespace, map_id, signatures, then)
        return _MapPlan(signatures, start, groups, then)

    def flow(self, **options: Unpack[FlowOptions]) -> Flow:
        """
        Return an empty flow, a graph of calls: ``add`` calls to it, then ``send`` it.

        Args:
            **options: ``on_failure``: "stop" (the default) sends no further node once one has
                failed, was cancelled or has expired; "continue" sends those after it too, for which
                its result is None. ``finally_``: a call of a task with ``track=True`` that is sent
                after all nodes, whatever their outcomes. ``dedup_id``: 1 to 128 characters: while a
                flow with this id is stored, another one is not sent. ``result_ttl``: seconds for
                which it is stored after its end, 1 to 9,999,999, one day by default.

        Raises:
            InvalidFormat: an option is invalid.
            InvalidValue: result_ttl is out of range.
            TypeError: there is no such option.
        """
        return Flow(self, **options)

    def call_node(
        self, signature: Signature[Any], flow_id: str, number: int
    ) -> tuple[JobStatus[Any], list[Node]]:
        """
        Call the function of a node of a flow here, as within ``immediate``.

        Returns:
            Its job, and the nodes that it has added to its flow.
        """
        return self._immediate.run_node(signature, flow_id, number)

    def decode_result_of(self, task: str, value: Any) -> Any:
        """Return a result, from a value of JSON; unconverted if the task is not declared here."""
        declared = self._by_name.get(task)
        return value if declared is None else declared.decode_result(value)

    def run_all(self, *, timeout: float | None = 30.0) -> None:
        """
        Run all messages that are due in a worker here, until the queues are empty; for tests.

        Messages that tasks send meanwhile run too. Delayed ones are not waited for. Tasks with
        ``process=True`` start a child process with their first message.

        Args:
            timeout: seconds after which NotEmptyInTime is raised; None waits forever.

        Raises:
            The first exception of a task, when its outcome is written: its message waits for the
            next attempt, or is a dead letter. Retry, Defer, Discard and DeadLetter are no errors.
            The errors of ``worker``, and NotEmptyInTime.
        """
        self.worker().run(until_empty=True, raise_errors=True, timeout=timeout)

    async def arun_all(self, *, timeout: float | None = 30.0) -> None:  # noqa: ASYNC109 - see run_all
        """
        Run all messages that are due, as ``run_all`` does; async tasks run in this event loop.

        A cancellation stops the worker; its messages that are not done are released.

        Args:
            timeout: as for ``run_all``.

        Raises:
            The errors of ``run_all``.
        """
        await self.worker().run_async(until_empty=True, raise_errors=True, timeout=timeout)

    @property
    def is_immediate(self) -> bool:
        """Whether ``immediate`` is in effect."""
        return self._is_immediate

    @contextmanager
    def immediate(self, *, raise_: bool = False) -> Iterator[None]:
        """
        Call the function at once when a task is sent, in the same thread; for tests.

        Nothing is sent, and Redis is not used. The arguments go through their JSON, as they do in a
        message. Options of the send have no effect, ``current_message()`` is that of a first
        attempt, and an exception of the function is raised by the send. Retry, Defer, Discard and
        DeadLetter are not raised: there is no other attempt, and the job is retrying, waiting or
        failed. The hooks of ``middleware`` are called. ``client.job(queue, id)`` of this process
        reads the last 10,000 jobs of tracked tasks. It holds for all threads until the block ends,
        and for a later ``send_on_commit`` of a task that is called in it.

        Args:
            raise_: True lets the send raise Retry, Defer, Discard and DeadLetter, too.
        """
        before = self._is_immediate, self._immediate.raises
        self._is_immediate, self._immediate.raises = True, raise_
        try:
            yield
        finally:
            self._is_immediate, self._immediate.raises = before

    def _encode_result(self, task: str, argument: str, result: Any) -> Any:
        """Return a result as the argument of a task, unchecked if that is not declared here."""
        if task in self._by_name:
            return self._by_name[task].arguments.encode_one(argument, result)
        value = JSON.decode(JSON.encode(result).encode())
        return value if self.values is None else self.values.seal(value)

    @property
    def aio(self) -> AsyncRSMQ[Any]:
        """
        The asyncio client of ``asend``, with the settings of ``client``.

        After ``close_asyncio`` it is another one.
        """
        with self._lock:
            if self._async_client is None:
                self._async_client = make_async_client(self.client)
            return self._async_client

    def close(self) -> None:
        """Close the synchronous client."""
        self.client.close()

    async def aclose(self) -> None:
        """Close both clients, in the event loop of ``asend``."""
        await self.close_asyncio()
        self.client.close()

    async def close_asyncio(self) -> None:
        """Close the asyncio client, in its event loop; the next ``asend`` opens another one."""
        with self._lock:
            client, self._async_client = self._async_client, None
        if client is not None:
            await client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Tasks({self.client!r}, {len(self._by_name)} tasks)"


def _add_schedule(
    worker: Worker[Any], name: str, signature: Signature[Any], options: ScheduleTimes
) -> None:
    worker.schedule(name, queue=signature.queue, body=signature.body, codec=JSON, **options)
