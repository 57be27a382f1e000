"""
Calls on a Redis Cluster against calls on one server, and on other clients, in turns.

Each figure is the median of the ratios of neighbouring rounds. Processor time is that of this
process, so it does not depend on what else the machine does.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NoReturn, TypeVar

import hiredis
import redis
import redis.asyncio
from redis.exceptions import ResponseError

from rsmq import RSMQ, AsyncRSMQ
from rsmq.operations.operation import Operation
from rsmq.transport.commands import evalsha_command
from rsmq.transport.retry import convert_error
from tests.clusters import Cluster

T = TypeVar("T")

#: The namespace of the queues of scripts/bench-scale.
NS = "{bench}"
CALLS = 400
#: The bytes that one read from a socket asks for.
READ_BYTES = 65_536


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


class OverSocket:
    """
    A caller that writes each command to a socket, reads once and parses: the least a client can do.

    It has no errors, no retries, no timeout, no second node, and a reply must arrive in one piece.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def run(self, operation: Operation[T]) -> T:
        os.write(self._socket.fileno(), hiredis.pack_command(evalsha_command(operation)))  # type: ignore[arg-type]
        self._reader.feed(self._socket.recv(READ_BYTES))
        return operation.parse(self._reader.gets())

    def close(self) -> None:
        self._socket.close()


class AsyncOverSocket(asyncio.Protocol):
    """The same for asyncio, for one task."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._reply.set_result(self._reader.gets())

    async def run(self, operation: Operation[T]) -> T:
        self._reply = self._loop.create_future()
        self._transport.write(hiredis.pack_command(evalsha_command(operation)))  # type: ignore[arg-type]
        return operation.parse(await self._reply)

    def close(self) -> None:
        self._transport.close()


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
        over_redis_py, over_socket = RSMQ(nodes, ns=NS), RSMQ(nodes, ns=NS)
        over_redis_py._use_caller(OverRedisPy(nodes))  # type: ignore[arg-type]  # noqa: SLF001
        bare = OverSocket(cluster.node_of(NS).port)
        over_socket._use_caller(bare)  # type: ignore[arg-type]  # noqa: SLF001
        found = ratios(
            rounds,
            lambda: cpu_per_cycle(cycle_of(one)),
            lambda: cpu_per_cycle(cycle_of(routed)),
            lambda: cpu_per_cycle(cycle_of(passed_in)),
            lambda: cpu_per_cycle(cycle_of(over_socket)),
            lambda: cpu_per_cycle(cycle_of(over_redis_py)),
        )
    bare.close()
    nodes.close()
    show("one thread", found, ("RedisCluster passed in", "over a bare socket"))


def compare_tasks(cluster: Cluster, one_url: str, rounds: int) -> None:
    """Compare calls of the asyncio clients."""
    with asyncio.Runner() as runner:

        def run(coroutine: Coroutine[Any, Any, float]) -> float:
            return runner.run(coroutine)

        async def open_all() -> list[Any]:
            nodes = redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
            over_redis_py, over_socket = AsyncRSMQ(nodes, ns=NS), AsyncRSMQ(nodes, ns=NS)
            over_redis_py._use_caller(AsyncOverRedisPy(nodes))  # type: ignore[arg-type]  # noqa: SLF001
            loop, port = asyncio.get_running_loop(), cluster.node_of(NS).port
            _, bare = await loop.create_connection(AsyncOverSocket, "127.0.0.1", port)
            over_socket._use_caller(bare)  # type: ignore[arg-type]  # noqa: SLF001
            return [
                AsyncRSMQ.from_url(one_url, ns=NS),
                AsyncRSMQ.from_url(cluster.url, ns=NS),
                over_socket,
                over_redis_py,
                bare,
                nodes,
            ]

        one, routed, over_socket, over_redis_py, bare, nodes = runner.run(open_all())
        for tasks, clients, names in (
            (1, (one, routed, over_socket, over_redis_py), ("over a bare socket",)),
            (32, (one, routed, over_redis_py), ()),
        ):
            cycles = map(async_cycle_of, clients)
            measures = [
                lambda cycle=cycle, tasks=tasks: run(async_cpu_per_cycle(cycle, tasks))
                for cycle in cycles
            ]
            found = ratios(rounds, *measures)
            show(f"asyncio, {tasks} task{'s' * (tasks > 1)}", found, names)
        bare.close()
        for each in (one, routed):
            runner.run(each.close())
        runner.run(nodes.aclose())


def show(kind: str, found: list[float], names: Sequence[str]) -> None:
    """
    Print ratios to one server: of our connections, of other callers, and of redis-py's.

    The last are those of our methods, too, but each command is sent by the cluster client of
    redis-py.

    Args:
        kind: the kind of the clients.
        found: the ratios; the first is that of one server to itself.
        names: the names of the other callers, of which the last is the bare socket.
    """
    routed, *others, redis_py = found[1:]
    print(f"{kind}: processor time of a call, against one server")
    print(f"  redis+cluster://       {routed:.2f}  (target: at most 1.10)")
    for name, ratio in zip(names, others, strict=True):
        print(f"  {name:22} {ratio:.2f}")
    print(f"  sent by redis-py       {redis_py:.2f}")
    print(f"  ours / redis-py's      {routed / redis_py:.2f}  (target: at most 0.33)")
    if others:
        print(f"  a socket / redis-py's  {others[-1] / redis_py:.2f}  (no client reaches less)")
