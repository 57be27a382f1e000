"""
Bridges: forward new messages from or to another system until they are stopped.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as TimedOut

from rsmq.codecs import BYTES
from rsmq.errors import RSMQError, SourceNotFound
from rsmq.migrate.mover import Mover, refuse_open_copy
from rsmq.migrate.report import Report
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.migrate.sources.item import Found
from rsmq.migrate.sources.rfq import make_uuid
from rsmq.migrate.target import prepare, refuse_same_queue
from rsmq.model import Message
from rsmq.operations.migration import OutgoingMessage, forward_messages
from rsmq.transport.signals import Flag

_log = logging.getLogger("rsmq.migrate")

#: The longest wait for messages, in seconds. After it the bridge checks whether it is stopped.
_WAIT_SECONDS = 1.0

#: Seconds between two moves of the delayed messages of an RSMQ queue. Messages that become due are
#: moved at once.
_DELAYED_SECONDS = 30.0

#: Seconds between two attempts to connect to a server.
_RECONNECT_SECONDS = 1.0

#: The number of messages that a step receives, and their visibility timeout.
_BATCH_SIZE, _VT_SECONDS = 100, 60.0


class _Side(Protocol):
    """A direction of a bridge: ``Inward`` or ``Outward``."""

    def begin(self) -> None: ...

    def step(self) -> int: ...

    def wait(self, seconds: float) -> int: ...

    def end(self) -> None: ...


class Bridge:
    """
    A bridge that moves messages from one system to the other until it is stopped.

    If the connection to a server breaks, it connects again. If it is stopped or killed at any
    moment, no message is lost: the next bridge or move continues.

    Attributes:
        moved: the number of messages that it has moved.
    """

    def __init__(self, side: _Side, tell: Callable[[int], None] | None = None) -> None:
        """
        Prepare the bridge; ``run`` starts it.

        Args:
            side: an ``Inward`` or an ``Outward``.
            tell: is called with the number of messages moved so far.
        """
        self._side = side
        self._report_progress = tell
        self._stopped = Flag()
        self.moved = 0

    def stop(self) -> None:
        """
        Stop the bridge after its current step.

        May be called by another thread or a signal handler.
        """
        self._stopped.set()

    def run(self) -> int:
        """
        Move messages until the bridge is stopped.

        Returns:
            The number of messages that it has moved.

        Raises:
            redis.exceptions.RedisError: a user has no right, or a key is of another type. After a
                ConnectionError or TimeoutError it connects again instead.
            RSMQError: as of ``begin`` and ``step``.
        """
        try:
            self._run_until_stopped()
        finally:
            self._side.end()
        return self.moved

    def _run_until_stopped(self) -> None:
        begun = False
        while not self._stopped.is_set():
            try:
                if not begun:
                    self._side.begin()
                    begun = True
                moved = self._side.step() or self._side.wait(_WAIT_SECONDS)
            except (NotConnected, TimedOut) as error:
                _log.warning("bridge: the server is away, trying again: %s", error)
                begun = False
                self._stopped.wait(_RECONNECT_SECONDS)
                continue
            self.moved += moved
            if moved and self._report_progress is not None:
                self._report_progress(self.moved)


class Inward:
    """The direction from another system to a queue."""

    def __init__(self, source: Source, queue: str, target: Server, to: str) -> None:
        """
        Set the source and the target.

        Args:
            source: the source.
            queue: the name of the queue at the source, which need not exist yet.
            target: the target server.
            to: the name of the target queue; it is created if it is missing.
        """
        self._source = source
        self._queue = queue
        self._target = target
        self._to = to
        self.report = Report(f"{source.kind}:{queue}", to, "move")
        self._mover: Mover | None = None
        self._delayed_at = 0.0

    def begin(self) -> None:
        """
        Prepare the target queue, and finish what an earlier bridge or move began.

        Raises:
            NotPossible: the target queue is the source; a copy of a list without ids to it is open;
                or another run moves the same queue between two servers.
        """
        refuse_same_queue(self._source, self._queue, self._target, self._to)
        refuse_open_copy(self._source, self._queue, self._target, self._to)
        try:
            found = self._source.look(self._queue)
        except SourceNotFound:  # it may be created later
            found = Found(self._queue, {})
        prepare(self._source, self._target, self._to, found, self.report)
        if self._mover is None:
            self._mover = Mover(
                self._source, self._queue, self._target, self._to, self.report, in_flight=False
            )
        self._mover.maxsize = self._target.rsmq.get_queue_attributes(self._to).maxsize
        self._mover.resume()

    def end(self) -> None:
        """Release the lock, so that another bridge or move can run."""
        if self._mover is not None:
            if self._mover.is_at_end:
                with suppress(RedisError, RSMQError):
                    self._mover.complete()
            self._mover.release()

    def step(self) -> int:
        """Move messages. Return the number of messages removed from the source; 0 if none wait."""
        mover = self._mover
        assert mover is not None  # noqa: S101 - begin() has set it
        removed = mover.removed
        # An RSMQ queue keeps delayed messages among those in flight, so all of these are read.
        with_delayed = self._source.kind != "rsmq" or time.monotonic() >= self._delayed_at
        while mover.removed == removed and mover.step(with_delayed=with_delayed):
            pass
        if with_delayed:
            self._delayed_at = time.monotonic() + _DELAYED_SECONDS
        return mover.removed - removed

    def wait(self, seconds: float) -> int:
        """Wait until there may be messages, at most so many seconds. Return 0."""
        self._source.wait(self._queue, seconds)
        return 0


class ToList:
    """
    The conversion of messages to elements of a BRPOPLPUSH list: an element is the body.

    Attributes:
        key: the key of the list.
    """

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

    def __init__(self, source: Server, queue: str, target: Server, to: ToList | ToRFQ) -> None:
        """
        Set the source and the target.

        Args:
            source: the server of the queue.
            queue: the name of the queue, which must exist.
            target: the server of the other system.
            to: the conversion of messages, with the key of the list.
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

    def step(self, wait: float = 0) -> int:
        """
        Forward up to 100 messages, and return their number.

        If a push to another server fails, the messages are released, if Redis can be reached.

        Args:
            wait: seconds to wait for the first message.
        """
        rsmq = self._source.rsmq
        messages = rsmq.receive_messages(
            self._queue, _BATCH_SIZE, vt=_VT_SECONDS, wait=wait, codec=BYTES
        )
        outgoing = [self._to.departure(message) for message in messages]
        if not outgoing:
            return 0
        if self._is_atomic:
            outcomes = rsmq.run(
                forward_messages(rsmq.namespace.queue(self._queue), self._to.key, outgoing)
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
        with self._target.raw.pipeline(transaction=True) as pipeline:
            for each in outgoing:
                if each.key:
                    pipeline.hset(each.key, mapping=each.fields)
                pipeline.lpush(self._to.key, each.element)
            pipeline.execute()

    def wait(self, seconds: float) -> int:
        """Forward messages that arrive within so many seconds. Return their number."""
        return self.step(seconds)
