"""The history over HTTP, and who records it."""

import asyncio
from datetime import UTC, datetime
from urllib.parse import quote

from rsmq import AsyncRSMQ
from rsmq.history.operations import load
from rsmq.history.recorder import record_queues
from rsmq.web import create_app
from tests.web.asgi import Http
from tests.web.test_command import start  # noqa: F401 - a fixture
from tests.workers.polling import wait_until


def _time(minute):
    return quote(datetime.fromtimestamp(minute * 60, UTC).isoformat())


async def test_a_history_has_a_value_for_each_step_and_null_where_nothing_was_recorded(
    http, queues
):
    await queues.create_queue("q")
    now = int(datetime.now(UTC).timestamp()) // 60 + 1
    await record_queues(queues, now)
    await queues.send_message("q", "a")
    await record_queues(queues, now + 1)
    await record_queues(queues, now + 4)
    query = f"?from={_time(now)}&to={_time(now + 4)}"
    for path in ("/queues/q/history", "/history"):
        shown = (await http("GET", path + query)).json
        assert shown["sent"] == [1, None, None, None]
        assert shown["visible"] == [1, None, None, None]
        assert shown["start_ms"] == now * 60_000
        [gap] = shown["gaps"]
        assert gap["end_ms"] - gap["start_ms"] == 3 * 60_000
    by_five = (await http("GET", f"/queues/q/history{query}&step=3600")).json
    assert (by_five["step"], by_five["total_sent"]) == (3600, 1)
    for wrong in ("step=90", "step=a", "from=2026-01-01", "from=1970-01-01T00:00:00Z"):
        assert (await http("GET", f"/queues/q/history?{wrong}")).status == 422
    assert (await http("GET", "/queues/none/history")).json["code"] == "queueNotFound"


async def test_an_application_records_during_its_lifespan_if_that_is_wanted(server, ns):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        for options, is_recording in (
            ({}, False), ({"record": True}, True), ({"record": True, "read_only": True}, False),
        ):  # fmt: skip
            app = create_app(queues, auth=False, **options)
            before = len(asyncio.all_tasks())
            async with app.router.lifespan_context(app):
                names = {each.get_coro().__qualname__ for each in asyncio.all_tasks()}
                assert ("HistoryRecorder._run" in names) is is_recording
                assert (await Http(app)("GET", "/history")).status == 200
            assert len(asyncio.all_tasks()) == before


def test_the_command_records_unless_an_option_forbids_it(start, server, ns, raw):  # noqa: F811
    claim = load("claim_minute").sha1.decode()
    for options in (["--no-record"], []):
        raw.script_flush()
        web = start("--no-auth", *options)
        assert web.get("/history")[0] == 200
        if not options:
            wait_until(lambda: raw.script_exists(claim) == [True])
        assert raw.script_exists(claim) == [not options]
        web.stop()
