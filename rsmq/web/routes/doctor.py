"""
The doctor: finds faults of the queues, and repairs them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, TypedDict, TypeVar

from rsmq.doctor.catalogue import OPT_IN_REPAIRS
from rsmq.doctor.examination import examine
from rsmq.doctor.finding import Finding
from rsmq.doctor.repairer import Repair, repair
from rsmq.errors import InvalidFormat, QueueNotFound, show_all
from rsmq.operations.queues import list_queues_in_steps
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.blocking import in_thread
from rsmq.web.fields import Field, Refused, Shape
from rsmq.web.routes.forms import may, show_as
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope

T = TypeVar("T")

#: There is one examination at a time: it reads every message.
_EXAMINING = threading.Lock()


class FindingJson(TypedDict):
    """A fault that the doctor has found."""

    code: Annotated[str, "Its name."]
    severity: Annotated[str, "error, warning or note."]
    queue: Annotated[str | None, "Its queue; null of the server."]
    text: Annotated[str, "It in a sentence."]
    number: Annotated[int, "How often it was found."]
    examples: Annotated[list[str], "Some ids."]
    cause: Annotated[str, "Where it comes from."]
    harm: Annotated[str, "Its harm."]
    remedy: Annotated[str, "Its remedy."]
    safe: Annotated[bool, "Whether a repair loses nothing."]
    ways: Annotated[list[str], "Repairs that need a decision."]


class ReportJson(TypedDict):
    """An examination."""

    queues: Annotated[int, "Examined queues."]
    messages: Annotated[int, "Messages in them."]
    findings: Annotated[list[FindingJson], "As rsmq doctor --json has them."]


async def _alone(call: ApiCall, work: Callable[[Any], T]) -> T:
    """Return the result of a function of a client, of which there is one at a time."""

    def run(client: Any) -> T | None:
        if not _EXAMINING.acquire(blocking=False):
            return None
        try:
            return work(client)
        finally:
            _EXAMINING.release()

    result = await in_thread(call.queues, run)
    if result is None:
        raise Refused(
            "busy",
            "Another examination runs",
            status=429,
            hint="There is one at a time.",
            headers={"Retry-After": "5"},
        )
    return result


async def _examine(call: ApiCall) -> ApiAnswer[ReportJson]:
    sees_all = may(call, Scope.PEEK, ALL_QUEUES)
    if "queue" in call.values:
        call.allow(Scope.PEEK, call.values["queue"])
        names = [call.values["queue"]]
    elif sees_all:
        names = None
    else:
        listed = await call.queues.run_steps(list_queues_in_steps(call.queues.namespace))
        names = [name for name in listed if may(call, Scope.PEEK, name)]
    if names == []:
        return ApiAnswer({"queues": 0, "messages": 0, "findings": []})
    # The rights are found by commands that would write, in forms that change nothing.
    tries_commands = not call.is_read_only
    report = await _alone(
        call, lambda client: examine(client, names, tries_commands=tries_commands)
    )
    shown = [each for each in report.findings if sees_all or each.queue is not None]
    return ApiAnswer(show_as(ReportJson, report, findings=_show(shown)))


async def _repair(call: ApiCall) -> ApiAnswer:
    queue, also = call.values.get("queue"), call.values.get("also", [])
    # All queues may be repaired by those only who may repair each of them.
    call.allow(Scope.REPAIR, ALL_QUEUES if queue is None else queue)
    if also:
        call.allow(Scope.DESTROY, ALL_QUEUES if queue is None else queue)
        _check(also)
    is_dry, fixes = call.values.get("dry_run", True), call.values.get("fix", True)

    def is_chosen(finding: Finding) -> bool:
        is_wanted = (fixes and finding.safe) or bool(set(finding.ways) & set(also))
        return is_wanted and queue in {None, finding.queue}

    def work(client: Any) -> tuple[list[Finding], list[Repair], tuple[Finding, ...]]:
        report = examine(client, None if queue is None else [queue])
        chosen = list(filter(is_chosen, report.findings))
        if is_dry or not chosen:
            return chosen, [], report.findings
        repairs = repair(client, chosen, also=also)
        return chosen, repairs, _examine_again(client, queue)

    chosen, repairs, left = await _alone(call, work)
    return ApiAnswer(
        {
            "dry_run": is_dry,
            "chosen": _show(chosen),
            "repairs": list(map(_show_repair, repairs)),
            "left": _show(each for each in left if queue in {None, each.queue}),
        }
    )


def _check(also: Collection[str]) -> None:
    for name in also:
        if name not in OPT_IN_REPAIRS:
            hint = f"Repairs that must be asked for are {show_all(tuple(OPT_IN_REPAIRS))}."
            raise InvalidFormat("also", value=name, hint=hint)


def _examine_again(client: Any, queue: str | None) -> tuple[Finding, ...]:
    """Return what is there after repairs, which may have removed the queue."""
    try:
        return examine(client, None if queue is None else [queue]).findings
    except QueueNotFound:
        return ()


def _show(findings: Iterable[Finding]) -> list[FindingJson]:
    return [show_as(FindingJson, each) for each in findings]


def _show_repair(repair: Repair) -> dict[str, Any]:
    finding = repair.finding
    return {
        "code": finding.code,
        "queue": finding.queue,
        "number": repair.number,
        # The text of an error of Redis may quote what is stored.
        "error": None if repair.error is None else type(repair.error).__name__,
    }


ROUTES = (
    Route(
        "GET", "/doctor", Scope.PEEK, "Find faults of the queues, and change nothing.", _examine,
        query=(Field("queue", Shape.TEXT, "Only this queue; all by default."),),
        result=ReportJson,
    ),
    Route(
        "POST", "/doctor:repair", Scope.REPAIR, "Repair faults of the queues.", _repair,
        body=(
            Field("queue", Shape.TEXT, "Only this queue; all by default."),
            Field("dry_run", Shape.FLAG, "Whether to change nothing, and say what would be "
            "repaired; true by default."),
            Field("fix", Shape.FLAG, "Whether to do all safe repairs; true by default."),
            Field("also", Shape.TEXTS, "Repairs that need a decision, by their names in ways of "
            "the findings; they need the scope destroy too."),
        ),
        result=(
            Field("dry_run", Shape.FLAG, "Whether nothing was changed."),
            Field("chosen", Shape.OBJECTS, "The findings to repair."),
            Field("repairs", Shape.OBJECTS, "Code, queue, the number that was repaired, and "
            "the error of each."),
            Field("left", Shape.OBJECTS, "The findings that are there afterwards; a repair may "
            "reveal further ones."),
        ),
        is_long=True,
    ),
)  # fmt: skip
