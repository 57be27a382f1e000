"""The clients of the suite, one process each, and the matrix of the results."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from compat import matrix, recordings
from compat.peers import PEERS, Node, Ours
from tests import isolation
from tests.conftest import server  # noqa: F401 - a fixture

_numbers = itertools.count()


def pytest_collection_modifyitems(items):
    """Mark each test with the software that it needs."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("redis")
            item.add_marker("foreign")


def pytest_configure(config):
    config.addinivalue_line("markers", "proves(*operations): what the matrix says of the client")
    config.addinivalue_line("markers", "adds(*features): what the matrix says of this library")
    config.pluginmanager.register(matrix.Results(config), "matrix")
    isolation.register(config)


@pytest.fixture(scope="session")
def peers(server):  # noqa: F811 - the fixture
    """Return a function that starts each client of the suite at its first use."""
    started = {}

    def get(kind):
        if kind not in started:
            started[kind] = kind(server, "unused")
        return started[kind]

    yield get
    for peer in started.values():
        peer.close()


@pytest.fixture
def ns(server):  # noqa: F811 - the fixture
    """Return a namespace for this test; the fixture deletes its keys at the end."""
    name = f"c{next(_numbers)}"
    yield name
    with server.raw() as raw:
        for key in raw.scan_iter(f"{name}:*"):
            raw.delete(key)


@pytest.fixture
def keys(server, ns):  # noqa: F811 - the fixture
    """Return the raw keys of the namespace."""
    with server.raw() as raw:
        yield Keys(raw, ns)


class Keys:
    """The stored keys, whichever client wrote them."""

    def __init__(self, raw, ns):
        self.raw = raw
        self.ns = ns

    def fields(self, qname):
        return self.raw.hgetall(f"{self.ns}:{qname}:Q")

    def scores(self, qname):
        return dict(self.raw.zrange(f"{self.ns}:{qname}", 0, -1, withscores=True))

    def names(self):
        return {member.decode() for member in self.raw.smembers(f"{self.ns}:QUEUES")}

    def list_keys(self):
        return sorted(self.raw.keys(f"{self.ns}:*"))

    def advance_time(self, qname, seconds):
        """Let time pass for the messages of a queue, by moving their scores into the past."""
        for id, score in self.scores(qname).items():
            self.raw.zadd(f"{self.ns}:{qname}", {id: score - seconds * 1000})

    def now_ms(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000


@pytest.fixture
def our_client(server, ns):  # noqa: F811 - the fixture
    """Return this library's client, in the test's namespace."""
    client = Ours(server, ns)
    yield client
    client.close()


@pytest.fixture
def node(peers, ns):
    """Return Node's client, the reference, in the test's namespace."""
    peer = peers(Node)
    peer.ns = ns
    yield peer
    peer.close_clients(ns)


@pytest.fixture(params=PEERS, ids=lambda kind: kind.name)
def peer(request, peers, ns):
    """Return each foreign client in turn, in the test's namespace."""
    client = peers(request.param)
    client.ns = ns
    matrix.record_version(request, client.name, client.version)
    yield client
    client.close_clients(ns)


@pytest.fixture(params=["ours, theirs", "theirs, ours"])
def pair(request, peer, our_client):
    """Return this library's client and a foreign client, in both orders."""
    mark = request.node.get_closest_marker("proves")
    for operation in mark.args if mark else ():
        matrix.record_proof(request, peer.name, operation, request.param)
    return (our_client, peer) if request.param == "ours, theirs" else (peer, our_client)


@pytest.fixture
def other_client(request, peer):
    """Return each foreign client, which shows the effect of a feature of this library."""
    for feature in request.node.get_closest_marker("adds").args:
        matrix.record_proof(request, peer.name, feature, matrix.SEEN_FEATURE)
    return peer


@pytest.fixture(params=recordings.names())
def recording(request):
    """Return the name of each recorded session in turn."""
    return request.param
