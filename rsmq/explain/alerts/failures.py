"""
The rules about tasks that fail more often than before, and workers that do so than others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rsmq.explain.alerts.alert import Alert, AlertKind
from rsmq.explain.alerts.facts import AlertFacts
from rsmq.wire.workers import WorkerInfo

#: The last full minutes are compared with those of the hour before. Workers write once a minute, so
#: the last one may lack calls.
_RECENT_MINUTES = 3
#: A task fails more if so many calls of the last minutes failed, this share of them, and if that is
#: so many times the share before. Of fewer calls before, that is not known.
_MIN_FAILED, _MIN_SHARE, _TIMES, _MIN_CALLS = 10, 0.04, 2, 50
#: A worker fails more than the others of its queue if its share is so many times as large, and so
#: many of its calls failed.
_OF_OTHERS, _MIN_WORKER_FAILED = 2, 5
#: It has an alert of its own from this share on, if that is so many times that of the others, for
#: so long after its last failure.
_MIN_WORKER_SHARE, _FAR_OF_OTHERS, _RECENT_FAILURE_MS = 0.1, 4, 3_600_000


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
        if sum(task.failed_by_step[-1 - _RECENT_MINUTES :]) < _MIN_FAILED:
            continue  # as of nearly all tasks
        found = compare_failures(task.calls_by_step, task.failed_by_step)
        if not found.are_more:
            continue
        name = f"Task {task.task} of {task.queue}" if task.task else f"The handler of {task.queue}"
        worst = _find_worst(task.queue, facts.workers)
        yield Alert(
            AlertKind.FAILING, "warn", f"{task.queue}/{task.task}" if task.task else task.queue,
            f"{name} fails more often: {found.share:.0%} of its calls, before "
            f"{found.share_before:.0%}.",
            f"In the last {_RECENT_MINUTES} minutes {found.failed:,} of {found.calls:,} calls "
            f"failed, in the hour before {found.failed_before:,} of {found.calls_before:,}."
            f"{'' if worst is None else _accuse(worst, task.queue)}",
            task.start_ms + found.began * task.step * 1000, task.queue,
            worker=None if worst is None else worst.worker.name,
        )  # fmt: skip


def find_failing_workers(facts: AlertFacts) -> Iterator[Alert]:
    """
    Find workers that fail far more often than the others of a queue, as one with a new version.

    They may have few calls, so that their queue does not fail more often.
    """
    named = {each.worker for each in find_failing_tasks(facts)}
    for queue in sorted({name for each in facts.workers for name in each.outcomes}):
        worst = _find_worst(queue, facts.workers)
        if worst is None or worst.worker.name in named:
            continue
        failure = worst.worker.failures.get(queue)
        if failure is None or facts.now_ms - failure.at_ms > _RECENT_FAILURE_MS:
            continue
        least = max(_MIN_WORKER_SHARE, _FAR_OF_OTHERS * worst.others_share)
        if worst.share < least or worst.others_calls < _MIN_CALLS:
            continue
        named.add(worst.worker.name)
        yield Alert(
            AlertKind.FAILING_WORKER, "warn", worst.worker.name,
            f"Worker {worst.worker.name} fails more often than the others of {queue}: "
            f"{worst.share:.0%} of its calls, the others {worst.others_share:.0%}.",
            f"Since its start {worst.failed:,} of {worst.calls:,} calls failed, of the others "
            f"{worst.others_failed:,} of {worst.others_calls:,}.{_advise(worst.worker, queue)}",
            worst.worker.since_ms, queue, worker=worst.worker.name,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorstWorker:
    """The worker of a queue that fails the most: its calls of it, and those of the others."""

    worker: WorkerInfo
    calls: int
    failed: int
    others_calls: int
    others_failed: int

    @property
    def share(self) -> float:
        return self.failed / max(self.calls, 1)

    @property
    def others_share(self) -> float:
        return self.others_failed / max(self.others_calls, 1)


def _find_worst(queue: str, workers: Sequence[WorkerInfo]) -> WorstWorker | None:
    """Return which worker of a queue fails more than all others together; None without one."""
    of_queue = [each for each in workers if each.alive and any(each.outcomes.get(queue, ()))]
    if len(of_queue) < 2:  # noqa: PLR2004 - it is compared with others
        return None
    handled, failed = (sum(each.outcomes[queue][at] for each in of_queue) for at in (0, 1))
    worker = max(of_queue, key=lambda each: each.outcomes[queue][1] / sum(each.outcomes[queue]))
    own_handled, own_failed = worker.outcomes[queue]
    own, others_failed = own_handled + own_failed, failed - own_failed
    worst = WorstWorker(worker, own, own_failed, handled + failed - own, others_failed)
    is_clear = own_failed >= _MIN_WORKER_FAILED and worst.share >= _OF_OTHERS * worst.others_share
    return worst if is_clear else None


def _accuse(worst: WorstWorker, queue: str) -> str:
    return (
        f" Of its workers {worst.worker.name} fails the most: {worst.share:.0%} of its calls since "
        f"its start, the others {worst.others_share:.0%}.{_advise(worst.worker, queue)}"
    )


def _advise(worker: WorkerInfo, queue: str) -> str:
    """Return the last error of a worker, and what to do. The text of an error may quote a body."""
    failure = worker.failures.get(queue)
    error = "" if failure is None else f" Its last error is {failure.kind}."
    return (
        f"{error} If it runs a new version, stop {worker.name}. If its supervisor starts it again "
        "with the same version, take the version back."
    )
