"""Valkey 9 moves whole slots in one step (CLUSTER MIGRATESLOTS): nothing is lost or doubled."""

from __future__ import annotations

import pytest

from tests.clusters import slot_of
from tests.crowd import Namespace, run_traffic
from tests.nodes import wait_until
from tests.scale import scaled

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sync", "asyncio"])
def place(request, valkey_cluster):
    """A namespace, with a queue that is long enough for a move to take a while."""
    place = Namespace(request.param, valkey_cluster.url)
    yield place
    place.close()
    valkey_cluster.heal()
    keys = valkey_cluster.raw.keys(f"{place.ns}*")
    if keys:
        valkey_cluster.raw.unlink(*keys)


def move_slot(cluster, ns):
    """Move the slot of a namespace to another master, and wait until all nodes agree."""
    slot = slot_of(ns)
    source = cluster.owner_of(slot)
    target = next(node for node in cluster.masters if node is not source)
    source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
    wait_until(lambda: cluster.owner_of(slot) is target, failure=f"{target} has no slot {slot}")
    cluster.wait_until_ok()


def test_no_message_is_lost_or_doubled_while_a_slot_moves(place, valkey_cluster):
    client = place.open_client()
    client.create_queue("long")
    client.send_messages("long", ["x" * 100] * 10_000)
    count = scaled(5, 100)
    for _ in range(count if place.mode == "sync" else max(1, count // 4)):
        client.create_queue("q")
        traffic = run_traffic(place, valkey_cluster, move_slot)
        assert traffic.calls.errors == {}
        traffic.calls.log()
        client.delete_queue("q")
    assert client.count_messages("long").visible == 10_000
