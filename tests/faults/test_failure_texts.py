"""The errors of redis-py keep their class, and their texts say what to check."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest
from redis import exceptions as redis_errors

from rsmq import RSMQ, AsyncRSMQ
from rsmq.transport.failure_texts import advise_on_connection, describe_address
from tests.ports import free_port
from tests.servers import Server, redis_7

pytestmark = pytest.mark.redis


def call(kind, url, **options):
    """Send one command with a client of either kind."""

    async def call_asyncio():
        async with AsyncRSMQ.from_url(url, retry_deadline=0, **options) as queues:
            await queues.send_message("q", "m")

    if kind is AsyncRSMQ:
        asyncio.run(call_asyncio())
    else:
        with RSMQ.from_url(url, retry_deadline=0, **options) as queues:
            queues.send_message("q", "m")


@pytest.fixture(scope="module")
def locked():
    server = Server(redis_7())
    with server.raw() as raw:
        raw.config_set("requirepass", "s3cret")
    yield server
    server.stop()


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
class TestTexts:
    def test_a_refused_connection(self, kind):
        port = free_port()
        with pytest.raises(redis_errors.ConnectionError) as caught:
            call(kind, f"redis://127.0.0.1:{port}/0")

        assert str(caught.value).endswith(f". Is Redis running at 127.0.0.1:{port}?")
        assert str(caught.value).count("Is Redis running") == 1

    def test_a_missing_socket(self, kind, tmp_path):
        with pytest.raises(redis_errors.ConnectionError) as caught:
            call(kind, f"unix://{tmp_path}/redis.sock")

        assert str(caught.value).endswith(f". Is Redis running at {tmp_path}/redis.sock?")

    def test_an_unknown_host(self, kind):
        with pytest.raises(redis_errors.ConnectionError) as caught:
            call(kind, "redis://no-such-host.invalid:6379/0")

        assert str(caught.value).endswith(". Check the host name in 'no-such-host.invalid:6379'")

    @pytest.mark.parametrize("protocol", [2, 3])
    def test_a_password_is_needed(self, kind, locked, protocol):
        with pytest.raises(redis_errors.AuthenticationError) as caught:
            call(kind, f"redis://127.0.0.1:{locked.port}/0?protocol={protocol}")

        assert "A password is needed: put it into the URL, as in redis://:PASSWORD@" in str(
            caught.value
        )

    @pytest.mark.parametrize("protocol", [2, 3])
    def test_a_wrong_password(self, kind, locked, protocol):
        with pytest.raises(redis_errors.AuthenticationError) as caught:
            call(kind, f"redis://:hunter2@127.0.0.1:{locked.port}/0?protocol={protocol}")

        where = f"127.0.0.1:{locked.port}"
        assert str(caught.value).endswith(f". Check the user and the password for Redis at {where}")
        assert "hunter2" not in str(caught.value)
        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize(
        ("scheme", "path", "advice"),
        [
            ("redis+cluster", "", "is not a node of a Redis Cluster: use a URL such as 'redis://"),
            ("redis+sentinel", "/my/0", "is not a Sentinel: use the addresses of the Sentinels"),
        ],
    )
    def test_a_server_of_another_kind(self, kind, server, scheme, path, advice):
        with pytest.raises(redis_errors.ResponseError) as caught:
            call(kind, f"{scheme}://127.0.0.1:{server.port}{path}", ns="{x}")

        assert advice in str(caught.value)

    def test_a_needless_password(self, kind, server):
        with pytest.raises(redis_errors.AuthenticationError) as caught:
            call(kind, f"redis://:hunter2@127.0.0.1:{server.port}/0?protocol=2")

        assert "has no password: remove it from the URL" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({}, "localhost:6379"),
        ({"host": "redis", "port": 7000, "password": "s3cret"}, "redis:7000"),
        ({"path": "/run/redis.sock"}, "/run/redis.sock"),
    ],
)
def test_the_address_of_a_server(options, address):
    assert describe_address(options) == address


def test_retries_are_logged_once_after_a_second(caplog):
    port = free_port()
    with (
        caplog.at_level(logging.DEBUG, logger="rsmq.transport"),
        RSMQ.from_url(f"redis://127.0.0.1:{port}/0", retry_deadline=2.5) as queues,
        pytest.raises(redis_errors.ConnectionError),
    ):
        queues.list_queues()

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert f"Is Redis running at 127.0.0.1:{port}? The call is retried" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_short_retries_are_not_logged(caplog):
    with (
        caplog.at_level(logging.DEBUG, logger="rsmq.transport"),
        RSMQ.from_url(f"redis://127.0.0.1:{free_port()}/0", retry_deadline=0.3) as queues,
        pytest.raises(redis_errors.ConnectionError),
    ):
        queues.list_queues()

    assert caplog.records == []


def test_a_first_program_without_a_server_says_what_is_wrong_in_one_line():
    """Without any setting of logging, Python prints warnings on the standard error."""
    port = free_port()
    program = (
        "from rsmq import RSMQ\n"
        f"queues = RSMQ.from_url('redis://127.0.0.1:{port}/0', retry_deadline=2.5)\n"
        "queues.create_queue('orders', exist_ok=True)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    lines = run.stderr.partition("Traceback")[0].splitlines()
    assert lines[0].startswith(
        f"Error 111 connecting to 127.0.0.1:{port}. Connection refused. "
        f"Is Redis running at 127.0.0.1:{port}? The call is retried for "
    )
    assert len(lines) == 1


@pytest.mark.parametrize(
    "text",
    ["Connection closed by server.", "Error UNKNOWN while writing to socket. Connection lost."],
)
def test_a_port_with_tls_may_close_the_connection_before_the_next_command_is_written(text):
    error = redis_errors.ConnectionError(text)
    advise_on_connection(error, lambda: "host:1", is_sent=False)

    assert str(error).endswith("For a port with TLS, use rediss:// instead of redis://")
