"""
The rule about tasks that fail more often than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rsmq.explain.alerts.alert import Alert, AlertKind
from rsmq.explain.alerts.facts import AlertFacts
from rsmq.history.call_records import TaskFigures
from rsmq.wire.workers import WorkerInfo

#: The last full minutes are compared with those of the hour before. Workers write once a minute, so
#: the last one may lack calls.
_RECENT_MINUTES = 3
#: A task fails more if so many calls of the last minutes failed, this share of them, and if that is
#: so many times the share before. Of fewer calls before, that is not known.
_MIN_FAILED, _MIN_SHARE, _TIMES, _MIN_CALLS = 10, 0.04, 2, 50
#: A worker fails more than the others of its queue if its share is so many times as large.
_OF_OTHERS = 2


@dataclass(frozen=True, slots=True)
class ComparedFailures:
    """
    The calls of a task and the failed ones, in the last minutes and in the hour before them.

    Attributes:
        began: the number of the minute in which more calls began to fail, if more do.
        share: of the last minutes; 0 without calls.
        share_before: of the time before.
    """

    calls: int
    failed: int
    calls_before: int
    failed_before: int
    began: int

    @property
    def share(self) -> float:
        return self.failed / max(self.calls, 1)

    @property
    def share_before(self) -> float:
        return self.failed_before / max(self.calls_before, 1)

    @property
    def are_more(self) -> bool:
        """Whether clearly more calls fail than before."""
        return (
            self.failed >= _MIN_FAILED
            and self.calls_before >= _MIN_CALLS
            and self.share >= max(_MIN_SHARE, _TIMES * self.share_before)
        )


def compare_failures(calls: Sequence[int], failed: Sequence[int]) -> ComparedFailures:
    """
    Compare the last minutes of an hour with those before.

    Args:
        calls: in each minute; the last one is not over.
        failed: those of them that failed.
    """
    at = len(calls) - 1 - _RECENT_MINUTES
    found = ComparedFailures(
        sum(calls[at:]), sum(failed[at:]), sum(calls[:at]), sum(failed[:at]), at
    )  # fmt: skip
    limit = (found.share + found.share_before) / 2
    is_high = [each / max(number, 1) >= limit for each, number in zip(failed, calls, strict=True)]
    began = next((minute for minute in range(at, len(calls)) if is_high[minute]), at)
    while began and is_high[began - 1]:
        began -= 1
    return replace(found, began=began)


def find_failing_tasks(facts: AlertFacts) -> Iterator[Alert]:
    """Find tasks that fail more often than in the hour before, as after a deploy."""
    for task in facts.tasks:
        found = compare_failures(task.calls_by_step, task.failed_by_step)
        if not found.are_more:
            continue
        name = f"Task {task.task} of {task.queue}" if task.task else f"The handler of {task.queue}"
        worst = _find_worst(task, facts.workers)
        yield Alert(
            AlertKind.FAILING, "warn", task.task or task.queue,
            f"{name} fails more often: {found.share:.0%} of its calls, before "
            f"{found.share_before:.0%}.",
            f"In the last {_RECENT_MINUTES} minutes {found.failed:,} of {found.calls:,} calls "
            f"failed, in the hour before {found.failed_before:,} of {found.calls_before:,}."
            f"{'' if worst is None else _accuse(*worst, task.queue)}",
            task.start_ms + found.began * task.step * 1000, task.queue,
            worker=None if worst is None else worst[0].name,
        )  # fmt: skip


def _find_worst(
    task: TaskFigures, workers: Sequence[WorkerInfo]
) -> tuple[WorkerInfo, float] | None:
    """Return the worker of a queue that fails more than all others, and the share of these."""
    of_queue = [each for each in workers if each.alive and task.queue in each.queues]
    worst = max(of_queue, key=share_of_failures, default=None)
    others = [each for each in of_queue if each is not worst]
    if worst is None or not others:
        return None
    failed = sum(each.failed for each in others)
    share = failed / max(sum(each.handled for each in others) + failed, 1)
    if worst.failed < _MIN_FAILED or share_of_failures(worst) < _OF_OTHERS * share:
        return None
    return worst, share


def _accuse(worst: WorkerInfo, of_others: float, queue: str) -> str:
    """Return what the worst worker of a queue does, and what to do. No text may quote a body."""
    failure = worst.failures.get(queue)
    error = "" if failure is None else f" Its last error is {failure.kind}."
    return (
        f" Of its workers {worst.name} fails the most: {share_of_failures(worst):.0%} of its calls "
        f"since its start, the others {of_others:.0%}.{error} If it runs a new version, stop "
        f"{worst.name}. If its supervisor starts it again with the same version, take the version "
        "back."
    )


def share_of_failures(worker: WorkerInfo) -> float:
    """Return which share of the calls of a worker has failed since its start."""
    return worker.failed / max(worker.handled + worker.failed, 1)
