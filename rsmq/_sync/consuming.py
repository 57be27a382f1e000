# Generated from rsmq/waiting/consuming.py by scripts/generate-sync. Do not edit.
"""
The context managers of the synchronous client: ``consume`` and ``processing``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias

from redis.exceptions import RedisError

from rsmq.codecs.type_variables import B_co
from rsmq.errors import QueueNotFound, RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.errors.misuse import OnlyWith

if TYPE_CHECKING:
    from rsmq.model import Message
    from rsmq.operations.batches import LeasedMessages

    Release: TypeAlias = Callable[[list[Message]], Any]

_log = get_logger("rsmq.consuming")


class Consumer(OnlyWith, Generic[B_co]):
    """
    The messages of one queue or several, received when they are asked for: see ``consume``.

    Only one thread may use it at a time.
    """

    def __init__(
        self,
        receive: Callable[[], LeasedMessages],
        release: Release,
    ) -> None:
        """
        Prepare a consumer; it receives nothing before its block begins.

        Args:
            receive: receives a batch; an empty one ends the loop.
            release: releases messages.
        """
        self._receive = receive
        self._release = release
        self._prefetched: deque[Message[B_co]] = deque()
        self._lease_ends: dict[str, float] = {}
        self._is_open = False

    def __enter__(self) -> Self:
        self._is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        messages = list(self._prefetched)
        self._prefetched.clear()
        while messages:
            try:
                self._release(messages)
            except QueueNotFound as missing:
                # The queue was deleted; then the call releases nothing, in no queue.
                messages = [each for each in messages if each.queue != missing.value]
            except (RedisError, RSMQError):
                return  # the messages become visible when their visibility timeout ends
            else:
                return

    def __iter__(self) -> Self:
        if not self._is_open:
            raise TypeError(
                "consume() receives only inside its block: "
                "with queues.consume(...) as messages: for message in messages"
            )
        return self

    def __next__(self) -> Message[B_co]:
        self.__iter__()
        while self._prefetched:
            message = self._prefetched.popleft()
            if monotonic() < self._lease_ends[message.queue]:
                return message
        received = self._receive()
        if not received:
            raise StopIteration
        # The first message is returned even if its visibility timeout is 0, as by receive_message.
        self._prefetched.extend(received)
        self._lease_ends = received.lease_ends
        return self._prefetched.popleft()


class Processing(OnlyWith, Generic[B_co]):
    """A block that processes a message, and then deletes or releases it: see ``processing``."""

    def __init__(
        self,
        message: Message[B_co],
        delete: Callable[[], bool],
        release: Release,
    ) -> None:
        """
        Prepare a block; it changes nothing before its end.

        Args:
            message: a received message.
            delete: deletes it; False if it was received again since.
            release: releases messages.
        """
        self._message = message
        self._delete = delete
        self._release = release

    def __enter__(self) -> Message[B_co]:
        return self._message

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(RedisError, RSMQError):  # the exception of the block is more important
                self._release([self._message])
        elif not self._delete():
            _log.warning(
                "queue %s: message %s was not deleted after its processing: it was received again "
                "since, because its visibility timeout had ended. Use a longer vt, or extend it "
                "with change_message_visibility",
                self._message.queue,
                self._message.id,
            )
