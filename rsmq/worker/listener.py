"""
A listener: its queue, its handlers and its settings.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar, Unpack

from rsmq.codecs import Codec, check_codec
from rsmq.errors import InvalidFormat, InvalidValue, show
from rsmq.wire.jobs import DEFAULT_RESULT_TTL_SECONDS, MIN_RESULT_TTL_SECONDS
from rsmq.wire.levels import level_queue
from rsmq.wire.limits import (
    MAX_BATCH,
    MAX_RECEIVES,
    MAX_SECONDS,
    check_duration,
    check_whole_number,
)
from rsmq.worker.gate import Gate
from rsmq.worker.outcome import (
    DEFAULT_MAX_DEFERRALS,
    DEFAULT_MAX_DEFERRED_SECONDS,
    Backoff,
    Policy,
    Unroutable,
    exponential,
    parse_backoff,
)
from rsmq.worker.routing import Route

#: Retries if the listener sets a dead-letter queue or ``drop``, but not max_retries.
DEFAULT_MAX_RETRIES = 5
#: The longest time a handler may run if the listener does not set max_runtime.
DEFAULT_MAX_RUNTIME_SECONDS = 3600.0
#: For how long an async handler may block its event loop if the listener does not set max_runtime.
DEFAULT_MAX_BLOCKING_SECONDS = 60.0
#: The shortest visibility timeout. It is extended after a third of it.
MIN_VT_SECONDS = 0.1
MAX_CONCURRENCY = 10_000
MAX_WEIGHT = 100

Handler = Callable[..., Any]

Body = TypeVar("Body")
P = ParamSpec("P")
R = TypeVar("R")


class HandlerDecorator(Protocol[Body]):
    """
    A decorator of handlers whose first parameter accepts a Body.

    At run time it returns the handler itself. For type checkers, the first parameter of the result
    has no name, because no type can express that the result is a handler of this kind, unchanged.
    """

    def __call__(
        self, handler: Callable[Concatenate[Body, P], R], /
    ) -> Callable[Concatenate[Body, P], R]: ...


class _ReceiveOptions(TypedDict, total=False):
    """How messages of a queue are received."""

    concurrency: int | tuple[int, int] | None
    priority: int
    weight: int
    create: bool
    active: bool


class _RetryOptions(TypedDict, total=False):
    """The treatment of a message whose handler fails."""

    vt: float | None
    max_retries: int | None
    backoff: Backoff | Sequence[float] | float | None
    dead_letter_queue: str | None


class WebhookOptions(_RetryOptions, _ReceiveOptions, total=False):
    """The options that ``Worker.webhook`` has in common with ``Worker.listener``."""


class PolicyOptions(_RetryOptions, total=False):
    """How handlers are called and what becomes of their messages; each task has its own."""

    no_retry: type[BaseException] | Iterable[type[BaseException]]
    retry_only: type[BaseException] | Iterable[type[BaseException]]
    drop: bool
    retry_forever: bool
    max_runtime: float
    max_deferrals: int
    max_deferred_seconds: float
    process: bool
    track: bool
    result_ttl: float | None


class ListenerOptions(PolicyOptions, _ReceiveOptions, total=False):
    """
    The options that ``Worker.listener`` and ``Worker.router`` have in common.

    ``Worker.listener`` describes each, also those of its bases; ``make_listener`` checks them, and
    has their defaults.
    """

    levels: Mapping[str, int] | None


def check_option_names(
    method: Callable[..., object], options: Mapping[str, object], known_options: type
) -> None:
    """
    Check the names of the options of a worker's method.

    Args:
        method: the method; its other parameters are not in ``options``.
        options: the options.
        known_options: the TypedDict of its options.

    Raises:
        TypeError: it has no such option; the text names the closest one.
    """
    annotations = known_options.__annotations__
    parameters = inspect.signature(method).parameters
    named = [each.name for each in parameters.values() if each.kind is not each.POSITIONAL_ONLY]
    names = [name for name in (*named, *annotations) if name != "options"]
    for name in options:
        if name not in annotations:
            near = difflib.get_close_matches(name, names, 1)
            advice = (
                f"Did you mean {near[0]!r}?" if near else f"Its options are {', '.join(names)}."
            )
            owner = type(getattr(method, "__self__", None)).__name__
            raise TypeError(f"{owner}.{method.__name__} has no option {name!r}. {advice}")


@dataclass(slots=True)
class Handlers:
    """
    The functions of a listener: one, or one for each type of message.

    Attributes:
        route: returns the type of a message; None if there is one handler for all.
        by_type: by type, each handler and whether it takes the message too; '' is the type of a
            handler for all.
        is_async: whether they are coroutine functions; either all of them are or none.
        process: whether they run in child processes.
        is_group: whether all of them are called with each message; then ``by_type`` has them by
            name.
    """

    route: Route | None = None
    by_type: dict[str, tuple[Handler, bool]] = field(default_factory=dict)
    is_async: bool = False
    process: bool = False
    is_group: bool = False

    def add(self, kind: str, handler: Handler) -> None:
        """
        Add a handler.

        Raises:
            InvalidFormat: it is not a function of one or two arguments; it is a generator function;
                its type has a handler already; or plain and async functions are mixed in one queue;
                or it is async and process=True.
        """
        if not callable(handler):
            raise InvalidFormat("handler", value=show(handler), hint="It is a function.")
        self.refuse_registered([kind])
        if is_generator_function(handler):
            raise InvalidFormat(
                "handler",
                value=show(handler),
                hint="It has a yield, so a call would not run it.",
            )
        is_async = is_async_function(handler)
        if is_async and self.process:
            raise InvalidFormat(
                "handler",
                value=show(handler),
                hint="It is async: child processes run plain functions only.",
            )
        if self.by_type and is_async != self.is_async:
            raise InvalidFormat(
                "handler",
                value=show(handler),
                hint="The handlers of a queue are all plain functions or all async functions.",
            )
        self.by_type[kind] = (handler, _takes_message(handler))
        self.is_async = is_async

    def refuse_registered(self, types: Iterable[str]) -> None:
        """
        Raise an error if one of the types has a handler already.

        Raises:
            InvalidFormat: one has.
        """
        for kind in types:
            if kind in self.by_type:
                what = "name" if self.is_group else "type"
                hint = f"This {what} already has a handler."
                raise InvalidFormat("handler", value=kind, hint=hint)

    def find(self, body: Any) -> tuple[str, Any]:
        """
        Return the type of a body, which has a handler, and the first argument of the handler.

        Raises:
            Unroutable: there is no handler for the body.
        """
        if self.route is None:
            return "", body
        kind, payload = self.route(body)
        if kind is None or kind not in self.by_type:
            raise Unroutable(
                "the message has no type" if kind is None else f"there is no handler for {kind!r}"
            )
        return kind, payload


def is_generator_function(handler: Handler) -> bool:
    """Return whether a call of a function, or of its partial, would not run it: it has a yield."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler)


def is_async_function(handler: Handler) -> bool:
    """Return whether a function, its partial or a callable object is to be awaited."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object's __call__ may be async
    )


def _takes_message(handler: Handler) -> bool:
    """
    Return whether a handler is called with the message as its second argument.

    It is if the second parameter has no default, or is named ``message`` or ``messages``.
    """
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # a function written in C
        return False
    try:
        bound = signature.bind(None, None)
    except TypeError:
        try:
            signature.bind(None)
        except TypeError:
            raise InvalidFormat(
                "handler",
                value=show(handler),
                hint="A handler takes the body, or the body and the message: handle(body) or "
                f"handle(body, message). This one takes {signature}.",
            ) from None
        return False
    second = signature.parameters[list(bound.arguments)[-1]]
    return second.default is second.empty or second.name in ("message", "messages")


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """
    A queue with its handlers and their settings.

    Attributes:
        queue: the queue's name.
        handlers: the functions that are called.
        vt: the visibility timeout, seconds; None is the queue's.
        codec: decodes bodies; None is the client's.
        batch: maximum number of messages of a call; None calls with one message.
        concurrency: maximum number of concurrent calls; None is the worker's.
        reserved: how many of the worker's slots are kept for its calls.
        priority: messages of queues with a higher number are handled first.
        policy: the rules for messages that fail.
        max_runtime: the longest time a call may take, seconds.
        max_blocking: the longest time an async call may block the event loop, seconds: max_runtime
            if the user has set it.
        create: whether missing queues are created.
        retry_forever: whether the user wants that messages are retried forever.
        gate: decides whether messages may be received; None lets all through.
        default_dead_letter_queue: created and used if neither the listener nor the queue's policy
            names a dead-letter queue; None if there is none.
        fill_seconds: for how long a visible message may wait until its batch is full; None if
            batches do not wait.
        weight: its share of the calls, among the queues of its priority that have due messages.
        level_of: the queue whose levels the user named, for this queue and for those of the levels;
            None if the listener has no levels.
        is_active: whether it receives from the start of the worker on.
        result_ttl: seconds for which the record of an ended message lives; None if its messages are
            not tracked.
        parts: the listeners of those of its messages that have other handlers and settings; they
            share its queue and its concurrency.
        find_part: returns the place in ``parts`` for a raw body; None if this listener handles it.
    """

    queue: str
    handlers: Handlers
    vt: float | None
    codec: Codec | None
    batch: int | None
    concurrency: int | None
    priority: int
    policy: Policy
    max_runtime: float
    create: bool
    retry_forever: bool = False
    gate: Gate | None = None
    default_dead_letter_queue: str | None = None
    fill_seconds: float | None = None
    weight: int = 1
    level_of: str | None = None
    is_active: bool = True
    reserved: int = 0
    result_ttl: float | None = None
    max_blocking: float = DEFAULT_MAX_BLOCKING_SECONDS
    parts: tuple[Listener, ...] = ()
    find_part: Callable[[bytes], int | None] = lambda _raw: None

    @property
    def with_parts(self) -> tuple[Listener, ...]:
        """This listener and its parts."""
        return (self, *self.parts)

    def replace(self, **changes: Any) -> Listener:
        """Return the same listener with other settings, for its parts too."""
        parts = tuple(replace(each, **changes) for each in self.parts)
        return replace(self, parts=parts, **changes)

    @property
    def declared_queue(self) -> str:
        """The queue that the user has named: of a level the queue that has the level."""
        return self.level_of or self.queue

    @property
    def process(self) -> bool:
        """Return whether its handlers run in child processes."""
        return self.handlers.process

    @property
    def target_queues(self) -> tuple[str, ...]:
        """The queues that its messages may be moved to."""
        policies = [each.policy for each in self.with_parts]
        named = [name for each in policies for name in (each.dead_letter_queue, each.unroutable)]
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def queues_to_create(self) -> tuple[str, ...]:
        """The queues that the worker creates if they are missing."""
        if self.create:
            return (self.queue, *self.target_queues)
        return tuple(name for name in self.target_queues if name == self.default_dead_letter_queue)

    def with_default_dead_letter_queue(self) -> Listener:
        """Return the same listener with the default dead-letter queue in its policy."""
        policy = replace(
            self.policy,
            max_retries=(
                DEFAULT_MAX_RETRIES if self.policy.max_retries is None else self.policy.max_retries
            ),
            dead_letter_queue=self.default_dead_letter_queue,
        )
        return replace(self, policy=policy)


def make_listener(
    queue: str,
    handlers: Handlers,
    *,
    codec: Codec | None = None,
    batch: int | tuple[int, float] | None = None,
    unroutable: str | None = None,
    gate: Gate | None = None,
    default_dead_letter_queue: str | None = None,
    **options: Unpack[ListenerOptions],
) -> Listener:
    """
    Return a listener with checked settings; for the arguments see ``Worker.listener``.

    ``gate`` and ``default_dead_letter_queue`` are attributes of the listener.

    Raises:
        InvalidFormat, InvalidValue: a setting is invalid.
    """
    vt, backoff = options.get("vt"), options.get("backoff")
    max_retries = options.get("max_retries")
    reserved, concurrency = _check_concurrency(options.get("concurrency"))
    dead_letter_queue, drop = options.get("dead_letter_queue"), options.get("drop", False)
    retry_forever = options.get("retry_forever", False)
    max_deferrals = options.get("max_deferrals", DEFAULT_MAX_DEFERRALS)
    max_deferred_seconds = options.get("max_deferred_seconds", DEFAULT_MAX_DEFERRED_SECONDS)
    max_runtime = options.get("max_runtime", DEFAULT_MAX_RUNTIME_SECONDS)
    has_target = dead_letter_queue is not None or drop
    if drop and dead_letter_queue is not None:
        raise InvalidFormat(
            "drop",
            value=drop,
            hint=f"Failed messages of {show(queue)} go to {show(dead_letter_queue)} or are "
            "dropped: pass one of them.",
        )
    if retry_forever and (has_target or max_retries is not None):
        raise InvalidFormat(
            "retry_forever",
            value=retry_forever,
            hint=f"Messages of {show(queue)} that still fail are either retried forever, or go to "
            "dead_letter_queue, or are dropped. Pass one of them; max_retries goes with the last "
            "two.",
        )
    if max_retries is None:
        retries = DEFAULT_MAX_RETRIES if has_target else None
    else:
        retries = check_whole_number("max_retries", max_retries, 0, MAX_RECEIVES)
        if not has_target:
            raise InvalidFormat(
                "max_retries",
                value=max_retries,
                hint=f"For messages of {show(queue)} that still fail, pass a dead_letter_queue, or "
                "drop=True.",
            )
    for item, name in (("dead_letter_queue", dead_letter_queue), ("unroutable", unroutable)):
        if name is not None and name == queue:
            raise InvalidFormat(item, value=name, hint="It must be another queue.")
    size, fill_seconds = _check_batch(batch)
    if size is not None and handlers.route is not None:
        raise InvalidFormat("batch", value=size, hint="A router takes messages one by one.")
    return Listener(
        queue,
        handlers,
        None if vt is None else check_vt(vt),
        None if codec is None else check_codec(codec),
        size,
        concurrency,
        check_whole_number("priority", options.get("priority", 0), -(10**6), 10**6),
        Policy(
            retries,
            exponential() if backoff is None else parse_backoff(backoff),
            _check_exceptions("no_retry", options.get("no_retry", ())),
            dead_letter_queue,
            unroutable,
            drop,
            check_whole_number("max_deferrals", max_deferrals, 0, MAX_RECEIVES),
            check_duration("max_deferred_seconds", max_deferred_seconds),
            _check_exceptions("retry_only", options.get("retry_only", BaseException)),
        ),
        check_duration("max_runtime", max_runtime, low=0.001),
        options.get("create", False),
        retry_forever,
        gate,
        default_dead_letter_queue,
        fill_seconds,
        check_whole_number("weight", options.get("weight", 1), 1, MAX_WEIGHT),
        is_active=_check_active(options.get("active", True)),
        reserved=reserved,
        result_ttl=_check_tracking(options, handlers, size),
        max_blocking=options.get("max_runtime", DEFAULT_MAX_BLOCKING_SECONDS),
    )


def _check_tracking(options: ListenerOptions, handlers: Handlers, size: int | None) -> float | None:
    """
    Return the seconds for which the record of an ended message lives; None without tracking.

    Raises:
        InvalidFormat: track is not a bool; or the listener has batches or several handlers.
        InvalidValue: result_ttl is out of range.
    """
    track, result_ttl = options.get("track", False), options.get("result_ttl")
    if not isinstance(track, bool):
        raise InvalidFormat("track", value=show(track), hint="It is True or False.")
    if not track and result_ttl is None:
        return None
    if size is not None or handlers.is_group:
        what = "batch" if size is not None else "several handlers of one message"
        raise InvalidFormat(
            "track", value=track, hint=f"A call has one result: {what} can't be tracked."
        )
    if result_ttl is None:
        return DEFAULT_RESULT_TTL_SECONDS
    return check_duration("result_ttl", result_ttl, low=MIN_RESULT_TTL_SECONDS)


def _check_active(active: object) -> bool:
    if not isinstance(active, bool):  # the text "false" would count as true
        raise InvalidFormat("active", value=show(active), hint="It is True or False.")
    return active


def with_levels(listener: Listener, levels: Mapping[str, int] | None) -> list[Listener]:
    """
    Return a listener and those of the levels of its queue, which have its handlers and settings.

    Args:
        listener: the listener, of the default level.
        levels: the weight of each other level; None if there are no levels.

    Raises:
        InvalidFormat: the name of a level is invalid, or its queue is another queue of the
            listener, or it is not a dict, or the listener reserves slots.
        InvalidValue: the number of a level is out of range.
    """
    if levels is None:
        return [listener]
    queue = listener.queue
    if not isinstance(levels, Mapping) or not levels:
        raise InvalidFormat(
            "levels", value=show(levels), hint="Pass a dict, such as {'critical': 10, 'high': 6}."
        )
    if listener.reserved:
        raise InvalidFormat(
            "concurrency",
            value=(listener.reserved, listener.concurrency),
            hint=f"A listener with levels reserves no slots: pass the maximum for {show(queue)}.",
        )
    expanded = [listener.replace(level_of=queue)]
    for level, number in levels.items():
        name = level_queue(queue, level)
        if name in listener.target_queues:
            raise InvalidFormat(
                "levels",
                value=level,
                hint=f"Its queue {name!r} is the one for messages that fail: name one of them "
                "differently.",
            )
        weight = check_whole_number(f"level {level}", number, 1, MAX_WEIGHT)
        expanded.append(listener.replace(queue=name, weight=weight, level_of=queue))
    return expanded


def rank_levels(listeners: Iterable[Listener]) -> list[Listener]:
    """
    Return listeners whose levels are strictly ordered by their numbers, by their priorities.

    Within a priority, queues without levels have the number 1.
    """
    listeners = list(listeners)
    places = [(each.priority, 1 if each.level_of is None else each.weight) for each in listeners]
    ranks = {place: rank for rank, place in enumerate(sorted(set(places)))}
    return [
        each.replace(priority=ranks[place], weight=each.weight if each.level_of is None else 1)
        for each, place in zip(listeners, places, strict=True)
    ]


def _check_batch(batch: int | tuple[int, float] | None) -> tuple[int | None, float | None]:
    """
    Return the size of a batch, and the seconds for which messages wait until it is full.

    Raises:
        InvalidFormat: it is a list, or a tuple that has not two values.
        InvalidValue: a number is out of range.
    """
    size, seconds = batch, None
    if isinstance(batch, tuple | list):
        if isinstance(batch, list) or len(batch) != 2:  # noqa: PLR2004 - the size and the seconds
            raise InvalidFormat(
                "batch",
                value=show(batch),
                hint="It is a number of messages, or that and seconds, as in (100, 5).",
            )
        size, seconds = batch[0], check_duration("seconds of batch", batch[1])
    return None if size is None else check_whole_number("batch", size, 1, MAX_BATCH), seconds


def _check_concurrency(concurrency: object) -> tuple[int, int | None]:
    """Return how many slots are reserved, and the maximum number of calls; None is the worker's."""
    if concurrency is None:
        return 0, None
    if not isinstance(concurrency, tuple | list):
        return 0, check_whole_number("concurrency", concurrency, 1, MAX_CONCURRENCY)
    if isinstance(concurrency, list) or len(concurrency) != 2:  # noqa: PLR2004 - a pair
        raise InvalidFormat(
            "concurrency",
            value=concurrency,
            hint="It is a number of calls, or (minimum, maximum), as in (2, 5).",
        )
    maximum = check_whole_number("maximum of concurrency", concurrency[1], 1, MAX_CONCURRENCY)
    return check_whole_number("minimum of concurrency", concurrency[0], 1, maximum), maximum


def check_reservations(listeners: Iterable[Listener], concurrency: int) -> None:
    """
    Check that a worker has the slots that its listeners reserve, and one for the others.

    Args:
        listeners: the listeners of the worker.
        concurrency: the worker's maximum number of concurrent calls.

    Raises:
        InvalidValue: concurrency is too small.
    """
    listeners = list(listeners)
    reserving = [each for each in listeners if each.reserved]
    needed = sum(each.reserved for each in reserving)
    if not needed:
        return
    total = " + ".join(f"{each.reserved} for {show(each.queue)}" for each in reserving)
    hint = f"Its listeners reserve {total}"
    if len(reserving) < len(listeners):
        needed += 1
        hint += ", and those that reserve none need a slot"
    if concurrency < needed:
        raise InvalidValue(
            "concurrency of the worker", needed, MAX_CONCURRENCY, value=concurrency, hint=f"{hint}."
        )


def check_vt(vt: object) -> float:
    """
    Return the visibility timeout of a listener or its queue as a float, if it is valid.

    Raises:
        InvalidValue: it is too short, or not a number of seconds.
    """
    seconds = check_duration("vt", vt)
    if seconds < MIN_VT_SECONDS:
        raise InvalidValue(
            "vt",
            MIN_VT_SECONDS,
            MAX_SECONDS,
            value=vt,
            hint="A worker's messages must be hidden for a while, and are for longer while their "
            "handlers run. Pass vt= to the listener.",
        )
    return seconds


def _check_exceptions(
    option: str, classes: type[BaseException] | Iterable[type[BaseException]]
) -> tuple[type[BaseException], ...]:
    listed = isinstance(classes, Iterable) and not isinstance(classes, str | bytes | type)
    types: tuple[Any, ...] = tuple(classes) if listed else (classes,)  # type: ignore[arg-type]
    for kind in types:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidFormat(
                option,
                value=show(kind),
                hint="It is a class of exceptions, or several.",
            )
    return types
