"""
Our worker: ``python -m scripts.chaos_runner.systems.rsmq_system produce RATE | work``.

Its only settings are safe. The visibility timeout is that of the other systems' safe runs.
"""

from __future__ import annotations

import os
import sys

from rsmq import RSMQ
from rsmq.worker import Delivery, Worker

from .steps import URL, handle, produce

_CONCURRENCY = 4

queues = RSMQ.from_url(URL, ns="chaos")
worker = Worker(queues, name=os.environ["CHAOS_NAME"], concurrency=_CONCURRENCY)


@worker.listener("q", vt=20, create=True, retry_forever=True)
def work(body: str, message: Delivery) -> None:
    """Handle a message."""
    handle(message.id, body)


if __name__ == "__main__":
    if sys.argv[1] == "produce":
        queues.create_queue("q", exist_ok=True)
        produce(lambda body: queues.send_message("q", body), float(sys.argv[2]))
    else:
        worker.run()
