"""The foreign systems that people migrate from, on the servers that all tests share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.migrate.keyed_server import Server
from tests.migrate.redisrq import RedisRQ
from tests.migrate.rfq import Rfq
from tests.migrate.rqueue_states import Rqueue
from tests.servers import Server as RedisServer
from tests.servers import redis_7

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _no_keys_of_earlier_tests(server):
    """Remove them: tests compare all keys, and one of an earlier file may expire meanwhile."""
    with server.raw() as raw:
        raw.flushall()


@pytest.fixture
def topic(raw, ns):
    """Return an rfq topic for this test only; the fixture removes it afterwards."""
    yield f"{ns}-topic"
    for key in raw.scan_iter(f"rfq:{ns}-*"):
        raw.unlink(key)


@pytest.fixture(scope="session")
def answering_rfq(server):
    """Start the real rfq once for all tests, because that takes half a second."""
    rfq = Rfq(server.port)
    yield rfq
    rfq.close()


@pytest.fixture
def rfq(answering_rfq, topic):
    """Return the real rfq; see Rfq."""
    yield answering_rfq
    answering_rfq.end_programs()


@pytest.fixture
def redisrq():
    """Return a server that implements RedisRQ's commands; see RedisRQ."""
    server = RedisRQ()
    yield server
    server.close()


@pytest.fixture
def create_rqueue(raw):
    """
    Return a function that creates Rqueues on the server; the fixture removes their keys at the end.
    """
    before = set(raw.keys())
    yield lambda **options: Rqueue(raw, **options)
    new_keys = set(raw.keys()) - before
    if new_keys:
        raw.unlink(*new_keys)


@pytest.fixture
def start_brpoplpush_worker(server, ns):
    """Return a function that starts workers of the BRPOPLPUSH pattern on lists of this test."""
    running = []

    def start(name="w1", events=("mail",), **options):
        options_json = {
            "port": server.port, "worker": f"{ns}:{name}", "work": f"{ns}:work",
            "skipped": f"{ns}:skipped", "log": f"{ns}:log", "events": events, **options,
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.migrate.brpoplpush", json.dumps(options_json)],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def local(server, ns):
    """Return the queues of the test's namespace."""
    with Server.from_url(server.url, ns=ns) as local:
        yield local


@pytest.fixture(scope="session")
def other_server():
    """Start a second Redis."""
    started = RedisServer(redis_7())
    yield started
    started.stop()


@pytest.fixture
def remote(other_server, ns):
    """Return the same namespace on the second server; the fixture empties it afterwards."""
    with Server.from_url(other_server.url, ns=ns) as remote:
        yield remote
        remote.raw.flushdb()


@pytest.fixture(params=["one server", "two servers"])
def target(request):
    """
    Return the target of a migration from the shared server: on the same server, or on the second.
    """
    return request.getfixturevalue("local" if request.param == "one server" else "remote")
