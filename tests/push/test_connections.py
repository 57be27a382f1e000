"""Connections that are used again: an answer counts only for the request that it answers."""

from __future__ import annotations

import asyncio

import pytest

from rsmq import InvalidFormat
from rsmq.webhooks import observed_connection
from rsmq.webhooks.addresses import AddressRules, parse_ranges
from rsmq.webhooks.http_client import PushClient
from rsmq.webhooks.observed_connection import ObservedConnection
from rsmq.webhooks.targets import Target, parse_target
from tests.push.conftest import wait_until
from tests.push.receiver import OK, Reply, reply


def open_client(receiver):
    rules = AddressRules(parse_ranges("127.0.0.0/8"))
    return PushClient(parse_target(receiver.url, allow_http=True, rules=rules), rules, {})


@pytest.mark.parametrize("is_loop_blocked", [False, True])
@pytest.mark.parametrize(
    "unasked",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 2",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"more of the body",
    ],
)
def test_bytes_that_no_request_asked_for_are_not_the_answer_to_the_next_one(
    receiver, unasked, is_loop_blocked
):
    """They come while the connection waits for a request: read by then, or still in the socket."""
    receiver.answer = lambda request: (
        Reply(OK.raw, unasked=unasked) if request.body == b"first" else reply(500)
    )

    async def push_both():
        client = open_client(receiver)
        try:
            first = await client.post(b"first", {})
            wait = receiver.has_sent_unasked.wait
            if is_loop_blocked:
                wait(30)
            else:
                await asyncio.to_thread(wait, 30)
                await asyncio.sleep(0.05)
            return first.status, (await client.post(b"second", {})).status
        finally:
            await client.close()

    assert asyncio.run(push_both()) == (204, 500)
    assert [each.connection for each in receiver.requests] == [1, 2]


def test_a_request_on_a_connection_that_the_target_has_closed_is_sent_again(receiver, monkeypatch):
    """The event loop has not noticed the end of the connection when it sends the request."""
    monkeypatch.setattr(observed_connection, "_CHECK_AFTER_IDLE_SECONDS", 3600)
    receiver.answer = lambda _: reply(204, close=True)

    async def push_both():
        client = open_client(receiver)
        try:
            first = await client.post(b"first", {})
            wait_until(lambda: not receiver._writers)  # blocks the loop
            return first.status, (await client.post(b"second", {})).status
        finally:
            await client.close()

    assert asyncio.run(push_both()) == (204, 204)
    assert [each.body for each in receiver.requests] == [b"first", b"second"]


def test_a_long_head_is_not_kept():
    async def receive():
        connection = ObservedConnection(asyncio.get_running_loop())
        connection.set_response_params()
        connection.exchange = object()
        for data in (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, b"y" * 20_000):
            connection.data_received(data)
        return connection.seen

    assert len(asyncio.run(receive())) == 16_384


def test_a_url_and_a_host_that_differ_are_refused():
    target = Target("https://a.example/", "https://a.example/", "b.example")
    with pytest.raises(InvalidFormat, match="can be read in several ways"):
        PushClient(target, AddressRules(), {})


def test_a_request_is_sent_four_times_at_most(receiver):
    """The target closes each connection on which this request comes, all of them used before."""
    receiver.answer = lambda request: (
        Reply(b"", close=True) if request.body == b"bad" else reply(204, delay=0.2)
    )

    async def push():
        client = open_client(receiver)
        try:
            await asyncio.gather(*(client.post(b"good", {}) for _ in range(6)))
            return await client.post(b"bad", {})
        finally:
            await client.close()

    answer = asyncio.run(push())
    bad = [each.connection for each in receiver.requests if each.body == b"bad"]

    assert (answer.status, answer.text) == (None, "the connection was closed before an answer")
    assert len(set(bad)) == len(bad) == 4
