"""
Two Node, two PHP and two of our consumers on one queue.

The account of who holds what is kept here, by the clock of this machine, which is the server's.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from compat.peers import Node, Ours, Php
from tests.scale import scaled

MESSAGES = scaled(10_000, 100_000)
VT = 2  # seconds
#: The wire cuts the clock to milliseconds, so that a visibility timeout may end this much early.
CUT = 0.001


class Account:
    """Who received what when, and what is done."""

    def __init__(self):
        self._lock = threading.Lock()
        self._held_until = {}
        self.done = set()
        self.receives = 0
        self.by = {}
        self.faults = []

    def received(self, consumer, message, asked):
        """``asked``: when the receive was sent; the server hid the message then or later."""
        now = time.monotonic()
        with self._lock:
            id = message["id"]
            self.receives += 1
            self.by[consumer] = self.by.get(consumer, 0) + 1
            early = self._held_until.get(id, 0) - now
            if early > CUT:
                self.faults.append(f"{id}: received by {consumer} {early} s before its time")
            if id in self.done:
                self.faults.append(f"{id}: received by {consumer} after it was deleted")
            self._held_until[id] = asked + VT

    def finish(self, id):
        with self._lock:
            self.done.add(id)


def consume(name, client, account, seed, deadline):
    """Until all is done; one message in twenty is left to come back."""
    draw = random.Random(seed)
    while len(account.done) < MESSAGES and not account.faults:
        assert time.monotonic() < deadline, "it takes too long"
        asked = time.monotonic()
        message = client.receive_message("q", vt=VT)
        if message is None:
            time.sleep(0.02)
            continue
        account.received(name, message, asked)
        if draw.random() < 0.05 or time.monotonic() > asked + VT / 2:
            continue
        if client.delete_message("q", message["id"]):
            account.finish(message["id"])
        elif time.monotonic() < asked + VT:  # later, another consumer may have received it
            account.faults.append(f"{message['id']}: {name} could not delete what it held")


@pytest.mark.timeout(1800)
def test_six_consumers_of_three_languages_share_a_queue(server, ns, keys):
    kinds = [Node, Node, Php, Php, Ours, Ours]
    clients = [kind(server, ns) for kind in kinds]
    names = [f"{kind.name} {number}" for number, kind in enumerate(kinds)]
    account = Account()
    clients[0].create_queue("q")
    sent = set()
    for number in range(MESSAGES):
        sent.add(clients[number % len(clients)].send_message("q", str(number)))
    # Only so that a fault ends the test before pytest does; 50 messages each second are usual.
    deadline = time.monotonic() + scaled(900, 1700)
    with ThreadPoolExecutor(len(clients)) as threads:
        running = [
            threads.submit(consume, name, client, account, seed, deadline)
            for seed, (name, client) in enumerate(zip(names, clients, strict=True))
        ]
    for ended in running:
        ended.result()
    read = clients[-1].get_queue_attributes("q")
    for client in clients:
        client.close()

    assert account.faults == []
    assert account.done == sent
    assert sorted(account.by) == sorted(names)
    assert min(account.by.values()) > MESSAGES / 60
    assert (read["totalsent"], read["totalrecv"]) == (MESSAGES, account.receives)
    assert account.receives > MESSAGES
    assert keys.scores("q") == {}
    assert sorted(keys.fields("q")) == [
        b"created", b"delay", b"maxsize", b"modified", b"totalrecv", b"totalsent", b"vt",
    ]  # fmt: skip
