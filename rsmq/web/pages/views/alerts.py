"""
Alerts: their targets, and silences.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.pages.formats import show_number
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Figure, counted
from rsmq.web.routes.alerts import (
    AlertTargetJson,
    AlertTargetsJson,
    ListedSilenceJson,
    SilencesJson,
    queue_of_alert,
)
from rsmq.web.table import Scope

#: A step is late after so many milliseconds: no server sends.
_LATE_MS = 120_000


class SilenceRow(ListedSilenceJson):
    """A silence, and whether the caller may end it."""

    may_end: bool


@dataclass(frozen=True, slots=True)
class AlertsPage:
    """The targets of alerts, and the silences."""

    example: ClassVar[str] = (
        "rsmq alerts add ops https://example.org/hooks --secret-env ALERTS_SECRET"
    )
    targets: list[AlertTargetJson]
    silences: list[SilenceRow]
    sees_targets: bool
    is_late: bool
    may_change: bool
    figures: list[Figure]


async def _show(call: PageCall) -> AlertsPage:
    """Show them; two commands."""
    sees_targets = call.may(Scope.STATS, ALL_QUEUES)
    nothing: AlertTargetsJson = {"targets": [], "open": 0, "checked_ms": None}
    found = await call.read(AlertTargetsJson) if sees_targets else nothing
    silences: list[SilenceRow] = [
        {**each, "may_end": call.may(Scope.MANAGE, queue_of_alert(each["kind"], each["subject"]))}
        for each in (await call.read(SilencesJson))["silences"]
    ]
    targets = found["targets"]
    failing = sum(each["failures"] > 0 for each in targets)
    checked_ms = found["checked_ms"]
    is_late = bool(targets) and time.time() * 1000 - (checked_ms or 0) > _LATE_MS
    figures = [
        counted(len(targets), "target"),
        Figure("failing", show_number(failing), level="warn" if failing else ""),
        counted(found["open"], "open alert", "announced"),
        counted(len(silences), "silence"),
    ]
    may_change = call.may(Scope.MANAGE, ALL_QUEUES)
    return AlertsPage(targets, silences, sees_targets, is_late, may_change, figures)


PAGES = (PageEntry("/alerts", "alerts.html", Scope.STATS, _show, menu="Alerts"),)
