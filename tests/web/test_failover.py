"""The application while servers of Redis fail: 503 meanwhile, and no restart afterwards."""

import asyncio
import time

import pytest

from rsmq import AsyncCells, AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.application import CLIENT_OPTIONS
from rsmq.wire.cells import cell_of_key
from tests.nodes import wait_until_in_step
from tests.servers import Server, redis_7
from tests.web.asgi import Http

pytestmark = pytest.mark.slow

_SECONDS = 60


async def _send(http, body):
    return await http("POST", "/queues/q/messages", {"body": body})


async def _live_through(http, fail):
    """Send while a server fails, with a receive that waits; return the ids and the statuses."""
    assert (await http("PUT", "/queues/q", {})).status == 201
    assert (await http("PUT", "/queues/empty", {})).status == 201
    ids, statuses = [(await _send(http, "before")).json["id"]], []
    waiting = asyncio.create_task(http("POST", "/receive", {"queues": ["empty"], "wait": 60}))
    failing = asyncio.create_task(asyncio.to_thread(fail))
    deadline = time.monotonic() + _SECONDS
    while not failing.done() or statuses[-1] != 201:
        assert time.monotonic() < deadline, statuses
        reply = await _send(http, "meanwhile")
        statuses.append(reply.status)
        if reply.status == 201:
            ids.append(reply.json["id"])
        else:
            assert reply.status == 503, reply.content
            assert reply.headers["retry-after"] == "1"
            assert reply.json["code"] in {"redis-unavailable", "outcome-unknown", "redis-refused"}
        await asyncio.sleep(0.05)
    await failing
    assert 503 in statuses
    # The receive has failed like a call, or waits on at the new primary.
    assert (await http("POST", "/queues/empty/messages", {"body": "a"})).status == 201
    ended = await waiting
    assert ended.status in {200, 503}, ended.content
    assert ended.status == 503 or ended.json["messages"][0]["body"] == "a"
    return ids


async def _check(http, ids):
    """All calls work, and each message that was answered with 201 is there."""
    found = (await http("POST", "/receive", {"queues": ["q"], "max": 10_000})).json["messages"]
    assert set(ids) <= {each["id"] for each in found}
    for path in ("/queues", "/queues/q", "/queues/q/counts", "/workers", "/audit"):
        assert (await http("GET", path)).status == 200, path
    for path in ("/readyz", "/metrics", "/rest-rsmq/queues"):
        assert (await Http(http.app, "")("GET", path)).status == 200
    assert (await http("DELETE", "/queues/q")).status == 204


def _run(url, ns, fail):
    async def test():
        async with AsyncRSMQ.from_url(url, ns=ns, **CLIENT_OPTIONS) as queues:
            http = Http(create_app(queues, auth=False))
            await _check(http, await _live_through(http, fail))

    asyncio.run(test())


def test_the_primary_of_sentinels_fails(sentinels, ns):
    def fail():
        old = sentinels.primary
        wait_until_in_step(old, lambda: sentinels.replicas)
        old.kill()
        sentinels.wait_until_promoted(old)

    try:
        _run(sentinels.url, ns, fail)
    finally:
        sentinels.heal()


def test_a_node_of_a_cluster_fails(cluster, ns):
    def fail():
        node = cluster.node_of(f"{{{ns}}}")
        (replica,) = cluster.replicas_of(node)
        wait_until_in_step(node, lambda: [replica])
        node.kill()
        cluster.wait_until_promoted(replica)

    try:
        _run(cluster.url, f"{{{ns}}}", fail)
    finally:
        cluster.heal()


async def _check_without_a_cell(http, here, away):
    """What docs/http-server.md says about a set of cells of which one is away."""
    other = Http(http.app, "")
    for _ in range(3):
        assert (await _send(http, "x")).status == 201
    many = {"messages": [{"body": "y"}, {"body": "z"}]}
    assert (await http("POST", "/queues/q/messages:batch", many)).status == 201
    received = await http("POST", "/receive", {"queues": ["q"], "max": 100})
    found = {each["id"] for each in received.json["messages"]}
    assert set(here) <= found
    assert not found & set(away)
    for id, status in ((here[0], 204), (away[0], 503)):
        assert (await http("DELETE", f"/queues/q/messages/{id}")).status == status
    keys = {cell_of_key(key, 2): key for key in "abcdefgh"}
    assert (await _send_with_key(http, keys[0])).status == 201
    assert (await _send_with_key(http, keys[1])).status == 503
    assert (await http("POST", "/pop", {"queues": ["q"], "max": 100})).status == 200
    for wait in ({}, {"wait": 0.2}):  # nothing is left in the other cell
        empty = await http("POST", "/receive", {"queues": ["q"]} | wait)
        assert (empty.status, empty.json["code"]) == (503, "partlyDone")
    for method, path in (("GET", "/queues"), ("GET", "/queues/q"), ("PUT", "/queues/new")):
        reply = await http(method, path, None if method == "GET" else {})
        assert (reply.status, reply.headers["retry-after"]) == (503, "1"), path
    for path in ("/readyz", "/rest-rsmq/queues", "/rest-rsmq/messages/q"):
        reply = await other("GET", path)
        assert (reply.status, reply.headers["retry-after"]) == (503, "1"), path
    assert b"\nrsmq_up 0\n" in (await other("GET", "/metrics")).content


async def _send_with_key(http, key):
    headers = {"idempotency-key": key}
    return await http("POST", "/queues/q/messages", {"body": "k"}, headers=headers)


def test_a_cell_is_away(ns):
    servers = [Server(redis_7(), "--appendonly", "yes") for _ in range(2)]

    async def test():
        urls = [each.url for each in servers]
        async with AsyncCells.from_url(urls, cells=2, ns=ns, **CLIENT_OPTIONS) as queues:
            http = Http(create_app(queues, auth=False))
            assert (await http("PUT", "/queues/q", {})).status == 201
            ids = [(await _send(http, "a")).json["id"] for _ in range(8)]
            here, away = ([id for id in ids if id.startswith(cell)] for cell in ("0-", "1-"))
            assert here
            assert away
            await asyncio.to_thread(servers[1].kill)
            await _check_without_a_cell(http, here, away)
            await asyncio.to_thread(servers[1].start)
            deadline = time.monotonic() + _SECONDS
            while (await http("GET", "/queues/q")).status != 200:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            # The cell is used again, and has kept its messages.
            found = set()
            while not set(away) <= found:
                assert time.monotonic() < deadline
                received = await http("POST", "/receive", {"queues": ["q"], "max": 100, "wait": 1})
                if received.status == 200:
                    found |= {each["id"] for each in received.json["messages"]}
            assert (await http("PUT", "/queues/new", {})).status in {200, 201}

    try:
        asyncio.run(test())
    finally:
        for each in servers:
            each.stop()
