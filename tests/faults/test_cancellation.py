"""A receive that is cancelled or interrupted leaves no message hidden."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import redis.asyncio
import redis.exceptions as redis_errors
from redis.asyncio.cluster import RedisCluster

from rsmq import RSMQ, AsyncRSMQ, Message, QueueNotFound
from rsmq.transport import sync
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

    assert 0 < received < cancellations  # else nothing was cancelled, or everything
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


def test_cancellations_while_many_wait_for_one_connection(server, raw, ns):
    """The pool's lock is contended then, also when a connection goes back to it."""

    async def main():
        chance = random.Random(5)
        pool = redis.asyncio.BlockingConnectionPool(port=server.port, max_connections=2)
        given = redis.asyncio.Redis(connection_pool=pool)
        client = AsyncRSMQ(given, ns=ns)
        for _ in range(20):
            tasks = [asyncio.ensure_future(client.receive_message("q")) for _ in range(15)]
            for task in chance.sample(tasks, 12):
                for _ in range(chance.randrange(12)):
                    await asyncio.sleep(0)
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            kept = [result for result in results if isinstance(result, Message)]
            assert hidden(raw, ns) == len(kept)
            for message in kept:
                await client.change_message_visibility(message, 0)
        await given.aclose()
        await pool.disconnect()

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


def program(text, *arguments):
    """Run a program that leaves connections open at its end, and return what it prints."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", text, *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split()


def test_a_loop_that_ends_during_receives_leaves_nothing_hidden(proxy, raw, ns):
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


def test_a_cancellation_goes_on_within_a_second_when_the_server_is_silent(proxy, raw, ns):
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
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.send_message("q", "m"), 0.001)
            proxy.delay = 0
            attributes = await client.get_queue_attributes("q")
            assert attributes.messages == attributes.total_sent
            return attributes.messages

    assert MESSAGES <= asyncio.run(main()) <= MESSAGES + 20


class Interrupted(BaseException):
    """What a signal handler raises, as Ctrl-C does KeyboardInterrupt."""


@pytest.fixture
def interrupting():
    """Make a signal raise where the main thread is, as it does at Ctrl-C."""

    def interrupt(*_):
        raise Interrupted

    previous = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGALRM)
    }
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # redis-py's, interrupted at connecting
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("slow", [True, False])
def test_random_interruptions_leave_nothing_hidden(server, proxy, raw, ns, interrupting, own, slow):
    """Signals to the process, while it waits for a reply and while it is at work on one."""
    proxy.delay = 0.002 if slow else 0
    url, port = (proxy.url, proxy.port) if slow else (server.url, server.port)
    given = None if own else redis.Redis(port=port)
    client = RSMQ.from_url(url, ns=ns) if own else RSMQ(given, ns=ns)
    client.list_queues()
    chance = random.Random(11)
    held, interrupted = None, 0
    while interrupted < scaled(100, 1000):
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0002, 0.004))
            while True:
                if held is not None:
                    client.change_message_visibility(held, 0)
                    held = None
                held = client.receive_message("q")
        except Interrupted:
            interrupted += 1
            assert held is not None or hidden(raw, ns) == 0
    if held is not None:
        client.change_message_visibility(held, 0)
    assert client.list_queues() == ["q"]
    client.close()
    if given is not None:
        given.close()

    assert hidden(raw, ns) == 0
    assert raw.zcard(f"{ns}:q") == MESSAGES


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_ctrl_c_from_another_thread_leaves_nothing_hidden(server, raw, ns, interrupting):
    """The main thread's system calls are not interrupted then; it raises after the next one."""
    client = RSMQ.from_url(server.url, ns=ns)
    client.list_queues()
    calling = False

    def interrupt(*_):
        nonlocal calling
        if calling:  # and not where the exception of another signal is caught
            calling = False
            raise Interrupted

    def press():
        for _ in range(scaled(200, 5000)):
            time.sleep(0.003)
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, interrupt)
    thread = threading.Thread(target=press)
    thread.start()
    held, interrupted, received = None, 0, 0
    try:
        while thread.is_alive() or held is not None:
            try:
                calling = True
                if held is not None:
                    client.change_message_visibility(held, 0)
                    held = None
                else:
                    held = client.receive_message("q")
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


def test_the_handlers_of_the_program_are_left_as_they_were(server, ns, interrupting):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with RSMQ.from_url(server.url, ns=ns) as client:
        for call in (client.receive_message, client.pop_message):
            call("q")
        with pytest.raises(QueueNotFound):
            client.receive_message("missing")

    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_signal_at_any_line_leaves_nothing_hidden(server, raw, ns, interrupting):
    """
    The first comes before any line at which signals are held back, the second at a later one.

    Left out is the line at which the holding back ends, which begins before it: see the docstring
    of RSMQ.
    """
    client = RSMQ.from_url(server.url, ns=ns)
    client.list_queues()
    programs_own = signal.getsignal(signal.SIGINT)

    def interrupted(first, second):
        """Receive; True if the second signal came, False if only the first did, None if neither."""
        held_lines = later_lines = 0
        begun = set()

        def trace(frame, event, _):
            nonlocal held_lines, later_lines
            if frame.f_code.co_filename != sync.__file__:
                return None
            if event == "line":
                if held_lines >= first:
                    later_lines += 1
                    comes = later_lines == second
                else:
                    held = signal.getsignal(signal.SIGINT) != programs_own
                    held_lines += held and (frame, frame.f_lineno) not in begun
                    comes = held_lines == first
                begun.add((frame, frame.f_lineno))
                if comes:
                    signal.raise_signal(signal.SIGINT)
            return trace

        sys.settrace(trace)
        try:
            message = client.receive_message("q")
        except Interrupted:
            return later_lines >= second
        finally:
            sys.settrace(None)
        client.change_message_visibility(message, 0)
        return None

    both = 0
    for first in itertools.count(1):
        for second in itertools.count(1):
            came = interrupted(first, second)
            assert hidden(raw, ns) == 0, (first, second)
            if not came:
                break
            both += 1
        if came is None:
            break
    client.close()

    assert (first > 15, both > 500) == (True, True)


def test_a_second_signal_does_not_wait(proxy, raw, ns, interrupting):
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


def test_one_client_in_one_loop_after_the_other_keeps_nothing_of_the_first(server, ns):
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
        gc.collect()  # nobody could close them in time: their loops are gone
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
    assert raw.info("clients")["connected_clients"] <= before


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


def test_errors_inside_a_guarded_receive_are_the_callers(proxy, ns):
    async def main():
        async with AsyncRSMQ.from_url(proxy.url, ns=ns, retry_deadline=0.1) as client:
            await client.list_queues()
            proxy.drop = 2
            with pytest.raises(redis_errors.ConnectionError):
                await client.receive_message("q")

    asyncio.run(main())
