"""The rights that a user needs on a Redis Cluster, with Sentinel, and to wait for replicas."""

from __future__ import annotations

import pytest
import redis

from rsmq import RSMQ, NotReplicated
from tests.contract.conftest import PRODUCER


@pytest.fixture
def log_in():
    """A function that gives a user rights on servers, and returns its URL; it ends the users."""
    changed = []

    def grant(nodes, url, ns, rules):
        for node in nodes:
            with node.raw() as raw:
                raw.execute_command(
                    "ACL", "SETUSER", "shop", "reset", "on", ">secret", f"~{ns}:*", "-@all",
                    *rules.split(),
                )  # fmt: skip
            changed.append(node)
        return url.replace("://", "://shop:secret@")

    yield grant
    for node in changed:
        with node.raw() as raw:
            raw.execute_command("ACL", "DELUSER", "shop")


def test_producer_on_a_cluster_needs_its_slots(cluster, log_in):
    ns = "{rights}"
    with RSMQ.from_url(cluster.url, ns=ns) as admin:
        admin.create_queue("q", exist_ok=True)
    url = log_in(cluster.nodes, cluster.url, ns, f"{PRODUCER} +cluster|slots +asking")
    with RSMQ.from_url(url, ns=ns) as rsmq:
        assert rsmq.send_message("q", "a")

    url = log_in(cluster.nodes, cluster.url, ns, PRODUCER)
    with RSMQ.from_url(url, ns=ns) as rsmq, pytest.raises(redis.exceptions.NoPermissionError):
        rsmq.send_message("q", "a")


def test_producer_that_waits_for_replicas_needs_wait(sentinels, log_in):
    sentinels.heal()
    ns = "rights"
    with RSMQ.from_url(sentinels.url, ns=ns) as admin:
        admin.create_queue("q", exist_ok=True)
    # The user is one of the primary. The Sentinels are asked without a user.
    url = log_in([sentinels.primary], sentinels.url, ns, f"{PRODUCER} +role +wait")
    with RSMQ.from_url(url, ns=ns, min_replicas=1) as rsmq:
        assert rsmq.send_message("q", "a")

    url = log_in([sentinels.primary], sentinels.url, ns, PRODUCER)
    refused = pytest.raises(NotReplicated, match="not confirmed, because the server answered")
    with RSMQ.from_url(url, ns=ns, min_replicas=1, replica_timeout=0.01) as rsmq, refused:
        rsmq.send_message("q", "a")
