"""One Chromium for each process of tests, and servers with pages."""

import asyncio
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

import pytest

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from tests.browser.chromium import Chromium
from tests.browser.hostile import BODIES, TEXTS
from tests.browser.serving import serving
from tests.nodes import wait_until
from tests.scale import SOAK
from tests.servers import Server, redis_7
from tests.web.asgi import Http
from tests.web.crawling import crawl, page_paths, shape_of
from tests.web.planting import Planting


@dataclass
class Site:
    """
    A server with pages.

    Attributes:
        address: of the server, without a slash at its end.
        paths: of each view of each page, or of one view of each.
        server: its Redis.
    """

    address: str
    paths: list
    server: Server

    @property
    def pages(self):
        """One of the paths for each page."""
        return list({shape_of(path)[0]: path for path in reversed(self.paths)}.values())


def _find_views(url, starts, *, views):
    async def find():
        async with AsyncRSMQ.from_url(url, strict_names=False) as queues:
            app = create_app(queues, auth=False)
            http = Http(app, prefix="", headers={"accept": "text/html"})
            crawling = crawl(http, ["/", *starts], alike=1, views=views)
            found = [each async for each in crawling]
        assert {reply.status for _, reply in found} <= {200, 404, 422}, found
        is_page = "text/html".__eq__
        return [
            path
            for path, reply in found
            if is_page(reply.headers["content-type"].partition(";")[0]) and "/api/" not in path
        ]

    return asyncio.run(find())


@contextmanager
def _site(names_of=lambda server: (), *, views=SOAK, **options):
    server = Server(redis_7())
    try:
        paths = page_paths(names_of(server))
        with serving(server.url, **options) as address:
            yield Site(address, _find_views(server.url, paths, views=views), server)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def chromium():
    browser = Chromium()
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def empty_site():
    with _site() as site:
        yield site


@pytest.fixture(scope="session")
def busy_site():
    """Of each kind of messages, the pages of the first one."""

    def plant(server):
        names = Planting(server, "rsmq").plant()
        return list({each["queue"]: each for each in reversed(names)}.values())[:2:-1]

    with _site(plant, views=True) as site:
        yield site


@pytest.fixture(scope="session")
def site_without_redis():
    """The Redis of the server has ended after the first look at each page."""
    planted = _site(lambda server: Planting(server, "rsmq").plant()[:1], retry_deadline=0.1)
    with planted as site:
        for path in site.paths:
            wait_until(lambda path=path: _is_read(site.address + path))
        site.server.kill()
        yield site


def _is_read(url):
    """Return whether a page was read: on a slow machine Redis seems to be away for a moment."""
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            return reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.status != HTTPStatus.SERVICE_UNAVAILABLE


def _plant_hostile(server):
    names = Planting(server, "rsmq", TEXTS, BODIES, is_odd=True).plant()
    messages, odd = names[: len(BODIES) + 9], names[len(BODIES) + 9 :]
    if not SOAK:  # other pages and lists show each value anyway
        messages, odd = messages[::6], odd[::24]
    return [*messages, *odd, {**names[0], "queue": "broken"}]


@pytest.fixture(scope="session")
def hostile_site():
    with _site(_plant_hostile, views=True) as site:
        yield site
