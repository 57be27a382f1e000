"""What a page shows instead of what was asked for."""

import ast
import re
from importlib.resources import files

from rsmq.errors import InvalidValue, QueueNotFound
from rsmq.web.access.secrets import hash_password
from rsmq.web.wording import ForPrograms, hint_of
from tests.web.test_pages import _cookie_of, _pages, _post, _users


def test_a_caller_who_may_see_no_page_can_log_out(run, tmp_path):
    stored = hash_password("one")
    entry = f'[users.anna]\npassword = "{stored}"\nscopes = ["send"]\n'

    async def test(http, _):
        _pages(http)
        cookie = _cookie_of(await _post(http, "/login", name="anna", secret="one"))
        for path in ("/", "/queues", "/none", "/actions/none", "/static/none.css"):
            page = await http("GET", path, headers={"cookie": cookie})
            assert (page.status, b'action="/logout"' in page.content) in {(403, True), (404, True)}
        foreign = await _post(http, "/actions/pause", {"cookie": cookie, "origin": "http://evil"})
        assert (foreign.status, b'action="/logout"' in foreign.content) == (403, True)
        page = await http("GET", "/session", headers={"cookie": cookie})
        assert (page.status, b"Session of anna" in page.content) == (200, True)

    run(test, auth=True, users=_users(tmp_path, entry))


async def test_the_page_of_an_unknown_path_speaks_to_a_person(http):
    _pages(http)
    page = await http("GET", "/none")
    assert page.status == 404
    assert b"openapi" not in page.content
    assert b"The overview leads to all pages." in page.content
    http.headers["accept"] = "application/json"
    assert "openapi" in (await http("GET", "/none")).json["hint"]


async def test_the_page_of_a_queue_that_is_not_there_speaks_to_a_person(http):
    _pages(http)
    for path in ("/queues/none", "/queues/none/messages", "/actions/purge?queue=none"):
        page = (await http("GET", path)).content.decode()
        assert "PUT" not in page
        assert "It may have been deleted" in page
        assert 'href="/queues">Queues</a></p>' in page
    http.headers["accept"] = "application/json"
    assert "with PUT /queues/{queue}" in (await http("GET", "/queues/none")).json["hint"]


def test_a_hint_that_names_a_route_is_for_programs():
    assert isinstance(hint_of(QueueNotFound("none")), ForPrograms)
    assert not isinstance(hint_of(InvalidValue("vt", 0, 9, value=10)), ForPrograms)


def test_written_hints_that_name_routes_are_for_programs():
    """A hint that is a plain text is shown on pages."""
    route = re.compile(r"\b(GET|PUT|PATCH|POST|DELETE)\b|/api/")
    found = [
        (path.name, word.value.value)
        for path in files("rsmq").joinpath("web").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Refused"
        for word in call.keywords
        if word.arg == "hint" and isinstance(word.value, ast.Constant)
    ]
    assert len(found) > 20
    assert [each for each in found if route.search(each[1])] == []
