"""
Verification: compares the messages of a source with those of a queue, and changes nothing.
"""

from __future__ import annotations

import time

from rsmq.errors import SourceNotFound
from rsmq.migrate import target as target_queue
from rsmq.migrate.copier import Copier
from rsmq.migrate.report import MigrationReport
from rsmq.migrate.server import Server
from rsmq.migrate.set_aside import count_set_aside
from rsmq.migrate.sources.base import Source
from rsmq.migrate.target import ProgressCallback, ignore_progress


def verify(
    source: Source,
    queue: str,
    target: Server,
    to: str,
    *,
    tell: ProgressCallback = ignore_progress,
) -> MigrationReport:
    """
    Compare the messages that a source has with those of a queue, after a copy or a move.

    After a copy, each message of the source must be in the queue with the same body and the same
    ``expires`` and ``max_retries``, or have been consumed since. The queue must have the ``keep``
    and ``expired`` of the source; the report notes other settings that differ.

    After a move the source must have no message left, also none that is set aside. Elements of a
    list have no ids, so they can be compared only while the copy of that list is open; without it
    they count as not in the queue.

    Args:
        source: the source.
        queue: the name of the queue at the source.
        target: the target server.
        to: the name of the target queue.
        tell: is called with the progress.

    Returns:
        The report: ``before`` counts the messages that are in the queue, ``consumed`` those that
        were consumed since, ``arrived`` those that are not in the queue, ``missing`` those with
        another body, ``aside`` those that are set aside.

    Raises:
        QueueNotFound: there is no target queue.
        SourceChanged: elements were added to or removed from a list since its copy began.
    """
    began = time.monotonic()
    attributes = target.rsmq.get_queue_attributes(to)
    report = MigrationReport(f"{source.kind}:{queue}", to, "verify", dry_run=True)
    report.aside = count_set_aside(source, queue)
    try:
        found = source.look(queue)
    except SourceNotFound:
        report.note("the source has no message")
    else:
        copier = Copier(source, queue, target, report, tell)
        target_queue.note_differences(found, attributes, report)
        target_queue.note_fields(target, to, found, report)
        copier.maxsize = attributes.maxsize
        copier.total = found.total
        keys = copier.keys
        if not source.has_ids and not target_queue.has_copy_record(target, keys):
            report.note("elements of a list have no ids: without an open copy none is recognized")
        copier.preview()
    report.verified = report.has_all_schedules and not (
        report.arrived
        or report.missing
        or report.aside
        or report.other_records
        or report.lost_settings
    )
    report.seconds = time.monotonic() - began
    return report
