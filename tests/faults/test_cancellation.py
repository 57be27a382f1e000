"""A receive that is cancelled or interrupted hides no message."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import redis.asyncio
import redis.exceptions as redis_errors
from redis.asyncio.cluster import RedisCluster

from rsmq import RSMQ, AsyncRSMQ, Message, QueueNotFound
from rsmq.transport.threads import caller as sync
from tests.bytecodes import traced
from tests.lent import LendingAsyncRedis, LendingRedis
from tests.nodes import wait_until
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
    """Yield a client of a URL, and clients whose connections redis-py describes or lends."""
    yield AsyncRSMQ.from_url(proxy.url, ns=ns), None
    for kind in (redis.asyncio.Redis, LendingAsyncRedis):
        inner = kind(port=proxy.port)
        yield AsyncRSMQ(inner, ns=ns), inner


def test_random_cancellations_hide_no_message(proxy, raw, ns):
    cancellations = scaled(200, 10_000)
    proxy.delay = 0.002
    received = 0

    async def main():
        nonlocal received
        generator = random.Random(7)
        for client, inner in clients(proxy, ns):
            for _ in range(cancellations // 3):
                try:
                    message = await asyncio.wait_for(
                        client.receive_message("q"), generator.uniform(0, 0.02)
                    )
                except TimeoutError:
                    assert hidden(raw, ns) == 0
                else:
                    received += 1
                    assert await client.change_message_visibility(message, 0) is True
            await client.close()
            if inner is not None:
                await inner.aclose()

    asyncio.run(main())

    assert 0 < received < cancellations  # else nothing was cancelled, or everything
    assert hidden(raw, ns) == 0
    assert raw.zcard(f"{ns}:q") == MESSAGES


async def is_cancelled_after(client, turns):
    """Cancel a receive after some turns of the loop; return False if it had ended before."""
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


def test_a_cancellation_at_every_step_hides_no_message(proxy, raw, ns):
    """Cancelled after 0, 1, 2 ... turns of the loop, until the receive is done before it."""

    async def main():
        for client, inner in clients(proxy, ns):
            for warm in (False, True):
                if warm:
                    assert not await client.delete_message("q", "x" * 32)
                turns = 0
                while await is_cancelled_after(client, turns):
                    assert hidden(raw, ns) == 0
                    turns += 1
                assert turns > 3
            await client.close()
            if inner is not None:
                await inner.aclose()

    asyncio.run(main())

    assert hidden(raw, ns) == 0


@pytest.mark.parametrize("kind", [redis.asyncio.Redis, LendingAsyncRedis])
def test_cancellations_while_many_calls_wait_for_one_connection(server, raw, ns, kind):
    async def main():
        generator = random.Random(5)
        pool = redis.asyncio.BlockingConnectionPool(port=server.port, max_connections=2)
        inner = kind(connection_pool=pool)
        client = AsyncRSMQ(inner, ns=ns)
        for _ in range(20):
            tasks = [asyncio.ensure_future(client.receive_message("q")) for _ in range(15)]
            for task in generator.sample(tasks, 12):
                for _ in range(generator.randrange(12)):
                    await asyncio.sleep(0)
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            kept = [result for result in results if isinstance(result, Message)]
            assert hidden(raw, ns) == len(kept)
            for message in kept:
                await client.change_message_visibility(message, 0)
        await client.close()
        await inner.aclose()
        await pool.disconnect()

    asyncio.run(main())

    assert hidden(raw, ns) == 0


def test_a_cancellation_at_every_step_on_a_cluster(cluster_server):
    with cluster_server.raw() as raw, RSMQ(raw, ns="{cancelled}") as client:
        client.create_queue("q", vt=1000, exist_ok=True)
        client.send_message("q", "m")

        async def main():
            inner = RedisCluster(host="127.0.0.1", port=cluster_server.port)
            rsmq = AsyncRSMQ(inner, ns="{cancelled}")
            assert await rsmq.list_queues() == ["q"]
            turns = 0
            while await is_cancelled_after(rsmq, turns):
                assert client.get_queue_attributes("q").hidden_messages == 0
                turns += 1
            await rsmq.close()
            await inner.aclose()
            return turns

        assert asyncio.run(main()) > 3
        assert client.get_queue_attributes("q").hidden_messages == 0


def program(text, *arguments):
    """Run a program that leaves connections open at its end, and return the words it prints."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", text, *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split()


def test_a_loop_that_ends_during_receives_hides_no_message(proxy, raw, ns):
    proxy.delay = 0.05
    cancelled = program(
        """
import asyncio, sys
from redis import Redis
from rsmq import AsyncRSMQ

url, port, ns = sys.argv[1:]


async def main():
    client = AsyncRSMQ.from_url(url, ns=ns)
    await client.list_queues()
    tasks = [asyncio.ensure_future(client.receive_message("q")) for _ in range(5)]
    with Redis(port=int(port)) as raw:
        while raw.hget(f"{ns}:q:Q", "totalrecv") != b"5":
            await asyncio.sleep(0)
    return tasks


for task in asyncio.run(main()):
    print(task.cancelled())
""",
        proxy.url,
        proxy.target,
        ns,
    )

    assert "True" in cancelled
    assert hidden(raw, ns) == cancelled.count("False")


def test_a_cancellation_ends_soon_if_the_server_is_silent(proxy, raw, ns):
    async def main():
        client = AsyncRSMQ.from_url(proxy.url, ns=ns)
        await client.list_queues()
        proxy.delay = 40
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.receive_message("q"), 0.05)
        seconds = time.monotonic() - started
        await client.close()
        return seconds

    # The time is what the test is about. The limit is one second, and the reply takes 40.
    assert asyncio.run(main()) < 20


def test_a_cancelled_send_leaves_a_usable_client(proxy, raw, ns):
    proxy.delay = 0.01

    async def main():
        async with AsyncRSMQ.from_url(proxy.url, ns=ns) as client:
            for _ in range(20):
                with suppress(TimeoutError):  # on a slow machine a reply can come first
                    await asyncio.wait_for(client.send_message("q", "m"), 0.001)
            proxy.delay = 0
            attributes = await client.get_queue_attributes("q")
            assert attributes.messages == attributes.total_sent
            return attributes.messages

    assert MESSAGES <= asyncio.run(main()) <= MESSAGES + 20


class Interrupted(BaseException):
    """The exception that the signal handler raises, like KeyboardInterrupt at Ctrl-C."""


#: Python prints what a handler raises in the callback of a weak reference or in __del__, and goes
#: on. The set of weak references is of the standard library, the parser is of redis-py.
LOST_BY_PYTHON = (
    "ignore:Exception ignored in. <function (WeakSet|_.*Parser.__del__)"
    ":pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def interrupting():
    """Make signals raise in the main thread, as at Ctrl-C."""

    def interrupt(*_):
        raise Interrupted

    previous = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGALRM)
    }
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of redis-py, if connecting is interrupted
@pytest.mark.filterwarnings(LOST_BY_PYTHON)
@pytest.mark.parametrize("kind", [None, redis.Redis, LendingRedis])
@pytest.mark.parametrize("slow", [True, False])
def test_random_interruptions_hide_no_message(server, proxy, raw, ns, interrupting, kind, slow):
    """Signals arrive while the client waits for a reply, and while it parses one."""
    proxy.delay = 0.002 if slow else 0
    url, port = (proxy.url, proxy.port) if slow else (server.url, server.port)
    inner = None if kind is None else kind(port=port)
    client = RSMQ.from_url(url, ns=ns) if inner is None else RSMQ(inner, ns=ns)
    client.list_queues()
    generator = random.Random(11)
    message_in_flight, interrupted = None, 0
    while interrupted < scaled(100, 1000):
        try:
            # Again each second: the first one may be lost, as ``LOST_BY_PYTHON`` says.
            signal.setitimer(signal.ITIMER_REAL, generator.uniform(0.0002, 0.004), 1)
            while True:
                if message_in_flight is not None:
                    client.change_message_visibility(message_in_flight, 0)
                    message_in_flight = None
                message_in_flight = client.receive_message("q")
        except Interrupted:
            interrupted += 1
            assert message_in_flight is not None or hidden(raw, ns) == 0
    signal.setitimer(signal.ITIMER_REAL, 0)
    if message_in_flight is not None:
        client.change_message_visibility(message_in_flight, 0)
    assert client.list_queues() == ["q"]
    client.close()
    if inner is not None:
        inner.close()

    assert hidden(raw, ns) == 0
    assert raw.zcard(f"{ns}:q") == MESSAGES


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_ctrl_c_from_another_thread_hides_no_message(server, raw, ns, interrupting):
    """System calls of the main thread are not interrupted then. It raises after the next one."""
    client = RSMQ.from_url(server.url, ns=ns)
    client.list_queues()
    calling = False

    def interrupt(*_):
        nonlocal calling
        if calling:  # not while the exception of another signal is handled
            calling = False
            raise Interrupted

    def press():
        pressed = 0
        while pressed < scaled(200, 5000) or min(interrupted, received) <= 100:
            time.sleep(0.003)
            signal.raise_signal(signal.SIGINT)
            pressed += 1

    message_in_flight, interrupted, received = None, 0, 0
    signal.signal(signal.SIGINT, interrupt)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        while thread.is_alive() or message_in_flight is not None:
            try:
                calling = True
                if message_in_flight is not None:
                    client.change_message_visibility(message_in_flight, 0)
                    message_in_flight = None
                else:
                    message_in_flight = client.receive_message("q")
                    received += 1
                calling = False
            except Interrupted:
                interrupted += 1
    finally:
        thread.join()  # a signal after the test would end all tests
    client.close()

    assert interrupted > 100
    assert received > 100
    assert hidden(raw, ns) == 0
    assert raw.zcard(f"{ns}:q") == MESSAGES


def test_the_signal_handlers_of_the_program_are_restored(server, ns, interrupting):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with RSMQ.from_url(server.url, ns=ns) as client:
        for call in (client.receive_message, client.pop_message):
            call("q")
        with pytest.raises(QueueNotFound):
            client.receive_message("missing")

    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_signal_at_any_line_hides_no_message(server, raw, ns, interrupting):
    """
    The first signal is raised before each line that runs while signals are held back, the second
    before each later line.

    The line that ends the holding back is left out: see the docstring of RSMQ.
    """
    client = RSMQ.from_url(server.url, ns=ns)
    client.list_queues()
    original_handler = signal.getsignal(signal.SIGINT)

    def interrupted(first, second):
        """Receive; return whether the second signal was raised, or None if no signal was."""
        held_lines = later_lines = 0
        begun = set()

        def trace(frame, event, _):
            nonlocal held_lines, later_lines
            if frame.f_code.co_filename != sync.__file__:
                return None
            if event == "line":
                if held_lines >= first:
                    later_lines += 1
                    is_due = later_lines == second
                else:
                    is_held = signal.getsignal(signal.SIGINT) != original_handler
                    held_lines += is_held and (frame, frame.f_lineno) not in begun
                    is_due = held_lines == first
                begun.add((frame, frame.f_lineno))
                if is_due:
                    signal.raise_signal(signal.SIGINT)
            return trace

        try:
            with traced(trace):
                message = client.receive_message("q")
        except Interrupted:
            return later_lines >= second
        client.change_message_visibility(message, 0)
        return None

    both = 0
    for first in itertools.count(1):
        for second in itertools.count(1):
            outcome = interrupted(first, second)
            assert hidden(raw, ns) == 0, (first, second)
            if not outcome:
                break
            both += 1
        if outcome is None:
            break
    client.close()

    assert (first > 15, both > 500) == (True, True)


def test_a_second_signal_is_not_held_back(proxy, raw, ns, interrupting):
    client = RSMQ.from_url(proxy.url, ns=ns)
    client.list_queues()
    proxy.delay = 40
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    started = time.monotonic()
    with pytest.raises(Interrupted):
        client.receive_message("q")
    signal.setitimer(signal.ITIMER_REAL, 0)
    client.close()

    # The time is what the test is about. The reply takes 40 seconds.
    assert time.monotonic() - started < 20


def test_a_call_from_a_signal_handler_has_its_own_connection(proxy, raw, ns):
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


def test_one_client_in_several_loops_in_turn_keeps_no_connections(server, ns):
    counts = program(
        """
import asyncio, gc, sys, time
from redis import Redis
from rsmq import AsyncRSMQ

url, port, ns = sys.argv[1:]
client = AsyncRSMQ.from_url(url, ns=ns)


async def once():
    return (await client.get_queue_attributes("q")).messages


with Redis(port=int(port)) as raw:
    before = raw.info("clients")["connected_clients"]
    for _ in range(20):
        print(asyncio.run(once()))
    asyncio.run(client.close())
    until = time.monotonic() + 20
    left = True
    while left and time.monotonic() < until:
        gc.collect()  # could not be closed before, because their loops are closed
        left = raw.info("clients")["connected_clients"] > before
    print("left" if left else "closed")
""",
        server.url,
        server.port,
        ns,
    )

    assert counts == [str(MESSAGES)] * 20 + ["closed"]


def test_one_client_in_several_loops_at_once(server, raw, ns):
    before = raw.info("clients")["connected_clients"]
    client = AsyncRSMQ.from_url(server.url, ns=ns)
    counts = []
    ready, closed = threading.Barrier(4), threading.Event()

    async def many():
        counts.extend([(await client.get_queue_attributes("q")).messages for _ in range(50)])
        ready.wait()
        while not closed.is_set():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    ready.wait()
    asyncio.run(client.close())
    closed.set()
    for thread in threads:
        thread.join()

    assert counts == [MESSAGES] * 150
    wait_until(lambda: raw.info("clients")["connected_clients"] <= before)


def test_no_cancellation_is_swallowed(server, ns):
    """redis-py on Python 3.11 returns from a send whose cancellation came in the same moment."""

    async def main():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as client:
            await client.list_queues()
            for call in (client.list_queues, lambda: client.receive_message("q", vt=0)):
                for turns in range(20):
                    task = asyncio.ensure_future(call())
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    if task.cancel():
                        with pytest.raises(asyncio.CancelledError):
                            await task
                    else:
                        await task

    asyncio.run(main())


async def test_errors_of_a_receive_are_raised(proxy, ns):
    async with AsyncRSMQ.from_url(proxy.url, ns=ns, retry_deadline=2) as client:
        await client.list_queues()
        proxy.drop = 2
        with pytest.raises(redis_errors.ConnectionError):
            await client.receive_message("q")
