"""
Random calls on a queue, compared with a short model in Python and with the raw keys.

Scores depend on the server's clock: the test checks that each is within the bounds of its call, and
stores it in the model. The model itself predicts the messages, the results and all keys.
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

from rsmq import RSMQ, AsyncRSMQ, MessageTooLong, QueueExists, QueueNotFound
from rsmq.transport import memory
from tests.blocking import Blocking
from tests.scale import scaled

pytestmark = pytest.mark.slow

_numbers = itertools.count()

# The times are so far apart that the duration of the test cannot matter.
HIDDEN = st.sampled_from([0, 100, 200])
PASSED = st.sampled_from([50, 100, 250])
BODIES = st.sampled_from(["", "é", "x" * 1500]) | st.text(max_size=20)


class Queue:
    """The model of a queue."""

    def __init__(self, vt, delay, maxsize):
        self.vt, self.delay, self.maxsize = vt, delay, maxsize
        self.sent = self.received = 0
        self.messages = {}
        self.limit = None
        self.names = {}

    def in_order(self):
        return sorted(self.messages, key=lambda each: (self.messages[each]["score"], each))

    def all_due(self, now):
        return [id for id in self.in_order() if self.messages[id]["score"] <= now]

    def due(self, now):
        return next(iter(self.all_due(now)), None)


class Dead:
    """The model of the dead-letter queue, which only moves and redrives change."""

    def __init__(self):
        self.sent = 0
        self.messages = {}


class QueueMachine(RuleBasedStateMachine):
    """The calls. The test supplies ``connect``."""

    connect = None
    receipts = Bundle("receipts")
    ids = Bundle("ids")

    def __init__(self):
        super().__init__()
        self.ns = f"m{next(_numbers)}"
        self.rsmq, self.raw, self.end = self.connect(self.ns)
        self.queue = None
        self.dead = Dead()
        self.rsmq.create_queue("dead")

    def teardown(self):
        self.end()

    def now(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def score(self, id):
        return self.raw.zscore(f"{self.ns}:q", id)

    def check_not_found(self, call, *arguments, **options):
        with pytest.raises(QueueNotFound):
            call(*arguments, **options)

    @initialize()
    def begin(self):
        # Most examples begin with a queue: without one, there is little to test.
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
            self.check_not_found(self.rsmq.delete_queue, "q")
        else:
            self.rsmq.delete_queue("q")
            self.queue = None

    @rule()
    def purge(self):
        if self.queue is None:
            self.check_not_found(self.rsmq.purge_queue, "q")
        else:
            assert self.rsmq.purge_queue("q") == len(self.queue.messages)
            self.queue.messages = {}
            self.queue.names = {}

    @rule(vt=st.none() | HIDDEN, delay=HIDDEN)
    def set_attributes(self, vt, delay):
        if self.queue is None:
            self.check_not_found(self.rsmq.set_queue_attributes, "q", vt=vt, delay=delay)
        else:
            attributes = self.rsmq.set_queue_attributes("q", vt=vt, delay=delay)
            self.queue.vt = self.queue.vt if vt is None else vt
            self.queue.delay = delay
            assert (attributes.vt, attributes.delay) == (self.queue.vt, delay)

    @rule(target=ids, body=BODIES, delay=st.none() | HIDDEN)
    def send(self, body, delay):
        if self.queue is None:
            self.check_not_found(self.rsmq.send_message, "q", body, delay=delay)
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

    def fields_of(self, messages):
        fields = {}
        for id, stored in messages.items():
            fields[id] = stored["body"]
            if stored["count"]:
                fields[f"{id}:rc"] = str(stored["count"])
                fields[f"{id}:fr"] = str(stored["first"])
        return fields

    def check_dead_letter_queue(self):
        fields = self.raw.hgetall(f"{self.ns}:dead:Q")
        expected = self.fields_of(self.dead.messages)
        if self.dead.sent:
            expected["totalsent"] = str(self.dead.sent)
        attributes = {"vt", "delay", "maxsize", "created", "modified"}
        assert {
            name.decode(): value.decode()
            for name, value in fields.items()
            if name.decode() not in attributes
        } == expected
        assert dict(self.raw.zrange(f"{self.ns}:dead", 0, -1, withscores=True)) == {
            id.encode(): stored["score"] for id, stored in self.dead.messages.items()
        }

    def is_poison(self, id):
        return self.queue.limit is not None and self.queue.messages[id]["count"] >= self.queue.limit

    def move_in_model(self, ids, before):
        """Move messages to the dead-letter queue in the model."""
        for id in ids:
            stored = self.queue.messages.pop(id)
            score = self.raw.zscore(f"{self.ns}:dead", id)
            if stored["count"]:
                assert before <= score <= self.now()
            else:
                assert score == stored["score"]
            self.dead.messages[id] = {**stored, "score": score}
            self.dead.sent += 1

    def predict_receive(self, number, before):
        """Return the poison messages to be moved, and the messages to be received."""
        poison, good = [], []
        for id in self.queue.all_due(before):
            if len(good) == number:
                break
            (poison if self.is_poison(id) else good).append(id)
        return poison, good

    @rule(limit=st.none() | st.integers(1, 3))
    def set_policy(self, limit):
        target = None if limit is None else "dead"
        if self.queue is None:
            self.check_not_found(self.rsmq.set_dead_letter_policy, "q", target, limit)
            return
        attributes = self.rsmq.set_dead_letter_policy("q", target, limit)
        self.queue.limit = limit
        assert (attributes.dead_letter_queue, attributes.max_receives) == (target, limit)

    @rule(number=st.integers(1, 4))
    def sweep(self, number):
        if self.queue is None:
            self.check_not_found(self.rsmq.sweep_dead_letters, "q")
            return
        before = self.now()
        expected = [id for id in self.queue.all_due(before) if self.is_poison(id)][:number]
        assert self.rsmq.sweep_dead_letters("q", number) == expected
        self.move_in_model(expected, before)

    @rule(number=st.none() | st.integers(1, 4))
    def redrive(self, number):
        if self.queue is None:
            self.check_not_found(self.rsmq.redrive_messages, "dead", "q", max_messages=number)
            return
        before = self.now()
        waiting = sorted(
            (id for id, stored in self.dead.messages.items() if stored["score"] <= before),
            key=lambda id: (self.dead.messages[id]["score"], id),
        )[:number]
        redriven = self.rsmq.redrive_messages("dead", "q", max_messages=number)
        assert [old for old, _ in redriven] == waiting
        for old, new in redriven:
            score = self.score(new)
            assert before <= score == int(new[:10], 36) // 1000
            body = self.dead.messages.pop(old)["body"]
            self.queue.messages[new] = {"body": body, "score": score, "count": 0, "first": None}
            self.queue.sent += 1

    @rule(
        chosen=st.lists(ids, max_size=4),
        bare=st.booleans(),
        messages=st.lists(receipts, max_size=4),
    )
    def move(self, chosen, bare, messages):
        if self.queue is None:
            return
        before = self.now()
        if bare:
            expected = [id for id in dict.fromkeys(chosen) if id in self.queue.messages]
            assert self.rsmq.move_messages("q", "dead", chosen) == expected
        else:
            in_flight = [message for message in messages if message is not None]
            expected = self.valid_ids(in_flight)
            assert self.rsmq.move_messages(in_flight, "dead") == expected
        self.move_in_model(expected, before)

    def valid_ids(self, messages):
        return list(dict.fromkeys(m.id for m in messages if self.is_valid(m)))

    @rule(
        target=ids,
        bodies=st.lists(BODIES, max_size=5),
        delay=st.none() | HIDDEN,
        large=st.booleans(),
        front=st.booleans(),
    )
    def send_many(self, bodies, delay, large, front):
        bodies = [body + "y" * 9000 for body in bodies] if large else bodies
        options = {"front": True} if front else {"delay": delay}
        if self.queue is None:
            self.check_not_found(self.rsmq.send_messages, "q", bodies, **options)
            return "n" * 32
        if self.queue.maxsize != -1 and any(len(b.encode("utf-16-le")) // 2 > 1024 for b in bodies):
            with pytest.raises(MessageTooLong):
                self.rsmq.send_messages("q", bodies, **options)
            return "n" * 32
        before = self.now()
        first = min((s["score"] for s in self.queue.messages.values()), default=self.now() + 1000)
        sent = self.rsmq.send_messages("q", bodies, **options)
        assert sent == sorted(sent)
        hidden = self.queue.delay if delay is None else delay
        for id, body in zip(sent, bodies, strict=True):
            score = self.score(id)
            if front:
                assert score <= min(first - 1, self.now())
            else:
                assert before <= score - hidden * 1000 == int(id[:10], 36) // 1000
            self.queue.messages[id] = {"body": body, "score": score, "count": 0, "first": None}
        self.queue.sent += len(sent)
        return sent[0] if sent else "n" * 32

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def send_once(self, name):
        if self.queue is None:
            return
        id = self.rsmq.send_message("q", "once", dedup_id=name, delay=0)
        if name in self.queue.names:
            assert id == self.queue.names[name]
            return
        self.queue.names[name] = id
        self.queue.sent += 1
        self.queue.messages[id] = {
            "body": "once", "score": self.score(id), "count": 0, "first": None,
        }  # fmt: skip

    @rule(target=receipts, number=st.integers(1, 5), vt=st.none() | HIDDEN)
    def receive_many(self, number, vt):
        if self.queue is None:
            self.check_not_found(self.rsmq.receive_messages, ["q"], number, vt=vt)
            return None
        before = self.now()
        poison, good = self.predict_receive(number, before)
        received = self.rsmq.receive_messages("q", number, vt=vt)
        self.move_in_model(poison, before)
        assert [message.id for message in received] == good
        for message in received:
            self.check_received(message, before, self.queue.vt if vt is None else vt)
        return received[0] if received else None

    def check_received(self, message, before, hidden):
        stored = self.queue.messages[message.id]
        stored["count"] += 1
        self.queue.received += 1
        if stored["first"] is None:
            assert before <= message.first_received_ms <= self.now()
            stored["first"] = message.first_received_ms
        assert message.body == stored["body"]
        assert message.receive_count == stored["count"]
        assert message.first_received_ms == stored["first"]
        stored["score"] = self.score(message.id)
        assert before <= stored["score"] - hidden * 1000 <= self.now()

    @rule(number=st.integers(1, 5))
    def pop_many(self, number):
        if self.queue is None:
            self.check_not_found(self.rsmq.pop_messages, "q", number)
            return
        before = self.now()
        poison, good = self.predict_receive(number, before)
        popped = self.rsmq.pop_messages(["q", "q"], number)
        self.move_in_model(poison, before)
        assert [message.id for message in popped] == good
        for id in good:
            del self.queue.messages[id]
            self.queue.received += 1

    @rule(
        chosen=st.lists(ids, max_size=4),
        messages=st.lists(receipts, max_size=4),
        bare=st.booleans(),
    )
    def delete_many(self, chosen, messages, bare):
        stored = {} if self.queue is None else self.queue.messages
        if bare:
            expected = [id for id in dict.fromkeys(chosen) if id in stored]
            assert self.rsmq.delete_messages("q", chosen) == expected
        else:
            in_flight = [message for message in messages if message is not None]
            expected = self.valid_ids(in_flight)
            assert self.rsmq.delete_messages(in_flight) == expected
        for id in expected:
            del stored[id]

    @rule(messages=st.lists(receipts, max_size=4), vt=HIDDEN)
    def change_many(self, messages, vt):
        if self.queue is None:
            return
        in_flight = [message for message in messages if message is not None]
        before = self.now()
        expected = self.valid_ids(in_flight)
        assert self.rsmq.change_messages_visibility(in_flight, vt) == expected
        for id in expected:
            self.check_score(id, before, vt)

    def check_released(self, ids):
        for id in ids:
            self.queue.messages[id]["score"] = int(id[:10], 36) // 1000
            assert self.score(id) == self.queue.messages[id]["score"]

    @rule(messages=st.lists(receipts, max_size=4))
    def release_many(self, messages):
        if self.queue is None:
            return
        in_flight = [message for message in messages if message is not None]
        expected = self.valid_ids(in_flight)
        assert self.rsmq.release_messages(in_flight) == expected
        self.check_released(expected)

    @rule()
    def release_all(self):
        if self.queue is None:
            self.check_not_found(self.rsmq.release_all_messages, "q")
            return
        now = self.now()
        hidden = [
            id for id, stored in self.queue.messages.items()
            if stored["score"] > now and stored["count"]
        ]  # fmt: skip
        assert self.rsmq.release_all_messages("q") == len(hidden)
        self.check_released(hidden)

    @rule(number=st.integers(1, 4), idle=st.sampled_from([0, 75]), vt=HIDDEN)
    def recover(self, number, idle, vt):
        if self.queue is None:
            self.check_not_found(self.rsmq.recover_messages, "q", number, idle=idle)
            return
        before = self.now()
        since = before - idle * 1000 + self.queue.vt * 1000
        waiting = [
            id for id in self.queue.in_order()
            if self.queue.messages[id]["count"] and self.queue.messages[id]["score"] <= since
        ][:number]  # fmt: skip
        recovered = self.rsmq.recover_messages("q", number, idle=idle, vt=vt)
        poison = [id for id in waiting if self.is_poison(id)]
        self.move_in_model(poison, before)
        assert [message.id for message in recovered] == [id for id in waiting if id not in poison]
        for message in recovered:
            self.check_received(message, before, vt)

    @rule(
        start=st.integers(-4, 4),
        count=st.integers(1, 4),
        state=st.sampled_from([None, "visible", "in_flight", "delayed"]),
    )
    def peek(self, start, count, state):
        if self.queue is None:
            self.check_not_found(self.rsmq.peek_messages, "q")
            return
        now = self.now()

        def has_state(stored):
            hidden = stored["score"] > now
            found = "visible" if not hidden else "in_flight" if stored["count"] else "delayed"
            return state is None or found == state

        ids = [id for id in self.queue.in_order() if has_state(self.queue.messages[id])]
        begin = start if start >= 0 else max(0, len(ids) + start)
        peeked = self.rsmq.peek_messages("q", start, count, state=state)
        assert [message.id for message in peeked] == ids[begin : begin + count]
        if state is not None:
            assert getattr(self.rsmq.count_messages("q"), state) == len(ids)

    @rule(target=receipts, vt=st.none() | HIDDEN)
    def receive(self, vt):
        if self.queue is None:
            self.check_not_found(self.rsmq.receive_message, "q", vt=vt)
            return None
        before = self.now()
        poison, good = self.predict_receive(1, before)
        expected = next(iter(good), None)
        message = self.rsmq.receive_message("q", vt=vt)
        self.move_in_model(poison, before)
        if expected is None:
            assert message is None
            return None
        assert message.id == expected
        self.check_received(message, before, self.queue.vt if vt is None else vt)
        return message

    @rule()
    def pop(self):
        if self.queue is None:
            self.check_not_found(self.rsmq.pop_message, "q")
            return
        before = self.now()
        poison, good = self.predict_receive(1, before)
        expected = next(iter(good), None)
        message = self.rsmq.pop_message("q")
        self.move_in_model(poison, before)
        if expected is None:
            assert message is None
            return
        stored = self.queue.messages.pop(expected)
        self.queue.received += 1
        assert (message.id, message.body) == (expected, stored["body"])
        assert message.receive_count == stored["count"] + 1
        assert stored["first"] in (None, message.first_received_ms)

    def is_valid(self, message):
        stored = self.queue and self.queue.messages.get(message.id)
        return bool(stored) and stored["count"] == message.receive_count

    @rule(message=receipts)
    def delete_by_receipt(self, message):
        if message is not None:
            is_valid = self.is_valid(message)
            assert self.rsmq.delete_message(message) is is_valid
            if is_valid:
                del self.queue.messages[message.id]

    @rule(id=ids)
    def delete_by_id(self, id):
        exists = self.queue is not None and id in self.queue.messages
        assert self.rsmq.delete_message("q", id) is exists
        if exists:
            del self.queue.messages[id]

    @rule(message=receipts, vt=HIDDEN)
    def change_by_receipt(self, message, vt):
        if message is None:
            return
        if self.queue is None:
            self.check_not_found(self.rsmq.change_message_visibility, message, vt)
            return
        before = self.now()
        is_valid = self.is_valid(message)
        assert self.rsmq.change_message_visibility(message, vt) is is_valid
        if is_valid:
            self.check_score(message.id, before, vt)

    @rule(id=ids, vt=HIDDEN)
    def change_by_id(self, id, vt):
        if self.queue is None:
            self.check_not_found(self.rsmq.change_message_visibility, "q", id, vt)
            return
        before = self.now()
        exists = id in self.queue.messages
        assert self.rsmq.change_message_visibility("q", id, vt) is exists
        if exists:
            self.check_score(id, before, vt)

    def check_score(self, id, before, vt):
        score = self.queue.messages[id]["score"] = self.score(id)
        assert before <= score - vt * 1000 <= self.now()

    @rule(id=ids)
    def look_up(self, id):
        if self.queue is None:
            self.check_not_found(self.rsmq.get_message, "q", id)
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
        """Receive a message with the commands of Node's script."""
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
    def keys_match_the_model(self):
        fields = {
            name.decode(): value.decode()
            for name, value in self.raw.hgetall(f"{self.ns}:q:Q").items()
        }
        self.check_dead_letter_queue()
        if self.queue is None:
            assert self.raw.keys(f"{self.ns}:q*") == []
            return
        assert self.raw.smembers(f"{self.ns}:QUEUES") == {b"q", b"dead"}
        expected = {
            "vt": str(self.queue.vt),
            "delay": str(self.queue.delay),
            "maxsize": str(self.queue.maxsize),
            "created": fields["created"],
            "modified": fields["modified"],
        }
        if self.queue.limit:
            expected |= {"x:dlq": "dead", "x:max": str(self.queue.limit)}
        if self.queue.sent:
            expected["totalsent"] = str(self.queue.sent)
        if self.queue.received:
            expected["totalrecv"] = str(self.queue.received)
        if self.queue.names:
            expected["x:named"] = "1"
        expected |= self.fields_of(self.queue.messages)
        assert fields == expected
        names = self.raw.hkeys(f"{self.ns}:q:x:dedup")
        assert {name.decode() for name in names if name} == self.queue.names.keys()
        assert {
            id.decode(): score
            for id, score in self.raw.zrange(f"{self.ns}:q", 0, -1, withscores=True)
        } == {id: stored["score"] for id, stored in self.queue.messages.items()}

    @invariant()
    def attributes_match_the_model(self):
        if self.queue is None:
            return
        attributes = self.rsmq.get_queue_attributes("q")
        now = self.now()
        hidden_scores = [s["score"] for s in self.queue.messages.values() if s["score"] > now]
        assert attributes.messages == len(self.queue.messages)
        assert attributes.hidden_messages == len(hidden_scores)
        assert attributes.visible_messages == len(self.queue.messages) - len(hidden_scores)
        assert attributes.next_due_ms == min(hidden_scores, default=None)
        assert attributes.total_sent == self.queue.sent
        assert attributes.total_received == self.queue.received


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_a_queue_behaves_like_the_model(backend, mode, request):
    server = request.getfixturevalue("server") if backend == "redis" else None

    def connect(_, ns):
        url = server.url if server else f"memory://{ns}"
        raw = server.raw() if server else memory.client(url)
        if mode == "sync":
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
            # memory:// runs the same scripts, and takes longer for each.
            max_examples=scaled(40 if backend == "redis" else 20, 5000),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
