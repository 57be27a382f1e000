"""
Random sends with unique keys, and what others do to their messages, compared with a short model.

The other calls are those of this library, or the commands of Node's client on the raw keys.
"""

from __future__ import annotations

import itertools

import pytest
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
from tests.scale import scaled

pytestmark = pytest.mark.slow

_numbers = itertools.count()

# The times are so far apart that the duration of the test cannot matter.
TIMES = st.sampled_from([{}, {"delay": 0}, {"delay": 100}, {"delay": 200}, {"front": True}])
# Fewer than a send reads: so it removes all keys that are free.
KEYS = st.sampled_from([None, "a", "b", "c"])
NAMES = st.sampled_from([None, None, None, "d", "e"])


class UniqueMachine(RuleBasedStateMachine):
    """
    The calls. The test supplies ``server``.

    Attributes:
        messages: the ``body``, the ``score`` and whether it was ``received``, by id.
        ghosts: ids without a body.
        keys, names: message ids by unique_key and by dedup_id, as stored.
        moved: messages in the dead-letter queue, as in ``messages``.
    """

    server = None

    def __init__(self):
        super().__init__()
        self.ns = f"u{next(_numbers)}"
        self.raw = self.server.raw()
        self.rsmq = RSMQ.from_url(self.server.url, ns=self.ns)
        self.bodies = map(str, itertools.count())
        self.messages, self.ghosts, self.keys, self.names, self.moved = {}, set(), {}, {}, {}
        self.sent = 0
        self.rsmq.create_queue("q")
        self.rsmq.create_queue("dead")
        self.created = int(self.raw.hget(f"{self.ns}:q:Q", "created"))

    def teardown(self):
        self.rsmq.close()
        self.raw.close()

    def now(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def stored_score(self, id):
        return self.raw.zscore(f"{self.ns}:q", id)

    @rule(
        labels=st.lists(st.tuples(KEYS, NAMES), min_size=1, max_size=4),
        replace=st.booleans(),
        when=TIMES,
        max_wait=st.sampled_from([None, 0, 50]),
    )
    def send(self, labels, replace, when, max_wait):
        options = {**when, "replace": replace}
        if max_wait is not None and replace and "delay" in when:
            options["max_wait"] = when["delay"] + max_wait
        first = min((each["score"] for each in self.messages.values()), default=None)
        new_bodies = [next(self.bodies) for _ in labels]
        before = self.now()
        ids = self.rsmq.send_messages(
            "q", new_bodies, unique_keys=[key for key, _ in labels],
            dedup_ids=[name for _, name in labels], **options,
        )  # fmt: skip
        after = self.now()

        expected = self.names.copy(), {}
        new = set()
        for (key, name), body, id in zip(labels, new_bodies, ids, strict=True):
            names, keyed = expected
            if name in names:
                assert id == names[name]
                continue
            holder = keyed.get(key) or self.keys.get(key)
            if holder in self.messages and not (replace and self.messages[holder]["received"]):
                assert id == holder
                if replace:
                    self.messages[id]["body"] = body
                    if when and id not in new:
                        self.check_new_score(id, options, before, after, first)
            else:
                assert id not in self.messages | self.moved
                new.add(id)
                self.sent += 1
                self.messages[id] = {"body": body, "score": after + 10**9, "received": False}
                self.check_new_score(id, options | {"max_wait": None}, before, after, first)
            if name is not None:
                names[name] = id
            if key is not None:
                keyed[key] = id
        self.names = names
        if keyed:
            in_queue = self.messages.keys() | self.ghosts
            self.keys = {key: id for key, id in self.keys.items() if id in in_queue} | keyed

    def check_new_score(self, id, options, before, after, first):
        """Check the score of a message that was sent or replaced, and store it in the model."""
        message, score = self.messages[id], self.stored_score(id)
        if options.get("front"):
            assert score <= after
            assert first is None or score < first
        else:
            low, high = (each + options.get("delay", 0) * 1000 for each in (before, after))
            if options.get("max_wait") is not None:
                latest = int(id[:10], 36) // 1000 + options["max_wait"] * 1000
                low, high = min(low, latest), min(high, latest)
            if high <= after and message["score"] <= before:
                assert score == message["score"]
            else:
                assert low <= score <= high
        message["score"] = score

    @rule(vt=st.sampled_from([0, 100]), seconds=st.sampled_from([0, 0, 250]))
    def receive(self, vt, seconds):
        for id in [*self.messages, *self.ghosts]:
            self.raw.zincrby(f"{self.ns}:q", -seconds * 1000, id)
        for message in self.messages.values():
            message["score"] -= seconds * 1000
        received = self.rsmq.receive_message("q", vt=vt)
        if received is not None:
            assert received.body == self.messages[received.id]["body"]
            score = self.stored_score(received.id)
            self.messages[received.id] |= {"received": True, "score": score}

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), how=st.sampled_from(["node", "ghost", "orphan", "dead letter"]))
    def remove(self, data, how):
        id = data.draw(st.sampled_from(sorted(self.messages)))
        message = self.messages.pop(id)
        if how == "dead letter":
            assert self.rsmq.move_messages("q", "dead", [id]) == [id]
            self.moved[id] = message
            return
        if how != "ghost":
            self.raw.zrem(f"{self.ns}:q", id)
        if how != "orphan":
            self.raw.hdel(f"{self.ns}:q:Q", id, f"{id}:rc", f"{id}:fr")
        if how == "ghost":
            # Due later, or a receive would remove it after ten seconds.
            self.raw.zadd(f"{self.ns}:q", {id: 10**15})
            self.ghosts.add(id)

    @precondition(lambda self: self.moved)
    @rule(data=st.data())
    def move_back(self, data):
        id = data.draw(st.sampled_from(sorted(self.moved)))
        assert self.rsmq.move_messages("dead", "q", [id]) == [id]
        self.messages[id] = self.moved.pop(id) | {"score": self.stored_score(id)}
        self.sent += 1

    @rule(by=st.sampled_from(["node", "purge"]))
    def empty(self, by):
        if by == "purge":
            self.rsmq.purge_queue("q")
            self.keys, self.names = {}, {}
        else:
            self.raw.delete(f"{self.ns}:q", f"{self.ns}:q:Q")
            self.raw.srem(f"{self.ns}:QUEUES", "q")
            self.rsmq.create_queue("q")
            self.created -= 1  # another second than those of all queues before
            self.raw.hset(f"{self.ns}:q:Q", "created", self.created)
            self.names, self.sent = {}, 0
        self.messages, self.ghosts = {}, set()

    @invariant()
    def all_keys_match_the_model(self):
        scores = self.raw.zrange(f"{self.ns}:q", 0, -1, withscores=True)
        assert {id.decode(): score for id, score in scores if id.decode() not in self.ghosts} == {
            id: message["score"] for id, message in self.messages.items()
        }
        fields = self.raw.hgetall(f"{self.ns}:q:Q")
        for id, message in self.messages.items():
            assert fields[id.encode()].decode() == message["body"]
            assert (f"{id}:rc".encode() in fields) == message["received"]
        assert int(fields.get(b"totalsent", 0)) == self.sent
        stored = self.raw.hgetall(f"{self.ns}:q:x:unique")
        assert {key.decode(): id.decode() for key, id in stored.items()} == self.keys


def test_unique_keys_behave_like_the_model(server):
    machine = type("Machine", (UniqueMachine,), {"server": server})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=scaled(30, 5000),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
