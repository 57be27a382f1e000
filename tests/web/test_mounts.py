"""The application below a prefix of another one: in FastAPI, Django, and Flask."""

import asyncio
import itertools
import re
from urllib.parse import quote, urljoin

import a2wsgi
import fastapi
import flask
import pytest

from rsmq import AsyncRSMQ
from rsmq.jobs.flows.operations import FlowNode, FlowPlan, send_flow
from rsmq.web import create_app
from rsmq.web.bulk.manager import OperationManager, OperationRequest
from rsmq.web.bulk.records import OperationKind
from rsmq.wire.ids import make_flow_id
from tests.web.asgi import Http, Reply
from tests.web.crawling import crawl

_PREFIX = "/my queues"
_numbers = itertools.count()


def _in_fastapi(app):
    outer = fastapi.FastAPI()
    outer.mount(_PREFIX, app)
    return Http(outer, "")


def _in_django(app):
    from django.core.asgi import get_asgi_application
    from starlette.applications import Starlette
    from starlette.routing import Mount

    import tests.django.environment  # noqa: F401 - its settings

    return Http(Starlette(routes=[Mount(_PREFIX, app), Mount("/", get_asgi_application())]), "")


class _Wsgi:
    """Sends requests to a WSGI application, each in a thread, as its servers do."""

    def __init__(self, app):
        from werkzeug.test import Client

        self._client = Client(app)

    async def __call__(self, method, path, content=None, *, body=None, headers=None):
        options = {"data": body} if content is None else {"json": content}
        reply = await asyncio.to_thread(
            self._client.open, path, method=method, headers=headers, **options
        )
        names = [(name.encode(), value.encode()) for name, value in reply.headers]
        return Reply(reply.status_code, names, reply.data)


def _in_flask(app):
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    outer = flask.Flask(__name__)
    outer.wsgi_app = DispatcherMiddleware(outer.wsgi_app, {_PREFIX: a2wsgi.ASGIMiddleware(app)})
    return _Wsgi(outer)


_FRAMEWORKS = {"FastAPI": _in_fastapi, "Django": _in_django, "Flask": _in_flask}


@pytest.fixture(params=list(_FRAMEWORKS))
def mount(request):
    """Return a client of an application in a framework; its queues are in this process."""
    names = {}

    def make(name, **options):
        url = names.setdefault(name, f"memory://mount{next(_numbers)}")
        app = create_app(url, auth=False, **options)
        return _FRAMEWORKS[request.param](app), url

    return make


async def _fill(url):
    """Make what paths name, and return the names."""
    async with AsyncRSMQ.from_url(url) as queues:
        for name in ("q", "r", "s"):
            await queues.create_queue(name)
            ids = await queues.send_messages(name, ["a", "b"], track=True)
        await queues.set_dead_letter_policy("s", "r", 3)
        await queues.schedules.add("s", queue="q", body="a", every=60)
        request = OperationRequest(OperationKind.SWEEP, "s")
        operation = await OperationManager(queues).begin(request, creator="a", address="")
        flow = make_flow_id(None)
        body = b'{"task":"t","flow":{"id":"%b"}}' % flow.encode()
        plan = FlowPlan(flow, [FlowNode("q", body, 1, (), ())])
        await queues.run(send_flow(queues.namespace, plan, realtime=False))
        return {
            "queue": name, "id": ids[0], "schedule": "s", "worker": "w", "subscriber": "s",
            "operation": operation.id, "flow": flow, "target": "t", "kind": "paused",
        }  # fmt: skip


def test_a_crawler_finds_no_404_below_a_prefix(mount):
    """It follows the links of the page, each path of the document, and each next page."""

    async def test():
        _, url = mount("one")
        names = await _fill(url)
        http, _ = mount("one", read_only=True)  # which refuses what changes something, with 403
        start = quote(_PREFIX)
        page = await http("GET", f"{start}/api/v1/docs")
        assert f"<code>{start}/api/v1</code>" in page.content.decode()
        links = re.findall(r'(?:href|src)="([^"#]+)"', page.content.decode())
        assert links
        found = {link: await http("GET", urljoin(f"{start}/api/v1/docs", link)) for link in links}
        assert {each.status for each in found.values()} == {200}, found
        document = found["openapi.json"].json
        base = document["servers"][0]["url"]
        assert base == f"{start}/api/v1"
        statuses = set()
        for path, methods in document["paths"].items():
            if path.endswith("/tail") and isinstance(http, _Wsgi):
                continue  # it has no end, and a2wsgi does not notice that its client leaves
            for method in methods:
                if path.endswith("/tail"):  # which ends when its client leaves, not over WSGI
                    continue
                needed = "&".join(
                    f"{each['name']}=x"
                    for each in methods[method].get("parameters", ())
                    if each["in"] == "query" and each.get("required")
                )
                found = await http(method.upper(), f"{base}{path.format_map(names)}?{needed}")
                assert found.status in {200, 403, 404}, path
                # Worker and subscriber are not there, and only their own problems say so.
                has_other = "{worker}" in path or "{subscriber}" in path
                assert found.status != 404 or has_other, (method, path)
                statuses.add(found.status)
        assert {200, 403} <= statuses
        seen, following = [], f"{base}/queues?limit=1"
        while following:
            part = (await http("GET", following)).json
            seen += [each["name"] for each in part["queues"]]
            cursor = part["cursor"]
            following = cursor and f"{base}/queues?limit=1&cursor={quote(cursor, safe='')}"
        assert seen == ["q", "r", "s"]
        for path in ("/healthz", "/readyz", "/metrics", "/rest-rsmq/queues"):
            assert (await http("GET", start + path)).status == 200
        for path in ("/api/v1", "/rest-rsmq", "/metrics/"):  # none is redirected to its sibling
            assert (await http("GET", start + path)).status == 404

    asyncio.run(test())


async def test_a_crawler_finds_every_page_below_a_prefix(mount):
    http, url = mount("pages")
    await _fill(url)
    start = quote(_PREFIX)
    visited = []
    async for path, reply in crawl(http, [f"{start}/"], prefix=start):
        assert path.startswith(f"{start}/")
        assert reply.status == 200, path
        visited.append(path)
    assert any(path.startswith(f"{start}/queues/q") for path in visited)


async def test_a_receive_below_a_prefix_waits_for_a_message(mount):
    http, url = mount("one")
    base = f"{quote(_PREFIX)}/api/v1"
    assert (await http("PUT", f"{base}/queues/q", {})).status == 201
    content = {"queues": ["q"], "wait": 30}
    waiting = asyncio.create_task(http("POST", f"{base}/receive", content))
    async with AsyncRSMQ.from_url(url) as queues:
        await asyncio.sleep(0.05)
        await queues.send_message("q", "a")
    found = (await waiting).json["messages"]
    assert [each["body"] for each in found] == ["a"]
    headers = {"content-type": "application/octet-stream"}
    sent = await http("POST", f"{base}/queues/q/raw", body=b"\0" * 70_000, headers=headers)
    assert (sent.status, sent.json.get("code")) == (413, "messageTooLong")
