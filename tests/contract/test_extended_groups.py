"""Receives that take several messages of a group, on raw keys."""

from __future__ import annotations

import random

import pytest

from rsmq import InvalidFormat
from tests.contract.test_groups import delete_as_node, held_back, records_of, send
from tests.expect import refused
from tests.scale import scaled


def bodies(messages):
    return [each.body for each in messages]


def receive(env, queue, number, **options):
    return env.rsmq.receive_messages(queue, number, extend_groups=True, **options)


def test_the_next_messages_of_a_group_follow_the_first_one(env, queue):
    a1, b1, a2, a3, b2 = send(env, queue, "a", "b", "a", "a", "b")

    received = receive(env, queue, 4, vt=100)

    assert [each.id for each in received] == [a1, a2, a3, b1]
    assert [each.receive_count for each in received] == [1, 1, 1, 1]
    scores = env.scores(queue)
    assert len({scores[each.id] for each in received}) == 1
    assert held_back(env, queue) == [b2]
    admitted, held, _ = records_of(env, queue)
    assert admitted == [f"a\0{a1}", f"a\0{a2}", f"a\0{a3}", f"b\0{b1}"]
    assert held == [f"b\0{b2}"]
    fields = env.fields(queue)
    assert fields["x:limited"] == "2"
    assert [fields[f"{id}:rc"] for id in (a1, a2, a3, b1)] == ["1"] * 4
    assert fields[f"{a2}:fr"] == fields[f"{a1}:fr"]
    assert fields["totalrecv"] == "4"
    assert receive(env, queue, 10) == []


def test_a_receive_without_it_takes_one_of_a_group_and_stores_nothing_more(env, queue):
    send(env, queue, "a", "a")

    assert bodies(env.rsmq.receive_messages(queue, 10)) == ["m0"]
    assert "x:limited" not in env.fields(queue)


@pytest.mark.parametrize("limits_first", [True, False])
def test_limits_and_groups_share_a_field_of_the_queue(env, queue, limits_first):
    steps = [
        lambda: env.rsmq.send_message(queue, "m", max_retries=3, expires=500),
        lambda: (send(env, queue, "a", "a"), receive(env, queue, 10, vt=100)),
    ]
    for step in steps if limits_first else reversed(steps):
        step()

    assert env.fields(queue)["x:limited"] == "3"
    env.rsmq.send_message(queue, "m", max_retries=4)
    send(env, queue, "b", "b")
    receive(env, queue, 10, vt=100)
    assert env.fields(queue)["x:limited"] == "3"


def test_limits_of_an_earlier_queue_are_removed_where_groups_have_set_the_field(env, queue):
    send(env, queue, "a", "a")
    receive(env, queue, 10, vt=100)
    env.raw.hset(f"{env.zset(queue)}:x:limits", "left", "3:")

    id = env.rsmq.send_message(queue, "m", max_retries=4)

    records = env.raw.hgetall(f"{env.zset(queue)}:x:limits")
    assert {name.decode(): record for name, record in records.items()} == {id: b"4:"}
    assert env.fields(queue)["x:limited"] == "3"


def test_deletes_of_all_free_the_group(env, queue):
    _, _, a3 = send(env, queue, "a", "a", "a")
    first, second = receive(env, queue, 2)

    env.rsmq.delete_message(second)
    assert receive(env, queue, 10) == []
    env.rsmq.delete_message(first)
    assert [each.id for each in receive(env, queue, 10)] == [a3]


def test_a_released_message_comes_before_those_that_are_in_flight(env, queue):
    a1, a2, a3 = send(env, queue, "a", "a", "a")
    first, second = receive(env, queue, 2, vt=100)

    env.rsmq.release_messages([first])
    again = receive(env, queue, 10, vt=100)
    assert [(each.id, each.receive_count) for each in again] == [(a1, 2)]
    env.rsmq.delete_message(again[0])
    assert receive(env, queue, 10) == []
    assert env.rsmq.delete_message(second)
    assert [each.id for each in receive(env, queue, 10)] == [a3]
    assert a2 not in env.scores(queue)


@pytest.mark.parametrize("call", ["receive_message", "receive_messages", "pop_message", "extended"])
def test_a_message_that_is_due_before_an_earlier_one_is_held_back_again(env, queue, call):
    a1, a2, a3 = send(env, queue, "a", "a", "a")
    first, second, third = receive(env, queue, 3, vt=100)
    env.rsmq.release_messages([second, third])

    found = {
        "receive_message": lambda: env.rsmq.receive_message(queue),
        "receive_messages": lambda: env.rsmq.receive_messages(queue, 5),
        "pop_message": lambda: env.rsmq.pop_message(queue),
        "extended": lambda: receive(env, queue, 5),
    }[call]()

    assert not found
    assert held_back(env, queue) == [a2, a3]
    admitted, held, groups = records_of(env, queue)
    assert (admitted, held) == ([f"a\0{a1}"], [f"a\0{a2}", f"a\0{a3}"])
    assert (groups[a2], groups[a3]) == ("0:a", "0:a")
    assert env.rsmq.get_message(queue, a2).state == "held_back"
    assert env.rsmq.sweep_groups(queue) == 0
    env.rsmq.delete_message(first)
    assert env.rsmq.get_message(queue, a2).state == "visible"
    again = receive(env, queue, 10, vt=100)
    assert [(each.id, each.receive_count) for each in again] == [(a2, 2), (a3, 2)]
    assert held_back(env, queue) == []
    assert not records_of(env, queue)[2][a3].startswith("0:")


def test_messages_whose_leases_have_ended_together_come_together_again(env, queue):
    a1, a2, a3 = send(env, queue, "a", "a", "a")
    receive(env, queue, 2, vt=0)

    again = receive(env, queue, 10, vt=100)

    assert [(each.id, each.receive_count) for each in again] == [(a1, 2), (a2, 2), (a3, 1)]


def test_a_delayed_message_ends_the_row(env, queue):
    a1 = env.rsmq.send_message(queue, "m0", group="a")
    env.rsmq.send_message(queue, "m1", group="a", delay=100)
    env.rsmq.send_message(queue, "m2", group="a")

    assert [each.id for each in receive(env, queue, 10)] == [a1]


def test_a_message_that_a_node_client_has_in_flight_ends_the_row(env, queue):
    a1, a2, _ = send(env, queue, "a", "a", "a")
    env.raw.zadd(env.zset(queue), {a2: env.now_ms() + 50_000})
    env.raw.hset(env.hash(queue), mapping={f"{a2}:rc": 1, f"{a2}:fr": env.now_ms()})

    assert [each.id for each in receive(env, queue, 10)] == [a1]


def test_a_message_that_a_node_client_has_deleted_is_left_out(env, queue):
    a1, a2, a3 = send(env, queue, "a", "a", "a")
    delete_as_node(env, queue, a2)

    assert [each.id for each in receive(env, queue, 10)] == [a1, a3]


def test_a_dead_letter_ends_the_row_and_leaves_when_it_is_the_first(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    a1, a2, a3 = send(env, queue, "a", "a", "a")
    first, second = receive(env, queue, 2, vt=100)
    env.rsmq.release_messages([second])
    assert receive(env, queue, 10) == []
    env.rsmq.delete_message(first)

    assert receive(env, queue, 10) == []  # it moves the dead letter
    assert [each.id for each in receive(env, queue, 10, vt=100)] == [a3]
    assert list(env.scores("dead")) == [a2]
    assert a1 not in env.scores(queue)


def test_limit_keys_are_not_extended(env, queue):
    for n in range(3):
        env.rsmq.send_message(queue, f"m{n}", limit_key="k", max_running=1)

    assert bodies(receive(env, queue, 10)) == ["m0"]


def test_the_limits_of_the_queue_hold(env, queue):
    env.rsmq.set_queue_limits(queue, max_running=2)
    send(env, queue, "a", "a", "a")

    assert bodies(receive(env, queue, 10, vt=100)) == ["m0", "m1"]
    assert receive(env, queue, 10) == []


def test_several_queues_share_the_number(env, queue):
    env.rsmq.create_queue("other")
    for name in (queue, "other"):
        send(env, name, "a", "a")

    received = env.rsmq.receive_messages([queue, "other"], 3, extend_groups=True)

    assert [(each.queue, each.body) for each in received] == [
        (queue, "m0"), (queue, "m1"), ("other", "m0"),
    ]  # fmt: skip


@pytest.mark.refused
def test_the_option_is_a_bool(env, queue):
    with refused(InvalidFormat, "Invalid extend_groups format"):
        env.rsmq.receive_messages(queue, 3, extend_groups="yes")


def test_random_consumers_never_get_a_message_before_an_earlier_one(env, queue):
    """All earlier messages of its group that are in the queue come before it in the receive."""
    choose = random.Random(7)
    order = {group: [] for group in "abc"}
    held = []
    for step in range(scaled(150, 2000)):
        action = choose.choice(
            ("send", "send", "receive", "receive", "delete", "release", "change")
        )
        if action == "send":
            group = choose.choice("abc")
            id = env.rsmq.send_message(queue, str(step), group=group)
            order[group].append(id)
        elif action == "receive":
            extends = choose.random() < 0.7
            got = env.rsmq.receive_messages(
                queue, choose.randint(1, 4), vt=choose.choice((0, 100)), extend_groups=extends
            )
            seen = set()
            for message in got:
                seen.add(message.id)
                (ids,) = [ids for ids in order.values() if message.id in ids]
                earlier = ids[: ids.index(message.id)]
                assert set(earlier) <= seen, (step, earlier)
            held += got
        elif held:
            message = choose.choice(held)
            if action == "delete" and env.rsmq.delete_message(message):
                for ids in order.values():
                    if message.id in ids:
                        ids.remove(message.id)
            elif action == "release":
                env.rsmq.release_messages([message])
            elif action == "change":
                env.rsmq.change_message_visibility(message, choose.choice((0, 100)))
        assert len(env.scores(queue)) == sum(map(len, order.values()))
    left = sum(map(len, order.values()))
    for _ in range(2 * left + 1):
        env.rsmq.release_all_messages(queue)
        for message in receive(env, queue, 10, vt=100):
            assert env.rsmq.delete_message(message)
    assert env.scores(queue) == {}
    assert not any(records_of(env, queue)[:2])
