"""Reads in steps: each message that stays in its queue is read exactly once."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
import redis

from rsmq.errors import ScanBroken
from rsmq.spark.connections import SparkServer
from rsmq.spark.read.scan import Shard, count_shards, scan_shard
from tests.scale import scaled
from tests.spark.conftest import Env

MESSAGES = scaled(20_000, 1_000_000)


@pytest.fixture(params=["server", "old_server"])
def env(request):
    env = Env(request.getfixturevalue(request.param))
    yield env
    env.close()


def fill(env, number):
    """Send messages; return their ids."""
    env.rsmq.create_queue("q")
    sent = []
    for begin in range(0, number, 5000):
        sent += env.rsmq.send_messages("q", ["m"] * min(5000, number - begin))
    return sent


def scan(env, total):
    """Return the ids that each shard yields."""
    read_step = env.server().make_scanner(env.keys())
    return [
        [
            id.decode()
            for members in scan_shard("q", Shard(number, total), read_step)
            for id in members[::2]
        ]
        for number in range(total)
    ]


@pytest.mark.parametrize(
    ("messages", "wanted", "total"),
    [
        (0, 4, 1),
        (2047, 4, 1),
        (2048, 4, 2),
        (4096, 4, 4),
        (10**6, 4, 4),
        (10**6, 5, 8),
        (9999, 1, 1),
    ],
)
def test_number_of_shards(messages, wanted, total):
    assert count_shards(messages, wanted) == total


@pytest.mark.parametrize("total", [1, 2, 8, 16])
@pytest.mark.parametrize("messages", [4100, 8193, 15_000])
def test_shards_divide_the_ids_of_a_queue(env, total, messages):
    """With 4,100 and 8,193 messages the server's table has many empty buckets."""
    sent = fill(env, messages)
    shards = scan(env, total)
    assert Counter(id for ids in shards for id in ids) == Counter(sent)
    sizes = [len(ids) for ids in shards]
    assert max(sizes) - min(sizes) < 0.5 * messages / total


@pytest.mark.parametrize("grow", [True, False])
def test_shards_stay_the_same_while_the_server_resizes_its_table(env, grow):
    sent = fill(env, 20_000)
    stays = sent if grow else sent[:5000]
    read_step = env.server().make_scanner(env.keys())
    shards = []
    for number in range(4):
        found = set()
        for step, members in enumerate(scan_shard("q", Shard(number, 4), read_step)):
            found |= {id.decode() for id in members[::2]}
            if grow and step < 3:
                env.rsmq.send_messages("q", ["m"] * 5000)
            elif step == 1 and number < 3:  # in the end, the table has shrunk to a quarter
                env.rsmq.delete_messages("q", sent[5000 * (number + 1) : 5000 * (number + 2)])
        shards.append(found)
    counts = Counter(id for found in shards for id in found)
    assert all(counts[id] == 1 for id in stays)


def test_message_that_stays_is_read_once_under_receives_and_releases(env):
    sent = fill(env, MESSAGES)
    stopped = threading.Event()

    def receive_and_release():
        chance = random.Random(7)
        with env.redis.raw() as raw:  # scores as receives, extensions and releases write them
            while not stopped.is_set():
                picked = chance.sample(sent, 500)
                raw.zadd(env.keys().zset, {id: chance.choice([1, 2e12]) for id in picked}, xx=True)

    consumers = [threading.Thread(target=receive_and_release) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    env.raw.config_resetstat()
    try:
        rows = env.read(queue="q", columns="id", numPartitions=8)
        stats = env.raw.info("commandstats")
    finally:
        stopped.set()
        for consumer in consumers:
            consumer.join()
    assert Counter(row["id"] for row in rows) == Counter(sent)
    assert "cmdstat_zrange" not in stats
    assert stats["cmdstat_zscan"]["calls"] >= MESSAGES / 2000


def test_partitions_have_no_ids(env):
    """So the memory of the driver does not grow with the queue."""
    fill(env, 20_000)
    read = env.plan_read(queue="q", numPartitions=4)
    assert [vars(each) for each in read.partitions] == [
        {
            "value": None, "ns": env.ns, "queue": "q", "shard": Shard(number, 4),
            "now_ms": read.partitions[0].now_ms, "server_run": env.server().read_run(),
        }
        for number in range(4)
    ]  # fmt: skip
    rows = read()
    assert len(rows) == 4
    assert sum(map(len, rows)) == 20_000


def test_queue_that_is_emptied_meanwhile_breaks_the_scan(env):
    sent = fill(env, 20_000)
    read = env.plan_read(queue="q", numPartitions=4)
    env.rsmq.delete_messages("q", sent[:10_000])
    env.rsmq.delete_messages("q", sent[10_000:19_500])
    with pytest.raises(ScanBroken, match="almost emptied"):
        read()
    assert len(env.read(queue="q", numPartitions=4)) == 500


def test_failover_breaks_a_scan_of_several_shards(env, monkeypatch):
    fill(env, 5000)
    run = env.server().read_run()
    runs = iter([run, b"the next run", b"the next run"])
    monkeypatch.setattr(SparkServer, "read_run", lambda _: next(runs, b"the next run"))
    read = env.plan_read(queue="q", numPartitions=4)
    with pytest.raises(ScanBroken, match="another server has taken over"):
        read()


def test_queue_of_one_shard_is_scanned_again_after_a_failover(env, monkeypatch):
    sent = fill(env, 300)
    runs = iter([b"planned", b"1", b"2", b"2"])
    monkeypatch.setattr(SparkServer, "read_run", lambda _: next(runs))
    rows = env.read(queue="q", columns="id")
    assert Counter(row["id"] for row in rows) == Counter(sent)


def test_without_the_right_to_read_the_run_there_is_one_shard(env, monkeypatch):
    sent = fill(env, 5000)
    monkeypatch.setattr(SparkServer, "read_run", lambda _: None)
    read = env.plan_read(queue="q", columns="id", numPartitions=4)
    assert [each.shard.total for each in read.partitions] == [1]
    assert Counter(row["id"] for part in read() for row in part) == Counter(sent)


def test_exact_snapshot_is_not_repeated_after_its_timeout(env, monkeypatch):
    fill(env, 10)
    call, seconds = SparkServer.call_atomically, []

    def call_paused_server(self, commands, timeout):
        seconds.append(timeout)
        env.raw.client_pause(700)
        return call(self, commands, 0.2)

    monkeypatch.setattr(SparkServer, "call_atomically", call_paused_server)
    env.raw.config_resetstat()
    with pytest.raises(redis.exceptions.TimeoutError):
        env.plan_read(queue="q", snapshot="exact")
    env.raw.ping()  # after the pause
    assert env.raw.info("commandstats").get("cmdstat_zrange", {"calls": 0})["calls"] <= 1
    assert seconds == [5.0 + 10 * 50e-6]


def test_large_bodies_are_read_in_small_steps(env):
    env.rsmq.create_queue("q", maxsize=-1)
    for size in (10, 1_000_000, 1_000_000, 10, 3_000_000, 10):
        env.rsmq.send_message("q", "x" * size)
    for options in ({}, {"snapshot": "exact"}):
        source = env.source(queue="q", columns="message", maxBytesPerFetch=1_100_000, **options)
        reader = source.reader(source.schema())
        sizes = [
            sum(len(body) for body in batch.column("message").to_pylist())
            for partition in reader.partitions()
            for batch in reader.read(partition)
        ]
        assert sum(sizes) == 5_000_030
        assert all(size <= 1_100_000 or size == 3_000_000 for size in sizes)


def test_parts_of_a_stream_respect_the_bytes(env):
    env.rsmq.create_queue("q", maxsize=-1)
    for _ in range(5):
        env.rsmq.send_message("q", "x" * 400_000)
    query = env.query(maxBytesPerFetch=1_000_000)
    assert query.poll()
    assert [len(task) for task in query.tasks(query.plan())] == [2, 2, 1]
