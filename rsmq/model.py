"""
The values that calls return: messages, attributes, counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Literal

from rsmq.codecs import TEXT, Codec, QueueCodec, blocks, make_not_decodable
from rsmq.codecs.type_variables import B_co
from rsmq.errors import BodyNotDecodable, BodyUnavailable
from rsmq.errors.printable import format_count
from rsmq.wire.envelopes import read_headers
from rsmq.wire.ids import parse_sent_us, parse_tick_ms

State = Literal["visible", "in_flight", "retrying", "delayed", "held_back"]
Expired = Literal["drop", "dead-letter"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Sentinel(Enum):
    """A value that no codec returns, and that is the same in every process."""

    NOT_DECODED = "not decoded"


_NOT_DECODED = _Sentinel.NOT_DECODED
_new_object = object.__new__


def _to_datetime(ms: float | None) -> datetime | None:
    try:
        return None if ms is None else _EPOCH + timedelta(microseconds=round(ms * 1000))
    except OverflowError:  # a number that another client stored
        return None


@dataclass(frozen=True, slots=True, repr=False)
class _MessageFields(Generic[B_co]):
    """The fields that received messages and stored messages have in common."""

    if not TYPE_CHECKING:
        # Before Python 3.13, Message[str](...) raises TypeError with the method of Generic: that
        # sets an attribute, which a frozen dataclass with slots refuses with this error.
        __class_getitem__ = classmethod(GenericAlias)

    queue: str
    id: str
    raw: bytes
    receive_count: int
    first_received_ms: int | None
    _codec: Codec[Any, B_co] = field(
        default=TEXT,  # type: ignore[arg-type]
        repr=False,
        compare=False,
    )
    _body: B_co = field(  # type: ignore[assignment]
        default=_NOT_DECODED,
        init=False,
        repr=False,
        compare=False,
    )

    @property
    def body(self) -> B_co:
        """
        The body, decoded by the codec on first access.

        Raises:
            BodyNotDecodable: the codec can't decode the body; ``raw`` has the bytes.
            BodyUnavailable: the codec can't reach a key or the like now.
        """
        if self._body is _NOT_DECODED:
            try:
                decoded = self._codec.decode(self.raw)
            except BodyUnavailable:
                raise
            except Exception as error:
                raise make_not_decodable(self.queue, self.id, self.raw, error) from error
            _set_body(self, decoded)
        return self._body

    @property
    def headers(self) -> dict[str, str]:
        """
        The headers that were sent with the body, whichever codec decodes it; empty without any.

        They are those of an ``EnvelopeCodec`` or of a task. Each access
        reads them from ``raw``.
        """
        return read_headers(self.raw)

    def __repr__(self) -> str:
        # Logs contain messages, and must not contain their bodies.
        shown = [
            f"{each.name}={getattr(self, each.name)!r}"
            if each.name != "raw"
            else f"raw=<{format_count(len(self.raw), 'byte')}>"
            for each in fields(self)
            if each.repr
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def scheduled_at(self) -> datetime | None:
        """
        The tick of the schedule that has sent this message, as an aware datetime in UTC; None of
        any other message.

        It is a part of the id, so a move and a dead letter keep it. A redrive gives a new id, and
        ``schedules.run_now`` sends no tick.
        """
        return _to_datetime(parse_tick_ms(self.id))

    @property
    def first_received_at(self) -> datetime | None:
        """``first_received_ms`` as an aware datetime in UTC."""
        return _to_datetime(self.first_received_ms)


@dataclass(frozen=True, slots=True, repr=False)
class Message(_MessageFields[B_co]):
    """
    A received message, which is also its receipt.

    The pair ``(id, receive_count)`` is the receipt. Every receive, by any client, changes the
    count. A delete or a change of visibility with this object takes effect only while the stored
    count is still the same.

    ``Message[Order]`` is a message whose body is an Order; ``Message`` is ``Message[Any]``.

    Attributes:
        queue: the name of the queue it was received from.
        id: the message's id, as the sending client created it.
        raw: the body as the bytes that are stored in Redis.
        receive_count: how often it has been received, this time included; from 1.
        first_received_ms: Unix ms of the first receive by the server's clock; None if another
            client stored a value that is not a number.
    """

    @property
    def sent_ms(self) -> float | None:
        """Unix ms of the send, with microseconds as decimals; None if the id contains no time."""
        us = parse_sent_us(self.id, self.first_received_ms)
        return None if us is None else us / 1000

    @property
    def sent_at(self) -> datetime | None:
        """``sent_ms`` as an aware datetime in UTC, exact to the microsecond."""
        return _to_datetime(self.sent_ms)


_set_queue, _set_id, _set_raw, _set_count, _set_first, _set_codec, _set_body = (
    _MessageFields.__dict__[each.name].__set__ for each in fields(_MessageFields)
)


class _NewMessage(Message[B_co]):
    """
    A message whose fields are set one by one before it becomes a Message.

    The methods that make Message immutable make its constructor slow. Without them, setting the
    fields takes a third of the time.
    """

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


def make_received_message(  # noqa: PLR0917 - the parameters of Message
    queue: str,
    id: str,
    raw: bytes,
    count: int,
    first_received_ms: int | None,
    codec: Codec,
) -> Message:
    """Return ``Message(...)``, in a fraction of the time that its constructor takes."""
    message: Any = _new_object(_NewMessage)
    message.queue = queue
    message.id = id
    message.raw = raw
    message.receive_count = count
    message.first_received_ms = first_received_ms
    message._codec = codec  # noqa: SLF001 - a field of this module
    message._body = _NOT_DECODED  # noqa: SLF001
    message.__class__ = Message
    return message  # type: ignore[no-any-return]


def fill_message(  # noqa: PLR0917 - as above
    message: Message,
    queue: str,
    id: str,
    raw: bytes,
    count: int,
    first_received_ms: int | None,
    codec: Codec,
) -> None:
    """Set the fields of a new object of a subclass."""
    _set_queue(message, queue)
    _set_id(message, id)
    _set_raw(message, raw)
    _set_count(message, count)
    _set_first(message, first_received_ms)
    _set_codec(message, codec)
    _set_body(message, _NOT_DECODED)


class _FailedCodec:
    """The codec of a message whose body could not be loaded: it raises the same error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def encode(self, body: Any) -> bytes:
        raise NotImplementedError

    def decode(self, raw: bytes) -> Any:  # noqa: ARG002
        raise self._error


def load_body(message: Message | StoredMessage) -> None:
    """Decode the body of a message now; if that fails, each access raises the same error."""
    try:
        _ = message.body
    except BodyNotDecodable as error:
        _set_codec(message, _FailedCodec(error.__cause__ or error))
    except BodyUnavailable as error:
        _set_codec(message, _FailedCodec(error))


def discard_body(message: Message | StoredMessage) -> None:
    """Delete what is stored elsewhere for a message that was deleted; nothing is raised."""
    codec = message._codec  # noqa: SLF001 - a field of this module
    if isinstance(codec, QueueCodec):
        codec.discard(message.raw, message.id)


def has_blocking_codec(message: object) -> bool:
    """Return whether to decode the body of a message would block an event loop."""
    return isinstance(message, _MessageFields) and blocks(message._codec)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class DeadLetterReason:
    """
    The reason why a worker moved a message to a dead-letter queue.

    Attributes:
        queue: the queue it came from.
        text: the reason, a sentence.
        exception: type and text of the exception that caused the failure; None if there was none.
        traceback: the end of its traceback; None if there was no exception.
        worker: the name of the worker.
        attempts: how often the message had been received.
        died_ms: Unix ms when it was moved, by the server's clock.
        status: for a webhook, the HTTP status of the last answer; None if there was no answer.
        answer: for a webhook, the first 2 KiB of the last answer's body, as text; otherwise None.
    """

    queue: str
    text: str
    exception: str | None
    traceback: str | None
    worker: str
    attempts: int
    died_ms: int
    status: int | None = None
    answer: str | None = None

    @property
    def died_at(self) -> datetime | None:
        """``died_ms`` as an aware datetime in UTC."""
        return _to_datetime(self.died_ms)


@dataclass(frozen=True, slots=True, repr=False)
class StoredMessage(_MessageFields[B_co]):
    """
    A message as it is stored in a queue, read without receiving it. It is not a receipt.

    Attributes:
        queue: the name of the queue.
        id: the message's id, as the sending client created it.
        raw: the body as the bytes that are stored in Redis.
        receive_count: how often it has been received; 0 before the first receive.
        first_received_ms: Unix ms of the first receive; None before it.
        sent_ms: Unix ms of the send, with microseconds as decimals; None if the id contains no
            time.
        state: "visible", "in_flight" (received and hidden), "retrying" (its handler has failed in a
            worker, and it is hidden until the next attempt), "delayed" (never received and
            hidden), or "held_back" (others of its group or limit_key come first).
        visible_at_ms: Unix ms from which it is visible. While it is "held_back" that is about a day
            ahead, and means nothing.
        last_received_ms: Unix ms of the last receive, estimated as ``visible_at_ms`` minus the
            queue's vt; None before the first receive, while it waits for a retry, and for a message
            with a reason.
        reason: the reason why a worker moved it to this dead-letter queue; None if none did.
        last_error: while it is "retrying", type and text of the exception of the last attempt, at
            most 500 characters; else None.
        group: the group that it was sent with; None without one.
        limit_key: the limit_key that it was sent with, if it had a max_running; else None.
        max_running: how many messages of its limit_key may run at a time; None without one.
    """

    sent_ms: float | None = None
    state: State = "visible"
    visible_at_ms: float = 0
    last_received_ms: float | None = None
    reason: DeadLetterReason | None = None
    last_error: str | None = None
    group: str | None = None
    limit_key: str | None = None
    max_running: int | None = None

    @property
    def sent_at(self) -> datetime | None:
        """``sent_ms`` as an aware datetime in UTC, exact to the microsecond."""
        return _to_datetime(self.sent_ms)


@dataclass(frozen=True, slots=True)
class QueueAttributes:
    """
    The attributes and counters of a queue, all read at one moment.

    Attributes:
        vt: the visibility timeout, seconds; a fraction only if another client stored one.
        delay: the delay of new messages, seconds; a fraction only if another client stored one.
        maxsize: the size limit of a body, in UTF-16 code units of text or in bytes; -1 is
            unlimited. A stored value that can't be a limit counts as 65,536.
        total_received: the number of receives and pops so far, repeated receives included.
        total_sent: the number of messages sent so far.
        created: when the queue was created; None if the stored value is not a time.
        modified: when its attributes were last set; None if the stored value is not a time.
        messages: the number of ids in the queue, hidden ones included. It also counts ids whose
            body is missing, until a receive removes them.
        hidden_messages: messages that are not visible now: delayed or in flight.
        visible_messages: messages that are visible now.
        next_due_ms: Unix ms when the next hidden message becomes visible; None without one.
        dead_letter_queue: the dead-letter queue of the stored policy; None without a policy.
        max_receives: the limit of the stored policy; None without a policy.
        paused: whether the queue is paused, so that workers don't receive from it.
        keep: the seconds after its send at which a message expires; None is never.
        expired: whether expired messages are removed, "drop", or moved to the dead-letter queue of
            the policy, "dead-letter".
        max_running: how many of its messages may be in flight with this library; None is any
            number.
        rate: how many of its messages this library may receive in a time, such as "100/m"; None is
            any number.
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
    keep: float | None = None
    expired: Expired = "drop"
    max_running: int | None = None
    rate: str | None = None


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """
    The number of messages of a queue by state, counted in several steps: not a snapshot of one
    moment.

    Attributes:
        visible: messages that are visible now.
        in_flight: messages that were received and are hidden, without those that wait for a retry.
        delayed: messages that were never received and are hidden.
        oldest_sent_ms: Unix ms when the oldest message was sent, taken from its id, with
            microseconds as decimals; None if no id contains a time.
        due_since_ms: Unix ms when the visible message that is received next became visible, which
            has been visible the longest; None if no message is visible.
        retrying: messages whose handler has failed in a worker, and that are hidden until the next
            attempt.
        held_back: messages that wait for others of their group or limit_key.
    """

    visible: int
    in_flight: int
    delayed: int
    oldest_sent_ms: float | None
    due_since_ms: float | None = None
    retrying: int = 0
    held_back: int = 0

    @property
    def oldest_sent_at(self) -> datetime | None:
        """``oldest_sent_ms`` as an aware datetime in UTC."""
        return _to_datetime(self.oldest_sent_ms)

    @property
    def due_since_at(self) -> datetime | None:
        """``due_since_ms`` as an aware datetime in UTC."""
        return _to_datetime(self.due_since_ms)
