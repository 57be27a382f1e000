"""Redis that is away, hangs, comes back, or is slow: 503 within a second, and long calls work."""

import asyncio
import time

import pytest

from rsmq import AsyncRSMQ
from rsmq.web import create_app, liveness
from rsmq.web.client import CLIENT_OPTIONS
from rsmq.web.liveness import ping as send_ping
from tests.proxy import Proxy
from tests.servers import Server, redis_7
from tests.web.asgi import Http, open_queues

UNAVAILABLE, UNKNOWN = "redis-unavailable", "outcome-unknown"
RECEIVE = {"queues": ["q"]}
CALLS = [
    ("GET", "/api/v1/queues", None, UNAVAILABLE),
    ("GET", "/api/v1/queues/q", None, UNAVAILABLE),
    ("GET", "/api/v1/audit", None, UNAVAILABLE),
    ("POST", "/api/v1/queues/q/messages", {"body": "a"}, UNKNOWN),
    ("POST", "/api/v1/receive", RECEIVE, UNKNOWN),
    ("POST", "/api/v1/receive", {**RECEIVE, "wait": 60}, UNKNOWN),
    ("POST", "/api/v1/pop", RECEIVE, UNKNOWN),
    ("POST", "/api/v1/queues/q:purge", None, UNAVAILABLE),
    ("DELETE", "/api/v1/queues/q", None, UNAVAILABLE),
    ("POST", "/api/v1/queues/q:release-all", None, UNAVAILABLE),
    ("GET", "/rest-rsmq/queues", None, UNAVAILABLE),
    ("GET", "/rest-rsmq/messages/q", None, UNKNOWN),
    ("DELETE", "/rest-rsmq/queues/q", None, UNAVAILABLE),
]


async def _call_all(http):
    """Make all calls at the same time, and return their codes."""
    http.prefix = ""
    replies = await asyncio.gather(*(http(method, path, body) for method, path, body, _ in CALLS))
    assert {(each.status, each.headers["retry-after"]) for each in replies} == {(503, "1")}
    return [each.json["code"] for each in replies]


async def _until(condition):
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def proxy(server):
    proxy = Proxy(server.port)
    yield proxy
    proxy.stalled = False
    proxy.close()


def test_a_call_waits_for_redis_less_than_a_second():
    # A receive has half as long again, to be undone.
    assert CLIENT_OPTIONS["retry_deadline"] * 1.5 < 1
    assert CLIENT_OPTIONS["socket_connect_timeout"] < 1


async def test_a_redis_that_hangs_is_unavailable_and_leaves_nothing_hidden(proxy, server, ns):
    options = {**CLIENT_OPTIONS, "retry_deadline": 1, "ns": ns}
    async with (
        open_queues(proxy.url, **options) as queues,
        open_queues(server.url, ns=ns) as direct,
    ):
        await direct.create_queue("q", vt=9_999_999)
        await direct.send_messages("q", ["a"] * 20)
        http = Http(create_app(queues, auth=False))
        # The server knows the scripts, so each is sent, and runs later.
        assert (await http("POST", "/receive", {**RECEIVE, "vt": 0})).status == 200
        assert (await http("POST", "/pop", RECEIVE)).status == 200
        assert (await http("POST", "/queues/q/messages", {"body": "a"})).status == 201
        assert await direct.receive_message("q", vt=0)
        before = await direct.get_queue_attributes("q")
        proxy.stalled = True
        codes = await _call_all(http)
        assert codes == [code for *_, code in CALLS]
        proxy.stalled = False

        async def has_received_and_released():
            found = await direct.get_queue_attributes("q")
            received = found.total_received - before.total_received
            return received >= 4 and found.hidden_messages == 0

        await _until(has_received_and_released)
        # The send and the pop have run.
        assert (await direct.get_queue_attributes("q")).messages == before.messages


def test_a_redis_that_ends_and_comes_back_needs_no_restart():
    server = Server(redis_7())

    async def test():
        options = {**CLIENT_OPTIONS, "retry_deadline": 2}
        async with AsyncRSMQ.from_url(server.url, **options) as queues:
            await use(Http(create_app(queues, auth=False)))

    async def use(http):
        assert (await http("PUT", "/queues/q")).status == 201
        poll = asyncio.create_task(http("POST", "/receive", {**RECEIVE, "wait": 60}))
        with server.raw() as raw:
            while not any(each["flags"] == "t" for each in raw.client_list()):
                assert not poll.done()
                await asyncio.sleep(0.01)
        server.kill()
        reply = await poll  # it waits, and its connection is lost
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert set(await _call_all(http)) == {UNAVAILABLE}
        http.prefix = "/api/v1"
        await asyncio.to_thread(server.start)
        assert (await http("PUT", "/queues/q")).status == 201
        poll = asyncio.create_task(http("POST", "/receive", {**RECEIVE, "wait": 60}))
        sent = await http("POST", "/queues/q/messages", {"body": "a"})
        assert [each["id"] for each in (await poll).json["messages"]] == [sent.json["id"]]

    try:
        asyncio.run(test())
    finally:
        server.stop()


async def test_a_long_call_waits_for_a_redis_that_is_slow_and_others_do_not(proxy, server, ns):
    async with (
        AsyncRSMQ.from_url(proxy.url, ns=ns, retry_deadline=1) as queues,
        AsyncRSMQ.from_url(server.url, ns=ns) as direct,
    ):
        http = Http(create_app(queues, auth=False))
        await direct.create_queue("q")
        await direct.send_message("q", "a")
        proxy.script_delay = 1.5
        long = asyncio.create_task(http("POST", "/queues/q:purge"))

        async def has_run():
            return (await direct.get_queue_attributes("q")).messages == 0

        await _until(has_run)
        assert (await http("GET", "/queues/q")).json["code"] == UNAVAILABLE
        assert (await long).json == {"removed": 1, "undo": None}


@pytest.mark.parametrize("path", ["/receive", "/pop"])
def test_a_receive_that_waits_ends_when_redis_begins_to_hang(proxy, server, ns, monkeypatch, path):
    monkeypatch.setattr(liveness, "_BEAT_SECONDS", 0.05)

    async def test():
        options = {**CLIENT_OPTIONS, "ns": ns}
        async with AsyncRSMQ.from_url(proxy.url, **options) as queues:
            await queues.create_queue("q")
            http = Http(create_app(queues, auth=False))
            polls = [
                asyncio.create_task(http("POST", path, {**RECEIVE, "wait": 60})) for _ in range(3)
            ]
            await _until(lambda: _waits(queues, 3))
            proxy.stalled = True
            async with asyncio.timeout(15):  # the watcher notices it after up to 20
                replies = await asyncio.gather(*polls)
            proxy.stalled = False
            assert {(each.status, each.json["code"]) for each in replies} == {(503, UNKNOWN)}
            assert {each.headers["retry-after"] for each in replies} == {"1"}

    asyncio.run(test())


async def _waits(queues, number):
    return queues.watcher._state.schedule and liveness.liveness_of(queues).waiting == number


def test_all_receives_that_wait_share_one_ping_for_each_server(monkeypatch):
    server = Server(redis_7())  # without what other tests have sent
    monkeypatch.setattr(liveness, "_BEAT_SECONDS", 0.05)
    pings = []

    async def ping(queues):
        pings.append(queues)
        await send_ping(queues)

    monkeypatch.setattr(liveness, "ping", ping)

    async def test():
        async with AsyncRSMQ.from_url(server.url) as queues:
            await queues.create_queue("q")
            http = Http(create_app(queues, auth=False))
            with server.raw() as raw:
                raw.config_resetstat()
                content = {**RECEIVE, "wait": 60}
                polls = [asyncio.create_task(http("POST", "/receive", content)) for _ in range(20)]
                await _until(lambda: _are(pings, 3))
                for each in polls:
                    each.cancel()
                await asyncio.wait(polls)
                sent = raw.info("commandstats")["cmdstat_ping"]["calls"]
                assert len(pings) - 1 <= sent <= len(pings)  # one may run

    try:
        asyncio.run(test())
    finally:
        server.stop()


async def _are(found, number):
    return len(found) >= number


def test_receives_that_wait_go_on_if_work_of_the_server_stops_its_loop(server, ns, monkeypatch):
    monkeypatch.setattr(liveness, "_BEAT_SECONDS", 0.05)
    pings = []

    async def ping(queues):
        pinging = asyncio.create_task(send_ping(queues))
        await asyncio.sleep(0)
        time.sleep(1.1 * CLIENT_OPTIONS["retry_deadline"])  # noqa: ASYNC251 - stops the loop
        await pinging
        pings.append(queues)

    monkeypatch.setattr(liveness, "ping", ping)

    async def test():
        async with AsyncRSMQ.from_url(server.url, **CLIENT_OPTIONS, ns=ns) as queues:
            await queues.create_queue("q")
            http = Http(create_app(queues, auth=False))
            receive = {**RECEIVE, "wait": 60}
            polls = [asyncio.create_task(http("POST", "/receive", receive)) for _ in range(20)]
            await _until(lambda: _are(pings, 3))
            await queues.send_messages("q", ["a"] * len(polls))
            replies = await asyncio.gather(*polls)
            assert [each.status for each in replies] == [200] * len(polls)

    asyncio.run(test())
