"""Other clients on a cluster: they are connected with the node that has the namespace."""

from __future__ import annotations

import pytest

from compat.peers import Node, Php
from rsmq import RSMQ
from tests.conftest import cluster  # noqa: F401 - a fixture


@pytest.mark.parametrize("kind", [Node, Php], ids=lambda kind: kind.name)
def test_clients_share_a_namespace_on_a_cluster(kind, cluster, ns):  # noqa: F811 - the fixture
    for name in (f"{{{ns}.{number}}}" for number in range(6)):
        with RSMQ.from_url(cluster.url, ns=name) as rsmq:
            rsmq.create_queue("q")
            peer = kind(cluster.node_of(name), name)
            sent = peer.send_message("q", "theirs")
            message = rsmq.receive_message("q", wait=10)
            assert (message.id, message.body) == (sent, "theirs")
            assert rsmq.delete_message(message)

            id = rsmq.send_message("q", "ours")
            received = peer.receive_message("q")
            assert (received["id"], received["message"]) == (id, "ours")
            assert peer.delete_message("q", id)
            peer.close()
            rsmq.delete_queue("q")
