"""Frames and streams of several namespaces, and the end of a process between two of them."""

from __future__ import annotations

import json
import logging

import pytest
import redis
from pyspark.sql.datasource import EqualTo, In

from rsmq import RSMQ, QueueNotFound
from rsmq.spark import AcknowledgeListener, CheckpointSetBack, InvalidOption, NewerVersion
from rsmq.spark import source as spark_source
from rsmq.spark.connection_options import parse_connection_options
from rsmq.spark.read.schema import DEFAULT_COLUMNS
from rsmq.spark.stream.acknowledgement import acknowledge_offset
from tests.servers import Server, redis_7
from tests.spark.conftest import Crashed, Env, OlderQuery, SeveralEnv, columns, crash_at_call

NUMBER = 3


@pytest.fixture
def env(server):
    env = SeveralEnv(server, NUMBER)
    env.create_queue("q")
    yield env
    env.close()


def send(env, number, prefix="m"):
    """Send messages to each namespace; return their namespaces and ids."""
    bodies = [f"{prefix}{each}" for each in range(number)]
    return [
        (name, id)
        for name, client in zip(env.names, env.clients, strict=True)
        for id in client.send_messages("q", bodies)
    ]


def keys_of(rows):
    return sorted((row["ns"], row["id"]) for row in rows)


def keys_in_sink(query):
    return keys_of(row for number in query.sink for row in query.sink[number])


@pytest.mark.parametrize("snapshot", ["scan", "exact"])
def test_a_frame_has_the_messages_of_all_namespaces(env, snapshot):
    sent = send(env, 10)
    read = env.plan_read(queue="q", snapshot=snapshot, numPartitions=6)
    rows = [row for rows in read() for row in rows]
    assert {partition.ns for partition in read.partitions} == set(env.names)
    assert list(rows[0]) == ["ns", *DEFAULT_COLUMNS]
    assert keys_of(rows) == sorted(sent)
    assert [sorted(r["message"] for r in rows if r["ns"] == name) for name in env.names] == [
        [f"m{each}" for each in range(10)]
    ] * NUMBER


def test_one_namespace_has_the_column_only_if_it_is_named(env):
    send(env, 1)
    (row,) = env.read(queue="q", ns=env.ns)
    assert list(row) == list(DEFAULT_COLUMNS)
    (row,) = env.read(queue="q", ns=f" {env.ns} ", columns="id, ns")
    assert list(row) == ["id", "ns"]
    assert row["ns"] == env.ns
    (row,) = env.read(columns(ns="string", message="string"), queue="q", ns=env.names[1])
    assert row == {"ns": env.names[1], "message": "m0"}


def test_several_namespaces_lack_the_column_if_others_are_named(env):
    send(env, 2)
    assert [list(row) for row in env.read(queue="q", columns="message")] == [["message"]] * 6


def test_a_namespace_that_is_named_twice_is_read_once(env):
    send(env, 2)
    rows = env.read(queue="q", ns=f"{env.ns},{env.ns}")
    assert [row["message"] for row in rows] == ["m0", "m1"]
    assert list(rows[0]) == list(DEFAULT_COLUMNS)


@pytest.mark.parametrize("ns", ["a,", ",", "a,,b"])
def test_an_empty_name_is_refused(env, ns):
    with pytest.raises(InvalidOption, match=r"^Option ns"):
        env.source(queue="q", ns=ns).schema()


def test_a_queue_must_exist_in_each_namespace(env):
    env.clients[1].delete_queue("q")
    with pytest.raises(QueueNotFound, match=r"'q'") as caught:
        env.read(queue="q")
    assert env.names[1] in str(caught.value)
    assert env.read(subscribePattern="q") == []


@pytest.mark.parametrize("chosen", [EqualTo, In])
def test_a_filter_on_the_namespace_reads_no_other(env, chosen):
    send(env, 3)
    value = (env.names[2],) if chosen is In else env.names[2]
    read = env.plan_read(filters=[chosen(("ns",), value)], queue="q", pushdown=True)
    assert read.remaining_filters == []
    assert {partition.ns for partition in read.partitions} == {env.names[2]}
    assert [row["ns"] for rows in read() for row in rows] == [env.names[2]] * 3


def test_a_filter_on_the_id_looks_in_each_namespace(env):
    sent = send(env, 3)
    read = env.plan_read(filters=[EqualTo(("id",), sent[4][1])], queue="q", pushdown=True)
    assert [(row["ns"], row["id"]) for rows in read() for row in rows] == [sent[4]]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_write_into_several_namespaces_is_refused(env, streaming):
    source = env.source(queue="q")
    make = source.streamWriter if streaming else source.writer
    with pytest.raises(InvalidOption, match=r"^Option ns: .*a write has one"):
        make(schema=columns(message="string"), overwrite=False)


def test_a_stream_has_the_messages_of_all_namespaces_once(env):
    query = env.query()
    sent = send(env, 7)
    assert keys_of(query.run()) == sorted(sent)
    lease = query.offsets[0]["lease"]
    assert query.offsets == [
        {
            "version": 2, "lease": lease, "batch": 1,
            "queues": {name: {"q": 7} for name in env.names},
        }
    ]  # fmt: skip
    hidden = {"visible": 0, "hidden": 7, "held_back": 0, "retrying": 0}
    assert query.progress["backlog"] == {f"{name}:q": hidden for name in env.names}
    sent += send(env, 2, "n")
    query.run_until_empty()
    assert keys_in_sink(query) == sorted(sent)
    assert env.stored() == [[], [], []]
    assert (query.progress["acknowledged"], query.progress["lost"]) == (27, 0)


def test_a_part_has_one_namespace(env):
    query = env.query(numPartitions=1)
    send(env, 3)
    query.poll()
    assert [partition.ns for partition in query.plan()] == env.names


def test_a_batch_is_shared_among_namespaces(env):
    query = env.query(maxMessagesPerTrigger=6)
    send(env, 5)
    query.run()
    assert query.offsets[0]["queues"] == {name: {"q": 2} for name in env.names}


@pytest.mark.parametrize("killed", range(NUMBER))
@pytest.mark.parametrize("answered", [False, True])
def test_an_acknowledgement_that_is_killed_is_completed(env, killed, answered):
    query = env.query()
    sent = send(env, 4)
    query.run()
    with crash_at_call(env.servers()[killed], 0, answered=answered), pytest.raises(Crashed):
        query.request_offset()
    assert [len(bodies) for bodies in env.stored()] == [
        0 if each < killed or (each == killed and answered) else 4 for each in range(NUMBER)
    ]
    assert query.restart() is None
    query.run_until_empty()
    assert keys_in_sink(query) == sorted(sent)
    assert env.stored() == [[], [], []]
    assert all(client.get_queue_attributes("q").total_received == 4 for client in env.clients)


@pytest.mark.parametrize("killed", range(NUMBER))
@pytest.mark.parametrize("answered", [False, True])
def test_a_receive_that_is_killed_is_continued(env, killed, answered):
    query = env.query()
    sent = [(env.names[0], env.rsmq.send_message("q", "first"))]
    query.run_until_empty()
    sent += send(env, 4)
    with crash_at_call(env.servers()[killed], 0, answered=answered), pytest.raises(Crashed):
        query.request_offset()
    query.restart()
    query.run_until_empty()
    assert keys_in_sink(query) == sorted(sent)
    assert env.stored() == [[], [], []]
    assert sum(client.get_queue_attributes("q").total_received for client in env.clients) == 13


def test_a_checkpoint_that_is_set_back_is_refused(env):
    query = env.query()
    env.clients[0].send_message("q", "a")
    query.run()
    env.clients[2].send_message("q", "b")
    query.run()
    query.run_until_empty()
    del query.offsets[1:]
    env.clients[0].send_message("q", "c")  # this namespace has acknowledged batch 1 only
    with pytest.raises(CheckpointSetBack):
        query.restart()
        query.run()


def test_an_idle_query_is_woken_by_each_namespace(env):
    query = env.query()
    assert query.request_offset() is None
    for client in env.clients:
        client.send_message("q", "a")
        for _ in range(600):
            if query.request_offset(wake=False) is not None:
                break
        else:
            pytest.fail("the query was not woken")
        query.run_until_empty()


def with_ns(query, ns):
    """Start the next process of a query with other namespaces."""
    query.crash()
    query._source.options["ns"] = ns
    query.start()


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "g"}])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_checkpoint_of_one_namespace_continues_with_several(env, group, is_done):
    named = "ns,id"
    query = env.query(ns=env.ns, columns=named, **group)
    sent = send(env, 3)
    query.run() if is_done else query.poll()
    (offset,) = query.offsets
    lease = offset["lease"]
    assert json.dumps({name: offset[name] for name in offset if name != "query"}) == json.dumps(
        {"version": 1, "lease": lease, "batch": 1, "queues": {"q": 3}, "ns": env.ns}
    )
    with_ns(query, ",".join([env.names[1], env.ns, env.names[2]]))
    if not is_done:
        query.finish()
    query.run_until_empty()
    assert keys_in_sink(query) == sorted(sent)
    assert env.stored() == [[], [], []]
    assert query.offsets[1]["version"] == 2


@pytest.mark.parametrize("group", [{}, {"consumerGroup": "g"}])
def test_a_namespace_is_left_out_after_its_batch_is_done(env, group):
    query = env.query(columns="ns,id", **group)
    sent = send(env, 3)
    query.run()
    with_ns(query, env.names[1])
    assert query.run() is None
    assert env.stored() == [[], [], []]  # the last batch was deleted everywhere
    left = send(env, 1)
    query.run_until_empty()
    assert keys_in_sink(query) == sorted([*sent, left[1]])
    assert env.stored() == [["m0"], [], ["m0"]]
    assert query.offsets[-1]["ns"] == env.names[1]


def test_a_namespace_of_an_unfinished_batch_must_be_named(env):
    query = env.query(columns="ns,id")
    sent = send(env, 3)
    query.poll()
    with_ns(query, env.ns)
    text = rf"^Option ns: batch 1 .* is not finished.*'\{{{env.ns}\}}-1'"
    with pytest.raises(InvalidOption, match=text):
        query.finish()
    with_ns(query, ",".join(env.names))
    query.finish()
    query.run_until_empty()
    assert keys_in_sink(query) == sorted(sent)
    assert env.stored() == [[], [], []]


def test_a_newer_offset_is_refused(env):
    query = env.query()
    send(env, 1)
    query.poll()
    query.offsets[0]["version"] = 3
    with pytest.raises(NewerVersion):
        query.plan()


def test_a_second_query_of_a_consumer_group_starts_behind_the_first(env):
    first = env.query(consumerGroup="g")
    send(env, 3)
    first.run()
    first.run()  # acknowledges
    first.crash()
    later = send(env, 1, "n")
    second = env.query(consumerGroup="g")
    second.run_until_empty()
    assert keys_in_sink(second) == sorted(later)
    assert second.offsets[0]["batch"] == 2
    assert env.stored() == [[], [], []]


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_an_older_spark_continues_a_group_with_more_namespaces(env, monkeypatch, is_acknowledged):
    monkeypatch.setattr(spark_source, "HAS_START", False)
    query = env.query(kind=OlderQuery, consumerGroup="g", columns="ns,id", ns=env.ns)
    sent = send(env, 2)
    query.run()
    if is_acknowledged:
        query.run()
    with_ns(query, ",".join(env.names))
    sent += send(env, 1, "n")
    for _ in range(3):
        query.run()
    assert keys_in_sink(query) == sorted(sent)
    assert env.stored() == [[], [], []]


class Progress:
    """The progress of a batch, or the end of a run, as Spark reports it to a listener."""

    def __init__(self, offset):
        self.runId = "run"
        self.progress = self
        self.json = json.dumps({"sources": [{"startOffset": None, "endOffset": offset}]})


def test_a_listener_acknowledges_the_last_batch_in_all_namespaces(env, caplog):
    query = env.query()
    send(env, 3)
    query.run()
    query.crash()
    one = parse_connection_options({"url": env.redis.url, "ns": env.ns})
    assert acknowledge_offset(one, query.offsets[-1]) == (0, 0)
    assert env.stored() == [["m0", "m1", "m2"]] * NUMBER
    for ns in (env.ns, ",".join([*env.names, "another"])):
        listener = AcknowledgeListener(url=env.redis.url, ns=ns)
        listener.onQueryProgress(Progress(query.offsets[-1]))
        listener.onQueryTerminated(Progress(None))
    assert env.stored() == [[], [], []]
    warnings = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert [text.partition(". ")[0] for text in warnings] == [
        f"A query reads namespace {name!r}" for name in sorted(env.names[1:])
    ]


def test_a_server_that_was_down_has_lost_nothing():
    started = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    env = SeveralEnv(started)
    env.create_queue("q")
    query = env.query(retryDeadline=0)
    sent = send(env, 10)
    assert query.poll()
    started.kill()
    with pytest.raises(redis.exceptions.ConnectionError):
        query.finish()
    query.crash()
    env.disconnect()
    started.start()
    query.start()
    query.finish()
    query.run_until_empty()
    assert keys_in_sink(query) == sorted(sent)
    assert env.stored() == [[], []]
    env.close()
    started.stop()


def test_one_namespace_needs_no_other(server):
    env = Env(server)
    env.rsmq.create_queue("q")
    query = env.query()
    with RSMQ.from_url(server.url, ns=env.ns) as client:
        client.send_message("q", "a")
    query.run()
    (offset,) = query.offsets
    assert list(offset) == ["version", "lease", "batch", "queues", "ns"]
    env.close()
