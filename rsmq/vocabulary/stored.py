"""
The facts stored beside the body of a message and the attributes of a queue, and their way to
another queue.

Migrations, exports and Spark's job migrate report from this table what they leave behind. A test
walks it with each carrier, and compares the table of the docs with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from rsmq.errors import InvalidFormat
from rsmq.vocabulary.queues import ATTRIBUTE_FIELDS
from rsmq.vocabulary.sends import ValueKind
from rsmq.wire.fields import DIVIDED, GROUPED, LIMITED, NAMED, RATED, RESUMED, SQS
from rsmq.wire.groups import check_group, make_limit_group, parse_group
from rsmq.wire.limits import MAX_RECEIVES
from rsmq.wire.sqs_settings import find_obstacle
from rsmq.wire.throttle import MAX_RUNNING


class Carrier(Enum):
    """A way in which a message gets to another queue, or returns to its own."""

    MOVE = "move_messages"
    DEAD_LETTER = "a dead-letter policy, or a worker"
    REDRIVE = "redrive_messages"
    UNDO = "undo"
    EXPORT = "export and import"
    EXPORT_NEW = "import with new ids"
    MIGRATE = "rsmq migrate --from rsmq"
    SPARK_MIGRATE = "the job migrate"
    ARCHIVE = "the jobs archive, with keep, and replay, with restore"


_NEW_IDS = (Carrier.REDRIVE, Carrier.EXPORT_NEW)
_TO_OTHER_QUEUES = tuple(each for each in Carrier if each is not Carrier.UNDO)


@dataclass(frozen=True, slots=True)
class StoredFact:
    """
    A fact that is stored of a message.

    Attributes:
        name: as an argument or an attribute has it.
        key: the attribute of QueueKeys with its key: hash, zset, or that of extension data; "job"
            is the key of the message's own record.
        text: what it is, for reports: a plural.
        left_by: the carriers that leave it behind, each with the reason. The others carry it.
    """

    name: str
    key: str
    text: str
    left_by: Mapping[Carrier, str] = field(default_factory=dict)


_A_NEW_MESSAGE = "the messages are new ones"
_LIMITS_OF_QUEUE = "in another queue its settings count"
_OF_ITS_QUEUE = "they belong to the queue that the messages were sent to"
_OF_A_WORKER = "they belong to the receives of workers"
_OF_A_DEAD_LETTER = "they belong to the dead letters of this queue"
_FOR_PEOPLE = "a file has them for people only"
_OF_APALIS = "only apalis-rsmq reads them"
_LIMITED = {
    Carrier.MOVE: _LIMITS_OF_QUEUE,
    Carrier.DEAD_LETTER: "a dead letter must not expire, and is not tried again",
    Carrier.REDRIVE: _A_NEW_MESSAGE,
}

#: The facts, in the order of the docs.
STORED_FACTS: tuple[StoredFact, ...] = (
    StoredFact(
        "visible_at", "zset", "times from which messages are visible",
        {
            Carrier.DEAD_LETTER: "a dead letter is visible at once",
            **dict.fromkeys(_NEW_IDS, _A_NEW_MESSAGE),
        },
    ),
    StoredFact("receive_count", "hash", "receive counts", dict.fromkeys(_NEW_IDS, _A_NEW_MESSAGE)),
    StoredFact(
        "first_received", "hash", "times of the first receive",
        dict.fromkeys(_NEW_IDS, _A_NEW_MESSAGE),
    ),
    StoredFact("expires", "limits", "expiries", _LIMITED),
    StoredFact("max_retries", "limits", "numbers of retries", _LIMITED),
    StoredFact("group", "group_of", "groups"),
    StoredFact("limit_key", "group_of", "limit keys with max_running"),
    StoredFact(
        "unique_key", "unique", "unique keys", dict.fromkeys(_TO_OTHER_QUEUES, _OF_ITS_QUEUE)
    ),
    StoredFact(
        "dedup_id", "dedup", "deduplication ids", dict.fromkeys(_TO_OTHER_QUEUES, _OF_ITS_QUEUE)
    ),
    StoredFact("track", "job", "records as jobs", dict.fromkeys(_TO_OTHER_QUEUES, _OF_ITS_QUEUE)),
    StoredFact(
        "reason", "reasons", "reasons of dead letters",
        {
            **dict.fromkeys(_TO_OTHER_QUEUES, _OF_A_DEAD_LETTER),
            Carrier.EXPORT: _FOR_PEOPLE,
            Carrier.EXPORT_NEW: _FOR_PEOPLE,
        },
    ),
    StoredFact(
        "unbegun", "unbegun", "receives that are no attempts",
        {
            carrier: _OF_A_WORKER
            for carrier in _TO_OTHER_QUEUES
            if carrier not in {Carrier.MOVE, Carrier.DEAD_LETTER}
        },
    ),
    StoredFact(
        "last_error", "retrying", "errors of the last attempt",
        dict.fromkeys(_TO_OTHER_QUEUES, _OF_A_WORKER),
    ),
    StoredFact(
        "finished", "finished", "handlers that have finished",
        dict.fromkeys(_TO_OTHER_QUEUES, _OF_A_WORKER),
    ),
    StoredFact(
        "quarantined", "quarantined", "quarantine records",
        dict.fromkeys(_TO_OTHER_QUEUES, _OF_A_WORKER),
    ),
    StoredFact("locks", "locks", "locks", dict.fromkeys(_TO_OTHER_QUEUES, _OF_A_WORKER)),
    StoredFact(
        "meta", "hash", "fields meta of apalis-rsmq",
        {
            carrier: _OF_APALIS
            for carrier in _TO_OTHER_QUEUES
            if carrier not in {Carrier.MOVE, Carrier.DEAD_LETTER}
        },
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShownFact:
    """
    A fact that ``StoredMessage`` has as a value, and that every face shows.

    HTTP's answers and its OpenAPI document, the program's JSON and lines, the page of a message and
    the columns of Spark follow from it.

    Attributes:
        name: the attribute, the field of JSON and the column.
        kind: the type of its value.
        text: what it is, in one sentence.
        shown: how pages show it, with the names of facts in braces; "" shows it with another one.
        line: how the program's lines show it.
    """

    name: str
    kind: ValueKind
    text: str
    shown: str = ""
    line: str = ""

    @property
    def title(self) -> str:
        """Its name on pages."""
        return self.name.replace("_", " ")


#: These facts, in the order of the faces.
SHOWN_FACTS = (
    ShownFact("group", ValueKind.LABEL, "Its group.", "{group}", "in group {group}"),
    ShownFact(
        "limit_key", ValueKind.LABEL, "Its limit key.", "{limit_key}, {max_running} at a time",
        "of limit key {limit_key}, {max_running} at a time",
    ),
    ShownFact(
        "max_running", ValueKind.WHOLE_NUMBER,
        "How many messages of the limit key may run at a time.",
    ),
)  # fmt: skip


#: The largest time of a record. JavaScript clients can't read larger integers exactly.
_LARGEST_MS = 2**53
_GROUP = re.compile(rb"(\d{1,17}):([^\0]+)", re.DOTALL)
_LIMITS = re.compile(rb"\d{1,7}:\d{0,15}|:\d{1,15}")


@dataclass(frozen=True, slots=True)
class RecordValue:
    """
    A value of a record.

    Attributes:
        name: as facts have it.
        kind: its type; a time is in Unix ms.
        high: the largest number.
        low: the smallest number.
    """

    name: str
    kind: ValueKind
    high: int = 0
    low: int = 0

    @property
    def column(self) -> str:
        """The column of Spark."""
        return f"{self.name}_at" if self.kind is ValueKind.TIME else self.name

    @property
    def field(self) -> str:
        """The field of an export."""
        return f"{self.column}_ms" if self.kind is ValueKind.TIME else self.name

    @property
    def range(self) -> str:
        """The range of its numbers, as texts have it."""
        if self.kind is ValueKind.TIME:
            return "1970-01-01 or later"
        return f"{self.low} to {self.high}"


class FoundRecord(NamedTuple):
    """
    A record that is stored.

    Attributes:
        text: the record, as carriers pass it on: without bytes of value 0.
        due_ms: of a message with a group, Unix ms from which it may be due.
    """

    text: bytes
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """
    A record of messages that comes along with their ids: by an import, a migration, or Spark.

    It is in a hash beside the queue, by the id of the message. ``fragments/carried.lua`` stores it.

    Attributes:
        key: the attribute of QueueKeys with its key.
        values: the values that it has, in the order of exports.
        find: returns what of a stored field is the record; None if it is none.
        read: returns the values of a record that it has, by name.
        write: returns the record with values of these names; empty if all are None.
        queue_field: a field of the queue's hash without which no message has one; "" if there is
            none.
        is_marked: whether the id of a message that has one ends with GROUP_MARK.
    """

    key: str
    values: tuple[RecordValue, ...]
    find: Callable[[bytes], FoundRecord | None]
    read: Callable[[bytes], dict[str, Any]]
    write: Callable[[Mapping[str, Any]], bytes]
    queue_field: str = ""
    is_marked: bool = False

    def make(self, values: Mapping[str, Any]) -> bytes:
        """
        Return the record with values; empty if all are None.

        Args:
            values: texts and numbers by name.

        Raises:
            InvalidFormat: a value is not a text, is out of range, or lacks or excludes another.
        """
        for each in self.values:
            value = values[each.name]
            if each.kind is ValueKind.LABEL or value is None:
                continue
            if not each.low <= value <= each.high:
                hint = f"{each.column} is {each.range}."
                raise InvalidFormat(each.name, value=value, hint=hint)
        return self.write(values)


def _find_group(stored: bytes) -> FoundRecord | None:
    found = _GROUP.fullmatch(stored)
    return found and FoundRecord(found[2], int(found[1]))


def _read_group(text: bytes) -> dict[str, Any]:
    names = parse_group(text)._asdict().items()
    return {name: value for name, value in names if value is not None}


def _write_group(values: Mapping[str, Any]) -> bytes:
    group, key, most = values["group"], values["limit_key"], values["max_running"]
    if key is None:
        return b"" if group is None else check_group(group)
    if group is not None:
        raise InvalidFormat(
            "group", value=group, hint="A message has a group or a limit_key, not both."
        )
    if most is None:
        hint = f"max_running is 1 to {MAX_RUNNING} beside a limit_key."
        raise InvalidFormat("max_running", value=most, hint=hint)
    return make_limit_group(key, int(most))


def _find_limits(stored: bytes) -> FoundRecord | None:
    return FoundRecord(stored) if _LIMITS.fullmatch(stored) else None


def _read_limits(text: bytes) -> dict[str, Any]:
    parts = zip(("max_retries", "expires"), text.split(b":"), strict=True)
    return {name: int(part) for name, part in parts if part}


def _write_limits(values: Mapping[str, Any]) -> bytes:
    numbers = [values["max_retries"], values["expires"]]
    parts = [b"" if each is None else b"%d" % int(each) for each in numbers]
    return b":".join(parts) if any(parts) else b""


#: The record of a group, or of a limit key.
GROUP = MessageRecord(
    "group_of",
    (
        RecordValue("group", ValueKind.LABEL),
        RecordValue("limit_key", ValueKind.LABEL),
        RecordValue("max_running", ValueKind.WHOLE_NUMBER, MAX_RUNNING, low=1),
    ),
    _find_group,
    _read_group,
    _write_group,
    is_marked=True,
)
#: All records, in the order in which the scripts read them.
MESSAGE_RECORDS: tuple[MessageRecord, ...] = (
    GROUP,
    MessageRecord(
        "limits",
        (
            RecordValue("max_retries", ValueKind.WHOLE_NUMBER, MAX_RECEIVES),
            RecordValue("expires", ValueKind.TIME, _LARGEST_MS),
        ),
        _find_limits, _read_limits, _write_limits,
        queue_field=LIMITED,
    ),
)  # fmt: skip


def _is_left(record: MessageRecord, carrier: Carrier) -> bool:
    return any(carrier in each.left_by for each in STORED_FACTS if each.key == record.key)


_SHOWN = {each.name for each in SHOWN_FACTS}
#: Those of them that ``StoredMessage`` has: of the group, then as scripts return them.
SHOWN_RECORDS = tuple(
    record for record in MESSAGE_RECORDS if any(each.name in _SHOWN for each in record.values)
)
#: The keys of records by what scripts do with them.
RECORDS_BY_WAY = {
    "carried": [each.key for each in MESSAGE_RECORDS],
    "moved": [each.key for each in MESSAGE_RECORDS if not _is_left(each, Carrier.MOVE)],
    "shown": ["reasons", *(each.key for each in SHOWN_RECORDS if each is not GROUP)],
}


@dataclass(frozen=True, slots=True)
class QueueField:
    """
    A field of a queue's hash that is neither an attribute nor a message's.

    Attributes:
        field: the field.
        stays: whether it stays when the queue is purged.
        text: what it is, for reports of copies that do not have it: a plural; empty if copies are
            not to have it.
        find_obstacle: returns why a queue of a name can't have a value; None if it can.
    """

    field: str
    stays: bool = False
    text: str = ""
    find_obstacle: Callable[[str, bytes], str | None] = lambda _, __: None


#: These fields: those of this library, and those of other clients.
QUEUE_FIELDS = (
    QueueField(RESUMED, stays=True),
    QueueField(DIVIDED, stays=True),
    QueueField(
        SQS, stays=True, text="attributes and tags that only SQS has", find_obstacle=find_obstacle
    ),
    QueueField("createdby", stays=True),
    QueueField("msgs"),
    QueueField("hiddenmsgs"),
    *map(QueueField, (LIMITED, GROUPED, NAMED, RATED)),
)
#: Those that a copy of a queue has.
COPIED_FIELDS = tuple(each for each in QUEUE_FIELDS if each.text)
#: All fields of a queue's hash that are not a message's.
ALL_QUEUE_FIELDS = (*ATTRIBUTE_FIELDS, *(each.field for each in QUEUE_FIELDS))
