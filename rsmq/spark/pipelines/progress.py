"""
The progress of a job.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JobProgress:
    """
    The progress of a job.

    Attributes:
        job: the name of the job.
        step: the step that the job is doing.
        messages: the number of messages that it has processed.
        per_second: the messages per second of the last batch; None if unknown.
        backlog: the number of messages that are still visible in the queues that it reads; None if
            unknown.
        lost: the number of messages that it has received and whose leases were lost.
    """

    job: str
    step: str
    messages: int = 0
    per_second: float | None = None
    backlog: int | None = None
    lost: int = 0


ProgressCallback = Callable[[JobProgress], object]


def ignore_progress(_: JobProgress) -> None:
    """Do nothing: the default progress callback."""


class StreamCount:
    """A counter of the batches and messages of a stream, which reports the progress."""

    def __init__(self, job: str, report_progress: ProgressCallback) -> None:
        self._job = job
        self._report_progress = report_progress
        self._batch_ids: set[int] = set()
        self.messages = 0
        self.batches = 0
        self.lost = 0

    def add_batches(self, progresses: list[Any]) -> None:
        """Count the batches of the progress that Spark has reported, each batch once."""
        for progress in progresses:
            # Spark Connect does not have the sums of all sources.
            batch, rows = progress["batchId"], _add_up(progress, "numInputRows")
            offset = _latest_offset(progress["sources"][0])
            self.lost = max(self.lost, offset.get("lost", 0))
            if batch in self._batch_ids or not rows:
                continue
            self._batch_ids.add(batch)
            self.messages += rows
            self.batches += 1
            backlog = offset.get("backlog")
            self._report_progress(
                JobProgress(
                    self._job,
                    f"batch {batch}",
                    self.messages,
                    _add_up(progress, "processedRowsPerSecond"),
                    None if backlog is None else sum(q["visible"] for q in backlog.values()),
                    self.lost,
                )
            )


def _add_up(progress: Any, name: str) -> Any:
    return sum(source.get(name, 0) for source in progress["sources"])


def _latest_offset(source: Any) -> dict[str, Any]:
    offset = source.get("latestOffset")
    if isinstance(offset, str):
        offset = json.loads(offset)
    return offset if isinstance(offset, dict) else {}
