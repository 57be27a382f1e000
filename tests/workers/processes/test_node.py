"""Workers and Node on one queue: each message is handled once, receive counts are shared."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter

import pytest

from compat.peers import Node
from rsmq import JSON
from tests.scale import scaled
from tests.workers.processes.conftest import nothing_left, until

pytestmark = pytest.mark.timeout(scaled(120, 3600))

VT = 120
MESSAGES = scaled(1500, 30_000)


@pytest.fixture
def node(server, ns):
    """Starts Node clients."""
    started = []

    def start():
        started.append(Node(server, ns))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_two_workers_and_a_node_consumer_share_a_queue(ns, rsmq, raw, worker, node):
    rsmq.create_queue("q")
    handled = Counter()
    by = Counter()
    counts = set()
    lock = threading.Lock()

    def note(who, n, count):
        with lock:
            handled[n] += 1
            by[who] += 1
            counts.add(count)

    def handle(body, message):
        note("threads", body["n"], message.receive_count)
        time.sleep(0.002)

    async def handle_async(body, message):
        note("tasks", body["n"], message.receive_count)
        await asyncio.sleep(0.002)

    threads, tasks = worker(name="threads", concurrency=2), worker(name="tasks", concurrency=2)
    threads.listener("q", vt=VT, codec=JSON)(handle)
    tasks.listener("q", vt=VT, codec=JSON)(handle_async)
    over = threading.Event()

    def produce(producer):
        for n in range(MESSAGES):
            producer.send_message("q", json.dumps({"n": n}))

    def consume(consumer):
        while not over.is_set():
            message = consumer.receive_message("q", vt=VT)
            if message is None:
                time.sleep(0.005)
                continue
            note("node", json.loads(message["message"])["n"], message["rc"])
            assert consumer.delete_message("q", message["id"]) is True

    programs = [threading.Thread(target=target, args=(node(),)) for target in (produce, consume)]
    for each in (threads, tasks, *programs):
        each.start()
    try:
        until(lambda: sum(handled.values()) >= MESSAGES, scaled(60, 3000))
        until(lambda: raw.zcard(f"{ns}:q") == 0)
    finally:
        over.set()
        for program in programs:
            program.join()
    threads.stop()
    tasks.stop()
    print(dict(by))

    assert handled == dict.fromkeys(range(MESSAGES), 1)
    assert set(by) == {"threads", "tasks", "node"}
    assert counts == {1}
    attributes = node().get_queue_attributes("q")
    assert (attributes["totalsent"], attributes["totalrecv"]) == (MESSAGES, MESSAGES)
    assert (attributes["msgs"], attributes["hiddenmsgs"]) == (0, 0)
    assert threads.numbers.handled + tasks.numbers.handled + by["node"] == MESSAGES
    nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_what_node_received_and_left_counts_as_attempts(ns, rsmq, raw, worker, node, is_async):
    consumer = node()
    for queue in ("q", "dead"):
        consumer.create_queue(queue)
    id = consumer.send_message("q", json.dumps({"n": 0}))
    for attempt in (1, 2):
        assert consumer.receive_message("q", vt=0)["rc"] == attempt
    attempts = []

    def handle(body, message):
        attempts.append(message.attempt)
        raise ValueError("never")

    async def handle_async(body, message):
        handle(body, message)

    one = worker()
    one.listener("q", codec=JSON, max_retries=3, backoff=0, dead_letter_queue="dead")(
        handle_async if is_async else handle
    )
    one.start()
    until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop()

    assert attempts == [3, 4]
    # The dead letter is one that Node can receive, with its counters.
    dead = consumer.receive_message("dead")
    assert (dead["id"], dead["rc"]) == (id, 5)
    nothing_left(raw, ns, "q")


def test_what_a_worker_retries_node_may_receive(ns, rsmq, raw, worker, node):
    """The attempts that a worker made count for Node, and for the worker the one that Node made."""
    consumer = node()
    consumer.create_queue("q")
    paused = threading.Event()
    attempts = []
    one = worker()

    @one.listener("q", vt=VT, codec=JSON, backoff=0.2)
    def handle(body, message):
        attempts.append(message.attempt)
        if message.attempt < 4:
            paused.set()
            raise ValueError("again")

    one.start()
    consumer.send_message("q", json.dumps({"n": 0}))
    paused.wait(10)
    rsmq.pause_queue("q")  # the worker leaves it to Node
    message = until(lambda: consumer.receive_message("q", vt=0))
    assert message["rc"] == len(attempts) + 1
    rsmq.resume_queue("q")
    until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop()

    assert attempts == [n for n in range(1, attempts[-1] + 1) if n != message["rc"]]
    nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_what_node_deletes_is_lost_to_the_worker(ns, rsmq, raw, worker, node, is_async):
    """Node's delete asks nobody who holds the message; its handler learns it with the next beat."""
    consumer = node()
    consumer.create_queue("q")
    id = consumer.send_message("q", "{}")
    begun, learned = threading.Event(), threading.Event()

    def handle(body, message):
        begun.set()
        until(lambda: message.lease_lost)
        learned.set()

    async def handle_async(body, message):
        begun.set()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            learned.set()
            raise

    one = worker()
    one.listener("q", vt=0.6, codec=JSON)(handle_async if is_async else handle)
    one.start()
    assert begun.wait(10)
    assert consumer.delete_message("q", id) is True

    assert learned.wait(10)
    one.stop()
    assert one.numbers.lost == 1
    assert one.numbers.handled == 0
    nothing_left(raw, ns, "q")
