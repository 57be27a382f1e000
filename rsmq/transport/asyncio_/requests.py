"""
Commands that were sent together, and their replies: of one call, or of several in a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from time import monotonic
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError

from rsmq.operations.coalescing import (
    MAX_BEGUN_BYTES,
    MAX_BYTES,
    MAX_CALLS,
    MIN_LARGE_CALLS,
    NOT_RUN,
    CallKind,
    body_bytes,
    group_of,
    has_large_body,
    is_send,
    merge_large_sends,
    sum_of_bodies,
)
from rsmq.operations.operation import Command, Operation, RetryClass, Steps
from rsmq.operations.sending import Refusal
from rsmq.transport.commands import call_commands, evalsha_command, reply_of
from rsmq.transport.packing import pack_for_joining, pack_small_call

#: The seconds for which calls are sent alone after a batch of them has failed; twice as long after
#: each further failure.
_PAUSE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 3600.0
#: If a batch had room for a smaller share of its calls, the others are sent alone: they would need
#: many batches, one after another.
_MIN_SERVED_SHARE = 0.25


class NotSent(RedisConnectionError):
    """The connection was closed before any part of the command was sent."""


class Request:
    """
    Commands that were sent together, and their replies.

    Attributes:
        commands: the commands, at least one, each of which has one reply.
        future: becomes done when all replies have arrived, or none will.
        is_cancelled: whether a cancelled future was replaced, because something waits again.
        is_done: whether all replies have arrived, or none will.
        sent_at: monotonic seconds when they were sent.
        replies: the replies that have arrived, error replies as exceptions.
    """

    #: Whether it takes no part in batches.
    is_alone = True
    #: The requests to send now instead of this one, all of whose replies have arrived.
    unfinished: Sequence[Request] = ()

    __slots__ = ("_loop", "commands", "future", "is_cancelled", "is_done", "replies", "sent_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, commands: Sequence[Command]) -> None:
        self._loop = loop
        self.commands = commands
        self.future = loop.create_future()
        self.is_cancelled = False
        self.is_done = False
        self.sent_at = monotonic()
        self.replies: list[Any] = []

    def pack(self) -> Iterable[bytes | memoryview]:
        """Return the commands as they are sent; nothing if there is nothing left to send."""
        return (piece for command in self.commands for piece in pack_for_joining(command))

    async def wait(self) -> list[Any]:
        """Wait for all replies, and return them. May be called again after a cancellation."""
        if self.future.cancelled():
            self._replace_future()
        await self.future
        return self.replies

    async def wait_shielded(self) -> list[Any]:
        """Wait as ``wait`` does, but a cancellation does not say that it need not be sent."""
        if self.future.cancelled():
            self._replace_future()
        await asyncio.shield(self.future)
        return self.replies

    def _replace_future(self) -> None:
        self.is_cancelled = True
        self.future = self._loop.create_future()
        if self.is_done:
            self.future.set_result(self.replies)

    def add_reply(self, reply: Any) -> bool:
        """Add the next reply, and return whether it was the last one."""
        self.replies.append(reply)
        self.is_done = len(self.replies) == len(self.commands)
        if self.is_done and not self.future.done():
            self.future.set_result(None)
        return self.is_done

    def fail(self, error: Exception) -> None:
        """Add an error for each reply that has not arrived: none will."""
        self.replies += [error] * (len(self.commands) - len(self.replies))
        self.is_done = True
        if not self.future.done():
            self.future.set_result(None)


class CallRequest(Request):
    """
    A single call of a script, which may be sent in a batch with others.

    Attributes:
        operation: the operation of the call.
        is_alone: whether it takes no part in batches.
    """

    __slots__ = ("is_alone", "operation")

    def __init__(self, loop: asyncio.AbstractEventLoop, operation: Operation[Any]) -> None:
        # Not by super(): every call makes one. Its command is made if it is not sent in a batch.
        self._loop = loop
        self.operation = operation
        self.future = loop.create_future()
        self.is_done = self.is_alone = self.is_cancelled = False
        self.sent_at = monotonic()
        self.replies = []

    def pack(self) -> Iterable[bytes | memoryview]:
        operation = self.operation
        return pack_small_call(operation) or pack_for_joining(evalsha_command(operation))

    def add_reply(self, reply: Any) -> bool:
        self.replies = [reply]
        self.is_done = True
        if not self.future.done():
            self.future.set_result(None)
        return True

    def fail(self, error: Exception) -> None:
        # Also after an exception in the middle of add_reply.
        self.add_reply(self.replies[0] if self.replies else error)

    def send_alone(self) -> None:
        """Take no further part in batches."""
        self.is_alone = True
        self.sent_at = monotonic()

    @property
    def is_abandoned(self) -> bool:
        """Whether its call was cancelled, and a reply would change nothing."""
        return self.future.cancelled() and self.operation.undo is None


class BatchRequest(Request):
    """
    Calls that are sent as a batch; each gets its reply as if it had been sent alone.

    Its commands are those of the present step of the batch. An error of a step says that no
    message was changed: the calls are then unfinished, and each is sent alone.

    Attributes:
        calls: the requests of the calls.
    """

    __slots__ = ("_begun", "_loaded", "_note_end", "_step", "_steps", "calls", "unfinished")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        calls: Sequence[CallRequest],
        steps: Steps[list[Any]],
        loaded: set[str],
        note_end: Callable[..., None],
    ) -> None:
        """
        Prepare the first step.

        Args:
            steps: the steps of the batch, which return a reply for each call, or NOT_RUN.
            loaded: as that of the connection; other scripts are sent as text.
            note_end: called at the end, with whether the batch has failed: then such calls should
                be sent alone for some time.
        """
        self.calls = calls
        self._steps = steps
        self._step: Operation[Any] = next(steps)
        self._begun: Any = None  # the result of a first step, until the second one is packed
        self._loaded = loaded
        self._note_end = note_end
        self.unfinished = ()
        super().__init__(loop, self._commands())

    @property
    def _is_first_step(self) -> bool:
        """Whether the present step changes nothing, and another one follows."""
        return self._step.retry is RetryClass.ALWAYS

    def pack(self) -> Iterable[bytes | memoryview]:
        if self._begun is not None:  # calls may have been cancelled since the first step
            begun, self._begun = self._begun, None
            if not self._next_step(begun):
                return ()
        return super().pack()

    def add_reply(self, reply: Any) -> bool:
        self.replies.append(reply)
        if len(self.replies) < len(self.commands):
            return False
        self.unfinished = self._finish_step()
        return True

    def fail(self, error: Exception) -> None:
        # The connection may have been closed because of a large reply.
        self._note_end(has_failed=True)
        for call in self.calls:
            call.fail(NotSent(str(error)) if self._is_first_step else error)

    def _finish_step(self) -> Sequence[Request]:
        """Return the requests to send next."""
        replies, self.replies = self.replies, []
        if isinstance(replies[0], NoScriptError):
            self._loaded.discard(self._step.script.name)
            return self._send_step()
        try:
            result = self._step.parse(reply_of(self._step, replies))
        except RedisError as error:
            self._note_end(has_failed=True)
            if not self._is_first_step and _has_run_without_multi(replies):
                for call in self.calls:
                    call.fail(error)
                return ()
            return _alone(self.calls)
        if self._is_first_step:
            self._begun = result
            return (self,)
        return self._next_step(result)

    def _next_step(self, result: Any) -> Sequence[Request]:
        """Prepare the step after one with this result, or end the batch; as ``_finish_step``."""
        try:
            self._step = self._steps.send(result)
        except StopIteration as end:
            self._note_end(has_failed=False)
            return self._divide(end.value)
        return self._send_step()

    def _commands(self) -> Sequence[Command]:
        name = self._step.script.name
        with_script = name not in self._loaded
        self._loaded.add(name)
        return call_commands(self._step, is_asking=False, with_script=with_script)

    def _send_step(self) -> Sequence[Request]:
        self.commands = self._commands()
        self.sent_at = monotonic()
        return (self,)

    def _divide(self, replies: Sequence[Any]) -> Sequence[Request]:
        """Give each call its reply, and return the calls that have none."""
        rest = []
        for call, reply in zip(self.calls, replies, strict=True):
            if reply is NOT_RUN and call.is_abandoned:
                call.is_done = True
            elif reply is NOT_RUN:
                rest.append(call)
            elif isinstance(reply, Refusal):
                call.add_reply(ResponseError(reply.text))
            else:
                call.add_reply(reply)
        if len(self.calls) - len(rest) < _MIN_SERVED_SHARE * len(self.calls):
            return _alone(rest)
        return rest


class Coalescer:
    """
    Makes batches of the calls of one event loop on one server.

    After a batch of a group has failed, the calls of that group are sent alone for some time: its
    batches would probably fail again, and each failure costs a round trip.
    """

    def __init__(self) -> None:
        self._pauses: dict[Hashable, _Pause] = {}

    def coalesce(
        self, loop: asyncio.AbstractEventLoop, requests: Sequence[Request], loaded: set[str]
    ) -> Iterator[tuple[Request, int]]:
        """
        Yield the requests to send, with a batch instead of consecutive calls of a group.

        Each comes with the number of requests that it and those before it stand for. A batch is
        made when it is needed, so requests that are not reached are unchanged.
        """
        passed = 0
        first_steps = _FirstSteps(requests)
        for group, calls in groupby(requests, _group_of):
            members: list[Any] = list(calls)
            if (
                group is None
                or group[0].script not in loaded
                or self._is_paused(group, loop.time())
            ):
                parts: Iterable[list[Any]] = ([each] for each in members)
            else:
                parts = _limited(members)
            for part in parts:
                if group is not None and len(part) > 1 and len(part) >= _min_calls(part):
                    passed += len(part)
                    in_two_steps = first_steps.may_include(part, passed)
                    yield self._batch(loop, group, part, loaded, in_two_steps), passed
                    continue
                for each in part:
                    passed += 1
                    yield each, passed

    def _batch(
        self,
        loop: asyncio.AbstractEventLoop,
        group: tuple[CallKind, Hashable],
        calls: list[CallRequest],
        loaded: set[str],
        in_two_steps: bool,  # noqa: FBT001
    ) -> BatchRequest:
        def note_end(*, has_failed: bool) -> None:
            if has_failed:
                self._pause(group, loop.time())
            elif self._pauses:
                self._pauses.pop(group, None)

        operations = [each.operation for each in calls]
        if in_two_steps:
            steps = merge_large_sends(operations, lambda: _cancelled(calls))
        else:
            steps = group[0].merge(operations)
        return BatchRequest(loop, calls, steps, loaded, note_end)

    def _pause(self, group: Hashable, now: float) -> None:
        self._pauses = {
            each: pause for each, pause in self._pauses.items() if pause.until + pause.seconds > now
        }
        before = self._pauses.get(group)
        if before is not None and before.until > now:  # of a batch that was sent before the pause
            return
        seconds = _PAUSE_SECONDS if before is None else 2 * before.seconds
        seconds = min(seconds, _LONGEST_PAUSE_SECONDS)
        self._pauses[group] = _Pause(now + seconds, seconds)

    def _is_paused(self, group: Hashable, now: float) -> bool:
        pause = self._pauses.get(group)
        return pause is not None and pause.until > now


class _FirstSteps:
    """
    Decides which batches of requests that are sent together have two steps.

    The messages can be received only after the second step. If there is a call behind them that may
    look for them, they are sent in one step: calls keep their order, and none has to wait.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._last_readers: dict[bytes | None, int] | None = None
        self._bytes = 0

    def may_include(self, calls: Sequence[CallRequest], passed: int) -> bool:
        """
        Return whether a batch of calls should have two steps.

        Args:
            calls: the calls of the batch.
            passed: the number of requests up to its end.
        """
        if not has_large_body(calls[0].operation):
            return False
        size = self._bytes + sum_of_bodies([each.operation for each in calls])
        if size > MAX_BEGUN_BYTES or self._last_reader(calls[0].operation.keys[0]) > passed:
            return False
        self._bytes = size
        return True

    def _last_reader(self, key: bytes) -> int:
        """Return the number of the last request that is not a send and may use a key; or 0."""
        last = self._last_readers
        if last is None:
            last = self._last_readers = {}
            for number, request in enumerate(self._requests, 1):
                if not isinstance(request, CallRequest):
                    last[None] = number  # its keys are unknown
                elif not is_send(request.operation):
                    last.update(dict.fromkeys(request.operation.keys, number))
        return max(last.get(key, 0), last.get(None, 0))


class _Pause(NamedTuple):
    until: float
    seconds: float


def _cancelled(calls: Sequence[CallRequest]) -> set[int]:
    return {at for at, call in enumerate(calls) if call.future.cancelled()}


def _alone(calls: Sequence[CallRequest]) -> Sequence[Request]:
    """Return calls to send alone."""
    for call in calls:
        call.send_alone()
    return calls


def _min_calls(part: Sequence[CallRequest]) -> int:
    """Return the number of calls from which on a part becomes a batch."""
    return MIN_LARGE_CALLS if has_large_body(part[0].operation) else 2


def _group_of(request: Any) -> tuple[CallKind, Hashable] | None:
    return None if request.is_alone else group_of(request.operation)


def _limited(calls: list[CallRequest]) -> Iterator[list[CallRequest]]:
    """Return the calls in parts of at most MAX_CALLS, with bodies of at most MAX_BYTES."""
    if len(calls) <= MAX_CALLS and sum_of_bodies([each.operation for each in calls]) <= MAX_BYTES:
        yield calls
        return
    part: list[CallRequest] = []
    size = 0
    for call in calls:
        bytes_more = body_bytes(call.operation)
        if part and (len(part) == MAX_CALLS or size + bytes_more > MAX_BYTES):
            yield part
            part, size = [], 0
        part.append(call)
        size += bytes_more
    yield part


def _has_run_without_multi(replies: Sequence[Any]) -> bool:
    """Return whether MULTI was refused, and a later command was not: the rights have changed."""
    return isinstance(replies[0], Exception) and not all(
        isinstance(each, Exception) for each in replies
    )
