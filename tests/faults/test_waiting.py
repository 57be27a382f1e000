"""Waiting receives under faults: their cost, what ends them, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import redis
import redis.asyncio
import redis.exceptions as redis_errors

import rsmq.transport.signals
import rsmq.waiting.asyncio_
import rsmq.waiting.schedule
import rsmq.waiting.threads
import rsmq.waiting.tracking
import rsmq.waiting.watcher_state
from rsmq import RSMQ, AsyncRSMQ, ClientClosed, Message, QueueNotFound
from tests.bytecodes import signal_at
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7

pytestmark = pytest.mark.slow

_numbers = itertools.count()

#: The longest time between an event and the end of the wait. Generous, because machines are busy;
#: but less than SAFETY_SECONDS (15), after which a waiter receives without any event.
WITHIN_SECONDS = 12


@pytest.fixture
def private_server():
    """A server that no other test uses."""
    server = Server(redis_7())
    yield server
    server.stop()


@pytest.fixture
def raw(private_server):
    with private_server.raw() as raw:
        yield raw


@pytest.fixture
def producer(private_server):
    with RSMQ.from_url(private_server.url) as producer:
        producer.create_queue("q", vt=1000)
        yield producer


def until(condition, seconds=WITHIN_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_tracking(raw):
    """Return whether a connection tracks keys, and has read some."""
    return raw.info("clients")["tracking_clients"] and raw.info("stats")["tracking_total_keys"]


def node_send(raw, body, queue="q"):
    """Send a message with the commands of npm rsmq, without realtime."""
    seconds, us = raw.time()
    number, id = seconds * 1_000_000 + us, ""
    while number:
        number, digit = divmod(number, 36)
        id = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + id
    id += f"{next(_numbers):022d}"
    with raw.pipeline(transaction=True) as pipeline:
        pipeline.zadd(f"rsmq:{queue}", {id: seconds * 1000 + us // 1000})
        pipeline.hset(f"rsmq:{queue}:Q", id, body)
        pipeline.hincrby(f"rsmq:{queue}:Q", "totalsent", 1)
        pipeline.execute()
    return id


def script_calls(raw):
    """Return the calls of EVALSHA (receives) and of EVAL (scripts that the server did not have)."""
    stats = raw.info("commandstats")
    return [stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval")]


def in_threads(number, work):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(work()), daemon=True) for _ in range(number)
    ]
    for thread in threads:
        thread.start()
    return threads, results


def test_a_thousand_threads_share_one_tracking_connection(private_server, raw, producer):
    with RSMQ.from_url(private_server.url) as consumer:
        threads, results = in_threads(1000, lambda: consumer.receive_message("q", wait=60))
        until(lambda: is_tracking(raw) and script_calls(raw)[0] >= 1000, 30)
        until(lambda: raw.info("clients")["connected_clients"] <= 12, 30)
        ids = set()
        for start in range(0, 1000, 100):
            ids |= set(producer.send_messages("q", [str(n) for n in range(start, start + 100)]))
        for thread in threads:
            thread.join(WAIT_SECONDS)

    assert {message.id for message in results} == ids
    until(lambda: raw.info("clients")["connected_clients"] <= 2)


def test_a_thousand_tasks_share_one_tracking_connection(private_server, raw, producer):
    async def main():
        async with AsyncRSMQ.from_url(private_server.url) as consumer:
            tasks = [
                asyncio.ensure_future(consumer.receive_message("q", wait=60)) for _ in range(1000)
            ]
            while not is_tracking(raw):
                await asyncio.sleep(0.01)
            assert raw.info("clients")["connected_clients"] == 4
            ids = producer.send_messages("q", [str(n) for n in range(1000)])
            messages = await asyncio.gather(*tasks)
            assert {message.id for message in messages} == set(ids)

    asyncio.run(main())
    until(lambda: raw.info("clients")["connected_clients"] == 2)


def test_without_messages_waiters_send_no_commands(private_server, raw, producer):
    with RSMQ.from_url(private_server.url) as consumer:
        threads, results = in_threads(20, lambda: consumer.pop_message("q", wait=30))
        until(lambda: is_tracking(raw))
        time.sleep(0.3)
        before = script_calls(raw)
        time.sleep(2)
        assert script_calls(raw) == before
        for _ in range(20):
            node_send(raw, "m")
        for thread in threads:
            thread.join(WITHIN_SECONDS)
    assert len(results) == 20


@pytest.mark.parametrize("waiters", [1, 50])
def test_a_message_causes_few_receives(private_server, raw, producer, waiters):
    received = []

    def consume(consumer):
        while message := consumer.receive_message("q", wait=1):
            received.append(message)

    with RSMQ.from_url(private_server.url) as consumer:
        threads, _ = in_threads(waiters, lambda: consume(consumer))
        until(lambda: is_tracking(raw))
        time.sleep(0.2)
        before = script_calls(raw)[0]
        for number in range(100):
            node_send(raw, str(number))
            until(lambda number=number: len(received) == number + 1)
            time.sleep(0.005)
        cost = (script_calls(raw)[0] - before) / 100
        for thread in threads:
            thread.join(WITHIN_SECONDS)

    assert cost <= (2 if waiters == 1 else 5)


def test_every_waiter_gets_messages(private_server, raw, producer):
    counts = [0] * 5
    stop = threading.Event()

    def consume(index, consumer):
        while not stop.is_set():
            if consumer.pop_message("q", wait=0.2):
                counts[index] += 1

    with RSMQ.from_url(private_server.url) as consumer:
        threads = [threading.Thread(target=consume, args=(n, consumer)) for n in range(5)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            node_send(raw, "m")
            time.sleep(0.002)
        until(lambda: sum(counts) == 100)
        stop.set()
        for thread in threads:
            thread.join(WITHIN_SECONDS)

    assert min(counts) >= 5


def test_a_ghost_id_does_not_cause_a_busy_loop(private_server, raw, producer):
    now = raw.time()[0] * 1000
    raw.zadd("rsmq:q", {"g" * 32: now})
    with RSMQ.from_url(private_server.url) as consumer:
        threads, results = in_threads(3, lambda: consumer.receive_message("q", wait=3))
        time.sleep(0.3)
        before = script_calls(raw)[0]
        time.sleep(1.5)
        assert script_calls(raw)[0] - before <= 6
        node_send(raw, "m")
        until(lambda: len(results) == 1)
        for thread in threads:
            thread.join(WITHIN_SECONDS)
    assert [m.body for m in results if m] == ["m"]


@pytest.mark.parametrize("call", ["receive_message", "pop_message"])
def test_close_from_another_thread_ends_the_wait_with_an_error(private_server, raw, producer, call):
    consumer = RSMQ.from_url(private_server.url)
    errors = []

    def consume():
        try:
            getattr(consumer, call)("q", wait=None)
        except ClientClosed as error:
            errors.append(error)

    threads, _ = in_threads(5, consume)
    until(lambda: is_tracking(raw))
    consumer.close()
    for thread in threads:
        thread.join(WAIT_SECONDS)

    assert len(errors) == 5
    until(lambda: raw.info("clients")["connected_clients"] <= 2)
    until(lambda: "rsmq-watcher" not in {thread.name for thread in threading.enumerate()})
    producer.send_message("q", "m")
    assert producer.get_queue_attributes("q").visible_messages == 1


def test_a_receive_does_not_wait_if_the_client_was_closed_meanwhile(private_server, raw, producer):
    consumer = RSMQ.from_url(private_server.url)
    run = consumer.run

    def run_and_close(operation):
        found = run(operation)
        consumer.close()
        return found

    consumer.run = run_and_close
    with pytest.raises(ClientClosed):
        consumer.receive_message("q", wait=None)

    async def main():
        consumer = AsyncRSMQ.from_url(private_server.url)
        run = consumer.run

        async def run_and_close(operation):
            found = await run(operation)
            await consumer.close()
            return found

        consumer.run = run_and_close
        with pytest.raises(ClientClosed):
            await consumer.receive_message("q", wait=None)

    asyncio.run(main())
    until(lambda: raw.info("clients")["connected_clients"] <= 2)
    until(lambda: "rsmq-watcher" not in {thread.name for thread in threading.enumerate()})


def test_closing_an_asyncio_client_ends_its_waits_with_an_error(private_server, raw, producer):
    async def main():
        consumer = AsyncRSMQ.from_url(private_server.url)
        tasks = [asyncio.ensure_future(consumer.receive_message("q", wait=None)) for _ in range(5)]
        while not is_tracking(raw):
            await asyncio.sleep(0.01)
        await consumer.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(error) for error in asyncio.run(main())] == [ClientClosed] * 5
    until(lambda: raw.info("clients")["connected_clients"] <= 2)


def test_a_client_that_ends_with_its_loop_leaves_no_connection(private_server, raw, producer):
    async def main():
        consumer = AsyncRSMQ.from_url(private_server.url)
        assert await consumer.receive_message("q", wait=0.2) is None
        assert is_tracking(raw)
        await consumer.close()

    asyncio.run(main())
    asyncio.run(main())
    until(lambda: raw.info("clients")["connected_clients"] <= 2)


async def test_a_cancelled_wait_hides_no_message_and_other_waits_continue(
    private_server, raw, producer
):
    async with AsyncRSMQ.from_url(private_server.url) as consumer:
        tasks = [asyncio.ensure_future(consumer.receive_message("q", wait=2)) for _ in range(10)]
        while not is_tracking(raw):
            await asyncio.sleep(0.01)
        for number in range(5):
            producer.send_message("q", str(number))
            await asyncio.sleep(0.0003 * number)
            tasks[2 * number].cancel()
        done = await asyncio.gather(*tasks[1::2], return_exceptions=True)
        cancelled = await asyncio.gather(*tasks[::2], return_exceptions=True)
        received = [m for m in [*done, *cancelled] if isinstance(m, Message)]
        assert len(received) == 5
        await consumer.delete_messages(received)
        assert (await consumer.get_queue_attributes("q")).messages == 0


def test_random_cancellations_of_waits_hide_no_message(private_server, raw, producer):
    async def main():
        received = 0
        async with AsyncRSMQ.from_url(private_server.url) as consumer:
            for number in range(200):
                task = asyncio.ensure_future(consumer.receive_message("q", wait=20))
                await asyncio.sleep(0.002)
                node_send(raw, str(number))
                await asyncio.sleep(number % 20 / 10_000)
                task.cancel()
                try:
                    message = await task
                except asyncio.CancelledError:
                    assert (await consumer.get_queue_attributes("q")).hidden_messages == 0
                else:
                    received += 1
                    await consumer.delete_message(message)
                await consumer.purge_queue("q")
        return received

    assert 0 < asyncio.run(main()) < 200


def test_ctrl_c_ends_a_wait_and_hides_no_message(private_server, raw, producer, monkeypatch):
    # A KeyboardInterrupt that is raised in coverage's lock leaves it locked: the process hangs.
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    program = """
import sys, traceback
from rsmq import RSMQ

client = RSMQ.from_url(sys.argv[1])
print("waiting", flush=True)
try:
    while True:
        client.delete_message(client.receive_message("q", wait=None))
except KeyboardInterrupt as error:
    names = {frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)}
    is_received = "receive_message" not in names  # the interruption came after the receive
    print(is_received or client.get_queue_attributes("q").hidden_messages)
"""
    for number in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", program, private_server.url], stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert process.stdout.readline() == "waiting\n"
        until(lambda: is_tracking(raw))
        node_send(raw, "m")
        time.sleep(0.0005 * number)
        process.send_signal(signal.SIGINT)
        try:
            output = process.communicate()[0]
        finally:
            process.kill()
            process.wait()
        assert output in ("0\n", "True\n")
        producer.purge_queue("q")


def test_ctrl_c_at_any_step_of_a_wait_blocks_no_other_waiter(private_server, raw, producer):
    def interrupt():
        node_send(raw, "m")
        time.sleep(0.002)  # the watcher wakes a waiter meanwhile
        raise KeyboardInterrupt

    files = rsmq.waiting.threads.__file__, rsmq.transport.signals.__file__, threading.__file__
    with RSMQ.from_url(private_server.url) as consumer:
        for number in itertools.count(1):
            with (
                suppress(KeyboardInterrupt),
                signal_at(number, *files, handler=interrupt) as raised,
            ):
                consumer.receive_message("q", wait=0.01)
            if not raised:
                break
            threads, received = in_threads(1, lambda: consumer.receive_message("q", wait=5))
            threads[0].join(WITHIN_SECONDS)
            assert [message.body for message in received] == ["m"], number
            producer.purge_queue("q")
    assert number > 50


def test_a_deleted_queue_is_reported_to_all_its_waiters(private_server, raw, producer):
    producer.create_queue("other")
    with RSMQ.from_url(private_server.url) as consumer:
        errors = []

        def consume():
            try:
                consumer.receive_messages(["other", "q"], 1, wait=20)
            except QueueNotFound as error:
                errors.append(error.value)

        threads, _ = in_threads(5, consume)
        until(lambda: is_tracking(raw))
        with raw.pipeline(transaction=True) as node:  # as npm rsmq deletes it
            node.delete("rsmq:q:Q", "rsmq:q")
            node.srem("rsmq:QUEUES", "q")
            node.execute()
        for thread in threads:
            thread.join(WITHIN_SECONDS)

    assert errors == ["q"] * 5


def kill_tracking(raw):
    for client in raw.client_list():
        if "t" in client["flags"]:
            raw.client_kill_filter(_id=client["id"])


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_a_lost_connection_is_made_again_and_no_message_is_missed(
    private_server, raw, producer, mode
):
    def send():
        until(lambda: is_tracking(raw))
        kill_tracking(raw)
        producer.send_message("q", "in the gap")
        until(lambda: is_tracking(raw))
        kill_tracking(raw)
        until(lambda: is_tracking(raw))
        producer.send_message("q", "after it")

    thread = threading.Thread(target=send)
    thread.start()
    if mode == "sync":
        with RSMQ.from_url(private_server.url) as consumer:
            bodies = [consumer.receive_message("q", wait=20).body for _ in range(2)]
    else:

        async def main():
            async with AsyncRSMQ.from_url(private_server.url) as consumer:
                return [(await consumer.receive_message("q", wait=20)).body for _ in range(2)]

        bodies = asyncio.run(main())
    thread.join()
    assert bodies == ["in the gap", "after it"]


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_a_server_failure_is_reported_only_after_the_retry_deadline(mode):
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    try:
        with RSMQ.from_url(server.url) as producer:
            producer.create_queue("q")
        results = []

        def consume(wait, deadline):
            try:
                if mode == "sync":
                    with RSMQ.from_url(server.url, retry_deadline=deadline) as consumer:
                        results.append(consumer.receive_message("q", wait=wait))
                else:

                    async def main():
                        async with AsyncRSMQ.from_url(
                            server.url, retry_deadline=deadline
                        ) as consumer:
                            results.append(await consumer.receive_message("q", wait=wait))

                    asyncio.run(main())
            except redis_errors.ConnectionError as error:
                results.append(error)

        thread = threading.Thread(target=consume, args=(30, 10))
        thread.start()
        with server.raw() as raw:
            until(lambda: is_tracking(raw))
        server.kill()
        time.sleep(0.5)
        server.start()
        with server.raw() as raw:
            node_send(raw, "m")
        thread.join(WAIT_SECONDS)
        assert results.pop().body == "m"

        thread = threading.Thread(target=consume, args=(30, 0.5))
        thread.start()
        with server.raw() as raw:
            until(lambda: is_tracking(raw))
        server.kill()
        thread.join(WAIT_SECONDS)
        assert isinstance(results.pop(), redis_errors.ConnectionError)
    finally:
        server.stop()


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_without_tracking_the_queue_is_polled_with_back_off(private_server, raw, producer, mode):
    raw.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", "-client|tracking")
    url = f"redis://poor:x@127.0.0.1:{private_server.port}/0"
    before = script_calls(raw)[0]
    timer = threading.Timer(2, lambda: node_send(raw, "m"))
    timer.start()
    if mode == "sync":
        with RSMQ.from_url(url) as consumer:
            message = consumer.receive_message("q", wait=20)
    else:

        async def main():
            async with AsyncRSMQ.from_url(url) as consumer:
                return await consumer.receive_message("q", wait=20)

        message = asyncio.run(main())
    timer.join()

    assert message.body == "m"
    assert 5 < script_calls(raw)[0] - before < 25
    assert raw.info("clients")["tracking_clients"] == 0


def test_a_user_without_access_to_the_index_is_notified_of_messages(private_server, raw, producer):
    raw.execute_command(
        "ACL", "SETUSER", "narrow", "on", "nopass", "~rsmq:q", "~rsmq:q:Q", "+@all"
    )  # fmt: skip
    with RSMQ.from_url(f"redis://narrow:x@127.0.0.1:{private_server.port}/0") as consumer:
        threads, results = in_threads(1, lambda: consumer.receive_message("q", wait=20))
        until(lambda: is_tracking(raw))
        time.sleep(0.1)
        before = script_calls(raw)[0]
        time.sleep(0.5)
        assert script_calls(raw)[0] == before
        node_send(raw, "m")
        threads[0].join(WITHIN_SECONDS)
    assert results[0].body == "m"


@pytest.mark.parametrize("options", [{"protocol": 2, "decode_responses": True}, {"protocol": 3}])
def test_a_wrapped_client_waits_like_one_with_its_own_connections(
    private_server, raw, producer, options
):
    with redis.Redis(port=private_server.port, **options) as inner, RSMQ(inner) as consumer:
        threads, results = in_threads(3, lambda: consumer.pop_message("q", wait=20))
        until(lambda: is_tracking(raw))
        for _ in range(3):
            node_send(raw, "m")
        for thread in threads:
            thread.join(WITHIN_SECONDS)
    assert len(results) == 3
    until(lambda: raw.info("clients")["tracking_clients"] == 0)


def test_a_child_process_waits_independently(private_server, raw, producer):
    with RSMQ.from_url(private_server.url) as consumer:
        assert consumer.receive_message("q", wait=0.1) is None
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                message = consumer.receive_message("q", wait=20)
                os.write(writer, message.body.encode())
                status = 0
            finally:
                os._exit(status)
        until(lambda: raw.info("clients")["tracking_clients"] == 2)
        time.sleep(0.1)
        node_send(raw, "for the child")
        assert os.read(reader, 100) == b"for the child"
        os.waitpid(child, 0)
        timer = threading.Timer(0.1, lambda: node_send(raw, "for the parent"))
        timer.start()
        assert consumer.receive_message("q", wait=20).body == "for the parent"
        timer.join()


def test_a_slow_network_loses_no_message(private_server, raw, producer):
    proxy = Proxy(private_server.port)
    try:
        proxy.delay, proxy.pieces = 0.01, True
        with RSMQ.from_url(proxy.url) as consumer:
            threads, results = in_threads(3, lambda: consumer.receive_message("q", wait=20))
            until(lambda: is_tracking(raw))
            ids = {node_send(raw, str(number)) for number in range(3)}
            for thread in threads:
                thread.join(WITHIN_SECONDS)
        assert {message.id for message in results} == ids
    finally:
        proxy.close()


def test_a_flushed_database_is_a_deleted_queue(private_server, raw, producer):
    with RSMQ.from_url(private_server.url) as consumer:
        errors = []

        def consume():
            try:
                consumer.receive_message("q", wait=20)
            except QueueNotFound as error:
                errors.append(error)

        threads, _ = in_threads(2, consume)
        until(lambda: is_tracking(raw))
        raw.flushdb()
        for thread in threads:
            thread.join(WITHIN_SECONDS)
    assert len(errors) == 2


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_a_silent_tracking_connection_is_replaced(private_server, raw, producer, mode, monkeypatch):
    for module in (rsmq.waiting.tracking, rsmq.waiting.threads):
        monkeypatch.setattr(module, "REPLY_TIMEOUT_SECONDS", 0.3)
    for module in (rsmq.waiting.tracking, rsmq.waiting.schedule):
        monkeypatch.setattr(module, "SAFETY_SECONDS", 0.5)
    proxy = Proxy(private_server.port)
    try:
        received = []

        def consume():
            if mode == "sync":
                with RSMQ.from_url(proxy.url) as consumer:
                    received.append(consumer.receive_message("q", wait=20))
                    received.append(consumer.receive_message("q", wait=20))
            else:

                async def main():
                    async with AsyncRSMQ.from_url(proxy.url) as consumer:
                        received.append(await consumer.receive_message("q", wait=20))
                        received.append(await consumer.receive_message("q", wait=20))

                asyncio.run(main())

        thread = threading.Thread(target=consume)
        thread.start()
        until(lambda: is_tracking(raw))
        first = raw.client_list(_type="normal")
        tracking = next(client["id"] for client in first if "t" in client["flags"])
        proxy.mute(next(c["addr"] for c in first if "t" in c["flags"]))
        producer.send_message("q", "1")
        until(lambda: len(received) == 1)
        until(lambda: any("t" in c["flags"] and c["id"] != tracking for c in raw.client_list()))
        producer.send_message("q", "2")
        thread.join(WITHIN_SECONDS)
        assert [message.body for message in received] == ["1", "2"]
    finally:
        proxy.close()


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_waiters_poll_while_the_watcher_connects(private_server, raw, producer, mode, monkeypatch):
    is_over = threading.Event()

    def connect_slowly(self):
        is_over.wait(WAIT_SECONDS)
        raise redis_errors.ConnectionError

    async def connect_slowly_async(self):
        while not is_over.is_set():
            await asyncio.sleep(0.01)
        raise redis_errors.ConnectionError

    monkeypatch.setattr(rsmq.waiting.threads.Watcher, "_tracking_connection", connect_slowly)
    monkeypatch.setattr(
        rsmq.waiting.asyncio_.AsyncWatcher, "_tracking_connection", connect_slowly_async
    )
    timer = threading.Timer(0.3, lambda: node_send(raw, "m"))
    timer.start()
    began = time.monotonic()
    if mode == "sync":
        with RSMQ.from_url(private_server.url) as consumer:
            assert consumer.receive_message("q", wait=20).body == "m"
            seconds = time.monotonic() - began
            is_over.set()
    else:

        async def main():
            async with AsyncRSMQ.from_url(private_server.url) as consumer:
                assert (await consumer.receive_message("q", wait=20)).body == "m"
                seconds = time.monotonic() - began
                is_over.set()
                return seconds

        seconds = asyncio.run(main())
    # At the end of its 20 seconds the call would find the message too.
    assert seconds < WITHIN_SECONDS
    timer.join()


def test_a_watcher_whose_thread_could_not_start_starts_at_the_next_wait(
    private_server, raw, producer, monkeypatch
):
    with RSMQ.from_url(private_server.url) as consumer:
        with monkeypatch.context() as broken:

            def start(self):
                raise RuntimeError("can't start new thread")

            broken.setattr(threading.Thread, "start", start)
            with pytest.raises(RuntimeError):
                consumer.receive_message("q", wait=1)
        timer = threading.Timer(0.1, lambda: node_send(raw, "m"))
        timer.start()
        assert consumer.receive_message("q", wait=20).body == "m"
        timer.join()


@pytest.mark.parametrize("name", ["_work", "_read", "_work _read"])
def test_a_program_that_cancels_all_other_tasks_delays_no_waiting_receive(
    private_server, raw, producer, name
):
    async def main():
        async with AsyncRSMQ.from_url(private_server.url) as consumer:
            received = asyncio.ensure_future(consumer.receive_message("q", wait=None))
            while not is_tracking(raw):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # the waiter has read the queue
            for task in asyncio.all_tasks():
                if task.get_coro().__name__ in name.split():
                    task.cancel()
            await asyncio.sleep(0.1)
            node_send(raw, "m")
            async with asyncio.timeout(WITHIN_SECONDS):
                assert (await received).body == "m"
            node_send(raw, "next")
            async with asyncio.timeout(WITHIN_SECONDS):
                assert (await consumer.receive_message("q", wait=None)).body == "next"

    asyncio.run(main())
    assert raw.zcard("rsmq:q") == 2


async def test_a_watcher_that_is_cancelled_before_its_first_step_delays_no_waiting_receive(
    private_server, raw, producer
):
    async with AsyncRSMQ.from_url(private_server.url) as consumer:
        received = asyncio.ensure_future(consumer.receive_message("q", wait=None))
        while not (watcher := next(iter(consumer._watchers._watchers.values()), None)) or (
            watcher._worker is None
        ):
            await asyncio.sleep(0)
        watcher._worker.cancel()
        while watcher._worker is not None:
            await asyncio.sleep(0)
        node_send(raw, "m")
        async with asyncio.timeout(WITHIN_SECONDS):
            assert (await received).body == "m"


def test_a_cancelled_attempt_to_track_is_made_again(private_server, raw, producer, monkeypatch):
    hung = []
    connect = rsmq.waiting.asyncio_.AsyncWatcher._tracking_connection

    async def hang_once(self):
        if not hung:
            hung.append(asyncio.current_task())
            await asyncio.sleep(3600)
        return await connect(self)

    monkeypatch.setattr(rsmq.waiting.asyncio_.AsyncWatcher, "_tracking_connection", hang_once)
    monkeypatch.setattr(rsmq.waiting.asyncio_, "CONNECT_TIMEOUT_SECONDS", 3600)

    async def main():
        async with AsyncRSMQ.from_url(private_server.url) as consumer:
            received = asyncio.ensure_future(consumer.receive_message("q", wait=None))
            while not hung:  # a task that is cancelled before it runs would not hang
                await asyncio.sleep(0.01)
            hung[0].cancel()
            async with asyncio.timeout(WITHIN_SECONDS):
                while not is_tracking(raw):
                    await asyncio.sleep(0.01)
            node_send(raw, "m")
            assert (await received).body == "m"

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_a_watcher_that_fails_ends_its_waits_with_an_error_and_the_next_wait_starts_it_again(
    private_server, raw, producer, mode, monkeypatch
):
    def wait(times):
        if mode == "sync":
            with RSMQ.from_url(private_server.url) as consumer:
                for _ in range(times):
                    yield lambda: consumer.receive_message("q", wait=None)
        else:
            with asyncio.Runner() as runner:
                consumer = AsyncRSMQ.from_url(private_server.url)
                for _ in range(times):
                    yield lambda: runner.run(consumer.receive_message("q", wait=None))
                runner.run(consumer.close())

    def fail(self, now):
        raise MemoryError

    outcomes = []

    def consume():
        for receive in wait(2):
            with monkeypatch.context() as broken:
                if not outcomes:
                    broken.setattr(rsmq.waiting.watcher_state.WatcherState, "next_step", fail)
                try:
                    outcomes.append(receive().body)
                except RuntimeError as error:
                    outcomes.append(str(error))

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    until(lambda: len(outcomes) == 1)
    until(lambda: is_tracking(raw))
    node_send(raw, "m")
    thread.join(WITHIN_SECONDS)
    assert outcomes == ["Waiting for messages has failed: MemoryError: ", "m"]


def test_a_wait_polls_if_no_thread_can_be_started_to_connect(
    private_server, raw, producer, monkeypatch
):
    start = threading.Thread.start
    refused = []

    def refuse(self):
        if self.name.startswith("rsmq-connect"):
            refused.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with RSMQ.from_url(private_server.url) as consumer:
        for body in ("1", "2"):
            threads, results = in_threads(1, lambda: consumer.receive_message("q", wait=None))
            until(lambda: refused)
            node_send(raw, body)
            threads[0].join(WITHIN_SECONDS)
            assert [message.body for message in results] == [body]
    assert len(refused) == 1, "the next attempt follows after a minute"


def test_creating_queues_wakes_no_waiter_of_others(private_server, raw, producer):
    names = [f"w{n}" for n in range(50)]
    for name in names:
        producer.create_queue(name)
    with RSMQ.from_url(private_server.url) as consumer:
        threads, results = in_threads(1, lambda: consumer.receive_messages(names, 1, wait=20))
        until(lambda: is_tracking(raw))
        time.sleep(0.2)
        before = script_calls(raw)
        producer.create_queue("another")
        time.sleep(0.3)
        after = script_calls(raw)
        # The creation itself is a script. It wakes no waiter of other queues.
        assert (after[0] - before[0], after[1] - before[1]) in ((1, 0), (0, 1))
        node_send(raw, "m", "w30")
        threads[0].join(WITHIN_SECONDS)
    assert results[0][0].queue == "w30"


def command_calls(raw, *names):
    stats = raw.info("commandstats")
    return [stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names]


def scripts_run(raw):
    """Return the number of scripts that ran, without the calls that failed with NOSCRIPT."""
    stats = raw.info("commandstats")
    kinds = [stats[f"cmdstat_{name}"] for name in ("eval", "evalsha") if f"cmdstat_{name}" in stats]
    return sum(kind["calls"] - kind["failed_calls"] for kind in kinds)


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_waiting_for_many_queues_reads_each_once_in_steps(private_server, raw, producer, mode):
    number = 3000
    names = [f"m{n}" for n in range(number)]
    for name in names:
        producer.create_queue(name)
    received = []

    def consume():
        if mode == "sync":
            with RSMQ.from_url(private_server.url) as consumer:
                received.extend(consumer.receive_messages(names, 1, wait=50))
        else:

            async def main():
                async with AsyncRSMQ.from_url(private_server.url) as consumer:
                    received.extend(await consumer.receive_messages(names, 1, wait=50))

            asyncio.run(main())

    raw.config_resetstat()
    thread = threading.Thread(target=consume)
    thread.start()
    until(lambda: raw.info("stats")["tracking_total_keys"] == number + 1, 20)
    until(lambda: command_calls(raw, "sismember") == [number], 20)
    time.sleep(0.3)
    # A receive runs two scripts for each thousand queues. The waiter repeats it while the tracking
    # connection opens, which may take long. After that each queue is read once, outside of scripts.
    receives, rest = divmod(scripts_run(raw), 6)
    assert rest == 0
    assert command_calls(raw, "zrangebyscore") == [(receives + 1) * number]

    before = command_calls(raw, "zrangebyscore", "evalsha", "eval")
    for n in range(3):
        producer.create_queue(f"another{n}")
    time.sleep(0.5)
    after = command_calls(raw, "zrangebyscore", "evalsha", "eval")
    assert after[0] == before[0], "creating a queue must not make waiters read the others"
    assert sum(after[1:]) - sum(before[1:]) <= 4, "only the creations may run scripts"
    assert command_calls(raw, "sismember")[0] <= 4 * number

    node_send(raw, "m", "m2999")
    thread.join(WITHIN_SECONDS)
    assert [message.queue for message in received] == ["m2999"]


def test_a_repeated_wait_reads_no_queue_again(private_server, raw, producer):
    names = [f"m{n}" for n in range(20)]
    for name in names:
        producer.create_queue(name)
    with RSMQ.from_url(private_server.url) as consumer:
        assert consumer.receive_messages(names, 1, wait=0.3) == []
        assert is_tracking(raw)
        before = command_calls(raw, "zrangebyscore", "time", "sismember")
        assert consumer.receive_messages(names, 1, wait=0.2) == []
        after = command_calls(raw, "zrangebyscore", "time", "sismember")
        assert [late - early for early, late in zip(before, after, strict=True)] == [20, 1, 0]
        timer = threading.Timer(0.1, lambda: node_send(raw, "m", "m7"))
        timer.start()
        assert [m.queue for m in consumer.receive_messages(names, 1, wait=20)] == ["m7"]
        timer.join()


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_a_repeated_wait_does_not_miss_a_message_that_becomes_due(
    private_server, raw, producer, mode
):
    """The server sends no notification then: the watcher must wake the waiter in time by itself."""
    producer.send_message("q", "later", delay=1.5)

    async def main():
        async with AsyncRSMQ.from_url(private_server.url) as consumer:
            assert await consumer.receive_message("q", wait=0.3) is None
            return await consumer.receive_message("q", wait=20), time.monotonic()

    began = time.monotonic()
    if mode == "sync":
        with RSMQ.from_url(private_server.url) as consumer:
            assert consumer.receive_message("q", wait=0.3) is None
            message, ended = consumer.receive_message("q", wait=20), time.monotonic()
    else:
        message, ended = asyncio.run(main())

    assert message.body == "later"
    # The time is what the test is about. At the end of its wait the call would find it too.
    assert ended - began < WITHIN_SECONDS
