"""
The table of actions.
"""

from __future__ import annotations

from rsmq.web.pages.actions import (
    activity,
    alerts,
    dead_letters,
    doctor,
    flows,
    matching,
    messages,
    queues,
    schedules,
    webhooks,
    workers,
)
from rsmq.web.pages.actions.form import PageAction

ACTIONS: tuple[PageAction, ...] = tuple(
    each
    for module in (
        queues, messages, matching, dead_letters, schedules, webhooks, doctor, activity, workers,
        flows, alerts,
    )
    for each in module.ACTIONS
)  # fmt: skip
BY_NAME = {each.name: each for each in ACTIONS}
