"""
The calls of tasks in the minutes of the last hour, for one who reads them again and again.

A minute is written within the next one, so what was read of earlier minutes is kept. Only the last
minutes are read again, of the queues with a task whose figures since its first call are others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from rsmq.history.call_operations import (
    QUEUES_PER_STEP,
    CallRecords,
    choose_queues,
    read_records,
    split_queues,
)
from rsmq.history.call_records import CALL_SPANS
from rsmq.history.records import unpack_numbers
from rsmq.operations.operation import Steps
from rsmq.wire.keys import Namespace, QueueKeys

_HOUR = CALL_SPANS["1h"]
#: Bytes that the first six numbers of a record have at most: a queue, a time, and four counts.
_HEAD_BYTES = 60


@dataclass(frozen=True, slots=True)
class TaskMinutes:
    """The calls of a task by minute, with the attributes of ``TaskFigures``."""

    queue: str
    task: str
    start_ms: int
    step: int
    calls_by_step: list[int]
    failed_by_step: list[int]


class _KeptQueue(NamedTuple):
    """
    The calls of a queue that were read in a minute.

    Attributes:
        heads: of each task, the first bytes of its record since the first call.
    """

    created: int
    minute: int
    heads: dict[str, bytes]
    tasks: list[TaskMinutes]


class RecentCalls:
    """The kept calls. Each read returns what a read without them returns."""

    def __init__(self) -> None:
        self._kept: dict[str, _KeptQueue] = {}

    def read_in_steps(
        self, namespace: Namespace, qnames: Iterable[str]
    ) -> Steps[list[TaskMinutes]]:
        """
        Read the calls of the tasks of queues in the last hour, sorted by queue and task.

        Tasks without calls are among them. It takes the steps of ``read_calls_in_steps``.
        """
        queues = choose_queues(namespace, qnames)
        minute = 0
        found: dict[str, CallRecords] = {}
        for at in range(0, len(queues), QUEUES_PER_STEP):
            part = queues[at : at + QUEUES_PER_STEP]
            minute, records = yield read_records(part, last=_HEAD_BYTES)
            found |= records
        old = self._kept.items()
        kept = {name: each for name, each in old if 0 <= minute - each.minute < _HOUR.steps}
        result: dict[str, _KeptQueue] = {}
        changed: dict[int, list[QueueKeys]] = {}
        for keys in queues:
            name, (created, listed) = keys.name, found[keys.name]
            before = kept.get(name)
            if before is None or before.created != created:
                changed.setdefault(minute - _HOUR.steps + 1, []).append(keys)
            elif before.heads != _heads_of(listed):
                # A worker writes the minute before too; that read may have begun in one before.
                changed.setdefault(before.minute - 2, []).append(keys)
            elif before.minute == minute:
                result[name] = before
            else:
                tasks = _renew(name, before, found[name], minute, minute + 1)
                result[name] = before._replace(minute=minute, tasks=tasks)
        fields = _HOUR.fields
        numbers = {name: len(each.tasks) for name, each in found.items()}
        for since, chosen in changed.items():
            minutes = range(since, minute + 1)[-_HOUR.steps :]
            steps = [fields[each % _HOUR.steps] for each in minutes]
            for part in split_queues(chosen, numbers):
                _, read = yield read_records(part, steps, last=_HEAD_BYTES)
                for name, records in read.items():
                    # Calls that were written since the first read make the next one read again.
                    heads = _heads_of(found[name].tasks)
                    tasks = _renew(name, kept.get(name), records, minute, since)
                    result[name] = _KeptQueue(records.created, minute, heads, tasks)
        self._kept = kept | result  # of another read meanwhile, this one knows nothing
        return [each for name in sorted(result) for each in result[name].tasks]


def _heads_of(tasks: Iterable[tuple[str, bytes, object]]) -> dict[str, bytes]:
    return {name: record for name, record, _ in tasks}


def _renew(
    queue: str, before: _KeptQueue | None, records: CallRecords, minute: int, since: int
) -> list[TaskMinutes]:
    """Return the tasks with the kept calls of the minutes before ``since``, and with records."""
    begin = minute - _HOUR.steps + 1
    nothing = [0] * _HOUR.steps
    kept: dict[str, TaskMinutes] = {}
    first = stop = 0
    if before is not None and before.created == records.created:
        kept = {each.task: each for each in before.tasks}
        first = minute - before.minute
        stop = max(first + since - begin, first)
    tasks = []
    for name, total, steps in sorted(records.tasks):
        if _parse_head(total, records.created) is None:
            continue
        old = kept.get(name)
        calls, failed = (
            (values[first:stop] + nothing)[: _HOUR.steps]
            for values in ((old.calls_by_step, old.failed_by_step) if old else (nothing, nothing))
        )
        for head in (_parse_head(each, records.created) for each in steps):
            if head is not None and max(since, begin) <= head[0] <= minute:
                calls[head[0] - begin], failed[head[0] - begin] = head[1:]
        tasks.append(TaskMinutes(queue, name, begin * 60_000, 60 * _HOUR.minutes, calls, failed))
    return tasks


def _parse_head(record: bytes, created: int) -> Sequence[int] | None:
    """Return the time of a record, its calls and failed ones; None if it is of another queue."""
    numbers = list(islice(unpack_numbers(record), 4))
    return numbers[1:] if len(numbers) == 4 and numbers[0] == created else None  # noqa: PLR2004
