"""Examination and repair while other clients use the queues: their calls are no faults."""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest

from rsmq import RSMQ
from rsmq.doctor import examine, repair
from rsmq.doctor.catalogue import _SERVER
from rsmq.wire.ids import make_id_suffix
from tests.scale import WAIT_SECONDS, scaled


class Traffic:
    """Threads that repeat a function until ``stop``, which fails if one has raised an error."""

    def __init__(self):
        self._stop = threading.Event()
        self._threads = []
        self._errors = []
        self._calls = Counter()

    def start(self, work):
        def run():
            try:
                while not self._stop.is_set():
                    work()
                    self._calls[threading.current_thread()] += 1
            except BaseException as error:  # noqa: BLE001 - raised by stop
                self._errors.append(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def wait_for_calls(self):
        """Wait until all calls that run now have ended."""
        before = self._calls.copy()
        for thread in self._threads:
            while self._calls[thread] == before[thread] and thread.is_alive():
                time.sleep(0.001)

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        assert self._errors == []


@pytest.fixture
def traffic(clients):
    traffic = Traffic()
    yield traffic
    traffic.stop()


@pytest.fixture
def clients(server, ns):
    """The operations of different clients."""
    clients = Clients(server, ns)
    yield clients
    clients.ours.close()
    clients.raw.close()


class Clients:
    """Operations as different clients run them: one operation in each call."""

    def __init__(self, server, ns):
        self.raw, self.ns = server.raw(), ns
        self.zset, self.hash = f"{ns}:q", f"{ns}:q:Q"
        self.ours = RSMQ.from_url(server.url, ns=ns)
        self.ours.create_queue("q")
        self._number = 0

    def make_id(self):
        """Return an id as Node makes it, and its score."""
        seconds, microseconds = self.raw.time()
        us, digits = seconds * 1_000_000 + microseconds, ""
        while us:
            us, digit = divmod(us, 36)
            digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
        return digits + make_id_suffix().decode(), seconds * 1000 + microseconds // 1000

    def run_if_short(self, send):
        """Send, unless the queue is long: it would grow, and each examination would take longer."""
        if self.raw.zcard(self.zset) < 2000:
            send()

    def send(self):
        self.ours.send_messages("q", ["m"] * 5)

    def receive(self):
        for message in self.ours.receive_messages("q", 5, vt=30):
            if message.receive_count % 2:
                self.ours.change_message_visibility(message, 0)
            else:
                self.ours.delete_message(message)

    def send_as_node(self):
        id, score = self.make_id()
        with self.raw.pipeline() as commands:
            commands.zadd(self.zset, {id: score}).hset(self.hash, id, "m")
            commands.hincrby(self.hash, "totalsent", 1).execute()

    def send_the_id_first(self):
        """Without MULTI, as ebuckley/rsmq does."""
        id, score = self.make_id()
        self.raw.zadd(self.zset, {id: score})
        self.raw.hset(self.hash, id, "m")

    def send_the_body_first(self):
        id, score = self.make_id()
        self.raw.hset(self.hash, id, "m")
        self.raw.zadd(self.zset, {id: score})

    def create_and_delete_queue_as_node(self):
        self._number += 1
        name = f"node{self._number}"
        fields = {"vt": 30, "delay": 0, "maxsize": 65536, "created": 1795264741,
                  "modified": 1795264741}  # fmt: skip
        with self.raw.pipeline() as commands:
            for field, value in fields.items():
                commands.hsetnx(f"{self.ns}:{name}:Q", field, value)
            commands.execute()
        self.raw.sadd(f"{self.ns}:QUEUES", name)
        with self.raw.pipeline() as commands:
            commands.delete(f"{self.ns}:{name}:Q", f"{self.ns}:{name}")
            commands.srem(f"{self.ns}:QUEUES", name).execute()


OPERATIONS = [
    "send", "receive", "send_as_node", "send_the_id_first", "send_the_body_first",
    "create_and_delete_queue_as_node",
]  # fmt: skip


def test_calls_in_progress_are_not_reported(monkeypatch, traffic, clients):
    """On a busy machine, a call may last longer than the pause before the second check."""
    clock = SimpleNamespace(sleep=lambda _: traffic.wait_for_calls())
    monkeypatch.setattr("rsmq.doctor.examination.time", clock)
    for name in OPERATIONS:
        work = getattr(clients, name)
        traffic.start(partial(clients.run_if_short, work) if name.startswith("send") else work)
    for _ in range(scaled(6, 200)):
        findings = examine(clients.ours).findings
        assert [each for each in findings if each.code not in _SERVER] == []


def test_repairs_during_traffic_lose_no_message(traffic, clients):
    """Faults between messages are removed, and every sent message is received."""
    sent, received = [], []

    def send():
        sent.extend(clients.ours.send_messages("q", ["m"] * 5))

    def receive():
        messages = clients.ours.receive_messages("q", 3, vt=30)
        received.extend(clients.ours.delete_messages(messages))

    for work in (send, receive):
        traffic.start(work)
    for number in range(scaled(4, 100)):
        ghosts = {f"hod98j94h7{number:02}{each:020}": each for each in range(300)}
        clients.raw.zadd(clients.zset, ghosts)
        counters = {f"hod98j94h8{number:02}{each:020}:rc": 1 for each in range(300)}
        clients.raw.hset(clients.hash, mapping=counters)
        findings = [each for each in examine(clients.ours).findings if each.code not in _SERVER]
        assert {each.code for each in findings} <= {"ghost", "left-over-counter"}
        repair(clients.ours, findings)
    traffic.stop()
    while messages := clients.ours.receive_messages("q", 1000):
        received.extend(clients.ours.delete_messages(messages))

    assert sorted(received) == sorted(sent)
    assert clients.raw.zcard(clients.zset) == 0
    fields = {name.decode() for name in clients.raw.hkeys(clients.hash)}
    assert fields == {"vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv"}
