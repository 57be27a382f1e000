"""
Random operations of workers and of a plain client, compared with a short model in Python.

A hash beside the queues has the messages in flight of each worker. It may contain messages that are
no longer in flight, but every message in flight is in it. No message is lost or stored twice.
"""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from rsmq import RSMQ, WorkerReplaced
from rsmq.transport import memory
from rsmq.wire.keys import Namespace
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    dead_letter_messages,
    list_in_flight,
    receive_for_worker,
    register_worker,
    settle_messages,
)
from tests.scale import scaled

_numbers = itertools.count()

ATTRIBUTES = {"vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv"}
QUEUES = ("q", "p", "dead")
NAMES = st.sampled_from(["a", "b"])
# The times are so far apart that the duration of the test cannot matter.
HIDDEN = st.sampled_from([0, 100, 200])


class WorkerMachine(RuleBasedStateMachine):
    """The operations. The test supplies ``connect``."""

    connect = None
    receipts = Bundle("receipts")  # queue, id, receive count
    received = Bundle("received")  # messages of the plain client

    def __init__(self):
        super().__init__()
        self.namespace = Namespace(f"w{next(_numbers)}")
        self.rsmq, self.raw, self.end = self.connect(self.namespace.name)
        self.messages = {}
        self.totals = dict.fromkeys(QUEUES, 0)
        self.workers = {}
        #: The messages in flight of each name, id to queue and receive count; and all it ever had.
        self.in_flight = {"a": {}, "b": {}}
        self.ever = {"a": set(), "b": set()}

    def teardown(self):
        self.end()

    @initialize()
    def begin(self):
        for name in QUEUES:
            self.rsmq.create_queue(name)
        for name in self.in_flight:
            self.replace(name)

    @rule(name=NAMES)
    def replace(self, name):
        """Replace a worker; its successor gets the messages in flight."""
        predecessor = self.workers.get(name)
        successor = Identity(self.namespace, name, f"t{next(_numbers)}")
        dead = predecessor.token if predecessor else ""
        before = self.rsmq.run(register_worker(successor, {}, ttl=10, dead=dead))
        if predecessor is None:
            assert before is None
        else:
            assert (before.remaining_ms, before.token) == (0, predecessor.token)
        self.workers[name] = successor
        if predecessor is not None:
            with pytest.raises(WorkerReplaced):
                self.rsmq.run(receive_for_worker(predecessor, [], 1))
        found = self.rsmq.run_steps(list_in_flight(self.namespace, name))
        receipts = {(queue, *receipt) for queue, of_queue in found.items() for receipt in of_queue}
        assert receipts == {
            (*value.split(":")[::-1][:1], id, int(value.split(":")[0]))
            for id, value in self.stored_in_flight(name).items()
        }

    def now(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def zset(self, queue):
        return f"{self.namespace.name}:{queue}"

    def scores(self, queue):
        stored = self.raw.zrange(self.zset(queue), 0, -1, withscores=True)
        return {id.decode(): score for id, score in stored}

    def due(self, queue):
        now = self.now()
        return [id for id, score in self.scores(queue).items() if score <= now]

    def stored_in_flight(self, name):
        stored = self.raw.hgetall(self.namespace.held(name))
        return {id.decode(): value.decode() for id, value in stored.items() if id}

    def check_received(self, queue, id, raw, count):
        message = self.messages[id]
        message["count"] += 1
        self.totals[queue] += 1
        assert (queue, raw.decode(), count) == (
            message["queue"], message["body"], message["count"],
        )  # fmt: skip

    @rule(
        queue=st.sampled_from(["q", "p"]), number=st.integers(1, 4), delay=st.sampled_from([0, 100])
    )
    def send(self, queue, number, delay):
        bodies = [f"{queue}{place}" for place in range(number)]
        for id, body in zip(
            self.rsmq.send_messages(queue, bodies, delay=delay), bodies, strict=True
        ):
            self.messages[id] = {"queue": queue, "body": body, "count": 0}

    @rule(
        target=receipts,
        name=NAMES,
        queues=st.permutations(QUEUES).flatmap(
            lambda names: st.integers(1, 3).map(lambda number: names[:number])
        ),
        slots=st.integers(0, 4),
        ahead=st.integers(0, 2),
        vt=HIDDEN,
    )
    def receive_as_worker(self, name, queues, slots, ahead, vt):
        wants = [
            ReceiveRequest(self.namespace.queue(queue), vt * 1000, 1, ahead, 100)
            for queue in queues
        ]
        waiting = [self.due(queue) for queue in queues]
        before = self.now()
        replies = self.rsmq.run(receive_for_worker(self.workers[name], wants, slots))
        after = self.now()
        free_slots, number = slots, 0
        receipts = []
        for queue, due, reply in zip(queues, waiting, replies, strict=True):
            expected = due[: free_slots + ahead] if free_slots or not number else []
            assert reply.ids == expected
            free_slots, number = max(free_slots - len(expected), 0), number + len(expected)
            scores = self.scores(queue)
            for place, (id, raw) in enumerate(zip(reply.ids, reply.raws, strict=True)):
                count = reply.redelivered.get(place, (1,))[0]
                self.check_received(queue, id, raw, count)
                assert before <= scores[id] - vt * 1000 <= after
                self.in_flight[name][id] = (queue, count)
                self.ever[name].add((id, f"{count}:{queue}"))
                receipts.append((queue, id, count))
        return multiple(*receipts)

    def expected_reply(self, queue, id, count):
        """Return the digit with which the scripts answer for a receipt."""
        message = self.messages.get(id)
        if message is None or message["queue"] != queue:
            return b"0"
        return b"1" if message["count"] == count else b"2"

    def remove_in_flight(self, name, receipts, *, late):
        """Remove settled messages from the model's messages in flight, unless it was replaced."""
        for queue, id, count in receipts:
            if not late and self.in_flight[name].get(id) == (queue, count):
                del self.in_flight[name][id]

    def identity(self, name, *, late):
        return Identity(self.namespace, name, "late") if late else self.workers[name]

    @rule(
        name=NAMES,
        chosen=st.lists(receipts, min_size=1, max_size=5, unique=True),
        actions=st.lists(st.sampled_from(["delete", "hide", "release"]), min_size=5, max_size=5),
        ms=HIDDEN,
        late=st.integers(0, 5).map(lambda number: number == 0),
    )
    def settle(self, name, chosen, actions, ms, late):
        groups = {}
        for receipt, action in zip(chosen, actions, strict=False):
            groups.setdefault((receipt[0], action, receipt[2]), []).append(receipt)
        before = self.stored_in_flight(name)
        began = self.now()
        reply = self.rsmq.run(
            settle_messages(
                self.identity(name, late=late),
                [
                    Settlement(
                        self.namespace.queue(queue), action, count,
                        [(id, ms * 1000) if action == "hide" else id for _, id, _ in of_group],
                    )
                    for (queue, action, count), of_group in groups.items()
                ],
            )
        )  # fmt: skip
        expected = b""
        for (queue, action, _), of_group in groups.items():
            for _, id, count in of_group:
                # A replaced worker can only delete: its successor may have released the message.
                refused = late and action != "delete"
                digit = b"2" if refused else self.expected_reply(queue, id, count)
                expected += digit
                if digit != b"1":
                    continue
                if action == "delete":
                    del self.messages[id]
                elif action == "hide":
                    assert began <= self.scores(queue)[id] - ms * 1000 <= self.now()
                else:
                    assert self.scores(queue)[id] == int(id[:10], 36) // 1000
        assert reply == expected
        self.remove_in_flight(name, chosen, late=late)
        if late:
            assert self.stored_in_flight(name) == before

    @rule(
        name=NAMES,
        chosen=st.lists(receipts, min_size=1, max_size=4, unique=True),
        late=st.integers(0, 5).map(lambda number: number == 0),
    )
    def dead_letter(self, name, chosen, late):
        queue = chosen[0][0]
        if queue == "dead":
            return
        chosen = [receipt for receipt in chosen if receipt[0] == queue]
        why = {"text": "why"}
        before = self.stored_in_flight(name)
        reply = self.rsmq.run(
            dead_letter_messages(
                self.identity(name, late=late),
                self.namespace.queue(queue),
                self.namespace.queue("dead"),
                [(id, count, why) for _, id, count in chosen],
            )
        )
        expected = b""
        for _, id, count in chosen:
            digit = self.expected_reply(queue, id, count)
            expected += digit
            if digit == b"1":
                self.messages[id]["queue"] = "dead"
                record = self.raw.hget(self.namespace.queue("dead").reasons, id)
                assert json.loads(record.partition(b":")[2]) == why
        assert reply == expected
        self.remove_in_flight(name, chosen, late=late)
        if late:
            assert self.stored_in_flight(name) == before

    @rule(target=received, queue=st.sampled_from(QUEUES), number=st.integers(1, 3), vt=HIDDEN)
    def receive(self, queue, number, vt):
        due = self.due(queue)
        messages = self.rsmq.receive_messages(queue, number, vt=vt)
        assert [message.id for message in messages] == due[:number]
        for message in messages:
            self.check_received(queue, message.id, message.raw, message.receive_count)
        return multiple(*messages)

    @rule(target=received, queue=st.sampled_from(QUEUES), vt=HIDDEN)
    def receive_one(self, queue, vt):
        due = self.due(queue)
        message = self.rsmq.receive_message(queue, vt=vt)
        assert (message and message.id) == next(iter(due), None)
        if message is None:
            return multiple()
        self.check_received(queue, message.id, message.raw, message.receive_count)
        return message

    @rule(message=received)
    def delete(self, message):
        digit = self.expected_reply(message.queue, message.id, message.receive_count)
        assert self.rsmq.delete_message(message) is (digit == b"1")
        if digit == b"1":
            del self.messages[message.id]

    @rule(receipt=receipts)
    def delete_by_id(self, receipt):
        queue, id, count = receipt
        exists = self.expected_reply(queue, id, count) != b"0"
        assert self.rsmq.delete_message(queue, id) is exists
        if exists:
            del self.messages[id]

    @rule(message=received, vt=HIDDEN)
    def change_visibility(self, message, vt):
        digit = self.expected_reply(message.queue, message.id, message.receive_count)
        assert self.rsmq.change_message_visibility(message, vt) is (digit == b"1")

    @rule(receipt=receipts, vt=HIDDEN)
    def change_visibility_by_id(self, receipt, vt):
        queue, id, count = receipt
        exists = self.expected_reply(queue, id, count) != b"0"
        assert self.rsmq.change_message_visibility(queue, id, vt) is exists

    @rule(seconds=st.sampled_from([50, 150, 250]))
    def time_passes(self, seconds):
        for queue in QUEUES:
            earlier = {id: score - seconds * 1000 for id, score in self.scores(queue).items()}
            if earlier:
                self.raw.zadd(self.zset(queue), earlier)

    @invariant()
    def no_message_is_lost_or_duplicated(self):
        for queue in QUEUES if self.workers else ():
            fields = {
                name.decode(): value.decode()
                for name, value in self.raw.hgetall(f"{self.zset(queue)}:Q").items()
            }
            expected = {}
            for id, message in self.messages.items():
                if message["queue"] == queue:
                    expected[id] = message["body"]
                    if message["count"]:
                        expected[f"{id}:rc"] = str(message["count"])
                        expected[f"{id}:fr"] = fields.get(f"{id}:fr")
            assert {name: fields[name] for name in fields if name not in ATTRIBUTES} == expected
            assert self.scores(queue).keys() == {id for id in expected if ":" not in id}
            assert int(fields.get("totalrecv", 0)) == self.totals[queue]

    @invariant()
    def every_message_in_flight_is_stored(self):
        for name, in_flight in self.in_flight.items():
            stored = self.stored_in_flight(name)
            assert stored.items() <= self.ever[name]
            for id, (queue, count) in in_flight.items():
                if self.expected_reply(queue, id, count) == b"1":
                    assert stored.get(id) == f"{count}:{queue}"


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_workers_behave_like_the_model(backend, request):
    server = request.getfixturevalue("server") if backend == "redis" else None

    def connect(_, ns):
        url = server.url if server else f"memory://{ns}"
        raw = server.raw() if server else memory.client(url)
        client = RSMQ.from_url(url, ns=ns)

        def end():
            client.close()
            raw.close()

        return client, raw, end

    machine = type("Machine", (WorkerMachine,), {"connect": connect})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=scaled(20, 2000),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
