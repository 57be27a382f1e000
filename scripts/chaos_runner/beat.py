"""The schedule of a run, whose messages workers send."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from rsmq import JSON, RSMQ
from rsmq.schedules.definition import StoredSchedule
from tests.nodes import wait_until

from .client import QUEUE
from .recorder import Recorder

_NAME, _EVERY_SECONDS = "beat", 0.5


class Beat:
    """A schedule that sends a message twice a second, and for each tick that was missed."""

    def __init__(self, queues: RSMQ[str]) -> None:
        """Add it."""
        self._queues = queues
        queues.schedules.add(
            _NAME, every=_EVERY_SECONDS, queue=QUEUE, body={"schedule": _NAME}, codec=JSON,
            tick_field="tick", missed="all",
        )  # fmt: skip
        stored = queues.schedules.get(_NAME)
        first = stored and stored.next_tick_at
        assert first  # noqa: S101 - it was added
        self._first = first

    def end(self, recorder: Recorder) -> None:
        """Wait until a worker has sent all that is due, remove it, and record its ticks."""
        last = datetime.now(UTC)

        def has_sent() -> StoredSchedule | None:
            stored = self._queues.schedules.get(_NAME)
            is_over = stored is not None and stored.last_tick_at and stored.last_tick_at >= last
            return stored if is_over else None

        try:
            last = wait_until(has_sent).last_tick_at
        except AssertionError:
            print("The ticks of the schedule were not sent.", flush=True)
        self._queues.schedules.remove(_NAME)
        recorder.write(
            "schedule", at=time.monotonic(), name=_NAME, every=_EVERY_SECONDS,
            first=self._first.timestamp(), last=last.timestamp(),
        )  # fmt: skip
