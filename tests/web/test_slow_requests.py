"""Requests that do not arrive, and connections that are one too many, are ended."""

import asyncio

import pytest

from rsmq.web import create_app, limited_connection, request_limits
from rsmq.web.connection import WatchedConnection
from rsmq.web.request_limits import BODY_BYTES_A_SECOND, BODY_SECONDS, seconds_for_body
from tests.scale import WAIT_SECONDS
from tests.web.asgi import open_queues
from tests.web.test_leaving import _serving

_HEAD = b"POST /api/v1/receive HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


async def _exchange(port, *parts):
    """Send parts, each when the server had time to read the one before; return all it answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(WAIT_SECONDS):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"GET /healthz HTTP/1.1\r\nhost: local"],
        [_HEAD, b"x: a\r\n", b"x: a\r\n"],
        [_HEAD + b"content-length: 20\r\n\r\n", b"{"],
        [_HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n{\r\n"],
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" + _HEAD],
    ],
    ids=["nothing", "a line", "a head", "a body", "a body in chunks", "the second head"],
)
async def test_a_request_that_does_not_arrive_is_ended(server, ns, monkeypatch, parts):
    async with (
        open_queues(server.url, ns=ns) as queues,
        _serving(create_app(queues, auth=False)) as port,
    ):
        monkeypatch.setattr(limited_connection, "HEAD_SECONDS", 1.0)
        monkeypatch.setattr(request_limits, "BODY_SECONDS", 1.0)
        answer = await _exchange(port, *parts)
    assert answer.rpartition(b"HTTP/1.1 ")[2].startswith(b"408 Request Timeout\r\n")


def test_what_arrives_of_a_body_gives_it_more_time():
    assert seconds_for_body(0) == BODY_SECONDS
    assert seconds_for_body(60 * BODY_BYTES_A_SECOND) == BODY_SECONDS + 60


async def test_a_wait_for_a_message_is_no_wait_for_a_request(server, ns, monkeypatch):
    async with open_queues(server.url, ns=ns) as queues:
        await queues.create_queue("q")
        async with _serving(create_app(queues, auth=False)) as port:
            monkeypatch.setattr(limited_connection, "HEAD_SECONDS", 2.0)
            monkeypatch.setattr(request_limits, "BODY_SECONDS", 2.0)
            body = b'{"queues": ["q"], "wait": 3}'
            head = _HEAD + f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
            answer = await _exchange(port, head[:50], head[50:], body[:9], body[9:])
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b'{"messages": []}')


def test_a_server_that_stops_refuses_requests_that_have_not_arrived(
    server, ns, caplog, monkeypatch
):
    begun = []
    on_body = WatchedConnection.on_body
    monkeypatch.setattr(
        WatchedConnection, "on_body", lambda each, body: begun.append(each) or on_body(each, body)
    )

    async def test():
        async with open_queues(server.url, ns=ns) as queues:
            async with _serving(create_app(queues, auth=False)) as port:
                head = _HEAD + b"content-length: 100\r\n\r\n{"
                answers = [asyncio.create_task(_exchange(port, head)) for _ in range(20)]
                while len(begun) < len(answers):
                    await asyncio.sleep(0.01)
            return await asyncio.gather(*answers)

    answers = asyncio.run(test())
    assert {each[:12] for each in answers} == {b"HTTP/1.1 503"}
    assert "Traceback" not in caplog.text


async def test_a_connection_too_many_is_told_to_come_again(server, ns, monkeypatch):
    async with (
        open_queues(server.url, ns=ns) as queues,
        _serving(create_app(queues, auth=False)) as port,
    ):
        monkeypatch.setattr(limited_connection, "most_connections", lambda: 1)
        _, first = await asyncio.open_connection("127.0.0.1", port)
        refused = await _exchange(port)
        assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n")
        first.close()
        request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        async with asyncio.timeout(WAIT_SECONDS):
            while not (await _exchange(port, request)).startswith(b"HTTP/1.1 200"):
                pass
