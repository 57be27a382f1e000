"""Faults of the server, on servers that have them."""

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
from rsmq.doctor.operations import examine_rights
from rsmq.doctor.server_faults import REQUIRED_COMMANDS
from rsmq.operations.scripts import load, script_names
from tests.engines import engine_path
from tests.servers import Server, redis_7


def find_server_faults(rsmq):
    return {each.code: each for each in examine(rsmq).findings if each.queue is None}


@pytest.fixture
def change_settings(raw):
    """A function that changes settings of the shared server until the end of the test."""
    before = {}

    def set_values(**values):
        for name, value in values.items():
            key = name.replace("_", "-")
            before.setdefault(key, raw.config_get(key)[key])
            raw.config_set(key, value)

    yield set_values
    for key, value in before.items():
        raw.config_set(key, value)


@pytest.mark.parametrize(
    ("policy", "code", "severity"),
    [
        ("allkeys-lru", "eviction", "error"),
        ("volatile-lru", "volatile-eviction", "warning"),
    ],
)
def test_eviction_policy_is_an_error_if_it_can_remove_queues(
    rsmq, change_settings, policy, code, severity
):
    change_settings(maxmemory_policy=policy, maxmemory=10**12)

    finding = find_server_faults(rsmq)[code]
    assert (finding.severity, finding.text) == (severity, f"maxmemory-policy is {policy}")


def test_eviction_policy_without_maxmemory_is_reported(rsmq, change_settings):
    change_settings(maxmemory_policy="allkeys-random")

    assert find_server_faults(rsmq)["eviction"].text.endswith(
        "allkeys-random (no maxmemory is set yet)"
    )


def test_nearly_full_memory_is_reported(rsmq, raw, change_settings):
    change_settings(maxmemory=int(raw.info("memory")["used_memory"] / 0.95))

    assert "memory-nearly-full" in find_server_faults(rsmq)


def test_persistence_settings(rsmq, change_settings):
    assert {"no-persistence"} == set(find_server_faults(rsmq))

    change_settings(save="3600 1")
    assert {"snapshots-only"} == set(find_server_faults(rsmq))

    change_settings(appendonly="yes", appendfsync="everysec")
    findings = find_server_faults(rsmq)
    assert {"seldom-synced"} == set(findings)
    assert (findings["seldom-synced"].severity, examine(rsmq).faults) == ("note", ())

    change_settings(appendfsync="always")
    assert find_server_faults(rsmq) == {}


def test_small_tracking_table_is_a_warning_with_its_size(rsmq, change_settings):
    for limit, is_found in ((0, False), (1, True), (9999, True), (10_000, False)):
        change_settings(tracking_table_max_keys=limit)
        assert ("small-tracking-table" in find_server_faults(rsmq)) is is_found
    change_settings(tracking_table_max_keys=5)
    finding = find_server_faults(rsmq)["small-tracking-table"]
    assert (finding.severity, finding.text) == ("warning", "tracking-table-max-keys is 5")
    assert "CONFIG SET tracking-table-max-keys 1000000" in finding.remedy


@pytest.mark.parametrize(("renamed", "shown"), [("HELLO", "HELLO"), ("CLIENT", "CLIENT TRACKING")])
def test_server_that_can_not_report_changes_is_a_note(renamed, shown):
    """Proxies that do not know these commands reply with the same error."""
    server = Server(redis_7(), "--rename-command", renamed, "")
    try:
        with RSMQ.from_url(server.url) as rsmq:
            finding = find_server_faults(rsmq)["no-tracking"]
    finally:
        server.stop()
    assert (finding.severity, finding.text) == (
        "note", f"the server, or a proxy before it, does not know {shown}",
    )  # fmt: skip
    assert "poll" in finding.harm


def test_failed_save_is_an_error():
    server = Server(redis_7())
    shutil.rmtree(server.folder)
    try:
        with server.raw() as raw, RSMQ.from_url(server.url) as rsmq:
            raw.bgsave()
            deadline = time.monotonic() + 10
            while raw.info("persistence")["rdb_last_bgsave_status"] == "ok":
                assert time.monotonic() < deadline, "the save does not fail"

            finding = find_server_faults(rsmq)["save-failed"]
            assert (finding.severity, "rdb_last_bgsave_status" in finding.text) == ("error", True)
    finally:
        server.stop()


def test_replica_is_an_error_and_its_master_has_a_note(server, rsmq, ns):
    replica = Server(redis_7(), "--replicaof", "127.0.0.1", str(server.port))
    try:
        with replica.raw() as raw:
            deadline = time.monotonic() + 20
            while raw.info("replication")["master_link_status"] != "up":
                assert time.monotonic() < deadline, "the replica does not follow"
                time.sleep(0.01)
        rsmq.create_queue("q")
        with RSMQ.from_url(replica.url, ns=ns, retry_deadline=0) as other:
            assert "replica" in find_server_faults(other)
        assert find_server_faults(rsmq)["replicas-not-required"].severity == "note"
    finally:
        replica.stop()


def test_redis_6_2_is_supported(old_server):
    with RSMQ.from_url(old_server.url, ns="old") as rsmq:
        rsmq.create_queue("q")
        rsmq.send_message("q", "m")

        assert set(find_server_faults(rsmq)) == {"no-persistence"}
        assert examine(rsmq).messages == 1


def test_cluster_node_needs_a_hash_tag(cluster_server):
    with RSMQ.from_url(cluster_server.url, ns="plain") as rsmq:
        report = examine(rsmq)

        assert {each.code for each in report.faults} == {"no-persistence", "no-hash-tag"}
        assert report.queues == 0


def test_queues_on_a_cluster_are_repaired(cluster_server):
    client = RedisCluster(host="127.0.0.1", port=cluster_server.port)
    with RSMQ(client, ns="{doctor}") as rsmq, cluster_server.raw() as raw:
        rsmq.create_queue("q")
        raw.srem("{doctor}:QUEUES", "q")
        report = examine(rsmq)

        assert [(each.code, each.queue) for each in report.findings] == [
            ("no-persistence", None), ("unlisted-queue", "q"),
        ]  # fmt: skip
        repair(rsmq, report.findings)
        assert raw.smembers("{doctor}:QUEUES") == {b"q"}
        raw.unlink("{doctor}:q:Q", "{doctor}:QUEUES")
    client.close()


@pytest.fixture
def log_in(server, ns, raw, rsmq):
    """A function that returns a client whose user has these ACL rules."""
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    opened = []

    def connect(*rules):
        raw.execute_command("ACL", "SETUSER", ns, "reset", "on", ">secret", f"~{ns}:*", *rules)
        url = f"redis://{ns}:secret@127.0.0.1:{server.port}/0"
        opened.append(RSMQ.from_url(url, ns=ns))
        return opened[-1]

    yield connect
    for client in opened:
        client.close()
    raw.execute_command("ACL", "DELUSER", ns)


def test_missing_rights_to_examine_are_notes(log_in):
    rsmq = log_in("+@all", "-@admin", "-@dangerous")
    findings = find_server_faults(rsmq)

    assert {each.severity for each in findings.values()} == {"note"}
    hidden = [each.text for each in examine(rsmq).findings if each.code == "not-looked-at"]
    assert hidden == [
        "could not examine: CONFIG GET (saving, replicas, tracking)",
        "could not examine: INFO (memory, saving, version, replication)",
    ]


def test_missing_rights_are_reported_by_part(log_in):
    examined = log_in("+@all", "-hsetnx", "-sadd", "-hdel", "-hkeys", "-zremrangebyrank")
    finding = find_server_faults(examined)["rights"]

    assert finding.examples == ("hdel", "hkeys", "hsetnx", "sadd", "zremrangebyrank")
    assert finding.text == (
        "this user may not use receiving and deleting (+hdel), dedup_id (+hdel), "
        "unique_key (+hdel), group (+hdel), flow (+hdel +zremrangebyrank), "
        "administration (+hsetnx +sadd), Spark (+hkeys)"
    )
    assert "rights" not in find_server_faults(log_in("+@all"))


@pytest.mark.parametrize("engine", ["redis-8.2", "valkey-8.1", "valkey-9.1"])
def test_missing_rights_are_found_on_later_servers(engine):
    """Their text for a missing right is another one."""
    binary = engine_path(engine)
    if binary is None:
        pytest.skip(f"{engine} is not installed: run scripts/setup")
    server = Server(binary)
    try:
        with server.raw() as raw:
            raw.acl_setuser("u", True, passwords="+secret", keys="*", categories=["+@all"],
                            commands=["-hsetnx", "-exists"])  # fmt: skip
        url = f"redis://u:secret@127.0.0.1:{server.port}/0"
        with RSMQ.from_url(server.url) as admin, RSMQ.from_url(url) as rsmq:
            admin.create_queue("q")
            refused = rsmq.run(examine_rights(rsmq.namespace, "q"))
    finally:
        server.stop()
    assert refused == {"hsetnx", "exists"}


def test_required_commands_agree_with_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    rows = dict(re.findall(r"^\| ([\w ,*:`~]+) \| (.*\+.*) \|$", text, re.MULTILINE))
    rules = {name: set(re.findall(r"\+(\w+)", rule)) for name, rule in rows.items()}
    producer, consumer = rules["producer"], rules["consumer"]
    admin = rules["administrator, on `~rsmq:*`"]

    of_options = set().union(
        *(REQUIRED_COMMANDS[each] for each in ("dedup_id", "unique_key", "group", "flow"))
    )
    assert producer >= REQUIRED_COMMANDS["sending"] | of_options
    assert producer | consumer >= REQUIRED_COMMANDS["receiving and deleting"]
    of_jobs = {"scan", "pexpire"}
    of_groups = REQUIRED_COMMANDS["sweep_groups"] | {"hrandfield"}
    assert admin - of_jobs - of_groups == REQUIRED_COMMANDS["administration"]
    assert admin >= REQUIRED_COMMANDS["sweep_groups"]
    assert rules["workers, on `~rsmq:*`"] == REQUIRED_COMMANDS["workers"]
    assert rules["Spark, on `~rsmq:*`"] >= REQUIRED_COMMANDS["Spark"]
    (on_cluster,) = re.findall(r"^On \[Redis Cluster\].*$", text, re.MULTILINE)
    assert set(re.findall(r"\+(asking|exists)", on_cluster)) == REQUIRED_COMMANDS["Redis Cluster"]


def test_administrator_with_additional_rights_can_examine_and_repair(log_in, raw, ns):
    """With the rules in docs/security.md."""
    admin = "+eval +evalsha +script|load +hget +hdel +zrem +zscore +zrangebyscore"
    admin += "".join(
        f" +{name}" for name in REQUIRED_COMMANDS["sending"] | REQUIRED_COMMANDS["administration"]
    )
    doctor = "+info +config|get +scan +hscan +hlen +scard +sismember +exists +type +pttl"
    rsmq = log_in("-@all", *admin.split(), *doctor.split(), "+persist")
    raw.srem(f"{ns}:QUEUES", "q")
    raw.expire(f"{ns}:q:Q", 600)
    raw.zadd(f"{ns}:q", {"hod98j94h7HkqVvzKrlMYXegVzlPtuLy": 1})
    raw.hset(f"{ns}:q:Q", "vt", "0.5")
    findings = examine(rsmq).findings

    assert {each.code for each in findings if each.severity != "note"} == {
        "no-persistence", "expiring", "unlisted-queue", "ghost", "bad-attribute",
    }  # fmt: skip
    assert "not-looked-at" not in {each.code for each in findings}
    repair(rsmq, findings)
    assert {each.code for each in examine(rsmq).faults} == {"no-persistence"}


def test_check_of_rights_changes_nothing(rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    before = {key: raw.dump(key) for key in raw.keys(f"{ns}*")}
    examine(rsmq)

    assert {key: raw.dump(key) for key in raw.keys(f"{ns}*")} == before


def test_examine_without_right_to_scripts_raises_permission_error(log_in):
    with pytest.raises(redis.exceptions.NoPermissionError):
        examine(log_in("+@all", "-@scripting"))


def test_embedded_server_is_examined_without_its_settings():
    with RSMQ.from_url("memory://") as rsmq:
        rsmq.create_queue("q")
        rsmq.send_message("q", "m")
        report = examine(rsmq)

        assert (report.queues, report.messages, report.faults) == (1, 1, ())
        assert {each.code for each in report.findings} == {"no-tracking", "not-looked-at"}


@pytest.mark.parametrize("options", [{"protocol": 2}, {"protocol": 3}, {"decode_responses": True}])
def test_examine_works_with_any_redis_client(server, ns, options):
    with server.raw(**options) as client:
        rsmq = RSMQ(client, ns=ns)
        rsmq.create_queue("q")
        rsmq.send_message("q", "m")
        report = examine(rsmq)

        assert [each.code for each in report.findings] == ["no-persistence"]
        assert (report.queues, report.messages) == (1, 1)


#: The scripts of each part, as names and features.
SCRIPTS_OF_PARTS = {
    "sending": [("send_message", ""), ("send_messages", "")],
    "receiving and deleting": [
        (name, "")
        for name in (
            "receive_message", "receive_messages", "pop_message", "pop_messages", "delete_message",
            "delete_messages", "change_messages_visibility", "release_messages", "get_message",
        )
    ],
    "dedup_id": [("send_with_options", "")],
    "unique_key": [("send_with_options", "")],
    "group": [("send_with_options", "")],
    "rate": [("send_with_options", "")],
    "flow": [("send_flow", "jobs")],
    "sweep_groups": [("sweep_groups", "")],
    "administration": [each for each in script_names() if each[1] == ""],
    "workers": [each for each in script_names() if each[1] in {"worker", "control"}],
    "Spark": [each for each in script_names() if each[1] in {"spark", "", "control"}],
}  # fmt: skip
#: The features whose scripts need no rights beyond those of these parts.
CHECKED = {
    "", "control", "explain", "figures", "jobs", "schedules", "search", "spark", "tasks", "worker",
}  # fmt: skip
#: The commands of these scripts that few users need.
NOT_REPORTED = {
    "publish": "of realtime=True",
    "zrank": "of why ID",
    "hstrlen": "of why ID",
    "scan": "of jobs",
    "zscan": "of exports",
}
_COMMAND = re.compile(r"(?:call|try)\('(\w+)'")
_LISTED = re.compile(r"in ipairs\(\{(.*?)\}\)")


def find_commands(script):
    text = re.sub("--.*", "", load(*script).source.decode())
    listed = re.findall(r"'(\w+)'", " ".join(_LISTED.findall(text)))
    return {each.lower() for each in (*_COMMAND.findall(text), *listed)}


def test_required_commands_are_those_of_the_scripts():
    of_cluster = REQUIRED_COMMANDS["Redis Cluster"]
    assert REQUIRED_COMMANDS.keys() == SCRIPTS_OF_PARTS.keys() | {"Redis Cluster"}
    for part, scripts in SCRIPTS_OF_PARTS.items():
        used = set().union(*map(find_commands, scripts))
        assert used >= REQUIRED_COMMANDS[part], part
    required = set().union(*REQUIRED_COMMANDS.values())
    used = set().union(*map(find_commands, (each for each in script_names() if each[1] in CHECKED)))
    assert used | of_cluster == required | NOT_REPORTED.keys()


def test_the_rights_that_are_tried_are_the_required_ones():
    tried = find_commands(("examine_rights", "doctor"))

    assert tried - {"sismember"} == set().union(*REQUIRED_COMMANDS.values())
