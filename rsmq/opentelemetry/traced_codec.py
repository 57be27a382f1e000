"""
The context of a trace in a message, and the earlier codec that writes it.

``instrument_client`` adds the context to the headers of a send, which an ``EnvelopeCodec`` or a
task carries. ``TracedCodec`` writes one line in front of the body instead: a prefix and a JSON
object with the headers of the propagator, such as ``rsmq-trace:1 {"traceparent":"00-..."}``. The
bytes after the line end are the body as the inner codec wrote it.
"""

from __future__ import annotations

import json
from typing import Generic

from opentelemetry import propagate
from opentelemetry.context import Context

from rsmq.codecs import Codec, check_codec
from rsmq.headers import TRACE_LINE, split_trace_line
from rsmq.model import Message, StoredMessage
from rsmq.type_variables import In_contra, Out_co


class TracedCodec(Generic[In_contra, Out_co]):
    """
    A codec that writes the current trace context in front of the body that another codec encodes.

    It is the earlier form, for queues that have it: ``EnvelopeCodec`` reads it too, and carries any
    header.

    Every program that reads such a message needs this codec. Consumers without it, also those in
    other languages, receive the envelope as part of the body. The codec also decodes messages
    without an envelope, so change consumers before producers.

    Without a current span there is no envelope. An envelope counts towards the queue's maxsize; it
    has about 90 characters, and more with a tracestate or with baggage.
    """

    __slots__ = ("_codec",)

    writes_headers = True

    def __init__(self, codec: Codec[In_contra, Out_co]) -> None:
        """
        Wrap a codec.

        Args:
            codec: TEXT, BYTES, JSON, MSGPACK, or an object with ``encode`` and ``decode``.

        Raises:
            InvalidFormat: codec is not a codec.
        """
        self._codec: Codec[In_contra, Out_co] = check_codec(codec)

    def encode(self, body: In_contra) -> str | bytes:
        """Return the encoded body, after an envelope with the current context if there is one."""
        encoded = self._codec.encode(body)
        headers: dict[str, str] = {}
        propagate.inject(headers)
        if isinstance(encoded, str):
            # A body that begins like an envelope needs one, so that decode does not remove its
            # first line.
            is_needed = headers or encoded.startswith(TRACE_LINE)
            return _first_line(headers) + encoded if is_needed else encoded
        if isinstance(encoded, bytes):
            is_needed = headers or encoded.startswith(TRACE_LINE.encode())
            return _first_line(headers).encode() + encoded if is_needed else encoded
        return encoded  # the send refuses it

    def decode(self, raw: bytes) -> Out_co:
        """Return the body that the inner codec decodes from the bytes after the envelope."""
        _, encoded = split_trace_line(raw)
        return self._codec.decode(encoded)

    def __repr__(self) -> str:
        return f"TracedCodec({self._codec!r})"


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


def _first_line(headers: dict[str, str]) -> str:
    return f"{TRACE_LINE}{json.dumps(headers, separators=(',', ':'))}\n"
