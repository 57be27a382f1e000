"""
The table of operations.
"""

from __future__ import annotations

from rsmq.web.routes import (
    alerts,
    audit,
    bulk,
    dead_letters,
    delayed,
    doctor,
    explanations,
    exports,
    history,
    jobs,
    message_list,
    messages,
    namespaces,
    outcomes,
    queue_list,
    queues,
    raw,
    receives,
    schedules,
    selections,
    subscribers,
    tail,
    undo,
    workers,
)
from rsmq.web.table import Route

#: All operations of the API, in the order of its documentation.
TABLE: tuple[Route, ...] = (
    *queue_list.ROUTES,
    *queues.ROUTES,
    *messages.ROUTES,
    *message_list.ROUTES,
    *exports.ROUTES,
    *selections.ROUTES,
    *receives.ROUTES,
    *raw.ROUTES,
    *tail.ROUTES,
    *undo.ROUTES,
    *jobs.ROUTES,
    *outcomes.ROUTES,
    *dead_letters.ROUTES,
    *bulk.ROUTES,
    *explanations.ROUTES,
    *delayed.ROUTES,
    *history.ROUTES,
    *schedules.ROUTES,
    *subscribers.ROUTES,
    *doctor.ROUTES,
    *workers.ROUTES,
    *audit.ROUTES,
    *alerts.ROUTES,
    *namespaces.ROUTES,
)
