"""The page of delayed messages and schedules."""

import json
from urllib.parse import urlencode

import pytest

from rsmq.operations.plain import plain_command
from tests.web.pages_client import hidden_fields, open_pages, read_page, run_action


async def test_the_next_messages_of_all_queues_are_listed_in_their_order(http, queues):
    for name in ("a", "b", "c"):
        await queues.create_queue(name)
    later = await queues.send_message("a", "x", delay=300)
    sooner = await queues.send_message("b", "x", delay=60)
    await queues.send_message("c", "x")
    await queues.receive_message("c")
    reply = (await http("GET", "/delayed")).json
    assert [each["id"] for each in reply["messages"]] == [sooner, later]
    states = {each["queue"]: (each["delayed"], each["in_flight"]) for each in reply["queues"]}
    assert states == {"a": (1, 0), "b": (1, 0), "c": (0, 1)}
    assert (await http("GET", "/delayed?limit=1")).json["messages"][0]["id"] == sooner
    text = await read_page(open_pages(http), "/delayed")
    assert 0 < text.index(sooner) < text.index(later)
    assert 'href="/queues/c"' not in text


async def test_messages_that_wait_for_others_of_their_group_are_counted(http, queues):
    await queues.create_queue("q")
    for body in "abc":
        await queues.send_message("q", body, group="g")
    text = await read_page(open_pages(http), "/delayed")
    assert '<th scope="col" class="number">held back</th>' in text
    assert 'href="/queues/q/messages?state=held_back">2</a>' in text


async def test_a_message_of_the_list_is_run_now_or_deleted_and_some_of_a_queue_too(http, queues):
    await queues.create_queue("q")
    ids = [await queues.send_message("q", str(each), delay=600 + each) for each in range(4)]
    text = await read_page(open_pages(http), "/delayed")
    for action in ("run-messages", "delete-messages"):
        assert f'href="/actions/{action}?queue=q&amp;ids={ids[0]}"' in text
    assert 'href="/queues/q/messages?state=delayed">4</a>' in text
    asked = await read_page(http, f"/actions/run-messages?queue=q&ids={ids[0]}")
    assert "to run now, in its old place" in asked
    await run_action(http, "run-messages", queue="q", ids=ids[0])
    done = await run_action(http, "delete-messages", queue="q", ids=ids[1], undo="true")
    assert done.status == 303
    zset = queues.namespace.queue("q").zset
    left = await queues.run(plain_command("ZRANGE", zset, "0", "-1"))
    assert [each.decode() for each in left] == [ids[0], *ids[2:]]
    assert (await queues.get_message("q", ids[0])).state == "visible"
    assert [each.messages for each in await queues.trash.list()] == [1]
    chosen = await read_page(http, "/queues/q/messages?state=delayed")
    assert '<button formaction="/actions/run-messages">Run now</button>' in chosen
    await run_action(http, "run-messages", queue="q", ids=ids[2:])
    assert (await queues.get_queue_attributes("q")).visible_messages == 3


@pytest.mark.parametrize(
    "action", ["release-messages", "run-messages", "delete-messages", "move-messages"]
)
async def test_a_message_that_was_received_since_it_was_shown_is_left(action, http, queues):
    for name in ("q", "other"):
        await queues.create_queue(name)
    id = await queues.send_message("q", "x", delay=600)
    keys = queues.namespace.queue("q")

    async def stored():
        score = await queues.run(plain_command("ZSCORE", keys.zset, id))
        return score, await queues.run(plain_command("HGET", keys.hash, f"{id}:rc"))

    open_pages(http)
    page = await read_page(http, f"/actions/{action}?queue=q&ids={id}")
    form = hidden_fields(page)
    assert form["shown"] == [f"{id}.0"]
    form |= {"destination": "other"} if action == "move-messages" else {}
    # Between the page and the click its time comes, and a consumer receives it.
    await queues.release_messages("q", [id])
    await queues.receive_message("q", vt=600)
    before = await stored()
    refused = await run_action(http, action, **form)
    assert refused.status == 409
    text = refused.content.decode()
    assert "The message was received or has left the queue since it was shown" in text
    assert "A consumer has received it and may be at work on it" in text
    assert (before[1], await stored()) == (b"1", before)
    again = {**form, **hidden_fields(text)}
    assert again["shown"] == [f"{id}.1"]
    assert (await run_action(http, action, **again)).status == 303
    assert await stored() != before


async def test_chosen_messages_that_are_received_meanwhile_stay_and_are_counted(http, queues):
    for name in ("q", "other"):
        await queues.create_queue(name)
    ids = await queues.send_messages("q", ["x"] * 5)
    open_pages(http)
    address = urlencode({"queue": "q", "ids": ids}, doseq=True)
    page = await read_page(http, f"/actions/move-messages?{address}")
    assert "Those that are received meanwhile stay." in page
    received = await queues.receive_messages("q", 2, vt=600)
    form = {**hidden_fields(page), "destination": "other"}
    done = await run_action(http, "move-messages", **form)
    assert done.status == 303
    cookie = done.headers["set-cookie"].partition(";")[0]
    text = await read_page(http, done.headers["location"], cookie=cookie)
    assert "3 messages of q moved to other. 2 messages had been received since or left" in text
    assert {each.id for each in await queues.peek_messages("q")} == {each.id for each in received}
    assert (await queues.get_queue_attributes("other")).messages == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"ids": ["a"], "shown": ["b.0"]}, "has other messages than ids"),
        ({"ids": ["a"], "shown": ["a"]}, "a dot and its receive count"),
        ({"shown": ["a.0"]}, "has other messages than ids"),
        ({"ids": ["\ud800"], "shown": ["\ud800.0"]}, "Invalid ids format"),
        ({"ids": ["a"], "shown": ["a.0"], "filter": ""}, "Pass one of shown and filter"),
    ],
)
async def test_messages_as_they_were_shown_are_those_of_the_ids(content, says, http, queues):
    await queues.create_queue("q")
    refused = await http("POST", "/queues/q/messages:delete", content)
    assert (refused.status, says in json.dumps(refused.json)) == (422, True)


async def test_lists_of_retries_and_jobs_show_the_last_error(http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", "x", track=True)
    [received] = (await http("POST", "/receive", {"queues": ["q"]})).json["messages"]
    error = 'ValueError: <b>7</b>\nits "second" line'
    content = {"receipt": received["receipt"], "error": error, "retry_in": 600}
    assert (await http("POST", f"/queues/q/messages/{id}:fail", content)).status == 204
    shown = error.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;")
    open_pages(http)
    for path in ("/delayed", "/queues/q/jobs", "/queues/q/messages?state=retrying"):
        page = await read_page(http, path)
        assert f'class="failure" tabindex="0" title="{shown}">{shown}</span>' in page, path


async def test_the_states_of_many_hidden_messages_are_those_of_a_sample(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["x"] * 300)
    await queues.receive_messages("q", 100, vt=900)
    await queues.purge_queue("q")
    await queues.send_messages("q", ["x"] * 300, delay=60)
    [shown] = (await http("GET", "/delayed")).json["queues"]
    assert shown["delayed"] == 300
    assert shown["margin"]
    assert "by a sample" in await read_page(open_pages(http), "/delayed")


async def test_without_messages_and_schedules_the_page_names_the_commands(http):
    text = await read_page(open_pages(http), "/delayed")
    assert "rsmq send orders" in text
    assert "rsmq schedule add report" in text


async def test_a_schedule_is_added_paused_run_and_deleted(http, queues):
    await queues.create_queue("q")
    open_pages(http)
    wrong = await run_action(http, "add-schedule", schedule="s", queue="q", every="", cron="")
    assert wrong.status == 422
    fields = {
        "schedule": "s", "queue": "q", "every": "3600", "cron": "", "body": "<b>",
        "unique_key": "<k>", "expires": "90", "max_retries": "", "group": "g", "track": "true",
    }  # fmt: skip
    added = await run_action(http, "add-schedule", **fields)
    assert (added.status, added.headers["location"]) == (303, "/schedules/s")
    stored = await queues.schedules.get("s")
    assert (stored.definition.every, stored.definition.body) == (3600, b"<b>")
    shown = await read_page(http, "/schedules/s")
    assert "&lt;b&gt;" in shown
    assert "with the unique key &lt;k&gt;" in shown
    assert "a message expires" in shown
    assert (stored.definition.unique_key, stored.definition.expires) == ("<k>", 90)
    options = {"unique_key": "<k>", "expires": 90, "group": "g", "track": True}
    assert stored.definition.options == options
    assert shown.count("<time") >= 5
    await run_action(http, "pause-schedule", schedule="s", queue="q")
    assert "paused" in await read_page(http, "/delayed")
    confirm = await read_page(http, "/actions/run-schedule?schedule=s&queue=q")
    assert "Sends 1 message to q now" in confirm
    assert "rsmq schedule run s" in confirm
    await run_action(http, "run-schedule", schedule="s", queue="q")
    assert (await queues.get_queue_attributes("q")).messages == 1
    await run_action(http, "resume-schedule", schedule="s", queue="q")
    assert (await queues.schedules.get("s")).paused_at is None
    assert (await run_action(http, "delete-schedule", schedule="s", queue="q")).status == 422
    await run_action(http, "delete-schedule", schedule="s", queue="q", typed="s")
    assert await queues.schedules.get("s") is None


async def test_a_schedule_whose_time_has_passed_is_late(http, queues):
    await queues.create_queue("q")
    await queues.schedules.add("s", every=3600, queue="q")
    due = queues.namespace.due_schedules
    await queues.run(plain_command("ZADD", due, "1000000000000", "s"))
    text = await read_page(open_pages(http), "/delayed")
    assert '<span class="mark bad">late</span>' in text
    assert "rsmq scheduler" in text
