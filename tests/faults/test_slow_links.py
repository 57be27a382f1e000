"""A slow link: a batch takes longer than socket_timeout, which is the time without progress."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import redis.exceptions as redis_errors

from rsmq import AsyncRSMQ
from tests.faults.conftest import Link
from tests.proxy import Proxy

pytestmark = pytest.mark.slow

#: Seconds. A busy machine may stop a process for half a second.
TIMEOUT = 1.5
RATE = 500_000
BODY = "x" * 100_000
BATCH = 15  # 1.5 MB take twice the timeout


@pytest.fixture(params=["sync", "asyncio"])
def link(request, server):
    link = Link(request.param, server)
    link.proxy.close()
    link.proxy = Proxy(server.port, slow=True)
    yield link
    link.proxy.stalled = False
    link.close()


@pytest.fixture
def rsmq(link):
    client = link.open_client(socket_timeout=TIMEOUT)
    client.create_queue("q", vt=1000, maxsize=-1)
    return client


def test_a_batch_that_makes_progress_is_sent_and_received(link, rsmq):
    link.proxy.rate = RATE
    ids = rsmq.send_messages("q", [BODY] * BATCH)
    messages = rsmq.receive_messages("q", BATCH)

    assert [message.id for message in messages] == ids
    assert {message.body for message in messages} == {BODY}
    assert {message.receive_count for message in messages} == {1}
    assert link.raw.hget(f"{link.ns}:q:Q", "totalsent") == str(BATCH).encode()
    assert link.raw.hget(f"{link.ns}:q:Q", "totalrecv") == str(BATCH).encode()


def test_one_large_message_that_makes_progress_is_sent_and_received(link, rsmq):
    link.proxy.rate = RATE
    body = BODY * BATCH
    id = rsmq.send_message("q", body)
    message = rsmq.receive_message("q")

    assert (message.id, message.body, message.receive_count) == (id, body, 1)


@pytest.mark.parametrize(
    ("rate", "size"),
    [
        (int(100_000 / TIMEOUT), 104_000),
        (int(100_000 / TIMEOUT), 204_000),
        (int(40_000 / TIMEOUT), 50_000),
    ],
)
def test_a_message_whose_sending_takes_a_little_longer_than_the_timeout(link, rsmq, rate, size):
    """At the timeout, little or nothing is left to send, and the reply has not arrived."""
    link.proxy.rate = rate
    body = "x" * size
    id = rsmq.send_message("q", body)
    link.proxy.rate = 0

    assert rsmq.get_message("q", id).body == body


def test_calls_of_other_tasks_wait_for_the_batch(server, ns):
    """All calls of an event loop share one connection."""
    proxy = Proxy(server.port, slow=True)

    async def main():
        async with AsyncRSMQ.from_url(proxy.url, ns=ns, socket_timeout=TIMEOUT) as rsmq:
            await rsmq.create_queue("q", vt=1000)
            await rsmq.create_queue("small")
            proxy.rate = RATE
            batch = asyncio.create_task(rsmq.send_messages("q", ["x" * 60_000] * 25))
            small = []
            while not batch.done():
                small.append(asyncio.create_task(rsmq.send_message("small", "y")))
                await asyncio.sleep(0.05)
            assert len(await batch) == 25
            sent = await asyncio.gather(*small)
            messages = asyncio.create_task(rsmq.receive_messages("q", 25))
            while not messages.done():
                small.append(asyncio.create_task(rsmq.get_message("small", sent[0])))
                await asyncio.sleep(0.05)
            assert {message.receive_count for message in await messages} == {1}
            assert len(messages.result()) == 25
            await asyncio.gather(*small)

    try:
        asyncio.run(main())
    finally:
        proxy.close()


@pytest.mark.parametrize("stalls", ["the request", "the reply"])
def test_a_link_that_stalls_on_the_way_is_a_timeout(link, rsmq, stalls):
    bodies = [BODY] * 25
    if stalls == "the reply":
        rsmq.send_messages("q", bodies)
    link.proxy.rate = RATE
    stalling = threading.Timer(1.5 * TIMEOUT, setattr, (link.proxy, "stalled", True))
    stalling.start()
    begin = time.monotonic()
    call = rsmq.send_messages if stalls == "the request" else rsmq.pop_messages
    with pytest.raises(redis_errors.TimeoutError):
        call("q", bodies if stalls == "the request" else len(bodies))
    seconds = time.monotonic() - begin
    stalling.join()

    # The time is what the test is about. On a busy machine it is longer, and never shorter.
    assert seconds > 1.5 * TIMEOUT, "the call ended although there was progress"
    assert seconds < 20 * TIMEOUT, "the call did not end after the last progress"
