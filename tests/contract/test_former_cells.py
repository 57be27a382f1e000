"""The namespaces of former sets of cells are drained by plain clients, one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rsmq import RSMQ

DATA = json.loads(Path(__file__).with_name("former_cells.json").read_text())
#: The bodies of each cell, in the order in which they are due.
BODIES = {
    "{shop.0.fjs}": ["grouped a", "with headers", "grouped b"],
    "{shop.1.2e6}": [
        "order 1 of customer-1",
        "order 4 of customer-0",
        "order 5 of customer-1",
        "order 8 of customer-0",
        "order 0 of customer-0",  # it was in flight for a minute
    ],
    "{shop.2.2il}": [
        "order 2 of customer-2",
        "order 3 of customer-3",
        "order 6 of customer-2",
        "order 7 of customer-3",
        "unique",
        "dedup",
    ],
}
ATTRIBUTES = {"created", "delay", "maxsize", "modified", "totalrecv", "totalsent", "vt"}
#: Records beside messages that are removed by later sends, as in any namespace.
LEFT_OVER = {"orders:x:dedup", "orders:x:unique", "orders:x:limits"}
WRITE = {
    "hash": lambda raw, key, value: raw.hset(key, mapping=value),
    "zset": lambda raw, key, value: raw.zadd(key, value),
    "set": lambda raw, key, value: raw.sadd(key, *value),
}


@pytest.fixture
def stored(raw):
    """The raw keys, as the last version with cells has written them."""
    for key, value in DATA["keys"].items():
        ((kind, content),) = value.items()
        WRITE[kind](raw, key, content)
    yield raw
    raw.delete(*raw.keys("{shop.*"))


@pytest.mark.parametrize("ns", BODIES)
def test_a_former_cell_is_drained_by_a_plain_client(stored, server, ns):
    before = {key: stored.dump(key) for key in stored.keys("{shop.*") if ns not in key.decode()}
    with RSMQ.from_url(server.url, ns=ns) as queues:
        assert queues.list_queues() == ["dead", "orders"]
        attributes = queues.get_queue_attributes("orders")
        assert attributes.vt == 60
        assert (attributes.dead_letter_queue, attributes.max_receives) == ("dead", 2)
        assert attributes.messages == attributes.total_sent == len(BODIES[ns])
        bodies = []
        while message := queues.receive_message("orders"):
            bodies.append(message.body)
            assert message.receive_count == (2 if message.body == "order 0 of customer-0" else 1)
            assert queues.delete_message(message)
        assert bodies == BODIES[ns]
        attributes = queues.get_queue_attributes("orders")
        assert attributes.messages == 0
        was_received = "order 0 of customer-0" in bodies
        assert attributes.total_received == len(bodies) + was_received

        fields = {name.decode() for name in stored.hkeys(f"{ns}:orders:Q")}
        assert fields - {"x:dlq", "x:max", "x:groups", "x:limited"} == ATTRIBUTES
        left = {key.decode().removeprefix(f"{ns}:") for key in stored.keys(f"{ns}:*")}
        assert left - LEFT_OVER == {"QUEUES", "dead:Q", "orders:Q", "x:cell"}
        for name in queues.list_queues():
            queues.delete_queue(name)
    # Nothing reads it any more.
    assert stored.keys(f"{ns}:*") == [f"{ns}:x:cell".encode()]
    assert {key: stored.dump(key) for key in before} == before
