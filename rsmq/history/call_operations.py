"""
Operations on the figures of handler calls: record what a worker has counted, and read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rsmq.control.operations import list_workers, parse_workers
from rsmq.errors import InvalidFormat, RSMQError
from rsmq.history.call_records import (
    CALL_SPANS,
    CallCounts,
    CallSpan,
    TaskFigures,
    make_figures,
    parse_counts,
)
from rsmq.history.operations import load, parse_created
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, Steps, on_keys
from rsmq.operations.queues import list_queues_in_steps
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name, encode_name

#: Bytes of the records of a queue, beyond which further ones have no distributions.
MAX_CALL_BYTES = 4 * 1024 * 1024
#: Tasks that one script records.
TASKS_PER_STEP = 10
#: Queues that one script reads without steps of time, and tasks with them.
QUEUES_PER_STEP, _TASKS_READ_PER_STEP = 150, 50


def record_calls(
    queue: QueueKeys,
    minute: int,
    tasks: Iterable[tuple[str, bytes]],
    *,
    limit: int = MAX_CALL_BYTES,
) -> Operation[int]:
    """
    Add what a worker has counted to the figures of a queue.

    Args:
        minute: Unix minutes; the script takes at most the present one, and at least the one before.
        tasks: the names of tasks, and what ``CallCounts.pack`` returns of each.
        limit: bytes beyond which records have no distributions.

    Returns:
        The number of tasks; 0 if the queue does not exist.
    """
    words = [word for name, record in tasks for word in (encode_name(name), record)]
    return Operation(
        load("record_calls"),
        (queue.hash, queue.calls, queue.call_times),
        (digits(minute), digits(limit), *words),
        int,
        RetryClass.NEVER,  # a second run would count twice
        (queue.name,),
    )


class StoredCalls(NamedTuple):
    """
    The stored figures of a task.

    Attributes:
        total: what was counted since its first call.
        steps: the times of the steps, in the unit of the span, and what was counted in each.
    """

    total: CallCounts
    steps: list[tuple[int, CallCounts]]


class CallRecords(NamedTuple):
    """
    The records of a queue.

    Attributes:
        created: when the queue was created, Unix seconds.
        tasks: of each task its name, its record since the first call, and those of steps.
    """

    created: int
    tasks: list[tuple[str, bytes, Sequence[bytes]]]


def read_records(
    queues: Sequence[QueueKeys], steps: Sequence[str] = (), *, last: int = -1
) -> Operation[tuple[int, dict[str, CallRecords]]]:
    """
    Read the present Unix minute, and the records of the tasks of queues by the queues' names.

    Args:
        steps: the prefixes of the fields of the steps that are read.
        last: the last byte that is read of each record since the first call; -1 reads all.
    """

    def parse(reply: Any) -> tuple[int, dict[str, CallRecords]]:
        found = {}
        for keys, (created, *tasks) in zip(queues, reply[1:], strict=True):
            names = map(decode_name, tasks[::3])
            records = list(zip(names, tasks[1::3], tasks[2::3], strict=True))
            found[keys.name] = CallRecords(parse_created(created), records)
        return int(reply[0]), found

    return on_keys(
        load("read_calls"),
        tuple(
            key
            for keys in queues
            for key in (keys.hash, keys.calls, *([keys.call_times] if steps else []))
        ),
        (digits(last), *(each.encode() for each in steps)),
        parse,
    )


def _parse_calls(
    minute: int, found: Mapping[str, CallRecords], span: CallSpan | None = None
) -> Iterator[tuple[tuple[str, str], StoredCalls]]:
    begin = minute // span.minutes - span.steps + 1 if span else 0
    for queue, (created, tasks) in found.items():
        for name, record, steps in tasks:
            total = parse_counts(record, created)
            if total is not None:
                counted = (parse_counts(each, created, begin) for each in steps)
                yield (queue, name), StoredCalls(total[1], [each for each in counted if each])


def read_calls_in_steps(
    namespace: Namespace, qnames: Iterable[str], span: str = ""
) -> Steps[tuple[int, dict[tuple[str, str], StoredCalls]]]:
    """
    Read the figures of the tasks of queues, in steps that are atomic and take Redis about a ms.

    Args:
        qnames: the names of the queues; those that this namespace does not allow are left out.
        span: a name of ``CALL_SPANS``; empty reads what was counted since the first call only.

    Returns:
        The present Unix minute, and the figures by the names of the queue and the task.
    """
    queues = choose_queues(namespace, qnames)
    minute = 0
    found: dict[tuple[str, str], StoredCalls] = {}
    for at in range(0, len(queues), QUEUES_PER_STEP):
        minute, step = yield read_records(queues[at : at + QUEUES_PER_STEP])
        found.update(_parse_calls(minute, step))
    if span:
        chosen = CALL_SPANS[span]
        tasks = Counter(queue for queue, _ in found)
        found = {}
        for part in split_queues(queues, tasks):
            minute, step = yield read_records(part, chosen.fields)
            found.update(_parse_calls(minute, step, chosen))
    return minute, found


def choose_queues(namespace: Namespace, qnames: Iterable[str]) -> list[QueueKeys]:
    """Return the keys of queues; those that the namespace does not allow are left out."""
    queues: list[QueueKeys] = []
    for name in qnames:
        with suppress(RSMQError):
            queues.append(namespace.queue(name))
    return queues


def split_queues(
    queues: Iterable[QueueKeys], tasks: Mapping[str, int]
) -> Iterator[list[QueueKeys]]:
    """Yield queues that have tasks in parts of about 50 tasks."""
    part: list[QueueKeys] = []
    number = 0
    for each in queues:
        if tasks[each.name]:
            part.append(each)
            number += tasks[each.name]
        if number >= _TASKS_READ_PER_STEP:
            yield part
            part, number = [], 0
    if part:
        yield part


def read_task_figures(
    namespace: Namespace, qnames: Iterable[str] | None, span: str
) -> Steps[list[TaskFigures]]:
    """
    Read the figures of tasks, sorted by queue and task.

    Args:
        qnames: the names of queues; None reads all listed ones.
        span: ``1h``, ``24h``, ``7d`` or ``90d``.

    Raises:
        InvalidFormat: it is another span.
    """
    if not isinstance(span, str) or span not in CALL_SPANS:
        raise InvalidFormat("span", value=span, hint=f"It is one of {', '.join(CALL_SPANS)}.")
    names = (yield from list_queues_in_steps(namespace)) if qnames is None else list(qnames)
    _, workers = parse_workers(*(yield list_workers(namespace)))
    running: dict[tuple[str, str], int] = {}
    for worker in workers:
        for queue, tasks in worker.calls.items() if worker.alive else ():
            for task, number in tasks.items():
                running[queue, task] = running.get((queue, task), 0) + number
    minute, found = yield from read_calls_in_steps(namespace, names, span)
    shown = {*found, *(each for each in running if each[0] in set(names) and minute)}
    nothing = StoredCalls(CallCounts(), [])
    return [
        make_figures(
            name, CALL_SPANS[span], minute, found.get(name, nothing).steps, running.get(name, 0)
        )
        for name in sorted(shown)
    ]
