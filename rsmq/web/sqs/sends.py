"""
The operations that send messages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from rsmq.codecs.sqs_content import SqsContent, has_only_xml_characters
from rsmq.errors import RSMQError
from rsmq.operations.arguments import digits
from rsmq.operations.messages import send_message
from rsmq.operations.sending import send_messages, send_raws, set_counted_size
from rsmq.web.bodies import BODIES
from rsmq.web.sqs import calls, digests
from rsmq.web.sqs.errors import (
    SqsError,
    as_sqs_error,
    invalid,
    invalid_value,
    missing,
    service_error,
)
from rsmq.web.sqs.message_attributes import check_attributes
from rsmq.web.sqs.queue_records import MAX_BYTES, QueueRecord

_MAX_LABEL, _MAX_DELAY, _MAX_TRACE = 128, 900, 1024
_LABEL = re.compile(f"[!-~]{{1,{_MAX_LABEL}}}")
_DEDUP_WINDOW_SECONDS = 300
_OTHER_KIND = "The request include parameter that is not valid for this queue type."


@dataclass(frozen=True, slots=True)
class NewMessage:
    """
    A message to send, checked.

    Attributes:
        size: the bytes that SQS counts.
        delay: seconds; None is the delay of the queue.
        group: of a message of a FIFO queue.
        dedup: its deduplication id here, of a message of a FIFO queue.
        system: its system attributes, for their digest.
    """

    content: SqsContent
    size: int
    delay: int | None
    group: str | None
    dedup: str | None
    system: Mapping[str, Mapping[str, Any]]


def _check(queue: QueueRecord, entry: Mapping[str, Any], *, in_batch: bool) -> NewMessage:
    body = entry.get("MessageBody")
    if not isinstance(body, str) or not body:
        raise missing("MessageBody")
    if not has_only_xml_characters(body):
        raise SqsError(
            "InvalidMessageContents",
            "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to "
            "#xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.",
        )
    delay = calls.read_number(
        entry, "DelaySeconds", 0, _MAX_DELAY, f"DelaySeconds must be >= 0 and <= {_MAX_DELAY}."
    )
    attributes = check_attributes(entry.get("MessageAttributes"))
    system = check_attributes(_with_known_names(entry.get("MessageSystemAttributes")))
    group, own_dedup, dedup = _check_order(queue, entry, body, delay, in_batch=in_batch)
    trace = system.get(_TRACE, {}).get("StringValue")
    if trace is not None and len(trace) > _MAX_TRACE:
        raise invalid(f"The {_TRACE} has more than {_MAX_TRACE} characters.")
    content = SqsContent(
        body, attributes, None if queue.is_fifo else group, own_dedup, trace
    )  # fmt: skip
    size = content.size
    if size > queue.max_bytes:
        are = "cannot be validated" if in_batch else "are invalid"
        raise invalid(
            f"One or more parameters {are}. Reason: Message must be shorter than {queue.max_bytes}"
            " bytes."
        )
    is_fifo = queue.is_fifo
    return NewMessage(
        content, size, None if is_fifo else delay, group if is_fifo else None, dedup, system
    )


_TRACE = "AWSTraceHeader"


def _with_known_names(given: Any) -> Any:
    unknown = [name for name in given if name != _TRACE] if isinstance(given, dict) else []
    if unknown:
        raise invalid(f"Message system attribute name '{unknown[0][:100]}' is invalid.")
    return given


def _check_order(
    queue: QueueRecord, entry: Mapping[str, Any], body: str, delay: int | None, *, in_batch: bool
) -> tuple[str | None, str | None, str | None]:
    """Return the group, the deduplication id that was passed, and the one that counts here."""
    group = _check_label(entry, "MessageGroupId")
    passed = _check_label(entry, "MessageDeduplicationId")
    if not queue.is_fifo:
        if passed is not None:
            raise invalid_value("MessageDeduplicationId", passed, _OTHER_KIND)
        return group, None, None
    if delay:
        raise invalid_value("DelaySeconds", delay, _OTHER_KIND)
    if group is None:
        error = missing("MessageGroupId")
        raise invalid(str(error)) if in_batch else error
    if passed is None and not queue.dedup_by_content:
        raise invalid(
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        )
    dedup = content_dedup_id(body) if passed is None else passed
    if queue.dedup_by_group:
        return group, passed, hashlib.sha256(f"{group}\0{dedup}".encode()).hexdigest()
    return group, passed, dedup


def content_dedup_id(body: str) -> str:
    """Return the deduplication id of a body."""
    return hashlib.sha256(body.encode()).hexdigest()


def _check_label(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise invalid_value(
            name, value,
            f"{name} can only include alphanumeric and punctuation characters. 1 to {_MAX_LABEL} "
            "in length.",
        )  # fmt: skip
    return value


async def _send(call: calls.SqsCall, messages: list[NewMessage]) -> list[str]:
    """Send messages with the same delay in one step, and return their ids."""
    queues, qname = call.queues, call.queue.qname
    keys = queues.namespace.queue(qname)
    bodies: list[str | bytes] = [each.content.encode() for each in messages]
    size, delay = max(each.size for each in messages), messages[0].delay
    realtime = queues.realtime
    if call.queue.is_fifo:
        options = {
            "groups": [each.group for each in messages],
            "dedup_ids": [each.dedup for each in messages],
            "dedup_window": _DEDUP_WINDOW_SECONDS,
        }
        steps = send_messages(
            queues.namespace, qname, bodies, options, codec=BODIES, realtime=realtime
        )
        operation = next(steps)  # a send with options is one step
        operation.args = (digits(size), *operation.args[1:])
        ids: list[str] = await queues.run(operation)
        return ids
    if len(messages) == 1:
        options = {} if delay is None else {"delay": delay}
        one = send_message(queues.namespace, qname, bodies[0], options, BODIES, realtime)
        set_counted_size(one, size)
        return [await queues.run(one)]
    return await queues.run_steps(
        send_raws(
            keys, [each.encode() for each in bodies if isinstance(each, str)], largest=size,
            delay=b"" if delay is None else digits(delay * 1000),
            channel=keys.channel if realtime else b"",
        )
    )  # fmt: skip


def _show(queue: QueueRecord, message: NewMessage, id: str) -> dict[str, Any]:
    shown = {
        "MessageId": digests.message_id(id),
        "MD5OfMessageBody": digests.md5(message.content.body.encode()),
    }
    for name, attributes in (
        ("MD5OfMessageAttributes", message.content.attributes),
        ("MD5OfMessageSystemAttributes", message.system),
    ):
        if attributes:
            shown[name] = digests.md5_of_attributes(attributes)
    if queue.is_fifo:
        shown["SequenceNumber"] = digests.sequence_number(id)
    return shown


async def send_one(call: calls.SqsCall) -> calls.SqsAnswer:
    """Send a message, in one atomic step."""
    message = _check(call.queue, call.parameters, in_batch=False)
    (id,) = await _send(call, [message])
    return calls.SqsAnswer(_show(call.queue, message, id))


async def send_batch(call: calls.SqsCall) -> calls.SqsAnswer:
    """
    Send up to ten messages; those that are not valid fail alone.

    Messages with the same delay are sent in one atomic step. If one of several steps fails, its
    messages do.
    """
    entries = calls.read_entries(call.parameters, "SendMessageBatch")
    total = sum(map(_size_of_entry, entries))
    if total > MAX_BYTES:
        raise service_error(
            "BatchRequestTooLong",
            f"Batch requests cannot be longer than {MAX_BYTES} bytes. You have sent "
            + str(total)
            + " bytes.",
        )
    good: dict[str, NewMessage] = {}
    failed = []
    for entry in entries:
        try:
            good[entry["Id"]] = _check(call.queue, entry, in_batch=True)
        except SqsError as error:
            if call.queue.is_fifo and entry.get("MessageGroupId") is None:
                raise
            failed.append(calls.failed_entry(entry["Id"], error))
    shown: dict[str, dict[str, Any]] = {}
    for delay in dict.fromkeys(each.delay for each in good.values()):
        chosen = {id: each for id, each in good.items() if each.delay == delay}
        try:
            ids = await _send(call, list(chosen.values()))
        except (RSMQError, RedisError, OSError) as error:
            if not shown:
                raise
            failed += [calls.failed_entry(id, as_sqs_error(error)) for id in chosen]
            continue
        for (entry_id, message), id in zip(chosen.items(), ids, strict=True):
            shown[entry_id] = {"Id": entry_id, **_show(call.queue, message, id)}
    return calls.batch_answer([shown[id] for id in good if id in shown], failed)


def _size_of_entry(entry: Mapping[str, Any]) -> int:
    body, attributes = entry.get("MessageBody"), entry.get("MessageAttributes")
    size = len(body.encode()) if isinstance(body, str) else 0
    try:
        return size + SqsContent("", check_attributes(attributes)).size if attributes else size
    except SqsError:
        return size
