"""
The records of an export: queues and messages.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rsmq.codecs.body_fields import body_fields
from rsmq.errors import InvalidExport, InvalidFormat, RSMQError, show
from rsmq.model import QueueAttributes, StoredMessage
from rsmq.operations.restore import RestoredMessage
from rsmq.transfer import lines
from rsmq.vocabulary.queues import QUEUE_ATTRIBUTES, QueueAttribute
from rsmq.vocabulary.sends import ValueKind
from rsmq.vocabulary.stored import COPIED_FIELDS, MESSAGE_RECORDS, FoundRecord
from rsmq.wire.names import NOT_ENCODABLE, decode_name, encode_name, is_encodable
from rsmq.wire.stored import parse_time
from rsmq.wire.throttle import encode_throttle

#: The largest number of a record. Redis counts higher, but JavaScript clients can't read larger
#: integers exactly.
_LARGEST_NUMBER = 2**53


def make_queue_record(
    name: str, attributes: QueueAttributes, fields: Mapping[str, bytes]
) -> dict[str, Any]:
    """Return the record of a queue, with the other fields that a copy gets, as texts."""
    return {
        "type": lines.QUEUE,
        "queue": name,
        **{each.name: _to_json(getattr(attributes, each.name)) for each in QUEUE_ATTRIBUTES},
        **{field: decode_name(value) for field, value in fields.items()},
        "messages": attributes.messages,
    }


def _to_json(value: Any) -> Any:
    """Return the value of an attribute in a record: times are Unix seconds."""
    return int(value.timestamp()) if isinstance(value, datetime) else value


def make_message_record(
    message: StoredMessage, raw: bytes, records: Mapping[str, FoundRecord]
) -> dict[str, Any]:
    """
    Return the record of a message, without the fields that the message does not have.

    Args:
        message: the message.
        raw: its body, as it leaves its queue.
        records: those of ``MESSAGE_RECORDS`` that it has, by key.
    """
    visible_at: float | None = message.visible_at_ms
    if message.state == "held_back":  # its score is a day ahead
        visible_at = records["group_of"].due_ms if "group_of" in records else None
    record: dict[str, Any] = {
        "type": lines.MESSAGE,
        "queue": message.queue,
        "id": message.id,
        **body_fields(raw),
        "visible_at_ms": visible_at if visible_at is None or math.isfinite(visible_at) else None,
        "receive_count": message.receive_count,
    }
    if message.first_received_ms is not None:
        record["first_received_ms"] = message.first_received_ms
    if message.sent_ms is not None:
        record["sent_ms"] = message.sent_ms
    for each in MESSAGE_RECORDS:
        found = each.read(records[each.key].text) if each.key in records else {}
        record |= {value.field: found[value.name] for value in each.values if value.name in found}
    if message.reason is not None:
        record["reason"] = dataclasses.asdict(message.reason)
    return record


def parse_queue_name(line: int, record: dict[str, Any]) -> str:
    """
    Return the name of the queue of a record.

    Args:
        line: the number of the line, for the error.
        record: the record.

    Raises:
        InvalidExport: the record has no name of a queue.
    """
    return _parse_text(line, record, "queue")


def parse_attributes(line: int, record: dict[str, Any]) -> QueueAttributes:
    """
    Return the attributes of a queue, with defaults for missing fields.

    Args:
        line: the number of the line, for the error.
        record: the record of a queue.

    Raises:
        InvalidExport: a value has a wrong type or is out of range.
    """
    values = {each.name: _parse_attribute(line, record, each) for each in QUEUE_ATTRIBUTES}
    messages = int(_parse_number(line, record, "messages", low=0, high=_LARGEST_NUMBER) or 0)
    try:
        encode_throttle(values["max_running"], values["rate"])
    except RSMQError as error:
        raise InvalidExport(line, "has limits that are none", hint=str(error)) from error
    return QueueAttributes(
        **values,
        messages=messages,
        hidden_messages=0,
        visible_messages=messages,
        next_due_ms=None,
    )


def parse_fields(line: int, record: dict[str, Any]) -> dict[str, bytes]:
    """
    Return the fields of a queue that a copy gets beside its attributes, as they are stored.

    Args:
        line: the number of the line, for the error.
        record: the record of a queue.

    Raises:
        InvalidExport: a field is not a text that can be stored.
    """
    found = {}
    for each in COPIED_FIELDS:
        if record.get(each.field) not in (None, ""):
            text = _parse_text(line, record, each.field)
            if not is_encodable(text):
                raise InvalidExport(
                    line, f"has {_describe(record, each.field)}", hint=NOT_ENCODABLE
                )
            found[each.field] = encode_name(text)
    return found


def _parse_attribute(line: int, record: dict[str, Any], attribute: QueueAttribute) -> Any:
    """Return the value of an attribute; a number that a queue can't have is fitted later."""
    name, value = attribute.name, record.get(attribute.name)
    if attribute.kind is ValueKind.FLAG:
        return value is True
    choices = [each for each, _ in attribute.choices]
    is_unknown_choice = choices and value not in choices
    is_for_people = not (attribute.is_copied or attribute.is_restored)
    if value is None or is_unknown_choice or is_for_people:
        return attribute.default
    if attribute.kind is ValueKind.LABEL:
        return _parse_text(line, record, name)
    if attribute.kind in _NUMBERS:
        is_limit = attribute.low == 1  # those that another client has stored are not checked here
        low = -math.inf if is_limit else 0 if attribute.unlimited is None else attribute.unlimited
        number = _parse_number(line, record, name, low=low, high=_LARGEST_NUMBER)
        value = _NUMBERS[attribute.kind](number)
    return attribute.default if value == attribute.removing else value


#: The conversions of attributes that are numbers in a record.
_NUMBERS: Mapping[ValueKind, Callable[[Any], Any]] = {
    ValueKind.SECONDS: lambda number: number,
    ValueKind.WHOLE_NUMBER: int,
    ValueKind.TIME: lambda number: parse_time(b"%d" % int(number)),
}


def parse_message(line: int, record: dict[str, Any]) -> RestoredMessage:
    """
    Return a message to restore. Its times are cut to whole milliseconds.

    Args:
        line: the number of the line, for the error.
        record: the record of a message.

    Raises:
        InvalidExport: a value has a wrong type or is out of range, or there is no id or body.
    """
    raw = lines.decode_body(record)
    if raw is None:
        raise InvalidExport(
            line, "has no body", hint='A message has "body", a text, or "body_base64".'
        )
    visible_at = _parse_number(line, record, "visible_at_ms")
    first = _parse_number(line, record, "first_received_ms")
    return RestoredMessage(
        id=_parse_text(line, record, "id"),
        raw=raw,
        visible_at_ms=None if visible_at is None else math.floor(visible_at),
        receive_count=int(_parse_number(line, record, "receive_count", low=0) or 0),
        first_received_ms=None if first is None else int(first),
        records=_parse_records(line, record),
    )


def _parse_records(line: int, record: dict[str, Any]) -> dict[str, bytes]:
    """Return the records of a message as they are stored, by key."""
    found = {}
    for each in MESSAGE_RECORDS:
        fields = {value.name: value.field for value in each.values}
        values = {
            value.name: _parse_number(line, record, value.field)
            if value.kind in _NUMBERS
            else record.get(value.field)
            for value in each.values
        }
        try:
            text = each.make(values)
        except InvalidFormat as error:
            described = _describe(record, fields[error.argument])
            raise InvalidExport(line, f"has {described}", hint=error.hint) from None
        if text:
            found[each.key] = text
    return found


def _parse_text(line: int, record: dict[str, Any], field: str) -> str:
    value = record.get(field)
    if not isinstance(value, str):
        raise InvalidExport(line, f"has {_describe(record, field)}", hint=f"{field} is a text.")
    return value


def _parse_number(
    line: int, record: dict[str, Any], field: str, *, low: float = -math.inf, high: float = math.inf
) -> Any:
    value = record.get(field)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or abs(value) == math.inf:
        least = "" if low == -math.inf else f" from {low:g}"
        least += "" if high == math.inf else f" to {high}"
        raise InvalidExport(
            line, f"has {_describe(record, field)}", hint=f"{field} is a number{least}, or null."
        )
    return value


def _describe(record: dict[str, Any], field: str) -> str:
    return f"{field} {show(record[field])}" if field in record else f"no {field}"
