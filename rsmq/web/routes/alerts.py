"""
The alerts.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

from rsmq.explain.alerts.alert import Alert, AlertKind
from rsmq.explain.alerts.facts import dead_letter_queues
from rsmq.explain.alerts.reader import read_facts
from rsmq.explain.alerts.rules import find_alerts
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.fields import Field, Shape
from rsmq.web.removals import read_removals
from rsmq.web.routes.forms import may
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope


def _show(alert: Alert) -> dict[str, Any]:
    shown = {each.name: getattr(alert, each.name) for each in fields(alert)}
    return {**shown, "kind": alert.kind.value}


async def _list(call: ApiCall) -> ApiAnswer:
    def may_see(queue: str) -> bool:
        return may(call, Scope.STATS, queue)

    sees_audit = may(call, Scope.AUDIT, ALL_QUEUES)
    facts = await read_facts(
        call.queues,
        await call.walks.states(filter(may_see, await call.walks.names())),
        may_see,
        sees_all=may(call, Scope.STATS, ALL_QUEUES),
        read_removals=partial(read_removals, call.queues, may_see) if sees_audit else None,
    )
    targets = dead_letter_queues(facts.states.values())
    states = facts.states.values()
    return ApiAnswer(
        {
            "alerts": list(map(_show, find_alerts(facts))),
            "queues": len(states),
            "visible": sum(each.visible for each in states if each.name not in targets),
            "dead_letters": sum(each.messages for each in states if each.name in targets),
            "age_seconds": facts.age_seconds,
        }
    )


ROUTES = (
    Route(
        "GET", "/alerts", Scope.STATS, "List what is wrong with the queues, the worst first.",
        _list,
        result=(
            Field("alerts", Shape.OBJECTS, "Each has a kind ("
            f"{', '.join(each.value for each in AlertKind)}), a level (bad, warn or note), the "
            "subject, a sentence, its evidence, since when (Unix ms, or null), the queue and "
            "the message, or null, and of dead letters the sources, the queues of their policies."),
            Field("queues", Shape.WHOLE, "The queues that were looked at."),
            Field("visible", Shape.WHOLE, "Their visible messages, but for dead-letter queues."),
            Field("dead_letters", Shape.WHOLE, "The messages of dead-letter queues: those of "
            "policies, and those to which workers have moved messages."),
            Field("age_seconds", Shape.NUMBER, "How many seconds ago the queues were read."),
        ),
    ),
)  # fmt: skip
