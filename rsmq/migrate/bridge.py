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
from rsmq.migrate.mover import Mover, refuse_twice
from rsmq.migrate.report import Report
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.migrate.sources.item import Found
from rsmq.migrate.sources.rfq import uuid_at
from rsmq.migrate.target import prepare, refuse_itself
from rsmq.model import Message
from rsmq.operations.migration import Departure, hand_over
from rsmq.transport.signals import Flag

_log = logging.getLogger("rsmq.migrate")

#: Seconds after which a wait looks whether the bridge is to be stopped, and for what came due.
_LOOK = 1.0

#: Seconds between two looks at the delayed messages of an RSMQ queue; what comes due goes at once.
_DELAYED = 30.0

#: Seconds between two attempts to reach a server that is away.
_AGAIN = 1.0

#: How many messages go in a step, and the seconds that a step has.
_BATCH, _VT = 100, 60.0


class _Side(Protocol):
    def begin(self) -> None: ...

    def step(self) -> int: ...

    def wait(self, seconds: float) -> int: ...

    def end(self) -> None: ...


class Bridge:
    """
    Takes messages from one system to the other as they come.

    A server that goes away is waited for. Stopped at any moment, killed too, it loses nothing: the
    next bridge, or a move, goes on.
    """

    def __init__(self, side: _Side, tell: Callable[[int], None] | None = None) -> None:
        """
        Make it.

        Args:
            side: ``Inward`` or ``Outward``.
            tell: is told how many messages have gone over so far.
        """
        self._side = side
        self._tell = tell
        self._stopped = Flag()
        self.moved = 0

    def stop(self) -> None:
        """End it, from another thread or a signal's handler: what is under way arrives first."""
        self._stopped.set()

    def run(self) -> int:
        """
        Go on until it is stopped.

        Returns:
            How many messages have gone over.

        Raises:
            Errors of redis-py, unless a server is away: the user may not, or a key is of another
            type.
        """
        try:
            self._go_on()
        finally:
            self._side.end()
        return self.moved

    def _go_on(self) -> None:
        begun = False
        while not self._stopped.is_set():
            try:
                if not begun:
                    self._side.begin()
                    begun = True
                moved = self._side.step() or self._side.wait(_LOOK)
            except (NotConnected, TimedOut) as error:
                _log.warning("bridge: the server is away, trying again: %s", error)
                begun = False
                self._stopped.wait(_AGAIN)
                continue
            self.moved += moved
            if moved and self._tell is not None:
                self._tell(self.moved)


class Inward:
    """From another system to a queue."""

    def __init__(self, source: Source, queue: str, target: Server, to: str) -> None:
        """
        Make it.

        Args:
            source: where messages come.
            queue: the queue's name there, which need not exist yet.
            target: where they go.
            to: the queue's name there; it is made if it is missing.
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
        Look at both sides, and bring what an earlier one has left half-way.

        Raises:
            NotPossible: the queue is its own source; or a copy of the list to it is open.
        """
        refuse_itself(self._source, self._queue, self._target, self._to)
        refuse_twice(self._source, self._queue, self._target, self._to)
        if self._mover is not None:
            self._mover.release()
        try:
            found = self._source.look(self._queue)
        except SourceNotFound:  # yet
            found = Found(self._queue, {})
        prepare(self._source, self._target, self._to, found, self.report)
        self._mover = Mover(
            self._source, self._queue, self._target, self._to, self.report, in_flight=False
        )
        self._mover.maxsize = self._target.rsmq.get_queue_attributes(self._to).maxsize
        self._mover.resume()

    def end(self) -> None:
        """Let another one go on."""
        if self._mover is not None:
            self._mover.release()

    def step(self) -> int:
        """Move what is there; how many were taken."""
        mover = self._mover
        assert mover is not None  # noqa: S101 - it has begun
        before = mover.taken
        # Where they stand among those in flight, all of these are read for them.
        with_delayed = self._source.kind != "rsmq" or time.monotonic() >= self._delayed_at
        while mover.taken == before and mover.step(with_delayed=with_delayed):
            pass
        if with_delayed:
            self._delayed_at = time.monotonic() + _DELAYED
        return mover.taken - before

    def wait(self, seconds: float) -> int:
        """Until there may be something, at most so long."""
        self._source.wait(self._queue, seconds)
        return 0


class ToList:
    """What a message is in a list of the BRPOPLPUSH pattern: its body."""

    def __init__(self, key: str) -> None:
        self.key = key.encode("utf-8", "surrogateescape")

    def departure(self, message: Message) -> Departure:
        """What is pushed."""
        return Departure(message, message.raw)


class ToRFQ:
    """
    What a message is in a topic of rfq: a hash of texts, and an id of the time when it was sent.

    The values of a JSON object go into the hash, those that are not text as JSON. A body that is
    not such an object goes into the field ``message``.
    """

    def __init__(self, topic: str) -> None:
        self._prefix = f"rfq:{topic}:".encode("utf-8", "surrogateescape")
        self.key = self._prefix + b"backlog"

    def departure(self, message: Message) -> Departure:
        """What is pushed, and its hash."""
        sent_ms = message.sent_ms or message.first_received_ms or 0
        id = uuid_at(round(sent_ms * 1000)).hex.encode()
        return Departure(message, id, self._prefix + b"message:" + id, _fields(message.raw))


def _fields(raw: bytes) -> dict[bytes, bytes]:
    try:
        found: Any = json.loads(raw)
        if isinstance(found, dict) and found:
            return {
                name.encode("utf-8", "surrogateescape"): _text(value)
                for name, value in found.items()
            }
    except (ValueError, RecursionError):  # also of texts that have no bytes
        pass
    return {b"message": raw}


def _text(value: object) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")


class Outward:
    """
    From a queue to another system.

    On one server a message goes in one step. Between two it is pushed first and deleted then: one
    that was under way when something broke may be pushed twice.
    """

    def __init__(self, source: Server, queue: str, target: Server, to: ToList | ToRFQ) -> None:
        """
        Make it.

        Args:
            source: where the queue is.
            queue: its name, which must exist.
            target: where its messages go.
            to: what they are there.
        """
        self._source = source
        self._queue = queue
        self._target = target
        self._to = to
        self._at_once = False

    def begin(self) -> None:
        """Look at both sides."""
        self._source.rsmq.get_queue_attributes(self._queue)
        self._at_once = self._source.is_also(self._target)

    def end(self) -> None:
        """Nothing is held."""

    def step(self, wait: float = 0) -> int:
        """Take what is there; how many."""
        rsmq = self._source.rsmq
        messages = rsmq.receive_messages(self._queue, _BATCH, vt=_VT, wait=wait, codec=BYTES)
        given = [self._to.departure(message) for message in messages]
        if not given:
            return 0
        if self._at_once:
            told = rsmq.run(hand_over(rsmq.namespace.queue(self._queue), self._to.key, given))
            return told.count(b"1")
        try:
            self._push(given)
        except RedisError:
            with suppress(RedisError, RSMQError):
                rsmq.release_messages(messages)
            raise
        rsmq.delete_messages(messages)
        return len(messages)

    def _push(self, given: list[Departure]) -> None:
        with self._target.raw.pipeline(transaction=True) as pipeline:
            for each in given:
                if each.key:
                    pipeline.hset(each.key, mapping=each.fields)
                pipeline.lpush(self._to.key, each.element)
            pipeline.execute()

    def wait(self, seconds: float) -> int:
        """Take what comes within that time; how many."""
        return self.step(seconds)
