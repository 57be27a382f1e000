"""
The table of actions.
"""

from __future__ import annotations

from rsmq.web.pages.actions import queues, schedules
from rsmq.web.pages.actions.form import PageAction

ACTIONS: tuple[PageAction, ...] = (*queues.ACTIONS, *schedules.ACTIONS)
