"""The servers that all tests share, and a namespace for each test."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import itertools
import os
import signal
import time
from pathlib import Path

import hypothesis
import pytest
import redis.utils

from rsmq import RSMQ
from tests import isolation
from tests.clusters import Cluster
from tests.engines import engine_path
from tests.locales import reversed_locale
from tests.scale import SOAK, WAIT_SECONDS
from tests.sentinels import SentinelGroup
from tests.servers import Server, redis_7, redis_62

# A script that starts a program in the background makes it ignore SIGINT. Programs that tests start
# and interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine stops a process for longer than the time that Hypothesis allows for one example.
hypothesis.settings.register_profile(
    "tests",
    hypothesis.settings.default,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tests")

# redis-py reads its own version from a file for each client and for each connection.
redis.utils.get_lib_version = functools.cache(redis.utils.get_lib_version)

_numbers = itertools.count()
_FOLDER = Path(__file__).parent

#: The backends of scripts/test --quick. The same tests run on other backends in the full run.
_QUICK_BACKENDS = {None, "redis", "memory"}
#: The settings of a client that is passed in, the rights of users, the oldest server, the embedded
#: one and each kind of cluster are tested with one face each; the soak does both.
_REPEATED = {
    ("memory", "asyncio"),
    ("cluster", "asyncio"),
    ("cluster, valkey-9.1", "sync"),
    ("redis-py, decoding, RESP2", "asyncio"),
    ("redis-py, RESP3", "sync"),
    ("acl", "asyncio"),
    ("redis-6.2", "sync"),
}
#: Here the commands depend on the client, not only on the scripts.
_NOT_REPEATED_FILES = {"test_waiting.py", "test_consuming.py"}
#: The face that the tests marked one_face have on each engine; the soak runs both on each.
_FACES = {"redis-7.0": "sync", "valkey-9.1": "asyncio"}
_BOTH_FACES = {"acl", "redis-6.2", "memory"}
_SERVERLESS_FOLDERS = {"typing", "unit"}
_SLOW_FOLDERS = {"workers/processes", "spark/session"}
_FOREIGN_FIXTURES = {"answering_rfq"}


def _params(item):
    return (getattr(item, "callspec", None) and item.callspec.params) or {}


def _backend(item):
    """Return the kind of server of a test; some files have it as the parameter of ``env``."""
    params = _params(item)
    return params.get("backend", params.get("env"))


def _marks(item):
    folder = item.path.parent.relative_to(_FOLDER).as_posix()
    backend = _backend(item)
    if folder not in _SERVERLESS_FOLDERS and backend != "memory":
        yield "redis"
    if folder in _SLOW_FOLDERS or backend not in _QUICK_BACKENDS:
        yield "slow"
    if _FOREIGN_FIXTURES & set(item.fixturenames):
        yield "foreign"
    if folder == "spark/session":
        yield "spark"
    if folder == "browser":
        yield "browser"


def _is_repeated(item):
    """Return whether a test would only repeat what the same test on another server shows."""
    values, backend = _params(item), _backend(item)
    # HTTP has checks of its own.
    if item.get_closest_marker("refused") and backend not in {None, "redis", "http"}:
        return True
    if item.path.name in _NOT_REPEATED_FILES and backend in _BOTH_FACES:
        return False
    if item.get_closest_marker("one_face") and not SOAK:
        return values["place"] != _FACES[values["engine"]]
    return not SOAK and (backend, values.get("mode")) in _REPEATED


def pytest_configure(config):
    isolation.register(config)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine function, in the event loop of its fixtures."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    values = {name: pyfuncitem.funcargs[name] for name in names}
    pyfuncitem._request.getfixturevalue("runner").run(pyfuncitem.obj(**values))
    return True


@pytest.fixture
def runner():
    """The event loop of a test that is a coroutine function, and of its fixtures."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep garbage collections from visiting all tests: that takes as long as the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config, items):
    """Mark each test with the servers and systems that it needs."""
    for item in items:
        if _FOLDER in item.path.parents:
            for mark in _marks(item):
                item.add_marker(mark)
    repeated = [item for item in items if _is_repeated(item)]
    if repeated:
        config.hook.pytest_deselected(items=repeated)
        left_out = set(repeated)
        items[:] = [item for item in items if item not in left_out]


def _run_server(binary, *options):
    server = Server(binary, *options)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def server():
    """The Redis that the system has installed."""
    yield from _run_server(redis_7())


@pytest.fixture(scope="session")
def old_server(tmp_path_factory):
    """
    Redis 6.2, the oldest supported version, in a locale that orders characters in reverse.

    Redis takes the order of characters from its environment, and Lua compares strings by it.
    """
    environment = reversed_locale(tmp_path_factory.mktemp("locale"))
    started = Server(redis_62(), environment=environment)
    with started.raw() as raw:
        assert raw.eval("return {'b' < 'a', 'a' < 'b'}", 0) == [1, None], "another locale"
    yield started
    started.stop()


@pytest.fixture(scope="session")
def cluster_server():
    """A Redis Cluster of one node that has all slots."""
    started = Server(redis_7(), "--cluster-enabled", "yes")
    with started.raw() as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        deadline = time.monotonic() + WAIT_SECONDS
        while b"cluster_state:ok" not in raw.execute_command("CLUSTER", "INFO"):
            assert time.monotonic() < deadline, "the cluster does not become ready"
            time.sleep(0.05)
    yield started
    started.stop()


def run_group(group):
    group.start()
    yield group
    group.stop()


@pytest.fixture(scope="session")
def cluster():
    """A Redis Cluster of 3 masters and 3 replicas. A test that breaks it calls ``heal``."""
    yield from run_group(Cluster(redis_7()))


def run_cluster_of(engine, **options):
    binary = engine_path(engine)
    if binary is None:
        pytest.skip(f"{engine} is not installed: run scripts/setup")
    yield from run_group(Cluster(binary, **options))


@pytest.fixture(scope="session")
def valkey_cluster():
    """The same with Valkey 9.1, if it is installed."""
    yield from run_cluster_of("valkey-9.1")


@pytest.fixture(scope="session")
def valkey_81_cluster():
    """The same with Valkey 8.1, if it is installed."""
    yield from run_cluster_of("valkey-8.1")


@pytest.fixture(scope="session")
def redis_82_cluster():
    """The same with Redis 8.2, if it is installed."""
    yield from run_cluster_of("redis-8.2")


@pytest.fixture(scope="session")
def sentinels():
    """A primary, a replica and 3 Sentinels. A test that breaks them calls ``heal``."""
    yield from run_group(SentinelGroup(redis_7()))


@pytest.fixture
def ns(server):
    """A namespace for this test. Its keys are removed afterwards."""
    name = f"t{next(_numbers)}-{os.getpid()}"
    yield name
    with server.raw() as raw:
        keys = raw.keys(f"{name}:*")
        if keys:
            raw.unlink(*keys)


@pytest.fixture
def raw(server):
    with server.raw() as raw:
        yield raw


@pytest.fixture
def rsmq(server, ns):
    with RSMQ.from_url(server.url, ns=ns) as rsmq:
        yield rsmq


@pytest.fixture
def cli(monkeypatch, server, ns):
    """The program ``rsmq`` with the namespace of the test. Call it with arguments."""
    from tests.program import Program

    return Program(monkeypatch, server.url, ns)
