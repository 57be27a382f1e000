"""
The evidence on a message that may crash its workers, as the overview says it.
"""

from __future__ import annotations

from rsmq.web.pages.table import PageCall
from rsmq.web.routes.alerts import AlertJson, AlertsJson
from rsmq.web.table import Scope

#: The text about messages without a stored reason, before they are sent again.
UNKNOWN_ENDS = (
    "It is not stored how the receives of such messages ended. If workers died with them in "
    "flight, they may crash their workers again: find out why before you redrive them."
)


async def read_crash_loop(call: PageCall, queue: str) -> AlertJson | None:
    """
    Return the alert of workers that die again and again, if its suspect is in a queue; else None.

    It takes what the overview does, so it is for pages of messages that are suspicious.
    """
    if not call.may(Scope.STATS, None):
        return None
    alerts = (await call.read(AlertsJson))["alerts"]
    return next(
        (
            each
            for each in alerts
            if each["kind"] == "crash-loop" and each["message"] and each["queue"] == queue
        ),
        None,
    )
