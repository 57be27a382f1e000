"""
Random calls of tracking workers, of consumers that do not track, and of Node's client on the raw
keys, compared with a short model of what has become of each message.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

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
from rsmq.jobs import ReportedProgress
from rsmq.jobs.operations import cancel_job, read_jobs
from rsmq.jobs.status import return_unchanged
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
from tests.scale import scaled

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


def stored_progress(done):
    return b"" if done is None else f"{done} 10 some\ntext".encode()


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
        hidden: for how many seconds its last receive has hidden it.
        is_asked: whether it is to be cancelled.
        progress: what its record has.
    """

    state: str = "waiting"
    ttl: int = 0
    count: int = 0
    in_queue: bool = True
    is_running: bool = False
    hidden: int = 0
    is_asked: bool = False
    progress: ReportedProgress | None = None

    def end(self, state, ttl):
        self.state, self.ttl, self.is_running, self.is_asked = state, ttl, False, False
        self.in_queue = False


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
        if track:
            self.note_cancelled_by_receive()
        for id in result.ids:
            self.note_receive(id, 900)
            model = self.models[id]
            if track:
                assert not model.is_asked
                model.ttl, model.progress = WEEK + 900, None
            self.receipts.append((id, model.count))

    def note_cancelled_by_receive(self):
        for id, model in self.models.items():
            if model.is_asked and self.raw.zscore(f"{self.ns}:q", id) is None:
                assert model.state == "waiting"
                model.end("cancelled", HOUR)

    @rule()
    def receive_by_another_client(self):
        message = self.rsmq.receive_message("q")
        if message is not None:
            self.note_receive(message.id, 1000)

    def note_receive(self, id, hidden):
        model = self.models[id]
        model.state, model.is_running, model.hidden = "running", True, hidden
        model.count += 1

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def cancel(self, data):
        id = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[id]
        result = self.rsmq.run(cancel_job(self.keys, id))
        if not model.in_queue:
            ended = "cancelled" if model.state == "cancelled" else "ended"
            assert result == (ended if model.state else None)
        elif model.state == "running":
            assert result == "requested"
            if not model.is_asked:
                model.is_asked, model.ttl = True, WEEK + model.hidden
        else:
            assert result == "cancelled"
            model.end("cancelled", HOUR)
            assert self.raw.zscore(f"{self.ns}:q", id) is None
            assert not self.raw.hexists(f"{self.ns}:q:Q", id)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), done=st.sampled_from([None, 3, 2.5]))
    def extend(self, data, done):
        id, count = data.draw(st.sampled_from(self.receipts))
        tracked = TrackedOutcome("progress", RESULT_TTL, [b""], [stored_progress(done)])
        group = Settlement(self.keys, "extend", count, [(id, 900_000)], False, tracked)
        result = self.rsmq.run(settle_messages(self.worker, [group]))
        model = self.models[id]
        if not (model.in_queue and model.count == count):
            assert result in (b"0", b"2")
            return
        assert result == (b"3" if model.is_asked else b"1")
        model.hidden = 900
        if not model.is_running:  # its visibility timeout had ended
            model.state, model.is_running = "running", True
        if done is not None and model.ttl:
            model.progress, model.ttl = ReportedProgress(done, 10, "some\ntext"), WEEK

    @precondition(lambda self: self.receipts)
    @rule(
        data=st.data(),
        outcome=st.sampled_from([*sorted(OUTCOMES), "dead-letter"]),
        done=st.sampled_from([None, 7]),
    )
    def settle(self, data, outcome, done):
        receipt = data.draw(st.sampled_from(self.receipts))
        self.receipts.remove(receipt)
        id, count = receipt
        if outcome == "dead-letter":
            self.dead_letter(id, count, done)
            return
        action, event, state = OUTCOMES[outcome]
        values = {"retry": (id, 500_000, "E: e"), "defer": (id, 500_000, 1), "release": id}
        value = b"7" if event == "succeed" else b"E: e"
        tracked = TrackedOutcome(event, RESULT_TTL, [value], [stored_progress(done)])
        group = Settlement(self.keys, action, count, [values.get(outcome, id)], False, tracked)
        result = self.rsmq.run(settle_messages(self.worker, [group]))
        hidden = 0 if outcome == "release" else 500
        self.note_outcome(id, count, result, state, done, hidden=hidden)

    def dead_letter(self, id, count, done):
        dead = self.rsmq.namespace.queue("dead")
        operation = dead_letter_messages(
            self.worker, self.keys, dead, [(id, count, REASON)], result_ttl=RESULT_TTL,
            progresses=[stored_progress(done)],
        )  # fmt: skip
        was_asked = self.models[id].is_asked
        result = self.rsmq.run(operation)
        self.note_outcome(id, count, result, "failed", done, hidden=0)
        if result == b"1":
            assert (self.raw.zscore(f"{self.ns}:dead", id) is None) == was_asked

    def note_outcome(self, id, count, result, state, done, *, hidden):
        model = self.models[id]
        is_valid = model.in_queue and model.count == count
        assert (result == b"1") == is_valid
        if is_valid:
            if done is not None:
                model.progress = ReportedProgress(done, 10, "some\ntext")
            if model.is_asked and state != "succeeded":
                model.end("cancelled", RESULT_TTL)
                assert self.raw.zscore(f"{self.ns}:q", id) is None
                assert not self.raw.hexists(f"{self.ns}:q:Q", id)
            elif state in ("succeeded", "failed"):
                model.end(state, RESULT_TTL)
            else:
                model.state, model.is_running, model.ttl = state, False, WEEK + hidden

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
        model.end("expired" if model.ttl else None, min(model.ttl, HOUR))

    @invariant()
    def each_status_is_what_has_become_of_the_message(self):
        records = self.rsmq.run(read_jobs(self.keys, list(self.models), only_reads=False))
        for (id, model), record in zip(self.models.items(), records, strict=True):
            state = None if isinstance(record, bool) else record.state.decode()
            assert state == model.state, id
            ttl = self.raw.pttl(f"{self.ns}:q:x:job:{id}") / 1000
            assert max(model.ttl - 60, 0) <= max(ttl, 0) <= model.ttl
            stored = self.raw.hgetall(f"{self.ns}:q:x:job:{id}")
            assert (b"result" in stored) == (state == "succeeded")
            assert (b"cancel" in stored) == model.is_asked
            if not isinstance(record, bool):
                status = record.to_status("q", id, return_unchanged)
                assert (status.progress, status.is_cancelling) == (model.progress, model.is_asked)


def test_random_calls_leave_each_job_in_its_true_state():
    run_state_machine_as_test(
        JobMachine,
        settings=settings(
            max_examples=scaled(30, 1000),
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
