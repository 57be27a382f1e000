"""
Random runs of a stream beside a producer and another consumer, with crashes at any point.

In every run, each message that was sent is in the sink or in the queue, or was deleted by the other
consumer. No message is in the sink twice, unless the other consumer received it in between.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from pyspark.sql.streaming.datasource import ReadMaxRows

from rsmq.spark import source
from rsmq.spark.stream import lease_holder
from tests.scale import scaled
from tests.spark.conftest import Crashed, Env, OlderQuery, Query, crash_at_call

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

    @rule()
    def stop(self):
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
    def each_batch_is_within_the_limit(self):
        assert all(len(rows) <= 5 for rows in self.query.sink.values())


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        (Query, {}),
        (Query, {"consumerGroup": "nightly"}),
        (OlderQuery, {"consumerGroup": "nightly"}),
    ],
)
def test_no_message_is_lost_or_duplicated_in_random_runs(server, monkeypatch, kind, group):
    monkeypatch.setattr(source, "HAS_START", kind is Query)
    # A fifteenth of it must be longer than the millisecond to which Redis rounds times.
    monkeypatch.setattr(lease_holder, "HOLDER_TIMEOUT_SECONDS", 0.03)

    def make(machine):
        env = Env(server)
        for name in ("a", "b"):
            env.rsmq.create_queue(name)
        options = {"subscribe": "a,b", "queue": "", "visibilityTimeout": 100, **group}
        limit = {"maxMessagesPerTrigger": 5} if kind is OlderQuery else {"limit": ReadMaxRows(5)}
        return env, env.query(kind=kind, idleWait=0.01, **limit, **options)

    run_state_machine_as_test(
        type("Machine", (StreamMachine,), {"make": make}),
        settings=settings(
            max_examples=scaled(25, 1000),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
