"""
Two Node, two PHP and two of our consumers on one queue.

The test tracks all leases itself, with the clock of this machine, on which the server runs too.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from compat.peers import Node, Ours, Php
from tests.scale import scaled

MESSAGES = scaled(4_000, 100_000)
VT_SECONDS = 2
#: The protocol truncates times to milliseconds: a visibility timeout may end this much early.
ROUNDING_SECONDS = 0.001


class LeaseRecord:
    """A record of leases, receives and deleted messages."""

    def __init__(self):
        self._lock = threading.Lock()
        self._held_until = {}
        self.deleted = set()
        self.receives = 0
        self.receives_by_consumer = {}
        self.faults = []

    def received(self, consumer, message, requested_at):
        """Record a receive; the server hid the message at ``requested_at`` or later."""
        now = time.monotonic()
        with self._lock:
            id = message["id"]
            self.receives += 1
            self.receives_by_consumer[consumer] = self.receives_by_consumer.get(consumer, 0) + 1
            early_seconds = self._held_until.get(id, 0) - now
            if early_seconds > ROUNDING_SECONDS:
                self.faults.append(
                    f"{id}: received by {consumer} {early_seconds} s before its time"
                )
            if id in self.deleted:
                self.faults.append(f"{id}: received by {consumer} after it was deleted")
            self._held_until[id] = requested_at + VT_SECONDS

    def finish(self, id):
        with self._lock:
            self.deleted.add(id)


def consume(name, client, record, seed, deadline):
    """Consume until all messages are deleted; leave one in twenty to its visibility timeout."""
    random_source = random.Random(seed)
    while len(record.deleted) < MESSAGES and not record.faults:
        assert time.monotonic() < deadline, "it takes too long"
        requested_at = time.monotonic()
        message = client.receive_message("q", vt=VT_SECONDS)
        if message is None:
            time.sleep(0.02)
            continue
        record.received(name, message, requested_at)
        if random_source.random() < 0.05 or time.monotonic() > requested_at + VT_SECONDS / 2:
            continue
        if client.delete_message("q", message["id"]):
            record.finish(message["id"])
        elif (
            time.monotonic() < requested_at + VT_SECONDS
        ):  # later, another consumer may have received it
            record.faults.append(f"{message['id']}: {name} could not delete what it held")


def test_six_consumers_of_three_languages_share_a_queue(server, ns, keys):
    kinds = [Node, Node, Php, Php, Ours, Ours]
    clients = [kind(server, ns) for kind in kinds]
    names = [f"{kind.name} {number}" for number, kind in enumerate(kinds)]
    record = LeaseRecord()
    clients[0].create_queue("q")
    sent = set()
    for number in range(MESSAGES):
        sent.add(clients[number % len(clients)].send_message("q", str(number)))
    # Only so that a fault ends the test before pytest does; 50 messages each second are usual.
    deadline = time.monotonic() + scaled(900, 1700)
    with ThreadPoolExecutor(len(clients)) as threads:
        futures = [
            threads.submit(consume, name, client, record, seed, deadline)
            for seed, (name, client) in enumerate(zip(names, clients, strict=True))
        ]
    for future in futures:
        future.result()
    attributes = clients[-1].get_queue_attributes("q")
    for client in clients:
        client.close()

    assert record.faults == []
    assert record.deleted == sent
    assert sorted(record.receives_by_consumer) == sorted(names)
    assert min(record.receives_by_consumer.values()) > MESSAGES / 60
    assert (attributes["totalsent"], attributes["totalrecv"]) == (MESSAGES, record.receives)
    assert record.receives > MESSAGES
    assert keys.scores("q") == {}
    assert sorted(keys.fields("q")) == [
        b"created", b"delay", b"maxsize", b"modified", b"totalrecv", b"totalsent", b"vt",
    ]  # fmt: skip
