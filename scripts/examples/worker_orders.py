"""
A handler that is called with orders, in threads: python worker_orders.py [PORT].

Expect four orders done, one of them at its second attempt, and one in the dead-letter queue, with
the reason. To run it as a service, and to kill it: rsmq-worker worker_orders:worker
"""

import sys
import time

from rsmq import JSON, RSMQ
from rsmq.worker import DeadLetter, Worker, exponential

port = sys.argv[1] if len(sys.argv) == 2 and sys.argv[1].isdigit() else "6379"
queues = RSMQ.from_url(f"redis://127.0.0.1:{port}/0", codec=JSON)
worker = Worker(queues, name="orders-1", concurrency=8)


@worker.listener(
    "example-orders",
    vt=60,
    max_retries=5,
    backoff=exponential(first=0.1, cap=5),
    dead_letter_queue="example-orders-dead",
    create=True,
)
def handle(order, message):
    if order["total"] < 0:
        raise DeadLetter("a negative total")
    if order["number"] == 2 and message.attempt == 1:
        raise ConnectionError("the shop does not answer")
    print(f"order {order['number']} done at attempt {message.attempt}\n", end="", flush=True)


if __name__ == "__main__":
    worker.start()
    queues.send_messages("example-orders", [{"number": n, "total": 10 - 3 * n} for n in range(5)])
    while worker.numbers.handled + worker.numbers.dead < 5:
        time.sleep(0.01)
    worker.stop()
    for letter in queues.peek_messages("example-orders-dead"):
        print("dead:", letter.body["number"], "-", letter.reason.text)
    for queue in ("example-orders", "example-orders-dead"):
        queues.delete_queue(queue)
