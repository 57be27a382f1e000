"""The work of a stream while tasks run: acknowledging the batch before, receiving the next."""

from __future__ import annotations

import gc
import itertools
import json
import threading
import time

import msgpack
import pytest
import redis
from pyspark.sql.streaming.datasource import ReadMaxRows

from rsmq.errors import LeaseTakenOver
from rsmq.spark import connections
from rsmq.spark.connection_options import parse_connection_options
from rsmq.spark.operations.batches import MAX_PART_MESSAGES
from rsmq.spark.stream import ownership, parts
from rsmq.spark.stream.acknowledgement import acknowledge_offset, find_offsets
from rsmq.spark.stream.batches import BatchEvent, BatchLimits, BatchState
from rsmq.spark.stream.parts import BatchParts
from rsmq.spark.stream.stream_queues import StreamQueues
from tests.scale import WAIT_SECONDS
from tests.spark.conftest import crash_at_call, json_round_trip


def ids(rows):
    return [row["id"] for row in rows]


def send(env, number, queue="q", **options):
    return env.rsmq.send_messages(queue, [f"m{n}" for n in range(number)], **options)


def batches(env, queue="q"):
    """Return the numbers of the batches that are in flight, and their sizes."""
    stored = env.raw.hgetall(env.keys(queue).leases)
    return {
        int(field.split(b":")[1]): sum(msgpack.unpackb(packed)[1:])
        for field, packed in stored.items()
        if field.count(b":") == 1
    }


def hidden(env, queue="q"):
    now = env.now_ms()
    return {id for id, score in env.scores(queue).items() if score > now}


def wait_until(condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition does not become true"
        time.sleep(0.01)


def test_a_batch_is_received_while_tasks_read_the_full_one_before_it(env, queue):
    sent = send(env, 5)
    query = env.query(limit=ReadMaxRows(2))
    query.poll()
    assert batches(env) == {1: 2}
    query.plan()
    query.reader.consumer.background.finish()
    assert batches(env) == {1: 2, 2: 2}
    assert hidden(env) == set(sent[:4])

    assert ids(query.finish()) == sent[:2]
    assert list(env.scores()) == [sent[4], *sent[:4]]
    assert ids(query.run()) == sent[2:4]
    assert list(env.scores()) == sent[2:]
    assert batches(env) == {2: 2, 3: 1}
    assert [ids(rows) for rows in query.run_until_empty()] == [sent[4:]]
    assert env.fields()["totalrecv"] == b"5"
    assert env.scores() == {}
    assert env.raw.exists(env.keys().leases) == 0
    assert query.progress["acknowledged"] == 5


def test_a_batch_is_planned_while_the_one_before_is_acknowledged(env, queue, monkeypatch):
    sent = send(env, 6)
    query = env.query(limit=ReadMaxRows(2))
    query.run()
    may_continue = threading.Event()
    acknowledge_parts = parts.acknowledge_parts

    def acknowledge_late(*args, **options):
        assert may_continue.wait(WAIT_SECONDS)
        return acknowledge_parts(*args, **options)

    monkeypatch.setattr(parts, "acknowledge_parts", acknowledge_late)
    end = query.reader.latestOffset(json_round_trip(query.offsets[0]), ReadMaxRows(2))
    query.reader.commit(query.offsets[0])
    partitions = query.reader.partitions(query.offsets[0], json_round_trip(end))
    assert [row["id"] for rows in query.tasks(partitions) for row in rows] == sent[2:4]
    assert set(sent) == set(env.scores())
    may_continue.set()
    query.reader.consumer.background.finish()
    assert set(sent[2:]) == set(env.scores())
    assert batches(env) == {2: 2, 3: 2}


@pytest.mark.parametrize("available_now", [False, True])
def test_a_full_batch_behind_which_nothing_waits_reports_all_counts(
    env, queue, monkeypatch, available_now
):
    """Its progress may be the last of the query."""
    send(env, 4)
    query = env.query(limit=ReadMaxRows(2), available_now=available_now)
    query.run()
    if available_now:
        send(env, 1)
    acknowledge_parts = parts.acknowledge_parts

    def acknowledge_late(*args, **options):
        time.sleep(0.3)
        return acknowledge_parts(*args, **options)

    monkeypatch.setattr(parts, "acknowledge_parts", acknowledge_late)
    end = query.reader.latestOffset(json_round_trip(query.offsets[0]), ReadMaxRows(2))
    assert query.reader.reportLatestOffset()["acknowledged"] == 2
    assert list(end["queues"].values()) == [2]


def test_nothing_is_received_ahead_of_a_batch_that_was_not_full(env, queue):
    query = env.query(limit=ReadMaxRows(10))
    send(env, 3)
    query.run()
    send(env, 2)
    assert query.reader.consumer.batches.get(2).state is BatchState.UNKNOWN
    assert batches(env) == {1: 3}
    assert len(hidden(env)) == 3


def test_a_batch_that_was_received_ahead_is_filled_up(env, queue):
    sent = send(env, 3)
    query = env.query(limit=ReadMaxRows(2))
    query.run()
    assert batches(env) == {1: 2, 2: 1}
    sent += send(env, 2)
    assert ids(query.run()) == sent[2:4]
    assert ids(query.run()) == sent[4:]


def test_nothing_is_received_ahead_if_batches_wait_for_enough_messages(env, queue):
    send(env, 5)
    query = env.query(limit=ReadMaxRows(2), minMessagesPerTrigger=2)
    query.run()
    assert batches(env) == {1: 2}


def test_available_now_receives_nothing_ahead_that_is_visible_later(env, queue):
    sent = send(env, 3)
    query = env.query(limit=ReadMaxRows(2), available_now=True)
    begin = env.now_ms()
    env.elapse(1)
    query.poll()
    late = send(env, 2)
    for id in late:
        env.raw.zadd(env.keys().zset, {id: begin + 1})
    query.finish()
    assert batches(env) == {1: 2, 2: 1}
    assert [ids(rows) for rows in query.run_until_empty()] == [sent[2:]]
    assert list(env.scores()) == late


@pytest.mark.parametrize("by", ["queue", "option", None])
def test_a_stopped_query_releases_the_batch_ahead(env, queue, by):
    options = {}
    if by is not None:
        env.rsmq.create_queue("dead")
    if by == "queue":
        env.rsmq.set_dead_letter_policy("q", "dead", 2)
    elif by == "option":
        options = {"maxReceiveCount": 2, "deadLetterQueue": "dead"}
    sent = send(env, 4)
    query = env.query(limit=ReadMaxRows(2), **options)
    query.run()
    assert hidden(env) == set(sent)
    query.crash(is_stopped=True)
    assert hidden(env) == set(sent[:2])
    assert batches(env) == {1: 2}
    assert len(env.raw.hkeys(env.keys().leases)) == 2
    stored = env.raw.hgetall(env.keys().unbegun)
    assert {id.decode() for id in stored if id} == (set(sent[2:]) if by else set())

    # The receive that was taken back is not an attempt: no message becomes a dead letter.
    query.start()
    rows = query.run()
    assert ids(rows) == sent[2:]
    assert [row["receive_count"] for row in rows] == [2, 2]
    assert query.run() is None
    assert env.scores() == {}


def test_a_stopped_query_releases_the_batch_ahead_to_its_old_place(env, queue):
    sent = send(env, 6)
    unusual = "-" * 32
    env.put(unusual, "m", score=env.now_ms() - 60_000)
    query = env.query(limit=ReadMaxRows(3))
    assert ids(query.run()) == [unusual, *sent[:2]]
    query.crash(is_stopped=True)
    query.start()
    assert [ids(rows) for rows in query.run_until_empty()] == [sent[2:5], sent[5:]]


def test_a_batch_that_is_planned_again_keeps_the_batch_ahead(env, queue):
    sent = send(env, 6)
    query = env.query(limit=ReadMaxRows(2))
    query.poll()
    for _ in range(2):
        query.plan()
        query.reader.consumer.background.finish()
        assert batches(env) == {1: 2, 2: 2}
    query.crash(is_stopped=True)
    assert hidden(env) == set(sent[:2])


def test_a_stop_releases_nothing_after_a_takeover(env, queue):
    sent = send(env, 4)
    query = env.query(limit=ReadMaxRows(2))
    query.run()
    stopped = query.reader
    query.start()
    assert query.poll()
    assert query.offsets[-1]["batch"] == 2
    stopped.stop()
    assert hidden(env) == set(sent[2:])
    assert ids(query.finish()) == sent[2:]
    with pytest.raises(LeaseTakenOver, match="another process"):
        stopped.consumer.parts.release(2, env.queue(), 0)


def test_a_suspended_process_does_not_return_its_batch_ahead(env, queue):
    send(env, 4)
    query = env.query(limit=ReadMaxRows(2))
    query.run()
    suspended = query.reader
    query.start()
    assert query.poll()
    with pytest.raises(LeaseTakenOver, match="another process"):
        suspended.latestOffset(json_round_trip(query.offsets[0]), ReadMaxRows(2))


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "nightly"}])
@pytest.mark.parametrize("point", ["logged", "planned", "done"])
def test_a_kill_with_a_batch_ahead_loses_and_doubles_nothing(env, queue, monkeypatch, group, point):
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.05)
    sent = send(env, 7)
    query = env.query(limit=ReadMaxRows(2), **group)
    query.run()
    query.poll()
    if point != "logged":
        query.plan()
        query.reader.consumer.background.finish()
        assert batches(env) == {2: 2, 3: 2}
    if point == "done":
        query.finish()
    query.restart()
    query.run_until_empty()
    assert query.ids() == sent
    assert env.fields()["totalrecv"] == b"7"
    assert env.scores() == batches(env) == {}


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("calls", [0, 1])
def test_an_acknowledgement_that_a_kill_interrupts_is_completed(
    env, queue, monkeypatch, is_done, answered, calls
):
    """The batch after it may be in the commit log: then only its own number is in the offset."""
    monkeypatch.setattr(parts, "MAX_PART_MESSAGES", 2)
    sent = send(env, 12)
    query = env.query(limit=ReadMaxRows(4))
    query.run()
    with crash_at_call(env.server(), calls, answered=answered, thread="rsmq-ahead"):
        assert query.poll()
        if is_done:
            query.finish()
    if calls + answered < 2:
        assert not set(sent[:4]).isdisjoint(env.scores())
    assert batches(env) == {1: 4, 2: 4}
    query.restart()
    query.run_until_empty()
    assert query.ids() == sent
    assert env.fields()["totalrecv"] == b"12"
    assert env.scores() == {}
    assert env.raw.exists(env.keys().leases) == 0


def test_the_listener_completes_an_interrupted_acknowledgement(env, queue):
    send(env, 4)
    query = env.query(limit=ReadMaxRows(2))
    query.run()
    with crash_at_call(env.server(), 0, thread="rsmq-ahead"):
        query.run()
    query.crash()
    assert batches(env) == {1: 2, 2: 2}
    acknowledge_offset(parse_connection_options(env.options()), query.offsets[-1])
    assert env.scores() == {}
    assert env.raw.exists(env.keys().leases) == 0


def test_the_listener_completes_an_acknowledgement_in_other_queues(env):
    for name in ("a", "b"):
        env.rsmq.create_queue(name)
    send(env, 1, "a")
    send(env, 3, "b")
    query = env.query(queue="", subscribe="a,b", limit=ReadMaxRows(2))
    query.run()
    with crash_at_call(env.server(), 0, thread="rsmq-ahead"):
        query.run()
    query.crash()
    start, end = query.offsets
    assert (start["queues"], end["queues"]) == ({"a": 1, "b": 1}, {"b": 2})
    progress = {"sources": [{"startOffset": start, "endOffset": json.dumps(end)}]}
    for offset in find_offsets(progress):
        acknowledge_offset(parse_connection_options(env.options()), offset)
    assert env.scores("a") == env.scores("b") == {}


def test_work_ahead_that_fails_is_repeated(env, queue, monkeypatch):
    sent = send(env, 6)
    query = env.query(limit=ReadMaxRows(2))
    query.run()
    lease, server = query.reader.consumer, env.server()
    run = server.rsmq.run

    def fail_in_threads(operation):
        if threading.current_thread().name == "rsmq-ahead":
            raise redis.exceptions.ConnectionError("no route")
        return run(operation)

    server.rsmq.run = fail_in_threads
    try:
        assert ids(query.run()) == sent[2:4]
        assert lease.batches.get(1).state is BatchState.DONE
        assert batches(env) == {1: 2, 2: 2}
        assert ids(query.run()) == sent[4:]
    finally:
        del server.rsmq.run
    assert batches(env) == {3: 2}
    assert query.run() is None
    assert env.scores() == {}


@pytest.mark.parametrize("remove", ["purge_queue", "delete_queue"])
def test_a_batch_that_is_purged_before_it_is_logged_is_not_missed(env, queue, remove):
    send(env, 4)
    query = env.query(limit=ReadMaxRows(2))
    query.run()
    assert batches(env) == {1: 2, 2: 2}
    getattr(env.rsmq, remove)("q")
    env.rsmq.create_queue("q", exist_ok=True)
    sent = send(env, 1)
    assert ids(query.run()) == sent


def test_parts_of_several_queues_are_released(env, monkeypatch):
    monkeypatch.setattr(parts, "MAX_PART_MESSAGES", 2)
    for name in ("a", "b"):
        env.rsmq.create_queue(name)
        send(env, 10, name)
    query = env.query(queue="", subscribe="a,b", limit=ReadMaxRows(10))
    query.run()
    assert batches(env, "a") == batches(env, "b") == {1: 5, 2: 5}
    query.crash(is_stopped=True)
    for name in ("a", "b"):
        assert batches(env, name) == {1: 5}
        assert len(hidden(env, name)) == 5


def test_a_batch_has_parts_of_at_most_a_thousand_messages(env, queue):
    send(env, 2 * MAX_PART_MESSAGES + 1)
    query = env.query(limit=ReadMaxRows(MAX_PART_MESSAGES + 1))
    assert len(query.run()) == MAX_PART_MESSAGES + 1
    assert batches(env) == {1: MAX_PART_MESSAGES + 1, 2: MAX_PART_MESSAGES}
    assert len(query.run()) == MAX_PART_MESSAGES
    assert query.run() is None
    assert env.scores() == {}


def test_a_task_process_excludes_modules_from_its_collections(monkeypatch):
    calls = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(None))
    monkeypatch.setattr(connections, "_modules_seen", 0)
    connections.spare_loaded_modules()
    connections.spare_loaded_modules()
    assert len(calls) == 1
    monkeypatch.setitem(connections.sys.modules, "a module that a task has loaded", connections)
    connections.spare_loaded_modules()
    assert len(calls) == 2


# --- faults while a batch is received ahead ------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_a_batch_ahead_has_no_messages_of_the_batch_in_work(env, queue, monkeypatch, restarted):
    """Their timeouts may end while Redis or the process is suspended."""
    extend, is_suspended = BatchParts.extend, threading.Event()
    monkeypatch.setattr(BatchParts, "extend", lambda own: is_suspended.is_set() or extend(own))
    sent = send(env, 3)
    query = env.query(limit=ReadMaxRows(2), visibilityTimeout=1)
    query.poll()
    if restarted:
        query.crash()
        query.start()
        query.plan()
        query.reader.consumer.batches.change(2, BatchEvent.EXPECT, limits=BatchLimits(2))
    receive, may_continue = BatchParts.receive, threading.Event()

    def receive_late(*args):
        assert may_continue.wait(WAIT_SECONDS)
        return receive(*args)

    monkeypatch.setattr(BatchParts, "receive", receive_late)
    partitions = query.plan()
    is_suspended.set()
    rows = [row for task in query.tasks(partitions) for row in task]
    wait_until(lambda: len(hidden(env)) == 0)
    may_continue.set()
    query.reader.consumer.background.finish()
    assert batches(env) == {1: 2, 2: 1}
    query.sink[1], query.done = rows, 1
    query.run_until_empty()
    assert sorted(query.ids()) == sorted(sent)
    assert query.progress["lost"] == 0


def test_a_batch_whose_receive_failed_is_released_by_the_stop(env, queue, monkeypatch):
    """Spark has not got its offset, so nobody continues it."""
    monkeypatch.setattr(parts, "MAX_PART_MESSAGES", 2)
    sent = send(env, 6)
    query = env.query(limit=ReadMaxRows(6))
    receive = BatchParts.receive

    def fail_at_second(own, number, queue, part, limits):
        if part == 1:
            raise redis.exceptions.ConnectionError
        return receive(own, number, queue, part, limits)

    monkeypatch.setattr(BatchParts, "receive", fail_at_second)
    with pytest.raises(redis.exceptions.ConnectionError):
        query.request_offset()
    assert hidden(env) == set(sent[:2])
    query.reader.stop()
    assert hidden(env) == set()
    assert batches(env) == {}


@pytest.mark.parametrize("fails", [True, False])
def test_a_stop_does_not_release_the_batch_of_a_driver_that_has_replied(
    env, queue, monkeypatch, fails
):
    """The first driver logs the batch, when the second one has found it and not replied yet."""
    query = env.query(limit=ReadMaxRows(5))
    send(env, 1)
    query.run()
    sent = send(env, 3)
    end = query.request_offset()
    first = query.reader
    query.start()

    def fail(own):
        raise redis.exceptions.ConnectionError

    if fails:
        with monkeypatch.context() as patch:
            patch.setattr(BatchParts, "extend", fail)
            with pytest.raises(redis.exceptions.ConnectionError):
                query.request_offset()
    else:
        assert query.request_offset() == end
        query.reader.consumer.batches.change(2, BatchEvent.WITHDRAW)
    query.offsets.append(end)
    first.commit(query.offsets[0])
    tasks = first.partitions(*json_round_trip(query.offsets))
    query.reader.stop()
    assert hidden(env) == set(sent)
    assert batches(env) == {2: 3}
    assert [row["id"] for rows in query.tasks(tasks) for row in rows] == sent
    first.stop()


def test_a_batch_whose_reply_was_taken_back_is_found_again(env, queue, monkeypatch):
    monkeypatch.setattr(parts, "MAX_PART_MESSAGES", 1)
    sent = send(env, 2)
    query = env.query(limit=ReadMaxRows(5))
    query.request_offset()
    query.reader.consumer.batches.change(1, BatchEvent.WITHDRAW)
    send(env, 2)
    assert list(query.request_offset()["queues"].values()) == [2]
    assert batches(env) == {1: 2}
    assert hidden(env) == set(sent)


def test_an_offset_has_the_queues_in_their_order_when_a_later_one_had_messages_first(env):
    for name in ("a", "b"):
        env.rsmq.create_queue(name)
    query = env.query(queue="", subscribe="a,b", limit=ReadMaxRows(2))
    send(env, 3, "b")
    query.run()
    send(env, 1, "a")
    query.run()
    labels = [env.queue(name).label for name in ("a", "b")]
    assert json.dumps(query.offsets[1]["queues"]) == json.dumps(dict.fromkeys(labels, 1))


def test_a_batch_ahead_waits_for_an_acknowledgement_that_failed(env, queue):
    sent = send(env, 3)
    query = env.query(limit=ReadMaxRows(2), visibilityTimeout=30)
    query.run()
    run, failures = env.server().rsmq.run, [1]

    def fail_once(operation):
        if threading.current_thread().name == "rsmq-ahead" and failures:
            failures.pop()
            env.elapse(31)
            raise redis.exceptions.ConnectionError
        return run(operation)

    env.server().rsmq.run = fail_once
    query.run()
    del env.server().rsmq.run
    query.run_until_empty()
    assert sorted(query.ids()) == sorted(sent)


def test_threads_list_no_queues(env, queue, monkeypatch):
    """A listing may wait for the lease of a new queue, and handle SIGTERM meanwhile."""
    callers = set()
    get = StreamQueues.get

    def note_caller(queues):
        callers.add(threading.current_thread().name)
        return get(queues)

    monkeypatch.setattr(StreamQueues, "get", note_caller)
    send(env, 7)
    query = env.query(queue="", subscribePattern="q.*", consumerGroup="g", limit=ReadMaxRows(2))
    assert len(query.run_until_empty()) == 4
    assert callers == {threading.main_thread().name}


def test_an_acknowledgement_that_fails_half_way_counts_what_it_deleted(env, queue, monkeypatch):
    monkeypatch.setattr(parts, "MAX_PART_MESSAGES", 2)
    send(env, 12)
    query = env.query(limit=ReadMaxRows(4))
    query.run()
    run, calls = env.server().rsmq.run, itertools.count(1)

    def fail_at_second(operation):
        if threading.current_thread().name == "rsmq-ahead" and next(calls) == 2:
            raise redis.exceptions.ConnectionError
        return run(operation)

    env.server().rsmq.run = fail_at_second
    query.run()
    del env.server().rsmq.run
    query.run_until_empty()
    assert env.scores() == {}
    assert query.progress["acknowledged"] == 12
