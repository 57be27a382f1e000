"""
The worker's loop: receives messages, writes outcomes, renews leases.

One thread makes all calls to Redis, one after the other. So an extension can never be executed
after the settlement of its message. Handlers run in other threads or in tasks. The pure functions
``decide`` and ``plan_requests`` make the decisions.
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

from rsmq.errors import (
    ClientClosed,
    InvalidValue,
    QueueNotFound,
    RSMQError,
    TooManyHungCalls,
    WorkerReplaced,
)
from rsmq.operations.worker import send_heartbeat, unregister_worker
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.transport.signals import Flag
from rsmq.worker.middleware import Hooks
from rsmq.worker.numbers import Numbers
from rsmq.worker.registry import HEARTBEAT_SECONDS, TTL
from rsmq.worker.runtime.dead_workers import DeadWorkers
from rsmq.worker.runtime.executor import Executor
from rsmq.worker.runtime.gates import Gates
from rsmq.worker.runtime.heartbeat import Heartbeat
from rsmq.worker.runtime.lane import Cell, Job, Lane
from rsmq.worker.runtime.message_state import CALL_ABANDONED
from rsmq.worker.runtime.prefetch import Prefetcher
from rsmq.worker.runtime.quarantine import Quarantine
from rsmq.worker.runtime.run_queue import TARGET_START_SECONDS, RunQueue
from rsmq.worker.runtime.settle import Settler

_log = logging.getLogger("rsmq.worker")

#: Queues whose attributes are read in each heartbeat.
_QUEUES_PER_HEARTBEAT = 10
#: A round through all queues takes as many heartbeats as if there were at least so many queues.
_MIN_QUEUES_PER_ROUND = 100
#: The longest pause after a failed call to Redis.
_MAX_RETRY_PAUSE_SECONDS = 2.0
#: How long nothing is prefetched after a worker has died.
NO_PREFETCH_SECONDS = 10.0
#: How long no call ends before another thread or task is woken, if calls wait and slots are free.
_STUCK_SECONDS = 0.005
#: Seconds between two checks for unfinished work during a shutdown.
_SHUTDOWN_POLL_SECONDS = 0.02
#: Maximum number of short calls that end before the loop is woken to write their outcomes.
_MAX_FINISHED_CALLS = 250


class WorkerLoop:
    """
    The loop, to be run in its own thread.

    Attributes:
        run_queue: the calls that wait for a slot.
        finished: set when the loop has ended.
        failure: the exception that ended it; None if it was stopped.
        is_stopping: whether it receives nothing more.
        heartbeat_at: monotonic seconds of the last heartbeat that Redis has confirmed.
        turn_at: monotonic seconds at which the last turn of the loop began.
    """

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        cell: Cell,
        lanes: Sequence[Lane],
        hooks: Hooks,
        slots: int,
        facts: dict[str, Any],
        worker: object,
        *,
        grace: float,
        has_fixed_name: bool,
    ) -> None:
        """
        Make it; nothing is received before ``run``.

        Args:
            cell: the namespace of the queues, with the worker's identity.
            lanes: its listeners.
            hooks: its middleware.
            slots: maximum number of concurrent calls.
            facts: facts about its process, for its sign of life.
            worker: the argument of hooks.
            grace: seconds that running calls have to end when the worker stops by itself.
            has_fixed_name: whether the user chose the name. Then a successor of this name may take
                over when this worker seems dead, so no call starts after its sign of life has
                expired.
        """
        self.run_queue = RunQueue(lanes, slots)
        self.finished = Flag()
        self.failure: BaseException | None = None
        self._cell = cell
        self._identity = cell.identity
        self._lanes = lanes
        self._hooks = hooks
        self._slots = slots
        self._facts = facts
        self._worker = worker
        self._grace = grace
        self._has_fixed_name = has_fixed_name
        self._settler = Settler(hooks)
        self._heartbeat = Heartbeat(lanes, self._settler, self.run_queue, hooks)
        self._gates = Gates(cell.client, lanes, hooks, self._heartbeat)
        self._quarantine = Quarantine(self.run_queue, self._settler)
        self._dead_workers = DeadWorkers(cell.client)
        self._executors: Mapping[bool, Executor] = {}
        self._finished_jobs: deque[Job] = deque()
        self._finished_count = 0
        self._wake_up = Flag()
        self._prefetcher = Prefetcher(
            cell, lanes, slots, self.run_queue, self._settler, hooks, self._wake_up.set
        )
        self._is_asleep = False
        self._jobs_before_wake_up = 1
        self._next_heartbeat_at = 0.0
        self._next_lane = _QUEUES_PER_HEARTBEAT  # the first ones were read when the worker started
        self._retry_at = 0.0
        self._failures = 0
        self._last_progress = (0.0, -1)
        self.is_stopping = self._has_called_before_stop = False
        self.heartbeat_at = self.turn_at = time.monotonic()
        self._stop_deadline = math.inf

    @property
    def numbers(self) -> Numbers:
        """The counters of the worker."""
        return self._settler.numbers

    def report_finished(self, job: Job) -> None:
        """Report that a call has ended; called by the thread or task that ran it."""
        self._finished_jobs.append(job)
        if self._is_asleep and len(self._finished_jobs) >= self._jobs_before_wake_up:
            self._wake_up.set()

    def report_idle(self) -> None:
        """Report that a thread or task has nothing to run."""
        if self._is_asleep:
            self._wake_up.set()

    def stop(self, grace: float) -> None:
        """
        Stop receiving and release waiting messages. End when all calls have ended, or after grace.
        """
        self._stop_deadline = min(self._stop_deadline, time.monotonic() + grace)
        self.is_stopping = True
        self._wake_up.set()

    def run(self, executors: Mapping[bool, Executor]) -> None:
        """
        Run the loop until it is stopped or fails.

        Args:
            executors: the executor of async handlers (True) and of plain ones (False).
        """
        self._executors = executors
        try:
            while not (self.is_stopping and self._can_end()):
                self._run_once()
            self._shut_down()
        except WorkerReplaced as error:
            self.failure = error
            _log.error("worker %s stops: %s", self._identity.name, error)
            self._fail("another worker has this one's name")
        except BaseException as error:  # noqa: BLE001 - Worker.run raises it again
            self.failure = error
            _log.critical("worker %s fails", self._identity.name, exc_info=True)
            self._fail("the worker has failed")
        finally:
            self._prefetcher.stop_waiting()
            for executor in self._executors.values():
                executor.stop()
            self._hooks.call("after_stop", self._worker)
            self.finished.set()

    def _fail(self, reason: str) -> None:
        with self.run_queue.lock:
            self.run_queue.close()
        self._heartbeat.lose_all(reason)

    def _run_once(self) -> None:
        now = self.turn_at = time.monotonic()
        self._collect_finished_jobs()
        if now >= self._retry_at:
            try:
                self._access_redis(now)
            except (WorkerReplaced, ClientClosed):
                raise
            except (RedisError, RSMQError, OSError) as error:
                self._handle_failure(error)
            else:
                if self._failures:
                    _log.info("worker %s: Redis answers again", self._identity.name)
                self._failures = 0
        self._sleep()

    def _access_redis(self, now: float) -> None:
        """Make the calls to Redis that are due."""
        if self._settler:
            self._settler.write_step()
        self._heartbeat.renew(now)
        self._gates.sync(now)
        if now >= self._next_heartbeat_at:
            self._next_heartbeat_at = now + HEARTBEAT_SECONDS
            self._abandon_hung_calls(now)
            self._send_heartbeat()
        if self._prefetcher.has_unknown_messages:
            self._prefetcher.release_unknown_messages()
        if self.is_stopping:
            self._release_waiting()
        else:
            self._receive(now)

    def _abandon_hung_calls(self, now: float) -> None:
        try:
            self._heartbeat.abandon_hung_calls(self._executors, now, limit=self._slots)
        except TooManyHungCalls as error:
            if not self.is_stopping:
                self.failure = error
                _log.critical("worker %s stops: %s", self._identity.name, error)
                self.stop(self._grace)

    def _collect_finished_jobs(self) -> None:
        finished, settler = self._finished_jobs, self._settler
        while finished:
            job = finished.popleft()
            self._finished_count += 1
            if job.started_at is not None and job.ended_at is not None:
                job.lane.record_duration(job.ended_at - job.started_at)
            if job.call_state is not CALL_ABANDONED:
                settler.decide_outcomes(job)

    def _handle_failure(self, error: BaseException) -> None:
        self._failures += 1
        pause = exponential_seconds(self._failures, 0.1, _MAX_RETRY_PAUSE_SECONDS)
        self._retry_at = time.monotonic() + with_jitter(pause)
        if self._failures in (1, 5) or self._failures % 30 == 0:
            _log.warning(
                "worker %s continues to try: %s: %s",
                self._identity.name,
                type(error).__name__,
                error,
            )
        self._heartbeat.lose_expired()

    # Sign of life.

    def _send_heartbeat(self) -> None:
        sent_at = time.monotonic()
        self._cell.client.run(send_heartbeat(self._identity, self.info(), ttl=TTL))
        self.heartbeat_at = sent_at
        self._dead_workers.forget(sent_at)
        if self._has_fixed_name:
            with self.run_queue.lock:
                self.run_queue.start_deadline = sent_at + TTL
                for executor in self._executors.values():
                    executor.wake(0)
        for lane in self._lanes:
            for queue in lane.queues:
                if queue.closed_reason in ("p", "m"):  # it may have been resumed, or created again
                    queue.closed_reason = ""
        lanes = self._lanes[self._next_lane : self._next_lane + _QUEUES_PER_HEARTBEAT]
        self._next_lane += _QUEUES_PER_HEARTBEAT
        if self._next_lane >= max(len(self._lanes), _MIN_QUEUES_PER_ROUND):
            self._next_lane = 0
        for lane in lanes:
            for queue in lane.queues:  # they may have been repaired
                queue.closed_reason = ""
            if lane.uses_queue_attributes:
                with suppress(QueueNotFound, InvalidValue, ResponseError):
                    lane.apply_queue_attributes(self._cell.client.get_queue_attributes(lane.name))

    def info(self) -> dict[str, Any]:
        """Return the worker's description of itself, for its sign of life."""
        facts = dict(self._facts)
        if not self._has_fixed_name:  # no successor takes over its messages
            longest_vt = max((lane.vt for lane in self._lanes), default=0.0)
            facts["forget_after_ms"] = math.ceil(longest_vt * 1000)
        return {
            **facts,
            "queues": {lane.name: lane.count_in_flight() for lane in self._lanes},
            "handled": self.numbers.handled,
            "failed": self.numbers.failed,
        }

    # Receiving.

    def _receive(self, now: float) -> None:
        if self._quarantine:
            self.limit_prefetch()
            if self._quarantine.run_next(self._executors):
                return
        jobs, quarantined = self._prefetcher.receive(now)
        self._quarantine.add(quarantined)
        if jobs:
            with self.run_queue.lock:
                self.run_queue.add(jobs)
                for executor in self._executors.values():
                    executor.wake(0)

    def limit_prefetch(self) -> None:
        """
        Prefetch nothing for NO_PREFETCH_SECONDS.

        A worker has died, perhaps because of a message that is still in the queue. If that message
        crashes this worker too, every message in flight beside it has its receive count raised.
        """
        for lane in self._lanes:
            lane.no_prefetch_until = time.monotonic() + NO_PREFETCH_SECONDS

    # Stopping, and sleeping.

    def _call_before_stop(self) -> None:
        if not self._has_called_before_stop:
            self._has_called_before_stop = True
            self._hooks.call("before_stop", self._worker)

    def _release_waiting(self) -> None:
        self._call_before_stop()
        self._prefetcher.stop_waiting()
        self._quarantine.release_waiting()
        for lane in self._lanes:
            if lane.ready:
                self._heartbeat.release_waiting(list(lane.ready))

    def _can_end(self) -> bool:
        """Return whether nothing is left to be done, or the grace period is over."""
        if time.monotonic() >= self._stop_deadline:
            return True
        with self.run_queue.lock:
            busy = self.run_queue.running_count or self.run_queue.count_ready()
        return not (busy or self._finished_jobs or self._settler or self._quarantine)

    def _shut_down(self) -> None:
        """Release the messages that are still in flight, and unregister the worker."""
        name = self._identity.name
        self._call_before_stop()
        self._collect_finished_jobs()
        with self.run_queue.lock:
            self.run_queue.close()
        left = 0
        try:
            self._write_all()
            self._collect_finished_jobs()
            self._write_all()
            left = self._heartbeat.release_all("the worker stops")
            self._write_all()
            self._gates.sync(time.monotonic(), all_of_them=True)
            self._cell.client.run(unregister_worker(self._identity))
        except (RedisError, RSMQError, OSError) as error:
            self._heartbeat.release_all("the worker stops")
            summary = f"{type(error).__name__}: {error}"
            _log.warning("worker %s could not release its messages: %s", name, summary)
        else:
            if left:
                _log.warning(
                    "worker %s releases %d messages that were not handled in time", name, left
                )

    def _write_all(self) -> None:
        """Write all outcomes, and renew the leases of other messages meanwhile."""
        while self._settler:
            self._settler.write_step()
            self._heartbeat.renew(time.monotonic())

    def _sleep(self) -> None:
        """Sleep until there is something to do."""
        now = time.monotonic()
        if now < self._retry_at:
            self._wake_up.wait(min(self._retry_at, max(self._stop_deadline, now)) - now)
            self._wake_up.clear()
            return
        self._is_asleep = True  # set before any state is read: later changes set _wake_up
        pause, self._jobs_before_wake_up = self._plan_sleep(now)
        if len(self._finished_jobs) < self._jobs_before_wake_up and pause > 0:
            self._wake_up.wait(pause)
        self._is_asleep = False
        self._wake_up.clear()

    def _plan_sleep(self, now: float) -> tuple[float, int]:
        """Return how long to sleep, in seconds, and how many finished calls end the sleep."""
        if self._settler:  # a step could not write all outcomes
            return 0.0, 1
        next_at = min(self._next_heartbeat_at, self._heartbeat.renew_at(), self._gates.due_at())
        pause = min(next_at, self._stop_deadline) - now
        if self.is_stopping:
            return min(pause, _SHUTDOWN_POLL_SECONDS), 1
        if self._quarantine:
            pause = min(pause, self._quarantine.poll_seconds(now))
            if self.run_queue.is_exclusive:  # the end of the other calls sets no wake-up
                return pause, 1
        if self._prefetcher.plan(now)[0]:
            return 0.0, 1
        with self.run_queue.lock:
            ready, busy = self.run_queue.count_ready(), self.run_queue.running_count == self._slots
        if not ready:
            return pause, 1
        job_count = self._count_jobs_before_wake_up()
        if not busy:
            self._wake_another_if_stuck(now)
            pause = min(pause, _STUCK_SECONDS)
        return min(pause, TARGET_START_SECONDS) if job_count > 1 else pause, job_count

    def _wake_another_if_stuck(self, now: float) -> None:
        since, finished_count = self._last_progress
        if finished_count != self._finished_count:
            self._last_progress = now, self._finished_count
        elif now - since >= _STUCK_SECONDS:
            self._last_progress = now, self._finished_count
            with self.run_queue.lock:
                for is_async, executor in self._executors.items():
                    if self.run_queue.count_ready(is_async):
                        executor.wake(1)

    def _count_jobs_before_wake_up(self) -> int:
        """Return how many calls may end before the loop is woken, to share one write."""
        durations = [lane.mean_seconds for lane in self._lanes if lane.ready or lane.calls]
        shortest = min(
            (mean for mean in durations if mean is not None), default=TARGET_START_SECONDS
        )
        return max(1, min(_MAX_FINISHED_CALLS, int(TARGET_START_SECONDS / max(shortest, 1e-7))))
