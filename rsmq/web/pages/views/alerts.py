"""
Alerts: their targets, and silences.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.pages.formats import show_number
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Figure, counted
from rsmq.web.routes.alerts import queue_of_alert
from rsmq.web.table import Scope

#: A step is late after so many milliseconds: no server sends.
_LATE_MS = 120_000


async def _show(call: PageCall) -> Mapping[str, Any]:
    """Show them; two commands."""
    sees_targets = call.may(Scope.STATS, ALL_QUEUES)
    nothing: Mapping[str, Any] = {"targets": [], "open": 0, "checked_ms": None}
    found = await call.read("/alert-targets") if sees_targets else nothing
    silences = [
        {**each, "may_end": call.may(Scope.MANAGE, queue_of_alert(each["kind"], each["subject"]))}
        for each in (await call.read("/alert-silences"))["silences"]
    ]
    targets = found["targets"]
    failing = sum(each["failures"] > 0 for each in targets)
    checked_ms = found["checked_ms"]
    return {
        "targets": targets,
        "silences": silences,
        "sees_targets": sees_targets,
        "is_late": bool(targets) and time.time() * 1000 - (checked_ms or 0) > _LATE_MS,
        "may_change": call.may(Scope.MANAGE, ALL_QUEUES),
        "example": "rsmq alerts add ops https://example.org/hooks --secret-env ALERTS_SECRET",
        "figures": [
            counted(len(targets), "target"),
            Figure("failing", show_number(failing), level="warn" if failing else ""),
            counted(found["open"], "open alert", "announced"),
            counted(len(silences), "silence"),
        ],
    }


PAGES = (PageEntry("/alerts", "alerts.html", Scope.STATS, _show, menu="Alerts"),)
