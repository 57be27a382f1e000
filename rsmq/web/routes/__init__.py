"""
The table of operations.
"""

from __future__ import annotations

from rsmq.web.routes import (
    alerts,
    dead_letters,
    doctor,
    explanations,
    exports,
    hidden,
    history,
    jobs,
    message_list,
    messages,
    operations,
    outcomes,
    queue_list,
    queues,
    raw,
    receives,
    schedules,
    selections,
    subscribers,
    surroundings,
    tail,
    undo,
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
    *operations.ROUTES,
    *explanations.ROUTES,
    *hidden.ROUTES,
    *history.ROUTES,
    *schedules.ROUTES,
    *subscribers.ROUTES,
    *doctor.ROUTES,
    *surroundings.ROUTES,
    *alerts.ROUTES,
)
