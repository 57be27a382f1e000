"""The private attributes of redis-py that the library uses, and that a release may change."""

from __future__ import annotations

import pytest
import redis
import redis.asyncio

from rsmq.transport import redis_py

ADVICE = "redis-py has changed: adapt rsmq/transport/redis_py.py and the upper bound in pyproject"


def test_a_synchronous_connection_has_its_socket_and_its_parser_of_errors(server):
    connection = redis.Connection(port=server.port)
    assert hasattr(connection, "_sock"), ADVICE
    assert redis_py.socket_of(connection) is None
    connection.connect()

    assert redis_py.socket_of(connection).getpeername()[1] == server.port, ADVICE
    reader = redis_py.make_reader(connection, None)
    reader.feed(b"-OOM command not allowed\r\n")
    assert isinstance(reader.gets(), redis.exceptions.OutOfMemoryError), ADVICE
    connection.disconnect()
    assert redis_py.socket_of(connection) is None, ADVICE


async def test_an_asyncio_connection_has_its_streams_and_its_handler_of_invalidations(server, ns):
    connection = redis.asyncio.Connection(port=server.port, protocol=3)
    assert hasattr(connection, "_reader"), ADVICE
    assert hasattr(connection, "_writer"), ADVICE
    assert redis_py.socket_of_asyncio(connection) is None
    await connection.connect()
    assert redis_py.socket_of_asyncio(connection).getpeername()[1] == server.port, ADVICE

    async def handle(message):
        return message

    redis_py.set_invalidation_handler(connection, handle)
    await connection.send_command("CLIENT", "TRACKING", "ON", "BCAST")
    await connection.read_response()
    await connection.send_command("SET", f"{ns}:k", "1")
    read = [
        await connection.read_response(push_request=True, disable_decoding=True) for _ in range(2)
    ]
    assert [b"invalidate", [f"{ns}:k".encode()]] in read, ADVICE

    writer = redis_py.detach_writer(connection)
    assert connection._reader is None
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("kind", [redis.SSLConnection, redis.UnixDomainSocketConnection])
def test_other_connections_have_the_same_attributes(kind):
    assert hasattr(kind(), "_sock"), ADVICE
    assert callable(kind()._parser.parse_error), ADVICE


@pytest.mark.parametrize("kinds", [redis, redis.asyncio])
def test_a_sentinel_object_has_the_host_that_replaces_the_reported_one(kinds):
    sentinel = kinds.Sentinel([("127.0.0.1", 1)], force_master_ip="10.0.0.1")
    assert redis_py.forced_primary(sentinel) == "10.0.0.1", ADVICE
    assert redis_py.forced_primary(kinds.Sentinel([("127.0.0.1", 1)])) is None
