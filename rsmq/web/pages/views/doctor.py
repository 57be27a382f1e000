"""
The doctor: faults of the server and of the queues, with what repairs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Figure, counted
from rsmq.web.table import Scope

#: Names of queues that the field offers.
_NAMES = 100
_LEVELS = {"error": "bad", "warning": "warn", "note": "plain"}


async def _show(call: PageCall) -> Mapping[str, Any]:
    """Show the form; with ``examine`` in the address, examine: this reads every message."""
    queue = call.query.get("queue", "").strip()
    sees_queues = call.may(Scope.STATS, None)
    listed = await call.read("/queues", limit=_NAMES) if sees_queues else {"queues": []}
    names = [each["name"] for each in listed["queues"]]
    if "examine" not in call.query:
        nothing: Mapping[str, Any] = {"report": None, "findings": [], "figures": [], "safe": 0}
        return {"queue": queue, "names": names, **nothing}
    report = await call.read("/doctor", queue=queue or None)
    findings = sorted(report["findings"], key=lambda each: list(_LEVELS).index(each["severity"]))
    return {
        "queue": queue,
        "names": names,
        "report": report,
        "findings": [(_LEVELS[each["severity"]], each) for each in findings],
        "figures": _figures(report),
        "safe": sum(each["safe"] for each in findings),
    }


def _figures(report: Mapping[str, Any]) -> list[Figure]:
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
