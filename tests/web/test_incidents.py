"""The incidents of the demo as states of a server: what says them, and what repairs them."""

import asyncio
import json
import re
from urllib.parse import urlencode

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.history.call_operations import record_calls
from rsmq.history.call_records import CallCounts, parse_counts
from rsmq.operations.plain import plain_command
from rsmq.schedules.operations import fire_due_schedules
from rsmq.tasks import RESULT, Tasks, chain
from rsmq.web import create_app
from rsmq.web.pages.action_runner import read_flash
from rsmq.worker import fixed
from rsmq.worker.operations import Identity, register_worker
from tests.servers import Server, redis_7
from tests.web.asgi import Http
from tests.web.pages_client import open_pages, read_page, run_action


async def _alerts(http):
    return {each["kind"]: each for each in (await http("GET", "/alerts")).json["alerts"]}


async def test_a_schedule_whose_queue_was_deleted_says_by_whom_and_its_page_undoes_it(http, queues):
    await queues.create_queue("reports")
    await queues.schedules.add("sales", queue="reports", body="m", every=3600)
    deleted = await queues.trash.delete_queue("reports", by="kim")
    due = queues.namespace.due_schedules
    await queues.run(plain_command("ZADD", due, "1000000000000", "sales"))
    assert "sales" in (await queues.run_steps(fire_due_schedules(queues.namespace))).failures
    alert = (await _alerts(http))["late-schedule"]
    assert alert["text"] == "The schedule sales has failed 1 time."
    assert alert["evidence"].startswith("kim deleted reports at ")
    assert alert["evidence"].endswith(
        "can undo. Its failure: Queue not found: 'reports' (namespace 'rsmq'). It is tried again."
    )

    page = await read_page(open_pages(http), "/schedules/sales")
    assert "Undo the deletion of reports" in page
    missing = await http("GET", "/queues/reports")
    assert missing.status == 404
    assert b'<a href="/activity">Deletions, and their undo</a>' in missing.content
    [form] = re.findall(rb'action="/actions/undo">(.*?)</form>', missing.content)
    assert f'name="id" value="{deleted.id}"'.encode() in form
    assert b"kim deleted it <time" in missing.content
    assert page.index("kim deleted the queue") < page.index("Queue not found")
    reply = await run_action(http, "undo", id=deleted.id, queue="reports")
    assert read_flash({"cookie": reply.headers["set-cookie"]}).text == (
        "The deletion was undone: queue reports restored, with 0 messages."
    )
    assert (await queues.get_queue_attributes("reports")).messages == 0
    page = await read_page(http, "/schedules/sales")
    assert "Undo the deletion" not in page
    assert "Its queue did not exist, and exists now. It is tried again at <time" in page
    api = Http(http.app)
    evidence = (await _alerts(api))["late-schedule"]["evidence"]
    assert evidence == "Queue reports did not exist, and exists now. It is tried again."
    never = await http("GET", "/queues/never")
    assert never.status == 404
    assert b"Undo" not in never.content
    await run_action(http, "delete-queue", queue="reports", typed="reports")
    assert 'href="/actions/create-queue?queue=reports"' in await read_page(http, "/schedules/sales")


async def test_a_worker_whose_event_loop_is_blocked_names_the_handler_and_the_message(http, queues):
    for name in ("rates", "mail"):
        await queues.create_queue(name)
    id = await queues.send_message("rates", "m")
    for vt in (0, 600):
        await queues.receive_message("rates", vt=vt)
    now, _ = await queues.run(plain_command("TIME", key=queues.namespace.workers))
    cause = f"The handler of rates with message {id} blocks the event loop, in shop.py:7"
    stalled = {"cause": cause, "since_ms": int(now) * 1000 - 90_000, "queue": "rates", "id": id}
    info = {"queues": {"rates": 1, "mail": 0}, "slots": 4, "running": 1, "stalled": stalled}
    worker = Identity(queues.namespace, "w", "token")
    await queues.run(register_worker(worker, info, ttl=60, dead="token"))

    alert = (await _alerts(http))["blocked-worker"]
    assert alert["text"].startswith("Worker w has called no handler for 9")
    assert cause in alert["text"]
    assert alert["evidence"].startswith("Messages of mail may wait for it too. The message may ")
    assert (alert["subject"], alert["queue"]) == ("w", "rates")
    [shown] = (await http("GET", "/workers")).json["workers"]
    assert shown["stalled"] == stalled
    assert (await http("GET", "/queues/mail/why")).json["cause"] == "blocked-worker"
    assert '<a href="/workers/w">w</a>' in await read_page(open_pages(http), "/")
    assert '<span class="mark bad">blocked</span>' in await read_page(http, "/workers")
    page = await read_page(http, "/workers/w")
    assert cause in page
    assert "was received 2 times. The message may block the next worker too: move it to" in page
    for action in ("delete", "move"):
        address = f"/actions/{action}-messages?queue=rates&amp;ids={id}&amp;worker=w"
        assert f'href="{address}"' in page
    assert 'href="/actions/stop-worker?worker=w">Stop the worker' in page

    form = {"queue": "rates", "ids": id, "worker": "w"}
    asked = await read_page(http, "/actions/delete-messages?" + urlencode(form))
    assert 'href="/workers/w">Back</a>' in asked
    reply = await run_action(http, "delete-messages", **form)
    assert reply.headers["location"] == "/workers/w"
    page = await read_page(http, "/workers/w")
    assert "The message is not in the queue any more: stop the worker, so that its sup" in page
    assert "/actions/delete-messages" not in page
    assert 'href="/actions/stop-worker?worker=w">Stop the worker' in page


async def test_a_blocked_worker_that_was_told_to_stop_is_called_stopping(http, queues):
    await queues.create_queue("rates")
    now, _ = await queues.run(plain_command("TIME", key=queues.namespace.workers))
    stalled = {"cause": "It blocks", "since_ms": int(now) * 1000 - 90_000, "queue": "rates"}
    ends_by_ms = int(now) * 1000 + 40_000
    info = {"queues": {"rates": 1}, "stalled": stalled, "ends_by_ms": ends_by_ms}
    worker = Identity(queues.namespace, "w", "token")
    await queues.run(register_worker(worker, info, ttl=60, dead="token"))

    [shown] = (await http("GET", "/workers")).json["workers"]
    assert shown["ends_by_ms"] == ends_by_ms
    evidence = (await _alerts(http))["blocked-worker"]["evidence"]
    assert re.match(r"It stops by \d\d:\d\d:\d\d UTC: its calls have its grace period to", evidence)
    page = await read_page(open_pages(http), "/workers/w")
    assert '<span class="mark warn">stopping</span>' in page
    assert "/actions/stop-worker" not in page
    assert '<span class="mark warn">stopping</span>' in await read_page(http, "/workers")


def test_a_flow_that_is_stuck_names_the_node_and_its_page_runs_it(server, ns):
    tasks = Tasks(RSMQ.from_url(server.url, ns=ns))
    is_up = []

    @tasks.task(queue="books", name="charge", track=True, backoff=fixed(7200))
    def charge(total: int) -> int:
        if not is_up:
            raise ConnectionError("no answer about a-secret")
        return total

    sent = chain(charge.signature(1), charge.signature(RESULT)).send()
    key = f"{ns}:x:flow:{sent.id}"

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            http = Http(create_app(queues, auth=False))
            assert "flow-stuck" not in await _alerts(http)  # it was sent just now
            await queues.run(plain_command("HSET", key, "sent_at", "1000000000000"))
            alert = (await _alerts(http))["flow-stuck"]
            assert alert["text"] == f"Flow {sent.id} is stuck at node 0, charge."
            assert alert["evidence"].startswith("It failed 1 time, and waits for a retry for anoth")
            assert "a-secret" not in json.dumps(alert)
            assert (alert["subject"], alert["queue"]) == (sent.id, "books")
            assert f'href="/flows/{sent.id}"' in await read_page(open_pages(http), "/")
            page = await read_page(http, f"/flows/{sent.id}")
            assert page.count("ConnectionError: no answer about a-secret") == 2  # also in the table
            [node, _] = await queues.flow(sent.id).nodes()
            assert f"/actions/run-messages?queue=books&amp;ids={node.id}" in page
            form = {"queue": "books", "ids": node.id, "flow": sent.id, "node": node.number}
            asked = await read_page(http, "/actions/run-messages?" + urlencode(form))
            assert f"Run node {node.number} now</h1>" in asked
            assert f"Releases the message {node.id} of books to run now" in asked
            assert f'href="/flows/{sent.id}">Back</a>' in asked
            reply = await run_action(http, "run-messages", **form)
            assert reply.headers["location"] == f"/flows/{sent.id}"
            is_up.append(True)
            await asyncio.to_thread(tasks.run_all)
            assert "What it waits for" not in await read_page(http, f"/flows/{sent.id}")
            assert "flow-stuck" not in await _alerts(Http(http.app))

    try:
        with pytest.raises(ConnectionError):
            tasks.run_all()
        asyncio.run(test())
    finally:
        tasks.close()


def test_a_flow_of_a_paused_queue_is_stuck_and_a_delayed_one_does_not(server, ns):
    with Tasks(RSMQ.from_url(server.url, ns=ns)) as tasks:

        @tasks.task(queue="books", name="charge", track=True)
        def charge(total: int) -> int:
            return total

        flows = [
            chain(charge.signature(1)).send().id,
            chain(charge.options(delay=900).signature(1)).send().id,
        ]

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            for each in flows:
                key = f"{ns}:x:flow:{each}"
                await queues.run(plain_command("HSET", key, "sent_at", "1000000000000"))
            await queues.pause_queue("books")
            http = Http(create_app(queues, auth=False))
            found = (await http("GET", "/alerts")).json["alerts"]
            [alert] = [each for each in found if each["kind"] == "flow-stuck"]
            assert alert["subject"] == flows[0]
            assert alert["evidence"].startswith("Queue books is paused: ")

    asyncio.run(test())


def test_a_redis_that_is_nearly_full_names_the_queue_with_the_most_bytes():
    own = Server(redis_7())

    async def test():
        async with AsyncRSMQ.from_url(own.url) as queues:
            for name in ("many", "large", "empty"):
                await queues.create_queue(name, maxsize=-1)
            await queues.send_messages("many", ["m"] * 500)
            await queues.send_messages("large", ["x" * 100_000] * 30)
            http = Http(create_app(queues, auth=False))
            assert "memory" not in await _alerts(http)
            with own.raw() as raw:
                used = raw.info("memory")["used_memory"]
                raw.config_set("maxmemory", round(used / 0.95))
            alert = (await _alerts(http))["memory"]
            assert re.match(r"used_memory is [\d.]+ MB, maxmemory [\d.]+ MB\. ", alert["evidence"])
            assert "The bodies of large need the most: about 3.0 MB in 30 mes" in alert["evidence"]
            assert (
                "No live worker of this library listens to it: start one, or export and purge"
            ) in alert["evidence"]
            assert alert["queue"] == "large"
            assert '<a href="/queues/large">large</a>' in await read_page(open_pages(http), "/")
            assert 'href="/actions/purge?queue=large">Purge it' in await read_page(
                http, "/queues/large"
            )
            export = "/api/v1/queues/large/messages:export?format=jsonl"
            assert f'href="{export}" download>Export its messages' in await read_page(
                http, "/queues/large"
            )
            asked = await read_page(http, "/actions/purge?queue=large")
            assert "Removes 30 messages from large" in asked
            await run_action(http, "purge", queue="large", typed="large")
            assert "memory" not in await _alerts(Http(http.app))

    try:
        asyncio.run(test())
    finally:
        own.stop()


async def test_a_deploy_that_doubled_the_failures_of_a_task_is_named_with_its_mark(http, queues):
    key = queues.namespace.queue("orders").zset
    now = int((await queues.run(plain_command("TIME", key=key)))[0]) // 60

    async def record(queue, ago, ended, failed):
        keys = queues.namespace.queue(queue)
        counts = CallCounts(ended, failed, failed)
        await queues.run(record_calls(keys, now, [("price", counts.pack())]))
        field = f"m{now % 60}:price"
        stored = await queues.run(plain_command("HGET", keys.call_times, field))
        created = (await queues.get_queue_attributes(queue)).created
        assert parse_counts(stored, int(created.timestamp()), now) is not None
        # Calls are recorded for the present minute: the record is moved to the one before.
        head = len(stored) - len(counts.pack()) + 2
        at = b"".join(_pack(each) for each in (int(created.timestamp()), now - ago))
        record = at + stored[head:]
        moved = f"m{(now - ago) % 60}:price"
        await queues.run(plain_command("HSET", keys.call_times, moved, record))
        await queues.run(plain_command("HDEL", keys.call_times, field))

    # What was read of minutes that are over is kept, so each of these is another queue.
    for queue, failed in (("steady", 0), ("rising", 3), ("orders", 11)):
        await queues.create_queue(queue)
        for ago in range(10, 40):
            await record(queue, ago, 100, 2)
        for ago in range(1, 4):
            await record(queue, ago, 100 if failed else 0, failed)
        assert ("failing" in await _alerts(http)) == (queue == "orders")
    error = "TimeoutError: no answer to a-secret"
    for name, handled, failed in (("old", 900, 9), ("new", 70, 30)):
        worker = Identity(queues.namespace, name, f"token-{name}")
        failures = {
            "orders": [now * 60_000, error if name == "new" else "ValueError"],
            "mail": [1, "x"],
        }
        info = {"queues": {"orders": 0}, "outcomes": {"orders": [handled, failed]}}
        await queues.run(
            register_worker(worker, {**info, "failures": failures}, ttl=60, dead="token")
        )
    await _mark(queues, "v2.4", (now - 3) * 60_000 + 59_999)
    await _mark(queues, "v2.5", (now - 2) * 60_000 + 1)  # more failed before it
    alert = (await _alerts(http))["failing"]
    assert alert["text"] == "Task price of orders fails more often: 11% of its calls, before 2%."
    assert "33 of 300 calls failed, in the hour before 60 of 3,000." in alert["evidence"]
    assert alert["evidence"].endswith(
        "Of its workers new fails the most: 30% of its calls since its start, the others 1%. Its "
        "last error is TimeoutError. If it runs a new version, stop new. If its supervisor starts "
        "it again with the same version, take the version back."
    )
    assert (alert["worker"], alert["since_ms"]) == ("new", (now - 3) * 60_000)
    assert "a-secret" not in json.dumps(alert)  # an alert is sent to targets
    [worker] = [
        each for each in (await http("GET", "/workers")).json["workers"] if each["name"] == "new"
    ]
    assert worker["failures"]["orders"] == {"at_ms": now * 60_000, "error": error}
    home = await read_page(open_pages(http), "/")
    assert '<a href="/workers/new">new</a>' in home
    assert f"<code>{error}</code>" in home
    assert 'href="/tasks?queue=orders">Tasks of orders</a>' in home
    assert "noted a change: v2.4." in home
    assert "noted a change: v2.5" not in home
    page = await read_page(http, "/workers/new")
    assert f'<td class="mono fill">{error}</td>' in page
    tasks = await read_page(http, "/tasks?queue=orders")
    assert "11 % now, 2 % before" in tasks
    assert "Last error of orders, " in tasks
    assert f'title="{error}">{error}</span>' in tasks
    assert tasks.index('">failed') < tasks.index("calls/min")  # on a phone the first ones are seen
    assert "v2.4" in tasks


async def test_a_worker_that_fails_more_than_the_others_is_named_although_it_has_few_calls(
    http, queues
):
    await queues.create_queue("orders")
    now = int((await queues.run(plain_command("TIME", key=queues.namespace.workers)))[0]) * 1000

    async def read(own, *, ago_ms=60_000, others=(("old", 990, 10),)):
        rows = (("new", *own), *others)
        for name, handled, failed in rows:
            worker = Identity(queues.namespace, name, f"token-{name}")
            info = {
                "since_ms": now - 90_000, "queues": {"orders": 0},
                "outcomes": {"orders": [handled, failed]},
                "failures": {"orders": [now - ago_ms, "TimeoutError: a-secret"]},
            }  # fmt: skip
            await queues.run(register_worker(worker, info, ttl=60, dead=f"token-{name}"))
        return (await _alerts(Http(create_app(queues, auth=False)))).get("failing-worker")

    assert await read((9, 6), others=()) is None
    assert await read((9, 6), others=(("old", 40, 0),)) is None  # of too few calls
    assert await read((11, 4)) is None
    assert await read((91, 9)) is None
    assert await read((9, 6), ago_ms=3_700_000) is None
    assert await read((9, 6), others=(("old", 880, 120),)) is None
    alert = await read((9, 6))
    assert alert["text"] == (
        "Worker new fails more often than the others of orders: 40% of its calls, the others 1%."
    )
    assert alert["evidence"] == (
        "Since its start 6 of 15 calls failed, of the others 10 of 1,000. Its last error is "
        "TimeoutError. If it runs a new version, stop new. If its supervisor starts it again with "
        "the same version, take the version back."
    )
    assert [alert[name] for name in ("subject", "worker", "queue")] == ["new", "new", "orders"]
    assert alert["since_ms"] == now - 90_000
    await _mark(queues, "v2.4", now - 95_000)
    http = open_pages(Http(create_app(queues, auth=False)))
    home = await read_page(http, "/")
    assert '<a href="/workers/new">new</a>' in home
    assert "noted a change: v2.4." in home
    assert "<code>TimeoutError: a-secret</code>" in home
    assert '<td class="number">9</td><td class="number">6</td>' in await read_page(
        http, "/workers/new"
    )


async def test_a_limit_key_that_floods_a_queue_is_named_with_the_limits(http, queues):
    await queues.create_queue("imports")
    await queues.set_queue_limits("imports", max_running=2)

    async def send(key, number, most):
        await queues.send_messages(
            "imports", ["m"] * number, limit_keys=[key] * number, max_running=most
        )

    await send("globex", 100, 1)
    await send("hooli", 3, 5)
    # 99 of globex are held back, and delay none of hooli.
    assert "flooded" not in await _alerts(http)
    await send("acme", 260, 200)
    alert = (await _alerts(http))["flooded"]
    assert alert["text"] == (
        "Limit key acme floods queue imports: it has 200 of the 204 messages that may run, and 60 "
        "more are held back. So 4 messages of others wait among them. Its sends let 200 of the "
        "key run at a time. The limits of the queue allow 2 in flight."
    )
    advice = "Or move or delete messages of the key. Its sender may pass a smaller max_running"
    assert alert["evidence"].startswith(f"Raise the limit of 2 messages in flight. {advice}")
    why = (await http("GET", "/queues/imports/why")).json
    assert why["cause"] == "flooded"
    assert why["sentence"] == alert["text"]
    page = await read_page(open_pages(http), "/queues/imports")
    assert 'href="/actions/set-limits?queue=imports">Set the limits' in page
    assert 'messages?filter=key%3A%22acme%22">Find its messages' in page
    page = await read_page(http, "/queues/imports/messages?filter=key%3A%22hooli%22")
    assert page.count('name="ids"') == 3
    assert 'href="/queues/imports">imports</a>' in await read_page(http, "/")

    async def advise(slots, **limits):
        worker = Identity(queues.namespace, "w", "token")
        info = {"queues": {"imports": 0}, "slots": slots}
        await queues.run(register_worker(worker, info, ttl=60, dead="token"))
        await queues.set_queue_limits("imports", **limits)
        return (await _alerts(Http(create_app(queues, auth=False))))["flooded"]["evidence"]

    first = f"Raise the limit of 2 messages in flight: its workers have 8 slots. {advice}"
    assert (await advise(8, max_running=2)).startswith(first)
    first = f"Start more workers: those that listen have 8 slots, which are the limit. {advice}"
    assert (await advise(8, max_running=50)).startswith(first)


async def _mark(queues, text, at_ms):
    """Record that a person noted a change at a time, as the audit stream of a server has it."""
    fields = {
        "user": "kim",
        "queue": "",
        "call": "POST /marks",
        "target": text,
        "phase": "end",
        "outcome": "201",
    }
    words = [word for pair in fields.items() for word in pair]
    await queues.run(plain_command("XADD", queues.namespace.audit, f"{at_ms}-0", *words))


def _pack(number):
    packed = bytearray()
    while number > 127:
        packed.append(number & 127 | 128)
        number >>= 7
    return bytes([*packed, number])
