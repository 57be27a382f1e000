"""
The runner of operations of many messages: any number of processes have one.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Self
from weakref import WeakSet

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.operations.background_task import BackgroundTask
from rsmq.operations.plain import plain_command
from rsmq.transport.retry import code_of
from rsmq.web.audit import record_end
from rsmq.web.bulk.records import (
    OperationRecord,
    OperationState,
    change_operation,
    due_operations,
    read_operation,
)
from rsmq.web.bulk.steps import BulkStep, run_step
from rsmq.web.client import Client

_log = get_logger("rsmq.web")

#: Messages of a step.
_STEP = 200
#: Ms for which a runner has an operation after each step: longer than a step and its pause.
LEASE_MS = 15_000
#: Seconds between two looks for operations of other processes.
_POLL_SECONDS = 5.0
_PAUSE_AFTER_REFUSAL_SECONDS = 60.0
#: A step is followed by a pause three times as long: operations use a quarter of Redis's time.
_PAUSE = 3
_MAX_PAUSE_SECONDS = 1.0
#: Errors of Redis that do not pass by themselves.
_REFUSALS = {"NOPERM", "WRONGTYPE"}


class OperationRunner(BackgroundTask):
    """
    Takes the next steps of operations while its block runs.

        async with OperationRunner(queues):
            ...

    ``rsmq web`` has one, and the lifespan of ``create_app``, which servers don't run for a mounted
    application: there, put it into the lifespan of the outer one. Any number of processes may have
    one. Each operation belongs to one of them, for the time of a lease, which each step prolongs.
    If its process ends, another runner continues when the lease ends.

    It logs errors to ``rsmq.web``, and raises none.
    """

    def __init__(self, queues: Client) -> None:
        """
        Make it; nothing is read.

        Args:
            queues: an asyncio client, which stays open.
        """
        self._queues = queues
        self._owner = uuid.uuid4().hex
        self._woken = asyncio.Event()
        self._running: dict[str, asyncio.Task[bool]] = {}

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        _runners.add(self)
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        _runners.discard(self)
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await super().__aexit__()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Look for operations at once."""
        self._loop.call_soon_threadsafe(self._woken.set)

    async def _run(self) -> None:
        has_failed = False
        while True:
            seconds = _POLL_SECONDS
            self._woken.clear()
            try:
                for id in await self._queues.run(due_operations(self._queues.namespace)):
                    if id not in self._running:
                        self._running[id] = task = asyncio.create_task(self._work(id))
                        task.add_done_callback(partial(self._forget, id))
                has_failed = False
            except (RedisError, RSMQError, OSError) as error:
                if not has_failed:
                    _log.warning("operations are not taken: %s", type(error).__name__)
                has_failed = True
                if isinstance(error, ResponseError):
                    seconds = _PAUSE_AFTER_REFUSAL_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds)

    def _forget(self, id: str, task: asyncio.Task[bool]) -> None:
        self._running.pop(id, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("an operation can't be run", exc_info=error)
        elif task.result():
            self._woken.set()

    async def _work(self, id: str) -> bool:
        """
        Run an operation until it ends, is paused, or is lost to another runner.

        Returns:
            Whether it was paused; it may have been resumed since.
        """
        try:
            record = await read_operation(self._queues, id)
            if record is None:
                key = self._queues.namespace.operations
                await self._queues.run(plain_command("ZREM", key, id))
                return False
            state = await self._tell(record, "take")
            while state is OperationState.RUNNING:
                state = await self._advance(id)
        except (RedisError, RSMQError, OSError) as error:
            # It continues when the lease has ended.
            _log.warning("an operation waits: %s", type(error).__name__)
            await asyncio.sleep(_POLL_SECONDS)
            return False
        return state in {OperationState.PAUSED, OperationState.WAITING}

    async def _advance(self, id: str) -> OperationState | None:
        """Run a step and the pause behind it; None if the operation is lost to another runner."""
        record = await read_operation(self._queues, id)
        if record is None or record.state is not OperationState.RUNNING:
            return None if record is None else record.state
        try:
            step, seconds = await self._step(record)
        except (RSMQError, ResponseError) as error:
            if isinstance(error, ResponseError) and code_of(error) not in _REFUSALS:
                raise
            return await self._tell(record, "fail", error=_text_of(error))
        record = replace(
            record, cursor=step.cursor, done=record.done + step.done,
            scanned=record.scanned + step.scanned, left=record.left + step.left,
        )  # fmt: skip
        state = await self._tell(record, "advance")
        if state is not OperationState.RUNNING:
            return state
        if step.cursor is not None:
            await asyncio.sleep(seconds)
            return state
        if record.left:
            return await self._tell(record, "fail", error="queueNotFound")
        return await self._tell(record, "succeed")

    async def _step(self, record: OperationRecord) -> tuple[BulkStep, float]:
        """Run a step, and return it and the seconds until the next one."""
        rate = record.arguments.get("rate")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        step = await run_step(self._queues, record, min(rate or _STEP, _STEP))
        seconds = loop.time() - begun
        pause = min(_PAUSE * seconds, _MAX_PAUSE_SECONDS)
        # A rate limits the changes only: a step that finds nothing is followed by a pause too.
        return step, pause if rate is None else max(pause, step.done / rate - seconds)

    async def _tell(
        self, record: OperationRecord, event: str, *, error: str = ""
    ) -> OperationState | None:
        """Change the state, and return it; None if the event was not allowed."""
        changing = change_operation(
            self._queues.namespace, record, event, owner=self._owner, lease_ms=LEASE_MS, error=error
        )
        state, is_allowed = await self._queues.run(changing)
        if not is_allowed:
            return None
        if state in {OperationState.SUCCEEDED, OperationState.FAILED}:
            facts = {
                "user": record.creator,
                "address": record.address,
                "call": f"operation {record.kind.value}",
                "queue": record.queue,
                "target": record.id,
                "done": str(record.done),
            }
            if "destination" in record.arguments:
                facts["destination"] = record.arguments["destination"]
            await record_end(self._queues, facts, state.value)
        return state


#: The runners of this process.
_runners: WeakSet[OperationRunner] = WeakSet()


def wake_runners() -> None:
    """Have the runners of this process look for operations at once."""
    for each in tuple(_runners):
        with suppress(RuntimeError):  # its loop is closed
            each.wake()


def _text_of(error: RSMQError | ResponseError) -> str:
    """Return the code of an error: its text may quote values."""
    return str(getattr(error, "code", None) or code_of(error))
