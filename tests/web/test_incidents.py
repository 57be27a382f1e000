"""The incidents of the demo as states of a server: what says them, and what repairs them."""

from rsmq.operations.plain import plain_command
from rsmq.schedules.operations import fire_due_schedules
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
