"""
Random calls on a queue, against a model in a page of Python, on raw keys.

The model is told each score that the server's clock decided, after holding it against the bounds
that the call allows; which message comes, what each call answers and every key is its own work.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from rsmq import RSMQ, AsyncRSMQ, MessageTooLong, QueueExists, QueueNotFound, embedded
from tests.faces import Blocking
from tests.scale import scaled

_numbers = itertools.count()

# Times of calls are far apart, so that no moment of the run itself can matter.
HIDDEN = st.sampled_from([0, 100, 200])
PASSED = st.sampled_from([50, 100, 250])
BODIES = st.sampled_from(["", "é", "x" * 1500]) | st.text(max_size=20)


class Queue:
    """What the model knows of a queue."""

    def __init__(self, vt, delay, maxsize):
        self.vt, self.delay, self.maxsize = vt, delay, maxsize
        self.sent = self.received = 0
        self.messages = {}

    def due(self, now):
        ids = [id for id, stored in self.messages.items() if stored["score"] <= now]
        return min(ids, key=lambda each: (self.messages[each]["score"], each), default=None)


class QueueMachine(RuleBasedStateMachine):
    """The calls; ``connect`` is given by the test."""

    connect = None
    receipts = Bundle("receipts")
    ids = Bundle("ids")

    def __init__(self):
        super().__init__()
        self.ns = f"m{next(_numbers)}"
        self.rsmq, self.raw, self.end = self.connect(self.ns)
        self.queue = None

    def teardown(self):
        self.end()

    def now(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def score(self, id):
        return self.raw.zscore(f"{self.ns}:q", id)

    def missing(self, call, *arguments, **options):
        with pytest.raises(QueueNotFound):
            call(*arguments, **options)

    @initialize()
    def begin(self):
        # Most programs begin with a queue; what happens without one is soon said.
        self.create(vt=100, delay=0, maxsize=-1, exist_ok=False)

    @rule(vt=HIDDEN, delay=HIDDEN, maxsize=st.sampled_from([1024, -1]), exist_ok=st.booleans())
    def create(self, vt, delay, maxsize, exist_ok):
        attributes = {"vt": vt, "delay": delay, "maxsize": maxsize, "exist_ok": exist_ok}
        if self.queue is None:
            assert self.rsmq.create_queue("q", **attributes) is True
            self.queue = Queue(vt, delay, maxsize)
        elif exist_ok:
            assert self.rsmq.create_queue("q", **attributes) is False
        else:
            with pytest.raises(QueueExists):
                self.rsmq.create_queue("q", **attributes)

    @rule()
    def delete_queue(self):
        if self.queue is None:
            self.missing(self.rsmq.delete_queue, "q")
        else:
            self.rsmq.delete_queue("q")
            self.queue = None

    @rule()
    def purge(self):
        if self.queue is None:
            self.missing(self.rsmq.purge_queue, "q")
        else:
            assert self.rsmq.purge_queue("q") == len(self.queue.messages)
            self.queue.messages = {}

    @rule(vt=st.none() | HIDDEN, delay=HIDDEN)
    def set_attributes(self, vt, delay):
        if self.queue is None:
            self.missing(self.rsmq.set_queue_attributes, "q", vt=vt, delay=delay)
        else:
            attributes = self.rsmq.set_queue_attributes("q", vt=vt, delay=delay)
            self.queue.vt = self.queue.vt if vt is None else vt
            self.queue.delay = delay
            assert (attributes.vt, attributes.delay) == (self.queue.vt, delay)

    @rule(target=ids, body=BODIES, delay=st.none() | HIDDEN)
    def send(self, body, delay):
        if self.queue is None:
            self.missing(self.rsmq.send_message, "q", body, delay=delay)
            return "n" * 32
        if self.queue.maxsize != -1 and len(body.encode("utf-16-le")) // 2 > 1024:
            with pytest.raises(MessageTooLong):
                self.rsmq.send_message("q", body, delay=delay)
            return "n" * 32
        before = self.now()
        id = self.rsmq.send_message("q", body, delay=delay)
        hidden = self.queue.delay if delay is None else delay
        score = self.score(id)
        assert score == int(id[:10], 36) // 1000 + hidden * 1000
        assert before <= score - hidden * 1000 <= self.now()
        self.queue.sent += 1
        self.queue.messages[id] = {"body": body, "score": score, "count": 0, "first": None}
        return id

    @rule(target=receipts, vt=st.none() | HIDDEN)
    def receive(self, vt):
        if self.queue is None:
            self.missing(self.rsmq.receive_message, "q", vt=vt)
            return None
        before = self.now()
        expected = self.queue.due(before)
        message = self.rsmq.receive_message("q", vt=vt)
        if expected is None:
            assert message is None
            return None
        stored = self.queue.messages[expected]
        stored["count"] += 1
        self.queue.received += 1
        if stored["first"] is None:
            assert before <= message.first_received_ms <= self.now()
            stored["first"] = message.first_received_ms
        assert (message.id, message.body) == (expected, stored["body"])
        assert message.receive_count == stored["count"]
        assert message.first_received_ms == stored["first"]
        hidden = self.queue.vt if vt is None else vt
        stored["score"] = self.score(expected)
        assert before <= stored["score"] - hidden * 1000 <= self.now()
        return message

    @rule()
    def pop(self):
        if self.queue is None:
            self.missing(self.rsmq.pop_message, "q")
            return
        expected = self.queue.due(self.now())
        message = self.rsmq.pop_message("q")
        if expected is None:
            assert message is None
            return
        stored = self.queue.messages.pop(expected)
        self.queue.received += 1
        assert (message.id, message.body) == (expected, stored["body"])
        assert message.receive_count == stored["count"] + 1
        assert stored["first"] in (None, message.first_received_ms)

    def holds(self, message):
        stored = self.queue and self.queue.messages.get(message.id)
        return bool(stored) and stored["count"] == message.receive_count

    @rule(message=receipts)
    def delete_by_receipt(self, message):
        if message is not None:
            holds = self.holds(message)
            assert self.rsmq.delete_message(message) is holds
            if holds:
                del self.queue.messages[message.id]

    @rule(id=ids)
    def delete_by_id(self, id):
        there = self.queue is not None and id in self.queue.messages
        assert self.rsmq.delete_message("q", id) is there
        if there:
            del self.queue.messages[id]

    @rule(message=receipts, vt=HIDDEN)
    def change_by_receipt(self, message, vt):
        if message is None:
            return
        if self.queue is None:
            self.missing(self.rsmq.change_message_visibility, message, vt)
            return
        before = self.now()
        holds = self.holds(message)
        assert self.rsmq.change_message_visibility(message, vt) is holds
        if holds:
            self.rescored(message.id, before, vt)

    @rule(id=ids, vt=HIDDEN)
    def change_by_id(self, id, vt):
        if self.queue is None:
            self.missing(self.rsmq.change_message_visibility, "q", id, vt)
            return
        before = self.now()
        there = id in self.queue.messages
        assert self.rsmq.change_message_visibility("q", id, vt) is there
        if there:
            self.rescored(id, before, vt)

    def rescored(self, id, before, vt):
        score = self.queue.messages[id]["score"] = self.score(id)
        assert before <= score - vt * 1000 <= self.now()

    @rule(id=ids)
    def look_up(self, id):
        if self.queue is None:
            self.missing(self.rsmq.get_message, "q", id)
            return
        stored = self.queue.messages.get(id)
        found = self.rsmq.get_message("q", id)
        if stored is None:
            assert found is None
            return
        hidden = stored["score"] > self.now()
        assert (found.body, found.receive_count) == (stored["body"], stored["count"])
        assert (found.first_received_ms, found.visible_at_ms) == (stored["first"], stored["score"])
        state = "visible" if not hidden else "in_flight" if stored["count"] else "delayed"
        assert found.state == state

    @rule(seconds=PASSED)
    def time_passes(self, seconds):
        if self.queue is None:
            return
        for id, stored in self.queue.messages.items():
            stored["score"] -= seconds * 1000
            self.raw.zadd(f"{self.ns}:q", {id: stored["score"]})

    @rule()
    def another_client_receives(self):
        """As Node's script does it, without any of ours."""
        id = self.queue and self.queue.due(self.now())
        if id:
            stored = self.queue.messages[id]
            stored["score"] = self.now() + 100_000
            stored["count"] += 1
            self.queue.received += 1
            self.raw.zadd(f"{self.ns}:q", {id: stored["score"]})
            self.raw.hincrby(f"{self.ns}:q:Q", "totalrecv", 1)
            self.raw.hincrby(f"{self.ns}:q:Q", f"{id}:rc", 1)
            if stored["first"] is None:
                stored["first"] = self.now()
                self.raw.hset(f"{self.ns}:q:Q", f"{id}:fr", stored["first"])

    @invariant()
    def keys_are_the_models(self):
        fields = {
            name.decode(): value.decode()
            for name, value in self.raw.hgetall(f"{self.ns}:q:Q").items()
        }
        if self.queue is None:
            assert self.raw.keys(f"{self.ns}:*") == []
            return
        assert self.raw.smembers(f"{self.ns}:QUEUES") == {b"q"}
        expected = {
            "vt": str(self.queue.vt),
            "delay": str(self.queue.delay),
            "maxsize": str(self.queue.maxsize),
            "created": fields["created"],
            "modified": fields["modified"],
        }
        if self.queue.sent:
            expected["totalsent"] = str(self.queue.sent)
        if self.queue.received:
            expected["totalrecv"] = str(self.queue.received)
        for id, stored in self.queue.messages.items():
            expected[id] = stored["body"]
            if stored["count"]:
                expected[f"{id}:rc"] = str(stored["count"])
                expected[f"{id}:fr"] = str(stored["first"])
        assert fields == expected
        assert {
            id.decode(): score
            for id, score in self.raw.zrange(f"{self.ns}:q", 0, -1, withscores=True)
        } == {id: stored["score"] for id, stored in self.queue.messages.items()}

    @invariant()
    def attributes_are_the_models(self):
        if self.queue is None:
            return
        attributes = self.rsmq.get_queue_attributes("q")
        now = self.now()
        later = [s["score"] for s in self.queue.messages.values() if s["score"] > now]
        assert attributes.messages == len(self.queue.messages)
        assert attributes.hidden_messages == len(later)
        assert attributes.visible_messages == len(self.queue.messages) - len(later)
        assert attributes.next_due_ms == min(later, default=None)
        assert attributes.total_sent == self.queue.sent
        assert attributes.total_received == self.queue.received


@pytest.mark.timeout(scaled(120, 7200))
@pytest.mark.parametrize("face", ["sync", "asyncio"])
@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_a_queue_behaves_as_the_model(backend, face, request):
    server = request.getfixturevalue("server") if backend == "redis" else None

    def connect(_, ns):
        url = server.url if server else f"memory://{ns}"
        raw = server.raw() if server else embedded.client(url)
        if face == "sync":
            client, runner = RSMQ.from_url(url, ns=ns), None
        else:
            runner = asyncio.Runner()
            client = Blocking(runner, AsyncRSMQ.from_url(url, ns=ns))

        def end():
            client.close()
            raw.close()
            if runner is not None:
                runner.close()

        return client, raw, end

    machine = type("Machine", (QueueMachine,), {"connect": connect})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=scaled(100, 5000),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
