"""Faults of messages, as other clients and accidents leave them."""

from __future__ import annotations

import pytest

from rsmq.doctor import repair
from rsmq.doctor.operations import (
    remove_ghost_ids,
    remove_orphan_fields,
    replace_ids,
    restore_orphan_bodies,
)

NODE = "hod98j94h7HkqVvzKrlMYXegVzlPtuLy"  # sent at 1795264742384.107
SENT = 1795264742384
RUBY = "AbCdEfGhIjKlMnOpQrStUv"
RUST = "mwpbripkB" + "y" * 21
SECONDS = "totd7t" + "I" * 22


def store(namespace, raw, id=NODE, body="kept", score=SENT, **counters):
    fields = {} if body is None else {id: body}
    fields |= {f"{id}:{name}": value for name, value in counters.items()}
    if fields:
        raw.hset(namespace.hash(), mapping=fields)
    if score is not None:
        raw.zadd(namespace.zset(), {id: score})
    return id


def read_message_fields(namespace):
    """Return the fields of the hash that are not attributes."""
    names = {"vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv"}
    return {name: value for name, value in namespace.read_fields().items() if name not in names}


def test_ghost_is_removed_with_its_counters(namespace, raw, rsmq):
    kept = rsmq.send_message("q", "kept")
    store(namespace, raw, body=None, rc=7, fr=5)
    store(namespace, raw, RUBY, body=None, score=5)

    (finding,) = namespace.examine()
    assert (finding.code, finding.number) == ("ghost", 2)
    assert set(finding.examples) == {NODE, RUBY}
    assert namespace.repair() == [("ghost", "q", 2)]
    assert read_message_fields(namespace) == {kept: "kept"}
    assert list(namespace.read_scores()) == [kept]
    assert namespace.find_codes() == []


def make_id(ms, end="a" * 21 + "A"):
    """Return Node's id of a message that was sent at this time."""
    us, digits = round(ms * 1000), ""
    while us:
        us, digit = divmod(us, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits + end


HOUR = 3_600_000


def test_sent_in_future_becomes_visible_only_on_request(namespace, raw, rsmq):
    now = namespace.now_ms()
    ahead = {"a" * 21 + "A": HOUR, "b" * 21 + "B": 2 * HOUR, "C" * 22: 90 * 24 * HOUR}
    hidden = [
        store(namespace, raw, make_id(now + ms, end), score=now + ms) for end, ms in ahead.items()
    ]
    scheduled = store(namespace, raw, make_id(now + HOUR, "s" * 21 + "S"), score=now + 3 * HOUR)
    later = rsmq.send_message("q", "later", delay=600)
    received = store(
        namespace, raw, make_id(now + HOUR, "r" * 21 + "R"), score=now + HOUR, rc=1, fr=now
    )
    due = store(namespace, raw, make_id(now + HOUR, "d" * 21 + "D"), score=now - 5)
    before = namespace.read_scores()

    (finding,) = namespace.examine()
    assert (finding.code, finding.severity) == ("sent-in-future", "error")
    assert finding.number == len(hidden)
    assert set(finding.examples) == set(hidden)
    assert namespace.repair() == []  # only if it is asked for
    assert namespace.read_scores() == before
    assert namespace.repair("sent-in-future") == [("sent-in-future", "q", len(hidden))]
    after = namespace.read_scores()
    assert {id: after[id] for id in (scheduled, later, received, due)} == {
        id: before[id] for id in (scheduled, later, received, due)
    }
    assert all(now <= after[id] <= namespace.now_ms() for id in hidden)
    assert namespace.find_codes() == []
    assert {m.id for m in rsmq.receive_messages("q", 10)} == {*hidden, due}


@pytest.mark.parametrize("ahead", [5000, 30_000, 3_600_000])
def test_sent_in_future_waits_for_the_queues_delay(namespace, raw, rsmq, ahead):
    """A message with a delay of its own stays hidden, and so does a repaired one."""
    rsmq.set_queue_attributes("q", delay=60)
    now = namespace.now_ms()
    sent = now + ahead

    def waiting(letter, wait):
        return store(namespace, raw, make_id(sent, letter * 22), score=sent + wait)

    id, at_once = waiting("A", 60_000), waiting("B", 0)
    own = {waiting("C", 90_000): sent + 90_000, waiting("D", 30_000): sent + 30_000}

    assert namespace.repair("sent-in-future") == [("sent-in-future", "q", 2)]
    after = namespace.read_scores()
    assert now + 60_000 <= after[id] <= namespace.now_ms() + 60_000
    assert now <= after[at_once] <= namespace.now_ms()
    assert {id: after[id] for id in own} == own
    assert namespace.repair("sent-in-future") == []
    assert namespace.read_scores() == after


def test_ids_without_a_time_are_not_sent_in_future(namespace, raw):
    now = namespace.now_ms()
    for id in ("Zz" * 16, "f" * 32, "F" * 32, RUBY, "z" * 31):
        store(namespace, raw, id, score=now + HOUR)

    assert "sent-in-future" not in {code for code, *_ in namespace.find_codes()}


def test_attribute_id_is_removed_and_its_attribute_kept(namespace, raw, rsmq):
    kept = rsmq.send_message("q", "kept")
    rsmq.pause_queue("q")
    before = namespace.read_fields()
    names = ("vt", "totalsent", "x:paused", "x:unknown", "x:" + "a" * 30)
    raw.zadd(namespace.zset(), {name: namespace.now_ms() for name in names})

    (finding,) = namespace.examine()
    assert (finding.code, finding.number, finding.severity) == ("attribute-id", 5, "error")
    namespace.repair("undeletable-id")
    assert namespace.read_fields() == before
    assert list(namespace.read_scores()) == [kept]
    assert namespace.find_codes() == []


def test_repairs_never_make_an_attribute_a_message(namespace, raw, rsmq):
    """An older version of this repair did that."""
    raw.zadd(namespace.zset(), {"vt": 5})
    before = namespace.read_fields()
    keys = rsmq.namespace.queue("q")
    assert rsmq.run(replace_ids(keys, [(b"vt", 1_700_000_000_000_000)])) == 0
    assert rsmq.run(restore_orphan_bodies(keys, [(b"delay", None)])) == 0
    assert rsmq.run(remove_orphan_fields(keys, [b"maxsize"], bodies=True)) == 0
    assert namespace.read_fields() == before
    assert rsmq.run(remove_ghost_ids(keys, [(b"vt", False)])) == 1
    assert (namespace.read_fields(), namespace.read_scores()) == (before, {})


def test_hidden_ghost_with_an_old_id_is_removed(namespace, raw):
    store(namespace, raw, body=None, score=namespace.now_ms() + 30_000, rc=7, fr=5)

    assert namespace.find_codes() == [("ghost", "q", 1)]
    assert namespace.repair() == [("ghost", "q", 1)]
    assert namespace.read_scores() == {}


def test_id_without_a_body_is_kept_for_ten_seconds(namespace, raw, rsmq):
    """It may be a send in progress: ebuckley/rsmq stores the id first, and then the body."""
    store(namespace, raw, RUBY, body=None, score=namespace.now_ms() - 5_000)
    new = rsmq.send_message("q", "x")
    raw.hdel(namespace.hash(), new)

    assert namespace.find_codes() == []
    keys = rsmq.namespace.queue("q")
    ghosts = [(RUBY.encode(), False), (new.encode(), False)]
    assert rsmq.run(remove_ghost_ids(keys, ghosts)) == 0
    raw.zadd(namespace.zset(), {RUBY: namespace.now_ms() - 10_001})
    assert namespace.find_codes() == [("ghost", "q", 1)]


def test_ghost_whose_body_was_stored_since_examination_is_kept(namespace, raw, rsmq):
    store(namespace, raw, body=None)
    findings = namespace.examine()
    raw.hset(namespace.hash(), NODE, "late")

    (done,) = repair(rsmq, findings)
    assert done.number == 0
    assert rsmq.receive_message("q").body == "late"


def test_orphan_bodies_are_kept_without_a_request(namespace, raw):
    """ebuckley/rsmq's delete leaves the body, with or without counters."""
    store(namespace, raw, score=None, rc=1, fr=SENT)
    store(namespace, raw, RUBY, "other", score=None)

    (finding,) = namespace.examine()
    assert (finding.code, finding.number, finding.safe) == ("orphan-body", 2, False)
    assert finding.ways == ("orphan-body:restore", "orphan-body:remove")
    assert namespace.repair() == []
    assert len(read_message_fields(namespace)) == 4


def test_orphan_body_is_restored_at_its_sent_time(namespace, raw, rsmq):
    store(namespace, raw, score=None, rc=1, fr=SENT)

    assert namespace.repair("orphan-body:restore") == [("orphan-body", "q", 1)]
    assert namespace.read_scores() == {NODE: SENT}
    message = rsmq.receive_message("q")
    assert (message.id, message.body, message.receive_count) == (NODE, "kept", 2)
    assert namespace.find_codes() == []


def test_orphan_body_is_removed_with_its_counters(namespace, raw, rsmq):
    store(namespace, raw, score=None, rc=1, fr=SENT, meta="{}")
    kept = rsmq.send_message("q", "kept")

    assert namespace.repair("orphan-body:remove") == [("orphan-body", "q", 1)]
    assert read_message_fields(namespace) == {kept: "kept"}
    assert namespace.find_codes() == []


@pytest.mark.parametrize("way", ["restore", "remove"])
def test_orphan_body_without_a_time_is_repaired_after_a_second_check(
    namespace, raw, rsmq, monkeypatch, way
):
    store(namespace, raw, RUBY, "other", score=None)
    store(namespace, raw, RUST, "half", score=None)
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        raw.zadd(namespace.zset(), {RUST: SENT})  # the other half of its send

    findings = namespace.examine()
    monkeypatch.setattr("rsmq.doctor.repairer.time.sleep", sleep)
    (done,) = repair(rsmq, findings, also=[f"orphan-body:{way}"])

    assert done.number == 1
    assert pauses == [10]
    assert RUST in read_message_fields(namespace)
    assert (RUBY in namespace.read_scores(), RUBY in read_message_fields(namespace)) == (
        way == "restore",
    ) * 2


def test_left_over_counters_are_removed(namespace, raw, rsmq):
    """rsmq-rust's delete leaves rc and fr. Node's delete leaves the meta of apalis-rsmq."""
    kept = rsmq.send_message("q", "kept")
    rsmq.receive_message("q", vt=0)
    before = read_message_fields(namespace)
    store(namespace, raw, body=None, score=None, rc=1, fr=SENT)
    store(namespace, raw, "h0pefu1000" + "a" * 22, body=None, score=None, meta="{}")

    (finding,) = namespace.examine()
    assert (finding.code, finding.number) == ("left-over-counter", 3)
    assert namespace.repair() == [("left-over-counter", "q", 2)]
    assert read_message_fields(namespace) == before
    assert kept in before
    assert namespace.find_codes() == []


def test_receive_count_that_redis_cannot_increment_becomes_one(namespace, raw, rsmq):
    store(namespace, raw, rc="1.5", fr=SENT)
    store(namespace, raw, "a" + NODE[1:], rc=3, fr="x")
    store(namespace, raw, "b" + NODE[1:], rc=2**63 - 1, fr=SENT)

    assert namespace.find_codes() == [("bad-counter", "q", 3)]
    assert namespace.repair() == [("bad-counter", "q", 3)]
    fields = read_message_fields(namespace)
    assert (fields[f"{NODE}:rc"], fields[f"{NODE}:fr"]) == ("1", str(SENT))
    assert fields[f"a{NODE[1:]}:rc"] == "3"
    assert abs(int(fields[f"a{NODE[1:]}:fr"]) - namespace.now_ms()) < 60_000
    assert [message.receive_count for message in rsmq.receive_messages("q", 3)] == [4, 2, 2]
    assert namespace.find_codes() == []


def test_count_without_time_gets_one_and_time_without_count_is_removed(namespace, raw):
    """rsmq-rb stores no time of the first receive."""
    store(namespace, raw, rc=2)
    store(namespace, raw, "a" + NODE[1:], fr=SENT)

    assert namespace.find_codes() == [("count-without-time", "q", 2)]
    assert namespace.repair() == [("count-without-time", "q", 2)]
    fields = read_message_fields(namespace)
    assert abs(int(fields.pop(f"{NODE}:fr")) - namespace.now_ms()) < 60_000
    assert fields == {NODE: "kept", f"{NODE}:rc": "2", "a" + NODE[1:]: "kept"}
    assert namespace.find_codes() == []


def test_first_received_in_another_unit_becomes_milliseconds(namespace, raw):
    store(namespace, raw, rc=2, fr=1795264742)
    store(namespace, raw, "a" + NODE[1:], rc=1, fr=1795264742384107)

    assert namespace.find_codes() == [("odd-first-received", "q", 2)]
    assert namespace.repair() == [("odd-first-received", "q", 2)]
    fields = read_message_fields(namespace)
    assert (fields[f"{NODE}:fr"], fields[f"a{NODE[1:]}:fr"]) == ("1795264742000", str(SENT))
    assert namespace.find_codes() == []


@pytest.mark.parametrize(
    ("code", "score", "repaired"),
    [
        ("microseconds-score", 1795264742384107, 1795264742384),
        ("seconds-score", 1795264742, 1795264742000),
    ],
)
def test_scores_in_another_unit_become_milliseconds_only_on_request(
    namespace, raw, code, score, repaired
):
    store(namespace, raw, score=score)

    assert namespace.find_codes() == [(code, "q", 1)]
    assert namespace.repair() == []
    assert namespace.repair(code) == [(code, "q", 1)]
    assert namespace.read_scores() == {NODE: repaired}
    assert namespace.find_codes() == []


@pytest.mark.parametrize("score", ["+inf", 1795264742384 * 10, 1e18])
def test_far_future_becomes_visible_only_on_request(namespace, raw, rsmq, score):
    store(namespace, raw, score=score)

    assert namespace.find_codes() == [("far-future", "q", 1)]
    assert namespace.repair() == []
    assert namespace.repair("far-future") == [("far-future", "q", 1)]
    assert abs(namespace.read_scores()[NODE] - namespace.now_ms()) < 60_000
    assert rsmq.receive_message("q").id == NODE
    assert namespace.find_codes() == []


@pytest.mark.parametrize("score", [0, -5, 1, 10**12])
def test_unusual_scores_are_no_fault(namespace, raw, score):
    store(namespace, raw, score=score)
    raw.zadd(namespace.zset(), {NODE: score})
    store(namespace, raw, "a" + NODE[1:], score=namespace.now_ms() + 9_999_999_000)

    assert namespace.find_codes() == []


def test_score_that_changed_since_examination_is_kept(namespace, raw, rsmq):
    store(namespace, raw, score=1795264742)
    findings = namespace.examine()
    rsmq.receive_message("q", vt=100)
    in_flight = namespace.read_scores()

    (done,) = repair(rsmq, findings, also=["seconds-score"])
    assert (done.number, namespace.read_scores()) == (0, in_flight)


def test_first_received_in_the_future_becomes_time_of_repair(namespace, raw):
    now = namespace.now_ms()
    store(namespace, raw, rc=3, fr=now + 3_600_000)
    store(namespace, raw, RUST.replace("y", "Y"), rc=1, fr=now + 30_000)  # a clock that is ahead

    (finding,) = [each for each in namespace.examine() if each.code != "undeletable-id"]
    assert (finding.code, finding.severity) == ("first-received-in-future", "note")
    assert finding.examples == (NODE,)
    assert ("first-received-in-future", "q", 1) in namespace.repair()
    fields = read_message_fields(namespace)
    assert now <= int(fields[f"{NODE}:fr"]) <= now + 60_000
    assert fields[f"{NODE}:rc"] == "3"
    assert "first-received-in-future" not in {code for code, *_ in namespace.find_codes()}


def test_undeletable_ids_are_replaced_only_on_request(namespace, raw, rsmq):
    store(namespace, raw, RUST, "rust", score=SENT, rc=2, fr=SENT)
    store(namespace, raw, RUBY, "ruby", score=SENT + 5)
    store(namespace, raw, "h0pe-u1000" + "a" * 22, "dash", score=SENT + 9, meta="{}")

    assert namespace.find_codes() == [("undeletable-id", "q", 3)]
    assert namespace.repair() == []
    assert namespace.repair("undeletable-id") == [("undeletable-id", "q", 3)]
    assert namespace.find_codes() == []
    assert all(len(id) == 32 and id.isalnum() for id in namespace.read_scores())
    assert list(namespace.read_scores().values()) == [SENT, SENT + 5, SENT + 9]
    assert len(read_message_fields(namespace)) == 6
    rust, ruby, _ = rsmq.peek_messages("q")
    assert (rust.body, rust.receive_count, rust.first_received_ms) == ("rust", 2, SENT)
    assert rust.sent_ms == int("mwpbripk", 36)
    assert (ruby.body, ruby.receive_count, ruby.sent_ms) == ("ruby", 0, SENT + 5)


def test_ids_of_any_form_are_repaired(namespace, raw, rsmq):
    store(namespace, raw, "job 1", "a")
    store(namespace, raw, "größe", "b", rc=1, fr=SENT)
    store(namespace, raw, "x" * 70, body=None)

    assert namespace.find_codes() == [("undeletable-id", "q", 2), ("ghost", "q", 1)]
    namespace.repair("undeletable-id")
    assert namespace.find_codes() == []
    assert {message.body for message in rsmq.receive_messages("q", 5)} == {"a", "b"}


def test_message_in_flight_keeps_its_id(namespace, raw, rsmq):
    store(namespace, raw, RUST, "rust")
    in_flight = rsmq.receive_message("q", vt=100)

    assert namespace.repair("undeletable-id") == [("undeletable-id", "q", 0)]
    assert rsmq.delete_message(in_flight)
    assert namespace.find_codes() == []


def test_message_received_since_examination_keeps_its_id(namespace, raw, rsmq):
    store(namespace, raw, RUST, "rust")
    rsmq.receive_message("q", vt=100)
    keys = rsmq.namespace.queue("q")

    assert rsmq.run(replace_ids(keys, [(RUST.encode(), SENT * 1000)])) == 0
    assert list(namespace.read_scores()) == [RUST]


def test_odd_fields_are_a_note_and_kept(namespace, raw):
    raw.hset(namespace.hash(), mapping={"note": "x", "createdby": "ersin", "msgs": 1, "": "y",
                                      "a b" * 10: "z"})  # fmt: skip

    (finding,) = namespace.examine()
    assert (finding.code, finding.number, finding.severity) == ("odd-field", 3, "note")
    assert namespace.repair() == []
    assert namespace.read_fields().keys() >= {"note", "createdby", "msgs", "", "a b" * 10}


def test_deep_queues_are_repaired_in_steps(namespace, raw, rsmq):
    """With equal scores, more ids than one step reads, and large bodies."""
    good = rsmq.send_messages("q", ["x" * 5000] * 2500)
    ghosts = [f"hod98j94h7{number:022}" for number in range(2300)]
    orphans = [f"hod98j94h8{number:022}" for number in range(1200)]
    raw.zadd(namespace.zset(), dict.fromkeys(ghosts, 7))
    raw.hset(namespace.hash(), mapping=dict.fromkeys(orphans, "m"))
    steps = []

    assert namespace.find_codes() == [("ghost", "q", 2300), ("orphan-body", "q", 1200)]
    findings = namespace.examine()
    repair(rsmq, findings, also=["orphan-body:restore"],
           progress=lambda finding, done: steps.append((finding.code, done)))  # fmt: skip
    assert steps == [
        *(("ghost", done) for done in range(100, 2400, 100)),
        *(("orphan-body", done) for done in range(100, 1300, 100)),
    ]
    assert namespace.find_codes() == []
    assert namespace.read_scores().keys() == {*good, *orphans}


def test_more_ids_than_are_remembered_are_repaired_in_several_walks(
    namespace, raw, rsmq, monkeypatch
):
    raw.zadd(namespace.zset(), {f"hod98j94h7{number:022}": 7 for number in range(25)})
    raw.hset(namespace.hash(), mapping={f"hod98j94h8{number:022}:rc": 1 for number in range(25)})
    monkeypatch.setattr("rsmq.doctor.repairer.MAX_REMEMBERED_IDS", 10)

    assert namespace.repair() == [("ghost", "q", 25), ("left-over-counter", "q", 25)]
    assert namespace.find_codes() == []


def test_repair_works_on_a_full_server(namespace, raw, rsmq):
    store(namespace, raw, body=None, rc=7, fr=5)
    store(namespace, raw, "a" + NODE[1:], rc=2)
    raw.hset(namespace.hash(), "vt", "0.5")
    raw.srem(namespace.index, "q")
    findings = namespace.examine()
    raw.config_set("maxmemory", 1)
    try:
        done = repair(rsmq, findings)
    finally:
        raw.config_set("maxmemory", 0)

    assert [each.number for each in done] == [1, 1, 1, 1]
    assert namespace.find_codes() == []
