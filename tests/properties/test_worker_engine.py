"""
The worker's engine without its threads, in random orders of calls, losses, kills and lost replies.

The test plays the threads: it begins and ends handler calls. Redis and the loop's parts are real.
Rules have no preconditions: times and ids differ from run to run, and with them the states.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from functools import partial

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

from rsmq import RSMQ, TEXT
from rsmq.schedules.scheduler import SchedulerThread
from rsmq.worker import Discard, Middleware, Retry
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.listener import Handlers, make_listener
from rsmq.worker.loop.worker_loop import LoopSettings, WorkerLoop
from rsmq.worker.middleware import Hooks
from rsmq.worker.operations import register_worker
from rsmq.worker.settle.release import release_predecessor
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import CallState, MessageState
from tests.scale import scaled

_numbers = itertools.count()

MAX_RETRIES = 1
VT = 600.0
SLOTS = 3
INDEX = st.integers(0, 10)
ERROR = st.sampled_from([None, None, ValueError("e"), Retry(after=0), Discard("d")])


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
        self.ns = f"e{next(_numbers)}"
        self.rsmq, self.other = self.open_client(), self.open_client()
        self.raw = self.server.raw()
        self.fault = None
        self.sent = set()
        self.handled = set()
        self.begun = Counter()
        self.loop = None
        self.running = []
        self.record = Record()
        self.rsmq.run = partial(self._run_with_fault, self.rsmq.run)

    def open_client(self):
        return RSMQ.from_url(self.server.url, ns=self.ns)

    def teardown(self):
        if self.loop is not None:
            self.loop._prefetcher.stop_waiting()
        self.rsmq.close()
        self.other.close()
        keys = self.raw.keys(f"{self.ns}:*")
        if keys:
            self.raw.delete(*keys)
        self.raw.close()

    def _run_with_fault(self, run, operation):
        fault, self.fault = self.fault, None
        if fault == "before":
            raise RedisConnectionError("not sent")
        result = run(operation)
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
        fault, self.fault = self.fault, None  # a start repeats its calls by itself
        connection = WorkerConnection(self.rsmq, "w", f"t{next(_numbers)}")
        dead = self.identity.token if self.loop is not None else ""
        self.identity = connection.identity
        registering = register_worker(self.identity, {}, ttl=10, dead=dead)
        before = self.rsmq.run(registering)
        assert before is None or (before.remaining_ms, before.token) == (0, dead)
        handlers = Handlers()
        handlers.add("", lambda body: None)
        options = {"vt": VT, "max_retries": MAX_RETRIES, "dead_letter_queue": "dead"}
        listener = make_listener("q", handlers, backoff=0, **options)
        keys = self.rsmq.namespace.queue("q")
        self.lane = Lane(listener, keys, VT, TEXT, SLOTS, listener.policy)
        self.lane.slow_seconds = self.lane.mean_seconds = 0.02  # so that some are prefetched
        connection.is_registered = True
        left = release_predecessor(connection)
        self.loop = WorkerLoop(
            connection, [self.lane], Hooks([self.record]), self,
            LoopSettings(slots=SLOTS, facts={}, grace=1, registered_at=time.monotonic() + 3600),
            scheduler=SchedulerThread(self.rsmq),
        )  # fmt: skip
        self.fault = fault
        self.loop._executors = {False: NoThreads(), True: NoThreads()}
        self.loop._next_heartbeat_at = time.monotonic() + 3600
        if left:
            self.loop.limit_prefetch()

    def chosen(self, index):
        return self.running[index % len(self.running)]

    def look(self):
        """Let the queue be asked for messages, whether wake-ups have come or not."""
        self.loop._prefetcher.stop_waiting()

    # The queue, and other consumers.

    @rule(number=st.integers(1, 5))
    def send(self, number):
        self.sent |= set(self.other.send_messages("q", ["x"] * number))

    @rule()
    def time_passes_for_hidden_messages(self):
        """Retries become due; and so do messages whose visibility timeouts were not extended."""
        zset = self.lane.keys.zset
        for id in self.raw.zrange(zset, 0, -1):
            self.raw.zadd(zset, {id: 1}, xx=True)

    @rule(index=INDEX, deletes=st.booleans())
    def another_consumer_receives(self, index, deletes):
        found = list(self.lane.in_flight)
        if not found:
            return
        lease = found[index % len(found)]
        self.raw.zadd(self.lane.keys.zset, {lease.id: 0}, xx=True)
        message = self.other.receive_message("q", vt=0)
        if message is not None and deletes:
            self.other.delete_message(message)
            self.sent.discard(message.id)

    # The worker.

    @rule()
    def step(self):
        self.look()
        self.loop._collect_finished_jobs()
        self.loop._connection.retry_now()
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

    @rule(number=st.integers(1, 5), index=INDEX, error=ERROR)
    def messages_are_handled(self, number, index, error):
        """Without this rule, few handlers would end before their worker does."""
        self.send(number)
        self.step()
        for _ in range(SLOTS):
            self.begin()
        self.end(index, error)
        self.end(index, None)

    @rule(index=INDEX, error=ERROR)
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
        if error is not None:
            job.fail(error)
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
        found = list(self.lane.in_flight)
        if not found:
            return
        found[index % len(found)].renew_at = self.lane.in_flight.renew_at = 0.0

    @rule()
    def first_ready_message_has_waited_too_long(self):
        if not self.lane.ready:
            return
        job = self.lane.ready[0]
        job.received_at = job.renew_at = 0.0
        self.lane.in_flight.renew_at = 0.0

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
            for id in self.raw.zrange(f"{self.ns}:{name}", 0, -1)
        }
        assert self.sent - stored <= self.handled

    @invariant()
    def nothing_is_in_flight_that_the_worker_does_not_know(self):
        if self.loop is None or self.loop._prefetcher._has_unknown_messages:
            return
        stored = self.raw.hgetall(self.identity.in_flight_key)
        receipts = {(lease.id, lease.count) for lease in self.lane.in_flight}
        outcomes = self.loop._settler._pending
        for pending in (outcomes.settlements, outcomes.dead_letters):
            for items in pending.by_kind.values():
                leases = [getattr(item, "lease", item) for item in items]
                receipts |= {(lease.id, lease.count) for lease in leases}
        for id, value in stored.items():
            if id:
                assert (id.decode(), int(value.split(b":")[0])) in receipts


def test_engine_in_random_orders(server):
    machine = type("Machine", (EngineMachine,), {"server": server})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=scaled(40, 3000),
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
