"""Several namespaces in one server: their paths, their rights, and what each keeps for itself."""

import asyncio
import base64
import itertools
import json
import re
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import quote

import pytest

from rsmq import AsyncRSMQ
from rsmq.errors import InvalidFormat
from rsmq.web import application, create_app
from rsmq.web.access.secrets import hash_password, hash_token
from rsmq.web.audit import read_entries
from rsmq.web.root_path import RootPath
from tests.scale import WAIT_SECONDS
from tests.web.asgi import Http
from tests.web.pages_client import open_pages, read_page, run_action

_numbers = itertools.count()
#: The second one has characters that paths encode.
_NAMES = ("shop", "{a/b:é.0}", "billing")
_ODD = quote(_NAMES[1], safe="")
_TOKENS = {name: name * 20 for name in ("old", "bills", "all", "odd")}
_FIELDS = {
    "old": "",
    "bills": 'namespaces = ["bill*"]',
    "all": 'namespaces = ["*"]',
    "odd": 'namespaces = ["{a/b:é.0}", "elsewhere"]',
}


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users.toml"
    entries = [
        f'[tokens.{name}]\nsha256 = "{hash_token(token)}"\nrole = "admin"\n{_FIELDS[name]}\n'
        for name, token in _TOKENS.items()
    ]
    for name, namespaces in (("anna", ""), ("bill", 'namespaces = ["billing"]')):
        password = hash_password("one")
        entries.append(f'[users.{name}]\npassword = "{password}"\nrole = "admin"\n{namespaces}\n')
    path.write_text("\n".join(entries))
    path.chmod(0o600)
    return path


@pytest.fixture
def run():
    """Run a coroutine function with a client of a server, and with the clients of its queues."""

    def run_test(test, names=_NAMES, **options):
        async def main():
            url = f"memory://namespaces{next(_numbers)}"
            async with AsyncExitStack() as stack:
                clients = [
                    await stack.enter_async_context(AsyncRSMQ.from_url(url, ns=name))
                    for name in names
                ]
                app = create_app(clients, **({"auth": False} | options))
                async with app.router.lifespan_context(app):
                    await test(Http(app), *clients)

        asyncio.run(main())

    return run_test


def _as(name):
    return {"authorization": f"Bearer {_TOKENS[name]}"}


def test_each_namespace_has_its_paths_and_the_others_are_those_of_the_first(run):
    async def test(http, shop, odd, billing):
        for path in ("/queues/a", f"/ns/{_ODD}/queues/b", "/ns/billing/queues/c"):
            assert (await http("PUT", path, {})).status == 201
        assert await shop.list_queues() == ["a"]
        assert await odd.list_queues() == ["b"]
        assert await billing.list_queues() == ["c"]
        for path, name in (("", "a"), ("/ns/shop", "a"), (f"/ns/{_ODD}", "b")):
            found = (await http("GET", f"{path}/queues")).json["queues"]
            assert [each["name"] for each in found] == [name]
        for path in ("/ns/billing", "/ns/billing/"):
            assert (await http("GET", path)).status == 404

    run(test)


def test_a_name_with_a_slash_is_found_below_a_prefix_too(run):
    async def test(http, _shop, odd, _billing):
        await odd.create_queue("b/ad".replace("/", "-"))
        below = Http(RootPath(http.app, "/rsmq"), "/rsmq/api/v1")
        assert (await below("GET", f"/ns/{_ODD}/queues/b-ad")).json["name"] == "b-ad"
        found = (await below("GET", "/ns")).json["namespaces"]
        assert [each["path"] for each in found] == [
            "/rsmq/api/v1", f"/rsmq/api/v1/ns/{_ODD}", "/rsmq/api/v1/ns/billing",
        ]  # fmt: skip
        page = Http(RootPath(http.app, "/rsmq"), "/rsmq", {"accept": "text/html"})
        assert f'href="/rsmq/ns/{_ODD}/queues/b-ad"' in await read_page(page, f"/ns/{_ODD}/queues")

    run(test)


def test_an_entry_without_namespaces_has_rights_in_the_first_one_only(run, users):
    allowed = {"old": ["shop"], "bills": ["billing"], "all": [*_NAMES], "odd": [_NAMES[1]]}

    async def test(http, *_):
        for name, expected in allowed.items():
            found = (await http("GET", "/ns", headers=_as(name))).json["namespaces"]
            assert [each["name"] for each in found] == expected
            below = f"/ns/{quote(expected[0], safe='')}/ns"
            assert (await http("GET", below, headers=_as(name))).json["namespaces"] == found
            assert (await http("GET", "/ns/", headers=_as(name))).json["namespaces"] == found
            for namespace in _NAMES:
                paths = [f"/ns/{quote(namespace, safe='')}"]
                paths += [""] if namespace == "shop" else []
                for path in paths:
                    reply = await http("GET", f"{path}/queues", headers=_as(name))
                    assert reply.status == (200 if namespace in expected else 404)

    run(test, auth=True, users=users)


def test_with_one_namespace_a_file_without_namespaces_means_what_it_did(run, users):
    async def test(http, _):
        assert (await http("GET", "/queues", headers=_as("old"))).status == 200
        # An entry that names others has no rights here.
        assert (await http("GET", "/queues", headers=_as("bills"))).status == 404

    run(test, names=("shop",), auth=True, users=users)


def test_the_answers_do_not_tell_which_namespaces_exist(run, users):
    paths = ("", "/", "/queues", "/queues/q", "/openapi.json", "/docs", "/x", "/login")

    async def test(http, *_):
        pages = Http(http.app, "", {"accept": "text/html"})
        for headers, status in (({}, {401, 303}), (_as("old"), {404})):
            for path in paths:
                for sender in (http, pages, Http(http.app, "")):
                    there = await sender("GET", f"/ns/billing{path}", headers=headers)
                    missing = await sender("GET", f"/ns/no-such{path}", headers=headers)
                    assert there.status in status
                    assert there.status == missing.status
                    assert there.content.replace(b"billing", b"no-such") == missing.content
                    for name in there.headers.keys() | missing.headers.keys():
                        expected = missing.headers[name].replace("no-such", "billing")
                        if name != "content-length":
                            assert there.headers[name] == expected

    run(test, auth=True, users=users)


def test_unread_parts_of_the_server_show_only_namespaces_of_the_caller(run, users):
    async def test(http, *clients):
        for each in clients:
            await each.create_queue("q")
        plain = Http(http.app, "")
        metrics = (await plain("GET", "/metrics", headers=_as("bills"))).content.decode()
        assert 'rsmq_queue_messages{ns="billing",queue="q"} 0' in metrics
        assert 'rsmq_up{ns="billing"} 1' in metrics
        assert "shop" not in metrics
        metrics = (await plain("GET", "/metrics", headers=_as("all"))).content.decode()
        assert metrics.count("# TYPE rsmq_queue_messages gauge") == 1
        assert len(re.findall(r"^rsmq_queue_messages\{", metrics, re.MULTILINE)) == 3
        document = (await http("GET", "/openapi.json", headers=_as("all"))).json
        encoded = document["servers"][1]["variables"]["ns"]["enum"]
        assert encoded == ["shop", _ODD, "billing"]
        assert document["servers"][1]["url"] == "/api/v1/ns/{ns}"
        document = (await http("GET", "/openapi.json", headers=_as("old"))).json
        assert document["servers"] == [{"url": "/api/v1"}]
        answers = document["paths"]["/ns"]["get"]["responses"]
        shown = answers["200"]["content"]["application/json"]["schema"]["properties"]["namespaces"]
        assert list(shown["items"]["properties"]) == ["name", "path"]
        document = (await http("GET", "/ns/billing/openapi.json", headers=_as("all"))).json
        assert document["servers"] == [{"url": "/api/v1/ns/billing"}]
        docs = (await http("GET", f"/ns/{_ODD}/docs", headers=_as("odd"))).content.decode()
        assert f"/api/v1/ns/{_ODD}" in docs
        assert (await plain("GET", "/rest-rsmq/queues", headers=_as("bills"))).status == 404

    run(test, auth=True, users=users)


def test_one_session_is_that_of_all_namespaces(run, users):
    async def test(http, *_):
        open_pages(http)
        back = "/ns/billing/queues"
        login = await http("GET", back)
        assert login.headers["location"] == f"/login?next={quote(back, safe='')}"
        form = {"content-type": "application/x-www-form-urlencoded"}
        content = f"name=bill&secret=one&next={back}".encode()
        reply = await http("POST", "/login", body=content, headers=form)
        assert (reply.status, reply.headers["location"]) == (303, back)
        cookie = reply.headers["set-cookie"]
        assert "; Path=/;" in cookie
        mine = {"cookie": cookie.partition(";")[0]}
        assert (await http("GET", back, headers=mine)).status == 200
        # It has no rights in the first one, and is led to its own.
        home = await http("GET", "/", headers=mine)
        assert (home.status, home.headers["location"]) == (303, "/ns")
        there = await http("GET", "/ns", headers=mine)
        assert (there.status, there.headers["location"]) == (303, "/ns/billing/")
        assert (await http("GET", "/ns/billing/session", headers=mine)).status == 200
        out = await http("POST", "/logout", body=b"", headers=form | mine)
        assert (out.status, out.headers["location"]) == (303, "/login")
        assert (await http("GET", back, headers=mine)).status == 303
        assert (await http("GET", "/ns", headers=mine)).headers["location"] == "/login"

    run(test, auth=True, users=users)


def test_pages_have_a_switch_of_the_namespaces_of_the_caller(run, users):
    async def test(http, *_):
        open_pages(http)
        page = await read_page(http, "/workers", **_as("all"))
        assert '<form class="switch" method="get" action="/ns">' in page
        assert re.findall(r'<option value="([^"]*)"( selected)?>', page) == [
            ("shop", " selected"), (_NAMES[1], ""), ("billing", ""),
        ]  # fmt: skip
        assert '<input type="hidden" name="page" value="/workers">' in page
        for name, where in (
            ("billing", "/ns/billing/workers"),
            (_NAMES[1], f"/ns/{_ODD}/workers"),
            ("shop", "/workers"),
        ):
            query = f"ns={quote(name, safe='')}&page=%2Fworkers"
            reply = await http("GET", f"/ns?{query}", headers=_as("all"))
            assert (reply.status, reply.headers["location"]) == (303, where)
            assert (await http("GET", where, headers=_as("all"))).status == 200
        for name in ("shop", "no-such"):
            assert (await http("GET", f"/ns?ns={name}", headers=_as("bills"))).status == 404
        reply = await http("GET", "/ns?ns=shop&page=%2F%2Fexample.com%2F", headers=_as("all"))
        assert reply.headers["location"] == "/example.com"
        assert 'class="switch"' not in await read_page(http, "/workers", **_as("old"))

    run(test, auth=True, users=users)


def test_pages_of_a_namespace_lead_to_its_pages_only(run):
    async def test(http, _shop, odd, _billing):
        await odd.create_queue("q")
        await odd.send_message("q", "hello")
        open_pages(http)
        for path in ("", "queues", "queues/q", "queues/q/messages", "queues/q/tail", "activity"):
            page = await read_page(http, f"/ns/{_ODD}/{path}")
            for address in re.findall(r'(?:href|src|action|data-tail)="(/[^"]*)"', page):
                of_server = address.partition("?")[0] in {"/ns", "/logout"}
                assert (
                    address.startswith((f"/ns/{_ODD}/", f"/api/v1/ns/{_ODD}/", "/static/"))
                    or of_server
                ), address

    run(test)


def test_actions_records_and_selections_belong_to_their_namespace(run):
    async def test(http, shop, odd, billing):
        for each in (shop, odd):
            await each.create_queue("q")
            await each.send_message("q", "hello")
        api = f"/ns/{_ODD}"
        preview = (await http("POST", f"{api}/queues/q/messages:preview", {})).json
        wrong = await http("POST", "/queues/q/messages:delete", {"selection": preview["selection"]})
        assert wrong.status == 409
        key = {"idempotency-key": "k"}
        ids = [
            (await http("POST", f"{path}/queues/q/messages", {"body": "x"}, headers=key)).json["id"]
            for path in ("", "", api, api)
        ]
        assert ids[0] == ids[1] != ids[2] == ids[3]
        reply = await http("POST", f"{api}/queues/q/messages:delete", {"filter": ""})
        assert reply.headers["location"].startswith(f"/api/v1/ns/{_ODD}/operations/")
        below = reply.headers["location"].removeprefix("/api/v1")
        async with asyncio.timeout(30):
            while (await http("GET", below)).json["state"] != "succeeded":
                await asyncio.sleep(0.01)
        assert (await odd.get_queue_attributes("q")).messages == 0
        assert (await shop.get_queue_attributes("q")).messages == 2
        assert (await http("GET", "/operations")).json["operations"] == []
        open_pages(http)
        http.prefix = f"/ns/{_ODD}"
        confirm = await read_page(http, "/actions/pause?queue=q")
        assert f"--ns &#39;{_NAMES[1]}&#39;" in confirm
        assert f"http://localhost/api/v1/ns/{_ODD}/queues/q:pause" in confirm
        done = await run_action(http, "pause", queue="q")
        assert (done.status, done.headers["location"]) == (303, f"/ns/{_ODD}/queues/q")
        assert (await odd.get_queue_attributes("q")).paused
        assert not (await shop.get_queue_attributes("q")).paused

        async def calls(client):
            entries, _ = await read_entries(client, 100, None, lambda _: True)
            return {each["call"] for each in entries}

        assert "POST /queues/{queue}:pause" in await calls(odd)
        assert await calls(shop) <= {"POST /queues/{queue}/messages:delete"}
        assert await calls(billing) == set()

    run(test)


def test_each_namespace_has_its_recorder_and_its_runner(run, monkeypatch):
    begun = []

    def note(name):
        @asynccontextmanager
        async def part(queues):
            begun.append((name, queues.namespace.name))
            yield

        monkeypatch.setattr(application, name, part)

    names = ("HistoryRecorder", "OperationRunner", "TrashEmptier")
    for name in names:
        note(name)

    async def test(*_):
        assert sorted(begun) == sorted(itertools.product(names, _NAMES))

    run(test, record=True)


def test_a_server_is_ready_if_all_its_namespaces_are_and_ends_the_waits_of_all(run, monkeypatch):
    async def test(http, *clients):
        plain = Http(http.app, "")
        assert (await plain("GET", "/readyz")).status == 200
        await clients[2].create_queue("q")
        content = {"queues": ["q"], "wait": 60}
        waiting = asyncio.create_task(http("POST", "/ns/billing/receive", content))
        await asyncio.sleep(0)
        await http.app.state.end_waits()
        assert (await asyncio.wait_for(waiting, WAIT_SECONDS)).json == {"messages": []}

        async def fail(*_):
            raise OSError("gone")

        monkeypatch.setattr(clients[2], "run", fail)
        assert (await plain("GET", "/readyz")).status == 503
        metrics = (await plain("GET", "/metrics")).content.decode()
        assert 'rsmq_up{ns="billing"} 0' in metrics
        assert 'rsmq_up{ns="shop"} 1' in metrics

    run(test)


def test_a_session_is_no_way_around_the_rights_after_they_are_taken_away(run, users):
    async def test(http, *_):
        pair = base64.b64encode(b"bill:one").decode()
        headers = {"authorization": f"Basic {pair}"}
        assert (await http("GET", "/ns/billing/queues", headers=headers)).status == 200
        text = users.read_text()
        users.write_text(text.replace('namespaces = ["billing"]', 'namespaces = ["elsewhere"]'))
        assert (await http("GET", "/ns/billing/queues", headers=headers)).status == 404
        assert (await http("GET", "/ns", headers=headers)).json == {"namespaces": []}

    run(test, auth=True, users=users)


@pytest.mark.parametrize("entry", ['namespaces = "shop"', "namespaces = [1]"])
def test_namespaces_of_a_users_file_are_a_list_of_texts(users, entry):
    users.write_text(users.read_text().replace('namespaces = ["*"]', entry))
    with pytest.raises(InvalidFormat, match="namespaces of all is not a list of texts"):
        create_app("memory://", users=users)


def test_a_list_of_clients_has_one_of_each_namespace():
    client = AsyncRSMQ.from_url("memory://twice")
    for queues in ([], [client, client], [client, "memory://"], {"shop": client}):
        with pytest.raises(InvalidFormat):
            create_app(queues, auth=False)


def test_the_list_of_namespaces_is_json(run):
    async def test(http, *_):
        reply = await http("GET", "/ns")
        assert json.loads(reply.content)["namespaces"][0] == {"name": "shop", "path": "/api/v1"}
        assert (await http("GET", "/ns/")).content == reply.content

    run(test)
