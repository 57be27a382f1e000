"""
``RSMQ``, the synchronous client. Each method is one line around a builder of ``operations.py``.

``aio.py`` is the asyncio twin: the same names, parameters and defaults, awaited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from rsmq import operations, protocol
from rsmq.codecs import TEXT, Codec, check_codec
from rsmq.connection import MEMORY, Caller, caller_of, check_url, open_caller
from rsmq.errors import ClientClosed
from rsmq.failures import DEFAULT_RETRY_DEADLINE, check_deadline
from rsmq.operations import Operation
from rsmq.protocol import Namespace

if TYPE_CHECKING:
    from types import TracebackType

    import redis
    from redis.cluster import RedisCluster

    from rsmq.model import Message, QueueAttributes, StoredMessage

T = TypeVar("T")


class RSMQ:
    """
    A client of RSMQ queues on a Redis server.

    Every method is one round trip and one atomic script: all of it happens, or nothing. All times
    are the server's. A client may be used by many threads at once, and after a fork.

    Retries: what never reached the server (connection refused, server loading or read-only) is
    tried again for ``retry_deadline`` seconds from the first failure on; over a client handed in,
    redis-py's own retries of connecting come before. When the connection breaks or times out while
    a call is under way, nobody knows whether it ran: reading, creating and setting attributes of
    queues, deleting a message and changing its visibility are then tried again; a receive is tried
    again once; a send, a pop, a purge and deleting a queue are not, and raise redis-py's
    ConnectionError or TimeoutError. With a RedisCluster client, redis-py repeats commands by its
    own rules, a send too, which may store a message twice.

    Signals: Ctrl-C (and a handler of SIGTERM or SIGALRM that raises) takes effect when the call
    under way has ended, a second one at once.

    Besides the errors named at a method, each may raise redis-py's own (ConnectionError,
    TimeoutError, AuthenticationError, ResponseError ...), and ClientClosed after close().
    """

    def __init__(
        self,
        client: redis.Redis | RedisCluster,
        *,
        ns: str = protocol.DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float = DEFAULT_RETRY_DEADLINE,
    ) -> None:
        """
        Use an existing client, whatever its decode_responses and protocol version.

        Args:
            client: a ``redis.Redis`` or ``redis.RedisCluster``; close() leaves it open.
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
            InvalidValue: retry_deadline is no number of seconds.
        """
        self._settle(ns, codec, realtime=realtime, strict_names=strict_names)
        deadline = check_deadline(retry_deadline)
        self._caller: Caller = caller_of(client, self._namespace, deadline)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        ns: str = protocol.DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float = DEFAULT_RETRY_DEADLINE,
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
                ``socket_timeout`` (seconds, default 5). With ``max_connections`` the threads
                share a pool of that size.

        Raises:
            MissingParameter: the namespace is empty.
            InvalidFormat: url, options, ns or codec is not of the kind it must be.
            InvalidValue: retry_deadline is no number of seconds.
            MissingExtra: ``memory://`` without the extra ``embedded``.
        """
        self = cls.__new__(cls)
        self._settle(ns, codec, realtime=realtime, strict_names=strict_names)
        deadline = check_deadline(retry_deadline)
        if check_url(url).startswith(MEMORY):
            from rsmq import embedded  # noqa: PLC0415 - needs an extra

            self._caller = caller_of(embedded.client(url), self._namespace, deadline)
        else:
            self._caller = open_caller(url, deadline, options)
        return self

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

    def create_queue(
        self,
        qname: str,
        *,
        vt: float = protocol.DEFAULT_VT,
        delay: float = protocol.DEFAULT_DELAY,
        maxsize: int = protocol.DEFAULT_MAXSIZE,
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
            operations.create_queue(
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
        return self.run(operations.delete_queue(self._namespace, qname))

    def list_queues(self) -> list[str]:
        """
        The names of all queues of this namespace.

        Returns:
            Names, sorted; an empty list without queues. Some clients make queues without listing
            them: those are missing here, and work all the same.

        Source: npm rsmq 0.12.4, listQueues.
        """
        return self.run(operations.list_queues(self._namespace))

    def get_queue_attributes(self, qname: str) -> QueueAttributes:
        """
        The attributes and counts of a queue, read at one moment, in constant time or nearly.

        Args:
            qname: the queue's name.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters.
            QueueNotFound: there is none, or it lacks vt, delay or maxsize.
            InvalidValue: another client stored a vt or delay that is no number.

        Source: npm rsmq 0.12.4, getQueueAttributes. hidden_messages is exact to the millisecond,
        where Node counts what became visible within the current second as hidden.
        """
        return self.run(operations.get_queue_attributes(self._namespace, qname))

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
                delay that is no number, and it is not among those given.
            QueueNotFound: there is none.

        Source: npm rsmq 0.12.4, setQueueAttributes.
        """
        return self.run(
            operations.set_queue_attributes(
                self._namespace, qname, vt=vt, delay=delay, maxsize=maxsize
            )
        )

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
        return self.run(operations.purge_queue(self._namespace, qname))

    def send_message(
        self, qname: str, body: Any, *, delay: float | None = None, codec: Codec | None = None
    ) -> str:
        """
        Add a message to a queue.

        If this raises a connection error, the message may have been stored or not; it is never
        stored twice.

        Args:
            qname: the queue's name.
            body: what the codec takes; a str with TEXT. Empty is allowed.
            delay: seconds until it is visible, 0 to 9,999,999, fractions to the millisecond;
                None is the queue's delay.
            codec: for this call; None is the client's.

        Returns:
            The message's id.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not one.
            InvalidValue: delay is out of range; or None, and the queue's is no number.
            MessageNotString: the codec can't encode the body.
            QueueNotFound: there is no such queue.
            MessageTooLong: the body is larger than the queue's maxsize.

        Source: npm rsmq 0.12.4, sendMessage.
        """
        return self.run(
            operations.send_message(
                self._namespace,
                qname,
                body,
                delay=delay,
                codec=self._codec_for(codec),
                realtime=self._realtime,
            )
        )

    def receive_message(
        self, qname: str, *, vt: float | None = None, codec: Codec | None = None
    ) -> Message | None:
        """
        Receive the message that has been due longest, and hide it from other receivers.

        Delete it when its work is done, or it comes back when the visibility timeout has passed.
        An interruption (Ctrl-C) during the call gives the message back at once, its receive count
        raised; but for one over a RedisCluster client, whose message comes back with its
        visibility timeout. When the
        connection breaks during the call, one more attempt is made; the message of the first one
        may then stay hidden until its timeout.

        Args:
            qname: the queue's name.
            vt: seconds to hide it, 0 to 9,999,999, fractions to the millisecond; None is the
                queue's vt.
            codec: for this message; None is the client's.

        Returns:
            The message, or None when none is due.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not one.
            InvalidValue: vt is out of range; or None, and the queue's is no number.
            QueueNotFound: there is no such queue.

        Source: npm rsmq 0.12.4, receiveMessage. Ids without a body are removed, not delivered.
        """
        return self.run(
            operations.receive_message(self._namespace, qname, vt=vt, codec=self._codec_for(codec))
        )

    def pop_message(self, qname: str, *, codec: Codec | None = None) -> Message | None:
        """
        Receive the message that has been due longest, and delete it in the same step.

        At most once: if the reply is lost, so is the message.

        Args:
            qname: the queue's name.
            codec: for this message; None is the client's.

        Returns:
            The message, or None when none is due.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or codec is not one.
            QueueNotFound: there is no such queue.

        Source: npm rsmq 0.12.4, popMessage. Ids without a body are removed, not delivered.
        """
        return self.run(
            operations.pop_message(self._namespace, qname, codec=self._codec_for(codec))
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

        Source: npm rsmq 0.12.4, deleteMessage; as there, a missing queue is no error.
        """
        return self.run(operations.delete_message(self._namespace, message, id))

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
        return self.run(operations.change_message_visibility(self._namespace, message, id, vt))

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
            operations.get_message(self._namespace, qname, id, codec=self._codec_for(codec))
        )

    def close(self) -> None:
        """Close the connections that from_url opened; a client handed in stays open."""
        self._closed = True
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
