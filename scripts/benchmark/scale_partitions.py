"""
Partitions on a Redis Cluster against one namespace there, in turns.

Processor time is that of this process and of all masters. Each figure is the median of the ratios
of neighbouring slices, which are short, so that other load on the machine affects both equally.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import hiredis
import redis

from rsmq import RSMQ, AsyncPartitions, AsyncRSMQ, Partitions
from rsmq.operations.scripts import load
from rsmq.transport.commands import evalsha_command
from rsmq.wire.partitions import partition_of_key
from scripts.benchmark.operations import Operations
from tests.clusters import Cluster, slot_of

COUNTS = (3, 12, 48)
COUNT_OF_TARGET = 12
CALLS = 240
BATCH = 100
BATCHES = 24
#: Of each partition; of the one namespace too, because its queue is to be as busy.
TASKS = 32
CALLS_OF_TASK = 4
ONE, MANY = "{one}", "many"
#: The bytes that one read of the control asks for: more than any reply has.
READ_BYTES = 1 << 20
_BODY = "x" * 100

#: A client of one namespace, or partitions, of either face.
Opened = Any
#: Processor time of client and servers for a message.
Seconds = tuple[float, float]


def _key(number: int) -> str:
    return f"customer-{number}"


def _client_for(opened: Opened, number: int) -> Any:
    key = _key(number)  # a program with one namespace has customers, too
    return opened if isinstance(opened, RSMQ | AsyncRSMQ) else opened.client_for(key)


def one_by_one(opened: Opened) -> int:
    """Send, receive and delete messages, each by a call; return their number."""
    for number in range(CALLS):
        client = _client_for(opened, number)
        client.send_message("q", _BODY)
        client.delete_message(client.receive_message("q"))
    return CALLS


def in_batches(opened: Opened) -> int:
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


class Control:
    """
    The same scripts over a plain socket to each server: the least that a client can do.

    No code of this library runs meanwhile: the commands are packed before. So its extra cost of
    several namespaces is that of the servers and of the operating system.
    """

    def __init__(self, cluster: Cluster, namespaces: Iterable[str], batch: int) -> None:
        """
        Connect, and pack the commands.

        Args:
            cluster: the cluster, which has run the scripts on all masters.
            namespaces: the namespaces; each has the queue ``q``.
            batch: the number of messages of a call; 1 is a call for a single message.
        """
        ports = {name: cluster.owner_of(slot_of(name)).port for name in namespaces}
        self._sockets = {
            port: socket.create_connection(("127.0.0.1", port)) for port in {*ports.values()}
        }
        for each in self._sockets.values():
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._queues = [(self._sockets[port], *_pack(ns, batch)) for ns, port in ports.items()]
        self._batch = batch
        self._reader = hiredis.Reader()

    def run(self, order: Sequence[int]) -> int:
        """Send, receive and delete in the namespaces of these numbers; return the messages."""
        for number in order:
            connection, send, receive, delete = self._queues[number]
            self._call(connection, send)
            reply = self._call(connection, receive)
            receipts = (reply[0], b"1") if self._batch == 1 else reply[3][::2]  # received once
            deleted = self._call(connection, hiredis.pack_command((*delete, *receipts)))
            if deleted not in (1, b"1" * self._batch):
                raise RuntimeError(f"Not all messages were deleted: {deleted!r}.")
        return len(order) * self._batch

    def _call(self, connection: socket.socket, command: bytes) -> Any:
        connection.sendall(command)
        while True:
            self._reader.feed(connection.recv(READ_BYTES))
            reply = self._reader.gets()
            if isinstance(reply, Exception):
                raise reply
            if reply is not False:
                return reply

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()


def _pack(ns: str, batch: int) -> tuple[bytes, bytes, tuple[bytes, ...]]:
    """Return the commands of a send and a receive, and that of a delete without its last part."""
    calls: Any = Operations(redis.Redis(), ns=ns)
    if batch == 1:
        send, receive = calls.send_message("q", _BODY), calls.receive_message("q")
        script, arguments = load("delete_message"), ()
    else:
        send = calls.send_messages("q", [_BODY] * batch)
        receive = calls.receive_messages("q", batch)
        script, arguments = load("delete_messages"), (b"%d" % batch, b"1")  # received once
    delete = (b"EVALSHA", script.sha1, b"%d" % len(send.keys), *send.keys, *arguments)
    packed = (hiredis.pack_command(evalsha_command(each)) for each in (send, receive))  # type: ignore[arg-type]
    return (*packed, delete)


def compare_partitions(binary: str, rounds: int) -> None:
    """
    Compare several numbers of partitions with one namespace, and print the ratios.

    On three masters, servers that share the processors of the machine cost more than one: their
    code and data displace each other in the caches. ``Control`` shows how much, in the same rounds.

    Args:
        binary: the path of redis-server.
        rounds: how often to measure each kind of work and number of partitions.
    """
    for masters in (1, 3):
        cluster = Cluster(binary, masters=masters, replicas=0)
        cluster.start()
        print(f"Partitions against one namespace, {masters} master(s): processor time of a message")
        try:
            with RSMQ.from_url(cluster.url, ns=ONE) as one, asyncio.Runner() as runner:
                one.create_queue("q")
                for count in COUNTS:
                    with Partitions.from_url(cluster.url, ns=MANY, count=count) as many:
                        many.create_queue("q")
                        _compare_calls(cluster, one, many, rounds)
                    _compare_tasks(cluster, runner, count, rounds)
        finally:
            cluster.stop()


def _compare_calls(cluster: Cluster, one: RSMQ, many: Partitions, rounds: int) -> None:
    count = len(many.clients)
    for name, work, calls, batch in (
        ("one by one", one_by_one, CALLS, 1),
        (f"batches of {BATCH}", in_batches, BATCHES, BATCH),
    ):
        for opened in (one, many):  # the control has no scripts of its own
            work(opened)
        order = [partition_of_key(_key(number), count) for number in range(calls)]
        control_one = Control(cluster, [ONE], batch)
        control_many = Control(cluster, many.namespaces, batch)
        measured = _measure(
            cluster,
            rounds,
            partial(work, one),
            partial(work, many),
            partial(control_one.run, [0] * calls),
            partial(control_many.run, order),
        )
        control_one.close()
        control_many.close()
        label = f"{count} partitions, {name}"
        _print_ratios(label, [each[:2] for each in measured])
        _print_ratios("the control", [each[2:] for each in measured])
        ratio = against_control(measured)
        target = "  (target: at most 1.03)" if count == COUNT_OF_TARGET else ""
        print(f"  {'against one with that price':36} {ratio:.3f}{target}", flush=True)


def _compare_tasks(cluster: Cluster, runner: asyncio.Runner, count: int, rounds: int) -> None:
    one = AsyncRSMQ.from_url(cluster.url, ns=ONE)
    many = AsyncPartitions.from_url(cluster.url, ns=MANY, count=count)
    works = [partial(in_tasks, opened, count, runner) for opened in (one, many)]
    measured = _measure(cluster, rounds, *works)
    for opened in (one, many):
        runner.run(opened.close())
    _print_ratios(f"{count} partitions, {TASKS} tasks a partition", measured)


def _measure(cluster: Cluster, rounds: int, *works: Callable[[], int]) -> list[list[Seconds]]:
    """Return for each round what each kind of work took, in the order of the arguments."""

    def measure(work: Callable[[], int]) -> Seconds:
        servers, own = _server_seconds(cluster), time.process_time()
        messages = work()
        own = time.process_time() - own
        return own / messages, (_server_seconds(cluster) - servers) / messages

    measured = []
    for _ in range(rounds + 1):
        # In another order each time, so that a machine that gets slower counts for none.
        found = {work: measure(work) for work in random.sample(works, len(works))}
        measured.append([found[work] for work in works])
    return measured[1:]  # the first only warms up


def _print_ratios(name: str, pairs: Sequence[Sequence[Seconds]]) -> None:
    both, own, servers = (_ratio(pairs, part) for part in (slice(2), slice(1), slice(1, 2)))
    print(f"  {name:36} {both:.3f}  (client {own:.3f}, servers {servers:.3f})", flush=True)


def _server_seconds(cluster: Cluster) -> float:
    """Return the processor time of the masters."""
    infos = [node.ask("INFO", "cpu") for node in cluster.masters]
    return sum(float(info["used_cpu_user"]) + float(info["used_cpu_sys"]) for info in infos)


def _ratio(pairs: Sequence[Sequence[Seconds]], part: slice) -> float:
    """Return the median of how much the second of each pair took, against the first."""
    return statistics.median(sum(many[part]) / sum(one[part]) for one, many in pairs)


def against_control(measured: Sequence[Sequence[Seconds]]) -> float:
    """Return the ratio of several namespaces to one, to which the control's extra time is added."""
    return statistics.median(
        sum(many) / (sum(one) + sum(control_many) - sum(control_one))
        for one, many, control_one, control_many in measured
    )
