"""
The table of actions.
"""

from __future__ import annotations

from rsmq.web.pages.actions import doctor, queues, schedules, webhooks
from rsmq.web.pages.actions.form import PageAction

ACTIONS: tuple[PageAction, ...] = (
    *queues.ACTIONS,
    *schedules.ACTIONS,
    *webhooks.ACTIONS,
    *doctor.ACTIONS,
)
