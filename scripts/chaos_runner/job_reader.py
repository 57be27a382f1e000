"""Reads the statuses of all jobs of a run, after its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import redis.exceptions as redis_errors

from rsmq import RSMQ, RSMQError

from .client import outcome_of
from .recorder import Recorder
from .task_client import end_with_status
from .task_functions import TASK_QUEUE


def read_jobs(queues: RSMQ[Any], folder: Path, recorder: Recorder) -> None:
    """Read and record the status of each acknowledged send of a task."""
    for path in sorted(folder.glob("*-tasks-*.jsonl")):
        for record in map(json.loads, path.read_text().splitlines()):
            if record["record"] != "end" or "id" not in record:
                continue
            op = recorder.begin("job", id=record["id"], final=True)
            try:
                status = queues.job(TASK_QUEUE, record["id"]).status()
            except (redis_errors.RedisError, RSMQError) as error:
                recorder.end(op, outcome_of(error), error=f"{type(error).__name__}: {error}")
            else:
                end_with_status(recorder, op, status)
