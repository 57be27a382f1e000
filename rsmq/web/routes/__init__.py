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
    find,
    flows,
    history,
    jobs,
    marks,
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
    task_figures,
    undo,
    workers,
)
from rsmq.web.table import Route

#: All operations of the API, in the order of its documentation.
TABLE: tuple[Route, ...] = tuple(
    each
    for module in (
        queue_list, queues, messages, message_list, exports, selections, receives, raw, tail, undo,
        jobs, outcomes, dead_letters, bulk, explanations, delayed, history, task_figures, schedules,
        subscribers, flows, doctor, workers, audit, marks, alerts, find,
        namespaces,
    )
    for each in module.ROUTES
)  # fmt: skip

#: The paths of the entries that pages read, by their answers.
PATHS: dict[type, str] = {
    each.result: each.path
    for each in TABLE
    if each.method == "GET" and isinstance(each.result, type)
}
