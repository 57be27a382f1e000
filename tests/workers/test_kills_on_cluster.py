"""A worker on a Redis Cluster whose primaries are killed: on one namespace, and on cells."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from rsmq import RSMQ, Cells
from rsmq.wire.cells import name_of_cell
from rsmq.worker import Middleware, Worker
from tests.crowd import Crowd, Traffic, window_of_stop
from tests.nodes import wait_until, wait_until_in_step
from tests.scale import scaled
from tests.workers.polling import state_of

pytestmark = pytest.mark.slow

CELLS = 12
ONE_NAMESPACE = 1
#: By the number of cells: in one namespace, a second kill is of the primary that was just promoted.
KILLS = {ONE_NAMESPACE: scaled(1, 50), CELLS: scaled(2, 50)}
_numbers = itertools.count()


class LedgerOfWorker(Middleware):
    """Records receives and deletes of a worker in the ledger of the producers."""

    def __init__(self, traffic):
        self._traffic = traffic

    def after_receive(self, queue, messages):
        now, traffic = time.monotonic(), self._traffic
        with traffic.lock:
            for message in messages:
                traffic.ledger.record_receive(message, now, now)
                traffic.ids.setdefault(message.body, set()).add(message.id)
                traffic.acknowledged.append((now, message.id))

    def after_delete(self, messages):
        now, traffic = time.monotonic(), self._traffic
        with traffic.lock:
            for message in messages:
                traffic.ledger.deleted[message.id] = now
                traffic.acknowledged.append((now, message.id))


class PlaceOnCluster:
    """The set or the namespace of a test."""

    def __init__(self, cluster, number):
        self.url = cluster.url
        self.number = number
        self.ns = f"wcc{next(_numbers)}-{os.getpid()}"

    def cell(self, index):
        return f"{{{self.ns}}}" if self.number == ONE_NAMESPACE else name_of_cell(self.ns, index)

    def make_client(self, **options):
        if self.number == ONE_NAMESPACE:
            return RSMQ.from_url(self.url, ns=self.cell(0), **options)
        return Cells.from_url(self.url, cells=self.number, ns=self.ns, **options)


@pytest.fixture(params=[ONE_NAMESPACE, CELLS])
def place(request, cluster):
    made = PlaceOnCluster(cluster, request.param)
    yield made
    cluster.heal()
    keys = cluster.raw.keys(f"{{{made.ns}*")
    if keys:
        cluster.raw.unlink(*keys)


@pytest.mark.parametrize("name", [None, "fixed"])
def test_nothing_is_lost_or_doubled_while_primaries_are_killed(place, cluster, name):
    """With a name its home may be one of the killed ones: then it begins no calls for a while."""
    for kill in range(KILLS[place.number]):
        run_through_a_kill(place, cluster, name, kill % place.number)


def describe(place, raw, worker):
    """Return what is left, with the seconds until it is due, and what the worker knows of it."""
    now = raw.time()[0]
    left = {
        index: [
            (id.decode(), round(score / 1000 - now))
            for id, score in raw.zrange(f"{place.cell(index)}:q", 0, -1, withscores=True)
        ]
        for index in range(place.number)
    }
    left = {index: ids[:1] for index, ids in left.items() if ids}
    return f"left {left}, {state_of(worker)}"


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
        written_until = wait_until_in_step(node, lambda: [replica])
        node.kill()
        traffic.unreplicated.append(window_of_stop(written_until))
        cluster.wait_until_promoted(replica)
        # The calls that the kill may have broken off are known: only some more are to succeed.
        traffic.pause_seconds = 0.02
        count = len(deleted)
        wait_until(lambda: len(deleted) >= count + 50)
        cluster.heal()
        traffic.stop()
        crowd.join()
        raw = cluster.raw
        wait_until(
            lambda: not sum(raw.zcard(f"{place.cell(index)}:q") for index in range(place.number)),
            40,
            lambda: describe(place, raw, worker),
        )
    client.close()
    if name is not None:
        # The only worker has released it, because its home was away.
        problems = traffic.ledger.problems
        traffic.ledger.problems = [text for text in problems if "held by two" not in text]
    traffic.assert_exact(raw, *(place.cell(index) for index in range(place.number)))
    for index in range(place.number):
        assert raw.keys(f"{place.cell(index)}:x:held:*") == []
        raw.unlink(f"{place.cell(index)}:q:Q")
