"""Connections that are used again: an answer counts only for the request that it answers."""

from __future__ import annotations

import asyncio

import pytest

from rsmq.push.addresses import AddressRules, parse_ranges
from rsmq.push.http_client import PushClient
from rsmq.push.targets import parse_target
from tests.push.receiver import OK, Reply, reply


async def open_client(receiver):
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
        client = await open_client(receiver)
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
