"""
The forms in which messages, receipts and times appear in requests and answers.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, TypedDict, TypeVar, cast

from rsmq.errors import InvalidFormat, InvalidValue
from rsmq.model import Message, QueueAttributes, StoredMessage, make_received_message
from rsmq.search.operations import SearchPosition
from rsmq.search.redaction import Redaction
from rsmq.vocabulary.shown_values import AttributesJson, FactsJson
from rsmq.vocabulary.stored import SHOWN_FACTS
from rsmq.web.bodies import BODIES, cut_body, open_message, show_body, show_steps
from rsmq.web.fields import BODY_FIELDS, Field, Refused, Shape
from rsmq.web.table import ApiCall, Scope
from rsmq.wire.names import is_encodable

R = TypeVar("R")

#: The name of a queue in the path of an entry.
QUEUE = "queue"

_MAX_SKIP = 10**9
_SCORE = re.compile(r"-?(?:[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?|inf)")
#: Other clients may store ids of any characters.
_RECEIPT = re.compile(r"(.+)\.([1-9][0-9]{0,18})", re.DOTALL)


class ReasonJson(TypedDict):
    """The reason of a dead letter."""

    queue: Annotated[str, "Where it died."]
    text: Annotated[str, "The failure."]
    exception: Annotated[str | None, "Its type and text."]
    traceback: Annotated[str | None, "Its traceback."]
    worker: Annotated[str, "The worker."]
    attempts: Annotated[int, "Its attempts."]
    died_ms: Annotated[int, "Unix ms."]
    status: Annotated[int | None, "Of a push the status of the answer."]
    answer: Annotated[str | None, "Of a push the begin of the answer."]


class _BodyJson(TypedDict, total=False):
    """A body in one of its forms."""

    body: Annotated[str | None, BODY_FIELDS[0].text]
    body_base64: Annotated[str, BODY_FIELDS[1].text]


class MessageJson(_BodyJson):
    """A message."""

    queue: Annotated[str, "Its queue."]
    id: Annotated[str, "The id of the message."]
    steps: Annotated[
        str | None,
        "What was done with the body, if the server can't undo it, as in: encrypted (key k1), 512 "
        "bytes stored.",
    ]
    receive_count: Annotated[int, "How often it was received."]
    first_received_ms: Annotated[int | None, "When it was first received, Unix ms."]
    sent_ms: Annotated[int | None, "When it was sent, Unix ms."]


class ReceivedJson(MessageJson):
    """A message as ``show_message`` shows it."""

    receipt: Annotated[str, "The receipt of this receive."]


class StoredJson(MessageJson, FactsJson):
    """A message as ``show_stored`` shows it."""

    redacted: Annotated[bool, "Whether values of the body are not shown."]
    truncated: Annotated[bool, "Whether the body is cut."]
    size: Annotated[
        int | None,
        "The bytes of the whole body; of a redacted one those that are shown, and null if none is.",
    ]
    state: Annotated[str, "Its state."]
    visible_at_ms: Annotated[int, "When it becomes visible, Unix ms."]
    last_error: Annotated[str | None, "The failure of its last attempt."]
    reason: Annotated[ReasonJson | None, "Of a dead letter: why it is one."]


def check_number(each: Field, call: ApiCall) -> Any:
    """Return a number of a request, or its default; raises InvalidValue if it is out of range."""
    value, low, high = each.read(call.values), each.rule["minimum"], each.rule["maximum"]
    if not low <= value <= high:
        raise InvalidValue(each.name, low, high, value=value)
    return value


def receipt_of(message: Message[bytes]) -> str:
    """Return the receipt of a received message: its id and its receive count."""
    return f"{message.id}.{message.receive_count}"


def show_message(message: Message[bytes]) -> dict[str, Any]:
    """Return a received message."""
    raw = open_message(message).raw
    return {
        "queue": message.queue,
        "id": message.id,
        "receipt": receipt_of(message),
        **show_body(raw),
        "steps": show_steps(raw),
        "receive_count": message.receive_count,
        "first_received_ms": message.first_received_ms,
        "sent_ms": whole(message.sent_ms),
    }


def show_stored(
    message: StoredMessage[bytes],
    redaction: Redaction,
    *,
    size: int | None = None,
    max_bytes: int | None = None,
) -> StoredJson:
    """
    Return a message that was read without receiving it, as its reader may see it.

    Its last receive is not in it: the client only estimates that, by the vt of the queue.

    Args:
        size: the bytes of the body, if the message has only a part of it.
        max_bytes: the bytes of the body that are shown; None is all.
    """
    raw, reason = redaction.body(message.raw), redaction.reason(message.reason)
    size = len(message.raw) if size is None else size
    is_part = size > len(message.raw)
    is_cut = raw is not None and (is_part or (max_bytes is not None and len(raw) > max_bytes))
    shown = cut_body(raw, max_bytes) if raw is not None and is_cut else raw
    body = cast("_BodyJson", show_body(shown))
    facts = cast("FactsJson", {each.name: getattr(message, each.name) for each in SHOWN_FACTS})
    # Not by show_as, which takes six times as long: a list or an export has thousands of messages.
    return {
        "queue": message.queue, "id": message.id, **body, "steps": show_steps(message.raw),
        "redacted": raw != message.raw, "truncated": is_cut,
        # Not the bytes of what the reader does not see.
        "size": size if raw == message.raw else None if raw is None else len(raw),
        "receive_count": message.receive_count, "first_received_ms": message.first_received_ms,
        "sent_ms": whole(message.sent_ms), "state": message.state,
        "visible_at_ms": int(message.visible_at_ms),
        "last_error": redaction.failure(message.last_error), **facts,
        "reason": None if reason is None else show_as(ReasonJson, reason),
    }  # fmt: skip


def whole(ms: float | None) -> int | None:
    """Return a time in whole Unix ms: integers are decoded exactly by any language."""
    return None if ms is None else int(ms)


async def message_gone(call: ApiCall) -> Refused:
    """Return the error of a message that is not there; raises QueueNotFound without its queue."""
    await call.queues.get_queue_attributes(call.names[QUEUE])
    return Refused("messageNotFound", "There is no such message in the queue", status=404)


async def raise_unchanged(call: ApiCall) -> None:
    """Raise the reason why a message was not changed: it is gone, or its receipt has expired."""
    if "receipt" in call.values and await call.queues.get_message(
        call.names[QUEUE], call.names["id"], codec=BODIES
    ):
        raise Refused(
            "receiptExpired",
            "The message was received again since",
            status=409,
            hint="Its new receiver decides on it now.",
        )
    raise await message_gone(call)


_PLAIN = {str, int, float, bool, type(None)}


def show_value(value: Any) -> Any:
    """Return a value of the model as one of JSON."""
    if type(value) in _PLAIN:  # lists of 10,000 messages have these above all
        return value
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, tuple | list):
        return [show_value(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.isoformat() if isinstance(value, datetime) else value


def show_as(answer: type[R], record: object, **others: object) -> R:
    """
    Return an answer with the attributes of a record that its keys name, as values of JSON.

    Args:
        others: the values of keys that the record lacks, or of which the reader sees others.
    """
    values = {
        name: others[name] if name in others else _show(name, getattr(record, name))
        for name in answer.__annotations__
        if name in others or name in answer.__required_keys__  # type: ignore[attr-defined]
    }
    return cast("R", values)


def _show(name: str, value: Any) -> Any:
    return whole(value) if name.endswith("_ms") else show_value(value)


class _NamedJson(TypedDict):
    """Something with a name."""

    name: Annotated[str, "The name."]


class QueueJson(_NamedJson, AttributesJson):
    """A queue, with its attributes and counts."""

    messages: Annotated[int, "Messages in the queue."]
    visible_messages: Annotated[int, "Messages that are visible now."]
    hidden_messages: Annotated[int, "Messages that are delayed or in flight."]
    next_due_ms: Annotated[int | None, "When the next hidden message becomes visible, Unix ms."]


def show_attributes(name: str, attributes: QueueAttributes) -> QueueJson:
    """Return a queue."""
    return show_as(QueueJson, attributes, name=name)


def read_receipts(queue: str, texts: Iterable[str]) -> list[Message[bytes]]:
    """
    Return the received messages of receipts.

    Raises:
        Refused: a receipt does not have its form.
    """
    return [_read_receipt(queue, text) for text in texts]


def _read_receipt(queue: str, text: str) -> Message[bytes]:
    match = _RECEIPT.fullmatch(text)
    if match is None:
        raise Refused(
            "invalidFormat",
            "Invalid receipt format",
            value=text[:80],
            hint="A receipt is the text in the field receipt of a received message.",
        )
    # The size of an id is checked by the operation, as if the caller had passed it.
    return make_received_message(queue, match[1], b"", int(match[2]), None, BODIES)


def may(call: ApiCall, scope: Scope, queue: str) -> bool:
    """Return whether the caller has a scope for a queue."""
    try:
        call.allow(scope, queue)
    except Refused:
        return False
    return True


def make_cursor(*parts: object) -> str:
    """Return a text that a client passes for the next page, and that it need not understand."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def read_cursor(text: str) -> Any:
    """
    Return the parts of a cursor, as a list if a server has made it.

    Raises:
        InvalidFormat: it can't be read.
    """
    try:
        return json.loads(base64.urlsafe_b64decode(text))
    except (ValueError, RecursionError):
        raise bad_cursor(text) from None


def make_position_cursor(position: SearchPosition | None) -> str | None:
    """Return the cursor of a position in a walk; None after its end."""
    if position is None:
        return None
    return make_cursor(position.score, position.id, position.skip)


def read_position(cursor: str) -> SearchPosition:
    """Return the position of a cursor in a walk."""
    match read_cursor(cursor):
        case [str(score), str(id), int(skip)] if (
            (not score or _SCORE.fullmatch(score)) and is_encodable(id) and 0 <= skip <= _MAX_SKIP
        ):
            return SearchPosition(score, id, skip=skip)
    raise bad_cursor(cursor)


def bad_cursor(text: str) -> InvalidFormat:
    """Return the error of a text that is not the cursor of a page like this one."""
    hint = "It is that of a page of the same call, with the same other fields."
    return InvalidFormat("cursor", value=text, hint=hint)


#: Either receipts or ids.
CHOICE = (
    Field("receipts", Shape.TEXTS, "Receipts of received messages."),
    Field("ids", Shape.TEXTS, "Ids, for any message: it needs the scope manage."),
)


def choose(call: ApiCall) -> tuple[Any, ...]:
    """
    Return the messages of a list as the first arguments of a method: received ones, or a name and
    ids.

    Raises:
        Refused: there are neither receipts nor ids, or both; or the caller may not pass ids.
    """
    has_receipts, has_ids = "receipts" in call.values, "ids" in call.values
    if has_receipts == has_ids:
        raise Refused("missingParameter", "Pass one of receipts and ids")
    queue = call.names[QUEUE]
    if has_receipts:
        return (read_receipts(queue, call.values["receipts"]),)
    call.allow(Scope.MANAGE, queue)
    return (queue, call.values["ids"])


def choose_one(call: ApiCall) -> tuple[Any, ...]:
    """
    Return the message of a path as the first arguments of a method.

    Raises:
        Refused: the receipt is of another message; or the caller may not act without one.
    """
    queue, id = call.names[QUEUE], call.names["id"]
    receipt = call.values.get("receipt")
    if receipt is None:
        call.allow(Scope.MANAGE, queue)
        return (queue, id)
    message = _read_receipt(queue, receipt)
    if message.id != id:
        raise Refused("invalidFormat", "The receipt is of another message", value=receipt[:80])
    return (message,)
