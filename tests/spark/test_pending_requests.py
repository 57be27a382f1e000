"""Requests whose replies are read later: their order, and faults of their connections."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import redis

from rsmq.spark.connections import SparkServer
from rsmq.transport.packing import pack_all
from rsmq.transport.socket import SocketConnection
from rsmq.transport.threads.pending import PendingCall
from rsmq.transport.threads.pools import ThreadConnections

PING = (b"PING",)


@pytest.fixture(autouse=True)
def in_use(monkeypatch):
    """The connections that are in use."""
    in_use = set()
    acquire, release = ThreadConnections.acquire, ThreadConnections.release

    def note_acquire(self, **options):
        connection = acquire(self, **options)
        in_use.add(connection)
        return connection

    def note_release(self, connection, **options):
        in_use.remove(connection)
        release(self, connection, **options)

    monkeypatch.setattr(ThreadConnections, "acquire", note_acquire)
    monkeypatch.setattr(ThreadConnections, "release", note_release)
    return in_use


@pytest.fixture
def events(monkeypatch):
    """The begins and the ends of requests, in order, each with the name of its first command."""
    events, names = [], {}
    begin, finish = SparkServer.begin_request, PendingCall.finish
    finish_within = PendingCall.finish_within

    def note_begin(self, commands):
        request = begin(self, commands)
        packed = b"".join(bytes(each) for each in pack_all(commands))
        name = packed.split(b"\r\n")[2].decode()
        names[id(request)] = name, request
        events.append(f"begin {name}")
        return request

    def note_finish(self, *args):
        events.append(f"finish {names[id(self)][0]}")
        return (finish_within if args else finish)(self, *args)

    monkeypatch.setattr(SparkServer, "begin_request", note_begin)
    monkeypatch.setattr(PendingCall, "finish", note_finish)
    monkeypatch.setattr(PendingCall, "finish_within", note_finish)
    return events


def test_next_messages_are_requested_before_the_last_ones_are_used(env, queue, events, in_use):
    for _ in range(10):
        env.rsmq.send_messages(queue, ["m"] * 1000)
    source = env.source(queue=queue, columns="id,message", numPartitions=1)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    events.extend(f"use {batch.num_rows > 0}" for batch in reader.read(partition))

    fields = [event for event in events if event.endswith(("HMGET", "True"))]
    assert fields[:4] == ["begin HMGET", "begin HMGET", "finish HMGET", "begin HMGET"]
    assert fields[4:7] == ["use True", "finish HMGET", "begin HMGET"]
    sizes = [event for event in events if event.endswith(("HSTRLEN", "HMGET"))]
    assert sizes[:3] == ["begin HSTRLEN", "finish HSTRLEN", "begin HMGET"]
    assert sizes[3:6] == sizes[:3]
    assert sizes[6:9] == ["begin HSTRLEN", "finish HMGET", "finish HSTRLEN"]
    scans = [event for event in events if event.endswith("ZSCAN")]
    assert scans[:3] == ["begin ZSCAN", "finish ZSCAN", "begin ZSCAN"]
    assert events[:3] == scans[:3]
    begun = [event for event in events if event.startswith("begin")]
    assert len(begun) == len([event for event in events if event.startswith("finish")])
    assert not in_use


def test_next_part_of_a_batch_is_requested_before_the_last_one_is_used(env, queue, events, in_use):
    for _ in range(3):
        env.rsmq.send_messages(queue, ["m"] * 1000)
    query = env.query(numPartitions=1)
    query.poll()
    (task,) = query.plan()
    events.clear()
    events.extend(f"use {batch.num_rows}" for batch in query.reader.read(task))

    assert events == [
        "begin HGET", "begin HGET", "finish HGET", "begin HMGET",
        "begin HGET", "finish HGET", "begin HMGET", "finish HMGET", "use 1000",
        "finish HGET", "begin HMGET", "finish HMGET", "use 1000",
        "finish HMGET", "use 1000",
    ]  # fmt: skip
    assert not in_use


def test_task_that_is_closed_early_releases_its_connections(env, queue, in_use):
    for _ in range(3):
        env.rsmq.send_messages(queue, ["m"] * 1000)
    query = env.query(numPartitions=1)
    query.poll()
    (task,) = query.plan()
    rows = query.reader.read(task)
    assert next(rows).num_rows == 1000
    assert in_use
    rows.close()
    assert not in_use


def test_reply_is_read_later(env, in_use):
    request = env.server().begin_request([PING, PING])
    assert len(in_use) == 1
    assert request.finish() == [b"PONG", b"PONG"]
    request.abandon()
    assert not in_use
    assert env.server().request([PING]) == [b"PONG"]


def test_reply_with_too_many_bytes_is_abandoned(env, in_use):
    env.raw.set(f"{env.ns}:text", "x" * 10_000_000)
    get = (b"GET", f"{env.ns}:text".encode())
    assert env.server().begin_request([get]).finish_within(1_000_000) is None
    assert not in_use
    assert env.server().begin_request([PING]).finish_within(100) == [b"PONG"]
    assert env.server().begin_request([get]).finish() == [b"x" * 10_000_000]
    assert not in_use


def test_requests_reuse_their_connections(env):
    """Those that are pending at the same time, and calls meanwhile."""
    server = env.server()
    server.request([PING])
    env.raw.config_resetstat()
    for _ in range(3):
        pending = [server.begin_request([PING]) for _ in range(2)]
        assert server.request([PING]) == [b"PONG"]
        assert [each.finish() for each in pending] == [[b"PONG"], [b"PONG"]]
    assert env.raw.info("stats")["total_connections_received"] == 2


def test_request_is_repeated_after_its_connection_broke(env, in_use):
    server = env.server()
    request = server.begin_request([PING])
    (connection,) = in_use
    connection.abort()
    assert request.finish() == [b"PONG"]
    assert not in_use


def test_limited_request_is_not_repeated(env, in_use):
    server = env.server()
    request = server.begin_request([PING])
    (connection,) = in_use
    connection.disconnect()
    assert request.finish_within(100) is None
    assert not in_use


def test_request_that_can_not_be_sent_is_repeated(env, in_use, monkeypatch):
    server = env.server()

    with monkeypatch.context() as patch:
        fail = Mock(side_effect=redis.ConnectionError)
        patch.setattr(SocketConnection, "send_packed_command", fail)
        request = server.begin_request([PING])
    fail.assert_called_once()
    assert not in_use
    assert request.finish() == [b"PONG"]


def test_request_whose_server_is_away_fails_when_its_replies_are_read(env, in_use, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(ThreadConnections, "acquire", Mock(side_effect=redis.ConnectionError))
        request = env.server().begin_request([PING])
    assert request.finish() == [b"PONG"]
    assert not in_use


def test_error_reply_is_raised_and_the_connection_stays_usable(env, in_use):
    env.raw.set(f"{env.ns}:text", "x")
    request = env.server().begin_request([(b"ZCARD", f"{env.ns}:text".encode()), PING])
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        request.finish()
    assert not in_use
    assert env.server().request([PING]) == [b"PONG"]


def test_abandoned_reply_is_not_read_by_the_next_request(env, in_use):
    server = env.server()
    server.begin_request([(b"ECHO", b"old")]).abandon()
    assert server.request([PING]) == [b"PONG"]
    assert not in_use


def test_reader_that_is_closed_early_releases_its_connections(env, queue, in_use):
    for _ in range(5):
        env.rsmq.send_messages(queue, ["m"] * 1000)
    source = env.source(queue=queue, numPartitions=1)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    batches = reader.read(partition)
    next(batches)
    next(batches)
    assert in_use
    batches.close()
    assert not in_use
    assert len(env.read(queue=queue)[0]) > 0
