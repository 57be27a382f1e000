"""The limits of messages that a queue with the name had before Node deleted it."""

from __future__ import annotations

import pytest

from rsmq import RSMQ
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
        raw.config_resetstat()
        id = rsmq.send_message("q", "m", max_retries=3)

    calls = {name: each["calls"] for name, each in raw.info("commandstats").items()}
    assert sum(calls.values()) < 30
    assert raw.hgetall("rsmq:q:x:limits") == {id.encode(): b"3:"}
