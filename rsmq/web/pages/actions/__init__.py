"""
The table of actions.
"""

from __future__ import annotations

from rsmq.web.pages.actions import (
    activity,
    dead_letters,
    doctor,
    matching,
    messages,
    queues,
    schedules,
    webhooks,
    workers,
)
from rsmq.web.pages.actions.form import PageAction

ACTIONS: tuple[PageAction, ...] = (
    *queues.ACTIONS,
    *messages.ACTIONS,
    *matching.ACTIONS,
    *dead_letters.ACTIONS,
    *schedules.ACTIONS,
    *webhooks.ACTIONS,
    *doctor.ACTIONS,
    *activity.ACTIONS,
    *workers.ACTIONS,
)
