"""
``Task``, a function that messages call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from rsmq.errors import BodyUnavailable, InvalidFormat, MissingParameter, Shown, show
from rsmq.errors.misuse import NamesElsewhere, explain_options
from rsmq.tasks.arguments import TaskArguments
from rsmq.tasks.body import NextTask, ResultOfNodes, read_next
from rsmq.tasks.converters import WrongArgument
from rsmq.tasks.current_flow import CurrentFlow, context_of_task
from rsmq.tasks.follow import Follow
from rsmq.tasks.other_names import OF_SEND_OPTIONS, OF_TASKS
from rsmq.tasks.signature import (
    NO_OPTIONS,
    Signature,
    TaskSender,
    TaskSendOptions,
    check_call,
    check_sender,
)
from rsmq.vocabulary.send_arguments import TaskSendArguments
from rsmq.vocabulary.sends import TASK, read_options
from rsmq.vocabulary.signatures import takes_options_of
from rsmq.wire.levels import level_queue
from rsmq.worker.children.import_name import find_name_of_main
from rsmq.worker.listener import ListenerOptions, is_async_function
from rsmq.worker.outcome import DeadLetter, Defer
from rsmq.worker.run.unrun_result import reject_unrun_result

if TYPE_CHECKING:
    from rsmq.jobs.asyncio_ import AsyncJobHandle
    from rsmq.jobs.threads import JobHandle

P = ParamSpec("P")
#: The result of a task: what its function returns, or what awaiting the function returns.
T = TypeVar("T")
#: The result of a call of the function.
R = TypeVar("R")

MAX_NAME_CHARACTERS = 200


class BoundTask(NamesElsewhere, Generic[P, T]):
    """
    A task with the options of its sends; ``Task.options`` makes it.

    A call is checked before anything is sent: positional arguments get the names of the function's
    parameters, and the annotations check and convert the values.
    """

    _elsewhere = OF_TASKS

    def __init__(self, task: DeclaredTask[P, T, Any], options: TaskSendOptions) -> None:
        self._task = task
        self._options = options

    def check_is_of(self, sender: TaskSender) -> None:
        """
        Check that declarations contain the task.

        Raises:
            InvalidFormat: they do not.
        """
        check_sender("task", self._task.name, self._task.sender, sender)

    def signature(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature[T]:
        """
        Return a checked call that was not sent, for ``send_many`` and ``schedule``.

        Args:
            args: the arguments of the function.
            kwargs: its arguments by name.

        Raises:
            InvalidFormat: the arguments do not fit the function; the text names the task, the
                argument and the rule.
        """
        task = self._task
        return Signature(
            task.name,
            task.queue_of(self._options.level),
            task.arguments.encode(args, kwargs),
            self._options,
            task.sender,
            task,
        )

    def send(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """
        Send a message that calls the function in a worker. One script, one round trip.

        A queue that is missing is created. If this raises a connection error, the message may or
        may not have been stored; with a dedup_id the call may be repeated.

        Args:
            args: the arguments of the function.
            kwargs: its arguments by name.

        Returns:
            The job, with ``queue``, ``id``, ``status`` and, if the task has ``track=True``,
            ``result``. With a dedup_id or unique_key that is in use it is the earlier one.

        Raises:
            InvalidFormat: as ``signature``, and as ``send_message`` of the client for the options.
            MessageNotString: an argument is not a value of JSON.
            MessageTooLong: the body is larger than the queue's maxsize; or that of ``then`` is too
                large for its queue, without the result.
            Errors of redis-py: the server can't be reached.
        """
        return self.signature(*args, **kwargs).send()

    async def asend(self, /, *args: P.args, **kwargs: P.kwargs) -> AsyncJobHandle[T]:
        """
        Send a message from asyncio, as ``send`` does; ``await job`` waits for the result.

        Args:
            args: the arguments of the function.
            kwargs: its arguments by name.

        Raises:
            The errors of ``send``.
        """
        return await self.signature(*args, **kwargs).asend()


class DeclaredTask(BoundTask[P, T], Generic[P, T, R]):
    """
    A function that messages call; ``Tasks.task`` makes it. A call of it calls the function here.

    Attributes:
        sender: the declarations that it belongs to, which send it.
        name: its name in bodies.
        queue: the name of its queue.
        function: the function.
        passed: the options that it was declared with.
        levels: the levels of its queue.
        is_tracked: whether it has ``track`` or ``result_ttl``, so that the result is stored.
    """

    def __init__(
        self,
        sender: TaskSender,
        function: Callable[P, R],
        name: str,
        queue: str,
        passed: ListenerOptions,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        super().__init__(self, NO_OPTIONS)
        self.sender = sender
        self.name = name
        self.queue = queue
        self.function = function
        self.arguments: TaskArguments = TaskArguments(name, function, sender.values)
        self.passed = passed
        self.levels: frozenset[str] = frozenset()
        self.is_tracked = False

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now; no message is sent."""
        return self.function(*args, **kwargs)

    @explain_options(OF_SEND_OPTIONS)
    @takes_options_of(TASK)
    def options(
        self,
        *,
        level: str | None = None,
        then: Signature[Any] | None = None,
        **options: Unpack[TaskSendArguments],
    ) -> BoundTask[P, T]:
        """
        Return the task with options of its sends: ``welcome.options(delay=60).send(17)``.

        All but ``level`` and ``then`` are those of ``send_message``, and are checked when the
        message is sent.

        Args:
            options: see below.
            level: a level that the task was declared with: ``levels={"high": 6}``.
            then: a call that is sent when the function has returned, in the script that deletes the
                message, so that neither is lost. Its argument ``RESULT`` is the result. Its own
                options are ``level`` and ``then`` only.

        Raises:
            InvalidFormat: the task has no such level, or then is not such a call of the same Tasks
                object.
            TypeError: there is no such option.
        """
        self.queue_of(level)
        if then is not None:
            check_next(then, self.sender)
        send = read_options(options, TASK)
        return BoundTask(self, TaskSendOptions(send=send, level=level, then=then))

    def queue_of(self, level: str | None) -> str:
        """
        Return the name of the queue of a level.

        Args:
            level: a level of the queue; None is the queue itself.

        Raises:
            InvalidFormat: the queue was not declared with this level.
        """
        if level is None:
            return self.queue
        if level not in self.levels:
            known = ", ".join(sorted(self.levels)) or "none"
            raise InvalidFormat(
                "level",
                value=show(level),
                hint=f"The levels of queue {self.queue!r} are: {known}. Declare them at a task, as "
                "in levels={'high': 6}.",
            )
        return level_queue(self.queue, level)

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function, which a worker runs in its event loop."""
        return is_async_function(self.function)

    def is_replaced_by(self, function: Callable[..., Any]) -> bool:
        """
        Return whether a function is a new version of this one, of the same module and name.

        A reload of the module, or another run of a cell of a notebook, makes one.
        """
        return _definition(function) == _definition(self.function) is not None

    def decode_result(self, value: Any) -> T:
        """
        Return a result, from a value of JSON.

        Raises:
            InvalidFormat: it is not what the annotation of the function says.
        """
        result: T = self.arguments.decode_result(value)
        return result

    def make_handler(self, follow: Follow) -> Callable[[dict[str, Any]], Any]:
        """
        Return the function that a worker calls with the body of a message.

        Args:
            follow: takes what follows the task.
        """
        function: Callable[..., Any] = self.function

        async def handle_async(body: dict[str, Any]) -> Any:
            arguments, following = self._read(body, follow)
            with context_of_task(body, self.sender) as flow:
                return self._note(await function(**arguments), follow, following, flow)

        def handle(body: dict[str, Any]) -> Any:
            arguments, following = self._read(body, follow)
            with context_of_task(body, self.sender) as flow:
                return self._note(function(**arguments), follow, following, flow)

        handler: Callable[..., Any] = handle_async if self.is_async else handle
        handler.__qualname__ = self.name  # for errors and logs
        return handler

    def _read(self, body: dict[str, Any], follow: Follow) -> tuple[dict[str, Any], NextTask | None]:
        """
        Return the keyword arguments of a body, and what follows the task.

        Raises:
            DeadLetter: they do not fit the function, or what follows can't be sent. Another attempt
                would not change that.
        """
        try:
            arguments, following = self.arguments.decode(body.get("args", {})), read_next(body)
            if following is not None:
                follow.check_queue(following.queue)
        except BodyUnavailable as error:
            raise Defer(f"task {self.name}: {error}") from error
        except (WrongArgument, ValueError, InvalidFormat, MissingParameter) as error:
            raise DeadLetter(f"task {self.name}: {error}") from None
        return arguments, following

    def _note(
        self, result: Any, follow: Follow, following: NextTask | None, flow: CurrentFlow | None
    ) -> Any:
        """Note what follows a call that has returned; return the result as it is stored."""
        stored = self._encode_result(result)
        if following is not None:
            follow.note_next(following, stored if following.map_id else result)
        elif flow is not None and flow.nodes:
            follow.note_added(flow)
        return stored

    def _encode_result(self, result: Any) -> Any:
        """
        Return a result as a value of JSON if it is stored, unless it is a coroutine or the like.

        Raises:
            DeadLetter: it is not what the annotation says. Another attempt would do the work again.
        """
        if result is None and not self.is_tracked:
            return None
        reject_unrun_result(result, "declare it with async def, also where it is decorated")
        if not self.is_tracked:
            return None  # its message may have a record, because another task of its queue has
        try:
            return self.arguments.encode_result(result)
        except WrongArgument as error:
            text = f"the result of task {self.name} can't be stored: {error}"
            raise DeadLetter(text) from None

    def __repr__(self) -> str:
        return f"Task({self.name!r}, queue={self.queue!r})"


def _definition(function: Any) -> tuple[str, str] | None:
    """Return the module of a function and its name there; None for one without a name."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return None if name.endswith("<lambda>") else (str(function.__module__), name)


def check_next(then: object, sender: TaskSender) -> Signature[Any]:
    """
    Return the call that follows a task, if it is one.

    Args:
        then: the call.
        sender: the declarations of the task.

    Raises:
        InvalidFormat: it is not a signature, is one of other declarations, or has options of a send
            other than level and then.
    """
    signature = check_call("then", then, sender)
    options = signature.options
    if options.send:
        raise InvalidFormat(
            "then",
            value=show(options),
            hint="It is sent when the task before it has returned, without options but level and "
            "then.",
        )
    if any(isinstance(value, ResultOfNodes) for value in signature.args.values()):
        raise InvalidFormat(
            "then", value=Shown(signature.task), hint="Only a flow has nodes: pass RESULT."
        )
    return signature


def default_name(function: Callable[..., Any]) -> str:
    """
    Return ``module.function``.

    Raises:
        InvalidFormat: the function has no name, or its module has none that a worker can import.
    """
    name = getattr(function, "__name__", "<lambda>")
    module = getattr(function, "__module__", None)
    if module == "__main__":
        module = find_name_of_main()
    if module is None or not name.isidentifier():
        raise InvalidFormat(
            "name",
            value=show(function),
            hint="It has no name that other programs know. Pass one, name='mail.welcome', or "
            "declare it in a module that the worker and its producers import.",
        )
    return f"{module}.{name}"


def check_name(name: object) -> str:
    """
    Return the name of a task, if it is valid.

    Raises:
        InvalidFormat: it is not a str of 1 to 200 printable characters.
    """
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= MAX_NAME_CHARACTERS
        or not name.isprintable()
    ):
        hint = f"A name is a str of 1 to {MAX_NAME_CHARACTERS} printable characters."
        raise InvalidFormat("name", value=show(name), hint=hint)
    return name
