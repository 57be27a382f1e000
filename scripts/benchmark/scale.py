"""
Calls on a Redis Cluster against calls on one server, in turns: scripts/bench-scale.

Each figure is the median of the ratios of neighbouring rounds. Processor time is that of this
process, so it does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

import redis
import redis.asyncio
from redis.exceptions import ResponseError

from rsmq import RSMQ, AsyncRSMQ, NotReplicated
from rsmq.operations.operation import Operation
from rsmq.transport.commands import evalsha_command
from rsmq.transport.retry import convert_error
from scripts.benchmark.figures import percentile
from scripts.benchmark.scale_cells import compare_cells, keep_ledger
from tests.clusters import Cluster

T = TypeVar("T")

NS = "{bench}"
CALLS = 400


def command_of(operation: Operation[Any]) -> tuple[Any, ...]:
    """Return the command of an operation, with the name as redis-py looks it up."""
    name, script, count, *rest = evalsha_command(operation)
    return name.decode(), script, int(count), *rest


def raise_converted(error: ResponseError, operation: Operation[Any]) -> NoReturn:
    """Raise the error of the library for the error of a script."""
    raise convert_error(error, operation.queues) or error


class OverRedisPy:
    """
    A caller that has each operation sent by ``redis.RedisCluster``, which has the scripts already.

    The methods of ``RSMQ``, the commands, the results and the errors are the same. There is no
    retry, and a receive that is interrupted is not undone.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, operation: Operation[T]) -> T:
        try:
            reply = self._client.execute_command(*command_of(operation), NEVER_DECODE=True)
        except ResponseError as error:
            raise_converted(error, operation)
        return operation.parse(reply)


class AsyncOverRedisPy(OverRedisPy):
    """The same for ``redis.asyncio.RedisCluster``."""

    async def run(self, operation: Operation[T]) -> T:  # type: ignore[override]
        try:
            reply = await self._client.execute_command(*command_of(operation), NEVER_DECODE=True)
        except ResponseError as error:
            raise_converted(error, operation)
        return operation.parse(reply)


def cpu_per_cycle(cycle: Callable[[], object]) -> float:
    """Return the processor time of a send, a receive and a delete, in seconds."""
    begin = time.process_time()
    for _ in range(CALLS):
        cycle()
    return (time.process_time() - begin) / CALLS


def cycle_of(rsmq: RSMQ) -> Callable[[], object]:
    """Return a function that sends, receives and deletes a message."""

    def cycle() -> None:
        rsmq.send_message("q", "x")
        message = rsmq.receive_message("q")
        if message is not None:
            rsmq.delete_message(message)

    return cycle


def async_cycle_of(rsmq: AsyncRSMQ) -> Callable[[], Awaitable[object]]:
    """Return a coroutine function that sends, receives and deletes a message."""

    async def cycle() -> None:
        await rsmq.send_message("q", "x")
        message = await rsmq.receive_message("q")
        if message is not None:
            await rsmq.delete_message(message)

    return cycle


async def async_cpu_per_cycle(cycle: Callable[[], Awaitable[object]], tasks: int) -> float:
    """Return the processor time of a cycle, in seconds, in several tasks."""

    async def run() -> None:
        for _ in range(CALLS // tasks):
            await cycle()

    begin = time.process_time()
    await asyncio.gather(*(run() for _ in range(tasks)))
    return (time.process_time() - begin) / (CALLS // tasks * tasks)


def ratios(rounds: int, *measure: Callable[[], float]) -> list[float]:
    """Measure in turns; return the median of the ratio of each to the first."""
    measured = []
    for number in range(rounds + 1):
        row = [each() for each in measure]
        if number:  # the first round only warms up
            measured.append(row)
    return [statistics.median(row[at] / row[0] for row in measured) for at in range(len(measure))]


def compare_threads(cluster: Cluster, one_url: str, rounds: int) -> None:
    """Compare calls of the synchronous clients."""
    nodes = redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
    with (
        RSMQ.from_url(one_url, ns=NS) as one,
        RSMQ.from_url(cluster.url, ns=NS) as routed,
        RSMQ(nodes, ns=NS) as passed_in,
    ):
        over_redis_py = RSMQ(nodes, ns=NS)
        over_redis_py._use_caller(OverRedisPy(nodes))  # type: ignore[arg-type]  # noqa: SLF001
        found = ratios(
            rounds,
            lambda: cpu_per_cycle(cycle_of(one)),
            lambda: cpu_per_cycle(cycle_of(routed)),
            lambda: cpu_per_cycle(cycle_of(passed_in)),
            lambda: cpu_per_cycle(cycle_of(over_redis_py)),
        )
    nodes.close()
    show("one thread", found, "RedisCluster passed in")


def compare_tasks(cluster: Cluster, one_url: str, rounds: int) -> None:
    """Compare calls of the asyncio clients."""
    with asyncio.Runner() as runner:

        def run(coroutine: Coroutine[Any, Any, float]) -> float:
            return runner.run(coroutine)

        async def open_all() -> list[Any]:
            nodes = redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
            over_redis_py = AsyncRSMQ(nodes, ns=NS)
            over_redis_py._use_caller(AsyncOverRedisPy(nodes))  # type: ignore[arg-type]  # noqa: SLF001
            return [
                AsyncRSMQ.from_url(one_url, ns=NS),
                AsyncRSMQ.from_url(cluster.url, ns=NS),
                over_redis_py,
                nodes,
            ]

        one, routed, over_redis_py, nodes = runner.run(open_all())
        for tasks in (1, 32):
            found = ratios(
                rounds,
                lambda tasks=tasks: run(async_cpu_per_cycle(async_cycle_of(one), tasks)),
                lambda tasks=tasks: run(async_cpu_per_cycle(async_cycle_of(routed), tasks)),
                lambda tasks=tasks: run(async_cpu_per_cycle(async_cycle_of(over_redis_py), tasks)),
            )
            show(f"asyncio, {tasks} task{'s' * (tasks > 1)}", found, None)
        for each in (one, routed):
            runner.run(each.close())
        runner.run(nodes.aclose())


def show(kind: str, found: list[float], passed_in: str | None) -> None:
    """
    Print ratios to one server: of our connections, of a client passed in, and of redis-py's.

    The last are those of our methods, too, but each command is sent by the cluster client of
    redis-py.
    """
    routed, *others = found[1:]
    print(f"{kind}: processor time of a call, against one server")
    print(f"  redis+cluster://       {routed:.2f}  (target: at most 1.10)")
    if passed_in:
        print(f"  {passed_in} {others[0]:.2f}")
    print(f"  sent by redis-py       {others[-1]:.2f}")
    print(f"  ours / redis-py's      {routed / others[-1]:.2f}  (target: at most 0.33)")


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
            await rsmq.send_message("q", "x", min_replicas=1, replica_timeout=0.5)
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
    parser.add_argument(
        "--ledger",
        type=int,
        metavar="MESSAGES",
        help="only this: send, receive and delete so many messages over six masters",
    )
    arguments = parser.parse_args()
    rounds = 2 if arguments.quick else 20
    binary = shutil.which("redis-server")
    if binary is None:
        sys.exit("redis-server is missing: scripts/requirements redis-server")
    if arguments.ledger:
        keep_ledger(binary, arguments.ledger)
        return 0
    cluster = Cluster(binary)
    cluster.start()
    try:
        compare_cells(cluster, rounds)
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
