"""
Sixteen senders with the same unique keys, of both clients, while Node and PHP receive and delete.

A body is ``KEY SENDER NUMBER``.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from compat.peers import Node, Php
from rsmq import RSMQ, AsyncRSMQ
from tests.scale import scaled

SENDERS = 16
SENDS = scaled(40, 2000)
KEYS = ("a", "b", "c")


class Record:
    """
    The messages that consumers have received and not deleted, and all that were sent and deleted.

    Attributes:
        faults: a text for each message that was received while another one with its key was.
    """

    def __init__(self, *, is_exclusive):
        self._lock = threading.Lock()
        self._is_exclusive = is_exclusive
        self._held = {}
        self.sent, self.deleted, self.faults = set(), {}, []
        self.has_ended = False

    def add_sent(self, ids):
        with self._lock:
            self.sent.update(ids)

    def add_received(self, key, id):
        with self._lock:
            if self._is_exclusive and key in self._held:
                self.faults.append(f"{key}: {self._held[key]} is in the queue, and {id} too")
            self._held[key] = id

    def add_deleted(self, key, id, body):
        """Record that a consumer is about to delete a message: then its key may be used again."""
        with self._lock:
            self._held.pop(key, None)
            self.deleted[id] = body


def labels_of(number, sender):
    """Return the keys of a send; every third one is a batch."""
    keys = [KEYS[(number + sender) % 3], KEYS[number % 3]]
    return keys if number % 3 == 0 else keys[:1]


def bodies_of(labels, sender, number):
    return [f"{key} {sender} {number}.{at}" for at, key in enumerate(labels)]


def send_from_threads(url, ns, record, senders, *, replace):
    with RSMQ.from_url(url, ns=ns) as rsmq, ThreadPoolExecutor(len(senders)) as threads:

        def run(sender):
            for number in range(SENDS):
                labels = labels_of(number, sender)
                bodies = bodies_of(labels, sender, number)
                if len(labels) == 1:
                    options = {"unique_key": labels[0], "replace": replace}
                    record.add_sent([rsmq.send_message("q", bodies[0], **options)])
                else:
                    options = {"unique_keys": labels, "replace": replace}
                    record.add_sent(rsmq.send_messages("q", bodies, **options))

        for future in [threads.submit(run, sender) for sender in senders]:
            future.result()


async def send_from_tasks(url, ns, record, senders, *, replace):
    async with AsyncRSMQ.from_url(url, ns=ns) as rsmq:

        async def run(sender):
            for number in range(SENDS):
                labels = labels_of(number, sender)
                bodies = bodies_of(labels, sender, number)
                options = {"unique_keys": labels, "replace": replace}
                record.add_sent(await rsmq.send_messages("q", bodies, **options))

        async with asyncio.TaskGroup() as group:
            for sender in senders:
                group.create_task(run(sender))


def consume(client, record):
    """Receive and delete until the senders have ended and the queue is empty."""
    while True:
        has_ended = record.has_ended
        message = client.receive_message("q", vt=1000)
        if message is None:
            if has_ended:
                return
            continue
        key, id = message["message"].partition(" ")[0], message["id"]
        record.add_received(key, id)
        record.add_deleted(key, id, message["message"])
        assert client.delete_message("q", id)


def check_waiting(keys, record):
    """Check that each key has at most one message that was never received."""
    while not record.has_ended:
        with keys.raw.pipeline(transaction=True) as pipeline:
            fields = pipeline.hgetall(f"{keys.ns}:q:Q").execute()[0]
        waiting = Counter(
            body.partition(b" ")[0]
            for id, body in fields.items()
            if len(id) == 32 and id + b":rc" not in fields
        )
        record.faults += [f"{key} waits {n} times" for key, n in waiting.items() if n > 1]


@pytest.mark.parametrize("replace", [False, True])
def test_each_key_is_in_the_queue_once_while_others_delete(server, ns, keys, replace):
    consumers = [kind(server, ns) for kind in (Node, Node, Php)]
    consumers[0].create_queue("q")
    record = Record(is_exclusive=not replace)
    with ThreadPoolExecutor(8) as threads:
        consuming = [threads.submit(consume, client, record) for client in consumers]
        checking = threads.submit(check_waiting, keys, record)
        sending = [
            threads.submit(
                send_from_threads, server.url, ns, record, range(8), replace=replace
            ),
            threads.submit(
                lambda: asyncio.run(
                    send_from_tasks(server.url, ns, record, range(8, SENDERS), replace=replace)
                )
            ),
        ]  # fmt: skip
        try:
            for future in sending:
                future.result()
        finally:
            record.has_ended = True
        for future in [*consuming, checking]:
            future.result()
    attributes = consumers[0].get_queue_attributes("q")
    for client in consumers:
        client.close()

    assert record.faults == []
    assert record.deleted.keys() == record.sent
    assert attributes["totalsent"] == len(record.sent)
    assert attributes["totalrecv"] == len(record.sent)
    assert len(record.sent) < SENDERS * SENDS
    assert keys.scores("q") == {}
    stored = keys.raw.hgetall(f"{ns}:q:x:unique")
    assert {key.decode() for key in stored} <= set(KEYS)
    assert {id.decode() for id in stored.values()} <= record.sent
    if replace:
        # The last send of a key is the last one of some sender, and its body is the last handled.
        for key, id in stored.items():
            text = key.decode()
            last = {
                bodies_of(labels_of(number, sender), sender, number)[at]
                for sender in range(SENDERS)
                for number, at in [last_use(text, sender)]
            }
            assert record.deleted[id.decode()] in last


def last_use(key, sender):
    """Return the number of the last send of a sender with a key, and its last place there."""
    return max(
        (number, at)
        for number in range(SENDS)
        for at, label in enumerate(labels_of(number, sender))
        if label == key
    )
