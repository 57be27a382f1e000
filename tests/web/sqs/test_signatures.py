"""Callers are found by the signatures of their requests, and have the rights of the users file."""

import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from tests.web.asgi import Http
from tests.web.sqs.conftest import boto

_USERS = """
[access_keys.all]
id = "ALL"
secret = "of all"
role = "admin"

[access_keys.sender]
id = "SENDER"
secret = "of the sender"
scopes = ["send", "stats"]
queues = ["orders*"]
"""
_HOST = "localhost"


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users.toml"
    path.write_text(_USERS)
    path.chmod(0o600)
    return path


def _code(call, **parameters):
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return caught.value.response["Error"]["Code"]


def test_boto_signs_and_has_the_rights_of_its_key(start_sqs, users, rsmq):
    rsmq.create_queue("orders")
    rsmq.create_queue("mail")
    url = start_sqs("--users", str(users)).url
    admin, sender = boto(url, "ALL", "of all"), boto(url, "SENDER", "of the sender")
    orders = admin.get_queue_url(QueueName="orders")["QueueUrl"]
    sender.send_message(QueueUrl=orders, MessageBody="a")
    assert _code(sender.receive_message, QueueUrl=orders) == "AccessDenied"
    assert _code(sender.send_message, QueueUrl="mail", MessageBody="a") == "AccessDenied"
    assert _code(sender.create_queue, QueueName="orders-2") == "AccessDenied"
    assert sender.list_queues()["QueueUrls"] == [orders]
    assert _code(boto(url, "ALL", "wrong").list_queues) == "SignatureDoesNotMatch"
    assert _code(boto(url, "NOBODY", "wrong").list_queues) == "InvalidClientTokenId"
    message = admin.receive_message(QueueUrl=orders)["Messages"][0]
    admin.delete_message(QueueUrl=orders, ReceiptHandle=message["ReceiptHandle"])
    with pytest.raises(urllib.error.HTTPError) as caught, urllib.request.urlopen(orders):
        pass
    assert caught.value.code == 403
    assert b"MissingAuthenticationToken" in caught.value.read()


def _signed(method="GET", query="Action=ListQueues", body="", *, at=None, key=("ALL", "of all")):
    """Return path and headers of a request that is signed at a time."""
    request = AWSRequest(method, f"http://{_HOST}/?{query}", {"Host": _HOST}, body)
    _at(SigV4Auth(Credentials(*key), "sqs", "eu-north-1"), request, at)
    return f"/?{query}", {k.lower(): str(v) for k, v in request.headers.items()}


def _at(auth, request, at):
    """Sign as if the clock showed another time."""
    import botocore.auth

    moment = at or datetime.now(UTC)
    original = botocore.auth.get_current_datetime
    botocore.auth.get_current_datetime = lambda *_, **__: moment.replace(tzinfo=None)
    try:
        auth.add_auth(request)
    finally:
        botocore.auth.get_current_datetime = original


@pytest.fixture
def call(users):
    """Send a request to a server with users; returns the status and the content."""
    import asyncio

    def send(method, path, headers, body=b""):
        async def main():
            async with AsyncRSMQ.from_url("memory://signatures") as queues:
                http = Http(create_app(queues, users=users).state.sqs, "")
                reply = await http(method, path, body=body, headers=headers)
                return reply.status, reply.content.decode()

        return asyncio.run(main())

    return send


@pytest.mark.parametrize(
    ("seconds", "status"), [(0, 200), (-890, 200), (890, 200), (-910, 403), (910, 403)]
)
def test_a_signature_counts_for_a_quarter_of_an_hour(call, seconds, status):
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    found, text = call("GET", *_signed(at=at))
    assert found == status, text
    if status == 403:
        word = "Signature expired" if seconds < 0 else "Signature not yet current"
        assert word in text


def test_a_changed_request_is_refused(call):
    path, headers = _signed()
    assert call("GET", path, headers)[0] == 200
    assert call("POST", path, headers)[0] == 403
    assert call("GET", path + "&QueueNamePrefix=a", headers)[0] == 403
    assert call("GET", path, headers, b"QueueNamePrefix=a")[0] == 403
    for more in (
        {"x-amz-target": "AmazonSQS.DeleteQueue"}, {"host": "127.0.0.1"},
        {"x-amz-date": "20200101T000000Z"},
    ):  # fmt: skip
        assert call("GET", path, {**headers, **more})[0] == 403, more


def test_a_header_does_not_prolong_a_signature(call):
    path, headers = _signed(at=datetime.now(UTC) - timedelta(hours=1))
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for more in ("", ", Expires=604800", f", Expires=604800, Date={now}"):
        status, text = call(
            "GET", path, {**headers, "authorization": headers["authorization"] + more}
        )
        assert (status, "Signature expired" in text) == (403, True)


def test_a_header_is_signed_once(call):
    path, headers = _signed()
    for many in ("host;" * 2 + "x-amz-date", "host;x-amz-date" + ";a" * 10_000):
        authorization = headers["authorization"].replace("host;x-amz-date", many)
        status, text = call("GET", path, {**headers, "authorization": authorization})
        assert (status, "named twice" in text) == (403, True)


@pytest.mark.parametrize("garbage", [
    "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a/b/c", "AWS4-HMAC-SHA256 " + "a=b," * 500,
    "AWS4-HMAC-SHA256 Credential=ALL/20260101/eu/sqs/aws4_request, SignedHeaders=, Signature=é",
    "Bearer x", "",
])  # fmt: skip
def test_garbage_is_refused(call, garbage):
    _, headers = _signed()
    status, text = call("GET", "/?Action=ListQueues", {**headers, "authorization": garbage})
    assert status == 403
    assert "<Error>" in text


def test_a_presigned_url_needs_no_header(call):
    request = AWSRequest("GET", f"http://{_HOST}/?Action=ListQueues")
    SigV4QueryAuth(Credentials("ALL", "of all"), "sqs", "eu-north-1", expires=60).add_auth(request)
    path = request.prepare().url.removeprefix(f"http://{_HOST}")
    assert call("GET", path, {"host": _HOST})[0] == 200
    assert call("GET", path.replace("ListQueues", "GetQueueUrl"), {"host": _HOST})[0] == 403
    target = {"host": _HOST, "x-amz-target": "AmazonSQS.ListQueues"}
    assert call("GET", path, target)[0] == 403


def test_a_body_is_not_read_before_the_key_is_known(users):
    import asyncio

    async def main():
        async with AsyncRSMQ.from_url("memory://unread") as queues:
            app = create_app(queues, users=users).state.sqs
            sent = []

            async def receive():
                raise AssertionError("the body is read")

            async def send(event):
                sent.append(event)

            scope = {
                "type": "http", "method": "POST", "path": "/", "raw_path": b"/",
                "query_string": b"", "headers": [(b"host", b"localhost")], "scheme": "http",
                "root_path": "", "client": ("127.0.0.1", 1),
            }  # fmt: skip
            await app(scope, receive, send)
            assert sent[0]["status"] == 403

    asyncio.run(main())


def test_the_key_of_a_server_is_the_secret_on_its_main_port(run):
    key = "a-key-of-twenty-characters"

    async def test(http, queues):
        http.prefix = ""
        path, headers = _signed(key=("any", key))
        # The path is a part of the signature.
        assert (await http("GET", "/sqs" + path, headers=headers)).status == 403
        request = AWSRequest("GET", f"http://{_HOST}/sqs/?Action=ListQueues", {"Host": _HOST})
        SigV4Auth(Credentials("any", key), "sqs", "eu-north-1").add_auth(request)
        headers = {k.lower(): str(v) for k, v in request.headers.items()}
        assert (await http("GET", "/sqs/?Action=ListQueues", headers=headers)).status == 200
        unsigned = await http("GET", "/sqs/?Action=ListQueues")
        assert (unsigned.status, b"MissingAuthenticationToken" in unsigned.content) == (403, True)

    run(test, auth=True, key=key)


def test_pages_of_other_sites_are_refused(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        path = "/0/q?Action=SendMessage&MessageBody=a"
        for headers in (
            {"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"},
            {"referer": "https://evil.example/page"},
        ):  # fmt: skip
            reply = await sqs.http("GET", path, headers=headers)
            assert (reply.status, b"AccessDenied" in reply.content) == (403, True)
        assert (await queues.get_queue_attributes("q")).messages == 0

    run_sqs(test)


def test_a_read_only_server_changes_nothing(run_sqs):
    async def test(sqs, queues):
        await queues.create_queue("q")
        for operation in ("SendMessage", "ReceiveMessage", "PurgeQueue", "DeleteQueue"):
            assert (
                await sqs.refused(operation, queue="q", MessageBody="a") == "AccessDeniedException"
            )
        assert "Attributes" in await sqs.ok("GetQueueAttributes", queue="q", AttributeNames=["All"])

    run_sqs(test, read_only=True)


def test_changes_of_queues_are_audited(run_sqs):
    async def test(sqs, queues):
        from rsmq.web.audit import read_entries

        await sqs.ok("CreateQueue", QueueName="q")
        await sqs.ok("DeleteQueue", queue="q")
        entries, _ = await read_entries(queues, 10, None, lambda _: True)
        found = [(each["call"], each["queue"], each["phase"]) for each in reversed(entries)]
        assert found == [
            ("SQS CreateQueue", "q", "begin"), ("SQS CreateQueue", "q", "end"),
            ("SQS DeleteQueue", "q", "begin"), ("SQS DeleteQueue", "q", "end"),
        ]  # fmt: skip

    run_sqs(test)
