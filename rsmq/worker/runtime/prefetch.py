"""
Prefetch: requests messages from the queues, and makes handler calls of them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from redis.exceptions import RedisError

from rsmq.operations.worker import ReceiveResult, list_in_flight, receive_for_worker
from rsmq.transport.retry import is_limited_to_keys
from rsmq.waiting.schedule import Waiter
from rsmq.worker.middleware import Hooks
from rsmq.worker.runtime.jobs import BatchJob, SingleJob
from rsmq.worker.runtime.lane import Cell, CellQueue, Job, Lane
from rsmq.worker.runtime.prefetch_plan import PlannedRequest, plan_requests
from rsmq.worker.runtime.release import release_receipts
from rsmq.worker.runtime.run_queue import RunQueue
from rsmq.worker.runtime.settle import Settler

_log = logging.getLogger("rsmq.worker")


class Prefetcher:
    """
    Receives as many messages as there is room for, and waits for new ones.

    Attributes:
        has_unknown_messages: whether a receive may have succeeded whose reply was lost. Then
            messages may be in flight that this worker does not know.
    """

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        cell: Cell,
        lanes: Sequence[Lane],
        slots: int,
        run_queue: RunQueue,
        settler: Settler,
        hooks: Hooks,
        wake_up: Callable[[], object],
    ) -> None:
        """
        Make it.

        Args:
            cell: the namespace of the queues.
            lanes: its listeners.
            slots: maximum number of concurrent calls.
            run_queue: the calls that wait for a slot.
            settler: settles messages.
            hooks: its middleware.
            wake_up: called by another thread when messages may be due.
        """
        self.has_unknown_messages = False
        self._cell = cell
        self._lanes = lanes
        self._slots = slots
        self._run_queue = run_queue
        self._settler = settler
        self._hooks = hooks
        self._wake_up = wake_up

    def receive(self, now: float) -> tuple[list[Job], list[Job]]:
        """
        Receive as many messages as there is room for.

        Args:
            now: monotonic seconds.

        Returns:
            Calls to be made, and calls to be made in quarantine.
        """
        requests, slots = self.plan(now)
        if not requests:
            return [], []
        self._hooks.call("before_receive", [each.lane.name for each in requests])
        sent_at = time.monotonic()
        operation = receive_for_worker(
            self._cell.identity, [each.request for each in requests], slots
        )
        try:
            results = self._cell.client.run(operation)
        except (RedisError, OSError) as error:
            if not is_limited_to_keys(error):
                self.has_unknown_messages = True
                raise
            return self._receive_one_by_one(requests, slots, error)
        return self._process_results(requests, results, sent_at)

    def _receive_one_by_one(
        self, requests: list[PlannedRequest], slots: int, error: BaseException
    ) -> tuple[list[Job], list[Job]]:
        """
        Receive from each queue separately, because one of them is broken; close the broken ones.
        """
        jobs: list[Job] = []
        quarantined: list[Job] = []
        for each in requests:
            if len(requests) > 1:
                operation = receive_for_worker(self._cell.identity, [each.request], slots)
                sent_at = time.monotonic()
                try:
                    (result,) = self._cell.client.run(operation)
                except (RedisError, OSError) as own_error:
                    if not is_limited_to_keys(own_error):
                        self.has_unknown_messages = True
                        break  # received messages are handled; the next call raises again
                    error = own_error
                else:
                    more_jobs, more_quarantined = self._process_results([each], [result], sent_at)
                    jobs += more_jobs
                    quarantined += more_quarantined
                    slots = max(slots - math.ceil(len(result.ids) / each.request.size), 0)
                    continue
            self._stop_waiting(each.lane)
            each.queue.closed_reason = "b"
            _log.error("queue %s can't be received from: %s", each.lane.name, error)
        return jobs, quarantined

    def _process_results(
        self, requests: list[PlannedRequest], results: list[ReceiveResult], sent_at: float
    ) -> tuple[list[Job], list[Job]]:
        """
        Update the lanes by the results of a receive, and return the calls as ``receive`` does.
        """
        jobs: list[Job] = []
        quarantined: list[Job] = []
        for request, each in zip(requests, results, strict=True):
            lane, queue = request.lane, request.queue
            if each.state in ".+":
                lane.last_request_at = sent_at
                if queue.is_missing_logged:
                    queue.is_missing_logged = False
                    _log.info("queue %s is back", lane.name)
            elif each.state in "pm":
                self._close(queue, each.state)
            if each.ids:
                received, received_quarantined = self._make_jobs(queue, each, sent_at)
                if request.is_starved:
                    for job in received:
                        job.is_urgent = True
                jobs += received
                quarantined += received_quarantined
            self._wait_for_more(lane, drained=each.state == ".", found=bool(each.ids))
        return jobs, quarantined

    def _lanes_to_ask(self) -> list[Lane]:
        """
        Return the lanes whose queues may have due messages, and all lanes of a higher priority.

        The latter may have received messages just now, which must be handled first.
        """
        lanes = [
            lane
            for lane in self._lanes
            if not lane.is_closed and lane.allowance() != 0 and not self._settler.has_backlog(lane)
        ]
        lowest = min(
            (lane.listener.priority for lane in lanes if not lane.is_waiting), default=math.inf
        )
        return [lane for lane in lanes if not lane.is_waiting or lane.listener.priority > lowest]

    def plan(self, now: float) -> tuple[list[PlannedRequest], int]:
        """Return the requests to be made now, and the number of slots for their messages."""
        lanes = self._lanes_to_ask()
        if not lanes:
            return [], 0
        with self._run_queue.lock:
            if self._run_queue.is_exclusive:
                return [], 0
            free = self._slots - self._run_queue.running_count
            ready = self._run_queue.count_ready_by_priority()
        requests, slots = plan_requests(lanes, free, ready, now)
        # Lanes that wait are only asked together with others.
        if all(each.lane.is_waiting for each in requests):
            return [], 0
        return requests, slots

    def _close(self, queue: CellQueue, state: str) -> None:
        queue.closed_reason = state
        if state == "m" and not queue.is_missing_logged:
            queue.is_missing_logged = True
            _log.warning("there is no queue %s; its listener waits for it", queue.keys.name)

    def _wait_for_more(self, lane: Lane, *, drained: bool, found: bool) -> None:
        """Wait for a wake-up if nothing more is due now. Report the result of the last one."""
        waiter = lane.waiter
        if waiter is not None and waiter.is_awake:
            if found:
                self._cell.client.watcher.note_receive(waiter)
                waiter.empty_receives = 0
            else:
                waiter.empty_receives += 1
        if not drained:
            self._stop_waiting(lane)
            return
        if waiter is None:
            waiter = lane.waiter = Waiter(
                tuple(queue.keys.zset for queue in lane.queues), partial(self._handle_wake_up, lane)
            )
        self._cell.client.watcher.add(waiter)

    def _handle_wake_up(self, lane: Lane) -> None:
        """Wake the loop, because messages may be due; called by the watcher's thread."""
        # Before the wake-up nothing was due, so the queue did not starve.
        lane.last_request_at = time.monotonic()
        self._wake_up()

    def stop_waiting(self) -> None:
        """Stop waiting for wake-ups."""
        for lane in self._lanes:
            self._stop_waiting(lane)

    def _stop_waiting(self, lane: Lane) -> None:
        waiter, lane.waiter = lane.waiter, None
        if waiter is not None:
            self._cell.client.watcher.remove(waiter)

    def _make_jobs(
        self, queue: CellQueue, result: ReceiveResult, sent_at: float
    ) -> tuple[Sequence[Job], Sequence[Job]]:
        """Return the calls for received messages, and the calls in quarantine."""
        lane, in_flight = queue.lane, queue.in_flight
        if in_flight:
            for id in result.ids:
                if id in in_flight:
                    self._settler.mark_lost(queue, in_flight[id], "it was received once more")
        singles = self._make_single_jobs(queue, result, sent_at)
        if self._hooks["after_receive"]:
            messages = [single.to_delivery(lane.name, lane.codec) for single in singles]
            self._hooks.call("after_receive", lane.name, messages)
        quarantined: list[SingleJob] = []
        if result.redelivered:
            quarantined = [single for single in singles if single.is_quarantined]
            singles = [single for single in singles if not single.is_quarantined]
        size = lane.listener.batch
        if size is not None:
            return _make_batches(queue, singles, size, sent_at), _make_batches(
                queue, quarantined, 1, sent_at
            )
        for single in (*singles, *quarantined):
            in_flight[single.id] = single
        return singles, quarantined

    def _make_single_jobs(
        self, queue: CellQueue, result: ReceiveResult, sent_at: float
    ) -> list[SingleJob]:
        lane = queue.lane
        queue.renew_at = min(queue.renew_at, sent_at + lane.vt / 3)
        self._settler.numbers.received += len(result.ids)
        now = result.now_ms
        singles = [
            SingleJob(queue, id, raw, 1, now, sent_at)
            for id, raw in zip(result.ids, result.raws, strict=True)
        ]
        for place, (count, first, unbegun) in result.redelivered.items():
            single = singles[place]
            single.count, single.first_received_ms, single.unbegun = count, first, unbegun
            single.is_quarantined = lane.policy.is_suspected_poison(single.attempt)
        return singles

    def release_unknown_messages(self) -> None:
        """Release messages of receives whose replies were lost."""
        stored = self._cell.client.run_steps(
            list_in_flight(self._cell.client.namespace, self._cell.identity.name)
        )
        in_flight = {
            lane.name: queue.in_flight
            for lane in self._lanes
            for queue in lane.queues
            if queue.cell is self._cell
        }
        unknown = {
            queue: [
                (id, count)
                for id, count in receipts
                if id not in in_flight.get(queue, {}) or in_flight[queue][id].count != count
            ]
            for queue, receipts in stored.items()
        }
        self._settler.numbers.released += release_receipts(self._cell, unknown, are_begun=False)
        self.has_unknown_messages = False


def _make_batches(
    queue: CellQueue, singles: list[SingleJob], size: int, sent_at: float
) -> list[BatchJob]:
    batches = []
    for at in range(0, len(singles), size):
        batch = BatchJob(queue, singles[at : at + size], sent_at)
        batch.is_quarantined = singles[at].is_quarantined
        for lease in batch.leases:
            queue.in_flight[lease.id] = lease
        batches.append(batch)
    return batches
