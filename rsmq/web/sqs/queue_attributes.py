"""
The attributes of a queue: which there are, their ranges, and what they are in this library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from rsmq.vocabulary.queues import REQUIRED_ATTRIBUTES
from rsmq.web.client import Client
from rsmq.web.sqs.errors import SqsError, invalid_value
from rsmq.web.sqs.names import SqsSite, is_fifo, to_stored
from rsmq.web.sqs.queue_records import FIFO_DEFAULTS, MAX_BYTES, MAX_WAIT, QueueRecord, QueueRecords
from rsmq.wire.fields import KEEP
from rsmq.wire.limits import MAX_MAXSIZE, UNLIMITED

_MAX_TEXT_BYTES = 64 * 1024
_MAX_RECEIVES = 1000
_WHOLE = re.compile("[0-9]{1,9}")
#: Whole numbers, with their ranges.
_RANGES = {
    "VisibilityTimeout": (0, 43_200),
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1024, MAX_BYTES),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, MAX_WAIT),
}
#: Those that are attributes of this library, by their fields.
_FIELDS = {"VisibilityTimeout": "vt", "DelaySeconds": "delay", "MessageRetentionPeriod": KEEP}
_CHOICES = {
    "FifoQueue": ("true", "false"),
    "ContentBasedDeduplication": ("true", "false"),
    "DeduplicationScope": ("messageGroup", "queue"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}
#: Attributes without a meaning here are stored and returned, so that Terraform works.
_TEXTS = (
    "Policy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled",
    "RedriveAllowPolicy",
)  # fmt: skip
_COUNTS = (
    "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)  # fmt: skip
_READ_ONLY = ("QueueArn", "CreatedTimestamp", "LastModifiedTimestamp", *_COUNTS)
_READABLE = {*_RANGES, *_CHOICES, *_TEXTS, *_READ_ONLY, "RedrivePolicy", "All"}

#: The fields of a queue that SQS creates.
NEW_FIELDS: dict[str, Any] = {
    **{each.field: each.default for each in REQUIRED_ATTRIBUTES},
    "maxsize": UNLIMITED,
    KEEP: 345_600,
}
_RETENTION_WITHOUT_KEEP = 1_209_600


class ChangedAttributes:
    """
    Attributes of a request, checked, as what is stored.

    Attributes:
        fields: of the queue's hash.
        settings: of those that only SQS has; an empty text removes one.
        policy: the name of the dead-letter queue here and its limit; an empty name removes the
            policy, None leaves it.
    """

    def __init__(self, given: Any, name: str, site: SqsSite, *, creates: bool) -> None:
        """
        Check them.

        Args:
            given: by name; as the client has sent them.
            name: of the queue, in SQS.
            creates: whether the queue is created, when it may become a FIFO queue.

        Raises:
            SqsError: one is not known, or has not one of its values.
        """
        self.fields: dict[str, Any] = {}
        self.settings: dict[str, str] = {}
        self.policy: tuple[str, int] | None = None
        if given is None:
            given = {}
        if not isinstance(given, dict):
            raise invalid_value("Attributes", "", "It is not a map.")
        for attribute, value in given.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            self._add(attribute, text, name, site, creates=creates)

    def _add(self, attribute: str, value: str, name: str, site: SqsSite, *, creates: bool) -> None:
        if attribute in _RANGES:
            self._add_number(attribute, value)
        elif attribute in _CHOICES:
            _check_choice(attribute, value, fifo=is_fifo(name), creates=creates)
            self.settings[attribute] = value
        elif attribute == "RedrivePolicy":
            self.policy = _read_policy(value, name, site)
        elif attribute in _TEXTS:
            if len(value.encode(errors="replace")) > _MAX_TEXT_BYTES:
                raise _bad_value(attribute)
            self.settings[attribute] = value
        else:
            raise unknown_attribute(attribute)

    def _add_number(self, attribute: str, value: str) -> None:
        low, high = _RANGES[attribute]
        if not _WHOLE.fullmatch(value) or not low <= int(value) <= high:
            raise _bad_value(attribute)
        number = int(value)
        if attribute in _FIELDS:
            self.fields[_FIELDS[attribute]] = number
        elif attribute == "MaximumMessageSize":
            # Other clients obey it as far as their format can say it.
            self.fields["maxsize"] = number if number <= MAX_MAXSIZE else UNLIMITED
            self.settings[attribute] = value if number > MAX_MAXSIZE else ""
        else:
            self.settings[attribute] = value if number else ""


def unknown_attribute(name: str) -> SqsError:
    """Return the error of an attribute that there is not."""
    return SqsError("InvalidAttributeName", f"Unknown Attribute {name[:200]}.")


def _bad_value(attribute: str) -> SqsError:
    return SqsError("InvalidAttributeValue", f"Invalid value for the parameter {attribute}.")


def _check_choice(attribute: str, value: str, *, fifo: bool, creates: bool) -> None:
    if not fifo:
        if attribute in {"FifoQueue", "ContentBasedDeduplication"}:
            raise unknown_attribute(attribute)
        text = f"You can specify the {attribute} only when FifoQueue is set to true."
        raise SqsError("InvalidAttributeName", text)
    becomes_standard = attribute == "FifoQueue" and value != "true" and not creates
    if value not in _CHOICES[attribute] or becomes_standard:
        raise _bad_value(attribute)


def _read_policy(value: str, name: str, site: SqsSite) -> tuple[str, int]:
    if not value:
        return "", 0
    refused = partial(invalid_value, "RedrivePolicy", value)
    try:
        policy = json.loads(value)
        arn, limit = policy["deadLetterTargetArn"], int(str(policy["maxReceiveCount"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise refused("It must be JSON with deadLetterTargetArn and maxReceiveCount.") from None
    if not 1 <= limit <= _MAX_RECEIVES:
        raise refused(f"maxReceiveCount is not 1 to {_MAX_RECEIVES}.")
    target = site.name_of_arn("RedrivePolicy", arn)
    if is_fifo(target) != is_fifo(name):
        raise refused("Dead-letter queue must be same type of queue as the source.")
    return to_stored(target), limit


def check_names(names: list[str]) -> list[str]:
    """
    Check the names of attributes to read, and return them.

    Raises:
        SqsError: there is no such attribute.
    """
    for each in names:
        if each not in _READABLE:
            raise unknown_attribute(each)
    return names


class ReadAttributes:
    """The attributes of a queue, as SQS shows them."""

    def __init__(self, queues: Client, records: QueueRecords, site: SqsSite) -> None:
        """Make it; nothing is read."""
        self._queues, self._records, self._site = queues, records, site

    async def read(self, record: QueueRecord, names: list[str]) -> dict[str, str]:
        """
        Return attributes of a queue.

        They are read in up to three steps; each is atomic, and counts are those of several moments.

        Args:
            record: the queue, which was read now.
            names: those to return; ``All`` are all that have a value.

        Raises:
            SqsError: there is no such queue.
        """
        found = await self._queues.get_queue_attributes(record.qname)
        shown = {
            "QueueArn": self._site.arn(record.name),
            "VisibilityTimeout": str(int(found.vt)),
            "DelaySeconds": str(int(found.delay)),
            "MessageRetentionPeriod": str(int(found.keep or 0) or _RETENTION_WITHOUT_KEEP),
            **{name: value for name, value in record.attributes.items() if value},
        }
        shown["MaximumMessageSize"] = str(record.max_bytes)
        shown["ReceiveMessageWaitTimeSeconds"] = str(record.wait)
        for name, moment in (
            ("CreatedTimestamp", found.created), ("LastModifiedTimestamp", found.modified),
        ):  # fmt: skip
            if moment is not None:
                shown[name] = str(int(moment.timestamp()))
        if record.is_fifo:
            shown = FIFO_DEFAULTS | shown
        if found.dead_letter_queue is not None:
            target = await self._records.name_of(found.dead_letter_queue)
            policy = {"deadLetterTargetArn": self._site.arn(target)}
            shown["RedrivePolicy"] = json.dumps(policy | {"maxReceiveCount": found.max_receives})
        if "All" in names or not {*names}.isdisjoint(_COUNTS):
            shown |= await self._count(record)
        return {name: value for name, value in shown.items() if "All" in names or name in names}

    async def _count(self, record: QueueRecord) -> Mapping[str, str]:
        counts = await self._queues.count_messages(record.qname)
        numbers = (
            counts.visible + counts.held_back, counts.in_flight + counts.retrying, counts.delayed,
        )  # fmt: skip
        return dict(zip(_COUNTS, map(str, numbers), strict=True))


def differing_attribute(
    changed: ChangedAttributes, given: Mapping[str, Any], shown: Mapping[str, str]
) -> str | None:
    """Return an attribute that a queue to create again has otherwise; None if there is none."""
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        own = shown.get(name, "")
        if name == "RedrivePolicy":
            if _policy_of(text) != _policy_of(own):
                return name
        elif text != own and name in {*changed.settings, *_RANGES}:
            return name
    return None


def _policy_of(text: str) -> tuple[Any, ...]:
    policy = json.loads(text or "{}")
    return policy.get("deadLetterTargetArn"), str(policy.get("maxReceiveCount"))
