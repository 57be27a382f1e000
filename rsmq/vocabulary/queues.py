"""
The attributes of a queue.

From this table follow the values that clients read, the arguments of ``create_queue`` and
``set_queue_attributes`` with their checks, the options of the program, the fields of HTTP and its
OpenAPI document, the forms and pages of the dashboard, the records of exports, the fields that the
scripts read, and copies of queues. Tests compare the tables of the docs with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rsmq.vocabulary.sends import ANNOTATIONS, ValueKind
from rsmq.wire.fields import (
    DEAD_LETTER_QUEUE,
    EXPIRED,
    KEEP,
    MAX_RECEIVES,
    NODE_FIELDS,
    PAUSED,
    THROTTLE,
    TOTAL_RECEIVED,
    TOTAL_SENT,
)
from rsmq.wire.limits import (
    DEFAULT_DELAY,
    DEFAULT_KEEP,
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    MAX_MAXSIZE,
    MAX_SECONDS,
    MIN_MAXSIZE,
    UNLIMITED,
    check_choice,
    check_seconds,
    check_whole_number,
)
from rsmq.wire.limits import MAX_RECEIVES as MOST_RECEIVES
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_integer, parse_maxsize, parse_seconds, parse_time
from rsmq.wire.throttle import MAX_RUNNING, parse_throttle

_SHARED = (ValueKind.SECONDS, ValueKind.WHOLE_NUMBER)


class QueueCall:
    """
    A call that sets attributes of a queue. It is compared by identity.

    Attributes:
        name: the name of the method.
        options: the attributes that it sets, by its arguments, in the order of the table.
    """

    def __init__(self, name: str, attributes: Iterable[QueueAttribute]) -> None:
        self.name = name
        self.options = {each.name: each for each in attributes if name in each.calls}


@dataclass(frozen=True, slots=True)
class QueueAttribute:
    """
    An attribute of a queue, as ``QueueAttributes`` has it.

    Attributes:
        name: that of ``QueueAttributes``, of arguments, and of fields.
        field: that of the queue's hash; two attributes may share one.
        kind: the type of its value.
        title: what it is called on pages, in a few words.
        text: what it is, in one sentence, with unit and range.
        calls: the methods that set it; empty if sends and receives do.
        detail: the same as the text for the reference of these methods, as a part of a sentence; ""
            if they describe it themselves.
        low: the smallest value of a number.
        high: the largest one.
        unlimited: a further value of a number, which means no limit; None without one.
        choices: the values of a text, each with its meaning for pages.
        default: what a queue has that was created without it.
        removing: the value that removes the field; None if nothing does.
        hint: further advice for forms, in whole sentences.
        is_copied: whether a copy of the queue has it, as a setting.
        is_restored: whether a copy of the queue has it after ``restore_totals``.
        ends_messages: whether messages end by it, so that a migration without it is not verified.
        read: returns the value of a stored field, or of none; None reads the kind's.
    """

    name: str
    field: str
    kind: ValueKind
    title: str
    text: str
    calls: tuple[str, ...] = ()
    detail: str = ""
    low: float | None = None
    high: float | None = None
    unlimited: int | None = None
    choices: tuple[tuple[str, str], ...] = ()
    default: Any = None
    removing: object = None
    hint: str = ""
    is_copied: bool = False
    is_restored: bool = False
    ends_messages: bool = False
    read: Callable[[bytes | None], Any] | None = None

    def describe(self, _: Callable[[str], str] = str) -> str:
        """Return the text. It names no other attribute."""
        return self.text

    def name_in(self, _: QueueCall) -> str:
        """Return the argument of a call."""
        return self.name

    def annotation_in(self, call: QueueCall) -> str:
        """Return the type of the argument of a call, as Python writes it."""
        values = ", ".join(f'"{value}"' for value, _ in self.choices)
        kind = f"Literal[{values}]" if values else ANNOTATIONS[self.kind]
        return kind if call is CREATE else f"{kind} | None"

    def default_in(self, call: QueueCall) -> Any:
        """Return the default of the argument of a call."""
        if call is not CREATE:
            return None
        return self.removing if self.default is None else self.default

    def detail_in(self, call: QueueCall) -> str:
        """Return the description for the reference of a call."""
        return f"{self.detail}." if call is CREATE else f"{self.detail}; None does not change it."

    def parse(self, stored: bytes | None) -> Any:
        """Return the value of a field as any client may have stored it; None means no field."""
        if self.read is not None:
            return self.read(stored)
        if self.choices:
            text = None if stored is None else decode_name(stored)
            return text if text in dict(self.choices) else self.default
        number = None if stored is None else _READERS[self.kind](stored)
        if self.removing is not None and number == self.removing:
            number = None
        return self.default if number is None else number

    def encode(self, value: object) -> bytes:
        """
        Check an argument, and return it as it is stored; empty removes the field.

        Raises:
            InvalidValue: a number is out of range or not whole.
            InvalidFormat: it is not one of the choices.
        """
        if self.choices:
            checked: object = check_choice(self.name, value, [each for each, _ in self.choices])
        elif self.kind is ValueKind.SECONDS:
            checked = check_seconds(self.name, value)
        else:
            low, high = int(self.low or 0), int(self.high or 0)
            checked = check_whole_number(self.name, value, low, high, self.unlimited)
        return b"" if checked == self.removing else str(checked).encode()

    def fit(self, value: Any) -> Any:
        """
        Return the nearest value that a queue of this library can have.

        Seconds are rounded up, so that none becomes shorter.
        """
        if value is None:
            return self.removing
        if self.kind not in _SHARED or self.high is None or value == self.unlimited:
            return value
        return int(min(max(math.ceil(value), self.low or 0), self.high))


_READERS: Mapping[ValueKind, Callable[[bytes], Any]] = {
    ValueKind.SECONDS: parse_seconds,
    ValueKind.WHOLE_NUMBER: parse_integer,
    ValueKind.TIME: parse_time,
    ValueKind.LABEL: decode_name,
}
_SET = ("set_queue_attributes",)
_CREATE_AND_SET = ("create_queue", *_SET)

#: The attributes, in the order in which scripts return their fields and faces show them.
QUEUE_ATTRIBUTES: tuple[QueueAttribute, ...] = (
    QueueAttribute(
        "vt", "vt", ValueKind.SECONDS, "visibility timeout",
        "Seconds for which a received message is hidden, 0 to 9,999,999.",
        _CREATE_AND_SET,
        "the visibility timeout, how long a received message is hidden: whole seconds, 0 to "
        "9,999,999",
        0, MAX_SECONDS,
        default=DEFAULT_VT,
        hint="Choose more than the slowest handler takes, or the message is received again while "
        "it is handled.",
        is_copied=True,
    ),
    QueueAttribute(
        "delay", "delay", ValueKind.SECONDS, "delay",
        "Seconds for which a new message is hidden, 0 to 9,999,999.",
        _CREATE_AND_SET,
        "how long a new message is hidden: whole seconds, 0 to 9,999,999",
        0, MAX_SECONDS,
        default=DEFAULT_DELAY,
        is_copied=True,
    ),
    QueueAttribute(
        "maxsize", "maxsize", ValueKind.WHOLE_NUMBER, "size limit",
        "The largest body, 1,024 to 65,536 UTF-16 code units of text (bytes of other bodies); -1 "
        "is unlimited.",
        _CREATE_AND_SET,
        "the size limit of a body, 1024 to 65,536, or -1 for unlimited: UTF-16 code units if the "
        "codec encodes to text, otherwise bytes",
        MIN_MAXSIZE, MAX_MAXSIZE, UNLIMITED,
        default=DEFAULT_MAXSIZE,
        is_copied=True,
        read=lambda stored: parse_maxsize(stored or b""),
    ),
    QueueAttribute(
        "created", "created", ValueKind.TIME, "created",
        "When it was created.",
        is_restored=True,
    ),
    QueueAttribute(
        "modified", "modified", ValueKind.TIME, "modified",
        "When its attributes were last set.",
    ),
    QueueAttribute(
        "total_sent", TOTAL_SENT, ValueKind.WHOLE_NUMBER, "sent so far",
        "Messages sent so far.",
        default=0,
        is_restored=True,
    ),
    QueueAttribute(
        "total_received", TOTAL_RECEIVED, ValueKind.WHOLE_NUMBER, "received so far",
        "Receives and pops so far, repeated receives included.",
        default=0,
        is_restored=True,
    ),
    QueueAttribute(
        "dead_letter_queue", DEAD_LETTER_QUEUE, ValueKind.LABEL, "dead-letter queue",
        "The queue to which messages move that were received too often.",
        ("set_dead_letter_policy",),
        is_copied=True,
    ),
    QueueAttribute(
        "max_receives", MAX_RECEIVES, ValueKind.WHOLE_NUMBER, "receives",
        "How often a message may be received before it is a dead letter, 1 to 1,000,000.",
        ("set_dead_letter_policy",),
        "", 1, MOST_RECEIVES,
        is_copied=True,
    ),
    QueueAttribute(
        "paused", PAUSED, ValueKind.FLAG, "paused",
        "Whether workers don't receive from it.",
        ("pause_queue", "resume_queue"),
        default=False,
        is_copied=True,
        read=lambda stored: stored is not None,
    ),
    QueueAttribute(
        "keep", KEEP, ValueKind.SECONDS, "expiry",
        "Seconds after its send at which a message expires, 0 to 9,999,999; 0 is never.",
        _CREATE_AND_SET,
        "after how many whole seconds from its send a message expires, 0 to 9,999,999; 0 is never",
        0, MAX_SECONDS,
        removing=DEFAULT_KEEP,
        hint="Node and PHP deliver expired messages.",
        is_copied=True,
        ends_messages=True,
    ),
    QueueAttribute(
        "expired", EXPIRED, ValueKind.CHOICE, "expired messages",
        "What happens to expired messages.",
        _SET,
        '"drop" removes expired messages, as by default; "dead-letter" moves them to the '
        "dead-letter queue of the policy, and while that can't be written, they don't expire",
        choices=(("drop", "are removed"), ("dead-letter", "become dead letters")),
        default="drop",
        removing="drop",
        is_copied=True,
        ends_messages=True,
    ),
    QueueAttribute(
        "max_running", THROTTLE, ValueKind.WHOLE_NUMBER, "in flight",
        "How many messages may be in flight, 1 to 1,000.",
        ("set_queue_limits",),
        "", 1, MAX_RUNNING,
        is_copied=True,
        read=lambda stored: parse_throttle(stored).max_running,
    ),
    QueueAttribute(
        "rate", THROTTLE, ValueKind.RATE, "rate",
        "How many messages may be received in a time, such as 10/s, 100/m or 1000/h.",
        ("set_queue_limits",),
        is_copied=True,
        read=lambda stored: parse_throttle(stored).rate,
    ),
)  # fmt: skip

#: The fields of the attributes, in the order in which scripts return them.
ATTRIBUTE_FIELDS = tuple(dict.fromkeys(each.field for each in QUEUE_ATTRIBUTES))
#: The attributes that a copy of a queue has.
COPIED_ATTRIBUTES = tuple(each for each in QUEUE_ATTRIBUTES if each.is_copied)

#: The calls that set attributes.
CREATE = QueueCall("create_queue", QUEUE_ATTRIBUTES)
SET = QueueCall("set_queue_attributes", QUEUE_ATTRIBUTES)
LIMIT = QueueCall("set_queue_limits", QUEUE_ATTRIBUTES)
POLICY = QueueCall("set_dead_letter_policy", QUEUE_ATTRIBUTES)
#: The attributes that the Node client sets too.
NODE_SETTINGS = {name: each for name, each in CREATE.options.items() if each.field in NODE_FIELDS}
#: The attributes that a queue is created with, at least.
REQUIRED_ATTRIBUTES = tuple(each for each in CREATE.options.values() if each.default is not None)


def read_attributes(stored: Mapping[str, bytes | None]) -> dict[str, Any]:
    """Return the values of ``QUEUE_ATTRIBUTES``, by name, of fields as any client stored them."""
    return {each.name: each.parse(stored.get(each.field)) for each in QUEUE_ATTRIBUTES}


def show_as_node(attributes: Any) -> dict[str, Any]:
    """Return the attributes and counts of a queue with the Node client's names, in its order."""
    names = {each.field: each.name for each in QUEUE_ATTRIBUTES}
    values = {field: getattr(attributes, names[field]) for field in NODE_FIELDS}
    times = {
        field: int(value.timestamp()) for field, value in values.items()
        if isinstance(value, datetime)
    }  # fmt: skip
    counts = {"msgs": attributes.messages, "hiddenmsgs": attributes.hidden_messages}
    return {**values, **times, **counts}


def encode_attributes(values: Mapping[str, Any], call: QueueCall) -> dict[QueueAttribute, bytes]:
    """
    Check arguments of a call, and return them as they are stored; without those that are None, if
    this changes nothing.

    Args:
        values: the arguments.
        call: the call.

    Raises:
        TypeError: there is no such attribute.
        InvalidValue: a number is out of range or not whole.
        InvalidFormat: a text is not one of the choices.
    """
    for name in values.keys() - call.options.keys():
        raise TypeError(f"{call.name}() got an unexpected keyword argument {name!r}")
    encoded = {}
    # Node checks the delay last when it sets attributes, and not when it creates a queue.
    for name in sorted(call.options, key=lambda name: call is SET and name == "delay"):
        attribute, value = call.options[name], values.get(name)
        if value is not None or attribute.default_in(call) is not None:
            encoded[attribute] = attribute.encode(value)
    return encoded
