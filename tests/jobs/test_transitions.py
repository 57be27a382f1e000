"""
Random calls of tracking workers, of consumers that do not track, and of Node's client on the raw
keys, compared with a short model of what has become of each message.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rsmq import RSMQ
from rsmq.jobs.operations import read_jobs
from rsmq.transport import memory
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    TrackedOutcome,
    dead_letter_messages,
    receive_for_worker,
    settle_messages,
)

_numbers = itertools.count()

WEEK, HOUR, RESULT_TTL = 604_800, 3600, 60
REASON = {"queue": "q", "text": "", "exception": "E: last", "traceback": None}
REASON |= {"worker": "w", "attempts": 1}

#: What a worker does with a message: the action, the event, and the state after it.
OUTCOMES = {
    "succeed": ("delete", "succeed", "succeeded"),
    "drop": ("delete", "fail", "failed"),
    "retry": ("retry", "retry", "retrying"),
    "defer": ("defer", "hide", "waiting"),
    "release": ("release", "hide", "waiting"),
}


@dataclass
class Model:
    """
    A message.

    Attributes:
        state: what has become of it, but for the end of a visibility timeout.
        ttl: the longest time to live of its record, seconds; 0 without a record.
        count: its receive count.
        in_queue: whether it is in the queue.
        is_running: whether a consumer has it, or had it until its visibility timeout ended.
    """

    state: str = "waiting"
    ttl: int = 0
    count: int = 0
    in_queue: bool = True
    is_running: bool = False


class JobMachine(RuleBasedStateMachine):
    """The calls. ``receipts`` has those of the worker, valid ones and those of lost leases."""

    def __init__(self):
        super().__init__()
        self.receipts = []
        self.ns = f"j{next(_numbers)}"
        url = f"memory://{self.ns}"
        self.raw, self.rsmq = memory.client(url), RSMQ.from_url(url, ns=self.ns)
        self.worker = Identity(self.rsmq.namespace, "w", "token")
        self.keys = self.rsmq.namespace.queue("q")
        self.models = {}
        for name in ("q", "dead"):
            self.rsmq.create_queue(name, vt=1000)

    def teardown(self):
        self.rsmq.close()
        self.raw.close()

    @initialize()
    def send_some(self):
        self.send(4, track=True, delay=0)

    @precondition(lambda self: len(self.models) < 15)
    @rule(number=st.integers(1, 4), track=st.booleans(), delay=st.sampled_from([0, 500]))
    def send(self, number, track, delay):
        for id in self.rsmq.send_messages("q", ["x"] * number, track=track, delay=delay):
            self.models[id] = Model(ttl=(WEEK + delay) * track)

    @rule(number=st.integers(1, 3), track=st.sampled_from([True, True, True, False]))
    def receive_for_worker(self, number, track):
        request = ReceiveRequest(self.keys, 900_000, 1, 0, number, is_tracked=track)
        [result] = self.rsmq.run(receive_for_worker(self.worker, [request], number))
        for id in result.ids:
            self.note_receive(id)
            if track:
                self.models[id].ttl = WEEK + 900
            self.receipts.append((id, self.models[id].count))

    @rule()
    def receive_by_another_client(self):
        message = self.rsmq.receive_message("q")
        if message is not None:
            self.note_receive(message.id)

    def note_receive(self, id):
        model = self.models[id]
        model.state, model.is_running = "running", True
        model.count += 1

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), outcome=st.sampled_from([*sorted(OUTCOMES), "dead-letter"]))
    def settle(self, data, outcome):
        receipt = data.draw(st.sampled_from(self.receipts))
        self.receipts.remove(receipt)
        id, count = receipt
        if outcome == "dead-letter":
            self.dead_letter(id, count)
            return
        action, event, state = OUTCOMES[outcome]
        values = {"retry": (id, 500_000, "E: e"), "defer": (id, 500_000, 1), "release": id}
        tracked = TrackedOutcome(event, RESULT_TTL, [b"7" if event == "succeed" else b"E: e"])
        group = Settlement(self.keys, action, count, [values.get(outcome, id)], False, tracked)
        result = self.rsmq.run(settle_messages(self.worker, [group]))
        self.note_outcome(id, count, result, state, hidden=0 if outcome == "release" else 500)

    def dead_letter(self, id, count):
        dead = self.rsmq.namespace.queue("dead")
        operation = dead_letter_messages(
            self.worker, self.keys, dead, [(id, count, REASON)], result_ttl=RESULT_TTL
        )
        self.note_outcome(id, count, self.rsmq.run(operation), "failed", hidden=0)

    def note_outcome(self, id, count, result, state, *, hidden):
        model = self.models[id]
        is_valid = model.in_queue and model.count == count
        assert (result == b"1") == is_valid
        if is_valid:
            model.state, model.is_running = state, False
            model.in_queue = state not in ("succeeded", "failed")
            model.ttl = WEEK + hidden if model.in_queue else RESULT_TTL

    @rule(data=st.data())
    def end_a_visibility_timeout(self, data):
        ids = [id for id, model in self.models.items() if model.in_queue]
        if ids:
            id = data.draw(st.sampled_from(ids))
            self.raw.zadd(f"{self.ns}:q", {id: 1})
            if self.models[id].is_running:
                self.models[id].state = "waiting"
                self.models[id].is_running = False

    @rule(data=st.data(), by_node=st.booleans())
    def delete(self, data, by_node):
        ids = [id for id, model in self.models.items() if model.in_queue]
        if ids:
            id = data.draw(st.sampled_from(ids))
            if by_node:
                self.raw.zrem(f"{self.ns}:q", id)
                self.raw.hdel(f"{self.ns}:q:Q", id, f"{id}:rc", f"{id}:fr")
            else:
                assert self.rsmq.delete_message("q", id)
            self.forget(self.models[id])

    @precondition(lambda self: len(self.models) % 7 == 0)
    @rule()
    def purge(self):
        self.rsmq.purge_queue("q")
        for model in self.models.values():
            if model.in_queue:
                self.forget(model)

    @staticmethod
    def forget(model):
        model.in_queue = False
        model.state = "expired" if model.ttl else None
        model.ttl = min(model.ttl, HOUR)

    @invariant()
    def each_status_is_what_has_become_of_the_message(self):
        records = self.rsmq.run(read_jobs(self.keys, list(self.models)))
        for (id, model), record in zip(self.models.items(), records, strict=True):
            state = None if record is None else record.state.decode()
            assert state == model.state, id
            ttl = self.raw.pttl(f"{self.ns}:q:x:job:{id}") / 1000
            assert max(model.ttl - 60, 0) <= max(ttl, 0) <= model.ttl
            stored = self.raw.hgetall(f"{self.ns}:q:x:job:{id}")
            assert (b"result" in stored) == (state == "succeeded")


@pytest.mark.timeout(120)
def test_random_calls_leave_each_job_in_its_true_state():
    run_state_machine_as_test(
        JobMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
