"""
The environments of the contract tests: each kind of server, through each of both clients.

The fixture ``env`` has the client, the raw keys, and a way to let time pass.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from contextlib import contextmanager

import freezegun
import pytest
import redis
import redis.asyncio

from rsmq import RSMQ, AsyncRSMQ
from rsmq.transport import memory
from rsmq.vocabulary.calls import BY_NAME, User
from tests.blocking import Blocking
from tests.clusters import Cluster, slot_of
from tests.conftest import run_cluster_of, run_group
from tests.contract.over_http.adapter import HttpClient
from tests.contract.over_http.left_out import leaves_out
from tests.scale import SOAK
from tests.servers import redis_7

_numbers = itertools.count()

#: The commands that each role needs. docs/security.md has the same ones, and a test compares them.
PRODUCER = "+eval +evalsha +script|load +time +hmget +zadd +hset +hincrby"
NOTIFY = "+publish +zcard"
FRONT = "+zrangebyscore"
FLOWS = "+zremrangebyrank"  # beside those of tracked messages
DEDUP = "+hget +hdel +hscan +pttl +pexpire"
UNIQUE = "+hget +hdel +hexists +hrandfield +zscore"
CONSUMER = f"{PRODUCER} +hget +hdel +zrem +zscore +zrangebyscore +zrangebylex"
WAITING = "+client|tracking +sismember"
GROUPS = "+hlen +zcard +zrem +zrangebylex"
JOBS = "+scan +pexpire"
SWEEPS = "+hlen +hscan +hrandfield +zlexcount +zmscore"
MANAGING = "+hsetnx +sadd +srem +smembers +unlink +zcard +zcount +zrange +hexists"
ADMIN = f"{CONSUMER} {MANAGING} {JOBS} {SWEEPS}"

_ROLES = {User.PRODUCER: "producer", User.CONSUMER: "consumer", User.ADMINISTRATOR: "admin"}


class ClientOfRoles:
    """A client that makes each call as the user whose role needs it."""

    def __init__(self, clients):
        self._clients = clients

    def __getattr__(self, name):
        user = BY_NAME[name].user if name in BY_NAME else User.ADMINISTRATOR
        return getattr(self._clients[_ROLES[user]], name)


@functools.cache
def _slots_of_nodes(cluster):
    return [(node, node.own_entry()) for node in cluster.masters]


def _node_of(cluster, ns):
    return next(node for node, own in _slots_of_nodes(cluster) if own.has_slot(slot_of(ns)))


class Env:
    """
    A namespace of a server, and a client of it.

    Attributes:
        raw: a client of redis-py for the server that has the namespace. These tests move no slot.
    """

    def __init__(self, backend, mode, request):
        self.backend = backend
        is_cluster = backend in CLUSTERS
        self.ns = f"{{t{next(_numbers)}}}" if is_cluster else f"t{next(_numbers)}"
        self._mode = mode
        self._runner = asyncio.Runner() if mode == "asyncio" else None
        self._frozen = None
        self._closing = []
        self._of_http = []
        if backend == "memory":
            self.url = f"memory://{self.ns}"
            self.raw = memory.client(self.url)
        elif is_cluster:
            cluster = request.getfixturevalue(CLUSTERS[backend])
            self.url = cluster.url
            self.server = _node_of(cluster, self.ns)
            self.raw = self.server.raw()
        else:
            name = "old_server" if backend == "redis-6.2" else "server"
            self.server = request.getfixturevalue(name)
            self.url = self.server.url
            self.raw = self.server.raw()
        self._closing.append(self.raw.close)
        self.rsmq = self.client()

    def method(self, name):
        """Return how the errors of the client call a method."""
        return BY_NAME[name].route if self.backend == "http" else name

    def client(self, **options):
        """Return another client of the same namespace."""
        options = {"ns": self.ns, **options}
        if self.backend == "acl":
            return ClientOfRoles({role: self._as_user(role, options) for role in ACL_RULES})
        if self.backend == "redis-py, decoding, RESP2":
            kinds = (redis.Redis, redis.asyncio.Redis)
            return self._wrap(
                kinds, options, port=self.server.port, decode_responses=True, protocol=2,
                encoding="latin-1",
            )  # fmt: skip
        if self.backend == "redis-py, RESP3":
            kinds = (redis.Redis, redis.asyncio.Redis)
            return self._wrap(kinds, options, port=self.server.port, protocol=3)
        return self._open(self.url, options)

    def _as_user(self, role, options):
        user = f"{self.ns}-{role}"
        rule = ACL_RULES[role].split()
        self.raw.execute_command(
            "ACL", "SETUSER", user, "on", ">secret", f"~{self.ns}:*", f"&{self.ns}:rt:*",
            "-@all", *rule,
        )  # fmt: skip
        url = f"redis://{user}:secret@127.0.0.1:{self.server.port}/0"
        return self._open(url, options)

    def _open(self, url, options):
        if self._runner is None:
            client = RSMQ.from_url(url, **options)
            self._closing.append(client.close)
            return client
        inner = AsyncRSMQ.from_url(url, **options)
        if self.backend == "http":
            inner = HttpClient(inner, options.get("codec"))
            self._of_http.append(inner)
        client = Blocking(self._runner, inner)
        self._closing.append(client.close)
        return client

    def _wrap(self, kinds, options, **connection):
        if self._runner is None:
            inner = kinds[0](**connection)
            client = RSMQ(inner, **options)
            self._closing += [client.close, inner.close]
            return client

        async def make():
            return kinds[1](**connection)

        inner = self._runner.run(make())
        client = Blocking(self._runner, AsyncRSMQ(inner, **options))
        self._closing += [client.close, lambda: self._runner.run(inner.aclose())]
        return client

    def elapse(self, qname, seconds):
        """Let time pass: by the clock of the process in ``memory://``, otherwise by the scores."""
        if self.backend == "memory":
            if self._frozen is None:
                self._freezer = freezegun.freeze_time(real_asyncio=True)
                self._frozen = self._freezer.start()
            self._frozen.tick(seconds)
            return
        for id, score in self.raw.zrange(self.zset(qname), 0, -1, withscores=True):
            self.raw.zadd(self.zset(qname), {id: score - seconds * 1000})

    def zset(self, qname):
        return f"{self.ns}:{qname}"

    def hash(self, qname):
        return f"{self.ns}:{qname}:Q"

    def fields(self, qname):
        """Return all fields of the hash of a queue, as text."""
        stored = self.raw.hgetall(self.hash(qname))
        return {name.decode(): value.decode("utf-8", "replace") for name, value in stored.items()}

    def scores(self, qname):
        """Return the score of each id in the sorted set of a queue."""
        stored = self.raw.zrange(self.zset(qname), 0, -1, withscores=True)
        return {id.decode(): score for id, score in stored}

    def state(self):
        """Return the content of every key of the namespace, to check that nothing changed."""
        dump = {}
        audit = f"{self.ns}:x:audit".encode()  # HTTP records calls, refused ones too
        for key in sorted(each for each in self.raw.keys(f"{self.ns}:*") if each != audit):
            kind = self.raw.type(key)
            dump[key] = {
                b"hash": self.raw.hgetall,
                b"zset": lambda key: self.raw.zrange(key, 0, -1, withscores=True),
                b"set": lambda key: sorted(self.raw.smembers(key)),
                b"string": self.raw.get,
            }[kind](key)
        return dump

    @contextmanager
    def full(self):
        """Run the block while the memory of the server is full. Not for ``memory://``."""
        with self.server.raw() as raw:
            raw.config_set("maxmemory", 1)
            try:
                yield
            finally:
                raw.config_set("maxmemory", 0)

    def now_ms(self):
        """Return the time of the server in milliseconds."""
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def send_as_apalis(self, queue, body="m"):
        """Store a message as apalis-rsmq does: its id is lower case, and it has a ``:meta``."""
        id = "h0pefu1000" + "a" * 22
        self.raw.hset(self.hash(queue), mapping={id: body, f"{id}:meta": "apalis"})
        self.raw.zadd(self.zset(queue), {id: self.now_ms() - 1})
        return id

    def has_sent_requests(self):
        """Return whether a client has sent a request over HTTP."""
        return any(each.requests for each in self._of_http)

    def close(self):
        if self._frozen is not None:
            self._freezer.stop()
        for close in reversed(self._closing):
            close()
        if self._runner is not None:
            self._runner.close()


ACL_RULES = {
    "producer": f"{PRODUCER} {NOTIFY} {FRONT} {DEDUP} {UNIQUE} {GROUPS} {FLOWS}",
    "consumer": f"{CONSUMER} {WAITING}",
    "admin": ADMIN,
}

#: The backends that are Redis Clusters, and their fixtures.
CLUSTERS = {"cluster": "cluster", "cluster, valkey-9.1": "valkey_cluster"}
if SOAK:
    CLUSTERS |= {
        "cluster, valkey-8.1": "valkey_81_cluster",
        "cluster, redis-8.2": "redis_82_cluster",
    }

BACKENDS = [
    "redis",
    "redis-6.2",
    *CLUSTERS,
    "acl",
    "redis-py, decoding, RESP2",
    "redis-py, RESP3",
    "http",
    "memory",
]


@pytest.fixture(scope="session")
def cluster():
    """A Redis Cluster without replicas: here no server fails, and each one takes time."""
    yield from run_group(Cluster(redis_7(), replicas=0))


@pytest.fixture(scope="session")
def valkey_cluster():
    yield from run_cluster_of("valkey-9.1", replicas=0)


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture(params=["sync", "asyncio"])
def mode(request):
    return request.param


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that are not run over HTTP."""
    kept = [item for item in items if not leaves_out(item)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if leaves_out(item)])
        items[:] = kept


@pytest.fixture
def env(backend, mode, request):
    env = Env(backend, mode, request)
    yield env
    env.close()
    if backend == "http":
        assert env.has_sent_requests(), "it calls no route: add it to over_http/left_out.py"


@pytest.fixture
def rsmq(env):
    return env.rsmq


@pytest.fixture
def queue(env):
    """The name of a queue with default attributes."""
    env.rsmq.create_queue("q")
    return "q"


@pytest.fixture
def limited(env):
    """A function that opens a client with access to only these keys and commands."""

    def as_user(keys, commands):
        user = f"{env.ns}-limited"
        env.raw.execute_command(
            "ACL", "SETUSER", user, "on", ">secret", *(f"~{key}" for key in keys),
            "-@all", *commands.split(),
        )  # fmt: skip
        url = f"redis://{user}:secret@127.0.0.1:{env.server.port}/0"
        return env._open(url, {"ns": env.ns})

    return as_user
