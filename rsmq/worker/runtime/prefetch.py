"""
Receiving: asks the queues for messages, and makes handler calls of them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from redis.exceptions import RedisError

from rsmq.client import RSMQ
from rsmq.operations.worker import Identity, Taken, held_messages, take_messages
from rsmq.transport.retry import is_limited_to_keys
from rsmq.waiting.schedule import Waiter
from rsmq.worker.middleware import Hooks
from rsmq.worker.runtime.message_state import Batch, Job, Lane, Single
from rsmq.worker.runtime.prefetch_plan import Asked, wants
from rsmq.worker.runtime.run_queue import RunQueue
from rsmq.worker.runtime.settle import Settler, give_back

_log = logging.getLogger("rsmq.worker")


class Prefetcher:
    """
    Takes messages as there is room for them, and is told when there are some.

    Attributes:
        astray: whether messages may have been received that nobody here knows of.
    """

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        rsmq: RSMQ,
        identity: Identity,
        lanes: Sequence[Lane],
        slots: int,
        run_queue: RunQueue,
        settler: Settler,
        hooks: Hooks,
        ring: Callable[[], object],
    ) -> None:
        """
        Make it.

        Args:
            rsmq: the client.
            identity: the worker's.
            lanes: its listeners.
            slots: calls at once at most.
            run_queue: where the calls are.
            settler: where messages end.
            hooks: its middleware.
            ring: called when there may be something to be taken, by another thread.
        """
        self.astray = False
        self._rsmq = rsmq
        self._identity = identity
        self._lanes = lanes
        self._slots = slots
        self._run_queue = run_queue
        self._settler = settler
        self._hooks = hooks
        self._ring = ring

    def take(self, now: float) -> tuple[list[Job], list[Job]]:
        """
        Receive what there is room for.

        Args:
            now: monotonic seconds.

        Returns:
            Calls to be made, and those that are to be made alone.
        """
        asked, slots = self.wanted(now)
        if not asked:
            return [], []
        self._hooks.call("before_receive", [each.lane.name for each in asked])
        sent = time.monotonic()
        operation = take_messages(self._identity, [each.want for each in asked], slots)
        try:
            taken = self._rsmq.run(operation)
        except (RedisError, OSError) as error:
            if not is_limited_to_keys(error):
                self.astray = True
                raise
            return self._find_what_is_broken(asked, slots, error)
        return self._sort_in(asked, taken, sent)

    def _find_what_is_broken(
        self, asked: list[Asked], slots: int, error: BaseException
    ) -> tuple[list[Job], list[Job]]:
        """Something is wrong with a queue: those that are well go on."""
        jobs: list[Job] = []
        alone: list[Job] = []
        for each in asked:
            if len(asked) > 1:
                operation = take_messages(self._identity, [each.want], slots)
                sent = time.monotonic()
                try:
                    (taken,) = self._rsmq.run(operation)
                except (RedisError, OSError) as its_own:
                    if not is_limited_to_keys(its_own):
                        self.astray = True
                        break  # what was received is handled; the next call will say what is wrong
                    error = its_own
                else:
                    some, some_alone = self._sort_in([each], [taken], sent)
                    jobs += some
                    alone += some_alone
                    slots = max(slots - math.ceil(len(taken.ids) / each.want.size), 0)
                    continue
            self._wait_no_more(each.lane)
            each.lane.closed = "b"
            _log.error("queue %s can't be received from: %s", each.lane.name, error)
        return jobs, alone

    def _sort_in(
        self, asked: list[Asked], taken: list[Taken], sent: float
    ) -> tuple[list[Job], list[Job]]:
        """What came of the queues, and their messages, which are handled next."""
        jobs: list[Job] = []
        alone: list[Job] = []
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
                received, received_alone = self._received(lane, each, sent)
                if of.starved:
                    for job in received:
                        job.urgent = True
                jobs += received
                alone += received_alone
            self._wait_for_more(lane, drained=each.state == ".", found=bool(each.ids))
        return jobs, alone

    def _worth_asking(self) -> list[Lane]:
        """
        The lanes in whose queues there may be something, and all of a higher priority.

        In those it may have come just now: what is due there goes first.
        """
        lanes = [lane for lane in self._lanes if not lane.closed]
        lowest = min((lane.listener.priority for lane in lanes if not lane.waits), default=math.inf)
        return [lane for lane in lanes if not lane.waits or lane.listener.priority > lowest]

    def wanted(self, now: float) -> tuple[list[Asked], int]:
        """What would be asked of the queues now, and how many slots there are for it."""
        lanes = self._worth_asking()
        if not lanes:
            return [], 0
        with self._run_queue.lock:
            if self._run_queue.shut:
                return [], 0
            free = self._slots - self._run_queue.running
            ready = self._run_queue.ready_by_priority()
        asked, slots = wants(lanes, free, ready, now)
        if all(each.lane.waits for each in asked):  # those are asked only along with others
            return [], 0
        return asked, slots

    def _close(self, lane: Lane, state: str) -> None:
        lane.closed = state
        if state == "m" and not lane.missed:
            lane.missed = True
            _log.warning("there is no queue %s; its listener waits for it", lane.name)

    def _wait_for_more(self, lane: Lane, *, drained: bool, found: bool) -> None:
        """If no more is due now, be told when there is; one who was told says what came of it."""
        waiter = lane.waiter
        if waiter is not None and waiter.is_awake:
            if found:
                self._rsmq.watcher.note_receive(waiter)
                waiter.empty_receives = 0
            else:
                waiter.empty_receives += 1
        if not drained:
            self._wait_no_more(lane)
            return
        if waiter is None:
            waiter = lane.waiter = Waiter((lane.keys.zset,), partial(self._woken, lane))
        self._rsmq.watcher.add(waiter)

    def _woken(self, lane: Lane) -> None:
        """There may be something in a queue; told by the watcher's thread."""
        lane.asked_at = time.monotonic()  # until now there was nothing to be asked for
        self._ring()

    def wait_no_more(self) -> None:
        """Be told of messages no more."""
        for lane in self._lanes:
            self._wait_no_more(lane)

    def _wait_no_more(self, lane: Lane) -> None:
        waiter, lane.waiter = lane.waiter, None
        if waiter is not None:
            self._rsmq.watcher.remove(waiter)

    def _received(
        self, lane: Lane, taken: Taken, sent: float
    ) -> tuple[Sequence[Job], Sequence[Job]]:
        """Calls for messages that were received, and those that are made alone."""
        held = lane.held
        if held:
            for id in taken.ids:
                if id in held:
                    self._settler.lose(lane, held[id], "it was received once more")
        singles = self._singles(lane, taken, sent)
        if self._hooks["after_receive"]:
            messages = [single.message(lane.name, lane.codec) for single in singles]
            self._hooks.call("after_receive", lane.name, messages)
        alone: list[Single] = []
        if taken.again:
            alone = [single for single in singles if single.alone]
            singles = [single for single in singles if not single.alone]
        size = lane.listener.batch
        if size is not None:
            return _batches(lane, singles, size, sent), _batches(lane, alone, 1, sent)
        for single in (*singles, *alone):
            held[single.id] = single
        return singles, alone

    def _singles(self, lane: Lane, taken: Taken, sent: float) -> list[Single]:
        lane.renew_at = min(lane.renew_at, sent + lane.vt / 3)
        self._settler.numbers.received += len(taken.ids)
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

    def release_unknown_messages(self) -> None:
        """Release what a take received whose reply was lost."""
        held = self._rsmq.run_steps(held_messages(self._rsmq.namespace, self._identity.name))
        known = {lane.name: lane.held for lane in self._lanes}
        strays = {
            queue: [
                (id, count)
                for id, count in receipts
                if id not in known.get(queue, {}) or known[queue][id].count != count
            ]
            for queue, receipts in held.items()
        }
        self._settler.numbers.released += give_back(self._rsmq, self._identity, strays)
        self.astray = False


def _batches(lane: Lane, singles: list[Single], size: int, sent: float) -> list[Batch]:
    batches = []
    for at in range(0, len(singles), size):
        batch = Batch(lane, singles[at : at + size], sent)
        batch.alone = singles[at].alone
        for lease in batch.leases:
            lane.held[lease.id] = lease
        batches.append(batch)
    return batches
