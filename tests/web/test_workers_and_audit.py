"""What is around the queues: workers, faults, subscribers, webhooks, and the audit stream."""

import asyncio
import time

from redis.exceptions import ResponseError

from rsmq import RSMQ, AsyncRSMQ
from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.web.access.secrets import hash_token
from rsmq.webhooks.breaker import Breaker, TargetState
from rsmq.webhooks.shared_breaker import encode
from rsmq.webhooks.targets import target_field
from rsmq.worker import Worker
from tests.web.asgi import Http, open_queues

_URL = "https://example.org/hooks?token=secret"


async def _raw(queues, *words):
    return await queues.run(plain_command(*words))


def test_workers_are_listed_with_the_messages_that_they_have_in_flight(server, ns):
    queues = RSMQ.from_url(server.url, ns=ns)
    queues.create_queue("q")
    id = queues.send_message("q", "a")
    worker = Worker(queues, name="w1")

    async def test():
        begun, ends = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        @worker.listener("q", drop=True)
        def wait(_):
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(ends.wait(), loop).result()

        await asyncio.to_thread(worker.start)
        async with AsyncRSMQ.from_url(server.url, ns=ns) as client:
            http = Http(create_app(client, auth=False))
            await begun.wait()
            held = (await http("GET", "/workers/w1/held")).json
            [message] = held["messages"]
            assert message.pop("visible_at_ms") > time.time() * 1000
            assert message == {"queue": "q", "id": id, "receive_count": 1, "is_hidden": True}
            alive = await http("POST", "/workers/w1:release")
            assert (alive.status, alive.json["code"]) == (409, "workerAlive")
            [shown] = (await http("GET", "/workers")).json["workers"]
            assert (shown["name"], shown["is_alive"]) == ("w1", True)
            assert (await http("GET", "/workers/w%20/held")).status == 422
            await _give_orders(http, client, id)
        ends.set()
        await asyncio.to_thread(worker.stop)

    asyncio.run(test())
    queues.close()


async def _give_orders(http, client, id):
    """Give the worker w1 each order, while it runs a message of q."""
    assert (await http("GET", "/workers/w1/running")).json == {"calls": []}
    missing = await http("GET", "/workers/nope/running")
    assert (missing.status, missing.json["code"]) == (404, "workerNotFound")
    [call] = (await http("POST", "/workers/w1:running")).json["calls"]
    assert (call["queue"], call["id"], call["kind"], call["attempt"]) == ("q", id, "thread", 1)
    assert call["stack"][0]["file"] == __file__
    assert call["stack"][0]["function"].endswith("wait")
    assert call["stack"][0]["line"] > 0
    [call] = (await http("GET", "/workers/w1/running")).json["calls"]
    assert call["id"] == id
    assert (await http("POST", "/workers/w1:pause", {"seconds": 60})).status == 204
    assert (await http("PUT", "/workers/w1/concurrency", {"concurrency": 3})).status == 204
    await _wait_for(client, lambda worker: worker.paused and worker.slots == 3)
    assert (await http("GET", "/workers")).json["workers"][0]["paused"] is True
    assert (await http("POST", "/workers/w1:resume")).status == 204
    assert (await http("PUT", "/workers/w1/concurrency", {})).status == 204
    await _wait_for(client, lambda worker: not worker.paused and worker.slots == 8)
    refused = await http("PUT", "/workers/w1/concurrency", {"concurrency": 0})
    assert (refused.status, refused.json["code"]) == (422, "invalidValue")
    unknown = await http("POST", "/workers/none:pause")
    assert (unknown.status, unknown.json["code"]) == (404, "workerNotFound")
    assert unknown.json["hint"] == "GET /workers lists the workers of the namespace."
    assert (await http("POST", "/workers/w1:stop", {"grace": 60})).status == 204


async def _wait_for(client, has_followed):
    while not has_followed((await client.workers.list())[0]):
        await asyncio.sleep(0.05)


def test_the_doctor_finds_faults_and_changes_nothing(server, ns):
    async def test():
        async with open_queues(server.url, ns=ns) as queues:
            http = Http(create_app(queues, auth=False))
            await queues.create_queue("q")
            id = "a" * 32
            hash = queues.namespace.queue("q").hash
            await _raw(queues, "HSET", hash, id, "a")
            report = (await http("GET", "/doctor?queue=q")).json
            assert [each["code"] for each in report["findings"] if each["queue"]] == ["orphan-body"]
            assert await _raw(queues, "HEXISTS", hash, id) == 1
            everything = (await http("GET", "/doctor")).json
            assert everything["queues"] == 1
            assert (await http("GET", "/doctor?queue=none")).status == 404

    asyncio.run(test())


def test_a_subscriber_is_added_changed_listed_and_removed(run):
    async def test(http, queues):
        await queues.create_queue("q")
        path = "/queues/q/subscribers/crm"
        added = await http("PUT", path, {"url": _URL})
        assert (added.status, added.json["own_queue"]) == (201, "q-crm")
        assert added.json["url"] == "https://example.org/hooks?***"
        assert (await http("PUT", path, {"url": _URL, "concurrency": 2})).status == 200
        [listed] = (await http("GET", "/subscribers?queue=q")).json["subscribers"]
        assert (listed["name"], listed["concurrency"], listed["state"]) == ("crm", 2, "active")
        assert b"token=secret" in await _raw(queues, "HGET", "rsmq:x:subscribers", "q/crm")
        assert (await http("DELETE", path)).status == 204
        assert (await http("DELETE", path)).json["code"] == "subscriberNotFound"
        assert (await http("PUT", "/queues/none/subscribers/a", {"url": _URL})).status == 404
        assert (await http("PUT", "/queues/q/subscribers/a", {"url": "x"})).status == 422
        await queues.create_queue("q-a")
        assert (await http("PUT", "/queues/q/subscribers/a", {"url": _URL})).status == 409

    run(test)


def test_a_target_that_was_stopped_is_resumed_and_forgotten(run):
    async def test(http, queues):
        await queues.create_queue("q")
        field = target_field("q", _URL)
        state = encode("q", "https://example.org/hooks?***", Breaker(TargetState.GONE))
        await _raw(queues, "HSET", "rsmq:x:push", field, state)
        [shown] = (await http("GET", "/webhooks")).json["webhooks"]
        assert (shown["queue"], shown["state"]) == ("q", "gone")
        other = {"queue": "q", "url": "https://example.org/other"}
        assert (await http("POST", "/webhooks:resume", other)).json["code"] == "webhookNotFound"
        chosen = {"queue": "q", "url": _URL}
        assert (await http("POST", "/webhooks:resume", chosen)).json == {"changed": 1}
        assert (await http("GET", "/webhooks")).json["webhooks"][0]["state"] == "closed"
        assert (await http("POST", "/webhooks:forget", {"queue": "q"})).json == {"changed": 1}
        assert (await http("GET", "/webhooks")).json == {"webhooks": []}

    run(test)


def test_calls_that_change_or_remove_something_are_recorded_before_and_after(run):
    async def test(http, queues):
        await http("PUT", "/queues/q", {})
        sent = await http("POST", "/queues/q/messages", {"body": "never in a record"})
        [message] = (await http("POST", "/receive", {"queues": ["q"]})).json["messages"]
        path = f"/queues/q/messages/{sent.json['id']}"
        await http("DELETE", f"{path}?receipt={message['receipt']}")
        await http("DELETE", path)
        await http("POST", "/queues/q/messages:delete", {"ids": [sent.json["id"]]})
        http.prefix = "/rest-rsmq"
        await http("DELETE", "/queues/q")
        http.prefix = "/api/v1"
        await http("POST", "/queues/q:purge")
        found = (await http("GET", "/audit")).json
        shown = [
            (each["phase"], each["call"], each["queue"], each.get("outcome"))
            for each in reversed(found["entries"])
        ]
        calls = [
            ("PUT /queues/{queue}", "201"),
            ("DELETE /queues/{queue}/messages/{id}", "messageNotFound"),
            ("POST /queues/{queue}/messages:delete", "200"),
            ("DELETE /rest-rsmq/queues/{queue}", "200"),
            ("POST /queues/{queue}:purge", "queueNotFound"),
        ]
        assert shown == [
            (phase, call, "q", outcome if phase == "end" else None)
            for call, outcome in calls
            for phase in ("begin", "end")
        ]
        assert {(each["user"], each["address"]) for each in found["entries"]} == {
            ("everyone", "127.0.0.1")
        }
        page = (await http("GET", "/audit?limit=3")).json
        rest = (await http("GET", f"/audit?before={page['before']}")).json
        assert page["entries"] + rest["entries"] == found["entries"]
        assert rest["before"] is None
        assert (await http("GET", "/audit?before=x")).status == 422

    run(test)


def test_nothing_is_destroyed_without_a_record_and_other_calls_run(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await http("PUT", "/queues/q/subscribers/crm", {"url": _URL})
        await queues.send_message("q-crm", "a")
        await _raw(queues, "DEL", "rsmq:x:audit")
        await _raw(queues, "SET", "rsmq:x:audit", "of another program")
        path = "/queues/q/subscribers/crm"
        dropped = await http("DELETE", f"{path}?drop=true")
        assert (dropped.status, dropped.json["code"]) == (503, "auditNotWritten")
        assert (await http("DELETE", path)).status == 204
        assert (await queues.get_queue_attributes("q-crm")).messages == 1
        refused = await http("DELETE", "/queues/q")
        assert (refused.status, refused.json["code"]) == (503, "auditNotWritten")
        assert (await http("POST", "/queues/q:pause")).json == {"changed": True}
        assert sorted(await queues.list_queues()) == ["q", "q-crm"]

    run(test)


def test_a_purge_without_memory_for_its_record_is_recorded_in_the_log(run, monkeypatch, caplog):
    async def refuse(*_):
        raise ResponseError("OOM command not allowed when used memory > 'maxmemory'.")

    monkeypatch.setattr("rsmq.web.audit.AuditEntry._add", refuse)

    async def test(http, queues):
        await queues.create_queue("q")
        await queues.send_message("q", "a")
        assert (await http("POST", "/queues/q:purge")).json == {"removed": 1, "undo": None}

    run(test)
    begin, end = [each for each in caplog.messages if "no memory for a record" in each]
    assert '"call": "POST /queues/{queue}:purge", "queue": "q"' in begin
    assert '"phase": "end", "outcome": "200"' in end


def test_a_repair_shows_first_what_it_would_do_and_then_does_it(server, ns):
    async def test():
        async with open_queues(server.url, ns=ns) as queues:
            http = Http(create_app(queues, auth=False))
            await queues.create_queue("q")
            keys = queues.namespace.queue("q")
            await _raw(queues, "EXPIRE", keys.hash, 1000)
            for content in ({"queue": "q"}, {"queue": "q", "fix": False, "dry_run": False}):
                shown = (await http("POST", "/doctor:repair", content)).json
                assert shown["repairs"] == []
                assert await _raw(queues, "TTL", keys.hash) > 0
            assert shown["chosen"] == []
            done = (await http("POST", "/doctor:repair", {"queue": "q", "dry_run": False})).json
            assert [each["code"] for each in done["chosen"]] == ["expiring"]
            assert [(each["code"], each["error"]) for each in done["repairs"]] == [
                ("expiring", None)
            ]
            assert await _raw(queues, "TTL", keys.hash) == -1
            assert [each["code"] for each in done["left"]] == []
            entries = (await http("GET", "/audit?limit=2")).json["entries"]
            assert {each["call"] for each in entries} == {"POST /doctor:repair"}
            assert {each["queue"] for each in entries} == {"q"}

    asyncio.run(test())


def test_a_repair_that_may_remove_bodies_needs_a_choice_and_the_right_to_destroy(
    server, ns, tmp_path
):
    users = tmp_path / "users.toml"
    users.write_text(
        "".join(
            f'[tokens.{name}]\nsha256 = "{hash_token(name)}"\nscopes = {scopes}\n'
            for name, scopes in {"repairs": ["repair"], "all": ["repair", "destroy"]}.items()
        )
    )
    users.chmod(0o600)

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            http = Http(create_app(queues, users=users))
            await queues.create_queue("q")
            keys = queues.namespace.queue("q")
            await _raw(queues, "HSET", keys.hash, "a" * 32, "body", "vt", "30000")
            content = {"queue": "q", "dry_run": False, "also": ["milliseconds"]}
            refused = await http("POST", "/doctor:repair", content, headers=_token("repairs"))
            assert (refused.status, await _raw(queues, "HGET", keys.hash, "vt")) == (403, b"30000")
            bad = {**content, "also": ["all"]}
            reply = await http("POST", "/doctor:repair", bad, headers=_token("all"))
            assert (reply.status, reply.json["code"]) == (422, "invalidFormat")
            every = await http("POST", "/doctor:repair", {}, headers=_token("repairs"))
            assert every.status == 200

    asyncio.run(test())


def _token(name):
    return {"authorization": f"Bearer {name}"}
