"""Other clients on a cluster: they are connected with the node that has the namespace."""

from __future__ import annotations

import pytest

from compat.peers import Node, Php
from rsmq import RSMQ
from tests.conftest import cluster  # noqa: F401 - a fixture


@pytest.mark.parametrize("kind", [Node, Php], ids=lambda kind: kind.name)
def test_producers_send_into_a_namespace_on_a_cluster(kind, cluster, ns):  # noqa: F811 - the fixture
    """They can't receive there: their scripts pass times as keys, which are in other slots."""
    for name in (f"{{{ns}.{number}}}" for number in range(6)):
        with RSMQ.from_url(cluster.url, ns=name) as rsmq:
            rsmq.create_queue("q")
            producer = kind(cluster.node_of(name), name)
            sent = producer.send_message("q", "theirs")
            producer.close()
            message = rsmq.receive_message("q", wait=10)
            assert (message.id, message.body) == (sent, "theirs")
            rsmq.delete_queue("q")
