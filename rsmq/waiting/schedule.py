"""
The schedule of waiting receives: which one is woken next, and when. Without I/O or clock.

The rules:

- Of those who wait for a queue, one is woken at a time. A waiter that is woken is off the board.
  If it finds nothing, it comes back; if it finds something, the queue has changed, and news will
  come.
- Where the server reports changes, a queue is read when the first waiter comes, and after each
  change. The reading says when something will be due. It also orders the news of the next change,
  so that none is missed. A reading stays good until news comes, whoever comes and leaves meanwhile.
- Any change of a queue that was read empty is an arrival: one waiter is woken at once.
- If a waiter found nothing although something was due (another was faster; or it is an id whose
  body is still to come), the next is woken after a pause that grows to a second, unless there is
  news.
- Now and then a waiter looks without any reason, in case that news was lost.
- Where the server does not report changes, somebody looks again and again, ever less often.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

from rsmq.transport.backoff import exponential_seconds, with_jitter

#: The shortest time between two looks of a waiter without reason, seconds; the longest is twice as
#: long, so that clients spread.
SAFETY = 15.0
#: Seconds for which a message that is due wakes no waiter, by how often the last one that was
#: woken has found nothing.
QUIET = (0.005, 0.05, 0.5, 1.0)
#: Seconds after which another is woken if one who was woken has not come back, without news.
PATIENCE = 1.0
#: Seconds between the looks into a queue whose changes nobody reports: doubled from the first to
#: the longest, and varied by a quarter. A look into a thousand queues is as dear as two into one.
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 1 / 3
#: The shortest of these pauses while the connection is being opened that makes looks needless.
OPENING_PAUSE = 0.1
_DEAR = 1000
#: Readings of queues without a waiter that are remembered.
_REMEMBERED = 20_000


class Waiter:
    """
    One who waits.

    Attributes:
        queues: the sorted sets of the queues waited for.
        awake: whether it was woken, and has not come back.
        looks: how often it has looked and found nothing.
        reason: the queue for which it was woken last.
    """

    __slots__ = ("_wake", "awake", "looks", "queues", "reason")

    def __init__(self, queues: tuple[bytes, ...], wake: Callable[[], object]) -> None:
        self.queues = queues
        self.awake = False
        self.looks = 0
        self.reason: bytes | None = None
        self._wake = wake

    def wake(self) -> None:
        self.awake = True
        self._wake()


class _Room:
    """
    A queue: those who wait for it, in their order, and what is known of it.

    Attributes:
        waiters: a dict for its order.
        read: whether it has been read, or will be at once, since the last news.
        empty: whether the last reading found no message, and there is no news since.
        due_at: when the first message is due, by the last reading; infinite without one.
        listed: whether its name is in the index of queues; None if nobody has asked.
        quiet_until: until when something due is not a reason to wake anybody.
        safe_at: when somebody looks without any reason.
        look_at: when somebody is to be woken without news.
    """

    __slots__ = (
        "due_at", "empty", "listed", "look_at", "quiet_until", "read", "safe_at", "waiters",
    )  # fmt: skip

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.listed: bool | None = None
        self.quiet_until = -math.inf
        self.safe_at = self.look_at = math.inf
        self.forget()

    def forget(self) -> None:
        """What was read of it is not true any more."""
        self.read = self.empty = False
        self.due_at = math.inf

    @property
    def gone(self) -> bool:
        """Whether there seems to be no such queue any more."""
        return self.empty and self.listed is False


class Board:
    """
    All who wait on one client. Whoever uses it takes care that one call follows another.

    Attributes:
        told: whether the server reports changes.
        opening: whether a connection on which it will do so is being opened for the first time.
        unread: the queues to be read.
        unnamed: the queues waited for whose names have not been looked up.
    """

    def __init__(self, *, opening: bool = False) -> None:
        self.told = False
        self.opening = opening
        self.unread: set[bytes] = set()
        self.unnamed: set[bytes] = set()
        self._rooms: dict[bytes, _Room] = {}
        #: Of those the ones that have waiters.
        self._waited_for: dict[bytes, None] = {}
        #: When to look at which queue: a heap. Earlier plans of a room stay in it until their time.
        self._plans: list[tuple[float, int, bytes]] = []
        self._numbers = itertools.count()
        #: Looks that found nothing, one after the other, into queues whose changes nobody reports.
        self._in_vain: dict[bytes, int] = {}

    def __bool__(self) -> bool:
        return bool(self._waited_for)

    def enter(self, waiter: Waiter, now: float) -> None:
        """Begin to wait, or come back after a look that found nothing."""
        waiter.awake = False
        safe_at = now + _safety()  # it has just looked into all of them
        for queue in waiter.queues:
            room = self._rooms.get(queue)
            if room is None:
                room = self._rooms[queue] = _Room()
            room.waiters[waiter] = None
            self._waited_for[queue] = None
            room.safe_at = safe_at
            if room.listed is None:
                self.unnamed.add(queue)
            if waiter.looks:
                room.quiet_until = now + QUIET[min(waiter.looks, len(QUIET)) - 1]
            if not self.told:
                self._in_vain[queue] = self._in_vain.get(queue, 0) + bool(waiter.looks)
                self._plan(queue, room, min(room.look_at, now + self._pause(queue, room)))
            elif room.read:
                self._plan(queue, room, min(safe_at, max(room.due_at, room.quiet_until)))
            else:
                self._read(queue, room)
                self._plan(queue, room, safe_at)

    def leave(self, waiter: Waiter) -> None:
        """Wait no more."""
        for queue in waiter.queues:
            room = self._rooms.get(queue)
            if room is not None and waiter in room.waiters:
                del room.waiters[waiter]
                if not room.waiters:
                    self._empty(queue, room)

    def found(self, waiter: Waiter, now: float) -> None:
        """One who was woken has found something, in one of its queues."""
        for queue in waiter.queues:
            self._in_vain.pop(queue, None)
        # Of what is still due in the others no news comes. What it has changed is read again.
        if not self.told or len(waiter.queues) > 1:
            for queue in waiter.queues:
                room = self._rooms.get(queue)
                if room is not None and (not self.told or room.due_at <= now):
                    self._send(queue, now)

    def failed(self, waiter: Waiter, now: float) -> None:
        """One who was woken could not look: another is woken in its place."""
        if waiter.reason is not None:
            self._send(waiter.reason, now)

    def was_read(self, queue: bytes, due_in: float | None, now: float) -> None:
        """
        A reading has come.

        Args:
            queue: of which.
            due_in: seconds until the first message is due, 0 or less if one is; None if there is
                none.
            now: the time.
        """
        room = self._rooms.get(queue)
        if room is None or not room.read:
            return
        room.empty = due_in is None
        room.due_at = math.inf if due_in is None else now + max(due_in, 0)
        self._look_if_due(queue, room, now)

    def was_listed(self, queue: bytes, listed: bool, now: float) -> None:  # noqa: FBT001
        """It is known whether the name of a queue is in the index of queues."""
        room = self._rooms.get(queue)
        if room is None:
            return
        was_gone, room.listed = room.gone, listed
        if room.gone and not was_gone:
            self._send(queue, now)

    def not_read(self, queue: bytes, now: float) -> None:
        """The reading failed; who looks will learn why."""
        room = self._rooms.get(queue)
        if room is not None:
            room.forget()
            self._plan(queue, room, now + PATIENCE)

    def changed(self, queue: bytes, now: float) -> None:
        """News has come: the queue is not as it was read."""
        room = self._rooms.get(queue)
        if room is None:
            return
        if not room.waiters:
            del self._rooms[queue]
            self.unread.discard(queue)
            return
        was_empty = room.empty
        room.quiet_until = -math.inf
        room.forget()
        if was_empty:
            self._send(queue, now)
        if room.waiters:
            self._read(queue, room)
            if not was_empty:
                self._plan(queue, room, room.safe_at)

    def everything_changed(self, now: float) -> None:
        """News has come of all keys."""
        for queue in list(self._rooms):
            room = self._rooms[queue]
            room.listed = None
            room.empty = False  # no arrival: what is there is to be read
            self.changed(queue, now)
        self.names_changed()

    def names_changed(self) -> None:
        """News has come of the index of queues: queues were made or deleted."""
        self.unnamed.update(self._waited_for)

    def begin_telling(self, now: float) -> None:
        """From now on the server reports changes, of queues that are read."""
        self.told = True
        self.opening = False
        for queue in self._waited_for:
            room = self._rooms[queue]
            room.forget()
            self._read(queue, room)
            self._plan(queue, room, max(room.safe_at, now))

    def end_telling(self, now: float) -> None:
        """From now on the server does not report changes."""
        self.told = False
        self.unread.clear()
        self._rooms = {queue: self._rooms[queue] for queue in self._waited_for}
        self.names_changed()
        for queue, room in self._rooms.items():
            room.forget()
            room.listed = None
            self._plan(queue, room, min(room.look_at, now + FIRST_PAUSE * _dearness(room)))

    def next_look(self) -> float:
        """When to call send_who_must_look, or a time before that."""
        return self._plans[0][0] if self._plans else math.inf

    def send_who_must_look(self, now: float) -> float:
        """Wake those whose time has come; when to call this again."""
        while self._plans:
            at, _, queue = self._plans[0]
            room = self._rooms.get(queue)
            if room is None or room.look_at != at or not room.waiters:
                heapq.heappop(self._plans)  # another plan has taken its place
            elif at <= now:
                heapq.heappop(self._plans)
                self._send(queue, now)
            else:
                return at
        return math.inf

    def send_all(self) -> None:
        """Wake everybody."""
        for queue in list(self._waited_for):
            for waiter in list(self._rooms[queue].waiters):
                self.leave(waiter)
                waiter.reason = None
                waiter.wake()

    def _read(self, queue: bytes, room: _Room) -> None:
        room.read = True
        self.unread.add(queue)

    def _look_if_due(self, queue: bytes, room: _Room, now: float) -> None:
        if not room.waiters:
            return
        at = max(room.due_at, room.quiet_until)
        if at <= now or room.gone:
            self._send(queue, now)
        else:
            self._plan(queue, room, min(at, room.safe_at))

    def _plan(self, queue: bytes, room: _Room, at: float) -> None:
        """Wake somebody at this time, unless another plan is made before."""
        if room.look_at == at and not math.isinf(at):
            return
        room.look_at = at
        if math.isinf(at):
            return
        heapq.heappush(self._plans, (at, next(self._numbers), queue))
        if len(self._plans) > 4 * len(self._waited_for) + 1000:
            self._plans = [
                (room.look_at, next(self._numbers), queue)
                for queue, room in self._rooms.items()
                if room.waiters and not math.isinf(room.look_at)
            ]
            heapq.heapify(self._plans)

    def _empty(self, queue: bytes, room: _Room) -> None:
        """The last waiter has left: what was read stays good, where news of changes comes."""
        del self._waited_for[queue]
        room.look_at = math.inf
        self.unnamed.discard(queue)
        if not self.told or not room.read or len(self._rooms) > len(self._waited_for) + _REMEMBERED:
            del self._rooms[queue]
            self.unread.discard(queue)

    def _pause(self, queue: bytes, room: _Room) -> float:
        looks = self._in_vain.get(queue, 0)
        longest = exponential_seconds(looks + 1, FIRST_PAUSE, LONGEST_PAUSE)
        if self.opening:
            longest = max(longest, OPENING_PAUSE)
        return with_jitter(longest * _dearness(room), 0.75)

    def _send(self, queue: bytes, now: float) -> None:
        room = self._rooms.get(queue)
        if room is not None and room.waiters:
            waiter = next(iter(room.waiters))
            pause = PATIENCE if self.told else self._pause(queue, room)
            self.leave(waiter)
            if room.waiters:
                self._plan(queue, room, now + pause)
            waiter.reason = queue
            waiter.wake()


def _dearness(room: _Room) -> float:
    """How dear a look of the next waiter of a room is, in looks into one queue."""
    waiter = next(iter(room.waiters), None)
    return 1 if waiter is None else 1 + (len(waiter.queues) - 1) / _DEAR


def _safety() -> float:
    return with_jitter(SAFETY, 1.0, 2.0)
