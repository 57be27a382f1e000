"""
The dry run of a move: counts what a run would do.
"""

from __future__ import annotations

from rsmq.migrate import target as target_queue
from rsmq.migrate.ids_and_scores import make_digest
from rsmq.migrate.report import MigrationReport
from rsmq.migrate.schedules import look
from rsmq.migrate.server import Server
from rsmq.migrate.set_aside import refuse_other_target
from rsmq.migrate.sources.base import Source


def preview_move(
    source: Source,
    queue: str,
    target: Server,
    report: MigrationReport,
    maxsize: int,
    *,
    in_flight: bool,
) -> None:
    """
    Count what a run would do, without a change.

    Args:
        queue: the name of the queue at the source.
        report: the report, which gets the counts.
        maxsize: the maxsize of the target queue.
        in_flight: whether the run would move messages in flight.

    Raises:
        NotPossible: messages were set aside for another target queue.
    """
    keys = target.rsmq.namespace.queue(report.queue)
    refuse_other_target(source, queue, target, keys)
    has_record = target_queue.has_copy_record(target, keys)
    for messages in source.aside(queue):
        report.arrived += len(messages)
    for items in source.newest_first(queue):
        for item in items:
            report.found[item.state] += 1
        movable = [
            item for item in items if (in_flight or item.state != "in_flight") and not item.is_half
        ]
        bodies = [item for item in movable if item.body is not None]
        digests = [make_digest(source.kind, item.identity) for item in bodies if item.identity]
        copied = target.call("HMGET", keys.copied, *digests) if has_record and digests else []
        before = len(copied) - copied.count(None)
        report.before += before
        report.left += len(items) - len(movable)
        report.left_out += len(movable) - len(bodies)
        report.arrived += len(bodies) - before
        report.note_items(movable, maxsize)
        look(target, report, movable)
