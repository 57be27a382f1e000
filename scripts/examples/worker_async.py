"""
Async functions on one event loop, a hundred at a time: python worker_async.py [PORT].

Expect 200 thumbnails in about 0.2 seconds, and 20 letters, which are handled first.
"""

import asyncio
import sys
import time
from collections import Counter

from rsmq import RSMQ
from rsmq.worker import Worker

port = sys.argv[1] if len(sys.argv) > 1 else "6379"
done = Counter()


async def main():
    queues = RSMQ.from_url(f"redis://127.0.0.1:{port}/0")
    worker = Worker(queues, concurrency=100)

    @worker.listener("example-letters", priority=10, retry_forever=True, create=True)
    async def letter(text):
        done["letters"] += 1

    @worker.listener("example-thumbnails", concurrency=90, retry_forever=True, create=True)
    async def thumbnail(path):
        await asyncio.sleep(0.05)
        done["thumbnails"] += 1

    for queue, number in (("example-thumbnails", 200), ("example-letters", 20)):
        queues.create_queue(queue, exist_ok=True)
        queues.send_messages(queue, [str(n) for n in range(number)])
    begin = time.perf_counter()
    working = asyncio.create_task(worker.run_async())  # in the running loop
    while worker.numbers.handled < 220:
        await asyncio.sleep(0.01)
    print(*(f"{number} {kind}" for kind, number in sorted(done.items())), sep=", ")
    print(f"{time.perf_counter() - begin:.1f} seconds", file=sys.stderr)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    for queue in ("example-letters", "example-thumbnails"):
        queues.delete_queue(queue)


asyncio.run(main())
