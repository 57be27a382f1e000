"""
Sets of cells on a Redis Cluster against one queue, in turns; and a ledger of many messages.

Processor time is that of this process. The work of a node is the number of its scripts.
"""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any

from rich.progress import track

from rsmq import RSMQ, Cells
from tests.clusters import Cluster

BATCH = 100
BATCHES = 100
CELLS = (1, 3, 12, 48, 300, 1000)
LEDGER_CELLS = 48
LEDGER_SLICES = 10


def _fill(client: Any, batches: int = BATCHES) -> None:
    for _ in range(batches):
        client.send_messages("q", ["x" * 100] * BATCH)


def _drain(client: Any, count: int = BATCHES * BATCH) -> None:
    while count:
        messages = client.receive_messages("q", BATCH, wait=10)
        client.delete_messages(messages)
        count -= len(messages)


class InTurn:
    """Namespaces on all masters, used in turn: what more servers cost without cells."""

    def __init__(self, cluster: Cluster) -> None:
        """Open a client for each master, whose queue ``q`` is created."""
        wanted, numbers = set(cluster.masters), itertools.count()
        self._clients = []
        while wanted:
            ns = f"{{turn{next(numbers)}}}"
            node = cluster.node_of(ns)
            if node in wanted:
                wanted.remove(node)
                self._clients.append(RSMQ.from_url(cluster.url, ns=ns))
                self._clients[-1].create_queue("q", exist_ok=True)
        self._senders = itertools.cycle(self._clients)
        self._receivers = itertools.cycle(self._clients)

    def send_messages(self, qname: str, bodies: list[str]) -> None:
        next(self._senders).send_messages(qname, bodies)

    def receive_messages(self, qname: str, max_messages: int, *, wait: float) -> list[Any]:
        self._last = next(self._receivers)
        return self._last.receive_messages(qname, max_messages, wait=wait)

    def delete_messages(self, messages: list[Any]) -> None:
        self._last.delete_messages(messages)

    def close(self) -> None:
        for client in self._clients:
            client.close()


def _cpu_per_message(client: Any) -> float:
    """Return the processor time of a send, a receive and a delete in batches, in seconds."""
    begin = time.process_time()
    _fill(client)
    _drain(client)
    return (time.process_time() - begin) / (BATCHES * BATCH)


def _scripts(cluster: Cluster) -> list[int]:
    """Return how many scripts each master has run."""
    stats = [node.ask("INFO", "commandstats") for node in cluster.masters]
    return [stat.get("cmdstat_evalsha", {"calls": 0})["calls"] for stat in stats]


def compare_cells(cluster: Cluster, rounds: int) -> None:
    """Compare sets of several sizes with one queue, and print the ratios."""
    print(f"A queue in cells, batches of {BATCH}, against one queue on the same cluster")
    with RSMQ.from_url(cluster.url, ns="{one}") as one:
        one.create_queue("q", exist_ok=True)
        in_turn = InTurn(cluster)
        found = [_cpu_per_message(in_turn) / _cpu_per_message(one) for _ in range(rounds + 1)]
        in_turn.close()
        ratio = statistics.median(found[1:])
        print(f"  3 namespaces in turn, without cells: processor time {ratio:.2f}")
        for number in CELLS:
            with Cells.from_url(cluster.url, ns=f"cells{number}", cells=number) as cells:
                cells.create_queue("q", exist_ok=True)
                _compare(cluster, one, cells, max(2, rounds // 2), number)


def _compare(cluster: Cluster, one: RSMQ, cells: Cells, rounds: int, number: int) -> None:
    ratios, shares, looks = [], [], []
    for turn in range(rounds + 1):
        of_one = _cpu_per_message(one)
        of_cells = _cpu_per_message(cells)
        before = _scripts(cluster)
        _fill(cells)
        filled = _scripts(cluster)
        _drain(cells)
        after = _scripts(cluster)
        if not turn:
            continue  # it only warms up
        ratios.append(of_cells / of_one)
        work = [b - a for a, b in zip(before, after, strict=True)]
        shares.append(max(work) / sum(work))
        deletes = sum(b - a for a, b in zip(before, filled, strict=True))  # as many as sends
        looks.append((sum(after) - sum(filled) - deletes) / BATCHES)
    print(
        f"  {number:5} cells: processor time {statistics.median(ratios):.2f}, work of the busiest "
        f"master {statistics.median(shares):.2f}, receives for a batch "
        f"{statistics.median(looks):.2f}"
    )


def keep_ledger(binary: str, total: int) -> None:
    """
    Send, receive and delete many numbered messages over six masters, and check each.

    Args:
        binary: the path of redis-server.
        total: the number of messages.
    """
    cluster = Cluster(binary, masters=6, replicas=0)
    cluster.start()
    seen = bytearray(total)
    try:
        with Cells.from_url(cluster.url, ns="ledger", cells=LEDGER_CELLS) as cells:
            cells.create_queue("q")
            numbers = iter(range(total))
            cpu = []
            for part in track(range(LEDGER_SLICES), "Messages"):
                count = total * (part + 1) // LEDGER_SLICES - total * part // LEDGER_SLICES
                begin = time.process_time()
                _pass_through(cells, list(itertools.islice(numbers, count)), seen)
                cpu.append((time.process_time() - begin) / count * 1e6)
            stored = cells.get_queue_attributes("q")
        lost, doubled = seen.count(0), total - seen.count(0) - seen.count(1)
        print(f"{total:,} messages in {LEDGER_CELLS} cells on 6 masters")
        print(f"  lost {lost}, received twice {doubled}, left {stored.messages}  (target: 0, 0, 0)")
        print(
            f"  totals of the servers: sent {stored.total_sent:,}, received "
            f"{stored.total_received:,}"
        )
        half = LEDGER_SLICES // 2
        growth = statistics.median(cpu[half:]) / statistics.median(cpu[:half])
        print("  microseconds of processor time a message, by tenth:", *(f"{x:.1f}" for x in cpu))
        print(f"  second half against the first {growth:.2f}  (target: at most 1.15)")
    finally:
        cluster.stop()


def _pass_through(cells: Cells, numbers: list[int], seen: bytearray) -> None:
    """Send these numbers, and receive and delete as many; at most 100,000 are in the queue."""
    for at in range(0, len(numbers), 100_000):
        chunk = numbers[at : at + 100_000]
        for start in range(0, len(chunk), 1000):
            cells.send_messages("q", [str(number) for number in chunk[start : start + 1000]])
        left = len(chunk)
        while left:
            messages = cells.receive_messages("q", 1000, wait=10)
            for message in messages:
                number = int(message.raw)
                seen[number] = min(seen[number] + 1, 255)
            cells.delete_messages(messages)
            left -= len(messages)
