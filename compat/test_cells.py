"""Other clients in single cells of a set: a cell is an ordinary namespace."""

from __future__ import annotations

import pytest

from compat.peers import Node, Php
from rsmq import Cells
from rsmq.wire.cells import cell_of_key, name_of_cell
from tests.conftest import cluster  # noqa: F401 - a fixture

KEY = "customer-7"


@pytest.fixture
def cells(server, ns, keys):
    with Cells.from_url(server.url, ns=ns, cells=6) as cells:
        cells.create_queue("q")
        yield cells
    keys.raw.unlink(*keys.raw.keys(f"{{{ns}.*"))


def test_clients_share_a_cell_on_a_server(cells, peer, ns):
    peer.ns = name_of_cell(ns, cell_of_key(KEY, 6))
    sent = peer.send_message("q", "theirs")
    message = cells.receive_message("q", wait=10)
    assert (message.id, message.body) == (f"{cell_of_key(KEY, 6)}-{sent}", "theirs")
    assert cells.delete_message(message)

    id = cells.send_message("q", "ours", key=KEY)
    received = peer.receive_message("q")
    assert (f"{cell_of_key(KEY, 6)}-{received['id']}", received["message"]) == (id, "ours")
    assert cells.receive_message("q") is None
    assert peer.delete_message("q", received["id"])
    assert cells.count_messages("q").in_flight == 0
    peer.close_clients(peer.ns)


@pytest.mark.parametrize("kind", [Node, Php], ids=lambda kind: kind.name)
def test_producers_send_into_a_cell_on_a_cluster(kind, cluster, ns):  # noqa: F811 - the fixture
    """They are connected with the node that has the cell."""
    with Cells.from_url(cluster.url, ns=ns, cells=6) as cells:
        cells.create_queue("q")
        for index in range(6):
            name = name_of_cell(ns, index)
            producer = kind(cluster.node_of(name), name)
            sent = producer.send_message("q", f"to {index}")
            producer.close()
            message = cells.receive_message("q", wait=10)
            assert (message.id, message.body) == (f"{index}-{sent}", f"to {index}")
        cells.delete_queue("q")
