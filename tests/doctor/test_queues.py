"""Faults of queues as a whole, as other clients leave them, and their repairs."""

from __future__ import annotations

import pytest

from rsmq import RSMQ
from rsmq.doctor import repair

ID = "hod98j94h7HkqVvzKrlMYXegVzlPtuLy"


def is_unchanged_by_repair(namespace):
    """Return whether the safe repairs do and change nothing."""
    before = namespace.dump()
    assert namespace.repair() == []
    return namespace.dump() == before


def test_healthy_namespace_has_no_finding(namespace, rsmq):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 3)
    rsmq.send_messages("q", ["a", "b", "", "c"], delay=5)
    rsmq.send_messages("q", ["a", "b", "", "c"])
    rsmq.send_message("q", "front", front=True)
    rsmq.send_message("q", "once", dedup_id="x", unique_key="x")
    rsmq.send_message("dead", "gone", unique_key="free")
    rsmq.pop_message("dead")
    rsmq.receive_message("q")
    rsmq.receive_message("q", vt=0)
    rsmq.pop_message("q")
    rsmq.delete_message(rsmq.receive_message("q"))
    rsmq.move_messages([rsmq.receive_message("q")], "dead")
    rsmq.pause_queue("q")

    assert namespace.find_codes() == []
    assert is_unchanged_by_repair(namespace)


def test_groups_are_no_finding(namespace, rsmq, raw):
    """Messages that are held back, and records of messages that Node has deleted."""
    groups = ["a", "a", "b", "b", "c"]
    sent = rsmq.send_messages("q", ["m"] * 5, groups=groups)
    rsmq.send_message("q", "m", group="d", delay=5)
    rsmq.receive_message("q")
    raw.zrem(namespace.zset(), sent[2], sent[4])
    raw.hdel(namespace.hash(), sent[2], sent[4])
    assert rsmq.sweep_groups("q") == 1
    assert [each.state for each in rsmq.peek_messages("q")].count("held_back") == 1

    assert namespace.find_codes() == []
    assert is_unchanged_by_repair(namespace)


def test_queue_of_node_has_no_finding(namespace, raw):
    """As npm rsmq 0.12.4 writes it: created, never used, and used."""
    attributes = {
        "vt": 30,
        "delay": 0,
        "maxsize": -1,
        "created": 1795264741,
        "modified": 1795264741,
    }
    raw.hset(namespace.hash("n"), mapping=attributes)
    raw.sadd(namespace.index, "n")

    assert namespace.find_codes() == []

    message = {ID: "body", f"{ID}:rc": 2, f"{ID}:fr": 1795264742384}
    raw.hset(namespace.hash("n"), mapping={**message, "totalsent": 1, "totalrecv": 2})
    raw.zadd(namespace.zset("n"), {ID: 1795264742384})

    assert namespace.find_codes() == []


def test_unlisted_queue_is_listed(namespace, raw):
    raw.srem(namespace.index, "q")

    assert namespace.find_codes() == [("unlisted-queue", "q", 1)]
    assert namespace.repair() == [("unlisted-queue", "q", 1)]
    assert namespace.read_listed() == {"q"}
    assert namespace.find_codes() == []


def test_listed_name_without_queue_is_removed(namespace, raw):
    raw.sadd(namespace.index, "gone", "old.name")

    assert namespace.find_codes() == [
        ("listed-without-queue", "gone", 1), ("listed-without-queue", "old.name", 1),
    ]  # fmt: skip
    assert [number for *_, number in namespace.repair()] == [1, 1]
    assert namespace.read_listed() == {"q"}
    assert namespace.find_codes() == []


def test_half_queue_is_completed_and_listed(namespace, raw):
    raw.hset(namespace.hash("half"), mapping={"vt": 45, "modified": 1795264741})

    (finding,) = namespace.examine()
    assert (finding.code, finding.text) == ("half-queue", "the queue lacks delay and maxsize")
    assert "rsmq delete-queue half" in finding.remedy
    assert namespace.repair() == [("half-queue", "half", 1)]
    fields = namespace.read_fields("half")
    assert abs(int(fields.pop("created")) - namespace.now_ms() / 1000) < 60
    assert fields == {"vt": "45", "delay": "0", "maxsize": "65536", "modified": "1795264741"}
    assert namespace.read_listed() == {"q", "half"}
    assert namespace.find_codes() == []


def test_messages_without_queue_become_a_queue_only_on_request(namespace, raw, rsmq):
    id = "hod98j94h7HkqVvzKrlMYXegVzlPtuLy"
    raw.hset(namespace.hash("raced"), mapping={id: "kept", "totalsent": 1})
    raw.zadd(namespace.zset("raced"), {id: 1795264742384})

    assert namespace.find_codes() == [("messages-without-queue", "raced", 2)]
    assert is_unchanged_by_repair(namespace)
    assert namespace.repair("messages-without-queue") == [("messages-without-queue", "raced", 1)]
    assert rsmq.receive_message("raced").body == "kept"
    assert namespace.find_codes() == []


def test_ids_without_queue_are_removed_only_on_request(namespace, raw):
    """grafana/go-rsmq and rsmq-rb delete the hash and leave the sorted set."""
    raw.zadd(namespace.zset("left"), {f"hod98j94h{n}HkqVvzKrlMYXegVzlPtuLy": n for n in range(7)})

    assert namespace.find_codes() == [("ids-without-queue", "left", 7)]
    assert is_unchanged_by_repair(namespace)
    assert namespace.repair("ids-without-queue") == [("ids-without-queue", "left", 7)]
    assert not raw.exists(namespace.zset("left"))
    assert namespace.find_codes() == []


def test_ids_without_queue_repair_keeps_other_members(namespace, raw):
    raw.zadd(namespace.zset("left"), {"hod98j94h7HkqVvzKrlMYXegVzlPtuLy": 1, "ann": 7})

    namespace.repair("ids-without-queue")
    assert namespace.read_scores("left") == {"ann": 7}
    assert namespace.find_codes() == []


def test_listed_ids_without_queue_are_removed_in_two_repairs(namespace, raw):
    raw.zadd(namespace.zset("left"), {"hod98j94h7HkqVvzKrlMYXegVzlPtuLy": 1})
    raw.sadd(namespace.index, "left")

    assert namespace.find_codes() == [("ids-without-queue", "left", 1)]
    namespace.repair("ids-without-queue")
    assert namespace.find_codes() == [("listed-without-queue", "left", 1)]
    namespace.repair()
    assert namespace.read_listed() == {"q"}


@pytest.mark.parametrize("kind", ["hash", "zset", "QUEUES"])
def test_expiring_key_is_persisted(namespace, raw, rsmq, kind):
    """rsmq-rb can let the hash of a queue expire."""
    rsmq.send_message("q", "kept")
    key = {"hash": namespace.hash(), "zset": namespace.zset(), "QUEUES": namespace.index}[kind]
    raw.expire(key, 600)

    (finding,) = namespace.examine()
    assert (finding.code, finding.severity) == ("expiring", "error")
    assert 590 <= finding.number <= 600
    namespace.repair()
    assert raw.ttl(key) == -1
    assert namespace.find_codes() == []


def test_keys_of_wrong_type_are_reported_and_kept(namespace, raw):
    """galadd/rsmq-go: a hash where the ids would be, a list where the hash would be."""
    raw.hset(namespace.zset("go"), "a", "b")
    raw.rpush(namespace.hash("go"), "m")
    raw.set(namespace.zset("string"), "x")
    raw.hset(namespace.hash("string"), mapping={"vt": 30, "delay": 0, "maxsize": 1024})

    findings = namespace.examine()
    assert [(each.code, each.queue, each.text) for each in findings] == [
        ("wrong-type", "go", "the hash is a list, the zset is a hash"),
        ("wrong-type", "string", "the zset is a string"),
    ]
    assert is_unchanged_by_repair(namespace)


def test_queues_are_found_if_the_index_has_a_wrong_type(namespace, raw):
    raw.delete(namespace.index)
    raw.rpush(namespace.index, "x")

    findings = namespace.examine()
    assert [(each.code, each.queue) for each in findings] == [
        ("wrong-type", None), ("unlisted-queue", "q"),
    ]  # fmt: skip
    assert findings[0].text == f"{namespace.ns}:QUEUES is a list"


def test_reserved_name_is_reported_with_its_remedy(namespace, raw):
    """Node's create and send: the body is stored, its id can't be."""
    fields = {"vt": 30, "delay": 0, "maxsize": 65536, "hod98j94h7HkqVvzKrlMYXegVzlPtuLy": "lost"}
    raw.hset(namespace.hash("QUEUES"), mapping=fields)
    raw.sadd(namespace.index, "QUEUES")

    (finding,) = namespace.examine()
    assert (finding.code, finding.queue, finding.severity) == ("reserved-name", None, "error")
    assert f"redis-cli UNLINK {namespace.ns}:QUEUES:Q" in finding.remedy
    assert is_unchanged_by_repair(namespace)


@pytest.mark.parametrize("name", ["a:x:b", "x:written"])
def test_unusable_name_is_reported_with_a_remedy_that_works(namespace, raw, rsmq, name):
    seconds = namespace.now_ms() // 1000
    fields = {"vt": 30, "delay": 0, "maxsize": 65536, ID: "kept", "totalsent": 1, "totalrecv": 0}
    fields |= {"created": seconds, "modified": seconds}
    raw.hset(namespace.hash(name), mapping=fields)
    raw.zadd(namespace.zset(name), {ID: 5})
    raw.sadd(namespace.index, name)

    (finding,) = namespace.examine()
    assert (finding.code, finding.queue, finding.severity) == ("unusable-name", None, "error")
    assert finding.text.endswith(f"refuses: {name}")
    assert is_unchanged_by_repair(namespace)
    # The commands of the remedy.
    for old, new in (
        (namespace.hash(name), namespace.hash("new")),
        (namespace.zset(name), namespace.zset("new")),
    ):
        assert f" {old}" in finding.remedy
        assert raw.renamenx(old, new)
    raw.srem(namespace.index, name)
    assert namespace.repair() == [("unlisted-queue", "new", 1)]
    assert namespace.examine() == []
    assert rsmq.receive_message("new").body == "kept"


def test_empty_name_is_removed_from_the_index(namespace, raw):
    raw.sadd(namespace.index, "")

    (finding,) = namespace.examine()
    assert (finding.code, finding.queue, finding.severity) == ("empty-name", None, "warning")
    assert namespace.repair() == [("empty-name", None, 1)]
    assert namespace.read_listed() == {"q"}
    assert namespace.examine() == []


@pytest.mark.parametrize("kind", ["hash", "zset"])
def test_queue_with_an_empty_name_is_kept(namespace, raw, kind):
    """Its keys are found by the examination, or by the repair if they are newer."""
    raw.sadd(namespace.index, "")
    findings = namespace.examine()
    if kind == "hash":
        raw.hset(f"{namespace.ns}::Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536})
    else:
        raw.zadd(f"{namespace.ns}:", {ID: 5})
    before = namespace.dump()

    (result,) = repair(namespace.rsmq, findings)
    assert (result.finding.code, result.number) == ("empty-name", 0)
    assert namespace.dump() == before
    (finding,) = namespace.examine()
    assert finding.code == "unusable-name"
    assert f" {namespace.ns}::Q and {namespace.ns}:, " in finding.remedy
    assert is_unchanged_by_repair(namespace)


def test_index_of_an_old_rust_client_is_reported(namespace, raw):
    raw.sadd(f"{namespace.ns}QUEUES", "gold", "silver")
    try:
        (finding,) = namespace.examine()
        assert (finding.code, finding.number, finding.severity) == ("old-rust-keys", 2, "note")
        assert f"{namespace.ns}QUEUES" in finding.text
    finally:
        raw.delete(f"{namespace.ns}QUEUES")


def test_messages_set_aside_by_an_interrupted_move_are_reported(namespace, raw):
    raw.hset(f"{namespace.ns}:x:aside:rfq:ndvi", "id", "body")
    raw.set(f"{namespace.ns}:x:aside:rfq:ndvi:held", "{}")

    (finding,) = namespace.examine()
    assert (finding.code, finding.queue, finding.severity) == ("aside", None, "warning")
    assert "rfq:ndvi" in finding.text
    assert is_unchanged_by_repair(namespace)


def test_left_over_extension_data_is_removed_except_staged_messages(namespace, raw):
    for name in ("dedup", "unique", "leases", "reasons", "alone", "staged"):
        raw.hset(f"{namespace.ns}:gone:x:{name}", "a", "b")
        raw.hset(f"{namespace.ns}:q:x:{name}", "a", "b")
    raw.hset(f"{namespace.ns}:x:workers", "w", "1:t:{}")
    raw.hset(f"{namespace.ns}:x:held:w", "", "t")

    assert namespace.find_codes() == [("left-over-extension", "gone", 5)]
    assert namespace.repair() == [("left-over-extension", "gone", 5)]
    assert raw.exists(f"{namespace.ns}:gone:x:staged")
    assert raw.exists(*(f"{namespace.ns}:q:x:{name}" for name in ("dedup", "reasons"))) == 2
    assert raw.exists(f"{namespace.ns}:x:workers", f"{namespace.ns}:x:held:w") == 2
    assert namespace.find_codes() == []


def test_unique_keys_of_a_queue_that_node_dropped_are_removed(namespace, raw):
    client = namespace.rsmq
    client.create_queue("dropped")
    client.send_message("dropped", "m", unique_key="k", dedup_id="d")
    ns = namespace.ns
    raw.delete(f"{ns}:dropped:Q", f"{ns}:dropped")  # as Node's deleteQueue does
    raw.srem(f"{ns}:QUEUES", "dropped")

    assert namespace.find_codes() == [("left-over-extension", "dropped", 2)]
    namespace.repair()
    assert raw.keys(f"{ns}:dropped*") == []


def test_namespace_whose_name_begins_with_this_one_is_ignored(namespace, raw, server):
    with RSMQ.from_url(server.url, ns=f"{namespace.ns}:other") as other:
        other.create_queue("theirs")
        other.send_message("theirs", "m")
    raw.srem(f"{namespace.ns}:other:QUEUES", "theirs")
    raw.sadd(f"{namespace.ns}:other:QUEUES", "x")
    raw.set(f"{namespace.ns}:lock", "another program")
    raw.hset(f"{namespace.ns}:settings", "owner", "another program")
    raw.zadd(f"{namespace.ns}:scores", {"ann": 7, "bob": 5})

    assert namespace.find_codes() == []


def test_queue_names_that_this_library_refuses_are_examined(namespace, raw):
    name = "größe 1"
    times = {"created": 1795264741, "modified": 1795264741}
    raw.hset(namespace.hash(name), mapping={"vt": "0.5", "delay": 0, "maxsize": 2048, **times})

    assert namespace.find_codes() == [("unlisted-queue", name, 1), ("bad-attribute", name, 1)]
    namespace.repair()
    assert namespace.read_fields(name)["vt"] == "1"
    assert namespace.find_codes() == []


def test_only_named_queues_are_examined(namespace, raw, rsmq):
    rsmq.create_queue("r")
    raw.srem(namespace.index, "q", "r")

    assert namespace.find_codes(["r"]) == [("unlisted-queue", "r", 1)]


def test_missing_dead_letter_queue_is_created_only_on_request(namespace, raw, rsmq):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 3)
    raw.delete(namespace.hash("dead"))
    raw.srem(namespace.index, "dead")

    assert namespace.find_codes() == [("dead-letter-gone", "q", 1)]
    assert is_unchanged_by_repair(namespace)
    assert namespace.repair("dead-letter-gone") == [("dead-letter-gone", "q", 1)]
    assert namespace.read_fields("dead")["vt"] == "30"
    assert namespace.find_codes() == []


def test_dead_letter_cycle_is_reported_for_each_of_its_queues(namespace, raw, rsmq):
    for name in ("a", "b", "c", "outside"):
        rsmq.create_queue(name)
    for name, target in (("a", "b"), ("b", "c"), ("c", "a"), ("outside", "a"), ("q", "q")):
        raw.hset(namespace.hash(name), mapping={"x:dlq": target, "x:max": 3})

    findings = namespace.examine()
    assert [(each.code, each.queue, each.text) for each in findings] == [
        ("dead-letter-cycle", "a", "dead letters circulate: a -> b -> c -> a"),
        ("dead-letter-cycle", "b", "dead letters circulate: b -> c -> a -> b"),
        ("dead-letter-cycle", "c", "dead letters circulate: c -> a -> b -> c"),
        ("dead-letter-cycle", "q", "dead letters circulate: q -> q"),
    ]
    assert is_unchanged_by_repair(namespace)


@pytest.mark.parametrize("fields", [{"x:dlq": "q2"}, {"x:max": 3}, {"x:dlq": "q2", "x:max": "0"},
                                    {"x:dlq": "q2", "x:max": "many"}])  # fmt: skip
def test_incomplete_policy_is_reported(namespace, raw, rsmq, fields):
    rsmq.create_queue("q2")
    raw.hset(namespace.hash(), mapping=fields)

    assert namespace.find_codes() == [("bad-policy", "q", 1)]
    assert is_unchanged_by_repair(namespace)
