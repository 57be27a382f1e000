"""Sessions end when somebody logs out, in each process, and what is not of this site is refused."""

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisAway

from rsmq import AsyncRSMQ
from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.web.access import ended_sessions
from rsmq.web.access.secrets import hash_password, hash_token, make_token
from tests.web.asgi import Http
from tests.web.test_pages import _cookie_of, _pages, _post, _users

_ENTRY = '[users.anna]\npassword = "{}"\nrole = "{}"\n'


@pytest.fixture
def users(tmp_path):
    return _users(tmp_path, _ENTRY.format(hash_password("one"), "admin"))


@pytest.fixture(autouse=True)
def _read_each_time(monkeypatch):
    monkeypatch.setattr(ended_sessions, "_READ_SECONDS", 0)


async def _log_in(http):
    return _cookie_of(await _post(http, "/login", name="anna", secret="one"))


async def _is_admitted(http, cookie):
    return (await http("GET", "/queues", headers={"cookie": cookie})).status == 200


async def _stored(queues):
    return await queues.run(
        plain_command("ZRANGE", queues.namespace.name + ":x:ended_sessions", 0, -1)
    )


async def test_a_log_out_ends_the_copies_of_its_cookie_in_all_processes(users, http, queues):
    other = _pages(Http(create_app(queues, users=users)))
    _pages(http)
    first, second = await _log_in(http), await _log_in(http)
    assert await _is_admitted(other, first)
    await _post(http, "/logout", {"cookie": first})
    for each in (http, other):
        assert not await _is_admitted(each, first)
        assert await _is_admitted(each, second)
    assert len(await _stored(queues)) == 1
    again = await _post(http, "/logout", {"cookie": first})
    assert (again.status, again.headers["location"]) == (303, "/login")


async def test_a_log_out_in_all_browsers_ends_the_sessions_that_were_there(users, http, queues):
    other = _pages(Http(create_app(queues, users=users)))
    _pages(http)
    cookies = [await _log_in(http) for _ in range(3)]
    await _post(http, "/logout", {"cookie": cookies.pop()})
    page = await http("GET", "/session", headers={"cookie": cookies[0]})
    assert b'name="everywhere"' in page.content
    await _post(http, "/logout", {"cookie": cookies[0]}, everywhere="1")
    for each in (http, other):
        assert not [cookie for cookie in cookies if await _is_admitted(each, cookie)]
    assert len(await _stored(queues)) == 1
    assert await _is_admitted(other, await _log_in(other))


async def test_any_number_of_log_outs_needs_little_memory(users, http, queues):
    _pages(http)
    cookies = [await _log_in(http) for _ in range(25)]
    for cookie in cookies:
        await _post(http, "/logout", {"cookie": cookie})
    assert len(await _stored(queues)) <= ended_sessions._MAX_OF_OWNER
    assert not [cookie for cookie in cookies if await _is_admitted(http, cookie)]


async def test_a_log_out_counts_while_redis_is_away_and_elsewhere_when_it_is_back(
    users, monkeypatch, http, queues
):
    other = _pages(Http(create_app(queues, users=users)))
    _pages(http)
    cookie = await _log_in(http)

    async def fail(*_):
        raise RedisAway("gone")

    with monkeypatch.context() as patched:
        patched.setattr(queues, "run", fail)
        assert (await _post(http, "/logout", {"cookie": cookie})).status == 303
        assert not await _is_admitted(http, cookie)
    assert not await _is_admitted(http, cookie)
    assert not await _is_admitted(other, cookie)


def test_a_read_only_server_ends_its_sessions_and_writes_nothing(run, users):
    async def test(http, queues):
        _pages(http)
        cookie = await _log_in(http)
        await _post(http, "/logout", {"cookie": cookie})
        assert not await _is_admitted(http, cookie)
        assert await _stored(queues) == []

    run(test, auth=True, users=users, read_only=True)


def test_sessions_of_many_people_cost_one_command_a_second(run, users, monkeypatch):
    monkeypatch.setattr(ended_sessions, "_READ_SECONDS", 1e9)
    commands = []
    monkeypatch.setattr(
        ended_sessions,
        "plain_command",
        lambda *words, **options: commands.append(words) or plain_command(*words, **options),
    )

    async def test(http, _):
        _pages(http)
        cookies = [await _log_in(http) for _ in range(3)]
        assert all(await asyncio.gather(*(_is_admitted(http, each) for each in cookies * 5)))
        assert len(commands) == 1

    run(test, auth=True, users=users)


def test_a_page_without_tls_on_the_same_host_is_another_site_if_the_server_has_tls(run):
    async def test(http, queues):
        _pages(http)
        for scheme, forwarded, status in (
            ("http", "https", 403),
            ("https", "https", 303),
            ("http", "http", 303),
            ("https", "http", 303),
        ):
            headers = {"origin": f"{scheme}://localhost", "x-forwarded-proto": forwarded}
            reply = await _post(http, "/logout", headers)
            assert (scheme, forwarded, reply.status) == (scheme, forwarded, status)

    run(test, trusted_proxies=["127.0.0.1/32"])


def test_an_administrator_ends_all_sessions_of_a_user_or_a_token(server, ns, cli, users):
    token = make_token()
    bert = _ENTRY.format(hash_password("two"), "admin").replace("anna", "bert")
    entry = f'[tokens.shop]\nsha256 = "{hash_token(token)}"\nrole = "admin"\n'
    users.write_text(f"{users.read_text()}{bert}{entry}")

    async def main():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            http, other = (_pages(Http(create_app(queues, users=users))) for _ in range(2))
            anna = [await _log_in(http) for _ in range(2)]
            bert = _cookie_of(await _post(http, "/login", name="bert", secret="two"))
            shop = _cookie_of(await _post(http, "/login", name="", secret=token))

            async def log_out(name):
                return await asyncio.to_thread(
                    cli, "web-user", "log-out", name, "--users", str(users)
                )

            async def admitted():
                cookies = [*anna, bert, shop]
                return [
                    [await _is_admitted(each, one) for one in cookies] for each in (http, other)
                ]

            assert (await log_out("anna")).out == "anna is logged out\n"
            assert await admitted() == [[False, False, True, True]] * 2
            assert (await log_out("shop")).out == "shop is logged out\n"
            assert await admitted() == [[False, False, True, False]] * 2
            assert await _is_admitted(other, await _log_in(http))
            unknown = await log_out("eve")
            assert (unknown.code, "'eve' has no password" in unknown.error) == (2, True)

    asyncio.run(main())
