"""Messages of an answer that its client has not read, whatever part of its connection it closes."""

import asyncio
import json
import socket

import pytest
import uvloop

from rsmq import AsyncRSMQ
from rsmq.web import connection, create_app
from tests.scale import WAIT_SECONDS
from tests.web.test_leaving import _Client as Client
from tests.web.test_leaving import _serving as serving
from tests.web.test_leaving import _until as until

RECEIVE = ("POST", "/api/v1/receive", {"queues": ["q"], "max": 100})
CLOSE = {"Connection": "close"}


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request, server, ns, monkeypatch):
    """Run a test with a queue and the port of a server that waits for its clients for an hour."""
    monkeypatch.setattr(connection, "LINGER_SECONDS", 3600)

    async def main(test):
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await queues.create_queue("q", vt=9_999_999)
            async with serving(create_app(queues, auth=False)) as port:
                await asyncio.wait_for(test(queues, port), WAIT_SECONDS)

    def run(test):
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main(test))

    return run


async def ask(port, path):
    """Return the answer to a new connection. The server has read before it what was sent before."""
    for _ in range(3):
        client = Client(port)
        client.send("GET", path)
        answer = json.loads((await client.read()).partition(b"\r\n\r\n")[2])
        client.socket.close()
    return answer


async def until_all_are_visible(queues):
    async def are_visible():
        return not (await queues.get_queue_attributes("q")).hidden_messages

    await until(are_visible)


async def until_hidden(queues, number):
    async def are_hidden():
        return (await queues.get_queue_attributes("q")).hidden_messages == number

    await until(are_hidden)


@pytest.mark.parametrize("headers", [{}, CLOSE], ids=["kept alive", "closed"])
@pytest.mark.parametrize("closes_half", [True, False])
def test_what_a_client_has_not_read_when_it_closes_is_visible_again(run, headers, closes_half):
    async def test(queues, port):
        await queues.send_message("q", "a")
        client = Client(port)
        client.send(*RECEIVE, headers=headers)
        await client.until_readable()
        assert (await ask(port, "/api/v1/queues/q"))["hidden_messages"] == 1
        if closes_half and not headers:
            client.socket.shutdown(socket.SHUT_WR)
            assert (await ask(port, "/api/v1/queues/q"))["hidden_messages"] == 1
        client.socket.close()
        await until_all_are_visible(queues)

    run(test)


def test_what_a_client_has_not_read_of_several_answers_is_visible_again(run):
    async def test(queues, port):
        await queues.send_messages("q", ["a", "b", "c"])
        client = Client(port)
        for _ in range(3):
            client.send("POST", "/api/v1/receive", {"queues": ["q"], "max": 1})
        await until_hidden(queues, 3)
        client.socket.shutdown(socket.SHUT_WR)
        client.socket.close()
        await until_all_are_visible(queues)

    run(test)


def test_a_large_answer_of_which_nothing_is_read_ends_when_the_client_closes_its_half(run):
    async def test(queues, port):
        await queues.send_messages("q", ["a" * 60_000] * 100)
        client = Client(port)
        client.send(*RECEIVE)
        await client.until_readable()
        assert (await ask(port, "/api/v1/queues/q"))["hidden_messages"] == 100
        client.socket.shutdown(socket.SHUT_WR)
        await until_all_are_visible(queues)
        assert not (await client.read(b"]}")).endswith(b"]}")  # the rest is not sent
        client.socket.close()

    run(test)


@pytest.mark.parametrize("headers", [{}, CLOSE], ids=["kept alive", "closed"])
def test_what_a_client_has_read_is_its_own_when_it_closes(run, headers, monkeypatch):
    async def test(queues, port):
        await queues.send_message("q", "a")
        client = Client(port)
        client.send(*RECEIVE, headers=headers)
        await client.read(b"]}")
        if not headers:
            monkeypatch.setattr(connection, "LINGER_SECONDS", 0)
            client.socket.shutdown(socket.SHUT_WR)
        await client.until_readable()
        assert client.socket.recv(1) == b""  # the server has closed its half
        client.socket.close()
        assert (await ask(port, "/api/v1/queues/q"))["hidden_messages"] == 1

    run(test)


def test_a_server_that_stops_does_not_wait_for_clients_that_have_closed_their_half(
    server, ns, monkeypatch
):
    monkeypatch.setattr(connection, "LINGER_SECONDS", 3600)

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await queues.create_queue("q", vt=9_999_999)
            await queues.send_message("q", "a")
            async with serving(create_app(queues, auth=False)) as port:
                client = Client(port)
                client.send(*RECEIVE)
                await client.until_readable()
                client.socket.shutdown(socket.SHUT_WR)
                await ask(port, "/api/v1/queues/q")
            client.socket.close()

    asyncio.run(asyncio.wait_for(test(), WAIT_SECONDS))
