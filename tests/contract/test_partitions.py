"""Partitions: the same queues in several namespaces, among which a key chooses."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import redis
import redis.asyncio

from rsmq import (
    JSON,
    RSMQ,
    AsyncPartitions,
    ClientClosed,
    InvalidFormat,
    MissingParameter,
    Partitions,
    QueueExists,
    QueueNotFound,
)
from rsmq.wire.partitions import names_of_partitions, partition_of_key
from tests.blocking import Blocking
from tests.nodes import wait_until

BACKENDS = pytest.mark.parametrize("backend", ["redis", "cluster", "memory"])

COUNT = 6


class Opened:
    """Partitions of one face, whose clients also are called without await."""

    def __init__(self, env, **options):
        self._runner = env._runner
        options = {"ns": env.ns.strip("{}"), "count": COUNT, **options}
        kind = AsyncPartitions if self._runner else Partitions
        self.inner = kind.from_url(env.url, **options)
        self._calls = self._blocking(self.inner)

    def __getattr__(self, name):
        return getattr(self._calls, name)

    def _blocking(self, client):
        return Blocking(self._runner, client) if self._runner else client

    @property
    def clients(self):
        return [self._blocking(client) for client in self.inner.clients]

    def client_for(self, key):
        return self._blocking(self.inner.client_for(key))


@pytest.fixture
def open_partitions(env):
    opened = []

    def open_(**options):
        opened.append(Opened(env, **options))
        return opened[-1]

    yield open_
    for each in opened:
        each.close()


@pytest.fixture
def partitions(open_partitions):
    partitions = open_partitions()
    assert partitions.create_queue("q", vt=50) is True
    return partitions


@pytest.fixture
def raw(env, request):
    """The raw keys of the server, or of all nodes of the cluster."""
    return request.getfixturevalue("cluster").raw if env.backend == "cluster" else env.raw


@BACKENDS
def test_a_queue_is_created_in_every_partition(partitions, raw, env):
    names = names_of_partitions(env.ns.strip("{}"), COUNT)
    assert partitions.inner.namespaces == tuple(names)
    assert [client.namespace.name for client in partitions.inner.clients] == names
    for name in names:
        assert raw.hget(f"{name}:q:Q", "vt") == b"50"
        assert raw.smembers(f"{name}:QUEUES") == {b"q"}


@BACKENDS
def test_a_queue_that_exists_is_refused_or_completed(partitions):
    with pytest.raises(QueueExists):
        partitions.create_queue("q")
    assert partitions.create_queue("q", exist_ok=True) is False
    partitions.clients[3].delete_queue("q")
    assert partitions.create_queue("q", exist_ok=True, vt=7) is True
    found = [client.get_queue_attributes("q").vt for client in partitions.clients]
    assert found == [50, 50, 50, 7, 50, 50]


@BACKENDS
def test_a_message_is_in_the_partition_of_its_key_only(partitions, raw):
    for key in ("customer-7", "customer-8", "Zoë"):
        id = partitions.send_message("q", f"of {key}", key=key)
        name = partitions.inner.namespaces[partition_of_key(key, COUNT)]
        others = [each for each in partitions.inner.namespaces if each != name]
        assert raw.zrange(f"{name}:q", 0, -1) == [id.encode()]
        assert raw.hget(f"{name}:q:Q", id) == f"of {key}".encode()
        assert [raw.zcard(f"{each}:q") for each in others] == [0] * 5
        message = partitions.client_for(key).receive_message("q")
        assert (message.id, message.body) == (id, f"of {key}")
        assert partitions.client_for(key).delete_message(message)


@pytest.mark.parametrize("backend", ["cluster"])
def test_partitions_are_spread_evenly_over_the_nodes_of_a_cluster(env, request):
    cluster = request.getfixturevalue("cluster")
    for count in (3, 6, 12, 96):
        names = names_of_partitions("spread", count)
        found = Counter(cluster.node_of(name) for name in names)
        assert [*found.values()] == [count // 3] * 3


@BACKENDS
def test_messages_of_one_key_stay_in_order(partitions):
    sent = partitions.send_messages("q", ["a", "b"], key="customer-7")
    sent.append(partitions.send_message("q", "c", key="customer-7"))
    received = partitions.client_for("customer-7").receive_messages("q", 10)
    assert [message.id for message in received] == sent
    assert [message.body for message in received] == ["a", "b", "c"]


@BACKENDS
def test_options_of_a_send_and_of_a_client_are_passed_on(open_partitions):
    partitions = open_partitions(codec=JSON)
    partitions.create_queue("q")
    first = partitions.send_message("q", {"n": 1}, key="k", dedup_id="d", delay=60)
    assert partitions.send_message("q", {"n": 2}, key="k", dedup_id="d") == first
    partitions.send_messages("q", [{"n": 3}], key="k", front=True)
    client = partitions.client_for("k")
    assert client.receive_message("q").body == {"n": 3}
    assert client.count_messages("q").delayed == 1


@BACKENDS
def test_a_program_with_another_count_finds_no_queue(partitions, open_partitions, raw):
    before = sorted(raw.keys())
    twice = open_partitions(count=2 * COUNT)
    for send, body in ((twice.send_message, "x"), (twice.send_messages, ["x"])):
        with pytest.raises(QueueNotFound) as caught:
            send("q", body, key="customer-7")
        name = twice.client_for("customer-7").namespace.name
        assert str(caught.value) == (
            f"Queue not found: 'q' (namespace {name!r}). Create it in all partitions with "
            "create_queue('q'), or pass the same ns and count as the programs that have created it"
        )
        assert caught.value.value == "q"
    assert sorted(raw.keys()) == before


@BACKENDS
def test_more_partitions_share_no_namespace_with_fewer(partitions, open_partitions):
    partitions.send_message("q", "old", key="customer-7")
    twice = open_partitions(count=2 * COUNT)
    twice.create_queue("q")
    twice.send_message("q", "new", key="customer-7")
    assert not {*partitions.inner.namespaces} & {*twice.inner.namespaces}
    for set_of, body in ((partitions, "old"), (twice, "new")):
        bodies = [message.body for each in set_of.clients for message in each.pop_messages("q", 9)]
        assert bodies == [body]


@BACKENDS
def test_a_key_is_required(partitions):
    with pytest.raises(TypeError, match="key"):
        partitions.send_message("q", "x")
    with pytest.raises(MissingParameter, match="No key supplied"):
        partitions.send_message("q", "x", key="")
    with pytest.raises(InvalidFormat, match="Invalid key format"):
        partitions.send_messages("q", ["x"], key=7)
    assert [client.get_queue_attributes("q").total_sent for client in partitions.clients] == [0] * 6


@BACKENDS
def test_a_partition_is_an_ordinary_namespace(partitions, env):
    partitions.send_message("q", "x", key="customer-7")
    name = partitions.client_for("customer-7").namespace.name
    with RSMQ.from_url(env.url, ns=name) as plain:
        assert plain.pop_message("q").body == "x"


@BACKENDS
def test_every_client_is_closed(partitions):
    clients = partitions.clients
    partitions.close()
    for client in clients:
        with pytest.raises(ClientClosed):
            client.count_messages("q")


@BACKENDS
def test_the_block_closes_every_client(env):
    options = {"ns": env.ns.strip("{}"), "count": COUNT}
    if env._runner is None:
        with Partitions.from_url(env.url, **options) as partitions:
            partitions.create_queue("q")
        with pytest.raises(ClientClosed):
            partitions.send_message("q", "x", key="k")
        return

    async def use():
        async with AsyncPartitions.from_url(env.url, **options) as partitions:
            await partitions.create_queue("q")
        with pytest.raises(ClientClosed):
            await partitions.send_message("q", "x", key="k")

    env._runner.run(use())


@pytest.mark.parametrize("backend", ["redis", "cluster"])
def test_an_existing_client_of_redis_py_is_used_and_stays_open(env):
    options = {"ns": env.ns.strip("{}"), "count": COUNT}
    is_cluster = env.backend == "cluster"
    if env._runner is None:
        kind = redis.RedisCluster if is_cluster else redis.Redis
        with kind(host="127.0.0.1", port=env.server.port) as client:
            with Partitions(client, **options) as partitions:
                partitions.create_queue("q")
                assert partitions.send_message("q", "x", key="customer-7")
            assert client.ping()
        return

    async def use():
        kind = redis.asyncio.RedisCluster if is_cluster else redis.asyncio.Redis
        async with kind(host="127.0.0.1", port=env.server.port) as client:
            async with AsyncPartitions(client, **options) as partitions:
                await partitions.create_queue("q")
                assert await partitions.send_message("q", "x", key="customer-7")
            assert await client.ping()

    env._runner.run(use())


@pytest.mark.parametrize("kind", ["server", "cluster"])
def test_a_thread_has_one_connection_to_each_server(kind, request):
    servers = request.getfixturevalue(kind)
    ns = f"connections-{kind}"
    nodes = servers.masters if kind == "cluster" else [servers]
    with ExitStack() as stack:
        raw = [stack.enter_context(each.raw()) for each in nodes]

        def are_open(count):
            """Whether each server has so many; one that was just closed may still be listed."""
            found = [sum(each["name"] == ns for each in one.client_list()) for one in raw]
            return found == [count] * len(raw)

        partitions = Partitions.from_url(servers.url, ns=ns, count=COUNT, client_name=ns)
        partitions.create_queue("q")
        used = [each.get_queue_attributes for each in partitions.clients]
        with ThreadPoolExecutor(1) as executor:
            executor.submit(lambda: [get("q") for get in used]).result()
            wait_until(lambda: are_open(2))
        wait_until(lambda: are_open(1))
        first, *others = partitions.clients
        for client in others:
            client.delete_queue("q")
            client.close()
        with pytest.raises(ClientClosed):
            others[0].count_messages("q")
        wait_until(lambda: are_open(1))
        first.delete_queue("q")
        first.close()
        wait_until(lambda: are_open(0))


@pytest.mark.parametrize("backend", ["redis"])
def test_partitions_that_are_forgotten_leave_no_connection(env):
    partitions = Partitions.from_url(env.url, ns=env.ns, count=COUNT, client_name=env.ns)
    client = partitions.clients[0]
    del partitions
    client.create_queue("q")
    assert env.ns in {each["name"] for each in env.raw.client_list()}
    del client
    wait_until(lambda: env.ns not in {each["name"] for each in env.raw.client_list()})
