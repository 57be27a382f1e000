"""
Who waits for which queue, and who is woken next. No I/O, no clock: ``watcher.py`` and
``aio_watcher.py`` bring the news and the time.

The rules:

- Of those who wait for a queue, one is woken at a time. One who is woken is off the board; who
  finds nothing comes back, who finds something has changed the queue, of which news will come.
- Where the server tells of changes, a queue is read (``due_in.lua``) when the first comes to wait,
  after each change, and after somebody found nothing. The reading says when something will be due,
  and orders the news of the next change in the same step, so that none is missed.
- Any change of a queue that was read empty is an arrival: somebody is sent at once.
- One who found nothing although something was due (another was faster; or it is an id whose body is
  still to come) is sent again after a pause that grows to a second, unless there is news.
- Now and then somebody looks without any reason, in case that news was lost.
- Where the server does not tell, somebody looks again and again, ever less often.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

#: Seconds between two looks without reason; varied by half, so that clients spread.
SAFETY = 15.0
#: Seconds for which something due is no reason to send anybody, by how often the last who was sent
#: has found nothing.
QUIET = (0.005, 0.05, 0.5, 1.0)
#: Seconds after which another is sent if one who was sent has not come back, and there is no news.
PATIENCE = 1.0
#: Seconds between the looks into a queue where nobody tells: doubled from the first to the longest,
#: and varied by a quarter.
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 1 / 3


class Waiter:
    """
    One who waits.

    Attributes:
        queues: the sorted sets of the queues waited for.
        awake: whether it was sent to look.
        looks: how often it has looked and found nothing.
    """

    __slots__ = ("_wake", "awake", "looks", "queues")

    def __init__(self, queues: tuple[bytes, ...], wake: Callable[[], object]) -> None:
        self.queues = queues
        self.awake = False
        self.looks = 0
        self._wake = wake

    def wake(self) -> None:
        self.awake = True
        self._wake()


class _Room:
    """
    Those who wait for one queue, in their order.

    Attributes:
        waiters: a dict for its order.
        read: whether it has been read, or will be at once, since the last news.
        empty: whether the last reading found no message, and there is no news since.
        look_at: when somebody is to be sent without news.
        quiet_until: until when something due is no reason to send anybody.
    """

    __slots__ = ("empty", "look_at", "quiet_until", "read", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.read = False
        self.empty = False
        self.look_at = math.inf
        self.quiet_until = -math.inf


class Board:
    """
    All who wait on one client. Whoever uses it takes care that one call follows another.

    Attributes:
        told: whether the server tells of changes.
        unread: the queues to be read.
    """

    def __init__(self) -> None:
        self.told = False
        self.unread: set[bytes] = set()
        self._rooms: dict[bytes, _Room] = {}
        #: Looks that found nothing, one after the other, into queues of which nobody tells.
        self._in_vain: dict[bytes, int] = {}

    def __bool__(self) -> bool:
        return bool(self._rooms)

    def enter(self, waiter: Waiter, now: float) -> None:
        """Begin to wait, or come back after a look that found nothing."""
        waiter.awake = False
        for queue in waiter.queues:
            room = self._rooms.setdefault(queue, _Room())
            room.waiters[waiter] = None
            if waiter.looks:
                room.quiet_until = now + QUIET[min(waiter.looks, len(QUIET)) - 1]
            if not self.told:
                self._in_vain[queue] = self._in_vain.get(queue, 0) + bool(waiter.looks)
                room.look_at = min(room.look_at, now + self._pause(queue))
            elif waiter.looks or not room.read:
                self._read(queue, room, now)

    def leave(self, waiter: Waiter) -> None:
        """Wait no more."""
        for queue in waiter.queues:
            room = self._rooms.get(queue)
            if room is not None:
                room.waiters.pop(waiter, None)
                if not room.waiters:
                    del self._rooms[queue]

    def found(self, waiter: Waiter, now: float) -> None:
        """One who was sent has found something, in one of its queues."""
        for queue in waiter.queues:
            self._in_vain.pop(queue, None)
        if not self.told:
            self.failed(waiter, now)
        elif len(waiter.queues) > 1:  # there may be more in the others, of which no news comes
            for queue in waiter.queues:
                room = self._rooms.get(queue)
                if room is not None:
                    self._read(queue, room, now)

    def failed(self, waiter: Waiter, now: float) -> None:
        """One who was sent could not look: another is sent in its place."""
        for queue in waiter.queues:
            self._send(queue, now)

    def was_read(self, queue: bytes, due_in: int, now: float) -> None:
        """
        A reading has come.

        Args:
            queue: of which.
            due_in: ms until the first message is due, 0 if one is, -1 if there is none, -2 if the
                queue seems not to exist.
            now: the time.
        """
        room = self._rooms.get(queue)
        if room is None:
            return
        room.look_at = now + _safety()
        room.empty = due_in < 0
        if due_in > 0:
            room.look_at = min(room.look_at, now + due_in / 1000)
        elif due_in != -1 and now < room.quiet_until:
            room.look_at = room.quiet_until
        elif due_in != -1:
            self._send(queue, now)

    def not_read(self, queue: bytes, now: float) -> None:
        """The reading failed; who looks will learn why."""
        room = self._rooms.get(queue)
        if room is not None:
            room.look_at = now + PATIENCE

    def changed(self, queue: bytes, now: float) -> None:
        """News has come: the queue is not as it was read."""
        room = self._rooms.get(queue)
        if room is None:
            return
        room.quiet_until = -math.inf
        self._read(queue, room, now)
        if room.empty:
            room.empty = False
            self._send(queue, now)
            if queue not in self._rooms:
                self.unread.discard(queue)

    def everything_changed(self, now: float) -> None:
        """News has come of queues made or deleted, or of all keys."""
        for queue, room in self._rooms.items():
            self._read(queue, room, now)

    def begin_telling(self, now: float) -> None:
        """From now on the server tells of changes, of queues that are read."""
        self.told = True
        for queue, room in self._rooms.items():
            self._read(queue, room, now)

    def end_telling(self, now: float) -> None:
        """From now on the server does not tell."""
        self.told = False
        self.unread.clear()
        for room in self._rooms.values():
            room.read = room.empty = False
            room.look_at = min(room.look_at, now + FIRST_PAUSE)

    def send_who_must_look(self, now: float) -> float:
        """Send those whose time has come; when to call this again."""
        for queue, room in list(self._rooms.items()):
            if room.look_at <= now:
                self._send(queue, now)
        return min((room.look_at for room in self._rooms.values()), default=math.inf)

    def send_all(self) -> None:
        """Wake everybody."""
        for room in list(self._rooms.values()):
            for waiter in list(room.waiters):
                self.leave(waiter)
                waiter.wake()

    def _read(self, queue: bytes, room: _Room, now: float) -> None:
        room.read = True
        room.look_at = now + _safety()
        self.unread.add(queue)

    def _pause(self, queue: bytes) -> float:
        longest: float = min(FIRST_PAUSE * 2 ** min(self._in_vain.get(queue, 0), 10), LONGEST_PAUSE)
        return longest * random.uniform(0.75, 1.0)  # noqa: S311 - as below

    def _send(self, queue: bytes, now: float) -> None:
        room = self._rooms.get(queue)
        if room is not None:
            room.look_at = now + (PATIENCE if self.told else self._pause(queue))
            waiter = next(iter(room.waiters))
            self.leave(waiter)
            waiter.wake()


def _safety() -> float:
    return SAFETY * random.uniform(0.5, 1.5)  # noqa: S311 - spreads load, keeps no secret
