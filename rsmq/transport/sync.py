"""
Runs an operation on Redis, for the synchronous client.

Connections are taken from the pool and used directly, below the level where redis-py repeats
commands by itself: only this module knows which operation may be repeated. ``retry.py`` classifies
failures. The package ``operations`` builds what is sent. ``aio.py`` is the asyncio twin.
"""

from __future__ import annotations

import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.retry import Retry as RedisRetry

from rsmq.errors import InvalidFormat, RSMQError
from rsmq.operations.operation import Operation, Retry
from rsmq.transport.retry import Attempts, Failure, classify, code_of, explain
from rsmq.transport.signals import Held
from rsmq.transport.socket import OwnConnection, own_way_of, pack
from rsmq.wire.keys import Namespace

T = TypeVar("T")

#: How long an interrupted receive may take to find out what it received, seconds.
LAST_WORD = 1.0

#: The scheme of a server inside the process.
MEMORY = "memory://"
_DATABASE = re.compile(r"/?\d*/?")
_HOST = re.compile(r"[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]*\]")
_ENCODED = "/ # ? @ : [ and ] in a password are percent-encoded, letters of other scripts too."
_SCHEMES = (MEMORY, "redis://", "rediss://", "unix://")

#: How many connections are kept that threads have left.
_SPARE = 8

_NOT_ANSWERED = object()
_ALWAYS = Retry.ALWAYS  # a name less to look up in each call


class Caller(Protocol):
    """Runs operations on one server."""

    def run(self, operation: Operation[T]) -> T:
        """Send the operation, and return what its reply means."""

    def close(self) -> None:
        """Close the connections that this object opened."""

    def watched_pool(self) -> Any:
        """Where a connection that tracks keys can be made; None if nowhere."""

    def rest(self) -> None:
        """Leave the connection that is kept for this thread to others: it will sleep."""


class _Connections(Protocol):
    pool: Any

    def take(self, *, check: bool) -> Any:
        """Lend out a connection that is ready; checked for being alive if asked."""

    def put(self, connection: Any, *, usable: bool) -> None:
        """Take a lent connection back."""

    def rest(self) -> None:
        """Leave what is kept for this thread to others."""

    def close(self) -> None:
        """Close what was opened here."""


class Pooled:
    """Connections of a redis-py pool, taken and given back for each call."""

    def __init__(self, pool: Any, *, owned: bool) -> None:
        self.pool = pool
        self._owned = owned
        self._closed = False

    def take(self, *, check: bool) -> Any:  # noqa: ARG002 - a pool always checks
        return own_way_of(self.pool.get_connection())

    def put(self, connection: Any, *, usable: bool) -> None:
        if not usable or self._closed:
            connection.disconnect()
        self.pool.release(getattr(connection, "connection", connection))

    def rest(self) -> None:
        """Nothing is kept for a thread."""

    def close(self) -> None:
        """Close the idle connections, if the pool is ours; those that are lent out follow."""
        if self._owned:
            self._closed = True
            self.pool.disconnect(inuse_connections=False)


class PerThread:
    """
    One idle connection a thread, of a pool that is ours: it saves a pool's cost for each call.

    A thread's connection closes when the thread ends. A connection is never in its slot while it
    is lent out, so that a signal handler or a nested call gets another one. A child process
    leaves its parent's connections alone. Threads that sleep leave theirs to others, who keep a
    few.
    """

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self._thread = threading.local()
        self._slots: weakref.WeakSet[_Slot] = weakref.WeakSet()
        self._spare: list[Any] = []
        self._closed = False

    def take(self, *, check: bool) -> Any:
        slot = getattr(self._thread, "slot", None) or self._slot()
        connection = slot.take() or self._take_spare()
        if connection is not None:
            if not connection.is_inherited() and (not check or connection.is_idle()):
                return connection
            connection.disconnect()  # a parent's is closed on this side only
        opened = self.pool.connection_class(**self.pool.connection_kwargs)
        opened.connect()
        return OwnConnection(opened)

    def put(self, connection: Any, *, usable: bool) -> None:
        slot = getattr(self._thread, "slot", None) or self._slot()
        if usable and slot.connection is None and not self._closed:
            slot.connection = connection
        else:
            connection.disconnect()

    def rest(self) -> None:
        connection = self._slot().take()
        if connection is None:
            return
        if len(self._spare) < _SPARE:
            self._spare.append(connection)
        else:
            connection.disconnect()
        if self._closed:
            self._close_spare()

    def close(self) -> None:
        self._closed = True
        self._close_spare()
        for slot in self._all_slots():
            connection = slot.take()
            if connection is not None:
                connection.disconnect()

    def _take_spare(self) -> Any:
        try:
            return self._spare.pop()  # one step, for other threads
        except IndexError:
            return None

    def _close_spare(self) -> None:
        while connection := self._take_spare():
            connection.disconnect()

    def _slot(self) -> _Slot:
        slot: _Slot | None = getattr(self._thread, "slot", None)
        if slot is None:
            slot = self._thread.slot = _Slot()
            self._slots.add(slot)
        return slot

    def _all_slots(self) -> list[_Slot]:
        # Without a lock, which a fork could leave locked for ever in the child.
        while True:
            try:
                return list(self._slots)
            except RuntimeError:  # a thread began meanwhile
                continue


class _Slot:
    """The place of one thread's idle connection."""

    connection: Any = None

    def take(self) -> Any:
        # One step, so that close() in another thread can't take the same connection.
        return self.__dict__.pop("connection", None)

    def __del__(self) -> None:
        # The thread has ended. The connection itself is in reference cycles, and would wait.
        connection = self.take()
        if connection is not None:
            connection.disconnect()


class PoolCaller:
    """Runs operations over connections that this process takes one at a time."""

    def __init__(self, connections: _Connections, retry_deadline: float) -> None:
        self._connections = connections
        self._retry_deadline = retry_deadline

    def run(self, operation: Operation[T]) -> T:
        attempts = None
        # A connection that died while idle would make the attempt ambiguous. Only where that
        # changes neither what happens nor what is answered, the check is not worth its time.
        check = operation.settle is not None or operation.retry is not _ALWAYS
        while True:
            sent: list[bool] = []
            try:
                if operation.give_back is not None:
                    return self._receive(operation, check, sent)
                # Also while it connects: redis-py keeps a connection whose greeting was broken
                # off, and would take its answer for that of the next command.
                with Held():
                    reply = self._exchange(self._connections.take(check=check), operation, sent)
            except RedisError as error:
                if operation.otherwise and code_of(error) == "NOPERM":
                    return self.run(operation.otherwise)
                attempts = attempts or Attempts(operation.retry, self._retry_deadline)
                pause = attempts.pause(error, sent=bool(sent))
                if pause is None:
                    ours = explain(error, operation.queues)
                    if ours is not None:
                        raise ours from None
                    attempts.note(error)
                    raise
                time.sleep(pause)
            else:
                if attempts and attempts.ambiguous and operation.settle:
                    return operation.settle(reply)
                return operation.parse(reply)

    def close(self) -> None:
        self._connections.close()

    def watched_pool(self) -> Any:
        return self._connections.pool

    def rest(self) -> None:
        self._connections.rest()

    def _receive(self, operation: Operation[T], check: bool, sent: list[bool]) -> T:  # noqa: FBT001
        """Exchange; if interrupted by a signal, undo what was done before that goes on."""
        received: T | None = None
        try:
            with Held() as held:
                connection = self._connections.take(check=check)
                received = operation.parse(self._exchange(connection, operation, sent))
                if held.noted:
                    try:
                        held.deliver()
                    except BaseException:
                        # The next signal is held back while what was received is undone.
                        undone, received = received, None
                        self._undo(operation, undone)
                        raise
            # Until here a signal may raise, and what was received must be known then.
            return received  # noqa: TRY300
        except RedisError:
            raise
        except BaseException:
            with Held():  # so that the next signal does not break it off
                self._undo(operation, received)
            raise

    def _undo(self, operation: Operation[T], received: T | None) -> None:
        undo = operation.give_back and received and operation.give_back(received)
        if undo:
            with suppress(RedisError, RSMQError):
                self.run(undo)

    def _exchange(self, connection: Any, operation: Operation[T], sent: list[bool]) -> Any:
        sent.append(True)
        usable = False
        reply = _NOT_ANSWERED
        try:
            reply = _call(connection, operation)
            usable = True
        except ResponseError as error:
            # A server that refuses all, as one that was demoted, is looked up anew.
            usable = classify(error, sent=True) is not Failure.NOTHING_RAN
            raise
        except RedisError:
            raise
        except BaseException:
            usable = operation.give_back is not None and _give_back(connection, operation, reply)
            raise
        finally:
            self._connections.put(connection, usable=usable)
        return reply


class ClusterCaller:
    """Runs operations on a Redis Cluster; redis-py finds the nodes, and repeats by its rules."""

    def __init__(self, client: RedisCluster) -> None:
        self._client: Any = client

    def run(self, operation: Operation[T]) -> T:
        if operation.otherwise:
            return self.run(operation.otherwise)
        script, keys = operation.script, (*operation.keys, *operation.args)
        count = len(operation.keys)
        try:
            try:
                reply = self._client.execute_command(
                    "EVALSHA", script.sha1, count, *keys, NEVER_DECODE=True
                )
            except NoScriptError:
                reply = self._client.execute_command(
                    "EVAL", script.source, count, *keys, NEVER_DECODE=True
                )
        except ResponseError as error:
            ours = explain(error, operation.queues)
            if ours is not None:
                raise ours from None
            raise
        return operation.parse(reply)

    def close(self) -> None:
        """Nothing: whoever made the client closes it."""

    def watched_pool(self) -> Any:
        """None: which node has the keys may change while somebody waits."""

    def rest(self) -> None:
        """Nothing is kept for a thread."""


def caller_of(client: object, namespace: Namespace, retry_deadline: float) -> Caller:
    """
    The way to run operations over a client that somebody else made and will close.

    Raises:
        InvalidFormat: it is not a synchronous client of redis-py, or it is one of a Redis
            Cluster and the namespace has no hash tag.
    """
    if isinstance(client, RedisCluster):
        require_hash_tag(namespace)
        return ClusterCaller(client)
    if isinstance(client, redis.Redis) and not isinstance(client, redis.client.Pipeline):
        return PoolCaller(Pooled(client.connection_pool, owned=False), retry_deadline)
    raise InvalidFormat(
        "client",
        value=type(client).__name__,
        hint=f"RSMQ takes a redis.Redis or redis.RedisCluster, not a {type(client).__name__}; "
        "AsyncRSMQ takes the clients of redis.asyncio.",
    )


def require_hash_tag(namespace: Namespace) -> None:
    """
    Hold a namespace against the rule of Redis Cluster.

    Raises:
        InvalidFormat: its keys would lie on several nodes.
    """
    if namespace.hash_tag is None:
        raise InvalidFormat(
            "ns",
            value=namespace.name,
            hint="On Redis Cluster all keys of a queue must lie in one slot: "
            f"give a namespace with a hash tag, as in ns='{{{namespace.name}}}'.",
        )


def check_url(url: object) -> str:
    """
    The URL itself.

    Raises:
        InvalidFormat: it is no str, or none of the schemes that are known.
    """
    if not isinstance(url, str):
        raise InvalidFormat(
            "url",
            value=type(url).__name__,
            hint="A URL is a str such as 'redis://127.0.0.1:6379/0'; "
            "a client goes to the constructor.",
        )
    if not url.startswith(_SCHEMES):
        raise bad_url(url, "A URL begins with redis://, rediss://, unix:// or memory://.")
    path = None
    with suppress(ValueError):
        path = urlsplit(url).path
    if path is None:  # raised here: as its context, the other error would show the password
        raise bad_url(url, _ENCODED)
    # redis-py takes a path that is no number for database 0.
    if url.startswith(("redis://", "rediss://")) and not _DATABASE.fullmatch(path):
        raise bad_url(url, "What follows the last slash is the number of the database.")
    return url


def open_caller(url: str, retry_deadline: float, options: dict[str, Any]) -> Caller:
    """
    The way to run operations over connections of our own.

    Raises:
        InvalidFormat: redis-py refuses the URL or an option.
    """
    known = without_retries(options, RedisRetry(NoBackoff(), 0))
    pool = checked_pool(url, lambda: redis.Redis.from_url(url, **known).connection_pool)
    # Who sets a limit wants the threads to share; without one each may keep its connection.
    limited = "max_connections" in options or "max_connections=" in url
    return PoolCaller(Pooled(pool, owned=True) if limited else PerThread(pool), retry_deadline)


def checked_pool(url: str, make: Callable[[], Any]) -> Any:
    """
    The pool that ``make`` makes, if it can make connections; none is opened yet.

    Raises:
        InvalidFormat: redis-py refuses the URL, or an option of it or beside it.
    """
    wrong: InvalidFormat
    try:
        pool = make()
        pool.connection_class(**pool.connection_kwargs)
    except ValueError:
        rule = f"The port, the database or an option is not what it must be; {_ENCODED}"
        wrong = bad_url(url, rule)
    except TypeError as error:
        refused = str(error).partition(" got ")[2]
        wrong = InvalidFormat("options", hint=f"redis-py does not take these options: {refused}.")
    else:
        return pool
    raise wrong  # as above


def without_retries(options: dict[str, Any], retry: object) -> dict[str, Any]:
    """Options of redis-py for connections of our own; what the caller gives goes first."""
    return {"retry": retry, "socket_timeout": 5.0, "socket_connect_timeout": 5.0, **options}


def bad_url(url: str, rule: str) -> InvalidFormat:
    """The error for a URL; whatever may be part of a password is not shown."""
    shown = _without_secrets(url)
    return InvalidFormat(
        "url",
        value=shown,
        hint=f"{rule} User, password and options left out, it is {shown!r}.",
    )


def _without_secrets(url: str) -> str:
    """Scheme, host, port and database, as far as they are such; stars for all else."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "***"
    before, _, place = rest.rpartition("@")
    if "?" in before or "#" in before:  # in an option or in a password: nobody can tell
        return f"{scheme}://***"
    place = place.partition("?")[0]
    if scheme == "unix":
        return f"{scheme}://{place}"
    address, slash, database = place.partition("/")
    host, colon, port = address.rpartition(":") if ":" in address else (address, "", "")
    shown = host if _HOST.fullmatch(host) else "***"
    shown += colon + (port if port.isdecimal() else "***") if colon else ""
    return f"{scheme}://{shown}{slash}{database if _DATABASE.fullmatch(database) else '***'}"


def transaction(operation: Operation[Any]) -> list[tuple[bytes, ...]]:
    """
    The commands of an operation that goes in one MULTI.

    The script goes with its text: EVALSHA of one that the server has forgotten would fail alone.
    """
    count = b"%d" % len(operation.keys)
    call = (b"EVAL", operation.script.source, count, *operation.keys, *operation.args)
    return [(b"MULTI",), *(operation.before or ()), call, (b"EXEC",)]


def last_of(replies: list[Any]) -> Any:
    """
    What the script of a transaction answered.

    Raises:
        ResponseError: the first error of all.
    """
    if len(replies) > 1 and isinstance(replies[-1], list):
        replies = replies[-1]
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies[-1]


def _transact(connection: Any, operation: Operation[Any]) -> Any:
    commands = transaction(operation)
    connection.send_packed_command(connection.pack_commands(commands))
    replies = []
    for _ in commands:
        try:
            replies.append(connection.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
    return last_of(replies)


def _call(connection: Any, operation: Operation[Any]) -> Any:
    if operation.before is not None:
        return _transact(connection, operation)
    # An interrupted receive reads on, so an interruption alone must not close the connection.
    close_on_error = operation.give_back is None
    connection.send_packed_command(operation.packed or _packed(operation))
    try:
        return connection.read_response(disable_decoding=True, disconnect_on_error=close_on_error)
    except NoScriptError:
        # Nothing ran. EVAL runs the text, and makes it known for the next time.
        source, count = operation.script.source, b"%d" % len(operation.keys)
        connection.send_command(b"EVAL", source, count, *operation.keys, *operation.args)
        return connection.read_response(disable_decoding=True, disconnect_on_error=close_on_error)


def _packed(operation: Operation[Any]) -> Iterable[bytes]:
    count = b"%d" % len(operation.keys)
    packed = pack((b"EVALSHA", operation.script.sha1, count, *operation.keys, *operation.args))
    if packed.__class__ is tuple:
        operation.packed = packed
    return packed


def _give_back(connection: Any, operation: Operation[Any], reply: Any) -> bool:
    """
    Undo a receive that was interrupted, as by Ctrl-C; True if the connection is still usable.

    The interruption stands in any case: what fails here fails silently, and the message comes
    back with its visibility timeout.
    """
    try:
        if reply is _NOT_ANSWERED:
            if not connection.can_read(timeout=LAST_WORD):
                return False
            reply = connection.read_response(disable_decoding=True)
        undo = operation.give_back and operation.give_back(operation.parse(reply))
        if undo:
            _call(connection, undo)
    except (RedisError, RSMQError):
        return False
    return True
