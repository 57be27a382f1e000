"""Connections of a pool, without a server."""

from __future__ import annotations

from rsmq.transport.threads.pools import PooledConnections


class Pool:
    def __init__(self):
        self.calls = []
        self.connection_class, self.connection_kwargs = None, {"socket_timeout": None}

    def disconnect(self, *, inuse_connections):
        self.calls.append(("disconnect", inuse_connections))

    def release(self, connection):
        self.calls.append(("release", connection))


class Connection:
    is_connected = True

    def disconnect(self):
        self.is_connected = False


def test_close_of_an_own_pool_closes_idle_connections_and_others_when_released():
    pool, connection = Pool(), Connection()
    connections = PooledConnections(pool, is_owned=True)
    connections.close()
    connections.release(connection, is_usable=True)

    assert pool.calls == [("disconnect", False), ("release", connection)]
    assert not connection.is_connected


def test_close_leaves_the_pool_of_a_handed_in_client_open():
    pool, connection = Pool(), Connection()
    connections = PooledConnections(pool, is_owned=False)
    connections.close()
    connections.release(connection, is_usable=True)

    assert pool.calls == [("release", connection)]
    assert connection.is_connected
