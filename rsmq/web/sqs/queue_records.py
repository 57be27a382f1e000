"""
The server's record of a queue: its attributes in Redis, and those that only SQS has.

These are one field of the queue's hash, so they stay when the queue is purged, and are gone when
any client deletes it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rsmq.errors import InvalidFormat, MissingParameter
from rsmq.operations.operation import Operation
from rsmq.operations.plain import plain_command
from rsmq.web.client import Client
from rsmq.web.sqs.errors import SqsError, queue_not_found
from rsmq.web.sqs.names import from_stored, is_fifo, to_stored
from rsmq.web.sqs.operations import store_queue
from rsmq.wire.fields import SQS
from rsmq.wire.limits import UNLIMITED
from rsmq.wire.sqs_settings import decode_settings, has_fifo

#: Seconds for which a record is used again: changes of another server count after that.
_FRESH_SECONDS = 1.0
_MAX_RECORDS = 10_000
_ATTEMPTS = 20

#: The most bytes of a message, and the most seconds of a wait.
MAX_BYTES, MAX_WAIT = 1_048_576, 20
_WHOLE = re.compile("[0-9]{1,9}")
#: The attributes of a FIFO queue, with their defaults.
FIFO_DEFAULTS = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """
    A queue.

    Attributes:
        name: its name in SQS.
        qname: its name in this library.
        maxsize: as stored.
        stored: the field of SQS as stored; empty without it.
        attributes: the attributes that only SQS has.
        tags: by key.
        is_fifo: whether it is a FIFO queue.
    """

    name: str
    qname: str
    maxsize: int = UNLIMITED
    stored: bytes = b""
    attributes: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    is_fifo: bool = False

    @property
    def max_bytes(self) -> int:
        """The bytes that a message may have."""
        if self.maxsize != UNLIMITED:
            return self.maxsize
        return self._number("MaximumMessageSize", MAX_BYTES, MAX_BYTES)

    @property
    def wait(self) -> int:
        """The seconds that a receive waits which does not say how long."""
        return self._number("ReceiveMessageWaitTimeSeconds", MAX_WAIT, 0)

    def _number(self, attribute: str, highest: int, default: int) -> int:
        """Return an attribute; the default if others have stored what is not a number for it."""
        text = self.attributes.get(attribute, "")
        return int(text) if _WHOLE.fullmatch(text) and int(text) <= highest else default

    @property
    def dedup_by_content(self) -> bool:
        """Whether the body is the deduplication id of a message without one."""
        return self.attributes.get("ContentBasedDeduplication") == "true"

    @property
    def dedup_by_group(self) -> bool:
        """Whether deduplication ids count within a group."""
        return self.attributes.get("DeduplicationScope") == "messageGroup"


class QueueRecords:
    """The queues of a namespace, as they were read within the last second."""

    def __init__(self, queues: Client) -> None:
        """Make it; nothing is read."""
        self._queues = queues
        self._read: dict[str, tuple[float, QueueRecord]] = {}

    async def find(self, name: str, *, fresh: bool = False) -> QueueRecord:
        """
        Return a queue by its name of SQS.

        Args:
            fresh: whether it is read now.

        Raises:
            SqsError: there is none.
        """
        now = asyncio.get_running_loop().time()
        at, record = self._read.get(name, (0.0, None))
        if record is not None and not fresh and now - at < _FRESH_SECONDS:
            return record
        record = await self._find(name)
        if len(self._read) >= _MAX_RECORDS:
            self._read.clear()
        self._read[name] = (now, record)
        return record

    def forget(self, name: str) -> None:
        """Read a queue again at its next use."""
        self._read.pop(name, None)

    async def _find(self, name: str) -> QueueRecord:
        qname = to_stored(name)
        try:
            keys = self._queues.namespace.queue(qname)
        except (InvalidFormat, MissingParameter):
            raise queue_not_found() from None
        reading: Operation[list[bytes | None]] = plain_command(
            "HMGET", keys.hash, "vt", "delay", "maxsize", SQS
        )
        vt, delay, maxsize, stored = await self._queues.run(reading)
        attributes, tags = decode_settings(stored)
        # A queue NAME_fifo of another client is not the FIFO queue NAME.fifo, nor the other way.
        exists, fifo = vt is not None and delay is not None, is_fifo(name)
        if not exists or maxsize is None or fifo != has_fifo(attributes):
            raise queue_not_found()
        number = maxsize.decode("latin-1")
        size = int(number) if number.isdecimal() else UNLIMITED
        return QueueRecord(name, qname, size, bytes(stored or b""), attributes, tags, fifo)

    async def name_of(self, qname: str) -> str:
        """Return the name of SQS of a queue of this library."""
        keys = self._queues.namespace.queue(qname)
        reading: Operation[bytes | None] = plain_command("HGET", keys.hash, SQS)
        stored = await self._queues.run(reading)
        return from_stored(qname, fifo=has_fifo(decode_settings(stored)[0]))

    async def change(
        self,
        name: str,
        change: Callable[[QueueRecord], Mapping[str, Any]],
        policy: tuple[str, int] | None = None,
    ) -> None:
        """
        Change a queue in one atomic step, which is repeated while others change it meanwhile.

        Args:
            change: returns what to store in the queue's hash.
            policy: as for ``store_queue``.

        Raises:
            SqsError: there is no such queue, or the change is not valid.
        """
        namespace = self._queues.namespace
        for _ in range(_ATTEMPTS):
            record = await self.find(name, fresh=True)
            fields = change(record)
            if await self._queues.run(
                store_queue(namespace, record.qname, fields, policy, known=record.stored)
            ):
                self.forget(name)
                return
        raise SqsError("RequestThrottled", "The queue is changed by others all the time.")
