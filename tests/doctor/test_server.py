"""What is said of the server, on servers that are as bad as it says."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest
import redis
from redis.cluster import RedisCluster

from rsmq import RSMQ
from rsmq.doctor import examine, repair
from rsmq.doctor.server_faults import REQUIRED_COMMANDS
from tests.servers import Server, redis_7


def of_server(rsmq):
    return {each.code: each for each in examine(rsmq).findings if each.queue is None}


@pytest.fixture
def settings(raw):
    """Sets settings of the shared server, and sets them back."""
    before = {}

    def change(**values):
        for name, value in values.items():
            key = name.replace("_", "-")
            before.setdefault(key, raw.config_get(key)[key])
            raw.config_set(key, value)

    yield change
    for key, value in before.items():
        raw.config_set(key, value)


@pytest.mark.parametrize(
    ("policy", "code", "severity"),
    [
        ("allkeys-lru", "eviction", "error"),
        ("volatile-lru", "volatile-eviction", "warning"),
    ],
)
def test_an_eviction_policy_is_an_error_where_it_loses_queues(
    rsmq, settings, policy, code, severity
):
    settings(maxmemory_policy=policy, maxmemory=10**12)

    found = of_server(rsmq)[code]
    assert (found.severity, found.text) == (severity, f"maxmemory-policy is {policy}")


def test_an_eviction_policy_without_a_limit_is_told_of_too(rsmq, settings):
    settings(maxmemory_policy="allkeys-random")

    assert of_server(rsmq)["eviction"].text.endswith("allkeys-random (no maxmemory is set yet)")


def test_a_server_that_is_nearly_full_is_told_of(rsmq, raw, settings):
    settings(maxmemory=int(raw.info("memory")["used_memory"] / 0.95))

    assert "memory-nearly-full" in of_server(rsmq)


def test_how_the_server_saves(rsmq, settings):
    assert {"no-persistence"} == set(of_server(rsmq))

    settings(save="3600 1")
    assert {"snapshots-only"} == set(of_server(rsmq))

    settings(appendonly="yes", appendfsync="everysec")
    found = of_server(rsmq)
    assert {"seldom-synced"} == set(found)
    assert (found["seldom-synced"].severity, examine(rsmq).faults) == ("note", ())

    settings(appendfsync="always")
    assert of_server(rsmq) == {}


def test_a_save_that_failed_is_an_error():
    server = Server(redis_7())
    shutil.rmtree(server.folder)
    try:
        with server.raw() as raw, RSMQ.from_url(server.url) as rsmq:
            raw.bgsave()
            deadline = time.monotonic() + 10
            while raw.info("persistence")["rdb_last_bgsave_status"] == "ok":
                assert time.monotonic() < deadline, "the save does not fail"

            found = of_server(rsmq)["save-failed"]
            assert (found.severity, "rdb_last_bgsave_status" in found.text) == ("error", True)
    finally:
        server.stop()


def test_a_replica_is_an_error_and_its_master_is_told_of_replicas(server, rsmq, ns):
    replica = Server(redis_7(), "--replicaof", "127.0.0.1", str(server.port))
    try:
        with replica.raw() as raw:
            deadline = time.monotonic() + 20
            while raw.info("replication")["master_link_status"] != "up":
                assert time.monotonic() < deadline, "the replica does not follow"
                time.sleep(0.01)
        rsmq.create_queue("q")
        with RSMQ.from_url(replica.url, ns=ns, retry_deadline=0) as other:
            assert "replica" in of_server(other)
        assert of_server(rsmq)["replicas-not-required"].severity == "note"
    finally:
        replica.stop()


def test_redis_6_2_is_new_enough(old_server):
    with RSMQ.from_url(old_server.url, ns="old") as rsmq:
        rsmq.create_queue("q")
        rsmq.send_message("q", "m")

        assert set(of_server(rsmq)) == {"no-persistence"}
        assert examine(rsmq).messages == 1


def test_a_node_of_a_cluster_needs_a_hash_tag(cluster_server):
    with RSMQ.from_url(cluster_server.url, ns="plain") as rsmq:
        found = examine(rsmq)

        assert {each.code for each in found.faults} == {"no-persistence", "no-hash-tag"}
        assert found.queues == 0


def test_on_a_cluster_queues_are_found_and_mended(cluster_server):
    client = RedisCluster(host="127.0.0.1", port=cluster_server.port)
    with RSMQ(client, ns="{doctor}") as rsmq, cluster_server.raw() as raw:
        rsmq.create_queue("q")
        raw.srem("{doctor}:QUEUES", "q")
        found = examine(rsmq)

        assert [(each.code, each.queue) for each in found.findings] == [
            ("not-looked-at", None), ("snapshots-only", None), ("unlisted-queue", "q"),
        ]  # fmt: skip
        repair(rsmq, found.findings)
        assert raw.smembers("{doctor}:QUEUES") == {b"q"}
        raw.unlink("{doctor}:q:Q", "{doctor}:QUEUES")
    client.close()


@pytest.fixture
def limited(server, ns, raw, rsmq):
    """A client of a user with these rules."""
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    opened = []

    def log_in(*rules):
        raw.execute_command("ACL", "SETUSER", ns, "reset", "on", ">secret", f"~{ns}:*", *rules)
        url = f"redis://{ns}:secret@127.0.0.1:{server.port}/0"
        opened.append(RSMQ.from_url(url, ns=ns))
        return opened[-1]

    yield log_in
    for client in opened:
        client.close()
    raw.execute_command("ACL", "DELUSER", ns)


def test_what_may_not_be_looked_at_is_a_note(limited):
    rsmq = limited("+@all", "-@admin", "-@dangerous")
    found = of_server(rsmq)

    assert {each.severity for each in found.values()} == {"note"}
    hidden = [each.text for each in examine(rsmq).findings if each.code == "not-looked-at"]
    assert hidden == [
        "could not look: CONFIG GET (saving, replicas)",
        "could not look: INFO (memory, saving, version, replication)",
    ]


def test_what_a_user_may_not_do_is_told_by_part(limited):
    examined = limited("+@all", "-hsetnx", "-sadd", "-hdel", "-hkeys")
    found = of_server(examined)["rights"]

    assert found.examples == ("hdel", "hkeys", "hsetnx", "sadd")
    assert found.text == (
        "this user may not use receiving and deleting (+hdel), dedup_id (+hdel), "
        "administration (+hsetnx +sadd), Spark (+hkeys)"
    )
    assert "rights" not in of_server(limited("+@all"))


def test_parts_need_what_the_readme_says():
    text = (Path(__file__).parents[2] / "README.md").read_text()
    rows = dict(re.findall(r"^\| ([\w ,*:`~]+) \| (.*\+.*) \|$", text, re.MULTILINE))
    said = {name: set(re.findall(r"\+(\w+)", rule)) for name, rule in rows.items()}
    producer, consumer = said["producer"], said["consumer"]
    admin = said["administrator, on `~rsmq:*`"]

    assert producer >= REQUIRED_COMMANDS["sending"] | REQUIRED_COMMANDS["dedup_id"]
    assert producer | consumer >= REQUIRED_COMMANDS["receiving and deleting"]
    assert admin == REQUIRED_COMMANDS["administration"]
    assert said["workers, on `~rsmq:*`"] == REQUIRED_COMMANDS["workers"]
    assert said["Spark, on `~rsmq:*`"] >= REQUIRED_COMMANDS["Spark"]


def test_an_administrator_with_a_few_rights_more_can_examine_and_repair(limited, raw, ns):
    """As the README tells people to write it."""
    admin = "+eval +evalsha +script|load +hget +hdel +zrem +zscore +zrangebyscore"
    admin += "".join(
        f" +{name}" for name in REQUIRED_COMMANDS["sending"] | REQUIRED_COMMANDS["administration"]
    )
    doctor = "+info +config|get +scan +hscan +hlen +scard +sismember +exists +type +pttl"
    rsmq = limited("-@all", *admin.split(), *doctor.split(), "+persist")
    raw.srem(f"{ns}:QUEUES", "q")
    raw.expire(f"{ns}:q:Q", 600)
    raw.zadd(f"{ns}:q", {"hod98j94h7HkqVvzKrlMYXegVzlPtuLy": 1})
    raw.hset(f"{ns}:q:Q", "vt", "0.5")
    found = examine(rsmq).findings

    assert {each.code for each in found if each.severity != "note"} == {
        "no-persistence", "expiring", "unlisted-queue", "ghost", "bad-attribute",
    }  # fmt: skip
    assert "not-looked-at" not in {each.code for each in found}
    repair(rsmq, found)
    assert {each.code for each in examine(rsmq).faults} == {"no-persistence"}


def test_trying_rights_changes_nothing(rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    before = {key: raw.dump(key) for key in raw.keys(f"{ns}*")}
    examine(rsmq)

    assert {key: raw.dump(key) for key in raw.keys(f"{ns}*")} == before


def test_who_may_send_no_scripts_gets_redis_error(limited):
    with pytest.raises(redis.exceptions.NoPermissionError):
        examine(limited("+@all", "-@scripting"))


def test_an_embedded_server_is_examined_as_far_as_it_goes():
    with RSMQ.from_url("memory://") as rsmq:
        rsmq.create_queue("q")
        rsmq.send_message("q", "m")
        found = examine(rsmq)

        assert (found.queues, found.messages, found.faults) == (1, 1, ())
        assert {each.code for each in found.findings} == {"not-looked-at"}


@pytest.mark.parametrize("options", [{"protocol": 2}, {"protocol": 3}, {"decode_responses": True}])
def test_a_client_that_is_handed_in_is_as_good(server, ns, options):
    with server.raw(**options) as client:
        rsmq = RSMQ(client, ns=ns)
        rsmq.create_queue("q")
        rsmq.send_message("q", "m")
        found = examine(rsmq)

        assert [each.code for each in found.findings] == ["no-persistence"]
        assert (found.queues, found.messages) == (1, 1)
