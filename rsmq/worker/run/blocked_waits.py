"""
Handlers that wait for a job which their own worker can't begin before they end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

from rsmq.errors.guarded_log import get_logger
from rsmq.jobs.before_wait import checks
from rsmq.worker.listener import Listener
from rsmq.worker.run.invoke import current_job
from rsmq.worker.state.lane import Lane

_log = get_logger("rsmq.worker")


def note_blocked_queues(
    lanes: Iterable[Lane], listeners: Collection[Listener], concurrency: int
) -> None:
    """
    Set the queues whose messages have to wait for each running call of a lane.

    Args:
        listeners: all listeners of the worker.
        concurrency: the worker's maximum number of concurrent calls.
    """
    for lane in chain.from_iterable(each.parts for each in lanes):
        own = lane.listener
        if concurrency == 1:
            lane.blocked_queues = frozenset(each.queue for each in listeners)
        elif own.concurrency == 1:  # levels share it
            lane.blocked_queues = frozenset(
                each.queue for each in listeners if each.declared_queue == own.declared_queue
            )


def warn_if_blocked(queues: Collection[str]) -> None:
    """Warn once for each listener if the running handler waits for a job that it keeps waiting."""
    job = current_job.get()
    if job is None:
        return
    blocked = job.lane.blocked_queues.intersection(queues)
    if blocked:
        job.lane.blocked_queues = frozenset()
        _log.warning(
            "%s %s: its handler waits for a job of queue %s, which has to wait for the only slot "
            "that this handler has; without another worker it waits until its time limit. Send "
            "the next task with then=, or allow more calls with concurrency=",
            job.lane.name,
            job.leases[0].id,
            ", ".join(sorted(blocked)),
        )


checks.append(warn_if_blocked)
