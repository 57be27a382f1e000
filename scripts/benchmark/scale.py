"""
Clusters against one server, in turns: scripts/bench-scale.

Each figure is the median of the ratios of neighbouring rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import threading
import time

from rsmq import RSMQ, AsyncRSMQ, Confirm, NotReplicated
from scripts.benchmark.figures import percentile
from scripts.benchmark.scale_calls import NS, compare_tasks, compare_threads
from scripts.benchmark.scale_partitions import compare_partitions
from tests.clusters import Cluster


def wake_up_ms(rsmq: RSMQ, sender: RSMQ) -> float:
    """Return the milliseconds from a send to the return of a waiting receive."""
    arrived: list[float] = []

    def wait() -> None:
        message = rsmq.receive_message("wake", wait=20)
        arrived.append(time.perf_counter())
        if message is not None:
            rsmq.delete_message(message)

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.03)
    begin = time.perf_counter()
    sender.send_message("wake", "x")
    waiter.join()
    return (arrived[0] - begin) * 1000


def compare_wake_ups(cluster: Cluster, one_url: str, rounds: int) -> None:
    """Compare the times from a send to the return of a waiting receive."""
    with RSMQ.from_url(one_url, ns=NS) as one, RSMQ.from_url(cluster.url, ns=NS) as routed:
        one.create_queue("wake")
        single, many = [], []
        for _ in range(rounds * 10):
            single.append(wake_up_ms(one, one))
            many.append(wake_up_ms(routed, routed))
    ratio = statistics.median(many) / statistics.median(single)
    print("waiting: from a send to the return of a waiting receive, median")
    print(f"  one server             {statistics.median(single):.2f} ms")
    print(f"  redis+cluster://       {statistics.median(many):.2f} ms")
    print(f"  ratio                  {ratio:.2f}  (target: at most 2)")


async def receive_times(rsmq: AsyncRSMQ, seconds: float) -> list[float]:
    """Receive 1,000 times a second; return how long each call took, in milliseconds."""
    times = []
    begin = time.perf_counter()
    for number in range(int(seconds * 1000)):
        pause = begin + number / 1000 - time.perf_counter()
        await asyncio.sleep(max(0.0, pause))
        called = time.perf_counter()
        await rsmq.receive_message("empty")
        times.append((time.perf_counter() - called) * 1000)
    return times


async def send_confirmed(rsmq: AsyncRSMQ) -> None:
    """Send messages that wait for a replica, until cancelled."""
    while True:
        try:
            await rsmq.send_message("q", "x", confirm=Confirm(replicas=1, timeout=0.5))
        except NotReplicated:
            await asyncio.sleep(0)


async def compare_beside_confirmed(cluster: Cluster, rounds: int) -> None:
    """Compare receives with and without confirmed sends, of which none is confirmed."""
    node = cluster.node_of(NS)
    (replica,) = cluster.replicas_of(node)
    found = []
    async with AsyncRSMQ.from_url(cluster.url, ns=NS) as rsmq:
        await rsmq.create_queue("empty")
        for _ in range(rounds):
            alone = percentile(await receive_times(rsmq, 2), 99)
            replica.freeze()
            try:
                senders = [asyncio.ensure_future(send_confirmed(rsmq)) for _ in range(4)]
                beside = percentile(await receive_times(rsmq, 2), 99)
                for each in senders:
                    each.cancel()
                await asyncio.gather(*senders, return_exceptions=True)
            finally:
                replica.thaw()
            found.append(beside / alone)
    print("1,000 receives a second beside confirmed sends and a frozen replica")
    print(f"  p99, against without   {statistics.median(found):.2f}  (target: at most 1.10)")


def main() -> int:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--quick", action="store_true", help="few rounds: only to see that it runs")
    parser.add_argument("--partitions", action="store_true", help="only partitions")
    arguments = parser.parse_args()
    rounds = 2 if arguments.quick else 20
    binary = shutil.which("redis-server")
    if binary is None:
        sys.exit("redis-server is missing: scripts/requirements redis-server")
    compare_partitions(binary, 4 * rounds)
    if arguments.partitions:
        return 0
    cluster = Cluster(binary)
    cluster.start()
    try:
        one_url = f"redis://127.0.0.1:{cluster.node_of(NS).port}/0"
        with RSMQ.from_url(cluster.url, ns=NS) as rsmq:
            rsmq.create_queue("q")
        compare_threads(cluster, one_url, rounds)
        compare_tasks(cluster, one_url, rounds)
        compare_wake_ups(cluster, one_url, rounds)
        asyncio.run(compare_beside_confirmed(cluster, max(2, rounds // 2)))
    finally:
        cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
