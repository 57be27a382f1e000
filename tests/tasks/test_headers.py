"""Headers of tasks: current at the send, and current again for the function and what follows it."""

from __future__ import annotations

import json
import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider

from rsmq import JSON
from rsmq.codecs import EnvelopeCodec
from rsmq.headers import current_headers, use_headers
from rsmq.opentelemetry import instrument_client, message_context
from rsmq.tasks import RESULT
from rsmq.worker import Worker
from rsmq.worker.logging import MessageFilter
from rsmq.worker.middlewares import CarryHeaders
from tests.scale import WAIT_SECONDS


@pytest.fixture(params=["threads", "asyncio"])
def declare(request, tasks):
    """Declare a task, as a function or a coroutine function."""

    def make(name, function):
        if request.param == "threads":
            return tasks.task(queue=f"{name}s", name=name)(function)

        async def later(x: str) -> str:
            return function(x)

        return tasks.task(queue=f"{name}s", name=name)(later)

    return make


def test_headers_of_the_send_are_those_of_the_task_and_of_the_next_one(tasks, raw, declare):
    seen = []

    def see(x: str) -> str:
        seen.append((x, dict(current_headers())))
        return x

    first, second = declare("first", see), declare("second", see)
    with use_headers({"request_id": "7f3a"}):
        first.options(then=second.signature(RESULT)).send("a")
    first.send("b")
    assert [json.loads(body).get("headers") for body in raw("firsts")] == [
        {"request_id": "7f3a"}, None,
    ]  # fmt: skip
    tasks.client.send_message("firsts", '{"task":"first","args":{"x":"c"},"headers":["x"]}')
    tasks.run_all()

    assert sorted(seen, key=lambda each: each[0]) == [
        ("a", {"request_id": "7f3a"}), ("a", {"request_id": "7f3a"}), ("b", {}), ("c", {}),
    ]  # fmt: skip


def test_an_instrumented_client_sends_the_context_of_its_span_with_tasks_and_envelopes(tasks):
    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    provider = TracerProvider()
    client = instrument_client(tasks.client, tracer_provider=provider)
    with provider.get_tracer("test").start_as_current_span("request") as span:
        task.send()
        client.send_message("q", 1, codec=EnvelopeCodec(JSON))
        client.send_message("q", 2, codec=JSON)

    sent = client.peek_messages("q", codec=JSON)
    trace_id = f"{span.get_span_context().trace_id:032x}"
    assert [trace_id in each.headers.get("traceparent", "") for each in sent] == [
        True, True, False,
    ]  # fmt: skip
    assert message_context(sent[0])
    assert not message_context(sent[2])
    assert sent[2].raw == b"2"


def test_the_middleware_makes_headers_of_messages_current(tasks, raw):
    codec = EnvelopeCodec(JSON)
    records = []
    worker = Worker(tasks.client, middleware=[CarryHeaders()], concurrency=1)

    @worker.listener("in", codec=codec, retry_forever=True, create=True)
    def handle(body):
        record = logging.makeLogRecord({})
        MessageFilter().filter(record)
        records.append((body, getattr(record, "request_id", None)))
        tasks.client.send_message("out", body, codec=codec)

    for name in ("in", "out"):
        tasks.client.create_queue(name)
    with use_headers({"request_id": "7f3a"}):
        tasks.client.send_message("in", 1, codec=codec)
    tasks.client.send_message("in", 2, codec=codec)
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert records == [(1, "7f3a"), (2, None)]
    assert raw("out") == ['{"headers":{"request_id":"7f3a"},"body":1}', "2"]
