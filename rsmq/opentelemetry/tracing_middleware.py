"""
Spans for the calls of a worker's handlers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    TracerProvider,
    get_current_span,
    set_span_in_context,
)

from rsmq.model import Message
from rsmq.opentelemetry import spans
from rsmq.worker import Defer, Discard, Middleware, current_message


class TracingMiddleware(Middleware):
    """
    A middleware that creates a span for each call of a handler: ``process orders``, kind CONSUMER.

    Put it first in the list of middleware, so that the span covers the others. The span is the
    current one in the handler, so the spans that the handler creates are its children.

    - A message with the context of its send, in its headers: the span belongs to the trace of the
      send, as a child of the span that sent the message, and links to that span. Each attempt has
      its own.
    - A message without: the span is the root of a new trace.
    - A batch: one span for the call, the root of a new trace, with a link for each context.

    If the handler raises, the span has the error, with its text and traceback; Discard and Defer
    are not errors. A message that can't be decoded or has no route has no span: no handler is
    called.
    """

    def __init__(self, *, tracer_provider: TracerProvider | None = None) -> None:
        """
        Create it. One object may serve several workers of one server.

        Args:
            tracer_provider: where the spans go; None uses OpenTelemetry's global provider.
        """
        self._tracer = spans.make_tracer(tracer_provider)
        self._call_key = context.create_key("rsmq-call")
        self._server: dict[str, Any] = {}

    def before_start(self, worker: Any) -> None:
        self._server = spans.server_attributes(worker.rsmq)

    def before_handle(self, message: Message) -> None:
        is_batch = current_message() is None
        call = context.get_value(self._call_key) if is_batch else None
        if not isinstance(call, _TracedCall):
            call = self._start_call(message, is_batch=is_batch)
        elif call.span.is_recording():
            for link in spans.creation_links(message, is_batch=True):
                call.span.add_link(link.context, link.attributes)
        call.running[id(message)] = message
        call.message_count += 1

    def _start_call(self, message: Message, *, is_batch: bool) -> _TracedCall:
        links = spans.creation_links(message, is_batch=is_batch)
        attributes = {
            **spans.span_attributes("process", "process", message.queue),
            **self._server,
        }
        if is_batch:
            parent = Context()
        else:
            parent = spans.message_context(message)
            attributes[spans.MESSAGE_ID] = message.id
            attributes[spans.RECEIVE_COUNT] = message.receive_count
        # The worker may have been started inside a span, which is not the parent of its calls.
        ambient = get_current_span().get_span_context()
        if ambient.is_valid:
            links.append(Link(ambient))
        span = self._tracer.start_span(
            spans.span_name("process", message.queue),
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        )
        call = _TracedCall(span, is_batch=is_batch)
        inside = set_span_in_context(span, context.set_value(self._call_key, call, parent))
        call.token = context.attach(inside)
        return call

    def after_handle(
        self,
        message: Message,
        error: BaseException | None,
        seconds: float,  # noqa: ARG002 - the span measures the time itself
    ) -> None:
        call = context.get_value(self._call_key)
        # It is missing if the before_handle of an earlier middleware raised.
        if not isinstance(call, _TracedCall) or call.running.pop(id(message), None) is None:
            return
        if error is not None and not isinstance(error, Defer | Discard):
            call.record_error(message, error)
        if not call.running:
            if call.is_batch:
                call.span.set_attribute(spans.BATCH_MESSAGE_COUNT, call.message_count)
            context.detach(call.token)
            call.span.end()


@dataclass(slots=True)
class _TracedCall:
    """
    A call of a handler.

    Attributes:
        span: its span.
        is_batch: whether the handler receives a batch.
        token: resets the context of the thread or task.
        running: its messages whose after_handle has not run, by identity.
        message_count: the number of its messages.
        recorded_errors: the identities of the errors that the span has.
    """

    span: Span
    is_batch: bool = field(kw_only=True)
    token: Any = None
    running: dict[int, Message] = field(default_factory=dict)
    message_count: int = 0
    recorded_errors: set[int] = field(default_factory=set)

    def record_error(self, message: Message, error: BaseException) -> None:
        """Record the error of a message; once, if it is the error of a whole batch."""
        if id(error) in self.recorded_errors:
            return
        if not self.recorded_errors:
            spans.mark_failed(self.span, error)
        self.recorded_errors.add(id(error))
        is_own = self.is_batch and getattr(message, "error", None) is error
        self.span.record_exception(error, {spans.MESSAGE_ID: message.id} if is_own else None)
