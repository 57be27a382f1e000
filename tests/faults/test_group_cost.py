"""The work of Redis in one batch of messages with groups, in commands of its script."""

from __future__ import annotations

import pytest

from rsmq import RSMQ
from tests.faults.commands import count_commands
from tests.servers import Server, redis_7

MESSAGES = 10_000
GROUPS = [f"customer-{number}" for number in range(MESSAGES)]


@pytest.fixture(scope="module")
def server():
    server = Server(redis_7())
    yield server
    server.stop()


@pytest.fixture
def rsmq(server):
    with server.raw() as raw:
        raw.flushall()
    with RSMQ.from_url(server.url) as rsmq:
        rsmq.create_queue("q")
        yield rsmq


def send(rsmq):
    return rsmq.send_messages("q", ["m"] * MESSAGES, groups=GROUPS)


def test_a_batch_of_many_groups_in_a_queue_without_messages_of_groups_looks_for_none(server, rsmq):
    commands = count_commands(server, lambda: send(rsmq))
    assert sum(commands.values()) < 60
    assert "zrangebylex" not in commands


def test_a_batch_looks_twice_for_each_group_that_has_messages(server, rsmq):
    send(rsmq)
    commands = count_commands(server, lambda: send(rsmq))
    assert commands["zrangebylex"] == commands["zscore"] == MESSAGES
    assert sum(commands.values()) < 2 * MESSAGES + 60
