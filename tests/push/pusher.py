"""
A process that pushes the queue q until it is stopped: URL of Redis, namespace, URL of the target.

Its exit code is 3 if the target has ended the subscription.
"""

from __future__ import annotations

import logging
import sys

from rsmq import RSMQ
from rsmq.worker import Middleware, Worker


class StopWhenGone(Middleware):
    is_gone = False

    def after_target_change(self, queue, target, state, answer):
        if state == "gone":
            self.is_gone = True
            worker.stop()


logging.basicConfig(level="ERROR")
url, ns, target = sys.argv[1:]
gone = StopWhenGone()
worker = Worker(RSMQ.from_url(url, ns=ns), concurrency=32, middleware=[gone])
worker.webhook(
    "q", target, allow_http=True, allow="127.0.0.0/8", vt=2, max_retries=5, backoff=[0.05, 0.2, 1]
)
worker.run()
sys.exit(3 if gone.is_gone else 0)
