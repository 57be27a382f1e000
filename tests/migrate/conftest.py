"""The foreign systems that people come from, on the servers that all tests share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rsmq.migrate import Server
from tests.migrate.redisrq import RedisRQ
from tests.migrate.rfq import Rfq
from tests.migrate.rqueue_states import Rqueue
from tests.servers import Server as RedisServer
from tests.servers import redis_7

ROOT = Path(__file__).parents[2]


@pytest.fixture
def topic(raw, ns):
    """A topic of rfq of the test's own, removed after it."""
    yield f"{ns}-topic"
    for key in raw.scan_iter(f"rfq:{ns}-*"):
        raw.unlink(key)


@pytest.fixture(scope="session")
def answering_rfq(server):
    """The real rfq, begun once: it takes half a second."""
    rfq = Rfq(server.port)
    yield rfq
    rfq.close()


@pytest.fixture
def rfq(answering_rfq, topic):
    """The real rfq; see Rfq."""
    yield answering_rfq
    answering_rfq.end_programs()


@pytest.fixture
def redisrq():
    """A server that speaks RedisRQ's commands; see RedisRQ."""
    server = RedisRQ()
    yield server
    server.close()


@pytest.fixture
def rqueue(raw):
    """Makes Rqueues on the server, and removes at the end all that any has written."""
    before = set(raw.keys())
    yield lambda **options: Rqueue(raw, **options)
    left = set(raw.keys()) - before
    if left:
        raw.unlink(*left)


@pytest.fixture
def brpoplpush(server, ns):
    """Starts workers of the BRPOPLPUSH pattern on the test's own lists; see brpoplpush.py."""
    running = []

    def start(name="w1", events=("mail",), **options):
        given = {
            "port": server.port, "worker": f"{ns}:{name}", "work": f"{ns}:work",
            "skipped": f"{ns}:skipped", "log": f"{ns}:log", "events": events, **options,
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.migrate.brpoplpush", json.dumps(given)],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def here(server, ns):
    """The queues of the test's namespace."""
    with Server.from_url(server.url, ns=ns) as here:
        yield here


@pytest.fixture(scope="session")
def other_server():
    """A Redis beside the one that all tests share."""
    started = RedisServer(redis_7())
    yield started
    started.stop()


@pytest.fixture
def there(other_server, ns):
    """The same namespace on another server, emptied after the test."""
    with Server.from_url(other_server.url, ns=ns) as there:
        yield there
        there.raw.flushdb()


@pytest.fixture(params=["one server", "two servers"])
def target(request):
    """Where messages of the shared server go: there too, or to the other one."""
    return request.getfixturevalue("here" if request.param == "one server" else "there")
