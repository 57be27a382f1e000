"""The application while servers of Redis fail: 503 meanwhile, and no restart afterwards."""

import asyncio
import time

import pytest

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.client import CLIENT_OPTIONS
from tests.nodes import wait_until_in_step
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
