"""Requests that try to break rules: those of paths, headers, JSON, browsers and attempts."""

import asyncio
import base64
import contextlib
import logging

import pytest
import uvicorn

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.access.attempts import Attempts
from rsmq.web.access.secrets import hash_password
from rsmq.web.connection import WatchedConnection
from tests.servers import free_port

_JSON = {"content-type": "application/json"}
_KEY = "a key of some length"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/queues/..%2F..%2Fqueues", 422),
        ("/queues/../queues/q", 404),
        ("/queues/%2e%2e", 422),
        ("/queues/q%00", 422),
        ("/queues/q%0d%0aX:1", 422),
        ("/queues/" + "a" * 60_000, 422),
        ("/queues//q", 404),
        ("/queues/q%3Apurge", 422),
        ("/queues/%ff", 422),
        ("/queues?limit=1&limit=2", 400),
        ("/queues?" + "&".join(f"a{n}=1" for n in range(101)), 400),
        ("/queues?limit=" + "9" * 5000, 422),
        ("/queues?limit=1e308", 422),
        ("/queues/q?%00=%00", 422),
    ],
)
async def test_a_path_or_query_with_tricks_is_refused(path, status, http, queues):
    await queues.create_queue("q")
    reply = await http("GET", path)
    assert (reply.status, reply.headers["content-type"]) == (
        status, "application/problem+json",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"body": "a", "body": "b"}', 400),
        (b'{"json": {"a": 1, "a": 2}}', 400),
        (b'{"json": 1e400}', 422),
        (b'{"json": NaN}', 400),
        (b'{"json": ' + b"9" * 5000 + b"}", 400),
        (b"[" * 200_000, 400),
        (b'{"json": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        (b'{"body": "a", "delay": 1e308}', 422),
        (b'{"body": "a", "delay": 10e-400}', 201),
        (b'\xef\xbb\xbf{"body": "a"}', 400),
        ('{"body": "a"}'.encode("utf-16"), 400),
        (b'{"body": "\\ud800"}', 422),
        (b'{"json": ["\\ud800"]}', 422),
    ],
)
async def test_json_that_others_may_read_otherwise_is_refused(content, status, http, queues):
    await queues.create_queue("q")
    reply = await http("POST", "/queues/q/messages", body=content, headers=_JSON)
    assert reply.status == status
    assert len(await queues.peek_messages("q")) == (status == 201)


@pytest.mark.parametrize("headers", [{f"x-{n}": "" for n in range(101)}, {"x": "a" * 65_536}])
async def test_a_head_that_is_too_long_is_refused_in_every_server(headers, http, queues):
    del queues
    for prefix, path in [("/api/v1", "/queues"), ("", "/"), ("/rest-rsmq", "/queues")]:
        http.prefix = prefix
        assert (await http("GET", path, headers=headers)).status == 431


@pytest.mark.parametrize("origin", ["http://[", "http://evil", "null", "", "localhost", "http:///"])
async def test_an_origin_that_is_not_the_server_is_refused(origin, http, queues):
    del queues
    reply = await http("GET", "/queues", headers={"origin": origin})
    assert (reply.status, reply.json["code"]) == (403, "crossSite")
    preflight = await http("OPTIONS", "/queues", headers={"origin": origin})
    assert preflight.status == 403
    assert "access-control-allow-origin" not in preflight.headers


async def test_an_error_repeats_no_host_and_is_no_page(http, queues):
    del queues
    host = {"host": "evil.example"}
    for prefix, path in [
        ("", "/<script>"), ("/api/v1", "/<script>"),
        ("/api/v1", "/queues/%3Cscript%3E"), ("/api/v1", "/queues?%3Cscript%3E=1"),
    ]:  # fmt: skip
        http.prefix = prefix
        reply = await http("GET", path, headers=host)
        assert reply.status in {404, 422}, path
        assert "html" not in reply.headers["content-type"]
        assert b"evil" not in reply.content


def test_attempts_that_come_at_once_are_limited_too(run, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(f'[users.anna]\npassword = "{hash_password("sesame")}"\nrole = "viewer"\n')
    users.chmod(0o600)

    async def test(http, queues):
        del queues
        texts = [base64.b64encode(f"anna:{number}".encode()).decode() for number in range(40)]
        replies = await asyncio.gather(
            *(http("GET", "/queues", headers={"authorization": f"Basic {each}"}) for each in texts)
        )
        statuses = [each.status for each in replies]
        assert (statuses.count(401), statuses.count(429)) == (10, 30)

    run(test, auth=True, users=users)


def test_a_caller_with_many_addresses_of_a_network_is_one():
    attempts = Attempts(lambda: 0.0)
    for number in range(10):
        attempts.note_failure(f"2001:db8::{number:x}")
        attempts.note_failure(f"::ffff:10.0.0.{number}")
    assert attempts.seconds_to_wait("2001:db8:0:0:ffff::1") == 60
    assert attempts.seconds_to_wait("2001:db8:0:1::1") == 0
    assert attempts.seconds_to_wait("10.0.0.1") == 0


async def _exchange(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def test_a_request_within_a_body_is_not_run_and_no_secret_is_logged(caplog):
    """Bodies that two parsers end at different places, and bodies of refused requests."""
    inner = (
        b"PUT /api/v1/queues/evil HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Authorization: Bearer " + _KEY.encode() + b"\r\nContent-Length: 0\r\n\r\n"
    )
    head = b"POST /api/v1/queues/q/raw HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    both = head + b"Transfer-Encoding: chunked\r\n"

    async def main():
        async with AsyncRSMQ.from_url("memory://attacks") as queues:
            app = create_app(queues, key=_KEY)
            config = uvicorn.Config(
                app, http=WatchedConnection, port=free_port(), lifespan="off", log_config=None
            )
            running = uvicorn.Server(config)
            running.capture_signals = contextlib.nullcontext
            task = asyncio.create_task(running.serve())
            while not running.started:
                await asyncio.sleep(0.01)
            length = str(len(inner)).encode()
            for request in (
                both + b"Content-Length: 5\r\n\r\n0\r\n\r\n" + inner,
                both + b"Content-Length: " + length + b"\r\n\r\n0\r\n\r\n" + inner,
                head + b"Content-Length: " + length + b"\r\n\r\n" + inner,
                head + b"Content-Length: 0, " + length + b"\r\n\r\n" + inner,
                head + b"Content-Length: +0\r\n\r\n" + inner,
                head + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
            ):
                answer = await _exchange(config.port, request)
                assert answer.count(b"HTTP/1.1 ") <= 1, request
                assert b"HTTP/1.1 20" not in answer, request
            assert await queues.list_queues() == []
            running.should_exit = True
            await task

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    assert _KEY not in caplog.text
