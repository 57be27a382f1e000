"""
Move tasks: redrives of dead-letter queues, which are operations of many messages of the server.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from rsmq.web.bulk.manager import OperationManager, OperationRequest
from rsmq.web.bulk.records import OperationKind, OperationRecord, OperationState
from rsmq.web.sqs.calls import SqsAnswer, SqsCall, read_number
from rsmq.web.sqs.errors import SqsError, invalid, missing
from rsmq.web.sqs.names import to_stored
from rsmq.web.sqs.queue_records import QueueRecord
from rsmq.web.sqs.queues import find_names
from rsmq.web.table import Scope

_MAX_RATE, _MAX_RESULTS = 500, 10
_STATUS = {
    OperationState.WAITING: "RUNNING",
    OperationState.RUNNING: "RUNNING",
    OperationState.PAUSED: "RUNNING",
    OperationState.SUCCEEDED: "COMPLETED",
    OperationState.FAILED: "FAILED",
    OperationState.CANCELLED: "CANCELLED",
}
_NOT_FOUND = 404


def _resource_not_found(text: str) -> SqsError:
    return SqsError("ResourceNotFoundException", text, _NOT_FOUND)


async def _find_queue(call: SqsCall, parameter: str, scope: Scope, arn: Any) -> QueueRecord:
    if not arn:
        raise missing(parameter)
    name = call.state.site.name_of_arn(parameter, arn)
    call.api.allow(scope, to_stored(name))
    try:
        return await call.state.records.find(name, fresh=True)
    except SqsError:
        raise _resource_not_found(
            f"The resource that you specified for the {parameter} parameter doesn't exist."
        ) from None


async def start(call: SqsCall) -> SqsAnswer:
    """
    Begin to move the dead letters that are visible now, to a queue or each to the one it came from.

    The task is stored in one atomic step. Any process of ``rsmq web`` runs it, in steps.
    """
    parameters = call.parameters
    source = await _find_queue(call, "SourceArn", Scope.MANAGE, parameters.get("SourceArn"))
    destination = None
    if arn := parameters.get("DestinationArn"):
        destination = (await _find_queue(call, "DestinationArn", Scope.SEND, arn)).qname
    rate = read_number(parameters, "MaxNumberOfMessagesPerSecond", 1, _MAX_RATE)
    if not await find_names(call, source.qname):
        raise invalid("Source queue must be configured as a Dead Letter Queue.")
    running = [each for each in await _tasks_of(call, source) if _STATUS[each.state] == "RUNNING"]
    if running:
        raise invalid(
            "There is already a task running. Only one active task is allowed for a source queue "
            "arn at a given time."
        )
    request = OperationRequest(
        OperationKind.REDRIVE, source.qname, destination=destination, rate=rate
    )
    request.check_rights(call.api.allow, call.api.redaction)
    record = await OperationManager(call.queues).begin(
        request, creator=call.api.caller, address=call.api.address
    )
    return SqsAnswer({"TaskHandle": _handle_of(call, source.name, record)})


async def _tasks_of(call: SqsCall, source: QueueRecord) -> list[OperationRecord]:
    """Return the redrives of a queue, the last begun first."""
    return [
        each
        for each in await OperationManager(call.queues).list()
        if each.kind is OperationKind.REDRIVE and each.queue == source.qname
    ]


def _handle_of(call: SqsCall, name: str, record: OperationRecord) -> str:
    parts = {"taskId": record.id, "sourceArn": call.state.site.arn(name)}
    return base64.b64encode(json.dumps(parts).encode()).decode()


async def list_some(call: SqsCall) -> SqsAnswer:
    """Return the last tasks of a queue, the last begun first."""
    arn = call.parameters.get("SourceArn")
    source = await _find_queue(call, "SourceArn", Scope.STATS, arn)
    number = read_number(call.parameters, "MaxResults", 1, _MAX_RESULTS) or 1
    records = (await _tasks_of(call, source))[:number]
    shown = [await _show(call, source, record) for record in records]
    return SqsAnswer({"Results": shown} if shown else {})


async def _show(call: SqsCall, source: QueueRecord, record: OperationRecord) -> dict[str, Any]:
    status, site = _STATUS[record.state], call.state.site
    shown: dict[str, Any] = {
        "Status": status,
        "SourceArn": site.arn(source.name),
        "ApproximateNumberOfMessagesMoved": record.done,
        "ApproximateNumberOfMessagesToMove": record.total,
        "StartedTimestamp": record.begun_ms,
    }
    if status == "RUNNING":
        shown["TaskHandle"] = _handle_of(call, source.name, record)
    if destination := record.arguments.get("destination"):
        shown["DestinationArn"] = site.arn(await call.state.records.name_of(destination))
    if rate := record.arguments.get("rate"):
        shown["MaxNumberOfMessagesPerSecond"] = rate
    if status == "FAILED":
        is_missing = record.error == "queueNotFound"
        reason = "AWS.SimpleQueueService.NonExistentQueue" if is_missing else str(record.error)
        shown["FailureReason"] = reason
    return shown


async def cancel(call: SqsCall) -> SqsAnswer:
    """End a task, in one atomic step; messages that it has moved stay moved."""
    handle = call.parameters.get("TaskHandle")
    if not handle:
        raise missing("TaskHandle")
    try:
        parts = json.loads(base64.b64decode(str(handle), validate=True))
        id, arn = str(parts["taskId"]), parts["sourceArn"]
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError):
        raise invalid("Value for parameter TaskHandle is invalid.") from None
    source = await _find_queue(call, "SourceArn", Scope.MANAGE, arn)
    found = [each for each in await _tasks_of(call, source) if each.id == id]
    if not found or _STATUS[found[0].state] != "RUNNING":
        raise _resource_not_found("Task does not exist.")
    record = await OperationManager(call.queues).change(found[0], "cancel")
    return SqsAnswer({"ApproximateNumberOfMessagesMoved": record.done})
