"""What a page shows instead of what was asked for."""

from rsmq.web.access.secrets import hash_password
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


def test_the_page_of_an_unknown_path_speaks_to_a_person(run):
    async def test(http, _):
        _pages(http)
        page = await http("GET", "/none")
        assert page.status == 404
        assert b"openapi" not in page.content
        assert b"The overview leads to all pages." in page.content
        http.headers["accept"] = "application/json"
        assert "openapi" in (await http("GET", "/none")).json["hint"]

    run(test)


def test_the_page_of_a_queue_that_is_not_there_speaks_to_a_person(run):
    async def test(http, _):
        _pages(http)
        for path in ("/queues/none", "/queues/none/messages", "/actions/purge?queue=none"):
            page = (await http("GET", path)).content.decode()
            assert "PUT" not in page
            assert "It may have been deleted" in page
            assert 'href="/queues">Queues</a></p>' in page
        http.headers["accept"] = "application/json"
        assert "with PUT /queues/{queue}" in (await http("GET", "/queues/none")).json["hint"]

    run(test)
