"""
The tail of a queue: events of its messages, which all clients of a process share.

One reader polls the queue, however many clients follow it, and keeps the last events. A client has
only its place among them, so a slow one needs no memory: it misses events, and learns how many.
After its last client the reader waits a little for one that connects again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import QueueNotFound, RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.model import StoredMessage
from rsmq.operations.following import QueueFollower, pause_after_poll
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import loader_of
from rsmq.search.redaction import Redaction
from rsmq.web.bodies import bodies_of, open_message
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.web.routes.forms import show_stored
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import encode_name

load = loader_of("web")

_log = get_logger("rsmq.web")

_POLL_SECONDS = 0.5
_PAUSE_AFTER_ERROR_SECONDS = 1.0
#: How long a reader reads without clients.
LINGER_SECONDS = 10.0
#: A comment is sent so often, so that proxies and clients see that the connection lives.
HEARTBEAT_SECONDS = 15.0
#: Then the client must connect again.
_MAX_SECONDS = 3600.0
#: A slow client that takes the events that were there has its rights checked again so often.
_RIGHTS_SECONDS = 0.1
#: Events of a queue that are kept, with bodies of at most so many bytes.
MAX_EVENTS = 256
MAX_BODY_BYTES = 4096
#: Messages whose receives and removal are looked for: the last ones that were found.
_MAX_WATCHED = 200
#: Queues that are followed at the same time.
_MAX_QUEUES = 50
#: A client that was away for longer may have missed messages.
_MAX_AWAY_MS = 600_000
_GONE = -1

#: By the queue, and by what its clients do not see of bodies.
_tails: WeakKeyDictionary[Any, dict[tuple[str, Redaction], QueueTail]] = WeakKeyDictionary()
#: The clients of servers that stop.
_stopped: WeakSet[Any] = WeakSet()


class QueueTail:
    """
    The last events of a queue, and the task that reads them while there are clients.

    Attributes:
        name: differs from that of each other reader, of other processes too.
    """

    def __init__(self, queues: Client, qname: str, redaction: Redaction) -> None:
        self._clients = 0
        self._redaction = redaction
        self.name = secrets.token_hex(4)
        self._queues = queues
        self._qname = qname
        self._keys = queues.namespace.queue(qname)
        self._follower = QueueFollower(self._keys, bodies_of(queues))
        #: The receive counts of the messages that are watched, by their ids.
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._events: deque[bytes] = deque(maxlen=MAX_EVENTS)
        #: The number of the next event, from 0.
        self._next = 0
        self._has_ended = False
        self._changed = asyncio.Event()
        #: Monotonic seconds since when there is no client.
        self._idle_since = time.monotonic()
        self.task: asyncio.Task[None] | None = None

    async def start(self, since_ms: int | None) -> None:
        """
        Begin with new messages, or with those since a Unix ms.

        Raises:
            QueueNotFound: the queue does not exist.
        """
        await self._queues.run_steps(self._follower.start())
        if since_ms is not None:
            oldest = self._follower.now_ms - _MAX_AWAY_MS
            if since_ms < oldest:
                self._add("missed", {"number": None})
            await self._queues.run_steps(self._follower.start(max(since_ms, oldest)))

    def place_of(self, last_event: tuple[int, str, int] | None) -> int:
        """
        Return the number of the event that a client gets first.

        Args:
            last_event: the time, the reader and the number of the last event that it got.
        """
        self._idle_since = time.monotonic()
        if last_event is None:
            return self._next
        _, name, number = last_event
        # Of another process: everything that is kept, which may repeat some messages.
        return min(number + 1, self._next) if name == self.name else 0

    async def follow(
        self, place: int, keeps_rights: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes]:
        """
        Yield the events from a place on, in the form of text/event-stream, and heartbeats.

        Args:
            place: the number of the first event.
            keeps_rights: returns whether the client may still see them; they end when it may not.
        """
        self._clients += 1
        try:
            async with aclosing(self._pieces(place, keeps_rights)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._clients -= 1
            self._idle_since = time.monotonic()

    async def _pieces(
        self, place: int, keeps_rights: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes]:
        ends_at = time.monotonic() + _MAX_SECONDS
        # One check counts for the events that are there then.
        checked, checked_at = place, time.monotonic()
        yield b"retry: 2000\n\n"
        beats_at = time.monotonic() + HEARTBEAT_SECONDS
        while time.monotonic() < ends_at:
            first = self._next - len(self._events)
            if place < first:
                yield _encode("missed", {"number": first - place})
                place = first
            if place < self._next:
                if place >= checked or time.monotonic() > checked_at + _RIGHTS_SECONDS:
                    checked = self._next
                    if not await keeps_rights():
                        return
                    checked_at = time.monotonic()
                    continue  # others may have come meanwhile
                event = self._events[place - first]
                place += 1
                yield event
            elif self._has_ended:
                return
            else:
                # Each poll wakes the clients, also one without events.
                with suppress(TimeoutError):
                    async with asyncio.timeout(beats_at - time.monotonic()):
                        await self._changed.wait()
                if time.monotonic() >= beats_at:
                    if not await keeps_rights():
                        return
                    yield b":\n\n"
                    beats_at = time.monotonic() + HEARTBEAT_SECONDS

    @property
    def idle_seconds(self) -> float:
        """For how long it has had no client; 0 while it has one."""
        return 0.0 if self._clients else time.monotonic() - self._idle_since

    def _is_needed(self) -> bool:
        return self.idle_seconds < LINGER_SECONDS

    async def read(self) -> None:
        """Read until the queue is deleted, or has had no client for some time."""
        try:
            await self._read_on()
        finally:
            self._has_ended = True
            self._wake_clients()

    async def _read_on(self) -> None:
        while self._is_needed():
            started_at = time.monotonic()
            pause = _POLL_SECONDS
            try:
                await self._poll()
            except (QueueNotFound, ResponseError) as error:
                code = getattr(error, "code", "refused")
                self._add("ended", {"queue": self._qname, "code": code})
                return
            except (RedisError, RSMQError, OSError) as error:
                _log.debug("a queue can't be followed: %s", type(error).__name__)
                pause = _PAUSE_AFTER_ERROR_SECONDS
            self._wake_clients()
            await asyncio.sleep(pause_after_poll(pause, time.monotonic() - started_at))

    def _wake_clients(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _poll(self) -> None:
        watched = list(self._counts)
        if watched:
            states = await self._queues.run(message_states(self._keys, watched))
            for id, count in zip(watched, states, strict=True):
                self._note_state(id, count)

        def take(messages: list[StoredMessage[bytes]]) -> None:
            for message in messages:
                opened = open_message(message)
                shown = show_stored(opened, self._redaction, max_bytes=MAX_BODY_BYTES)
                self._add("message", shown)
                self._counts[message.id] = message.receive_count or 0
            while len(self._counts) > _MAX_WATCHED:
                self._counts.popitem(last=False)
            self._wake_clients()

        await self._queues.run_steps(self._follower.poll(take))

    def _note_state(self, id: str, count: int) -> None:
        shown = {"queue": self._qname, "id": id}
        if count == _GONE:
            del self._counts[id]
            self._add("removed", shown)
        elif count > self._counts[id]:
            self._counts[id] = count
            self._add("received", {**shown, "receive_count": count})

    def _add(self, event: str, data: Mapping[str, Any]) -> None:
        now_ms = self._follower.now_ms
        self._events.append(_encode(event, data, f"{now_ms}.{self.name}.{self._next}"))
        self._next += 1


def _encode(event: str, data: Mapping[str, Any], id: str | None = None) -> bytes:
    # JSON of ASCII has no line ends, which would end the event.
    lines = [f"event: {event}", f"data: {json.dumps(data)}"]
    return "\n".join([*([f"id: {id}"] if id else []), *lines, "", ""]).encode()


async def follow_queue(
    queues: Client,
    qname: str,
    last_event: tuple[int, str, int] | None,
    redaction: Redaction,
    keeps_rights: Callable[[], Awaitable[bool]],
) -> AsyncGenerator[bytes]:
    """
    Return the events of a queue, from those on that a client has not got yet.

    Args:
        keeps_rights: returns whether the client may still see them; they end when it may not.

    Raises:
        QueueNotFound: the queue does not exist.
        Refused: too many queues are followed.
    """
    if queues in _stopped:
        raise Refused("stopping", "The server stops", status=503, headers={"Retry-After": "1"})
    tails = _tails.setdefault(queues, {})
    key = (qname, redaction)
    tail = tails.get(key)
    if tail is None:
        if len(tails) >= _MAX_QUEUES and not _end_idle(tails):
            raise Refused(
                "busy",
                f"{_MAX_QUEUES} queues are followed already",
                status=429,
                hint="Try again when others have ended.",
                headers={"Retry-After": "30"},
            )
        new = QueueTail(queues, qname, redaction)
        await new.start(None if last_event is None else last_event[0])
        tail = tails.setdefault(key, new)
        if tail is new:  # no other client has been faster
            tail.task = asyncio.create_task(tail.read())
            tail.task.add_done_callback(lambda _: tails.get(key) is new and tails.pop(key))
    return tail.follow(tail.place_of(last_event), keeps_rights)


def _end_idle(tails: dict[Any, QueueTail]) -> bool:
    """End the reader that has had no client for the longest time; return whether there is one."""
    idle = [(each.idle_seconds, key) for key, each in tails.items() if each.idle_seconds > 0]
    if not idle:
        return False
    _, key = max(idle, key=lambda each: each[0])
    tail = tails.pop(key)
    if tail.task is not None:
        tail.task.cancel()
    return True


def end_tails(queues: Client) -> None:
    """End the events of all queues of a client, because its server stops."""
    _stopped.add(queues)
    for tail in _tails.get(queues, {}).values():
        if tail.task is not None:
            tail.task.cancel()


def message_states(keys: QueueKeys, ids: Sequence[str]) -> Operation[list[int]]:
    """Return the receive count of each message, or -1 if it has left the queue."""
    return Operation(
        load("message_states"),
        (keys.hash,),
        tuple(map(encode_name, ids)),
        lambda reply: reply,
        RetryClass.ALWAYS,
        (keys.name,),
    )
