"""
The history while Node and Python send and receive, and its recorder is killed again and again.

Minutes pass as fast as they are recorded.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

from tests.scale import scaled

QUEUES = [f"q{number}" for number in range(60)]
KILLS = scaled(2, 30)
MINUTES = 4  # that nobody records, after each kill

RECORDER = """
import asyncio, sys
from rsmq import AsyncRSMQ
from rsmq.history.recorder import record_queues

async def main(url, ns, minute):
    async with AsyncRSMQ.from_url(url, ns=ns) as queues:
        for each in range(int(minute), int(minute) + 100_000):
            await record_queues(queues, each)
            print(each, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def record(server, ns, minute, minutes):
    """Record some minutes in a process, kill it, and return the minute behind the last one."""
    process = subprocess.Popen(
        [sys.executable, "-c", RECORDER, server.url, ns, str(minute)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while int(process.stdout.readline()) < minute + minutes:
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split()
    return int(rest[-1]) + 1 if rest else minute + minutes + 1


def test_the_sums_equal_the_ledger_and_minutes_without_a_recorder_are_gaps(
    server, node, our_client, ns
):
    rsmq = our_client.client()
    for queue in QUEUES:
        rsmq.create_queue(queue)
    first = minute = int(time.time()) // 60 + 1
    minute = record(server, ns, minute, 1)
    ledger, ends = {"sent": 0, "received": 0}, threading.Event()
    lock = threading.Lock()

    def work(client, offset):
        for turn in range(10**9):
            if ends.is_set():
                return
            queue = QUEUES[(turn * 7 + offset) % len(QUEUES)]
            client.send_message(queue, "m")
            got = client.receive_message(queue) if turn % 2 else None
            with lock:
                ledger["sent"] += 1
                ledger["received"] += got is not None

    threads = [
        threading.Thread(target=work, args=(client, offset))
        for client, offset in ((node, 0), (our_client, 3))
    ]
    gaps = []
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            minute = record(server, ns, minute, 3)
            gaps.append((minute + 1) * 60_000)  # the minute before may have been recorded in part
            minute += MINUTES
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    minute = record(server, ns, minute, 2)

    bounds = {
        "start": datetime.fromtimestamp((first - 1) * 60, UTC),
        "end": datetime.fromtimestamp((minute + 1) * 60, UTC),
    }
    sums = rsmq.history(**bounds)
    assert (sums.total_sent, sums.total_received) == (ledger["sent"], ledger["received"])
    of_queues = [rsmq.history(queue, **bounds) for queue in QUEUES]
    assert sum(each.total_sent for each in of_queues) == ledger["sent"]
    for history in (sums, *of_queues):
        for start_ms in gaps:
            at = (start_ms - history.start_ms) // 60_000
            assert history.sent[at : at + MINUTES - 2] == [None] * (MINUTES - 2)
