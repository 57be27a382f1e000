"""Requests whose replies are read later: their order, and faults of their connections."""

from __future__ import annotations

import pytest
import redis

from rsmq.spark.connections import SparkServer
from rsmq.spark.read.pending_request import PendingRequest
from rsmq.transport.socket import pack

PING = list(pack((b"PING",)))


def count_connections(env):
    """Return the number of open connections that are in use, and of idle ones."""
    pool = env.server().raw.connection_pool
    return len(pool._in_use_connections), len(pool._available_connections)


def test_next_messages_are_requested_before_the_last_ones_are_used(env, queue, monkeypatch):
    for _ in range(5):
        env.rsmq.send_messages(queue, ["m"] * 1000)
    events = []
    begin, finish = SparkServer.begin_request, PendingRequest.finish

    def name(packed):
        return b"".join(bytes(each) for each in packed).split(b"\r\n")[2].decode()

    def note_begin(self, packed, number):
        request = begin(self, packed, number)
        requests[id(request)] = name(packed)
        kept.append(request)
        events.append(f"begin {name(packed)}")
        return request

    def note_finish(self):
        events.append(f"finish {requests[id(self)]}")
        return finish(self)

    requests, kept = {}, []
    monkeypatch.setattr(SparkServer, "begin_request", note_begin)
    monkeypatch.setattr(PendingRequest, "finish", note_finish)
    source = env.source(queue=queue, columns="id,message", numPartitions=1)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    events.extend(f"use {batch.num_rows > 0}" for batch in reader.read(partition))

    # The size of the bodies is known when the first ones are read.
    fields = [event for event in events if event.endswith(("HMGET", "True"))]
    assert fields[:3] == ["begin HMGET", "finish HMGET", "use True"]
    assert fields[3:7] == ["begin HMGET", "begin HMGET", "finish HMGET", "use True"]
    scans = [event for event in events if event.endswith("ZSCAN")]
    assert scans[:3] == ["begin ZSCAN", "finish ZSCAN", "begin ZSCAN"]
    assert events[:3] == scans[:3]
    assert len(kept) == len([event for event in events if event.startswith("finish")])
    assert count_connections(env)[0] == 0


def test_reply_is_read_later(env):
    request = env.server().begin_request(PING * 2, 2)
    assert count_connections(env)[0] == 1
    assert request.finish() == [b"PONG", b"PONG"]
    request.abandon()
    assert count_connections(env) == (0, 1)
    assert env.server().request(PING, 1) == [b"PONG"]


def test_request_is_repeated_after_its_connection_broke(env):
    server = env.server()
    request = server.begin_request(PING, 1)
    assert request._connection is not None
    request._connection._sock.shutdown(2)
    assert request.finish() == [b"PONG"]
    assert count_connections(env)[0] == 0


def test_request_that_can_not_be_sent_is_repeated(env):
    server = env.server()
    server.request(PING, 1)
    pool = server.raw.connection_pool
    connection = pool.get_connection()
    send = connection.send_packed_command

    def fail(_packed):
        connection.send_packed_command = send
        raise redis.ConnectionError

    connection.send_packed_command = fail
    pool.release(connection)
    request = server.begin_request(PING, 1)
    assert request._connection is None
    assert request.finish() == [b"PONG"]


def test_error_reply_is_raised_and_the_connection_stays_usable(env):
    env.raw.set(f"{env.ns}:text", "x")
    wrong = list(pack((b"ZCARD", f"{env.ns}:text".encode())))
    request = env.server().begin_request([*wrong, *PING], 2)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        request.finish()
    assert count_connections(env) == (0, 1)
    assert env.server().request(PING, 1) == [b"PONG"]


def test_abandoned_reply_is_not_read_by_the_next_request(env):
    server = env.server()
    server.begin_request(list(pack((b"ECHO", b"old"))), 1).abandon()
    assert server.request(PING, 1) == [b"PONG"]
    assert count_connections(env)[0] == 0


def test_reader_that_is_closed_early_releases_its_connections(env, queue):
    for _ in range(5):
        env.rsmq.send_messages(queue, ["m"] * 1000)
    source = env.source(queue=queue, numPartitions=1)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    batches = reader.read(partition)
    next(batches)
    next(batches)
    assert count_connections(env)[0] > 0
    batches.close()
    assert count_connections(env)[0] == 0
    assert len(env.read(queue=queue)[0]) > 0
