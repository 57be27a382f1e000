"""
A request for an operation of SQS as its handler gets it, and what the handler returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rsmq.model import Message
from rsmq.web.client import Client
from rsmq.web.sqs.errors import SqsError, invalid_value, missing, service_error
from rsmq.web.sqs.names import SqsSite
from rsmq.web.sqs.queue_attributes import ReadAttributes
from rsmq.web.sqs.queue_records import QueueRecord, QueueRecords
from rsmq.web.sqs.receipts import ReceiptSigner
from rsmq.web.table import ApiCall, Scope

_MAX_ENTRIES, _MAX_ID, _MAX_NAMES = 10, 80, 1000
_WHOLE = re.compile("-?[0-9]{1,9}")
_ID = re.compile(f"[A-Za-z0-9_-]{{1,{_MAX_ID}}}")


@dataclass(frozen=True, slots=True)
class SqsState:
    """
    The state that the calls of a server share.

    Attributes:
        site: the region and the account of names.
        records: the queues, as they were read lately.
        receipts: makes and reads receipt handles.
        attributes: reads the attributes of queues.
    """

    site: SqsSite
    records: QueueRecords
    receipts: ReceiptSigner
    attributes: ReadAttributes


@dataclass(frozen=True, slots=True)
class SqsCall:
    """
    A request.

    Attributes:
        parameters: as the JSON protocol has them.
        queue: the queue of the parameter QueueUrl; of operations without it one without a name.
        base_of: returns the address below which the URLs of queues are.
        api: what calls over HTTP have in common: the client, the rights, whether the caller has
            left.
    """

    state: SqsState
    parameters: Mapping[str, Any]
    queue: QueueRecord
    base_of: Callable[[], str]
    api: ApiCall

    @property
    def queues(self) -> Client:
        """The client."""
        return self.api.queues

    def url(self, name: str) -> str:
        """Return the URL of a queue."""
        return self.state.site.url(self.base_of(), name)


@dataclass(frozen=True, slots=True)
class SqsAnswer:
    """
    The result of a handler.

    Attributes:
        content: the result; None of an operation that has none.
        messages: the received messages in it, which are released if the client has left.
    """

    content: Mapping[str, Any] | None = None
    messages: tuple[Message[Any], ...] = ()


NOTHING = SqsAnswer()

SqsHandler: TypeAlias = Callable[[SqsCall], Coroutine[Any, Any, SqsAnswer]]


@dataclass(frozen=True, slots=True)
class SqsOperation:
    """
    An operation.

    Attributes:
        scope: what a caller must be allowed to do, with the queue if it has one.
        has_queue: whether it has the parameter QueueUrl.
        is_fresh: whether the queue is read for it, and not used as it was within the last second.
        is_long: whether its work grows with the queue.
    """

    handler: SqsHandler
    scope: Scope
    has_queue: bool = True
    is_fresh: bool = False
    is_long: bool = False


def read_number(
    parameters: Mapping[str, Any], name: str, low: int, high: int, reason: str = ""
) -> int | None:
    """
    Return a whole number of a request; None if it is missing.

    Args:
        reason: what its range is, in a sentence of AWS; the default names the range.

    Raises:
        SqsError: it is not a whole number, or out of its range.
    """
    value = parameters.get(name)
    if value is None or value == "":
        return None
    text = str(value)
    if isinstance(value, bool) or not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
        reason = reason or f"Must be between {low} and {high}, if provided."
        raise invalid_value(name, text, reason)
    return int(text)


def read_texts(parameters: Mapping[str, Any], name: str) -> list[str]:
    """
    Return a list of texts of a request; empty if it is missing.

    Raises:
        SqsError: it is not a list, or too long.
    """
    value = parameters.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > _MAX_NAMES:
        raise invalid_value(name, value, f"It is not a list of at most {_MAX_NAMES}.")
    return [str(each) for each in value]


def read_entries(parameters: Mapping[str, Any], operation: str) -> list[Mapping[str, Any]]:
    """
    Return the entries of a batch.

    Raises:
        SqsError: there are none or too many, or their ids are not valid or not distinct.
    """
    entries = parameters.get("Entries")
    if not isinstance(entries, list) or not entries:
        raise service_error(
            "EmptyBatchRequest",
            f"There should be at least one {operation}RequestEntry in the request.",
        )
    if len(entries) > _MAX_ENTRIES:
        raise service_error(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {_MAX_ENTRIES}. You have sent "
            f"{len(entries)}.",
        )
    seen: set[str] = set()
    for entry in entries:
        id = entry.get("Id") if isinstance(entry, dict) else None
        if id is None:
            raise missing(f"{operation}RequestEntry.1.Id")
        if not isinstance(id, str) or not _ID.fullmatch(id):
            raise service_error(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                f"underscores. It can be at most {_MAX_ID} letters long.",
            )
    for entry in entries:
        if entry["Id"] in seen:
            raise service_error("BatchEntryIdsNotDistinct", f"Id {entry['Id']} repeated.")
        seen.add(entry["Id"])
    return entries


def failed_entry(id: str, error: SqsError) -> dict[str, Any]:
    """Return what an answer says of an entry that has failed."""
    code = error.code.removeprefix("AWS.SimpleQueueService.")
    is_sender = error.fault == "Sender"
    return {"Id": id, "SenderFault": is_sender, "Code": code, "Message": str(error)}


def batch_answer(successful: list[dict[str, Any]], failed: list[dict[str, Any]]) -> SqsAnswer:
    """Return the answer to a batch; lists without entries are left out."""
    lists = {"Successful": successful, "Failed": failed}
    return SqsAnswer({name: each for name, each in lists.items() if each})
