"""Bodies with steps over HTTP: with the codec of the server's client, and without it."""

from __future__ import annotations

import asyncio
import itertools
import json
from urllib.parse import quote

import pytest

from rsmq import JSON, AsyncRSMQ
from rsmq.codecs import Compressed, Encrypted
from rsmq.web import create_app
from tests.scale import WAIT_SECONDS
from tests.web.asgi import Http

CODEC = Encrypted(Compressed(JSON), keys={"k1": bytes(range(32))})
BODY = {"customer": {"email": "a@example.com"}, "lines": ["a small thing"] * 500}
_numbers = itertools.count()


class Faces:
    """Two servers of one queue: one with the codec, and one without."""

    def __init__(self, url):
        self.queues = AsyncRSMQ.from_url(url, codec=CODEC)
        self.plain = AsyncRSMQ.from_url(url)
        self.http = Http(create_app(self.queues, auth=False))
        self.without = Http(create_app(self.plain, auth=False))
        self.redacting = Http(create_app(self.queues, auth=False, redact=["customer.email"]))


@pytest.fixture
def faces(runner):
    async def start():
        faces = Faces(f"memory://bodies{next(_numbers)}")
        await faces.queues.create_queue("q")
        return faces

    async def close():
        await faces.queues.close()
        await faces.plain.close()

    faces = runner.run(start())
    yield faces
    runner.run(close())


async def test_what_is_inside_is_shown_in_each_answer(faces):
    id = await faces.queues.send_message("q", BODY)
    text = JSON.encode(BODY)
    one = (await faces.http("GET", f"/queues/q/messages/{id}")).json
    assert (one["body"], one["size"], one["steps"], one["redacted"]) == (
        text, len(text), None, False
    )  # fmt: skip
    part = (await faces.http("GET", f"/queues/q/messages/{id}?max_bytes=5")).json
    assert (part["body"], part["size"], part["truncated"]) == (text[:5], len(text), True)
    (listed,) = (await faces.http("GET", "/queues/q/messages")).json["messages"]
    assert (listed["body"], listed["truncated"]) == (text[:4096], True)
    assert (await faces.http("GET", f"/queues/q/messages/{id}/body")).content == text.encode()
    exported = await faces.http("GET", "/queues/q/messages:export")
    assert json.loads(exported.content.splitlines()[0])["body"] == text

    (received,) = (await faces.http("POST", "/receive", {"queues": ["q"], "vt": 0})).json[
        "messages"
    ]
    assert (received["body"], received["steps"]) == (text, None)
    raw = await faces.http("POST", "/queues/q/raw:receive?vt=0")
    assert raw.content == text.encode()
    (popped,) = (await faces.http("POST", "/pop", {"queues": ["q"]})).json["messages"]
    assert popped["body"] == text


async def test_without_the_codec_the_kind_is_named(faces):
    id = await faces.queues.send_message("q", BODY)
    stored = (await faces.plain.get_message("q", id)).raw
    steps = (
        f"compressed (zstd, {len(JSON.encode(BODY)):,} bytes) and encrypted (key k1), "
        f"{len(stored)} bytes stored"
    )
    one = (await faces.without("GET", f"/queues/q/messages/{id}")).json
    assert (one["body"], one["size"], one["steps"]) == (stored.decode(), len(stored), steps)
    (listed,) = (await faces.without("GET", "/queues/q/messages")).json["messages"]
    assert listed["steps"] == steps
    (received,) = (await faces.without("POST", "/receive", {"queues": ["q"]})).json["messages"]
    assert (received["body"], received["steps"]) == (stored.decode(), steps)
    page = Http(faces.without.app, "")
    shown = (await page("GET", f"/queues/q/messages/{id}")).content.decode()
    assert f"The body is {steps}." in shown
    assert stored.decode()[60:100] not in shown


async def test_redaction_works_on_what_is_inside(faces):
    id = await faces.queues.send_message("q", BODY)
    one = (await faces.redacting("GET", f"/queues/q/messages/{id}")).json
    assert json.loads(one["body"])["customer"] == {"email": "[redacted]"}
    assert one["redacted"]
    none = (
        await faces.redacting("GET", f"/queues/q/messages?filter={quote('body:a@example')}")
    ).json
    assert none["messages"] == []


@pytest.mark.parametrize("filter", ['body:"a small"', 'json.customer.email:"a@example.com"'])
async def test_a_search_looks_at_what_is_inside_or_refuses(faces, filter):
    id = await faces.queues.send_message("q", BODY)
    await faces.queues.send_message("q", {"other": 1})
    await faces.queues.send_message("q", {"text": "plain"}, codec=JSON)
    path = f"/queues/q/messages?filter={quote(filter)}"
    assert [each["id"] for each in (await faces.http("GET", path)).json["messages"]] == [id]

    refused = await faces.without("GET", path)
    assert (refused.status, refused.json["code"]) == (409, "notPossible")
    assert "encrypted (key k1)" in refused.json["detail"]
    others = await faces.without("GET", f"/queues/q/messages?filter={quote('rc:0')}")
    assert len(others.json["messages"]) == 3


async def test_what_is_sent_is_encrypted(faces):
    sent = await faces.http("POST", "/queues/q/messages", {"body": JSON.encode(BODY)})
    batch = await faces.http("POST", "/queues/q/messages:batch", {"messages": [{"body": "5"}]})
    ids = [sent.json["id"], *batch.json["ids"]]
    for id, body in zip(ids, [BODY, 5], strict=True):
        message = await faces.queues.get_message("q", id)
        assert b"aes256gcm=k1:" in message.raw
        assert message.body == body


async def test_a_key_that_is_missing_shows_the_kind(faces):
    other = Encrypted(JSON, keys={"k9": bytes(32)})
    id = await faces.queues.send_message("q", 1, codec=other)
    one = (await faces.http("GET", f"/queues/q/messages/{id}")).json
    assert one["steps"].startswith("encrypted (key k9), ")
    assert one["body"].startswith("rsmq-body/1:aes256gcm=k9::")


@pytest.mark.parametrize("filter", ['body:"a small"', 'json.customer.email:"a@example.com"'])
async def test_an_operation_of_many_messages_acts_on_what_is_inside_or_fails(faces, filter):
    await faces.queues.create_queue("to")
    id = await faces.queues.send_message("q", BODY)
    await faces.queues.send_message("q", {"other": 1})
    content = {"filter": filter, "destination": "to"}

    shown = await _run_operation(faces.without, content)
    assert (shown["state"], shown["done"]) == ("failed", 0)
    assert shown["error"] == "notPossible"
    shown = await _run_operation(faces.http, content)
    assert (shown["state"], shown["done"]) == ("succeeded", 1)
    (moved,) = await faces.queues.peek_messages("to")
    assert (moved.id, moved.body) == (id, BODY)


async def _run_operation(http, content):
    async with http.app.router.lifespan_context(http.app):
        reply = await http("POST", "/queues/q/messages:move", content)
        assert reply.status == 202
        path = f"/operations/{reply.json['operation']}"
        async with asyncio.timeout(WAIT_SECONDS):
            while (shown := (await http("GET", path)).json)["ended_ms"] is None:
                await asyncio.sleep(0.01)
    return shown
