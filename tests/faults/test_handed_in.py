"""A client of redis-py that is handed in only says where and how to connect."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref

import pytest
import redis
import redis.asyncio
from redis.credentials import UsernamePasswordCredentialProvider

from rsmq import RSMQ, AsyncRSMQ, ClientClosed, InvalidFormat
from rsmq.transport import servers
from tests.blocking import Blocking
from tests.lent import LendingAsyncRedis, LendingRedis
from tests.nodes import wait_until
from tests.scale import WAIT_SECONDS
from tests.sentinels import NAME
from tests.servers import Server, redis_7


@pytest.fixture(params=["sync", "asyncio"])
def hand_in(request):
    """A function that makes a client of redis-py and one of ours from it, of one of both faces."""
    runner = asyncio.Runner()
    opened = []

    def make(kinds, ns, *, is_kept=True, **options):
        if request.param == "sync":
            inner = kinds[0](**options)
            client = RSMQ(inner, ns=ns)
        else:
            inner = kinds[1](**options)
            client = Blocking(runner, AsyncRSMQ(inner, ns=ns))
        if is_kept:
            opened.append(client)
        return inner, client

    def turn():
        """Let the event loop do what it was asked to do."""
        runner.run(asyncio.sleep(0.01))

    def close(inner):
        if request.param == "sync":
            inner.close()
        else:
            runner.run(inner.aclose())

    make.close, make.turn = close, turn
    yield make
    for client in opened:
        client.close()
    runner.close()


REDIS = (redis.Redis, redis.asyncio.Redis)


def named(raw, name):
    return [each for each in raw.client_list() if each["name"] == name]


def test_its_options_make_our_connections(hand_in, raw, ns, server):
    raw.execute_command("ACL", "SETUSER", ns, "on", ">secret", "~*", "&*", "+@all")
    inner, client = hand_in(
        REDIS, ns, port=server.port, db=3, client_name=ns, decode_responses=True, protocol=3,
        encoding="latin-1", single_connection_client=False,
        credential_provider=UsernamePasswordCredentialProvider(ns, "secret"),
    )  # fmt: skip
    client.create_queue("q")
    client.send_message("q", "é")

    (own,) = named(raw, ns)
    assert (own["db"], own["user"], own.get("resp", "2")) == ("3", ns, "2")
    with server.raw(db=3) as other:
        assert other.zcard(f"{ns}:q") == 1
        other.flushdb()
    assert not inner.connection_pool.__dict__.get("_available_connections")
    raw.execute_command("ACL", "DELUSER", ns)


def test_it_may_be_closed_at_once_and_is_never_closed(hand_in, raw, ns, server):
    inner, client = hand_in(REDIS, ns, port=server.port, client_name=ns)
    hand_in.close(inner)
    client.create_queue("q")
    assert client.list_queues() == ["q"]
    client.close()
    wait_until(lambda: not named(raw, ns))


def test_a_unix_socket(hand_in, ns, tmp_path):
    path = str(tmp_path / "socket")
    server = Server(redis_7(), "--unixsocket", path)
    try:
        _, client = hand_in(REDIS, ns, unix_socket_path=path)
        client.create_queue("q")
        assert client.list_queues() == ["q"]
    finally:
        server.stop()


def test_an_asyncio_client_may_be_used_in_every_event_loop(raw, ns, server):
    client = AsyncRSMQ(redis.asyncio.Redis(port=server.port, client_name=ns), ns=ns)
    runners = [asyncio.Runner() for _ in range(3)]

    def use(number):
        runners[number].run(client.create_queue(f"q{number}"))

    use(0)
    threads = [threading.Thread(target=use, args=(each,)) for each in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert len(named(raw, ns)) == 3
    assert len(runners[0].run(client.list_queues())) == 3
    runners[0].run(client.close())

    def is_closed():
        for runner in runners:  # each loop closes its own connection
            runner.run(asyncio.sleep(0))
        return not named(raw, ns)

    wait_until(is_closed)
    for runner in runners:
        runner.close()


POOLS = {
    "raises": lambda port, name: redis.ConnectionPool(
        port=port, max_connections=2, client_name=name
    ),
    "waits": lambda port, name: redis.BlockingConnectionPool(
        port=port, max_connections=2, timeout=None, client_name=name
    ),
}


@pytest.mark.parametrize("make_pool", POOLS.values(), ids=POOLS)
def test_the_threads_share_the_connections_that_its_pool_permits(raw, ns, server, make_pool):
    pool = make_pool(server.port, ns)
    inner = redis.Redis(connection_pool=pool)
    done, most = [], 0
    with RSMQ(inner, ns=ns, retry_deadline=30) as rsmq:
        rsmq.create_queue("q")

        def work():
            for _ in range(20):
                rsmq.send_message("q", "m")
            done.append(True)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        working = True
        while working:  # looks once more after the last: its pool keeps connections open
            working = any(thread.is_alive() for thread in threads)
            most = max(most, len(named(raw, ns)))
        assert len(done) == 6
        assert raw.zcard(f"{ns}:q") == 120
        assert 1 <= most <= 2
    inner.close()


class Pool(redis.ConnectionPool):
    """A pool of a program."""

    def make_connection(self):
        return super().make_connection()


@pytest.mark.parametrize("is_pool", [False, True])
def test_a_class_that_overrides_a_method_lends_its_connections_and_is_reported_once(
    hand_in, raw, ns, server, monkeypatch, caplog, is_pool
):
    monkeypatch.setattr(servers, "_reported", set())
    kinds = (LendingRedis, LendingAsyncRedis)
    with caplog.at_level(logging.WARNING, logger="rsmq.transport"):
        for _ in range(2):
            if is_pool:
                pool = Pool(port=server.port, client_name=ns)
                inner = redis.Redis(connection_pool=pool)
                client = RSMQ(inner, ns=ns)
            else:
                inner, client = hand_in(kinds, ns, port=server.port, client_name=ns)
            client.create_queue("q", exist_ok=True)
            assert client.pop_message("q") is None
            client.close()
            if is_pool:
                inner.connection_pool.disconnect()
            else:
                hand_in.close(inner)
    (record,) = caplog.records
    name = "Pool" if is_pool else kinds[0].__name__[:7]
    assert name in record.getMessage()
    assert ("make_connection" if is_pool else "execute_command") in record.getMessage()


def test_a_client_that_is_instrumented_lends_nothing(monkeypatch, caplog, server):
    """Programs for tracing replace the method in the class of redis-py."""
    original = redis.Redis.execute_command

    def patched(self, *args, **options):
        return original(self, *args, **options)

    monkeypatch.setattr(redis.Redis, "execute_command", patched)
    found = servers.servers_of_client(redis.Redis(port=server.port), None)
    assert found.lender is None
    assert not caplog.records


def test_clients_around_one_client_share_its_connections_until_the_last_is_closed(
    hand_in, raw, ns, server
):
    inner, first = hand_in(REDIS, ns, port=server.port, client_name=ns)
    kind = RSMQ if isinstance(inner, redis.Redis) else AsyncRSMQ
    first.create_queue("q")

    def another():
        client = kind(inner, ns=ns)
        return client if kind is RSMQ else Blocking(first._runner, client)

    for _ in range(20):
        another().send_message("q", "m")  # none of them is closed
    assert len(named(raw, ns)) == 1
    second = another()
    second.close()
    second.close()
    with pytest.raises(ClientClosed):
        second.send_message("q", "m")
    first.send_message("q", "m")
    assert len(named(raw, ns)) == 1
    gc.collect()
    first.close()
    wait_until(lambda: not named(raw, ns))
    last = another()
    last.send_message("q", "m")
    last.close()
    assert raw.zcard(f"{ns}:q") == 22


def test_the_pool_of_a_client_bounds_the_connections_of_all_clients_around_it(raw, ns, server):
    pool = redis.BlockingConnectionPool(
        port=server.port, max_connections=2, timeout=20, client_name=ns
    )
    clients = [RSMQ(redis.Redis(connection_pool=pool), ns=ns) for _ in range(3)]
    clients[0].create_queue("q")
    ready = threading.Barrier(6)

    def send(client):
        ready.wait()
        for _ in range(20):
            client.send_message("q", "m")

    threads = [threading.Thread(target=send, args=(client,)) for client in clients * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raw.zcard(f"{ns}:q") == 120
    assert 1 <= len(named(raw, ns)) <= 2
    for client in clients:
        client.close()


def test_a_method_that_is_replaced_in_the_object_is_called(ns, server):
    inner = redis.Redis(port=server.port)
    original, calls = inner.connection_pool.get_connection, []

    def get_connection(*args, **options):
        calls.append(args)
        return original(*args, **options)

    inner.connection_pool.get_connection = get_connection
    with RSMQ(inner, ns=ns) as client:
        client.create_queue("q")
    assert calls
    inner.close()


def test_connections_end_with_the_pool_if_no_client_around_it_is_closed(hand_in, raw, ns, server):
    def work():
        inner, client = hand_in(REDIS, ns, port=server.port, client_name=ns, is_kept=False)
        client.create_queue("q")
        assert len(named(raw, ns)) == 1
        hand_in.close(inner)

    work()
    gc.collect()
    hand_in.turn()
    wait_until(lambda: not named(raw, ns))


def test_clients_that_come_and_go_leave_nothing_behind(ns, server):
    inner = redis.asyncio.Redis(port=server.port)
    callers = weakref.WeakSet()

    async def work():
        for _ in range(5):
            async with AsyncRSMQ(inner, ns=ns) as client:
                callers.add(client._caller._shared)
                await client.create_queue("q", exist_ok=True)
        del client
        await inner.aclose()

    asyncio.run(work())
    gc.collect()
    assert not callers


def test_asyncio_uses_the_options_of_a_client_whose_class_overrides_a_method(server, ns):
    inner = LendingRedis(port=server.port, db=3, decode_responses=True, protocol=3)
    found = servers.as_asyncio(servers.servers_of_client(inner, None))
    assert found.lender is None
    assert found.connection_kwargs["db"] == 3
    assert (found.connection_kwargs["protocol"], found.connection_kwargs["decode_responses"]) == (
        2, False,
    )  # fmt: skip


def test_asyncio_does_not_use_what_prepares_connections_of_threads(server):
    def prepare(connection):
        connection.on_connect()

    inner = redis.Redis(port=server.port, db=3, redis_connect_func=prepare)
    with pytest.raises(InvalidFormat, match="Its redis_connect_func can't prepare"):
        servers.as_asyncio(servers.servers_of_client(inner, None))


@pytest.mark.slow
@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_the_primary_of_sentinels_is_followed_through_a_failover(sentinels, face):
    seeds = [("127.0.0.1", node.port) for node in sentinels.sentinels]
    runner = asyncio.Runner()
    if face == "sync":
        client = RSMQ(redis.Sentinel(seeds).master_for(NAME), ns="{handed}")
    else:
        inner = redis.asyncio.Sentinel(seeds).master_for(NAME)
        client = Blocking(runner, AsyncRSMQ(inner, ns="{handed}"))
    try:
        client.create_queue("q", exist_ok=True)
        old = sentinels.primary
        client.send_message("q", "before")
        wait_until(lambda: all(
            replica.ask("ZCARD", "{handed}:q") == old.ask("ZCARD", "{handed}:q")
            for replica in sentinels.replicas
        ))  # fmt: skip
        old.kill()
        sentinels.wait_until_promoted(old)
        client.send_message("q", "after")
        assert client.pop_message("q").body == "before"
        assert client.pop_message("q").body == "after"
    finally:
        client.close()
        runner.close()
        sentinels.heal()
        with sentinels.raw() as raw:
            raw.unlink(*raw.keys("{handed}*"))
