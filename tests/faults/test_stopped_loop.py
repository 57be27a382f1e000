"""Work of the program that stops the event loop uses up no time limit of a call."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
import uvloop
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq import AsyncRSMQ
from rsmq.transport.asyncio_.call_limit import CallLimit
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS

#: How long a server that works may take for its replies.
LIMIT_SECONDS = 1.0


def limits(seconds):
    return {
        "of the call": {"retry_deadline": seconds},
        "of the connection": {"socket_timeout": seconds, "retry_deadline": None},
    }


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS.values(), ids=LOOPS)
def run(request):
    def run(test):
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(test())

    return run


async def connect(queues):
    """Create a queue, whose first attempts may take longer than a limit of these tests."""
    for _ in range(100):
        with suppress(RedisTimeoutError):
            return await queues.create_queue("q", exist_ok=True)
    raise AssertionError("no reply in 100 attempts")


@pytest.mark.parametrize("options", limits(LIMIT_SECONDS).values(), ids=limits(0))
@pytest.mark.parametrize("stops", [1, 5])
def test_a_reply_that_arrives_while_the_loop_is_stopped_is_read(
    server, raw, ns, run, options, stops
):
    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns, **options) as queues:
            await connect(queues)
            connections = raw.info("stats")["total_connections_received"]
            sends = [asyncio.create_task(queues.send_message("q", "a")) for _ in range(20)]
            for _ in range(stops):
                await asyncio.sleep(0)
                time.sleep(2 * LIMIT_SECONDS / stops)  # noqa: ASYNC251 - stops the loop
            await asyncio.gather(*sends)
            assert raw.zcard(f"{ns}:q") == int(raw.hget(f"{ns}:q:Q", "totalsent")) == 20
            assert raw.info("stats")["total_connections_received"] == connections

    run(test)


@pytest.mark.parametrize("options", limits(0.2).values(), ids=limits(0))
def test_a_server_that_hangs_is_noticed_by_a_loop_that_is_always_late(server, ns, run, options):
    proxy = Proxy(server.port)

    async def test():
        async with AsyncRSMQ.from_url(proxy.url, ns=ns, **options) as queues:
            await connect(queues)
            proxy.stalled = True
            call = asyncio.create_task(queues.get_queue_attributes("q"))
            end = time.monotonic() + WAIT_SECONDS
            while not call.done() and time.monotonic() < end:
                await asyncio.sleep(0)
                time.sleep(0.05)  # noqa: ASYNC251 - stops the loop
            with pytest.raises(RedisTimeoutError):
                await call

    try:
        run(test)
    finally:
        proxy.stalled = False
        proxy.close()


def test_a_limit_without_stops_ends_its_block_and_leaves_a_cancellation_alone(run):
    async def test():
        limit = CallLimit(0.01)
        with pytest.raises(TimeoutError):
            async with limit:
                await asyncio.sleep(WAIT_SECONDS)
        assert limit.expired()

        async def wait():
            async with CallLimit(WAIT_SECONDS):
                await asyncio.sleep(WAIT_SECONDS)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(test)
