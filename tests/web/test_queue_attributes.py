"""Every attribute of a queue is shown and set by HTTP and by the pages, as the table has it."""

from __future__ import annotations

from rsmq.vocabulary.queues import CREATE, QUEUE_ATTRIBUTES, SET
from rsmq.web.answers import fields_of
from rsmq.web.routes.forms import QueueJson

_HTML = {"accept": "text/html"}
#: A value of each attribute that is a number, and what HTTP shows of it.
VALUES = {name: int(each.high) - 1 for name, each in CREATE.options.items()}


async def test_http_sets_and_shows_each_attribute(http, queues):
    made = await http("PUT", "/queues/q", VALUES)
    assert made.status == 201
    shown = (await http("GET", "/queues/q")).json
    assert shown.keys() >= {each.name for each in QUEUE_ATTRIBUTES}
    assert shown.keys() == {each.name for each in fields_of(QueueJson)}
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


#: What the page of a queue shows of the other attributes, or None.
SHOWN = {
    "created": "created",
    "modified": None,  # of the last change, which the audit stream has
    "total_sent": "sent so far",
    "total_received": "received so far",
    "dead_letter_queue": "q-dead",
    "max_receives": "after 7 receives",
    "paused": "paused",
    "expired": "become dead letters",
    "max_running": "at most 11 at a time",
    "rate": "at most 100/m",
}


async def test_the_page_of_a_queue_shows_each_other_attribute(http, queues):
    await queues.create_queue("q-dead")
    await queues.create_queue("q", keep=60)
    await queues.set_dead_letter_policy("q", "q-dead", 7)
    await queues.set_queue_attributes("q", expired="dead-letter")
    await queues.set_queue_limits("q", max_running=11, rate="100/m")
    await queues.pause_queue("q")
    http.prefix, http.headers = "", _HTML

    page = (await http("GET", "/queues/q")).content.decode()

    assert SHOWN.keys() | CREATE.options.keys() == {each.name for each in QUEUE_ATTRIBUTES}
    assert [text for text in SHOWN.values() if text and text not in page] == []
