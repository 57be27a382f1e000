"""A worker on a Redis Cluster whose primaries are killed."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from rsmq import RSMQ
from rsmq.worker import Middleware, Worker
from tests.crowd import Crowd, Traffic, window_of_stop
from tests.nodes import wait_until, wait_until_in_step
from tests.scale import scaled
from tests.workers.polling import state_of

pytestmark = pytest.mark.slow

#: From the second on, a kill is of the primary that was just promoted.
KILLS = scaled(1, 50)
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


@pytest.fixture
def ns(cluster):
    name = f"{{wcc{next(_numbers)}-{os.getpid()}}}"
    yield name
    cluster.heal()
    keys = cluster.raw.keys(f"{name}:*")
    if keys:
        cluster.raw.unlink(*keys)


@pytest.mark.parametrize("name", [None, "fixed"])
def test_nothing_is_lost_or_doubled_while_primaries_are_killed(ns, cluster, name):
    """With a name it begins no calls for a while."""
    for _ in range(KILLS):
        run_through_a_kill(ns, cluster, name)


def describe(ns, raw, worker):
    """Return what is left, with the seconds until it is due, and what the worker knows of it."""
    now = raw.time()[0]
    left = [
        (id.decode(), round(score / 1000 - now))
        for id, score in raw.zrange(f"{ns}:q", 0, 0, withscores=True)
    ]
    return f"left {left}, {state_of(worker)}"


def run_through_a_kill(ns, cluster, name):
    traffic = Traffic()
    client = RSMQ.from_url(cluster.url, ns=ns)
    client.create_queue("q", exist_ok=True)
    worker = Worker(client, name=name, concurrency=8, middleware=[LedgerOfWorker(traffic)])
    worker.listener("q", vt=20, retry_forever=True)(lambda body: time.sleep(0.001))
    deleted = traffic.ledger.deleted
    with worker:
        crowd = Crowd(
            RSMQ.from_url(cluster.url, ns=ns), tuple(traffic.works(producers=3, consumers=0))
        )
        wait_until(lambda: len(deleted) >= 50)
        node = cluster.node_of(ns)
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
        wait_until(lambda: not raw.zcard(f"{ns}:q"), failure=lambda: describe(ns, raw, worker))
    client.close()
    if name is not None:
        # The only worker has released it, because Redis was away.
        problems = traffic.ledger.problems
        traffic.ledger.problems = [text for text in problems if "held by two" not in text]
    traffic.assert_exact(raw, ns)
    assert raw.keys(f"{ns}:x:held:*") == []
    raw.unlink(f"{ns}:q:Q")
