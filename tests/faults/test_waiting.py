"""What waiting costs, what ends it, and what it leaves behind."""

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
import rsmq.waiting.aio
import rsmq.waiting.schedule
import rsmq.waiting.sync
import rsmq.waiting.tracking
from rsmq import RSMQ, AsyncRSMQ, ClientClosed, Message, QueueNotFound
from tests.bytecodes import signal_at
from tests.proxy import Proxy
from tests.servers import Server, redis_7

_numbers = itertools.count()

#: The longest time between an event and the end of the wait. Generous, because machines are busy;
#: but less than SAFETY_SECONDS (15), after which a waiter receives without any event.
WITHIN_SECONDS = 12


@pytest.fixture
def alone():
    """A server that no other test uses."""
    server = Server(redis_7())
    yield server
    server.stop()


@pytest.fixture
def raw(alone):
    with alone.raw() as raw:
        yield raw


@pytest.fixture
def producer(alone):
    with RSMQ.from_url(alone.url) as producer:
        producer.create_queue("q", vt=1000)
        yield producer


def until(true, seconds=WITHIN_SECONDS):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def waiting(raw):
    """Whether a connection tracks keys, which have been read."""
    return raw.info("clients")["tracking_clients"] and raw.info("stats")["tracking_total_keys"]


def node_send(raw, body, queue="q"):
    """As npm rsmq sends it, without realtime."""
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


def calls(raw):
    """Scripts by their being known (receives) or sent as text (readings of the watcher)."""
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


def test_a_thousand_threads_cost_one_connection_more_and_all_get_theirs(alone, raw, producer):
    with RSMQ.from_url(alone.url) as consumer:
        threads, results = in_threads(1000, lambda: consumer.receive_message("q", wait=60))
        until(lambda: waiting(raw) and calls(raw)[0] >= 1000, 30)
        until(lambda: raw.info("clients")["connected_clients"] <= 12, 30)
        ids = set()
        for start in range(0, 1000, 100):
            ids |= set(producer.send_messages("q", [str(n) for n in range(start, start + 100)]))
        for thread in threads:
            thread.join(30)

    assert {message.id for message in results} == ids
    until(lambda: raw.info("clients")["connected_clients"] <= 2)


def test_a_thousand_tasks_cost_one_connection_more_and_all_get_theirs(alone, raw, producer):
    async def main():
        async with AsyncRSMQ.from_url(alone.url) as consumer:
            tasks = [
                asyncio.ensure_future(consumer.receive_message("q", wait=60)) for _ in range(1000)
            ]
            while not waiting(raw):
                await asyncio.sleep(0.01)
            assert raw.info("clients")["connected_clients"] == 4
            ids = producer.send_messages("q", [str(n) for n in range(1000)])
            messages = await asyncio.gather(*tasks)
            assert {message.id for message in messages} == set(ids)

    asyncio.run(main())
    assert raw.info("clients")["connected_clients"] == 2


def test_while_nobody_sends_redis_hears_nothing(alone, raw, producer):
    with RSMQ.from_url(alone.url) as consumer:
        threads, results = in_threads(20, lambda: consumer.pop_message("q", wait=30))
        until(lambda: waiting(raw))
        time.sleep(0.3)
        before = calls(raw)
        time.sleep(2)
        assert calls(raw) == before
        for _ in range(20):
            node_send(raw, "m")
        for thread in threads:
            thread.join(WITHIN_SECONDS)
    assert len(results) == 20


@pytest.mark.parametrize("waiters", [1, 50])
def test_how_many_receives_a_message_costs(alone, raw, producer, waiters):
    received = []

    def consume(consumer):
        while message := consumer.receive_message("q", wait=1):
            received.append(message)

    with RSMQ.from_url(alone.url) as consumer:
        threads, _ = in_threads(waiters, lambda: consume(consumer))
        until(lambda: waiting(raw))
        time.sleep(0.2)
        before = calls(raw)[0]
        for number in range(100):
            node_send(raw, str(number))
            until(lambda number=number: len(received) == number + 1)
            time.sleep(0.005)
        cost = (calls(raw)[0] - before) / 100
        for thread in threads:
            thread.join(WITHIN_SECONDS)

    assert cost <= (2 if waiters == 1 else 5)


def test_fairness_every_waiter_gets_messages(alone, raw, producer):
    counts = [0] * 5
    stop = threading.Event()

    def consume(index, consumer):
        while not stop.is_set():
            if consumer.pop_message("q", wait=0.2):
                counts[index] += 1

    with RSMQ.from_url(alone.url) as consumer:
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


def test_an_id_whose_body_is_still_to_come_is_no_reason_to_spin(alone, raw, producer):
    now = raw.time()[0] * 1000
    raw.zadd("rsmq:q", {"g" * 32: now})
    with RSMQ.from_url(alone.url) as consumer:
        threads, results = in_threads(3, lambda: consumer.receive_message("q", wait=3))
        time.sleep(0.3)
        before = calls(raw)[0]
        time.sleep(1.5)
        assert calls(raw)[0] - before <= 6
        node_send(raw, "m")
        until(lambda: len(results) == 1)
        for thread in threads:
            thread.join(WITHIN_SECONDS)
    assert [m.body for m in results if m] == ["m"]


@pytest.mark.parametrize("call", ["receive_message", "pop_message"])
def test_close_from_another_thread_ends_the_wait_with_an_error(alone, raw, producer, call):
    consumer = RSMQ.from_url(alone.url)
    errors = []

    def consume():
        try:
            getattr(consumer, call)("q", wait=None)
        except ClientClosed as error:
            errors.append(error)

    threads, _ = in_threads(5, consume)
    until(lambda: waiting(raw))
    consumer.close()
    for thread in threads:
        thread.join(30)

    assert len(errors) == 5
    until(lambda: raw.info("clients")["connected_clients"] <= 2)
    until(lambda: "rsmq-watcher" not in {thread.name for thread in threading.enumerate()})
    producer.send_message("q", "m")
    assert producer.get_queue_attributes("q").visible_messages == 1


def test_a_receive_that_found_nothing_when_the_client_was_closed_does_not_wait(
    alone, raw, producer
):
    consumer = RSMQ.from_url(alone.url)
    run = consumer.run

    def run_and_close(operation):
        found = run(operation)
        consumer.close()
        return found

    consumer.run = run_and_close
    with pytest.raises(ClientClosed):
        consumer.receive_message("q", wait=None)

    async def main():
        consumer = AsyncRSMQ.from_url(alone.url)
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


def test_closing_an_asyncio_client_ends_its_waits_with_an_error(alone, raw, producer):
    async def main():
        consumer = AsyncRSMQ.from_url(alone.url)
        tasks = [asyncio.ensure_future(consumer.receive_message("q", wait=None)) for _ in range(5)]
        while not waiting(raw):
            await asyncio.sleep(0.01)
        await consumer.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(error) for error in asyncio.run(main())] == [ClientClosed] * 5
    until(lambda: raw.info("clients")["connected_clients"] <= 2)


def test_a_client_forgotten_or_ended_with_its_loop_leaves_no_connection(alone, raw, producer):
    async def main():
        consumer = AsyncRSMQ.from_url(alone.url)
        assert await consumer.receive_message("q", wait=0.2) is None
        assert waiting(raw)
        await consumer.close()

    asyncio.run(main())
    asyncio.run(main())
    until(lambda: raw.info("clients")["connected_clients"] <= 2)


def test_a_cancelled_wait_leaves_nothing_hidden_and_the_others_waiting(alone, raw, producer):
    async def main():
        async with AsyncRSMQ.from_url(alone.url) as consumer:
            tasks = [
                asyncio.ensure_future(consumer.receive_message("q", wait=2)) for _ in range(10)
            ]
            while not waiting(raw):
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

    asyncio.run(main())


def test_random_cancellations_of_waits(alone, raw, producer):
    async def main():
        received = 0
        async with AsyncRSMQ.from_url(alone.url) as consumer:
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


def test_ctrl_c_ends_a_wait_and_leaves_nothing_hidden(alone, raw, producer):
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
    own = "receive_message" not in names  # it came later, with the message in hand
    print(own or client.get_queue_attributes("q").hidden_messages)
"""
    for number in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", program, alone.url], stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert process.stdout.readline() == "waiting\n"
        until(lambda: waiting(raw))
        node_send(raw, "m")
        time.sleep(0.0005 * number)
        process.send_signal(signal.SIGINT)
        try:
            said = process.communicate(timeout=30)[0]
        finally:
            process.kill()
            process.wait()
        assert said in ("0\n", "True\n")
        producer.purge_queue("q")


def test_ctrl_c_at_any_step_of_a_wait_blocks_nobody(alone, raw, producer):
    def interrupt():
        node_send(raw, "m")
        time.sleep(0.002)  # in which the watcher wakes whoever waits
        raise KeyboardInterrupt

    files = rsmq.waiting.sync.__file__, rsmq.transport.signals.__file__, threading.__file__
    with RSMQ.from_url(alone.url) as consumer:
        for number in itertools.count(1):
            with (
                suppress(KeyboardInterrupt),
                signal_at(number, *files, handler=interrupt) as came,
            ):
                consumer.receive_message("q", wait=0.01)
            if not came:
                break
            threads, received = in_threads(1, lambda: consumer.receive_message("q", wait=5))
            threads[0].join(WITHIN_SECONDS)
            assert [message.body for message in received] == ["m"], number
            producer.purge_queue("q")
    assert number > 50


def test_a_deleted_queue_is_reported_to_all_who_wait_for_it(alone, raw, producer):
    producer.create_queue("other")
    with RSMQ.from_url(alone.url) as consumer:
        errors = []

        def consume():
            try:
                consumer.receive_messages(["other", "q"], 1, wait=20)
            except QueueNotFound as error:
                errors.append(error.value)

        threads, _ = in_threads(5, consume)
        until(lambda: waiting(raw))
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


@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_a_lost_connection_is_made_again_and_no_message_is_missed(alone, raw, producer, face):
    def send():
        until(lambda: waiting(raw))
        kill_tracking(raw)
        producer.send_message("q", "in the gap")
        until(lambda: waiting(raw))
        kill_tracking(raw)
        until(lambda: waiting(raw))
        producer.send_message("q", "after it")

    thread = threading.Thread(target=send)
    thread.start()
    if face == "sync":
        with RSMQ.from_url(alone.url) as consumer:
            bodies = [consumer.receive_message("q", wait=20).body for _ in range(2)]
    else:

        async def main():
            async with AsyncRSMQ.from_url(alone.url) as consumer:
                return [(await consumer.receive_message("q", wait=20)).body for _ in range(2)]

        bodies = asyncio.run(main())
    thread.join()
    assert bodies == ["in the gap", "after it"]


@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_a_server_that_goes_away_is_reported_and_one_that_comes_back_is_not(face):
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    try:
        with RSMQ.from_url(server.url) as producer:
            producer.create_queue("q")
        results = []

        def consume(wait, deadline):
            try:
                if face == "sync":
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
            until(lambda: waiting(raw))
        server.kill()
        time.sleep(0.5)
        server.start()
        with server.raw() as raw:
            node_send(raw, "m")
        thread.join(20)
        assert results.pop().body == "m"

        thread = threading.Thread(target=consume, args=(30, 0.5))
        thread.start()
        with server.raw() as raw:
            until(lambda: waiting(raw))
        server.kill()
        thread.join(30)
        assert isinstance(results.pop(), redis_errors.ConnectionError)
    finally:
        server.stop()


@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_where_tracking_is_not_to_be_had_it_is_polled_ever_less(alone, raw, producer, face):
    raw.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", "-client|tracking")
    url = f"redis://poor:x@127.0.0.1:{alone.port}/0"
    before = calls(raw)[0]
    timer = threading.Timer(2, lambda: node_send(raw, "m"))
    timer.start()
    if face == "sync":
        with RSMQ.from_url(url) as consumer:
            message = consumer.receive_message("q", wait=20)
    else:

        async def main():
            async with AsyncRSMQ.from_url(url) as consumer:
                return await consumer.receive_message("q", wait=20)

        message = asyncio.run(main())
    timer.join()

    assert message.body == "m"
    assert 5 < calls(raw)[0] - before < 25
    assert raw.info("clients")["tracking_clients"] == 0


def test_a_user_who_may_not_read_the_names_of_queues_is_still_told_of_messages(
    alone, raw, producer
):
    raw.execute_command(
        "ACL", "SETUSER", "narrow", "on", "nopass", "~rsmq:q", "~rsmq:q:Q", "+@all"
    )  # fmt: skip
    with RSMQ.from_url(f"redis://narrow:x@127.0.0.1:{alone.port}/0") as consumer:
        threads, results = in_threads(1, lambda: consumer.receive_message("q", wait=20))
        until(lambda: waiting(raw))
        time.sleep(0.1)
        before = calls(raw)[0]
        time.sleep(0.5)
        assert calls(raw)[0] == before
        node_send(raw, "m")
        threads[0].join(WITHIN_SECONDS)
    assert results[0].body == "m"


@pytest.mark.parametrize("options", [{"protocol": 2, "decode_responses": True}, {"protocol": 3}])
def test_a_client_that_was_handed_in_waits_like_one_of_our_own(alone, raw, producer, options):
    with redis.Redis(port=alone.port, **options) as given, RSMQ(given) as consumer:
        threads, results = in_threads(3, lambda: consumer.pop_message("q", wait=20))
        until(lambda: waiting(raw))
        for _ in range(3):
            node_send(raw, "m")
        for thread in threads:
            thread.join(WITHIN_SECONDS)
    assert len(results) == 3
    until(lambda: raw.info("clients")["tracking_clients"] == 0)


def test_a_child_process_waits_for_itself(alone, raw, producer):
    with RSMQ.from_url(alone.url) as consumer:
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


def test_a_slow_network_delays_and_loses_nothing(alone, raw, producer):
    proxy = Proxy(alone.port)
    try:
        proxy.delay, proxy.pieces = 0.01, True
        with RSMQ.from_url(proxy.url) as consumer:
            threads, results = in_threads(3, lambda: consumer.receive_message("q", wait=20))
            until(lambda: waiting(raw))
            ids = {node_send(raw, str(number)) for number in range(3)}
            for thread in threads:
                thread.join(WITHIN_SECONDS)
        assert {message.id for message in results} == ids
    finally:
        proxy.close()


def test_a_flushed_database_is_a_deleted_queue(alone, raw, producer):
    with RSMQ.from_url(alone.url) as consumer:
        errors = []

        def consume():
            try:
                consumer.receive_message("q", wait=20)
            except QueueNotFound as error:
                errors.append(error)

        threads, _ = in_threads(2, consume)
        until(lambda: waiting(raw))
        raw.flushdb()
        for thread in threads:
            thread.join(WITHIN_SECONDS)
    assert len(errors) == 2


@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_a_connection_that_says_nothing_more_is_given_up(alone, raw, producer, face, monkeypatch):
    for module in (rsmq.waiting.tracking, rsmq.waiting.sync):
        monkeypatch.setattr(module, "REPLY_TIMEOUT_SECONDS", 0.3)
    for module in (rsmq.waiting.tracking, rsmq.waiting.schedule):
        monkeypatch.setattr(module, "SAFETY_SECONDS", 0.5)
    proxy = Proxy(alone.port)
    try:
        received = []

        def consume():
            if face == "sync":
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
        until(lambda: waiting(raw))
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


@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_while_the_watcher_cannot_connect_somebody_looks(alone, raw, producer, face, monkeypatch):
    is_over = threading.Event()

    def slow(self):
        is_over.wait(50)
        raise redis_errors.ConnectionError

    async def slow_too(self):
        while not is_over.is_set():
            await asyncio.sleep(0.01)
        raise redis_errors.ConnectionError

    monkeypatch.setattr(rsmq.waiting.sync.Watcher, "_tracking_connection", slow)
    monkeypatch.setattr(rsmq.waiting.aio.AsyncWatcher, "_tracking_connection", slow_too)
    timer = threading.Timer(0.3, lambda: node_send(raw, "m"))
    timer.start()
    began = time.monotonic()
    if face == "sync":
        with RSMQ.from_url(alone.url) as consumer:
            assert consumer.receive_message("q", wait=20).body == "m"
            seconds = time.monotonic() - began
            is_over.set()
    else:

        async def main():
            async with AsyncRSMQ.from_url(alone.url) as consumer:
                assert (await consumer.receive_message("q", wait=20)).body == "m"
                seconds = time.monotonic() - began
                is_over.set()
                return seconds

        seconds = asyncio.run(main())
    # At the end of its 20 seconds the call would find the message too.
    assert seconds < WITHIN_SECONDS
    timer.join()


def test_a_watcher_whose_thread_cannot_start_does_better_the_next_time(
    alone, raw, producer, monkeypatch
):
    with RSMQ.from_url(alone.url) as consumer:
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


def test_queues_that_come_and_go_cost_no_look(alone, raw, producer):
    names = [f"w{n}" for n in range(50)]
    for name in names:
        producer.create_queue(name)
    with RSMQ.from_url(alone.url) as consumer:
        threads, results = in_threads(1, lambda: consumer.receive_messages(names, 1, wait=20))
        until(lambda: waiting(raw))
        time.sleep(0.2)
        before = calls(raw)
        producer.create_queue("another")
        time.sleep(0.3)
        after = calls(raw)
        # The creation itself is a script; nobody looks into the queues for it.
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


@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_waiting_for_many_queues_reads_each_once_and_blocks_nobody(alone, raw, producer, face):
    number = 3000
    names = [f"m{n}" for n in range(number)]
    for name in names:
        producer.create_queue(name)
    received = []

    def consume():
        if face == "sync":
            with RSMQ.from_url(alone.url) as consumer:
                received.extend(consumer.receive_messages(names, 1, wait=50))
        else:

            async def main():
                async with AsyncRSMQ.from_url(alone.url) as consumer:
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
    assert after[0] == before[0], "queues that come and go make nobody read the others"
    assert sum(after[1:]) - sum(before[1:]) <= 4, "nobody looks: these are the creations"
    assert command_calls(raw, "sismember")[0] <= 4 * number

    node_send(raw, "m", "m2999")
    thread.join(WITHIN_SECONDS)
    assert [message.queue for message in received] == ["m2999"]


def test_a_waiter_who_comes_back_reads_nothing_anew(alone, raw, producer):
    names = [f"m{n}" for n in range(20)]
    for name in names:
        producer.create_queue(name)
    with RSMQ.from_url(alone.url) as consumer:
        assert consumer.receive_messages(names, 1, wait=0.3) == []
        assert waiting(raw)
        before = command_calls(raw, "zrangebyscore", "time", "sismember")
        assert consumer.receive_messages(names, 1, wait=0.2) == []
        after = command_calls(raw, "zrangebyscore", "time", "sismember")
        assert [late - early for early, late in zip(before, after, strict=True)] == [20, 1, 0]
        timer = threading.Timer(0.1, lambda: node_send(raw, "m", "m7"))
        timer.start()
        assert [m.queue for m in consumer.receive_messages(names, 1, wait=20)] == ["m7"]
        timer.join()


@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_a_message_that_becomes_due_is_not_missed_by_who_comes_back(alone, raw, producer, face):
    """Nothing is read for it, and no news comes: the thread must wake in time by itself."""
    producer.send_message("q", "later", delay=1.5)

    async def main():
        async with AsyncRSMQ.from_url(alone.url) as consumer:
            assert await consumer.receive_message("q", wait=0.3) is None
            return await consumer.receive_message("q", wait=20), time.monotonic()

    began = time.monotonic()
    if face == "sync":
        with RSMQ.from_url(alone.url) as consumer:
            assert consumer.receive_message("q", wait=0.3) is None
            message, ended = consumer.receive_message("q", wait=20), time.monotonic()
    else:
        message, ended = asyncio.run(main())

    assert message.body == "later"
    # The time is what the test is about. At the end of its wait the call would find it too.
    assert ended - began < WITHIN_SECONDS
