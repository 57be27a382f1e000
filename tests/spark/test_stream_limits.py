"""The limits and the delay of a stream's batches, its progress, and the versions of its offsets."""

from __future__ import annotations

import time

import msgpack
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rsmq.spark import InvalidOption, NewerVersion
from rsmq.spark.connection_options import parse_connection_options
from rsmq.spark.stream import consumer, parts, stream_queues
from rsmq.spark.stream.acknowledgement import acknowledge_offset
from tests.scale import WAIT_SECONDS
from tests.spark.test_stream import ids, poll_idle, send


def sizes(query):
    """Run until the queues are empty; return the size of each body, by batch."""
    return [[len(row["message"]) for row in rows] for rows in query.run_until_empty()]


# --- maxBytesPerTrigger -----------------------------------------------------------------------


def test_batch_has_at_most_so_many_bytes(env, queue):
    env.rsmq.send_messages("q", ["x" * 400] * 5 + ["x" * 1001, "x" * 1000, "x"])
    query = env.query(maxBytesPerTrigger=1000)
    # A body that is larger than the limit is a batch of its own.
    assert sizes(query) == [[400, 400], [400, 400], [400], [1001], [1000], [1]]
    assert env.scores() == {}


def test_both_limits_hold_over_several_parts(env, queue, monkeypatch):
    monkeypatch.setattr(parts, "MAX_PART_MESSAGES", 3)
    env.rsmq.send_messages("q", ["x" * 100] * 25)
    query = env.query(maxBytesPerTrigger=1050, maxMessagesPerTrigger=8)
    assert [len(batch) for batch in sizes(query)] == [8, 8, 8, 1]
    env.rsmq.send_messages("q", ["x" * 200] * 8)
    assert [len(batch) for batch in sizes(query)] == [5, 3]


def test_queues_share_the_bytes_of_a_batch(env, queue):
    env.rsmq.create_queue("r")
    env.rsmq.send_messages("q", ["x" * 10] * 200)
    env.rsmq.send_messages("r", ["x" * 600] * 3)
    query = env.query(queue="", subscribe="q,r", maxBytesPerTrigger=1000)
    first = query.run()
    # The first body of a queue is received even if it is larger than the queue's share.
    assert [row["queue"] for row in first].count("r") == 1
    assert 40 <= [row["queue"] for row in first].count("q") <= 50
    query.run_until_empty()
    assert (env.scores(), env.scores("r")) == ({}, {})


@pytest.mark.parametrize("fetch", [1024, 10_000])
def test_limit_is_independent_of_the_bytes_that_a_task_reads_at_a_time(env, queue, fetch):
    env.rsmq.send_messages("q", ["x" * 500] * 10 + ["x" * 3000])
    query = env.query(maxBytesPerTrigger=4000, maxBytesPerFetch=fetch)
    assert [len(batch) for batch in sizes(query)] == [8, 3]


def test_batch_without_a_limit_of_spark_has_all_bytes(env, queue):
    env.rsmq.send_messages("q", ["x" * 500] * 10)
    query = env.query(maxBytesPerTrigger=1000, limit=ReadAllAvailable())
    assert [len(batch) for batch in sizes(query)] == [10]


# --- minMessagesPerTrigger and maxTriggerDelay ------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock of the delay, which a test sets forward."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(consumer, "time", clock)
    return clock


def poll_for(query, seconds):
    """Poll as Spark polls an idle query; return whether there was no batch all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if poll_idle(query) is not None:
            return False
    return True


def run_next(query):
    """Poll until there is a batch, and return its rows."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (end := poll_idle(query)) is None:
        assert time.monotonic() < deadline, "there is no batch"
    query.reader.commit(query.offsets[-1])
    query.offsets.append(end)
    return query.finish()


def test_batch_waits_until_enough_messages_are_visible(env, queue, clock):
    query = env.query(minMessagesPerTrigger=5, maxTriggerDelay=60)
    (first,) = send(env, 1)
    assert ids(query.run()) == [first]  # the first batch of a process does not wait
    sent = send(env, 4)
    assert poll_for(query, 1.5)
    assert [env.fields().get(f"{id}:rc") for id in sent] == [None] * 4
    assert first not in env.scores()  # the batch before is acknowledged meanwhile
    sent += send(env, 1)
    assert ids(run_next(query)) == sent

    sent = send(env, 7)  # more than enough are one batch, at once
    assert ids(query.run()) == sent


def test_batch_waits_no_longer_than_the_delay(env, queue, clock):
    query = env.query(minMessagesPerTrigger=5, maxTriggerDelay=60)
    send(env, 1)
    query.run()
    (id,) = send(env, 1)
    clock.now += 59
    assert poll_for(query, 0.7)
    clock.now += 2
    assert ids(run_next(query)) == [id]
    send(env, 4)
    assert poll_for(query, 0.7)  # the delay has begun again

    clock.now += 1000
    query.run()
    assert query.run() is None
    clock.now += 1000  # without messages there is no batch, and the next message does not wait
    assert poll_idle(query) is None
    (id,) = send(env, 1)
    assert ids(run_next(query)) == [id]


def test_visible_messages_of_all_queues_count(env, queue, clock):
    env.rsmq.create_queue("r")
    query = env.query(queue="", subscribe="q,r", minMessagesPerTrigger=4)
    send(env, 1)
    query.run()
    sent = [*send(env, 2), *send(env, 2, "r")]
    assert sorted(ids(run_next(query))) == sorted(sent)


@pytest.mark.parametrize("options", [{"available_now": True}, {"limit": ReadAllAvailable()}])
def test_batches_of_a_query_that_ends_do_not_wait(env, queue, options):
    sent = send(env, 12)
    limit = {"limit": ReadMaxRows(10)} if "available_now" in options else {}
    query = env.query(minMessagesPerTrigger=10, maxMessagesPerTrigger=10, **options, **limit)
    assert sorted(id for rows in query.run_until_empty() for id in ids(rows)) == sorted(sent)
    assert env.scores() == {}


def test_batch_that_was_received_before_a_crash_does_not_wait(env, queue, clock):
    query = env.query(minMessagesPerTrigger=5)
    send(env, 1)
    query.run()
    sent = send(env, 5)
    assert query.request_offset() is not None  # not logged
    query.restart()
    assert ids(query.run()) == sent


def test_waiting_for_enough_messages_polls_seldom(env, queue, clock):
    query = env.query(minMessagesPerTrigger=100)
    send(env, 1)
    query.run()
    send(env, 50)
    assert poll_for(query, 1.5)
    begin = time.monotonic()
    with env.commands() as commands:
        assert poll_for(query, 3)
    scripts = [command for command in commands if command.startswith("EVAL")]
    assert len(scripts) <= 15 * (time.monotonic() - begin), commands
    assert not any("lease_messages" in command for command in commands)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"minMessagesPerTrigger": 11, "maxMessagesPerTrigger": 10},
            "is at most maxMessagesPerTrigger, which is 10",
        ),
        ({"maxTriggerDelay": 5}, "goes with minMessagesPerTrigger"),
        ({"maxBytesPerTrigger": 0}, "is a whole number from 1 to"),
        ({"minMessagesPerTrigger": 0}, "is a whole number from 1 to"),
        ({"maxTriggerDelay": "15m", "minMessagesPerTrigger": 2}, "is a number of seconds"),
    ],
)
def test_wrong_limits_are_refused(env, queue, options, text):
    with pytest.raises(InvalidOption, match=text):
        env.query(**options)


# --- progress ---------------------------------------------------------------------------------


def test_progress_has_the_lag_and_the_oldest_age(env, queue):
    env.rsmq.create_queue("r")
    query = env.query(queue="", subscribe="q,r", maxMessagesPerTrigger=2)
    assert query.run() is None
    assert (query.progress["lag"], query.progress["oldestAgeSeconds"]) == (0, None)

    send(env, 3)
    (old,) = send(env, 1, "r")
    env.rsmq.send_message("r", "later", delay=100)
    query.run()  # one of each queue
    assert (query.progress["lag"], query.progress["backlog"]["q"]["visible"]) == (2, 2)
    assert 0 <= query.progress["oldestAgeSeconds"] < 20

    # An id has the time when its message was sent.
    hour_ago_us = (env.now_ms() - 3_600_000) * 1000
    env.put(to_base36(hour_ago_us) + old[10:], "old")
    query.run()
    hour_old = query.progress["oldestAgeSeconds"]
    assert query.progress["lag"] in {1, 2}
    assert hour_old is not None


def test_lag_and_backlog_count_messages_that_are_held_back(env, queue):
    env.rsmq.send_messages("q", ["a", "b", "c"], groups=["g", "g", "g"])
    env.rsmq.send_message("q", "later", delay=100)
    query = env.query()
    query.run()
    query.poll()
    backlog = query.progress["backlog"]["q"]
    assert (query.progress["lag"], backlog["held_back"]) == (1, 1)
    assert sum((backlog["visible"], backlog["hidden"])) == 3


def to_base36(number):
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def test_a_queue_may_be_deleted_while_its_backlog_is_read(env, monkeypatch):
    for name in ("a1", "a2"):
        env.rsmq.create_queue(name)
        env.rsmq.send_message(name, "m")
    client = env.server().rsmq
    peek = client.peek_messages

    def delete_before(queue, *args):
        if queue == "a2":
            env.rsmq.delete_queue("a2")
        return peek(queue, *args)

    monkeypatch.setattr(client, "peek_messages", delete_before)
    read = stream_queues.read_backlog([env.queue("a2"), env.queue("a1")])
    assert read.oldest_age < 20
    assert read.queues["a1"] == {"visible": 1, "hidden": 0, "held_back": 0, "retrying": 0}


def test_oldest_age_is_that_of_the_first_visible_message(env, queue):
    (id,) = send(env, 1)
    env.rsmq.purge_queue("q")
    query = env.query(maxMessagesPerTrigger=1)
    for hours in (2, 1):
        sent_us = (env.now_ms() - hours * 3_600_000) * 1000
        env.put(to_base36(sent_us) + id[10:], "old", score=sent_us // 1000)
    assert len(query.run()) == 1
    assert 3600 <= query.progress["oldestAgeSeconds"] < 3660
    assert query.progress["lag"] == 1


# --- versions ---------------------------------------------------------------------------------


def test_offset_has_a_version(env, queue):
    send(env, 1)
    query = env.query()
    query.run()
    assert query.offsets[-1]["version"] == 1


def test_offset_without_a_version_is_continued(env, queue):
    sent = send(env, 2)
    query = env.query(maxMessagesPerTrigger=1)
    assert ids(query.run()) == sent[:1]
    del query.offsets[-1]["version"]
    query.done = 0
    assert ids(query.restart()) == sent[:1]
    assert [ids(rows) for rows in query.run_until_empty()] == [sent[1:]]
    assert env.scores() == {}


def test_offset_of_a_newer_version_is_refused(env, queue):
    sent = send(env, 2)
    query = env.query(maxMessagesPerTrigger=1)
    query.run()
    before = env.state()
    query.offsets[-1]["version"] = 3
    error = "newer version of rsmq, in the form 3.*driver and on all executors"
    with pytest.raises(NewerVersion, match=error):
        query.restart() or query.poll()
    query.done = 0
    with pytest.raises(NewerVersion):
        query.restart()
    with pytest.raises(NewerVersion):
        acknowledge_offset(parse_connection_options(env.options()), query.offsets[-1])
    assert env.state().keys() == before.keys()
    assert sorted(env.scores()) == sorted(sent)


def test_receipts_of_a_newer_version_are_refused(env, queue):
    sent = send(env, 1)
    query = env.query()
    query.poll()
    field = f"{query.offsets[-1]['lease']}:1"
    stored = msgpack.unpackb(env.raw.hget(env.keys().leases, field), raw=True)
    env.raw.hset(env.keys().leases, field, msgpack.packb(["v2", *stored]))
    before = env.raw.hgetall(env.keys().leases)

    for call in (query.plan, query.poll, query.restart):
        with pytest.raises(NewerVersion, match="'v2'"):
            call()
    assert env.raw.hgetall(env.keys().leases) == before
    assert list(env.scores()) == sent


def test_expired_leases_are_deleted_beside_those_of_a_newer_version(env, queue):
    leases = env.keys().leases
    env.raw.hset(leases, "old:1", msgpack.packb([1, 1]))
    env.raw.hset(leases, "new:1", msgpack.packb(["v2", 1]))
    env.query().run()
    assert env.raw.hkeys(leases) == [b"new:1"]
