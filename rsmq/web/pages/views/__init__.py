"""
The table of pages.
"""

from __future__ import annotations

from rsmq.web.pages.table import PageEntry
from rsmq.web.pages.views import (
    activity,
    alerts,
    dead_letters,
    delayed,
    doctor,
    find,
    flow,
    jobs,
    message,
    messages,
    overview,
    queue,
    queues,
    tail,
    tasks,
    webhooks,
    workers,
)

#: All pages; those with a name in the menu are in its order.
PAGES: tuple[PageEntry, ...] = tuple(
    each
    for module in (
        overview, queues, queue, messages, message, tail, tasks, jobs, workers, flow, delayed,
        dead_letters, webhooks, alerts, doctor, activity,
        find,
    )
    for each in module.PAGES
)  # fmt: skip
