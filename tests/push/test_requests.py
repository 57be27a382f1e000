"""The requests of webhooks: bodies, headers, signatures, connections."""

from __future__ import annotations

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from rsmq import BYTES, JSON, RSMQ, InvalidFormat
from rsmq.worker import Worker
from tests.push.conftest import LOCAL, SECRET, wait_until
from tests.push.receiver import OK, reply
from tests.scale import WAIT_SECONDS


def run(worker):
    worker.run(until_empty=True, timeout=WAIT_SECONDS)


def test_a_request_has_the_body_and_the_headers_of_standard_webhooks(
    raw, ns, rsmq, receiver, make_worker
):
    id = rsmq.send_message("q", '{"a": "ä"}')
    run(make_worker(receiver.url, secret=SECRET))
    [request] = receiver.requests
    seconds = int(request.headers["webhook-timestamp"])

    assert request.line == "POST /hooks HTTP/1.1"
    assert request.body == '{"a": "ä"}'.encode()
    assert request.headers["webhook-id"] == id
    assert abs(raw.time()[0] - seconds) < 60
    assert request.headers["rsmq-queue"] == "q"
    assert request.headers["rsmq-receive-count"] == "1"
    assert request.headers["content-type"] == "application/octet-stream"
    assert request.headers["accept-encoding"] == "identity"
    assert Webhook(SECRET).verify(request.body, request.headers) == {"a": "ä"}
    assert not {"authorization", "cookie"} & request.headers.keys()
    assert raw.zcard(f"{ns}:q") == 0


def test_the_timestamp_is_of_the_clock_of_the_server(raw, rsmq, receiver, make_worker, monkeypatch):
    """The clock of this machine is an hour fast."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    rsmq.send_message("q", "{}")
    run(make_worker(receiver.url))

    assert abs(raw.time()[0] - int(receiver.requests[0].headers["webhook-timestamp"])) < 600


def test_a_changed_request_does_not_verify(rsmq, receiver, make_worker):
    rsmq.send_message("q", "{}")
    run(make_worker(receiver.url, secret=SECRET))
    [request] = receiver.requests
    for change in ({"webhook-id": "x"}, {"webhook-signature": "v1,AAAA"}):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(request.body, request.headers | change)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(b'{"a": 1}', request.headers)


def test_two_secrets_sign_while_they_rotate(rsmq, receiver, make_worker):
    secrets = [SECRET, base64.b64encode(b"new" * 12).decode()]
    rsmq.send_message("q", "{}")
    run(make_worker(receiver.url, secret=secrets))
    [request] = receiver.requests

    assert len(request.headers["webhook-signature"].split()) == 2
    for secret in secrets:
        Webhook(secret).verify(request.body, request.headers)


def test_without_a_secret_there_is_no_signature(rsmq, receiver, make_worker):
    rsmq.send_message("q", "{}")
    run(make_worker(receiver.url))

    assert "webhook-signature" not in receiver.requests[0].headers


@pytest.mark.parametrize(
    ("codec", "content_type", "expected"),
    [
        (JSON, None, "application/json"),
        (BYTES, None, "application/octet-stream"),
        (JSON, "text/plain; charset=utf-8", "text/plain; charset=utf-8"),
    ],
)
def test_content_types(server, ns, rsmq, receiver, make_worker, codec, content_type, expected):
    rsmq.send_message("q", "[1]")
    with RSMQ.from_url(server.url, ns=ns, codec=codec) as client:
        run(make_worker(receiver.url, client=client, content_type=content_type))
    [request] = receiver.requests

    assert request.headers["content-type"] == expected
    assert request.body == b"[1]"


@pytest.mark.parametrize("value", ["json", "", "a/b\r\nx: y", "text/ä", 5])
def test_content_types_are_checked(rsmq, value):
    with pytest.raises(InvalidFormat, match="content_type"):
        Worker(rsmq).webhook("q", "https://example.org/", content_type=value)


@pytest.mark.parametrize("body", [b"", b"\0\xff\r\n", b"x" * 3_000_000])
def test_bodies_are_pushed_as_they_are(server, ns, rsmq, receiver, make_worker, body):
    rsmq.set_queue_attributes("q", maxsize=-1)
    with RSMQ.from_url(server.url, ns=ns, codec=BYTES) as client:
        client.send_message("q", body)
    run(make_worker(receiver.url, secret=SECRET))
    [request] = receiver.requests

    assert request.body == body
    assert request.headers["content-length"] == str(len(body))


def test_connections_are_used_again(rsmq, receiver, make_worker):
    rsmq.send_messages("q", [str(number) for number in range(200)])
    run(make_worker(receiver.url, concurrency=4))

    assert len(receiver.requests) == 200
    assert receiver.connections <= 4


def test_a_connection_that_the_target_closed_between_two_pushes_costs_no_attempt(
    raw, ns, rsmq, receiver, make_worker
):
    served = {}

    def answer(request):
        served[request.connection] = served.get(request.connection, 0) + 1
        return OK if served[request.connection] == 1 else reply(204, close=True)

    receiver.answer = answer
    with make_worker(receiver.url, concurrency=1, max_retries=0):
        for number in range(6):
            rsmq.send_message("q", str(number))
            wait_until(lambda n=number: len(receiver.answered) > n)
    assert raw.zcard(f"{ns}:q-dead") == 0


def test_a_message_that_is_received_again_has_the_same_id(rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(500) if len(receiver.requests) < 3 else OK
    id = rsmq.send_message("q", "x")
    run(make_worker(receiver.url))
    headers = [each.headers for each in receiver.requests]

    assert [each["webhook-id"] for each in headers] == [id] * 3
    assert [each["rsmq-receive-count"] for each in headers] == ["1", "2", "3"]


def test_names_that_are_not_ascii_are_encoded(server, ns, receiver):
    with RSMQ.from_url(server.url, ns=ns, strict_names=False) as client:
        client.create_queue("prüfen 1%")
        client.send_message("prüfen 1%", "x")
        worker = Worker(client)
        worker.webhook("prüfen 1%", receiver.url, **LOCAL)
        run(worker)

    assert receiver.requests[0].headers["rsmq-queue"] == "pr%C3%BCfen%201%25"


def test_a_webhook_beside_a_listener(rsmq, receiver, make_worker):
    rsmq.create_queue("other")
    worker, handled = make_worker(receiver.url), []

    @worker.listener("other", drop=True)
    def handle(body):
        handled.append(body)

    rsmq.send_message("q", "pushed")
    rsmq.send_message("other", "handled")
    run(worker)

    assert handled == ["handled"]
    assert [each.body for each in receiver.requests] == [b"pushed"]
    with pytest.raises(InvalidFormat, match="already has a listener"):
        worker.webhook("other", receiver.url, **LOCAL)
