"""
A handler of batches, and a hook that counts: worker_batches.py [PORT].

Expect 999 readings stored, in batches of up to 100, and 11 dropped that are not numbers.
"""

import sys
import time

from rsmq import RSMQ
from rsmq.worker import Discard, Middleware, Worker

port = sys.argv[1] if len(sys.argv) > 1 else "6379"
queues = RSMQ.from_url(f"redis://127.0.0.1:{port}/0")
stored = []


class DropCounter(Middleware):
    """A middleware that counts dropped messages."""

    count = 0

    def after_drop(self, message, reason, error):
        self.count += 1


dropped = DropCounter()
worker = Worker(queues, concurrency=2, middleware=[dropped])


@worker.listener("example-readings", batch=100, retry_forever=True, create=True)
def store(readings, messages):
    for reading, message in zip(readings, messages, strict=True):
        if not reading.isdigit():
            message.fail(Discard("not a number"))  # the other messages are still handled
    stored.extend(reading for reading in readings if reading.isdigit())


queues.create_queue("example-readings", exist_ok=True)
queues.send_messages("example-readings", [str(n) if n % 100 else "?" for n in range(1010)])
with worker:
    while len(stored) + dropped.count < 1010:
        time.sleep(0.01)
print(len(stored), "stored,", dropped.count, "dropped")
queues.delete_queue("example-readings")
