"""
Spans for the calls of a client that send or receive messages.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from opentelemetry import propagate
from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider, use_span

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.errors import InvalidFormat
from rsmq.headers import use_headers
from rsmq.model import Message
from rsmq.opentelemetry import spans
from rsmq.operations.batches import ReceiveInSteps

Client = TypeVar("Client", bound=RSMQ | AsyncRSMQ)

#: The attribute of a client that has been changed.
_MARK = "_is_instrumented"

#: For each method the name and the type of its operation.
_METHODS = {
    "send_message": ("send", "send"),
    "send_messages": ("send", "send"),
    "publish": ("publish", "send"),
    "receive_message": ("receive", "receive"),
    "receive_messages": ("receive", "receive"),
    "_receive_leased": ("receive", "receive"),  # of consume
    "pop_message": ("pop", "receive"),
    "pop_messages": ("pop", "receive"),
    "recover_messages": ("recover", "receive"),
}


def instrument_client(client: Client, *, tracer_provider: TracerProvider | None = None) -> Client:
    """
    Make a client create spans: one for each call that sends, receives, pops or recovers messages.

    Only this object is changed; other clients create no spans. A second call changes nothing. The
    current span is the parent of these spans. The span of a waiting receive lasts as long as the
    wait. Attributes contain the queue, the ids and number of messages, and the server's address,
    never a body. If a call raises, the span has the class of the error, not its text.

    The context of a send is added to its headers, which an ``EnvelopeCodec`` and tasks write into
    the message. Such a send has the kind PRODUCER; all others have CLIENT. A receive links to the
    spans that sent its messages, if these have such a context.

    Args:
        client: an RSMQ or AsyncRSMQ.
        tracer_provider: where the spans go; None uses OpenTelemetry's global provider.

    Returns:
        The same client.

    Raises:
        InvalidFormat: client is not an RSMQ or AsyncRSMQ.
    """
    if not isinstance(client, RSMQ | AsyncRSMQ):
        raise InvalidFormat(
            "client",
            value=type(client).__name__,
            hint=f"instrument_client takes an RSMQ or AsyncRSMQ, not a {type(client).__name__}.",
        )
    attributes = vars(client)
    if _MARK in attributes:
        return client
    wrap = _wrap_async if isinstance(client, AsyncRSMQ) else _wrap
    tracer = spans.make_tracer(tracer_provider)
    server = spans.server_attributes(client)
    for name, (operation, operation_type) in _METHODS.items():
        calls = _Calls(tracer, operation, operation_type, client.codec, server)
        attributes[name] = wrap(getattr(client, name), calls)
    attributes[_MARK] = True
    return client


def _wrap(method: Callable[..., Any], calls: _Calls) -> Callable[..., Any]:
    @functools.wraps(method, updated=())  # not with the signature of the function, which has self
    def call(*args: Any, **options: Any) -> Any:
        with calls.span(args, options) as span:
            result = method(*args, **options)
            _describe_result(span, result)
            return result

    return call


def _wrap_async(
    method: Callable[..., Awaitable[Any]], calls: _Calls
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method, updated=())  # as above
    async def call(*args: Any, **options: Any) -> Any:
        with calls.span(args, options) as span:
            result = await method(*args, **options)
            _describe_result(span, result)
            return result

    return call


@dataclass(frozen=True, slots=True)
class _Calls:
    """
    The calls of one method of a client, each of which gets a span.

    Attributes:
        tracer: makes the spans.
        operation: the name of the operation.
        operation_type: its type in the conventions.
        codec: the client's codec.
        server: the attributes of the client's server.
    """

    tracer: Tracer
    operation: str
    operation_type: str
    codec: object
    server: dict[str, Any]

    @contextmanager
    def span(self, args: tuple[Any, ...], options: dict[str, Any]) -> Iterator[Span]:
        """Return a context manager that makes the span of one call the current one, and ends it."""
        queue = _only_queue(args, options)
        span = self.tracer.start_span(
            spans.span_name(self.operation, queue),
            kind=self._kind(options.get("codec")),
            attributes={
                **spans.span_attributes(self.operation, self.operation_type, queue),
                **self.server,
            },
        )
        with use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                with self._headers():
                    yield span
            except BaseException as error:
                spans.mark_failed(span, error)
                raise

    def _headers(self) -> AbstractContextManager[None]:
        """Return a context manager in which sends have the context of the current span."""
        if self.operation_type != "send":
            return nullcontext()
        headers: dict[str, str] = {}
        propagate.inject(headers)
        return use_headers(headers)

    def _kind(self, codec: object) -> SpanKind:
        is_context_sent = getattr(self.codec if codec is None else codec, "writes_headers", False)
        if self.operation_type == "send" and is_context_sent:
            return SpanKind.PRODUCER
        return SpanKind.CLIENT


def _only_queue(args: tuple[Any, ...], options: dict[str, Any]) -> str | None:
    """Return the queue of a call; None if it has several, or names it in an unknown way."""
    queues = args[0] if args else options.get("qname", options.get("qnames"))
    if isinstance(queues, ReceiveInSteps):
        queues = queues.queues
    # Other iterables may be readable only once.
    if isinstance(queues, list | tuple | set | frozenset | dict):
        names = [*queues]
        queues = names[0] if names and all(name == names[0] for name in names) else None
    return queues if isinstance(queues, str) else None


def _describe_result(span: Span, result: Any) -> None:
    """Add the ids, the number and the creation contexts of the messages to a span."""
    if result is None or not span.is_recording():
        return
    if isinstance(result, str):
        span.set_attribute(spans.MESSAGE_ID, result)
        return
    if isinstance(result, Message):
        span.set_attribute(spans.MESSAGE_ID, result.id)
    else:
        span.set_attribute(spans.BATCH_MESSAGE_COUNT, len(result))
    is_batch = not isinstance(result, Message)
    for message in result if is_batch else [result]:
        if isinstance(message, Message):
            for link in spans.creation_links(message, is_batch=is_batch):
                span.add_link(link.context, link.attributes)
