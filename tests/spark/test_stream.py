"""The streaming source, with the calls of Spark's engine, through crashes and restarts."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import msgpack
import pytest
import redis
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from redis.exceptions import ResponseError

from rsmq import BYTES, RSMQ, QueueNotFound
from rsmq.errors import LeaseTakenOver
from rsmq.spark import AcknowledgeListener, BatchLost, CheckpointSetBack, InvalidOption, connections
from rsmq.spark.operations import batches as operations
from rsmq.spark.operations.batches import MAX_PART_MESSAGES, acquire_ownership
from rsmq.spark.read.source_options import parse_source_options, parse_stream_options
from rsmq.spark.stream import acknowledgement, ownership, parts, stream_queues
from rsmq.spark.stream.batches import BatchLimits
from rsmq.spark.stream.reader import group_parts
from rsmq.spark.stream.records import StreamIdentity
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.spark.conftest import Crashed, Env, crash_at_call, json_round_trip


def ids(rows):
    return [row["id"] for row in rows]


def send(env, number, queue="q", **options):
    return env.rsmq.send_messages(queue, [f"m{n}" for n in range(number)], **options)


def wait_until(condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition does not become true"
        time.sleep(0.01)


# --- receive and acknowledge -----------------------------------------------------------------


def test_batch_is_acknowledged_when_the_next_is_requested(env, queue):
    sent = send(env, 3)
    query = env.query()

    assert query.poll() is True
    (end,) = query.offsets
    assert (end["batch"], end["queues"]) == (1, {"q": 3})
    assert query.progress == {
        "description": f"rsmq queue q of namespace {env.ns}",
        "backlog": {"q": {"visible": 0, "hidden": 3, "held_back": 0, "retrying": 0}},
        "lag": 0, "oldestAgeSeconds": None, "acknowledged": 0, "lost": 0,
    }  # fmt: skip
    assert ids(query.finish()) == sent
    assert list(env.scores()) == sent
    query.reader.commit(end)
    assert list(env.scores()) == sent

    assert query.run() is None
    assert env.scores() == {}
    assert set(env.fields()) == {
        "vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv",
    }  # fmt: skip
    assert env.raw.exists(env.keys().leases) == 0
    assert query.progress["acknowledged"] == 3


def test_received_messages_are_in_flight_for_other_clients(env, queue):
    first = env.rsmq.send_message("q", "first")
    env.rsmq.receive_message("q", vt=0)
    (second,) = send(env, 1)
    old = env.fields()[f"{first}:fr"]
    before = env.now_ms()
    query = env.query(visibilityTimeout=300)
    rows = query.run()
    after = env.now_ms()

    fields, scores = env.fields(), env.scores()
    assert (fields["totalsent"], fields["totalrecv"]) == (b"2", b"3")
    assert (fields[f"{first}:rc"], fields[f"{first}:fr"]) == (b"2", old)
    assert fields[f"{second}:rc"] == b"1"
    assert before <= int(fields[f"{second}:fr"]) <= after
    assert all(before + 300_000 <= score <= after + 300_000 for score in scores.values())
    assert [row["receive_count"] for row in rows] == [2, 1]
    assert [int(row["first_received"].timestamp() * 1000 + 0.5) for row in rows] == [
        int(old),
        int(fields[f"{second}:fr"]),
    ]
    assert env.rsmq.receive_message("q") is None
    assert env.rsmq.get_message("q", second).receive_count == 1
    env.elapse(301)
    assert env.rsmq.receive_message("q", codec=BYTES).receive_count == 3


def test_without_messages_the_latest_offset_is_the_start(env, queue):
    env.rsmq.send_message("q", "later", delay=100)
    query = env.query()
    before = env.state()
    start = query.reader.initialOffset()
    same_start = json_round_trip(start)
    assert query.reader.latestOffset(same_start, ReadMaxRows(10)) is same_start
    assert same_start == start
    assert env.state() == before
    assert query.reader.partitions(start, start) == []

    env.elapse(101)
    assert len(query.run()) == 1
    same_start = json_round_trip(query.offsets[-1])
    assert query.reader.latestOffset(same_start, ReadMaxRows(10)) is same_start


def test_the_same_start_gives_the_same_batch(env, queue):
    send(env, 5)
    query = env.query(limit=ReadMaxRows(2))
    start = json_round_trip(query.reader.initialOffset())
    ends = [query.reader.latestOffset(json_round_trip(start), ReadMaxRows(2)) for _ in range(3)]
    assert ends[0] == ends[1] == ends[2]
    assert env.fields()["totalrecv"] == b"2"
    query.offsets.append(ends[0])
    assert ids(query.finish()) == ids(query.finish())


@pytest.mark.parametrize("limit", [ReadMaxRows(3), None])
def test_batch_respects_the_limit(env, queue, limit):
    sent = send(env, 8)
    query = env.query(limit=limit, maxMessagesPerTrigger=3)
    assert [ids(rows) for rows in query.run_until_empty()] == [sent[:3], sent[3:6], sent[6:]]


def test_unlimited_batch_ends_while_a_producer_continues(env, queue):
    sent = send(env, 2500)
    stopped = threading.Event()

    def produce():
        with RSMQ.from_url(env.redis.url, ns=env.ns) as producer:
            while not stopped.is_set():
                producer.send_messages("q", ["late"] * 100)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        query = env.query(limit=ReadAllAvailable(), maxMessagesPerTrigger=10)
        assert query.poll() is True
    finally:
        stopped.set()
        producer.join()
    received = ids(query.finish())
    assert received[:2500] == sent
    assert query.run() is not None


def test_thousands_of_messages_make_several_parts_and_tasks(env, queue):
    sent = send(env, 5000)
    query = env.query(numPartitions=1, maxIdsPerPartition=2000)
    query.poll()
    partitions = query.plan()
    assert [each.parts for each in partitions] == [range(2), range(2, 4), range(4, 5)]
    tasks = query.tasks(partitions)
    assert [len(task) for task in tasks] == [2000, 2000, 1000]
    assert [row["id"] for task in tasks for row in task] == sent
    query.reader.stop()

    again = env.query(numPartitions=4)
    again.offsets = query.offsets
    assert [len(each.parts) for each in again.plan()] == [2, 1, 1, 1]
    assert again.run() is None
    assert env.scores() == {}
    assert again.progress["acknowledged"] == 5000


@pytest.mark.parametrize(
    ("sizes", "tasks", "most", "expected"),
    [
        ([1000] * 5, 4, 250_000, [2, 1, 1, 1]),
        ([1000] * 5, 1, 2000, [2, 2, 1]),
        ([1000] * 5, 8, 250_000, [1] * 5),
        ([100] * 8, 4, 250_000, [2] * 4),
        ([3000, 10, 10], 2, 2000, [1, 2]),
        ([], 4, 250_000, []),
    ],
)
def test_a_batch_has_at_most_as_many_tasks_as_configured(sizes, tasks, most, expected):
    ranges = list(group_parts(sizes, max(1, -(-sum(sizes) // tasks)), most))
    assert [part for each in ranges for part in each] == list(range(len(sizes)))
    assert [len(each) for each in ranges] == expected


def test_huge_bodies_are_read_completely(env):
    env.rsmq.create_queue("q", maxsize=-1)
    for n in range(20):
        env.rsmq.send_message("q", chr(ord("a") + n) * 1_000_000)
    query = env.query()
    rows = query.run()
    assert [(row["message"][0], len(row["message"])) for row in rows] == [
        (chr(ord("a") + n), 1_000_000) for n in range(20)
    ]
    assert query.run() is None
    assert env.scores() == {}


def test_body_that_is_not_utf8_does_not_stop_a_query(env, queue):
    env.rsmq.send_message("q", b"\xff\xfe", codec=BYTES)
    send(env, 1)
    query = env.query()
    assert [row["message"] for row in query.run()] == ["\ufffd\ufffd", "m0"]
    assert query.run() is None
    assert env.scores() == {}


# --- crashes and restarts ----------------------------------------------------------------------


def test_logged_batch_is_read_again_after_a_crash(env, queue):
    sent = send(env, 5)
    query = env.query(limit=ReadMaxRows(3))
    query.poll()
    send(env, 1)
    assert ids(query.restart()) == sent[:3]
    assert env.fields()["totalrecv"] == b"3"
    assert ids(query.run()) == sent[3:] + [row["id"] for row in query.sink[2][2:]]


def test_done_batch_is_acknowledged_by_the_next_process(env, queue):
    sent = send(env, 5)
    query = env.query(limit=ReadMaxRows(3))
    query.run()
    assert query.restart() is None
    assert len(env.scores()) == 5
    assert ids(query.run()) == sent[3:]
    assert list(env.scores()) == sent[3:]
    assert query.progress["acknowledged"] == 3


def test_a_replayed_batch_is_hidden_again(env, queue):
    sent = send(env, 2)
    query = env.query(visibilityTimeout=100)
    query.poll()
    env.elapse(1000)
    query.restart()
    assert all(score > env.now_ms() + 90_000 for score in env.scores().values())
    assert env.rsmq.receive_message("q") is None
    assert query.ids() == sent


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "nightly"}])
def test_received_batch_that_was_not_logged_is_found_from_the_same_start(
    env, queue, monkeypatch, group
):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.05)
    sent = send(env, 5)
    query = env.query(limit=ReadMaxRows(2), **group)
    query.run()
    assert query.request_offset()["batch"] == 2
    send(env, 3)
    query.restart()
    rows = query.run()
    assert ids(rows) == sent[2:4]
    assert [row["receive_count"] for row in rows] == [1, 1]


def test_batch_that_is_found_late_is_hidden_again(env, queue):
    send(env, 4)
    query = env.query(limit=ReadMaxRows(1))
    query.run()
    query.request_offset()
    env.elapse(1000)
    query.restart()
    assert len(query.run()) == 1
    assert env.rsmq.receive_message("q").body == "m3"
    assert env.rsmq.receive_message("q") is None


def test_first_batch_that_was_not_logged_is_received_again_after_its_timeout(env, queue):
    sent = send(env, 2)
    query = env.query()
    query.request_offset()
    query.restart()
    assert query.run() is None
    env.elapse(601)
    assert ids(query.run()) == sent
    assert [row["receive_count"] for row in query.sink[1]] == [2, 2]
    assert query.run() is None
    assert query.progress["acknowledged"] == 2


def test_group_finds_its_batch_in_flight_without_a_checkpoint(env, queue, monkeypatch):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.05)
    sent = send(env, 6)
    query = env.query(consumerGroup="nightly", limit=ReadMaxRows(2))
    query.run()
    query.run()
    assert query.request_offset()["batch"] == 3
    query.crash()

    query = env.query(consumerGroup="nightly", limit=ReadMaxRows(2))
    assert ids(query.run()) == sent[4:]
    assert query.offsets[0]["batch"] == 3
    assert query.run() is None
    assert env.scores() == {}


@pytest.mark.parametrize("answered", [False, True])
def test_interrupted_receive_is_one_batch(env, queue, answered):
    env.rsmq.create_queue("r")
    sent = [*send(env, 2500), *send(env, 1500, "r")]
    calls = 0
    while True:
        query = env.query(subscribe="q,r", queue="", limit=ReadMaxRows(3500))
        start = json_round_trip(query.reader.initialOffset())
        query.offsets.append(start)
        with suppress(Crashed), crash_at_call(env.server(), calls, answered=answered):
            query.request_offset()
            break
        query.restart()
        query.done = 1
        batches = query.run_until_empty()
        assert sorted(id for rows in batches for id in ids(rows)) == sorted(sent)
        assert len(batches[0]) <= 3500
        for name in ("q", "r"):
            assert env.scores(name) == {}
        sent = [*send(env, 2500), *send(env, 1500, "r")]
        calls += 1
    assert calls >= 4


def test_dying_process_adds_nothing_to_the_batch_of_its_successor(env, queue, monkeypatch):
    monkeypatch.setattr(parts, "MAX_PART_MESSAGES", 2)
    query = env.query()
    send(env, 1)
    query.run()
    sent = send(env, 6)
    dying = query.reader
    with suppress(Crashed), crash_at_call(env.server(), 2):
        query.request_offset()
    assert len(env.raw.hkeys(env.keys().leases)) == 2  # a part of batch 2, and its sizes

    query.start()
    assert query.poll()
    before = env.scores(), env.fields()
    with pytest.raises(LeaseTakenOver, match="another process"):
        dying.consumer.parts.receive(2, env.queue(), 1, BatchLimits(2))
    assert (env.scores(), env.fields()) == before
    with suppress(LeaseTakenOver):
        dying.latestOffset(query.offsets[0], ReadMaxRows(10))
    assert ids(query.restart()) == sent[:2]
    assert [ids(rows) for rows in query.run_until_empty()] == [sent[2:]]
    assert env.scores() == {}


@pytest.mark.parametrize("queues", ["q", "q,r"])
def test_parts_beyond_the_logged_count_are_released(env, queue, queues):
    """An earlier version could add parts to a batch after Spark had logged it."""
    env.rsmq.create_queue("r")
    query = env.query(queue="", subscribe=queues)
    sent = send(env, 2)
    query.poll()
    late = send(env, 3)
    for part, number in ((1, 2), (2, 1)):
        query.reader.consumer.parts.receive(1, env.queue(), part, BatchLimits(number))
    name = query.reader.consumer.name
    assert len(env.raw.hkeys(env.keys().leases)) == 4

    assert ids(query.restart()) == sent
    assert set(env.raw.hkeys(env.keys().leases)) == {f"{name}:1".encode(), f"{name}:1:0".encode()}
    expires_ms, *sizes = msgpack.unpackb(env.raw.hget(env.keys().leases, f"{name}:1"))
    assert (expires_ms > env.now_ms(), sizes) == (True, [2])
    assert all(env.scores()[id] <= env.now_ms() for id in late)
    assert all(env.scores()[id] > env.now_ms() for id in sent)
    assert ids(query.restart() or query.sink[1]) == sent
    assert [ids(rows) for rows in query.run_until_empty()] == [late]
    assert env.scores() == {}


@pytest.mark.parametrize("answered", [False, True])
def test_interrupted_acknowledgement_is_completed(env, queue, answered):
    env.rsmq.create_queue("r")
    send(env, 2 * MAX_PART_MESSAGES + 1)
    send(env, 5, "r")
    query = env.query(subscribe="q,r", queue="")
    query.run()
    calls = 0
    while True:
        try:
            with crash_at_call(env.server(), calls, answered=answered):
                assert query.run() is None
        except Crashed:
            query.restart()
            calls += 1
        else:
            break
        assert len(query.ids()) == 2 * MAX_PART_MESSAGES + 6
    assert env.scores("q") == env.scores("r") == {}
    assert env.raw.exists(env.keys("q").leases, env.keys("r").leases) == 0


def test_missing_parts_do_not_prevent_an_acknowledgement(env, queue):
    send(env, 2 * MAX_PART_MESSAGES)
    query = env.query()
    query.run()
    lease_name = query.offsets[-1]["lease"]
    env.raw.hdel(env.keys().leases, f"{lease_name}:1:0")
    query.restart()
    assert query.run() is None
    assert len(env.scores()) == MAX_PART_MESSAGES
    assert env.raw.exists(env.keys().leases) == 0


# --- other consumers ---------------------------------------------------------------------------


def test_message_received_by_another_consumer_is_kept_and_counted_as_lost(env, queue):
    sent = send(env, 4)
    query = env.query()
    query.poll()
    env.elapse(601)
    received, deleted = env.rsmq.receive_messages("q", 2, vt=100)
    env.rsmq.delete_message(deleted)
    score = env.scores()[received.id]

    assert ids(query.restart()) == sent[2:]
    assert env.scores()[received.id] == score
    assert query.run() is None
    assert query.progress["acknowledged"] == 2
    assert query.progress["lost"] == 1
    assert list(env.scores()) == [received.id]
    assert env.fields()[f"{received.id}:rc"] == b"2"
    assert env.rsmq.delete_message(received) is True


def test_heartbeat_extends_the_timeout_until_stop(env, queue):
    send(env, 3)
    env.rsmq.send_message("q", "free", delay=1000)
    query = env.query(visibilityTimeout=1)
    query.poll()
    first = max(list(env.scores().values())[:3])

    def read_scores():
        assert env.rsmq.receive_message("q") is None
        return list(env.scores().values())[:3]

    wait_until(lambda: min(read_scores()) > first + 1000)
    heartbeat = query.reader.consumer.heartbeat
    before = env.state()
    query.reader.stop()
    heartbeat.join(WAIT_SECONDS)
    assert not heartbeat.is_alive()
    changed = {key for key, value in env.state().items() if value != before[key]}
    assert changed <= {env.keys().zset}  # by a last heartbeat before the stop
    env.elapse(2)
    assert env.rsmq.receive_message("q").receive_count == 2


def test_stop_releases_nothing(env, queue):
    send(env, 3)
    query = env.query()
    query.poll()
    before = env.state()
    query.reader.stop()
    query.reader.stop()
    assert env.state() == before
    assert len(query.finish()) == 3


def test_stop_releases_the_name_of_a_group(env, queue):
    env.rsmq.create_queue("r")
    send(env, 1)
    query = env.query(queue="", subscribe="q,r", consumerGroup="nightly")
    query.poll()
    assert env.raw.hexists(env.keys("r").leases, "nightly")
    assert query.reader.consumer.heartbeat.is_alive()
    query.reader.stop()
    assert env.raw.hexists(env.keys("r").leases, "nightly") is False
    assert len(env.raw.hkeys(env.keys().leases)) == 2  # the batch stays
    successor = env.query(queue="", subscribe="q,r", consumerGroup="nightly")
    assert len(successor.run()) == 1
    query.reader.stop()  # the name belongs to the successor
    assert env.raw.hexists(env.keys().leases, "nightly")


def test_group_has_one_running_query(env, queue, monkeypatch):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 1)
    send(env, 1)
    living = env.query(consumerGroup="nightly")
    living.poll()
    rival = env.query(consumerGroup="nightly")
    with pytest.raises(
        InvalidOption, match="Option consumerGroup: another query that is running has the stream"
    ):
        rival.poll()
    assert len(living.finish()) == 1

    living.crash()
    assert rival.run() == living.sink[1]
    living.restart()
    with pytest.raises(
        InvalidOption, match="Option consumerGroup: another query that is running has the stream"
    ):
        living.run()
    assert env.fields()["totalrecv"] == b"1"


@pytest.mark.parametrize("is_alive", [True, False])
def test_second_query_of_a_group_ends_as_soon_as_the_holder_has_renewed(env, queue, is_alive):
    leased = env.queue()
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 3 and is_alive:
            living.renew()
        elif len(pauses) == 3:
            living.release()

    texts = env.options(queue="q", consumerGroup="g")
    source, options = parse_source_options(texts), parse_stream_options(texts)
    names = [StreamIdentity("g", source, options) for _ in range(2)]
    living, rival = (ownership.Ownership(each, sleep) for each in names)
    living.acquire([leased])
    # as if ten seconds had passed
    renewal = acquire_ownership(leased.keys, "g", names[0].holder, seconds=5, lifetime=600)
    leased.server.rsmq.run(renewal)
    if is_alive:
        with pytest.raises(InvalidOption, match="another query that is running has the stream"):
            rival.acquire([leased])
    else:
        rival.acquire([leased])
    assert pauses == [1.0] * 3
    holder, _ = msgpack.unpackb(env.raw.hget(leased.keys.leases, "g"))
    assert holder == names[not is_alive].holder


def test_query_fails_after_another_took_over_its_group(env, queue, monkeypatch):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 1)
    send(env, 1)
    silent = env.query(consumerGroup="nightly")
    silent.run()
    silent.reader.consumer.stop()  # as in a process that is suspended
    rival = env.query(consumerGroup="nightly")
    assert len(rival.run()) == 1
    silent.reader.consumer.ownership.renew()
    with pytest.raises(LeaseTakenOver, match="stream nightly was taken over by another process"):
        silent.run()
    assert len(env.scores()) == 1


def test_group_has_one_running_query_after_its_queue_was_created_again(env, queue, monkeypatch):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 1)
    send(env, 1)
    living = env.query(consumerGroup="nightly")
    living.run()
    assert not living.poll()
    holder = living.reader.consumer.ownership
    env.rsmq.delete_queue("q")
    wait_until(lambda: holder._missing_queues)
    env.rsmq.create_queue("q")
    wait_until(lambda: env.raw.hexists(env.keys().leases, "nightly"))
    rival = env.query(consumerGroup="nightly")
    with pytest.raises(InvalidOption, match="another query that is running has the stream"):
        rival.poll()
    send(env, 1)
    assert len(living.run()) == 1


def test_group_has_one_running_query_before_a_queue_exists(env, monkeypatch):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(stream_queues, "_LIST_SECONDS", 0.0)
    options = {"subscribePattern": "orders-.*", "queue": "", "consumerGroup": "nightly"}
    first, second = env.query(**options), env.query(**options)
    with suppress(InvalidOption, LeaseTakenOver):
        first.run()
        second.run()
    env.rsmq.create_queue("orders-1")
    sent = send(env, 1, "orders-1")
    for query in (first, second):
        with suppress(InvalidOption, LeaseTakenOver):
            query.run()
    assert first.ids() + second.ids() == sent


# --- limits, queues, dead letters --------------------------------------------------------------


def test_queues_share_a_batch_and_unused_shares_are_divided(env):
    for name, number in (("a", 300), ("b", 10), ("c", 0), ("d", 300)):
        env.rsmq.create_queue(name)
        send(env, number, name)
    query = env.query(subscribe="a,b,c,d", queue="", limit=ReadMaxRows(100))
    query.poll()
    counts = query.offsets[-1]["queues"]
    assert sum(counts.values()) == 100
    assert (counts["b"], counts.get("c")) == (10, None)
    assert min(counts["a"], counts["d"]) >= 25
    assert abs(counts["a"] - counts["d"]) <= 20
    rows = query.finish()
    assert {name: len([row for row in rows if row["queue"] == name]) for name in counts} == counts
    assert sum(map(len, query.run_until_empty())) == 510
    assert query.progress["acknowledged"] == 610


def test_new_queues_of_a_pattern_are_read(env, monkeypatch):
    monkeypatch.setattr(stream_queues, "_LIST_SECONDS", 0.0)
    query = env.query(subscribePattern="orders-.*", queue="")
    assert query.run() is None
    for name in ("orders-1", "other"):
        env.rsmq.create_queue(name)
        send(env, 1, name)
    assert [row["queue"] for row in query.run()] == ["orders-1"]
    assert query.run() is None
    assert len(env.scores("other")) == 1


def test_deleted_queues_of_a_pattern_are_left_out(env):
    for name in ("orders-1", "orders-2"):
        env.rsmq.create_queue(name)
        send(env, 1, name)
    query = env.query(subscribePattern="orders-.*", queue="")
    assert len(query.run()) == 2
    env.rsmq.delete_queue("orders-1")
    assert query.run() is None
    send(env, 1, "orders-2")
    assert len(query.run()) == 1


@pytest.mark.parametrize("by", ["option", "policy"])
def test_message_received_too_often_becomes_a_dead_letter(env, queue, by):
    env.rsmq.create_queue("dead")
    poison, good = send(env, 2)
    env.raw.hset(env.keys().hash, mapping={f"{poison}:rc": 2, f"{poison}:fr": 5})
    if by == "option":
        query = env.query(maxReceiveCount=2, deadLetterQueue="dead")
    else:
        env.rsmq.set_dead_letter_policy("q", "dead", 2)
        query = env.query()

    assert ids(query.run()) == [good]
    assert list(env.scores("dead")) == [poison]
    assert env.fields("dead")[f"{poison}:rc"] == b"2"
    assert env.fields("dead")[f"{poison}:fr"] == b"5"
    assert poison not in env.fields()
    assert query.run() is None
    assert env.scores() == {}


def test_dead_letters_are_not_read_by_the_stream_itself(env, queue):
    env.rsmq.create_queue("quarantine")
    (poison,) = send(env, 1)
    env.rsmq.receive_message("q", vt=0)
    query = env.query(
        subscribePattern="q.*", queue="", maxReceiveCount=1, deadLetterQueue="quarantine"
    )
    query.run_until_empty()
    assert query.ids() == []
    assert list(env.scores("quarantine")) == [poison]


def test_available_now_reads_only_messages_visible_at_its_start(env, queue):
    env.rsmq.create_queue("dead")
    dead = send(env, 1200)
    env.raw.hset(env.keys().hash, mapping={f"{id}:rc": "5" for id in dead})
    env.raw.zadd(env.keys().zset, dict.fromkeys(dead, 1))
    sent = send(env, 250)
    query = env.query(
        available_now=True, limit=ReadMaxRows(100), maxReceiveCount=5, deadLetterQueue="dead"
    )
    begin = env.now_ms()
    wait_until(lambda: env.now_ms() > begin)
    late = []
    batches = []
    while query.poll() and len(batches) < 5:
        batches.append(ids(query.finish()))
        late += send(env, 150)
    assert batches == [sent[:100], sent[100:200], sent[200:]]
    assert sorted(env.scores()) == sorted(late)
    assert len(env.scores("dead")) == 1200

    query.restart()  # the next run reads the remaining messages
    begin = env.now_ms()
    wait_until(lambda: env.now_ms() > begin)
    assert sorted(id for rows in query.run_until_empty() for id in ids(rows)) == sorted(late)
    assert env.scores() == {}


def poll_idle(query):
    """Poll as Spark polls an idle query; return the offset of a batch, or None."""
    return query.request_offset(wake=False)


def wait_for_batch(query):
    """Poll until there is a batch, and log it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (end := poll_idle(query)) is None:
        assert time.monotonic() < deadline, "there is no batch"
    query.offsets.append(end)


@pytest.mark.parametrize("pattern", [False, True])
def test_a_message_is_noticed_by_one_of_many_short_polls(env, queue, pattern, monkeypatch):
    monkeypatch.setattr(stream_queues, "_LIST_SECONDS", 0.0)
    names = {"queue": "", "subscribePattern": "q|r"} if pattern else {}
    query = env.query(idleWait=60, **names)
    for _ in range(100):  # with polls of idleWait, this would take longer than the test may
        assert poll_idle(query) is None
    if pattern:
        env.rsmq.create_queue("r")
    name = "r" if pattern else "q"
    send(env, 1, name)
    wait_for_batch(query)
    assert query.offsets[-1]["queues"] == {name: 1}


def test_a_message_that_becomes_visible_is_noticed(env, queue):
    (id,) = send(env, 1)
    env.rsmq.receive_message("q", vt=2)
    query = env.query()
    wait_for_batch(query)
    assert ids(query.finish()) == [id]
    assert query.sink[len(query.offsets)][0]["receive_count"] == 2


@pytest.mark.parametrize("had_messages", [False, True])
@pytest.mark.parametrize("queues", [1, 50])
def test_an_idle_query_sends_at_most_four_commands_a_second(env, had_messages, queues):
    names = [f"q{n}" for n in range(queues)]
    for name in names:
        env.rsmq.create_queue(name)
    query = env.query(queue="", subscribe=",".join(names), visibilityTimeout=600)
    if had_messages:
        send(env, 1, "q0")
        query.run()
    for _ in range(30):  # the tracking connection is opened, and has read all queues
        assert poll_idle(query) is None
    begin = time.monotonic()
    with env.commands() as commands:
        for _ in range(60):
            assert poll_idle(query) is None
    elapsed = time.monotonic() - begin
    assert len(commands) <= 4 * elapsed, commands
    assert not any("lease_messages" in command for command in commands)


def test_the_lease_of_an_idle_query_is_checked(env, queue, monkeypatch):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.3)
    first = env.query(consumerGroup="g")
    assert poll_idle(first) is None
    first.reader.consumer.stop()
    first.reader.consumer.heartbeat.join()
    second = env.query(consumerGroup="g")
    assert second.run() is None
    with pytest.raises(LeaseTakenOver):
        for _ in range(100):
            assert poll_idle(first) is None


# --- lost data --------------------------------------------------------------------------------


@pytest.mark.parametrize("remove", ["purge_queue", "delete_queue"])
def test_lost_batch_fails_the_query(env, queue, remove):
    env.rsmq.create_queue("r")
    send(env, 2)
    send(env, 2, "r")
    query = env.query(subscribe="q,r", queue="")
    query.poll()
    partitions = query.plan()
    getattr(env.rsmq, remove)("q")
    with pytest.raises(BatchLost) as caught:
        query.tasks(partitions)
    assert "failOnDataLoss=false" in caught.value.hint
    query.crash()
    query.start()
    if remove == "delete_queue":
        env.rsmq.create_queue("q")
    with pytest.raises(BatchLost, match=r"Batch 1 of stream .* queue q was purged or deleted"):
        query.finish()


@pytest.mark.parametrize("remove", ["purge_queue", "delete_queue"])
def test_query_continues_without_a_lost_batch_if_configured(env, queue, remove):
    env.rsmq.create_queue("r")
    send(env, 2)
    other = send(env, 2, "r")
    query = env.query(subscribe="q,r", queue="", failOnDataLoss=False)
    query.poll()
    partitions = query.plan()
    getattr(env.rsmq, remove)("q")
    assert [ids(task) for task in query.tasks(partitions)] == [[], other]
    query.crash()
    query.start()
    if remove == "delete_queue":
        env.rsmq.create_queue("q")
    assert ids(query.finish()) == other
    sent = send(env, 1)
    assert ids(query.run()) == sent
    assert query.progress["acknowledged"] == 2


def test_deletion_of_a_named_queue_fails_the_query(env, queue):
    query = env.query()
    query.run()
    env.rsmq.delete_queue("q")
    with pytest.raises(QueueNotFound, match="Name a queue that exists, or check the options"):
        query.run()


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "g"}])
def test_query_continues_without_a_deleted_queue_if_configured(
    env, queue, monkeypatch, caplog, group
):
    monkeypatch.setattr(stream_queues, "_LIST_SECONDS", 0.0)
    env.rsmq.create_queue("r")
    query = env.query(subscribe="q,r", queue="", failOnDataLoss=False, **group)
    send(env, 1)
    query.run()
    env.rsmq.delete_queue("q")
    assert query.run() is None
    sent = send(env, 1, "r")
    assert ids(query.run()) == sent
    assert "Queue q was deleted. The query continues without it." in caplog.text

    query.restart()
    assert [ids(rows) for rows in query.run_until_empty()] == []
    env.rsmq.create_queue("q")
    sent = send(env, 1)
    assert ids(query.run()) == sent


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "g"}])
def test_first_start_without_a_named_queue_fails_whatever_is_configured(
    env, queue, monkeypatch, group
):
    monkeypatch.setattr(stream_queues, "_LIST_SECONDS", 0.0)
    query = env.query(subscribe="q,r", queue="", failOnDataLoss=False, **group)
    for _ in range(2):  # its checkpoint has no offset yet
        send(env, 1)
        with pytest.raises(QueueNotFound, match=r"'r'.*Name a queue that exists"):
            query.poll()
        assert query.restart() is None

    env.rsmq.create_queue("r")
    assert query.poll()
    env.rsmq.delete_queue("r")
    assert len(query.restart()) == 2


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "g"}])
def test_queue_that_is_deleted_before_the_first_message_may_be_missing(
    env, queue, monkeypatch, group
):
    monkeypatch.setattr(stream_queues, "_LIST_SECONDS", 0.0)
    env.rsmq.create_queue("r")
    query = env.query(subscribe="q,r", queue="", failOnDataLoss=False, **group)
    assert query.run() is None
    env.rsmq.delete_queue("r")
    assert query.run() is None
    sent = send(env, 1)
    assert ids(query.run()) == sent


def test_queues_of_a_restarted_query_that_are_missing_are_logged(env, queue, caplog):
    query = env.query(subscribe="q,r", queue="", failOnDataLoss=False)
    env.rsmq.create_queue("r")
    send(env, 1)
    query.run()
    env.rsmq.delete_queue("r")
    query.restart()
    assert query.run() is None
    assert caplog.text.count("Queue r does not exist. The query starts without it.") == 1


def test_longest_lease_retention_of_a_queue_applies_to_receipts(env, queue):
    send(env, 2)
    query = env.query(limit=ReadMaxRows(1), visibilityTimeout=30, leaseRetention=1000)
    query.poll()
    other = env.query(limit=ReadMaxRows(1), visibilityTimeout=30, leaseRetention=60)
    other.poll()
    assert env.raw.pttl(env.keys().leases) > 900_000


# --- a checkpoint that was set back ------------------------------------------------------------


def acknowledged(env):
    stored = env.raw.hgetall(f"{env.ns}:x:acked")
    return {name: msgpack.unpackb(value, raw=True)[0] for name, value in stored.items()}


def set_back(query, batches):
    """Remove the last batches from the logs; the sink keeps them."""
    query.crash()
    del query.offsets[-batches:]
    query.done = len(query.offsets)
    query.start()


@pytest.mark.parametrize("batches", [1, 2, 3])
@pytest.mark.parametrize("remove", ["nothing", "leases", "purge"])
def test_no_new_messages_are_received_for_an_acknowledged_batch(
    env, queue, batches, remove, monkeypatch
):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.3)
    send(env, 3)
    query = env.query(limit=ReadMaxRows(1), consumerGroup="g")
    assert len(query.run_until_empty()) == 3
    assert acknowledged(env) == {b"g:q": 3}
    set_back(query, batches)
    if remove == "leases":
        env.raw.delete(env.keys().leases)
    elif remove == "purge":
        env.rsmq.purge_queue("q")
    send(env, 2)
    before = env.scores(), env.fields()
    if batches < 3:
        for _ in range(2):
            with pytest.raises(CheckpointSetBack, match=f"asks for batch {4 - batches}, but batch"):
                query.poll()
            assert (env.scores(), env.fields()) == before
            query.restart()
    else:  # the checkpoint is empty: it is a new one, and starts after the last batch
        assert query.poll()
        assert query.offsets[-1]["batch"] == 4
    assert acknowledged(env) == {b"g:q": 3}


@pytest.mark.parametrize("kept_offsets", [1, 2], ids=["receive", "plan"])
def test_a_batch_is_refused_whose_acknowledgement_was_interrupted(env, queue, kept_offsets):
    send(env, 2)
    query = env.query(limit=ReadMaxRows(1))
    query.run()
    query.run()
    query.restart()
    with suppress(Crashed), crash_at_call(env.server(), 2, answered=True):
        query.run()
    assert list(acknowledged(env).values()) == [2]
    sizes = f"{query.offsets[0]['lease']}:2"
    assert env.raw.hexists(env.keys().leases, sizes)
    assert not env.raw.hexists(env.keys().leases, f"{sizes}:0")
    query.crash()
    del query.offsets[kept_offsets:]
    query.done = 1
    query.start()
    with pytest.raises(CheckpointSetBack, match="asks for batch 2, but batch 2 was acknowledged"):
        query.finish() if kept_offsets == 2 else query.run()


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_an_acknowledged_batch_is_not_planned_again(env, queue, fail_on_data_loss):
    """The commit log of Spark lacks the last batch: a sink would replace its rows by none."""
    send(env, 2)
    query = env.query(limit=ReadMaxRows(1), failOnDataLoss=fail_on_data_loss)
    query.run_until_empty()
    query.done -= 1
    query.crash()
    query.start()
    with pytest.raises(CheckpointSetBack, match="asks for batch 2, but batch 2 was acknowledged"):
        query.finish()


def test_a_batch_that_a_successor_has_acknowledged_is_not_reported_as_lost(env, queue):
    send(env, 2)
    query = env.query(limit=ReadMaxRows(1))
    query.poll()
    suspended = query.reader
    query.start()
    query.finish()
    query.run_until_empty()
    with pytest.raises(LeaseTakenOver):
        suspended.partitions(suspended.initialOffset(), json_round_trip(query.offsets[0]))


def test_queries_of_one_name_on_different_queues_are_independent(env, queue):
    env.rsmq.create_queue("r")
    options = {"limit": ReadMaxRows(1), "consumerGroup": "g"}
    queries = {
        "q": env.query(**options),
        "r": env.query(queue="r", **options),
        "a": env.query(queue="", subscribePattern="[a-c]", **options),
    }
    env.rsmq.create_queue("a")
    for name, number in (("q", 4), ("r", 2), ("a", 1)):
        sent = send(env, number, name)
        assert [ids(rows) for rows in queries[name].run_until_empty()] == [[id] for id in sent]

    assert acknowledged(env) == {b"g:q": 4, b"g:r": 2, b"g:[a-c]": 1}
    assert env.scores() == env.scores("r") == env.scores("a") == {}


def test_unacknowledged_batch_is_read_again_unchanged(env, queue):
    send(env, 2)
    query = env.query(limit=ReadMaxRows(1))
    rows = query.run(), query.run()
    set_back(query, 1)
    send(env, 2)
    assert query.run() == rows[1]


@pytest.mark.parametrize("calls", range(6))
def test_new_checkpoint_completes_an_interrupted_acknowledgement(env, queue, calls, monkeypatch):
    monkeypatch.setattr(parts, "MAX_PART_MESSAGES", 2)
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.3)
    env.rsmq.create_queue("r")
    options = {"subscribe": "q,r", "queue": "", "consumerGroup": "g"}
    send(env, 5)
    send(env, 1, "r")
    query = env.query(**options)
    query.run()
    with suppress(Crashed), crash_at_call(env.server(), calls):
        query.poll()
    query.crash()
    has_begun = acknowledged(env)[b"g:q,r"] > 0
    late = send(env, 2)

    query = env.query(**options)
    rows = query.run_until_empty()
    if has_begun:
        assert [ids(batch) for batch in rows] == [late]
    else:  # Spark may not have logged the batch: it is the first of the new checkpoint
        assert [len(batch) for batch in rows] == [6, 2]
    assert env.scores() == {}
    assert env.scores("r") == {}
    assert env.raw.hgetall(env.keys().leases).keys() <= {b"g"}


def test_the_heartbeat_keeps_the_number_of_the_last_batch(env, queue, monkeypatch):
    monkeypatch.setattr(operations, "ACKNOWLEDGED_SECONDS", 2)
    send(env, 1)
    query = env.query(visibilityTimeout=1, leaseRetention=2)
    query.run_until_empty()
    time.sleep(2.5)
    assert list(acknowledged(env).values()) == [1]
    query.crash()
    wait_until(lambda: not acknowledged(env))


# --- batches that the driver acknowledges --------------------------------------------------------


class FakeEvent:
    """An event of Spark's listener bus, with the progress of one query."""

    def __init__(self, offset, run="r"):
        self.runId = run
        sources = [{"endOffset": offset}, {"endOffset": {"other": 1}}, {"endOffset": None}]
        self.progress = SimpleNamespace(json=json.dumps({"sources": sources}), runId=run)


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "g"}])
def test_listener_acknowledges_the_last_batch(env, queue, monkeypatch, group):
    monkeypatch.setattr(acknowledgement, "ACKNOWLEDGE_DELAY_SECONDS", 0.01)
    env.rsmq.create_queue("r")
    listener = AcknowledgeListener(url=env.redis.url, ns=env.ns)
    query = env.query(queue="", subscribe="q,r", **group)
    send(env, 2)
    send(env, MAX_PART_MESSAGES + 1, "r")
    query.run()
    listener.onQueryProgress(FakeEvent(query.offsets[-1]))
    wait_until(lambda: not env.scores("r") and not env.scores())
    wait_until(lambda: env.raw.hlen(env.keys("r").leases) == len(group))
    name = "g:q,r" if group else query.offsets[-1]["lease"]
    assert acknowledged(env) == {name.encode(): 1}
    assert env.raw.pttl(f"{env.ns}:x:acked") > 365 * 86_400_000
    [stored] = env.raw.hvals(f"{env.ns}:x:acked")
    assert msgpack.unpackb(stored, raw=True)[2] / 1000 > time.time() + 365 * 86_400

    sent = send(env, 1)
    assert [ids(rows) for rows in query.run_until_empty()] == [sent]
    assert acknowledged(env) == {name.encode(): 2}


def test_listener_leaves_batches_to_a_busy_query_until_it_ends(env, queue, monkeypatch):
    monkeypatch.setattr(acknowledgement, "ACKNOWLEDGE_DELAY_SECONDS", 600)
    listener = AcknowledgeListener(url=env.redis.url, ns=env.ns)
    query = env.query(limit=ReadMaxRows(1))
    sent = send(env, 3)
    for _ in range(3):
        query.run()
        listener.onQueryProgress(FakeEvent(query.offsets[-1]))
        listener.onQueryProgress(FakeEvent(json.dumps(query.offsets[-1]), "another"))
    assert list(env.scores()) == sent[2:]
    assert query.progress["acknowledged"] == 2
    listener.onQueryTerminated(FakeEvent(None))
    assert env.scores() == {}
    listener.onQueryTerminated(FakeEvent(None))
    listener.onQueryTerminated(FakeEvent(None, "another"))
    assert env.raw.exists(env.keys().leases) == 0


@pytest.mark.parametrize("ns", ["{}-other", "{{{}}}", "{}-a,{}-b"])
def test_listener_of_another_place_stores_nothing_and_warns_once(env, queue, caplog, ns):
    listener = AcknowledgeListener(url=env.redis.url, ns=ns.format(env.ns, env.ns))
    query = env.query(limit=ReadMaxRows(1))
    send(env, 2)
    for run in ("a", "b"):
        query.run()
        listener.onQueryProgress(FakeEvent(query.offsets[-1], run))
        listener.onQueryTerminated(FakeEvent(None, run))
    assert len(env.scores()) == 1  # the query itself has acknowledged the batch before
    assert {key.split(b":")[0] for key in env.raw.keys(f"*{env.ns}[-}}:]*")} == {env.ns.encode()}
    (record,) = [
        each for each in caplog.records if each.name == "rsmq.spark.stream.acknowledgement"
    ]
    assert f"A query reads namespace '{env.ns}'. " in record.message
    assert "Add a listener with the ns of the query" in record.message


def test_offset_has_the_namespace(env, queue):
    query = env.query()
    send(env, 1)
    query.run()
    (offset,) = query.offsets
    assert offset == {
        "version": 1, "lease": offset["lease"], "batch": 1, "queues": {"q": 1}, "ns": env.ns,
    }  # fmt: skip


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "g"}])
def test_offsets_of_an_earlier_library_lack_the_namespace(env, queue, caplog, group):
    query = env.query(limit=ReadMaxRows(1), **group)
    sent = send(env, 3)
    query.run()
    query.offsets = [{k: v for k, v in query.offsets[0].items() if k != "ns"}]
    listener = AcknowledgeListener(url=env.redis.url, ns=env.ns)
    listener.onQueryProgress(FakeEvent(query.offsets[0]))
    listener.onQueryTerminated(FakeEvent(None))
    assert set(env.scores()) == set(sent[1:])
    query.restart()
    assert [ids(rows) for rows in query.run_until_empty()] == [[sent[1]], [sent[2]]]
    assert [offset.get("ns") for offset in query.offsets] == [None, env.ns, env.ns]
    assert not [each for each in caplog.records if each.name == "rsmq.spark.stream.acknowledgement"]


def test_asynchronous_progress_is_refused(env, queue):
    """With this option of the sink, Spark does not commit a batch before it plans the next."""
    send(env, 2)
    query = env.query(limit=ReadMaxRows(1))
    query.run()
    query.offsets.append(query.request_offset())
    with pytest.raises(InvalidOption, match="asyncProgressTrackingEnabled"):
        query.plan()
    query.crash()
    query.start()
    assert len(query.finish()) == 1


# --- servers that fail -------------------------------------------------------------------------


def test_first_batch_without_messages_is_planned_twice_after_a_restart(env, queue):
    """Spark logs such a batch, and plans each batch of a query twice that uses the stream twice."""
    query = env.query()
    limit = query.reader.getDefaultReadLimit()
    end = json_round_trip(query.reader.latestOffset(query.reader.initialOffset(), limit))
    query.crash()
    query.start()
    start = json_round_trip(query.reader.initialOffset())
    assert start != end
    assert [query.reader.partitions(start, end) for _ in range(2)] == [[], []]


def test_stream_survives_a_script_flush_between_any_calls(env, queue):
    sent = send(env, 3)
    query = env.query(limit=ReadMaxRows(2))
    found = []
    for _ in range(2):
        env.raw.script_flush()
        assert query.poll()
        env.raw.script_flush()
        partitions = query.plan()
        env.raw.script_flush()
        found += [row["id"] for task in query.tasks(partitions) for row in task]
    env.raw.script_flush()
    assert query.run() is None
    assert found == sent
    assert env.scores() == {}


@pytest.fixture
def durable():
    """A server that loses nothing that it has answered when it is killed."""
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


def test_stream_survives_restarts_of_the_server(durable):
    env = Env(durable)
    env.rsmq.create_queue("q")
    sent = send(env, 10)
    query = env.query(limit=ReadMaxRows(5), retryDeadline=30)

    def call_during_restart(call):
        durable.kill()
        starting = threading.Timer(0.3, durable.start)
        starting.start()
        try:
            return call()
        finally:
            starting.join()

    assert call_during_restart(query.poll)
    partitions = call_during_restart(query.plan)
    rows = call_during_restart(lambda: query.tasks(partitions))
    assert [row["id"] for task in rows for row in task] == sent[:5]
    assert call_during_restart(query.poll)
    assert ids(query.finish()) == sent[5:]
    assert call_during_restart(query.run) is None
    assert env.scores() == {}
    assert env.fields()["totalrecv"] == b"10"
    env.close()


def test_unreachable_server_fails_the_query(durable):
    env = Env(durable)
    env.rsmq.create_queue("q")
    query = env.query(retryDeadline=0)
    query.run()
    durable.kill()
    with pytest.raises(redis.exceptions.ConnectionError):
        query.run()
    durable.start()
    env.disconnect()
    send(env, 1)
    assert query.restart() is None
    assert len(query.run()) == 1
    env.close()


def test_suspended_holder_checks_its_lease_before_it_continues(env, queue, monkeypatch):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.3)
    env.rsmq.send_messages("q", ["a", "b"])
    first = env.query(consumerGroup="g", limit=ReadMaxRows(1))
    first.run()
    lease = first.reader.consumer
    lease.heartbeat.stopped.set()  # the heartbeat, as in a process that is suspended
    lease.heartbeat.join()
    second = env.query(consumerGroup="g", limit=ReadMaxRows(1))
    assert [len(rows) for rows in [second.run()]] == [1]

    with pytest.raises(LeaseTakenOver, match="taken over"):
        first.poll()
    assert len(second.run()) == 1


def test_broken_queue_does_not_stop_the_heartbeat_of_others(env, queue):
    env.rsmq.create_queue("a")
    env.rsmq.send_messages("a", ["1"])
    (id,) = env.rsmq.send_messages("q", ["2"])
    query = env.query(queue="", subscribe="a,q", visibilityTimeout=100)
    query.run()
    env.raw.delete(env.keys("a").zset)
    env.raw.set(env.keys("a").zset, "of another type")
    env.elapse(50)
    with suppress(ResponseError):
        query.reader.consumer.parts.extend()

    assert env.scores()[id] > env.now_ms() + 90_000


@pytest.mark.parametrize("remove", ["purge_queue", "delete_queue"])
def test_batch_that_is_purged_while_a_task_reads_it_is_lost(env, queue, monkeypatch, remove):
    """A task must not return an empty part that Spark then commits."""
    env.rsmq.send_messages("q", ["a", "b"])
    query = env.query()
    query.poll()
    tasks = query.plan()
    request = connections.SparkServer.begin_request

    def purge_before_bodies(server, commands):
        if len(commands) == 2:
            getattr(env.rsmq, remove)("q")
        return request(server, commands)

    monkeypatch.setattr(connections.SparkServer, "begin_request", purge_before_bodies)
    with pytest.raises(BatchLost, match=r"Part 0 of batch .* of queue q is no longer in Redis"):
        query.tasks(tasks)


def test_a_task_leaves_out_what_another_consumer_received_meanwhile(env, queue, monkeypatch):
    ids = env.rsmq.send_messages("q", ["a", "b", "c"])
    query = env.query()
    query.poll()
    tasks = query.plan()
    request = connections.SparkServer.begin_request

    def receive_before_bodies(server, commands):
        if len(commands) == 2:
            env.rsmq.delete_message("q", ids[0])
            env.rsmq.change_message_visibility("q", ids[1], 0)
            assert env.rsmq.receive_message("q").id == ids[1]
        return request(server, commands)

    monkeypatch.setattr(connections.SparkServer, "begin_request", receive_before_bodies)
    rows = [row for task in query.tasks(tasks) for row in task]
    assert [(row["id"], row["message"], row["receive_count"]) for row in rows] == [(ids[2], "c", 1)]
