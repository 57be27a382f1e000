"""
The worker's engine without its threads, in random orders of calls, losses, kills and lost replies.

The test plays the threads: it begins and ends handler calls. Redis and the loop's parts are real.
Rules have no preconditions: times and ids differ from run to run, and with them the states.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from rsmq import RSMQ
from rsmq.operations.worker import list_in_flight, register_worker
from rsmq.worker import Discard, Middleware, Retry
from rsmq.worker.listener import Handlers, Options, make_listener
from rsmq.worker.middleware import Hooks
from rsmq.worker.runtime.cell_access import CellAccess
from rsmq.worker.runtime.lane import Lane
from rsmq.worker.runtime.loop import WorkerLoop
from rsmq.worker.runtime.message_state import (
    CallState,
    MessageState,
)
from rsmq.worker.runtime.namespaces import OneNamespace
from rsmq.worker.runtime.release import release_receipts
from tests.scale import scaled

_numbers = itertools.count()

MAX_RETRIES = 1
VT = 600.0
SLOTS = 3
INDEX = st.integers(0, 10)


class Record(Middleware):
    """Records how each received message was settled, and when its lease was lost."""

    def __init__(self):
        self.settled = []  # (lease, how)
        self.lost = []
        self.failures = []

    def _settle(self, message, how):
        lease = message._lease
        if any(each is lease for each, _ in self.settled):
            self.failures.append(f"{message.id} was settled twice: {how}")
        if any(each is lease for each in self.lost):
            self.failures.append(f"{message.id} was settled after its lease was lost: {how}")
        self.settled.append((lease, how))

    def after_delete(self, messages):
        for message in messages:
            self._settle(message, "deleted")

    def after_retry(self, message, after, error):
        self._settle(message, "retried")

    def after_dead_letter(self, message, queue, reason, error):
        self._settle(message, "dead")

    def lease_lost(self, message, reason):
        if message._lease.state is MessageState.LOST:
            self.lost.append(message._lease)


class NoThreads:
    """An executor that starts nothing: the test does."""

    hung_count = 0

    def wake(self, minimum):
        pass

    def replace_hung(self):
        pass

    def stop(self):
        pass


class EngineMachine(RuleBasedStateMachine):
    """The engine. The test supplies ``server``."""

    server = None

    def __init__(self):
        super().__init__()
        self.rsmq = RSMQ.from_url(self.server.url, ns=f"e{next(_numbers)}")
        self.other = RSMQ.from_url(self.server.url, ns=self.rsmq.namespace.name)
        self.raw = self.server.raw()
        self.fault = None
        self.sent = set()
        self.handled = set()
        self.begun = Counter()
        self.loop = None
        self.running = []
        self.record = Record()
        self._run = self.rsmq.run
        self.rsmq.run = self._run_with_fault

    def teardown(self):
        if self.loop is not None:
            self.loop._prefetcher.stop_waiting()
        self.rsmq.close()
        self.other.close()
        keys = self.raw.keys(f"{self.rsmq.namespace.name}:*")
        if keys:
            self.raw.delete(*keys)
        self.raw.close()

    def _run_with_fault(self, operation):
        fault, self.fault = self.fault, None
        if fault == "before":
            raise RedisConnectionError("not sent")
        result = self._run(operation)
        if fault == "after":
            raise RedisConnectionError("the reply is lost")
        return result

    @initialize()
    def begin_world(self):
        for name in ("q", "dead"):
            self.rsmq.create_queue(name)
        self.start()

    def start(self):
        """Start a worker; a predecessor of the name is dead, or has ended."""
        self.running = []
        access = CellAccess(OneNamespace(self.rsmq), "w", f"t{next(_numbers)}")
        self.cell, identity = access.home, access.home.identity
        dead = self.identity.token if self.loop is not None else ""
        assert self._run(register_worker(identity, {}, ttl=10, dead=dead)) is None
        self.identity = identity
        left = self.rsmq.run_steps(list_in_flight(self.rsmq.namespace, "w"))
        release_receipts(self.cell, left, are_begun=True)
        handlers = Handlers()
        handlers.add("", lambda body: None)
        options = Options(vt=VT, max_retries=MAX_RETRIES, backoff=0, dead_letter_queue="dead")
        listener = make_listener("q", handlers, options)
        self.lane = Lane(listener, VT, self.rsmq.codec, SLOTS, listener.policy)
        self.queue = self.lane.add_queue(self.cell)
        self.lane.slow_seconds = self.lane.mean_seconds = 0.02  # so that some are prefetched
        self.loop = WorkerLoop(
            access, None, [self.lane], Hooks([self.record]), SLOTS, {}, self,
            grace=1, registered_at=time.monotonic() + 3600,
        )  # fmt: skip
        self.loop._executors = {False: NoThreads(), True: NoThreads()}
        self.loop._next_heartbeat_at = time.monotonic() + 3600
        if left:
            self.loop.limit_prefetch()

    def chosen(self, index):
        return self.running[index % len(self.running)]

    def make_visible(self, ids):
        for id in ids:
            self.raw.zadd(self.queue.keys.zset, {id: 1}, xx=True)

    # The queue, and other consumers.

    @rule(number=st.integers(1, 5))
    def send(self, number):
        self.sent |= set(self.other.send_messages("q", ["x"] * number))

    @rule()
    def time_passes_for_hidden_messages(self):
        """Retries become due; and so do messages whose visibility timeouts were not extended."""
        self.make_visible(self.raw.zrange(self.queue.keys.zset, 0, -1))

    @rule(index=INDEX, deletes=st.booleans())
    def another_consumer_receives(self, index, deletes):
        if not self.queue.in_flight:
            return
        ids = list(self.queue.in_flight)
        self.raw.zadd(self.queue.keys.zset, {ids[index % len(ids)]: 0}, xx=True)
        message = self.other.receive_message("q", vt=0)
        if message is not None and deletes:
            self.other.delete_message(message)
            self.sent.discard(message.id)

    # The worker.

    @rule()
    def step(self):
        self.loop._prefetcher.stop_waiting()  # ask for messages, whether a wake-up has come or not
        self.loop._collect_finished_jobs()
        self.loop._access.retry_now()
        self.loop._access_redis(time.monotonic())

    @rule(fault=st.sampled_from(["before", "after"]))
    def step_with_fault(self, fault):
        self.fault = fault
        self.step()
        self.fault = None

    @rule()
    def begin(self):
        with self.loop.run_queue.lock:
            job = self.loop.run_queue.start_next(False)
        if job is not None:
            self.running.append(job)
            for lease in job.leases:
                self.begun[lease.id] += lease.state is MessageState.RUNNING

    @rule(
        index=INDEX,
        error=st.sampled_from([None, None, ValueError("e"), Retry(after=0), Discard("d")]),
    )
    def end(self, index, error):
        """A handler ends, perhaps long after the worker has stopped waiting for it."""
        if not self.running:
            return
        job = self.chosen(index)
        self.running.remove(job)
        if job.leases[0].state is MessageState.RUNNING and not isinstance(
            error, ValueError | Retry
        ):
            self.handled.add(job.leases[0].id)
        job.error = error
        job.ended_at = time.monotonic()
        self.loop.report_finished(job)
        with self.loop.run_queue.lock:
            if job.call_state is not CallState.ABANDONED:
                self.loop.run_queue.finish(job)

    @rule(index=INDEX)
    def visibility_timeout_ends(self, index):
        if not self.running:
            return
        (lease,) = self.chosen(index).leases
        lease.expires_at = 0.0
        was_over = lease.is_over
        assert lease.is_over or not was_over

    @rule(index=INDEX)
    def lease_is_to_be_extended(self, index):
        if not self.queue.in_flight:
            return
        lease = list(self.queue.in_flight.values())[index % len(self.queue.in_flight)]
        lease.renew_at = self.queue.renew_at = self.lane.renew_at = 0.0

    @rule()
    def first_ready_message_has_waited_too_long(self):
        if not self.lane.ready:
            return
        job = self.lane.ready[0]
        job.received_at = job.renew_at = 0.0
        self.queue.renew_at = self.lane.renew_at = 0.0

    @rule()
    def first_ready_message_expires(self):
        if not self.lane.ready:
            return
        self.lane.ready[0].expires_at = 0.0

    @rule()
    def call_hangs(self):
        if not self.lane.calls:
            return
        job = next(iter(self.lane.calls))
        job.started_at -= 7200
        self.loop._heartbeat.abandon_hung_calls(
            self.loop._executors, time.monotonic(), limit=1_000_000
        )

    # Ends of the worker.

    @rule()
    def killed(self):
        self.loop._prefetcher.stop_waiting()
        self.start()

    @rule()
    def stopped(self):
        """A graceful shutdown. Runs that it cuts off are not counted."""
        for job in self.running:
            for lease in job.leases:
                self.begun[lease.id] -= lease.state is MessageState.RUNNING
        self.loop.is_stopping = True
        self.loop._release_waiting()
        self.loop._shut_down()
        assert not self.loop._settler
        self.loop._prefetcher.stop_waiting()
        self.start()

    @rule(end=st.sampled_from(["killed", "killed", "stopped"]))
    def ends_while_handlers_run(self, end):
        """Without this rule, few messages would be begun more than twice."""
        self.time_passes_for_hidden_messages()
        for _ in range(SLOTS):
            self.step()
            self.begin()
        getattr(self, end)()

    # Invariants.

    @invariant()
    def messages_are_settled_once_and_never_after_a_lost_lease(self):
        assert self.record.failures == []

    @invariant()
    def a_message_is_begun_at_most_max_retries_and_5_times(self):
        assert all(number <= MAX_RETRIES + 5 for number in self.begun.values()), self.begun

    @invariant()
    def no_message_is_lost(self):
        stored = {
            id.decode()
            for name in ("q", "dead")
            for id in self.raw.zrange(f"{self.rsmq.namespace.name}:{name}", 0, -1)
        }
        assert self.sent - stored <= self.handled

    @invariant()
    def nothing_is_in_flight_that_the_worker_does_not_know(self):
        if self.loop is None or self.cell.has_unknown_messages:
            return
        stored = self.raw.hgetall(self.identity.in_flight_key)
        receipts = {(lease.id, lease.count) for lease in self.queue.in_flight.values()}
        of_cell = self.loop._settler._by_cell.get(self.cell)
        for writes in () if of_cell is None else (of_cell.settlements, of_cell.dead_letters):
            for items in writes._items.values():
                leases = [getattr(item, "lease", item) for item in items]
                receipts |= {(lease.id, lease.count) for lease in leases}
        for id, value in stored.items():
            if id:
                assert (id.decode(), int(value.split(b":")[0])) in receipts


@pytest.mark.timeout(scaled(120, 7200))
def test_engine_in_random_orders(server):
    machine = type("Machine", (EngineMachine,), {"server": server})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=scaled(100, 3000),
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
