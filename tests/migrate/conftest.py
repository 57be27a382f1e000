"""The foreign systems that people come from, on the servers that all tests share."""

from __future__ import annotations

import pytest

from tests.migrate.redisrq import RedisRQ
from tests.migrate.rfq import Rfq


@pytest.fixture
def topic(raw, ns):
    """A topic of rfq of the test's own, removed after it."""
    yield f"{ns}-topic"
    for key in raw.scan_iter(f"rfq:{ns}-*"):
        raw.unlink(key)


@pytest.fixture
def rfq(server, topic):
    """The real rfq; see Rfq."""
    rfq = Rfq(server.port)
    yield rfq
    rfq.close()


@pytest.fixture
def redisrq():
    """A server that speaks RedisRQ's commands; see RedisRQ."""
    server = RedisRQ()
    yield server
    server.close()
