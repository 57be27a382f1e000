"""
The progress of a job.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """
    How far a job is.

    Attributes:
        job: the job's name.
        step: what it is doing.
        messages: how many messages it has done.
        per_second: how many it does a second, of late; None where that is not known.
        backlog: how many are still visible in the queues it reads; None where that is not known.
        lost: how many other consumers took from its lease.
    """

    job: str
    step: str
    messages: int = 0
    per_second: float | None = None
    backlog: int | None = None
    lost: int = 0


Tell = Callable[[Progress], object]


def nobody(_: Progress) -> None:
    """Whom to tell when nobody asked."""


class StreamCount:
    """Counts what a stream has done, batch by batch."""

    def __init__(self, job: str, tell: Tell) -> None:
        self._job = job
        self._tell = tell
        self._seen: set[int] = set()
        self.messages = 0
        self.batches = 0
        self.lost = 0

    def take(self, progresses: list[Any]) -> None:
        """Count the batches that Spark tells of, each once."""
        for progress in progresses:
            batch, rows = progress["batchId"], progress["numInputRows"]
            latest = _latest(progress["sources"][0])
            self.lost = max(self.lost, latest.get("lost", 0))
            if batch in self._seen or not rows:
                continue
            self._seen.add(batch)
            self.messages += rows
            self.batches += 1
            backlog = latest.get("backlog")
            self._tell(
                Progress(
                    self._job,
                    f"batch {batch}",
                    self.messages,
                    progress.get("processedRowsPerSecond"),
                    None if backlog is None else sum(q["visible"] for q in backlog.values()),
                    self.lost,
                )
            )


def _latest(source: Any) -> dict[str, Any]:
    latest = source.get("latestOffset")
    if isinstance(latest, str):
        latest = json.loads(latest)
    return latest if isinstance(latest, dict) else {}
