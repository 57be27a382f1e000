"""What is found by a name or an id, in all queues, and by whom."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from rsmq.history.call_operations import record_calls
from rsmq.history.call_records import CallCounts
from rsmq.search.everywhere import QUEUES_PER_STEP
from rsmq.web import create_app
from rsmq.web.access.secrets import hash_token
from rsmq.web.routes import find as module
from tests.web.asgi import Http
from tests.web.pages_client import read_page
from tests.web.test_workers_pages import _die


@pytest.fixture
def places(runner, queues):
    """Queues with one of each thing."""

    async def make():
        for name in ("orders", "Orders-eu", "other"):
            await queues.create_queue(name)
        ids = {
            "message": await queues.send_message("orders", "a"),
            "unique": await queues.send_message("orders", "b", unique_key="invoice 7"),
            "grouped": await queues.send_message("other", "c", group="customer-9"),
            "held": await queues.send_message("other", "d", group="customer-9"),
            "limited": await queues.send_message("other", "e", limit_key="shop", max_running=3),
            "tracked": await queues.send_message("other", "f", track=True),
        }
        await queues.send_message("other", "g", limit_key="club", max_running=12)
        await queues.send_messages("other", ["h"] * 2, limit_keys=["geo"] * 2, rate="1/h")
        keys = queues.namespace.queue("orders")
        await queues.run(record_calls(keys, 1, [("app.Mail.send", CallCounts(1).pack())]))
        await _die(queues, "orders-worker", {})
        return ids

    return runner.run(make())


async def _find(http, text, **query):
    found = (await http("GET", f"/find?{urlencode({'q': text, **query})}")).json["found"]
    return [(each["kind"], each["queue"], each["name"]) for each in found]


async def test_ids_keys_and_groups_are_found_without_their_queues(http, places):
    assert await _find(http, places["message"]) == [("message", "orders", places["message"])]
    assert await _find(http, f" {places['held']} ") == [("message", "other", places["held"])]
    assert await _find(http, "invoice 7") == [("unique_key", "orders", places["unique"])]
    assert await _find(http, "customer-9") == [("group", "other", places["grouped"])]
    assert await _find(http, "shop") == [("limit_key", "other", places["limited"])]
    assert await _find(http, "geo") == [("rate", "other", "geo")]
    assert await _find(http, "customer") == []
    assert await _find(http, "nothing") == []


async def test_queues_tasks_and_workers_are_found_by_a_part_of_their_names(http, places):
    assert await _find(http, "orders") == [
        ("queue", "orders", "orders"),
        ("queue", "Orders-eu", "Orders-eu"),
        ("worker", "", "orders-worker"),
    ]
    assert await _find(http, "mail") == [("task", "orders", "app.Mail.send")]


async def test_what_has_left_its_queue_is_not_found_but_a_tracked_job_is(http, queues, places):
    for name in ("unique", "grouped", "tracked"):
        queue = "orders" if name == "unique" else "other"
        await queues.delete_message(queue, places[name])
    assert await _find(http, "invoice 7") == []
    assert await _find(http, "customer-9") == [("group", "other", places["held"])]
    assert await _find(http, places["unique"]) == []
    assert await _find(http, places["tracked"]) == [("job", "other", places["tracked"])]


async def test_a_search_ends_after_its_time_and_goes_on_behind_its_cursor(
    http, queues, places, monkeypatch
):
    monkeypatch.setattr(module, "MAX_SECONDS", 0)
    for number in range(QUEUES_PER_STEP):
        await queues.create_queue(f"q{number:03}")
    id = await queues.send_message("q049", "a")
    first = (await http("GET", f"/find?q={id}")).json
    assert (first["found"], first["looked_at"]) == ([], QUEUES_PER_STEP)
    rest = (await http("GET", f"/find?q={id}&cursor={first['cursor']}")).json
    assert (rest["looked_at"], rest["cursor"]) == (3, None)
    assert [each["name"] for each in rest["found"]] == [id]
    for wrong in ("q=", f"q={'a' * 129}", "", "q=a&cursor=x"):
        assert (await http("GET", f"/find?{wrong}")).status == 422


async def test_a_caller_finds_what_it_has_the_rights_to(queues, places, tmp_path):
    path = tmp_path / "users.toml"
    path.write_text(
        "".join(
            f'[tokens.{name}]\nsha256 = "{hash_token(name)}"\nscopes = ["{scope}"]\n'
            f'queues = ["{queue}"]\n'
            for name, scope, queue in (("counts", "stats", "orders"), ("bodies", "peek", "other"))
        )
    )
    path.chmod(0o600)
    app = create_app(queues, users=path)
    counts, bodies = (
        Http(app, headers={"authorization": f"Bearer {name}"}) for name in ("counts", "bodies")
    )
    assert await _find(counts, places["message"]) == []
    assert await _find(counts, "invoice 7") == []
    assert await _find(counts, "customer-9") == []
    assert await _find(counts, "mail") == [("task", "orders", "app.Mail.send")]
    assert [each[1] for each in await _find(counts, "orders")] == ["orders", ""]
    # A caller without the scope stats for any queue has no list of queues.
    assert (await bodies("GET", "/find?q=customer-9")).status == 403


async def test_the_page_links_to_each_thing(http, places):
    pages = Http(http.app, prefix="", headers={"accept": "text/html"})
    page = await read_page(pages, f"/find?q={places['message']}")
    assert f'href="/queues/orders/messages/{places["message"]}"' in page
    assert 'href="/workers/orders-worker"' in await read_page(pages, "/find?q=orders")
    assert 'href="/tasks?q=app.Mail.send&amp;queue=orders"' in (
        await read_page(pages, "/find?q=mail")
    )
    assert 'href="/queues/other/messages">geo</a>' in await read_page(pages, "/find?q=geo")
    assert "Nothing has this id" in await read_page(pages, "/find?q=%3Cb%3E")
    assert "The field at the top finds" in await read_page(pages, "/find")
    assert re.search(r'<input type="search" name="q"[^>]*aria-keyshortcuts="/"', page)
