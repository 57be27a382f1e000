"""The frame of the pages: sessions, links from elsewhere, refreshes, and actions."""

import asyncio
import base64
import re
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from rsmq.web.access import sessions
from rsmq.web.access.secrets import hash_password, hash_token
from rsmq.web.api import ApiCaller
from rsmq.web.pages import reads as reads_module
from rsmq.web.pages import rendering
from rsmq.web.pages.formats import show_duration, show_name
from rsmq.web.pages.reads import PageReads, SharedReads
from rsmq.web.table import ApiAnswer

_KEY = "a key of some length"
_ANNA = '[users.anna]\npassword = "{}"\nrole = "viewer"\n'
_HTML = {"accept": "text/html"}
_FORM = {**_HTML, "content-type": "application/x-www-form-urlencoded"}


def _pages(http, **headers):
    http.prefix = ""
    http.headers = {**_HTML, **headers}
    return http


async def _post(http, path, headers=None, **fields):
    body = urlencode(fields, doseq=True).encode()
    return await http("POST", path, body=body, headers={**_FORM, **(headers or {})})


def _cookie_of(reply):
    return reply.headers["set-cookie"].partition(";")[0]


def _users(tmp_path, text):
    path = tmp_path / "users.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_key_in_the_address_begins_a_session_and_leaves_the_address(run):
    async def test(http, queues):
        await queues.create_queue("q")
        _pages(http)
        reply = await http("GET", "/queues?sort=name&key=" + _KEY.replace(" ", "%20"))
        assert (reply.status, reply.headers["location"]) == (303, "/queues?sort=name")
        cookie = reply.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert (await http("GET", "/queues", headers={"cookie": _cookie_of(reply)})).status == 200
        assert (await http("GET", "/queues?key=wrong")).status == 401

    run(test, auth=True, key=_KEY)


def test_a_link_with_the_key_is_used_once_and_the_login_takes_the_key_again(run):
    async def test(http, _):
        link = "/queues?path=a&key=" + _KEY.replace(" ", "+")
        _pages(http)
        first = await http("GET", link)
        assert (first.status, first.headers["location"]) == (303, "/queues?path=a")
        second = await http("GET", link)
        assert (second.status, "set-cookie" in second.headers) == (401, False)
        assert b"This link was used before" in second.content
        assert b'name="next" value="/queues?path=a"' in second.content
        assert (await _post(http, "/login", secret=_KEY)).status == 303
        mine = await http("GET", link, headers={"cookie": _cookie_of(first)})
        assert (mine.status, mine.headers["location"]) == (303, "/queues?path=a")
        assert "set-cookie" not in mine.headers

    run(test, auth=True, key=_KEY)


def test_no_link_on_another_site_lets_a_person_work_as_somebody_else(run, tmp_path):
    token = "rsmq_of-another-site"
    text = _ANNA.format(hash_password("one"))
    text += f'[tokens.other]\nsha256 = "{hash_token(token)}"\nrole = "viewer"\n'

    async def test(http, _):
        _pages(http)
        cookie = _cookie_of(await _post(http, "/login", name="anna", secret="one"))
        for headers in ({}, {"cookie": cookie}):
            reply = await http("GET", f"/queues?key={token}", headers=headers)
            assert (reply.status, reply.headers["location"]) == (303, "/queues")
            assert "set-cookie" not in reply.headers

    run(test, auth=True, users=_users(tmp_path, text))


def test_who_is_not_known_is_led_to_the_login_and_back(run):
    async def test(http, queues):
        await queues.create_queue("q")
        _pages(http)
        reply = await http("GET", "/queues/q?span=24h")
        assert reply.headers["location"] == "/login?next=%2Fqueues%2Fq%3Fspan%3D24h"
        form = {"name": "", "next": "/queues/q?span=24h"}
        wrong = await _post(http, "/login", secret="wrong", **form)
        assert (wrong.status, "set-cookie" in wrong.headers) == (401, False)
        right = await _post(http, "/login", secret=_KEY, **form)
        assert (right.status, right.headers["location"]) == (303, "/queues/q?span=24h")
        for next in ("//evil.com", "https://evil.com", "/\\evil.com"):
            reply = await _post(http, "/login", secret=_KEY, next=next)
            assert reply.headers["location"] == "/"

    run(test, auth=True, key=_KEY)


def test_programs_get_problem_details_of_a_page_and_not_the_login(run):
    async def test(http, _):
        http.prefix = ""
        reply = await http("GET", "/queues")
        assert (reply.status, reply.json["code"]) == (401, "unauthorized")

    run(test, auth=True, key=_KEY)


def test_a_session_ends_with_its_password_its_time_and_a_change_of_its_text(
    run, tmp_path, monkeypatch
):
    first, second = hash_password("one"), hash_password("two")
    users = _users(tmp_path, f'[users.anna]\npassword = "{first}"\nrole = "viewer"\n')

    async def test(http, _):
        _pages(http)
        reply = await _post(http, "/login", name="anna", secret="one")
        cookie = _cookie_of(reply)

        async def status(cookie):
            return (await http("GET", "/queues", headers={"cookie": cookie})).status

        assert await status(cookie) == 200
        assert await status(cookie[:-1] + ("0" if cookie[-1] != "0" else "1")) == 303
        with monkeypatch.context() as patched:
            patched.setattr(sessions.time, "time", lambda: 1e10)
            assert await status(cookie) == 303
        users.write_text(f'[users.anna]\npassword = "{second}"\nrole = "viewer"\n')
        assert await status(cookie) == 303

    run(test, auth=True, users=users)


async def test_a_link_on_another_site_arrives_and_other_requests_of_it_do_not(http, queues):
    await queues.create_queue("q")
    _pages(http)
    foreign = {"sec-fetch-site": "cross-site"}
    link = {**foreign, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    reply = await http("GET", "/queues/q?a=%22%3E", headers=link)
    assert reply.status == 200
    assert b'content="0; url=/queues/q?a=%22%3E"' in reply.content
    assert b"Attributes" not in reply.content
    assert (await http("GET", "/queues/q", headers=foreign)).status == 403
    post = await _post(http, "/actions/pause", {**link, "origin": "http://evil"}, queue="q")
    assert post.status == 403
    assert not (await queues.get_queue_attributes("q")).paused


async def test_a_page_that_has_not_changed_is_not_sent_again(http, queues):
    await queues.create_queue("q")
    _pages(http)
    first = await http("GET", "/queues")
    again = {"if-none-match": first.headers["etag"]}
    assert (await http("GET", "/queues", headers=again)).status == 304
    await queues.send_message("q", "a")
    http.app.router.default.forget_all()
    assert (await http("GET", "/queues", headers=again)).status == 200


async def test_a_running_server_reads_no_file_that_an_upgrade_may_have_changed(http, monkeypatch):
    monkeypatch.setattr(rendering, "_FILES", Path("/files-of-another-version"))
    rendering._environment().cache.clear()
    http.prefix, http.headers = "", {"accept": "text/html"}
    for path in ("/", "/queues", "/activity", "/static/app.js", "/static/icon.svg"):
        assert (await http("GET", path)).status == 200, path


async def test_all_pages_allow_nothing_but_their_own_files(http):
    _pages(http)
    for path in ("/", "/login", "/none", "/queues"):
        reply = await http("GET", path)
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in policy
    for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', reply.content.decode()):
        assert (await http("GET", path)).status == 200
    assert (await http("GET", "/static/../table.py")).status == 404
    assert (await http("GET", "/static/none.css")).status == 404


async def test_an_action_says_what_it_does_asks_for_the_name_and_is_recorded(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a", "b", "c"])
    _pages(http)
    page = (await http("GET", "/actions/purge?queue=q")).content.decode()
    assert "Removes 3 messages from q" in page
    assert "rsmq purge q" in page
    assert "curl -u :KEY -X POST http://localhost/api/v1/queues/q:purge" in page
    wrong = await _post(http, "/actions/purge", queue="q", **{"typed-name": "p"})
    assert wrong.status == 422
    assert (await queues.get_queue_attributes("q")).messages == 3
    done = await _post(http, "/actions/purge", queue="q", **{"typed-name": "q"})
    assert (done.status, done.headers["location"]) == (303, "/queues/q")
    assert (await queues.get_queue_attributes("q")).messages == 0
    shown = await http("GET", "/queues/q", headers={"cookie": _cookie_of(done)})
    assert b"q was purged." in shown.content
    http.prefix = "/api/v1"
    entries = (await http("GET", "/audit")).json["entries"]
    assert [each["call"] for each in entries] == ["POST /queues/{queue}:purge"] * 2


def test_pages_and_actions_obey_the_rights_of_their_caller(run, tmp_path):
    stored = hash_password("one")
    entry = f'[users.anna]\npassword = "{stored}"\nrole = "viewer"\nqueues = ["own"]\n'

    async def test(http, queues):
        await queues.create_queue("own")
        await queues.create_queue("other")
        _pages(http)
        cookie = _cookie_of(await _post(http, "/login", name="anna", secret="one"))
        http.headers["cookie"] = cookie
        listed = (await http("GET", "/queues")).content
        assert b"/queues/own" in listed
        assert b"/queues/other" not in listed
        own = await http("GET", "/queues/own")
        assert own.status == 200
        assert b"/actions/" not in own.content
        assert (await http("GET", "/queues/other")).status == 403
        for action in ("pause", "purge"):
            assert (await http("GET", f"/actions/{action}?queue=own")).status == 403
            assert (await _post(http, f"/actions/{action}", queue="own")).status == 403

    run(test, auth=True, users=_users(tmp_path, entry))


def test_a_read_only_server_shows_no_action_and_runs_none(run):
    async def test(http, queues):
        await queues.create_queue("q")
        _pages(http)
        assert b"/actions/" not in (await http("GET", "/queues/q")).content
        assert (await _post(http, "/actions/pause", queue="q")).status == 403

    run(test, read_only=True)


async def test_a_name_of_any_characters_is_shown_and_linked(http, queues):
    await queues.create_queue("a-b")
    _pages(http)
    assert (await http("GET", "/queues/a%20b")).status in {404, 422}
    assert (await http("GET", "/queues/%3Cscript%3E")).status in {404, 422}


def test_texts_show_characters_that_are_not_seen():
    assert show_name("a\u202eb\n\x00") == "a\\u202eb\\n\\x00"
    assert show_name("naïve 日本") == "naïve 日本"
    assert [show_duration(each) for each in (None, 0.2, 75, 4000, 20_000, 300_000)] == [
        "\u2013", "< 1 s", "75 s", "67 min", "5.6 h", "3.5 d",
    ]  # fmt: skip


async def test_a_link_on_another_site_leads_to_this_site_only(http):
    _pages(http)
    link = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    for path in ("//evil.com/", "/\\evil.com", "//evil.com/queues?a=b"):
        reply = await http("GET", path, headers=link)
        assert b"evil" not in reply.content


async def test_a_key_is_ignored_where_everyone_may_do_everything(http):
    reply = await _pages(http)("GET", "/queues?key=x")
    assert (reply.status, reply.headers["location"]) == (303, "/queues")
    assert "set-cookie" not in reply.headers


def test_cookies_of_a_server_with_tls_are_secure_also_behind_a_trusted_proxy(run):
    async def test(http, _):
        _pages(http, **{"x-forwarded-proto": "https"})
        reply = await _post(http, "/login", secret=_KEY)
        assert "; Secure" in reply.headers["set-cookie"]
        http.peer = "10.0.0.9"
        reply = await _post(http, "/login", secret=_KEY)
        assert "; Secure" not in reply.headers["set-cookie"]

    run(test, auth=True, key=_KEY, trusted_proxies=["127.0.0.1/32"])


def test_the_last_history_is_shown_also_if_its_begin_has_moved_on_since():
    answers = [ApiAnswer({"sent": [1]}), ConnectionError("gone")]

    class Api:
        async def call(self, *_, **__):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    async def test():
        rights = SimpleNamespace(scopes=(), patterns=(), redact=())
        caller, reads = ApiCaller(rights, "127.0.0.1"), SharedReads(Api())
        for minute in ("12:00", "12:01"):
            query = {"from": f"2026-10-25T{minute}", "step": "60"}
            answer = await reads.get(caller, "/history", {}, query)
            reads.forget_all()
        assert (answer.content, answer.is_stale) == ({"sent": [1]}, True)

    asyncio.run(test())


def test_a_lasting_answer_is_read_again_at_once_after_an_outage(monkeypatch):
    answers = [ApiAnswer(1), ConnectionError("gone"), ApiAnswer(2)]
    now = [1000.0]

    class Api:
        async def call(self, *_, **__):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    async def test():
        rights = SimpleNamespace(scopes=(), patterns=(), redact=())
        shared = SharedReads(Api())
        found = []
        for seconds in (0, 61, 5, 5):
            now[0] += seconds
            reads = PageReads(shared, ApiCaller(rights, "127.0.0.1"))
            found.append((await reads.read_lasting("/dead-letters"), reads.ages))
        assert found == [(1, []), (1, [61.0]), (2, []), (2, [])]

    monkeypatch.setattr(reads_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    asyncio.run(test())


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE"])
async def test_only_post_runs_an_action_or_ends_a_session(method, http, queues):
    await queues.create_queue("q")
    await queues.send_message("q", "a")
    _pages(http)
    fields = {"queue": "q", "typed-name": "q"}
    reply = await http(
        method,
        "/actions/purge?queue=q",
        body=urlencode(fields).encode(),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert (await queues.get_queue_attributes("q")).messages == 1
    assert reply.status == (200 if method == "HEAD" else 405)
    assert reply.content == b"" or method != "HEAD"
    if method != "HEAD":
        assert reply.headers["allow"] == "GET, HEAD, POST"
        assert (await http(method, "/login")).status == 405
    ended = await http(method, "/logout")
    assert (ended.status, ended.headers["allow"]) == (405, "POST")


def test_head_of_a_page_that_needs_a_session_leads_to_the_login(run, tmp_path):
    async def test(http, queues):
        _pages(http)
        reply = await http("HEAD", "/queues")
        assert (reply.status, reply.headers["location"]) == (303, "/login?next=%2Fqueues")

    run(test, auth=True, users=_users(tmp_path, _ANNA.format(hash_password("one"))))


def _payload_of(content):
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@pytest.mark.parametrize(
    "value",
    [
        _payload_of(b'["user", "anna", 99999999999999, "a"]') + ".\u00e9",
        _payload_of(b"[" * 700) + ".0",
        _payload_of(b"[" * 30_000) + ".0",
    ],
)
def test_a_made_up_cookie_is_not_a_session(run, tmp_path, value):
    async def test(http, queues):
        _pages(http)
        name = sessions.cookie_name("localhost")
        for cookie in (name, "rsmq-done"):
            reply = await http("GET", "/queues", headers={"cookie": f'{cookie}="{value}"'})
            assert reply.status == 303

    async def test_flash(http, queues):
        _pages(http)
        deep = value.partition(".")[0]
        reply = await http("GET", "/queues", headers={"cookie": f"rsmq-done={deep}"})
        assert reply.status == 200

    run(test, auth=True, users=_users(tmp_path, _ANNA.format(hash_password("one"))))
    run(test_flash)
