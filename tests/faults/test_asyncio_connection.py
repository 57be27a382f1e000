"""The connection that all calls of an event loop share: replaced, closed, and broken."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from contextlib import asynccontextmanager, suppress

import pytest
import redis.asyncio
import redis.exceptions as redis_errors
from redis.credentials import CredentialProvider

from rsmq import RSMQ, AsyncRSMQ, ClientClosed
from rsmq.transport.asyncio_ import cancellation, multiplexed
from rsmq.transport.asyncio_.requests import NotSent
from tests.lent import LendingAsyncRedis
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.workers.polling import wait_until

READONLY = b"-READONLY You can't write against a read only replica.\r\n"
NOSCRIPT = b"-NOSCRIPT No matching script.\r\n"
ID = b"$32\r\n" + b"i" * 32 + b"\r\n"


class Scripted:
    """
    A server that serves each connection with a function of the test.

    Attributes:
        url: the URL of the server.
        open: the number of open connections.
        made: the number of connections that were made.
    """

    def __init__(self, serve):
        self._serve = serve
        self.open = self.made = 0

    @asynccontextmanager
    async def running(self):
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0?protocol=2"
        try:
            yield self
        finally:
            server.close()

    async def _connected(self, reader, writer):
        self.open += 1
        number, self.made = self.made, self.made + 1
        try:
            with suppress(OSError):
                await self._serve(number, reader, writer)
        finally:
            self.open -= 1
            writer.close()


async def read_scripts(reader, writer, number):
    """Answer commands until at least ``number`` scripts were called; return how many were."""
    found = 0
    while found < number:
        data = await reader.read(1 << 20)
        if not data:
            raise ConnectionResetError
        calls = data.count(b"EVAL")
        found += calls
        if not calls:
            writer.write(b"+OK\r\n" * data.count(b"*"))
    return found


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_refused_call_fails_no_other_call():
    """No new call uses the connection. It is closed when its calls have ended."""
    calls = 20

    async def serve(number, reader, writer):
        if number == 0:
            await read_scripts(reader, writer, calls)
            writer.write(READONLY)
            await asyncio.sleep(0.1)
            for _ in range(calls - 1):
                await asyncio.sleep(0.005)
                writer.write(ID)
            assert await reader.read() == b"", "a new call used the connection"
        else:
            while True:
                writer.write(ID * await read_scripts(reader, writer, 1))

    async def main():
        async with Scripted(serve).running() as server:
            client = AsyncRSMQ.from_url(server.url, realtime=True)  # sends are not coalesced
            sends = [asyncio.create_task(client.send_message("q", "m")) for _ in range(calls)]
            await until(lambda: server.made == 2)
            assert await client.send_message("q", "late") == "i" * 32
            assert server.open == 2
            assert await asyncio.gather(*sends) == ["i" * 32] * calls
            await until(lambda: server.open == 1)
            assert server.made == 2
            await client.close()
            await until(lambda: server.open == 0)

    asyncio.run(main())


def test_noscript_while_another_call_is_refused():
    async def serve(number, reader, writer):
        await read_scripts(reader, writer, 2 if number == 0 else 1)
        writer.write(READONLY + NOSCRIPT if number == 0 else ID)
        await read_scripts(reader, writer, 1)  # EVAL
        writer.write(ID)
        await reader.read()

    async def main():
        async with (
            Scripted(serve).running() as server,
            AsyncRSMQ.from_url(server.url, socket_timeout=None, realtime=True) as client,
            asyncio.timeout(10),
        ):
            sends = [client.send_message("q", "m") for _ in range(2)]
            assert await asyncio.gather(*sends) == ["i" * 32] * 2

    asyncio.run(main())


def test_no_call_fails_because_a_server_is_demoted_and_promoted(server):
    own = Server(redis_7())
    acknowledged = 0

    async def main():
        nonlocal acknowledged
        over = asyncio.Event()

        async def work(client):
            nonlocal acknowledged
            while not over.is_set():
                await client.send_message("q", "m")
                acknowledged += 1
                await client.get_queue_attributes("q")

        async with AsyncRSMQ.from_url(own.url) as client:
            await client.create_queue("q")
            working = [asyncio.create_task(work(client)) for _ in range(40)]
            for _ in range(4):
                await asyncio.sleep(0.1)
                await asyncio.to_thread(lambda: own.raw().replicaof("127.0.0.1", 1))
                await asyncio.sleep(0.1)
                await asyncio.to_thread(lambda: own.raw().replicaof("NO", "ONE"))
            await asyncio.sleep(0.1)
            over.set()
            await asyncio.gather(*working)

    try:
        asyncio.run(main())
        with RSMQ.from_url(own.url) as rsmq:
            assert rsmq.get_queue_attributes("q").messages == acknowledged > 100
    finally:
        own.stop()


def connections(raw, name):
    return [client for client in raw.client_list() if client["name"] == name]


def test_close_ends_calls_in_flight_and_leaves_no_connection(server, raw, ns):
    name = f"closing-{ns}"

    async def one_round(number):
        client = AsyncRSMQ.from_url(server.url, ns=ns, client_name=name)
        await client.create_queue("q", exist_ok=True, vt=1000)
        await client.create_queue("empty", exist_ok=True)
        calls = [
            asyncio.create_task(call)
            for _ in range(10)
            for call in (
                client.send_message("q", "m"),
                client.receive_message("q"),
                client.receive_message("empty", wait=60),
            )
        ]
        for _ in range(number % 5):
            await asyncio.sleep(0)
        if number % 3 == 0:
            await asyncio.sleep(0.02)
        await client.close()
        results = await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(ClientClosed):
            await client.list_queues()
        return results

    async def main():
        found = []
        for number in range(20):
            found += await one_round(number)
            await until(lambda: not connections(raw, name))
        await asyncio.sleep(0.1)
        assert connections(raw, name) == []
        return found

    results = asyncio.run(main())
    errors = [each for each in results if isinstance(each, BaseException)]
    assert {type(each) for each in errors} <= {ClientClosed}
    # Every hidden message was returned to a caller.
    received = [each for each in results if hasattr(each, "receive_count")]
    with RSMQ(raw, ns=ns) as rsmq:
        assert rsmq.get_queue_attributes("q").hidden_messages == len(received)


@pytest.mark.parametrize("timeout", [None, 30])
def test_close_while_the_first_connection_opens(timeout):
    async def serve(_number, reader, _writer):
        while await reader.read(1 << 20):
            pass

    async def main():
        async with Scripted(serve).running() as server:
            client = AsyncRSMQ.from_url(
                server.url.replace("protocol=2", "protocol=3"),
                socket_timeout=timeout, socket_connect_timeout=timeout,
            )  # fmt: skip
            calls = [asyncio.create_task(client.list_queues()) for _ in range(3)]
            await until(lambda: server.open == 1)
            async with asyncio.timeout(10):
                await client.close()
                results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in results] == [ClientClosed] * 3
            await until(lambda: server.open == 0)
            assert server.made == 1

    asyncio.run(main())


def test_close_at_any_step_of_opening_ends_soon():
    """The server accepts connections, and answers nothing."""

    async def serve(_number, reader, _writer):
        while await reader.read(1 << 20):
            pass

    async def main():
        async with Scripted(serve).running() as server:
            url = server.url.replace("protocol=2", "protocol=3")
            for turns in range(40):
                client = AsyncRSMQ.from_url(url, socket_timeout=30, socket_connect_timeout=30)
                call = asyncio.create_task(client.list_queues())
                for _ in range(turns):
                    await asyncio.sleep(0)
                async with asyncio.timeout(10):
                    await client.close()
                    [result] = await asyncio.gather(call, return_exceptions=True)
                assert isinstance(result, ClientClosed)
                await until(lambda: server.open == 0)

    asyncio.run(main())


def test_close_at_any_step_of_opening_leaves_no_connection(server, raw, ns, monkeypatch):
    """redis-py sometimes swallows the cancellation of its connecting."""
    name = f"opening-{ns}"
    # Closing gives up waiting for a connection after twice this time.
    monkeypatch.setattr(multiplexed, "INTERRUPTION_GRACE_SECONDS", 30)

    async def main():
        for turns in range(60):
            client = AsyncRSMQ.from_url(server.url, ns=ns, client_name=name)
            call = asyncio.create_task(client.list_queues())
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(20):
                await client.close()
            await asyncio.gather(call, return_exceptions=True)
            await until(lambda: not connections(raw, name))

    asyncio.run(main())


def test_close_from_another_loop_while_a_connection_opens(server, raw, ns):
    name = f"elsewhere-{ns}"
    generator = random.Random(5)
    with asyncio.Runner() as elsewhere:
        loop = elsewhere.get_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            for _ in range(100):
                client = AsyncRSMQ.from_url(server.url, ns=ns, client_name=name)
                call = asyncio.run_coroutine_threadsafe(client.list_queues(), loop)
                time.sleep(generator.uniform(0.0003, 0.004))
                asyncio.run(client.close())
                with suppress(ClientClosed):
                    call.result(WAIT_SECONDS)
            asyncio.run(until(lambda: not connections(raw, name)))
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


class VaultFailed(Exception):
    def __init__(self, *, status):
        super().__init__(f"status {status}")


def test_an_error_of_a_credential_provider_is_raised_unchanged(server, ns):
    class Vault(CredentialProvider):
        def get_credentials(self):
            raise VaultFailed(status=403)

    async def main():
        client = AsyncRSMQ.from_url(server.url, ns=ns, credential_provider=Vault())
        for _ in range(2):
            with pytest.raises(VaultFailed, match="status 403"):
                await client.list_queues()
        await client.close()

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [None, 30])
def test_close_does_not_wait_for_a_silent_server(timeout):
    async def serve(_number, reader, writer):
        await read_scripts(reader, writer, 3)
        while await reader.read(1 << 20):
            pass

    async def main():
        async with Scripted(serve).running() as server:
            client = AsyncRSMQ.from_url(server.url, socket_timeout=timeout)
            calls = [asyncio.create_task(client.list_queues()) for _ in range(3)]
            await until(lambda: server.open == 1)
            await asyncio.sleep(0.05)
            async with asyncio.timeout(10):
                await client.close()
                results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in results] == [ClientClosed] * 3
            await until(lambda: server.open == 0)

    asyncio.run(main())


def test_close_ends_a_call_that_is_retried():
    async def serve(_number, reader, writer):
        while True:
            await read_scripts(reader, writer, 1)
            writer.write(READONLY)

    async def main():
        async with Scripted(serve).running() as server:
            client = AsyncRSMQ.from_url(server.url, retry_deadline=60)
            call = asyncio.create_task(client.send_message("q", "m"))
            await until(lambda: server.made > 2)
            await client.close()
            with pytest.raises(ClientClosed):
                await call
            await until(lambda: server.open == 0)

    asyncio.run(main())


async def test_a_request_on_a_closed_connection_is_not_sent(server):
    client = AsyncRSMQ.from_url(server.url, socket_timeout=None)
    await client.list_queues()
    connection = client._caller._loop_connections[asyncio.get_running_loop()]._current
    connection.close()
    with pytest.raises(NotSent):
        connection.send([(b"PING",)])
    assert isinstance(await client.list_queues(), list)  # on another connection
    await client.close()


def test_commands_that_were_not_written_when_it_was_closed_fail_and_are_dropped(server):
    async def main():
        client = AsyncRSMQ.from_url(server.url)
        await client.list_queues()
        connection = client._caller._loop_connections[asyncio.get_running_loop()]._current
        connection.send([(b"PING",)])
        dropped = connection.send([(b"SET", b"never", b"1")])
        connection.close()
        (reply,) = await dropped.wait()
        assert isinstance(reply, redis_errors.ConnectionError)
        await connection.wait_closed(5)
        await client.close()

    asyncio.run(main())
    with redis.Redis.from_url(server.url) as raw:
        assert not raw.exists("never")


def test_calls_one_after_another_are_written_at_once(server):
    """Only concurrent calls wait for each other, until the end of an iteration."""

    async def main():
        client = AsyncRSMQ.from_url(server.url)
        await client.list_queues()
        connection = client._caller._loop_connections[asyncio.get_running_loop()]._current
        written = [connection.send([(b"SET", b"%d" % number, b"1")]) for number in range(2)]
        with redis.Redis.from_url(server.url) as raw:
            assert wait_until(lambda: raw.exists("0"))  # without an iteration of the loop
            assert not raw.exists("1")
            await asyncio.gather(*(each.wait() for each in written))
            assert raw.delete("0", "1") == 2
        await client.close()

    asyncio.run(main())


@pytest.fixture
def unhandled():
    """A function that runs a coroutine, and returns the loop's reports of unhandled exceptions."""

    def run(main):
        reported = []

        async def collect_reports():
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: reported.append(context["message"])
            )
            await main()
            gc.collect()
            await asyncio.sleep(0)

        asyncio.run(collect_reports())
        gc.collect()
        return reported

    return run


def test_calls_on_an_open_connection_make_no_task_and_no_timer(server, ns, monkeypatch):
    made = []

    def count(loop, name):
        method = getattr(loop, name)

        def make(*args, **more):
            made.append(name)
            return method(*args, **more)

        monkeypatch.setattr(loop, name, make)

    async def main():
        # A call whose deadline is before this timeout needs a timer of its own.
        async with AsyncRSMQ.from_url(
            server.url, ns=ns, socket_timeout=600, retry_deadline=600
        ) as client:

            async def call():
                await client.send_message("q", "m")
                message = await client.receive_message("q")
                assert await client.delete_message(message)

            await client.create_queue("q")
            await call()
            for name in ("create_task", "call_later", "call_at"):
                count(asyncio.get_running_loop(), name)
            for _ in range(20):
                await call()
            assert made == []
            await asyncio.gather(*(client.send_message("q", "m") for _ in range(20)))
            assert set(made) == {"create_task"}  # those of gather

    asyncio.run(main())


def test_a_cancelled_receive_leaves_no_unhandled_exception(server, ns, monkeypatch, unhandled):
    monkeypatch.setattr(cancellation, "INTERRUPTION_GRACE_SECONDS", 0.05)
    send = redis.asyncio.Connection.send_packed_command

    async def slow_and_broken(self, command, **options):
        if b"EVALSHA" in b"".join(command):
            await asyncio.sleep(0.2)
            raise redis_errors.ConnectionError("broken")
        await send(self, command, **options)

    async def main():
        inner = LendingAsyncRedis(port=server.port)
        client = AsyncRSMQ(inner, ns=ns)
        await client.create_queue("q")
        monkeypatch.setattr(redis.asyncio.Connection, "send_packed_command", slow_and_broken)
        call = asyncio.create_task(client.receive_message("q"))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.sleep(0.3)
        await client.close()
        await inner.aclose()

    assert unhandled(main) == []


def test_a_send_that_hangs_longer_than_its_cancelled_call_keeps_its_reply(
    server, raw, ns, monkeypatch
):
    """Other calls use the connection then: its reply would be that of another one."""
    monkeypatch.setattr(cancellation, "INTERRUPTION_GRACE_SECONDS", 0.05)
    send = redis.asyncio.Connection.send_packed_command
    may_send = asyncio.Event()

    async def slow(self, command, **options):
        if b":slow" in b"".join(command):
            await may_send.wait()
        await send(self, command, **options)

    async def main():
        inner = LendingAsyncRedis(port=server.port, max_connections=1)
        client = AsyncRSMQ(inner, ns=ns)
        await client.create_queue("slow")
        await client.create_queue("q")
        ids = [await client.send_message("q", f"body {each}") for each in range(3)]
        await client.receive_message("slow")  # the server has the script
        monkeypatch.setattr(redis.asyncio.Connection, "send_packed_command", slow)
        call = asyncio.create_task(client.receive_message("slow"))
        await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        may_send.set()
        bodies = await asyncio.gather(*(client.get_message("q", id) for id in ids))
        assert [each.body for each in bodies] == ["body 0", "body 1", "body 2"]
        await client.close()
        assert await inner.ping() is True  # the only connection is in its pool again
        await inner.aclose()

    asyncio.run(main())


def test_a_cancelled_call_leaves_no_unhandled_error_of_connecting(unhandled):
    async def serve(_number, reader, _writer):
        await reader.read(1)
        await asyncio.sleep(0.1)

    async def main():
        async with Scripted(serve).running() as server:
            client = AsyncRSMQ.from_url(server.url.replace("protocol=2", "protocol=3"))
            call = asyncio.create_task(client.list_queues())
            await until(lambda: server.open == 1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: server.open == 0)
            await asyncio.sleep(0.05)
            await client.close()

    assert unhandled(main) == []


async def test_a_receive_that_ended_before_its_reply_came_is_undone_then(server, ns):
    proxy = Proxy(server.port)
    async with (
        AsyncRSMQ.from_url(proxy.url, ns=ns, retry_deadline=1) as client,
        AsyncRSMQ.from_url(server.url, ns=ns) as direct,
    ):
        await direct.create_queue("q", vt=9_999_999)
        assert await client.receive_message("q") is None  # the server has the script now
        await direct.send_messages("q", ["a", "b"])
        proxy.stalled = True
        cancelled = asyncio.create_task(client.receive_message("q"))
        await asyncio.sleep(0)
        cancelled.cancel()
        over_time = asyncio.create_task(client.receive_message("q"))
        await asyncio.wait({cancelled, over_time})
        assert cancelled.cancelled()
        assert isinstance(over_time.exception(), redis_errors.TimeoutError)
        proxy.stalled = False
        async with asyncio.timeout(30):
            while True:
                found = await direct.get_queue_attributes("q")
                if (found.total_received, found.hidden_messages) == (2, 0):
                    break
                await asyncio.sleep(0.01)
    proxy.close()
