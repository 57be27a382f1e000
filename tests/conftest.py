"""The servers that all tests share."""

from __future__ import annotations

import time

import pytest

from tests.servers import Server, redis_7, redis_62


def _started(binary, *options):
    server = Server(binary, *options)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def server():
    """The system's Redis."""
    yield from _started(redis_7())


@pytest.fixture(scope="session")
def old_server():
    """Redis 6.2, the oldest that is supported."""
    yield from _started(redis_62())


@pytest.fixture(scope="session")
def cluster_server():
    """A Redis Cluster of one node that has all slots."""
    started = Server(redis_7(), "--cluster-enabled", "yes")
    with started.raw() as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        deadline = time.monotonic() + 10
        while b"cluster_state:ok" not in raw.execute_command("CLUSTER", "INFO"):
            assert time.monotonic() < deadline, "the cluster does not become ready"
            time.sleep(0.05)
    yield started
    started.stop()
