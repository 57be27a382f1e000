"""The page of the doctor."""

from rsmq.operations.plain import plain_command
from tests.web.pages_client import open_pages, read_page, run_action

_BODY = "0123456789abcdef0123456789abcdef"


async def _break(queues):
    """Leave a body without an id in a queue, and an id without a body."""
    await queues.create_queue("q")
    keys = queues.namespace.queue("q")
    await queues.run(plain_command("HSET", keys.hash, _BODY, "<b>"))
    await queues.run(plain_command("ZADD", keys.zset, "1", "f" + _BODY[1:]))


async def test_the_doctor_examines_when_it_is_asked_to(http, queues):
    await _break(queues)
    open_pages(http)
    text = await read_page(http, "/doctor")
    assert "rsmq doctor" in text
    assert "orphan-body" not in text
    text = await read_page(http, "/doctor?queue=q&examine=1")
    assert 'data-refresh="0"' in text
    assert _BODY in text
    assert '<span class="mark warn">warning</span>' in text
    assert (await http("GET", "/doctor?queue=none&examine=1")).status == 404


async def test_a_repair_says_what_it_will_do_and_that_of_a_decision_asks_for_the_name(http, queues):
    await _break(queues)
    open_pages(http)
    fields = {"queue": "q", "fix": "false", "also": "orphan-body:remove"}
    page = await read_page(http, "/actions/repair?queue=q&fix=false&also=orphan-body:remove")
    assert "Repairs 1 finding with 1 fault" in page
    assert "q: bodies without an id in the queue: 1" in page
    assert "rsmq doctor --also=orphan-body:remove -- q" in page
    keys = queues.namespace.queue("q")
    exists = plain_command("HEXISTS", keys.hash, _BODY)
    assert (await run_action(http, "repair", **fields)).status == 422
    assert await queues.run(exists) == 1
    done = await run_action(http, "repair", **fields, typed="q")
    assert (done.status, done.headers["location"]) == (303, "/doctor?queue=q&examine=1")
    assert await queues.run(exists) == 0


async def test_safe_repairs_are_done_together(http, queues):
    await _break(queues)
    open_pages(http)
    page = await read_page(http, "/doctor?queue=q&examine=1")
    assert "Repair 1 safe finding" in page
    await run_action(http, "repair", queue="q")
    members = await queues.run(plain_command("ZCARD", queues.namespace.queue("q").zset))
    assert members == 0
    page = await read_page(http, "/actions/repair?queue=q")
    assert "There is nothing to repair now." in page


def test_a_read_only_server_examines_and_tries_no_command(run):
    async def test(http, queues):
        await queues.create_queue("q")
        open_pages(http)
        page = await read_page(http, "/doctor?examine=1")
        assert "which commands this user may send: they were not tried" in page
        assert "/actions/" not in page

    run(test, read_only=True)
