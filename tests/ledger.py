"""
A ledger of all calls on a queue whose server is killed: what was sent, received and deleted, when.

Two producers and two consumers record every acknowledged call. At the end they drain the queue,
and the test compares the records.
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
    The records of producers and consumers.

    Attributes:
        sent: the body of each acknowledged send, by id.
        unknown: the number of sends that raised: each may have been stored or not.
        receives: of each id the receives, in order of arrival: receive count, begin and end of the
            call in seconds of the monotonic clock.
        deleted: the time at which the delete of an id was acknowledged.
        problems: observations that break a promise of the library.
        total_sent: the queue's ``totalsent`` at the end.
        left: messages in the queue at the end.
        fields_left: fields of the queue's hash at the end.
        seconds: how long it took.
    """

    sent: dict[str, str] = field(default_factory=dict)
    unknown: int = 0
    receives: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    total_sent: int = 0
    left: int = 0
    fields_left: int = 0
    seconds: float = 0.0

    def record_receive(self, message, begin, end):
        earlier = self.receives.setdefault(message.id, [])
        for count, earlier_begin, _ in earlier:
            if count == message.receive_count:
                self.problems.append(f"{message.id} received twice with count {count}")
            # Right on a busy machine too: the server hid it after the one time, and delivered it
            # before the other.
            elif count == message.receive_count - 1 and end - earlier_begin < VT:
                self.problems.append(f"{message.id} held by two within its visibility timeout")
        if begin > self.deleted.get(message.id, begin):
            self.problems.append(f"{message.id} received after its delete")
        if self.sent.get(message.id, message.body) != message.body:
            self.problems.append(f"{message.id} has another body")
        earlier.append((message.receive_count, begin, end))

    @property
    def lost(self):
        """The ids that were sent and never received."""
        return self.sent.keys() - self.receives.keys()

    @property
    def unexpected(self):
        """The number of messages that were received without an acknowledged send."""
        return len(self.receives.keys() - self.sent.keys())


def run_with_kills(messages, kills):
    """Send and receive messages while the server is killed ``kills`` times; return the ledger."""
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    ledger = Ledger()
    lock = threading.Lock()
    all_sent = threading.Event()

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
        empty_receives = 0
        with RSMQ.from_url(server.url, retry_deadline=60) as rsmq:
            while not all_sent.is_set() or empty_receives < 30:
                begin = time.monotonic()
                try:
                    message = rsmq.receive_message("q", vt=VT)
                    if message is None:
                        empty_receives += 1
                        time.sleep(0.05)
                        continue
                    empty_receives = 0
                    with lock:
                        ledger.record_receive(message, begin, time.monotonic())
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
    generator = random.Random(3)
    for _ in range(kills):
        time.sleep(generator.uniform(0.15, 0.8))
        server.kill()
        server.start()
    for thread in producers:
        thread.join()
    all_sent.set()
    for thread in consumers:
        thread.join()
    ledger.seconds = time.monotonic() - begin
    with server.raw() as raw:
        ledger.total_sent = int(raw.hget("rsmq:q:Q", "totalsent"))
        ledger.left, ledger.fields_left = raw.zcard("rsmq:q"), raw.hlen("rsmq:q:Q")
    server.stop()
    return ledger
