"""Attributes as other clients store them."""

from __future__ import annotations

import pytest


def broken(patient, raw, **fields):
    raw.hset(patient.hash(), mapping=fields)
    return patient.codes()


@pytest.mark.parametrize(
    ("name", "stored", "mended"),
    [
        ("vt", "0.5", "1"),
        ("vt", "-0.5", "0"),
        ("vt", "30.0", "30"),
        ("vt", "99999999", "9999999"),
        ("vt", "abc", "30"),
        ("vt", "", "30"),
        ("vt", "+5", "5"),
        ("delay", "1e3", "0"),
        ("delay", "-3", "0"),
        ("maxsize", "1024.7", "1024"),
        ("maxsize", "0", "65536"),
        ("maxsize", "100", "1024"),
        ("maxsize", "-1.0", "-1"),
        ("maxsize", "none", "65536"),
    ],
)
def test_a_number_that_other_clients_cannot_read_becomes_the_next_one(
    patient, raw, name, stored, mended
):
    """PyRSMQ and aiorsmq store what they are given."""
    before = patient.fields()

    assert broken(patient, raw, **{name: stored}) == [("bad-attribute", "q", 1)]
    assert patient.repaired() == [("bad-attribute", "q", 1)]
    assert patient.fields() == {**before, name: mended}
    assert patient.codes() == []


def test_several_bad_numbers_are_one_finding(patient, raw):
    raw.hset(patient.hash(), mapping={"vt": "0.5", "delay": "x"})

    (found,) = patient.findings()
    assert found.text == "vt is '0.5' and delay is 'x'"
    assert patient.repaired() == [("bad-attribute", "q", 2)]
    assert patient.codes() == []


def test_the_size_limit_of_pyrsmq_is_noted_and_changed_when_asked_for(patient, raw):
    assert broken(patient, raw, maxsize=65565) == [("large-maxsize", "q", 1)]
    assert patient.findings()[0].severity == "note"
    assert patient.repaired() == []
    patient.repaired("large-maxsize")
    assert patient.fields()["maxsize"] == "65536"
    assert patient.codes() == []


def test_milliseconds_of_rust_become_seconds_when_asked_for(patient, raw):
    """rsmq_async 8 and later, which writes both totals when it creates a queue."""
    fields = {"vt": 30000, "delay": 2000, "totalsent": 0, "totalrecv": 0}

    assert broken(patient, raw, **fields) == [("milliseconds", "q", 2)]
    (found,) = patient.findings()
    assert (found.severity, found.text) == (
        "warning", "vt 30000 and delay 2000 look like milliseconds",
    )  # fmt: skip
    assert patient.repaired() == []
    assert patient.repaired("milliseconds") == [("milliseconds", "q", 2)]
    assert {name: patient.fields()[name] for name in ("vt", "delay")} == {"vt": "30", "delay": "2"}
    assert patient.codes() == []


def test_thousands_that_may_well_be_seconds_are_a_note(patient, raw):
    broken(patient, raw, vt=4000, totalsent=0, totalrecv=0)

    assert [(each.code, each.severity) for each in patient.findings()] == [("milliseconds", "note")]


@pytest.mark.parametrize(
    "fields",
    [
        {"vt": 30000, "totalsent": 7},  # Node, before the first receive
        {"vt": 86400, "totalsent": 7, "totalrecv": 1},
        {"vt": 30, "delay": 2000, "totalsent": 7, "totalrecv": 1},
        {"vt": 30000, "delay": 1, "totalsent": 7, "totalrecv": 1},
    ],
)
def test_seconds_are_not_taken_for_milliseconds(patient, raw, fields):
    assert broken(patient, raw, **fields) == []


def test_totals_that_cannot_be_counted_up_are_counted_anew(patient, raw, rsmq):
    rsmq.send_messages("q", ["a", "b"])

    assert broken(patient, raw, totalsent="NaN", totalrecv="1.5") == [("bad-total", "q", 2)]
    assert patient.repaired() == [("bad-total", "q", 2)]
    assert {patient.fields()[name] for name in ("totalsent", "totalrecv")} == {"2", "0"}
    rsmq.send_message("q", "c")
    assert patient.codes() == []


@pytest.mark.parametrize(
    ("stored", "seconds"),
    [
        ("2026-11-20T18:37:58.805856Z", 1795199878),  # ebuckley/rsmq
        ("2026-11-20T18:37:58.805856+01:00", 1795196278),
        ("1795199878123", 1795199878),  # semihbkgr/go-rsmq
        ("1795199878123456", 1795199878),
        ("1795199878.5", 1795199878),
    ],
)
def test_a_time_in_another_form_becomes_unix_seconds(patient, raw, stored, seconds):
    before = patient.fields()

    assert broken(patient, raw, modified=stored) == [("strange-time", "q", 1)]
    assert patient.repaired() == [("strange-time", "q", 1)]
    assert patient.fields() == {**before, "modified": str(seconds)}
    assert patient.codes() == []


@pytest.mark.parametrize("stored", [None, "yesterday", "-5"])
def test_a_time_that_is_none_becomes_that_of_the_repair(patient, raw, stored):
    """rsmqx writes neither created nor modified."""
    if stored is None:
        raw.hdel(patient.hash(), "created", "modified")
    else:
        raw.hset(patient.hash(), mapping={"created": stored, "modified": stored})

    assert patient.codes() == [("strange-time", "q", 2)]
    patient.repaired()
    fields = patient.fields()
    assert fields["created"] == fields["modified"]
    assert abs(int(fields["created"]) - patient.now_ms() / 1000) < 60
    assert patient.codes() == []


def test_an_attribute_that_was_set_since_stays_as_it_is(patient, raw, rsmq):
    from rsmq.operations.doctor import repair_fields

    raw.hset(patient.hash(), "vt", "0.5")
    keys = rsmq.namespace.queue("q")
    rsmq.set_queue_attributes("q", vt=77)

    assert rsmq.run(repair_fields(keys, [(b"vt", b"0.5", b"1")])) == 0
    assert patient.fields()["vt"] == "77"
    raw.delete(patient.hash())
    assert rsmq.run(repair_fields(keys, [(b"created", None, b"s")])) == 0
    assert not raw.exists(patient.hash())
