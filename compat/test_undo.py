"""Node and PHP beside deletions that are undone: to them, messages are gone and back."""

from __future__ import annotations

import random

import pytest

from compat.peers import Node, Php
from rsmq import RSMQ


@pytest.mark.parametrize("kind", [Node, Php], ids=lambda kind: kind.name)
def test_traffic_of_another_client_between_a_purge_and_its_undo(kind, peers, server, ns, keys):
    peer = peers(kind)
    peer.ns = ns
    with RSMQ.from_url(server.url, ns=ns) as queues:
        for seed in range(3):
            purge_and_undo(queues, peer, keys, ns, random.Random(seed))
            queues.delete_queue("q")
    peer.close_clients(ns)


def purge_and_undo(queues, peer, keys, ns, rng):
    queues.create_queue("q", vt=60)
    for number in range(5):
        peer.send_message("q", f"before {number}")
    held = peer.receive_message("q")
    kept = dict(keys.raw.zrange(f"{ns}:q", 0, -1, withscores=True))
    fields = keys.raw.hgetall(f"{ns}:q:Q")
    purged = queues.trash.purge_queue("q")
    assert not peer.receive_message("q")
    assert not peer.delete_message("q", held["id"])
    there = {}
    for number in range(12):
        action = rng.choice(["send", "send", "receive", "delete"])
        if action == "send":
            there[peer.send_message("q", f"since {number}")] = f"since {number}"
        elif action == "receive":
            peer.receive_message("q")
        elif there:
            id = rng.choice(sorted(there))
            assert peer.delete_message("q", id)
            del there[id]
    since = dict(keys.raw.zrange(f"{ns}:q", 0, -1, withscores=True))
    totals = keys.raw.hmget(f"{ns}:q:Q", "totalsent", "totalrecv")

    assert queues.trash.undo(purged.id).messages == 5
    assert dict(keys.raw.zrange(f"{ns}:q", 0, -1, withscores=True)) == kept | since
    stored = keys.raw.hgetall(f"{ns}:q:Q")
    assert [stored.get(b"totalsent"), stored.get(b"totalrecv")] == totals
    for id in kept:
        for field in (id, id + b":rc", id + b":fr"):
            assert stored.get(field) == fields.get(field)
    seen = set()
    while message := peer.receive_message("q"):
        seen.add(message["id"])
        assert peer.delete_message("q", message["id"])
    hidden = {id.decode() for id in keys.raw.zrange(f"{ns}:q", 0, -1)}
    assert seen | hidden == {id.decode() for id in kept} | set(there)
    assert held["id"] in hidden  # as long as its consumer said
