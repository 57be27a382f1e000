"""
An operation: an atomic script, or plain commands, with keys, arguments and a retry class.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from rsmq.operations.confirmation import Confirm
from rsmq.operations.scripts import Script
from rsmq.operations.time_limit import TimeLimit
from rsmq.wire.keys import QueueKeys

T = TypeVar("T")

#: The words of a command; or, in a list, the bytes in which it is sent, one dimension in each.
Command: TypeAlias = tuple[bytes, ...] | list[bytes | memoryview]


class RetryClass(Enum):
    """
    How often an operation may be sent again after an ambiguous failure.

    A failure is ambiguous if the connection broke after the command was sent: the command may or
    may not have run.
    """

    ALWAYS = "always"  # a second run changes nothing more
    ONCE = "once"  # a second run costs something, but loses nothing
    NEVER = "never"  # a second run would store twice or lose


@dataclass(slots=True, eq=False)  # not frozen: made for every call, it takes half the time
class Operation(Generic[T]):
    """
    A call of an atomic script, or some plain commands, ready to be sent.

    Attributes:
        script: the script; NO_SCRIPT for plain commands.
        keys: its keys. The first one decides which server runs the operation.
        parse: converts the reply (bytes and integers) to the result. That of plain commands is the
            list of their replies.
        retry: how often it may be sent again after an ambiguous failure.
        queues: the names of the queues that an error names.
        parse_retried: replaces ``parse`` if an earlier attempt may already have run.
        undo: returns the operation that undoes a result which the caller will not get.
        commands: the plain commands, if there is no script; else those to send before the script in
            the same MULTI. None sends the script without MULTI.
        fallback: the operation to run instead if MULTI is not permitted or not supported.
        confirmation: the copies to wait for after the script; None waits for none.
        packed: the encoded command of an operation that is run many times; set by the package
            ``transport``.
        retry_deadline: seconds for retries; None is the deadline of the client.
        limit: the time limit of the call; it replaces the deadline of the client.
        after_lost_reply: called after each ambiguous failure, with the error and whether there is a
            further attempt; returns the operation of that attempt.
        rebuild: builds the same receive again, for as many messages as lost replies allow now; None
            if it never changes.
        large_body: the bytes of the largest body, if there may be servers that do not accept it;
            else 0.
        reply_timeout: seconds to wait for the reply, instead of the timeout of the connection; for
            commands that block, or that take long.
    """

    script: Script
    keys: tuple[bytes, ...]
    args: tuple[bytes, ...]
    parse: Callable[[Any], T]
    retry: RetryClass
    queues: tuple[str, ...] = ()
    parse_retried: Callable[[Any], T] | None = None
    undo: Callable[[T], Operation[Any] | None] | None = None
    commands: tuple[Command, ...] | None = None
    fallback: Operation[T] | None = None
    confirmation: Confirm | None = None
    packed: tuple[bytes, ...] | None = None
    retry_deadline: float | None = None
    limit: TimeLimit | None = None
    after_lost_reply: Callable[[Exception, bool], Operation[T]] | None = None
    rebuild: Callable[[], Operation[T]] | None = None
    large_body: int = 0
    reply_timeout: float | None = None


def on_keys(
    script: Script, keys: tuple[bytes, ...], args: tuple[bytes, ...], parse: Callable[[Any], T]
) -> Operation[T]:
    """Return an operation of the class ALWAYS, whose errors name no queue."""
    return Operation(script, keys, args, parse, RetryClass.ALWAYS)


def on_queue(
    queue: QueueKeys,
    script: Script,
    keys: tuple[bytes, ...],
    args: tuple[bytes, ...],
    parse: Callable[[Any], T],
) -> Operation[T]:
    """Return an operation on a queue, which its errors name, of the class ALWAYS."""
    return Operation(script, keys, args, parse, RetryClass.ALWAYS, (queue.name,))


def allow_for_reply(operation: Operation[T], seconds: float) -> Operation[T]:
    """Return an operation with this time for its reply, unless it has a time of its own."""
    if operation.reply_timeout is not None or operation.limit is not None:
        return operation
    return replace(operation, reply_timeout=seconds)


#: A call of several steps: yields operations, receives their results, returns its own.
Steps: TypeAlias = Generator[Operation[Any], Any, T]
