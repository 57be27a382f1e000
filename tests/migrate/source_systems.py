"""The systems to migrate from, filled with a few messages each."""

from __future__ import annotations

import json

from rsmq.migrate import RFQ, Lists, Queues, RedisRQ, Rqueue
from rsmq.migrate.sources.rfq import make_uuid
from tests.migrate.keyed_server import Server
from tests.migrate.rqueue_states import fill_queue


class SourceSystems:
    """
    The systems to migrate from. Each method fills a namespace and returns the expected bodies.
    """

    def __init__(self, raw, ns, create_rqueue):
        self.raw = raw
        self.ns = ns
        self.create_rqueue = create_rqueue

    def fill(self, kind):
        """Fill the system of this kind."""
        return getattr(self, kind)()

    def rfq(self):
        for number in range(5):
            id = make_uuid(1_700_000_000_000_000 + number).hex
            self.raw.hset(f"rfq:{self.ns}:message:{id}", "n", number)
            self.raw.lpush(f"rfq:{self.ns}:backlog", id)
        self.raw.lmove(f"rfq:{self.ns}:backlog", f"rfq:{self.ns}:nextlog", "RIGHT", "LEFT")
        return [b'{"n": "%d"}' % number for number in range(5)]

    def list(self):
        self.raw.lpush(f"{self.ns}-work", "a", "same", "same", "b", "same")
        self.raw.lpush(f"{self.ns}-w1", "held")
        return [b"a", b"same", b"same", b"b", b"same", b"held"]

    def rsmq(self):
        with Server.from_url(self.url, ns=f"{self.ns}-old") as old:
            old.rsmq.create_queue(self.ns, exist_ok=True)
            old.rsmq.send_messages(self.ns, ["0", "1", "2", "3"])
            old.rsmq.receive_message(self.ns, vt=500)
            old.rsmq.send_message(self.ns, "4", delay=500)
        return [b"0", b"1", b"2", b"3", b"4"]

    def rqueue(self):
        state = fill_queue(self.create_rqueue(), self.ns)
        return [
            each.fields["message"].encode()
            for each in (*state.ready, state.failed, state.later, state.periodic, state.processing)
        ]

    @property
    def url(self):
        options = self.raw.connection_pool.connection_kwargs
        return f"redis://127.0.0.1:{options['port']}/0"

    def clear(self):
        keys = [
            key for pattern in (f"*{self.ns}*", "__rq::*") for key in self.raw.scan_iter(pattern)
        ]
        if keys:
            self.raw.unlink(*keys)


def fill_in_odd_order(kind, raw, ns):
    """
    Fill a system with messages whose order is not that of their times. Return them in order.

    rfq publishes urgent messages at the front; the elements of Rqueue's list may be retries.
    """
    numbers = [5, 4, 3, 0, 1, 2]  # when they were sent, in their order
    if kind == "rfq":
        for number in numbers:
            id = make_uuid(1_700_000_000_000_000 + number * 1_000_000).hex
            raw.hset(f"rfq:{ns}:message:{id}", "n", number)
            raw.lpush(f"rfq:{ns}:backlog", id)
        return [b'{"n": "%d"}' % number for number in numbers]
    if kind == "rqueue":
        messages = [
            {"id": f"id {number}", "queueName": ns, "message": f"{number}",
             "processAt": 1_700_000_000_000 + number // 2}
            for number in numbers
        ]  # fmt: skip
        raw.rpush(f"__rq::queue::{{{ns}}}", *map(json.dumps, messages))
    else:
        raw.lpush(f"{ns}-work", *numbers)
    return [b"%d" % number for number in numbers]


def create_source(kind, server, ns):
    return {
        "rfq": lambda: RFQ(server),
        "list": lambda: Lists(server, processing=[f"{ns}-w[0-9]"]),
        "rsmq": lambda: Queues(server),
        "rqueue": lambda: Rqueue(server),
        "redisrq": lambda: RedisRQ(server),
    }[kind]()


def remaining_keys(kind, raw, ns):
    """Return the keys of the source's remaining messages."""
    patterns = {
        "rfq": [f"rfq:{ns}:*"],
        "list": [f"{ns}-*"],
        "rsmq": [f"{ns}-old:{ns}"],
        "rqueue": [f"__rq::?queue::{{{ns}}}", f"__rq::queue::{{{ns}}}"],
    }[kind]
    keys = [key for pattern in [*patterns, "*:x:aside:*"] for key in raw.keys(pattern)]
    return [key for key in keys if not key.endswith(b":held")]  # the lock expires by itself
