"""Two migrations at once that are killed repeatedly, while producers and consumers work."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import redis

from rsmq import RSMQ
from rsmq.migrate.sources.rfq import make_uuid
from tests.migrate.stored import read_bodies
from tests.scale import SOAK, WAIT_SECONDS, scaled
from tests.workers.polling import wait_until

ROOT = Path(__file__).parents[2]


#: How often both migrations are killed.
KILLS = scaled(2, 20)

#: Takes a message as Rqueue's listeners do: from the list to the set of those in flight.
_RQUEUE_TAKE = """
local message = redis.call('LPOP', KEYS[1])
if message then redis.call('ZADD', KEYS[2], ARGV[1], message) end
return message
"""


class Traffic:
    """
    A producer and a consumer of one system, in threads.

    Attributes:
        kind: the system.
        queue: the name of its queue.
        produced: the numbers that were sent.
        handled: the numbers that the consumer has handled and deleted.
    """

    def __init__(self, kind, ns, raw, url):
        self.kind = kind
        self.queue = f"{ns}-work" if kind == "list" else ns
        self.produced = []
        self.handled = []
        self._raw = raw
        self._rsmq = RSMQ.from_url(url, ns=f"{ns}-old") if kind == "rsmq" else None
        if self._rsmq:
            self._rsmq.create_queue(ns, vt=600)
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop, args=(self._produce, 0.001)),
            threading.Thread(target=self._loop, args=(self._consume, 0.004)),
        ]
        for _ in range(500):
            self._produce()
        for thread in self._threads:
            thread.start()

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        if self._rsmq:
            self._rsmq.close()

    def _loop(self, step, seconds):
        while not self._over.is_set():
            step()
            time.sleep(seconds)

    def _produce(self):
        number = len(self.produced)
        getattr(self, f"_send_{self.kind}")(number)
        self.produced.append(number)

    def _consume(self):
        number = getattr(self, f"_handle_{self.kind}")()
        if number is not None:
            self.handled.append(number)

    def _send_list(self, number):
        self._raw.lpush(self.queue, number)

    def _handle_list(self):
        element = self._raw.rpoplpush(self.queue, f"{self.queue}-w1")
        if element is not None:
            self._raw.lrem(f"{self.queue}-w1", -1, element)
            return int(element)
        return None

    def _send_rfq(self, number):
        id = make_uuid(time.time_ns() // 1000).hex
        with self._raw.pipeline() as pipeline:
            pipeline.hset(f"rfq:{self.queue}:message:{id}", "n", number)
            pipeline.lpush(f"rfq:{self.queue}:backlog", id)
            pipeline.execute()

    def _handle_rfq(self):
        prefix = f"rfq:{self.queue}"
        id = self._raw.rpoplpush(f"{prefix}:backlog", f"{prefix}:nextlog")
        if id is None:
            return None
        number = int(self._raw.hget(f"{prefix}:message:{id.decode()}", "n"))
        with self._raw.pipeline() as pipeline:
            pipeline.lrem(f"{prefix}:nextlog", 0, id)
            pipeline.unlink(f"{prefix}:message:{id.decode()}")
            pipeline.execute()
        return number

    def _send_rsmq(self, number):
        self._rsmq.send_message(self.queue, str(number))

    def _handle_rsmq(self):
        message = self._rsmq.receive_message(self.queue)
        if message is None:
            return None
        self._rsmq.delete_message(message)
        return int(message.body)

    def _send_rqueue(self, number):
        message = {
            "id": f"id {number}", "queueName": self.queue, "message": f"{number}",
            "processAt": time.time_ns() // 1_000_000,
        }  # fmt: skip
        self._raw.rpush(f"__rq::queue::{{{self.queue}}}", json.dumps(message))

    def _handle_rqueue(self):
        keys = [f"__rq::{each}::{{{self.queue}}}" for each in ("queue", "p-queue")]
        message = self._raw.eval(_RQUEUE_TAKE, 2, *keys, time.time_ns() // 1_000_000 + 900_000)
        if message is None:
            return None
        self._raw.zrem(keys[1], message)
        return int(json.loads(message)["message"])

    def _send_redisrq(self, number):
        self._raw.execute_command("RQ.PUSH", self.queue, number)

    def _handle_redisrq(self):
        popped = self._raw.execute_command("RQ.POP", self.queue)
        if not popped:
            return None
        ((_, id, body),) = popped
        self._raw.execute_command("RQ.ACK", self.queue, id)
        return int(body)


def number_of(body):
    return int(json.loads(body)["n"]) if body.startswith(b"{") else int(body)


class Consumer:
    """A thread that empties the target queue, and records the numbers."""

    def __init__(self, rsmq):
        self.numbers = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(rsmq,))
        self._thread.start()

    def _work(self, rsmq):
        while not self._over.is_set():
            messages = rsmq.receive_messages(["to"], 50, vt=600, wait=0.05)
            self.numbers += [number_of(each.raw) for each in messages]
            if messages:
                rsmq.delete_messages(messages)

    def end(self):
        self._over.set()
        self._thread.join(WAIT_SECONDS)


def _ways():
    """Return each kind of source with each way of migration that it has."""
    for kind in ("list", "rfq", "rqueue", "rsmq", "redisrq"):
        yield kind, "--move", True
        if SOAK and kind != "redisrq":
            yield kind, "--move", False
        if SOAK and kind != "list":  # a list is copied only while it does not change
            yield kind, "--copy", False
            yield kind, "--copy", True


@pytest.mark.parametrize(("kind", "way", "is_remote"), list(_ways()))
def test_two_killed_migrations_at_once_lose_and_double_nothing(
    server, other_server, redisrq, raw, ns, monkeypatch, kind, way, is_remote
):
    monkeypatch.setenv("RSMQ_CONFIG", "/dev/null")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    target_server = other_server if is_remote else server
    source_url = redisrq.url if kind == "redisrq" else server.url
    source_raw = raw
    if kind == "redisrq":
        source_raw = redis.Redis(port=redisrq.port, protocol=2)
    command = ["migrate", "--from", f"{kind}:{ns}" + "-work" * (kind == "list"), "--to", "to", way]
    command += ["--from-url", source_url, "--url", target_server.url, "--ns", ns]
    if kind == "rsmq":
        command += ["--from-ns", f"{ns}-old"]
    chance = random.Random(f"{kind} {way} {is_remote}")

    def start(*options):
        program = "import sys, rsmq.cli; sys.exit(rsmq.cli.main())"
        return subprocess.Popen(
            [sys.executable, "-c", program, *command, *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    traffic = Traffic(kind, ns, source_raw, server.url)
    with RSMQ.from_url(target_server.url, ns=ns) as target, target_server.raw() as target_raw:
        target.create_queue("to")
        consumer = Consumer(target)
        try:
            for _ in range(KILLS):
                running = [start(), start()]
                threshold = len(consumer.numbers) + chance.randrange(1, 300)
                wait_until(lambda running=running, threshold=threshold: (
                    all(each.poll() is not None for each in running)
                    or len(consumer.numbers) >= threshold
                ))  # fmt: skip
                for process in running:
                    process.kill()
                for process in running:
                    process.communicate()
            traffic.end()
            options = ["--in-flight"] if way == "--move" else []
            _, errors = start(*options).communicate()
            wait_until(lambda: not target_raw.zcard(f"{ns}:to"))
        finally:
            traffic.end()
            consumer.end()
        assert read_bodies(target_raw, ns, "to") == []

    assert set(traffic.produced) == {*traffic.handled, *consumer.numbers}, errors
    assert consumer.numbers
    assert [each for each, times in Counter(consumer.numbers).items() if times > 1] == []
    if way == "--move":
        doubled = set(consumer.numbers) & set(traffic.handled)
        assert doubled == set(), errors
    if kind == "redisrq":
        source_raw.close()
    else:
        raw.unlink(*(raw.keys(f"*{ns}*") or ["none"]))
