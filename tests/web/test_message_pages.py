"""Messages, a message, its job, the tail, and the actions on chosen messages."""

import asyncio
import csv
import json
import re
from html import unescape
from urllib.parse import urlencode

import msgpack
import pytest

from rsmq.errors import InvalidFormat
from rsmq.operations.plain import plain_command
from rsmq.vocabulary.queues import CREATE, LIMIT, POLICY
from rsmq.vocabulary.sends import SEND
from rsmq.web.access.secrets import hash_password
from rsmq.web.json_text import read_columns
from rsmq.web.pages.body_forms import forms_of, show_line, value_at
from tests.web.pages_client import open_pages, read_page
from tests.web.test_pages import _cookie_of, _pages, _post, _users

_BIG = b'{"n": 12345678901234567890123, "p": 1.10, "n": 1e2, "t": "\\u202e\\n"}'


def _texts(raw):
    return {each.name: each.text for each in forms_of(raw)}


def _shown(reply):
    return unescape(re.sub(r"<[^>]+>", "", reply.content.decode()))


async def _page(http, path, **query):
    http.app.router.default.forget_all()
    reply = await http("GET", f"{path}?{urlencode(query)}" if query else path)
    assert reply.status == 200, reply.content
    return _shown(reply)


def test_json_is_shown_with_all_its_digits_and_names():
    assert _texts(_BIG)["json"] == (
        '{\n  "n": 12345678901234567890123,\n  "p": 1.10,\n  "n": 1e2,\n  "t": "\\u202e\\n"\n}'
    )
    assert _texts(b'[[], {}, [1, "a"], true, null]')["json"] == (
        '[\n  [],\n  {},\n  [\n    1,\n    "a"\n  ],\n  true,\n  null\n]'
    )


@pytest.mark.parametrize("raw", [b"\xff", b"NaN", b"[" * 100_000, b"", b"{", b'"\xed\xa0\x80"'])
def test_a_body_that_is_no_json_is_shown_otherwise(raw):
    texts = _texts(raw)
    assert texts["json"] is None
    assert texts["hex"] is not None


def test_msgpack_is_shown_with_all_its_digits_and_bytes_as_hex():
    packed = msgpack.packb({1: 2**64 - 1, "b": b"\xff", "x": msgpack.ExtType(5, b"a"), "f": 1.1})
    assert _texts(packed)["msgpack"] == (
        '{\n  1: 18446744073709551615,\n  "b": h\'ff\',\n  "x": ext(5, h\'61\'),\n  "f": 1.1\n}'
    )
    assert _texts(b"\xc1")["msgpack"] is None


def test_hex_ends_after_8_kib_and_names_the_rest():
    text = _texts(b"\x00A" * 5000)["hex"]
    assert text.startswith("00000000  00 41 00 41")
    assert text.endswith("1,808 more bytes")


def test_a_line_is_the_begin_of_a_body_without_unseen_characters():
    assert show_line("a\u202e\nb".encode() + b"\xff", 50) == "a\\u202e\\nb\\xff"
    assert show_line(("é" * 60).encode(), 50) == "é" * 50 + "…"


def test_columns_are_values_at_paths():
    body = b'{"a": {"b": 1.10}, "l": [1, 2], "o": [{"p": "x"}, {"p": null}]}'
    paths = read_columns('a.b, l, o.p,a , "a, b"')
    assert [title for title, _ in paths] == ["a.b", "l", "o.p", "a", '"a, b"']
    assert [value_at(body, path, 50) for _, path in paths] == [
        "1.10", "[1, 2]", "x, null", '{"b": 1.10}', "",
    ]  # fmt: skip
    for wrong in ("a b", ".", "json.a", "a,,b", ",".join("abcdefghi")):
        with pytest.raises(InvalidFormat):
            read_columns(wrong)


async def test_messages_are_listed_by_state_filter_and_columns(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", [f'{{"n": {n}, "s": "<b>"}}' for n in range(60)])
    await queues.receive_messages("q", 2, vt=600)
    await queues.send_message("q", "later", delay=600)
    _pages(http)
    page = await _page(http, "/queues/q/messages")
    assert "All 61" in page
    assert "In flight 2" in page
    assert '{"n": 3, "s": "<b>"}' in page
    delayed = await _page(http, "/queues/q/messages", state="delayed")
    assert "later" in delayed
    assert '"n"' not in delayed
    found = await _page(http, "/queues/q/messages", filter="json.n>=58", cols="n")
    assert re.findall(r'"n": (\d+)', found) == ["58", "59"]
    assert "Looked at 61 of 61 messages." in found


async def test_a_list_goes_on_behind_its_last_message(http, queues):
    await queues.create_queue("q")
    ids = await queues.send_messages("q", ["a"] * 60)
    _pages(http)
    found, path = [], "/queues/q/messages?state=visible"
    while path:
        text = (await http("GET", path)).content.decode()
        found += re.findall(r'name="ids" value="([^"]+)"', text)
        match = re.search(r'href="(\?[^"]*cursor[^"]*)">Next<', text)
        path = match and "/queues/q/messages" + unescape(match[1])
    assert found == ids


async def test_what_is_wrong_with_a_filter_is_said_beside_it(http, queues):
    await queues.create_queue("q")
    await queues.send_message("q", "a")
    _pages(http)
    page = await _page(http, "/queues/q/messages", filter="rc>=x")
    assert "Invalid filter format: 'rc>=x'" in page
    assert "At character 5" in page
    assert "At character 2" in await _page(http, "/queues/q/messages", cols="a b")


def test_a_list_that_looks_at_many_messages_is_not_refreshed(run, monkeypatch):
    monkeypatch.setattr("rsmq.web.pages.reads._SLOW_SECONDS", 600)  # on a slow machine, too

    async def test(http, queues):
        await queues.create_queue("q")
        await queues.send_messages("q", ["a"] * 500)
        _pages(http)
        for query, is_refreshed in (("", True), ("?filter=body:b", False)):
            page = (await http("GET", f"/queues/q/messages{query}")).content.decode()
            # Twice as long, or more, while Redis answers slowly.
            seconds = float(re.search(r'data-refresh="([\d.]+)"', page)[1])
            assert (seconds >= 2) if is_refreshed else (seconds == 0)
        monkeypatch.setattr("rsmq.web.search.MAX_SECONDS", 0)  # ends after one step
        page = (await http("GET", "/queues/q/messages?filter=body:c")).content.decode()
        assert 'data-refresh="0' in page

    run(test)


async def test_a_message_is_shown_in_the_form_that_the_address_names(http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", _BIG.decode())
    _pages(http)
    page = await _page(http, f"/queues/q/messages/{id}")
    assert '"p": 1.10,' in page
    assert "0 times" in page
    assert "7b 22 6e 22" in await _page(http, f"/queues/q/messages/{id}", view="hex")
    assert _BIG.decode() in await _page(http, f"/queues/q/messages/{id}", view="text")
    assert (await http("GET", "/queues/q/messages/" + "a" * 32)).status == 404


async def test_a_huge_body_is_cut_and_its_size_is_named(http, queues):
    await queues.create_queue("q", maxsize=-1)
    id = await queues.send_message("q", "x" * 200_000)
    _pages(http)
    reply = await http("GET", f"/queues/q/messages/{id}")
    assert "These are the first 64.0 KiB of 195.3 KiB." in _shown(reply)
    assert len(reply.content) < 80_000
    assert f'href="/api/v1/queues/q/messages/{id}/body"'.encode() in reply.content
    http.prefix = "/api/v1"
    part = (await http("GET", f"/queues/q/messages/{id}?max_bytes=3")).json
    assert (part["body"], part["size"], part["truncated"]) == ("xxx", 200_000, True)


async def test_a_dead_letter_says_why(http, queues):
    await queues.create_queue("dead")
    id = await queues.send_message("dead", "a")
    reason = {
        "queue": "q", "text": "It has failed too often.", "exception": "ValueError: <b>",
        "worker": "w", "traceback": "Traceback\n  File\n", "attempts": 3,
    }  # fmt: skip
    keys = queues.namespace.queue("dead")
    stored = f"1790000000000:{json.dumps(reason)}"
    await queues.run(plain_command("HSET", keys.reasons, id, stored))
    _pages(http)
    page = await http("GET", f"/queues/dead/messages/{id}")
    assert "Why it is a dead letter" in _shown(page)
    assert "ValueError: <b>" in _shown(page)
    assert b"/actions/redrive-messages" in page.content


async def test_the_job_after_another_one_is_a_link(http, queues):
    await queues.create_queue("q")
    id, after = await queues.send_messages("q", ["1", "2"], track=True)
    key = queues.namespace.queue("q").job(id)
    ended = ("state", "succeeded", "ended", "1", "result", "1", "next", f"{after} end")
    await queues.run(plain_command("HSET", key, *ended))
    await queues.delete_message("q", id)
    _pages(http)
    http.app.router.default.forget_all()
    page = (await http("GET", f"/queues/q/messages/{id}")).content.decode()
    assert f'href="/queues/end/messages/{after}"' in page


async def test_a_job_is_shown_also_after_its_message(http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", "a", track=True)
    _pages(http)
    assert "waiting" in await _page(http, "/queues/q/jobs")
    assert "No job is in this state." in await _page(http, "/queues/q/jobs", state="failed")
    done = await _post(http, "/actions/cancel-job", queue="q", id=id)
    assert done.headers["location"] == f"/queues/q/messages/{id}"
    page = await _page(http, f"/queues/q/messages/{id}")
    assert "Its job ended: cancelled." in page
    assert "cancelled" in page
    assert id in await _page(http, "/queues/q/jobs", state="cancelled")


async def test_a_tail_names_the_command_for_browsers_without_scripts(http, queues):
    await queues.create_queue("q")
    _pages(http)
    page = (await http("GET", "/queues/q/tail")).content.decode()
    assert "rsmq tail q" in re.search("<noscript>.*</noscript>", page, re.DOTALL)[0]
    assert 'data-tail="/api/v1/queues/q/tail"' in page


async def test_chosen_messages_are_deleted_released_hidden_and_moved(http, queues):
    await queues.create_queue("q")
    await queues.create_queue("other")
    ids = await queues.send_messages("q", list("abcdef"), delay=600)
    _pages(http)
    query = urlencode({"queue": "q", "ids": ids[:2]}, doseq=True)
    confirmed = _shown(await http("GET", f"/actions/delete-messages?{query}"))
    assert "Deletes 2 messages of q." in confirmed
    assert f"rsmq delete q {ids[0]} {ids[1]}" in confirmed
    done = await _post(http, "/actions/delete-messages", queue="q", ids=[*ids[:2], "a" * 32])
    page = _shown(await http("GET", "/queues/q/messages", headers={"cookie": _cookie_of(done)}))
    assert "2 messages of q deleted. 1 message had left the queue." in page
    await _post(http, "/actions/release-messages", queue="q", ids=ids[2])
    await _post(http, "/actions/hide-messages", queue="q", ids=ids[3], vt=0)
    move = {"queue": "q", "ids": ids[4], "destination": "other"}
    done = await _post(http, "/actions/move-messages", **move)
    page = await http("GET", "/queues/q/messages", headers={"cookie": _cookie_of(done)})
    assert "1 message of q moved to other. other" in " ".join(_shown(page).split())
    assert b'href="/queues/other/messages">other</a>' in page.content
    states = {each.id: each.state for each in await queues.peek_messages("q", count=10)}
    assert states == {ids[2]: "visible", ids[3]: "visible", ids[5]: "delayed"}
    assert [each.body for each in await queues.peek_messages("other")] == ["e"]


async def test_a_message_with_a_limit_of_its_own_says_that_of_its_queue_too(http, queues):
    for name in ("q", "dead"):
        await queues.create_queue(name)
    await queues.set_dead_letter_policy("q", "dead", 20)
    id = await queues.send_message("q", "a", max_retries=1000)
    assert (await http("GET", f"/queues/q/messages/{id}/why")).json["max_receives"] == 20
    page = _shown(await _pages(http)("GET", f"/queues/q/messages/{id}"))
    assert "0 of 1,001 the limit of this message; that of its queue is 20" in page


async def test_a_move_offers_the_dead_letter_queue_first(http, queues):
    for name in ("a", "dead", "q"):
        await queues.create_queue(name)
    [id] = await queues.send_messages("q", ["a"])
    _pages(http)
    path = f"/actions/move-messages?queue=q&ids={id}"
    page = (await http("GET", path)).content.decode()
    assert '<option value="" selected>Choose a queue</option>' in page
    await queues.set_dead_letter_policy("q", "dead", 3)
    http.app.router.default.forget_all()
    page = (await http("GET", path)).content.decode()
    assert '<option value="dead" selected>' in page
    assert '<button class="main">Move</button>' in page
    page = (await http("GET", f"/actions/delete-messages?queue=q&ids={id}")).content.decode()
    assert '<button class="main danger">Delete</button>' in page


async def test_nothing_is_done_without_a_choice_and_many_ask_for_the_name(http, queues):
    await queues.create_queue("q")
    ids = await queues.send_messages("q", ["a"] * 101)
    _pages(http)
    assert (await http("GET", "/actions/delete-messages?queue=q")).status == 422
    reply = await _post(http, "/actions/delete-messages", queue="q", ids=ids)
    assert reply.status == 422
    assert (await queues.get_queue_attributes("q")).messages == 101
    typed = {"typed-name": "q"}
    await _post(http, "/actions/delete-messages", queue="q", ids=ids, **typed)
    assert (await queues.get_queue_attributes("q")).messages == 0


async def test_a_dead_letter_is_redriven_by_its_id(http, queues):
    await queues.create_queue("q")
    await queues.create_queue("dead")
    await queues.send_messages("q", ["a", "b"])
    await queues.set_dead_letter_policy("q", "dead", 1)
    await queues.receive_messages("q", 2, vt=0)
    ids = await queues.sweep_dead_letters("q")
    _pages(http)
    await _post(http, "/actions/redrive-messages", queue="dead", ids=ids[0])
    assert [each.body for each in await queues.peek_messages("q")] == ["a"]
    assert [each.body for each in await queues.peek_messages("dead")] == ["b"]


@pytest.mark.parametrize("body", ["a\nb", "a\r\nb\x00", _BIG.decode(), "ü\u202e"])
async def test_a_message_is_edited_and_sent_again(body, http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", body)
    _pages(http)
    source = {"queue": "q", "from": "q", "id": id}
    form = (await http("GET", f"/actions/resend-message?{urlencode(source)}")).content.decode()
    [(name, value)] = re.findall(
        r'<textarea name="(body|body_base64)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL
    )
    # A browser sends the ends of lines so.
    sent = {name: unescape(value).replace("\n", "\r\n")}
    await _post(http, "/actions/resend-message", **source, **sent)
    bodies = [each.body for each in await queues.peek_messages("q")]
    assert bodies == [body, body]
    await _post(http, "/actions/resend-message", **source, body="new", old="delete")
    assert [each.body for each in await queues.peek_messages("q")] == [body, "new"]


async def _resend_form(http, queue, id):
    shown = (await http("GET", f"/queues/{queue}/messages/{id}")).content.decode()
    [link] = re.findall(r'href="([^"]*/actions/resend-message[^"]*)"', shown)
    form = (await http("GET", unescape(link))).content.decode()
    [choices] = re.findall(r'<select name="queue" required>(.*?)</select>', form, re.DOTALL)
    return re.findall(r'value="([^"]*)"( selected)?', choices)


async def test_a_dead_letter_is_sent_again_to_the_queue_that_it_came_from(http, queues):
    for name in ("a-first", "q", "dead"):
        await queues.create_queue(name)
    await queues.set_dead_letter_policy("q", max_receives=1, dead_letter_queue="dead")
    await queues.send_message("q", "a")
    await queues.receive_message("q", vt=0)
    await queues.sweep_dead_letters("q")
    [message] = await queues.peek_messages("dead")
    _pages(http)
    choices = await _resend_form(http, "dead", message.id)
    assert [name for name, is_selected in choices if is_selected] == ["q"]
    # From several queues it may have come from either.
    await queues.set_dead_letter_policy("a-first", max_receives=1, dead_letter_queue="dead")
    await _post(http, "/actions/send-message", queue="q", body="b", delay="")
    choices = await _resend_form(http, "dead", message.id)
    assert choices[0] == ("", " selected")
    assert not any(is_selected for _, is_selected in choices[1:])


async def test_a_message_is_sent_to_a_group_and_again_to_the_same_one(http, queues):
    await queues.create_queue("q")
    _pages(http)
    form = (await http("GET", "/actions/send-message?queue=q")).content.decode()
    assert '<input type="text" name="group" value="">' in form
    sent = {"queue": "q", "body": "a", "group": "customer 1", "delay": ""}
    assert (await _post(http, "/actions/send-message", **sent)).status == 303
    [message] = await queues.peek_messages("q")
    assert message.group == "customer 1"
    source = urlencode({"queue": "q", "from": "q", "id": message.id})
    form = (await http("GET", f"/actions/resend-message?{source}")).content.decode()
    assert '<input type="text" name="group" value="customer 1">' in form
    assert "rsmq send &#39;--group=customer 1&#39;" in form
    assert "&#34;group&#34;: &#34;customer 1&#34;" in form


async def test_the_form_of_a_send_has_each_option_and_its_rules(http, queues):
    await queues.create_queue("q")
    _pages(http)
    form = (await http("GET", "/actions/send-message?queue=q")).content.decode()
    for name, option in SEND.options.items():
        assert form.count(f'name="{name}"') == 1
        assert option.describe(lambda each: each.replace("_", " ")) in unescape(form)
    assert "<details><summary>Further options</summary>" in form
    sent = {
        "queue": "q", "body": "a", "unique_key": "k 1", "front": "true", "max_retries": "2",
        "expires": "", "replace": "",
    }  # fmt: skip
    assert (await _post(http, "/actions/send-message", **sent)).status == 303
    keys = queues.namespace.queue("q")
    [message] = await queues.peek_messages("q")
    stored = await queues.run(plain_command("HGET", keys.unique, "k 1"))
    assert stored.decode() == message.id
    form = await _post(http, "/actions/send-message", queue="q", body="a", replace="true")
    assert form.status == 422
    shown = unescape(form.content.decode())
    assert "<details open><summary>Further options</summary>" in shown
    assert "rsmq send --replace q a" in shown
    address = urlencode({key: value for key, value in sent.items() if key != "body"})
    shown = (await http("GET", f"/actions/send-message?{address}")).content.decode()
    assert "rsmq send --front '--unique-key=k 1' --max-retries=2" in unescape(shown)


def test_a_redacted_body_is_not_sent_again(run, tmp_path):
    stored = hash_password("one")
    entry = (
        f'[users.anna]\npassword = "{stored}"\nscopes = ["stats", "peek", "send", "receive", '
        '"manage"]\nqueues = ["*"]\nredact = ["a"]\n'
    )

    async def test(http, queues):
        await queues.create_queue("q")
        id = await queues.send_message("q", '{"a": 1}')
        _pages(http)
        http.headers["cookie"] = _cookie_of(await _post(http, "/login", name="anna", secret="one"))
        shown = await _page(http, f"/queues/q/messages/{id}")
        assert "[redacted]" in shown
        source = urlencode({"queue": "q", "from": "q", "id": id})
        assert (await http("GET", f"/actions/resend-message?{source}")).status == 403

    run(test, auth=True, users=_users(tmp_path, entry))


def _hidden(page):
    """Return the hidden fields of a form."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return {unescape(name): unescape(value) for name, value in found}


async def test_a_filter_changes_exactly_the_messages_that_were_shown(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", [f'{{"n": {n % 2}}}' for n in range(10)])
    _pages(http)
    listed = (await http("GET", "/queues/q/messages?filter=json.n:1")).content.decode()
    fields = {"queue": "q", "match": "json.n:1", "in": ""}
    [asking] = re.findall('action="/actions/delete-matching">(.*?)</form>', listed)
    assert _hidden(asking) == fields
    asked = await _post(http, "/actions/delete-matching", **fields)
    assert asked.status == 200
    page = asked.content.decode()
    assert "Deletes 5 messages of q that fit json.n:1: no others." in page
    assert "Those that are received meanwhile stay. Messages in flight are left out." in page
    assert "It can be undone for ten minutes." in page
    form = _hidden(page)
    await queues.send_message("q", '{"n": 1}')
    done = await _post(http, "/actions/delete-matching", **form)
    assert done.headers["location"] == "/queues/q/messages?filter=json.n%3A1"
    assert (await queues.get_queue_attributes("q")).messages == 6
    gone = await _post(http, "/actions/delete-matching", queue="q", match="json.n:7")
    assert gone.status == 404


@pytest.mark.parametrize("number", [10, 400])
async def test_messages_of_a_running_queue_are_moved_but_for_those_received(number, http, queues):
    for name in ("q", "other"):
        await queues.create_queue(name)
    ids = await queues.send_messages("q", ["x"] * number)
    held = await queues.receive_messages("q", 2, vt=600)
    _pages(http)
    asked = await _post(http, "/actions/move-matching", queue="q", match='body:"x"', **{"in": ""})
    page = asked.content.decode()
    assert f"Moves {number - 2} messages of q that fit body:&#34;x&#34;: no others." in page
    held += await queues.receive_messages("q", 3, vt=600)  # between the page and the click
    form = {**_hidden(page), "destination": "other", "typed-name": "q"}
    done = await _post(http, "/actions/move-matching", **form)
    page = await http("GET", "/queues/q/messages", headers={"cookie": _cookie_of(done)})
    said = f"{number - 5} messages of q moved to other. 3 messages had been received since or left"
    assert said in _shown(page)
    keys, to = queues.namespace.queue("q"), queues.namespace.queue("other")
    left = await queues.run(plain_command("ZRANGE", keys.zset, "0", "-1"))
    assert {each.decode() for each in left} == {each.id for each in held}
    moved = await queues.run(plain_command("ZRANGE", to.zset, "0", "-1"))
    assert {each.decode() for each in moved} == set(ids) - {each.id for each in held}


async def test_the_page_of_a_queue_offers_to_move_its_visible_messages(http, queues):
    for name in ("q", "other"):
        await queues.create_queue(name)
    _pages(http)
    assert "move-matching" not in (await http("GET", "/queues/other")).content.decode()
    await queues.send_messages("q", ["x"] * 2)
    await queues.receive_message("q", vt=600)
    page = (await http("GET", "/queues/q")).content.decode()
    [form] = re.findall('action="/actions/move-matching">(.*?)</form>', page)
    asked = await _post(http, "/actions/move-matching", **_hidden(form))
    page = asked.content.decode()
    assert "Moves 1 message of q that are visible" in page
    await _post(http, "/actions/move-matching", **_hidden(page), destination="other")
    assert (await queues.get_queue_attributes("other")).messages == 1


@pytest.mark.parametrize("action", ["move-messages", "move-matching"])
async def test_a_move_creates_its_target_with_the_attributes_of_the_queue(action, http, queues):
    await queues.create_queue("dead")
    await queues.create_queue("q", vt=77, maxsize=2048)
    await queues.set_dead_letter_policy("q", "dead", 4)
    await queues.set_queue_limits("q", max_running=9)
    id = await queues.send_message("q", "a")
    _pages(http)
    if action == "move-messages":
        form = {"queue": "q", "ids": id}
        page = (await http("GET", f"/actions/{action}?queue=q&ids={id}")).content.decode()
    else:
        asked = await _post(http, f"/actions/{action}", **{"queue": "q", "in": "visible"})
        page = asked.content.decode()
        form = _hidden(page)
    assert "Or to a new queue" in page
    assert "It is created with the attributes of q, if it does not exist." in page
    form |= {"destination": "dead", "new-queue": "aside"}
    done = await _post(http, f"/actions/{action}", **form)
    page = await http("GET", "/queues/q/messages", headers={"cookie": _cookie_of(done)})
    assert "1 message of q moved to aside." in _shown(page)
    q, aside = queues.namespace.queue("q"), queues.namespace.queue("aside")
    assert await queues.run(plain_command("ZRANGE", aside.zset, "0", "-1")) == [id.encode()]
    fields = {each.field for call in (CREATE, LIMIT, POLICY) for each in call.options.values()}
    copied = await queues.run(plain_command("HMGET", aside.hash, *fields))
    assert copied == await queues.run(plain_command("HMGET", q.hash, *fields))
    attributes = await queues.get_queue_attributes("aside")
    policy = (attributes.dead_letter_queue, attributes.max_receives, attributes.max_running)
    assert policy == ("dead", 4, 9)


async def test_a_move_to_a_missing_queue_changes_nothing_and_names_the_remedy(http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", "a")
    path, ids = "/queues/q/messages:move", {"ids": [id]}
    answer = await http("POST", path, {**ids, "destination": "aside"})
    assert (answer.status, answer.json["code"], answer.json["value"]) == (
        404, "queueNotFound", "aside"
    )  # fmt: skip
    assert "PUT" in answer.json["hint"]
    wrong = {**ids, "destination": "a b", "create_destination": True}
    assert (await http("POST", path, wrong)).status == 422
    assert await queues.list_queues() == ["q"]
    assert [each.id for each in await queues.peek_messages("q")] == [id]


async def test_a_chosen_state_moves_messages_in_flight_that_were_not_received_again(http, queues):
    for name in ("q", "other"):
        await queues.create_queue(name)
    await queues.send_messages("q", ["x"] * 3)
    first, *_ = await queues.receive_messages("q", 3, vt=600)
    _pages(http)
    asked = await _post(http, "/actions/move-matching", **{"queue": "q", "in": "in_flight"})
    await queues.release_messages("q", [first.id])
    await queues.receive_message("q", vt=600)
    form = {**_hidden(asked.content.decode()), "destination": "other"}
    assert (await _post(http, "/actions/move-matching", **form)).status == 303
    assert [each.id for each in await queues.peek_messages("q")] == [first.id]
    assert (await queues.get_queue_attributes("other")).messages == 2


async def test_a_deletion_is_undone_from_the_page_that_follows(http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", "a")
    _pages(http)
    form = _hidden(
        (await http("GET", f"/actions/delete-messages?queue=q&ids={id}")).content.decode()
    )
    done = await _post(http, "/actions/delete-messages", **form)
    page = (await http("GET", "/queues/q/messages", headers={"cookie": _cookie_of(done)})).content
    assert b">Undo<" in page
    [deletion] = await queues.trash.list()
    assert deletion.id.encode() in page
    gone = _shown(await http("GET", f"/queues/q/messages/{id}"))
    assert "gone" in gone


async def test_a_message_page_says_why_it_does_not_move(http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", "a")
    await queues.pause_queue("q")
    _pages(http)
    page = await _page(http, f"/queues/q/messages/{id}")
    assert "Why is it not moving?" in page
    assert "paused" in page
    assert "Timeline" in page


async def test_messages_are_exported_whole_and_without_formulas(http, queues):
    await queues.create_queue("q", maxsize=-1)
    bodies = [json.dumps({"n": n, "t": "=1+1"}) for n in range(-1, 300)]
    await queues.send_messages("q", [*bodies, "@x", "y" * 5000])
    http.prefix = "/api/v1"
    whole = await http("GET", "/queues/q/messages:export")
    lines = [json.loads(line) for line in whole.content.splitlines()]
    assert [each["body"] for each in lines] == [*bodies, "@x", "y" * 5000]
    assert whole.headers["content-disposition"] == 'attachment; filename="messages.jsonl"'
    path = "/queues/q/messages:export?format=csv"
    some = await http("GET", f"{path}&columns=n,t&filter=json.n<1")
    rows = list(csv.reader(some.content.decode().splitlines()))
    assert rows[0][5:] == ["n", "t", "error"]
    assert [row[5:7] for row in rows[1:]] == [["-1", "'=1+1"], ["0", "'=1+1"]]
    last = list(csv.reader((await http("GET", path)).content.decode().splitlines()))[-2:]
    assert [row[5] for row in last] == ["'@x", "y" * 5000]
    assert len((await http("GET", f"{path}&max=2")).content.splitlines()) == 3


async def test_an_address_can_not_say_what_the_page_of_confirmation_shows(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", [f'{{"n": {n % 2}}}' for n in range(10)])
    _pages(http)
    address = "/actions/delete-matching?queue=q&match=json.n:1"
    page = (await http("GET", address)).content.decode()
    assert "Delete messages of q that fit json.n:1" in page
    assert {*_hidden(page)} == {"queue", "match"}
    for made_up in ("count", "before_ms", "filter", "selection", "undo", "typed-name"):
        reply = await http("GET", f"{address}&{made_up}=1")
        assert reply.status == 422, made_up
        assert made_up in reply.content.decode()
    asked = await _post(http, "/actions/delete-matching", **_hidden(page))
    form = _hidden(asked.content.decode())
    assert {*form} == {"queue", "match", "selection", "undo"}
    for made_up in ({"filter": ""}, {"state": "visible"}, {"ids": "a"}):
        reply = await _post(http, "/actions/delete-matching", **form, **made_up)
        assert reply.status == 422, made_up
    assert (await queues.get_queue_attributes("q")).messages == 10
    assert (await _post(http, "/actions/delete-matching", **form)).status == 303
    assert (await queues.get_queue_attributes("q")).messages == 5


async def test_only_the_form_of_an_action_makes_it_store_a_preview(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a"])
    _pages(http)
    count = plain_command("EXISTS", queues.namespace.selections)
    page = (await http("GET", "/actions/release-matching?queue=q&in=visible")).content.decode()
    assert '<button class="main">Count them</button>' in page
    assert "The same in a shell" not in page
    assert await queues.run(count) == 0
    counted = await _post(http, "/actions/release-matching", **_hidden(page))
    assert "Makes visible now 1 message of q that are visible" in counted.content.decode()
    assert await queues.run(count) == 1


async def test_the_number_of_a_selection_is_not_that_of_the_form(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a"] * 101)
    _pages(http)
    asked = await _post(http, "/actions/delete-matching", **{"queue": "q", "in": "visible"})
    form = _hidden(asked.content.decode())
    assert (await _post(http, "/actions/delete-matching", **form)).status == 422
    form["typed-name"] = "q"
    assert (await _post(http, "/actions/delete-matching", **form)).status == 303
    assert (await queues.get_queue_attributes("q")).messages == 0


@pytest.mark.parametrize("action", ["delete", "release", "move"])
def test_all_of_a_state_that_a_selection_can_not_have_are_an_operation(run, monkeypatch, action):
    monkeypatch.setattr("rsmq.web.selection.previews.MAX_MESSAGES", 2)

    async def test(http, queues):
        await queues.create_queue("q")
        await queues.create_queue("other")
        await queues.send_messages("q", list("abc"))
        if action == "release":
            for _ in "abc":
                await queues.receive_message("q", vt=600)
        state = "in_flight" if action == "release" else "visible"
        _pages(http)
        address = f"/actions/{action}-matching"
        page = (await _post(http, address, **{"queue": "q", "in": state})).content.decode()
        assert "at least 3 messages of q" in page
        form = {**_hidden(page), "destination": "other"} if action == "move" else _hidden(page)
        assert (await _post(http, address, **form)).status == 422
        form["typed-name"] = "q"
        assert (await _post(http, address, **form)).status == 303
        async with http.app.router.lifespan_context(http.app), asyncio.timeout(20):
            while (await queues.get_queue_attributes("q")).visible_messages != (
                3 if action == "release" else 0
            ):
                await asyncio.sleep(0.01)

    run(test)


async def test_a_page_of_confirmation_counts_anew(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a"] * 2)
    _pages(http)
    await http("GET", "/actions/purge?queue=q")
    await http("GET", "/queues/q")
    await queues.send_messages("q", ["a"] * 2)
    page = await http("GET", "/actions/purge?queue=q")
    assert b"Removes 4 messages from q" in page.content


async def test_a_page_of_confirmation_shows_no_older_answer_while_redis_is_away(
    monkeypatch, http, queues
):
    await queues.create_queue("q")
    _pages(http)
    assert (await http("GET", "/actions/purge?queue=q")).status == 200
    site = http.app.router.default

    async def fail(*_, **__):
        raise ConnectionError("gone")

    site._reads.forget_all()
    monkeypatch.setattr(site._api, "call", fail)
    assert (await http("GET", "/actions/purge?queue=q")).status == 503
    assert (await _post(http, "/actions/purge", queue="q")).status == 503


async def test_a_message_that_is_held_back_has_its_group_and_no_time(http, queues):
    await queues.create_queue("q")
    first, second = await queues.send_messages("q", ["m"] * 2, groups=["customer <17>"] * 2)
    shown = (await http("GET", f"/queues/q/messages/{second}")).json
    assert (shown["group"], shown["state"]) == ("customer <17>", "held_back")
    delayed = await queues.send_message("q", "m", delay=60)
    reply = (await http("GET", "/delayed")).json
    assert [each["id"] for each in reply["messages"]] == [delayed]
    assert (reply["queues"][0]["delayed"], reply["queues"][0]["held_back"]) == (1, 1)
    pages = open_pages(http)
    text = await read_page(pages, f"/queues/q/messages/{second}")
    assert "<dt>group</dt><dd>customer &lt;17&gt;</dd>" in text
    assert "when the messages of its group before it are done" in text
    assert "<dt>visible at</dt>" not in text
    assert first in text
    rows = (await read_page(pages, "/queues/q/messages?state=held_back")).split("<tr")
    [row] = [each for each in rows if second in each]
    assert "<time" not in row
    assert not any(first in each for each in rows)
