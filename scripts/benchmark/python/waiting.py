"""
Receivers that wait until they are woken: waiting.py PORT.

A body is the time of its send, in nanoseconds of the monotonic clock that all processes of the
machine share.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any, ClassVar

import redis
from serve import serve

from rsmq import RSMQ, AsyncRSMQ, ClientClosed

PORT = int(sys.argv[1])
URL = f"redis://127.0.0.1:{PORT}/0"
TIMEOUT_SECONDS = 60  # longer than any pause between two messages
ARRIVAL_SECONDS = 40  # longer than the time after which a lost wake-up is made good


class Receiver:
    """A receiver that records the time from send to arrival of each message."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []

    def record(self, sent: str | bytes) -> None:
        self.milliseconds.append((time.monotonic_ns() - int(sent)) / 1e6)


class Threads(Receiver):
    """``count`` threads that wait with one client."""

    def __init__(self, queue: str, count: int) -> None:
        super().__init__()
        self._queue = queue
        self._rsmq = RSMQ.from_url(URL)
        self._threads = [threading.Thread(target=self._wait) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _wait(self) -> None:
        try:
            while True:
                message = self._rsmq.receive_message(self._queue, wait=TIMEOUT_SECONDS)
                if message is not None:
                    self.record(message.body)
                    self._rsmq.delete_message(message)
        except ClientClosed:
            pass

    def stop(self) -> None:
        self._rsmq.close()
        for thread in self._threads:
            thread.join()


class Task(Receiver):
    """One asyncio task that waits, in an event loop in a thread of its own."""

    def __init__(self, queue: str, _: int) -> None:
        super().__init__()
        self._queue = queue
        self._is_stopped = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._wait(),))
        self._thread.start()

    async def _wait(self) -> None:
        async with AsyncRSMQ.from_url(URL) as rsmq:
            receive_task = asyncio.create_task(self._receive(rsmq))
            await self._is_stopped.wait()
            receive_task.cancel()

    async def _receive(self, rsmq: AsyncRSMQ) -> None:
        while True:
            message = await rsmq.receive_message(self._queue, wait=TIMEOUT_SECONDS)
            if message is not None:
                self.record(message.body)
                await rsmq.delete_message(message)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._is_stopped.set)
        self._thread.join()
        self._loop.close()


class Blpop(Receiver):
    """One thread that waits with BLPOP: the minimum cost of a wake-up."""

    def __init__(self, queue: str, _: int) -> None:
        super().__init__()
        self._queue = queue
        self._client = redis.Redis(port=PORT)
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        while (popped := self._client.blpop([self._queue], timeout=TIMEOUT_SECONDS)) and popped[1]:
            self.record(popped[1])

    def stop(self) -> None:
        redis.Redis(port=PORT).lpush(self._queue, "")
        self._thread.join()
        self._client.close()


class ReceiverService:
    """The receivers of the current slice."""

    _ways: ClassVar = {"threads": Threads, "task": Task, "blpop": Blpop}
    _receiver: Any

    def start(self, way: str, queue: str, count: int) -> dict[str, Any]:
        self._receiver = self._ways[way](queue, count)
        return {}

    def stop(self, messages: int) -> dict[str, Any]:
        """End the receivers when these messages have arrived, however slow the machine is."""
        until = time.monotonic() + ARRIVAL_SECONDS
        while len(self._receiver.milliseconds) < messages and time.monotonic() < until:
            time.sleep(0.01)
        self._receiver.stop()
        return {"milliseconds": self._receiver.milliseconds}


waiting = ReceiverService()
serve(start=waiting.start, stop=waiting.stop)
