"""
A handler for each type of message, and one message to several queues: worker_routes.py [PORT].

Bodies are like "paid:17": the text before the colon is the type. Expect two events handled by each
of two services, and one without a handler in a queue of its own.
"""

import sys
import time

from rsmq import RSMQ
from rsmq.worker import Worker, event_payload

port = sys.argv[1] if len(sys.argv) > 1 else "6379"
queues = RSMQ.from_url(f"redis://127.0.0.1:{port}/0")
worker = Worker(queues, concurrency=1)

shipping = worker.router(
    "example-shipping", by=event_payload, unroutable="example-skipped", create=True
)
billing = worker.router(
    "example-billing", by=event_payload, unroutable="example-skipped", create=True
)


@shipping.on("paid")
def ship(order):
    print("ship order", order)


@billing.on("paid", "refunded")
def book(order):
    print("book order", order)


worker.start()
for event in ("paid:17", "paid:18"):
    queues.publish(["example-shipping", "example-billing"], event)  # to both, or to neither
queues.send_message("example-shipping", "lost:19")
while worker.numbers.handled + worker.numbers.dead < 5:
    time.sleep(0.01)
worker.stop()
for skipped in queues.peek_messages("example-skipped"):
    print("skipped:", skipped.body, "-", skipped.reason.text)
for queue in ("example-shipping", "example-billing", "example-skipped"):
    queues.delete_queue(queue)
