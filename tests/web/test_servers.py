"""The same calls on each kind of server, and a server that changes nothing."""

import asyncio
import re
import threading

import pytest

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.routes import TABLE
from tests.web.asgi import Http


async def _walk(http):
    """Call what needs keys beside those of one queue: batches, moves, jobs, records."""
    for name in ("q", "r"):
        assert (await http("PUT", f"/queues/{name}", {})).status == 201
    key = {"idempotency-key": "k"}
    sent = [
        await http("POST", "/queues/q/messages", {"body": "a", "track": True}, headers=key)
        for _ in range(2)
    ]
    assert sent[0].json == sent[1].json
    job = f"/queues/q/jobs/{sent[0].json['id']}"
    assert (await http("GET", job)).json["state"] == "waiting"
    published = (await http("POST", "/publish", {"queues": ["q", "r"], "body": "b"})).json["ids"]
    assert set(published) == {"q", "r"}
    found = await http("POST", "/receive", {"queues": ["r", "q"], "max": 3, "wait": 5})
    assert len(found.json["messages"]) == 3
    receipts = [each["receipt"] for each in found.json["messages"] if each["queue"] == "q"]
    moved = await http(
        "POST", "/queues/q/messages:move", {"receipts": receipts, "destination": "r"}
    )
    assert len(moved.json["ids"]) == 2
    hook = {"url": "https://example.org/"}
    assert (await http("PUT", "/queues/q/subscribers/s", hook)).status == 201
    assert (await http("PUT", "/schedules/s", {"queue": "q", "every": 60})).status == 201
    listed = (await http("GET", "/queues")).json["queues"]
    assert [each["name"] for each in listed] == ["q", "q-s", "r"]
    assert (await http("GET", "/doctor")).json["queues"] == 3
    assert (await http("GET", "/workers")).json == {"workers": []}
    assert (await http("DELETE", "/queues/r")).status == 204
    assert (await http("GET", "/audit?limit=1")).json["entries"][0]["outcome"] == "204"
    http.prefix = ""
    assert (await http("GET", "/readyz")).status == 200
    metrics = (await http("GET", "/metrics")).content
    assert re.search(rb'^rsmq_up\{ns="[^"]+"\} 1$', metrics, re.MULTILINE)


def _call(url, ns):
    async def test():
        async with AsyncRSMQ.from_url(url, ns=ns) as queues:
            await _walk(Http(create_app(queues, auth=False)))

    asyncio.run(test())


def test_each_call_works_on_a_redis_cluster(cluster_server, ns):
    _call(cluster_server.url, f"{{{ns}}}")


@pytest.mark.slow
def test_each_call_works_by_sentinels(sentinels, ns):
    _call(sentinels.url, ns)


def test_each_call_works_on_one_server(server, ns):
    _call(server.url, ns)


#: What Redis runs for a call that reads, and that writes nothing.
HARMLESS = {
    "eval", "evalsha", "script", "time", "hget", "hmget", "hgetall", "hlen", "hscan", "hexists",
    "zcard", "zcount", "zrange", "zrangebyscore", "zscore", "smembers", "sismember", "scan",
    "exists", "type", "pttl", "info", "config", "client", "hello", "select", "auth", "ping",
    "xrevrange", "command", "hkeys", "ttl", "acl", "zscan", "zrevrange", "strlen", "scard",
    "hrandfield", "publish", "readonly", "object", "memory", "hstrlen", "sscan", "quit", "zmscore",
    "zrank", "cluster", "echo", "get", "role", "zlexcount", "subscribe", "hvals", "reset",
}  # fmt: skip


def test_a_read_only_server_sends_no_command_that_writes(server, ns):
    """Each read runs, also with the id of a message that is gone."""
    lines, ready = [], threading.Event()

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await queues.create_queue("q")
            id, gone = await queues.send_messages("q", ["a", "b"], track=True)
            await queues.delete_message("q", gone)
            with server.raw() as raw, raw.monitor() as monitor:
                http = Http(create_app(queues, auth=False, read_only=True))
                for route in TABLE:
                    path = route.path.replace("{queue}", "q").replace("{schedule}", "s")
                    path = path.replace("{worker}", "w").replace("{subscriber}", "s")
                    for each in (id, gone):
                        content = None if route.method == "GET" else {}
                        reply = await http(route.method, path.replace("{id}", each), content)
                        assert (reply.status == 403) == (route.method != "GET"), path
                http.prefix = ""
                for path in ("/metrics", "/readyz", "/api/v1/docs", "/rest-rsmq/queues"):
                    assert (await http("GET", path)).status == 200
                assert (await http("GET", "/rest-rsmq/messages/q")).status == 403
                await queues.run(_mark())
                while not ready.is_set():
                    lines.append(monitor.next_command()["command"])
                    if lines[-1].startswith("ECHO end"):
                        ready.set()

    def _mark():
        from rsmq.operations.plain import plain_command

        return plain_command("ECHO", "end", key=b"x")

    asyncio.run(test())
    assert [each for each in lines if each.split()[0].lower() not in HARMLESS] == []
