"""The spans of a worker's handlers, in threads and on an event loop."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, StatusCode

from rsmq import JSON, TEXT
from rsmq.codecs import EnvelopeCodec
from rsmq.opentelemetry import TracingMiddleware, instrument_client, message_context
from rsmq.worker import DeadLetter, Defer, Discard, Middleware, Retry
from tests.tracing.test_client import attributes, link_to, links
from tests.workers.polling import wait_until

CODEC = EnvelopeCodec(TEXT)


@pytest.fixture(params=["threads", "asyncio"])
def as_handler(request):
    """Make a handler of a function: itself, or a coroutine function."""
    if request.param == "threads":
        return lambda function: function

    def convert(function):
        async def handler(body):
            await asyncio.sleep(0)
            return function(body)

        return handler

    return convert


@pytest.fixture
def tracing(spans):
    return TracingMiddleware(tracer_provider=spans.provider)


@pytest.fixture
def sender(env, spans):
    """A traced client of the worker's namespace, whose messages have an envelope."""
    env.create_queues("orders", "dead")
    return instrument_client(env.create_client(codec=CODEC), tracer_provider=spans.provider)


def exceptions(span):
    """Return type and text of the exceptions that a span has recorded."""
    return [
        (event.attributes["exception.type"], event.attributes["exception.message"])
        for event in span.events
    ]


def test_a_handler_continues_the_trace_of_the_send(env, sender, server, spans, tracing, as_handler):
    worker = env.create_worker(middleware=[tracing])

    @worker.listener("orders", codec=CODEC)
    @as_handler
    def handle(body):
        with spans.tracer.start_as_current_span(f"inside {body}"):
            pass

    with spans.tracer.start_as_current_span("request"):
        id = sender.send_message("orders", "1")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    request, send, process, inside = (
        spans.only(name) for name in ("request", "send orders", "process orders", "inside 1")
    )

    assert process.kind is SpanKind.CONSUMER
    assert process.context.trace_id == request.context.trace_id
    assert process.parent.span_id == send.context.span_id
    assert process.parent.is_remote
    assert inside.parent.span_id == process.context.span_id
    assert links(process) == [link_to(send)]
    assert dict(process.attributes) == attributes(
        server, "process", "process", message__id=id, rsmq__message__receive_count=1
    )
    assert process.status.status_code is StatusCode.UNSET
    assert env.is_empty("orders")


def test_without_an_envelope_the_span_is_a_new_root(env, sender, spans, tracing, as_handler):
    worker = env.create_worker(middleware=[tracing])
    worker.listener("orders")(as_handler(lambda body: None))
    sender.send_message("orders", "1", codec=TEXT)
    with spans.tracer.start_as_current_span("main") as main:
        worker.start()
        wait_until(lambda: worker.numbers.handled == 1)
    process = spans.only("process orders")

    assert process.parent is None
    assert process.context.trace_id not in {
        spans.only("send orders").context.trace_id,
        main.get_span_context().trace_id,
    }


def test_many_messages_have_their_own_traces(env, sender, spans, tracing, as_handler):
    worker = env.create_worker(middleware=[tracing], concurrency=8)
    seen = {}

    @worker.listener("orders", codec=CODEC)
    @as_handler
    def handle(body):
        seen[body] = trace.get_current_span().get_span_context().trace_id
        if body == "last":
            raise Discard

    bodies = [str(number) for number in range(50)]
    expected = {}
    for body in [*bodies, "last"]:
        with spans.tracer.start_as_current_span("request") as request:
            sender.send_message("orders", body)
        expected[body] = request.get_span_context().trace_id
    worker.start()
    wait_until(lambda: len(spans.named("process orders")) == 51)

    assert seen == expected
    assert len(set(expected.values())) == 51


def test_each_attempt_has_a_span_with_its_error(env, sender, spans, tracing, as_handler):
    worker = env.create_worker(middleware=[tracing])

    @worker.listener("orders", codec=CODEC, dead_letter_queue="dead", max_retries=1, backoff=0)
    @as_handler
    def handle(body):
        raise ValueError("no stock")

    sender.send_message("orders", "secret-body")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)
    send = spans.only("send orders")
    first, second = spans.named("process orders")

    for span in (first, second):
        assert span.parent.span_id == send.context.span_id
        assert span.attributes["error.type"] == "ValueError"
        assert span.status.status_code is StatusCode.ERROR
        assert exceptions(span) == [("ValueError", "no stock")]
    count = "messaging.rsmq.message.receive_count"
    assert [span.attributes[count] for span in (first, second)] == [1, 2]
    assert "secret-body" not in spans.text()

    # The dead letter keeps its envelope.
    (dead,) = env.rsmq.receive_messages("dead", 10, codec=CODEC)
    assert dead.body == "secret-body"
    sent_in = trace.get_current_span(message_context(dead)).get_span_context()
    assert sent_in.span_id == send.context.span_id


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (Retry(after=500), "rsmq.worker.outcome.Retry"),
        (DeadLetter("no"), "rsmq.worker.outcome.DeadLetter"),
        (Discard(), None),
        (Defer(after=500), None),
    ],
)
def test_outcomes_that_a_handler_chooses(env, sender, spans, tracing, as_handler, error, name):
    worker = env.create_worker(middleware=[tracing])

    @worker.listener("orders", codec=CODEC, dead_letter_queue="dead")
    @as_handler
    def handle(body):
        raise error

    sender.send_message("orders", "1")
    worker.start()
    span = wait_until(lambda: spans.named("process orders"))[0]

    assert span.attributes.get("error.type") == name
    assert bool(span.events) == bool(name)


def test_a_batch_has_one_span_with_a_link_for_each_message(
    env, sender, server, spans, tracing, as_handler
):
    worker = env.create_worker(middleware=[tracing], concurrency=1)
    inside = []

    @worker.listener("orders", codec=CODEC, batch=10)
    @as_handler
    def handle(bodies):
        inside.append(trace.get_current_span().get_span_context().span_id)

    ids = [sender.send_message("orders", body) for body in "ab"]
    sender.send_message("orders", "no envelope", codec=TEXT)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 3)
    sends, process = spans.named("send orders"), spans.only("process orders")

    assert process.kind is SpanKind.CONSUMER
    assert process.parent is None
    assert process.context.trace_id not in {send.context.trace_id for send in sends}
    assert inside == [process.context.span_id]
    assert links(process) == [
        link_to(send, **{"messaging.message.id": id})
        for send, id in zip(sends[:2], ids, strict=True)
    ]
    assert dict(process.attributes) == attributes(
        server, "process", "process", batch__message_count=3
    )


def test_batches_one_after_another_have_their_own_spans(env, sender, spans, tracing, as_handler):
    worker = env.create_worker(middleware=[tracing], concurrency=1)
    worker.listener("orders", codec=CODEC, batch=2)(as_handler(lambda bodies: None))
    sender.send_messages("orders", list("abcde"))
    worker.start()
    wait_until(lambda: worker.numbers.handled == 5)

    counts = [
        span.attributes["messaging.batch.message_count"] for span in spans.named("process orders")
    ]
    assert sum(counts) == 5
    assert max(counts) <= 2


def test_a_failed_batch_has_its_error_once(env, sender, spans, tracing, as_handler):
    worker = env.create_worker(middleware=[tracing], concurrency=1)

    @worker.listener("orders", codec=CODEC, batch=10, backoff=500)
    @as_handler
    def handle(bodies):
        raise ValueError("all of them")

    sender.send_messages("orders", ["a", "b", "c"])
    worker.start()
    wait_until(lambda: worker.numbers.retried == 3)
    process = spans.only("process orders")

    assert exceptions(process) == [("ValueError", "all of them")]
    assert process.attributes["error.type"] == "ValueError"
    assert process.status.status_code is StatusCode.ERROR


def test_failed_messages_of_a_batch_are_named(env, sender, spans, tracing):
    worker = env.create_worker(middleware=[tracing], concurrency=1)

    @worker.listener("orders", codec=CODEC, batch=10, backoff=500)
    def handle(bodies, messages):
        messages[0].fail(Discard())
        messages[1].fail(ValueError("first"))
        messages[2].fail(KeyError("second"))

    ids = sender.send_messages("orders", ["a", "b", "c", "d"])
    worker.start()
    wait_until(lambda: worker.numbers.retried == 2)
    process = spans.only("process orders")

    assert exceptions(process) == [("ValueError", "first"), ("KeyError", "'second'")]
    assert [event.attributes["messaging.message.id"] for event in process.events] == ids[1:3]
    assert process.attributes["error.type"] == "ValueError"
    assert process.attributes["messaging.batch.message_count"] == 4


@pytest.mark.parametrize("batch", [None, 10])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_message_that_another_middleware_refuses(
    env, sender, spans, tracing, as_handler, batch, is_first
):
    class Refuses(Middleware):
        def before_handle(self, message):
            if message.body == "refused":
                raise DeadLetter("refused")

    order = [tracing, Refuses()] if is_first else [Refuses(), tracing]
    worker = env.create_worker(middleware=order, concurrency=1)
    worker.listener("orders", codec=CODEC, batch=batch, dead_letter_queue="dead")(
        as_handler(lambda body: None)
    )
    sender.send_messages("orders", ["refused", "fine"])
    worker.start()
    wait_until(lambda: worker.numbers.handled == worker.numbers.dead == 1)

    found = [span.attributes.get("error.type") for span in spans.named("process orders")]
    failed = "rsmq.worker.outcome.DeadLetter"
    if not is_first:
        assert found == [None]  # the refused message has no span
    else:
        assert found == ([failed] if batch else [failed, None])


def test_a_message_that_cannot_be_decoded_has_no_span(env, sender, spans, tracing, as_handler):
    worker = env.create_worker(middleware=[tracing], concurrency=1)
    worker.listener("orders", codec=EnvelopeCodec(JSON), dead_letter_queue="dead", max_retries=0)(
        as_handler(lambda body: None)
    )
    sender.send_message("orders", "{", codec=TEXT)
    sender.send_message("orders", "1")
    worker.start()
    wait_until(lambda: worker.numbers.handled == worker.numbers.dead == 1)

    assert len(spans.named("process orders")) == 1


def test_a_call_that_exceeds_max_runtime_has_the_error_of_its_message(
    env, sender, spans, tracing, fast_heartbeat
):
    worker = env.create_worker(middleware=[tracing])

    @worker.listener(
        "orders", codec=CODEC, max_runtime=0.1, dead_letter_queue="dead", max_retries=0
    )
    async def handle(body):
        await asyncio.sleep(60)

    sender.send_message("orders", "1")
    worker.start()
    (process,) = wait_until(lambda: spans.named("process orders"))

    assert process.attributes["error.type"] == "rsmq.worker.outcome.HandlerTimedOut"


def test_a_worker_on_a_running_loop_has_the_same_spans(env, sender, spans, tracing):
    worker = env.create_worker(middleware=[tracing])

    @worker.listener("orders", codec=CODEC)
    async def handle(body):
        worker.stop()

    async def main():
        with spans.tracer.start_as_current_span("main"):
            await worker.run_async()

    sender.send_message("orders", "1")
    asyncio.run(main())
    send, process = spans.only("send orders"), spans.only("process orders")

    assert process.parent.span_id == send.context.span_id
    assert links(process)[0] == link_to(send)


@pytest.mark.parametrize("batch", [None, 10])
@pytest.mark.parametrize("codec", [CODEC, TEXT])
def test_a_span_around_the_handler_is_linked_and_is_not_the_parent(
    env, sender, spans, tracing, as_handler, batch, codec
):
    """Its trace may have begun when the worker started, and never ends."""

    class Around(Middleware):
        def before_handle(self, message):
            span = spans.tracer.start_span("around")
            self.span, self.token = span, context.attach(trace.set_span_in_context(span))

        def after_handle(self, message, error, seconds):
            assert trace.get_current_span() is self.span  # it is the current one again
            context.detach(self.token)
            self.span.end()

    worker = env.create_worker(middleware=[Around(), tracing])
    worker.listener("orders", codec=codec, batch=batch)(as_handler(lambda body: None))
    id = sender.send_message("orders", "1", codec=codec)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    send, around, process = (
        spans.only(name) for name in ("send orders", "around", "process orders")
    )

    ids = {"messaging.message.id": id} if batch else {}
    has_envelope = codec is CODEC
    assert links(process) == [*([link_to(send, **ids)] if has_envelope else []), link_to(around)]
    if has_envelope and not batch:
        assert process.parent.span_id == send.context.span_id
    else:
        assert process.parent is None


def test_sends_of_a_handler_belong_to_its_span(env, sender, spans, tracing, as_handler):
    worker = env.create_worker(middleware=[tracing])

    @worker.listener("orders", codec=CODEC)
    @as_handler
    def handle(body):
        sender.send_message("dead", body)

    sender.send_message("orders", "1")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)

    process, send = spans.only("process orders"), spans.only("send dead")
    assert send.parent.span_id == process.context.span_id


def test_a_consumer_of_its_own_uses_the_context_of_a_message(sender, spans):
    sender.send_message("orders", "1")
    message = sender.receive_message("orders")
    with spans.tracer.start_as_current_span("process", context=message_context(message)):
        pass

    assert spans.only("process").parent.span_id == spans.only("send orders").context.span_id


def test_an_unsampled_trace_stays_unsampled(env, spans, tracing):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    env.create_queues("orders")
    sender = instrument_client(
        env.create_client(codec=CODEC), tracer_provider=TracerProvider(sampler=ALWAYS_OFF)
    )
    worker = env.create_worker(middleware=[tracing])
    worker.listener("orders", codec=CODEC)(lambda body: None)
    sender.send_message("orders", "1")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    worker.stop()

    assert spans.all() == ()


def test_tracing_without_an_sdk_changes_nothing(env):
    """Without a provider, spans record nothing and messages have no envelope."""
    from opentelemetry.trace import NoOpTracerProvider

    env.create_queues("orders")
    provider = NoOpTracerProvider()
    sender = instrument_client(env.create_client(codec=CODEC), tracer_provider=provider)
    worker = env.create_worker(middleware=[TracingMiddleware(tracer_provider=provider)])
    handled = []
    worker.listener("orders", codec=CODEC)(handled.append)
    id = sender.send_message("orders", "1")
    assert env.fields("orders")[id] == b"1"
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)

    assert handled == ["1"]
