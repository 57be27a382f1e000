"""worker.aio, and the warning about synchronous calls in the event loop."""

from __future__ import annotations

import asyncio

import pytest
import redis
import redis.asyncio

from rsmq import JSON, RSMQ, InvalidFormat
from rsmq.transport.topology.address import Address
from rsmq.transport.topology.group import ServerGroup
from rsmq.transport.watched_loops import watched_loops
from rsmq.worker import Worker
from tests.scale import WAIT_SECONDS

WARNING = "an async handler calls the synchronous client"


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def listen(worker, rsmq):
    """Add an async handler that sends the body to another queue."""

    @worker.listener("q", retry_forever=True)
    async def handle(body):
        await worker.aio.send_message("out", [body])

    rsmq.send_messages("q", [1, 2, 3])


@pytest.mark.parametrize("origin", ["url", "client"])
def test_async_handlers_use_the_server_and_settings_of_the_client(env, origin, caplog):
    env.create_queues("q", "out")
    if origin == "url":
        client = env.create_client(codec=JSON)
    elif env.url.startswith("memory"):
        client = RSMQ(env.raw, ns=env.ns, codec=JSON)
    else:
        client = RSMQ(redis.Redis.from_url(env.url, socket_timeout=7), ns=env.ns, codec=JSON)
    worker = env.create_worker(rsmq=client)
    listen(worker, client)
    for _ in range(2):  # a worker that runs again has a new client
        worker.run(until_empty=True, timeout=WAIT_SECONDS)
        client.send_message("q", 4)
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    bodies = sorted(env.fields("out").values())

    assert [body for body in bodies if body.startswith(b"[")] == [
        b"[1]",
        b"[2]",
        b"[3]",
        b"[4]",
        b"[4]",
    ]
    assert WARNING not in caplog.text
    assert not watched_loops


def test_client_is_closed_with_the_worker(env, rsmq):
    env.create_queues("q", "out")
    worker = env.create_worker()
    clients = []

    @worker.listener("q", retry_forever=True)
    async def handle(body):
        clients.append(worker.aio)
        await worker.aio.send_message("out", body)

    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    with pytest.raises(Exception, match="closed"):
        asyncio.run(clients[0].send_message("out", "x"))


def test_client_in_the_loop_of_the_caller(env, rsmq):
    env.create_queues("q", "out")
    worker = env.create_worker()
    listen_text(worker, rsmq)

    async def main():
        running = asyncio.create_task(worker.run_async())
        while len(env.scores("out")) < 1:
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    assert not watched_loops


def listen_text(worker, rsmq):
    @worker.listener("q", retry_forever=True)
    async def handle(body):
        await worker.aio.send_message("out", body)

    rsmq.send_message("q", "x")


def test_synchronous_call_in_the_loop_is_reported_once(env, rsmq, caplog):
    env.create_queues("q", "out", "plain")
    worker = env.create_worker()

    @worker.listener("q", retry_forever=True)
    async def handle(body):
        rsmq.send_message("out", body)

    worker.listener("plain", retry_forever=True)(lambda body: rsmq.send_message("out", body))
    rsmq.send_messages("plain", ["x", "y"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    assert WARNING not in caplog.text
    rsmq.send_messages("q", ["x", "y"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    records = [record for record in caplog.records if WARNING in record.getMessage()]

    assert len(records) == 1
    assert "rsmq.send_message" in records[0].stack_info
    assert len(env.scores("out")) == 4


def test_calls_outside_of_workers_are_not_reported(env, rsmq, caplog):
    async def main():
        rsmq.create_queue("q")

    asyncio.run(main())
    assert WARNING not in caplog.text


@pytest.mark.parametrize(
    "make",
    [
        lambda: redis.Sentinel(
            [("127.0.0.1", 1)], sentinel_kwargs={"password": "other"}, password="secret"
        ).master_for("main", db=3, client_name="mine"),
        lambda: redis.Redis(
            connection_pool=redis.BlockingConnectionPool(port=1, db=3, client_name="mine")
        ),
        lambda: redis.Redis(unix_socket_path="/no/socket", db=3, client_name="mine"),
        lambda: redis.Redis(port=1, ssl=True, db=3, client_name="mine"),
    ],
)
def test_every_client_of_redis_py_describes_an_asyncio_client(make):
    servers = Worker(RSMQ(make())).aio.origin.servers
    options = getattr(servers, "options", None) or servers.connection_kwargs
    assert servers.connection_class.__module__.startswith("redis.asyncio")
    assert (options["db"], options["client_name"]) == (3, "mine")
    if isinstance(servers, ServerGroup):
        assert servers.seeds == (Address("127.0.0.1", 1),)
        assert options["password"] == "secret"
        assert servers.sentinels.connection_kwargs["password"] == "other"
        assert servers.sentinels.connection_class is redis.asyncio.Connection


def test_a_connection_class_without_an_asyncio_form_is_refused():
    class Connection(redis.Connection):
        """A class of a program."""

    pool = redis.ConnectionPool(Connection, port=1)
    worker = Worker(RSMQ(redis.Redis(connection_pool=pool)))
    with pytest.raises(InvalidFormat, match="Make an AsyncRSMQ of your own"):
        _ = worker.aio


def test_an_option_that_asyncio_does_not_have_is_refused():
    worker = Worker(RSMQ.from_url("rediss://127.0.0.1:1", ssl_validate_ocsp_stapled=True))
    with pytest.raises(InvalidFormat, match="ssl_validate_ocsp_stapled"):
        _ = worker.aio
