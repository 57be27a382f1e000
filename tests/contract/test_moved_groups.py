"""Messages of groups that leave their queue for another one: groups and times on raw keys."""

from __future__ import annotations

import pytest

from rsmq.operations.restore import RestoredMessage, restore_messages
from rsmq.wire.ids import is_redriven
from rsmq.wire.keys import Namespace
from tests.contract.test_groups import delete_as_node, held_back, records_of, send, send_batch


def members_of(env, queue):
    """Return the groups and ids of the messages that are admitted, and of those held back."""
    return [[tuple(each.split("\0")) for each in part] for part in records_of(env, queue)[:2]]


@pytest.fixture
def dead(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    return "dead"


def let_die(env, queue):
    """Receive a message, let its time end, and let it become a dead letter."""
    message = env.rsmq.receive_message(queue, vt=0)
    assert env.rsmq.sweep_dead_letters(queue) == [message.id]
    return message.id


def test_dead_letters_are_due_and_have_their_groups_again_after_a_redrive(env, queue, dead):
    a1, a2, a3 = send_batch(env, queue, ["a", "a", "a"])
    records = records_of(env, queue)[2]
    assert [let_die(env, queue) for _ in range(2)] == [a1, a2]

    assert held_back(env, dead) == []
    assert records_of(env, dead) == ([], [], {id: records[id] for id in (a1, a2)})
    assert "x:groups" not in env.fields(dead)
    assert members_of(env, queue) == [[("a", a3)], []]
    pairs = env.rsmq.redrive_messages(dead)
    assert [old for old, _ in pairs] == [a1, a2]
    new = [new for _, new in pairs]
    assert all(id.endswith("Gr") and is_redriven(id) for id in new)
    assert members_of(env, queue) == [[("a", a3)], [("a", id) for id in sorted(new)]]
    assert sorted(held_back(env, queue)) == sorted(new)
    assert records_of(env, dead) == ([], [], {})
    assert env.rsmq.pop_message(queue).id == a3
    assert [env.rsmq.pop_message(queue).id for _ in range(2)] == new


def test_the_first_redriven_message_of_a_group_is_due_and_keeps_its_group(env, queue, dead):
    ids = send_batch(env, queue, ["a", None, "b"])
    for _ in ids:
        let_die(env, queue)
    pairs = dict(env.rsmq.redrive_messages(dead, ids=ids))

    assert members_of(env, queue) == [[("a", pairs[ids[0]]), ("b", pairs[ids[2]])], []]
    assert held_back(env, queue) == []
    assert env.fields(queue)["x:groups"] == "1"


def test_records_of_moved_messages_that_node_has_deleted_remain_few(env, queue):
    env.rsmq.create_queue("to")
    for id in send_batch(env, queue, [f"g{number}" for number in range(150)]):
        assert env.rsmq.move_messages(queue, "to", [id]) == [id]
        delete_as_node(env, "to", id)

    admitted, held, groups = records_of(env, "to")
    assert {each.partition("\0")[2] for each in admitted} == groups.keys()
    assert len(admitted) < 10
    assert held == []


def test_records_of_restored_messages_that_node_has_deleted_remain_few(env, queue):
    """As an import or a migration restores them."""
    keys = Namespace(env.ns).queue(queue)
    env.rsmq.create_queue("other")
    for number in range(150):
        [id] = send(env, "other", f"g{number}")
        message = RestoredMessage(id, b"m", None, 0, None, {"group_of": b"g%d" % number})
        assert env.rsmq.run(restore_messages(keys, [message], largest=1, realtime=False)) == 1
        delete_as_node(env, queue, id)

    admitted, held, groups = records_of(env, queue)
    assert {each.partition("\0")[2] for each in admitted} == groups.keys()
    assert len(admitted) < 10
    assert held == []


def test_records_of_dead_letters_that_are_gone_are_removed_by_the_next_ones(env, queue, dead):
    ids = send_batch(env, queue, ["a"] * 6)
    env.raw.hset(f"{env.ns}:dead:x:group_of", mapping={f"gone-{n}": "1:a" for n in range(4)})
    for _ in ids:
        let_die(env, queue)

    assert records_of(env, dead)[2].keys() >= set(ids)
    assert len(records_of(env, dead)[2]) < len(ids) + 4


def test_messages_that_are_moved_are_in_their_groups_in_the_other_queue(env, queue):
    env.rsmq.create_queue("other")
    a1, a2, b1, a3 = send(env, queue, "a", "a", "b", "a")
    records = records_of(env, queue)[2]
    (earlier,) = send(env, "other", "b")
    received = env.rsmq.receive_message(queue)

    assert env.rsmq.move_messages(queue, "other", [a3, b1, a2]) == [a3, b1, a2]
    assert members_of(env, "other") == [[("a", a2), ("b", earlier)], [("a", a3), ("b", b1)]]
    assert sorted(held_back(env, "other")) == sorted([a3, b1])
    stored = records_of(env, "other")[2]
    assert [stored[id] for id in (a2, a3, b1)] == [records[id] for id in (a2, a3, b1)]
    assert env.scores("other")[a2] == int(records[a2].partition(":")[0])
    assert members_of(env, queue) == [[("a", a1)], []]
    assert env.rsmq.move_messages([received], "other") == [a1]
    # It was received, so it may still run: it has a place beside the one that was admitted.
    assert members_of(env, "other")[0] == [("a", a1), ("a", a2), ("b", earlier)]
    assert records_of(env, queue) == ([], [], {})
    assert env.rsmq.delete_messages("other", [a1, a2, earlier]) == [a1, a2, earlier]
    assert members_of(env, "other") == [[("a", a3), ("b", b1)], []]
    assert held_back(env, "other") == []


def test_a_message_that_comes_back_to_its_records_stays_in_order(env, queue):
    """Another client has removed both messages, and the records of the second one are left."""
    env.rsmq.create_queue("other")
    a1, a2 = send(env, queue, "a", "a")
    record = records_of(env, queue)[2][a2]
    env.raw.zadd(f"{env.ns}:other:x:held_back", {f"a\0{a2}": 0})
    env.raw.hset(f"{env.ns}:other:x:group_of", a2, "5:a")

    assert env.rsmq.move_messages(queue, "other", [a2]) == [a2]
    assert members_of(env, "other") == [[("a", a2)], []]
    assert env.scores("other")[a2] == int(record.partition(":")[0])
    assert env.rsmq.move_messages(queue, "other", [a1]) == [a1]
    assert members_of(env, "other") == [[("a", a2)], [("a", a1)]]
