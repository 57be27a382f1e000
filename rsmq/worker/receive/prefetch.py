"""
Prefetch: requests messages from the queues, and makes handler calls of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import ReplyLost
from rsmq.errors.guarded_log import get_logger
from rsmq.operations.lost_replies import LostReplies
from rsmq.transport.retry import has_not_run, is_limited_to_keys
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.middleware import Hooks
from rsmq.worker.operations import (
    MAX_BODY_BYTES,
    ReceiveResult,
    list_finished,
    list_in_flight,
    receive_for_worker,
)
from rsmq.worker.receive.prefetch_plan import (
    PlannedRequest,
    plan_requests,
    reduce_requests,
    without_lanes_ahead,
)
from rsmq.worker.receive.turns import Turns
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.settle.release import release_receipts
from rsmq.worker.settle.settler import Settler
from rsmq.worker.state.calls import Job
from rsmq.worker.state.jobs import BatchJob, SingleJob, single_job_class
from rsmq.worker.state.lane import Lane

_log = get_logger("rsmq.worker")

#: How long a message is hidden that can't be received, so that the worker receives others.
_UNDELIVERABLE_HIDDEN_MS = 60_000


@dataclass(frozen=True, slots=True)
class Plan:
    """
    The next receive.

    Attributes:
        requests: the requests, in order.
        slots: the number of slots for the messages.
    """

    requests: list[PlannedRequest]
    slots: int


class Prefetcher:
    """Receives as many messages as there is room for, and waits for new ones."""

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        connection: WorkerConnection,
        lanes: Sequence[Lane],
        slots: int,
        run_queue: RunQueue,
        settler: Settler,
        hooks: Hooks,
        note_groups: Callable[[Lane], None],
    ) -> None:
        """
        Make it.

        Args:
            connection: the worker's connection.
            lanes: the listeners.
            slots: maximum number of concurrent calls.
            run_queue: the calls that wait for a slot.
            settler: settles messages.
            hooks: the worker's middleware.
            note_groups: called with a lane whose messages may have groups.
        """
        self._connection = connection
        self._lanes = lanes
        self._turns = Turns(lanes, slots)
        self._filling_lanes = [lane for lane in lanes if lane.fill_seconds is not None]
        self.slots = slots
        self._run_queue = run_queue
        self._settler = settler
        self._hooks = hooks
        self._note_groups = note_groups
        self._has_groups = any(lane.listener.handlers.is_group for lane in lanes)
        self._losses = LostReplies()
        #: Whether messages may be in flight that this worker does not know: a reply was lost.
        self._has_unknown_messages = False
        #: The queues and ids of the messages that all lost replies in a row had.
        self._lost_ids: set[tuple[str, str]] = set()

    def receive(self, now: float) -> tuple[list[Job], list[Job]]:
        """
        Receive as many messages as there is room for.

        Args:
            now: monotonic seconds.

        Returns:
            Calls to be made, and calls to be made in quarantine.
        """
        plan = self.plan(now)
        if plan is None:
            return [], []
        return self._connection.attempt(partial(self._receive, plan)) or ([], [])

    def _receive(self, plan: Plan) -> tuple[list[Job], list[Job]]:
        self._hooks.call("before_receive", [each.lane.name for each in plan.requests])
        connection, losses = self._connection, self._losses
        requests = [each.to_request() for each in plan.requests]
        if losses.halvings:
            requests = reduce_requests(requests, losses)
        number, generation = sum(each.max_messages for each in requests), losses.generation
        sent_at = time.monotonic()
        operation = receive_for_worker(
            connection.identity, requests, plan.slots, losses.limit(MAX_BODY_BYTES)
        )
        try:
            results = connection.run(operation)
            if self._has_groups:
                results = self._add_finished(plan.requests, results)
        except (RedisError, OSError) as error:
            if not is_limited_to_keys(error):
                self._has_unknown_messages = True
                if not has_not_run(error):
                    losses.note_lost(generation, number)
                raise
            return self._receive_one_by_one(plan, error)
        if losses.is_limiting() and any(each.ids for each in results):
            losses.note_received()
        return self._process_results(plan.requests[: len(requests)], results, sent_at)

    def _add_finished(
        self, requests: Sequence[PlannedRequest], results: list[ReceiveResult]
    ) -> list[ReceiveResult]:
        """Add to results which of several handlers of a message have finished earlier."""
        return [
            self._read_finished(each.lane, result)
            if result.redelivered and each.lane.listener.handlers.is_group
            else result
            for each, result in zip(requests, results, strict=False)
        ]

    def _receive_one_by_one(self, plan: Plan, error: BaseException) -> tuple[list[Job], list[Job]]:
        """
        Receive from each queue separately, because one of them is broken; close the broken ones.
        """
        jobs: list[Job] = []
        quarantined: list[Job] = []
        connection, slots = self._connection, plan.slots
        for each in plan.requests:
            lane = each.lane
            if len(plan.requests) > 1:
                operation = receive_for_worker(connection.identity, [each.to_request()], slots)
                sent_at = time.monotonic()
                try:
                    (result,) = self._add_finished([each], connection.run(operation))
                except (RedisError, OSError) as own_error:
                    if not is_limited_to_keys(own_error):
                        self._has_unknown_messages = True
                        break  # received messages are handled; the next call raises again
                    error = own_error
                else:
                    more_jobs, more_quarantined = self._process_results([each], [result], sent_at)
                    jobs += more_jobs
                    quarantined += more_quarantined
                    slots = max(slots - math.ceil(len(result.ids) / lane.size), 0)
                    continue
            lane.close("b")
            lane.arrivals.note_look(is_drained=False, has_found=False)
            _log.error("queue %s can't be received from: %s", lane.name, error)
        return jobs, quarantined

    def _process_results(
        self,
        requests: list[PlannedRequest],
        results: list[ReceiveResult],
        sent_at: float,
    ) -> tuple[list[Job], list[Job]]:
        """
        Update the lanes by the results of a receive, and return the calls as ``receive`` does.
        """
        jobs: list[Job] = []
        quarantined: list[Job] = []
        for request, each in zip(requests, results, strict=True):
            lane = request.lane
            self._note_state(lane, each, sent_at)
            if each.ids:
                received, received_quarantined = self._make_jobs(lane, each, sent_at)
                if request.is_starved:
                    for job in received:
                        job.is_urgent = True
                jobs += received
                quarantined += received_quarantined
            if each.state == "-":  # it was not read: no slot was left
                lane.arrivals.stop()
            else:
                is_drained, has_found = each.state in ".f", bool(each.ids)
                lane.arrivals.note_look(
                    is_drained=is_drained, has_found=has_found, limit=each.limit
                )
                if self._run_queue.shares is not None and lane.is_waiting:
                    self._run_queue.note_nothing_due(lane)
        return jobs, quarantined

    def _note_state(self, lane: Lane, result: ReceiveResult, sent_at: float) -> None:
        if result.state in ".+f":
            lane.last_request_at = sent_at
            self._turns.note_asked(lane)
            if result.state == "f":
                lane.fill_at = time.monotonic() + result.fill_ms / 1000
        elif result.state in "pm":
            self._close(lane, result.state)
        if result.may_have_groups:
            self._note_groups(lane)

    def _can_ask(self, lane: Lane) -> bool:
        return not (lane.is_closed or lane.allowance() == 0 or self._has_backlog(lane))

    def _has_backlog(self, lane: Lane) -> bool:
        return any(self._settler.has_backlog(each) for each in lane.parts)

    def _lanes_to_ask(self) -> list[Lane]:
        """Return the lanes that may be asked now; see ``Turns.lanes_to_ask``."""
        shares = self._run_queue.shares
        if shares is None:
            return self._turns.lanes_to_ask(self._can_ask)
        open_lanes = [lane for lane in self._lanes if not lane.is_closed and lane.allowance() != 0]
        lanes = [lane for lane in open_lanes if not self._has_backlog(lane)]
        if len(lanes) < len(open_lanes):
            lanes = without_lanes_ahead(
                lanes, open_lanes, shares, is_strict=self._run_queue.is_strict
            )
        lowest = min(
            (lane.listener.priority for lane in lanes if not lane.is_waiting), default=math.inf
        )
        lanes = [lane for lane in lanes if not lane.is_waiting or lane.listener.priority > lowest]
        return self._turns.first_by_shares(lanes, shares)

    def plan(self, now: float) -> Plan | None:
        """Return the receive that is to be made now; None if there is none."""
        if self._filling_lanes:
            self._look_at_filled(now)
        lanes = self._lanes_to_ask()
        if not lanes:
            return None
        with self._run_queue.lock:
            if self._run_queue.is_exclusive:
                return None
            free = self.slots - self._run_queue.running_count
            ready = self._run_queue.count_ready_by_priority()
        planned, slots = plan_requests(
            lanes, free, ready, now, self._run_queue.shares, is_strict=self._run_queue.is_strict
        )
        # Lanes that wait are only asked together with others.
        if all(each.lane.is_waiting for each in planned):
            return None
        return Plan(planned, slots)

    def fill_at(self) -> float:
        """Return the monotonic seconds at which a batch is received though it is not full."""
        if not self._filling_lanes:
            return math.inf
        return min((lane.fill_at for lane in self._filling_lanes), default=math.inf)

    def _look_at_filled(self, now: float) -> None:
        for lane in self._filling_lanes:
            if lane.fill_at <= now:
                lane.fill_at = math.inf
                lane.arrivals.stop()

    @staticmethod
    def _close(lane: Lane, state: str) -> None:
        lane.close(state)
        if state == "m":
            action = "creates it again" if lane.listener.create else "waits for it"
            _log.warning("there is no queue %s; its listener %s", lane.name, action)

    def stop_waiting(self) -> None:
        """Stop waiting for wake-ups."""
        for lane in self._lanes:
            lane.arrivals.stop()

    def _make_jobs(
        self, lane: Lane, result: ReceiveResult, sent_at: float
    ) -> tuple[Sequence[Job], Sequence[Job]]:
        """Return the calls for received messages, and the calls in quarantine."""
        for lease in lane.in_flight.find(result.ids):
            self._settler.mark_lost(lease.job.lane, lease, "it was received once more")
        singles = self._make_single_jobs(lane, result, sent_at)
        if self._hooks["after_receive"]:
            messages = [single.to_delivery(lane.name, lane.codec) for single in singles]
            self._hooks.call("after_receive", lane.name, messages)
        size = lane.listener.batch
        if size is not None:
            return _make_batches(lane, singles, size, sent_at)
        quarantined: list[SingleJob] = []
        if result.redelivered:
            quarantined = [single for single in singles if single.is_quarantined]
            singles = [single for single in singles if not single.is_quarantined]
        lane.add((*singles, *quarantined), sent_at)
        for single in (*singles, *quarantined) if lane.variants else ():
            lane.in_flight.renew_by(single, single.renew_at)
        return singles, quarantined

    def _make_single_jobs(
        self, lane: Lane, result: ReceiveResult, sent_at: float
    ) -> list[SingleJob]:
        self._settler.numbers.received += len(result.ids)
        now = result.now_ms
        self._connection.server_ahead = now / 1000 - sent_at
        make_job = _make_variant if lane.variants else single_job_class(lane.listener)
        singles = [
            make_job(lane, id, raw, 1, now, sent_at)
            for id, raw in zip(result.ids, result.raws, strict=True)
        ]
        for place, number in result.max_retries.items():
            singles[place].max_retries = number
        for place, (count, first, unbegun) in result.redelivered.items():
            single = singles[place]
            single.count, single.first_received_ms, single.unbegun = count, first, unbegun
            single.is_quarantined = single.policy.is_suspected_poison(single.attempt)
        for place, names in result.finished.items():
            singles[place].progress.recall(names)  # type: ignore[attr-defined]
        return singles

    def release_unknown_messages(self) -> None:
        """Release messages of receives whose replies were lost."""
        if self._has_unknown_messages:
            self._connection.attempt(self._release_unknown)

    def _release_unknown(self) -> None:
        client, name = self._connection.client, self._connection.name
        stored = client.run_steps(list_in_flight(client.namespace, name))
        in_flight = {
            (lane.name, lease.id, lease.count) for lane in self._lanes for lease in lane.in_flight
        }
        unknown = {
            queue: [(id, count) for id, count in receipts if (queue, id, count) not in in_flight]
            for queue, receipts in stored.items()
        }
        ids = {(queue, id) for queue, receipts in unknown.items() for id, _ in receipts}
        self._lost_ids = self._lost_ids & ids if self._losses.lost_singles() > 1 else ids
        number = self._losses.take_row()
        if number and self._lost_ids:
            self._hide_undeliverable(unknown, number)
        self._settler.numbers.released += release_receipts(
            self._connection, unknown, are_begun=False
        )
        self._has_unknown_messages = False

    def _hide_undeliverable(self, unknown: dict[str, list[tuple[str, int]]], number: int) -> None:
        """Hide the messages that all of the last lost replies had; the others stay in unknown."""
        hidden: dict[str, list[tuple[str, int]]] = {}
        for queue, id in self._lost_ids:
            hidden.setdefault(queue, []).extend(each for each in unknown[queue] if each[0] == id)
            unknown[queue] = [each for each in unknown[queue] if each[0] != id]
        ids = ", ".join(id for receipts in hidden.values() for id, _ in receipts)
        seconds, error = _UNDELIVERABLE_HIDDEN_MS // 1000, ReplyLost(number, tuple(hidden))
        _log.error("message %s is hidden for %d s: %s", ids, seconds, error)
        self._settler.numbers.released += release_receipts(
            self._connection, hidden, are_begun=False, hidden_ms=_UNDELIVERABLE_HIDDEN_MS
        )

    def _read_finished(self, lane: Lane, result: ReceiveResult) -> ReceiveResult:
        """Add to a result which of several handlers have finished in earlier attempts."""
        places = list(result.redelivered)
        ids = [result.ids[place] for place in places]
        try:
            names = self._connection.run(list_finished(lane.keys, ids))
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            _log.error(
                "%s: it can't be read which handlers have finished, so all are called: %s",
                lane.name,
                error,
            )
            return result
        return replace(result, finished=dict(zip(places, names, strict=True)))


def _make_variant(lane: Lane, id: str, raw: bytes, *args: Any) -> SingleJob:
    """Return a call of the handlers for a body, whose lane may want a longer lease."""
    variant = lane.find_variant(raw)
    job = single_job_class(variant.listener)(variant, id, raw, *args)
    if variant.vt > lane.vt:  # it was received with that of the queue
        lane.in_flight.extend(job, job.received_at + lane.vt, job.received_at)
    return job


def _make_batches(
    lane: Lane, singles: list[SingleJob], size: int, sent_at: float
) -> tuple[list[BatchJob], list[BatchJob]]:
    """Return the calls, and those in quarantine. Messages of a group are in one call."""
    batches, quarantined = [], []
    for at in range(0, len(singles), size):
        of_call = singles[at : at + size]
        if fit := [single for single in of_call if not single.is_quarantined]:
            batches.append(BatchJob(lane, fit, sent_at))
        for single in of_call:
            if single.is_quarantined:
                quarantined.append(BatchJob(lane, [single], sent_at))
                quarantined[-1].is_quarantined = True
    for batch in (*batches, *quarantined):
        lane.add(batch.leases, sent_at)
    return batches, quarantined
