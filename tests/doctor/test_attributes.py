"""Attributes in the forms in which other clients store them."""

from __future__ import annotations

import pytest


def store_and_examine(namespace, raw, **fields):
    raw.hset(namespace.hash(), mapping=fields)
    return namespace.find_codes()


@pytest.mark.parametrize(
    ("name", "stored", "repaired"),
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
def test_unreadable_number_is_replaced_by_nearest_valid_one(namespace, raw, name, stored, repaired):
    """PyRSMQ and aiorsmq store any value."""
    before = namespace.read_fields()

    assert store_and_examine(namespace, raw, **{name: stored}) == [("bad-attribute", "q", 1)]
    assert namespace.repair() == [("bad-attribute", "q", 1)]
    assert namespace.read_fields() == {**before, name: repaired}
    assert namespace.find_codes() == []


def test_several_bad_numbers_are_one_finding(namespace, raw):
    raw.hset(namespace.hash(), mapping={"vt": "0.5", "delay": "x"})

    (finding,) = namespace.examine()
    assert finding.text == "vt is '0.5' and delay is 'x'"
    assert namespace.repair() == [("bad-attribute", "q", 2)]
    assert namespace.find_codes() == []


def test_large_maxsize_is_a_note_and_lowered_only_on_request(namespace, raw):
    assert store_and_examine(namespace, raw, maxsize=65565) == [("large-maxsize", "q", 1)]
    assert namespace.examine()[0].severity == "note"
    assert namespace.repair() == []
    namespace.repair("large-maxsize")
    assert namespace.read_fields()["maxsize"] == "65536"
    assert namespace.find_codes() == []


def test_milliseconds_are_divided_only_on_request(namespace, raw):
    """rsmq_async 8 and later, which writes both totals when it creates a queue."""
    fields = {"vt": 30000, "delay": 2000, "totalsent": 0, "totalrecv": 0}

    assert store_and_examine(namespace, raw, **fields) == [("milliseconds", "q", 2)]
    (finding,) = namespace.examine()
    assert (finding.severity, finding.text) == (
        "warning", "vt 30000 and delay 2000 look like milliseconds",
    )  # fmt: skip
    assert namespace.repair() == []
    assert namespace.repair("milliseconds") == [("milliseconds", "q", 2)]
    assert {name: namespace.read_fields()[name] for name in ("vt", "delay")} == {
        "vt": "30",
        "delay": "2",
    }
    assert namespace.find_codes() == []


def test_milliseconds_below_ten_thousand_are_a_note(namespace, raw):
    store_and_examine(namespace, raw, vt=4000, totalsent=0, totalrecv=0)

    (finding,) = namespace.examine()
    assert (finding.code, finding.severity) == ("milliseconds", "note")


@pytest.mark.parametrize(
    "fields",
    [
        {"vt": 30000, "totalsent": 7},  # Node, before the first receive
        {"vt": 86400, "totalsent": 7, "totalrecv": 1},
        {"vt": 30, "delay": 2000, "totalsent": 7, "totalrecv": 1},
        {"vt": 30000, "delay": 1, "totalsent": 7, "totalrecv": 1},
    ],
)
def test_seconds_are_not_reported_as_milliseconds(namespace, raw, fields):
    assert store_and_examine(namespace, raw, **fields) == []


def test_total_that_redis_cannot_increment_is_replaced(namespace, raw, rsmq):
    rsmq.send_messages("q", ["a", "b"])

    assert store_and_examine(namespace, raw, totalsent="NaN", totalrecv="1.5") == [
        ("bad-total", "q", 2)
    ]
    assert namespace.repair() == [("bad-total", "q", 2)]
    assert {namespace.read_fields()[name] for name in ("totalsent", "totalrecv")} == {"2", "0"}
    rsmq.send_message("q", "c")
    assert namespace.find_codes() == []


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
def test_time_in_another_form_becomes_unix_seconds(namespace, raw, stored, seconds):
    before = namespace.read_fields()

    assert store_and_examine(namespace, raw, modified=stored) == [("strange-time", "q", 1)]
    assert namespace.repair() == [("strange-time", "q", 1)]
    assert namespace.read_fields() == {**before, "modified": str(seconds)}
    assert namespace.find_codes() == []


@pytest.mark.parametrize("stored", [None, "yesterday", "-5"])
def test_missing_or_unreadable_time_becomes_time_of_repair(namespace, raw, stored):
    """rsmqx writes neither created nor modified."""
    if stored is None:
        raw.hdel(namespace.hash(), "created", "modified")
    else:
        raw.hset(namespace.hash(), mapping={"created": stored, "modified": stored})

    assert namespace.find_codes() == [("strange-time", "q", 2)]
    namespace.repair()
    fields = namespace.read_fields()
    assert fields["created"] == fields["modified"]
    assert abs(int(fields["created"]) - namespace.now_ms() / 1000) < 60
    assert namespace.find_codes() == []


def test_repair_keeps_attribute_that_was_set_since_examination(namespace, raw, rsmq):
    from rsmq.operations.doctor import repair_fields

    raw.hset(namespace.hash(), "vt", "0.5")
    keys = rsmq.namespace.queue("q")
    rsmq.set_queue_attributes("q", vt=77)

    assert rsmq.run(repair_fields(keys, [(b"vt", b"0.5", b"1")])) == 0
    assert namespace.read_fields()["vt"] == "77"
    raw.delete(namespace.hash())
    assert rsmq.run(repair_fields(keys, [(b"created", None, b"s")])) == 0
    assert not raw.exists(namespace.hash())
