"""What every page of the table does, whatever pages there are."""

import asyncio
import gzip
import threading
from contextlib import contextmanager

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.pages.actions import ACTIONS
from rsmq.web.pages.views import PAGES
from tests.scale import SOAK, WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.web.asgi import Http
from tests.web.crawling import crawl, forms_of, page_paths, shape_of
from tests.web.planting import Planting
from tests.web.test_servers import HARMLESS

_ACTIONS = {each.name: each for each in ACTIONS}


def _with_site(server, ns, test, retry_deadline=5.0, **options):
    """Run a coroutine function with a client of a server that has pages."""

    async def run():
        async with AsyncRSMQ.from_url(server.url, ns=ns, retry_deadline=retry_deadline) as queues:
            app = create_app(queues, auth=False, **options)
            await test(Http(app, prefix="", headers={"accept": "text/html"}))

    asyncio.run(run())


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "empty"])
def test_every_link_of_every_page_answers(server, ns, is_full):
    names = Planting(server, ns).plant() if is_full else []

    async def test(http):
        visited = {}
        async for path, reply in crawl(http, ["/", *page_paths(names)]):
            assert reply.status == 200, path
            visited[path] = reply
            if reply.headers.get("content-type", "").startswith("text/html"):
                _check_forms(reply.content.decode())
        pages = {shape_of(path)[0] for path in visited}
        if is_full:
            assert {page.path for page in PAGES} <= pages

    _with_site(server, ns, test)


def _check_forms(text):
    """Each form of an action has the fields that the action declares, and no others."""
    for path, names in forms_of(text):
        if path.startswith("/actions/"):
            action = _ACTIONS[path.removeprefix("/actions/")]
            action.check_fields({name: [""] for name in names}, is_form=True)


def test_an_empty_page_names_the_command_that_fills_it(server, ns):
    async def test(http):
        for page in PAGES:
            if page.menu:
                text = (await http("GET", page.path)).content.decode()
                assert "<code>rsmq" in text, page.path

    _with_site(server, ns, test)


def test_the_menu_leads_to_every_page(server, ns):
    """No page is known only to those who know its address."""
    Planting(server, ns).plant()

    async def test(http):
        found = {shape_of(path)[0] async for path, _ in crawl(http, ["/"])}
        assert {page.path for page in PAGES} - found == set()

    _with_site(server, ns, test)


#: Keys of a script, so that it holds Redis for about half a ms: those of 150 queues that are
#: sorted. Of a queue whose state, attributes or activity are read, more is read; of 50 at once.
_MOST_KEYS = 300


def _count_keys(command):
    """Return the number of keys of a script; 0 for another command."""
    name, *words = command.split(" ", 3)
    return int(words[1]) if name == "EVALSHA" else 0


@contextmanager
def _watching(server, ns, *, in_scripts=False):
    """
    Yield a list that has all commands of clients that name a key of a namespace, at the end.

    Args:
        in_scripts: whether it also has those that scripts run.
    """
    found, ready = [], threading.Event()

    def watch():
        with server.raw(socket_timeout=None) as raw, raw.monitor() as monitor:
            ready.set()
            for entry in monitor.listen():
                if entry["command"] == f"ECHO {ns}":
                    return
                is_wanted = in_scripts or entry["client_type"] != "lua"
                if is_wanted and ns in entry["command"]:
                    found.append(entry["command"])

    thread = threading.Thread(target=watch)
    thread.start()
    assert ready.wait(WAIT_SECONDS)
    try:
        yield found
    finally:
        with server.raw() as raw:
            raw.echo(ns)
        thread.join(WAIT_SECONDS)


@pytest.mark.parametrize(
    ("number", "most", "most_of_overview"),
    [
        (1000, 12, 40),
        pytest.param(
            10_000, 105, 290, marks=pytest.mark.skipif(not SOAK, reason="seconds; RSMQ_SOAK=1")
        ),
    ],
)
def test_a_page_of_many_queues_is_small_and_takes_few_short_commands(
    server, ns, number, most, most_of_overview
):
    with RSMQ.from_url(server.url, ns=ns) as queues:
        for each in range(number):
            queues.create_queue(f"orders-of-shop-number-{each}")

    async def load_scripts(http):
        for path in most_commands:
            await http("GET", path)

    async def test(http):
        for path, most_of_page in most_commands.items():
            with _watching(server, ns) as commands:
                reply = await http("GET", path, headers={"accept-encoding": "gzip"})
            assert reply.status == 200
            assert len(reply.content) <= 80 * 1024, path
            shown = f"{number:,} queues looked at" if path == "/" else "orders-of-shop-number-"
            assert shown.encode() in gzip.decompress(reply.content)
            assert len(commands) <= most_of_page, commands
            assert max(map(_count_keys, commands)) <= _MOST_KEYS

    most_commands = {"/queues": most, "/queues?sort=name": most, "/": most_of_overview}
    _with_site(server, ns, load_scripts)
    _with_site(server, ns, test)


def test_a_hundred_people_cost_redis_what_one_does(server, ns, monkeypatch):
    # On a slow machine, too.
    monkeypatch.setattr("rsmq.web.pages.reads.REFRESH_SECONDS", 600)
    monkeypatch.setattr("rsmq.web.walks._MIN_SECONDS", 60)
    Planting(server, ns).plant()
    counts = {}

    def measure(people):
        async def test(http):
            paths = [page.path for page in PAGES if page.menu] * people
            with _watching(server, ns) as commands:
                replies = await asyncio.gather(*(http("GET", path) for path in paths))
            counts[people] = len(commands)
            assert {reply.status for reply in replies} == {200}

        _with_site(server, ns, test)

    measure(2)  # which also loads the scripts
    measure(1)
    measure(100)
    assert 1 <= counts[100] <= counts[1] * 1.05


def test_without_redis_a_page_shows_what_it_has_seen_last():
    server = Server(redis_7())

    async def test(http):
        crawling = crawl(http, page_paths(names[:1]), alike=1, views=False)
        found = {shape_of(path)[0]: path async for path, _ in crawling}
        seen = [(path, await http("GET", path)) for path in found.values()]
        server.kill()
        live = {page.path for page in PAGES if page.refreshes}
        for path, before in seen:
            if before.status == 200 and shape_of(path)[0] in live:
                await _until_stale(http, path)
            assert (await http("GET", path)).status in {200, 503}, path
        never_seen = await http("GET", "/queues?q=never-seen-before")
        assert never_seen.status == 503
        assert "<main" in never_seen.content.decode()

    try:
        names = Planting(server, "rsmq").plant()
        _with_site(server, "rsmq", test, retry_deadline=0.1)
    finally:
        server.stop()


async def _until_stale(http, path):
    """Wait until a page says that Redis is away."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            reply = await http("GET", path)
            assert reply.status == 200, path
            if "Redis is away" in reply.content.decode():
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("read_only", [True, False], ids=["read-only", "writable"])
def test_no_page_and_no_confirmation_writes_anything(server, ns, monkeypatch, read_only):
    """Also on a server that may write, but for the doctor, which tries commands there."""
    names = Planting(server, ns).plant()[::3]
    if not read_only:
        monkeypatch.setattr("rsmq.doctor.examination.find_missing_rights", lambda *_: [])

    async def test(http):
        with _watching(server, ns, in_scripts=True) as commands:
            async for path, reply in crawl(http, ["/", *page_paths(names)], alike=1):
                is_action = path.startswith("/actions/")
                assert reply.status == (403 if is_action and read_only else 200), path
        assert commands
        assert {each.split()[0].lower() for each in commands} - HARMLESS == set()

    _with_site(server, ns, test, read_only=read_only)
