"""
A program that receives and deletes messages until SIGTERM, and records each call in its ledger.

    python -m tests.total_queue.consumer URL NAMESPACE LEDGER
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

from redis.exceptions import RedisError

from rsmq import RSMQ
from tests.total_queue.ledger import LedgerFile

_VT_SECONDS = 5


def receive(client: RSMQ, ledger: LedgerFile) -> bool:
    """Receive and delete some messages, and return whether there were any."""
    messages = client.receive_messages("q", 10, vt=_VT_SECONDS)
    server = str(client._caller.address_of(b""))
    for each in messages:
        ledger.write(
            call="receive", body=each.body, id=each.id, count=each.receive_count, end=time.time(),
            server=server,
        )  # fmt: skip
    for id in client.delete_messages(messages) if messages else []:
        ledger.write(call="delete", id=id, end=time.time())
    return bool(messages)


def main(url: str, ns: str, path: str) -> None:
    """Receive until SIGTERM."""
    stops = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stops.set())
    ledger = LedgerFile(Path(path))
    with RSMQ.from_url(url, ns=ns) as client:
        while not stops.is_set():
            try:
                if not receive(client, ledger):
                    time.sleep(0.02)
            except RedisError:
                continue


if __name__ == "__main__":
    main(*sys.argv[1:])
