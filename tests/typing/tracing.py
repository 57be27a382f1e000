"""The types of rsmq.opentelemetry. mypy and pyright check this file; it is never run."""

from __future__ import annotations

from typing import assert_type

from opentelemetry.context import Context

from rsmq import JSON, RSMQ, TEXT, AsyncRSMQ, Message
from rsmq.codecs import EnvelopeCodec
from rsmq.opentelemetry import TracingMiddleware, instrument_client, message_context
from rsmq.worker import Worker


class Shop(RSMQ):
    """A client of an application."""


def tracing(client: RSMQ, async_client: AsyncRSMQ, shop: Shop, message: Message) -> None:
    """Check the results, and that codec and middleware are accepted."""
    assert_type(instrument_client(client), RSMQ)
    assert_type(instrument_client(async_client), AsyncRSMQ)
    assert_type(instrument_client(shop), Shop)
    assert_type(message_context(message), Context)
    client.send_message("orders", {"number": 1}, codec=EnvelopeCodec(JSON))
    assert_type(RSMQ.from_url("memory://", codec=EnvelopeCodec(TEXT)), RSMQ[str])
    assert_type(message.headers, dict[str, str])
    Worker(client, middleware=[TracingMiddleware()])
