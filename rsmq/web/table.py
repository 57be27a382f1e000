"""
The form of the table of operations: an entry, what its handler gets, and what it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from rsmq.codecs import Codec
from rsmq.model import Message
from rsmq.search.redaction import Redaction
from rsmq.web.answers import fields_of
from rsmq.web.bodies import whole_bodies_of
from rsmq.web.client import Client
from rsmq.web.fields import Field
from rsmq.web.walks import QueueWalks

#: The content of an answer.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class Scope(Enum):
    """The right that a caller must have, for a queue or for all."""

    STATS = "stats"  # counts and attributes, no bodies
    PEEK = "peek"  # bodies, without receiving them
    SEND = "send"
    RECEIVE = "receive"  # and delete, extend and release by receipt
    MANAGE = "manage"  # attributes, pauses, schedules, messages without a receipt
    DESTROY = "destroy"  # delete queues, purge them
    REPAIR = "repair"  # faults that the doctor finds
    METRICS = "metrics"
    AUDIT = "audit"  # who has changed what

    #: That of Enum is written in Python, and each request looks for its scope in five sets.
    __hash__ = object.__hash__


#: The scopes of calls that change nothing.
READING = frozenset({Scope.STATS, Scope.PEEK, Scope.METRICS, Scope.AUDIT})


@dataclass(frozen=True, slots=True)
class RawBody:
    """The body of a request or an answer that is bytes, and not JSON."""

    media_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class ApiAnswer(Generic[T]):
    """
    The answer of a handler.

    Attributes:
        content: a value of JSON; or bytes, which are sent as they are; None sends no body.
        messages: the received messages in the content, which are released if the client has left.
        stream: the pieces of a content that has no known end, instead of it. It ends when the
            client leaves, and raises nothing.
        changes: for the audit stream, the old and the new value by the name of what was changed.
        done: for the audit stream, how many messages were changed, if the call does not name them.
        ids: for the audit stream, the first of these.
    """

    content: T = None  # type: ignore[assignment]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    messages: tuple[Message[bytes], ...] = ()
    stream: AsyncGenerator[bytes] | None = None
    changes: Mapping[str, tuple[Any, Any]] | None = None
    done: int | None = None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiCall:
    """
    A request, as its handler gets it.

    Attributes:
        names: the decoded parts of the path, by the names in the entry's path.
        values: the fields of the query or the JSON body that were passed, checked for their types.
        raw: the body, if it is bytes and not JSON.
        headers: by names in lower case.
        allow: raises Forbidden unless the caller has a scope for a queue, for what the table can't
            know: queues that a body names, and changes without a receipt.
        has_left: returns a future that is done when the client has left.
        redaction: what of bodies the caller does not see when it reads messages.
        keeps_rights: returns whether the caller is still known and has the same rights, for an
            answer that lasts.
        caller: the name of the caller.
        address: its address.
        is_read_only: whether the server sends Redis no command that may write.
        walks: the walks through all queues.
        namespaces: returns the namespaces of the caller, each with the path of its API.
    """

    queues: Client
    names: Mapping[str, str]
    values: Mapping[str, Any]
    raw: bytes
    headers: Mapping[str, str]
    allow: Callable[[Scope, str], None]
    has_left: Callable[[], asyncio.Future[None]]
    redaction: Redaction
    keeps_rights: Callable[[], Awaitable[bool]]
    caller: str
    address: str
    is_read_only: bool
    walks: QueueWalks
    namespaces: Callable[[], Mapping[str, str]] = dict

    @property
    def codec(self) -> Codec[Any, bytes]:
        """The codec of single bodies of the namespace, and of those that are sent."""
        return whole_bodies_of(self.queues)


Handler: TypeAlias = Callable[[ApiCall], Coroutine[Any, Any, ApiAnswer[T]]]


@dataclass(frozen=True, slots=True)
class Route(Generic[T]):
    """
    An entry of the table.

    Attributes:
        path: parts in braces are names; a part may end with ``:action``.
        scope: for the queue ``queue`` of the path; for any queue if there is none. None is for each
            caller that is known.
        summary: one line.
        calls: the methods of the client that it calls; those of schedules as ``schedules.add``.
        query: the fields of the query.
        body: the fields of the JSON body; or RawBody.
        answers: what each status means that is not an error.
        result: the form of a JSON answer: a TypedDict, or its fields; or RawBody.
        idempotent: whether it takes ``Idempotency-Key``.
        is_preview: whether it only stores what a later call is to change. It is not recorded.
        is_long: whether its work grows with the queue, so that Redis may need seconds for it.
        queue_of: returns the queue that a call without a queue in its path concerns, for its
            record; empty if there is none.
    """

    method: str
    path: str
    scope: Scope | None
    summary: str
    handler: Handler[T]
    calls: tuple[str, ...] = ()
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | RawBody = ()
    answers: Mapping[int, str] = field(default_factory=lambda: {200: "done"})
    result: type[T] | tuple[Field, ...] | RawBody = ()
    idempotent: bool = False
    is_preview: bool = False
    is_long: bool = False
    queue_of: Callable[[ApiCall], Awaitable[str]] | None = None

    @property
    def is_reading(self) -> bool:
        """Whether its scope allows no changes."""
        return self.scope is None or self.scope in READING

    @property
    def result_fields(self) -> tuple[Field, ...] | RawBody:
        """The fields of its JSON answer, or RawBody."""
        return fields_of(self.result) if isinstance(self.result, type) else self.result
