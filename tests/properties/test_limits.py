"""
Random sends with limits, and what others do to their messages, compared with a short model.

The other calls are those of this library, or the commands of Node's client on the raw keys.
"""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rsmq import RSMQ
from rsmq.transport import memory
from tests.scale import scaled

_numbers = itertools.count()

LIMIT = 2
PLAIN = {"retries": None, "expires": False, "is_expired": False}
HAVING = st.runner().flatmap(lambda self: st.sampled_from(sorted(self.messages)))
has_messages = precondition(lambda self: self.messages)


class LimitsMachine(RuleBasedStateMachine):
    """
    The calls, on a queue whose messages are all visible.

    Attributes:
        messages: by id the own number of ``retries``, whether it ``expires`` some time, whether it
            ``is_expired``, and how often it was ``received``.
        dead: the ids in the dead-letter queue.
        holder: the id that was sent with the unique key last.
    """

    def __init__(self):
        super().__init__()
        self.url = f"memory://limits{next(_numbers)}"
        self.raw = memory.client(self.url)
        self.rsmq = RSMQ.from_url(self.url)
        for name in ("q", "dead", "other"):
            self.rsmq.create_queue(name)
        self.rsmq.set_dead_letter_policy("q", "dead", LIMIT)
        self.messages, self.dead, self.holder, self.drops = {}, set(), None, True

    def teardown(self):
        self.rsmq.close()

    def is_dead(self, id):
        message = self.messages[id]
        limit = LIMIT if message["retries"] is None else message["retries"] + 1
        return message["received"] >= limit

    def is_deliverable(self, id):
        return not self.is_dead(id) and not self.messages[id]["is_expired"]

    @rule(
        number=st.integers(1, 3),
        retries=st.sampled_from([None, None, 0, 1, 3]),
        expires=st.booleans(),
        key=st.booleans(),
        replace=st.booleans(),
    )
    def send(self, number, retries, expires, key, replace):
        keys = [None] * (number - 1) + ["k" if key else None]
        records = self.raw.hlen("rsmq:q:x:limits")
        ids = self.rsmq.send_messages(
            "q", ["m"] * number, unique_keys=keys, replace=replace,
            max_retries=retries, expires=9999 if expires else None,
        )  # fmt: skip
        holder = self.messages.get(self.holder)
        is_kept = key and holder is not None and not (replace and holder["received"])
        for id in ids:
            is_new = id not in self.messages
            assert is_new != (is_kept and id == ids[-1])
            if is_new or replace:
                limits = {"retries": retries, "expires": expires, "is_expired": False}
                self.messages[id] = {**limits, "received": 0}
        if key:
            assert not is_kept or ids[-1] == self.holder
            self.holder = ids[-1]
        if (retries is not None or expires) and records <= 2 * number + 10:  # it reads all of them
            assert {id.decode() for id in self.raw.hkeys("rsmq:q:x:limits")} <= self.messages.keys()

    @rule(retries=st.sampled_from([None, 0]), expires=st.booleans(), replace=st.booleans())
    def send_with_the_key(self, retries, expires, replace):
        self.send(1, retries, expires, key=True, replace=replace)

    @has_messages
    @rule(data=st.data())
    def let_expire(self, data):
        id = data.draw(HAVING)
        message = self.messages[id]
        if message["expires"]:
            retries = "" if message["retries"] is None else message["retries"]
            self.raw.hset("rsmq:q:x:limits", id, f"{retries}:1")
            message["is_expired"] = True

    def remove(self, ids):
        """Note that a call has removed these messages, which were not to be delivered."""
        for id in ids:
            is_kept = self.is_dead(id) or not self.drops
            assert not self.is_deliverable(id)
            assert (self.raw.zscore("rsmq:dead", id) is not None) == is_kept
            self.dead |= {id} if is_kept else set()
            del self.messages[id]

    @rule(how=st.sampled_from(["receive", "receive many", "pop", "pop many"]))
    def receive(self, how):
        if how.endswith("many"):
            call = self.rsmq.pop_messages if "pop" in how else self.rsmq.receive_messages
            received = next(iter(call("q", 1, **({} if "pop" in how else {"vt": 0}))), None)
        elif how == "pop":
            received = self.rsmq.pop_message("q")
        else:
            received = self.rsmq.receive_message("q", vt=0)
        left = {id.decode() for id in self.raw.zrange("rsmq:q", 0, -1)}
        popped = {received.id} if received is not None and "pop" in how else set()
        self.remove(self.messages.keys() - left - popped)
        if received is None:
            assert not self.messages
            return
        assert self.is_deliverable(received.id)
        self.messages[received.id]["received"] += 1
        for id in popped:
            del self.messages[id]

    @rule()
    def sweep_dead_letters(self):
        ids = {id for id in self.messages if self.is_dead(id)}
        assert set(self.rsmq.sweep_dead_letters("q")) == ids
        self.remove(ids)

    @rule()
    def sweep_expired(self):
        ids = {
            id for id in self.messages if not self.is_dead(id) and self.messages[id]["is_expired"]
        }
        assert set(self.rsmq.sweep_expired("q")) == ids
        self.remove(ids)

    @rule(drops=st.booleans())
    def choose_what_happens_to_expired_messages(self, drops):
        self.rsmq.set_queue_attributes("q", expired="drop" if drops else "dead-letter")
        self.drops = drops

    @has_messages
    @rule(data=st.data())
    def receive_by_node(self, data):
        id = data.draw(HAVING)
        self.raw.hincrby("rsmq:q:Q", f"{id}:rc", 1)
        self.raw.hsetnx("rsmq:q:Q", f"{id}:fr", 1)
        self.messages[id]["received"] += 1

    @has_messages
    @rule(data=st.data(), by_node=st.booleans())
    def delete(self, data, by_node):
        id = data.draw(HAVING)
        if by_node:
            self.raw.zrem("rsmq:q", id)
            self.raw.hdel("rsmq:q:Q", id, f"{id}:rc", f"{id}:fr")
        else:
            assert self.rsmq.delete_message("q", id)
        del self.messages[id]

    @has_messages
    @rule(data=st.data())
    def move_away_and_back(self, data):
        id = data.draw(HAVING)
        assert self.rsmq.move_messages("q", "other", [id]) == [id]
        assert self.rsmq.move_messages("other", "q", [id]) == [id]
        self.messages[id] |= PLAIN

    @precondition(lambda self: self.dead)
    @rule(data=st.data(), moves=st.booleans())
    def return_dead_letter(self, data, moves):
        id = data.draw(st.sampled_from(sorted(self.dead)))
        received = int(self.raw.hget("rsmq:dead:Q", f"{id}:rc") or 0)
        if moves:
            assert self.rsmq.move_messages("dead", "q", [id]) == [id]
            self.messages[id] = {**PLAIN, "received": received}
        else:
            ((old, new),) = self.rsmq.redrive_messages("dead", "q", ids=[id])
            assert old == id
            self.messages[new] = {**PLAIN, "received": 0}
        self.dead.remove(id)

    @rule(by_node=st.booleans())
    def empty(self, by_node):
        if by_node:
            self.raw.delete("rsmq:q", "rsmq:q:Q")
            self.raw.srem("rsmq:QUEUES", "q")
            self.rsmq.create_queue("q")
            self.rsmq.set_dead_letter_policy("q", "dead", LIMIT)
            self.drops = True
        else:
            self.rsmq.purge_queue("q")
            self.holder = None
        self.messages = {}

    @invariant()
    def messages_and_limits_match_the_model(self):
        assert {id.decode() for id in self.raw.zrange("rsmq:q", 0, -1)} == self.messages.keys()
        assert {id.decode() for id in self.raw.zrange("rsmq:dead", 0, -1)} == self.dead
        # Without the mark nothing reads records: they are those of an earlier queue with this name,
        # and the send that sets the mark removes all of them first.
        mark = self.raw.hget("rsmq:q:Q", "x:limited")
        found = self.raw.hgetall("rsmq:q:x:limits") if mark else {}
        for id, message in self.messages.items():
            retries, _, ends = found.get(id.encode(), b":").decode().partition(":")
            assert retries == ("" if message["retries"] is None else str(message["retries"]))
            assert bool(ends) == message["expires"]
        limited = any(m["retries"] is not None or m["expires"] for m in self.messages.values())
        assert not limited or mark == b"1"


def test_a_dead_letter_that_returns_to_a_new_queue_does_not_have_its_old_expiry_again():
    machine = LimitsMachine()
    raw, rsmq = machine.raw, machine.rsmq
    machine.choose_what_happens_to_expired_messages(drops=False)
    id = rsmq.send_message("q", "m", expires=600)
    raw.hset("rsmq:q:x:limits", id, ":1")
    assert rsmq.sweep_expired("q") == [id]
    machine.empty(by_node=True)
    assert rsmq.move_messages("dead", "q", [id]) == [id]
    assert raw.hgetall("rsmq:q:x:limits") == {id.encode(): b":1"}  # of the earlier queue

    other = rsmq.send_message("q", "n", expires=600)
    assert raw.hkeys("rsmq:q:x:limits") == [other.encode()]
    assert rsmq.sweep_expired("q") == []
    machine.teardown()


def test_limits_of_messages_behave_like_the_model():
    run_state_machine_as_test(
        LimitsMachine,
        settings=settings(
            max_examples=scaled(30, 5000),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
