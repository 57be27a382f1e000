"""
The worker's loop: receives messages, writes outcomes, renews leases.

All calls to Redis are made here, one after the other, in one thread: so no extension can overtake
the end of a message. Handlers run elsewhere; this loop obeys ``decide`` and ``wants``.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError, ResponseError

from rsmq.client import RSMQ
from rsmq.errors import ClientClosed, InvalidValue, QueueNotFound, RSMQError, WorkerReplaced
from rsmq.operations.worker import Identity, beat_worker, leave_worker
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.transport.signals import Flag
from rsmq.worker.middleware import Hooks
from rsmq.worker.numbers import Numbers
from rsmq.worker.registry import BEAT, TTL
from rsmq.worker.runtime.executor import Executor
from rsmq.worker.runtime.heartbeat import Heartbeat
from rsmq.worker.runtime.message_state import Job, Lane
from rsmq.worker.runtime.prefetch import Prefetcher
from rsmq.worker.runtime.quarantine import Quarantine
from rsmq.worker.runtime.run_queue import SOON, RunQueue
from rsmq.worker.runtime.settle import Settler

_log = logging.getLogger("rsmq.worker")

#: Queues whose attributes are read in a beat, and how many beats times that a round takes at least.
_A_BEAT = 10
_A_ROUND = 100
#: The longest pause after Redis could not be reached, seconds.
_TROUBLE = 2.0
#: Seconds after a death in which nothing is taken ahead.
CAREFUL = 10.0
#: Seconds without an end after which one more is woken, where calls wait and somebody is idle.
_STUCK = 0.005
#: Seconds between two looks at what is left, while the worker stops.
_WINDING_UP = 0.02
#: Ends that are written together at most where calls are short, before the loop is woken.
_TOGETHER = 250


class WorkerLoop:
    """
    The loop, to be run in a thread of its own.

    Attributes:
        run_queue: the calls to be made.
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
        self.run_queue = RunQueue(lanes, slots)
        self.over = Flag()
        self.failure: BaseException | None = None
        self._rsmq = rsmq
        self._identity = identity
        self._lanes = lanes
        self._hooks = hooks
        self._slots = slots
        self._facts = facts
        self._worker = worker
        self._named = named
        self._settler = Settler(rsmq, identity, hooks)
        self._heartbeat = Heartbeat(rsmq, identity, lanes, self._settler, self.run_queue, hooks)
        self._quarantine = Quarantine(rsmq, self.run_queue, self._settler)
        self._executors: Mapping[bool, Executor] = {}
        self._ended: deque[Job] = deque()
        self._ends = 0
        self._bell = Flag()
        self._prefetcher = Prefetcher(
            rsmq, identity, lanes, slots, self.run_queue, self._settler, hooks, self._bell.set
        )
        self._asleep = False
        self._enough = 1
        self._beat_at = 0.0
        self._looked_at = _A_BEAT  # they were looked at when the worker began
        self._retry_at = 0.0
        self._troubles = 0
        self._stuck_since = (0.0, -1)
        self._stopping = self._told_of_stop = False
        self._until = math.inf

    @property
    def numbers(self) -> Numbers:
        """What has happened so far."""
        return self._settler.numbers

    def ended(self, job: Job) -> None:
        """A call has ended; told by whoever made it."""
        self._ended.append(job)
        if self._asleep and len(self._ended) >= self._enough:
            self._bell.set()

    def idle(self) -> None:
        """Somebody who makes calls has nothing to do."""
        if self._asleep:
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
            self._prefetcher.wait_no_more()
            for executor in self._executors.values():
                executor.stop()
            self._hooks.call("after_stop", self._worker)
            self.over.set()

    def _fail(self, why: str) -> None:
        with self.run_queue.lock:
            self.run_queue.close()
        self._heartbeat.lose_all(why)

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
        if self._settler:
            self._settler.write()
        self._heartbeat.renew(now)
        if self._settler:  # what had to wait for too long
            self._settler.write()
        if now >= self._beat_at:
            self._beat_at = now + BEAT
            self._heartbeat.let_go_of_hung_calls(self._executors, now)
            self._send_heartbeat()
        if self._prefetcher.astray:
            self._prefetcher.release_unknown_messages()
        if self._stopping:
            self._give_back_what_waits()
        else:
            self._take(now)

    def _note_ends(self) -> None:
        ended, settler = self._ended, self._settler
        while ended:
            job = ended.popleft()
            self._ends += 1
            if job.began is not None and job.ended is not None:
                job.lane.took(job.ended - job.began)
            if not job.let_go:
                settler.ended(job)

    def _trouble(self, error: BaseException) -> None:
        self._troubles += 1
        pause = exponential_seconds(self._troubles, 0.1, _TROUBLE)
        self._retry_at = time.monotonic() + with_jitter(pause)
        if self._troubles in (1, 5) or self._troubles % 30 == 0:
            _log.warning(
                "worker %s goes on trying: %s: %s", self._identity.name, type(error).__name__, error
            )
        self._heartbeat.lose_what_has_ended()

    # Signs of life.

    def _send_heartbeat(self) -> None:
        sent = time.monotonic()
        self._rsmq.run(beat_worker(self._identity, self.info(), ttl=TTL))
        if self._named:
            with self.run_queue.lock:
                self.run_queue.until = sent + TTL
                for executor in self._executors.values():
                    executor.wake(0)
        for lane in self._lanes:
            if lane.closed in ("p", "m"):  # perhaps it was resumed, or made again
                lane.closed = ""
        lanes = self._lanes[self._looked_at : self._looked_at + _A_BEAT]
        self._looked_at += _A_BEAT
        if self._looked_at >= max(len(self._lanes), _A_ROUND):
            self._looked_at = 0
        for lane in lanes:
            if lane.closed:  # perhaps it was mended
                lane.closed = ""
            if lane.adopts:
                with suppress(QueueNotFound, InvalidValue, ResponseError):
                    lane.adopt(self._rsmq.get_queue_attributes(lane.name))

    def info(self) -> dict[str, Any]:
        """What the worker says of itself."""
        return {
            **self._facts,
            "queues": {lane.name: len(lane.held) for lane in self._lanes},
            "handled": self.numbers.handled,
            "failed": self.numbers.failed,
        }

    # Receiving.

    def _take(self, now: float) -> None:
        if self._quarantine:
            self.be_careful()
            if self._quarantine.begin(self._executors):
                return
        jobs, alone = self._prefetcher.take(now)
        self._quarantine.add(alone)
        if jobs:
            with self.run_queue.lock:
                self.run_queue.add(jobs)
                for executor in self._executors.values():
                    executor.wake(0)

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
        self._prefetcher.wait_no_more()
        self._quarantine.give_back()
        for lane in self._lanes:
            if lane.ready:
                self._heartbeat.give_back(lane, list(lane.ready))
        if self._settler:
            self._settler.write()

    def _wound_up(self) -> bool:
        """Whether nothing is left to be done, or no time."""
        if time.monotonic() >= self._until:
            return True
        with self.run_queue.lock:
            busy = self.run_queue.running or self.run_queue.ready()
        return not (busy or self._ended or self._settler or self._quarantine)

    def _leave(self) -> None:
        """Release what is still held, and give the name back."""
        name = self._identity.name
        self._tell_of_stop()
        self._note_ends()
        with self.run_queue.lock:
            self.run_queue.close()
        left = 0
        try:
            self._settler.write()
            self._note_ends()
            self._settler.write()
            left = self._heartbeat.let_go_of_all("the worker stops")
            self._settler.write()
            self._rsmq.run(leave_worker(self._identity))
        except (RedisError, RSMQError, OSError) as error:
            self._heartbeat.let_go_of_all("the worker stops")
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
        pause = min(self._beat_at, self._heartbeat.renew_at(), self._until) - now
        if self._stopping:
            return min(pause, _WINDING_UP), 1
        if self._quarantine:  # nobody tells when the last of the others has ended
            return pause if self._quarantine.under_way else min(pause, self._quarantine.pause), 1
        if self._prefetcher.wanted(now)[0]:
            return 0.0, 1
        with self.run_queue.lock:
            ready, busy = self.run_queue.ready(), self.run_queue.running == self._slots
        if not ready:
            return pause, 1
        enough = self._ends_worth_waking_for()
        if not busy:
            self._wake_one_more_if_stuck(now)
            pause = min(pause, _STUCK)
        return min(pause, SOON) if enough > 1 else pause, enough

    def _wake_one_more_if_stuck(self, now: float) -> None:
        since, ends = self._stuck_since
        if ends != self._ends:
            self._stuck_since = now, self._ends
        elif now - since >= _STUCK:
            self._stuck_since = now, self._ends
            with self.run_queue.lock:
                for is_async, executor in self._executors.items():
                    if self.run_queue.ready(is_async):
                        executor.wake(1)

    def _ends_worth_waking_for(self) -> int:
        """How many calls may end before this loop is woken: what ends soon is written together."""
        means = [lane.mean for lane in self._lanes if lane.ready or lane.calls]
        shortest = min((mean for mean in means if mean is not None), default=SOON)
        return max(1, min(_TOGETHER, int(SOON / max(shortest, 1e-7))))
