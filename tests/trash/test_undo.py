"""Deletions that can be undone: the raw keys before, in between and afterwards."""

from __future__ import annotations

import itertools
import json
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq import RSMQ
from rsmq.doctor import examine
from rsmq.errors import InvalidFormat, NotPossible, QueueNotFound
from rsmq.trash import operations
from rsmq.trash.deletion import DeletionState, make_deletion_id
from rsmq.trash.operations import delete_step

_numbers = itertools.count()
_TOTALS = {b"totalsent", b"totalrecv", b"modified"}


class Keys:
    """The raw keys of a namespace."""

    def __init__(self, raw, ns):
        self.raw, self.ns = raw, ns

    def names(self):
        return {
            key.decode().removeprefix(f"{self.ns}:")
            for key in self.raw.keys(f"{self.ns}:*")
            if b":x:trash" not in key
        }

    def dump(self):
        """Return each key as Redis stores it, and whether it expires."""
        return {
            name: (self.raw.dump(f"{self.ns}:{name}"), self.expiry(name) != -1)
            for name in sorted(self.names())
        }

    def expiry(self, name):
        """Return when a key expires, Unix ms."""
        return self.raw.pexpiretime(f"{self.ns}:{name}")

    def values(self, queue="q"):
        """Return the hash and the sorted set of a queue, and the hashes of its extension data."""
        values = {"zset": self.raw.zrange(f"{self.ns}:{queue}", 0, -1, withscores=True)}
        for name in self.names():
            if name == f"{queue}:Q" or name.startswith(f"{queue}:x:"):
                values[name] = self.raw.hgetall(f"{self.ns}:{name}")
        return values

    def trash(self):
        return sorted(key.decode() for key in self.raw.keys(f"{self.ns}:x:trash*"))


@pytest.fixture
def keys(raw, ns):
    return Keys(raw, ns)


def fill(rsmq, queue="q"):
    """Add messages in all states, with everything that can be stored beside them."""
    rsmq.create_queue(queue, vt=60, exist_ok=True)
    rsmq.create_queue("dead", exist_ok=True)
    rsmq.set_dead_letter_policy(queue, "dead", 5)
    rsmq.send_message(queue, "plain")
    rsmq.send_message(queue, "late", delay=900)
    rsmq.send_message(queue, "once", dedup_id="d1")
    rsmq.send_message(queue, "alone", unique_key="u1")
    rsmq.send_message(queue, "short", expires=500, max_retries=2)
    rsmq.send_message(queue, "job", track=True)
    held = rsmq.receive_message(queue)
    rsmq.receive_message(queue)
    return held


def test_an_undone_purge_leaves_each_key_as_it_was_byte_for_byte(rsmq, keys):
    fill(rsmq)
    before, expiry = keys.dump(), keys.expiry("q:x:dedup")
    purged = rsmq.trash.purge_queue("q", by="ann")
    between = keys.names()

    assert rsmq.trash.undo(purged.id).messages == purged.messages == 6
    assert keys.dump() == before
    assert abs(keys.expiry("q:x:dedup") - expiry) < 60_000  # the time of a busy script
    assert {"q", "q:x:limits", "q:x:unique", "q:x:dedup"} & between == set()
    assert keys.trash() == [f"{rsmq.namespace.name}:x:trash"]


def test_a_purge_with_undo_leaves_what_a_purge_leaves(rsmq, keys):
    fill(rsmq, "q")
    fill(rsmq, "other")
    rsmq.pause_queue("q"), rsmq.pause_queue("other")
    rsmq.purge_queue("other")
    rsmq.trash.purge_queue("q")
    of_q, of_other = keys.values("q"), keys.values("other")
    for values, name in ((of_q, "q:Q"), (of_other, "other:Q")):
        for field in (b"created", b"modified", b"x:paused"):
            values[name].pop(field)

    assert {k.removeprefix("q"): v for k, v in of_q.items() if "job" not in k} == {
        k.removeprefix("other"): v for k, v in of_other.items() if "job" not in k
    }


def test_what_has_come_since_a_purge_stays_and_its_attributes_and_totals_count(rsmq, keys):
    fill(rsmq)
    rsmq.pause_queue("q")
    before = keys.values()
    purged = rsmq.trash.purge_queue("q")
    rsmq.resume_queue("q")
    rsmq.set_queue_attributes("q", vt=7)
    id = rsmq.send_message("q", "new", unique_key="u2", expires=500)
    taken = rsmq.send_message("q", "has taken the key", unique_key="u1")
    rsmq.receive_message("q")
    since = keys.values()

    restored = rsmq.trash.undo(purged.id)
    after = keys.values()

    assert (restored.messages, restored.in_queue) == (6, 0)
    assert sorted(after["zset"]) == sorted(before["zset"] + since["zset"])
    hash = {**before["q:Q"], **since["q:Q"]}
    del hash[b"x:paused"]
    assert after["q:Q"] == hash
    assert after["q:Q"][b"vt"] == b"7"
    assert after["q:x:limits"] == {**before["q:x:limits"], **since["q:x:limits"]}
    assert after["q:x:unique"] == {b"u1": taken.encode(), b"u2": id.encode()}
    assert after["q:x:dedup"] == before["q:x:dedup"]


@pytest.mark.parametrize("small", [0, 10_000])
def test_an_undo_in_steps_restores_what_one_at_once_restores(rsmq, keys, monkeypatch, small):
    monkeypatch.setattr(operations, "STEP", 2)
    monkeypatch.setattr(operations, "_SMALL", small)
    fill(rsmq)
    before, names = keys.values(), keys.names()
    expiry = keys.expiry("q:x:dedup")
    keys.raw.hset(f"{keys.ns}:q:Q", "of another client", "kept")
    purged = rsmq.trash.purge_queue("q")

    assert rsmq.trash.undo(purged.id).messages == 6
    assert keys.values()["q:Q"].pop(b"of another client") == b"kept"
    keys.raw.hdel(f"{keys.ns}:q:Q", "of another client")
    assert (keys.values(), keys.names()) == (before, names)
    assert abs(keys.expiry("q:x:dedup") - expiry) < 60_000  # the time of a busy script
    assert keys.raw.ttl(f"{keys.ns}:q") == keys.raw.ttl(f"{keys.ns}:q:Q") == -1


def test_an_undo_that_ended_between_two_steps_is_continued(rsmq, keys, monkeypatch):
    monkeypatch.setattr(operations, "STEP", 2)
    monkeypatch.setattr(operations, "_SMALL", 0)
    fill(rsmq)
    before = keys.values()
    purged = rsmq.trash.purge_queue("q")
    steps = operations.undo(rsmq.namespace, purged)
    operation, sent = next(steps), None
    for _ in range(2):  # the attempt to do it at once, and the first step
        sent = rsmq.run(operation)
        operation = steps.send(sent)

    assert sent == (0, 2, 0)
    assert [each.state for each in rsmq.trash.list()] == [DeletionState.UNDOING]
    assert len(keys.values()["zset"]) == 2
    rsmq.trash.undo(purged.id)
    assert keys.values() == before
    assert [each.state for each in rsmq.trash.list()] == [DeletionState.UNDONE]


def test_deleted_messages_come_back_with_all_that_is_stored_of_them(rsmq, keys, monkeypatch):
    monkeypatch.setattr(operations, "STEP", 2)
    held = fill(rsmq)
    before = keys.values()
    ids = [id.decode() for id, _ in before["zset"]]
    deleted = rsmq.trash.delete_messages("q", [*ids[:4], *ids[:2], "x" * 32], by="bob")

    assert (deleted.messages, deleted.message_ids) == (4, tuple(ids[:4]))
    assert [id for id, _ in keys.values()["zset"]] == [id.encode() for id in ids[4:]]
    assert not [f for f in keys.values()["q:Q"] if f.decode().startswith(tuple(ids[:4]))]
    keys.raw.unlink(f"{keys.ns}:q:x:limits")  # sends remove records of messages that are gone
    new = rsmq.send_message("q", "new")
    assert rsmq.trash.undo(deleted.id).messages == 4
    rsmq.delete_message("q", new)
    before["q:Q"][b"totalsent"] = b"7"
    limits = keys.values().pop("q:x:limits", {})
    assert limits.items() <= before.pop("q:x:limits").items()
    after = keys.values()
    after.pop("q:x:limits", None)
    assert after == before
    assert rsmq.delete_message(held)


def test_a_deletion_of_messages_that_are_not_there_keeps_nothing(rsmq, keys):
    rsmq.create_queue("q")

    assert rsmq.trash.delete_messages("q", ["x" * 32]).id == ""
    assert keys.trash() == []


def test_a_repeated_purge_or_deletion_whose_reply_was_lost_has_the_same_answer(rsmq):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    purge = operations.purge_to_trash(rsmq.namespace, make_deletion_id(), "q", "")
    first = rsmq.run(purge)
    rsmq.send_message("q", "sent in between")

    assert rsmq.run(purge) == first
    assert rsmq.get_queue_attributes("q").messages == 1
    deletion = operations.delete_queue_to_trash(rsmq.namespace, make_deletion_id(), "q", "")
    assert rsmq.run(deletion) == rsmq.run(deletion)


def test_a_repeated_step_whose_reply_was_lost_has_the_same_answer(rsmq, keys):
    rsmq.create_queue("q")
    ids = [rsmq.send_message("q", "m") for _ in range(3)]
    id = make_deletion_id()
    step = delete_step(rsmq.namespace, id, "q", "", [(each, "0", "") for each in ids], strict=True)

    assert rsmq.run(step) == rsmq.run(step)
    assert [each.messages for each in rsmq.trash.list()] == [3]


def test_a_strict_step_changes_nothing_if_a_message_is_not_as_it_was(rsmq, keys):
    rsmq.create_queue("q")
    ids = [rsmq.send_message("q", "m") for _ in range(3)]
    rsmq.receive_message("q")
    before = keys.dump()
    rows = [(each, "0", "") for each in ids]

    assert rsmq.run(delete_step(rsmq.namespace, "i", "q", "", rows, strict=True))[1] == -1
    assert keys.dump() == before


def test_a_deleted_queue_comes_back_byte_for_byte(rsmq, keys):
    fill(rsmq)
    before = keys.dump()
    deleted = rsmq.trash.delete_queue("q")

    assert not {name for name in keys.names() if name.startswith("q:") and ":job:" not in name}
    assert rsmq.list_queues() == ["dead"]
    assert rsmq.trash.undo(deleted.id).messages == 6
    after = keys.dump()
    # A set has no order, so its bytes may have another one.
    assert {**after, "QUEUES": None} == {**before, "QUEUES": None}
    assert sorted(rsmq.list_queues()) == ["dead", "q"]
    with pytest.raises(QueueNotFound):
        rsmq.trash.delete_queue("none")


def test_an_undo_is_refused_and_changes_nothing_if_the_queue_is_another_one(rsmq, keys, raw, ns):
    fill(rsmq)
    purged = rsmq.trash.purge_queue("q")
    gone = rsmq.trash.delete_queue("q")
    before = keys.dump()
    for id, why in ((purged.id, "the queue was deleted since"), ("x", "no such deletion")):
        with pytest.raises(NotPossible, match=why):
            rsmq.trash.undo(id)
    assert keys.dump() == before

    rsmq.create_queue("q")
    raw.hset(f"{ns}:q:Q", "created", "1700000000")  # as if it had been created at another time
    before = keys.dump()
    for id, why in ((purged.id, "created again since"), (gone.id, "exists again")):
        with pytest.raises(NotPossible, match=why):
            rsmq.trash.undo(id)
    assert keys.dump() == before

    rsmq.delete_queue("q")
    rsmq.trash.undo(gone.id)
    assert rsmq.trash.undo(purged.id).messages == 6
    with pytest.raises(NotPossible, match="undone already"):
        rsmq.trash.undo(purged.id)


def test_what_the_server_has_evicted_can_not_be_undone(rsmq, keys, raw, ns):
    fill(rsmq)
    purged = rsmq.trash.purge_queue("q")
    for name in ("limits", "hash"):
        raw.unlink(f"{ns}:x:trash:{purged.id}:{name}")
        before = keys.dump()
        with pytest.raises(NotPossible, match="evicted"):
            rsmq.trash.undo(purged.id)
        assert keys.dump() == before


def test_a_message_that_came_back_by_another_way_stays_as_it_is(rsmq, keys, raw, ns, monkeypatch):
    for small in (0, 10_000):
        monkeypatch.setattr(operations, "_SMALL", small)
        name = f"q{small}"
        fill(rsmq, name)
        first = rsmq.receive_message(name)
        purged = rsmq.trash.purge_queue(name)
        raw.hset(f"{ns}:{name}:Q", first.id, "imported")
        raw.zadd(f"{ns}:{name}", {first.id: 5})
        restored = rsmq.trash.undo(purged.id)

        assert (restored.messages, restored.in_queue) == (5, 1)
        assert raw.hget(f"{ns}:{name}:Q", first.id) == b"imported"
        assert raw.hexists(f"{ns}:{name}:Q", f"{first.id}:rc") is False
        assert raw.zscore(f"{ns}:{name}", first.id) == 5


def test_the_trash_ends_by_itself_and_is_emptied_without_blocking(rsmq, keys, raw, ns):
    fill(rsmq)
    purged = rsmq.trash.purge_queue("q")

    assert len(keys.trash()) > 3
    assert all(0 < raw.ttl(key) <= 660 for key in keys.trash())
    state, kind, ms, rest = raw.hget(f"{ns}:x:trash", purged.id).split(b" ", 3)
    over = b"%d" % (int(ms) - 600_000)
    raw.hset(f"{ns}:x:trash", purged.id, b" ".join((state, kind, over, rest)))
    assert rsmq.trash.list() == []
    with pytest.raises(NotPossible, match="no such deletion"):
        rsmq.trash.undo(purged.id)
    assert rsmq.trash.empty() == 0
    assert keys.trash() == []


def test_the_list_says_what_can_be_undone_by_whom_and_until_when(rsmq):
    fill(rsmq)
    rsmq.trash.delete_messages("q", [rsmq.send_message("q", "m")], by="bob")
    rsmq.trash.purge_queue("q", by="ann ü")
    found = rsmq.trash.list()

    assert sorted((each.kind, each.queue, each.by, each.messages) for each in found) == [
        ("delete-messages", "q", "bob", 1),
        ("purge", "q", "ann ü", 6),
    ]
    assert all(each.until_ms - each.deleted_ms == 600_000 for each in found)
    with pytest.raises(InvalidFormat, match="at most 160 characters"):
        rsmq.trash.purge_queue("q", by="x" * 161)


def test_it_is_off_while_memory_is_short_and_nothing_is_deleted(rsmq, keys, raw):
    fill(rsmq)
    before = keys.dump()
    used = raw.info("memory")["used_memory"]
    raw.config_set("maxmemory", int(used / 0.85))
    try:
        assert "80 %" in rsmq.trash.why_off()
        for call in (
            lambda: rsmq.trash.purge_queue("q"),
            lambda: rsmq.trash.delete_queue("q"),
            lambda: rsmq.trash.delete_messages("q", [m.id for m in rsmq.peek_messages("q")]),
        ):
            with pytest.raises(NotPossible, match="80 % of the server"):
                call()
    finally:
        raw.config_set("maxmemory", 0)
    assert rsmq.trash.why_off() is None
    assert keys.dump() == before


def test_it_is_off_for_a_user_that_may_not_rename_and_without_a_limit(rsmq, server, raw, ns):
    fill(rsmq)
    raw.execute_command("ACL", "SETUSER", ns, "on", ">p", f"~{ns}:*", "&*", "+@all", "-renamenx")
    url = f"redis://{ns}:p@127.0.0.1:{server.port}/0"
    with (
        RSMQ.from_url(url, ns=ns) as limited,
        pytest.raises(NotPossible, match="may not rename"),
    ):
        limited.trash.purge_queue("q")
    raw.execute_command("ACL", "DELUSER", ns)
    kept = json.dumps({"queue": "q", "by": ""})
    now = raw.time()[0] * 1000
    raw.hset(f"{ns}:x:trash", mapping={str(n): f"kept purge {now} 0 - {kept}" for n in range(1000)})
    assert rsmq.trash.why_off() == "1,000 deletions are kept"
    with pytest.raises(NotPossible, match="1,000 deletions"):
        rsmq.trash.purge_queue("q")


def test_what_is_kept_is_no_queue_for_others(rsmq, keys):
    fill(rsmq)
    rsmq.trash.purge_queue("q")
    fill(rsmq, "gone")
    rsmq.trash.delete_queue("gone")

    assert sorted(rsmq.list_queues()) == ["dead", "q"]
    assert [each.text for each in examine(rsmq).findings if "trash" in str(each)] == []


_ACTIONS = ("send", "receive", "delete", "hide", "purge", "remove", "undo", "pause", "limit")


@given(
    st.lists(st.tuples(st.sampled_from(_ACTIONS), st.integers(0, 99)), max_size=40), st.booleans()
)
@settings(max_examples=60)
def test_after_random_traffic_each_message_is_there_that_nobody_deleted_for_good(actions, at_once):
    small, step = (1000, 250) if at_once else (0, 3)
    with (
        patch.object(operations, "_SMALL", small),
        patch.object(operations, "STEP", step),
        RSMQ.from_url(f"memory://trash{next(_numbers)}") as rsmq,
    ):
        Model(rsmq).run(actions)


class Model:
    """
    What a queue must have.

    Attributes:
        there: the body and the receive count of each message.
        kept: the same for each deletion.
        attributes: those that were set.
    """

    def __init__(self, rsmq):
        self.rsmq = rsmq
        self.there, self.kept, self.attributes = {}, {}, {}
        rsmq.create_queue("q", vt=0)

    def run(self, actions):
        for action, number in actions:
            if action in {"delete", "hide", "remove"} and not self.there:
                continue
            getattr(self, action)(number)
            found = self.rsmq.peek_messages("q", count=1000)
            assert {m.id: (m.body, m.receive_count) for m in found} == self.there
        attributes = self.rsmq.get_queue_attributes("q")
        for name, value in self.attributes.items():
            assert getattr(attributes, name) == value

    def one(self, number):
        return sorted(self.there)[number % len(self.there)]

    def send(self, number):
        id = self.rsmq.send_message("q", f"m{number}", delay=number % 3 * 100)
        self.there[id] = (f"m{number}", 0)

    def receive(self, number):
        message = self.rsmq.receive_message("q", vt=number % 2 * 9)
        if message:
            body, count = self.there[message.id]
            self.there[message.id] = (body, count + 1)
            assert (message.body, message.receive_count) == self.there[message.id]

    def delete(self, number):
        id = self.one(number)
        self.rsmq.delete_message("q", id)
        del self.there[id]

    def hide(self, number):
        self.rsmq.change_message_visibility("q", self.one(number), number)

    def purge(self, _):
        self.kept[self.rsmq.trash.purge_queue("q").id] = self.there
        self.there = {}

    def remove(self, number):
        chosen = sorted(self.there)[: number % 5 + 1]
        deletion = self.rsmq.trash.delete_messages("q", chosen)
        self.kept[deletion.id] = {id: self.there.pop(id) for id in chosen}

    def undo(self, number):
        if self.kept:
            id = sorted(self.kept)[number % len(self.kept)]
            self.rsmq.trash.undo(id)
            self.there |= self.kept.pop(id)

    def pause(self, number):
        (self.rsmq.pause_queue if number % 2 else self.rsmq.resume_queue)("q")
        self.attributes["paused"] = bool(number % 2)

    def limit(self, number):
        self.rsmq.set_queue_attributes("q", maxsize=2000 + number)
        self.attributes["maxsize"] = 2000 + number


def fill_groups(rsmq):
    """Add messages of two groups: of each one is due, and the first one of a was received."""
    rsmq.create_queue("q", vt=60)
    return rsmq.send_messages("q", list("wxyz"), groups=["a", "a", "b", "a"]), rsmq.receive_message(
        "q"
    )


def groups_of(keys, queue="q"):
    """Return the ids that are due, in flight or delayed, and those that are held back."""
    lists = {}
    for name in ("admitted", "held_back"):
        members = keys.raw.zrange(f"{keys.ns}:{queue}:x:{name}", 0, -1)
        lists[name] = [member.decode().split("\0") for member in members]
    return lists["admitted"], lists["held_back"]


def test_an_undone_purge_has_the_groups_as_they_were(rsmq, keys):
    fill_groups(rsmq)
    before = keys.dump()
    purged = rsmq.trash.purge_queue("q")

    assert keys.names() == {"QUEUES", "q:Q"}
    assert rsmq.trash.undo(purged.id).messages == 4
    assert keys.dump() == before
    deleted = rsmq.trash.delete_queue("q")
    rsmq.trash.undo(deleted.id)
    assert keys.dump() == before


@pytest.mark.parametrize("small", [0, 10_000])
def test_groups_that_have_come_since_a_purge_are_kept_with_those_of_before(
    rsmq, keys, monkeypatch, small
):
    monkeypatch.setattr(operations, "STEP", 2)
    monkeypatch.setattr(operations, "_SMALL", small)
    (a1, a2, b1, a3), held = fill_groups(rsmq)
    scores = dict(keys.raw.zrange(f"{keys.ns}:q", 0, -1, withscores=True))
    records = keys.raw.hgetall(f"{keys.ns}:q:x:group_of")
    purged = rsmq.trash.purge_queue("q")
    new = rsmq.send_message("q", "new", group="c")

    assert rsmq.trash.undo(purged.id).messages == 4
    admitted, held_back = groups_of(keys)
    assert admitted == [["a", a1], ["b", b1], ["c", new]]
    assert held_back == [["a", a2], ["a", a3]]
    after = keys.raw.hgetall(f"{keys.ns}:q:x:group_of")
    assert {id: after[id] for id in records if id != a1.encode()} == {
        id: record for id, record in records.items() if id != a1.encode()
    }
    for id in (a1, b1):
        assert keys.raw.zscore(f"{keys.ns}:q", id) == scores[id.encode()]
    assert rsmq.delete_message(held)
    assert {each.id for each in rsmq.receive_messages("q", 9)} == {a2, b1, new}
    assert keys.trash() == [f"{rsmq.namespace.name}:x:trash"]


@pytest.mark.parametrize("small", [0, 10_000])
@pytest.mark.parametrize("limits_first", [True, False])
def test_limits_and_receives_of_several_of_a_group_count_whichever_came_since_a_purge(
    rsmq, keys, monkeypatch, small, limits_first
):
    monkeypatch.setattr(operations, "_SMALL", small)
    rsmq.create_queue("q", vt=60)

    def use(limits):
        if limits:
            rsmq.send_message("q", "m", max_retries=2)
        else:
            rsmq.send_messages("q", ["1", "2"], groups=["a", "a"])
            assert len(rsmq.receive_messages("q", 9, extend_groups=True)) == 2

    use(limits_first)
    purged = rsmq.trash.purge_queue("q")
    use(not limits_first)
    rsmq.trash.undo(purged.id)

    assert keys.raw.hget(f"{keys.ns}:q:Q", "x:limited") == b"3"


@pytest.mark.parametrize("small", [0, 10_000])
def test_the_turns_of_rates_and_what_limits_have_used_come_back(rsmq, keys, monkeypatch, small):
    monkeypatch.setattr(operations, "STEP", 2)
    monkeypatch.setattr(operations, "_SMALL", small)
    rsmq.create_queue("q", vt=60)
    rsmq.set_queue_limits("q", max_running=2)
    turns = {"limit_keys": ["a", "b", "a"], "rate": "1/h"}
    ids = rsmq.send_messages("q", list("xyz"), **turns)
    received = rsmq.receive_message("q")
    scores = dict(keys.raw.zrange(f"{keys.ns}:q", 0, -1, withscores=True))
    purged = rsmq.trash.purge_queue("q")
    rsmq.send_messages("q", list("ac"), limit_keys=["a", "c"], rate="1/h")
    rates = f"{keys.ns}:q:x:rates"
    of_c = keys.raw.zscore(rates, b"\x01:c")

    assert rsmq.trash.undo(purged.id).messages == 3
    hour = 3_600_000
    assert keys.raw.zscore(rates, b"\x01:a") == (scores[ids[2].encode()] + hour) * 1000
    assert keys.raw.zscore(rates, b"\x01:c") == of_c
    running = dict(keys.raw.zrange(f"{keys.ns}:q:x:running", 0, -1, withscores=True))
    assert running[received.id.encode()] == 1
    assert len(rsmq.receive_messages("q", 9)) == 1
    assert keys.trash() == [f"{rsmq.namespace.name}:x:trash"]


def test_deleted_messages_come_back_to_their_groups_in_their_order(rsmq, keys):
    (a1, a2, b1, a3), held = fill_groups(rsmq)
    deleted = rsmq.trash.delete_messages("q", [a1, a2, b1])
    due = keys.raw.zscore(f"{keys.ns}:q", a3)

    assert groups_of(keys) == ([["a", a3]], [])
    assert due < int(keys.raw.time()[0] + 1) * 1000
    assert rsmq.trash.undo(deleted.id).messages == 3
    # The first one is in flight, and the last one has been admitted meanwhile.
    assert groups_of(keys) == ([["a", a1], ["a", a3], ["b", b1]], [["a", a2]])
    assert rsmq.delete_message(held)
    assert rsmq.delete_message("q", a3)
    assert groups_of(keys) == ([["a", a2], ["b", b1]], [])
    scores = keys.raw.zrange(f"{keys.ns}:q", 0, -1, withscores=True)
    assert all(score < int(keys.raw.time()[0] + 1) * 1000 for _, score in scores)
