"""Messages of groups: one at a time is due, on raw keys."""

from __future__ import annotations

import pytest

from rsmq import InvalidCombination, InvalidFormat
from tests.expect import refused

DAY_MS = 86_400_000


def records_of(env, queue):
    """Return the messages in the keys of groups: those admitted, held back, and with a group."""
    key = f"{env.ns}:{queue}:x:"
    lists = [
        [member.decode() for member in env.raw.zrange(key + name, 0, -1)]
        for name in ("admitted", "held_back")
    ]
    groups = env.raw.hgetall(key + "group_of")
    return *lists, {id.decode(): group.decode() for id, group in groups.items()}


def held_back(env, queue):
    """Return the ids whose scores are about a day ahead."""
    least = env.now_ms() + DAY_MS - 600_000
    return [id for id, score in env.scores(queue).items() if score > least]


def pass_a_millisecond(env):
    """Wait for the clock of the server: equal scores are in the order of the ids."""
    now = env.now_ms()
    while env.now_ms() <= now:
        pass


def send(env, queue, *groups):
    return [env.rsmq.send_message(queue, f"m{n}", group=group) for n, group in enumerate(groups)]


def send_batch(env, queue, groups):
    return env.rsmq.send_messages(queue, ["m"] * len(groups), groups=groups)


def delete_as_node(env, queue, *ids):
    env.raw.zrem(env.zset(queue), *ids)
    env.raw.hdel(env.hash(queue), *(f"{id}{end}" for id in ids for end in ("", ":rc", ":fr")))


def test_the_first_message_of_a_group_is_due_and_the_others_are_a_day_ahead(env, queue):
    before = env.now_ms()
    a1, b1, a2, a3 = send(env, queue, "a", "b", "a", "a")

    assert all(id.endswith("Gr") for id in (a1, b1, a2, a3))
    assert held_back(env, queue) == [a2, a3]
    admitted, held, groups = records_of(env, queue)
    assert admitted == [f"a\0{a1}", f"b\0{b1}"]
    assert held == [f"a\0{a2}", f"a\0{a3}"]
    assert {id: text.partition(":")[2] for id, text in groups.items()} == {
        a1: "a", b1: "b", a2: "a", a3: "a",
    }  # fmt: skip
    assert all(before <= int(text.partition(":")[0]) <= env.now_ms() for text in groups.values())
    assert env.fields(queue)["x:groups"] == "1"
    assert env.fields(queue)["totalsent"] == "4"


def test_a_batch_has_a_group_for_each_message(env, queue):
    a1, none, a2, b1 = env.rsmq.send_messages(queue, list("wxyz"), groups=["a", None, "a", "b"])

    assert held_back(env, queue) == [a2]
    assert not none.endswith("Gr") or records_of(env, queue)[2].keys() == {a1, a2, b1}
    assert records_of(env, queue)[:2] == ([f"a\0{a1}", f"b\0{b1}"], [f"a\0{a2}"])


def test_a_delete_admits_the_next_message_from_now_on(env, queue):
    a1, a2, a3 = send(env, queue, "a", "a", "a")

    message = env.rsmq.receive_message(queue)
    before = env.now_ms()
    assert env.rsmq.delete_message(message)
    assert before <= env.scores(queue)[a2] <= env.now_ms()
    assert held_back(env, queue) == [a3]
    assert records_of(env, queue)[0] == [f"a\0{a2}"]
    assert a1 not in records_of(env, queue)[2]
    assert env.rsmq.pop_message(queue).id == a2
    assert env.rsmq.delete_messages(env.rsmq.receive_messages(queue, 5)) == [a3]
    assert records_of(env, queue) == ([], [], {})


def test_groups_take_turns_however_many_messages_one_of_them_has(env, queue):
    send_batch(env, queue, ["a"] * 20)
    send_batch(env, queue, ["b", "b"])

    bodies = []
    for _ in range(6):
        pass_a_millisecond(env)
        message = env.rsmq.receive_message(queue)
        bodies.append(env.rsmq.get_message(queue, message.id).group)
        pass_a_millisecond(env)
        assert env.rsmq.delete_message(message)
    assert bodies == ["a", "b", "a", "b", "a", "a"]


def test_a_message_that_is_released_or_waits_for_a_retry_stays_before_the_others(env, queue):
    a1, a2 = send(env, queue, "a", "a")
    message = env.rsmq.receive_message(queue)
    env.rsmq.change_message_visibility(message, 60)
    assert env.rsmq.receive_message(queue) is None
    env.rsmq.release_messages([message])
    assert env.rsmq.receive_message(queue).id == a1
    assert held_back(env, queue) == [a2]


def test_a_message_that_is_held_back_is_not_released_and_not_shown(env, queue):
    _, a2 = send(env, queue, "a", "a")

    assert env.rsmq.release_messages(queue, [a2]) == []
    assert env.rsmq.change_message_visibility(queue, a2, 0) is False
    assert env.rsmq.change_messages_visibility(queue, [a2], 0) == []
    assert env.rsmq.release_all_messages(queue) == 0
    assert held_back(env, queue) == [a2]


def test_a_message_that_another_client_has_shown_is_released_by_its_id(env, queue):
    _, a2 = send(env, queue, "a", "a")
    env.raw.zadd(env.zset(queue), {a2: env.now_ms() - 1})
    assert len(env.rsmq.receive_messages(queue, 2)) == 2

    assert env.rsmq.release_messages(queue, [a2]) == [a2]
    assert env.scores(queue)[a2] <= env.now_ms()
    assert env.rsmq.change_message_visibility(queue, a2, 60) is True


def test_a_dead_letter_admits_the_next_message(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    a1, a2 = send(env, queue, "a", "a")
    env.rsmq.change_message_visibility(env.rsmq.receive_message(queue), 0)

    assert env.rsmq.receive_messages(queue, 2) == []
    assert list(env.scores("dead")) == [a1]
    assert [message.id for message in env.rsmq.receive_messages(queue, 2)] == [a2]


def test_a_message_that_is_held_back_is_due_where_it_is_moved_to(env, queue):
    env.rsmq.create_queue("other")
    _, a2 = send(env, queue, "a", "a")

    assert env.rsmq.move_messages(queue, "other", [a2]) == [a2]
    assert env.rsmq.receive_message("other").id == a2
    assert a2 not in records_of(env, queue)[2]


@pytest.mark.parametrize("by", ["send", "sweep"])
def test_after_a_delete_by_node_a_send_or_a_sweep_admits_the_next_message(env, queue, by):
    a1, a2 = send(env, queue, "a", "a")
    delete_as_node(env, queue, a1)
    assert env.rsmq.receive_message(queue) is None

    if by == "send":
        a3 = env.rsmq.send_message(queue, "m", group="a")
        assert held_back(env, queue) == [a3]
    else:
        assert env.rsmq.sweep_groups(queue) == 1
    assert env.rsmq.receive_message(queue).id == a2
    assert a1 not in records_of(env, queue)[2]


def test_a_sweep_keeps_messages_that_are_held_back_a_day_ahead(env, queue):
    _, a2 = send(env, queue, "a", "a")
    env.raw.zincrby(env.zset(queue), -DAY_MS * 3 // 4, a2)

    assert env.rsmq.sweep_groups(queue) == 0
    assert held_back(env, queue) == [a2]


def test_a_sweep_has_steps(env, queue):
    ids = send_batch(env, queue, [f"g{n % 350:03}" for n in range(1400)])
    for id in ids[:350:7]:
        delete_as_node(env, queue, id)

    assert env.rsmq.sweep_groups(queue) == 50
    admitted, held, _ = records_of(env, queue)
    assert admitted == [f"g{n:03}\0{ids[n if n % 7 else n + 350]}" for n in range(350)]
    assert len(held) == 1000
    assert env.rsmq.sweep_groups(queue) == 0


def test_a_sweep_finds_a_group_among_many_that_hold_nothing_back(env, queue):
    ids = send_batch(env, queue, [f"g{n:04}" for n in range(1500)])
    behind = send(env, queue, "g0001", "g0900", "g1400")
    for at in (1, 900, 1400):
        delete_as_node(env, queue, ids[at])

    assert env.rsmq.sweep_groups(queue) == 3
    admitted, held, groups = records_of(env, queue)
    assert [
        each.partition("\0")[2] for each in admitted if each.partition("\0")[2] in behind
    ] == behind
    assert (len(admitted), held, len(groups)) == (1500, [], 1500)


def test_a_sweep_completes_an_admission_that_a_crash_has_cut(env, queue):
    _, a2, a3 = send(env, queue, "a", "a", "a")
    env.rsmq.delete_message(env.rsmq.receive_message(queue))
    env.raw.zadd(env.zset(queue), {a2: env.now_ms() + DAY_MS})
    env.raw.zadd(f"{env.ns}:{queue}:x:held_back", {f"a\0{a2}": 0})

    assert env.rsmq.sweep_groups(queue) == 0
    assert held_back(env, queue) == [a3]
    assert records_of(env, queue)[:2] == ([f"a\0{a2}"], [f"a\0{a3}"])


@pytest.mark.parametrize("lost", ["held_back", "group_of"])
def test_a_sweep_finds_messages_whose_records_are_lost_and_keeps_their_order(env, queue, lost):
    a1, b1, a2, b2, a3 = send(env, queue, "a", "b", "a", "b", "a")
    late = env.rsmq.send_message(queue, "late", group="b", delay=600)
    assert env.raw.delete(f"{env.ns}:{queue}:x:{lost}") == 1
    assert env.rsmq.delete_message(queue, a1)

    assert env.rsmq.sweep_groups(queue) == 1
    assert records_of(env, queue)[:2] == (
        [f"a\0{a2}", f"b\0{b1}"], [f"a\0{a3}", f"b\0{b2}", f"b\0{late}"],
    )  # fmt: skip
    assert {id: text.partition(":")[2] for id, text in records_of(env, queue)[2].items()} == {
        a2: "a", a3: "a", b1: "b", b2: "b", late: "b",
    }  # fmt: skip
    assert held_back(env, queue) == [b2, a3, late]
    assert env.rsmq.sweep_groups(queue) == 0
    for first, second in ((b1, b2), (a2, a3)):
        assert env.rsmq.delete_message(queue, first)
        assert env.scores(queue)[second] <= env.now_ms()
    assert env.rsmq.delete_message(queue, b2)
    assert (env.scores(queue)[late] > env.now_ms()) == (lost == "held_back")


def test_a_sweep_finds_many_messages_whose_records_are_lost(env, queue):
    ids = send_batch(env, queue, ["a", "b"] * 700)
    env.raw.delete(f"{env.ns}:{queue}:x:held_back")
    new = send(env, queue, "a", "b")
    delete_as_node(env, queue, ids[0], ids[1])

    assert env.rsmq.sweep_groups(queue) == 2
    assert records_of(env, queue)[0] == [f"a\0{ids[2]}", f"b\0{ids[3]}"]
    assert len(records_of(env, queue)[1]) == 1398
    assert {id for id in new if id in held_back(env, queue)} == set(new)


def test_a_sweep_leaves_dead_letters_of_other_queues_alone(env, queue):
    """Their groups are kept for a redrive; they wait for nothing."""
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    [a1] = send(env, queue, "a")
    env.rsmq.change_message_visibility(env.rsmq.receive_message(queue), 0)
    assert env.rsmq.receive_message(queue) is None
    send(env, "dead", "b")
    before = env.scores("dead"), records_of(env, "dead")

    assert env.rsmq.sweep_groups("dead") == 0
    assert (env.scores("dead"), records_of(env, "dead")) == before
    assert env.rsmq.receive_message("dead").id == a1
    assert env.rsmq.sweep_groups("dead") == 0
    assert records_of(env, "dead") == before[1]


def test_a_sweep_removes_the_records_of_an_earlier_queue(env, queue):
    send_batch(env, queue, ["a"] * 1200)
    env.raw.delete(env.zset(queue))

    assert env.rsmq.sweep_groups(queue) == 0
    assert records_of(env, queue) == ([], [], {})


def test_records_of_groups_that_are_used_once_remain_few(env, queue):
    for n in range(300):
        [id] = send(env, queue, f"g{n}")
        delete_as_node(env, queue, id)
    admitted, _, groups = records_of(env, queue)
    assert len(admitted) == len(groups) < 200

    send_batch(env, queue, ["a"] * 200)
    delete_as_node(env, queue, *env.scores(queue))
    send_batch(env, queue, ["b"] * 200)
    assert len(records_of(env, queue)[2]) < 250


def recreate_as_node(env, queue):
    """Delete a queue and create it again as Node does, within the second of its creation."""
    created = env.fields(queue)["created"]
    env.raw.delete(env.hash(queue), env.zset(queue))
    attributes = {"vt": 30, "delay": 0, "maxsize": 65536, "created": created, "modified": created}
    env.raw.hset(env.hash(queue), mapping=attributes)


KINDS_OF_SENDS = {
    "single": {"group": "a"},
    "options": {"group": "a", "max_retries": 3},
    "limit key": {"limit_key": "a", "max_running": 1},
    "limit key of many": {"limit_key": "a", "max_running": 1000},
}


@pytest.mark.parametrize("options", KINDS_OF_SENDS.values(), ids=KINDS_OF_SENDS)
def test_a_queue_that_node_deleted_and_created_again_has_clean_records(env, queue, options):
    of_all = {f"{name}s": ["a"] * 600 for name in ("group", "limit_key") if name in options}
    rest = {name: value for name, value in options.items() if f"{name}s" not in of_all}
    env.rsmq.send_messages(queue, ["old"] * 600, **of_all, **rest)
    recreate_as_node(env, queue)

    new = env.rsmq.send_message(queue, "new", **options)
    assert held_back(env, queue) == []
    assert env.rsmq.receive_message(queue).id == new
    admitted, held, groups = records_of(env, queue)
    assert (len(admitted), held, groups.keys()) == (1, [], {new})


def test_a_batch_to_such_a_queue_begins_with_clean_records_too(env, queue):
    send_batch(env, queue, ["a"] * 600)
    recreate_as_node(env, queue)

    a1, a2 = send_batch(env, queue, ["a", "a"])
    assert held_back(env, queue) == [a2]
    assert records_of(env, queue)[:2] == ([f"a\0{a1}"], [f"a\0{a2}"])


def test_messages_that_come_to_such_a_queue_begin_with_clean_records_too(env, queue):
    send_batch(env, queue, ["a"] * 600)
    recreate_as_node(env, queue)
    env.rsmq.create_queue("other")
    a1 = env.rsmq.send_message("other", "m", group="a")

    assert env.rsmq.move_messages("other", queue, [a1]) == [a1]
    assert env.rsmq.receive_message(queue).id == a1
    assert records_of(env, queue)[:2] == ([f"a\0{a1}"], [])


def test_dead_letters_keep_their_groups_at_the_first_send_with_a_group_to_their_queue(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    [a1] = send(env, queue, "a")
    env.rsmq.change_message_visibility(env.rsmq.receive_message(queue), 0)
    assert env.rsmq.receive_message(queue) is None

    [b1] = send(env, "dead", "b")
    assert records_of(env, "dead")[2].keys() == {a1, b1}


@pytest.mark.parametrize("options", KINDS_OF_SENDS.values(), ids=KINDS_OF_SENDS)
@pytest.mark.parametrize("by", ["send", "delete", "sweep"])
def test_a_group_whose_messages_node_has_deleted_admits_at_once(env, queue, options, by):
    """Another message keeps the sorted set of the queue."""
    of_all = {f"{name}s": ["a"] * 3000 for name in ("group", "limit_key") if name in options}
    rest = {name: value for name, value in options.items() if f"{name}s" not in of_all}
    env.rsmq.send_message(queue, "other", group="other", delay=600)
    old = env.rsmq.send_messages(queue, ["old"] * 3000, **of_all, **rest)
    if by == "send":
        delete_as_node(env, queue, *old)
        last = env.rsmq.send_message(queue, "last", **options)
        scores, now = env.scores(queue), env.now_ms()
        assert [id for id in scores if scores[id] <= now] == [last]
    else:
        last = env.rsmq.send_message(queue, "last", **options)
        delete_as_node(env, queue, *old[1:])
        if by == "delete":
            assert env.rsmq.delete_message(queue, old[0])
        else:
            delete_as_node(env, queue, old[0])
            assert env.rsmq.sweep_groups(queue) == 1
    assert env.rsmq.receive_message(queue).id == last
    assert records_of(env, queue)[1] == []


def test_a_send_with_options_keeps_the_place_of_the_sweep(env, queue):
    send(env, queue, "a", "a")
    env.raw.hset(env.hash(queue), "x:groups", "1700000000000 a")

    env.rsmq.send_message(queue, "m", group="a", max_retries=3)
    assert env.fields(queue)["x:groups"] == "1700000000000 a"


def test_a_message_that_is_replaced_stays_held_back(env, queue):
    send(env, queue, "a")
    a2 = env.rsmq.send_message(queue, "m", group="a", unique_key="k")

    assert env.rsmq.send_message(queue, "new", unique_key="k", replace=True, delay=0) == a2
    assert held_back(env, queue) == [a2]
    assert env.fields(queue)[a2] == "new"


def test_held_back_is_a_state_of_its_own(env, queue):
    a1, a2, a3 = send(env, queue, "a", "a", "a")
    delayed = env.rsmq.send_message(queue, "m", delay=60)
    states = {message.id: message.state for message in env.rsmq.peek_messages(queue)}

    assert states == {a1: "visible", a2: "held_back", a3: "held_back", delayed: "delayed"}
    peeked = env.rsmq.peek_messages(queue, state="held_back")
    assert [message.id for message in peeked] == [a2, a3]
    assert [message.id for message in env.rsmq.peek_messages(queue, -1, state="held_back")] == [a3]
    assert env.rsmq.get_message(queue, a2).state == "held_back"
    assert env.rsmq.get_message(queue, a2).last_error is None
    counts = env.rsmq.count_messages(queue)
    assert (counts.visible, counts.in_flight, counts.retrying) == (1, 0, 0)
    assert (counts.delayed, counts.held_back) == (1, 2)


def test_a_message_shows_its_group_also_while_it_waits_for_a_retry(env, queue):
    none = env.rsmq.send_message(queue, "m")
    first, second = send(env, queue, "é a", "é a")
    env.raw.hset(env.hash(queue), f"{first}:rc", "1")
    env.raw.zadd(env.zset(queue), {first: env.now_ms() + 60_000})
    retrying = {first: "1:E: e", "": env.fields(queue)["created"]}
    env.raw.hset(f"{env.ns}:{queue}:x:retrying", mapping=retrying)

    found = {each.id: each for each in env.rsmq.peek_messages(queue)}
    assert {id: (each.group, each.state, each.last_error) for id, each in found.items()} == {
        none: (None, "visible", None),
        first: ("é a", "retrying", "E: e"),
        second: ("é a", "held_back", None),
    }
    assert [env.rsmq.get_message(queue, id).group for id in found] == [None, "é a", "é a"]
    assert [each.id for each in env.rsmq.peek_messages(queue, state="retrying")] == [first]
    env.raw.delete(f"{env.ns}:{queue}:x:group_of")
    assert [each.group for each in env.rsmq.peek_messages(queue)] == [None] * 3


def test_a_purge_removes_the_keys_of_groups(env, queue):
    send(env, queue, "a", "a")
    env.rsmq.purge_queue(queue)
    assert records_of(env, queue) == ([], [], {})

    [a1] = send(env, queue, "a")
    assert env.rsmq.receive_message(queue).id == a1


def test_a_group_is_not_a_number(env, queue):
    with refused(InvalidFormat, "Invalid group format"):
        env.rsmq.send_message(queue, "m", group=7)
    assert env.scores(queue) == {}


def test_a_group_is_a_text_without_zero_bytes(env, queue):
    for group in ("", "x" * 129, "a\0b"):
        with refused(InvalidFormat, "Invalid group format"):
            env.rsmq.send_message(queue, "m", group=group)
    assert env.scores(queue) == {}


def test_a_message_of_a_group_is_not_put_to_the_front(env, queue):
    with refused(InvalidCombination, "Invalid front format"):
        env.rsmq.send_message(queue, "m", group="a", front=True)
    assert env.scores(queue) == {}
