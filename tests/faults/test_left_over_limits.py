"""The limits of messages that a queue with the name had before Node deleted it."""

from __future__ import annotations

import pytest

from rsmq import RSMQ
from tests.faults.commands import count_commands
from tests.servers import Server, redis_7


@pytest.fixture(scope="module")
def server():
    server = Server(redis_7())
    yield server
    server.stop()


@pytest.fixture
def raw(server):
    with server.raw() as raw:
        raw.flushall()
        yield raw


def test_the_first_send_with_limits_removes_them_with_one_command(server, raw):
    with RSMQ.from_url(server.url) as rsmq:
        rsmq.create_queue("q")
        raw.hset("rsmq:q:x:limits", mapping={f"old-{number}": "3:" for number in range(20_000)})
        ids = []
        commands = count_commands(
            server, lambda: ids.append(rsmq.send_message("q", "m", max_retries=3))
        )

    assert sum(commands.values()) < 30
    assert raw.hgetall("rsmq:q:x:limits") == {ids[0].encode(): b"3:"}
