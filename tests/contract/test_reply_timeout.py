"""A client that waits longer, or less long, for replies, on the connections of another one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq import JSON, RSMQ, AsyncRSMQ, ClientClosed, Confirm, InvalidValue
from rsmq.operations.operation import RetryClass
from rsmq.operations.plain import plain_command
from tests.blocking import Blocking

#: Seconds that no reply of these tests takes.
LONG = 3600


class OwnRSMQ(RSMQ):
    """A class of a user."""


class OwnAsyncRSMQ(AsyncRSMQ):
    """A class of a user."""


@pytest.fixture
def make(mode, server, ns):
    """A function that makes a client with connections of its own, whose calls block."""
    clients = []
    with asyncio.Runner() as runner:

        def client(**options):
            options = {"ns": ns, "retry_deadline": LONG, **options}  # to connect
            if mode == "sync":
                clients.append(OwnRSMQ.from_url(server.url, **options))
            else:
                clients.append(Blocking(runner, OwnAsyncRSMQ.from_url(server.url, **options)))
            return clients[-1]

        yield client
        for each in clients:
            each.close()


def pop(ns, seconds):
    """A command to which the server replies after these seconds, and never if they are 0."""
    return plain_command("BLPOP", f"{ns}:none", seconds, retry=RetryClass.NEVER)


def test_calls_reach_the_same_queues(env):
    client = env.rsmq.with_reply_timeout(LONG)
    client.create_queue("q", vt=7)
    assert client.list_queues() == ["q"]
    assert env.rsmq.get_queue_attributes("q") == client.get_queue_attributes("q")
    assert env.raw.hget(env.hash("q"), "vt") == b"7"
    client.close()
    assert env.rsmq.list_queues() == ["q"]


@pytest.mark.parametrize("seconds", [LONG, timedelta(hours=1)])
def test_it_waits_longer_than_the_timeout_of_its_connections(make, ns, seconds):
    client = make(socket_timeout=0.1)
    with pytest.raises(RedisTimeoutError):
        client.run(pop(ns, 0))

    assert client.with_reply_timeout(seconds).run(pop(ns, 0.3)) is None
    with pytest.raises(RedisTimeoutError):
        client.run(pop(ns, 0))


def test_it_waits_less_long_than_its_connections(make, ns):
    client = make(socket_timeout=LONG)
    with pytest.raises(RedisTimeoutError):
        client.with_reply_timeout(0.1).run(pop(ns, 0))
    assert client.run(pop(ns, 0.3)) is None


def test_the_time_of_a_command_and_the_last_time_that_was_set_win(make, ns):
    client = make(socket_timeout=LONG).with_reply_timeout(LONG)
    own = replace(pop(ns, 0), reply_timeout=0.1)
    for shorter, operation in ((client, own), (client.with_reply_timeout(0.1), pop(ns, 0))):
        with pytest.raises(RedisTimeoutError):
            shorter.run(operation)


def test_a_send_has_the_time_of_its_own(make, server, ns):
    client = make(socket_timeout=LONG)
    client.create_queue("q")
    with server.raw() as raw:
        raw.client_pause(LONG * 1000, all=False)  # writes
        try:
            with pytest.raises(RedisTimeoutError):
                client.with_reply_timeout(LONG).send_message("q", "m", timeout=0.1)
        finally:
            raw.client_unpause()


def test_it_has_the_settings_and_the_class_of_the_client(make, mode):
    copies = Confirm(replicas=1, timeout=2)
    client = make(codec=JSON, realtime=True, strict_names=False, confirm=copies)
    other = client.with_reply_timeout(LONG)
    for each in (client, other):
        assert (each.codec, each.realtime, each.confirm) == (JSON, True, copies)
        assert (each.namespace.name, each.namespace.strict_names) == (client.namespace.name, False)
    assert other.caller is client.caller
    assert type(getattr(other, "_client", other)) in {OwnRSMQ, OwnAsyncRSMQ}


def test_waiting_receives_get_messages(make):
    client = make(socket_timeout=LONG)
    client.create_queue("q")
    other = client.with_reply_timeout(LONG)
    other.send_message("q", "m", delay=0.1)
    assert other.receive_message("q", wait=60).body == "m"


def test_its_close_leaves_the_client_open_and_that_of_the_client_ends_both(make):
    client = make()
    client.create_queue("q")
    closed, other = client.with_reply_timeout(LONG), client.with_reply_timeout(LONG)
    closed.close()
    for call in (closed.list_queues, closed.with_reply_timeout(LONG).list_queues):
        with pytest.raises(ClientClosed):
            call()
    assert client.list_queues() == other.list_queues() == ["q"]

    client.close()
    for call in (client.list_queues, other.list_queues):
        with pytest.raises(ClientClosed):
            call()
    other.close()


@pytest.mark.parametrize("seconds", [0, -1, 86_401, "60", None, True, float("nan")])
def test_other_times_are_refused(make, seconds):
    with pytest.raises(InvalidValue, match="seconds must be"):
        make().with_reply_timeout(seconds)
