"""The timeouts of connections stay as they were, also those of a client that was passed in."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
import redis
import redis.asyncio
import redis.exceptions as redis_errors

from rsmq import RSMQ, AsyncRSMQ
from rsmq.transport.asyncio_ import attempts as retrying
from rsmq.transport.confirmation import longest_wait
from rsmq.transport.redis_py import timeout_of_connections
from rsmq.transport.retry import DeadlinePassed
from rsmq.transport.threads.pools import ThreadConnections
from rsmq.transport.topology.group import ServerPool

#: Much longer than the time limit of a test.
HOUR = 3600

POOLS = {
    "from_url": lambda kinds, server: kinds.Redis.from_url(server.url).connection_pool,
    "ConnectionPool": lambda kinds, server: kinds.ConnectionPool(port=server.port),
    "BlockingConnectionPool": lambda kinds, server: kinds.BlockingConnectionPool(port=server.port),
    "Redis": lambda kinds, server: kinds.Redis(port=server.port).connection_pool,
    "an hour": lambda kinds, server: kinds.ConnectionPool(port=server.port, socket_timeout=HOUR),
    "no end": lambda kinds, server: kinds.ConnectionPool(port=server.port, socket_timeout=None),
}


@pytest.fixture(params=POOLS.values(), ids=POOLS)
def make_pool(request, server):
    """A function that makes a pool of the synchronous or asyncio classes of redis-py."""
    return lambda kinds: request.param(kinds, server)


@pytest.mark.parametrize("deadline", [None, HOUR, 2.0])
def test_a_connection_as_those_of_a_passed_in_pool_has_their_timeout(make_pool, ns, deadline):
    """Also after a call that has less time than the timeout of the connection."""
    pool = make_pool(redis)
    connection = pool.get_connection()
    before = connection._sock.gettimeout()
    rsmq = RSMQ(redis.Redis(connection_pool=pool), ns=ns, retry_deadline=deadline)
    rsmq.create_queue("q", exist_ok=True)
    rsmq.send_message("q", "m", timeout=20)
    rsmq.receive_message("q")

    own = rsmq._caller._connections.acquire(check=True, until=math.inf)
    assert own.connection._sock.gettimeout() == before
    own.disconnect()
    rsmq.close()
    assert connection._sock.gettimeout() == before
    pool.disconnect()


@pytest.mark.parametrize("deadline", [HOUR, 2.0])
def test_an_own_connection_has_the_timeouts_of_its_class(server, deadline):
    connect_timeouts = []

    class Connection(redis.Connection):
        def connect(self):
            connect_timeouts.append(self.socket_connect_timeout)
            super().connect()

    usual = redis.Connection()
    connections = ThreadConnections(ServerPool(Connection, {"port": server.port}))
    opened = connections.acquire(check=False, until=time.monotonic() + deadline)
    assert opened.connection._sock.gettimeout() == usual.socket_timeout
    (seconds,) = connect_timeouts
    assert seconds <= min(deadline, usual.socket_connect_timeout or HOUR)
    opened.disconnect()


@pytest.mark.parametrize("deadline", [None, HOUR, 2.0])
def test_a_first_attempt_has_a_timer_only_if_its_connection_has_a_longer_timeout(
    make_pool, ns, deadline, monkeypatch
):
    attempts = []
    within = retrying._within
    monkeypatch.setattr(retrying, "_within", lambda *args: attempts.append(args) or within(*args))

    async def main():
        pool = make_pool(redis.asyncio)
        timeout = pool.connection_class(**pool.connection_kwargs).socket_timeout
        client = redis.asyncio.Redis(connection_pool=pool)
        rsmq = AsyncRSMQ(client, ns=ns, retry_deadline=deadline)
        await rsmq.create_queue("q", exist_ok=True)
        assert bool(attempts) == (timeout is None or (deadline or 5.0) < timeout)
        await rsmq.close()

    asyncio.run(main())


@pytest.mark.parametrize("kinds", [redis, redis.asyncio], ids=["sync", "asyncio"])
def test_a_command_waits_at_most_half_of_the_timeout_of_its_connection(make_pool, kinds):
    pool = make_pool(kinds)
    timeout = pool.connection_class(**pool.connection_kwargs).socket_timeout
    assert timeout_of_connections(pool.connection_class, pool.connection_kwargs) == timeout
    assert longest_wait(timeout) <= (timeout or HOUR) / 2


#: The seconds that the calls of the next test have.
DEADLINE = 0.01


class SlowPool(redis.ConnectionPool):
    """A pool that needs more time for a connection than the calls have."""

    def get_connection(self, *args, **options):
        connection = super().get_connection(*args, **options)
        time.sleep(2 * DEADLINE)
        return connection


def test_a_call_that_is_over_time_before_it_is_sent_keeps_its_connection(server, ns):
    failures = []
    pool = SlowPool(port=server.port)
    connection = pool.get_connection()
    pool.release(connection)
    opened = connection._sock
    rsmq = RSMQ(redis.Redis(connection_pool=pool), ns=ns, retry_deadline=DEADLINE)
    rsmq._caller._connections.note_failure = failures.append
    with pytest.raises(redis_errors.TimeoutError, match="time of the call is over"):
        rsmq.list_queues()

    assert connection._sock is opened
    assert failures == []
    pool.disconnect()


def test_a_time_that_is_over_before_it_connects_is_no_failure_of_the_server(server):
    failures = []
    connections = ThreadConnections(ServerPool(redis.Connection, {"port": server.port}),
                                    failures.append)  # fmt: skip
    with pytest.raises(DeadlinePassed):
        connections.acquire(check=False, until=time.monotonic() - 1)
    assert failures == []
