"""
The operations on received messages: receive, delete, change the visibility timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rsmq.codecs.sqs_content import as_xml_text, decode
from rsmq.model import Message
from rsmq.operations.operation import Operation
from rsmq.operations.plain import plain_command
from rsmq.operations.replies import parse_reason
from rsmq.web.delivery import release
from rsmq.web.routes.receives import receive
from rsmq.web.sqs import calls, digests
from rsmq.web.sqs.errors import SqsError, invalid_value, missing
from rsmq.web.sqs.message_attributes import choose_attributes
from rsmq.web.sqs.names import from_stored
from rsmq.web.sqs.operations import Settled, settle_leased
from rsmq.web.sqs.queue_records import MAX_WAIT
from rsmq.web.sqs.sends import content_dedup_id
from rsmq.wire.names import encode_name

_MAX_MESSAGES, _MAX_VT = 10, 43_200
_VT = f"VisibilityTimeout must be >= 0 and <= {_MAX_VT}."


async def receive_messages(call: calls.SqsCall) -> calls.SqsAnswer:
    """
    Receive up to ten messages, in one atomic step, and wait for the first one.

    A client that leaves gets none: what was received for it is released.
    """
    parameters, queue = call.parameters, call.queue
    number = calls.read_number(parameters, "MaxNumberOfMessages", 1, _MAX_MESSAGES)
    reason = f"Must be >= 0 and <= {MAX_WAIT}, if provided."
    wait = calls.read_number(parameters, "WaitTimeSeconds", 0, MAX_WAIT, reason)
    vt = calls.read_number(parameters, "VisibilityTimeout", 0, _MAX_VT, _VT)
    if wait is None:
        wait = queue.wait
    values: dict[str, Any] = {"wait": wait, "extend_groups": queue.is_fifo}
    values |= {} if vt is None else {"vt": vt}
    names = {
        *calls.read_texts(parameters, "AttributeNames"),
        *calls.read_texts(parameters, "MessageSystemAttributeNames"),
    }
    wanted = calls.read_texts(parameters, "MessageAttributeNames")
    await call.state.receipts.open()
    received = await receive(replace(call.api, values=values), [queue.qname], number or 1)
    if not received:
        return calls.SqsAnswer({})
    try:
        others = await _find_others(call, received, names)
        shown = [_show(call, each, names, wanted, others.get(each.id, {})) for each in received]
    except BaseException:
        await release(call.queues, received)
        raise
    return calls.SqsAnswer({"Messages": shown}, tuple(received))


async def _find_others(
    call: calls.SqsCall, received: list[Message[Any]], names: set[str]
) -> dict[str, dict[str, str]]:
    """Return by id the system attributes that are stored beside messages, in a command for each."""
    keys = call.queues.namespace.queue(call.queue.qname)
    found: dict[str, dict[str, str]] = {each.id: {} for each in received}
    for name, key, show, is_possible in (
        ("MessageGroupId", keys.group_of, _show_group, call.queue.is_fifo),
        ("DeadLetterQueueSourceArn", keys.reasons, _show_source, bool(call.queue.stored)),
    ):
        if is_possible and names & {"All", name}:
            reading: Operation[list[bytes | None]] = plain_command(
                "HMGET", key, *(encode_name(each.id) for each in received)
            )
            stored = await call.queues.run(reading)
            for message, record in zip(received, stored, strict=True):
                if record is not None and (shown := show(call, record)):
                    found[message.id][name] = shown
    return found


def _show_group(_: calls.SqsCall, record: bytes) -> str:
    return as_xml_text(record.partition(b":")[2].decode(errors="replace"))


def _show_source(call: calls.SqsCall, record: bytes) -> str:
    reason = parse_reason(record)
    if reason is None:
        return ""
    return call.state.site.arn(from_stored(reason.queue, fifo=call.queue.is_fifo))


def _show(
    call: calls.SqsCall,
    message: Message[Any],
    names: set[str],
    wanted: list[str],
    others: Mapping[str, str],
) -> dict[str, Any]:
    content = decode(message.raw)
    attributes = choose_attributes(content.attributes, wanted)
    shown: dict[str, Any] = {
        "MessageId": digests.message_id(message.id),
        "ReceiptHandle": call.state.receipts.sign(message),
        "MD5OfBody": digests.md5(content.body.encode()),
        "Body": content.body,
    }
    if names:
        system = {
            "SenderId": call.state.site.account,
            "SentTimestamp": message.sent_ms and str(int(message.sent_ms)),
            "ApproximateReceiveCount": str(message.receive_count),
            "ApproximateFirstReceiveTimestamp": message.first_received_ms
            and str(message.first_received_ms),
            "MessageGroupId": content.group,
            "AWSTraceHeader": content.trace,
            **others,
        }
        if call.queue.is_fifo:
            system["MessageDeduplicationId"] = content.dedup_id or content_dedup_id(content.body)
            system["SequenceNumber"] = digests.sequence_number(message.id)
        chosen = {
            name: value
            for name, value in system.items()
            if value and ("All" in names or name in names)
        }
        if chosen:
            shown["Attributes"] = chosen
    if attributes:
        shown["MessageAttributes"] = attributes
        shown["MD5OfMessageAttributes"] = digests.md5_of_attributes(attributes)
    return shown


async def _settle(
    call: calls.SqsCall, receipts: list[Message[bytes]], vt: int | None
) -> list[Settled]:
    """Delete messages, or hide them for ``vt`` seconds, in one atomic step."""
    queues = call.queues
    if call.queue.is_fifo:
        operation = settle_leased(queues.namespace, call.queue.qname, receipts, vt)
        settled: list[Settled] = await queues.run(operation)
        return settled
    if vt is None:
        await queues.delete_messages(receipts)
        return [Settled.DONE] * len(receipts)
    done = set(await queues.change_messages_visibility(receipts, vt))
    return [Settled.DONE if each.id in done else Settled.GONE for each in receipts]


def _refusal(handle: Any, settled: Settled, vt: int | None) -> SqsError | None:
    """Return the error of a message that was not settled; a delete of one that is gone has none."""
    if settled is Settled.DONE or (settled is Settled.GONE and vt is None):
        return None
    if settled is Settled.EXPIRED:
        return invalid_value("ReceiptHandle", handle, "The receipt handle has expired.")
    return invalid_value(
        "ReceiptHandle", handle,
        "Message does not exist or is not available for visibility timeout change.",
    )  # fmt: skip


async def _settle_one(call: calls.SqsCall, vt: int | None) -> calls.SqsAnswer:
    handle = call.parameters.get("ReceiptHandle")
    await call.state.receipts.open()
    receipt = call.state.receipts.read(call.queue.qname, handle)
    (settled,) = await _settle(call, [receipt], vt)
    if (error := _refusal(handle, settled, vt)) is not None:
        raise error
    return calls.NOTHING


async def _settle_batch(
    call: calls.SqsCall, operation: str, vt_of: Callable[[Mapping[str, Any]], int | None]
) -> calls.SqsAnswer:
    entries = calls.read_entries(call.parameters, operation)
    await call.state.receipts.open()
    receipts: dict[str, tuple[Message[bytes], int | None]] = {}
    errors: dict[str, SqsError] = {}
    for entry in entries:
        try:
            receipt = call.state.receipts.read(call.queue.qname, entry.get("ReceiptHandle"))
            receipts[entry["Id"]] = receipt, vt_of(entry)
        except SqsError as error:
            errors[entry["Id"]] = error
    handles = {entry["Id"]: entry.get("ReceiptHandle") for entry in entries}
    for vt in dict.fromkeys(each for _, each in receipts.values()):
        chosen = {id: receipt for id, (receipt, its_vt) in receipts.items() if its_vt == vt}
        for id, settled in zip(chosen, await _settle(call, list(chosen.values()), vt), strict=True):
            if (refused := _refusal(handles[id], settled, vt)) is not None:
                errors[id] = refused
    successful = [{"Id": each["Id"]} for each in entries if each["Id"] not in errors]
    return calls.batch_answer(
        successful, [calls.failed_entry(id, each) for id, each in errors.items()]
    )


def _read_vt(parameters: Mapping[str, Any]) -> int:
    vt = calls.read_number(parameters, "VisibilityTimeout", 0, _MAX_VT, _VT)
    if vt is None:
        raise missing("VisibilityTimeout")
    return vt


async def delete_one(call: calls.SqsCall) -> calls.SqsAnswer:
    """Delete a message by its receipt handle, in one atomic step."""
    return await _settle_one(call, None)


async def delete_batch(call: calls.SqsCall) -> calls.SqsAnswer:
    """Delete up to ten messages by their receipt handles, in one atomic step."""
    return await _settle_batch(call, "DeleteMessageBatch", lambda _: None)


async def change_one(call: calls.SqsCall) -> calls.SqsAnswer:
    """Hide a message for a time from now, or show it, in one atomic step."""
    return await _settle_one(call, _read_vt(call.parameters))


async def change_batch(call: calls.SqsCall) -> calls.SqsAnswer:
    """Hide up to ten messages; those with the same time in one atomic step."""
    return await _settle_batch(call, "ChangeMessageVisibilityBatch", _read_vt)
