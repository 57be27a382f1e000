"""
An account of a queue under kills: what was sent, received and deleted, and when.

Two producers and two consumers write down every acknowledged call; at the end the queue is
drained, and the account must add up.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from redis.exceptions import ConnectionError as RedisConnectionError

from rsmq import RSMQ
from tests.servers import Server, redis_7

VT = 1.0


@dataclass
class Ledger:
    """
    What the programs know.

    Attributes:
        sent: id to body of each acknowledged send.
        unknown: sends that raised, and may or may not have been stored.
        held: id to (receive count, begin of the call, end of the call), in order of arrival.
        deleted: id to the moment at which its delete was acknowledged.
        problems: what no program may ever see.
    """

    sent: dict[str, str] = field(default_factory=dict)
    unknown: int = 0
    held: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    total_sent: int = 0
    left: int = 0
    fields_left: int = 0
    seconds: float = 0.0

    def received(self, message, begin, end):
        seen = self.held.setdefault(message.id, [])
        for count, earlier_begin, _ in seen:
            if count == message.receive_count:
                self.problems.append(f"{message.id} received twice with count {count}")
            elif count == message.receive_count - 1 and end - earlier_begin < VT:
                self.problems.append(f"{message.id} held by two within its visibility timeout")
        if begin > self.deleted.get(message.id, begin):
            self.problems.append(f"{message.id} received after its delete")
        if self.sent.get(message.id, message.body) != message.body:
            self.problems.append(f"{message.id} has another body")
        seen.append((message.receive_count, begin, end))

    @property
    def lost(self):
        return self.sent.keys() - self.held.keys()

    @property
    def unexpected(self):
        """Messages received beyond those acknowledged: at most the sends that raised."""
        return len(self.held.keys() - self.sent.keys())


def keep(messages, kills):
    """Run the programs against a server that is killed so often, and return their account."""
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    ledger = Ledger()
    lock = threading.Lock()
    done = threading.Event()

    def produce(part):
        with RSMQ.from_url(server.url, retry_deadline=60) as rsmq:
            for number in range(messages // 2):
                body = f"{part}-{number}"
                while True:
                    try:
                        id = rsmq.send_message("q", body)
                    except RedisConnectionError:
                        with lock:
                            ledger.unknown += 1
                    else:
                        with lock:
                            ledger.sent[id] = body
                        break

    def consume():
        empty = 0
        with RSMQ.from_url(server.url, retry_deadline=60) as rsmq:
            while not done.is_set() or empty < 30:
                begin = time.monotonic()
                try:
                    message = rsmq.receive_message("q", vt=VT)
                    if message is None:
                        empty += 1
                        time.sleep(0.05)
                        continue
                    empty = 0
                    with lock:
                        ledger.received(message, begin, time.monotonic())
                    if rsmq.delete_message(message):
                        with lock:
                            ledger.deleted[message.id] = time.monotonic()
                except RedisConnectionError:
                    continue

    with RSMQ.from_url(server.url) as rsmq:
        rsmq.create_queue("q")
    producers = [threading.Thread(target=produce, args=(part,)) for part in "ab"]
    consumers = [threading.Thread(target=consume) for _ in range(2)]
    begin = time.monotonic()
    for thread in (*producers, *consumers):
        thread.start()
    chance = random.Random(3)
    for _ in range(kills):
        time.sleep(chance.uniform(0.15, 0.8))
        server.kill()
        server.start()
    for thread in producers:
        thread.join()
    done.set()
    for thread in consumers:
        thread.join()
    ledger.seconds = time.monotonic() - begin
    with server.raw() as raw:
        ledger.total_sent = int(raw.hget("rsmq:q:Q", "totalsent"))
        ledger.left, ledger.fields_left = raw.zcard("rsmq:q"), raw.hlen("rsmq:q:Q")
    server.stop()
    return ledger
