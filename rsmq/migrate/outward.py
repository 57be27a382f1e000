"""
The direction of a bridge from a queue to another system.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from redis.exceptions import RedisError

from rsmq.codecs import BYTES
from rsmq.codecs.stored import leave_namespace
from rsmq.errors import RSMQError
from rsmq.migrate.operations import OutgoingMessage, TargetShape, forward_messages
from rsmq.migrate.server import Server
from rsmq.migrate.sources.rfq import make_uuid
from rsmq.model import Message
from rsmq.operations.operation import RetryClass
from rsmq.operations.plain import plain_commands
from rsmq.wire.body_format import is_formatted
from rsmq.wire.keys import QueueKeys

#: The number of messages that a step receives at most, and their visibility timeout.
_BATCH_SIZE, _VT_SECONDS = 100, 60.0


class ToList:
    """
    The conversion of messages to elements of a BRPOPLPUSH list: an element is the body.

    Attributes:
        key: the key of the list.
    """

    shape: ClassVar[TargetShape] = "list"

    def __init__(self, key: str) -> None:
        self.key = key.encode("utf-8", "surrogateescape")

    def departure(self, message: Message) -> OutgoingMessage:
        """Return the element for a message."""
        return OutgoingMessage(message, message.raw)


class ToRFQ:
    """
    The conversion of messages to messages of rfq: a hash of texts, and an id in the backlog.

    The id contains the time when the message was sent, or first received if that is unknown. If the
    body is a JSON object with members, these are the fields of the hash, and values that are not
    text are JSON there. Any other body is the field ``message``.

    Attributes:
        key: the key of the topic's backlog.
    """

    shape: ClassVar[TargetShape] = "list"

    def __init__(self, topic: str) -> None:
        self._prefix = f"rfq:{topic}:".encode("utf-8", "surrogateescape")
        self.key = self._prefix + b"backlog"

    def departure(self, message: Message) -> OutgoingMessage:
        """Return the id and the hash for a message."""
        sent_ms = message.sent_ms or message.first_received_ms or 0
        id = make_uuid(round(sent_ms * 1000)).hex.encode()
        return OutgoingMessage(
            message, id, self._prefix + b"message:" + id, _make_fields(message.raw)
        )


class ToStream:
    """
    The conversion of messages to entries of a Redis stream.

    An entry has these fields: ``body``; ``id``, the id of the message; ``sent_ms``, when it was
    sent, Unix milliseconds, if that is known; ``receive_count``, which includes the receive by the
    bridge. The stream is not trimmed.

    Attributes:
        key: the key of the stream.
    """

    shape: ClassVar[TargetShape] = "stream"

    def __init__(self, key: str) -> None:
        self.key = key.encode("utf-8", "surrogateescape")

    def departure(self, message: Message) -> OutgoingMessage:
        """Return the entry for a message."""
        fields = {
            b"body": message.raw,
            b"id": message.id.encode("utf-8", "surrogateescape"),
            b"receive_count": b"%d" % message.receive_count,
        }
        if message.sent_ms is not None:
            fields[b"sent_ms"] = b"%d" % int(message.sent_ms)
        return OutgoingMessage(message, b"", b"", fields)


def name_queue(messages: Iterable[Message], keys: QueueKeys) -> list[Message]:
    """Return messages that leave a queue; their bodies with steps name it."""
    return [
        replace(each, raw=leave_namespace(each.raw, keys.zset)) if is_formatted(each.raw) else each
        for each in messages
    ]


def _make_fields(raw: bytes) -> dict[bytes, bytes]:
    try:
        found: Any = json.loads(raw)
        if isinstance(found, dict) and found:
            return {
                name.encode("utf-8", "surrogateescape"): _as_text(value)
                for name, value in found.items()
            }
    except (ValueError, RecursionError):  # also if a text has a surrogate that is not a byte
        pass
    return {b"message": raw}


def _as_text(value: object) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")


class Outward:
    """
    The direction from a queue to another system.

    On one server a message is forwarded in one atomic step. Between two servers it is pushed first
    and then deleted, so it may be pushed twice if a connection breaks in between.
    """

    def __init__(
        self, source: Server, queue: str, target: Server, to: ToList | ToRFQ | ToStream
    ) -> None:
        """
        Set the source and the target.

        Args:
            source: the server of the queue.
            queue: the name of the queue, which must exist.
            target: the server of the other system.
            to: the conversion of messages, with the key of the list or the stream.
        """
        self._source = source
        self._queue = queue
        self._target = target
        self._to = to
        self._is_atomic = False

    def begin(self) -> None:
        """
        Check that the queue exists, and whether both servers are the same.

        Raises:
            QueueNotFound: the queue does not exist.
        """
        self._source.rsmq.get_queue_attributes(self._queue)
        self._is_atomic = self._source.is_also(self._target)

    def end(self) -> None:
        """Do nothing: there is no lock."""

    def step(self, number: int, wait: float = 0) -> int:
        """
        Forward up to 100 messages, and return their number.

        If a push to another server fails, the messages are released, if Redis can be reached.

        Args:
            number: the number of messages at most.
            wait: seconds to wait for the first message.
        """
        rsmq = self._source.rsmq
        messages = rsmq.receive_messages(
            self._queue, min(number, _BATCH_SIZE), vt=_VT_SECONDS, wait=wait, codec=BYTES
        )
        messages = name_queue(messages, rsmq.namespace.queue(self._queue))
        outgoing = [self._to.departure(message) for message in messages]
        if not outgoing:
            return 0
        if self._is_atomic:
            outcomes = rsmq.run(
                forward_messages(
                    rsmq.namespace.queue(self._queue), self._to.shape, self._to.key, outgoing
                )
            )
            return outcomes.count(b"1")
        try:
            self._push(outgoing)
        except RedisError:
            with suppress(RedisError, RSMQError):
                rsmq.release_messages(messages)
            raise
        rsmq.delete_messages(messages)
        return len(messages)

    def _push(self, outgoing: list[OutgoingMessage]) -> None:
        key = self._to.key
        commands: list[tuple[bytes, ...]] = []
        for each in outgoing:
            fields = [part for field in each.fields.items() for part in field]
            if self._to.shape == "stream":
                commands.append((b"XADD", key, b"*", *fields))
                continue
            if each.key:
                commands.append((b"HSET", each.key, *fields))
            commands.append((b"LPUSH", key, each.element))
        # If the reply is lost, some messages come twice, as after a crash; none is lost.
        retry = RetryClass.ONCE
        self._target.rsmq.run(plain_commands(key, commands, retry=retry, in_transaction=True))

    def wait(self, seconds: float, number: int) -> int:
        """Forward messages that arrive within so many seconds. Return their number."""
        return self.step(number, seconds)

    def count_waiting(self) -> int:
        """Return the number of visible messages of the queue."""
        return self._source.rsmq.get_queue_attributes(self._queue).visible_messages
