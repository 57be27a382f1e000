"""The incidents of the demo as states of a server: what says them, and what repairs them."""

from rsmq.operations.plain import plain_command
from rsmq.schedules.operations import fire_due_schedules
from rsmq.worker.operations import Identity, register_worker
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
    assert "Queue not found: 'reports'" in alert["evidence"]
    assert "kim deleted reports at " in alert["evidence"]

    page = await read_page(open_pages(http), "/schedules/sales")
    assert "Undo the deletion of reports" in page
    assert "kim deleted the queue" in page
    await run_action(http, "undo", id=deleted.id, queue="reports")
    assert (await queues.get_queue_attributes("reports")).messages == 0
    assert "Undo the deletion" not in await read_page(http, "/schedules/sales")
    await run_action(http, "delete-queue", queue="reports", typed="reports")
    assert 'href="/actions/create-queue?queue=reports"' in await read_page(http, "/schedules/sales")


async def test_a_worker_whose_event_loop_is_blocked_names_the_handler_and_the_message(http, queues):
    for name in ("rates", "mail"):
        await queues.create_queue(name)
    id = await queues.send_message("rates", "m")
    await queues.receive_message("rates", vt=600)
    now, _ = await queues.run(plain_command("TIME", key=queues.namespace.workers))
    cause = f"The handler of rates with message {id} blocks the event loop, in shop.py:7"
    stalled = {"cause": cause, "since_ms": int(now) * 1000 - 90_000, "queue": "rates", "id": id}
    info = {"queues": {"rates": 1, "mail": 0}, "slots": 4, "running": 1, "stalled": stalled}
    worker = Identity(queues.namespace, "w", "token")
    await queues.run(register_worker(worker, info, ttl=60, dead="token"))

    alert = (await _alerts(http))["blocked-worker"]
    assert alert["text"].startswith("Worker w has called no handler for 90 s: The handler of rates")
    assert alert["evidence"].startswith("Messages of mail may wait for it too. ")
    assert (alert["subject"], alert["queue"]) == ("w", "rates")
    [shown] = (await http("GET", "/workers")).json["workers"]
    assert shown["stalled"] == stalled
    assert (await http("GET", "/queues/mail/why")).json["cause"] == "blocked-worker"
    assert '<a href="/workers/w">w</a>' in await read_page(open_pages(http), "/")
    assert '<span class="mark bad">blocked</span>' in await read_page(http, "/workers")
    page = await read_page(http, "/workers/w")
    assert cause in page
    assert f'href="/actions/delete-messages?queue=rates&amp;ids={id}"' in page
    assert 'href="/actions/stop-worker?worker=w">Stop the worker' in page
