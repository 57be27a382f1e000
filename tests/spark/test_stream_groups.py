"""Streams of messages with groups, of which one after the other is due."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from rsmq.spark.versions import ReadMaxRows
from tests.scale import WAIT_SECONDS


def send(env, *names):
    """Send a message for each name, whose first letter is its group; return the ids by name."""
    groups = [name[0] for name in names]
    return dict(zip(env.rsmq.send_messages("q", list(names), groups=groups), names, strict=True))


def wait_for_next_ms(env):
    begin, deadline = env.now_ms(), time.monotonic() + WAIT_SECONDS
    while env.now_ms() <= begin:
        assert time.monotonic() < deadline


def run(env, query, *, between=lambda: None):
    """Run a query to its end; return the bodies of each batch."""
    found = []
    while (rows := query.run()) is not None:
        found.append(sorted(row["message"] for row in rows))
        wait_for_next_ms(env)
        between()
    return found


@pytest.mark.parametrize("limit", [2, 100])
def test_available_now_ends_when_all_messages_of_groups_are_done(env, queue, limit):
    send(env, "a1", "a2", "a3", "b1", "b2", "c1")
    query = env.query(available_now=True, limit=ReadMaxRows(limit))
    wait_for_next_ms(env)

    found = run(env, query)

    assert sorted(itertools.chain(*found)) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    for group in "abc":
        names = [name for batch in found for name in batch if name[0] == group]
        assert names == sorted(names)
    query.restart()
    assert query.run() is None
    assert env.scores() == {}
    assert env.raw.keys(f"{env.ns}:q:x:held_back") == []


def test_available_now_leaves_messages_of_groups_that_are_sent_after_its_start(env, queue):
    send(env, "a1", "a2")
    query = env.query(available_now=True)
    wait_for_next_ms(env)
    late = itertools.count(3)

    found = run(env, query, between=lambda: send(env, f"a{next(late)}"))

    assert found == [["a1"], ["a2"]]
    assert [body.decode() for body in env.bodies()] == ["a3", "a4"]
    query.restart()
    assert run(env, query) == [["a3"], ["a4"]]


def test_available_now_has_the_messages_behind_a_dead_letter_of_their_group(env, queue):
    env.rsmq.create_queue("dead")
    sent = list(send(env, "a1", "a2", "a3"))
    env.raw.hset(env.keys().hash, f"{sent[0]}:rc", "5")
    query = env.query(available_now=True, maxReceiveCount=5, deadLetterQueue="dead")
    wait_for_next_ms(env)

    assert run(env, query) == [["a2"], ["a3"]]
    assert list(env.scores("dead")) == sent[:1]


# --- groups="together" -------------------------------------------------------------------------


def send_rows(env, groups, number):
    """Send messages of groups in turn, as a1, b1, a2 ...; return the bodies of each group."""
    names = [f"{group}{n:04}" for n in range(number) for group in groups]
    send(env, *names)
    return {group: [name for name in names if name[0] == group] for group in groups}


def by_group(rows):
    found = {}
    for row in rows:
        found.setdefault(row["message"][0], []).append(row["message"])
    return found


def test_a_batch_has_the_messages_of_each_group_together_in_order(env, queue):
    sent = send_rows(env, "abcd", 50)
    query = env.query(available_now=True, groups="together", numPartitions=4, limit=None)

    assert query.poll()
    tasks = query.tasks(query.plan())
    query.finish()

    assert by_group(row for task in tasks for row in task) == sent
    owners = [group for task in tasks for group in by_group(task)]
    assert len(owners) == len(set(owners))  # each group is in one partition
    assert query.run() is None
    assert env.scores() == {}
    assert env.raw.keys(f"{env.ns}:q:x:held_back") == []
    assert env.raw.keys(f"{env.ns}:q:x:admitted") == []


@pytest.mark.parametrize("limit", [1, 7, 30, 1000])
def test_a_limit_of_a_batch_cuts_rows_and_loses_nothing(env, queue, limit):
    sent = send_rows(env, "abc", 20)
    plain = env.rsmq.send_messages("q", ["x"] * 5)
    query = env.query(groups="together", maxMessagesPerTrigger=limit)
    batches = query.run_until_empty()

    assert all(len(rows) <= limit for rows in batches)
    rows = [row for batch in batches for row in batch]
    found = by_group(rows)
    assert len(found.pop("x")) == len(plain)
    assert found == sent
    assert env.scores() == {}


def test_the_bytes_of_a_batch_cut_rows(env):
    env.rsmq.create_queue("q", maxsize=-1)
    bodies = [f"{n}" * 1000 for n in range(9)]
    env.rsmq.send_messages("q", bodies, groups=["a"] * 9)
    query = env.query(groups="together", maxBytesPerTrigger=3500)
    batches = [[row["message"] for row in rows] for rows in query.run_until_empty()]
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert [body for batch in batches for body in batch] == bodies


def test_no_other_consumer_gets_a_later_message_of_a_group_in_flight(env, queue):
    sent = send_rows(env, "ab", 3)
    query = env.query(groups="together")
    assert by_group(query.run()) == sent
    send(env, "a9999", "c0000")
    assert [each.body for each in env.rsmq.receive_messages("q", 10)] == ["c0000"]
    assert by_group(query.run()) == {"a": ["a9999"]}


def test_a_delayed_or_retried_message_ends_a_row(env, queue):
    env.rsmq.send_messages("q", ["a1", "a2"], groups=["a", "a"])
    env.rsmq.send_message("q", "a3", group="a", delay=1000)
    env.rsmq.send_message("q", "a4", group="a")
    query = env.query(groups="together")
    assert [row["message"] for row in query.run()] == ["a1", "a2"]
    query.poll()
    assert env.rsmq.receive_message("q") is None


def test_a_batch_waits_for_messages_of_groups_that_it_would_have(env, queue):
    query = env.query(groups="together", minMessagesPerTrigger=3, maxTriggerDelay=1000)
    send(env, "a1")
    assert len(query.run()) == 1  # the first one does not wait
    send(env, "b1", "b2")
    assert query.run() is None
    send(env, "b3")
    assert [row["message"] for row in query.run()] == ["b1", "b2", "b3"]


def test_a_restarted_query_has_the_same_rows(env, queue):
    sent = send_rows(env, "ab", 5)
    query = env.query(groups="together", consumerGroup="g", available_now=True)
    query.poll()
    assert by_group(query.restart()) == sent
    assert query.run() is None
    assert env.scores() == {}


def test_a_batch_that_spark_does_not_know_is_released_in_order(env, queue):
    send_rows(env, "ab", 3)
    query = env.query(groups="together", maxMessagesPerTrigger=3)
    query.run()  # of group a, and receives the next batch ahead
    assert env.rsmq.count_messages("q").in_flight == 6
    query.crash(is_stopped=True)

    assert env.rsmq.count_messages("q").visible == 3
    for name in ("b0000", "b0001", "b0002"):
        (message,) = env.rsmq.receive_messages("q", 10)
        assert message.body == name
        env.rsmq.delete_message(message)


def test_messages_behind_a_lost_one_are_given_up_with_it(env, queue):
    sent = send_rows(env, "ab", 4)
    query = env.query(groups="together")
    query.poll()
    ids = {row["message"]: row["id"] for task in query.tasks(query.plan()) for row in task}
    env.raw.zadd(env.keys().zset, {ids["a0001"]: 1})  # its timeout has ended
    taken = env.rsmq.receive_message("q")
    if taken is None:  # it was held back again behind the first one: another client shows it
        env.raw.hincrby(env.keys().hash, f"{ids['a0001']}:rc", 1)

    rows = query.finish()
    assert by_group(rows) == {"a": sent["a"][:1], "b": sent["b"]}
    env.raw.zrem(env.keys().zset, ids["a0001"])  # that client has deleted it meanwhile
    env.raw.hdel(env.keys().hash, ids["a0001"], f"{ids['a0001']}:rc", f"{ids['a0001']}:fr")
    query.poll()

    assert sorted(env.bodies()) == [b"a0002", b"a0003"]
    assert query.progress["lost"] == 2


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_groups_is_exact_through_restarts_and_kills(env, queue, seed):
    chance = random.Random(seed)
    groups = "abcdef"
    sent = {group: [] for group in groups}
    query = env.query(groups="together", maxMessagesPerTrigger=chance.choice([3, 10, 40]))
    for _ in range(25):
        step = chance.choice(["send", "send", "run", "run", "poll", "crash", "stop"])
        if step == "send":
            names = [f"{chance.choice(groups)}{env.now_ms()}{n:03}" for n in range(12)]
            for name, id in zip(names, send(env, *names), strict=True):
                sent[name[0]].append((id, name))
        elif step == "run":
            query.run()
        elif step == "poll" and query.request_offset() is not None:
            query.restart()
        elif step in ("crash", "stop"):
            query.crash(is_stopped=step == "stop")
            query.restart()
    env.elapse(1000)  # what a killed process has received, and Spark does not know
    query.run_until_empty()
    query.crash(is_stopped=True)
    env.elapse(1000)
    query.restart()
    query.run_until_empty()

    rows = [row for number in sorted(query.sink) for row in query.sink[number]]
    found = by_group(rows)
    for group, names in sent.items():
        assert found.get(group, []) == [name for _, name in names]
    assert env.scores() == {}
