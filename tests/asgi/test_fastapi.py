"""The parts of an application: lifespan, dependency, probes, request ids."""

from __future__ import annotations

import asyncio
import itertools
import logging
import subprocess
import sys
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

import rsmq.fastapi
from rsmq import RSMQ, AsyncRSMQ, InvalidFormat, RSMQError
from rsmq.fastapi import RequestIds, get_queues, healthz, lifespan, readyz
from rsmq.headers import HeaderFilter, current_headers
from rsmq.tasks import Tasks
from rsmq.worker import Worker

_numbers = itertools.count()


@pytest.fixture
def url():
    return f"memory://asgi-{next(_numbers)}"


def make_app(**options):
    app = FastAPI(lifespan=lifespan(**options))
    app.add_middleware(RequestIds)
    app.add_route("/healthz", healthz)
    app.add_route("/readyz", readyz)

    @app.get("/queues")
    async def read_queues(
        queues: Annotated[AsyncRSMQ, Depends(get_queues)],
    ) -> list[str]:
        return await queues.list_queues()

    return app


def test_each_start_of_an_application_has_a_client_of_its_own(url):
    opened = []

    def open_client():
        opened.append(AsyncRSMQ.from_url(url))
        return opened[-1]

    app = make_app(queues=open_client)
    RSMQ.from_url(url).create_queue("q")
    for _ in range(2):
        with TestClient(app) as client:
            assert client.get("/queues").json() == ["q"]
            assert client.get("/readyz").json() == {"ok": True, "redis": True}
            assert client.get("/healthz").json() == {"ok": True}
    assert len(opened) == 2


def test_an_application_without_a_client_says_how_to_have_one(url):
    with (
        TestClient(make_app()) as client,
        pytest.raises(RSMQError, match=r"no client in this application\. Pass FastAPI\(lifespan="),
    ):
        client.get("/queues")


def test_a_worker_runs_while_the_application_does(url):
    tasks = Tasks.from_url(url)

    @tasks.task
    async def work() -> None: ...

    worker = tasks.worker()
    app = make_app(tasks=tasks, worker=worker)

    @app.post("/")
    async def send():
        await work.asend()

    for handled in (1, 2):
        with TestClient(app) as client:
            client.post("/")
            while worker.numbers.handled < 1 or client.get("/readyz").status_code != 200:
                pass
            assert client.get("/readyz").json() == {"ok": True, "redis": True, "worker": True}
        assert not worker.health().is_running
        assert handled


def test_an_application_whose_worker_cannot_start_does_not_start(url):
    worker = Worker(RSMQ.from_url(url))

    @worker.listener("missing", retry_forever=True)
    def handle(body): ...

    with (
        pytest.raises(RSMQError, match="Queue not found: 'missing'"),
        TestClient(make_app(worker=worker)),
    ):
        pass


def test_redis_that_does_not_answer_makes_the_application_unready(unused_port):
    url = f"redis://127.0.0.1:{unused_port}/0"
    app = make_app(queues=lambda: AsyncRSMQ.from_url(url, retry_deadline=0.1))
    with TestClient(app) as client:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"ok": False, "redis": False})
        assert client.get("/healthz").status_code == 200


@pytest.fixture
def unused_port():
    from tests.ports import free_port

    return free_port()


@pytest.mark.parametrize("sent", [None, "7f3a", "a b", "", "x" * 129, "ä"])
def test_a_request_has_the_id_of_its_header_or_a_new_one(sent):
    async def answer(_request):
        record = logging.makeLogRecord({})
        HeaderFilter().filter(record)
        await asyncio.sleep(0)
        return PlainTextResponse(current_headers()["request_id"] + " " + record.request_id)

    app = Starlette()
    app.add_route("/", answer)
    app.add_middleware(RequestIds)
    headers = {} if sent is None else {"x-request-id": sent.encode()}
    response = TestClient(app).get("/", headers=headers)
    request_id, logged = response.text.split()

    assert request_id == logged == response.headers["X-Request-ID"]
    assert request_id == "7f3a" if sent == "7f3a" else len(request_id) == 32
    assert current_headers() == {}


@pytest.mark.parametrize(
    "options",
    [{"queues": "redis://"}, {"tasks": 1}, {"worker": 1}],
    ids=str,
)
def test_wrong_arguments_are_refused(options):
    with pytest.raises(InvalidFormat):
        lifespan(**options)


def test_the_rest_of_the_library_does_not_import_it():
    program = (
        "import sys, rsmq, rsmq.tasks, rsmq.worker\n"
        "print([name for name in sys.modules if name.startswith(('fastapi', 'starlette'))])\n"
        "sys.modules['starlette.requests'] = None\n"
        "try:\n"
        "    import rsmq.fastapi\n"
        "except ImportError as error:\n"
        "    print(type(error).__name__, error.value)\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert completed.stdout == "[]\nMissingExtra fastapi\n"
    assert rsmq.fastapi.__all__
