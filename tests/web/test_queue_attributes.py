"""Every attribute of a queue is shown and set by HTTP and by the pages, as the table has it."""

from __future__ import annotations

from rsmq.vocabulary.queues import CREATE, QUEUE_ATTRIBUTES, SET
from rsmq.web.routes.queues import QUEUE_RESULT

_HTML = {"accept": "text/html"}
#: A value of each attribute that is a number, and what HTTP shows of it.
VALUES = {name: int(each.high) - 1 for name, each in CREATE.options.items()}


async def test_http_sets_and_shows_each_attribute(http, queues):
    made = await http("PUT", "/queues/q", VALUES)
    assert made.status == 201
    shown = (await http("GET", "/queues/q")).json
    assert shown.keys() >= {each.name for each in QUEUE_ATTRIBUTES}
    assert shown.keys() <= {each.name for each in QUEUE_RESULT}
    assert {name: shown[name] for name in VALUES} == VALUES
    for name, value in VALUES.items():
        changed = await http("PATCH", "/queues/q", {name: value - 1})
        assert changed.json == {**shown, name: value - 1, "modified": changed.json["modified"]}
        shown = changed.json
        wrong = await http("PATCH", "/queues/q", {name: int(SET.options[name].high) + 1})
        assert wrong.status == 422


async def test_the_pages_show_each_attribute_and_have_a_field_for_it(http, queues):
    await queues.create_queue("q", **VALUES)
    http.prefix, http.headers = "", _HTML
    page = (await http("GET", "/queues/q")).content.decode()
    form = (await http("GET", "/actions/change-queue?queue=q")).content.decode()
    for name in VALUES:
        assert SET.options[name].title in page, name
    for name, each in SET.options.items():
        assert f'name="{name}"' in form
        assert each.choices or each.text in form
