"""
The writes of what a worker has counted of its calls: once a minute, and when it ends.
"""

from __future__ import annotations

import random
import time
from functools import partial

from redis.exceptions import ResponseError

from rsmq.errors.guarded_log import get_logger
from rsmq.history.call_operations import TASKS_PER_STEP, record_calls
from rsmq.history.call_records import WRITE_SECONDS
from rsmq.wire.keys import QueueKeys
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.state.call_tally import CallTally

_log = get_logger("rsmq.worker")


class CallRecorder:
    """Writes the counts of a worker. Only the loop's thread uses it."""

    def __init__(self, connection: WorkerConnection, tally: CallTally) -> None:
        self._connection = connection
        self._tally = tally
        self._late = random.uniform(0, WRITE_SECONDS)  # noqa: S311
        self._minute = self._find_minute()
        self._is_refused = False

    def _find_minute(self) -> int:
        return int((time.monotonic() + self._connection.server_ahead - self._late) // 60)

    def run(self) -> None:
        """Write what was counted in the last minute, if it is over."""
        if self._find_minute() != self._minute:
            self.write()

    def write(self) -> None:
        """Write what was counted since the last write. If a write fails, its counts are lost."""
        minute, self._minute = self._minute, self._find_minute()
        for queue, tasks in self._tally.take():
            for at in range(0, len(tasks), TASKS_PER_STEP):
                step = tasks[at : at + TASKS_PER_STEP]
                self._connection.attempt(partial(self._write_step, queue, minute, step))

    def _write_step(self, queue: QueueKeys, minute: int, tasks: list[tuple[str, bytes]]) -> None:
        try:
            self._connection.run(record_calls(queue, minute, tasks))
            self._is_refused = False
        except ResponseError as error:  # memory is full, or the user lacks a right
            if not self._is_refused:
                _log.warning("%s: the figures of its calls are not recorded: %s", queue.name, error)
            self._is_refused = True
