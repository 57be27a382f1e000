"""Messages as other clients and accidents leave them."""

from __future__ import annotations

import pytest

from rsmq.doctor import repair
from rsmq.operations.doctor import (
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


def stored(patient, raw, id=NODE, body="kept", score=SENT, **counters):
    fields = {} if body is None else {id: body}
    fields |= {f"{id}:{name}": value for name, value in counters.items()}
    if fields:
        raw.hset(patient.hash(), mapping=fields)
    if score is not None:
        raw.zadd(patient.zset(), {id: score})
    return id


def of_messages(patient):
    """The hash without attributes."""
    names = {"vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv"}
    return {name: value for name, value in patient.fields().items() if name not in names}


def test_a_ghost_goes_with_its_counters(patient, raw, rsmq):
    kept = rsmq.send_message("q", "kept")
    stored(patient, raw, body=None, rc=7, fr=5)
    stored(patient, raw, RUBY, body=None, score=5)

    (found,) = patient.findings()
    assert (found.code, found.number) == ("ghost", 2)
    assert set(found.examples) == {NODE, RUBY}
    assert patient.repaired() == [("ghost", "q", 2)]
    assert of_messages(patient) == {kept: "kept"}
    assert list(patient.scores()) == [kept]
    assert patient.codes() == []


def id_of(ms, end="a" * 21 + "A"):
    """Node's id of a message that was sent at this time."""
    us, digits = round(ms * 1000), ""
    while us:
        us, digit = divmod(us, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits + end


HOUR = 3_600_000


def test_after_the_clock_was_set_back_what_was_sent_is_made_visible(patient, raw, rsmq):
    now = patient.now_ms()
    ahead = {"a" * 21 + "A": HOUR, "b" * 21 + "B": 2 * HOUR, "C" * 22: 90 * 24 * HOUR}
    hidden = [
        stored(patient, raw, id_of(now + ms, end), score=now + ms) for end, ms in ahead.items()
    ]
    scheduled = stored(patient, raw, id_of(now + HOUR, "s" * 21 + "S"), score=now + 3 * HOUR)
    later = rsmq.send_message("q", "later", delay=600)
    received = stored(
        patient, raw, id_of(now + HOUR, "r" * 21 + "R"), score=now + HOUR, rc=1, fr=now
    )
    due = stored(patient, raw, id_of(now + HOUR, "d" * 21 + "D"), score=now - 5)
    before = patient.scores()

    (found,) = patient.findings()
    assert (found.code, found.number, found.severity) == ("sent-in-future", len(hidden), "error")
    assert set(found.examples) == set(hidden)
    assert patient.repaired() == []  # only if it is asked for
    assert patient.scores() == before
    assert patient.repaired("sent-in-future") == [("sent-in-future", "q", len(hidden))]
    after = patient.scores()
    assert {id: after[id] for id in (scheduled, later, received, due)} == {
        id: before[id] for id in (scheduled, later, received, due)
    }
    assert all(now <= after[id] <= patient.now_ms() for id in hidden)
    assert patient.codes() == []
    assert {m.id for m in rsmq.receive_messages("q", 10)} == {*hidden, due}


@pytest.mark.parametrize("ahead", [5000, 30_000, 3_600_000])
def test_the_queues_own_delay_begins_anew(patient, raw, rsmq, ahead):
    """A message with a delay of its own is scheduled, and so is one that was mended."""
    rsmq.set_queue_attributes("q", delay=60)
    now = patient.now_ms()
    sent = now + ahead

    def waiting(letter, wait):
        return stored(patient, raw, id_of(sent, letter * 22), score=sent + wait)

    id, at_once = waiting("A", 60_000), waiting("B", 0)
    own = {waiting("C", 90_000): sent + 90_000, waiting("D", 30_000): sent + 30_000}

    assert patient.repaired("sent-in-future") == [("sent-in-future", "q", 2)]
    after = patient.scores()
    assert now + 60_000 <= after[id] <= patient.now_ms() + 60_000
    assert now <= after[at_once] <= patient.now_ms()
    assert {id: after[id] for id in own} == own
    assert patient.repaired("sent-in-future") == []
    assert patient.scores() == after


def test_ids_that_tell_no_time_are_not_taken_for_ids_of_the_future(patient, raw):
    now = patient.now_ms()
    for id in ("Zz" * 16, "f" * 32, "F" * 32, RUBY, "z" * 31):
        stored(patient, raw, id, score=now + HOUR)

    assert "sent-in-future" not in {code for code, *_ in patient.codes()}


def test_ids_that_are_names_of_attributes_are_removed_and_the_attributes_stay(patient, raw, rsmq):
    kept = rsmq.send_message("q", "kept")
    rsmq.pause_queue("q")
    before = patient.fields()
    names = ("vt", "totalsent", "x:paused", "x:unknown", "x:" + "a" * 30)
    raw.zadd(patient.zset(), {name: patient.now_ms() for name in names})

    (found,) = patient.findings()
    assert (found.code, found.number, found.severity) == ("attribute-id", 5, "error")
    patient.repaired("undeletable-id")
    assert patient.fields() == before
    assert list(patient.scores()) == [kept]
    assert patient.codes() == []


def test_an_attribute_is_not_made_a_message(patient, raw, rsmq):
    """As an older version of this repair did."""
    raw.zadd(patient.zset(), {"vt": 5})
    before = patient.fields()
    keys = rsmq.namespace.queue("q")
    assert rsmq.run(replace_ids(keys, [(b"vt", 1_700_000_000_000_000)])) == 0
    assert rsmq.run(restore_orphan_bodies(keys, [(b"delay", None)])) == 0
    assert rsmq.run(remove_orphan_fields(keys, [b"maxsize"], bodies=True)) == 0
    assert patient.fields() == before
    assert rsmq.run(remove_ghost_ids(keys, [(b"vt", False)])) == 1
    assert (patient.fields(), patient.scores()) == (before, {})


def test_a_ghost_that_was_just_delivered_by_node_is_known_by_the_time_of_its_id(patient, raw):
    stored(patient, raw, body=None, score=patient.now_ms() + 30_000, rc=7, fr=5)

    assert patient.codes() == [("ghost", "q", 1)]
    assert patient.repaired() == [("ghost", "q", 1)]
    assert patient.scores() == {}


def test_an_id_without_a_body_may_be_a_send_in_progress_for_ten_seconds(patient, raw, rsmq):
    """ebuckley/rsmq sends the id first, and the body in another command."""
    stored(patient, raw, RUBY, body=None, score=patient.now_ms() - 5_000)
    new = rsmq.send_message("q", "x")
    raw.hdel(patient.hash(), new)

    assert patient.codes() == []
    keys = rsmq.namespace.queue("q")
    ghosts = [(RUBY.encode(), False), (new.encode(), False)]
    assert rsmq.run(remove_ghost_ids(keys, ghosts)) == 0
    raw.zadd(patient.zset(), {RUBY: patient.now_ms() - 10_001})
    assert patient.codes() == [("ghost", "q", 1)]


def test_a_ghost_whose_body_has_come_meanwhile_stays(patient, raw, rsmq):
    stored(patient, raw, body=None)
    found = patient.findings()
    raw.hset(patient.hash(), NODE, "late")

    (done,) = repair(rsmq, found)
    assert done.number == 0
    assert rsmq.receive_message("q").body == "late"


def test_bodies_without_an_id_are_kept_until_a_way_is_chosen(patient, raw):
    """ebuckley/rsmq's delete leaves the body, with or without counters."""
    stored(patient, raw, score=None, rc=1, fr=SENT)
    stored(patient, raw, RUBY, "other", score=None)

    (found,) = patient.findings()
    assert (found.code, found.number, found.safe) == ("orphan-body", 2, False)
    assert found.ways == ("orphan-body:restore", "orphan-body:remove")
    assert patient.repaired() == []
    assert len(of_messages(patient)) == 4


def test_bodies_of_old_ids_are_restored_where_they_stood(patient, raw, rsmq):
    stored(patient, raw, score=None, rc=1, fr=SENT)

    assert patient.repaired("orphan-body:restore") == [("orphan-body", "q", 1)]
    assert patient.scores() == {NODE: SENT}
    message = rsmq.receive_message("q")
    assert (message.id, message.body, message.receive_count) == (NODE, "kept", 2)
    assert patient.codes() == []


def test_bodies_of_old_ids_are_removed_with_their_counters(patient, raw, rsmq):
    stored(patient, raw, score=None, rc=1, fr=SENT, meta="{}")
    kept = rsmq.send_message("q", "kept")

    assert patient.repaired("orphan-body:remove") == [("orphan-body", "q", 1)]
    assert of_messages(patient) == {kept: "kept"}
    assert patient.codes() == []


@pytest.mark.parametrize("way", ["restore", "remove"])
def test_a_body_whose_id_tells_no_time_is_touched_ten_seconds_after_it_was_seen(
    patient, raw, rsmq, monkeypatch, way
):
    stored(patient, raw, RUBY, "other", score=None)
    stored(patient, raw, RUST, "half", score=None)
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        raw.zadd(patient.zset(), {RUST: SENT})  # the other half of its send

    found = patient.findings()
    monkeypatch.setattr("rsmq.doctor.repairer.time.sleep", sleep)
    (done,) = repair(rsmq, found, also=[f"orphan-body:{way}"])

    assert done.number == 1
    assert naps == [10]
    assert RUST in of_messages(patient)
    assert (RUBY in patient.scores(), RUBY in of_messages(patient)) == (way == "restore",) * 2


def test_counters_that_are_left_over_are_removed(patient, raw, rsmq):
    """rsmq-rust's delete leaves rc and fr; a delete of Node's apalis-rsmq's meta."""
    kept = rsmq.send_message("q", "kept")
    rsmq.receive_message("q", vt=0)
    before = of_messages(patient)
    stored(patient, raw, body=None, score=None, rc=1, fr=SENT)
    stored(patient, raw, "h0pefu1000" + "a" * 22, body=None, score=None, meta="{}")

    (found,) = patient.findings()
    assert (found.code, found.number) == ("left-over-counter", 3)
    assert patient.repaired() == [("left-over-counter", "q", 2)]
    assert of_messages(patient) == before
    assert kept in before
    assert patient.codes() == []


def test_a_receive_count_that_cannot_be_counted_up_becomes_one(patient, raw, rsmq):
    stored(patient, raw, rc="1.5", fr=SENT)
    stored(patient, raw, "a" + NODE[1:], rc=3, fr="x")
    stored(patient, raw, "b" + NODE[1:], rc=2**63 - 1, fr=SENT)

    assert patient.codes() == [("bad-counter", "q", 3)]
    assert patient.repaired() == [("bad-counter", "q", 3)]
    fields = of_messages(patient)
    assert (fields[f"{NODE}:rc"], fields[f"{NODE}:fr"]) == ("1", str(SENT))
    assert fields[f"a{NODE[1:]}:rc"] == "3"
    assert abs(int(fields[f"a{NODE[1:]}:fr"]) - patient.now_ms()) < 60_000
    assert [message.receive_count for message in rsmq.receive_messages("q", 3)] == [4, 2, 2]
    assert patient.codes() == []


def test_a_count_without_a_time_gets_one_and_a_time_without_a_count_goes(patient, raw):
    """rsmq-rb notes no time of the first receive."""
    stored(patient, raw, rc=2)
    stored(patient, raw, "a" + NODE[1:], fr=SENT)

    assert patient.codes() == [("count-without-time", "q", 2)]
    assert patient.repaired() == [("count-without-time", "q", 2)]
    fields = of_messages(patient)
    assert abs(int(fields.pop(f"{NODE}:fr")) - patient.now_ms()) < 60_000
    assert fields == {NODE: "kept", f"{NODE}:rc": "2", "a" + NODE[1:]: "kept"}
    assert patient.codes() == []


def test_a_first_receive_in_seconds_or_microseconds_becomes_milliseconds(patient, raw):
    stored(patient, raw, rc=2, fr=1795264742)
    stored(patient, raw, "a" + NODE[1:], rc=1, fr=1795264742384107)

    assert patient.codes() == [("odd-first-received", "q", 2)]
    assert patient.repaired() == [("odd-first-received", "q", 2)]
    fields = of_messages(patient)
    assert (fields[f"{NODE}:fr"], fields[f"a{NODE[1:]}:fr"]) == ("1795264742000", str(SENT))
    assert patient.codes() == []


@pytest.mark.parametrize(
    ("code", "score", "mended"),
    [
        ("microseconds-score", 1795264742384107, 1795264742384),
        ("seconds-score", 1795264742, 1795264742000),
    ],
)
def test_scores_in_another_unit_become_milliseconds_when_asked_for(
    patient, raw, code, score, mended
):
    stored(patient, raw, score=score)

    assert patient.codes() == [(code, "q", 1)]
    assert patient.repaired() == []
    assert patient.repaired(code) == [(code, "q", 1)]
    assert patient.scores() == {NODE: mended}
    assert patient.codes() == []


@pytest.mark.parametrize("score", ["+inf", 1795264742384 * 10, 1e18])
def test_what_is_hidden_for_ever_is_made_visible_when_asked_for(patient, raw, rsmq, score):
    stored(patient, raw, score=score)

    assert patient.codes() == [("far-future", "q", 1)]
    assert patient.repaired() == []
    assert patient.repaired("far-future") == [("far-future", "q", 1)]
    assert abs(patient.scores()[NODE] - patient.now_ms()) < 60_000
    assert rsmq.receive_message("q").id == NODE
    assert patient.codes() == []


@pytest.mark.parametrize("score", [0, -5, 1, 10**12])
def test_other_scores_are_as_good_as_any(patient, raw, score):
    stored(patient, raw, score=score)
    raw.zadd(patient.zset(), {NODE: score})
    stored(patient, raw, "a" + NODE[1:], score=patient.now_ms() + 9_999_999_000)

    assert patient.codes() == []


def test_a_score_that_was_given_anew_meanwhile_stays(patient, raw, rsmq):
    stored(patient, raw, score=1795264742)
    found = patient.findings()
    rsmq.receive_message("q", vt=100)
    held = patient.scores()

    (done,) = repair(rsmq, found, also=["seconds-score"])
    assert (done.number, patient.scores()) == (0, held)


def test_ids_that_node_cannot_delete_are_made_anew_when_asked_for(patient, raw, rsmq):
    stored(patient, raw, RUST, "rust", score=SENT, rc=2, fr=SENT)
    stored(patient, raw, RUBY, "ruby", score=SENT + 5)
    stored(patient, raw, "h0pe-u1000" + "a" * 22, "dash", score=SENT + 9, meta="{}")

    assert patient.codes() == [("undeletable-id", "q", 3)]
    assert patient.repaired() == []
    assert patient.repaired("undeletable-id") == [("undeletable-id", "q", 3)]
    assert patient.codes() == []
    assert all(len(id) == 32 and id.isalnum() for id in patient.scores())
    assert list(patient.scores().values()) == [SENT, SENT + 5, SENT + 9]
    assert len(of_messages(patient)) == 6
    rust, ruby, _ = rsmq.peek_messages("q")
    assert (rust.body, rust.receive_count, rust.first_received_ms) == ("rust", 2, SENT)
    assert rust.sent_ms == int("mwpbripk", 36)
    assert (ruby.body, ruby.receive_count, ruby.sent_ms) == ("ruby", 0, SENT + 5)


def test_ids_of_any_form_are_mended(patient, raw, rsmq):
    stored(patient, raw, "job 1", "a")
    stored(patient, raw, "größe", "b", rc=1, fr=SENT)
    stored(patient, raw, "x" * 70, body=None)

    assert patient.codes() == [("undeletable-id", "q", 2), ("ghost", "q", 1)]
    patient.repaired("undeletable-id")
    assert patient.codes() == []
    assert {message.body for message in rsmq.receive_messages("q", 5)} == {"a", "b"}


def test_a_message_that_somebody_holds_keeps_its_id(patient, raw, rsmq):
    stored(patient, raw, RUST, "rust")
    held = rsmq.receive_message("q", vt=100)

    assert patient.repaired("undeletable-id") == [("undeletable-id", "q", 0)]
    assert rsmq.delete_message(held)
    assert patient.codes() == []


def test_a_message_that_is_received_while_ids_are_made_anew_keeps_its_own(patient, raw, rsmq):
    stored(patient, raw, RUST, "rust")
    rsmq.receive_message("q", vt=100)
    keys = rsmq.namespace.queue("q")

    assert rsmq.run(replace_ids(keys, [(RUST.encode(), SENT * 1000)])) == 0
    assert list(patient.scores()) == [RUST]


def test_odd_fields_are_noted_and_left(patient, raw):
    raw.hset(patient.hash(), mapping={"note": "x", "createdby": "ersin", "msgs": 1, "": "y",
                                      "a b" * 10: "z"})  # fmt: skip

    (found,) = patient.findings()
    assert (found.code, found.number, found.severity) == ("odd-field", 3, "note")
    assert patient.repaired() == []


def test_deep_queues_are_walked_to_their_ends_and_mended_in_steps(patient, raw, rsmq):
    """Equal scores, more than a step, and large bodies."""
    good = rsmq.send_messages("q", ["x" * 5000] * 2500)
    ghosts = [f"hod98j94h7{number:022}" for number in range(2300)]
    orphans = [f"hod98j94h8{number:022}" for number in range(1200)]
    raw.zadd(patient.zset(), dict.fromkeys(ghosts, 7))
    raw.hset(patient.hash(), mapping=dict.fromkeys(orphans, "m"))
    told = []

    assert patient.codes() == [("ghost", "q", 2300), ("orphan-body", "q", 1200)]
    found = patient.findings()
    repair(rsmq, found, also=["orphan-body:restore"],
           progress=lambda finding, done: told.append((finding.code, done)))  # fmt: skip
    assert told == [("ghost", 1000), ("ghost", 2000), ("ghost", 2300), ("orphan-body", 1000),
                    ("orphan-body", 1200)]  # fmt: skip
    assert patient.codes() == []
    assert patient.scores().keys() == {*good, *orphans}


def test_more_than_is_remembered_is_mended_in_several_walks(patient, raw, rsmq, monkeypatch):
    raw.zadd(patient.zset(), {f"hod98j94h7{number:022}": 7 for number in range(25)})
    raw.hset(patient.hash(), mapping={f"hod98j94h8{number:022}:rc": 1 for number in range(25)})
    monkeypatch.setattr("rsmq.doctor.repairer.MAX_REMEMBERED_IDS", 10)

    assert patient.repaired() == [("ghost", "q", 25), ("left-over-counter", "q", 25)]
    assert patient.codes() == []


def test_a_full_server_can_be_repaired(patient, raw, rsmq):
    stored(patient, raw, body=None, rc=7, fr=5)
    stored(patient, raw, "a" + NODE[1:], rc=2)
    raw.hset(patient.hash(), "vt", "0.5")
    raw.srem(patient.index, "q")
    found = patient.findings()
    raw.config_set("maxmemory", 1)
    try:
        done = repair(rsmq, found)
    finally:
        raw.config_set("maxmemory", 0)

    assert [each.number for each in done] == [1, 1, 1, 1]
    assert patient.codes() == []
