"""
The table of pages.
"""

from __future__ import annotations

from rsmq.web.pages.table import PageEntry
from rsmq.web.pages.views import (
    activity,
    dead_letters,
    delayed,
    doctor,
    jobs,
    message,
    messages,
    overview,
    queue,
    queues,
    tail,
    webhooks,
    workers,
)

#: All pages; those with a name in the menu are in its order.
PAGES: tuple[PageEntry, ...] = (
    *overview.PAGES,
    *queues.PAGES,
    *queue.PAGES,
    *messages.PAGES,
    *message.PAGES,
    *tail.PAGES,
    *jobs.PAGES,
    *workers.PAGES,
    *delayed.PAGES,
    *dead_letters.PAGES,
    *webhooks.PAGES,
    *doctor.PAGES,
    *activity.PAGES,
)
