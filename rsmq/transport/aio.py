"""
Runs an operation on Redis, for the asyncio client; the twin of ``sync.py``.
"""

from __future__ import annotations

import asyncio
import select
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry as RedisRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError

from rsmq.errors import ClientClosed, InvalidFormat, RSMQError
from rsmq.operations.operation import Operation, Retry
from rsmq.transport.multiplexed import NotSent, Pipeline, Request, State
from rsmq.transport.retry import Attempts, Failure, classify, code_of, explain
from rsmq.transport.sync import (
    LAST_WORD,
    checked_pool,
    last_of,
    require_hash_tag,
    transaction,
    without_retries,
)
from rsmq.wire.keys import Namespace

T = TypeVar("T")


class AsyncCaller(Protocol):
    """Runs operations on one server."""

    async def run(self, operation: Operation[T]) -> T:
        """Send the operation, and return what its reply means."""

    async def close(self) -> None:
        """Close the connections that this object opened."""

    def watched_pool(self) -> Any:
        """Where a connection that tracks keys can be made; None if nowhere."""


class _RetryingCaller(ABC):
    """What the callers of single servers have in common."""

    def __init__(self, retry_deadline: float) -> None:
        self._retry_deadline = retry_deadline

    @abstractmethod
    async def _attempt(
        self, operation: Operation[Any], persistent: _Persistent, *, check: bool
    ) -> Any:
        """The reply; an operation that gives back has done so if this raises a cancellation."""

    def run(self, operation: Operation[T]) -> Coroutine[Any, Any, T]:
        if operation.otherwise is None:
            return self._run(operation)
        return self._run_or_otherwise(operation, operation.otherwise)

    async def _run_or_otherwise(self, operation: Operation[T], otherwise: Operation[T]) -> T:
        try:
            return await self._run(operation)
        except ResponseError as error:
            if code_of(error) != "NOPERM":
                raise
        return await self._run(otherwise)

    async def _run(self, operation: Operation[T]) -> T:
        attempts = None
        # See the synchronous twin.
        check = operation.retry is not Retry.ALWAYS or operation.settle is not None
        persistent = _Persistent()
        while True:
            persistent.sent = False
            try:
                reply = await self._attempt(operation, persistent, check=check)
            except (RedisError, OSError) as error:
                if persistent.cancelled is not None:
                    raise persistent.cancelled from None
                attempts = attempts or Attempts(operation.retry, self._retry_deadline)
                pause = attempts.pause(error, sent=persistent.sent)
                if pause is None:
                    ours = explain(error, operation.queues)
                    if ours is not None:
                        raise ours from None
                    attempts.note(error)
                    raise
                await asyncio.sleep(pause)
            else:
                persistent.look_for_what_was_swallowed()
                if persistent.cancelled is not None:
                    # It came after the reply, while the connection went back to its pool.
                    await self._undo(operation, reply)
                    raise persistent.cancelled
                if attempts and attempts.ambiguous and operation.settle:
                    return operation.settle(reply)
                return operation.parse(reply)

    async def _undo(self, operation: Operation[T], reply: Any) -> None:
        undo = operation.give_back and operation.give_back(operation.parse(reply))
        if undo:
            with suppress(RedisError, OSError, RSMQError):
                await self.run(undo)


class AsyncOwnCaller(_RetryingCaller):
    """
    Runs operations over connections of our own: one an event loop, which all calls share.

    It is made when first needed: a connection belongs to the loop that it began in.
    """

    def __init__(self, pool: Any, retry_deadline: float) -> None:
        super().__init__(retry_deadline)
        self._pool = pool
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self._closed = False

    def watched_pool(self) -> Any:
        return self._pool

    async def close(self) -> None:
        """
        Close the connection of each loop, at the latest after LAST_WORD seconds.

        Calls under way may end before that. The others raise ClientClosed; they may have run.
        """
        self._closed = True
        running = asyncio.get_running_loop()
        for loop in list(self._lines):  # one step, for loops of other threads come meanwhile
            line = self._lines.pop(loop, None)
            if line is not None and loop is running:
                await line.close()
            elif line is not None:
                with suppress(RuntimeError):  # that loop is closed, and its connection with it
                    loop.call_soon_threadsafe(line.end)

    async def _attempt(
        self, operation: Operation[Any], persistent: _Persistent, *, check: bool
    ) -> Any:
        line = self._lines.get(asyncio.get_running_loop())
        pipeline = await (line or self._new_line()).get(check=check)
        pipeline.calls += 1
        persistent.sent = True
        try:
            if operation.give_back is None:
                return await _call_over(pipeline, operation, Request.wait)
            return await _call_or_give_back(
                operation, persistent, lambda each: _call_over(pipeline, each, persistent.wait)
            )
        except NotSent:
            persistent.sent = False
            raise
        except ResponseError as error:
            # A server that refuses all, as one that was demoted, is looked up anew.
            if classify(error, sent=True) is Failure.NOTHING_RAN:
                pipeline.retire()
            raise
        finally:
            pipeline.calls -= 1
            if pipeline.state is not State.OPEN:
                pipeline.close_if_unused()

    def _new_line(self) -> _Line:
        if self._closed:
            raise ClientClosed
        for other in list(self._lines):
            if other.is_closed():
                self._lines.pop(other, None)
        return self._lines.setdefault(asyncio.get_running_loop(), _Line(self._pool))


class _Line:
    """The connection of one event loop, made again when it has failed."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._pipeline: Pipeline | None = None
        #: Those that are not closed: the one above, and those that were retired.
        self._pipelines: set[Pipeline] = set()
        self._opening: asyncio.Task[None] | None = None
        self._ended = False

    async def get(self, *, check: bool) -> Pipeline:
        """
        Return the connection; if asked, one that was idle is looked at before.

        Raises:
            ClientClosed: it was closed for good.
        """
        while not self._ended:
            pipeline = self._pipeline
            if pipeline is not None and pipeline.state is State.OPEN:
                if not (check and pipeline.idle and _readable(pipeline.socket)):
                    return pipeline
                pipeline.close()
            opening = self._opening
            if opening is None:
                opening = self._opening = asyncio.ensure_future(self._open())
                opening.add_done_callback(_retrieve)  # all calls that wait may be cancelled
            await asyncio.wait((opening,))
            if opening.cancelled():
                if not self._ended:  # as by a program that cancels all tasks
                    raise RedisConnectionError("Connecting was cancelled.")
            elif (error := opening.exception()) is not None:
                if not isinstance(error, (RedisError, OSError)):
                    raise error
                # Each call that waits for it gets an error of its own.
                raise type(error)(*error.args) from error
        raise ClientClosed

    async def _open(self) -> None:
        connection = self._pool.connection_class(**self._pool.connection_kwargs)
        try:
            await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        else:
            if self._ended:  # redis-py may swallow a cancellation that comes as it connects
                await connection.disconnect(nowait=True)
                return
            self._pipelines = {each for each in self._pipelines if each.state is not State.CLOSED}
            self._pipeline = Pipeline(connection)
            self._pipelines.add(self._pipeline)
        finally:
            self._opening = None

    def end(self) -> None:
        """Close the connection for good: when its calls have ended, or soon."""
        self._ended = True
        if self._opening is not None:
            self._opening.cancel()
        for pipeline in self._pipelines:
            pipeline.retire()
            asyncio.get_running_loop().call_later(LAST_WORD, pipeline.close, ClientClosed())

    async def close(self) -> None:
        """End it, and wait until no connection is left."""
        opening = self._opening
        self.end()
        if opening is not None:
            await asyncio.wait((opening,))
        for pipeline in self._pipelines:
            await pipeline.wait_closed(2 * LAST_WORD)


class AsyncPoolCaller(_RetryingCaller):
    """Runs operations over connections of a pool that somebody else made, one a call."""

    def __init__(self, pool: Any, retry_deadline: float) -> None:
        super().__init__(retry_deadline)
        self._pool = pool

    async def close(self) -> None:
        """Nothing: whoever made the pool closes it."""

    def watched_pool(self) -> Any:
        return self._pool

    async def _attempt(
        self, operation: Operation[Any], persistent: _Persistent, *, check: bool
    ) -> Any:
        pool = self._pool
        connection = await pool.get_connection()
        if check and _has_data(connection):
            await _give_up(pool, connection)
            connection = await pool.get_connection()
        persistent.sent = True
        usable = False
        try:
            if operation.give_back is None:
                reply = await _call(connection, operation)
            else:
                reply = await _call_or_give_back(
                    operation,
                    persistent,
                    lambda each: _call(connection, each, persistent.send, persistent.read),
                )
            usable = True
        except ResponseError as error:
            # As above.
            usable = classify(error, sent=True) is not Failure.NOTHING_RAN
            raise
        except asyncio.CancelledError:
            usable = persistent.done
            raise
        finally:
            if not usable:
                await _give_up(pool, connection)
            elif operation.give_back is None:
                await pool.release(connection)
            else:
                # Cancelled while it waits for the pool's lock, it would lose what was received.
                await persistent.finish(lambda: pool.release(connection))
        return reply


class AsyncClusterCaller:
    """Runs operations on a Redis Cluster; redis-py finds the nodes, and repeats by its rules."""

    def __init__(self, client: RedisCluster) -> None:
        self._client: Any = client

    async def run(self, operation: Operation[T]) -> T:
        if operation.otherwise:
            return await self.run(operation.otherwise)
        try:
            if operation.give_back is None:
                reply = await self._execute(operation)
            else:
                persistent = _Persistent()
                reply = await _call_or_give_back(
                    operation,
                    persistent,
                    lambda each: persistent.finish_task(self._execute(each)),
                )
        except ResponseError as error:
            ours = explain(error, operation.queues)
            if ours is not None:
                raise ours from None
            raise
        return operation.parse(reply)

    async def close(self) -> None:
        """Nothing: whoever made the client closes it."""

    def watched_pool(self) -> Any:
        """None: which node has the keys may change while somebody waits."""

    async def _execute(self, operation: Operation[Any]) -> Any:
        script, rest = operation.script, (*operation.keys, *operation.args)
        count = len(operation.keys)
        try:
            return await self._client.execute_command(
                "EVALSHA", script.sha1, count, *rest, NEVER_DECODE=True
            )
        except NoScriptError:
            return await self._client.execute_command(
                "EVAL", script.source, count, *rest, NEVER_DECODE=True
            )


def async_caller_of(client: object, namespace: Namespace, retry_deadline: float) -> AsyncCaller:
    """
    The way to run operations over a client that somebody else made and will close.

    Raises:
        InvalidFormat: it is not an asyncio client of redis-py, or it is one of a Redis Cluster
            and the namespace has no hash tag.
    """
    if isinstance(client, RedisCluster):
        require_hash_tag(namespace)
        return AsyncClusterCaller(client)
    if isinstance(client, redis.asyncio.Redis) and not isinstance(
        client, redis.asyncio.client.Pipeline
    ):
        return AsyncPoolCaller(client.connection_pool, retry_deadline)
    raise InvalidFormat(
        "client",
        value=type(client).__name__,
        hint="AsyncRSMQ takes a redis.asyncio.Redis or redis.asyncio.RedisCluster, not "
        f"{type(client).__name__}; RSMQ takes the clients of redis.",
    )


def open_async_caller(url: str, retry_deadline: float, options: dict[str, Any]) -> AsyncCaller:
    """
    The way to run operations over connections of our own.

    Raises:
        InvalidFormat: redis-py refuses the URL or an option.
    """
    known = without_retries(options, RedisRetry(NoBackoff(), 0))

    pool = checked_pool(url, lambda: redis.asyncio.Redis.from_url(url, **known).connection_pool)
    return AsyncOwnCaller(pool, retry_deadline)


async def _give_up(pool: Any, connection: Any) -> None:
    """Close a connection that is of no more use, and tell the pool."""
    await connection.disconnect(nowait=True)
    await pool.release(connection)


def _has_data(connection: Any) -> bool:
    """
    Whether an idle connection is of no more use: closed by the server, or out of step.

    The pool knows only what the event loop has read so far; the socket may know more.
    """
    info = getattr(getattr(connection, "_writer", None), "get_extra_info", None)
    return _readable(info("socket") if info is not None else None)


def _readable(socket: Any) -> bool:
    if socket is None:
        return False
    if not hasattr(select, "poll"):
        return bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


async def _send(connection: Any, *command: Any) -> None:
    await connection.send_command(*command)


async def _read(connection: Any) -> Any:
    # Reading can be taken up again after a cancellation, if the connection stays open.
    return await connection.read_response(disable_decoding=True, disconnect_on_error=False)


async def _call_over(
    pipeline: Pipeline,
    operation: Operation[Any],
    wait: Callable[[Request], Awaitable[list[Any]]],
) -> Any:
    script, count = operation.script, b"%d" % len(operation.keys)
    if operation.before is not None:
        return last_of(await wait(pipeline.send(transaction(operation))))
    rest = (count, *operation.keys, *operation.args)
    replies = await wait(pipeline.send(((b"EVALSHA", script.sha1, *rest),)))
    if isinstance(replies[0], NoScriptError):
        # Nothing ran. EVAL runs the text, and makes it known for the next time.
        replies = await wait(pipeline.send(((b"EVAL", script.source, *rest),)))
    return last_of(replies)


async def _transact(connection: Any, operation: Operation[Any]) -> Any:
    commands = transaction(operation)
    await connection.send_packed_command(connection.pack_commands(commands))
    replies = []
    for _ in commands:
        try:
            replies.append(await connection.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
    return last_of(replies)


async def _call(
    connection: Any,
    operation: Operation[Any],
    send: Callable[..., Awaitable[None]] = _send,
    read: Callable[[Any], Awaitable[Any]] = _read,
) -> Any:
    if operation.before is not None:
        return await _transact(connection, operation)
    script = operation.script
    count = len(operation.keys)
    await send(connection, "EVALSHA", script.sha1, count, *operation.keys, *operation.args)
    try:
        return await read(connection)
    except NoScriptError:
        # Nothing ran. EVAL runs the text, and makes it known for the next time.
        await send(connection, "EVAL", script.source, count, *operation.keys, *operation.args)
        return await read(connection)


class _Persistent:
    """
    Goes on through cancellations, for at most LAST_WORD seconds after the first.

    Attributes:
        cancelled: the last cancellation, None if there was none.
        sent: True once any part of a command may have been on its way.
        done: True once all that was sent has been answered in spite of it.
    """

    def __init__(self) -> None:
        self.cancelled: asyncio.CancelledError | None = None
        self.sent = False
        self.done = False
        self._until = 0.0
        self._task = asyncio.current_task()
        self._requests = self._task.cancelling() if self._task else 0

    def note(self, cancelled: asyncio.CancelledError) -> None:
        """Begin to count the time, if this is the first cancellation."""
        if self.cancelled is None:
            self._until = asyncio.get_running_loop().time() + LAST_WORD
        self.cancelled = cancelled

    def look_for_what_was_swallowed(self) -> None:
        """
        Note a cancellation that was asked for during the call and that nobody has seen.

        On Python 3.11 asyncio.wait_for, by which redis-py sends, returns instead of raising if
        what it waits for is done in the same moment.
        """
        if self.cancelled is None and self._task and self._task.cancelling() > self._requests:
            self.note(asyncio.CancelledError())

    async def send(self, connection: Any, *command: Any) -> None:
        # redis-py closes a connection whose send is cancelled, with the command on its way.
        await self.finish_task(connection.send_command(*command))

    async def read(self, connection: Any) -> Any:
        return await self.finish(lambda: _read(connection))

    async def wait(self, request: Request) -> list[Any]:
        return await self.finish(request.wait)

    async def finish_task(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that must not be cancelled itself."""
        task = asyncio.ensure_future(coroutine)
        # Where the time is over, nobody waits for it any more.
        task.add_done_callback(_retrieve)

        async def wait() -> T:
            await asyncio.wait((task,))  # unlike shield, it leaves the task as it is
            return task.result()

        return await self.finish(wait)

    async def finish(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of a step that can be taken up again after a cancellation."""
        while True:
            try:
                if self.cancelled is None:
                    return await step()
                async with asyncio.timeout_at(self._until):
                    return await step()
            except asyncio.CancelledError as cancelled:
                self.note(cancelled)
                if asyncio.get_running_loop().time() >= self._until:
                    raise


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Look at what a task raised, so that the event loop does not report it as unseen."""
    if not task.cancelled():
        task.exception()


async def _call_or_give_back(
    operation: Operation[Any],
    persistent: _Persistent,
    call: Callable[[Operation[Any]], Awaitable[Any]],
) -> Any:
    """
    Call; if cancelled meanwhile, undo what was done before the cancellation goes on.

    The cancellation stands in any case: if the undoing fails, the message comes back with its
    visibility timeout.
    """
    try:
        reply = await call(operation)
        persistent.look_for_what_was_swallowed()
        if persistent.cancelled is None:
            return reply
        undo = operation.give_back and operation.give_back(operation.parse(reply))
        if undo:
            await call(undo)
        persistent.done = True
    except (RedisError, OSError, RSMQError):
        if persistent.cancelled is None:
            raise
    raise persistent.cancelled
