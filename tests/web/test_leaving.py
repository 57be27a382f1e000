"""A client that leaves: what was received and not handed to the socket is given back."""

import asyncio
import contextlib
import json
import random
import socket
from types import SimpleNamespace

import pytest
import uvicorn

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.connection import WatchedConnection
from rsmq.web.tail import _tails as tails
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS, scaled
from tests.servers import free_port
from tests.web.asgi import Http, open_queues

_CONTENT = {"queues": ["q"], "wait": 60}


@contextlib.asynccontextmanager
async def _serving(app):
    config = uvicorn.Config(
        app, http=WatchedConnection, port=free_port(), log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield config.port
    server.should_exit = True
    await task


async def _open(port, path, content):
    body = json.dumps(content).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


async def _until(condition):
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_a_client_that_leaves_at_any_turn_of_the_loop_leaves_no_message_hidden(server, ns):
    async with open_queues(server.url, ns=ns) as queues:
        http = Http(create_app(queues, auth=False))
        await queues.create_queue("q")
        got = 0
        for turns in range(0, 60, 3):
            left, sent = asyncio.Event(), []
            call = asyncio.create_task(http("POST", "/receive", _CONTENT, left=left, sent=sent))
            await asyncio.sleep(0)
            await queues.send_message("q", "a")
            for _ in range(turns):
                await asyncio.sleep(0.0001)
            left.set()
            await call
            attributes = await queues.get_queue_attributes("q")
            assert attributes.hidden_messages == len(sent) // 2
            got += attributes.hidden_messages
            await queues.purge_queue("q")
        assert got < 20


def test_all_waits_end_with_an_answer_if_the_server_stops(server, ns):
    async def test(http, queues):
        await queues.create_queue("q")
        id = await queues.send_message("q", "a", track=True, delay=60)
        large = json.dumps(_CONTENT).encode() + b" " * 2**20
        waits = [
            http("POST", "/receive", {"queues": ["q"], "wait": 60}),
            http("POST", "/pop", {"queues": ["q"], "wait": 60}),
            http("POST", "/receive", body=large, headers={"content-type": "application/json"}),
            http("POST", "/queues/q/raw:receive?wait=60"),
            http("GET", f"/queues/q/jobs/{id}?wait=60"),
            http("GET", "/queues/q/tail"),
        ]
        waiting = [asyncio.ensure_future(each) for each in waits]

        async def is_followed():  # the others may begin to wait later
            return any(each.task for each in tails.get(queues, {}).values())

        await _until(is_followed)
        await http.app.state.end_waits()
        received, popped, padded, raw, job, tail = await asyncio.wait_for(
            asyncio.gather(*waiting), WAIT_SECONDS
        )
        assert received.json == popped.json == padded.json == {"messages": []}
        assert raw.status == 204
        assert (job.status, job.json["state"]) == (200, "waiting")
        assert tail.content == b"retry: 2000\n\n"
        late = await http("POST", "/receive", {"queues": ["q"], "wait": 60})
        assert late.json == {"messages": []}
        assert (await http("GET", "/queues/q/tail")).status == 503

    async def main():
        async with open_queues(server.url, ns=ns) as queues:
            await test(Http(create_app(queues, auth=False)), queues)

    asyncio.run(main())


async def test_connections_that_break_before_a_message_comes_leave_it_visible(server, ns):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        await queues.create_queue("q", vt=9_999_999)
        async with _serving(create_app(queues, auth=False)) as port:
            opened = [await _open(port, "/receive", _CONTENT) for _ in range(20)]
            await queues.send_message("q", "a")  # one of them gets it
            await asyncio.wait(
                {asyncio.create_task(reader.read(1)) for reader, _ in opened},
                return_when=asyncio.FIRST_COMPLETED,
            )
            for _, writer in opened:
                writer.transport.abort()
            await queues.send_messages("q", map(str, range(20)))

            async def are_the_others_visible():
                attributes = await queues.get_queue_attributes("q")
                return attributes.visible_messages == 20

            await _until(are_the_others_visible)


class _Client:
    """A client whose socket is read by hand, so that bytes can stay unread when it closes."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.content = b""

    def send(self, method, path, content=None, headers=None):
        body = b"" if content is None else json.dumps(content).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self.socket.send(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)

    async def until_readable(self):
        readable, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self.socket, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self.socket)

    async def read(self, end=b"}"):
        while not self.content.endswith(end):
            await self.until_readable()
            more = self.socket.recv(65536)
            if not more:
                break
            self.content += more
        return self.content


@pytest.mark.parametrize(
    "request_of",
    [
        ("POST", "/api/v1/receive", {"queues": ["q"]}),
        ("POST", "/api/v1/queues/q/raw:receive?wait=1", None),
        ("GET", "/rest-rsmq/messages/q", None),
    ],
)
async def test_a_client_that_closes_before_it_has_read_its_message_leaves_it_visible(
    server, ns, request_of
):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        await queues.create_queue("q", vt=9_999_999)
        async with _serving(create_app(queues, auth=False)) as port:
            await queues.send_message("q", "a")
            client = _Client(port)
            client.send(*request_of)
            await client.until_readable()
            assert (await queues.get_queue_attributes("q")).hidden_messages == 1
            client.socket.close()

            async def is_visible():
                return (await queues.get_queue_attributes("q")).visible_messages == 1

            await _until(is_visible)


@pytest.mark.parametrize("asks_again", [True, False])
async def test_a_client_that_has_read_its_message_and_leaves_has_it(server, ns, asks_again):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        await queues.create_queue("q", vt=9_999_999)
        async with _serving(create_app(queues, auth=False)) as port:
            await queues.send_message("q", "a")
            client = _Client(port)
            client.send("POST", "/api/v1/receive", {"queues": ["q"]})
            await client.read(b"]}")
            if asks_again:  # and does not read this answer
                client.send("GET", "/healthz")
                await client.until_readable()
            client.socket.close()
            # An answer to a later connection comes after the end of that one was read.
            for _ in range(3):
                later = _Client(port)
                later.send("GET", "/api/v1/queues/q")
                answer = json.loads((await later.read()).partition(b"\r\n\r\n")[2])
                assert answer["hidden_messages"] == 1
                later.socket.close()


def test_bytes_that_the_client_has_not_read_are_seen():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        server, _ = listener.accept()
        connection = WatchedConnection.__new__(WatchedConnection)
        connection.transport = SimpleNamespace(get_extra_info=lambda _: server)
        with server:
            server.send(b"a")
            client.recv(1)
            assert not connection._has_unread()
            server.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    server.send(bytes(65536))
            assert connection._has_unread()  # not acknowledged: nobody reads
            client.close()
            assert connection._has_unread()  # a reset


def test_polls_that_are_cut_at_random_leave_only_those_messages_hidden_that_were_read(server, ns):
    async def test():
        read, numbers = 0, iter(range(scaled(100, 1000)))

        async def poll(port):
            nonlocal read
            for _ in numbers:
                client = _Client(port)
                client.send("POST", "/api/v1/receive", _CONTENT)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(random.random() / 10):
                        await client.read(b"]}")
                client.socket.close()
                read += client.content.endswith(b"]}")

        async def produce(queues):
            while True:
                await queues.send_message("q", "a")
                await asyncio.sleep(random.random() / 100)

        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await queues.create_queue("q", vt=9_999_999)
            async with _serving(create_app(queues, auth=False)) as port:
                producing = asyncio.create_task(produce(queues))
                await asyncio.gather(*(poll(port) for _ in range(10)))
                producing.cancel()

                async def is_hidden_only_what_was_read():
                    return (await queues.get_queue_attributes("q")).hidden_messages == read

                await _until(is_hidden_only_what_was_read)

    asyncio.run(test())


async def test_a_waiting_client_gets_the_message_at_once(server, ns):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        await queues.create_queue("q")
        async with _serving(create_app(queues, auth=False)) as port:
            reader, writer = await _open(port, "/receive", _CONTENT)
            id = await queues.send_message("q", "a")
            await reader.readuntil(b"\r\n\r\n")
            answer = json.loads(await reader.readuntil(b"]}"))
            assert [each["id"] for each in answer["messages"]] == [id]
            writer.close()


async def test_while_redis_is_away_each_call_is_unavailable_and_may_be_repeated():
    app = create_app(f"redis://127.0.0.1:{free_port()}", auth=False)
    http = Http(app)
    for call in [
        ("GET", "/queues"),
        ("POST", "/queues/q/messages", {"body": "a"}),
        ("POST", "/receive", {"queues": ["q"], "wait": 60}),
    ]:
        reply = await http(*call)
        assert (reply.status, reply.json["code"]) == (503, "redis-unavailable")
        assert reply.headers["retry-after"] == "1"
    http.prefix = ""
    assert (await http("GET", "/readyz")).status == 503
    assert (await http("GET", "/healthz")).status == 200
    assert b'rsmq_up{ns="rsmq"} 0' in (await http("GET", "/metrics")).content


@pytest.mark.parametrize("key", [None, "order-1"])
async def test_a_send_whose_reply_is_lost_is_stored_once_and_can_be_repeated_with_a_key(
    server, ns, key
):
    proxy = Proxy(server.port)
    async with (
        AsyncRSMQ.from_url(proxy.url, ns=ns, retry_deadline=2) as queues,
        AsyncRSMQ.from_url(server.url, ns=ns) as direct,
    ):
        http = Http(create_app(queues, auth=False))
        await direct.create_queue("q")
        headers = {"idempotency-key": key} if key else {}
        warm = {"idempotency-key": "other"} if key else {}  # the server knows the scripts
        await http("POST", "/queues/q/messages", {"body": "a"}, headers=warm)
        proxy.spare, proxy.drop = (1 if key else 0), 1000
        lost = await http("POST", "/queues/q/messages", {"body": "a"}, headers=headers)
        assert (lost.status, lost.json["code"]) == (503, "outcome-unknown")
        assert "Idempotency-Key" in lost.json["hint"]
        assert (await direct.get_queue_attributes("q")).total_sent == 2
        proxy.drop = 0
        if key:
            again = await http("POST", "/queues/q/messages", {"body": "a"}, headers=headers)
            assert again.status == 201
            assert (await direct.get_queue_attributes("q")).total_sent == 2
    proxy.close()
