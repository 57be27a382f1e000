"""
The records of dead workers without a name of their own.

No successor takes over their messages, which become visible when their visibility timeouts end.
After that, the record of what such a worker had in flight is useless.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.control.operations import list_workers
from rsmq.worker.operations import forget_dead_worker

#: Seconds between two looks at the registered workers.
INTERVAL_SECONDS = 60.0
#: Maximum number of records that are deleted at once.
_RECORDS_PER_LOOK = 10


class DeadWorkers:
    """Deletes records of messages in flight, from time to time."""

    def __init__(self, rsmq: RSMQ) -> None:
        self._rsmq = rsmq
        self._next_at = 0.0
        #: The tokens of workers whose records were deleted.
        self._forgotten: set[str] = set()

    def forget(self, now: float) -> None:
        """
        Delete records, if it is time to.

        Args:
            now: monotonic seconds.
        """
        if now >= self._next_at:
            self._next_at = now + INTERVAL_SECONDS
            with suppress(ResponseError):  # a user may lack the right; then the records expire
                self._look()

    def _look(self) -> None:
        now_ms, stored = self._rsmq.run(list_workers(self._rsmq.namespace))
        workers = {name: _parse(entry) for name, entry in stored.items()}
        self._next_at += INTERVAL_SECONDS * (len(workers) // 10)  # each of them looks
        self._forgotten &= {worker.token for worker in workers.values()}
        due = [
            (name, worker)
            for name, worker in workers.items()
            if worker.delay_ms is not None
            and worker.expires_ms + worker.delay_ms <= now_ms
            and worker.token not in self._forgotten
        ]
        for name, worker in due[:_RECORDS_PER_LOOK]:
            self._forgotten.add(worker.token)
            self._rsmq.run(
                forget_dead_worker(
                    self._rsmq.namespace, name, worker.token, delay_ms=worker.delay_ms or 0
                )
            )


class _Worker(NamedTuple):
    """A registered worker; ``delay_ms`` is None if a successor may take over."""

    expires_ms: int
    token: str
    delay_ms: int | None


def _parse(entry: bytes) -> _Worker:
    expires, _, rest = entry.partition(b":")
    token, _, text = rest.partition(b":")
    try:
        delay_ms = json.loads(text).get("forget_after_ms")
        return _Worker(
            int(expires), token.decode(), delay_ms if isinstance(delay_ms, int) else None
        )
    except (ValueError, AttributeError):  # another program wrote it
        return _Worker(0, "", None)
