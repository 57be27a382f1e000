"""
Names, attributes and errors of spans, by OpenTelemetry's semantic conventions for messaging.

Source: opentelemetry.io, "Semantic conventions for messaging spans" (status: Development). The
names are literals because opentelemetry-api does not contain them; a test compares them with
opentelemetry-semantic-conventions.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    StatusCode,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
)

from rsmq import __version__
from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.model import Message, StoredMessage

BATCH_MESSAGE_COUNT = "messaging.batch.message_count"
DESTINATION_NAME = "messaging.destination.name"
ERROR_TYPE = "error.type"
MESSAGE_ID = "messaging.message.id"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
SYSTEM = "messaging.system"
#: Our own attribute; the conventions have none for it.
RECEIVE_COUNT = "messaging.rsmq.message.receive_count"

_DEFAULT_REDIS_PORT = 6379


def make_tracer(tracer_provider: TracerProvider | None) -> Tracer:
    """Return the tracer of this library; without a provider that of the global one."""
    return get_tracer("rsmq", __version__, tracer_provider)


def span_name(operation: str, queue: str | None) -> str:
    """Return the name of a span; queue is None if there is more than one."""
    return operation if queue is None else f"{operation} {queue}"


def span_attributes(operation: str, operation_type: str, queue: str | None) -> dict[str, Any]:
    """Return the attributes that every span of an operation has."""
    attributes = {SYSTEM: "rsmq", OPERATION_NAME: operation, OPERATION_TYPE: operation_type}
    return attributes if queue is None else {**attributes, DESTINATION_NAME: queue}


def server_attributes(client: RSMQ | AsyncRSMQ) -> dict[str, Any]:
    """
    Return the attributes of a client's server.

    They are empty for Redis Cluster and Sentinel, where the server may change, and for memory://.
    """
    options = client.caller.server_options or {}
    if "path" in options:
        return {SERVER_ADDRESS: options["path"]}
    if "host" not in options or "server" in options:  # "server" is an option of fakeredis
        return {}
    port = int(options.get("port") or _DEFAULT_REDIS_PORT)
    return {SERVER_ADDRESS: options["host"], SERVER_PORT: port}


def message_context(message: Message | StoredMessage) -> Context:
    """
    Return the context in which a message was sent, for a span of your own.

    Args:
        message: a message with headers, whichever codec decodes it.

    Returns:
        The context, for ``tracer.start_as_current_span("process orders", context=...)``. It is
        empty if the message has no headers: then the span is the root of a new trace.
    """
    return propagate.extract(message.headers, context=Context())


def creation_links(message: Message, *, is_batch: bool) -> list[Link]:
    """Return a link to the span that sent a message, or nothing if the message has no context."""
    sent_in = get_current_span(message_context(message)).get_span_context()
    if not sent_in.is_valid:
        return []
    return [Link(sent_in, {MESSAGE_ID: message.id} if is_batch else None)]


def mark_failed(span: Span, error: BaseException) -> None:
    """Mark a span as failed, without the error's text, which may contain parts of a body."""
    kind = type(error)
    is_builtin = kind.__module__ == "builtins"
    name = kind.__qualname__ if is_builtin else f"{kind.__module__}.{kind.__qualname__}"
    span.set_attribute(ERROR_TYPE, name)
    span.set_status(StatusCode.ERROR)
