"""
The options of a send.

The signatures and checks of the clients, the options of the program, the fields of HTTP and its
OpenAPI document, and the pairs of the contract tests follow from this table. Tests compare the
tables of the docs with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rsmq.errors import InvalidCombination, InvalidFormat, show
from rsmq.wire.limits import DEFAULT_DEDUP_WINDOW, MAX_LABEL, MAX_RECEIVES, MAX_SECONDS
from rsmq.wire.throttle import MAX_RUNNING


class ValueKind(Enum):
    """The type of a value; each face has its own form of it."""

    #: Seconds as a number or a timedelta.
    SECONDS = "seconds"
    #: A moment: an aware datetime.
    TIME = "time"
    FLAG = "flag"
    WHOLE_NUMBER = "whole number"
    #: A number of messages in a time, as "100/m".
    RATE = "rate"
    #: A text of 1 to 128 characters, or the name of a queue.
    LABEL = "label"
    #: One of a few texts.
    CHOICE = "choice"


#: An option that a text names.
_REFERENCES = re.compile(r"\{(\w+)\}")
#: The types of values in Python.
ANNOTATIONS = {
    ValueKind.SECONDS: "float | timedelta",
    ValueKind.TIME: "datetime",
    ValueKind.FLAG: "bool",
    ValueKind.WHOLE_NUMBER: "int",
    ValueKind.RATE: "str",
    ValueKind.LABEL: "str",
}


def fill_in(text: str, name_of: Callable[[str], str]) -> str:
    """Return a text with the names of the arguments in braces as a face has them."""
    return _REFERENCES.sub(lambda found: name_of(found[1]), text)


class SendCall:
    """
    A call that sends. It is compared by identity.

    Attributes:
        name: the name of the method.
        has_lists: whether it takes a list of what each message has of its own.
        options: the options that it takes, by its arguments, in the order of the table.
    """

    def __init__(
        self, name: str, options: Iterable[SendOption], *, has_lists: bool = False
    ) -> None:
        self.name = name
        self.has_lists = has_lists
        self.options: dict[str, SendOption] = {each.name_in(self): each for each in options}


@dataclass(frozen=True, slots=True)
class SendOption:
    """
    An option of a send.

    Attributes:
        name: the argument of ``send_message``.
        text: what it does, in one sentence, with the names of options in braces.
        detail: the same for the reference, with units and range.
        kind: the type of its value.
        low: the smallest value of a number, or length of a text.
        high: the largest one.
        default: what counts as not passed.
        of_message: whether each message of a batch has a value of its own: ``send_messages`` takes
            a list, under the plural of the name.
        is_unique: whether its value names a single message, so that the program takes it only for
            one.
        in_publish: whether ``publish`` has it too.
        in_schedules: whether the messages of a schedule can have it.
        in_tasks: whether a send of a task has it; what each task has is declared with it instead.
        in_spark: whether the rows that Spark writes can have it.
        needs: of each of these groups of options, one is passed too.
        excludes: the options that can't be passed too.
        reason: why it needs or excludes others, in one sentence that names no option.
        detail_in_batch: what is different in ``send_messages``, in whole sentences.
    """

    name: str
    text: str
    detail: str
    kind: ValueKind
    low: float | None = None
    high: float | None = None
    default: object = None
    of_message: bool = False
    is_unique: bool = False
    in_publish: bool = False
    in_schedules: bool = True
    in_tasks: bool = True
    in_spark: bool = True
    needs: tuple[tuple[str, ...], ...] = ()
    excludes: tuple[str, ...] = ()
    reason: str = ""
    detail_in_batch: str = ""

    def describe(self, name_of: Callable[[str], str] = str) -> str:
        """Return the text, with the names of options as a face has them."""
        return fill_in(self.text, name_of)

    def is_list_in(self, call: SendCall) -> bool:
        """Return whether a call takes a list of it, with the value of each message."""
        return self.of_message and call.has_lists

    def name_in(self, call: SendCall) -> str:
        """Return the argument of a call."""
        return f"{self.name}s" if self.is_list_in(call) else self.name

    def annotation_in(self, call: SendCall) -> str:
        """Return the type of the argument of a call, as Python writes it."""
        if self.is_list_in(call):
            return "Iterable[str | None] | None"
        kind = ANNOTATIONS[self.kind]
        return f"{kind} | None" if self.default is None else kind

    def default_in(self, call: SendCall) -> Any:
        """Return the default of the argument of a call."""
        return None if self.is_list_in(call) else self.default

    def detail_in(self, call: SendCall) -> str:
        """Return the description for the reference of a call."""
        if call not in {BATCH, PUBLISH}:
            return self.detail
        if self.is_list_in(call):
            detail = f"for each body a {self.name} as for send_message, or None."
        else:
            detail = "as for send_message."
        return f"{detail} {self.detail_in_batch}".rstrip()


#: The options, in the order in which the faces show them.
SEND_OPTIONS: tuple[SendOption, ...] = (
    SendOption(
        "delay",
        "Seconds until it is visible; the queue's delay by default.",
        "seconds until it is visible, 0 to 9,999,999, fractions to the millisecond; None uses the "
        "queue's delay.",
        ValueKind.SECONDS, 0, MAX_SECONDS,
        in_publish=True,
        excludes=("front",),
        reason="A message before all that wait is not delayed.",
    ),
    SendOption(
        "deliver_at",
        "When it becomes visible, instead of a {delay}.",
        "when it becomes visible, instead of a delay: an aware datetime, at most 9,999,999 "
        "seconds ahead by the server's clock, rounded up to the millisecond. A time in the past "
        "means at once.",
        ValueKind.TIME,
        in_publish=True,
        in_schedules=False,
        excludes=("delay", "front"),
        reason="A message becomes visible at one time.",
    ),
    SendOption(
        "front",
        "Before all messages in the queue.",
        "if True, the message is visible at once, before all messages in the queue, whatever the "
        "queue's delay; it can't be combined with deliver_at, or with a delay greater than 0.",
        ValueKind.FLAG,
        default=False,
        in_spark=False,
        excludes=("group", "limit_key"),
        reason="The messages of a group or key keep the order of their sends.",
    ),
    SendOption(
        "dedup_id",
        "A deduplication id, 1 to 128 characters.",
        "a deduplication id of 1 to 128 characters. If a message was sent to this queue with the "
        "same id within the window, nothing is added, and the id of that message is returned, "
        "even if the message was deleted in the meantime. Purging the queue, or deleting and "
        "creating it again, forgets all deduplication ids.",
        ValueKind.LABEL, 1, MAX_LABEL,
        of_message=True,
        is_unique=True,
        in_schedules=False,
    ),
    SendOption(
        "dedup_window",
        "Seconds for which a {dedup_id} is remembered.",
        "seconds for which the dedup_id is remembered, 1 to 9,999,999. Use more than "
        "retry_deadline, so that the last retry falls within the window.",
        ValueKind.SECONDS, 1, MAX_SECONDS,
        default=DEFAULT_DEDUP_WINDOW,
        in_schedules=False,
    ),
    SendOption(
        "unique_key",
        "Only one message with this key is in the queue.",
        "a text of 1 to 128 characters. While a message with this key is in the queue, in flight "
        "or not, nothing is added, and the id of that message is returned. The key is free once "
        "that message is deleted, popped or dead-lettered, by any client. With a dedup_id too, "
        "the dedup_id is looked up first.",
        ValueKind.LABEL, 1, MAX_LABEL,
        of_message=True,
        is_unique=True,
        detail_in_batch="A key that the batch has twice counts as sent before at the second place.",
    ),
    SendOption(
        "replace",
        "Replace the message with the {unique_key}.",
        "if True, and the message with the unique_key was never received, it gets this body, and "
        "with a delay, deliver_at or front also this time; it keeps its id. If it was received, "
        "this message is added, and gets the key. It needs unique_key.",
        ValueKind.FLAG,
        default=False,
        needs=(("unique_key",),),
        reason="It replaces the message that has the same key.",
    ),
    SendOption(
        "max_wait",
        "Seconds within which a replaced message becomes visible.",
        "seconds after the first send of a message within which it becomes visible, however often "
        "it is replaced with a delay; at least the delay, and at most 9,999,999. None puts it off "
        "by the delay each time. It needs replace and delay.",
        ValueKind.SECONDS, 0, MAX_SECONDS,
        needs=(("replace",), ("delay",)),
        reason="It limits how long a message is put off by those that replace it with a delay.",
    ),
    SendOption(
        "expires",
        "Seconds after which it is not delivered any more.",
        "seconds after this send at which the message expires, more than its delay and at most "
        "9,999,999, fractions to the millisecond; None is never. Then it is not delivered any "
        "more, but removed or dead-lettered, see ``set_queue_attributes``; a handler that has it "
        "by then keeps it. It counts for a message that is added or replaced. Node and PHP "
        "consumers ignore it.",
        ValueKind.SECONDS, 0, MAX_SECONDS,
        in_publish=True,
    ),
    SendOption(
        "max_retries",
        "Retries of workers before it is a dead letter.",
        "how often the message is tried again after its first attempt, 0 to 1,000,000, instead of "
        "the number of its worker's listener or of the queue's dead-letter policy; 0 is a single "
        "attempt. It has no effect where there is neither a dead-letter queue nor ``drop``. It "
        "counts for a message that is added or replaced. Node and PHP consumers ignore it.",
        ValueKind.WHOLE_NUMBER, 0, MAX_RECEIVES,
        in_publish=True,
    ),
    SendOption(
        "track",
        "Whether it has a record as a job.",
        "if True, a new or replaced message gets a record of what becomes of it, which ``job`` "
        "reads. The listener that handles it needs ``track=True`` too. Clients in other languages "
        "handle it without the record.",
        ValueKind.FLAG,
        default=False,
        in_tasks=False,
    ),
    SendOption(
        "group",
        "The messages of a group are handled one at a time, in order; 1 to 128 characters.",
        "a text of 1 to 128 characters. The messages of a group are handled one at a time, in the "
        "order of their sends: the next one becomes visible when this one was deleted or dead- "
        "lettered. Consumers in other languages obey too. It can't be combined with front. A "
        "message that is replaced keeps its group.",
        ValueKind.LABEL, 1, MAX_LABEL,
        of_message=True,
    ),
    SendOption(
        "limit_key",
        "The key whose {max_running} or {rate} counts for the message, 1 to 128 characters.",
        "a text of 1 to 128 characters that names what the messages share, such as a tenant or an "
        "API. It needs max_running, rate or both, and can't be combined with group or front. "
        "Consumers in other languages obey too.",
        ValueKind.LABEL, 1, MAX_LABEL,
        of_message=True,
        needs=(("max_running", "rate"),),
        excludes=("group",),
        reason="A key has a limit of its own.",
    ),
    SendOption(
        "max_running",
        "How many messages of the {limit_key} may run at a time.",
        "how many messages of the limit_key may be in flight, delayed or waiting for a retry at a "
        "time, 1 to 1,000; the others are held back, and become visible in the order of their "
        "sends. All senders of a key pass the same number: those that were sent with another one "
        "are counted apart.",
        ValueKind.WHOLE_NUMBER, 1, MAX_RUNNING,
        needs=(("limit_key",),),
        reason="It is the limit of the messages that have the same key.",
    ),
    SendOption(
        "rate",
        'How many messages of the {limit_key} or {group} become visible in a time, as in "100/m".',
        'how many messages of the limit_key or of the group become visible in a time, as "10/s", '
        '"100/m", "1000/h" or "5000/d": evenly spaced, so with "100/m" each one at least 0.6 s '
        "after the one before. The number is 1 to 1,000,000. It counts sends, and no retries.",
        ValueKind.RATE,
        needs=(("limit_key", "group"),),
        reason="It is the rate of the messages that have the same key or group.",
    ),
)  # fmt: skip
_BY_NAME = {each.name: each for each in SEND_OPTIONS}


#: The calls that send.
SEND = SendCall("send_message", SEND_OPTIONS)
BATCH = SendCall("send_messages", SEND_OPTIONS, has_lists=True)
PUBLISH = SendCall("publish", [each for each in SEND_OPTIONS if each.in_publish])
TASK = SendCall("options", [each for each in SEND_OPTIONS if each.in_tasks])
SCHEDULE = SendCall("schedules.add", [each for each in SEND_OPTIONS if each.in_schedules])
SPARK = SendCall("a write of Spark", [each for each in SEND_OPTIONS if each.in_spark])

#: The options that need or exclude others.
_WITH_RULES = tuple(each for each in SEND_OPTIONS if each.needs or each.excludes)


def read_options(options: Mapping[str, Any], call: SendCall) -> dict[str, Any]:
    """
    Return the options that were passed, under the names of ``SEND_OPTIONS``.

    Args:
        options: the arguments of the call.
        call: the call.

    Raises:
        TypeError: there is no such option.
        InvalidFormat: a flag is not a bool.
    """
    passed: dict[str, Any] = {}
    for name, value in options.items():
        option = call.options.get(name)
        if option is None:
            raise TypeError(f"{call.name}() got an unexpected keyword argument {name!r}")
        if option.kind is ValueKind.FLAG and not isinstance(value, bool):
            raise InvalidFormat(name, value=show(value), hint="Pass True or False.")
        if value is not option.default:
            passed[option.name] = value
    return passed


def as_batch(options: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the arguments of ``send_messages`` that give each of its messages these options."""
    return {
        option.name_in(BATCH): [value] * number if option.of_message else value
        for option, value in ((_BY_NAME[name], value) for name, value in options.items())
    }


def check_combinations(passed: Mapping[str, Any]) -> None:
    """
    Check that options have those that they need, and none that they exclude.

    In a batch, two options that each message has of its own exclude each other for each message.

    Args:
        passed: the options; what each message has of its own is a list.

    Raises:
        InvalidCombination: one lacks another, or can't be combined with it.
    """
    for option in _WITH_RULES:
        if option.name not in passed or (value := _first_value(option, passed)) is None:
            continue
        needs = tuple(one_of for one_of in option.needs if passed.keys().isdisjoint(one_of))
        if needs:
            raise InvalidCombination(option.name, value=value, reason=option.reason, needs=needs)
        for name in option.excludes:
            if (value := _first_value(option, passed, _BY_NAME[name])) is not None:
                raise InvalidCombination(
                    option.name, value=value, reason=option.reason, excludes=(name,)
                )


def _first_value(
    option: SendOption, passed: Mapping[str, Any], other: SendOption | None = None
) -> Any:
    """Return the value of the first message that has the option, and the other one; else None."""
    if other is not None and not (option.of_message and other.of_message):
        value = _first_value(option, passed)
        return None if _first_value(other, passed) is None else value
    value = passed.get(option.name)
    if not option.of_message or value is None:
        return value
    others = value if other is None else passed.get(other.name) or ()
    both = zip(value, others, strict=False)
    return next((own for own, each in both if own is not None and each is not None), None)
