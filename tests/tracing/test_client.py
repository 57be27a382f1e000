"""The spans of clients that send and receive."""

from __future__ import annotations

import asyncio
import inspect

import pytest
import redis
from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.trace import SpanKind, StatusCode

from rsmq import JSON, RSMQ, TEXT, AsyncRSMQ, InvalidFormat, MessageNotString, QueueNotFound
from rsmq.codecs import EnvelopeCodec
from rsmq.opentelemetry import instrument_client
from rsmq.opentelemetry import spans as names
from rsmq.opentelemetry.traced_client import _METHODS
from tests.expect import refused


def attributes(server, operation, kind, queue="orders", **others):
    """Return the attributes of a span of a queue."""
    return {
        "messaging.system": "rsmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        **({"messaging.destination.name": queue} if queue else {}),
        "server.address": "127.0.0.1",
        "server.port": server.port,
        **{f"messaging.{name.replace('__', '.')}": value for name, value in others.items()},
    }


def links(span):
    return [
        (link.context.trace_id, link.context.span_id, dict(link.attributes)) for link in span.links
    ]


def link_to(span, **attributes):
    return span.context.trace_id, span.context.span_id, attributes


def test_the_names_are_those_of_the_conventions():
    assert names.BATCH_MESSAGE_COUNT == messaging.MESSAGING_BATCH_MESSAGE_COUNT
    assert names.DESTINATION_NAME == messaging.MESSAGING_DESTINATION_NAME
    assert names.MESSAGE_ID == messaging.MESSAGING_MESSAGE_ID
    assert names.OPERATION_NAME == messaging.MESSAGING_OPERATION_NAME
    assert names.OPERATION_TYPE == messaging.MESSAGING_OPERATION_TYPE
    assert names.SYSTEM == messaging.MESSAGING_SYSTEM
    assert names.ERROR_TYPE == error_attributes.ERROR_TYPE
    assert names.SERVER_ADDRESS == server_attributes.SERVER_ADDRESS
    assert names.SERVER_PORT == server_attributes.SERVER_PORT
    types = {each.value for each in messaging.MessagingOperationTypeValues}
    assert {kind for _, kind in _METHODS.values()} | {"process"} <= types


def test_a_send_and_a_receive_have_a_span_each(queues, server, spans, raw, ns):
    with spans.tracer.start_as_current_span("request"):
        id = queues.send_message("orders", "secret-body")
        message = queues.receive_message("orders")
    request, send, receive = (
        spans.only(name) for name in ("request", "send orders", "receive orders")
    )

    assert (message.id, message.body) == (id, "secret-body")
    assert raw.hget(f"{ns}:orders:Q", id) == b"secret-body"  # no envelope
    assert dict(send.attributes) == attributes(server, "send", "send", message__id=id)
    assert dict(receive.attributes) == attributes(server, "receive", "receive", message__id=id)
    for span in (send, receive):
        assert span.kind is SpanKind.CLIENT  # its context is not in the message
        assert span.parent.span_id == request.context.span_id
        assert span.status.status_code is StatusCode.UNSET
        assert (span.links, span.events) == ((), ())
        assert span.instrumentation_scope.name == "rsmq"
    assert "secret-body" not in spans.text()


def test_without_a_current_span_each_call_is_a_root(queues, spans):
    queues.send_message("orders", "a")
    queues.receive_message("orders")

    assert [span.parent for span in spans.all()] == [None, None]


def test_a_batch_has_the_number_of_its_messages(queues, server, spans):
    queues.send_messages("orders", iter(["a", "b", "c"]))
    assert len(queues.receive_messages("orders", 2)) == 2
    assert len(queues.pop_messages(["orders"], 10)) == 1
    assert queues.receive_messages("orders", 10, vt=1) == []

    found = [dict(span.attributes) for span in spans.all()]
    assert found == [
        attributes(server, "send", "send", batch__message_count=3),
        attributes(server, "receive", "receive", batch__message_count=2),
        attributes(server, "pop", "receive", batch__message_count=1),
        attributes(server, "receive", "receive", batch__message_count=0),
    ]
    assert [span.name for span in spans.all()] == [
        "send orders",
        "receive orders",
        "pop orders",
        "receive orders",
    ]


def test_publish_pop_and_recover_have_spans(queues, server, spans):
    queues.create_queue("mail")
    ids = queues.publish(iter(["orders", "mail"]), "a")
    queues.publish(["orders", "orders"], "b")
    popped = queues.pop_message(qname="orders")
    received = queues.receive_message("orders")
    recovered = queues.recover_messages("orders", 10, idle=0)

    assert popped.id == ids["orders"]
    assert [each.id for each in recovered] == [received.id]
    assert [(span.name, dict(span.attributes)) for span in spans.all()] == [
        ("publish", attributes(server, "publish", "send", None, batch__message_count=2)),
        ("publish orders", attributes(server, "publish", "send", batch__message_count=1)),
        ("pop orders", attributes(server, "pop", "receive", message__id=popped.id)),
        ("receive orders", attributes(server, "receive", "receive", message__id=received.id)),
        ("recover orders", attributes(server, "recover", "receive", batch__message_count=1)),
    ]


def test_a_receive_from_several_queues_names_none(queues, spans):
    queues.create_queue("mail")
    queues.receive_messages(["orders", "mail"], 10)
    (span,) = spans.all()

    assert span.name == "receive"
    assert "messaging.destination.name" not in span.attributes


def test_an_empty_receive_has_no_message(queues, server, spans):
    assert queues.receive_message("orders", wait=0.05) is None

    assert dict(spans.only("receive orders").attributes) == attributes(server, "receive", "receive")


def test_an_envelope_links_the_receive_to_the_send(make_client, spans, raw, ns):
    queues = make_client(codec=EnvelopeCodec(JSON))
    queues.create_queue("orders")
    id = queues.send_message("orders", {"number": 1})
    message = queues.receive_message("orders")
    send, receive = spans.only("send orders"), spans.only("receive orders")

    context = send.context
    ids = f"{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert raw.hget(f"{ns}:orders:Q", id) == (
        f'{{"headers":{{"traceparent":"00-{ids}"}},"body":{{"number":1}}}}'.encode()
    )
    assert message.body == {"number": 1}
    assert (send.kind, receive.kind) == (SpanKind.PRODUCER, SpanKind.CLIENT)
    assert links(receive) == [link_to(send)]
    assert receive.context.trace_id != send.context.trace_id


def test_a_batch_links_to_each_message_with_an_envelope(make_client, spans):
    queues = make_client()
    queues.create_queue("orders")
    codec = EnvelopeCodec(TEXT)
    first, second = queues.send_messages("orders", ["a", "b"], codec=codec)
    queues.send_message("orders", "c")
    third = queues.send_message("orders", "d", codec=EnvelopeCodec(JSON))
    messages = queues.receive_messages("orders", 10, codec=codec)
    batch, plain, single = spans.named("send orders")

    assert [each.body for each in messages] == ["a", "b", "c", "d"]
    assert [span.kind for span in (batch, plain, single)] == [
        SpanKind.PRODUCER,
        SpanKind.CLIENT,
        SpanKind.PRODUCER,
    ]
    assert links(spans.only("receive orders")) == [
        link_to(batch, **{"messaging.message.id": first}),
        link_to(batch, **{"messaging.message.id": second}),
        link_to(single, **{"messaging.message.id": third}),
    ]


def test_an_error_has_its_class_and_not_its_text(queues, spans):
    with pytest.raises(QueueNotFound):
        queues.receive_message("missing", wait=0)
    with pytest.raises(MessageNotString):
        queues.send_message("orders", {"secret-body"}, codec=JSON)
    missing, refused_body = spans.all()

    assert missing.attributes["error.type"] == "rsmq.errors.QueueNotFound"
    assert missing.name == "receive missing"
    assert refused_body.attributes["error.type"] == "rsmq.errors.MessageNotString"
    for span in spans.all():
        assert span.status.status_code is StatusCode.ERROR
        assert (span.status.description, span.events) == (None, ())
    assert "secret-body" not in spans.text()


def test_connection_errors_are_marked_without_the_password(make_client, spans):
    queues = make_client("redis://user:secret-password@127.0.0.1:1", retry_deadline=0)
    with pytest.raises(redis.ConnectionError):
        queues.send_message("orders", "a")
    (span,) = spans.all()

    assert span.attributes["error.type"] == "redis.exceptions.ConnectionError"
    assert (span.attributes["server.address"], span.attributes["server.port"]) == ("127.0.0.1", 1)
    assert "secret" not in spans.text()


def test_a_wrong_call_fails_as_without_tracing(queues, spans):
    with pytest.raises(TypeError):
        queues.send_message()
    with pytest.raises(InvalidFormat):
        queues.publish([["orders"]], "a")
    with pytest.raises(InvalidFormat):
        queues.receive_messages([["a"], "b"], 1)

    assert [span.name for span in spans.all()] == ["send", "publish", "receive"]


def test_a_cancelled_receive_is_marked_and_releases_its_message(server, ns, spans):
    async def cancel():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            instrument_client(queues, tracer_provider=spans.provider)
            await queues.create_queue("orders")
            receive = asyncio.create_task(queues.receive_message("orders", wait=None))
            await asyncio.sleep(0)
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            await queues.send_message("orders", "a")
            return await queues.get_queue_attributes("orders")

    assert asyncio.run(cancel()).visible_messages == 1
    error = spans.only("receive orders").attributes["error.type"]
    assert error == "asyncio.exceptions.CancelledError"


def test_only_the_client_that_was_passed_has_spans(queues, make_client, server, ns, spans, mode):
    client = getattr(queues, "client", queues)
    assert instrument_client(client) is client  # a second time: no second span
    queues.send_message("orders", "a")
    assert len(spans.all()) == 1

    with RSMQ.from_url(server.url, ns=ns) as other:
        assert set(_METHODS) & vars(other).keys() == set()
        assert other.receive_message("orders").body == "a"
    assert len(spans.all()) == 1


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
def test_every_method_that_sends_or_receives_is_covered(kind):
    methods = {
        name
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if name.startswith(("send_", "publish", "receive_", "pop_", "recover_"))
    }

    assert methods == _METHODS.keys() - {"_receive_leased"}


def test_each_receive_of_consume_has_a_span(queues, server, spans):
    async def consume(client):
        async with client.consume("orders", wait=0, batch=2) as messages:
            return [message.body async for message in messages]

    queues.send_messages("orders", ["a", "b", "c"])
    if isinstance(queues, RSMQ):
        with queues.consume("orders", wait=0, batch=2) as messages:
            bodies = [message.body for message in messages]
    else:
        bodies = queues.run_coroutine(consume(queues.client))

    assert bodies == ["a", "b", "c"]
    received = spans.named("receive orders")
    assert [dict(span.attributes) for span in received] == [
        attributes(server, "receive", "receive", batch__message_count=number)
        for number in (2, 1, 0)
    ]


def test_methods_keep_their_signature_and_documentation(queues):
    client = getattr(queues, "client", queues)
    for name in _METHODS:
        original = getattr(type(client), name).__get__(client)
        assert inspect.signature(getattr(client, name)) == inspect.signature(original)
        assert getattr(client, name).__doc__ == original.__doc__


@pytest.mark.parametrize("client", [None, "redis://127.0.0.1", RSMQ])
def test_other_objects_are_refused(client):
    with refused(InvalidFormat, "Invalid client format") as result:
        instrument_client(client)

    assert "RSMQ or AsyncRSMQ" in result.error.hint


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "redis://user:secret@h.example:7000/2",
            {"server.address": "h.example", "server.port": 7000},
        ),
        ("rediss://h.example", {"server.address": "h.example", "server.port": 6379}),
        ("unix:///tmp/redis.sock", {"server.address": "/tmp/redis.sock"}),
        ("memory://traced", {}),
    ],
)
def test_the_address_is_that_of_the_server(url, expected):
    with RSMQ.from_url(url) as client:
        assert names.server_attributes(client) == expected
    assert names.server_attributes(AsyncRSMQ.from_url(url)) == expected


def test_a_server_that_may_change_has_no_address(cluster_server):
    sentinel = redis.Sentinel([("127.0.0.1", 1)]).master_for("main")
    assert names.server_attributes(RSMQ(sentinel)) == {}

    cluster = redis.RedisCluster(host="127.0.0.1", port=cluster_server.port)
    assert names.server_attributes(RSMQ(cluster, ns="{n}")) == {}
    cluster.close()
