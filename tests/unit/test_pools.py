"""Connections of threads to one server, without a server."""

from __future__ import annotations

import os
import threading
import time

import pytest
import redis

from rsmq.transport.threads import pools
from rsmq.transport.threads.pools import LentConnections, SharedConnections
from rsmq.transport.topology.group import ConnectionLimit, ServerPool
from tests.scale import WAIT_SECONDS

FOREVER = float("inf")


class Lender:
    def __init__(self):
        self.calls = []

    def get_connection(self):
        self.calls.append("get")
        return Connection()

    def release(self, connection):
        self.calls.append(("release", connection.is_connected))


class Connection:
    def __init__(self, **options):
        self.is_connected = True

    def connect(self):
        pass

    def disconnect(self):
        self.is_connected = False

    def is_idle(self):
        return self.is_connected


@pytest.fixture
def shared(monkeypatch):
    """A function that makes connections of which a number is open at most."""
    monkeypatch.setattr(pools, "SocketConnection", lambda connection: connection)
    monkeypatch.setattr(pools, "_shorten_timeouts", lambda *_: None)

    def make(number, wait=0.0):
        options = {"socket_timeout": None}
        return SharedConnections(ServerPool(Connection, options, ConnectionLimit(number, wait)))

    return make


def test_a_lent_connection_returns_to_its_pool_after_each_call():
    lender = Lender()
    connections = LentConnections(ServerPool(Connection, {"socket_timeout": None}, lender=lender))
    for is_usable in (True, False):
        connection = connections.acquire(check=True, until=FOREVER)
        connections.close()
        connections.release(connection, is_usable=is_usable)

    assert lender.calls == ["get", ("release", True), "get", ("release", False)]


def test_a_free_connection_is_used_again_and_no_more_than_the_limit_are_open(shared):
    connections = shared(2)
    one = connections.acquire(check=True, until=FOREVER)
    other = connections.acquire(check=True, until=FOREVER)
    with pytest.raises(redis.exceptions.MaxConnectionsError):
        connections.acquire(check=True, until=FOREVER)
    connections.release(one, is_usable=True)

    assert connections.acquire(check=True, until=FOREVER) is one
    connections.release(other, is_usable=False)
    assert not other.is_connected
    assert connections.acquire(check=False, until=FOREVER) not in (one, other)


def test_a_connection_that_can_not_be_opened_takes_no_place(shared, monkeypatch):
    connections = shared(1)

    def fail(_):
        raise redis.exceptions.ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "connect", fail)
        for _ in range(3):
            with pytest.raises(redis.exceptions.ConnectionError):
                connections.acquire(check=True, until=FOREVER)
    assert connections.acquire(check=True, until=FOREVER).is_connected


def test_a_call_waits_for_a_connection_until_its_pool_or_its_deadline_ends_the_wait(shared):
    connections = shared(1, None)
    one = connections.acquire(check=True, until=FOREVER)
    with pytest.raises(redis.exceptions.MaxConnectionsError):
        connections.acquire(check=True, until=time.monotonic() + 0.01)
    got = []
    thread = threading.Thread(
        target=lambda: got.append(connections.acquire(check=True, until=FOREVER))
    )
    thread.start()
    connections.release(one, is_usable=True)
    thread.join(WAIT_SECONDS)

    assert got == [one]


def test_close_closes_free_connections_now_and_others_when_they_are_released(shared):
    connections = shared(3)
    one, other = (connections.acquire(check=True, until=FOREVER) for _ in range(2))
    connections.release(one, is_usable=True)
    connections.close()
    assert (one.is_connected, other.is_connected) == (False, True)
    connections.release(other, is_usable=True)
    assert not other.is_connected


def test_a_child_process_has_places_of_its_own(shared, monkeypatch):
    connections = shared(1)
    one = connections.acquire(check=True, until=FOREVER)
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    own = connections.acquire(check=True, until=FOREVER)

    assert own is not one
    connections.release(own, is_usable=True)
    assert connections.acquire(check=True, until=FOREVER) is own
