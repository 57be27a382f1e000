"""
The records of an export: queues and messages.
"""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime
from typing import Any

from rsmq.errors import InvalidExport, show
from rsmq.model import QueueAttributes, StoredMessage
from rsmq.operations.restored import Restored
from rsmq.transfer import lines
from rsmq.wire.limits import DEFAULT_DELAY, DEFAULT_MAXSIZE, DEFAULT_VT, UNLIMITED
from rsmq.wire.stored import parse_time

#: Above it Redis could not count a total on, and clients in JavaScript could not read it.
_LARGEST = 2**53


def of_queue(name: str, attributes: QueueAttributes) -> dict[str, Any]:
    """The record of a queue."""
    return {
        "type": lines.QUEUE,
        "queue": name,
        "vt": attributes.vt,
        "delay": attributes.delay,
        "maxsize": attributes.maxsize,
        "created": _seconds(attributes.created),
        "modified": _seconds(attributes.modified),
        "total_sent": attributes.total_sent,
        "total_received": attributes.total_received,
        "dead_letter_queue": attributes.dead_letter_queue,
        "max_receives": attributes.max_receives,
        "paused": attributes.paused,
        "messages": attributes.messages,
    }


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def of_message(message: StoredMessage) -> dict[str, Any]:
    """The record of a message; what it does not have is left out."""
    record: dict[str, Any] = {
        "type": lines.MESSAGE,
        "queue": message.queue,
        "id": message.id,
        **lines.body_of(message.raw),
        "visible_at_ms": message.visible_at_ms if math.isfinite(message.visible_at_ms) else None,
        "receive_count": message.receive_count,
    }
    if message.first_received_ms is not None:
        record["first_received_ms"] = message.first_received_ms
    if message.sent_ms is not None:
        record["sent_ms"] = message.sent_ms
    if message.reason is not None:
        record["reason"] = dataclasses.asdict(message.reason)
    return record


def queue_name(line: int, record: dict[str, Any]) -> str:
    """
    The name of the queue that a record is about.

    Raises:
        InvalidExport: it has none.
    """
    return _text(line, record, "queue")


def to_attributes(line: int, record: dict[str, Any]) -> QueueAttributes:
    """
    The attributes of a queue; what the record does not have is the default.

    Raises:
        InvalidExport: a value is not what it must be.
    """

    def number(item: str, default: float = 0, *, low: float = 0) -> Any:
        value = _number(line, record, item, low=low, high=_LARGEST)
        return default if value is None else value

    created = _number(line, record, "created", low=0, high=_LARGEST)
    letters = record.get("dead_letter_queue")
    messages = int(number("messages"))
    return QueueAttributes(
        vt=number("vt", DEFAULT_VT),
        delay=number("delay", DEFAULT_DELAY),
        maxsize=int(number("maxsize", DEFAULT_MAXSIZE, low=UNLIMITED)),
        total_received=int(number("total_received")),
        total_sent=int(number("total_sent")),
        created=None if created is None else parse_time(b"%d" % int(created)),
        modified=None,
        messages=messages,
        hidden_messages=0,
        visible_messages=messages,
        next_due_ms=None,
        dead_letter_queue=None if letters is None else _text(line, record, "dead_letter_queue"),
        max_receives=_number(line, record, "max_receives", high=_LARGEST),
        paused=record.get("paused") is True,
    )


def to_restored(line: int, record: dict[str, Any]) -> Restored:
    """
    A message to be put back; its time is cut to whole milliseconds.

    Raises:
        InvalidExport: a value is not what it must be, or there is no id or body.
    """
    raw = lines.raw_of(record)
    if raw is None:
        raise InvalidExport(
            line, "has no body", hint='A message has "body", a text, or "body_base64".'
        )
    visible_at = _number(line, record, "visible_at_ms")
    first = _number(line, record, "first_received_ms")
    return Restored(
        id=_text(line, record, "id"),
        raw=raw,
        visible_at_ms=None if visible_at is None else math.floor(visible_at),
        receive_count=int(_number(line, record, "receive_count", low=0) or 0),
        first_received_ms=None if first is None else int(first),
    )


def _text(line: int, record: dict[str, Any], item: str) -> str:
    value = record.get(item)
    if not isinstance(value, str):
        raise InvalidExport(line, f"has {_shown(record, item)}", hint=f"{item} is a text.")
    return value


def _number(
    line: int, record: dict[str, Any], item: str, *, low: float = -math.inf, high: float = math.inf
) -> Any:
    value = record.get(item)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or abs(value) == math.inf:
        least = "" if low == -math.inf else f" from {low:g}"
        least += "" if high == math.inf else f" to {high}"
        raise InvalidExport(
            line, f"has {_shown(record, item)}", hint=f"{item} is a number{least}, or null."
        )
    return value


def _shown(record: dict[str, Any], item: str) -> str:
    return f"{item} {show(record[item])}" if item in record else f"no {item}"
