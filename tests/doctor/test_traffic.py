"""Programs at work while the doctor looks: none of their half-done calls is taken for a fault."""

from __future__ import annotations

import threading

import pytest

from rsmq import RSMQ
from rsmq.doctor import examine, repair
from rsmq.doctor.catalogue import _SERVER
from rsmq.wire.ids import make_id_suffix
from tests.scale import scaled


class Traffic:
    """Threads that go on until they are stopped; what they raise comes out at the end."""

    def __init__(self):
        self._stop = threading.Event()
        self._threads = []
        self._errors = []

    def start(self, work):
        def run():
            try:
                while not self._stop.is_set():
                    work()
            except BaseException as error:  # noqa: BLE001 - raised by stop
                self._errors.append(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
        assert self._errors == []


@pytest.fixture
def traffic(place):
    traffic = Traffic()
    yield traffic
    traffic.stop()


@pytest.fixture
def place(server, ns):
    """Senders and receivers of every manner, as functions that do one thing once."""
    place = Place(server, ns)
    yield place
    place.ours.close()
    place.raw.close()


class Place:
    def __init__(self, server, ns):
        self.raw, self.ns = server.raw(), ns
        self.zset, self.hash = f"{ns}:q", f"{ns}:q:Q"
        self.ours = RSMQ.from_url(server.url, ns=ns)
        self.ours.create_queue("q")
        self._number = 0

    def id(self, raw):
        """An id as Node makes it, and the score."""
        seconds, microseconds = raw.time()
        us, digits = seconds * 1_000_000 + microseconds, ""
        while us:
            us, digit = divmod(us, 36)
            digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
        return digits + make_id_suffix().decode(), seconds * 1000 + microseconds // 1000

    def send(self):
        self.ours.send_messages("q", ["m"] * 5)

    def receive(self):
        for message in self.ours.receive_messages("q", 5, vt=30):
            if message.receive_count % 2:
                self.ours.change_message_visibility(message, 0)
            else:
                self.ours.delete_message(message)

    def send_as_node(self):
        id, score = self.id(self.raw)
        with self.raw.pipeline() as commands:
            commands.zadd(self.zset, {id: score}).hset(self.hash, id, "m")
            commands.hincrby(self.hash, "totalsent", 1).execute()

    def send_the_id_first(self):
        """Without MULTI, as ebuckley/rsmq does."""
        id, score = self.id(self.raw)
        self.raw.zadd(self.zset, {id: score})
        self.raw.hset(self.hash, id, "m")

    def send_the_body_first(self):
        id, score = self.id(self.raw)
        self.raw.hset(self.hash, id, "m")
        self.raw.zadd(self.zset, {id: score})

    def make_and_delete_a_queue_as_node(self):
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


ALL = [
    "send", "receive", "send_as_node", "send_the_id_first", "send_the_body_first",
    "make_and_delete_a_queue_as_node",
]  # fmt: skip


def test_programs_at_work_are_no_faults(traffic, place):
    for name in ALL:
        traffic.start(getattr(place, name))
    for _ in range(scaled(6, 200)):
        found = examine(place.ours).findings
        assert [each for each in found if each.code not in _SERVER] == []


def test_repairs_beside_programs_at_work_take_no_message(traffic, place):
    """Faults among live messages: those go, and all that was sent is received."""
    sent, received = [], []

    def send():
        sent.extend(place.ours.send_messages("q", ["m"] * 5))

    def receive():
        messages = place.ours.receive_messages("q", 3, vt=30)
        received.extend(place.ours.delete_messages(messages))

    for work in (send, receive):
        traffic.start(work)
    for number in range(scaled(4, 100)):
        ghosts = {f"hod98j94h7{number:02}{each:020}": each for each in range(300)}
        place.raw.zadd(place.zset, ghosts)
        left = {f"hod98j94h8{number:02}{each:020}:rc": 1 for each in range(300)}
        place.raw.hset(place.hash, mapping=left)
        found = [each for each in examine(place.ours).findings if each.code not in _SERVER]
        assert {each.code for each in found} <= {"ghost", "left-over-counter"}
        repair(place.ours, found)
    traffic.stop()
    while messages := place.ours.receive_messages("q", 1000):
        received.extend(place.ours.delete_messages(messages))

    assert sorted(received) == sorted(sent)
    assert place.raw.zcard(place.zset) == 0
    left = {name.decode() for name in place.raw.hkeys(place.hash)}
    assert left == {"vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv"}
