"""A worker on cells of a Redis Cluster whose primaries are killed."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from rsmq import Cells
from rsmq.wire.cells import name_of_cell
from rsmq.worker import Middleware, Worker
from tests.crowd import Crowd, Traffic
from tests.nodes import wait_until
from tests.scale import scaled

CELLS = 12
KILLS = scaled(2, 50)
_numbers = itertools.count()


class LedgerOfWorker(Middleware):
    """Records receives and deletes of a worker in the ledger of the producers."""

    def __init__(self, traffic):
        self._traffic = traffic

    def after_receive(self, queue, messages):
        now, traffic = time.monotonic(), self._traffic
        with traffic._lock:
            for message in messages:
                traffic.ledger.record_receive(message, now, now)
                traffic.ids.setdefault(message.body, set()).add(message.id)
                traffic._acknowledged.append((now, message.id))

    def after_delete(self, messages):
        now, traffic = time.monotonic(), self._traffic
        with traffic._lock:
            for message in messages:
                traffic.ledger.deleted[message.id] = now
                traffic._acknowledged.append((now, message.id))


class PlaceOnCluster:
    """The set of a test."""

    def __init__(self, cluster):
        self.url = cluster.url
        self.ns = f"wcc{next(_numbers)}-{os.getpid()}"

    def cell(self, index):
        return name_of_cell(self.ns, index)

    def make_client(self, **options):
        return Cells.from_url(self.url, cells=CELLS, ns=self.ns, **options)


@pytest.fixture
def place(cluster):
    made = PlaceOnCluster(cluster)
    yield made
    cluster.heal()
    keys = cluster.raw.keys(f"{{{made.ns}.*")
    if keys:
        cluster.raw.unlink(*keys)


@pytest.mark.timeout(scaled(120, 7200))
@pytest.mark.parametrize("name", [None, "fixed"])
def test_nothing_is_lost_or_doubled_while_primaries_are_killed(place, cluster, name):
    """With a name its home may be one of the killed ones: then it begins no calls for a while."""
    for kill in range(KILLS):
        run_through_a_kill(place, cluster, name, kill % CELLS)


def run_through_a_kill(place, cluster, name, cell):
    traffic = Traffic()
    client = place.make_client()
    client.create_queue("q", exist_ok=True)
    worker = Worker(client, name=name, concurrency=8, middleware=[LedgerOfWorker(traffic)])
    worker.listener("q", vt=20, retry_forever=True)(lambda body: time.sleep(0.001))
    deleted = traffic.ledger.deleted
    with worker:
        crowd = Crowd(place.make_client(), tuple(traffic.works(producers=3, consumers=0)))
        wait_until(lambda: len(deleted) >= 50)
        node = cluster.node_of(place.cell(cell))
        (replica,) = cluster.replicas_of(node)
        begin = time.monotonic()
        node.kill()
        cluster.wait_until_promoted(replica)
        traffic.unreplicated = begin - 0.1, begin + 0.5
        count = len(deleted)
        wait_until(lambda: len(deleted) >= count + 50)
        cluster.heal()
        traffic.stop()
        crowd.join()
        raw = cluster.raw
        wait_until(
            lambda: not sum(raw.zcard(f"{place.cell(index)}:q") for index in range(CELLS)), 40
        )
    client.close()
    traffic.assert_exact(raw, *(place.cell(index) for index in range(CELLS)))
    for index in range(CELLS):
        assert raw.keys(f"{place.cell(index)}:x:held:*") == []
        raw.unlink(f"{place.cell(index)}:q:Q")
