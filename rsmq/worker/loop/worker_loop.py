"""
The worker's loop: receives messages, writes outcomes, renews leases.

One thread makes all calls to Redis, one after the other. So an extension can never be executed
after the settlement of its message. Handlers run in other threads or in tasks. The pure functions
``decide`` and ``plan_requests`` make the decisions.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rsmq.errors import (
    ClientClosed,
    ExecutorEnded,
    ExecutorStalled,
    TooManyHungCalls,
    WorkerReplaced,
)
from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.schedules.scheduler import SchedulerThread
from rsmq.transport.signals import Flag
from rsmq.wire.orders import NO_ORDERS, Orders, encode_report
from rsmq.wire.workers import TTL
from rsmq.worker.children.child_process import KILL_SECONDS
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.loop.call_recorder import CallRecorder
from rsmq.worker.loop.dead_workers import DeadWorkers
from rsmq.worker.loop.gates import Gates
from rsmq.worker.loop.group_sweeps import GroupSweeps
from rsmq.worker.loop.heartbeat import Heartbeat
from rsmq.worker.loop.stalls import MIN_LATE_SECONDS, Stalls
from rsmq.worker.middleware import Hooks
from rsmq.worker.receive.prefetch import Prefetcher
from rsmq.worker.receive.queue_refresh import QueueRefresh
from rsmq.worker.registry import HEARTBEAT_SECONDS
from rsmq.worker.run.executor import Executor
from rsmq.worker.run.quarantine import Quarantine
from rsmq.worker.run.run_queue import TARGET_START_SECONDS, make_run_queue
from rsmq.worker.run.stacks import count_calls, report_calls
from rsmq.worker.settle.settler import Settler
from rsmq.worker.settle.stored_bodies import StoredBodies
from rsmq.worker.state.arrivals import Arrivals
from rsmq.worker.state.calls import Job
from rsmq.worker.state.jobs import GroupJob, TrackedJob
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.loop_state import LoopState
from rsmq.worker.state.message_state import CALL_ABANDONED
from rsmq.worker.state.numbers import Numbers
from rsmq.worker.stop_event import StopEvent

_log = get_logger("rsmq.worker")

#: The pause between heartbeats of a worker at rest, in those of one that works: together with its
#: other calls, one call in two seconds. Two seconds are left for a late one, see ``TTL``.
_HEARTBEATS_PER_REST = 3
#: How long nothing is prefetched after a worker has died.
NO_PREFETCH_SECONDS = 10.0
#: How long no call ends before another thread or task is woken, if calls wait and slots are free.
_STUCK_SECONDS = 0.005
#: Seconds between two checks for unfinished work during a shutdown.
_SHUTDOWN_POLL_SECONDS = 0.02
#: The longest sleep while calls to Redis fail.
_MAX_FAILING_SLEEP_SECONDS = 2.0
#: Maximum number of short calls that end before the loop is woken to write their outcomes.
_MAX_FINISHED_CALLS = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """
    The settings of a loop, from those of its worker.

    Attributes:
        slots: maximum number of concurrent calls.
        facts: facts about its process, for its sign of life.
        grace: seconds that running calls have to end when the worker stops by itself.
        registered_at: monotonic seconds at which it was registered under a name that the user
            chose. Then a successor of this name may take over when this worker seems dead, so no
            call starts after its sign of life has expired. None if the name was generated.
        is_strict: whether a lower priority gets no call while a higher one has due messages.
        inactive: the queues of the listeners that do not receive, as they were declared. Its owner
            changes it, and calls ``apply_switches``.
    """

    slots: int
    facts: dict[str, Any]
    grace: float
    registered_at: float | None
    is_strict: bool = False
    inactive: Collection[str] = ()


class WorkerLoop:
    """
    The loop, to be run in its own thread.

    The loop's thread writes its attributes, except where the text names another; any thread reads
    them without a lock, and all of them by ``state``.

    Attributes:
        run_queue: the calls that wait for a slot. Never changes.
        finished: set when the loop has ended.
        failure: the exception that ended it; None if it was stopped.
        is_stopping: whether it receives nothing more. Set by ``stop`` in any thread.
        stopping: the event for its handlers, which the loop's thread sets. Never changes.
    """

    def __init__(
        self,
        connection: WorkerConnection,
        lanes: Sequence[Lane],
        hooks: Hooks,
        worker: object,
        settings: LoopSettings,
        *,
        scheduler: SchedulerThread,
    ) -> None:
        """
        Make it; nothing is received before ``run``.

        Args:
            connection: the worker's connection.
            lanes: its listeners.
            hooks: its middleware.
            worker: the argument of hooks.
            settings: what the worker was made with.
            scheduler: fires schedules while the loop runs.
        """
        slots, registered_at = settings.slots, settings.registered_at
        self.run_queue = make_run_queue(lanes, slots, is_strict=settings.is_strict)
        self.finished = Flag()
        self.failure: BaseException | None = None
        self.stopping = StopEvent()
        self._connection = connection
        self._name = connection.name
        self._lanes = lanes
        self._hooks = hooks
        self._slots = self._own_slots = slots
        self._facts = settings.facts
        self._worker = worker
        self._grace = settings.grace
        self._scheduler = scheduler
        self._has_fixed_name = registered_at is not None
        if registered_at is not None:
            self.run_queue.start_deadline = registered_at + TTL
        self._stored_bodies = StoredBodies(connection.client, (lane.codec for lane in lanes))
        self._settler = Settler(connection, hooks, self._stored_bodies)
        self._heartbeat = Heartbeat(connection, lanes, self._settler, self.run_queue, hooks)
        self._gates = Gates(connection, lanes, hooks, self._heartbeat)
        self._quarantine = Quarantine(connection, self.run_queue, self._settler)
        self._stalls = Stalls(connection.name, lanes, self._heartbeat, self._quarantine)
        self._dead_workers = DeadWorkers(connection.client)
        self._queue_refresh = QueueRefresh(connection, lanes)
        self._executors: Mapping[bool, Executor] = {}
        self._finished_jobs: deque[Job] = deque()
        self._progressed_jobs: deque[GroupJob] = deque()
        self._reporting_jobs: deque[TrackedJob] = deque()
        self._finished_count = 0
        self._wake_up = Flag()
        self._group_sweeps = GroupSweeps(connection)
        self._call_recorder = CallRecorder(connection, self._settler.tally)
        self._prefetcher = Prefetcher(
            connection, lanes, slots, self.run_queue, self._settler, hooks, self._group_sweeps.note
        )
        for lane in lanes:
            lane.arrivals = Arrivals(
                connection.client, lane.keys.zset, partial(self._wake_lane, lane)
            )
            for part in lane.parts:
                part.renew_soon, part.stopping = self._renew_soon, self.stopping
            lane.is_active = lane.listener.declared_queue not in settings.inactive
        self._inactive = settings.inactive
        self._orders = NO_ORDERS
        self._has_switches = False
        self._is_asleep = False
        self._jobs_before_wake_up = 1
        self._next_heartbeat_at = 0.0
        self._last_info: dict[str, Any] = {}
        self._last_progress = (0.0, -1)
        self.is_stopping = self._has_called_before_stop = self._has_interrupted = False
        self._heartbeat_at = self._turn_at = time.monotonic()
        self._stop_deadline = math.inf
        self._ends_by_ms: int | None = None

    @property
    def numbers(self) -> Numbers:
        """The counters of the worker."""
        return self._settler.numbers

    def state(self) -> LoopState:
        """Return the state of the loop and its queues, at this moment; from any thread."""
        now = time.monotonic()
        return LoopState(
            self.finished.is_set(),
            self.is_stopping,
            self.failure,
            self._heartbeat_at,
            self._turn_at,
            self._connection.has_failed,
            any(each.stall is not None for each in self._executors.values()),
            {lane.name: lane.state(now) for lane in self._lanes},
        )

    def _wake_lane(self, lane: Lane) -> None:
        """Let the queue of a lane be looked at; called by the watcher's thread."""
        lane.last_request_at = time.monotonic()  # until now nothing was due, so it did not starve
        self._wake_up.set()

    def report_finished(self, job: Job) -> None:
        """Report that a call has ended; called by the thread or task that ran it."""
        self._finished_jobs.append(job)
        if self._is_asleep and len(self._finished_jobs) >= self._jobs_before_wake_up:
            self._wake_up.set()

    def report_progress(self, job: GroupJob) -> None:
        """
        Report that one of several handlers of a message has ended; called as ``report_finished``.
        """
        self._progressed_jobs.append(job)
        if self._is_asleep:
            self._wake_up.set()

    def _renew_soon(self, job: TrackedJob) -> None:
        """Extend the lease of a call soon; called by its handler, which has reported progress."""
        self._reporting_jobs.append(job)
        if self._is_asleep:
            self._wake_up.set()

    def report_idle(self) -> None:
        """Report that a thread or task has nothing to run."""
        if self._is_asleep:
            self._wake_up.set()

    def apply_switches(self) -> None:
        """Start and stop listeners in the next turn; from any thread."""
        self._has_switches = True
        self._wake_up.set()

    def _apply_switches(self) -> None:
        self._has_switches = False
        for lane in self._lanes:
            is_active = (
                not self._orders.is_paused and lane.listener.declared_queue not in self._inactive
            )
            if lane.is_active != is_active:
                self._switch(lane, is_active=is_active)

    def _switch(self, lane: Lane, *, is_active: bool) -> None:
        lane.is_active = is_active
        lane.arrivals.stop()
        if not is_active:
            self._heartbeat.release_waiting(list(lane.queued))
            self._quarantine.release_of(lane)
        _log.info(
            "worker %s %s from queue %s",
            self._name,
            "receives" if is_active else "stops receiving",
            lane.name,
        )

    def stop(self, grace: float, *, is_at_exit: bool = False) -> None:
        """
        Stop receiving and release waiting messages. End when all calls have ended, or after grace.

        Args:
            is_at_exit: whether the program ends, so that no time is left for child processes.
        """
        self._has_interrupted |= is_at_exit
        deadline = time.monotonic() + grace
        if deadline < self._stop_deadline:
            self._stop_deadline, self._ends_by_ms = deadline, round((time.time() + grace) * 1000)
        self.is_stopping = self._connection.is_stopping = True
        self._scheduler.stop()
        self._wake_up.set()

    def run(self, executors: Mapping[bool, Executor]) -> None:
        """
        Run the loop until it is stopped or fails.

        Args:
            executors: the executor of async handlers (True) and of plain ones (False).
        """
        self._executors = self.run_queue.executors = executors
        try:
            self._scheduler.start()
            while not (self.is_stopping and self._can_end()):
                self._run_once()
            self._shut_down()
        except WorkerReplaced as error:
            self.failure = error
            _log.error("worker %s stops: %s", self._name, error)
            self._fail("another worker has this one's name")
        except BaseException as error:  # noqa: BLE001 - Worker.run raises it again
            self.failure = error
            _log.critical("worker %s fails", self._name, exc_info=True)
            self._fail("the worker has failed")
        finally:
            self._scheduler.stop()
            self._prefetcher.stop_waiting()
            for executor in self._executors.values():
                executor.stop()
            self._stored_bodies.close()
            self._hooks.call("after_stop", self._worker)
            self._scheduler.join()
            self.finished.set()

    def _fail(self, reason: str) -> None:
        self.stopping.set()
        with self.run_queue.lock:
            self.run_queue.close()
        self._heartbeat.lose_all(reason)

    def _run_once(self) -> None:
        now = self._turn_at = time.monotonic()
        if self.is_stopping and not self.stopping:
            self.stopping.set()
        self._collect_finished_jobs()
        self._check_executors(now)
        if self._has_switches:
            self._apply_switches()
        self._access_redis(now)
        pause = self._sleep()
        late = time.monotonic() - now - pause
        lost = self._settler.lost
        if late > MIN_LATE_SECONDS and not self._connection.has_failed:
            self._stalls.note_late(late, lost)
        if lost:
            lost.clear()

    def _access_redis(self, now: float) -> None:
        """Make the calls to Redis that are due; none for a while after one has failed."""
        connection = self._connection
        if connection.is_pausing:
            return
        if self._settler:
            connection.attempt(self._settler.write_step)
        self._heartbeat.renew(now)
        self._gates.sync(now)
        if now >= self._heartbeat_due_at():
            self._next_heartbeat_at = now + HEARTBEAT_SECONDS
            self._abandon_hung_calls(now)
            if not connection.attempt(self._send_heartbeat) and connection.is_pausing:
                self._next_heartbeat_at = connection.retry_at
            self._queue_refresh.run()
            self._stored_bodies.sweep(now)
            self._call_recorder.run()
        self._prefetcher.release_unknown_messages()
        if self.is_stopping:
            self._release_waiting()
        elif self._may_begin(time.monotonic()):
            self._receive(now)
            self._group_sweeps.run(now)
        elif not connection.has_failed:  # else the release could not be written
            self._release_unstarted()
        connection.end_turn()
        if connection.has_failed:
            self._heartbeat.lose_expired()

    def _abandon_hung_calls(self, now: float) -> None:
        try:
            self._heartbeat.abandon_hung_calls(self._executors, now, limit=self._slots)
        except TooManyHungCalls as error:
            if not self.is_stopping:
                self.failure = error
                _log.critical("worker %s stops: %s", self._name, error)
                self.stop(self._grace)

    def _check_executors(self, now: float) -> None:
        """
        Stop if an executor has ended or is stalled for too long; release the messages of its calls.
        """
        for executor in self._executors.values():
            executor.check(now)
        self._stalls.sync(self._executors)
        for executor in self._executors.values():
            end = executor.end
            if end is None:
                continue
            with self.run_queue.lock:
                jobs, end.jobs = end.jobs, []
            blocker = None if end.stall is None else end.stall.job
            if blocker is not None:
                self._heartbeat.fail_blocking_call(blocker, executor)
            # One of the calls may have ended the executor, and would do so in each run: so they
            # count, unless the worker was to stop anyway.
            are_attempts = blocker is None and (self.failure is not None or not self.is_stopping)
            self._heartbeat.release_calls(
                jobs, "its handler can't end any more", are_attempts=are_attempts
            )
            if not self.is_stopping:
                if end.stall is None:
                    self.failure = ExecutorEnded(end.cause)
                else:
                    self.failure = ExecutorStalled(end.cause, end.stall.seconds, end.stall.remedy)
                _log.critical("worker %s stops: %s", self._name, self.failure)
                self.stop(self._grace)

    def _collect_finished_jobs(self) -> None:
        finished, settler = self._finished_jobs, self._settler
        while self._progressed_jobs:
            progressed = self._progressed_jobs.popleft()
            if progressed.ended_at is None:  # else its outcome is decided now
                settler.note_progress(progressed)
        while self._reporting_jobs:
            self._heartbeat.renew_soon(self._reporting_jobs.popleft())
        run: list[Job] = []
        run_lane, run_type = None, ""
        while finished:
            job = finished.popleft()
            self._finished_count += 1
            if job.started_at is not None and job.ended_at is not None:
                lane, seconds = job.lane, job.ended_at - job.started_at
                lane.record_duration(seconds)
                if lane.main is not lane:
                    lane.main.record_duration(seconds)
                if lane is not run_lane or job.message_type != run_type:
                    settler.tally.count_calls(run)
                    run, run_lane, run_type = [], lane, job.message_type
                run.append(job)
            if job.call_state is not CALL_ABANDONED:
                settler.decide_outcomes(job)
        settler.tally.count_calls(run)

    # Sign of life.

    def _heartbeat_due_at(self) -> float:
        """
        Return the monotonic seconds of the next heartbeat, which is later while the worker rests.

        If a message arrives, an old heartbeat is renewed first: then a worker that was paused in
        the meantime does not receive the message.
        """
        at = self._next_heartbeat_at
        return at + (_HEARTBEATS_PER_REST - 1) * HEARTBEAT_SECONDS if self._is_at_rest() else at

    def _is_at_rest(self) -> bool:
        """Return whether a heartbeat would report nothing new, and no queue needs a look."""
        return (
            not (self.run_queue.running_count or self._settler or self._quarantine)
            and not self._connection.has_failed
            and self._orders == NO_ORDERS
            and all(
                not (lane.in_flight or lane.closed_reason)
                and (lane.is_waiting or not lane.is_active)
                for lane in self._lanes
            )
            and self.info() == self._last_info
        )

    def _send_heartbeat(self) -> bool:
        sent_at = time.monotonic()
        report = encode_report(report_calls(self.run_queue)) if self._orders.is_watched else b""
        info = self.info()
        orders = self._connection.send_heartbeat(info, report)
        self._heartbeat_at, self._last_info = sent_at, info
        if orders != self._orders:
            self._follow(orders)
        self._dead_workers.forget(sent_at)
        if self._has_fixed_name:
            with self.run_queue.lock:
                self.run_queue.start_deadline = sent_at + TTL
                for executor in self._executors.values():
                    executor.wake(0)
        return True

    def _follow(self, orders: Orders) -> None:
        """Follow the orders of operators, or what is left of them."""
        before, self._orders = self._orders, orders
        if orders.is_paused != before.is_paused:
            _log.info("worker %s is %s", self._name, "paused" if orders.is_paused else "resumed")
            self._apply_switches()
        if orders.concurrency != before.concurrency:
            self._resize(orders.concurrency or self._own_slots)
        if orders.is_to_stop and not before.is_to_stop:
            _log.info("worker %s stops, as it was ordered to", self._name)
            self.stop(self._grace if orders.grace is None else orders.grace)
        self._next_heartbeat_at = 0.0  # it reports, and shows what has changed

    def _resize(self, slots: int) -> None:
        with self.run_queue.lock:
            self._slots = self._prefetcher.slots = self.run_queue.resize(slots)
            for executor in self._executors.values():
                executor.max_calls = self._slots
                executor.wake(0)
        _log.info("worker %s has concurrency %d", self._name, self._slots)

    def info(self) -> dict[str, Any]:
        """Return the worker's description of itself, for its sign of life."""
        facts = dict(self._facts)
        if not self._has_fixed_name:  # no successor takes over its messages
            longest_vt = max((lane.vt for lane in self._lanes), default=0.0)
            facts["forget_after_ms"] = math.ceil(longest_vt * 1000)
        return {
            **facts,
            "queues": {lane.name: len(lane.in_flight) for lane in self._lanes},
            "handled": self.numbers.handled,
            "failed": self.numbers.failed,
            "slots": self._slots,
            "running": self.run_queue.running_count,
            "calls": count_calls(self.run_queue),
            **({"paused": True} if self._orders.is_paused else {}),
            **({} if self._ends_by_ms is None else {"ends_by_ms": self._ends_by_ms}),
            **self._stalls.describe(),
            "outcomes": self._settler.outcomes,
            **({"failures": self._settler.failures} if self._settler.failures else {}),
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

    def _may_begin(self, now: float) -> bool:
        """Return whether calls may begin: Redis has confirmed the name a short time ago."""
        return now <= self.run_queue.start_deadline

    def _release_unstarted(self) -> None:
        """Release the messages of calls that may not begin before the name is confirmed."""
        for lane in self._lanes:
            if lane.queued:
                self._heartbeat.release_waiting(list(lane.queued))
        self._quarantine.release_unstarted()

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
            if lane.queued:
                self._heartbeat.release_waiting(list(lane.queued))

    def _can_end(self) -> bool:
        """Return whether nothing is left to be done, or the grace period is over."""
        if time.monotonic() >= self._stop_deadline and not self._interrupt_calls():
            return True
        with self.run_queue.lock:
            busy = self.run_queue.running_count or self.run_queue.count_ready()
        return not (busy or self._finished_jobs or self._settler or self._quarantine)

    def _interrupt_calls(self) -> bool:
        """
        Interrupt the calls in child processes, once. Return whether there are any: they have
        KILL_SECONDS to end.
        """
        if self._has_interrupted:
            return False
        self._has_interrupted = True
        if not any(each.interrupt() for each in self._executors.values()):
            return False
        self._stop_deadline = time.monotonic() + KILL_SECONDS
        return True

    def _shut_down(self) -> None:
        """Release the messages that are still in flight, and unregister the worker."""
        self.stopping.set()
        self._call_before_stop()
        self._collect_finished_jobs()
        with self.run_queue.lock:
            self.run_queue.close()
        self._connection.retry_now()
        left = 0
        try:
            self._write_all()
            self._collect_finished_jobs()
            self._write_all()
            left = self._heartbeat.release_all("the worker stops")
            self._write_all()
            self._call_recorder.write()
            self._gates.sync(time.monotonic(), all_of_them=True)
            self._unregister(left)
        except (ClientClosed, WorkerReplaced) as error:
            self._heartbeat.release_all("the worker stops")
            summary = f"{type(error).__name__}: {error}"
            _log.warning("worker %s could not release its messages: %s", self._name, summary)

    def _unregister(self, left: int) -> None:
        """Unregister the worker; log what is left."""
        self._connection.attempt(self._connection.unregister)
        if self._settler or self._connection.is_registered:
            _log.warning(
                "worker %s could not release its messages: %s",
                self._name,
                self._connection.last_error,
            )
        elif left:
            _log.warning(
                "worker %s releases %s not handled in time", self._name, format_count(left)
            )

    def _write_all(self) -> None:
        """
        Write all outcomes, and renew the leases of other messages meanwhile.

        If Redis fails, the outcomes are left.
        """
        while self._settler and not self._connection.is_pausing:
            self._connection.attempt(self._settler.write_step)
            self._heartbeat.renew(time.monotonic())

    def _sleep(self) -> float:
        """Sleep until there is something to do. Return the seconds for which it was to last."""
        now = time.monotonic()
        if self._connection.is_pausing:
            retry_at = min(self._connection.retry_at, now + _MAX_FAILING_SLEEP_SECONDS)
            pause = min(retry_at, max(self._stop_deadline, now)) - now
            self._wake_up.wait(pause)
            self._wake_up.clear()
            return pause
        self._is_asleep = True  # set before any state is read: later changes set _wake_up
        pause, self._jobs_before_wake_up = self._plan_sleep(now)
        if len(self._finished_jobs) < self._jobs_before_wake_up and pause > 0:
            self._wake_up.wait(pause)
        else:
            pause = 0.0
        self._is_asleep = False
        self._wake_up.clear()
        return pause

    def _plan_sleep(self, now: float) -> tuple[float, int]:
        """Return how long to sleep, in seconds, and how many finished calls end the sleep."""
        if self._settler or (self.is_stopping and self._can_end()):  # a step has not written all
            return 0.0, 1
        next_at = min(self._heartbeat_due_at(), self._heartbeat.renew_at(), self._gates.due_at())
        pause = min(next_at, self._stop_deadline) - now
        if self.is_stopping or not self._may_begin(now):
            return min(pause, _SHUTDOWN_POLL_SECONDS if self.is_stopping else pause), 1
        pause = min(pause, self.run_queue.start_deadline - now)  # then messages are released
        pause = min(pause, self._group_sweeps.due_at - now)
        if self._quarantine:
            pause = min(pause, self._quarantine.poll_seconds(now))
            if self.run_queue.is_exclusive:  # the end of the other calls sets no wake-up
                return pause, 1
        if self._prefetcher.plan(now) is not None:
            return 0.0, 1
        pause = min(pause, self._prefetcher.fill_at() - now)
        with self.run_queue.lock:
            ready = self.run_queue.count_ready()
            can_start = bool(ready) and self.run_queue.has_startable
        if not ready:
            return pause, 1
        job_count = self._count_jobs_before_wake_up()
        if can_start:
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
        durations = [lane.mean_seconds for lane in self._lanes if lane.queued or lane.calls]
        shortest = min(
            (mean for mean in durations if mean is not None), default=TARGET_START_SECONDS
        )
        return max(1, min(_MAX_FINISHED_CALLS, int(TARGET_START_SECONDS / max(shortest, 1e-7))))
