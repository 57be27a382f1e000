"""
The values that calls return: messages, attributes, counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Literal

from rsmq.codecs import TEXT, Codec
from rsmq.errors import BodyNotDecodable
from rsmq.wire.ids import parse_sent_us

State = Literal["visible", "in_flight", "delayed"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Mark(Enum):
    """A value that no codec returns, and that is the same in every process."""

    NOT_DECODED = "not decoded"


_NOT_DECODED = _Mark.NOT_DECODED
_new = object.__new__


def _moment(ms: float | None) -> datetime | None:
    try:
        return None if ms is None else _EPOCH + timedelta(microseconds=round(ms * 1000))
    except OverflowError:  # a number that another client stored
        return None


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a received message and a looked-up one have in common."""

    queue: str
    id: str
    raw: bytes = field(repr=False)
    receive_count: int
    first_received_ms: int | None
    _codec: Codec = field(default=TEXT, repr=False, compare=False)
    _body: Any = field(default=_NOT_DECODED, init=False, repr=False, compare=False)

    @property
    def body(self) -> Any:
        """
        The body, decoded by the codec on first access.

        Raises:
            BodyNotDecodable: the codec can't read it; ``raw`` has the bytes.
        """
        if self._body is _NOT_DECODED:
            try:
                decoded = self._codec.decode(self.raw)
            except Exception as error:
                raise BodyNotDecodable(self.queue, self.id, self.raw) from error
            _set_body(self, decoded)
        return self._body

    @property
    def first_received_at(self) -> datetime | None:
        """``first_received_ms`` as an aware datetime in UTC."""
        return _moment(self.first_received_ms)


@dataclass(frozen=True, slots=True)
class Message(_Stored):
    """
    A received message, and the receipt for it.

    ``(id, receive_count)`` is the receipt: every receive, by any client, changes the count, and
    a delete or a change of visibility with this object acts only while the count is still this.

    Attributes:
        queue: the name of the queue it was received from.
        id: its id, as the sending client made it.
        raw: the body, bytes as they stand in Redis.
        receive_count: how often it has been received, this time included; from 1.
        first_received_ms: Unix ms of the first receive by the server's clock; None if another
            client stored what is not a number.
    """

    @property
    def sent_ms(self) -> float | None:
        """Unix ms of the send, microseconds as decimals; None if the id does not tell."""
        us = parse_sent_us(self.id, self.first_received_ms)
        return None if us is None else us / 1000

    @property
    def sent_at(self) -> datetime | None:
        """``sent_ms`` as an aware datetime in UTC, exact to the microsecond."""
        return _moment(self.sent_ms)


_set_queue, _set_id, _set_raw, _set_count, _set_first, _set_codec, _set_body = (
    _Stored.__dict__[each.name].__set__ for each in fields(_Stored)
)


def received_message(  # noqa: PLR0917 - those of Message
    queue: str, id: str, raw: bytes, count: int, first_received_ms: int | None, codec: Codec
) -> Message:
    """``Message(...)``, in half of the time that a frozen class takes."""
    message = _new(Message)
    fill_message(message, queue, id, raw, count, first_received_ms, codec)
    return message


def fill_message(  # noqa: PLR0917 - as above
    message: Message,
    queue: str,
    id: str,
    raw: bytes,
    count: int,
    first_received_ms: int | None,
    codec: Codec,
) -> None:
    """Give a new message, or one of a class of its kind, what it has."""
    _set_queue(message, queue)
    _set_id(message, id)
    _set_raw(message, raw)
    _set_count(message, count)
    _set_first(message, first_received_ms)
    _set_codec(message, codec)
    _set_body(message, _NOT_DECODED)


@dataclass(frozen=True, slots=True)
class DeadLetterReason:
    """
    Why a worker gave a message up.

    Attributes:
        queue: the queue it came from.
        text: why, in a sentence.
        exception: type and text of the exception behind it; None without one.
        traceback: the end of its traceback; None without one.
        worker: the name of the worker.
        attempts: how often the message had been received.
        died_ms: Unix ms when it was moved, by the server's clock.
    """

    queue: str
    text: str
    exception: str | None
    traceback: str | None
    worker: str
    attempts: int
    died_ms: int

    @property
    def died_at(self) -> datetime | None:
        """``died_ms`` as an aware datetime in UTC."""
        return _moment(self.died_ms)


@dataclass(frozen=True, slots=True)
class StoredMessage(_Stored):
    """
    A message as it stands in the queue, looked up without receiving it. It is not a receipt.

    Attributes:
        queue: the name of the queue.
        id: its id, as the sending client made it.
        raw: the body, bytes as they stand in Redis.
        receive_count: how often it has been received; 0 before the first time.
        first_received_ms: Unix ms of the first receive, None before it.
        sent_ms: Unix ms of the send, with microseconds as decimals; None if the id does not
            tell.
        state: "visible" (due), "in_flight" (received and hidden), "delayed" (never received and
            hidden).
        visible_at_ms: Unix ms from which it is visible.
        last_received_ms: Unix ms of the last receive, estimated as ``visible_at_ms`` minus the
            queue's vt; None before the first receive, and of a message with a reason.
        reason: why a worker moved it to this dead-letter queue; None if none did.
    """

    sent_ms: float | None = None
    state: State = "visible"
    visible_at_ms: float = 0
    last_received_ms: float | None = None
    reason: DeadLetterReason | None = None

    @property
    def sent_at(self) -> datetime | None:
        """``sent_ms`` as an aware datetime in UTC, exact to the microsecond."""
        return _moment(self.sent_ms)


@dataclass(frozen=True, slots=True)
class QueueAttributes:
    """
    The attributes and counters of a queue, read at one moment.

    Attributes:
        vt: the visibility timeout, seconds; a fraction only if another client stored one.
        delay: the delay of new messages, seconds; a fraction only if another client stored one.
        maxsize: the size limit of a body in UTF-16 code units of text or bytes of bytes;
            -1 is unlimited. A stored limit that makes no sense counts as 65,536.
        total_received: receives and pops ever, redeliveries included.
        total_sent: messages ever sent.
        created: when the queue was created; None if not stored as a time.
        modified: when its attributes were last set; None if not stored as a time.
        messages: ids in the queue, hidden ones included, and those whose body is missing until
            a receive removes them.
        hidden_messages: those that are not visible now, delayed or in flight.
        visible_messages: those that are due now.
        next_due_ms: Unix ms when the next hidden message becomes visible; None without one.
        dead_letter_queue: the stored policy's target; None without a policy.
        max_receives: the stored policy's limit; None without a policy.
        paused: whether workers leave the queue alone.
    """

    vt: float
    delay: float
    maxsize: int
    total_received: int
    total_sent: int
    created: datetime | None
    modified: datetime | None
    messages: int
    hidden_messages: int
    visible_messages: int
    next_due_ms: float | None
    dead_letter_queue: str | None
    max_receives: int | None
    paused: bool


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """
    The messages of a queue by state, counted on a walk: not one atomic reading.

    Attributes:
        visible: due now.
        in_flight: received and hidden.
        delayed: never received and hidden.
        oldest_sent_ms: Unix ms when the oldest of all was sent, as its id tells, with microseconds
            as decimals; None without a message whose id tells.
    """

    visible: int
    in_flight: int
    delayed: int
    oldest_sent_ms: float | None

    @property
    def oldest_sent_at(self) -> datetime | None:
        """``oldest_sent_ms`` as an aware datetime in UTC."""
        return _moment(self.oldest_sent_ms)
