"""
Partitions on a Redis Cluster against one namespace there, in turns.

Processor time is that of this process and of all masters. Each figure is the median of the ratios
of neighbouring slices, which are short, so that other load on the machine affects both equally.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import redis

from rsmq import RSMQ, AsyncPartitions, AsyncRSMQ, Partitions
from tests.clusters import SLOTS, Cluster

COUNTS = (3, 12, 48)
CALLS = 240
BATCH = 100
BATCHES = 24
#: Of each partition; of the one namespace too, because its queue is to be as busy.
TASKS = 32
CALLS_OF_TASK = 4
_BODY = "x" * 100

#: A client of one namespace, or partitions, of either face.
Opened = Any


def _client_for(opened: Opened, number: int) -> Any:
    is_one = isinstance(opened, RSMQ | AsyncRSMQ)
    return opened if is_one else opened.client_for(f"customer-{number}")


def one_by_one(opened: Opened, _count: int, _runner: asyncio.Runner) -> int:
    """Send, receive and delete messages, each by a call; return their number."""
    for number in range(CALLS):
        client = _client_for(opened, number)
        client.send_message("q", _BODY)
        client.delete_message(client.receive_message("q"))
    return CALLS


def in_batches(opened: Opened, _count: int, _runner: asyncio.Runner) -> int:
    """Send, receive and delete messages in batches; return their number."""
    for number in range(BATCHES):
        client = _client_for(opened, number)
        client.send_messages("q", [_BODY] * BATCH)
        client.delete_messages(client.receive_messages("q", BATCH))
    return BATCHES * BATCH


def in_tasks(opened: Opened, count: int, runner: asyncio.Runner) -> int:
    """Send, receive and delete messages in tasks, each by a call; return their number."""
    calls = TASKS * CALLS_OF_TASK * count
    tasks = TASKS if isinstance(opened, AsyncRSMQ) else TASKS * count
    numbers = itertools.count()

    async def work() -> None:
        while (number := next(numbers)) < calls:
            client = _client_for(opened, number)
            await client.send_message("q", _BODY)
            if message := await client.receive_message("q"):
                await client.delete_message(message)

    async def work_all() -> None:
        await asyncio.gather(*(work() for _ in range(tasks)))

    runner.run(work_all())
    return calls


#: The kinds of work, by name.
WORK: dict[str, Callable[[Opened, int, asyncio.Runner], int]] = {
    "one by one": one_by_one,
    f"batches of {BATCH}": in_batches,
    f"{TASKS} tasks a partition": in_tasks,
}


def with_redis_py(opened: Sequence[tuple[redis.Redis, str]]) -> int:
    """Set, get and delete a key by plain connections, in turn; return how many times."""
    for number in range(CALLS):
        connection, key = opened[number % len(opened)]
        connection.set(key, _BODY)
        connection.get(key)
        connection.delete(key)
    return CALLS


def compare_partitions(binary: str, rounds: int) -> None:
    """
    Compare several numbers of partitions with one namespace, and print the ratios.

    On one master they show what the client and the namespaces cost, on three masters also what
    servers cost that share the processors of the machine. Plain connections of redis-py show what
    these cost without this library.

    Args:
        binary: the path of redis-server.
        rounds: how many pairs to measure of each kind of work and number of partitions.
    """
    for masters in (1, 3):
        cluster = Cluster(binary, masters=masters, replicas=0)
        cluster.start()
        print(f"Partitions against one namespace, {masters} master(s): processor time of a message")
        try:
            _compare_connections(cluster, rounds)
            _compare_on(cluster, rounds)
        finally:
            cluster.stop()


def _compare_connections(cluster: Cluster, rounds: int) -> None:
    ports = [node.port for node in cluster.masters]
    first = cluster.masters[0]
    with redis.RedisCluster(host="127.0.0.1", port=first.port) as finder:
        keys = dict.fromkeys(ports, "")
        for key in (f"{{{number}}}" for number in range(SLOTS)):
            node = finder.get_node_from_key(key)
            keys[node.port] = keys[node.port] or key
            if all(keys.values()):
                break
    for count in COUNTS:
        turns = itertools.islice(itertools.cycle(ports), count)
        many = [(redis.Redis(port=port), keys[port]) for port in turns]
        one = [(redis.Redis(port=first.port), keys[first.port])]
        _print_ratios(
            f"{count:3} connections of redis-py",
            _pairs(cluster, partial(with_redis_py, one), partial(with_redis_py, many), rounds),
        )
        for connection, _ in (*one, *many):
            connection.close()


def _compare_on(cluster: Cluster, rounds: int) -> None:
    with RSMQ.from_url(cluster.url, ns="{one}") as one, asyncio.Runner() as runner:
        one.create_queue("q")
        for count in COUNTS:
            with Partitions.from_url(cluster.url, ns="many", count=count) as many:
                many.create_queue("q")
            for name in WORK:
                _compare(cluster, runner, count, name, rounds)


def _compare(cluster: Cluster, runner: asyncio.Runner, count: int, name: str, rounds: int) -> None:
    work = WORK[name]
    kinds: tuple[Any, Any] = (RSMQ, Partitions)
    if work is in_tasks:
        kinds = (AsyncRSMQ, AsyncPartitions)
    one = kinds[0].from_url(cluster.url, ns="{one}")
    many = kinds[1].from_url(cluster.url, ns="many", count=count)

    pairs = _pairs(
        cluster, lambda: work(one, count, runner), lambda: work(many, count, runner), rounds
    )
    for opened in (one, many):
        closed = opened.close()
        if closed is not None:
            runner.run(closed)
    _print_ratios(f"{count:3} partitions, {name}", pairs)


def _pairs(
    cluster: Cluster, one: Callable[[], int], many: Callable[[], int], rounds: int
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the seconds of client and servers for a message, of both kinds of work in turns."""

    def measure(work: Callable[[], int]) -> tuple[float, float]:
        servers, own = _server_seconds(cluster), time.process_time()
        messages = work()
        own = time.process_time() - own
        return own / messages, (_server_seconds(cluster) - servers) / messages

    pairs = []
    for number in range(rounds + 1):
        # The order alternates, so that a machine that gets slower counts for neither.
        if number % 2:
            pairs.append((measure(one), measure(many)))
        else:
            pairs.append((measure(many), measure(one))[::-1])
    return pairs[1:]  # the first only warms up


def _print_ratios(name: str, pairs: Sequence[Sequence[Sequence[float]]]) -> None:
    both, own, servers = (_ratio(pairs, part) for part in (slice(2), slice(1), slice(1, 2)))
    print(f"  {name:36} {both:.3f}  (client {own:.3f}, servers {servers:.3f})", flush=True)


def _server_seconds(cluster: Cluster) -> float:
    """Return the processor time of the masters."""
    infos = [node.ask("INFO", "cpu") for node in cluster.masters]
    return sum(float(info["used_cpu_user"]) + float(info["used_cpu_sys"]) for info in infos)


def _ratio(pairs: Sequence[Sequence[Sequence[float]]], part: slice) -> float:
    """Return the median of how much the second of each pair took, against the first."""
    return statistics.median(sum(many[part]) / sum(one[part]) for one, many in pairs)
