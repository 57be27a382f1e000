"""Attributes in the forms in which other clients store them."""

from __future__ import annotations

import pytest

from rsmq.doctor import repair, repairer


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


@pytest.mark.parametrize(
    ("stored", "repaired"), [("abc", None), ("-3", None), ("1.5", "2"), ("99999999", "9999999")]
)
def test_a_bad_retention_is_replaced_or_removed(namespace, raw, stored, repaired):
    raw.hset(namespace.hash(), "x:keep", stored)
    (finding,) = namespace.examine()
    assert (finding.code, finding.text) == ("bad-attribute", f"keep is {stored!r}")
    assert namespace.repair() == [("bad-attribute", "q", 1)]
    assert namespace.read_fields().get("x:keep") == repaired
    assert namespace.find_codes() == []


def test_retention_and_limits_are_no_faults(namespace, raw):
    namespace.rsmq.set_queue_attributes("q", keep=60)
    namespace.rsmq.create_queue("dead")
    namespace.rsmq.set_dead_letter_policy("q", "dead", 5)
    namespace.rsmq.set_queue_attributes("q", expired="dead-letter")
    namespace.rsmq.send_message("q", "m", expires=60, max_retries=0)
    raw.hset(f"{namespace.ns}:q:x:limits", "of-a-message-that-is-gone", ":1")

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


def store_milliseconds(namespace, raw, **fields):
    """Store vt and delay as rsmq_async does; both are so large that in seconds they look so too."""
    values = {"vt": 9_000_000, "delay": 2_000_000, "totalsent": 0, "totalrecv": 0}
    raw.hset(namespace.hash(), mapping={**values, **fields})


def read_vt_and_delay(namespace):
    return [int(namespace.read_fields()[name]) for name in ("vt", "delay")]


def test_milliseconds_are_divided_once_only(namespace, raw):
    store_milliseconds(namespace, raw)
    report = namespace.examine()

    assert namespace.repair("milliseconds") == [("milliseconds", "q", 2)]
    assert read_vt_and_delay(namespace) == [9000, 2000]
    assert namespace.read_fields()["x:divided"] == "9000 2000"
    # Another run, one with the findings of before, and one after all other repairs.
    assert namespace.find_codes() == []
    assert [done.number for done in repair(namespace.rsmq, report, also=["milliseconds"])] == [0]
    raw.hset(namespace.hash(), "created", "2026-11-20T18:37:58Z")
    assert namespace.repair("milliseconds") == [("strange-time", "q", 1)]
    assert namespace.repair("milliseconds") == []
    assert read_vt_and_delay(namespace) == [9000, 2000]


def test_two_runs_at_once_divide_milliseconds_once(namespace, raw, monkeypatch):
    """The other run divides after this one has read the attributes."""
    store_milliseconds(namespace, raw)
    report = namespace.examine()
    read = repairer.read_queue_facts
    other_results = []

    def read_before_the_other_run(*arguments):
        facts = read(*arguments)
        monkeypatch.setattr(repairer, "read_queue_facts", read)
        other_results.extend(repair(namespace.rsmq, report, also=["milliseconds"]))
        return facts

    monkeypatch.setattr(repairer, "read_queue_facts", read_before_the_other_run)
    (result,) = repair(namespace.rsmq, report, also=["milliseconds"])

    assert (result.number, [each.number for each in other_results]) == (0, [2])
    assert read_vt_and_delay(namespace) == [9000, 2000]


def test_purge_keeps_the_record_of_the_division(namespace, raw, rsmq):
    store_milliseconds(namespace, raw)
    namespace.repair("milliseconds")
    rsmq.purge_queue("q")

    assert namespace.repair("milliseconds") == []
    assert read_vt_and_delay(namespace) == [9000, 2000]


def test_milliseconds_that_are_set_after_the_division_are_divided(namespace, raw):
    store_milliseconds(namespace, raw)
    namespace.repair("milliseconds")
    raw.hset(namespace.hash(), "vt", 60_000)

    assert namespace.find_codes() == [("milliseconds", "q", 1)]
    assert namespace.repair("milliseconds") == [("milliseconds", "q", 1)]
    assert read_vt_and_delay(namespace) == [60, 2000]
    assert namespace.repair("milliseconds") == []


def test_new_queue_of_the_same_name_has_no_record_of_a_division(namespace, raw, rsmq):
    store_milliseconds(namespace, raw)
    namespace.repair("milliseconds")
    rsmq.delete_queue("q")
    rsmq.create_queue("q")
    store_milliseconds(namespace, raw, vt=30_000, delay=0)

    assert namespace.repair("milliseconds") == [("milliseconds", "q", 1)]
    assert read_vt_and_delay(namespace) == [30, 0]


@pytest.mark.parametrize("changed", ["vt", "delay", "x:divided"])
def test_division_changes_nothing_if_a_value_has_changed(namespace, raw, rsmq, changed):
    from rsmq.doctor.operations import divide_milliseconds

    store_milliseconds(namespace, raw)
    operation = divide_milliseconds(
        rsmq.namespace.queue("q"), {"vt": b"9000000", "delay": b"2000000"}, 9000, 2000
    )
    raw.hset(namespace.hash(), changed, "7")
    before = namespace.read_fields()

    assert rsmq.run(operation) == 0
    assert namespace.read_fields() == before


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


def test_negative_totals_are_replaced(namespace, raw, rsmq):
    rsmq.send_messages("q", ["a", "b"])

    assert store_and_examine(namespace, raw, totalsent="-7", totalrecv="-1") == [
        ("negative-total", "q", 2)
    ]
    (finding,) = namespace.examine()
    assert (finding.severity, finding.text) == (
        "warning", "totalsent is '-7' and totalrecv is '-1'",
    )  # fmt: skip
    assert namespace.repair() == [("negative-total", "q", 2)]
    assert {namespace.read_fields()[name] for name in ("totalsent", "totalrecv")} == {"2", "0"}
    assert namespace.find_codes() == []


def test_negative_total_of_a_queue_in_use_is_replaced(namespace, raw, rsmq, monkeypatch):
    """A send between the read and the repair changes the total, so both are tried again."""
    raw.hset(namespace.hash(), "totalsent", -7)
    read = repairer.read_queue_facts

    def read_before_a_send(*arguments):
        facts = read(*arguments)
        monkeypatch.setattr(repairer, "read_queue_facts", read)
        rsmq.send_message("q", "a")
        return facts

    monkeypatch.setattr(repairer, "read_queue_facts", read_before_a_send)

    assert namespace.repair() == [("negative-total", "q", 1)]
    assert namespace.read_fields()["totalsent"] == "1"


def test_modified_in_the_future_becomes_time_of_repair(namespace, raw):
    now = namespace.now_ms() // 1000
    raw.hset(namespace.hash(), "modified", now + 3600)

    (finding,) = namespace.examine()
    assert (finding.code, finding.severity, finding.safe) == ("modified-in-future", "warning", True)
    assert finding.text in {f"modified is {late} s later than now" for late in (3599, 3600)}
    created = namespace.read_fields()["created"]
    assert namespace.repair() == [("modified-in-future", "q", 1)]
    assert now <= int(namespace.read_fields()["modified"]) <= now + 60
    assert namespace.read_fields()["created"] == created
    assert namespace.find_codes() == []


def test_created_in_the_future_is_changed_only_on_request(namespace, raw):
    """Extension data belong to the queue of a certain created time: they would be forgotten."""
    now = namespace.now_ms() // 1000
    raw.hset(namespace.hash(), "created", now + 3600)

    assert namespace.find_codes() == [("created-in-future", "q", 1)]
    assert namespace.repair() == []
    assert namespace.repair("created-in-future") == [("created-in-future", "q", 1)]
    assert now <= int(namespace.read_fields()["created"]) <= now + 60


def test_clock_of_a_client_may_be_a_little_ahead(namespace, raw):
    now = namespace.now_ms() // 1000

    assert store_and_examine(namespace, raw, created=now + 30, modified=now + 30) == []


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
    from rsmq.doctor.operations import repair_fields

    raw.hset(namespace.hash(), "vt", "0.5")
    keys = rsmq.namespace.queue("q")
    rsmq.set_queue_attributes("q", vt=77)

    assert rsmq.run(repair_fields(keys, [(b"vt", b"0.5", b"1")])) == 0
    assert namespace.read_fields()["vt"] == "77"
    raw.delete(namespace.hash())
    assert rsmq.run(repair_fields(keys, [(b"created", None, b"s")])) == 0
    assert not raw.exists(namespace.hash())
