"""
A listener: its queue, its handlers and its settings.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rsmq.codecs import Codec, check_codec
from rsmq.errors import InvalidFormat, InvalidValue, show
from rsmq.wire.limits import (
    MAX_BATCH,
    MAX_RECEIVES,
    MAX_SECONDS,
    check_whole_number,
    to_milliseconds,
)
from rsmq.worker.outcome import Policy, Unroutable, checked_backoff, exponential
from rsmq.worker.routing import Route

#: Retries where there is a dead-letter queue, or leave to drop, and nothing else is said.
MAX_RETRIES = 5
#: The longest time a handler may run where nothing else is said, seconds.
MAX_RUNTIME = 3600.0
#: The shortest visibility timeout: a third of it is the time between two heartbeats.
SHORTEST_VT = 0.1
MAX_CONCURRENCY = 10_000

Handler = Callable[..., Any]


@dataclass(slots=True)
class Handlers:
    """
    The functions of a listener: one, or one for each type of message.

    Attributes:
        route: tells the type of a message; None where there is one handler for all.
        by_type: the handlers by type; under '' the one for all.
        is_async: whether they are coroutine functions, which all of them are or none.
    """

    route: Route | None = None
    by_type: dict[str, tuple[Handler, bool]] = field(default_factory=dict)
    is_async: bool = False

    def add(self, kind: str, handler: Handler) -> None:
        """
        Take in a handler.

        Raises:
            InvalidFormat: it is not a function of one or two arguments, there is one of its type,
                or it is a coroutine function and others of this queue are not.
        """
        if not callable(handler):
            raise InvalidFormat(
                "handler", value=show(handler), hint=f"It is a function; got {show(handler)}."
            )
        self.check([kind])
        if _is_generator(handler):
            raise InvalidFormat(
                "handler",
                value=show(handler),
                hint=f"{show(handler)} has a yield: calling it would run nothing of it.",
            )
        is_async = _is_async(handler)
        if self.by_type and is_async != self.is_async:
            raise InvalidFormat(
                "handler",
                value=show(handler),
                hint="The handlers of a queue are all plain functions or all async ones.",
            )
        self.by_type[kind] = (handler, _takes_message(handler))
        self.is_async = is_async

    def check(self, kinds: Iterable[str]) -> None:
        """
        Hold types against those that have a handler.

        Raises:
            InvalidFormat: one has.
        """
        for kind in kinds:
            if kind in self.by_type:
                raise InvalidFormat(
                    "handler", value=kind, hint=f"There is a handler for {show(kind)} already."
                )

    def of(self, body: Any) -> tuple[Handler, bool, Any]:
        """
        The handler for a body, whether it takes the message too, and what it gets of the body.

        Raises:
            Unroutable: there is none.
        """
        if self.route is None:
            handler, takes_message = self.by_type[""]
            return handler, takes_message, body
        kind, payload = self.route(body)
        found = None if kind is None else self.by_type.get(kind)
        if found is None:
            raise Unroutable(
                "the message has no type" if kind is None else f"there is no handler for {kind!r}"
            )
        return *found, payload


def _is_generator(handler: Handler) -> bool:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler)


def _is_async(handler: Handler) -> bool:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object's own, which may be async
    )


def _takes_message(handler: Handler) -> bool:
    """Whether a handler takes a second argument, or can do with one and does not call it so."""
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # one written in C
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
                f"handle(body, message); {show(handler)} takes {signature}.",
            ) from None
        return False
    second = signature.parameters[list(bound.arguments)[-1]]
    return second.default is second.empty or second.name in ("message", "messages")


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """
    A queue, and what is to be done with its messages.

    Attributes:
        queue: the queue's name.
        handlers: the functions that are called.
        vt: the visibility timeout, seconds; None is the queue's.
        codec: how bodies become values; None is the client's.
        batch: messages of a call; None calls with one message.
        concurrency: calls at once at most; None is the worker's.
        priority: messages of a higher one go first.
        policy: what becomes of messages that fail.
        max_runtime: the longest time a call may take, seconds.
        create: whether the queues are created where they are missing.
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

    @property
    def others(self) -> tuple[str, ...]:
        """The queues that its messages may go to."""
        named = self.policy.dead_letter_queue, self.policy.unroutable
        return tuple(dict.fromkeys(name for name in named if name is not None))


def listener(
    queue: str,
    handlers: Handlers,
    *,
    vt: float | None,
    codec: Codec | None,
    batch: int | None,
    concurrency: int | None,
    priority: int,
    max_retries: int | None,
    backoff: object,
    no_retry: type[BaseException] | Iterable[type[BaseException]],
    dead_letter_queue: str | None,
    unroutable: str | None,
    drop: bool,
    max_runtime: float,
    create: bool,
) -> Listener:
    """
    A listener from what its user said, checked.

    Raises:
        InvalidFormat, InvalidValue: something is not what it must be.
    """
    ends = dead_letter_queue is not None or drop
    if drop and dead_letter_queue is not None:
        raise InvalidFormat(
            "drop",
            value=drop,
            hint=f"Messages of {show(queue)} go to {show(dead_letter_queue)}, or are dropped: say "
            "one of them.",
        )
    if max_retries is None:
        retries = MAX_RETRIES if ends else None
    else:
        retries = check_whole_number("max_retries", max_retries, 0, MAX_RECEIVES)
        if not ends:
            raise InvalidFormat(
                "max_retries",
                value=max_retries,
                hint=f"What becomes of a message of {show(queue)} after {max_retries} retries? "
                "Name a dead_letter_queue, or say drop=True.",
            )
    for item, name in (("dead_letter_queue", dead_letter_queue), ("unroutable", unroutable)):
        if name is not None and name == queue:
            raise InvalidFormat(item, value=name, hint="It must be another queue.")
    if batch is not None:
        batch = check_whole_number("batch", batch, 1, MAX_BATCH)
        if handlers.route is not None:
            raise InvalidFormat(
                "batch", value=batch, hint="Messages that are routed by type come one by one."
            )
    if concurrency is not None:
        concurrency = check_whole_number("concurrency", concurrency, 1, MAX_CONCURRENCY)
    return Listener(
        queue,
        handlers,
        None if vt is None else checked_vt(vt),
        None if codec is None else check_codec(codec),
        batch,
        concurrency,
        check_whole_number("priority", priority, -(10**6), 10**6),
        Policy(
            retries,
            exponential() if backoff is None else checked_backoff(backoff),
            _exceptions(no_retry),
            dead_letter_queue,
            unroutable,
            drop,
        ),
        _runtime(max_runtime),
        create,
    )


def checked_vt(vt: object) -> float:
    """
    A visibility timeout of a listener, or of its queue.

    Raises:
        InvalidValue: it is too short, or no number of seconds.
    """
    if to_milliseconds("vt", vt) < SHORTEST_VT * 1000:
        raise InvalidValue(
            "vt",
            SHORTEST_VT,
            MAX_SECONDS,
            value=vt,
            hint="A worker's messages must be hidden for a while, and are for longer while their "
            f"handlers run; got {show(vt)}. Say vt= of the listener.",
        )
    return float(vt)  # type: ignore[arg-type]


def _runtime(value: object) -> float:
    if to_milliseconds("max_runtime", value) == 0:
        raise InvalidValue("max_runtime", 0.001, MAX_SECONDS, value=value, hint="It is in seconds.")
    return float(value)  # type: ignore[arg-type]


def _exceptions(
    given: type[BaseException] | Iterable[type[BaseException]],
) -> tuple[type[BaseException], ...]:
    listed = isinstance(given, Iterable) and not isinstance(given, str | bytes | type)
    kinds: tuple[Any, ...] = tuple(given) if listed else (given,)  # type: ignore[arg-type]
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidFormat(
                "no_retry",
                value=show(kind),
                hint=f"It is a class of exceptions, or several; got {show(kind)}.",
            )
    return kinds
