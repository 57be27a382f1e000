"""
The worker's own loop: takes messages, writes what handlers did with them, extends what it holds.

All calls to Redis are made here, one after the other, in one thread: so no extension can overtake
the end of a message. Handlers run elsewhere; this loop obeys ``decide`` and ``wants``.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from redis.exceptions import RedisError, ResponseError

from rsmq import operations
from rsmq.client import RSMQ
from rsmq.errors import ClientClosed, QueueNotFound, RSMQError, WorkerReplaced
from rsmq.failures import is_of_these_keys
from rsmq.operations.workers import Identity, Taken
from rsmq.waiting import Waiter
from rsmq.worker.backlog import SOON, Backlog
from rsmq.worker.executor import Executor
from rsmq.worker.holding import Holding
from rsmq.worker.lane import Lane
from rsmq.worker.lease import Batch, Job, Single
from rsmq.worker.middleware import Hooks
from rsmq.worker.numbers import Numbers
from rsmq.worker.outcome import TookItsProcessDown
from rsmq.worker.plan import Asked, wants
from rsmq.worker.registry import BEAT, TTL
from rsmq.worker.settling import Settling, forget, give_back

_log = logging.getLogger("rsmq.worker")

#: Queues whose attributes are read in a beat, and how many beats times that a round takes at least.
_A_BEAT = 10
_A_ROUND = 100
#: The longest pause after Redis could not be reached, seconds.
_TROUBLE = 2.0
#: How often a message may be handled with nothing beside it without an end, before it is given up.
ALONE = 3
#: Seconds for which one that is to be alone waits for other calls; then it begins all the same.
_ALONE_WAITS = 2.0
#: Seconds after a death in which nothing is taken ahead.
CAREFUL = 10.0
#: Seconds without an end after which one more is woken, where calls wait and somebody is idle.
_STUCK = 0.005
#: Ends that are written together at most where calls are short, before the loop is woken.
_TOGETHER = 250


class Engine:
    """
    The loop, to be run in a thread of its own.

    Attributes:
        backlog: the calls to be made.
        over: set when the loop has ended.
        failure: why, if it was not stopped.
    """

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        rsmq: RSMQ,
        identity: Identity,
        lanes: Sequence[Lane],
        hooks: Hooks,
        slots: int,
        facts: dict[str, Any],
        worker: object,
        *,
        named: bool,
    ) -> None:
        """
        Make it; nothing is received before ``run``.

        Args:
            rsmq: the client.
            identity: the worker's.
            lanes: its listeners.
            hooks: its middleware.
            slots: calls at once at most.
            facts: what it says of itself.
            worker: told to hooks.
            named: whether a successor of its name may take over, when it seems dead.
        """
        self.backlog = Backlog(lanes, slots)
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self._rsmq = rsmq
        self._identity = identity
        self._lanes = lanes
        self._hooks = hooks
        self._slots = slots
        self._facts = facts
        self._worker = worker
        self._named = named
        self._settling = Settling(rsmq, identity, hooks)
        self._holding = Holding(rsmq, identity, lanes, self._settling, self.backlog, hooks)
        self._executors: Mapping[bool, Executor] = {}
        self._ended: deque[Job] = deque()
        self._ends = 0
        self._bell = threading.Event()
        self._asleep = False
        self._enough = 1
        self._alone: deque[Job] = deque()
        self._astray = False  # whether messages may have been received that nobody knows of
        self._beat_at = 0.0
        self._looked_at = _A_BEAT  # they were looked at when the worker began
        self._retry_at = 0.0
        self._troubles = 0
        self._stuck_since = (0.0, -1)
        self._stopping = self._told_of_stop = False
        self._shut_at = 0.0
        self._until = math.inf

    @property
    def numbers(self) -> Numbers:
        """What has happened so far."""
        return self._settling.numbers

    def ended(self, job: Job) -> None:
        """A call has ended; told by whoever made it."""
        self._ended.append(job)
        if self._asleep and len(self._ended) >= self._enough:
            self._bell.set()

    def idle(self) -> None:
        """Somebody who makes calls has nothing to do."""
        if self._asleep and (self._ended or self._stopping or self.backlog.shut):
            self._bell.set()

    def stop(self, grace: float) -> None:
        """Receive no more, give back what has not begun, end when the rest has, or after grace."""
        self._until = min(self._until, time.monotonic() + grace)
        self._stopping = True
        self._bell.set()

    def run(self, executors: Mapping[bool, Executor]) -> None:
        """
        The loop.

        Args:
            executors: who makes the calls of async functions (True) and of plain ones.
        """
        self._executors = executors
        try:
            while not (self._stopping and self._wound_up()):
                self._turn()
            self._leave()
        except WorkerReplaced as error:
            self.failure = error
            _log.error("worker %s stops: %s. %s", self._identity.name, error, error.hint)
            self._fail("another worker has this one's name")
        except BaseException as error:  # noqa: BLE001 - it is told to who runs the worker
            self.failure = error
            _log.critical("worker %s fails", self._identity.name, exc_info=True)
            self._fail("the worker has failed")
        finally:
            for lane in self._lanes:
                self._wait_no_more(lane)
            for executor in self._executors.values():
                executor.stop()
            self._hooks.call("after_stop", self._worker)
            self.over.set()

    def _fail(self, why: str) -> None:
        with self.backlog.lock:
            self.backlog.close()
        self._holding.lose_all(why)

    def _turn(self) -> None:
        now = time.monotonic()
        self._note_ends()
        if now >= self._retry_at:
            try:
                self._work(now)
            except (WorkerReplaced, ClientClosed):
                raise
            except (RedisError, RSMQError, OSError) as error:
                self._trouble(error)
            else:
                if self._troubles:
                    _log.info("worker %s: Redis answers again", self._identity.name)
                self._troubles = 0
        self._rest()

    def _work(self, now: float) -> None:
        """What is to be done in Redis."""
        if self._settling:
            self._settling.write()
        self._holding.renew(now)
        if now >= self._beat_at:
            self._beat_at = now + BEAT
            self._holding.let_go_of_hung_calls(self._executors, now)
            self._beat()
        if self._astray:
            self._find_what_went_astray()
        if self._stopping:
            self._give_back_what_waits()
        else:
            self._take(now)

    def _note_ends(self) -> None:
        ended, settling = self._ended, self._settling
        while ended:
            job = ended.popleft()
            self._ends += 1
            if job.began is not None and job.ended is not None:
                job.lane.took(job.ended - job.began)
            if not job.let_go:
                settling.ended(job)

    def _trouble(self, error: BaseException) -> None:
        self._troubles += 1
        pause = min(0.05 * 2.0 ** min(self._troubles, 10), _TROUBLE)
        chance = random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret
        self._retry_at = time.monotonic() + pause * chance
        if self._troubles in (1, 5) or self._troubles % 30 == 0:
            _log.warning(
                "worker %s goes on trying: %s: %s", self._identity.name, type(error).__name__, error
            )
        self._holding.lose_what_has_ended()

    # Signs of life.

    def _beat(self) -> None:
        sent = time.monotonic()
        self._rsmq.run(operations.beat_worker(self._identity, self.info(), ttl=TTL))
        if self._named:
            with self.backlog.lock:
                self.backlog.until = sent + TTL
                for executor in self._executors.values():
                    executor.wake(0)
        for lane in self._lanes:
            if lane.closed in ("p", "m"):  # perhaps it was resumed, or made again
                lane.closed = ""
        for lane in self._lanes[self._looked_at : self._looked_at + _A_BEAT]:
            if lane.closed:  # perhaps it was mended
                lane.closed = ""
            if lane.adopts:
                with suppress(QueueNotFound, ResponseError):
                    lane.adopt(self._rsmq.get_queue_attributes(lane.name))
        self._looked_at += _A_BEAT
        if self._looked_at >= max(len(self._lanes), _A_ROUND):
            self._looked_at = 0

    def info(self) -> dict[str, Any]:
        """What the worker says of itself."""
        return {
            **self._facts,
            "queues": {lane.name: len(lane.held) for lane in self._lanes},
            "handled": self.numbers.handled,
            "failed": self.numbers.failed,
        }

    def _find_what_went_astray(self) -> None:
        """Release what a take received whose reply was lost."""
        held = self._rsmq.run_steps(
            operations.held_messages(self._rsmq.namespace, self._identity.name)
        )
        known = {lane.name: lane.held for lane in self._lanes}
        strays = {
            queue: [
                (id, count)
                for id, count in receipts
                if id not in known.get(queue, {}) or known[queue][id].count != count
            ]
            for queue, receipts in held.items()
        }
        self.numbers.released += give_back(self._rsmq, self._identity, strays)
        self._astray = False

    # Receiving.

    def _take(self, now: float) -> None:
        if self._alone and self._begin_alone():
            return
        asked, slots = self._wanted(now)
        if not asked:
            return
        self._hooks.call("before_receive", [each.lane.name for each in asked])
        sent = time.monotonic()
        operation = operations.take_messages(self._identity, [each.want for each in asked], slots)
        try:
            taken = self._rsmq.run(operation)
        except (RedisError, OSError) as error:
            if not is_of_these_keys(error):
                self._astray = True
                raise
            self._find_what_is_broken(asked, slots, error)
            return
        self._sort_in(asked, taken, sent)

    def _find_what_is_broken(self, asked: list[Asked], slots: int, error: BaseException) -> None:
        """Something is wrong with a queue: those that are well go on."""
        for each in asked:
            if len(asked) > 1:
                operation = operations.take_messages(self._identity, [each.want], slots)
                sent = time.monotonic()
                try:
                    (taken,) = self._rsmq.run(operation)
                except (RedisError, OSError) as its_own:
                    if not is_of_these_keys(its_own):
                        self._astray = True
                        raise
                    error = its_own
                else:
                    self._sort_in([each], [taken], sent)
                    slots = max(slots - math.ceil(len(taken.ids) / each.want.size), 0)
                    continue
            self._wait_no_more(each.lane)
            each.lane.closed = "b"
            _log.error("queue %s can't be received from: %s", each.lane.name, error)

    def _sort_in(self, asked: list[Asked], taken: list[Taken], sent: float) -> None:
        """What came of the queues, and their messages, which are handled next."""
        jobs: list[Job] = []
        for of, each in zip(asked, taken, strict=True):
            lane = of.lane
            if each.state in ".+":
                lane.asked_at = sent
                if lane.missed:
                    lane.missed = False
                    _log.info("queue %s is back", lane.name)
            elif each.state in "pm":
                self._close(lane, each.state)
            if each.ids:
                received = self._received(lane, each, sent)
                if of.starved:
                    for job in received:
                        job.urgent = True
                jobs += received
            self._wait_for_more(lane, drained=each.state == ".", found=bool(each.ids))
        if jobs:
            self._begin(jobs)

    def _worth_asking(self) -> list[Lane]:
        """
        The lanes in whose queues there may be something, and all of a higher priority.

        In those it may have come just now: what is due there goes first.
        """
        lanes = [lane for lane in self._lanes if not lane.closed]
        lowest = min((lane.listener.priority for lane in lanes if not lane.waits), default=math.inf)
        return [lane for lane in lanes if not lane.waits or lane.listener.priority > lowest]

    def _wanted(self, now: float) -> tuple[list[Asked], int]:
        lanes = self._worth_asking()
        if not lanes:
            return [], 0
        with self.backlog.lock:
            if self.backlog.shut:
                return [], 0
            free = self._slots - self.backlog.running
            ready = self.backlog.ready_by_priority()
        return wants(lanes, free, ready, now)

    def _close(self, lane: Lane, state: str) -> None:
        lane.closed = state
        if state == "m" and not lane.missed:
            lane.missed = True
            _log.warning("there is no queue %s; its listener waits for it", lane.name)

    def _wait_for_more(self, lane: Lane, *, drained: bool, found: bool) -> None:
        """If no more is due now, be told when there is; one who was told says what came of it."""
        waiter = lane.waiter
        if waiter is not None and waiter.awake:
            if found:
                self._rsmq.watcher.found(waiter)
                waiter.looks = 0
            else:
                waiter.looks += 1
        if not drained:
            self._wait_no_more(lane)
            return
        if waiter is None:
            waiter = lane.waiter = Waiter((lane.keys.zset,), partial(self._woken, lane))
        self._rsmq.watcher.enter(waiter)

    def _woken(self, lane: Lane) -> None:
        """There may be something in a queue; told by the watcher's thread."""
        lane.asked_at = time.monotonic()  # until now there was nothing to be asked for
        self._bell.set()

    def _wait_no_more(self, lane: Lane) -> None:
        waiter, lane.waiter = lane.waiter, None
        if waiter is not None:
            self._rsmq.watcher.leave(waiter)

    def _received(self, lane: Lane, taken: Taken, sent: float) -> list[Job]:
        """Calls for messages that were received; those that are made alone are kept."""
        held = lane.held
        if held:
            for id in taken.ids:
                if id in held:
                    self._settling.lose(lane, held[id], "it was received once more")
        singles = self._singles(lane, taken, sent)
        if self._hooks["after_receive"]:
            messages = [single.message(lane.name, lane.codec) for single in singles]
            self._hooks.call("after_receive", lane.name, messages)
        alone: list[Single] = []
        if taken.again:
            alone = [single for single in singles if single.alone]
            singles = [single for single in singles if not single.alone]
        jobs: Sequence[Job] = singles
        alone_jobs: Sequence[Job] = alone
        size = lane.listener.batch
        if size is not None:
            parts = [singles[at : at + size] for at in range(0, len(singles), size)]
            jobs = [Batch(lane, part, sent) for part in parts]
            alone_jobs = [Batch(lane, [single], sent) for single in alone]
        for job in (*jobs, *alone_jobs):
            for lease in job.leases:
                held[lease.id] = lease
        for job in alone_jobs:
            job.alone = True
        self._alone += alone_jobs
        return [*jobs]

    def _singles(self, lane: Lane, taken: Taken, sent: float) -> list[Single]:
        lane.renew_at = min(lane.renew_at, sent + lane.vt / 3)
        self.numbers.received += len(taken.ids)
        now = taken.now
        singles = [
            Single(lane, id, raw, 1, now, sent)
            for id, raw in zip(taken.ids, taken.raws, strict=True)
        ]
        for place, (count, first) in taken.again.items():
            single = singles[place]
            single.count, single.first_received_ms = count, first
            single.alone = lane.policy.exceeded(count)
        return singles

    def _begin(self, jobs: list[Job]) -> None:
        with self.backlog.lock:
            self.backlog.add(jobs)
            for executor in self._executors.values():
                executor.wake(0)

    def _begin_alone(self) -> bool:
        """
        See to messages that were received more often than they may be; True while there are some.

        Nobody has said what became of them: each is handled with nothing beside it, but calls that
        run for long. So one that takes its process down, again and again, is known by that, and its
        neighbours are not taken for it.
        """
        self.be_careful()
        backlog = self.backlog
        while self._alone:
            job = self._alone[0]
            lane, lease = job.lane, job.leases[0]
            with backlog.lock:
                if not backlog.shut:
                    backlog.shut, self._shut_at = True, time.monotonic()
                if backlog.alone is not None:
                    return True  # it is about to begin, or under way
                late = time.monotonic() - self._shut_at > _ALONE_WAITS
                if backlog.running and not late:
                    return True  # others end
            if job.began is not None or lease.lost:
                self._alone.popleft()
                continue
            before = self._rsmq.run(operations.begin_alone(lane.keys, lease.id, lease.count))
            if before < ALONE:
                _log.warning(
                    "%s %s: received %d times and never ended: handled alone, %d of %d",
                    lane.name, lease.id, lease.count, before + 1, ALONE,
                )  # fmt: skip
                with backlog.lock:
                    backlog.alone = job
                    self._executors[lane.is_async].wake(0)
                return True
            self._alone.popleft()
            error = TookItsProcessDown(
                f"received {lease.count} times, and begun {before} times with nothing beside it; "
                "its handler never ended"
            )
            self._settling.alone(lease)
            self._settling.failed(lane, lease, error)
            self._settling.write()
        with backlog.lock:
            backlog.shut = False
            for executor in self._executors.values():
                executor.wake(0)
        return False

    def be_careful(self) -> None:
        """
        Take nothing ahead for a while.

        A worker has died here, perhaps of a message that is still there: what is held beside it
        dies with it, and is received once more.
        """
        for lane in self._lanes:
            lane.careful_until = time.monotonic() + CAREFUL

    # Stopping, and sleeping.

    def _tell_of_stop(self) -> None:
        if not self._told_of_stop:
            self._told_of_stop = True
            self._hooks.call("before_stop", self._worker)

    def _give_back_what_waits(self) -> None:
        self._tell_of_stop()
        for lane in self._lanes:
            self._wait_no_more(lane)
        with self.backlog.lock:
            for job in self._alone:
                if job.began is None:
                    self._settling.release(job.lane, job.leases)
                    for lease in job.leases:
                        self._settling.alone(lease)
                        forget(job.lane, lease)
                    if self.backlog.alone is job:
                        self.backlog.alone = None
            self._alone.clear()
        for lane in self._lanes:
            if lane.ready:
                self._holding.give_back(lane, list(lane.ready))
        if self._settling:
            self._settling.write()

    def _wound_up(self) -> bool:
        """Whether nothing is left to be done, or no time."""
        if time.monotonic() >= self._until:
            return True
        with self.backlog.lock:
            busy = self.backlog.running or self.backlog.ready()
        return not (busy or self._ended or self._settling or self._alone)

    def _leave(self) -> None:
        """Release what is still held, and give the name back."""
        name = self._identity.name
        self._tell_of_stop()
        self._note_ends()
        with self.backlog.lock:
            self.backlog.close()
        left = 0
        try:
            self._settling.write()
            left = self._holding.let_go_of_all("the worker stops")
            self._settling.write()
            self._rsmq.run(operations.leave_worker(self._identity))
        except (RedisError, RSMQError, OSError) as error:
            self._holding.let_go_of_all("the worker stops")
            what = f"{type(error).__name__}: {error}"
            _log.warning("worker %s could not give back what it holds: %s", name, what)
        else:
            if left:
                _log.warning(
                    "worker %s gives back %d messages that were not handled in time", name, left
                )

    def _rest(self) -> None:
        """Sleep until there is something to do."""
        now = time.monotonic()
        if now < self._retry_at:
            self._bell.wait(min(self._retry_at, max(self._until, now)) - now)
            self._bell.clear()
            return
        self._asleep = True  # before anything is looked at: what changes from here on rings
        pause, self._enough = self._how_long(now)
        if len(self._ended) < self._enough and pause > 0:
            self._bell.wait(pause)
        self._asleep = False
        self._bell.clear()

    def _how_long(self, now: float) -> tuple[float, int]:
        """How long to sleep, and how many calls may end before that is over."""
        pause = min(self._beat_at, self._holding.renew_at(), self._until) - now
        if self._stopping:
            return min(pause, _STUCK), 1
        if self._alone:  # nobody tells when the last of the others has ended
            return min(pause, SOON), 1
        if self._wanted(now)[0]:
            return 0.0, 1
        with self.backlog.lock:
            ready = self.backlog.ready()
        if not ready:
            return pause, 1
        self._wake_one_more_if_stuck(now)
        enough = self._ends_worth_waking_for()
        return min(pause, _STUCK if enough == 1 else SOON), enough

    def _wake_one_more_if_stuck(self, now: float) -> None:
        since, ends = self._stuck_since
        if ends != self._ends:
            self._stuck_since = now, self._ends
        elif now - since >= _STUCK:
            self._stuck_since = now, self._ends
            with self.backlog.lock:
                for is_async, executor in self._executors.items():
                    if self.backlog.ready(is_async):
                        executor.wake(1)

    def _ends_worth_waking_for(self) -> int:
        """How many calls may end before this loop is woken: what ends soon is written together."""
        means = [lane.mean for lane in self._lanes if lane.ready or lane.calls]
        shortest = min((mean for mean in means if mean is not None), default=SOON)
        return max(1, min(_TOGETHER, int(SOON / max(shortest, 1e-7))))
