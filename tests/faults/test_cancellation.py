"""A receive that is cancelled or interrupted leaves no message hidden."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import signal
import threading
import time

import pytest
import redis.asyncio
import redis.exceptions as redis_errors
from redis.asyncio.cluster import RedisCluster

from rsmq import RSMQ, AsyncRSMQ
from tests.proxy import Proxy
from tests.scale import scaled

MESSAGES = 20
_numbers = itertools.count()


@pytest.fixture
def proxy(server):
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def raw(server):
    with server.raw() as raw:
        yield raw


@pytest.fixture
def ns(raw):
    """A namespace with a queue of 20 messages."""
    ns = f"c{next(_numbers)}"
    with RSMQ(raw, ns=ns) as client:
        client.create_queue("q", vt=1000)
        for number in range(MESSAGES):
            client.send_message("q", str(number))
    return ns


def hidden(raw, ns):
    with RSMQ(raw, ns=ns) as client:
        return client.get_queue_attributes("q").hidden_messages


def clients(proxy, ns):
    """Both kinds: own connections, and those of a client handed in."""
    yield AsyncRSMQ.from_url(proxy.url, ns=ns), None
    given = redis.asyncio.Redis(port=proxy.port)
    yield AsyncRSMQ(given, ns=ns), given


@pytest.mark.timeout(scaled(60, 3600))
def test_random_cancellations_leave_nothing_hidden(proxy, raw, ns):
    cancellations = scaled(200, 10_000)
    proxy.delay = 0.002
    received = 0

    async def main():
        nonlocal received
        chance = random.Random(7)
        for client, given in clients(proxy, ns):
            for _ in range(cancellations // 2):
                try:
                    message = await asyncio.wait_for(
                        client.receive_message("q"), chance.uniform(0, 0.02)
                    )
                except TimeoutError:
                    assert hidden(raw, ns) == 0
                else:
                    received += 1
                    assert await client.change_message_visibility(message, 0) is True
            await client.close()
            if given is not None:
                await given.aclose()

    asyncio.run(main())

    assert 0.1 < received / cancellations < 0.9  # else nothing was cancelled, or everything
    assert hidden(raw, ns) == 0
    assert raw.zcard(f"{ns}:q") == MESSAGES


async def cancelled_after(client, turns):
    """Cancel a receive after so many turns of the loop; False if it was done before."""
    task = asyncio.ensure_future(client.receive_message("q"))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        message = await task
    except asyncio.CancelledError:
        return True
    assert await client.change_message_visibility(message, 0) is True
    return False


def test_a_cancellation_at_every_step_leaves_nothing_hidden(proxy, raw, ns):
    """Cancelled after 0, 1, 2 ... turns of the loop, until the receive is done before it."""

    async def main():
        for client, given in clients(proxy, ns):
            for warm in (False, True):
                if warm:
                    assert not await client.delete_message("q", "x" * 32)
                turns = 0
                while await cancelled_after(client, turns):
                    assert hidden(raw, ns) == 0
                    turns += 1
                assert turns > 3
            await client.close()
            if given is not None:
                await given.aclose()

    asyncio.run(main())

    assert hidden(raw, ns) == 0


def test_a_cancellation_at_every_step_on_a_cluster(cluster_server):
    with cluster_server.raw() as raw, RSMQ(raw, ns="{cancelled}") as client:
        client.create_queue("q", vt=1000, exist_ok=True)
        client.send_message("q", "m")

        async def main():
            given = RedisCluster(host="127.0.0.1", port=cluster_server.port)
            rsmq = AsyncRSMQ(given, ns="{cancelled}")
            assert await rsmq.list_queues() == ["q"]
            turns = 0
            while await cancelled_after(rsmq, turns):
                assert client.get_queue_attributes("q").hidden_messages == 0
                turns += 1
            await given.aclose()
            return turns

        assert asyncio.run(main()) > 3
        assert client.get_queue_attributes("q").hidden_messages == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_ends_during_receives_leaves_nothing_hidden(proxy, raw, ns):
    proxy.delay = 0.05

    async def main():
        client = AsyncRSMQ.from_url(proxy.url, ns=ns)
        await client.list_queues()
        tasks = [asyncio.ensure_future(client.receive_message("q")) for _ in range(5)]
        while raw.hget(f"{ns}:q:Q", "totalrecv") != b"5":
            await asyncio.sleep(0)
        return tasks

    cancelled = [task.cancelled() for task in asyncio.run(main())]
    gc.collect()  # nobody closed the client: its connections warn now, and not in another test

    assert True in cancelled
    assert hidden(raw, ns) == cancelled.count(False)


def test_a_cancellation_goes_on_within_a_second_when_the_server_is_silent(proxy, raw, ns):
    async def main():
        client = AsyncRSMQ.from_url(proxy.url, ns=ns)
        await client.list_queues()
        proxy.delay = 3
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.receive_message("q"), 0.05)
        took = time.monotonic() - started
        await client.close()
        return took

    assert asyncio.run(main()) < 2


def test_a_cancelled_send_leaves_a_usable_client(proxy, raw, ns):
    proxy.delay = 0.01

    async def main():
        async with AsyncRSMQ.from_url(proxy.url, ns=ns) as client:
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.send_message("q", "m"), 0.001)
            proxy.delay = 0
            attributes = await client.get_queue_attributes("q")
            assert attributes.messages == attributes.total_sent
            return attributes.messages

    assert MESSAGES <= asyncio.run(main()) <= MESSAGES + 20


class Interrupted(BaseException):
    """What a signal handler raises, as Ctrl-C does KeyboardInterrupt."""


def test_random_interruptions_leave_nothing_hidden(proxy, raw, ns):
    proxy.delay = 0.002
    chance = random.Random(11)
    interrupted = 0

    def interrupt(*_):
        raise Interrupted

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for given in (None, redis.Redis(port=proxy.port)):
            client = RSMQ.from_url(proxy.url, ns=ns) if given is None else RSMQ(given, ns=ns)
            client.list_queues()
            for _ in range(50):
                message = None
                try:
                    # Inside the wait for the reply, where a person's Ctrl-C comes too.
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.0019))
                    message = client.receive_message("q")
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Interrupted:
                    interrupted += 1
                    assert hidden(raw, ns) == 0
                else:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    client.change_message_visibility(message, 0)
            assert client.list_queues() == ["q"]
            client.close()
            if given is not None:
                given.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)

    assert interrupted > 50
    assert hidden(raw, ns) == 0
    assert raw.zcard(f"{ns}:q") == MESSAGES


def test_a_call_from_a_signal_handler_gets_a_connection_of_its_own(proxy, raw, ns):
    proxy.delay = 0.05
    client = RSMQ.from_url(proxy.url, ns=ns)
    client.list_queues()
    answers = []

    def handle(*_):
        proxy.delay = 0
        answers.append(client.get_queue_attributes("q").messages)

    previous = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        assert client.list_queues() == ["q"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    client.close()

    assert answers == [MESSAGES]


def test_one_client_in_one_loop_after_the_other(server, ns):
    client = AsyncRSMQ.from_url(server.url, ns=ns)

    async def once():
        attributes = await client.get_queue_attributes("q")
        await client._caller.close()
        return attributes.messages

    assert [asyncio.run(once()) for _ in range(3)] == [MESSAGES] * 3


def test_one_client_in_two_loops_at_once(server, ns):
    client = AsyncRSMQ.from_url(server.url, ns=ns)
    counts = []

    async def many():
        counts.extend([(await client.get_queue_attributes("q")).messages for _ in range(50)])
        await client._caller.close()

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counts == [MESSAGES] * 150


def test_errors_inside_a_guarded_receive_are_the_callers(proxy, ns):
    async def main():
        async with AsyncRSMQ.from_url(proxy.url, ns=ns, retry_deadline=0.1) as client:
            await client.list_queues()
            proxy.drop = 2
            with pytest.raises(redis_errors.ConnectionError):
                await client.receive_message("q")

    asyncio.run(main())
