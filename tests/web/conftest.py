"""An application on a server inside this process."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from tests.web.asgi import Http

_numbers = itertools.count()


@pytest.fixture
def queues(runner):
    """A client of a new server."""

    async def connect():
        return AsyncRSMQ.from_url(f"memory://web{next(_numbers)}")

    queues = runner.run(connect())
    yield queues
    runner.run(queues.close())


@pytest.fixture
def http(request, runner, queues):
    """A client of an HTTP server for the queues, which asks for keys if the test has ``users``."""
    options = {"auth": False}
    if "users" in request.fixturenames:
        options = {"auth": True, "users": request.getfixturevalue("users")}

    async def start():
        return Http(create_app(queues, **options))

    return runner.run(start())


@pytest.fixture
def run():
    """Run a coroutine function with a client of a new server, and a client of its HTTP server."""

    def run_test(test, **options):
        async def main():
            name = f"memory://web{next(_numbers)}"
            async with AsyncRSMQ.from_url(name) as queues:
                http = Http(create_app(queues, **({"auth": False} | options)))
                await test(http, queues)

        asyncio.run(main())

    return run_test
