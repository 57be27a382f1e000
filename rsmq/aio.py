"""
The asyncio client, ``AsyncRSMQ``.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from redis.exceptions import RedisError

from rsmq.codecs import TEXT, Codec, blocks, check_codec
from rsmq.codecs.type_variables import B_co, D, E
from rsmq.errors import ClientClosed, RSMQError
from rsmq.errors.misuse import OnlyAsyncWith, explain_arguments
from rsmq.model import has_blocking_codec
from rsmq.operations import (
    batches,
    dead_letters,
    inspection,
    marks,
    messages,
    queues,
    recovery,
    sending,
    sweeping,
)
from rsmq.operations.batches import ReceiveInSteps
from rsmq.operations.confirmation import check_confirm, copies_of
from rsmq.operations.lost_replies import LostReplies
from rsmq.operations.operation import Operation, allow_for_reply
from rsmq.operations.time_limit import check_reply_timeout, start_time_limit
from rsmq.transport.asyncio_.bodies import delete_with_bodies, load_bodies, send_with, take_bodies
from rsmq.transport.asyncio_.caller import (
    AsyncCaller,
    async_caller_from_client,
    async_caller_from_url,
)
from rsmq.transport.origin import Origin
from rsmq.transport.retry import check_deadline
from rsmq.transport.url import MEMORY_SCHEME, check_url
from rsmq.vocabulary.queue_arguments import CreateArguments, SetArguments
from rsmq.vocabulary.queues import CREATE, SET
from rsmq.vocabulary.send_arguments import BatchArguments, PublishArguments, SendArguments
from rsmq.vocabulary.sends import BATCH, PUBLISH, SEND
from rsmq.vocabulary.signatures import takes_options_of
from rsmq.waiting.asyncio_ import AsyncWatcher, AsyncWatchers
from rsmq.waiting.consuming import AsyncConsumer, AsyncProcessing
from rsmq.wire.keys import DEFAULT_NS, Namespace
from rsmq.wire.limits import Seconds, check_wait

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from redis.asyncio import Redis
    from redis.asyncio.cluster import RedisCluster

    from rsmq.codecs.formats import TextCodec
    from rsmq.control.asyncio_ import AsyncWorkers
    from rsmq.history.call_records import TaskFigures
    from rsmq.history.records import History
    from rsmq.jobs.asyncio_ import AsyncJobHandle
    from rsmq.jobs.flows.asyncio_ import AsyncFlowHandle
    from rsmq.jobs.flows.status import FlowState, FlowStatus
    from rsmq.jobs.status import JobState, JobStatus
    from rsmq.model import Message, MessageCounts, QueueAttributes, State, StoredMessage
    from rsmq.operations.batches import LeasedMessages
    from rsmq.operations.confirmation import Confirm
    from rsmq.operations.operation import Steps
    from rsmq.schedules.asyncio_ import AsyncSchedules
    from rsmq.transport.topology.address import Address
    from rsmq.trash.asyncio_ import AsyncTrash

T = TypeVar("T")


class AsyncRSMQ(OnlyAsyncWith, Generic[B_co]):
    """
    An asyncio client for RSMQ queues on a Redis server.

    Each method runs one atomic script in one round trip: it takes effect completely or not at all.
    Methods that need several steps say so. All times come from the server's clock. Every argument
    in seconds may also be a ``timedelta``.

    Retries: a call that did not reach the server, or that the server refused for the moment
    (loading, read-only), is retried until ``retry_deadline`` seconds after its begin. An attempt
    ends then too, or earlier without progress for ``socket_timeout``. If the connection breaks or
    times out after the call was sent, the failure is ambiguous: the call may have run. After an
    ambiguous failure, until the same deadline:

    - Retried: reads, creating queues, setting their attributes and policies, pausing, deleting
      messages, changing their visibility, releasing received messages, sweeping, and a send with a
      dedup_id.
    - Retried once: a receive and a recover.
    - Not retried: any other send, a pop, a move, a redrive, a purge, a release by ids without
      receipts, and deleting a queue. These raise redis-py's ConnectionError or TimeoutError.

    With Redis Cluster and Sentinel, the call is then sent to the server that has the keys now.

    Event loops: a client may be used in several event loops. It has one connection for each. All
    calls of the loop share it, and concurrent calls are sent together.

    Cancellation: a receive that is cancelled, at any point, releases its messages before
    CancelledError is raised, which takes at most a second. Any other call that is cancelled after
    it was sent may or may not have run.

    Closing: ``close`` waits at most a second for running calls. A call that has not ended by then
    raises ClientClosed, and may have run. Every later call raises ClientClosed.

    Types: the parameter B is the type of the bodies that the client's codec decodes: str without
    ``codec=``, bytes with BYTES, Any with JSON and MSGPACK, the class with the codec of a class.
    ``codec=`` of a call decides for the messages of this call. For type checkers, ``from_url`` of a
    subclass returns this class, because it chooses B by the codec. At run time it returns the
    subclass.

    Besides the errors that it names, each method may raise ClientClosed after close(), and
    redis-py's own errors (ConnectionError, TimeoutError, AuthenticationError, ResponseError ...).
    """

    @overload
    def __init__(
        self: AsyncRSMQ[str],
        client: Redis | RedisCluster,
        *,
        ns: str = DEFAULT_NS,
        codec: TextCodec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float | timedelta | None = None,
        confirm: Confirm | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        client: Redis | RedisCluster,
        *,
        ns: str = DEFAULT_NS,
        codec: Codec[E, B_co],
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float | timedelta | None = None,
        confirm: Confirm | None = None,
    ) -> None: ...
    @explain_arguments
    def __init__(
        self,
        client: Redis | RedisCluster,
        *,
        ns: str = DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float | timedelta | None = None,
        confirm: Confirm | None = None,
    ) -> None:
        """
        Connect as an existing client does. It only says where and how: its options make
        other connections, which all clients around it share. The last close() closes them.

        Args:
            client: a ``Redis`` or ``RedisCluster`` of redis.asyncio, or the ``master_for`` of a
                Sentinel, whose options are read now. It is never closed, and may be closed.
            ns: the namespace, the first part of every key. On Redis Cluster it must contain a hash
                tag, as in ``"{rsmq}"``.
            codec: converts bodies to bytes and back: TEXT, BYTES, JSON, MSGPACK or an object with
                ``encode`` and ``decode``.
            realtime: if True, every send publishes the same notification as the Node client.
            strict_names: if False, queue names that the Node client refuses are also allowed.
            retry_deadline: seconds, 0 to 86,400; see the class. 0 disables retries, and only
                ``socket_timeout`` ends a call. The default is 5, or 30 with Redis Cluster and
                Sentinel.
            confirm: the copies of its changes that a send, publish, move or redrive waits for, as
                in ``Confirm(replicas=1)``; without them it raises NotReplicated. None waits for
                none.

        Raises:
            MissingParameter: the namespace is empty.
            InvalidFormat: client, ns, codec or confirm is not of a supported kind.
            InvalidValue: retry_deadline is not a number, or is out of range.
        """
        self._configure(ns, codec, realtime=realtime, strict_names=strict_names)
        self._use_confirm(check_confirm(confirm))
        deadline = check_deadline(retry_deadline)
        self._use_caller(async_caller_from_client(client, self._namespace, deadline))
        self._handed_in = client  # its end may stop the server, as that of a test

    @overload
    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        ns: str = DEFAULT_NS,
        codec: TextCodec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float | timedelta | None = None,
        confirm: Confirm | None = None,
        **options: Any,
    ) -> AsyncRSMQ[str]: ...
    @overload
    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        ns: str = DEFAULT_NS,
        codec: Codec[E, D],
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float | timedelta | None = None,
        confirm: Confirm | None = None,
        **options: Any,
    ) -> AsyncRSMQ[D]: ...
    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        ns: str = DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float | timedelta | None = None,
        confirm: Confirm | None = None,
        **options: Any,
    ) -> AsyncRSMQ[Any]:
        """
        Open connections that close() closes; one for each event loop.

        Args:
            url: ``redis://``, ``rediss://`` (TLS), ``unix://``,
                ``redis+cluster://HOST:PORT,HOST:PORT`` with some nodes of a Redis Cluster,
                ``redis+sentinel://HOST:PORT,HOST:PORT/PRIMARY/DATABASE`` with the Sentinels of a
                primary (both also with ``rediss+``), or ``memory://NAME``: a Redis inside this
                process for development and tests (extra ``embedded``).
            ns: as for the constructor.
            codec: as for the constructor.
            realtime: as for the constructor.
            strict_names: as for the constructor.
            retry_deadline: as for the constructor.
            confirm: as for the constructor.
            options: redis-py's, such as ``username``, ``password``, ``ssl_ca_certs`` or
                ``socket_timeout`` (seconds without any progress, default 5; a large batch on a
                slow link may take longer). ``max_connections`` has no effect. With several
                servers also
                ``address_remap``, a function that changes the ``(host, port)`` that a server
                reports to the one that this process can reach; with Sentinels also
                ``sentinel_username`` and ``sentinel_password``, their own user and password.
                Options of the URL have precedence. With ``memory://`` they have no effect.

        Raises:
            MissingParameter: the namespace is empty.
            InvalidFormat: url, options, ns, codec or confirm is not of a supported kind.
            InvalidValue: retry_deadline is not a number, or is out of range.
            MissingExtra: ``memory://`` without the extra ``embedded``.
        """
        self = cls.__new__(cls)
        self._configure(ns, codec, realtime=realtime, strict_names=strict_names)
        self._use_confirm(check_confirm(confirm))
        deadline = check_deadline(retry_deadline)
        if check_url(url).startswith(MEMORY_SCHEME):
            from rsmq.transport import memory  # noqa: PLC0415 - needs an extra

            client = memory.async_client(url, **options)
            self._use_caller(async_caller_from_client(client, self._namespace, deadline))
        else:
            self._use_caller(async_caller_from_url(url, self._namespace, deadline, options))
        return self

    def _use_caller(self, caller: AsyncCaller) -> None:
        self._caller = caller
        self._watchers = AsyncWatchers(caller, self._namespace)

    def _configure(self, ns: str, codec: Codec, *, realtime: bool, strict_names: bool) -> None:
        self._namespace = Namespace(ns, strict_names)
        self._codec: Codec[Any, B_co] = check_codec(codec)
        self._realtime = realtime
        self._closed = False
        self._losses = LostReplies()
        #: The client whose connections this one uses; None if it has its own.
        self._lender: AsyncRSMQ[B_co] | None = None
        self._reply_timeout = 0.0  # only with a lender

    def _borrow(self, lender: AsyncRSMQ[B_co], seconds: float) -> None:
        """Use the settings and the connections of another client, with this time for a reply."""
        namespace, realtime = lender.namespace, lender.realtime
        self._configure(
            namespace.name, lender.codec, realtime=realtime, strict_names=namespace.strict_names
        )
        self._use_confirm(lender.confirm)
        self._use_caller(lender.caller)
        self._lender, self._reply_timeout = lender, seconds

    def _use_confirm(self, confirm: Confirm) -> None:
        """Set the copies that calls wait for by default."""
        self._confirm = confirm
        self._copies = copies_of(confirm)

    def _confirm_for(self, confirm: Confirm | None) -> Confirm | None:
        """Return the copies that a call waits for: its own, or those of the client."""
        return self._copies if confirm is None else copies_of(check_confirm(confirm))

    def _facts_of_send(self, confirm: Confirm | None, timeout: Seconds | None) -> dict[str, Any]:
        """Return the arguments of a send that do not concern its messages."""
        limit = None if timeout is None else start_time_limit(timeout)
        confirmation = self._confirm_for(confirm)
        return {"realtime": self._realtime, "confirmation": confirmation, "limit": limit}

    def _codec_for(self, codec: Codec | None) -> Codec:
        return self._codec if codec is None else check_codec(codec)

    def with_reply_timeout(self, seconds: float | timedelta) -> Self:
        """
        Return a client that waits longer, or less long, for each reply of a server.

        For calls that keep the server busy, such as the deletion of a queue with millions of
        messages: within ``socket_timeout``, a server that is busy looks like one that hangs.

        The new client has the settings of this one, and uses its connections. With asyncio, each of
        its calls has a connection of its own. close() of the new client ends its waiting calls,
        and closes no connections; close() of this client ends both. A send with its own
        ``timeout`` has only that time. A retry may begin until ``retry_deadline`` after the begin
        of the call, and its reply has this time too.

        Args:
            seconds: the time for each reply, 0.001 to 86,400 (a day).

        Raises:
            InvalidValue: seconds is not a number, or is out of range.
        """
        client = type(self).__new__(type(self))
        client._borrow(self, check_reply_timeout(seconds))  # noqa: SLF001 - of the same class
        return client

    async def run(self, operation: Operation[T]) -> T:
        """
        Run an operation of ``rsmq.operations``. All methods reach Redis through this one.

        Part of the extension interface, for packages that are built on the client, such as
        ``rsmq.worker``: ``run``, ``run_steps``, ``namespace``, ``caller`` and ``watcher``. These
        five keep their names, their parameters and the behaviour that is described here. The
        operations do not: ``rsmq.operations`` may change in every release, so such a package pins
        the version.

        The operation is one atomic script. It is retried as its retry class permits, until
        ``retry_deadline``. If the call is interrupted, its result is undone if the operation
        has ``undo``.

        Args:
            operation: an operation in the namespace of this client; it may be run repeatedly.

        Returns:
            The result of the operation.

        Raises:
            ClientClosed: close() was called before.
            RSMQError: the errors that the operation's script returns, such as QueueNotFound.
        """
        if self._closed:
            raise ClientClosed
        if self._lender is not None:
            return await self._lender.run(allow_for_reply(operation, self._reply_timeout))
        return await self._caller.run(operation)

    async def run_steps(self, steps: Steps[T]) -> T:
        """
        Run an operation of ``rsmq.operations`` that has several steps, each by ``run``.

        Part of the extension interface, see ``run``. Each step is atomic, not all steps together.
        An error of a step is raised inside the generator, which may undo earlier steps.

        Args:
            steps: a generator of operations, which has not been started; it can be run once.

        Returns:
            The value that the generator returns.

        Raises:
            ClientClosed: close() was called before.
            RSMQError: the errors of the steps.
        """
        result: Any = None
        try:
            operation = next(steps)
        except StopIteration as end:  # there is nothing to do
            result_without_steps: T = end.value
            return result_without_steps
        while True:
            try:
                result = await self.run(operation)
                operation, result = steps.send(result), None
            except StopIteration as end:
                final_result: T = end.value
                return final_result
            except BaseException as error:  # noqa: BLE001 - the generator undoes steps and raises it
                if result and operation.undo:  # the generator has not received this result yet
                    await self._undo(operation, result)
                try:
                    operation, result = steps.throw(error), None
                except StopIteration as end:
                    fallback_result: T = end.value
                    return fallback_result

    async def _receive(
        self, receive: Operation[T] | ReceiveInSteps, wait: float | timedelta | None
    ) -> T:
        seconds = check_wait(wait)
        received: T
        if isinstance(receive, ReceiveInSteps):
            steps: Any = receive.steps()
            received = await self.run_steps(steps)
        else:
            received = await self.run(receive)
        if received:
            try:
                await load_bodies(received)
            except BaseException:  # the call was cancelled
                await self._undo(receive, received)
                raise
        if received or seconds == 0:
            return received
        return await self.watcher.wait(
            lambda: self._receive(receive.rebuild() if receive.rebuild else receive, 0),
            lambda result: self._undo(receive, result),
            received,
            receive.keys[1::2],
            seconds,
        )

    async def _undo(self, operation: Operation[T] | ReceiveInSteps, result: Any) -> None:
        undo = operation.undo and operation.undo(result)
        if undo:
            with suppress(RedisError, RSMQError):
                await self.run(undo)

    @property
    def namespace(self) -> Namespace:
        """
        The namespace of this client, for builders of ``rsmq.operations``.

        Part of the extension interface, see ``run``. The same object for the life of the client;
        ``namespace.name`` is the text that was passed as ``ns``.
        """
        return self._namespace

    @property
    def caller(self) -> AsyncCaller:
        """
        The object that runs the operations of this client on its connections.

        Part of the extension interface, see ``run``. The same object for the life of the client,
        whose close() closes it. Stable are ``run``, which is that of the client, ``origin``, as
        that of the client, and ``server_options``: the options of redis-py with which it connects
        to its only server, password included; None with Redis Cluster and Sentinel. Its other
        methods may change in every release.
        """
        return self._caller

    @property
    def codec(self) -> Codec[Any, B_co]:
        """The codec of calls that don't pass one."""
        return self._codec

    @property
    def confirm(self) -> Confirm:
        """The copies that calls wait for that don't pass ``confirm``."""
        return self._confirm

    @property
    def realtime(self) -> bool:
        """Whether every send publishes the same notification as the Node client."""
        return self._realtime

    @property
    def origin(self) -> Origin:
        """
        How this client reaches its server, for another client of that server.

        It may contain a password.
        """
        return self._caller.origin

    @property
    def address(self) -> Address | None:
        """The server of the queues, of a cluster or of Sentinels, after a call; else None."""
        return self._caller.address_of(self._namespace.queues)

    @property
    def schedules(self) -> AsyncSchedules:
        """
        The schedules of this namespace: messages that are sent at set times.

        It has ``add``, ``list``, ``get``, ``remove``, ``pause``, ``resume`` and ``run_now``.
        """
        from rsmq.schedules.asyncio_ import AsyncSchedules  # noqa: PLC0415 - few programs use it

        return AsyncSchedules(self)

    @property
    def workers(self) -> AsyncWorkers:
        """
        The workers of this namespace, in all processes, and orders to them.

        It has ``list``, ``running``, ``pause``, ``resume``, ``set_concurrency`` and ``stop``.
        """
        from rsmq.control.asyncio_ import AsyncWorkers  # noqa: PLC0415 - few programs use it

        return AsyncWorkers(self)

    @property
    def trash(self) -> AsyncTrash:
        """
        Deletions that can be undone for ten minutes.

        It has ``purge_queue``, ``delete_queue``, ``delete_messages``, ``list``, ``undo``,
        ``why_off`` and ``empty``.
        """
        from rsmq.trash.asyncio_ import AsyncTrash  # noqa: PLC0415 - few programs use it

        return AsyncTrash(self)

    def job(self, qname: str, id: str) -> AsyncJobHandle[Any]:
        """
        Return a handle on a tracked message: its status, its result, and its cancellation.

        Nothing is read. The handle has ``status``, which says what has become of the message,
        ``result``, which waits until it has ended and returns what its handler returned, and
        ``cancel``.

        Args:
            qname: the queue's name.
            id: the id that the send has returned, in Python or in another language.

        Raises:
            MissingParameter: the name or the id is None or empty.
            InvalidFormat: the name or the id has other characters.
        """
        from rsmq.jobs.asyncio_ import AsyncJobHandle  # noqa: PLC0415 - few programs use it

        return AsyncJobHandle(self, qname, id)

    def flow(self, id: str) -> AsyncFlowHandle:
        """
        Return a handle on a flow of tasks that was sent: its status, its nodes and its result.

        Nothing is read. Results are values of JSON.

        Args:
            id: the ``id`` of the handle that ``send`` of the flow has returned.

        Raises:
            InvalidFormat: the id is not one of a flow.
        """
        from rsmq.jobs.flows.asyncio_ import AsyncFlowHandle  # noqa: PLC0415 - few programs use it

        return AsyncFlowHandle(self, id)

    async def flows(
        self, *, state: FlowState | str | None = None, max_flows: int = 100
    ) -> list[FlowStatus]:
        """
        Return the flows of tasks of the namespace that were sent last, without their nodes.

        One atomic script. The ids of the last 10,000 flows are stored; those whose time to live has
        ended are removed from the list.

        Args:
            state: a ``FlowState`` or its text, such as ``"running"``; None is any.
            max_flows: maximum number, 1 to 1,000.

        Returns:
            The statuses, the flow that was sent last first.

        Raises:
            InvalidFormat: there is no such state.
            InvalidValue: max_flows is out of range.
        """
        from rsmq.jobs.flows.operations import list_flows  # noqa: PLC0415 - few programs use it

        found: list[FlowStatus] = await self.run(list_flows(self.namespace, state, max_flows))
        return found

    async def jobs(
        self,
        qname: str,
        *,
        state: JobState | str | None = None,
        max_jobs: int = 1000,
    ) -> list[JobStatus[Any]]:
        """
        Return what has become of the tracked messages of a queue that have a record.

        Nothing is changed. There is no index of records, so this looks at all keys of the database,
        a thousand in each script: about a second for a million keys. It is for operators, not for
        each request of a program. The whole is not atomic: a job that begins or ends meanwhile may
        be missing.

        Args:
            qname: the queue's name.
            state: a ``JobState`` or its text, such as ``"failed"``; None is any.
            max_jobs: maximum number, 1 to 10,000: those that were sent last.

        Returns:
            The statuses, the job that was sent last first.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or there is no such state.
            InvalidValue: max_jobs is out of range.
        """
        from rsmq.jobs.asyncio_ import list_jobs  # noqa: PLC0415 - few programs use it

        return await list_jobs(self, qname, state, max_jobs)

    async def wait_for_jobs(
        self,
        jobs: Iterable[AsyncJobHandle[T]],
        timeout: float | None = None,
    ) -> list[JobStatus[T]]:
        """
        Wait until all of several tracked messages have ended, and return what has become of each.

        It waits for one of them at a time, as the handle's ``result`` does, and reads the others
        then, and before a record can expire: four times within the shortest ``result_ttl`` that it
        has seen in their queue (one second until a worker has ended one), but every 30 seconds at
        least, and for a twentieth of the time at most. If a record has expired unseen in spite of
        it, the state of this job is ``expired``.
        A failed job raises nothing here: ``status.result()`` returns the result or raises it.

        Args:
            jobs: handles, of any queues.
            timeout: seconds for all of them, from 0; None waits forever.

        Returns:
            The statuses, in the order of the handles.

        Raises:
            JobNotEnded: one of them has not ended within the timeout. It is a TimeoutError too.
            JobNotFound: there was neither a message nor a record of one of them at the call.
            JobNotTracked: one of them is of a task without ``track=True``.
            InvalidValue: timeout is out of range.
        """
        from rsmq.jobs.asyncio_ import wait_for_jobs  # noqa: PLC0415 - as above

        return await wait_for_jobs(jobs, timeout)

    @property
    def watcher(self) -> AsyncWatcher:
        """
        The watcher that wakes waiting receives, for packages that wait in their own way.

        Part of the extension interface, see ``run``. A watcher belongs to one process, and with
        asyncio to one event loop: read this property where it is used. Its methods are those of
        ``rsmq.waiting``, which may change in every release.

        Raises:
            ClientClosed: close() was called before.
        """
        return self._watchers.current()

    @takes_options_of(CREATE)
    async def create_queue(
        self, qname: str, *, exist_ok: bool = False, **options: Unpack[CreateArguments]
    ) -> bool:
        """
        Create a queue, or complete one that lacks some of its attributes.

        After an ambiguous failure, a queue that has exactly these attributes counts as created.

        Args:
            qname: 1 to 160 characters of ``A-Z a-z 0-9 _ -``; not ``QUEUES``.
            options: see below.
            exist_ok: if True, an existing queue is not an error, and its attributes stay as they
                are.

        Returns:
            True if the queue was created or completed; False if it existed and exist_ok is True.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            InvalidValue: vt, delay, maxsize or keep is out of range or not whole.
            QueueExists: the queue exists, whatever its attributes. If list_queues did not return it
                before, it does now.

        Source: npm rsmq 0.12.4, createQueue.
        """
        return await self.run(
            queues.create_queue(self._namespace, qname, exist_ok=exist_ok, **options)
        )

    async def delete_queue(self, qname: str) -> None:
        """
        Delete a queue with all its messages, also those in flight, in constant time.

        Not retried after an ambiguous failure: another client may have created the queue again, and
        a retry would delete the new one.

        Args:
            qname: the queue's name.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: the queue does not exist.

        Source: npm rsmq 0.12.4, deleteQueue.
        """
        return await self.run(queues.delete_queue(self._namespace, qname))

    async def list_queues(self) -> list[str]:
        """
        Return the names of all queues of this namespace.

        Returns:
            Names, sorted; an empty list if there are no queues. Some clients create queues without
            listing them: such queues are missing here, but all other methods work on them.

        Source: npm rsmq 0.12.4, listQueues.
        """
        return await self.run(queues.list_queues(self._namespace))

    async def get_queue_attributes(self, qname: str) -> QueueAttributes:
        """
        Return the attributes and counts of a queue, all read at one moment.

        Takes constant time for the attributes and the number of messages, and O(log n) for the
        other counts.

        Args:
            qname: the queue's name.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: the queue does not exist, or it lacks vt, delay or maxsize.
            InvalidValue: another client stored a vt or delay that is not a number.

        Source: npm rsmq 0.12.4, getQueueAttributes. hidden_messages is exact to the millisecond;
        Node also counts messages that became visible within the current second.
        """
        return await self.run(queues.get_queue_attributes(self._namespace, qname))

    @takes_options_of(SET)
    async def set_queue_attributes(
        self, qname: str, **options: Unpack[SetArguments]
    ) -> QueueAttributes:
        """
        Change attributes of a queue. Messages that are already hidden keep their visibility time.

        A message expires ``keep`` seconds after its send, the time in its id; one whose id has no
        such time does not expire. From then on receives, pops, recovers and workers of this library
        don't deliver it: they remove it, or move it to the dead-letter queue with its counters, at
        most 1,000 in a call. A message in flight stays until it would be received again. Node and
        PHP consumers ignore this: see sweep_expired. The counters of the queue don't change.

        Args:
            qname: the queue's name.
            options: see below.

        Returns:
            All attributes after the change.

        Raises:
            NoAttributeSupplied: all of them are None.
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters; or expired is another value, or it is
                "dead-letter" and the queue has no dead-letter policy.
            InvalidValue: a value is out of range or not whole; or another client stored a vt or
                delay that is not a number, and this call does not replace it.
            QueueNotFound: the queue does not exist.

        Source: npm rsmq 0.12.4, setQueueAttributes.
        """
        return await self.run(queues.set_queue_attributes(self._namespace, qname, **options))

    async def pause_queue(self, qname: str) -> bool:
        """
        Stop all workers (``rsmq.worker``) from receiving from a queue, until it is resumed.

        Workers still process the messages that they have received; within a second or two they
        receive no more. Producers can still send, and receive_message and consumers of other
        clients can still receive.

        Args:
            qname: the queue's name.

        Returns:
            True if the queue was not paused before, and after an ambiguous failure.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: the queue does not exist.
        """
        return await self.run(queues.pause_queue(self._namespace, qname, pause=True))

    async def resume_queue(self, qname: str) -> bool:
        """
        Let workers receive again from a queue that is paused.

        Args:
            qname: the queue's name.

        Returns:
            True if the queue was paused before, and after an ambiguous failure.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: the queue does not exist.
        """
        return await self.run(queues.pause_queue(self._namespace, qname, pause=False))

    async def set_queue_limits(
        self, qname: str, *, max_running: int | None = None, rate: str | None = None
    ) -> QueueAttributes:
        """
        Set or remove limits on how this library receives from a queue.

        All receives of this library obey them, in all processes together: receive_message,
        receive_messages, consume, recover_messages, pops, workers, Spark streams and HTTP. A call
        receives as many messages as the limits allow now, perhaps none; one that waits receives the
        next message when it is allowed. Node and PHP consumers ignore the limits, and their
        receives don't count.

        A message is in flight from its receive until it is deleted, visible again, or waits for the
        retry of a worker. A popped message is not in flight. Each receive of a message counts for
        the rate, also a retry. Receives are spaced evenly: with 100/m there is one in each 0.6
        seconds. What was not received in the last 0.1 seconds can be received at once.

        Args:
            qname: the queue's name.
            max_running: how many messages may be in flight, 1 to 1,000; None is any number.
            rate: a number from 1 to 1,000,000, a slash, and s, m, h or d, such as "100/m" for 100
                receives in a minute; None is any number.

        Returns:
            All attributes after the change. Calls that wait notice it within five seconds.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or rate is not a rate.
            InvalidValue: max_running is out of range or not whole; or another client stored a vt or
                delay that is not a number.
            QueueNotFound: the queue does not exist.
        """
        return await self.run(
            queues.set_queue_limits(self._namespace, qname, max_running=max_running, rate=rate)
        )

    async def purge_queue(self, qname: str) -> int:
        """
        Remove all messages of a queue, also those in flight, in constant time.

        The queue, its attributes and its totals are kept. Not retried after an ambiguous failure: a
        retry would also remove messages that were sent in the meantime.

        Args:
            qname: the queue's name.

        Returns:
            The number of messages removed.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: the queue does not exist.
        """
        return await self.run(queues.purge_queue(self._namespace, qname))

    @takes_options_of(SEND)
    async def send_message(
        self,
        qname: str,
        body: Any,
        *,
        codec: Codec | None = None,
        confirm: Confirm | None = None,
        timeout: float | timedelta | None = None,
        **options: Unpack[SendArguments],
    ) -> str:
        """
        Add a message to a queue.

        If this raises a connection error, the message may or may not have been stored; it is never
        stored twice. With a dedup_id the call is retried after an ambiguous failure, and the caller
        may repeat it. A unique_key is not enough for that: the first message may be done already.
        Clients in other languages send without unique_key; each of them frees a key by its deletes.

        Args:
            qname: the queue's name.
            body: a value that the codec can encode; a str with TEXT. It may be empty.
            options: see below.
            codec: the codec of this call; None uses the client's.
            confirm: as for the constructor; None uses the client's.
            timeout: seconds for this call, 0.001 to 86,400, with all its attempts, pauses and
                connecting; it replaces the retry_deadline of the client. The timeout of
                confirm is added to it.

        Returns:
            The message's id.

        Raises:
            NotReplicated: it has run, and too few replicas have confirmed it in time.
            NotPossible: confirm has fsync, and the server can't say what is on disk.
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters; codec is not a codec; dedup_id is not a
                str of 1 to 128 characters, nor is unique_key, group or limit_key; rate is
                malformed; or deliver_at is not an aware datetime.
            InvalidCombination: more than one of delay, deliver_at and front is set, or two of
                group, limit_key and front; or replace, max_wait, limit_key, max_running or rate is
                set without the arguments that it needs. It is an InvalidFormat and an InvalidValue.
            InvalidValue: delay, deliver_at, dedup_window, max_wait, expires, max_retries,
                max_running or timeout is out of range; the message would expire before it is
                visible; the rate permits it only after more than 9,999,999 seconds; or there is
                neither delay nor deliver_at, and the queue's delay is not a number.
            MessageNotString: the codec can't encode the body.
            BodyUnavailable: the store of a ``Stored`` codec does not answer.
            QueueNotFound: the queue does not exist.
            MessageTooLong: the body is larger than the queue's maxsize, or than the server's
                proto-max-bulk-len (512 MiB by default).

        Source: npm rsmq 0.12.4, sendMessage.
        """
        chosen = self._codec if codec is None else check_codec(codec)
        arguments = (
            self._namespace,
            qname,
            body,
            options,
            chosen,
            self._realtime,
            self._confirm_for(confirm),
            None if timeout is None else start_time_limit(timeout),
        )
        if blocks(chosen):
            id: str = await send_with(
                chosen,
                options,
                lambda codec: messages.send_message(*arguments[:4], codec, *arguments[5:]),
                self.run,
            )
            return id
        return await self.run(messages.send_message(*arguments))

    @takes_options_of(BATCH)
    async def send_messages(
        self,
        qname: str,
        bodies: Iterable[Any],
        *,
        codec: Codec | None = None,
        confirm: Confirm | None = None,
        timeout: float | timedelta | None = None,
        **options: Unpack[BatchArguments],
    ) -> list[str]:
        """
        Add messages to a queue in this order, all or none.

        They are received in this order, and after the messages of earlier calls, unless delays
        differ. Their ids all contain the same time. With realtime there is one notification, with
        the final number of messages. One round trip; two if bodies have 8 KiB or more on average
        and the user may run MULTI. Not retried after an ambiguous failure, unless every message has
        a dedup_id.

        Args:
            qname: the queue's name.
            bodies: values that the codec can encode, at most 10,000 and 16 MiB in total.
            options: see below.
            codec: the codec of this call; None uses the client's.
            confirm: as for the constructor; None uses the client's.
            timeout: as for send_message.

        Returns:
            The ids, in the order of the bodies; an empty list if there are no bodies. If a body's
            dedup_id was used before, or its unique_key has a message, its id is that of the earlier
            message.

        Raises:
            NotReplicated: it has run, and too few replicas have confirmed it in time.
            NotPossible: confirm has fsync, and the server can't say what is on disk.
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters; codec is not a codec; a dedup_id is not a
                str of 1 to 128 characters, or a unique_key, group or limit_key; rate is malformed;
                bodies is not an iterable, or is a str or bytes; the numbers of bodies and
                dedup_ids, unique_keys, groups or limit_keys differ; or deliver_at is not an aware
                datetime.
            InvalidCombination: as for send_message.
            InvalidValue: as for send_message; or the batch is too large.
            MessageNotString: the codec can't encode a body.
            BodyUnavailable: the store of a ``Stored`` codec does not answer.
            QueueNotFound: the queue does not exist.
            MessageTooLong: the largest body is larger than the queue's maxsize, or than the
                server's proto-max-bulk-len.
        """
        chosen, facts = self._codec_for(codec), self._facts_of_send(confirm, timeout)
        build = partial(sending.send_messages, self._namespace, qname, bodies, options, **facts)
        return await send_with(chosen, options, lambda codec: build(codec=codec), self.run_steps)

    @takes_options_of(PUBLISH)
    async def publish(
        self,
        qnames: Iterable[str],
        body: Any,
        *,
        codec: Codec | None = None,
        confirm: Confirm | None = None,
        timeout: float | timedelta | None = None,
        **options: Unpack[PublishArguments],
    ) -> dict[str, str]:
        """
        Add a message to each of several queues: to all of them, or to none.

        If this raises a connection error, the message may have been stored in all queues or in
        none.

        Args:
            qnames: the names of the queues; a name that is repeated counts once.
            body: a value that the codec can encode; a str with TEXT. It may be empty.
            options: see below.
            codec: the codec of this call; None uses the client's.
            confirm: as for the constructor; None uses the client's.
            timeout: as for send_message.

        Returns:
            The message's id in each queue, by the queue's name.

        Raises:
            NotReplicated: it has run, and too few replicas have confirmed it in time.
            NotPossible: confirm has fsync, and the server can't say what is on disk.
            MissingParameter: a name is None or empty, or qnames is empty.
            InvalidFormat: a name has other characters, codec is not a codec, or deliver_at is not
                an aware datetime.
            InvalidCombination: both delay and deliver_at are set.
            InvalidValue: delay, deliver_at, expires, max_retries or timeout is out of range; the
                message would expire before it is visible in one of the queues; or another client
                stored a delay that is not a number.
            MessageNotString: the codec can't encode the body.
            BodyUnavailable: the store of a ``Stored`` codec does not answer.
            MessageTooLong: the body is larger than a queue's maxsize, or than the server's
                proto-max-bulk-len.
            QueueNotFound: one of the queues does not exist.
        """
        chosen, facts = self._codec_for(codec), self._facts_of_send(confirm, timeout)
        build = partial(sending.publish, self._namespace, qnames, body, options, **facts)
        return await send_with(chosen, options, lambda codec: build(codec=codec), self.run)

    @overload
    async def receive_message(
        self,
        qname: str,
        *,
        vt: float | timedelta | None = None,
        wait: float | timedelta | None = 0,
        codec: None = None,
    ) -> Message[B_co] | None: ...
    @overload
    async def receive_message(
        self,
        qname: str,
        *,
        vt: float | timedelta | None = None,
        wait: float | timedelta | None = 0,
        codec: Codec[E, D],
    ) -> Message[D] | None: ...
    async def receive_message(
        self,
        qname: str,
        *,
        vt: float | timedelta | None = None,
        wait: float | timedelta | None = 0,
        codec: Codec | None = None,
    ) -> Message | None:
        """
        Receive the message that has been visible the longest, and hide it from consumers.

        Delete the message when its work is done. Otherwise it is received again after its
        visibility timeout. A message that was received as often as the queue's dead-letter policy
        allows is moved to the dead-letter queue instead, and the next message is received.

        Waiting: the call returns as soon as any client sends a message, or a message becomes
        visible. All waiting calls of a client share one connection. Redis is not polled, except for
        a check every 15 to 30 seconds. If the server or the user's rights don't allow CLIENT
        TRACKING, and with memory://, it is polled at growing intervals, in the end at most four
        times a second.

        A cancellation during the call releases the message at once; its receive count stays raised.

        If the connection breaks during the call, the call is retried once. A message that the first
        attempt received may then stay hidden until its visibility timeout ends.

        Args:
            qname: the queue's name.
            vt: the visibility timeout of this message: seconds, 0 to 9,999,999, fractions to the
                millisecond; None uses the queue's vt.
            wait: seconds to wait for a message, 0 to 9,999,999; None waits forever.
            codec: the codec of this message; None uses the client's.

        Returns:
            The message, or None if no message became visible in time.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not a codec.
            InvalidValue: vt or wait is out of range; or vt is None, and the queue's vt is not a
                number.
            QueueNotFound: the queue does not exist, or it was deleted during the wait.
            ClientClosed: close() was called during the wait.
            ReplyLost: the replies to three receives of one message were lost.

        Source: npm rsmq 0.12.4, receiveMessage. Ids without a body (ghost ids) are removed, not
        delivered.
        """
        received = await self._receive(
            messages.receive_message(
                self._namespace, qname, vt=vt, codec=self._codec_for(codec), losses=self._losses
            ),
            wait,
        )
        return received or None

    @overload
    async def receive_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        vt: float | timedelta | None = None,
        wait: float | timedelta | None = 0,
        codec: None = None,
        extend_groups: bool = False,
    ) -> list[Message[B_co]]: ...
    @overload
    async def receive_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        vt: float | timedelta | None = None,
        wait: float | timedelta | None = 0,
        codec: Codec[E, D],
        extend_groups: bool = False,
    ) -> list[Message[D]]: ...
    async def receive_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        vt: float | timedelta | None = None,
        wait: float | timedelta | None = 0,
        codec: Codec | None = None,
        extend_groups: bool = False,
    ) -> list[Message]:
        """
        Receive visible messages from one queue or several, and hide them from consumers.

        Queues have priority in the order of qnames: messages of the second queue are received only
        if the first has no more. Dead letters, waiting, interruptions and broken connections are
        handled as by receive_message.

        Up to 1,000 queues are one atomic step. More are handled in steps of 1,000, each atomic:
        first all queues are checked, then messages are received. If a step fails, the messages of
        the earlier steps are released.

        Args:
            qnames: a queue's name, or several.
            max_messages: the maximum number of messages, 1 to 10,000. Their bodies have at most
                16 MiB in total; a single larger body is received alone.
            vt: the visibility timeout of these messages: seconds, 0 to 9,999,999, fractions to the
                millisecond; None uses each queue's vt.
            wait: seconds to wait for the first message, in any of the queues, 0 to 9,999,999; None
                waits forever.
            codec: the codec of these messages; None uses the client's.
            extend_groups: if True, each message with a group is followed by the next ones of its
                group, in their order, as far as max_messages allows; else there is one message of
                a group. While one of them is in flight, no other receive returns a later one.

        Returns:
            The messages, queue by queue, in each queue in the order in which they became visible;
            an empty list if none became visible in time.

        Raises:
            MissingParameter: a name is None or empty, or qnames is empty.
            InvalidFormat: a name has other characters, codec is not a codec, or extend_groups is
                not a bool.
            InvalidValue: a number is out of range; or vt is None, and a queue's vt is not a number.
            QueueNotFound: one of the queues does not exist, or was deleted during the wait; then no
                message is received.
            ClientClosed: close() was called during the wait.
            ReplyLost: the replies to three receives of one message were lost.
        """
        return await self._receive(
            batches.receive_messages(
                self._namespace,
                qnames,
                max_messages,
                vt=vt,
                codec=self._codec_for(codec),
                losses=self._losses,
                extend_groups=extend_groups,
            ),
            wait,
        )

    @overload
    def consume(
        self,
        qnames: str | Iterable[str],
        *,
        wait: float | timedelta | None = None,
        batch: int = 1,
        vt: float | timedelta | None = None,
        codec: None = None,
    ) -> AsyncConsumer[B_co]: ...
    @overload
    def consume(
        self,
        qnames: str | Iterable[str],
        *,
        wait: float | timedelta | None = None,
        batch: int = 1,
        vt: float | timedelta | None = None,
        codec: Codec[E, D],
    ) -> AsyncConsumer[D]: ...
    def consume(
        self,
        qnames: str | Iterable[str],
        *,
        wait: float | timedelta | None = None,
        batch: int = 1,
        vt: float | timedelta | None = None,
        codec: Codec | None = None,
    ) -> AsyncConsumer[Any]:
        """
        Return a context manager for a loop that receives messages.

            async with queues.consume("orders") as messages:
                async for message in messages:
                    async with queues.processing(message):
                        ...

        The loop does not delete messages: the caller deletes them, or uses ``processing``. A
        message that is neither deleted nor released is received again after its visibility timeout.

        With a batch of more than 1, each receive prefetches messages, and their visibility timeouts
        run from then on. A prefetched message whose timeout may have ended is not yielded: it is
        left to the consumer that receives it next. So choose a vt that is long enough for the whole
        batch.

        At the end of the block, also after ``break``, an exception or a cancellation, the messages
        that were received and not yielded are released. If that fails, they become visible when
        their timeout ends. The message that was yielded last is not released.

        Each receive is one call of receive_messages, with the same atomicity, retries, handling of
        dead letters and behaviour if it is interrupted.

        Args:
            qnames: a queue's name, or several, with priority in this order as for receive_messages.
            wait: seconds to wait for the next message, 0 to 9,999,999. The loop ends if none
                became visible in time; None waits forever.
            batch: the maximum number of messages of a receive, 1 to 10,000.
            vt: the visibility timeout of these messages, as for receive_messages.
            codec: the codec of these messages; None uses the client's.

        Returns:
            A context manager. Its value is an iterator of messages for this block.

        Raises:
            MissingParameter: a name is None or empty, or qnames is empty.
            InvalidFormat: a name has other characters, or codec is not a codec.
            InvalidValue: a number is out of range.

        The loop raises the errors of receive_messages; TypeError outside of the block.
        """
        receive = batches.receive_leased(
            self._namespace,
            qnames,
            batch,
            vt=vt,
            codec=self._codec_for(codec),
            losses=self._losses,
        )
        seconds = check_wait(wait)
        return AsyncConsumer(lambda: self._receive_leased(receive, seconds), self.release_messages)

    async def _receive_leased(self, receive: ReceiveInSteps, wait: float | None) -> LeasedMessages:
        return await self._receive(receive, wait)

    def processing(self, message: Message[D]) -> AsyncProcessing[D]:
        """
        Return a context manager that deletes a received message after its processing.

            async with queues.processing(message):
                ...

        If the block ends without an exception, also by ``return``, ``break`` or ``continue``, the
        message is deleted. If it raises, also because of a cancellation, the message is released
        and the exception is raised again. The message is then received again at once, so a queue
        whose messages may fail each time needs a dead-letter policy. If the release fails, the
        message becomes visible when its visibility timeout ends.

        The visibility timeout is not extended during the block. If the message was received again
        since, the block has lost its lease: nothing is deleted or released, and after success a
        warning is logged (logger ``rsmq.consuming``). No exception is raised, because the work is
        done; the other consumer may do it again. A message that is no longer in the queue, such as
        one that the block has moved, is not an error either.

        Args:
            message: a received message. It may come from another client of the same namespace.

        Returns:
            A context manager. Its value is the message.

        Raises:
            MissingParameter: message is None.
            InvalidFormat: message is not a received message.

        At its end the block raises the errors of delete_message. After such an error, and if it is
        interrupted at its end, the message may or may not be deleted.
        """
        delete = messages.delete_processed(self._namespace, message)
        return AsyncProcessing(
            message,
            lambda: delete_with_bodies(self.run, delete, [message]),
            self.release_messages,
        )

    @overload
    async def pop_message(
        self,
        qname: str,
        *,
        wait: float | timedelta | None = 0,
        codec: None = None,
    ) -> Message[B_co] | None: ...
    @overload
    async def pop_message(
        self,
        qname: str,
        *,
        wait: float | timedelta | None = 0,
        codec: Codec[E, D],
    ) -> Message[D] | None: ...
    async def pop_message(
        self, qname: str, *, wait: float | timedelta | None = 0, codec: Codec | None = None
    ) -> Message | None:
        """
        Receive the message that has been visible the longest, and delete it in the same step.

        With a ``Stored`` codec the call loads the body, and deletes its object as delete_message
        does.

        Delivery is at most once: if the reply is lost, the message is lost. A message that was
        received as often as the queue's dead-letter policy allows is moved instead, as by
        receive_message.

        Args:
            qname: the queue's name.
            wait: seconds to wait for a message, as for receive_message.
            codec: the codec of this message; None uses the client's.

        Returns:
            The message, or None if no message became visible in time.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not a codec.
            InvalidValue: wait is out of range.
            QueueNotFound: the queue does not exist, or it was deleted during the wait.
            ClientClosed: close() was called during the wait.

        Source: npm rsmq 0.12.4, popMessage. Ids without a body (ghost ids) are removed, not
        delivered.
        """
        received = await self._receive(
            messages.pop_message(
                self._namespace, qname, codec=self._codec_for(codec), losses=self._losses
            ),
            wait,
        )
        if received and has_blocking_codec(received):
            await take_bodies(received)
        return received or None

    @overload
    async def pop_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        wait: float | timedelta | None = 0,
        codec: None = None,
    ) -> list[Message[B_co]]: ...
    @overload
    async def pop_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        wait: float | timedelta | None = 0,
        codec: Codec[E, D],
    ) -> list[Message[D]]: ...
    async def pop_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        wait: float | timedelta | None = 0,
        codec: Codec | None = None,
    ) -> list[Message]:
        """
        Receive visible messages from one queue or several, and delete them in the same step.

        With a ``Stored`` codec the call loads the bodies, 16 side by side, and deletes their
        objects as delete_message does.

        Delivery is at most once: if the reply is lost, the messages are lost. More than 1,000
        queues are handled in steps, as by receive_messages. If a step fails, the messages of the
        earlier steps are returned.

        Args:
            qnames: a queue's name, or several, with priority in this order as for receive_messages.
            max_messages: the maximum number of messages, 1 to 10,000. Their bodies have at most
                16 MiB in total; a single larger body is received alone.
            wait: seconds to wait for the first message, as for receive_messages.
            codec: the codec of these messages; None uses the client's.

        Returns:
            The messages, queue by queue, in each queue in the order in which they became visible;
            an empty list if none became visible in time.

        Raises:
            MissingParameter: a name is None or empty, or qnames is empty.
            InvalidFormat: a name has other characters, or codec is not a codec.
            InvalidValue: a number is out of range.
            QueueNotFound: one of the queues does not exist, or was deleted during the wait; then no
                message is received.
            ClientClosed: close() was called during the wait.
        """
        received = await self._receive(
            batches.pop_messages(
                self._namespace,
                qnames,
                max_messages,
                codec=self._codec_for(codec),
                losses=self._losses,
            ),
            wait,
        )
        return await take_bodies(received)

    @overload
    async def delete_message(self, message: Message, /) -> bool: ...
    @overload
    async def delete_message(self, qname: str, /, id: str) -> bool: ...
    async def delete_message(self, message: Message | str, /, id: str | None = None) -> bool:
        """
        Delete a message whose work is done.

        For a message that was received with a ``Stored`` codec, its object is deleted after it, if
        no other message can have it. If that fails, it is logged and left to the sweep.

        Args:
            message: a received message, which is deleted only if it was not received again since.
                Or the name of the queue, with an id: then it is deleted even if it is in flight.
            id: 20 to 64 characters of ``A-Z a-z 0-9 : _ -``.

        Returns:
            True if this call deleted the message. False if it was not in the queue, or, for a
            received message, if it was received again since. A retry after an ambiguous failure
            also returns True if the message is not in the queue.

        Raises:
            MissingParameter: name or id is None or empty.
            InvalidFormat: name or id has other characters, or an argument has the wrong type.

        Source: npm rsmq 0.12.4, deleteMessage; as there, a missing queue is not an error.
        """
        operation = messages.delete_message(self._namespace, message, id)
        if has_blocking_codec(message):
            return await delete_with_bodies(self.run, operation, [message])
        return await self.run(operation)

    @overload
    async def change_message_visibility(
        self, message: Message, vt: float | timedelta, /
    ) -> bool: ...
    @overload
    async def change_message_visibility(
        self, message: Message, /, *, vt: float | timedelta
    ) -> bool: ...
    @overload
    async def change_message_visibility(
        self, qname: str, /, id: str, vt: float | timedelta
    ) -> bool: ...
    async def change_message_visibility(
        self, message: Message | str, /, id: Any = None, vt: float | timedelta | None = None
    ) -> bool:
        """
        Hide a message for a time from now, to extend its lease, or show it with 0.

        Args:
            message: a received message, which is changed only if it was not received again since.
                Or the name of the queue, followed by an id: then it is changed even if it is in
                flight.
            id: after a name, 20 to 64 characters of ``A-Z a-z 0-9 : _ -``. After a message there is
                no id, and the second positional argument is vt.
            vt: seconds from now, 0 to 9,999,999, fractions to the millisecond.

        Returns:
            True if the message was changed. False if it was not in the queue, or, for a received
            message, if it was received again since.

        Raises:
            MissingParameter: name or id is None or empty.
            InvalidFormat: name or id has other characters, or an argument has the wrong type.
            InvalidValue: vt is out of range.
            QueueNotFound: the queue does not exist.

        Source: npm rsmq 0.12.4, changeMessageVisibility.
        """
        return await self.run(messages.change_message_visibility(self._namespace, message, id, vt))

    @overload
    async def delete_messages(self, messages: Iterable[Message], /) -> list[str]: ...
    @overload
    async def delete_messages(self, qname: str, /, ids: Iterable[str]) -> list[str]: ...
    async def delete_messages(
        self, messages: Iterable[Message] | str, /, ids: Iterable[str] | None = None
    ) -> list[str]:
        """
        Delete messages whose work is done. A missing queue is not an error.

        Objects of a ``Stored`` codec are deleted as by delete_message.

        Args:
            messages: received messages, also of several queues, at most 10,000. Each is deleted
                only if it was not received again since. Or the name of the queue, with ids: then
                messages are deleted even if they are in flight.
            ids: each as for delete_message.

        Returns:
            The ids that this call deleted, queue by queue in the order of the argument. Messages
            that were not in the queue or were received again are left out. A retry after an
            ambiguous failure also returns those that are not in the queue.

        Raises:
            MissingParameter: a name or id is None or empty.
            InvalidFormat: a name or id has other characters, or an argument has the wrong type.
            InvalidValue: there are more than 10,000 messages.
        """
        operation = batches.delete_messages(self._namespace, messages, ids)
        return await delete_with_bodies(self.run, operation, messages)

    @overload
    async def change_messages_visibility(
        self, messages: Iterable[Message], vt: float | timedelta, /
    ) -> list[str]: ...
    @overload
    async def change_messages_visibility(
        self, messages: Iterable[Message], /, *, vt: float | timedelta
    ) -> list[str]: ...
    @overload
    async def change_messages_visibility(
        self, qname: str, /, ids: Iterable[str], vt: float | timedelta
    ) -> list[str]: ...
    async def change_messages_visibility(
        self,
        messages: Iterable[Message] | str,
        /,
        ids: Any = None,
        vt: float | timedelta | None = None,
    ) -> list[str]:
        """
        Hide messages for a time from now, or show them.

        Args:
            messages: received messages, also of several queues, at most 10,000. Each is changed
                only if it was not received again since. Or the name of the queue, followed by ids:
                then messages are changed even if they are in flight.
            ids: after a name, each as for delete_message. After messages there are no ids, and the
                second positional argument is vt.
            vt: seconds from now, 0 to 9,999,999, fractions to the millisecond.

        Returns:
            The ids that were changed, queue by queue in the order of the argument.

        Raises:
            MissingParameter: a name or id is None or empty.
            InvalidFormat: a name or id has other characters, or an argument has the wrong type.
            InvalidValue: vt is out of range, or there are more than 10,000 messages.
            QueueNotFound: one of the queues does not exist; then nothing is changed.
        """
        return await self.run(
            batches.change_messages_visibility(self._namespace, messages, ids, vt)
        )

    @overload
    async def release_messages(self, messages: Iterable[Message], /) -> list[str]: ...
    @overload
    async def release_messages(self, qname: str, /, ids: Iterable[str]) -> list[str]: ...
    async def release_messages(
        self, messages: Iterable[Message] | str, /, ids: Iterable[str] | None = None
    ) -> list[str]:
        """
        Release messages: make them visible at once, at the position of their sent time.

        Their receive counts are kept. A release by ids without receipts is not retried after an
        ambiguous failure: another consumer may have received the messages in the meantime.

        Args:
            messages: received messages, also of several queues, at most 10,000. Each is released
                only if it was not received again since. Or the name of the queue, with ids: then
                messages are released even if another consumer received them, and delayed ones too.
            ids: each as for delete_message.

        Returns:
            The ids that were released, queue by queue in the order of the argument.

        Raises:
            MissingParameter: a name or id is None or empty.
            InvalidFormat: a name or id has other characters, or an argument has the wrong type.
            InvalidValue: there are more than 10,000 messages.
            QueueNotFound: one of the queues does not exist; then nothing is changed.
        """
        return await self.run(batches.release_messages(self._namespace, messages, ids))

    async def release_all_messages(self, qname: str) -> int:
        """
        Release every message in flight, whichever consumer received it. For operators.

        Messages that wait for their next attempt after a failure are released too. Messages that
        were never received keep their delay. Runs in steps of 1,000 messages, each atomic, so the
        queue may have any length.

        Args:
            qname: the queue's name.

        Returns:
            The number of messages released.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            InvalidValue: another client stored a vt that is not a number.
            QueueNotFound: the queue does not exist.
        """
        return await self.run_steps(recovery.release_all_messages(self._namespace, qname))

    @overload
    async def recover_messages(
        self,
        qname: str,
        max_messages: int,
        *,
        idle: float | timedelta,
        vt: float | timedelta | None = None,
        codec: None = None,
    ) -> list[Message[B_co]]: ...
    @overload
    async def recover_messages(
        self,
        qname: str,
        max_messages: int,
        *,
        idle: float | timedelta,
        vt: float | timedelta | None = None,
        codec: Codec[E, D],
    ) -> list[Message[D]]: ...
    async def recover_messages(
        self,
        qname: str,
        max_messages: int,
        *,
        idle: float | timedelta,
        vt: float | timedelta | None = None,
        codec: Codec | None = None,
    ) -> list[Message]:
        """
        Receive messages again that were received ``idle`` seconds ago or earlier and not deleted.

        Each receive count rises by one, so the earlier receipt can no longer delete or extend the
        message. As for receive_message, messages beyond the limit of the queue's dead-letter policy
        are moved instead.

        The time of the last receive is estimated as the time at which the message becomes visible
        minus the queue's vt. That is exact if the message was last received or extended for the
        queue's vt. After a longer vt the message looks more recently received, after a shorter one
        less recently, by the difference.

        Runs in steps of 1,000 messages, each atomic. If the call fails or is interrupted, it
        releases all messages that it has received. A message that was received or extended between
        two steps is not recovered.

        Args:
            qname: the queue's name.
            max_messages: the maximum number of messages, 1 to 10,000. Their bodies have at most
                16 MiB in total; a single larger body is received alone.
            idle: seconds since the last receive, 0 to 9,999,999; 0 also recovers messages that a
                consumer has just received.
            vt: the visibility timeout from now on, as for receive_message.
            codec: the codec of these messages; None uses the client's.

        Returns:
            The messages, those that were received the longest time ago first; an empty list if
            there are none.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not a codec.
            InvalidValue: a number is out of range; or the queue's vt is not a number.
            QueueNotFound: the queue does not exist.
            ReplyLost: the replies to three receives of one message were lost.
        """
        recovered = await self.run_steps(
            recovery.recover_messages(
                self._namespace,
                qname,
                max_messages,
                idle=idle,
                vt=vt,
                codec=self._codec_for(codec),
                losses=self._losses,
            )
        )
        await load_bodies(recovered)
        return recovered

    @overload
    async def get_message(
        self,
        qname: str,
        id: str,
        *,
        codec: None = None,
    ) -> StoredMessage[B_co] | None: ...
    @overload
    async def get_message(
        self,
        qname: str,
        id: str,
        *,
        codec: Codec[E, D],
    ) -> StoredMessage[D] | None: ...
    async def get_message(
        self, qname: str, id: str, *, codec: Codec | None = None
    ) -> StoredMessage | None:
        """
        Return a message without receiving it. Nothing is changed.

        Args:
            qname: the queue's name.
            id: 20 to 64 characters of ``A-Z a-z 0-9 : _ -``.
            codec: the codec of this message; None uses the client's.

        Returns:
            The message as it is stored, or None if it is not in the queue or has no body.

        Raises:
            MissingParameter: name or id is None or empty.
            InvalidFormat: name or id has other characters, or codec is not a codec.
            QueueNotFound: the queue does not exist.
        """
        found = await self.run(
            messages.get_message(self._namespace, qname, id, codec=self._codec_for(codec))
        )
        await load_bodies(found)
        return found

    @overload
    async def peek_messages(
        self,
        qname: str,
        start: int = 0,
        count: int = 10,
        *,
        state: State | None = None,
        codec: None = None,
    ) -> list[StoredMessage[B_co]]: ...
    @overload
    async def peek_messages(
        self,
        qname: str,
        start: int = 0,
        count: int = 10,
        *,
        state: State | None = None,
        codec: Codec[E, D],
    ) -> list[StoredMessage[D]]: ...
    async def peek_messages(
        self,
        qname: str,
        start: int = 0,
        count: int = 10,
        *,
        state: State | None = None,
        codec: Codec | None = None,
    ) -> list[StoredMessage]:
        """
        Return messages by their position in the queue, without receiving them. Nothing is changed.

        The order is that in which messages become visible. Runs in steps of 1,000 messages or 1
        MiB, each atomic, so the queue may have any length; the result is not a snapshot of one
        moment.

        Args:
            qname: the queue's name.
            start: the position of the first message, from 0. A negative one counts from the end; -1
                is the last message.
            count: the maximum number of messages, 1 to 10,000.
            state: only messages that are "visible", "in_flight", "retrying", "delayed" or
                "held_back", and
                positions among those; None includes all.
            codec: the codec of these messages; None uses the client's.

        Returns:
            The messages as they are stored; an empty list if there are none. Ids without a body are
            left out.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, state is not a state, or codec is not a
                codec.
            InvalidValue: start or count is out of range or not whole; or start is negative, state
                is None or "visible", and another client stored a vt or delay that is not a number.
            QueueNotFound: the queue does not exist.
        """
        found = await self.run_steps(
            inspection.peek_messages(
                self._namespace, qname, start, count, state=state, codec=self._codec_for(codec)
            )
        )
        await load_bodies(found)
        return found

    async def count_messages(self, qname: str) -> MessageCounts:
        """
        Count the messages of a queue by state, and find the oldest.

        Runs in steps of 1,000 messages, each atomic, so the queue may have any length; the result
        is not a snapshot of one moment. get_queue_attributes returns most counts without reading
        all messages.

        Args:
            qname: the queue's name.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: the queue does not exist.
        """
        return await self.run_steps(inspection.count_messages(self._namespace, qname))

    async def history(
        self,
        qname: str | None = None,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        step: int = 60,
    ) -> History:
        """
        Read what was sent and received in each step of a time, and how many messages there were.

        There is a history while a recorder runs: ``rsmq web`` has one, and ``rsmq.history`` has one
        for other programs. It counts the messages of all clients, since it reads the queue's totals
        once a minute. Minutes are kept for 26 hours, and hours for 90 days, or less if all
        histories of the namespace need more than 64 MiB. A minute that no process has recorded has
        no value; the next record covers it too, and becomes one of ``gaps``. One round trip.

        Args:
            qname: the queue's name; None reads the sums of all queues.
            start: a time with its zone, rounded down to a step; None is an hour before the end, and
                at least one step.
            end: a time with its zone, rounded up to a step; None is now.
            step: seconds: whole minutes that divide an hour, or whole hours that divide a day. From
                3,600 on, the records of hours are read.

        Returns:
            The columns, with at most 10,000 steps.

        Raises:
            MissingParameter: the name is empty.
            InvalidFormat: the name has other characters, or a time is not a datetime with a zone.
            InvalidValue: the step is invalid, the range is empty, or it has too many steps.
            QueueNotFound: the queue does not exist.
        """
        from rsmq.history.operations import read_history  # noqa: PLC0415 - few programs use it

        return await self.run(read_history(self._namespace, qname, start, end, step))

    async def task_figures(
        self, qnames: Iterable[str] | None = None, *, span: str = "1h"
    ) -> list[TaskFigures]:
        """
        Read how the calls of each task went: numbers, failures, waits and durations.

        Workers of this library count their calls, and write the counts once a minute and when they
        end. A listener without tasks has one entry with an empty name, and one with a router has
        one for each type. Percentiles are at most 2 % wrong. The figures of a queue are deleted
        with it, and those of a task 90 days after its last call. It reads in steps of many queues,
        each atomic; the result is not a snapshot of one moment.

        Args:
            qnames: the names of queues; None reads all listed ones.
            span: how far back: ``1h`` in steps of a minute, ``24h`` of an hour, ``7d`` of six
                hours, or ``90d`` of a day. The last step is not over.

        Returns:
            The tasks by queue and name; of queues that do not exist there are none.

        Raises:
            InvalidFormat: it is another span.
        """
        from rsmq.history.call_operations import read_task_figures  # noqa: PLC0415 - few programs use it

        return await self.run_steps(read_task_figures(self._namespace, qnames, span))

    async def mark(self, text: str, *, by: str | None = None) -> str:
        """
        Mark this moment, as of a deploy: charts of the dashboard show it.

        A mark is an entry of the audit stream, which has the last 10,000. One command.

        Args:
            text: what happens, such as a version; 1 to 128 characters.
            by: who or what marks it, 1 to 128 characters; None is not known.

        Returns:
            The id of the entry.

        Raises:
            InvalidFormat: text or by is not such a text.
        """
        return await self.run(marks.add_mark(self._namespace, text, by))

    async def set_dead_letter_policy(
        self, qname: str, dead_letter_queue: str | None, max_receives: int | None = None
    ) -> QueueAttributes:
        """
        Set or remove the policy that moves messages received too often to a dead-letter queue.

        A receive, pop or recover of this library moves such a message to the dead-letter queue
        instead of delivering it, in the same step. The message keeps its id, body, receive count
        and first-received time, and is visible in the dead-letter queue at once. A call moves at
        most 1,000 messages. If it finds 1,000 before the first that it may deliver, it receives
        nothing.

        Clients that don't know policies deliver such a message. For queues that only such clients
        consume, see sweep_dead_letters. If the dead-letter queue does not exist or can't be
        written, the message is delivered. A dead letter keeps its receive count, so a policy of the
        dead-letter queue itself needs a higher limit. The policy is stored in two fields among the
        queue's attributes, which other clients ignore.

        Args:
            qname: the queue's name.
            dead_letter_queue: the name of another queue, which must exist; None removes the
                policy.
            max_receives: how often a message may be received, 1 to 1,000,000. A receive counts even
                if its reply is lost, so with 1 a message may be moved that no consumer has seen.
                From 3 on that is unlikely.

        Returns:
            All attributes after the change.

        Raises:
            MissingParameter: a name is empty, or qname is None.
            InvalidFormat: a name has other characters; both names are the same; the policy of the
                dead-letter queue names this queue; or there is a limit without a dead-letter queue.
            InvalidValue: max_receives is out of range or not whole; or another client stored a vt
                or delay that is not a number.
            QueueNotFound: one of the two queues does not exist.
        """
        return await self.run(
            dead_letters.set_dead_letter_policy(
                self._namespace, qname, dead_letter_queue, max_receives
            )
        )

    async def sweep_dead_letters(self, qname: str, max_messages: int = 1000) -> list[str]:
        """
        Move visible messages that were received as often as the queue's policy allows.

        For queues whose consumers don't know policies: call it from time to time. A message in
        flight is not moved before its visibility timeout ends. Runs in steps of 1,000 messages,
        each atomic.

        Args:
            qname: the queue's name.
            max_messages: the maximum number of messages, 1 to 10,000.

        Returns:
            The ids of the messages that were moved to the dead-letter queue. An empty list if the
            queue has no policy, or if the dead-letter queue does not exist or can't be written.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            InvalidValue: max_messages is out of range or not whole.
            QueueNotFound: the queue does not exist.
        """
        return await self.run_steps(
            dead_letters.sweep_dead_letters(self._namespace, qname, max_messages)
        )

    async def sweep_groups(self, qname: str) -> int:
        """
        Admit messages of groups whose last admitted message is gone.

        For queues whose consumers are Node or PHP programs: their deletes admit no message of a
        group, so call it from time to time, and at least every half day. Deletes by this library
        admit at once. Runs in steps of 250 messages that are held back, each atomic.

        Args:
            qname: the queue's name.

        Returns:
            The number of messages that were admitted.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: the queue does not exist.
        """
        return await self.run_steps(sweeping.sweep_groups(self._namespace, qname))

    async def sweep_expired(self, qname: str, max_messages: int = 1000) -> list[str]:
        """
        Remove visible messages that are expired, or move them to the dead-letter queue.

        For queues whose consumers are Node or PHP programs, which deliver expired messages: call it
        from time to time. A message in flight is not removed before its visibility timeout ends.
        Runs in steps of 1,000 messages, each atomic.

        Args:
            qname: the queue's name.
            max_messages: the maximum number of messages, 1 to 10,000.

        Returns:
            The ids of the messages that were removed or moved. An empty list if messages of the
            queue don't expire, or if the dead-letter queue that they go to can't be written.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            InvalidValue: max_messages is out of range or not whole.
            QueueNotFound: the queue does not exist.
        """
        return await self.run_steps(
            dead_letters.sweep_expired(self._namespace, qname, max_messages)
        )

    async def redrive_messages(
        self,
        dead_letter_queue: str | Iterable[Message | StoredMessage],
        destination: str | None = None,
        ids: Iterable[str] | None = None,
        *,
        max_messages: int | None = None,
        confirm: Confirm | None = None,
    ) -> list[tuple[str, str]]:
        """
        Send dead letters again as new messages, when the cause of their failure is repaired.

        Each message gets a new id and no counters, is visible at once, and keeps its order among
        the others of its destination. Without messages or ids, only messages that are visible in
        the dead-letter queue when the call begins are redriven. Runs in steps of 1,000 messages or
        1 MiB, each atomic; no step is retried after an ambiguous failure. The destination's maxsize
        is not enforced.

        Args:
            dead_letter_queue: the name of the dead-letter queue. Or dead letters, at most 10,000:
                each received one is redriven only if it was not received again since, each one of
                peek_messages or get_message even if it is in flight.
            destination: the name of the queue that receives the messages. None sends each message
                to the queue that it came from, as its reason says (``StoredMessage.reason``); one
                without a reason to the queue whose dead-letter policy names this dead-letter queue.
            ids: with a queue's name: ids of dead letters, each as for delete_message. They are
                redriven even if they are in flight.
            max_messages: the maximum number of messages, from 1; None means all. Only without
                messages and ids.
            confirm: as for the constructor; None uses the client's.

        Returns:
            For each message that was redriven its old and its new id, in order, by destination; an
            empty list if there are none.

        Raises:
            NotReplicated: too few replicas have confirmed a step in time. ``result`` has the
                messages up to this step; the others are left in the dead-letter queue.
            NotPossible: confirm has fsync, and the server can't say what is on disk.
            MissingParameter: a name or id is empty, or dead_letter_queue is None; or destination is
                None, a message has no reason that names its queue, and no queue or more than one
                has such a policy.
            InvalidFormat: a name or id has other characters, both names are the same, or an
                argument has the wrong type.
            InvalidValue: max_messages is out of range or not whole, or there are more than 10,000
                messages.
            QueueNotFound: one of the queues does not exist.
        """
        return await self.run_steps(
            dead_letters.redrive_messages(
                self._namespace,
                dead_letter_queue,
                destination,
                ids,
                max_messages=max_messages,
                confirmation=self._confirm_for(confirm),
            )
        )

    @overload
    async def move_messages(
        self,
        messages: Iterable[Message],
        /,
        destination: str,
        *,
        confirm: Confirm | None = None,
    ) -> list[str]: ...
    @overload
    async def move_messages(
        self,
        source: str,
        /,
        destination: str,
        ids: Iterable[str],
        *,
        confirm: Confirm | None = None,
    ) -> list[str]: ...
    async def move_messages(
        self,
        messages: Iterable[Message] | str,
        /,
        destination: str,
        ids: Iterable[str] | None = None,
        *,
        confirm: Confirm | None = None,
    ) -> list[str]:
        """
        Move messages to another queue, with their ids and counters.

        Messages that were received become visible there at once. Messages that were never received
        keep their position and their delay. The destination's total of sent messages rises; its
        maxsize is not enforced. Not retried after an ambiguous failure.

        Args:
            messages: received messages, also of several queues, at most 10,000. Each is moved only
                if it was not received again since. Or the name of the queue, with ids: then
                messages are moved even if they are in flight.
            destination: the name of the queue that receives the messages.
            ids: each as for delete_message.
            confirm: as for the constructor; None uses the client's.

        Returns:
            The ids that were moved, queue by queue in the order of the argument.

        Raises:
            NotReplicated: it has run, and too few replicas have confirmed it in time.
            NotPossible: confirm has fsync, and the server can't say what is on disk.
            MissingParameter: a name or id is None or empty.
            InvalidFormat: a name or id has other characters, an argument has the wrong type, or
                source and destination are the same.
            InvalidValue: there are more than 10,000 messages.
            QueueNotFound: one of the queues does not exist; then nothing is moved.
        """
        return await self.run(
            dead_letters.move_messages(
                self._namespace,
                messages,
                destination,
                ids,
                self._confirm_for(confirm),
            )
        )

    async def close(self) -> None:
        """
        Close the connections of this client. A client that was passed in stays open.

        Waiting calls in other event loops end with ClientClosed.
        """
        self._closed = True
        await self._watchers.close()
        if self._lender is None:
            await self._caller.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ns={self._namespace.name!r}, codec={self._codec!r})"
