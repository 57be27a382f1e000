"""
Traces with OpenTelemetry: spans for clients and workers, and the context in headers of messages.

    from rsmq.opentelemetry import TracingMiddleware, instrument_client
    queues = instrument_client(RSMQ.from_url(url, codec=EnvelopeCodec(JSON)))
    worker = Worker(queues, middleware=[TracingMiddleware()])

Needs the extra ``opentelemetry``. Without it, the import raises MissingExtra.
"""

from rsmq.errors import MissingExtra

try:
    import opentelemetry.trace  # noqa: F401 - the modules below import parts of it
except ImportError as error:
    raise MissingExtra("opentelemetry", "rsmq.opentelemetry") from error

from rsmq.opentelemetry.spans import message_context
from rsmq.opentelemetry.traced_client import instrument_client
from rsmq.opentelemetry.tracing_middleware import TracingMiddleware

__all__ = ["TracingMiddleware", "instrument_client", "message_context"]
