"""Limit keys: so many messages at a time, and rates; on raw keys."""

from __future__ import annotations

import pytest

from rsmq import InvalidCombination, InvalidFormat, InvalidValue
from tests.contract.test_groups import (
    delete_as_node,
    held_back,
    pass_a_millisecond,
    records_of,
    recreate_as_node,
)
from tests.expect import refused


def send(env, queue, *keys, most=2, **options):
    """Send a message for each key, one by one."""
    return [
        env.rsmq.send_message(queue, f"m{n}", limit_key=key, max_running=most, **options)
        for n, key in enumerate(keys)
    ]


def send_batch(env, queue, keys, **options):
    return env.rsmq.send_messages(queue, ["m"] * len(keys), limit_keys=keys, **options)


def rates_of(env, queue):
    """Return by key the Unix ms from which its next message may be visible."""
    stored = env.raw.zrange(f"{env.ns}:{queue}:x:rates", 0, -1, withscores=True)
    return {name.decode(): us / 1000 for name, us in stored}


def test_as_many_messages_of_a_key_are_due_as_may_run(env, queue):
    a1, b1, a2, a3, a4 = send(env, queue, "a", "b", "a", "a", "a")

    assert all(id.endswith("Gr") for id in (a1, b1, a2, a3, a4))
    assert held_back(env, queue) == [a3, a4]
    admitted, held, groups = records_of(env, queue)
    assert admitted == [f"\x012:a\0{a1}", f"\x012:a\0{a2}", f"\x012:b\0{b1}"]
    assert held == [f"\x012:a\0{a3}", f"\x012:a\0{a4}"]
    assert {text.partition(":")[2] for text in groups.values()} == {"\x012:a", "\x012:b"}
    assert env.fields(queue)["x:groups"] == "1"


@pytest.mark.parametrize("options", [{}, {"unique_keys": ["u", "v", "w", "x"]}])
def test_a_batch_has_a_key_for_each_message(env, queue, options):
    a1, none, a2, a3 = send_batch(env, queue, ["a", None, "a", "a"], max_running=2, **options)

    assert held_back(env, queue) == [a3]
    assert records_of(env, queue)[:2] == (
        [f"\x012:a\0{a1}", f"\x012:a\0{a2}"],
        [f"\x012:a\0{a3}"],
    )
    assert none not in records_of(env, queue)[2]


def test_a_batch_fills_the_places_that_are_left(env, queue):
    [a1] = send(env, queue, "a")
    a2, a3 = send_batch(env, queue, ["a", "a"], max_running=2)

    assert held_back(env, queue) == [a3]
    assert records_of(env, queue)[0] == [f"\x012:a\0{a1}", f"\x012:a\0{a2}"]


def test_each_delete_admits_one_message(env, queue):
    ids = send(env, queue, *["a"] * 5)
    messages = env.rsmq.receive_messages(queue, 10)
    assert [message.id for message in messages] == ids[:2]

    assert env.rsmq.delete_message(messages[1])
    assert held_back(env, queue) == ids[3:]
    [third] = env.rsmq.receive_messages(queue, 10)
    assert third.id == ids[2]
    assert env.rsmq.delete_messages([messages[0], third]) == [ids[0], ids[2]]
    assert held_back(env, queue) == []


@pytest.mark.parametrize("by", ["send", "batch", "sweep"])
def test_the_places_of_messages_that_node_has_deleted_are_filled(env, queue, by):
    ids = send(env, queue, *["a"] * 6, most=3)
    delete_as_node(env, queue, ids[0], ids[2])

    if by == "sweep":
        assert env.rsmq.sweep_groups(queue) == 2
    elif by == "send":
        send(env, queue, "a", most=3)
    else:
        send_batch(env, queue, ["a"], max_running=3)
    assert [each.id for each in env.rsmq.receive_messages(queue, 9)] == [ids[1], *ids[3:5]]
    assert ids[5] in held_back(env, queue)


def test_a_group_and_keys_with_other_limits_are_counted_apart(env, queue):
    env.rsmq.send_messages(queue, ["m"] * 2, groups=["a", None], limit_keys=[None, "a"],
        max_running=1)  # fmt: skip
    send(env, queue, "a", "a", most=2)

    assert held_back(env, queue) == []


def test_keys_take_turns_however_many_messages_one_of_them_has(env, queue):
    send_batch(env, queue, ["a"] * 20, max_running=2)
    send_batch(env, queue, ["b"] * 2, max_running=2)

    keys = []
    for _ in range(6):
        pass_a_millisecond(env)
        message = env.rsmq.receive_message(queue)
        keys.append(env.rsmq.get_message(queue, message.id).limit_key)
        pass_a_millisecond(env)
        assert env.rsmq.delete_message(message)
    assert keys == ["a", "a", "b", "b", "a", "a"]


def test_a_message_shows_its_key(env, queue):
    _, _, a3 = send(env, queue, "a", "a", "a")

    shown = env.rsmq.get_message(queue, a3)
    assert (shown.state, shown.group, shown.limit_key, shown.max_running) == (
        "held_back", None, "a", 2,
    )  # fmt: skip
    [peeked] = env.rsmq.peek_messages(queue, state="held_back")
    assert (peeked.id, peeked.limit_key, peeked.max_running) == (a3, "a", 2)
    assert env.rsmq.count_messages(queue).held_back == 1


@pytest.mark.parametrize("options", [{}, {"unique_key": "u"}])
def test_a_rate_spaces_the_messages_of_a_key(env, queue, options):
    before = env.now_ms()
    id = env.rsmq.send_message(queue, "m", limit_key="a", rate="10/m", **options)
    first, *others = [env.scores(queue)[id], *(
        env.scores(queue)[each] for each in send_batch(env, queue, ["a"] * 3, rate="10/m")
    )]  # fmt: skip

    assert before <= first <= env.now_ms()
    assert others == [first + 6000 * n for n in (1, 2, 3)]
    assert rates_of(env, queue) == {"\x01:a": first + 24_000}
    assert not id.endswith("Gr") or records_of(env, queue)[2] == {}
    assert "x:groups" not in env.fields(queue)
    assert env.rsmq.get_message(queue, id).limit_key is None


def test_a_rate_is_counted_in_microseconds_and_is_never_exceeded(env, queue):
    ids = send_batch(env, queue, ["a"] * 8, rate="7/s")

    scores = [env.scores(queue)[each] for each in ids]
    assert scores[7] - scores[0] >= 1000
    assert scores[7] - scores[0] <= 1001


def test_keys_have_rates_of_their_own_and_a_delay_counts_first(env, queue):
    a1, b1 = send_batch(env, queue, ["a", "b"], rate="1/h", delay=60)
    a2 = env.rsmq.send_message(queue, "m", limit_key="a", rate="1/h")

    scores = env.scores(queue)
    assert scores[a1] == scores[b1]
    assert scores[a2] == scores[a1] + 3_600_000


def test_a_rate_that_has_paused_begins_at_once_and_its_record_is_removed(env, queue):
    env.raw.zadd(f"{env.ns}:{queue}:x:rates", {"\x01:a": 5, "\x01:b": 6})
    id = env.rsmq.send_message(queue, "m", limit_key="c", rate="1/s")

    assert env.scores(queue)[id] <= env.now_ms()
    assert list(rates_of(env, queue)) == ["\x01:c"]


def test_a_rate_with_a_limit_or_a_group_is_the_time_from_which_a_message_may_be_admitted(
    env, queue
):
    _, second = env.rsmq.send_messages(queue, ["m"] * 2, groups=["a", "a"], rate="1/h")
    _, other = send_batch(env, queue, ["a", "a"], max_running=1, rate="1/h")
    assert held_back(env, queue) == [second, other]
    assert rates_of(env, queue).keys() == {"\x01:a", "a"}

    for message in env.rsmq.receive_messages(queue, 9):
        assert env.rsmq.delete_message(message)
    now = env.now_ms()
    assert {second, other} == env.scores(queue).keys()
    assert all(now + 3_500_000 < score <= now + 3_600_000 for score in env.scores(queue).values())
    assert env.rsmq.count_messages(queue).delayed == 2


def test_a_message_that_is_not_added_takes_no_turn(env, queue):
    for _ in range(2):
        env.rsmq.send_message(queue, "m", limit_key="a", rate="1/h", dedup_id="d")
        env.rsmq.send_message(queue, "m", limit_key="b", rate="1/h", unique_key="u")
    [a, b] = rates_of(env, queue).values()
    assert a <= b <= env.now_ms() + 3_600_000


def test_a_message_that_is_replaced_keeps_its_turn(env, queue):
    options = {"limit_key": "a", "rate": "1/h", "unique_key": "u"}
    env.rsmq.send_message(queue, "first", limit_key="a", rate="1/h")
    id = env.rsmq.send_message(queue, "m", **options)
    before = env.scores(queue)[id], rates_of(env, queue)

    assert env.rsmq.send_message(queue, "n", replace=True, delay=5, **options) == id
    assert (env.scores(queue)[id], rates_of(env, queue)) == before
    assert env.rsmq.get_message(queue, id).body == "n"


def test_a_rate_that_leads_beyond_the_longest_delay_is_refused(env, queue):
    send_batch(env, queue, ["a"] * 100, rate="1/d")
    state = env.state()

    with refused(
        InvalidValue, "seconds until the rate permits the message must be between 0 and 9999999"
    ):
        send_batch(env, queue, ["a"] * 100, rate="1/d")
    assert env.state() == state


@pytest.mark.parametrize("options", [{"limit_key": "a"}, {"group": "a"}])
def test_a_queue_that_node_deleted_and_created_again_has_no_turns(env, queue, options):
    many = {f"{name}s": [value] * 500 for name, value in options.items()}
    env.rsmq.send_messages(queue, ["old"] * 500, **many, rate="1/h")
    send_batch(env, queue, [f"k{number}" for number in range(1200)], rate="1/h")
    recreate_as_node(env, queue)

    new = env.rsmq.send_message(queue, "new", **options, rate="1/h")
    assert env.scores(queue)[new] <= env.now_ms()
    [turn] = rates_of(env, queue).values()
    assert turn == int(new[:10], 36) // 1000 + 3_600_000
    env.rsmq.send_message(queue, "new", **options, rate="1/h")
    assert [*rates_of(env, queue).values()] == [turn + 3_600_000]


def test_a_turn_that_no_send_can_have_stored_counts_as_over(env, queue):
    """The clock of the server was a year ahead for one send."""
    send_batch(env, queue, ["a"], rate="1/h")
    year_us = (env.now_ms() + 365 * 86_400_000) * 1000
    env.raw.zadd(f"{env.ns}:{queue}:x:rates", {"\x01:a": year_us})

    id = env.rsmq.send_message(queue, "m", limit_key="a", rate="1/h")
    assert env.scores(queue)[id] <= env.now_ms()
    assert rates_of(env, queue) == {"\x01:a": int(id[:10], 36) // 1000 + 3_600_000}


def test_the_last_turn_that_a_send_can_store_is_kept(env, queue):
    send_batch(env, queue, ["a"], rate="1/d")
    last_us = (env.now_ms() + 9_999_999_000 + 86_300_000) * 1000
    env.raw.zadd(f"{env.ns}:{queue}:x:rates", {"\x01:a": last_us})

    with pytest.raises(InvalidValue):
        send_batch(env, queue, ["a"], rate="1/d")
    assert rates_of(env, queue) == {"\x01:a": last_us // 1000}


def test_a_purge_removes_the_rates(env, queue):
    send_batch(env, queue, ["a"] * 2, rate="1/d", max_running=1)
    env.rsmq.purge_queue(queue)

    assert rates_of(env, queue) == {}
    assert records_of(env, queue) == ([], [], {})


@pytest.mark.refused
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"limit_key": "a"}, "limit_key"),
        ({"max_running": 2}, "max_running"),
        ({"rate": "1/s"}, "rate"),
        ({"limit_key": "a", "group": "b", "max_running": 2}, "limit_key"),
        ({"limit_key": "a", "max_running": 2, "front": True}, "front"),
    ],
)
def test_an_incomplete_limit_is_refused(env, queue, options, word):
    with refused(InvalidCombination, f"Invalid {word} format"):
        env.rsmq.send_message(queue, "m", **options)
    assert env.scores(queue) == {}


@pytest.mark.refused
@pytest.mark.parametrize("max_running", [0, 1001, True, 2.5, "2"])
def test_a_number_that_may_not_run_is_refused(env, queue, max_running):
    with refused(InvalidValue, "max_running must be between 1 and 1000"):
        env.rsmq.send_message(queue, "m", limit_key="a", max_running=max_running)


@pytest.mark.refused
@pytest.mark.parametrize(
    "rate", ["", "10", "0/s", "1000001/s", "5/w", "1.5/s", " 1/s", "\u0661/s", 5]
)
def test_a_text_that_is_no_rate_is_refused(env, queue, rate):
    with refused(InvalidFormat, "Invalid rate format"):
        env.rsmq.send_message(queue, "m", limit_key="a", rate=rate)


@pytest.mark.refused
@pytest.mark.parametrize(
    "options", [{"limit_key": "a\0"}, {"limit_key": "x" * 129}, {"group": "\1"}]
)
def test_a_key_that_can_not_be_stored_is_refused(env, queue, options):
    limit = {"max_running": 2} if "limit_key" in options else {}
    with refused(InvalidFormat, f"Invalid {next(iter(options))} format"):
        env.rsmq.send_message(queue, "m", **options, **limit)
