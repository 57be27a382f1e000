"""The rights that a user needs on a Redis Cluster, with Sentinel, and to wait for replicas."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
import redis

from rsmq import RSMQ, Confirm, NotReplicated
from rsmq.doctor import examine
from rsmq.doctor.operations import examine_rights
from rsmq.worker import Worker, list_workers
from tests.clusters import slot_of
from tests.contract.conftest import PRODUCER
from tests.nodes import wait_until
from tests.scale import WAIT_SECONDS

pytestmark = pytest.mark.slow

SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def documented(*parts):
    """Return the commands of rows of the table in docs/security.md."""
    found = []
    for part in parts:
        (row,) = re.findall(rf"^\| {part}\b.*?\| (.*) \|$", SECURITY, re.MULTILINE)
        found += re.findall(r"\+[\w\\|]+", row.replace("\\|", "|"))
    return found


#: The rights that each client of a Redis Cluster needs, to find the nodes.
CLUSTER_RULES = ("+cluster|slots", "+asking")


@pytest.fixture
def log_in():
    """
    A function that gives a user rights on servers, and returns its URL; it ends the users.

    The user may use the keys of a namespace, or those that the pattern ``keys`` matches.
    """
    changed = []

    def grant(nodes, url, ns, rules, keys=None):
        for node in nodes:
            with node.raw() as raw:
                raw.execute_command(
                    "ACL", "SETUSER", "shop", "reset", "on", ">secret", f"~{keys or f'{ns}:*'}",
                    "-@all", *rules.split(),
                )  # fmt: skip
                raw.acl_log_reset()
            changed.append(node)
        return url.replace("://", "://shop:secret@")

    yield grant
    for node in changed:
        with node.raw() as raw:
            raw.execute_command("ACL", "DELUSER", "shop")


def denied(nodes):
    """Return what servers have denied to the user: commands and keys."""
    found = set()
    for node in nodes:
        with node.raw() as raw:
            found |= {
                (each["reason"], each["object"])
                for each in raw.acl_log()
                if each["username"] == "shop"
            }
    return found


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
    with RSMQ.from_url(url, ns=ns, confirm=Confirm(replicas=1)) as rsmq:
        assert rsmq.send_message("q", "a")

    url = log_in([sentinels.primary], sentinels.url, ns, PRODUCER)
    refused = pytest.raises(NotReplicated, match="not confirmed, because the server answered")
    with RSMQ.from_url(url, ns=ns, confirm=Confirm(replicas=1, timeout=0.01)) as rsmq, refused:
        rsmq.send_message("q", "a")


def test_workers_on_a_cluster_need_no_more_than_their_documented_rights(cluster, log_in, caplog):
    """Also while the slot of their keys moves."""
    ns = "{rights.w}"
    parts = documented("producer", "consumer", "administrator", "workers")
    rules = " ".join([*parts, *CLUSTER_RULES, "+exists"])
    url = log_in(cluster.nodes, cluster.url, ns, rules)
    rsmq = RSMQ.from_url(url, ns=ns)
    worker = Worker(rsmq, name="w", concurrency=1)
    begun, release = threading.Event(), threading.Event()

    @worker.listener(
        "q", vt=600, max_retries=1, backoff=0.01, dead_letter_queue="dead", create=True
    )
    def handle(body):
        if body == "block":
            begun.set()
            release.wait(WAIT_SECONDS)
        if body == "bad":
            raise ValueError(body)

    with rsmq:
        worker.start()
        rsmq.send_messages("q", ["bad", *["good"] * 20])
        numbers = worker.numbers
        wait_until(lambda: numbers.handled + numbers.dead == 21)
        slot, source = slot_of(ns), cluster.node_of(ns)
        cluster.move_slot(slot, next(each for each in cluster.masters if each is not source))
        rsmq.send_messages("q", ["block", "waits 1", "waits 2"])
        assert begun.wait(WAIT_SECONDS)
        wait_until(lambda: cluster.raw.hlen(f"{ns}:x:held:w") == 4)
        assert [each.name for each in list_workers(rsmq)] == ["w"]
        threading.Timer(0.2, release.set).start()
        worker.stop(10)
        assert rsmq.peek_messages("dead")[0].reason.exception == "ValueError: bad"
        # The receives of the two others, which began no call.
        assert sorted(cluster.raw.hvals(f"{ns}:q:x:unbegun"))[:2] == [b"1", b"1"]
        assert len(rsmq.redrive_messages("dead", "q")) == 1
        assert not any("NOPERM" in line or "continues to try" in line for line in caplog.messages)
        assert denied(cluster.nodes) == set()
        rsmq.delete_queue("q")
        rsmq.delete_queue("dead")


def test_quarantine_needs_no_more_than_the_documented_rights_of_workers(cluster, log_in):
    ns = "{rights.q}"
    parts = documented("producer", "consumer", "administrator", "workers")
    rules = " ".join([*parts, *CLUSTER_RULES, "+exists"])
    url = log_in(cluster.nodes, cluster.url, ns, rules)
    with RSMQ.from_url(url, ns=ns) as rsmq:
        worker = Worker(rsmq, name="w")
        handled = []
        worker.listener("q", max_retries=1, drop=True, create=True)(handled.append)
        rsmq.create_queue("q")
        id = rsmq.send_message("q", "suspect")
        cluster.raw.hset(f"{ns}:q:Q", f"{id}:rc", 9)
        with worker:
            wait_until(lambda: handled == ["suspect"])
        assert cluster.raw.hgetall(f"{ns}:q:x:alone") == {}
        assert denied(cluster.nodes) == set()
        rsmq.delete_queue("q")


def test_consumers_on_a_cluster_need_no_more_than_their_documented_rights(cluster, log_in):
    """To wait, to receive, and to move dead letters; with WAIT, sends are confirmed."""
    ns = "{rights.c}"
    with RSMQ.from_url(cluster.url, ns=ns) as admin:
        for queue in ("q", "dead"):
            admin.create_queue(queue, exist_ok=True)
        admin.set_dead_letter_policy("q", "dead", 1)
        parts = documented("producer", "consumer")
        rules = " ".join([*parts, *CLUSTER_RULES, "+exists", "+wait"])
        url = log_in(cluster.nodes, cluster.url, ns, rules)
        with RSMQ.from_url(url, ns=ns) as rsmq:
            id = rsmq.send_message("q", "a", confirm=Confirm(replicas=1, timeout=10))
            message = rsmq.receive_message("q", wait=10, vt=0)
            assert message.id == id
            assert rsmq.receive_messages("q", 5) == []
            threading.Timer(0.3, lambda: admin.send_message("q", "b")).start()
            message = rsmq.receive_message("q", wait=20)
            assert message.body == "b"
            assert rsmq.delete_message(message)
        assert [each.id for each in admin.peek_messages("dead")] == [id]
        assert denied(cluster.nodes) == set()
        for queue in ("q", "dead"):
            admin.delete_queue(queue)


def test_doctor_on_a_cluster_reports_rights_that_only_clusters_need(cluster, log_in):
    ns = "{rights.d}"
    with RSMQ.from_url(cluster.url, ns=ns) as admin:
        admin.create_queue("q", exist_ok=True)
        parts = documented("producer", "consumer", "administrator", "doctor")
        rules = " ".join([*parts, *CLUSTER_RULES])
        url = log_in(cluster.nodes, cluster.url, ns, rules)
        with RSMQ.from_url(url, ns=ns) as rsmq:
            codes = {each.code for each in examine(rsmq).findings}
            assert "not-looked-at" not in codes
        url = log_in(cluster.nodes, cluster.url, ns, f"{rules} -asking -hexists")
        with RSMQ.from_url(url, ns=ns) as rsmq:
            refused = rsmq.run(examine_rights(rsmq.namespace, "q"))
            assert refused >= {"asking", "hexists"}
            assert "exists" not in refused
        url = log_in(cluster.nodes, cluster.url, ns, f"{rules} -asking")
        with RSMQ.from_url(url, ns=ns) as rsmq:
            (finding,) = [each for each in examine(rsmq).findings if each.code == "rights"]
        assert "Redis Cluster (+asking)" in finding.text
        admin.delete_queue("q")


@pytest.mark.parametrize("kind", ["cluster", "sentinels"])
def test_consumers_that_wait_need_no_more_than_their_documented_rights(request, log_in, kind):
    group = request.getfixturevalue(kind)
    group.heal()
    ns = "{rights.wait}"
    is_cluster = kind == "cluster"
    nodes = group.nodes if is_cluster else [group.primary]
    rules = [*documented("consumer"), *PRODUCER.split()]
    rules += [*CLUSTER_RULES, "+exists"] if is_cluster else ["+role"]
    with RSMQ.from_url(group.url, ns=ns) as admin:
        admin.create_queue("q", exist_ok=True)
        # Its two keys, and the set of names.
        url = log_in(nodes, group.url, ns, " ".join(rules), f"{ns}:[qQ]*")
        with RSMQ.from_url(url, ns=ns) as rsmq:
            sent = threading.Timer(0.5, lambda: admin.send_message("q", "a"))
            sent.start()
            message = rsmq.receive_message("q", wait=20)
            assert message.body == "a"
            assert rsmq.watcher.is_tracking
            assert rsmq.change_message_visibility(message, 0)
            assert rsmq.delete_message(rsmq.receive_message("q"))
            assert rsmq.receive_messages("q", 5, wait=0.1) == []
        assert denied(nodes) == set()
        admin.delete_queue("q")


def test_workers_with_sentinels_need_no_more_than_their_documented_rights(sentinels, log_in):
    sentinels.heal()
    ns = "rights-w"
    nodes = [sentinels.primary]
    rules = [*documented("producer", "consumer", "administrator", "workers"), "+role"]
    url = log_in(nodes, sentinels.url, ns, " ".join(rules))
    with RSMQ.from_url(url, ns=ns) as rsmq:
        worker = Worker(rsmq, name="w")
        handled = []

        @worker.listener("q", max_retries=0, dead_letter_queue="dead", create=True)
        def handle(body):
            if body == "bad":
                raise ValueError(body)
            handled.append(body)

        with worker:
            rsmq.send_messages("q", ["good", "bad"])
            wait_until(lambda: worker.numbers.handled + worker.numbers.dead == 2)
            assert [each.name for each in list_workers(rsmq)] == ["w"]
        assert handled == ["good"]
        assert rsmq.peek_messages("dead")[0].reason.exception == "ValueError: bad"
        # Only a cluster needs it; here the scripts ignore the refusal.
        assert denied(nodes) <= {("command", "exists")}
        rsmq.delete_queue("q")
        rsmq.delete_queue("dead")
