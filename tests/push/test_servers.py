"""Webhooks on a Redis Cluster and on a Sentinel group, whose primary is killed between pushes."""

from __future__ import annotations

import json

import pytest

from rsmq.worker import Worker
from tests.crowd import Namespace
from tests.nodes import wait_until_in_step
from tests.push.conftest import LOCAL, SECRET, dead_letters, wait_until
from tests.push.receiver import reply

pytestmark = pytest.mark.slow

MESSAGES, REFUSED = 400, 5


class ClusterGroup:
    """A Redis Cluster of 3 masters and 3 replicas."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.place = Namespace("sync", cluster.url)
        self.raw = cluster.raw

    def wait_until_in_step(self):
        master = self.cluster.node_of(self.place.ns)
        wait_until_in_step(master, lambda: self.cluster.replicas_of(master))

    def replace_primary(self):
        master = self.cluster.node_of(self.place.ns)
        (replica,) = self.cluster.replicas_of(master)
        master.kill()
        self.cluster.wait_until_promoted(replica)

    def heal(self):
        self.cluster.heal()


class PrimaryGroup:
    """A primary and a replica with 3 Sentinels."""

    def __init__(self, sentinels):
        self.sentinels = sentinels
        self.place = Namespace("sync", sentinels.url)

    @property
    def raw(self):
        return self.sentinels.raw()

    def wait_until_in_step(self):
        wait_until_in_step(self.sentinels.primary, lambda: self.sentinels.replicas)

    def replace_primary(self):
        old = self.sentinels.primary
        old.kill()
        self.sentinels.wait_until_promoted(old)

    def heal(self):
        self.sentinels.heal()


@pytest.fixture(params=["cluster", "sentinels"])
def group(request):
    servers = request.getfixturevalue(request.param)
    made = ClusterGroup(servers) if request.param == "cluster" else PrimaryGroup(servers)
    yield made
    made.place.close()
    made.heal()
    keys = made.raw.keys(f"{made.place.ns}*")
    if keys:
        made.raw.unlink(*keys)


def test_each_message_is_answered_or_is_a_dead_letter_after_a_failover(group, receiver):
    receiver.answer = lambda request: (
        reply(422, b"no such order") if int(request.body) < REFUSED else reply(204, delay=0.02)
    )
    rsmq, ns = group.place.open_client(retry_deadline=None), group.place.ns
    for name in ("q", "q-dead"):
        rsmq.create_queue(name)
    ids = rsmq.send_messages("q", [str(number) for number in range(MESSAGES)])
    group.wait_until_in_step()
    worker = Worker(rsmq, concurrency=4)
    worker.webhook("q", receiver.url, secret=SECRET, max_retries=1, backoff=0.05, **LOCAL)
    with worker:
        wait_until(lambda: len(receiver.answered) >= MESSAGES // 4)
        group.replace_primary()
        answered_before = len(receiver.answered)
        wait_until(lambda: not group.raw.zcard(f"{ns}:q"))
    dead = dead_letters(rsmq)
    [state] = group.raw.hvals(f"{ns}:x:push")

    assert answered_before < MESSAGES - REFUSED
    assert receiver.answered == set(ids[REFUSED:])
    assert dead.keys() == set(ids[:REFUSED])
    assert {(each.reason.status, each.reason.answer) for each in dead.values()} == {
        (422, "no such order")
    }
    assert json.loads(state)["queue"] == "q"
