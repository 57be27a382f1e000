"""
The doctor: faults of the server and of the queues, with what repairs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Figure, counted
from rsmq.web.routes.doctor import FindingJson, ReportJson
from rsmq.web.routes.queue_list import QueuesJson
from rsmq.web.table import Scope

#: Names of queues that the field offers.
_NAMES = 100
_LEVELS = {"error": "bad", "warning": "warn", "note": "plain"}


@dataclass(frozen=True, slots=True)
class DoctorPage:
    """
    The form of an examination, with its result.

    Attributes:
        names: of queues, for the form.
        findings: the worst first, each with its level.
        safe: how many have a safe repair.
    """

    queue: str
    names: list[str]
    report: ReportJson | None = None
    findings: Sequence[tuple[str, FindingJson]] = ()
    figures: Sequence[Figure] = ()
    safe: int = 0


async def _show(call: PageCall) -> DoctorPage:
    """Show the form; with ``examine`` in the address, examine: this reads every message."""
    queue = call.query.get("queue", "").strip()
    sees_queues = call.may(Scope.STATS, None)
    listed = (await call.read(QueuesJson, limit=_NAMES))["queues"] if sees_queues else []
    names = [each["name"] for each in listed]
    if "examine" not in call.query:
        return DoctorPage(queue, names)
    report = await call.read(ReportJson, queue=queue or None)
    findings = sorted(report["findings"], key=lambda each: list(_LEVELS).index(each["severity"]))
    by_level = [(_LEVELS[each["severity"]], each) for each in findings]
    safe = sum(each["safe"] for each in findings)
    return DoctorPage(queue, names, report, by_level, _figures(report), safe)


def _figures(report: ReportJson) -> list[Figure]:
    counts = Counter(each["severity"] for each in report["findings"])
    return [
        *(
            counted(counts[kind], kind, level=level if counts[kind] else "")
            for kind, level in (("error", "bad"), ("warning", "warn"), ("note", ""))
        ),
        counted(report["queues"], "queue", "examined"),
        counted(report["messages"], "message", "read"),
    ]


PAGES = (PageEntry("/doctor", "doctor.html", Scope.PEEK, _show, menu="Doctor", refreshes=False),)
