"""
The cost of the same work without this library: the least that its targets could reach.

    .venv/bin/python -m scripts.benchmark.floors

All but the last two tables are processor time, so other work on the machine changes little:

- a call of asyncio with 100 at a time, that only waits for a future;
- a body of 10 KB that is encoded and packed, or read and decoded, with 100 and 1,000 in memory;
- a job that a thread hands to 8 others, or an event loop to 8 tasks, which do nothing.

The others need a quiet machine:

- 8 threads and 8 tasks that only sleep 5 ms, against 1,600 sleeps a second;
- a wake-up by BLPOP, and by client tracking with a command after it, on plain sockets.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import hiredis

from scripts.benchmark.server import Server

ROUNDS = 7
BODY = "b" * 10_240
SLEEP_SECONDS, SLEEPERS, SLEEPS = 0.005, 8, 200
WAKE_UPS, PAUSE_SECONDS = 300, 0.02
_KEY = "floor"


def processor_us(work: Callable[[], int]) -> float:
    """Return the median processor time of this process for an item of the work, in µs."""
    found = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        items = work()
        found.append((time.process_time() - begin) / items * 1e6)
    return statistics.median(found)


def call_with_asyncio(at_a_time: int, calls: int) -> int:
    """Wait for futures in coroutines; one callback of the loop ends all that wait."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[None]] = []

        def end_all() -> None:
            ended = waiting[:]
            waiting.clear()
            for each in ended:
                each.set_result(None)

        async def call() -> None:
            if not waiting:
                loop.call_soon(end_all)
            future = loop.create_future()
            waiting.append(future)
            await future

        async def call_each() -> None:
            for _ in range(calls // at_a_time):
                await call()

        await asyncio.gather(*(call_each() for _ in range(at_a_time)))

    asyncio.run(run())
    return calls


def send_bodies(number: int, batches: int) -> int:
    """Encode bodies, and pack them in pieces, as a client does before it writes them."""
    for _ in range(batches):
        raws = [BODY.encode() for _ in range(number)]
        for at in range(0, number, 3):
            b"\r\n".join(raws[at : at + 3])
    return number * batches


def receive_bodies(number: int, batches: int) -> int:
    """Parse a reply with bodies, and decode them."""
    raw = BODY.encode()
    piece = b"$%d\r\n%b\r\n" % (len(raw), raw)
    for _ in range(batches):
        reader = hiredis.Reader(notEnoughData=None)
        reader.feed(b"*%d\r\n" % number)
        for _ in range(number):
            reader.feed(piece)
            reply = reader.gets()
        [each.decode() for each in reply]
    return number * batches


def hand_to_threads(number: int, jobs: int) -> int:
    """Hand jobs that do nothing to threads, and take their results."""
    given: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
    done: SimpleQueue[None] = SimpleQueue()

    def run() -> None:
        while (job := given.get()) is not None:
            job()
            done.put(None)

    threads = [threading.Thread(target=run) for _ in range(number)]
    for each in threads:
        each.start()
    for _ in range(jobs):
        given.put(_do_nothing)
    for _ in range(jobs):
        done.get()
    for _ in threads:
        given.put(None)
    for each in threads:
        each.join()
    return jobs


def hand_to_tasks(number: int, jobs: int) -> int:
    """Hand jobs that do nothing to tasks of an event loop, and take their results."""

    async def run() -> None:
        given: asyncio.Queue[Any] = asyncio.Queue()
        done: list[None] = []

        async def work() -> None:
            while (job := await given.get()) is not None:
                await job()
                done.append(None)

        for _ in range(jobs):
            given.put_nowait(_await_nothing)
        for _ in range(number):
            given.put_nowait(None)
        await asyncio.gather(*(work() for _ in range(number)))

    asyncio.run(run())
    return jobs


def _do_nothing() -> None:
    pass


async def _await_nothing() -> None:
    pass


def sleep_in_threads() -> float:
    """Return how many sleeps 8 threads reach in a second."""

    def run() -> None:
        for _ in range(SLEEPS):
            time.sleep(SLEEP_SECONDS)

    threads = [threading.Thread(target=run) for _ in range(SLEEPERS)]
    begin = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return SLEEPERS * SLEEPS / (time.perf_counter() - begin)


def sleep_in_tasks() -> float:
    """Return how many sleeps 8 tasks reach in a second."""

    async def sleep_often() -> None:
        for _ in range(SLEEPS):
            await asyncio.sleep(SLEEP_SECONDS)

    async def run() -> float:
        begin = time.perf_counter()
        await asyncio.gather(*(sleep_often() for _ in range(SLEEPERS)))
        return SLEEPERS * SLEEPS / (time.perf_counter() - begin)

    return asyncio.run(run())


class Waiter:
    """A plain connection that waits for a message."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader(notEnoughData=None)

    def call(self, *words: str) -> Any:
        self._socket.sendall(hiredis.pack_command(words))
        return self.read()

    def read(self) -> Any:
        while (reply := self._reader.gets()) is None:
            self._reader.feed(self._socket.recv(65_536))
        return reply


def wait_with_blpop(port: int, ready: Connection) -> None:
    """Wait for elements of a list, and send the time at which each has arrived."""
    waiter = Waiter(port)
    for _ in range(WAKE_UPS):
        ready.send(None)
        waiter.call("BLPOP", _KEY, "0")
        ready.send(time.monotonic())


def wait_with_tracking(port: int, ready: Connection) -> None:
    """Wait until a tracked key changes, and take the element with a second command."""
    waiter = Waiter(port)
    waiter.call("HELLO", "3")
    waiter.call("CLIENT", "TRACKING", "ON")
    for _ in range(WAKE_UPS):
        waiter.call("EXISTS", _KEY)
        ready.send(None)
        waiter.read()
        waiter.call("GETDEL", _KEY)
        ready.send(time.monotonic())


def wake_up_ms(server: Server, wait: Callable[[int, Connection], None], command: str) -> float:
    """Return the median time from a command until the waiting process has the element."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=wait, args=(server.port, theirs))
    process.start()
    sender, times = Waiter(server.port), []
    for _ in range(WAKE_UPS):
        ours.recv()
        time.sleep(PAUSE_SECONDS)
        begin = time.monotonic()
        sender.call(command, _KEY, "x")
        times.append(1000 * (ours.recv() - begin))
    process.join()
    return statistics.median(times)


def main() -> None:
    """Print all figures."""
    print("processor time, µs")
    us = processor_us(lambda: call_with_asyncio(100, 50_000))
    print(f"  asyncio, a call, 100 at a time: {us:.2f}")
    for name, work in (("encode and pack", send_bodies), ("read and decode", receive_bodies)):
        for number in (100, 1000):
            us = processor_us(lambda work=work, number=number: work(number, 10_000 // number))
            print(f"  10 KB, {name}, {number:,} at a time: {us:.2f}")
    print(f"  a job for 8 threads: {processor_us(lambda: hand_to_threads(8, 50_000)):.2f}")
    print(f"  a job for 8 tasks: {processor_us(lambda: hand_to_tasks(8, 50_000)):.2f}")
    ideal = SLEEPERS / SLEEP_SECONDS
    print(f"sleeps of 5 ms, 8 at a time, of {ideal:,.0f} a second")
    print(f"  threads: {sleep_in_threads() / ideal:.2f}")
    print(f"  tasks: {sleep_in_tasks() / ideal:.2f}")
    with Server() as server:
        blpop = wake_up_ms(server, wait_with_blpop, "RPUSH")
        tracking = wake_up_ms(server, wait_with_tracking, "SET")
        print(f"wake-up, median: BLPOP {blpop:.2f} ms, tracking {tracking:.2f} ms")


if __name__ == "__main__":
    main()
