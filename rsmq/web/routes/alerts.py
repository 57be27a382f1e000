"""
The alerts: what is wrong, their targets, and silences.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypedDict

from rsmq.explain.alerts.alert import OF_QUEUES, Alert, AlertKind
from rsmq.explain.alerts.facts import dead_letter_queues
from rsmq.explain.alerts.reader import read_facts
from rsmq.explain.alerts.record import AlertRecord, alert_name
from rsmq.explain.alerts.record_operations import (
    end_silence_in_steps,
    read_record,
    remove_target_in_steps,
    set_target_in_steps,
    silence_in_steps,
    test_target_in_steps,
)
from rsmq.explain.alerts.rules import find_alerts
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.fields import Field, Refused, Shape, one_of
from rsmq.web.recoveries import count_visible
from rsmq.web.removals import read_removals
from rsmq.web.routes.forms import may, show_as
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import MAX_LABEL


class SilenceJson(TypedDict):
    """A time in which nothing is announced of an alert."""

    by: Annotated[str, "By whom."]
    why: Annotated[str, "Why."]
    created_ms: Annotated[int, "Since when, Unix ms."]
    until_ms: Annotated[int, "Its end, Unix ms."]


class ListedSilenceJson(SilenceJson):
    """A silence of the list."""

    kind: Annotated[str, "The kind of the alert, or all."]
    subject: Annotated[str, "Its subject."]


class SilencesJson(TypedDict):
    """The silences of alerts."""

    silences: Annotated[list[ListedSilenceJson], "Those that last."]


class AlertTargetJson(TypedDict):
    """A target of alerts, and how its last messages went."""

    name: Annotated[str, "Its name."]
    format: Annotated[str, "The format."]
    url: Annotated[str, "Its URL without path and query."]
    secret_env: Annotated[str | None, "The environment variable with its secret."]
    created_ms: Annotated[int, "When it was added, Unix ms."]
    waiting: Annotated[int, "The messages that wait."]
    answer: Annotated[str | None, "The last answer."]
    answered_ms: Annotated[int, "When it came, Unix ms; 0 if none has."]
    failures: Annotated[int, "The failures in a row."]
    failing_ms: Annotated[int, "Since when, Unix ms; 0 if none."]
    until_ms: Annotated[int, "No message is sent before, Unix ms; 0 if none waits."]
    lost: Annotated[int, "How many were given up."]
    lost_ms: Annotated[int, "When the last one was, Unix ms; 0 if none was."]


class AlertTargetsJson(TypedDict):
    """The targets of alerts."""

    targets: Annotated[list[AlertTargetJson], "By their names."]
    checked_ms: Annotated[int | None, "When a server last looked for alerts, Unix ms."]
    open: Annotated[int, "The alerts whose begin was announced, and not their end."]


class AlertJson(TypedDict):
    """Something that is wrong."""

    kind: Annotated[str, "Its kind.", one_of(*(each.value for each in AlertKind))]
    level: Annotated[str, "bad, warn or note."]
    subject: Annotated[str, "Its subject."]
    text: Annotated[str, "It in a sentence."]
    evidence: Annotated[str, "Its evidence."]
    since_ms: Annotated[int | None, "Since when, Unix ms."]
    queue: Annotated[str | None, "Its queue."]
    message: Annotated[str | None, "The id of its message."]
    sources: Annotated[list[str], "Of dead letters the queues of their policies."]
    worker: Annotated[str | None, "Of failing tasks the worker that fails the most."]
    silence: Annotated[SilenceJson | None, "Its silence."]
    announced_ms: Annotated[int | None, "When it was announced, Unix ms."]


class RecoveryJson(TypedDict):
    """An alert that has ended within ten minutes, as this server has seen it."""

    kind: Annotated[str, "Its kind.", one_of(*(each.value for each in AlertKind))]
    subject: Annotated[str, "Its subject."]
    text: Annotated[str, "Its last sentence."]
    queue: Annotated[str | None, "Its queue."]
    ended_ms: Annotated[int, "When it was gone, Unix ms."]
    waited: Annotated[int | None, "The visible messages of its queue before."]
    waits: Annotated[int | None, "Those of now."]


class AlertsJson(TypedDict):
    """The alerts, and the sums of the queues that were read for them."""

    alerts: Annotated[list[AlertJson], "The worst first."]
    recovered: Annotated[list[RecoveryJson], "Those that have ended, the last first."]
    queues: Annotated[int, "The queues that were looked at."]
    visible: Annotated[int, "Their visible messages, but for dead-letter queues."]
    dead_letters: Annotated[int, "Messages of dead-letter queues: of policies, or with reasons."]
    age_seconds: Annotated[float, "How many seconds ago the queues were read."]


def _show(record: AlertRecord, alert: Alert) -> AlertJson:
    silence = record.silence_of(alert.kind.value, alert.subject)
    announced = record.open.get(alert_name(alert))
    return show_as(
        AlertJson, alert, announced_ms=announced and announced.begun_ms,
        silence=None if silence is None else show_as(SilenceJson, silence),
    )  # fmt: skip


async def _list(call: ApiCall) -> ApiAnswer[AlertsJson]:
    def may_see(queue: str) -> bool:
        return may(call, Scope.STATS, queue)

    sees_audit = may(call, Scope.AUDIT, ALL_QUEUES)
    names = [name for name in await call.walks.names() if may_see(name)]
    facts = await read_facts(
        call.queues,
        await call.walks.states(names),
        may_see,
        sees_all=may(call, Scope.STATS, ALL_QUEUES),
        read_removals=partial(read_removals, call.queues, may_see) if sees_audit else None,
        tasks=await call.walks.tasks(names),
    )
    targets = dead_letter_queues(facts.states.values())
    states = facts.states.values()
    alerts = list(find_alerts(facts))
    if facts.sees_all:
        call.walks.recoveries.look(alerts, facts)
    return ApiAnswer(
        {
            "alerts": [_show(facts.record, each) for each in alerts],
            "recovered": [
                show_as(
                    RecoveryJson, each.alert, ended_ms=each.ended_ms, waited=each.waited,
                    waits=count_visible(facts, each.alert),
                )
                for each in call.walks.recoveries
                if each.alert.queue in facts.states or (each.alert.queue is None and facts.sees_all)
            ],
            "queues": len(states),
            "visible": sum(each.visible for each in states if each.name not in targets),
            "dead_letters": sum(each.messages for each in states if each.name in targets),
            "age_seconds": facts.age_seconds,
        }
    )  # fmt: skip


_QUEUE_KINDS = frozenset(each.value for each in OF_QUEUES)


def queue_of_alert(kind: str, subject: str) -> str:
    """Return the queue for which a caller needs a right to silence an alert; or ALL_QUEUES."""
    return subject if kind in _QUEUE_KINDS and subject else ALL_QUEUES


async def _list_targets(call: ApiCall) -> ApiAnswer[AlertTargetsJson]:
    call.allow(Scope.STATS, ALL_QUEUES)
    record = await call.queues.run(read_record(call.queues.namespace))
    targets: list[Any] = [
        {**each, "answer": each["answer"] or None} for each in record.list_targets()
    ]
    checked = record.step_ms or None
    return ApiAnswer({"targets": targets, "checked_ms": checked, "open": len(record.open)})


async def _set_target(call: ApiCall) -> ApiAnswer:
    call.allow(Scope.MANAGE, ALL_QUEUES)
    is_new = await call.queues.run_steps(
        set_target_in_steps(
            call.queues.namespace, call.names["target"],
            *(each.read(call.values) for each in _OF_TARGET),
        )
    )  # fmt: skip
    return ApiAnswer({"added": is_new}, 201 if is_new else 200)


async def _change_target(change: Any, status: int, call: ApiCall) -> ApiAnswer:
    call.allow(Scope.MANAGE, ALL_QUEUES)
    if not await call.queues.run_steps(change(call.queues.namespace, call.names["target"])):
        raise Refused("alertTargetNotFound", "There is no such target of alerts", status=404)
    return ApiAnswer(status=status)


async def _list_silences(call: ApiCall) -> ApiAnswer[SilencesJson]:
    record = await call.queues.run(read_record(call.queues.namespace))
    shown: list[Any] = [
        each
        for each in record.list_silences()
        if may(call, Scope.STATS, queue_of_alert(each["kind"], each["subject"]))
    ]
    return ApiAnswer({"silences": shown})


async def _silence(call: ApiCall) -> ApiAnswer:
    kind, subject = _find_alert(call)
    values = call.caller[:MAX_LABEL], call.values["why"], call.values["seconds"]
    made = await call.queues.run_steps(
        silence_in_steps(call.queues.namespace, kind, subject, values)
    )
    return ApiAnswer(made, 201, changes={"silence": (None, made)})


async def _end_silence(call: ApiCall) -> ApiAnswer:
    ended = await call.queues.run_steps(
        end_silence_in_steps(call.queues.namespace, *_find_alert(call))
    )
    if ended is None:
        raise Refused("silenceNotFound", "There is no such silence", status=404)
    return ApiAnswer(status=204, changes={"silence": (ended, None)})


def _find_alert(call: ApiCall) -> tuple[str, str]:
    """Return the kind and the subject of a silence that the caller may change."""
    kind, subject = call.names["kind"], call.values.get("subject", "")
    call.allow(Scope.MANAGE, queue_of_alert(kind, subject))
    return kind, subject


async def _queue_of_silence(call: ApiCall) -> str:
    queue = queue_of_alert(call.names["kind"], call.values.get("subject", ""))
    return "" if queue == ALL_QUEUES else queue


_TARGET = "/alert-targets/{target}"
_OF_TARGET = list_arguments("alerts.add")

ROUTES = (
    Route(
        "GET", "/alerts", Scope.STATS, "List what is wrong with the queues, the worst first.",
        _list,
        result=AlertsJson,
    ),
    Route(
        "GET", "/alert-targets", Scope.STATS, "List the targets of alerts.",
        _list_targets,
        result=AlertTargetsJson,
    ),
    Route(
        "PUT", _TARGET, Scope.MANAGE, "Add a target of alerts, or change it.",
        _set_target,
        body=_OF_TARGET,
        answers={201: "added", 200: "it was there"},
        result=(Field("added", Shape.FLAG, "Whether it is new."),),
    ),
    Route(
        "DELETE", _TARGET, Scope.MANAGE, "Remove a target of alerts.",
        partial(_change_target, remove_target_in_steps, 204), answers={204: "removed"},
    ),
    Route(
        "POST", f"{_TARGET}:test", Scope.MANAGE,
        "Let a server send a test alert, its begin and its end.",
        partial(_change_target, test_target_in_steps, 202),
        answers={202: "it is sent within a step; the target has the answer"},
    ),
    Route(
        "GET", "/alert-silences", Scope.STATS, "List the silences of alerts.", _list_silences,
        result=SilencesJson,
    ),
    Route(
        "PUT", "/alert-silences/{kind}", Scope.MANAGE,
        "Silence an alert, or with the kind all those of the namespace.", _silence,
        body=list_arguments("alerts.silence"),
        answers={201: "silenced"},
        result=(Field("until_ms", Shape.WHOLE, "Its end, Unix ms."),),
        queue_of=_queue_of_silence,
    ),
    Route(
        "DELETE", "/alert-silences/{kind}", Scope.MANAGE, "End a silence.", _end_silence,
        query=list_arguments("alerts.unsilence"), answers={204: "ended"},
        queue_of=_queue_of_silence,
    ),
)  # fmt: skip
