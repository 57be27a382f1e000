"""
``Signature``, a call of a task that was not sent yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rsmq.codecs.type_variables import R_co
from rsmq.errors import InvalidFormat, Shown, show_type
from rsmq.operations.arguments import encode_body
from rsmq.tasks.body import RESULT, TASK_CODEC, is_result, make_body, make_next
from rsmq.wire.limits import MIN_MAXSIZE, UNLIMITED
from rsmq.wire.refusals import MESSAGE_TOO_LONG, parse_refusal

if TYPE_CHECKING:
    from rsmq.jobs.asyncio_ import AsyncJobHandle
    from rsmq.jobs.threads import JobHandle
    from rsmq.tasks.sealed_values import SealedValues

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSendOptions:
    """
    The options of ``Task.options``, which describes them.

    Attributes:
        send: those of ``send_message``, by name, without those that were not passed.
        level, then: as for ``Task.options``.
    """

    send: Mapping[str, Any] = field(default_factory=dict)
    level: str | None = None
    then: Signature[Any] | None = None


NO_OPTIONS = TaskSendOptions()


class HasResult(Protocol[R_co]):
    """A task, as far as its result is concerned."""

    @property
    def is_tracked(self) -> bool:
        """Whether its results are stored."""

    def decode_result(self, value: Any) -> R_co:
        """Return a result, from a value of JSON."""


class TaskSender(Protocol):
    """Sends calls; ``Tasks`` does."""

    @property
    def values(self) -> SealedValues | None:
        """Compresses and encrypts arguments and results; None if they stay as they are."""

    @property
    def is_immediate(self) -> bool:
        """Whether a send calls the function at once."""

    def immediate(self) -> AbstractContextManager[None]:
        """Return a context manager in which a send calls the function at once."""

    def send(self, signature: Signature[T]) -> JobHandle[T]:
        """Send a call."""

    async def asend(self, signature: Signature[T]) -> AsyncJobHandle[T]:
        """Send a call from asyncio."""


@dataclass(frozen=True, slots=True)
class Signature(Generic[R_co]):
    """
    A call of a task with checked arguments, which can be sent later.

    ``Task.signature`` makes it.

    Attributes:
        task: the name of the task.
        queue: the name of the queue that it is sent to.
        args: its arguments by name, as values of JSON.
        options: the options of the send.
        sender: sends it.
        declared: the task.
    """

    task: str
    queue: str
    args: Mapping[str, Any]
    options: TaskSendOptions
    sender: TaskSender = field(repr=False)
    declared: HasResult[R_co] = field(repr=False, compare=False)

    @property
    def body(self) -> dict[str, Any]:
        """The body of the message, before it is encoded as JSON."""
        return self.body_of(self.args)

    def body_of(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the same body with other arguments."""
        then = self.options.then
        return make_body(
            self.task, args, None if then is None else make_next(then.queue, then.body)
        )

    @property
    def send_options(self) -> dict[str, Any]:
        """The options as arguments of ``send_message``."""
        tracked: dict[str, Any] = {"track": True} if self.declared.is_tracked else {}
        return {**tracked, **self.options.send}

    def check_has_arguments(self) -> None:
        """
        Check that no task has to run before this one.

        Raises:
            InvalidFormat: an argument is RESULT, or the result of a node.
        """
        for name, value in self.args.items():
            if is_result(value):
                raise InvalidFormat(
                    "arguments",
                    value=Shown(self.task),
                    hint=f"{name} is RESULT: pass this call as then= to the task before it, or add "
                    "it to a flow.",
                )

    def send(self) -> JobHandle[R_co]:
        """
        Send it; see ``Task.send``.

        Raises:
            The errors of ``Task.send``.
        """
        return self.sender.send(self)

    async def asend(self) -> AsyncJobHandle[R_co]:
        """
        Send it from asyncio; see ``Task.send``.

        Raises:
            The errors of ``Task.send``.
        """
        return await self.sender.asend(self)


def large_followers(calls: Iterable[Signature[Any]]) -> set[tuple[str, int]]:
    """
    Return the queues and sizes of the messages that are to follow calls, without their results.

    Those that every queue accepts are left out.

    Raises:
        MessageNotString: an argument is not a value of JSON.
    """
    found = set()
    for call in calls:
        then = call.options.then
        while then is not None:
            size = encode_body(with_result(then, None).body, TASK_CODEC)[1]
            if size > MIN_MAXSIZE:
                found.add((then.queue, size))
            then = then.options.then
    return found


def check_fits(queue: str, size: int, maxsize: int) -> None:
    """
    Check the size of a message that is to follow another one.

    Raises:
        MessageTooLong: it is larger than the maxsize of its queue.
    """
    error = parse_refusal(f"{MESSAGE_TOO_LONG} {size} {maxsize}", (queue,))
    if error is not None and UNLIMITED != maxsize < size:
        raise error


def takes_result(call: Signature[Any]) -> bool:
    """Return whether an argument of a call is ``RESULT``."""
    return any(value is RESULT for value in call.args.values())


def with_result(call: Signature[Any], result: Any) -> Signature[Any]:
    """Return a call with another value in place of ``RESULT``."""
    args = {name: result if value is RESULT else value for name, value in call.args.items()}
    return replace(call, args=args)


def check_call(argument: str, signature: object, sender: TaskSender) -> Signature[Any]:
    """
    Return a call, if it is one of a task of these declarations.

    Args:
        argument: the name of the argument.
        signature: its value.
        sender: the declarations.

    Raises:
        InvalidFormat: it is not one.
    """
    if not isinstance(signature, Signature):
        hint = "Pass a call, as in welcome.signature(17)."
        raise InvalidFormat(argument, value=show_type(signature), hint=hint)
    check_sender(argument, signature.task, signature.sender, sender)
    return signature


def check_sender(argument: str, task: str, declared_by: TaskSender, sender: TaskSender) -> None:
    """
    Check that declarations contain a task: others may be for another server or namespace.

    Raises:
        InvalidFormat: they do not.
    """
    if declared_by is not sender:
        raise InvalidFormat(
            argument,
            value=Shown(f"{task} is declared by another Tasks object"),
            hint="Its worker may look elsewhere. Declare both tasks with one Tasks object, or send "
            "the call by itself, with send() of its signature.",
        )
