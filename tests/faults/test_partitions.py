"""Partitions on a Redis Cluster whose masters are killed and replaced, and whose slots move."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rsmq import RSMQ, AsyncPartitions, AsyncRSMQ, Partitions
from tests.clusters import Cluster
from tests.crowd import Crowd, Traffic
from tests.engines import installed_engine_path
from tests.faults.test_cluster import FAULTS
from tests.nodes import wait_until
from tests.scale import SOAK, scaled

pytestmark = pytest.mark.slow

COUNT = 12
PRODUCERS = 3
NS = "shop"


class Keyed(Partitions):
    """Producers whose bodies are the keys of their messages."""

    def send_message(self, qname, body):
        return super().send_message(qname, body, key=body)


class AsyncKeyed(AsyncPartitions):
    """The same for asyncio."""

    async def send_message(self, qname, body):
        return await super().send_message(qname, body, key=body)


@pytest.fixture(scope="module")
def cluster():
    """Three masters with a replica each, and nothing else on them."""
    started = Cluster(installed_engine_path("redis-7.0"), node_timeout=2000 if SOAK else 1000)
    started.start()
    yield started
    started.stop()


@pytest.mark.parametrize("kind", [Keyed, AsyncKeyed], ids=["sync", "asyncio"])
def test_no_message_is_lost_or_doubled_in_any_partition(cluster, kind):
    """Faults follow each other, and hit any partition, while all clients stay connected."""
    chance = random.Random(1)
    names = [*FAULTS] * scaled(1, 10)
    chance.shuffle(names)
    with Partitions.from_url(cluster.url, ns=NS, count=COUNT) as partitions:
        partitions.create_queue("q")
        namespaces = partitions.namespaces
    traffic = Traffic()
    works = traffic.works(PRODUCERS, COUNT)
    crowds = [Crowd(kind.from_url(cluster.url, ns=NS, count=COUNT), tuple(works[:PRODUCERS]))]
    for ns, work in zip(namespaces, works[PRODUCERS:], strict=True):
        consumer = (AsyncRSMQ if kind is AsyncKeyed else RSMQ).from_url(cluster.url, ns=ns)
        crowds.append(Crowd(consumer, (work,)))
    deleted = traffic.ledger.deleted
    wait_until(lambda: len(deleted) >= 50)
    for name in names:
        if window := FAULTS[name](cluster, chance.choice(namespaces)):
            traffic.unreplicated.append(window)
        cluster.heal()
        count = len(deleted)
        wait_until(lambda count=count: len(deleted) >= count + 50)
    traffic.stop()
    for crowd in crowds:
        crowd.join()
    ledger = traffic.ledger
    doubled = [ids for ids in traffic.ids.values() if len(ids) > 1]
    print(
        f"{kind.__name__}: {dict(Counter(names))}, {len(ledger.sent)} acknowledged sends, "
        f"{len(ledger.lost)} lost, {len(doubled)} stored twice, {len(ledger.problems)} received "
        f"again after a kill, {ledger.unknown} sends without a reply"
    )

    traffic.assert_exact(cluster.raw, *namespaces)
    assert all(cluster.raw.hget(f"{ns}:q:Q", "totalsent") != b"0" for ns in namespaces)
    for ns in namespaces:
        keys = {f"{ns}:q:Q".encode(), f"{ns}:QUEUES".encode()}
        assert {*cluster.raw.keys(f"{ns}:*")} == keys
        cluster.raw.unlink(*keys)
