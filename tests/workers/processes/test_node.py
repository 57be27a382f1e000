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
from rsmq.worker import Defer
from tests.scale import WAIT_SECONDS, scaled
from tests.workers.processes.conftest import assert_nothing_left, wait_until

pytestmark = pytest.mark.foreign

VT = 120
MESSAGES = scaled(1500, 30_000)


@pytest.fixture
def start_node(server, ns):
    """Return a function that starts Node clients."""
    started = []

    def start():
        started.append(Node(server, ns))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_workers_and_a_node_consumer_share_a_queue(ns, rsmq, raw, create_worker, start_node):
    rsmq.create_queue("q")
    handled = Counter()
    by_consumer = Counter()
    counts = set()
    lock = threading.Lock()

    def record(consumer_name, n, count):
        with lock:
            handled[n] += 1
            by_consumer[consumer_name] += 1
            counts.add(count)

    def handle(body, message):
        record("threads", body["n"], message.receive_count)
        time.sleep(0.002)

    async def handle_async(body, message):
        record("tasks", body["n"], message.receive_count)
        await asyncio.sleep(0.002)

    threads, tasks = (
        create_worker(name="threads", concurrency=2),
        create_worker(name="tasks", concurrency=2),
    )
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
            record("node", json.loads(message["message"])["n"], message["rc"])
            assert consumer.delete_message("q", message["id"]) is True

    programs = [
        threading.Thread(target=target, args=(start_node(),)) for target in (produce, consume)
    ]
    for each in (threads, tasks, *programs):
        each.start()
    try:
        wait_until(lambda: sum(handled.values()) >= MESSAGES, scaled(60, 3000))
        wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    finally:
        over.set()
        for program in programs:
            program.join()
    threads.stop()
    tasks.stop()
    print(dict(by_consumer))

    assert handled == dict.fromkeys(range(MESSAGES), 1)
    assert set(by_consumer) == {"threads", "tasks", "node"}
    assert counts == {1}
    attributes = start_node().get_queue_attributes("q")
    assert (attributes["totalsent"], attributes["totalrecv"]) == (MESSAGES, MESSAGES)
    assert (attributes["msgs"], attributes["hiddenmsgs"]) == (0, 0)
    assert threads.numbers.handled + tasks.numbers.handled + by_consumer["node"] == MESSAGES
    assert_nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_receives_by_node_count_as_attempts(ns, rsmq, raw, create_worker, start_node, is_async):
    consumer = start_node()
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

    one = create_worker()
    one.listener("q", codec=JSON, max_retries=3, backoff=0, dead_letter_queue="dead")(
        handle_async if is_async else handle
    )
    one.start()
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop()

    assert attempts == [3, 4]
    # Node can receive the dead letter, with its counters.
    dead = consumer.receive_message("dead")
    assert (dead["id"], dead["rc"]) == (id, 5)
    assert_nothing_left(raw, ns, "q")


def test_node_can_receive_a_retried_message(ns, rsmq, raw, create_worker, start_node):
    """The attempts of the worker count for Node, and the attempt of Node counts for the worker."""
    consumer = start_node()
    consumer.create_queue("q")
    paused = threading.Event()
    attempts = []
    one = create_worker()

    @one.listener("q", vt=VT, codec=JSON, backoff=0.2)
    def handle(body, message):
        attempts.append(message.attempt)
        if message.attempt < 4:
            paused.set()
            raise ValueError("again")

    one.start()
    consumer.send_message("q", json.dumps({"n": 0}))
    paused.wait(WAIT_SECONDS)
    rsmq.pause_queue("q")  # so that only Node receives
    message = wait_until(lambda: consumer.receive_message("q", vt=0))
    assert message["rc"] == len(attempts) + 1
    rsmq.resume_queue("q")
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop()

    assert attempts == [n for n in range(1, attempts[-1] + 1) if n != message["rc"]]
    assert_nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_delete_by_node_is_a_lost_lease_for_the_worker(
    ns, rsmq, raw, create_worker, start_node, is_async
):
    """
    Node deletes whatever the receive count is; the handler learns of it at the next heartbeat.
    """
    consumer = start_node()
    consumer.create_queue("q")
    id = consumer.send_message("q", "{}")
    begun, learned = threading.Event(), threading.Event()

    def handle(body, message):
        begun.set()
        wait_until(lambda: message.lease_lost)
        learned.set()

    async def handle_async(body, message):
        begun.set()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            learned.set()
            raise

    one = create_worker()
    one.listener("q", vt=0.6, codec=JSON)(handle_async if is_async else handle)
    one.start()
    assert begun.wait(WAIT_SECONDS)
    assert consumer.delete_message("q", id) is True

    assert learned.wait(WAIT_SECONDS)
    one.stop()
    assert one.numbers.lost == 1
    assert one.numbers.handled == 0
    assert_nothing_left(raw, ns, "q")


def test_node_sends_to_several_handlers_and_may_delete_between_their_attempts(
    ns, rsmq, raw, create_worker, start_node
):
    node = start_node()
    node.create_queue("q")
    calls = []
    worker = create_worker(name="group")
    group = worker.handlers("q", vt=VT, codec=JSON, backoff=0, retry_forever=True)

    @group.handler()
    def first(body):
        calls.append(("first", body["n"]))

    @group.handler()
    def second(body, message):
        calls.append(("second", body["n"]))
        if message.attempt == 1:
            raise ValueError("again")

    @group.handler()
    def third(body):
        if body["n"] == 9:
            raise Defer("for Node", after=600)
        calls.append(("third", body["n"]))

    ids = [node.send_message("q", json.dumps({"n": n})) for n in range(10)]
    worker.start()
    wait_until(lambda: raw.zcard(f"{ns}:q") == 1 and worker.numbers.deferred == 1)
    worker.stop()
    assert raw.hget(f"{ns}:q:x:finished", ids[9]) == b"first,second"
    assert node.change_message_visibility("q", ids[9], 0) is True
    assert node.receive_message("q", vt=VT)["id"] == ids[9]
    assert node.delete_message("q", ids[9]) is True

    assert Counter(calls) == {("first", n): 1 for n in range(10)} | {
        ("second", n): 2 for n in range(10)
    } | {("third", n): 1 for n in range(9)}
    assert set(raw.hkeys(f"{ns}:q:x:finished")) <= {b"", b":", ids[9].encode()}
    assert_nothing_left(raw, ns, "q")
