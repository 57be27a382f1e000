"""
The asyncio client, ``AsyncRSMQ``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from redis.exceptions import RedisError

from rsmq.codecs import TEXT, Codec, check_codec
from rsmq.errors import ClientClosed, RSMQError
from rsmq.operations import batches, dead_letters, inspection, messages, queues, recovery, sending
from rsmq.operations.batches import ReceiveInSteps
from rsmq.operations.operation import Operation
from rsmq.transport.aio import AsyncCaller, async_caller_of, open_async_caller
from rsmq.transport.retry import DEFAULT_RETRY_DEADLINE, check_deadline
from rsmq.transport.url import MEMORY, check_url
from rsmq.waiting.aio import AsyncWatcher
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

    import redis.asyncio
    from redis.asyncio.cluster import RedisCluster

    from rsmq.model import Message, MessageCounts, QueueAttributes, State, StoredMessage
    from rsmq.operations.operation import Steps

T = TypeVar("T")


class AsyncRSMQ:
    """
    An asyncio client of RSMQ queues: the twin of ``RSMQ``, with the same methods, awaited.

    What ``RSMQ`` says of atomicity, retries and errors holds here. A client from from_url may be
    used in several event loops, also one after the other, and has one connection in each, which
    all calls share: those that run at the same time go out together. One that was handed in is
    used in the loop that its connections belong to, and takes one of them for each call.

    Cancellation: a receive that is cancelled, at any point, gives its messages back before the
    cancellation goes on, which takes at most a second. Any other call that is cancelled under way
    may have run, or not.

    Closing: close() gives the calls under way a second. Those that have not ended by then raise
    ClientClosed, and may have run; so does every later call.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis | RedisCluster,
        *,
        ns: str = DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float = DEFAULT_RETRY_DEADLINE,
    ) -> None:
        """Async twin of ``RSMQ``."""
        self._settle(ns, codec, realtime=realtime, strict_names=strict_names)
        deadline = check_deadline(retry_deadline)
        self._caller: AsyncCaller = async_caller_of(client, self._namespace, deadline)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        ns: str = DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float = DEFAULT_RETRY_DEADLINE,
        **options: Any,
    ) -> Self:
        """Async twin of ``RSMQ.from_url``."""
        self = cls.__new__(cls)
        self._settle(ns, codec, realtime=realtime, strict_names=strict_names)
        deadline = check_deadline(retry_deadline)
        if check_url(url).startswith(MEMORY):
            from rsmq.transport import memory  # noqa: PLC0415 - needs an extra

            self._caller = async_caller_of(memory.async_client(url), self._namespace, deadline)
        else:
            self._caller = open_async_caller(url, deadline, options)
        return self

    def _settle(self, ns: str, codec: Codec, *, realtime: bool, strict_names: bool) -> None:
        self._namespace = Namespace(ns, strict_names)
        self._codec = check_codec(codec)
        self._realtime = realtime
        self._closed = False
        self._watchers: dict[asyncio.AbstractEventLoop, AsyncWatcher] = {}

    def _codec_for(self, codec: Codec | None) -> Codec:
        return self._codec if codec is None else check_codec(codec)

    async def run(self, operation: Operation[T]) -> T:
        """Async twin of ``RSMQ.run``."""
        if self._closed:
            raise ClientClosed
        return await self._caller.run(operation)

    async def run_steps(self, steps: Steps[T]) -> T:
        """Async twin of ``RSMQ.run_steps``."""
        result: Any = None
        operation = next(steps)
        while True:
            try:
                result = await self.run(operation)
                operation, result = steps.send(result), None
            except StopIteration as end:
                result_of_all: T = end.value
                return result_of_all
            except BaseException as error:  # noqa: BLE001 - the steps raise it, or undo first
                if result and operation.give_back:  # they have not been told of this one
                    await self._undo(operation, result)
                try:
                    operation, result = steps.throw(error), None
                except StopIteration as end:
                    result_in_spite_of_it: T = end.value
                    return result_in_spite_of_it

    async def _receive(self, receive: Operation[T] | ReceiveInSteps, wait: float | None) -> T:
        seconds = check_wait(wait)
        found: T
        if isinstance(receive, ReceiveInSteps):
            steps: Any = receive.steps()
            found = await self.run_steps(steps)
        else:
            found = await self.run(receive)
        if found or seconds == 0:
            return found
        return await self.watcher.wait(
            lambda: self._receive(receive, 0), found, receive.keys[1::2], seconds
        )

    async def _undo(self, operation: Operation[T] | ReceiveInSteps, received: Any) -> None:
        undo = operation.give_back and operation.give_back(received)
        if undo:
            with suppress(RedisError, RSMQError):
                await self.run(undo)

    @property
    def namespace(self) -> Namespace:
        """The namespace, for builders of ``rsmq.operations``."""
        return self._namespace

    @property
    def codec(self) -> Codec:
        """How bodies become bytes where a call says nothing else."""
        return self._codec

    @property
    def watcher(self) -> AsyncWatcher:
        """What tells the running loop of messages; for the floors above."""
        if self._closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        watcher = self._watchers.get(loop)
        if watcher is None:
            for other in list(self._watchers):
                if other.is_closed():
                    self._watchers.pop(other, None)
            watcher = AsyncWatcher(self._caller.watched_pool(), self._namespace)
            self._watchers[loop] = watcher
        return watcher

    async def create_queue(
        self,
        qname: str,
        *,
        vt: float = DEFAULT_VT,
        delay: float = DEFAULT_DELAY,
        maxsize: int = DEFAULT_MAXSIZE,
        exist_ok: bool = False,
    ) -> bool:
        """Async twin of ``RSMQ.create_queue``."""
        return await self.run(
            queues.create_queue(
                self._namespace, qname, vt=vt, delay=delay, maxsize=maxsize, exist_ok=exist_ok
            )
        )

    async def delete_queue(self, qname: str) -> None:
        """Async twin of ``RSMQ.delete_queue``."""
        return await self.run(queues.delete_queue(self._namespace, qname))

    async def list_queues(self) -> list[str]:
        """Async twin of ``RSMQ.list_queues``."""
        return await self.run(queues.list_queues(self._namespace))

    async def get_queue_attributes(self, qname: str) -> QueueAttributes:
        """Async twin of ``RSMQ.get_queue_attributes``."""
        return await self.run(queues.get_queue_attributes(self._namespace, qname))

    async def set_queue_attributes(
        self,
        qname: str,
        *,
        vt: float | None = None,
        delay: float | None = None,
        maxsize: int | None = None,
    ) -> QueueAttributes:
        """Async twin of ``RSMQ.set_queue_attributes``."""
        return await self.run(
            queues.set_queue_attributes(self._namespace, qname, vt=vt, delay=delay, maxsize=maxsize)
        )

    async def pause_queue(self, qname: str) -> bool:
        """Async twin of ``RSMQ.pause_queue``."""
        return await self.run(queues.pause_queue(self._namespace, qname, pause=True))

    async def resume_queue(self, qname: str) -> bool:
        """Async twin of ``RSMQ.resume_queue``."""
        return await self.run(queues.pause_queue(self._namespace, qname, pause=False))

    async def purge_queue(self, qname: str) -> int:
        """Async twin of ``RSMQ.purge_queue``."""
        return await self.run(queues.purge_queue(self._namespace, qname))

    async def send_message(
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
        """Async twin of ``RSMQ.send_message``."""
        return await self.run(
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

    async def send_messages(
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
        """Async twin of ``RSMQ.send_messages``."""
        return await self.run_steps(
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

    async def publish(
        self,
        qnames: Iterable[str],
        body: Any,
        *,
        delay: float | None = None,
        codec: Codec | None = None,
    ) -> dict[str, str]:
        """Async twin of ``RSMQ.publish``."""
        return await self.run(
            sending.publish(
                self._namespace,
                qnames,
                body,
                delay=delay,
                codec=self._codec_for(codec),
                realtime=self._realtime,
            )
        )

    async def receive_message(
        self,
        qname: str,
        *,
        vt: float | None = None,
        wait: float | None = 0,
        codec: Codec | None = None,
    ) -> Message | None:
        """Async twin of ``RSMQ.receive_message``."""
        return await self._receive(
            messages.receive_message(self._namespace, qname, vt=vt, codec=self._codec_for(codec)),
            wait,
        )

    async def receive_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        vt: float | None = None,
        wait: float | None = 0,
        codec: Codec | None = None,
    ) -> list[Message]:
        """Async twin of ``RSMQ.receive_messages``."""
        return await self._receive(
            batches.receive_messages(
                self._namespace, qnames, max_messages, vt=vt, codec=self._codec_for(codec)
            ),
            wait,
        )

    async def pop_message(
        self, qname: str, *, wait: float | None = 0, codec: Codec | None = None
    ) -> Message | None:
        """Async twin of ``RSMQ.pop_message``."""
        return await self._receive(
            messages.pop_message(self._namespace, qname, codec=self._codec_for(codec)), wait
        )

    async def pop_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        wait: float | None = 0,
        codec: Codec | None = None,
    ) -> list[Message]:
        """Async twin of ``RSMQ.pop_messages``."""
        return await self._receive(
            batches.pop_messages(
                self._namespace, qnames, max_messages, codec=self._codec_for(codec)
            ),
            wait,
        )

    @overload
    async def delete_message(self, message: Message, /) -> bool: ...
    @overload
    async def delete_message(self, qname: str, /, id: str) -> bool: ...
    async def delete_message(self, message: Message | str, /, id: str | None = None) -> bool:
        """Async twin of ``RSMQ.delete_message``."""
        return await self.run(messages.delete_message(self._namespace, message, id))

    @overload
    async def change_message_visibility(self, message: Message, vt: float, /) -> bool: ...
    @overload
    async def change_message_visibility(self, message: Message, /, *, vt: float) -> bool: ...
    @overload
    async def change_message_visibility(self, qname: str, /, id: str, vt: float) -> bool: ...
    async def change_message_visibility(
        self, message: Message | str, /, id: Any = None, vt: float | None = None
    ) -> bool:
        """Async twin of ``RSMQ.change_message_visibility``."""
        return await self.run(messages.change_message_visibility(self._namespace, message, id, vt))

    @overload
    async def delete_messages(self, messages: Iterable[Message], /) -> list[str]: ...
    @overload
    async def delete_messages(self, qname: str, /, ids: Iterable[str]) -> list[str]: ...
    async def delete_messages(
        self, messages: Iterable[Message] | str, /, ids: Iterable[str] | None = None
    ) -> list[str]:
        """Async twin of ``RSMQ.delete_messages``."""
        return await self.run(batches.delete_messages(self._namespace, messages, ids))

    @overload
    async def change_messages_visibility(
        self, messages: Iterable[Message], vt: float, /
    ) -> list[str]: ...
    @overload
    async def change_messages_visibility(
        self, messages: Iterable[Message], /, *, vt: float
    ) -> list[str]: ...
    @overload
    async def change_messages_visibility(
        self, qname: str, /, ids: Iterable[str], vt: float
    ) -> list[str]: ...
    async def change_messages_visibility(
        self, messages: Iterable[Message] | str, /, ids: Any = None, vt: float | None = None
    ) -> list[str]:
        """Async twin of ``RSMQ.change_messages_visibility``."""
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
        """Async twin of ``RSMQ.release_messages``."""
        return await self.run(batches.release_messages(self._namespace, messages, ids))

    async def release_all_messages(self, qname: str) -> int:
        """Async twin of ``RSMQ.release_all_messages``."""
        return await self.run_steps(recovery.release_all_messages(self._namespace, qname))

    async def recover_messages(
        self,
        qname: str,
        max_messages: int,
        *,
        idle: float,
        vt: float | None = None,
        codec: Codec | None = None,
    ) -> list[Message]:
        """Async twin of ``RSMQ.recover_messages``."""
        return await self.run_steps(
            recovery.recover_messages(
                self._namespace,
                qname,
                max_messages,
                idle=idle,
                vt=vt,
                codec=self._codec_for(codec),
            )
        )

    async def get_message(
        self, qname: str, id: str, *, codec: Codec | None = None
    ) -> StoredMessage | None:
        """Async twin of ``RSMQ.get_message``."""
        return await self.run(
            messages.get_message(self._namespace, qname, id, codec=self._codec_for(codec))
        )

    async def peek_messages(
        self,
        qname: str,
        start: int = 0,
        count: int = 10,
        *,
        state: State | None = None,
        codec: Codec | None = None,
    ) -> list[StoredMessage]:
        """Async twin of ``RSMQ.peek_messages``."""
        return await self.run_steps(
            inspection.peek_messages(
                self._namespace, qname, start, count, state=state, codec=self._codec_for(codec)
            )
        )

    async def count_messages(self, qname: str) -> MessageCounts:
        """Async twin of ``RSMQ.count_messages``."""
        return await self.run_steps(inspection.count_messages(self._namespace, qname))

    async def set_dead_letter_policy(
        self, qname: str, dead_letter_queue: str | None, max_receives: int | None = None
    ) -> QueueAttributes:
        """Async twin of ``RSMQ.set_dead_letter_policy``."""
        return await self.run(
            dead_letters.set_dead_letter_policy(
                self._namespace, qname, dead_letter_queue, max_receives
            )
        )

    async def sweep_dead_letters(self, qname: str, max_messages: int = 1000) -> list[str]:
        """Async twin of ``RSMQ.sweep_dead_letters``."""
        return await self.run_steps(
            dead_letters.sweep_dead_letters(self._namespace, qname, max_messages)
        )

    async def redrive_messages(
        self,
        dead_letter_queue: str,
        destination: str | None = None,
        *,
        max_messages: int | None = None,
    ) -> list[tuple[str, str]]:
        """Async twin of ``RSMQ.redrive_messages``."""
        return await self.run_steps(
            dead_letters.redrive_messages(
                self._namespace, dead_letter_queue, destination, max_messages
            )
        )

    @overload
    async def move_messages(
        self, messages: Iterable[Message], /, destination: str
    ) -> list[str]: ...
    @overload
    async def move_messages(
        self, source: str, /, destination: str, ids: Iterable[str]
    ) -> list[str]: ...
    async def move_messages(
        self,
        messages: Iterable[Message] | str,
        /,
        destination: str,
        ids: Iterable[str] | None = None,
    ) -> list[str]:
        """Async twin of ``RSMQ.move_messages``."""
        return await self.run(
            dead_letters.move_messages(self._namespace, messages, destination, ids)
        )

    async def close(self) -> None:
        """Async twin of ``RSMQ.close``."""
        self._closed = True
        running = asyncio.get_running_loop()
        for loop, watcher in list(self._watchers.items()):
            if loop is running:
                await watcher.close()
            elif not loop.is_closed():
                asyncio.run_coroutine_threadsafe(watcher.close(), loop)
        await self._caller.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ns={self._namespace.name!r}, codec={self._codec!r})"
