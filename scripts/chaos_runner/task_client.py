"""
A program that sends tasks alone, in chains and in maps, and reads the statuses of their jobs, until
SIGTERM.

    python -m scripts.chaos_runner.task_client threads|asyncio URL NAMESPACE FILE SEED RATE

RATE is the number of calls per second.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis.exceptions as redis_errors

from rsmq import RSMQ, RSMQError
from rsmq.tasks import RESULT

from .client import outcome_of, run_without_loop
from .recorder import Recorder
from .task_functions import TASK_QUEUE, declare, result_of

_CHAIN_SHARE, _LONG_CHAIN_SHARE, _MAP_SHARE = 0.2, 0.2, 0.2
_MAP_ITEMS = 3
_PAUSE_AFTER_ERROR_SECONDS = 0.05
#: The jobs whose statuses are read.
_READ_JOBS = 50


class TaskCaller:
    """Calls that are recorded, until ``stops`` is set."""

    def __init__(
        self, client: RSMQ[Any], recorder: Recorder, name: str, seed: str, stops: threading.Event,
        *, is_async: bool,
    ) -> None:  # fmt: skip
        self._tasks, self._work = declare(client, lambda *_: None)
        self._recorder = recorder
        self._name = name
        self._chance = random.Random(seed)  # noqa: S311
        self._stops = stops
        self._is_async = is_async
        self._jobs: list[Any] = []

    async def _result(self, call: Any) -> Any:
        return await call if self._is_async else call

    async def _sleep(self, seconds: float) -> None:
        await self._result((asyncio if self._is_async else time).sleep(seconds))

    async def produce(self, rate: float) -> None:
        """Send tasks, and read a status after each."""
        for number in itertools.count():
            if self._stops.is_set():
                return
            begin, text = time.monotonic(), f"{self._name}-{number}"
            turn = self._chance.random()
            if turn < _MAP_SHARE:
                await self._send_map(text)
            elif turn < _MAP_SHARE + _CHAIN_SHARE:
                await self._send_chain(text, 1)
            elif turn < _MAP_SHARE + _CHAIN_SHARE + _LONG_CHAIN_SHARE:
                await self._send_chain(text, 2)
            else:
                await self._send_chain(text, 0)
            if self._jobs:
                await self._read_status(self._chance.choice(self._jobs))
            await self._sleep(max(0.0, begin + 1 / rate - time.monotonic()))

    async def _send_chain(self, text: str, followers: int) -> None:
        """Send a task with so many tasks one after another, each with the result of the last."""
        before = text
        then = None
        for _ in range(followers):
            self._follow(result_of(before), before)
            before = result_of(before)
            task = self._work.options(then=then) if then else self._work
            then = task.signature(RESULT)
        task = self._work.options(then=then) if then else self._work
        send = task.asend if self._is_async else task.send

        async def call() -> list[Any]:
            return [await self._result(send(text))]

        await self._record([text], call)

    async def _send_map(self, text: str) -> None:
        items = [f"{text}-{number}" for number in range(_MAP_ITEMS)]
        last = f"{text}-all"
        self._follow(last, *items)
        send = self._tasks.amap if self._is_async else self._tasks.map

        async def call() -> list[Any]:
            jobs: list[Any] = await self._result(
                send(self._work, items, then=self._work.signature(last))
            )
            return jobs

        await self._record(items, call)

    def _follow(self, body: str, *after: str) -> None:
        self._recorder.write("follow", at=time.monotonic(), body=body, after=after)

    async def _record(self, texts: list[str], call: Callable[[], Any]) -> None:
        ops = [self._recorder.begin("send", body=text, queue=TASK_QUEUE) for text in texts]
        try:
            jobs = await call()
        except (redis_errors.RedisError, RSMQError) as error:
            for op in ops:
                self._end_with(op, error)
            await self._sleep(_PAUSE_AFTER_ERROR_SECONDS)
            return
        for op, job in zip(ops, jobs, strict=True):
            self._recorder.end(op, id=job.id)
        self._jobs = [*self._jobs, *jobs][-_READ_JOBS:]

    async def _read_status(self, job: Any) -> None:
        op = self._recorder.begin("job", id=job.id)
        try:
            status = await self._result(job.status())
        except (redis_errors.RedisError, RSMQError) as error:
            self._end_with(op, error)
        else:
            end_with_status(self._recorder, op, status)

    def _end_with(self, op: str, error: Exception) -> None:
        self._recorder.end(op, outcome_of(error), error=f"{type(error).__name__}: {error}")


def end_with_status(recorder: Recorder, op: str, status: Any) -> None:
    """Record that the read of a status has ended."""
    state = status.state.value
    recorder.end(op, state=state, result=status.result() if state == "succeeded" else None)


def main(*arguments: str) -> None:
    """Run until SIGTERM."""
    kind, url, ns, path, seed, rate = arguments
    stops = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stops.set())  # before the file says that it is ready
    recorder, is_async = Recorder(Path(path)), kind == "asyncio"
    with RSMQ.from_url(url, ns=ns) as client:
        caller = TaskCaller(client, recorder, Path(path).stem, seed, stops, is_async=is_async)
        work = caller.produce(float(rate))
        if is_async:
            asyncio.run(work)
        else:
            run_without_loop(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
