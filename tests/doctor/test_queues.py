"""Queues as a whole: what other clients leave, what is found, and what is there after a repair."""

from __future__ import annotations

import pytest

from rsmq import RSMQ

ID = "hod98j94h7HkqVvzKrlMYXegVzlPtuLy"


def same(patient):
    """A repair without a word more changes nothing."""
    before = patient.state()
    assert patient.repaired() == []
    return patient.state() == before


def test_a_healthy_namespace_has_no_finding(patient, rsmq):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 3)
    rsmq.send_messages("q", ["a", "b", "", "c"], delay=5)
    rsmq.send_messages("q", ["a", "b", "", "c"])
    rsmq.send_message("q", "front", front=True)
    rsmq.send_message("q", "once", dedup_id="x")
    rsmq.receive_message("q")
    rsmq.receive_message("q", vt=0)
    rsmq.pop_message("q")
    rsmq.delete_message(rsmq.receive_message("q"))
    rsmq.move_messages([rsmq.receive_message("q")], "dead")
    rsmq.pause_queue("q")

    assert patient.codes() == []
    assert same(patient)


def test_a_queue_of_node_has_no_finding(patient, raw):
    """As npm rsmq 0.12.4 writes it: created, never used, and used."""
    raw.hset(patient.hash("n"), mapping={"vt": 30, "delay": 0, "maxsize": -1, "created": 1795264741,
                                         "modified": 1795264741})  # fmt: skip
    raw.sadd(patient.index, "n")

    assert patient.codes() == []

    raw.hset(patient.hash("n"), mapping={"hod98j94h7HkqVvzKrlMYXegVzlPtuLy": "body",
                                         "hod98j94h7HkqVvzKrlMYXegVzlPtuLy:rc": 2, "totalsent": 1,
                                         "hod98j94h7HkqVvzKrlMYXegVzlPtuLy:fr": 1795264742384,
                                         "totalrecv": 2})  # fmt: skip
    raw.zadd(patient.zset("n"), {"hod98j94h7HkqVvzKrlMYXegVzlPtuLy": 1795264742384})

    assert patient.codes() == []


def test_an_unlisted_queue_is_listed(patient, raw):
    raw.srem(patient.index, "q")

    assert patient.codes() == [("unlisted-queue", "q", 1)]
    assert patient.repaired() == [("unlisted-queue", "q", 1)]
    assert patient.listed() == {"q"}
    assert patient.codes() == []


def test_a_name_without_a_queue_is_taken_off_the_list(patient, raw):
    raw.sadd(patient.index, "gone", "old.name")

    assert patient.codes() == [
        ("listed-without-queue", "gone", 1), ("listed-without-queue", "old.name", 1),
    ]  # fmt: skip
    assert [number for *_, number in patient.repaired()] == [1, 1]
    assert patient.listed() == {"q"}
    assert patient.codes() == []


def test_a_queue_that_pyrsmq_left_half_made_is_completed_and_listed(patient, raw):
    raw.hset(patient.hash("half"), mapping={"vt": 45, "modified": 1795264741})

    (found,) = patient.findings()
    assert (found.code, found.text) == ("half-queue", "the queue lacks delay and maxsize")
    assert "rsmq delete-queue half" in found.remedy
    assert patient.repaired() == [("half-queue", "half", 1)]
    fields = patient.fields("half")
    assert abs(int(fields.pop("created")) - patient.now_ms() / 1000) < 60
    assert fields == {"vt": "45", "delay": "0", "maxsize": "65536", "modified": "1795264741"}
    assert patient.listed() == {"q", "half"}
    assert patient.codes() == []


def test_messages_that_a_delete_of_the_queue_overtook_are_received_again_when_asked_for(
    patient, raw, rsmq
):
    id = "hod98j94h7HkqVvzKrlMYXegVzlPtuLy"
    raw.hset(patient.hash("raced"), mapping={id: "kept", "totalsent": 1})
    raw.zadd(patient.zset("raced"), {id: 1795264742384})

    assert patient.codes() == [("messages-without-queue", "raced", 2)]
    assert same(patient)
    assert patient.repaired("messages-without-queue") == [("messages-without-queue", "raced", 1)]
    assert rsmq.receive_message("raced").body == "kept"
    assert patient.codes() == []


def test_ids_that_a_deletion_left_are_removed_when_asked_for(patient, raw):
    """grafana/go-rsmq and rsmq-rb delete the hash and leave the sorted set."""
    raw.zadd(patient.zset("left"), {f"hod98j94h{n}HkqVvzKrlMYXegVzlPtuLy": n for n in range(7)})

    assert patient.codes() == [("ids-without-queue", "left", 7)]
    assert same(patient)
    assert patient.repaired("ids-without-queue") == [("ids-without-queue", "left", 7)]
    assert not raw.exists(patient.zset("left"))
    assert patient.codes() == []


def test_of_a_sorted_set_that_holds_other_things_too_only_ids_go(patient, raw):
    raw.zadd(patient.zset("left"), {"hod98j94h7HkqVvzKrlMYXegVzlPtuLy": 1, "ann": 7})

    patient.repaired("ids-without-queue")
    assert patient.scores("left") == {"ann": 7}
    assert patient.codes() == []


def test_a_listed_name_of_which_only_ids_are_left_goes_in_two_steps(patient, raw):
    raw.zadd(patient.zset("left"), {"hod98j94h7HkqVvzKrlMYXegVzlPtuLy": 1})
    raw.sadd(patient.index, "left")

    assert patient.codes() == [("ids-without-queue", "left", 1)]
    patient.repaired("ids-without-queue")
    assert patient.codes() == [("listed-without-queue", "left", 1)]
    patient.repaired()
    assert patient.listed() == {"q"}


@pytest.mark.parametrize("kind", ["hash", "zset", "QUEUES"])
def test_a_key_that_expires_stays_from_then_on(patient, raw, rsmq, kind):
    """rsmq-rb can let the hash of a queue expire."""
    rsmq.send_message("q", "kept")
    key = {"hash": patient.hash(), "zset": patient.zset(), "QUEUES": patient.index}[kind]
    raw.expire(key, 600)

    (found,) = patient.findings()
    assert (found.code, found.severity) == ("expiring", "error")
    assert 590 <= found.number <= 600
    patient.repaired()
    assert raw.ttl(key) == -1
    assert patient.codes() == []


def test_keys_of_another_type_are_told_of_and_left_alone(patient, raw):
    """galadd/rsmq-go: a hash where the ids would be, a list where the hash would be."""
    raw.hset(patient.zset("go"), "a", "b")
    raw.rpush(patient.hash("go"), "m")
    raw.set(patient.zset("string"), "x")
    raw.hset(patient.hash("string"), mapping={"vt": 30, "delay": 0, "maxsize": 1024})

    found = patient.findings()
    assert [(each.code, each.queue, each.text) for each in found] == [
        ("wrong-type", "go", "the hash is a list, the zset is a hash"),
        ("wrong-type", "string", "the zset is a string"),
    ]
    assert same(patient)


def test_an_index_of_another_type_is_told_of_and_its_queues_are_still_found(patient, raw):
    raw.delete(patient.index)
    raw.rpush(patient.index, "x")

    found = patient.findings()
    assert [(each.code, each.queue) for each in found] == [
        ("wrong-type", None), ("unlisted-queue", "q"),
    ]  # fmt: skip
    assert found[0].text == f"{patient.ns}:QUEUES is a list"


def test_a_queue_called_queues_is_told_of_with_the_way_out(patient, raw):
    """Node's create and send: the body is stored, its id can't be."""
    fields = {"vt": 30, "delay": 0, "maxsize": 65536, "hod98j94h7HkqVvzKrlMYXegVzlPtuLy": "lost"}
    raw.hset(patient.hash("QUEUES"), mapping=fields)
    raw.sadd(patient.index, "QUEUES")

    (found,) = patient.findings()
    assert (found.code, found.queue, found.severity) == ("reserved-name", None, "error")
    assert f"redis-cli UNLINK {patient.ns}:QUEUES:Q" in found.remedy
    assert same(patient)


@pytest.mark.parametrize("name", ["a:x:b", "x:written"])
def test_a_queue_whose_name_is_refused_is_told_of_with_the_way_out(patient, raw, rsmq, name):
    seconds = patient.now_ms() // 1000
    fields = {"vt": 30, "delay": 0, "maxsize": 65536, ID: "kept", "totalsent": 1, "totalrecv": 0}
    fields |= {"created": seconds, "modified": seconds}
    raw.hset(patient.hash(name), mapping=fields)
    raw.zadd(patient.zset(name), {ID: 5})
    raw.sadd(patient.index, name)

    (found,) = patient.findings()
    assert (found.code, found.queue, found.severity) == ("unusable-name", None, "error")
    assert found.text.endswith(f"refuses: {name}")
    assert same(patient)
    # The remedy, as it is told.
    for old, new in (
        (patient.hash(name), patient.hash("new")),
        (patient.zset(name), patient.zset("new")),
    ):
        assert f" {old}" in found.remedy
        assert raw.renamenx(old, new)
    raw.srem(patient.index, name)
    assert patient.repaired() == [("unlisted-queue", "new", 1)]
    assert patient.findings() == []
    assert rsmq.receive_message("new").body == "kept"


def test_queues_of_an_old_rust_client_beside_ours_are_told_of(patient, raw):
    raw.sadd(f"{patient.ns}QUEUES", "gold", "silver")
    try:
        (found,) = patient.findings()
        assert (found.code, found.number, found.severity) == ("old-rust-keys", 2, "note")
        assert f"{patient.ns}QUEUES" in found.text
    finally:
        raw.delete(f"{patient.ns}QUEUES")


def test_messages_that_a_broken_off_move_has_put_aside_are_told_of(patient, raw):
    raw.hset(f"{patient.ns}:x:aside:rfq:ndvi", "id", "body")
    raw.set(f"{patient.ns}:x:aside:rfq:ndvi:held", "{}")

    (found,) = patient.findings()
    assert (found.code, found.queue, found.severity) == ("aside", None, "warning")
    assert "rfq:ndvi" in found.text
    assert same(patient)


def test_extension_data_of_a_queue_that_another_client_deleted_go_but_what_is_staged(patient, raw):
    for name in ("dedup", "leases", "reasons", "alone", "staged"):
        raw.hset(f"{patient.ns}:gone:x:{name}", "a", "b")
        raw.hset(f"{patient.ns}:q:x:{name}", "a", "b")
    raw.hset(f"{patient.ns}:x:workers", "w", "1:t:{}")
    raw.hset(f"{patient.ns}:x:held:w", "", "t")

    assert patient.codes() == [("left-over-extension", "gone", 4)]
    assert patient.repaired() == [("left-over-extension", "gone", 4)]
    assert raw.exists(f"{patient.ns}:gone:x:staged")
    assert raw.exists(*(f"{patient.ns}:q:x:{name}" for name in ("dedup", "reasons"))) == 2
    assert raw.exists(f"{patient.ns}:x:workers", f"{patient.ns}:x:held:w") == 2
    assert patient.codes() == []


def test_a_namespace_that_begins_with_this_one_is_left_alone(patient, raw, server):
    with RSMQ.from_url(server.url, ns=f"{patient.ns}:other") as other:
        other.create_queue("theirs")
        other.send_message("theirs", "m")
    raw.srem(f"{patient.ns}:other:QUEUES", "theirs")
    raw.sadd(f"{patient.ns}:other:QUEUES", "x")
    raw.set(f"{patient.ns}:lock", "of somebody")
    raw.hset(f"{patient.ns}:settings", "of", "somebody")
    raw.zadd(f"{patient.ns}:scores", {"ann": 7, "bob": 5})

    assert patient.codes() == []


def test_names_that_only_other_clients_take_are_examined_too(patient, raw):
    name = "größe 1"
    times = {"created": 1795264741, "modified": 1795264741}
    raw.hset(patient.hash(name), mapping={"vt": "0.5", "delay": 0, "maxsize": 2048, **times})

    assert patient.codes() == [("unlisted-queue", name, 1), ("bad-attribute", name, 1)]
    patient.repaired()
    assert patient.fields(name)["vt"] == "1"
    assert patient.codes() == []


def test_only_the_queues_that_are_named_are_looked_at(patient, raw, rsmq):
    rsmq.create_queue("r")
    raw.srem(patient.index, "q", "r")

    assert patient.codes(["r"]) == [("unlisted-queue", "r", 1)]


def test_a_dead_letter_queue_that_is_gone_is_made_when_asked_for(patient, raw, rsmq):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 3)
    raw.delete(patient.hash("dead"))
    raw.srem(patient.index, "dead")

    assert patient.codes() == [("dead-letter-gone", "q", 1)]
    assert same(patient)
    assert patient.repaired("dead-letter-gone") == [("dead-letter-gone", "q", 1)]
    assert patient.fields("dead")["vt"] == "30"
    assert patient.codes() == []


def test_dead_letters_that_go_round_are_told_of_at_each_queue(patient, raw, rsmq):
    for name in ("a", "b", "c", "outside"):
        rsmq.create_queue(name)
    for name, target in (("a", "b"), ("b", "c"), ("c", "a"), ("outside", "a"), ("q", "q")):
        raw.hset(patient.hash(name), mapping={"x:dlq": target, "x:max": 3})

    found = patient.findings()
    assert [(each.code, each.queue, each.text) for each in found] == [
        ("dead-letter-cycle", "a", "dead letters go round: a -> b -> c -> a"),
        ("dead-letter-cycle", "b", "dead letters go round: b -> c -> a -> b"),
        ("dead-letter-cycle", "c", "dead letters go round: c -> a -> b -> c"),
        ("dead-letter-cycle", "q", "dead letters go round: q -> q"),
    ]
    assert same(patient)


@pytest.mark.parametrize("fields", [{"x:dlq": "q2"}, {"x:max": 3}, {"x:dlq": "q2", "x:max": "0"},
                                    {"x:dlq": "q2", "x:max": "many"}])  # fmt: skip
def test_half_a_policy_is_told_of(patient, raw, rsmq, fields):
    rsmq.create_queue("q2")
    raw.hset(patient.hash(), mapping=fields)

    assert patient.codes() == [("bad-policy", "q", 1)]
    assert same(patient)
