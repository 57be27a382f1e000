"""
Random runs of a stream beside a producer and another consumer, with crashes at any point.

Checkpoints are set back, a second driver takes over, and SIGTERM ends a driver before its reply. In
every run, each message that was sent is in the sink or in the queue, or was deleted by the other
consumer. No message is in the sink twice, unless the other consumer received it in between. And
Redis has no part of a batch that the process does not know as in flight.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import cycle, pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from pyspark.sql.streaming.datasource import ReadMaxRows

from rsmq.errors import CheckpointSetBack, LeaseTakenOver, NotPossible
from rsmq.spark import source
from rsmq.spark.connection_options import parse_connection_options
from rsmq.spark.connections import get_servers
from rsmq.spark.stream import ownership
from rsmq.spark.stream.batches import BatchEvent
from tests.scale import scaled
from tests.spark.conftest import Crashed, Env, OlderQuery, Query, SeveralEnv, crash_at_call

pytestmark = pytest.mark.slow

QUEUES = st.sampled_from(["a", "b"])


class StreamMachine(RuleBasedStateMachine):
    """The possible events. The test sets ``make``, which creates the namespace and the query."""

    make = None

    def __init__(self):
        super().__init__()
        self.env, self.query = self.make()
        self.sent, self.deleted, self.received_ids = set(), set(), set()
        self.received = []

    def teardown(self):
        self.env.close()

    @rule(queue=QUEUES, number=st.integers(1, 7), delay=st.sampled_from([0, 0, 100]))
    def send(self, queue, number, delay):
        self.sent |= set(self.env.rsmq.send_messages(queue, ["m"] * number, delay=delay))

    @rule(number=st.integers(1, 3))
    def run(self, number):
        for _ in range(number):
            self.query.run()

    @rule()
    def crash(self):
        self.query.restart()

    @rule(polls=st.booleans())
    def stop(self, polls):
        if polls:
            self.query.poll()  # its offset is in the log, and it is not planned
        self.query.crash(is_stopped=True)
        self.query.start()
        if self.query.done < len(self.query.offsets):
            self.query.finish()

    @rule(calls=st.integers(0, 4), answered=st.booleans())
    def crash_while_working_ahead(self, calls, answered):
        with crash_at_call(self.env.server(), calls, answered=answered, thread="rsmq-ahead"):
            self.query.run()
        self.query.restart()

    @rule()
    def crash_before_the_log(self):
        self.query.request_offset()
        self.query.restart()

    @rule()
    def crash_before_the_sink(self):
        self.query.poll()
        self.query.restart()

    @rule()
    def crash_before_the_commit_log(self):
        if self.query.run() is not None:
            self.query.done -= 1
        self.query.restart()

    @rule(calls=st.integers(0, 6), answered=st.booleans())
    def crash_between_calls(self, calls, answered):
        with suppress(Crashed), crash_at_call(self.env.server(), calls, answered=answered):
            self.query.run()
        self.query.restart()

    @rule()
    def sigterm_before_the_reply(self):
        """Another driver may have replied with a batch that this one has found."""
        is_new, earlier = self.query.reader.consumer is None, self.find_in_flight()
        end = self.query.request_offset()
        if end is not None:
            self.query.reader.consumer.batches.change(end["batch"], BatchEvent.WITHDRAW)
        self.query.crash(is_stopped=True)
        if end is not None and type(self.query) is Query:
            is_found = self.query.reader.consumer.batches.get(end["batch"]).is_earlier
            batch = f"{end['lease']}:{end['batch']}".encode()
            assert not is_new or is_found == (batch in earlier)
            assert (batch in self.find_in_flight()) == is_found
        self.query.start()

    def find_in_flight(self):
        """Return the batches of all leases that Redis has, as it stores them."""
        servers = get_servers(parse_connection_options(self.env.options()))
        keys = [each.namespace.queue(name).leases for each in servers for name in ("a", "b")]
        fields = {field for key in keys for field in self.env.raw.hkeys(key)}
        return {field for field in fields if field.count(b":") == 1}

    @rule(batches=st.integers(1, 2))
    def the_checkpoint_is_set_back(self, batches):
        """The operator puts the last checkpoint back, if this one is refused."""
        query = self.query
        logs, rows = (list(query.offsets), query.done), dict(query.sink)
        if len(query.offsets) <= batches:
            return
        query.crash()
        del query.offsets[-batches:]
        query.done = len(query.offsets)
        query.start()
        try:
            query.run()
        except (CheckpointSetBack, NotPossible):
            query.offsets, query.done = logs
        query.sink.update(rows)  # it skips batches that it has
        query.restart()

    @rule()
    def a_second_driver_takes_over(self):
        """The first one is suspended, and continues while the second one runs."""
        query, suspended = self.query, self.query.reader
        lease, logs = suspended.consumer, list(query.offsets)
        if lease is None or not logs:
            return
        lease.heartbeat.stopped.set()
        lease.heartbeat.join()
        lease.heartbeat.stopped.clear()
        lease.background.finish()
        query.start()
        if query.done < len(query.offsets):
            query.finish()
        query.poll()
        with suppress(LeaseTakenOver, CheckpointSetBack):
            query.latest_offset(suspended, logs[-1])
        suspended.stop()
        query.restart()  # it has lost its lease, if it was slower than the short timeout

    @rule(queue=QUEUES, number=st.integers(1, 4), vt=st.sampled_from([0, 200]))
    def another_consumer_receives(self, queue, number, vt):
        messages = self.env.rsmq.receive_messages(queue, number, vt=vt)
        self.received_ids |= {message.id for message in messages}
        self.received += messages

    @rule()
    def another_consumer_deletes(self):
        if self.received:
            self.deleted |= set(self.env.rsmq.delete_messages(self.received[:2]))
            del self.received[:2]

    @rule(queue=QUEUES, seconds=st.sampled_from([50, 150, 1000]))
    def time_passes(self, queue, seconds):
        self.env.elapse(seconds, queue)

    @invariant()
    def nothing_is_lost(self):
        queued = {*self.env.scores("a"), *self.env.scores("b")}
        assert self.sent <= {*self.query.ids(), *queued, *self.deleted}

    @invariant()
    def nothing_is_doubled(self):
        ids = self.query.ids()
        assert {id for id in ids if ids.count(id) > 1} <= self.received_ids
        assert set(ids) <= self.sent

    @invariant()
    def redis_has_no_part_beside_those_in_flight(self):
        lease = self.query.reader.consumer
        if lease is None:
            return
        lease.background.finish()
        tracked = {(*part[:2], str(part[2]).encode()) for part in lease.batches.list_parts()}
        for number, queue in {part[:2] for part in tracked}:
            prefix = f"{lease.name}:{number}:".encode()
            fields = self.env.raw.hkeys(queue.keys.leases)
            stored = {each.removeprefix(prefix) for each in fields if each.startswith(prefix)}
            assert {(number, queue, part) for part in stored} <= tracked

    @invariant()
    def each_batch_of_spark_has_a_number(self):
        """So a checkpoint that lacks one of them is recognised."""
        numbers = [offset["batch"] for offset in self.query.offsets]
        assert all(later == number + 1 for number, later in pairwise(numbers))

    @invariant()
    def each_batch_is_within_the_limit(self):
        assert all(len(rows) <= 5 for rows in self.query.sink.values())


class TwoNamespaces(SeveralEnv):
    """Two namespaces, whose messages and scores are those of both."""

    def __init__(self, server):
        super().__init__(server)
        self._client = self.rsmq
        self.rsmq = self
        self._turn = cycle(self.clients)

    def create_queue(self, name):
        for client in self.clients:
            client.create_queue(name)

    def send_messages(self, queue, bodies, *, delay):
        """Send them to the namespaces in turn."""
        return [
            id
            for body in bodies
            for id in next(self._turn).send_messages(queue, [body], delay=delay)
        ]

    def receive_messages(self, queue, number, *, vt):
        return next(self._turn).receive_messages(queue, number, vt=vt)

    def delete_messages(self, messages):
        return [id for client in self.clients for id in client.delete_messages(messages)]

    def scores(self, queue="q"):
        return {
            id.decode(): score
            for name in self.names
            for id, score in self.raw.zrange(f"{name}:{queue}", 0, -1, withscores=True)
        }

    def elapse(self, seconds, queue="q"):
        for name in self.names:
            for id, score in self.raw.zrange(f"{name}:{queue}", 0, -1, withscores=True):
                self.raw.zadd(f"{name}:{queue}", {id: score - seconds * 1000})

    def server(self):
        """Return the connections to the second namespace, where calls crash."""
        return self.servers()[1]

    def close(self):
        self.rsmq = self._client
        super().close()


@pytest.mark.parametrize(
    ("kind", "group", "make_env"),
    [
        (Query, {}, Env),
        (Query, {"consumerGroup": "nightly"}, Env),
        (Query, {}, TwoNamespaces),
        (Query, {"consumerGroup": "nightly"}, TwoNamespaces),
        (OlderQuery, {"consumerGroup": "nightly"}, Env),
        (OlderQuery, {"consumerGroup": "nightly"}, TwoNamespaces),
    ],
)
def test_no_message_is_lost_or_duplicated_in_random_runs(
    server, monkeypatch, kind, group, make_env
):
    monkeypatch.setattr(source, "HAS_START", kind is Query)
    # A fifteenth of it must be longer than the millisecond to which Redis rounds times.
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.03)

    def make(machine):
        env = make_env(server)
        for name in ("a", "b"):
            env.rsmq.create_queue(name)
        options = {"subscribe": "a,b", "queue": "", "visibilityTimeout": 100, **group}
        limit = {"maxMessagesPerTrigger": 5} if kind is OlderQuery else {"limit": ReadMaxRows(5)}
        return env, env.query(kind=kind, idleWait=0.01, **limit, **options)

    run_state_machine_as_test(
        type("Machine", (StreamMachine,), {"make": make}),
        settings=settings(
            max_examples=scaled(20, 1000),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
