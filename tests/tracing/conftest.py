"""Both clients with spans that an exporter keeps in memory."""

from __future__ import annotations

import asyncio
import contextvars
import inspect

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rsmq import RSMQ, AsyncRSMQ
from rsmq.opentelemetry import instrument_client
from tests.workers.conftest import backend, env, fast_heartbeat  # noqa: F401 - fixtures


class Spans:
    """The spans that have ended, and the provider that they come from."""

    def __init__(self):
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def all(self):
        return self._exporter.get_finished_spans()

    def named(self, name):
        return [span for span in self.all() if span.name == name]

    def only(self, name):
        (span,) = self.named(name)
        return span

    def text(self):
        """Return everything that is exported, to look for values that must not be there."""
        return "".join(span.to_json() for span in self.all())


class BlockingInContext:
    """An asyncio client whose methods are called without await, in the context of the caller."""

    def __init__(self, runner, client):
        self._runner = runner
        self.client = client

    def run_coroutine(self, coroutine):
        return self._runner.run(coroutine, context=contextvars.copy_context())

    def __getattr__(self, name):
        method = getattr(self.client, name)
        if not inspect.iscoroutinefunction(method):
            return method
        return lambda *args, **options: self.run_coroutine(method(*args, **options))


@pytest.fixture
def spans():
    return Spans()


@pytest.fixture(params=["sync", "asyncio"])
def mode(request):
    return request.param


@pytest.fixture
def make_client(mode, server, ns, spans):
    """Make a traced client of either kind. Its methods are called without await."""
    closing = []

    def make(url=server.url, **options):
        if mode == "sync":
            client = RSMQ.from_url(url, ns=ns, **options)
            closing.append(client.close)
            assert instrument_client(client, tracer_provider=spans.provider) is client
            return client
        runner = asyncio.Runner()
        client = AsyncRSMQ.from_url(url, ns=ns, **options)
        assert instrument_client(client, tracer_provider=spans.provider) is client
        blocking = BlockingInContext(runner, client)
        closing.extend([runner.close, blocking.close])
        return blocking

    yield make
    for close in reversed(closing):
        close()


@pytest.fixture
def queues(make_client):
    """A traced client with the queue ``orders``."""
    client = make_client()
    client.create_queue("orders")
    return client
