"""
The synchronous client, ``RSMQ``.

Generated from ``aio.py`` by ``scripts/generate-sync``: change it there.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from redis.exceptions import RedisError

from rsmq.codecs import TEXT, Codec, check_codec
from rsmq.errors import ClientClosed, RSMQError
from rsmq.operations import batches, dead_letters, inspection, messages, queues, recovery, sending
from rsmq.operations.batches import ReceiveInSteps
from rsmq.operations.operation import Operation
from rsmq.transport.retry import DEFAULT_RETRY_DEADLINE_SECONDS, check_deadline
from rsmq.transport.sync import Caller, caller_from_client, caller_from_url
from rsmq.transport.url import MEMORY_SCHEME, check_url
from rsmq.waiting.sync import Watcher, Watchers
from rsmq.wire.keys import DEFAULT_NS, Namespace
from rsmq.wire.limits import (
    DEFAULT_DEDUP_WINDOW,
    DEFAULT_DELAY,
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    check_wait,
)

if TYPE_CHECKING:
    from types import TracebackType

    import redis
    from redis.cluster import RedisCluster

    from rsmq.model import Message, MessageCounts, QueueAttributes, State, StoredMessage
    from rsmq.operations.operation import Steps

T = TypeVar("T")


class RSMQ:
    """
    A client of RSMQ queues on a Redis server.

    Each call is one round trip and one atomic script: all of it happens, or nothing. A method
    that needs more says so. All times are the server's.

    Retries: a call that never reached the server (connection refused, server loading or
    read-only) is tried again for ``retry_deadline`` seconds from its first failure. With a
    handed-in client, redis-py's own retries of connecting come before. If the connection breaks or
    times out during a call, the call may have run. Then:

    - Tried again: reading, creating queues and setting their attributes, deleting messages,
      changing their visibility, sweeping, and a send with a dedup_id.
    - Tried again once: a receive.
    - Never tried again: any other send, a pop, a move, a redrive, a purge, a release by bare ids,
      and deleting a queue. These raise redis-py's ConnectionError or TimeoutError.

    With a RedisCluster client, redis-py repeats commands by its own rules. It repeats sends too,
    which may store a message twice.

    Threads: many threads may use a client at the same time. A client may also be used after a
    fork, in the parent and in the child.

    Signals: Ctrl-C (and a handler of SIGTERM or SIGALRM that raises) takes effect when the running
    call has ended. More signals within the next second wait for that too. A signal that comes
    later takes effect at once; a message that was being received may then stay hidden until its
    visibility timeout. The same can happen, rarely, if two signals come within microseconds of
    each other just as a receive ends.

    Each method may raise redis-py's own errors (ConnectionError, TimeoutError,
    AuthenticationError, ResponseError ...), and ClientClosed after close(), besides the errors
    that it names.
    """

    def __init__(
        self,
        client: redis.Redis | RedisCluster,
        *,
        ns: str = DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float = DEFAULT_RETRY_DEADLINE_SECONDS,
    ) -> None:
        """
        Use an existing client, whatever its decode_responses and protocol version.

        Args:
            client: a ``Redis`` or ``RedisCluster`` of redis; close() leaves it open.
            ns: the namespace, first part of every key. On Redis Cluster it must hold a hash tag,
                as in ``"{rsmq}"``.
            codec: how bodies become bytes: TEXT, BYTES, JSON, MSGPACK or an object with
                ``encode`` and ``decode``.
            realtime: True publishes Node's notification with every send.
            strict_names: False also reaches queues whose names Node would refuse.
            retry_deadline: seconds; see the class. 0 tries nothing again.

        Raises:
            MissingParameter: the namespace is empty.
            InvalidFormat: client, ns or codec is not of the kind it must be.
            InvalidValue: retry_deadline is not a number of seconds.
        """
        self._settle(ns, codec, realtime=realtime, strict_names=strict_names)
        deadline = check_deadline(retry_deadline)
        self._use(caller_from_client(client, self._namespace, deadline))

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        ns: str = DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float = DEFAULT_RETRY_DEADLINE_SECONDS,
        **options: Any,
    ) -> Self:
        """
        Open connections of our own, which close() closes; one for each thread that calls.

        Args:
            url: ``redis://``, ``rediss://`` (TLS), ``unix://``, or ``memory://NAME``: a Redis
                inside this process for development and tests (extra ``embedded``).
            ns: as for the constructor.
            codec: as for the constructor.
            realtime: as for the constructor.
            strict_names: as for the constructor.
            retry_deadline: as for the constructor.
            options: redis-py's, such as ``username``, ``password``, ``ssl_ca_certs`` or
                ``socket_timeout`` (seconds without any progress, default 5; a large batch on a
                slow link may take longer). With ``max_connections`` the threads share a pool of
                that size.

        Raises:
            MissingParameter: the namespace is empty.
            InvalidFormat: url, options, ns or codec is not of the kind it must be.
            InvalidValue: retry_deadline is not a number of seconds.
            MissingExtra: ``memory://`` without the extra ``embedded``.
        """
        self = cls.__new__(cls)
        self._settle(ns, codec, realtime=realtime, strict_names=strict_names)
        deadline = check_deadline(retry_deadline)
        if check_url(url).startswith(MEMORY_SCHEME):
            from rsmq.transport import memory  # noqa: PLC0415 - needs an extra

            self._use(caller_from_client(memory.client(url), self._namespace, deadline))
        else:
            self._use(caller_from_url(url, deadline, options))
        return self

    def _use(self, caller: Caller) -> None:
        self._caller = caller
        self._watchers = Watchers(caller, self._namespace)

    def _settle(self, ns: str, codec: Codec, *, realtime: bool, strict_names: bool) -> None:
        self._namespace = Namespace(ns, strict_names)
        self._codec = check_codec(codec)
        self._realtime = realtime
        self._closed = False

    def _codec_for(self, codec: Codec | None) -> Codec:
        return self._codec if codec is None else check_codec(codec)

    def run(self, operation: Operation[T]) -> T:
        """Run an operation of ``rsmq.operations``; all methods come through here."""
        if self._closed:
            raise ClientClosed
        return self._caller.run(operation)

    def run_steps(self, steps: Steps[T]) -> T:
        """Run a call of several steps of ``rsmq.operations``."""
        result: Any = None
        operation = next(steps)
        while True:
            try:
                result = self.run(operation)
                operation, result = steps.send(result), None
            except StopIteration as end:
                result_of_all: T = end.value
                return result_of_all
            except BaseException as error:  # noqa: BLE001 - the steps raise it, or undo first
                if result and operation.undo:  # they have not been told of this one
                    self._undo(operation, result)
                try:
                    operation, result = steps.throw(error), None
                except StopIteration as end:
                    result_in_spite_of_it: T = end.value
                    return result_in_spite_of_it

    def _receive(self, receive: Operation[T] | ReceiveInSteps, wait: float | None) -> T:
        seconds = check_wait(wait)
        found: T
        if isinstance(receive, ReceiveInSteps):
            steps: Any = receive.steps()
            found = self.run_steps(steps)
        else:
            found = self.run(receive)
        if found or seconds == 0:
            return found
        return self.watcher.wait(
            lambda: self._receive(receive, 0),
            lambda received: self._undo(receive, received),
            found,
            receive.keys[1::2],
            seconds,
        )

    def _undo(self, operation: Operation[T] | ReceiveInSteps, received: Any) -> None:
        undo = operation.undo and operation.undo(received)
        if undo:
            with suppress(RedisError, RSMQError):
                self.run(undo)

    @property
    def namespace(self) -> Namespace:
        """The namespace, for builders of ``rsmq.operations``."""
        return self._namespace

    @property
    def codec(self) -> Codec:
        """How bodies become bytes where a call says nothing else."""
        return self._codec

    @property
    def watcher(self) -> Watcher:
        """What tells of messages; for the floors above."""
        return self._watchers.current()

    def create_queue(
        self,
        qname: str,
        *,
        vt: float = DEFAULT_VT,
        delay: float = DEFAULT_DELAY,
        maxsize: int = DEFAULT_MAXSIZE,
        exist_ok: bool = False,
    ) -> bool:
        """
        Create a queue, or complete one that lacks some of its attributes.

        Args:
            qname: 1 to 160 characters of ``A-Z a-z 0-9 _ -``; not ``QUEUES``.
            vt: how long a received message is hidden, whole seconds, 0 to 9,999,999.
            delay: how long a new message is hidden, whole seconds, 0 to 9,999,999.
            maxsize: the largest body, 1024 to 65,536 UTF-16 code units of text (or bytes of
                bytes), or -1 for unlimited.
            exist_ok: True is content with an existing queue, whatever its attributes.

        Returns:
            True if it was created or completed; False if it existed and exist_ok is True.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            InvalidValue: vt, delay or maxsize is out of range or not whole.
            QueueExists: it exists, with whatever attributes. If it was not listed, it is now.

        Source: npm rsmq 0.12.4, createQueue.
        """
        return self.run(
            queues.create_queue(
                self._namespace, qname, vt=vt, delay=delay, maxsize=maxsize, exist_ok=exist_ok
            )
        )

    def delete_queue(self, qname: str) -> None:
        """
        Delete a queue with all its messages, received ones too. Constant time.

        Not tried again after an ambiguous failure: a second run could take a queue that someone
        has made anew meanwhile.

        Args:
            qname: the queue's name.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: there is none.

        Source: npm rsmq 0.12.4, deleteQueue.
        """
        return self.run(queues.delete_queue(self._namespace, qname))

    def list_queues(self) -> list[str]:
        """
        The names of all queues of this namespace.

        Returns:
            Names, sorted; an empty list without queues. Some clients make queues without listing
            them: those are missing here, and work all the same.

        Source: npm rsmq 0.12.4, listQueues.
        """
        return self.run(queues.list_queues(self._namespace))

    def get_queue_attributes(self, qname: str) -> QueueAttributes:
        """
        The attributes and counts of a queue, read at one moment, in constant time or nearly.

        Args:
            qname: the queue's name.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: there is none, or it lacks vt, delay or maxsize.
            InvalidValue: another client stored a vt or delay that is not a number.

        Source: npm rsmq 0.12.4, getQueueAttributes. hidden_messages is exact to the millisecond,
        where Node counts what became visible within the current second as hidden.
        """
        return self.run(queues.get_queue_attributes(self._namespace, qname))

    def set_queue_attributes(
        self,
        qname: str,
        *,
        vt: float | None = None,
        delay: float | None = None,
        maxsize: int | None = None,
    ) -> QueueAttributes:
        """
        Change attributes of a queue. Messages that are hidden already stay so as they are.

        Args:
            qname: the queue's name.
            vt: whole seconds, 0 to 9,999,999; None leaves it as it is.
            delay: whole seconds, 0 to 9,999,999; None leaves it as it is.
            maxsize: 1024 to 65,536, or -1 for unlimited; None leaves it as it is.

        Returns:
            All attributes, as after the change.

        Raises:
            NoAttributeSupplied: none of the three was given.
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            InvalidValue: a value is out of range or not whole; or another client stored a vt or
                delay that is not a number, and it is not among those given.
            QueueNotFound: there is none.

        Source: npm rsmq 0.12.4, setQueueAttributes.
        """
        return self.run(
            queues.set_queue_attributes(self._namespace, qname, vt=vt, delay=delay, maxsize=maxsize)
        )

    def pause_queue(self, qname: str) -> bool:
        """
        Let workers (``rsmq.worker``) leave a queue alone, all of them, until resume_queue.

        They finish what they have begun; within a second or two they receive nothing more.
        Producers still send; receive_message and consumers of other clients still receive.

        Args:
            qname: the queue's name.

        Returns:
            True if it was not paused before.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: there is none.
        """
        return self.run(queues.pause_queue(self._namespace, qname, pause=True))

    def resume_queue(self, qname: str) -> bool:
        """
        Let workers go on with a queue that is paused.

        Args:
            qname: the queue's name.

        Returns:
            True if it was paused before.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: there is none.
        """
        return self.run(queues.pause_queue(self._namespace, qname, pause=False))

    def purge_queue(self, qname: str) -> int:
        """
        Remove all messages of a queue, received ones too. Constant time.

        The queue, its attributes and its totals stay. Not tried again after an ambiguous
        failure: a second run would also remove what was sent meanwhile.

        Args:
            qname: the queue's name.

        Returns:
            The number of messages removed.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: there is none.
        """
        return self.run(queues.purge_queue(self._namespace, qname))

    def send_message(
        self,
        qname: str,
        body: Any,
        *,
        delay: float | None = None,
        front: bool = False,
        dedup_id: str | None = None,
        dedup_window: float = DEFAULT_DEDUP_WINDOW,
        codec: Codec | None = None,
    ) -> str:
        """
        Add a message to a queue.

        If this raises a connection error, the message may have been stored or not; it is never
        stored twice. With a dedup_id the call is tried again by itself, and may be repeated.

        Args:
            qname: the queue's name.
            body: what the codec takes; a str with TEXT. Empty is allowed.
            delay: seconds until it is visible, 0 to 9,999,999, fractions to the millisecond;
                None is the queue's delay.
            front: True puts it before all that wait now, visible at once whatever the queue's
                delay; a delay can't be given with it.
            dedup_id: a name of 1 to 128 characters. A second send to this queue under the same
                name, within the window, adds nothing and returns the first one's id; also when
                that message has been deleted meanwhile, but not when the queue has been purged,
                or deleted and made again.
            dedup_window: seconds for which the name counts, 1 to 9,999,999; longer than
                retry_deadline, so that the last repetition falls within it.
            codec: for this call; None is the client's.

        Returns:
            The message's id.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters; codec or dedup_id is not one; or there
                is a delay for the front.
            InvalidValue: delay or dedup_window is out of range; or delay is None, and the queue's
                is not a number.
            MessageNotString: the codec can't encode the body.
            QueueNotFound: there is no such queue.
            MessageTooLong: the body is larger than the queue's maxsize, or than 512 MiB.

        Source: npm rsmq 0.12.4, sendMessage.
        """
        return self.run(
            messages.send_message(
                self._namespace,
                qname,
                body,
                delay=delay,
                front=front,
                dedup_id=dedup_id,
                dedup_window=dedup_window,
                codec=self._codec_for(codec),
                realtime=self._realtime,
            )
        )

    def send_messages(
        self,
        qname: str,
        bodies: Iterable[Any],
        *,
        delay: float | None = None,
        front: bool = False,
        dedup_ids: Iterable[str | None] | None = None,
        dedup_window: float = DEFAULT_DEDUP_WINDOW,
        codec: Codec | None = None,
    ) -> list[str]:
        """
        Add messages to a queue: all or none, in this order.

        They are received in the order given, and after those of an earlier call; but for other
        delays. Their ids tell one and the same time. With realtime there is one notification, of
        the final number. One round trip; two where bodies have 8 KB and more on average and the
        user may run MULTI. Not repeated after an ambiguous failure, unless each has a dedup_id.

        Args:
            qname: the queue's name.
            bodies: what the codec takes, at most 10,000 and 16 MiB in all.
            delay: for all of them, as for send_message.
            front: True puts them before all that wait now, in this order.
            dedup_ids: for each body a name as for send_message, or None.
            dedup_window: as for send_message.
            codec: for this call; None is the client's.

        Returns:
            Their ids, in the order of the bodies; for one that was sent before under its dedup_id,
            the first one's. An empty list for no bodies.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters; codec or a dedup_id is not one; bodies is
                not a list; there are more or fewer dedup_ids than bodies; or a delay for the front.
            InvalidValue: delay or dedup_window is out of range; or delay is None, and the queue's
                is not a number; or the batch is too large.
            MessageNotString: the codec can't encode a body.
            QueueNotFound: there is no such queue.
            MessageTooLong: the largest body is larger than the queue's maxsize, or than 512 MiB.
        """
        return self.run_steps(
            sending.send_messages(
                self._namespace,
                qname,
                bodies,
                delay=delay,
                front=front,
                dedup_ids=dedup_ids,
                dedup_window=dedup_window,
                codec=self._codec_for(codec),
                realtime=self._realtime,
            )
        )

    def publish(
        self,
        qnames: Iterable[str],
        body: Any,
        *,
        delay: float | None = None,
        codec: Codec | None = None,
    ) -> dict[str, str]:
        """
        Add a message to each of several queues: to all of them, or to none.

        If this raises a connection error, the message may have been stored in all or in none.

        Args:
            qnames: the names of the queues; one given twice counts once.
            body: what the codec takes; a str with TEXT. Empty is allowed.
            delay: seconds until it is visible, as for send_message; None is each queue's delay.
            codec: for this call; None is the client's.

        Returns:
            The id in each queue, by its name.

        Raises:
            MissingParameter: a name is None or empty, or there is none.
            InvalidFormat: a name has other characters, or codec is not a codec.
            InvalidValue: delay is out of range; or another client stored a delay that is not
                a number.
            MessageNotString: the codec can't encode the body.
            MessageTooLong: the body is larger than a queue's maxsize, or than 512 MiB.
            QueueNotFound: one of the queues does not exist.
        """
        return self.run(
            sending.publish(
                self._namespace,
                qnames,
                body,
                delay=delay,
                codec=self._codec_for(codec),
                realtime=self._realtime,
            )
        )

    def receive_message(
        self,
        qname: str,
        *,
        vt: float | None = None,
        wait: float | None = 0,
        codec: Codec | None = None,
    ) -> Message | None:
        """
        Receive the message that has been due longest, and hide it from other receivers.

        Delete it when its work is done, or it comes back when the visibility timeout has passed.
        A message that was received as often as the queue's dead-letter policy allows is moved to
        the dead-letter queue instead, and the next one is received.

        Waiting: a message that any client sends, or that becomes due, ends the wait at once. One
        connection serves all calls that wait on this client, and Redis is not polled, but for a
        look every 15 seconds or so. Where the server or the user's rights don't allow CLIENT
        TRACKING, with memory:// and on Redis Cluster, it is polled, less and less often, in the end
        at most four times a second.

        An interruption (Ctrl-C) during the call releases the message at once; its receive count
        stays raised. With a RedisCluster client the message stays hidden until its visibility
        timeout has passed.

        If the connection breaks during the call, one more attempt is made. The message of the
        first attempt may then stay hidden until its visibility timeout has passed.

        Args:
            qname: the queue's name.
            vt: seconds to hide it, 0 to 9,999,999, fractions to the millisecond; None is the
                queue's vt.
            wait: seconds to wait for a message, 0 to 9,999,999; None waits forever.
            codec: for this message; None is the client's.

        Returns:
            The message, or None when none is due in time.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not one.
            InvalidValue: vt or wait is out of range; or vt is None, and the queue's is not a
                number.
            QueueNotFound: there is no such queue, or it was deleted during the wait.
            ClientClosed: close() was called during the wait.

        Source: npm rsmq 0.12.4, receiveMessage. Ids without a body are removed, not delivered.
        """
        return self._receive(
            messages.receive_message(self._namespace, qname, vt=vt, codec=self._codec_for(codec)),
            wait,
        )

    def receive_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        vt: float | None = None,
        wait: float | None = 0,
        codec: Codec | None = None,
    ) -> list[Message]:
        """
        Receive messages that are due, of one queue or several, and hide them.

        Earlier queues go first: from the second one something is received only when the first has
        no more. What is said of receive_message holds for each.

        Up to 1,000 queues are one atomic step. More are received from in steps of 1,000, each
        atomic: first all queues are checked, then messages are received. If a step fails, the
        messages of the steps before it are released.

        Args:
            qnames: a queue's name, or several.
            max_messages: how many at most, 1 to 10,000; no more than 16 MiB of bodies come.
            vt: seconds to hide them, 0 to 9,999,999, fractions to the millisecond; None is each
                queue's vt.
            wait: seconds to wait for the first, in any of the queues, 0 to 9,999,999; None waits
                forever.
            codec: for these messages; None is the client's.

        Returns:
            The messages, in the order in which they were due, queue by queue; an empty list when
            none is due in time.

        Raises:
            MissingParameter: a name is None or empty, or there is none.
            InvalidFormat: a name has other characters, or codec is not one.
            InvalidValue: a number is out of range; or vt is None, and a queue's is not a number.
            QueueNotFound: one of the queues does not exist, or was deleted during the wait;
                nothing is received then.
            ClientClosed: close() was called during the wait.
        """
        return self._receive(
            batches.receive_messages(
                self._namespace, qnames, max_messages, vt=vt, codec=self._codec_for(codec)
            ),
            wait,
        )

    def pop_message(
        self, qname: str, *, wait: float | None = 0, codec: Codec | None = None
    ) -> Message | None:
        """
        Receive the message that has been due longest, and delete it in the same step.

        At most once: if the reply is lost, so is the message. A message that was received as often
        as the queue's dead-letter policy allows is moved instead, as by receive_message.

        Args:
            qname: the queue's name.
            wait: seconds to wait for a message, as for receive_message.
            codec: for this message; None is the client's.

        Returns:
            The message, or None when none is due in time.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not one.
            InvalidValue: wait is out of range.
            QueueNotFound: there is no such queue, or it was deleted during the wait.
            ClientClosed: close() was called during the wait.

        Source: npm rsmq 0.12.4, popMessage. Ids without a body are removed, not delivered.
        """
        return self._receive(
            messages.pop_message(self._namespace, qname, codec=self._codec_for(codec)), wait
        )

    def pop_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        wait: float | None = 0,
        codec: Codec | None = None,
    ) -> list[Message]:
        """
        Receive messages that are due, of one queue or several, and delete them in the same step.

        At most once: if the reply is lost, so are the messages. More than 1,000 queues are received
        from in steps, as by receive_messages. If a step fails, the messages of the steps before it
        are returned.

        Args:
            qnames: a queue's name, or several; earlier ones go first, as for receive_messages.
            max_messages: how many at most, 1 to 10,000; no more than 16 MiB of bodies come.
            wait: seconds to wait for the first, as for receive_messages.
            codec: for these messages; None is the client's.

        Returns:
            The messages, in the order in which they were due, queue by queue; an empty list when
            none is due in time.

        Raises:
            MissingParameter: a name is None or empty, or there is none.
            InvalidFormat: a name has other characters, or codec is not one.
            InvalidValue: a number is out of range.
            QueueNotFound: one of the queues does not exist, or was deleted during the wait;
                nothing is received then.
            ClientClosed: close() was called during the wait.
        """
        return self._receive(
            batches.pop_messages(
                self._namespace, qnames, max_messages, codec=self._codec_for(codec)
            ),
            wait,
        )

    @overload
    def delete_message(self, message: Message, /) -> bool: ...
    @overload
    def delete_message(self, qname: str, /, id: str) -> bool: ...
    def delete_message(self, message: Message | str, /, id: str | None = None) -> bool:
        """
        Delete a message, when its work is done.

        Args:
            message: a received message: deleted only if nobody has received it since. Or the name
                of the queue, with an id: deleted whoever holds it.
            id: 20 to 64 characters of ``A-Z a-z 0-9 : _ -``.

        Returns:
            True if it is gone by this call. False if it was not in the queue, or, given a
            message, if it was received again since.

        Raises:
            MissingParameter: name or id is None or empty.
            InvalidFormat: name or id has other characters, or is not of these kinds.

        Source: npm rsmq 0.12.4, deleteMessage; as there, a missing queue is not an error.
        """
        return self.run(messages.delete_message(self._namespace, message, id))

    @overload
    def change_message_visibility(self, message: Message, vt: float, /) -> bool: ...
    @overload
    def change_message_visibility(self, message: Message, /, *, vt: float) -> bool: ...
    @overload
    def change_message_visibility(self, qname: str, /, id: str, vt: float) -> bool: ...
    def change_message_visibility(
        self, message: Message | str, /, id: Any = None, vt: float | None = None
    ) -> bool:
        """
        Hide a message for a time from now: longer while its work goes on, or 0 to show it.

        Args:
            message: a received message: changed only if nobody has received it since. Or the name
                of the queue, followed by an id: changed whoever holds it.
            id: after a name, 20 to 64 characters of ``A-Z a-z 0-9 : _ -``; after a message there
                is none, and vt takes its place.
            vt: seconds from now, 0 to 9,999,999, fractions to the millisecond.

        Returns:
            True if it was changed. False if it was not in the queue, or, given a message, if it
            was received again since.

        Raises:
            MissingParameter: name or id is None or empty.
            InvalidFormat: name or id has other characters, or is not of these kinds.
            InvalidValue: vt is out of range.
            QueueNotFound: there is no such queue.

        Source: npm rsmq 0.12.4, changeMessageVisibility.
        """
        return self.run(messages.change_message_visibility(self._namespace, message, id, vt))

    @overload
    def delete_messages(self, messages: Iterable[Message], /) -> list[str]: ...
    @overload
    def delete_messages(self, qname: str, /, ids: Iterable[str]) -> list[str]: ...
    def delete_messages(
        self, messages: Iterable[Message] | str, /, ids: Iterable[str] | None = None
    ) -> list[str]:
        """
        Delete messages, when their work is done.

        Args:
            messages: received messages, also of several queues, at most 10,000: each is deleted
                only if nobody has received it since. Or the name of the queue, with ids: deleted
                whoever holds them.
            ids: each as for delete_message.

        Returns:
            The ids that this call removed, queue by queue in the order given; those that were gone
            or received again since are left out.

        Raises:
            MissingParameter: a name or id is None or empty.
            InvalidFormat: a name or id has other characters, or is not of these kinds.
            InvalidValue: there are more than 10,000.

        As for delete_message, a missing queue is not an error.
        """
        return self.run(batches.delete_messages(self._namespace, messages, ids))

    @overload
    def change_messages_visibility(
        self, messages: Iterable[Message], vt: float, /
    ) -> list[str]: ...
    @overload
    def change_messages_visibility(
        self, messages: Iterable[Message], /, *, vt: float
    ) -> list[str]: ...
    @overload
    def change_messages_visibility(
        self, qname: str, /, ids: Iterable[str], vt: float
    ) -> list[str]: ...
    def change_messages_visibility(
        self, messages: Iterable[Message] | str, /, ids: Any = None, vt: float | None = None
    ) -> list[str]:
        """
        Hide messages for a time from now, or show them.

        Args:
            messages: received messages, also of several queues, at most 10,000: each is changed
                only if nobody has received it since. Or the name of the queue, followed by ids:
                changed whoever holds them.
            ids: after a name, each as for delete_message; after messages there are none, and vt
                takes their place.
            vt: seconds from now, 0 to 9,999,999, fractions to the millisecond.

        Returns:
            The ids that were changed, queue by queue in the order given.

        Raises:
            MissingParameter: a name or id is None or empty.
            InvalidFormat: a name or id has other characters, or is not of these kinds.
            InvalidValue: vt is out of range, or there are more than 10,000.
            QueueNotFound: one of the queues does not exist; nothing is changed then.
        """
        return self.run(batches.change_messages_visibility(self._namespace, messages, ids, vt))

    @overload
    def release_messages(self, messages: Iterable[Message], /) -> list[str]: ...
    @overload
    def release_messages(self, qname: str, /, ids: Iterable[str]) -> list[str]: ...
    def release_messages(
        self, messages: Iterable[Message] | str, /, ids: Iterable[str] | None = None
    ) -> list[str]:
        """
        Give messages back: visible at once, and where they stood by their sent time.

        Their receive counts stay. With bare ids this is not repeated after an ambiguous failure,
        for another may have received them meanwhile.

        Args:
            messages: received messages, also of several queues, at most 10,000: each is released
                only if nobody has received it since. Or the name of the queue, with ids: released
                whoever holds them, delayed ones too.
            ids: each as for delete_message.

        Returns:
            The ids that were released, queue by queue in the order given.

        Raises:
            MissingParameter: a name or id is None or empty.
            InvalidFormat: a name or id has other characters, or is not of these kinds.
            InvalidValue: there are more than 10,000.
            QueueNotFound: one of the queues does not exist; nothing is changed then.
        """
        return self.run(batches.release_messages(self._namespace, messages, ids))

    def release_all_messages(self, qname: str) -> int:
        """
        Give back every message that is received and hidden, whoever holds it. For operators.

        Those that back off after a failure come back too; those that were never received keep
        their delay. In steps of a thousand, each atomic: the queue may be of any length.

        Args:
            qname: the queue's name.

        Returns:
            How many were released.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: there is no such queue.
        """
        return self.run_steps(recovery.release_all_messages(self._namespace, qname))

    def recover_messages(
        self,
        qname: str,
        max_messages: int,
        *,
        idle: float,
        vt: float | None = None,
        codec: Codec | None = None,
    ) -> list[Message]:
        """
        Take over messages that somebody received a time ago and has not deleted.

        They are received anew: their receive counts rise, so that their former holder can't delete
        or extend them any more. When a message was last received is reckoned as the time when it
        becomes visible minus the queue's vt: exact if it was received or extended for just the
        queue's vt; after a longer one it looks younger, after a shorter one older, by at most the
        difference. In steps of a thousand, each atomic; an interruption gives all back. What was
        received or extended between two steps is left alone.

        Args:
            qname: the queue's name.
            max_messages: how many at most, 1 to 10,000; no more than 16 MiB of bodies come.
            idle: seconds since the last receive, 0 to 9,999,999; 0 also takes from those who have
                just begun.
            vt: seconds to hide them from now, as for receive_message.
            codec: for these messages; None is the client's.

        Returns:
            The messages, those first that were received longest ago; an empty list without any.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not one.
            InvalidValue: a number is out of range; or the queue's vt is not a number.
            QueueNotFound: there is no such queue.
        """
        return self.run_steps(
            recovery.recover_messages(
                self._namespace,
                qname,
                max_messages,
                idle=idle,
                vt=vt,
                codec=self._codec_for(codec),
            )
        )

    def get_message(
        self, qname: str, id: str, *, codec: Codec | None = None
    ) -> StoredMessage | None:
        """
        Look up a message without receiving it. Nothing is changed.

        Args:
            qname: the queue's name.
            id: 20 to 64 characters of ``A-Z a-z 0-9 : _ -``.
            codec: for this message; None is the client's.

        Returns:
            The message as it stands, or None if it is not in the queue.

        Raises:
            MissingParameter: name or id is None or empty.
            InvalidFormat: name or id has other characters, or codec is not one.
            QueueNotFound: there is no such queue.
        """
        return self.run(
            messages.get_message(self._namespace, qname, id, codec=self._codec_for(codec))
        )

    def peek_messages(
        self,
        qname: str,
        start: int = 0,
        count: int = 10,
        *,
        state: State | None = None,
        codec: Codec | None = None,
    ) -> list[StoredMessage]:
        """
        Look up messages by their places in the queue. Nothing is changed.

        The order is that in which they become visible. In steps of a thousand messages or 1 MiB,
        each atomic: not one reading of one moment, and no queue is too long.

        Args:
            qname: the queue's name.
            start: the place of the first, from 0; a negative one counts from the end, -1 is the
                last.
            count: how many at most, 1 to 10,000.
            state: only "visible", "in_flight" or "delayed" messages, and places among those; None
                is all.
            codec: for these messages; None is the client's.

        Returns:
            The messages as they stand; an empty list where there are none. Ids without a body are
            left out.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or state or codec is not one.
            InvalidValue: start or count is out of range or not whole.
            QueueNotFound: there is no such queue.
        """
        return self.run_steps(
            inspection.peek_messages(
                self._namespace, qname, start, count, state=state, codec=self._codec_for(codec)
            )
        )

    def count_messages(self, qname: str) -> MessageCounts:
        """
        Count the messages of a queue by state, and find the oldest.

        In steps of a thousand, each atomic: not one reading of one moment, and no queue is too
        long. get_queue_attributes has most counts in constant time.

        Args:
            qname: the queue's name.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: there is no such queue.
        """
        return self.run_steps(inspection.count_messages(self._namespace, qname))

    def set_dead_letter_policy(
        self, qname: str, dead_letter_queue: str | None, max_receives: int | None = None
    ) -> QueueAttributes:
        """
        Say where messages go that have been received too often.

        A receive, pop or recover of this library moves such a message instead of delivering it, in
        the same step; id, body, receive count and first-received time stay, and it is visible in
        the dead-letter queue at once. A call moves at most 1,000, and receives nothing if as many
        stand before the first good one. Clients that don't know policies deliver such a message;
        for queues that only such clients consume, see sweep_dead_letters. If the dead-letter queue
        is gone or can't be written, the message is delivered. The policy is two fields among the
        queue's attributes, which other clients ignore. Since a dead letter keeps its count, a
        policy of the dead-letter queue itself needs a higher limit.

        Args:
            qname: the queue's name.
            dead_letter_queue: the name of another queue, which must exist; None removes the
                policy.
            max_receives: how often a message may be received, 1 to 1,000,000. A receive counts
                also if its reply is lost, so that 1 moves messages that nobody has seen; from 3
                on that is unlikely.

        Returns:
            All attributes, as after the change.

        Raises:
            MissingParameter: a name is empty, or qname None.
            InvalidFormat: a name has other characters; both are the same; the other one has this
                queue as its dead-letter queue; or there is a limit without a queue.
            InvalidValue: max_receives is out of range or not whole; or another client stored a vt
                or delay that is not a number.
            QueueNotFound: one of the two does not exist.
        """
        return self.run(
            dead_letters.set_dead_letter_policy(
                self._namespace, qname, dead_letter_queue, max_receives
            )
        )

    def sweep_dead_letters(self, qname: str, max_messages: int = 1000) -> list[str]:
        """
        Move due messages that were received as often as the queue's policy allows.

        For queues whose consumers are programs that don't know policies: call it now and then. A
        message that somebody holds is left alone until its visibility timeout has passed. In steps
        of a thousand, each atomic.

        Args:
            qname: the queue's name.
            max_messages: how many at most, 1 to 10,000.

        Returns:
            The ids of those moved to the dead-letter queue; an empty list without a policy, or when
            its target is gone or can't be written.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            InvalidValue: max_messages is out of range or not whole.
            QueueNotFound: there is no such queue.
        """
        return self.run_steps(dead_letters.sweep_dead_letters(self._namespace, qname, max_messages))

    def redrive_messages(
        self,
        dead_letter_queue: str,
        destination: str | None = None,
        *,
        max_messages: int | None = None,
    ) -> list[tuple[str, str]]:
        """
        Send dead letters anew, once what was wrong with them has been mended.

        Each gets a new id and no counters, is visible at once, and keeps its place among the
        others. Only those are taken that are due in the dead-letter queue when this begins. In
        steps of a thousand messages or 1 MiB, each atomic and none repeated after an ambiguous
        failure; bodies are not held against the destination's maxsize.

        Args:
            dead_letter_queue: the name of the queue they are in.
            destination: the name of the queue they go to; None is the one whose dead-letter policy
                names this queue.
            max_messages: how many at most, from 1; None is all.

        Returns:
            Of each the old id and the new one, in their order; an empty list without any.

        Raises:
            MissingParameter: a name is empty, or the first None; or destination is None and no
                queue, or more than one, has such a policy.
            InvalidFormat: a name has other characters, or both are the same.
            InvalidValue: max_messages is out of range or not whole.
            QueueNotFound: one of the two does not exist.
        """
        return self.run_steps(
            dead_letters.redrive_messages(
                self._namespace, dead_letter_queue, destination, max_messages
            )
        )

    @overload
    def move_messages(self, messages: Iterable[Message], /, destination: str) -> list[str]: ...
    @overload
    def move_messages(self, source: str, /, destination: str, ids: Iterable[str]) -> list[str]: ...
    def move_messages(
        self,
        messages: Iterable[Message] | str,
        /,
        destination: str,
        ids: Iterable[str] | None = None,
    ) -> list[str]:
        """
        Move messages to another queue, with their ids and counters.

        What was received is visible there at once; what never was keeps its place and its delay.
        The destination's total of messages sent rises, its maxsize is not looked at. Not repeated
        after an ambiguous failure.

        Args:
            messages: received messages, also of several queues, at most 10,000: each is moved only
                if nobody has received it since. Or the name of the queue, with ids: moved whoever
                holds them.
            destination: the name of the queue they go to.
            ids: each as for delete_message.

        Returns:
            The ids that were moved, queue by queue in the order given.

        Raises:
            MissingParameter: a name or id is None or empty.
            InvalidFormat: a name or id has other characters or is not of these kinds, or source
                and destination are the same.
            InvalidValue: there are more than 10,000.
            QueueNotFound: one of the queues does not exist; nothing is moved then.
        """
        return self.run(dead_letters.move_messages(self._namespace, messages, destination, ids))

    def close(self) -> None:
        """
        Close the connections that this client opened; a client handed in stays open.

        Waiting calls in other threads end with ClientClosed.
        """
        self._closed = True
        self._watchers.close()
        self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ns={self._namespace.name!r}, codec={self._codec!r})"
