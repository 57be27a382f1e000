"""
A program that sends, or receives and deletes, with this library until SIGTERM.

    python -m scripts.chaos_runner.client producer|consumer threads|asyncio URL NAMESPACE FILE SEED
        RATE REPLICAS

RATE is the number of messages per second. A quarter of the sends wait for REPLICAS replicas, if
there are any. Consumers are sometimes late, extend their leases, or abandon a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import redis.exceptions as redis_errors

from rsmq import RSMQ, AsyncRSMQ, Confirm, NotReplicated, RSMQError
from tests.crowd import AwaitedClient

from .recorder import Recorder

QUEUE = "q"
VT_SECONDS = 3
#: Concurrent callers of a process.
_CALLERS = 2
_LATE_SHARE, _EXTENDED_SHARE, _ABANDONED_SHARE = 0.01, 0.05, 0.01
_DELAYED_SHARE, _DEDUPLICATED_SHARE, _CONFIRMED_SHARE = 0.05, 0.1, 0.25
#: Each of these options has a tenth of the sends; others have none of them.
_OPTION_SHARE = 0.1
_GROUPS, _LIMIT_KEYS, _UNIQUE_KEYS = 4, 4, 5
#: Some messages expire while they wait, and others never within a run.
_EXPIRY_SECONDS = (2, 3600)
_PAUSE_AFTER_ERROR_SECONDS = 0.05


def outcome_of(error: Exception) -> str:
    """Return ``error`` if the call has certainly not run, as the error says, else ``unknown``."""
    is_refusal = isinstance(error, RSMQError | redis_errors.OutOfMemoryError)
    return "error" if is_refusal else "unknown"


class Caller:
    """Calls that are recorded, until ``stops`` is set."""

    def __init__(self, recorder: Recorder, name: str, seed: str, stops: threading.Event) -> None:
        self._stops = stops
        self._recorder = recorder
        self._name = name
        self._chance = random.Random(seed)  # noqa: S311

    async def produce(self, client: AwaitedClient, part: int, rate: float, replicas: int) -> None:
        """Send messages."""
        for number in itertools.count():
            if self._stops.is_set():
                return
            begin = time.monotonic()
            await self._send(client, f"{self._name}-{part}-{number}", replicas)
            await client.sleep(max(0.0, begin + 1 / rate - time.monotonic()))

    async def _send(self, client: AwaitedClient, body: str, replicas: int) -> None:
        delay = 1 if self._chance.random() < _DELAYED_SHARE else 0
        feature = self._choose_feature()
        options: dict[str, Any] = {"delay": delay, **feature} if delay else {**feature}
        if self._chance.random() < _DEDUPLICATED_SHARE:
            options["dedup_id"] = body
        confirmed = bool(replicas) and self._chance.random() < _CONFIRMED_SHARE
        if confirmed:
            options["confirm"] = Confirm(replicas=replicas)
        op = self._recorder.begin(
            "send", body=body, delay=delay, confirmed=confirmed, repeatable="dedup_id" in options,
            **feature,
        )  # fmt: skip
        try:
            id = await client.send_message(QUEUE, body, **options)
        except NotReplicated as error:  # it is stored
            self._recorder.end(op, id=error.result, confirmed=False)
        except (redis_errors.RedisError, RSMQError) as error:
            await self._fail(client, op, error)
        else:
            self._recorder.end(op, id=id)

    def _choose_feature(self) -> dict[str, Any]:
        """Return an option of ``send_message``, or none, as the history has it."""
        number, limit_key = self._chance.randrange, self._chance.randrange(_LIMIT_KEYS)
        features: list[dict[str, Any]] = [
            {"group": f"group-{number(_GROUPS)}"},
            {"limit_key": f"limit-{limit_key}", "max_running": 1 + limit_key % 2},
            {"unique_key": f"unique-{number(_UNIQUE_KEYS)}"},
            {"expires": self._chance.choice(_EXPIRY_SECONDS)},
        ]
        turn = int(self._chance.random() / _OPTION_SHARE)
        return features[turn] if turn < len(features) else {}

    async def _fail(self, client: AwaitedClient, op: str, error: Exception) -> None:
        self._recorder.end(op, outcome_of(error), error=f"{type(error).__name__}: {error}")
        await client.sleep(_PAUSE_AFTER_ERROR_SECONDS)

    async def consume(self, client: AwaitedClient) -> None:
        """Receive and delete messages."""
        while not self._stops.is_set():
            op = self._recorder.begin("receive", vt=VT_SECONDS)
            try:
                message = await client.receive_message(QUEUE, vt=VT_SECONDS, wait=1)
            except (redis_errors.RedisError, RSMQError) as error:
                await self._fail(client, op, error)
                continue
            if message is None:
                self._recorder.end(op, id=None)
                continue
            count = message.receive_count
            self._recorder.end(op, id=message.id, body=message.body, count=count)
            await self._settle(client, message)

    async def _settle(self, client: AwaitedClient, message: Any) -> None:
        turn = self._chance.random()
        if turn < _ABANDONED_SHARE:
            return
        if turn < _ABANDONED_SHARE + _LATE_SHARE:
            await client.sleep(VT_SECONDS + 0.5)
        elif turn < _ABANDONED_SHARE + _LATE_SHARE + _EXTENDED_SHARE:
            call = client.change_message_visibility(message, VT_SECONDS)
            await self._record(client, "extend", message, call, vt=VT_SECONDS)
        await self._record(client, "delete", message, client.delete_message(message))

    async def _record(
        self, client: AwaitedClient, kind: str, message: Any, call: Coroutine[Any, Any, bool],
        **arguments: Any,
    ) -> None:  # fmt: skip
        op = self._recorder.begin(kind, id=message.id, count=message.receive_count, **arguments)
        try:
            self._recorder.end(op, done=await call)
        except (redis_errors.RedisError, RSMQError) as error:
            await self._fail(client, op, error)


def run_without_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run an async function that never suspends, because its client blocks."""
    with contextlib.suppress(StopIteration):
        work.send(None)


Work = Callable[[AwaitedClient, int], Coroutine[Any, Any, None]]


async def _run_tasks(work: Work, url: str, ns: str) -> None:
    async with AsyncRSMQ.from_url(url, ns=ns) as client:
        await asyncio.gather(*(work(AwaitedClient(client), part) for part in range(_CALLERS)))


def _run_threads(work: Work, url: str, ns: str) -> None:
    with RSMQ.from_url(url, ns=ns) as client:
        awaited = AwaitedClient(client)
        threads = [
            threading.Thread(target=run_without_loop, args=(work(awaited, part),))
            for part in range(_CALLERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main(*arguments: str) -> None:
    """Run until SIGTERM."""
    role, kind, url, ns, path, seed, rate, replicas = arguments
    stops = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stops.set())  # before the file says that it is ready
    caller = Caller(Recorder(Path(path)), Path(path).stem, seed, stops)

    def work(client: AwaitedClient, part: int) -> Coroutine[Any, Any, None]:
        if role == "consumer":
            return caller.consume(client)
        return caller.produce(client, part, float(rate) / _CALLERS, int(replicas))

    if kind == "asyncio":
        asyncio.run(_run_tasks(work, url, ns))
    else:
        _run_threads(work, url, ns)


if __name__ == "__main__":
    main(*sys.argv[1:])
