"""
Bridges from and to a queue of Amazon SQS, or of another server with its protocol.

A message is stored at the target first, and then deleted at the source. So a bridge that is killed
loses nothing, and the next one finds the message again. A queue of this library remembers the
MessageId for an hour, and a FIFO queue the id of this library for five minutes, so there it is
stored once. A standard queue of SQS has no such memory.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError

from rsmq.codecs import BYTES, TEXT
from rsmq.codecs.sqs_content import SqsContent, decode_whole
from rsmq.errors import MissingExtra, NotPossible, RSMQError
from rsmq.migrate.outward import name_queue
from rsmq.migrate.server import Server
from rsmq.model import Message
from rsmq.operations.reading import read_records
from rsmq.vocabulary.stored import GROUP
from rsmq.wire.names import decode_name, encode_name

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
    from botocore.exceptions import ConnectionError as NotReached
except ImportError as error:
    raise MissingExtra("sqs", "A bridge to Amazon SQS") from error

#: The messages of a request, and their bytes together.
_BATCH_SIZE, _BATCH_BYTES = 10, 1_048_576

#: Seconds for which received messages are hidden. The next bridge finds those of a killed one after
#: that: within the five minutes for which a FIFO queue remembers deduplication ids.
_VT_SECONDS = 60

#: Seconds for which a queue of this library remembers the messages that it got.
_DEDUP_SECONDS = 3600

#: Seconds of a long poll. After it the bridge checks whether it is stopped.
_WAIT_SECONDS = 1

#: Seconds after which a request has failed.
_CONNECT_SECONDS, _READ_SECONDS = 5, 15

_SERVER_FAULT = 500
_TRACE = "AWSTraceHeader"
_COUNT = "ApproximateNumberOfMessages"
_SYSTEM_ATTRIBUTES = ["MessageGroupId", "MessageDeduplicationId", _TRACE]


class SqsQueue:
    """A queue of Amazon SQS."""

    def __init__(self, name: str, endpoint: str | None = None) -> None:
        """
        Set the queue; nothing is requested. Keys and the region are found as by boto3.

        Args:
            name: the name of the queue, or its URL.
            endpoint: the URL of another server than that of AWS; None for the settings of boto3.

        Raises:
            NotPossible: the region or the endpoint is missing or not valid.
        """
        session = boto3.session.Session()
        # A call that boto3 itself repeats could store a message twice.
        retries = {"total_max_attempts": 1}
        try:
            self._client = session.client(
                "sqs",
                endpoint_url=endpoint,
                region_name=session.region_name or ("us-east-1" if endpoint else None),
                config=Config(
                    retries=retries, connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS
                ),
            )
        except (BotoCoreError, ValueError) as error:
            raise NotPossible(f"No client of SQS: {error}") from error
        self._name = name
        self._url = name if "://" in name else ""
        self.is_fifo = name.endswith(".fifo")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """
        Return the answer to a request about the queue.

        Args:
            operation: the name of the method of boto3.

        Raises:
            redis.exceptions.ConnectionError: there is no answer, or one to try again after, as if a
                Redis is away.
            NotPossible: SQS refuses it.
        """
        try:
            if not self._url:
                found = self._client.get_queue_url(QueueName=self._name)
                self._url = found["QueueUrl"]
            answer: dict[str, Any] = getattr(self._client, operation)(
                QueueUrl=self._url, **parameters
            )
        except (NotReached, HTTPClientError) as error:
            raise NotConnected(f"SQS: {error}") from error
        except ClientError as error:
            code = error.response["Error"].get("Code", "")
            status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
            if status >= _SERVER_FAULT or "Throttl" in code:
                raise NotConnected(f"SQS: {error}") from error
            raise NotPossible(f"SQS refuses a request about {self._name!r}: {error}") from error
        except BotoCoreError as error:  # such as missing keys
            raise NotPossible(f"No request to SQS: {error}") from error
        return answer

    def read_attributes(self) -> dict[str, str]:
        """Return all attributes."""
        answer = self.call("get_queue_attributes", AttributeNames=["All"])
        attributes: dict[str, str] = answer["Attributes"]
        return attributes

    def count_visible(self) -> int:
        """Return about how many messages can be received."""
        answer = self.call("get_queue_attributes", AttributeNames=[_COUNT])
        return int(answer["Attributes"][_COUNT])

    def change(
        self, operation: str, received: Iterable[Mapping[str, Any]], **more: int
    ) -> dict[str, Any]:
        """Delete received messages, or change their visibility timeouts."""
        entries = [
            {"Id": str(number), "ReceiptHandle": each["ReceiptHandle"], **more}
            for number, each in enumerate(received)
        ]
        return self.call(operation, Entries=entries)


class FromSqs:
    """
    The direction from a queue of SQS to a queue.

    A message is stored, and then deleted at SQS. Attributes are kept as headers, and groups of a
    FIFO queue as groups. If it was stored and not deleted, it comes again, and is then only
    deleted if it was stored within the last hour.
    """

    def __init__(self, source: SqsQueue, target: Server, to: str) -> None:
        """
        Set the source and the target.

        Args:
            source: the queue of SQS, which must exist.
            target: the server of the other queue.
            to: its name; it is created with the settings of the source if it is missing.
        """
        self._source, self._target, self._to = source, target, to

    def begin(self) -> None:
        """
        Create the target queue if it is missing.

        Raises:
            NotPossible: SQS refuses to read the attributes of the source.
        """
        attributes = self._source.read_attributes()
        self._target.rsmq.create_queue(
            self._to,
            vt=int(attributes.get("VisibilityTimeout", 30)),
            delay=int(attributes.get("DelaySeconds", 0)),
            maxsize=-1,
            keep=int(attributes.get("MessageRetentionPeriod", 0)),
            exist_ok=True,
        )

    def end(self) -> None:
        """Close the connections to SQS."""
        self._source.close()

    def step(self, number: int) -> int:
        """
        Move up to ten messages, for which it waits a second; return their number.

        If they can't be stored, they are released, if SQS can be reached.

        Args:
            number: the number of messages at most.

        Raises:
            NotPossible: SQS refuses a request.
            RSMQError: a message can't be stored.
        """
        answer = self._source.call(
            "receive_message",
            MaxNumberOfMessages=min(number, _BATCH_SIZE),
            VisibilityTimeout=_VT_SECONDS,
            WaitTimeSeconds=_WAIT_SECONDS,
            MessageSystemAttributeNames=_SYSTEM_ATTRIBUTES,
            MessageAttributeNames=["All"],
        )
        received = answer.get("Messages", [])
        if not received:
            return 0
        try:
            self._store(received)
        except (RedisError, RSMQError):
            with suppress(RedisError, RSMQError):
                self._source.change(
                    "change_message_visibility_batch", received, VisibilityTimeout=0
                )
            raise
        # If one can't be deleted, it comes again.
        self._source.change("delete_message_batch", received)
        return len(received)

    def _store(self, received: list[dict[str, Any]]) -> None:
        """Store messages in one atomic step."""
        groups = None
        if self._source.is_fifo:
            groups = [each["Attributes"]["MessageGroupId"] for each in received]
        self._target.rsmq.send_messages(
            self._to,
            [_read(each, is_fifo=self._source.is_fifo).encode() for each in received],
            codec=TEXT,
            delay=0,
            groups=groups,
            dedup_ids=[each["MessageId"] for each in received],
            dedup_window=_DEDUP_SECONDS,
        )

    def wait(self, seconds: float, number: int) -> int:
        """Return 0: a step waits."""
        return 0

    def count_waiting(self) -> int:
        """Return about how many messages can be received from SQS."""
        return self._source.count_visible()


def _read(received: Mapping[str, Any], *, is_fifo: bool) -> SqsContent:
    """Return the content of a received message."""
    attributes = {
        name: (
            {"BinaryValue": base64.b64encode(each["BinaryValue"]).decode()}
            if "BinaryValue" in each
            else {"StringValue": each["StringValue"]}
        )
        | {"DataType": each["DataType"]}
        for name, each in received.get("MessageAttributes", {}).items()
    }
    body, system = received["Body"], received.get("Attributes", {})
    dedup = system.get("MessageDeduplicationId")
    if dedup == hashlib.sha256(body.encode()).hexdigest():
        dedup = None  # not one that was passed
    group = None if is_fifo else system.get("MessageGroupId")
    return SqsContent(body, attributes, group, dedup, system.get(_TRACE))


class ToSqs:
    """
    The direction from a queue to a queue of SQS.

    A message is sent, and then deleted. Headers are attributes, and groups are those of a FIFO
    queue; a message without a group is its own group there. If it was sent and not deleted, it is
    sent again: a FIFO queue then ignores it within five minutes, as its id is the deduplication id.
    """

    def __init__(self, source: Server, queue: str, target: SqsQueue) -> None:
        """
        Set the source and the target.

        Args:
            source: the server of the queue.
            queue: its name; it must exist.
            target: the queue of SQS, which must exist.
        """
        self._source, self._queue, self._target = source, queue, target

    def begin(self) -> None:
        """
        Check that both queues exist.

        Raises:
            QueueNotFound: the source does not exist.
            NotPossible: SQS refuses to read the attributes of the target.
        """
        self._source.rsmq.get_queue_attributes(self._queue)
        self._target.read_attributes()

    def end(self) -> None:
        """Close the connections to SQS."""
        self._target.close()

    def step(self, number: int, wait: float = 0) -> int:
        """
        Move up to ten messages; return their number.

        Those that SQS does not take are released, if Redis can be reached.

        Args:
            number: the number of messages at most.
            wait: seconds to wait for the first message.

        Raises:
            NotPossible: SQS refuses a message, or can't carry its body.
        """
        rsmq = self._source.rsmq
        left = rsmq.receive_messages(
            self._queue, min(number, _BATCH_SIZE), vt=_VT_SECONDS, wait=wait, codec=BYTES
        )
        left = name_queue(left, rsmq.namespace.queue(self._queue))
        moved = 0
        try:
            groups = self._find_groups(left)
            for batch in _divide([(each, self._make_entry(each, groups)) for each in left]):
                sent, refused = self._send(batch)
                rsmq.delete_messages(sent)
                moved += len(sent)
                left = [each for each in left if each not in sent]
                _raise_refused(refused)
        except (RedisError, RSMQError):
            with suppress(RedisError, RSMQError):
                rsmq.release_messages(left)
            raise
        return moved

    def _find_groups(self, messages: list[Message[Any]]) -> dict[str, str]:
        """Return the group of each message that has one, as it is stored, by its id."""
        if not self._target.is_fifo:
            return {}
        keys = self._source.rsmq.namespace.queue(self._queue)
        ids = [encode_name(each.id) for each in messages]
        found = read_records(GROUP, self._source.hmget, keys.zset, keys.hash, ids)
        return {decode_name(id): decode_name(each.text) for id, each in found.items()}

    def _make_entry(self, message: Message[Any], groups: Mapping[str, str]) -> dict[str, Any]:
        """
        Return the entry of a message.

        Raises:
            NotPossible: SQS can't carry its body.
        """
        try:
            content = decode_whole(message.raw)
        except ValueError:
            raise NotPossible(
                f"SQS can't carry the body of message {message.id!r} of {self._queue!r}: it is "
                "empty, is not UTF-8, or has control characters",
                hint="Move or delete the message, and start the bridge again.",
            ) from None
        entry: dict[str, Any] = {"MessageBody": content.body}
        if content.attributes:
            entry["MessageAttributes"] = {
                name: dict(each)
                | (
                    {"BinaryValue": base64.b64decode(each["BinaryValue"])}
                    if "BinaryValue" in each
                    else {}
                )
                for name, each in content.attributes.items()
            }
        if content.trace:
            trace = {"DataType": "String", "StringValue": content.trace}
            entry["MessageSystemAttributes"] = {_TRACE: trace}
        if self._target.is_fifo:
            entry["MessageGroupId"] = groups.get(message.id, message.id)
            entry["MessageDeduplicationId"] = message.id
        elif content.group:
            entry["MessageGroupId"] = content.group
        return entry

    def _send(
        self, batch: list[tuple[Message[Any], dict[str, Any]]]
    ) -> tuple[list[Message[Any]], list[dict[str, Any]]]:
        """Send messages; return those that are stored, and the failures of the others."""
        entries = [{"Id": str(number), **entry} for number, (_, entry) in enumerate(batch)]
        answer = self._target.call("send_message_batch", Entries=entries)
        stored = [batch[int(each["Id"])][0] for each in answer.get("Successful", [])]
        return stored, answer.get("Failed", [])

    def wait(self, seconds: float, number: int) -> int:
        """Move messages that arrive within so many seconds. Return their number."""
        return self.step(number, seconds)

    def count_waiting(self) -> int:
        """Return the number of visible messages of the queue."""
        return self._source.rsmq.get_queue_attributes(self._queue).visible_messages


def _raise_refused(refused: list[dict[str, Any]]) -> None:
    for each in refused:
        text = f"SQS refuses a message: {each['Code']}, {each.get('Message', '')}"
        raise NotPossible(text) if each["SenderFault"] else NotConnected(text)


def _divide(
    entries: Iterable[tuple[Message[Any], dict[str, Any]]],
) -> Iterator[list[tuple[Message[Any], dict[str, Any]]]]:
    """Yield the entries of requests that are not too long."""
    batch: list[tuple[Message[Any], dict[str, Any]]] = []
    total = 0
    for message, entry in entries:
        size = len(message.raw)  # with the headers
        if batch and total + size > _BATCH_BYTES:
            yield batch
            batch, total = [], 0
        batch.append((message, entry))
        total += size
    if batch:
        yield batch
