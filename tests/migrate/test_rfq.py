"""Moving over from the real rfq."""

from __future__ import annotations

import json
import uuid

import pytest

from rsmq.migrate import RFQ, SourceNotFound, copy, move
from rsmq.migrate.sources.rfq import make_uuid, parse_published_us
from tests.expect import refused
from tests.migrate.stored import bodies, dumped, now_ms, stored


def us_of(id):
    """The time in a uuid, as Python reads it."""
    return (uuid.UUID(id).time - 0x01B21DD213814000) // 10


def keys(raw, topic):
    return sorted(key.decode() for key in raw.keys(f"rfq:{topic}:*"))


@pytest.fixture
def filled(rfq, topic):
    """Ids: one that is handled, then those that wait, in order; the first was put at the front."""
    handled = rfq.publish(topic, {"n": "handled"})
    rfq.consume(topic)
    waiting = rfq.publish_batch(topic, [{"n": "1", "more": "grüße 😀"}, {"n": "2"}, {"n": "3"}])
    front = rfq.publish(topic, {"n": "0"}, front=True)
    return [handled, front, *waiting]


BODIES = [
    {"n": "handled"}, {"n": "0"}, {"n": "1", "more": "grüße 😀"}, {"n": "2"}, {"n": "3"},
]  # fmt: skip


def test_a_move_takes_what_waits_and_leaves_what_is_handled(here, target, topic, filled, raw, ns):
    report = move(RFQ(here), topic, target, "to")
    found = stored(target.raw, ns, "to")

    assert [json.loads(each.body) for each in found] == BODIES[1:]
    assert found[1].body == '{"n": "1", "more": "grüße 😀"}'.encode()
    assert [each.sent_us for each in found] == [us_of(id) for id in filled[1:]]
    assert {(each.count, each.first) for each in found} == {(None, None)}
    assert all(each.score <= now_ms(target.raw) for each in found)
    # The one at the front was sent last; it takes the time of the one behind it.
    assert found[1].score == us_of(filled[2]) // 1000
    handled = filled[0]
    assert keys(raw, topic) == [f"rfq:{topic}:message:{handled}", f"rfq:{topic}:nextlog"]
    assert raw.lrange(f"rfq:{topic}:nextlog", 0, -1) == [handled.encode()]
    assert not raw.exists(f"{ns}:x:aside:rfq:{topic}")
    assert target.raw.exists(f"{ns}:to:x:copied") == 0
    assert report.found == {"ready": 4, "delayed": 0, "in_flight": 1}
    assert (report.arrived, report.left, report.left_out) == (4, 1, 0)
    assert report.created
    assert report.verified
    assert report.notes == {}
    assert target.raw.hmget(f"{ns}:to:Q", "vt", "delay", "maxsize", "totalsent") == [
        b"30", b"0", b"65536", b"4"
    ]  # fmt: skip
    assert target.raw.smembers(f"{ns}:QUEUES") == {b"to"}


def test_a_move_with_what_is_handled_leaves_nothing(here, target, topic, filled, raw, ns):
    before = now_ms(raw)
    report = move(RFQ(here), topic, target, "to", in_flight=True)
    found = stored(target.raw, ns, "to")

    assert [json.loads(each.body)["n"] for each in found] == ["handled", "0", "1", "2", "3"]
    handled = found[0]
    assert handled.sent_us == us_of(filled[0])
    assert handled.count == 1
    assert before <= handled.first <= now_ms(raw)
    assert keys(raw, topic) == []
    assert report.found == {"ready": 4, "delayed": 0, "in_flight": 1}
    assert (report.arrived, report.left, report.verified) == (5, 0, True)


def test_a_copy_leaves_rfq_as_it_was(here, target, topic, filled, raw, ns, rfq):
    before = {key: each for key, each in dumped(raw).items() if key.startswith(b"rfq:")}
    report = copy(RFQ(here), topic, target, "to")
    found = stored(target.raw, ns, "to")

    assert {key: each for key, each in dumped(raw).items() if key.startswith(b"rfq:")} == before
    assert [json.loads(each.body) for each in found] == BODIES
    assert [each.sent_us for each in found] == [us_of(id) for id in filled]
    assert [each.count for each in found] == [1, None, None, None, None]
    assert report.found == {"ready": 4, "delayed": 0, "in_flight": 1}
    assert (report.arrived, report.before, report.consumed) == (5, 0, 0)
    assert report.verified
    assert rfq.consume(topic) == (filled[1], {"n": "0"})


def test_what_a_copy_brought_is_not_doubled_by_a_move(here, target, topic, filled, raw, ns):
    copy(RFQ(here), topic, target, "to")
    before = stored(target.raw, ns, "to")
    consumed = target.rsmq.pop_message("to").id
    report = move(RFQ(here), topic, target, "to", in_flight=True)

    assert stored(target.raw, ns, "to") == before[1:]
    assert consumed == before[0].id
    assert keys(raw, topic) == []
    assert report.verified


def test_an_id_without_its_hash_is_left_out_and_told(here, target, topic, filled, raw, ns):
    raw.unlink(f"rfq:{topic}:message:{filled[2]}")
    for way in (copy, move):
        report = way(RFQ(here), topic, target, "to")
        (note,) = report.notes.values()

        assert note.text == "an id without its hash: there is no message"
        assert (note.number, note.examples) == (1, [filled[2]])
        assert report.left_out == 1
        assert report.verified
    assert [json.loads(each)["n"] for each in bodies(target.raw, ns, "to")] == [
        "handled", "0", "2", "3"
    ]  # fmt: skip
    assert not raw.exists(f"rfq:{topic}:backlog")


def test_bytes_that_are_no_text_are_escaped_and_told(here, topic, raw, ns):
    """rfq itself writes texts only; other programs fill its topics too."""
    id = uuid.uuid1().hex
    raw.hset(f"rfq:{topic}:message:{id}", mapping={b"a\xff": b"\x80b", "é": "ü"})
    raw.lpush(f"rfq:{topic}:backlog", id)
    report = copy(RFQ(here), topic, here, "to")
    (body,) = bodies(raw, ns, "to")
    texts = json.loads(body)

    assert {
        name.encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape")
        for name, value in texts.items()
    } == {b"a\xff": b"\x80b", "é".encode(): "ü".encode()}
    assert [(note.number, note.examples) for note in report.notes.values()] == [(1, [id])]


def test_ids_that_are_no_uuids_are_of_now(here, topic, raw, ns):
    """The listings of rfq.js and of people: whatever stands in the list."""
    for id in ("1", "x" * 32, uuid.uuid4().hex):
        raw.hset(f"rfq:{topic}:message:{id}", "n", id)
        raw.lpush(f"rfq:{topic}:backlog", id)
    before = now_ms(raw)
    move(RFQ(here), topic, here, "to")
    found = stored(raw, ns, "to")

    assert [json.loads(each.body)["n"] for each in found][:2] == ["1", "x" * 32]
    assert all(before * 1000 <= each.sent_us <= (now_ms(raw) + 1) * 1000 for each in found)


def test_a_dry_run_changes_nothing_and_tells_what_would_be_done(here, topic, filled, raw, ns):
    raw.unlink(f"rfq:{topic}:message:{filled[2]}")
    before = dumped(raw)
    told = {
        way: way(RFQ(here), topic, here, "to", dry_run=True, **options)
        for way, options in ((copy, {}), (move, {}))
    }
    assert dumped(raw) == before
    assert (told[copy].arrived, told[copy].left, told[copy].left_out) == (4, 0, 1)
    assert (told[move].arrived, told[move].left, told[move].left_out) == (3, 1, 1)
    for report in told.values():
        assert report.found == {"ready": 4, "delayed": 0, "in_flight": 1}
        assert report.done
        assert not report.created


def test_all_topics_are_found(here, topic, rfq, raw):
    for name in (topic, f"{topic}:with:colons", f"{topic}ü"):
        rfq.publish(name, {"a": "b"})
    rfq.consume(topic)
    raw.set(f"rfq:{topic}:other:backlog", "no list")

    source = RFQ(here)
    assert source.queues() == sorted([topic, f"{topic}:with:colons", f"{topic}ü"])
    assert source.look(topic).counts == {"ready": 0, "delayed": 0, "in_flight": 1}
    for key in raw.keys(f"rfq:{topic}*"):
        raw.unlink(key)


def test_a_topic_without_messages_is_not_found(here, topic, raw):
    for way in (copy, move):
        with refused(SourceNotFound, f"There is no message in the rfq topic {topic!r}"):
            way(RFQ(here), topic, here, "to")
    assert raw.keys(f"{here.rsmq.namespace.name}:*") == []


def test_times_of_uuids_are_those_that_rfq_reads(rfq, topic):
    id = rfq.publish(topic, {"a": "b"})
    made = make_uuid(1_800_000_000_123_456)

    assert parse_published_us(id.encode()) == us_of(id)
    assert rfq.ask("published", topic=topic, msgid=made.hex) == "2027-01-15 08:00:00.123456"
    assert parse_published_us(made.hex.encode()) == 1_800_000_000_123_456
    assert made.version == 1
    assert made.variant == uuid.RFC_4122
    assert make_uuid(1_800_000_000_123_456) != made


def test_messages_of_any_size_come_in_pages_of_few(here, topic, raw, ns):
    """A page that turned out to be large is followed by smaller ones."""
    count = 1500
    with raw.pipeline(transaction=False) as pipeline:
        for number in range(count):
            id = make_uuid(1_800_000_000_000_000 - count + number).hex
            pipeline.hset(f"rfq:{topic}:message:{id}", "n", "x" * 3000 + str(number))
            pipeline.lpush(f"rfq:{topic}:backlog", id)
        pipeline.execute()
    told = []
    source = RFQ(here)
    report = move(source, topic, here, "to", tell=told.append)

    assert report.arrived == count
    assert [json.loads(each)["n"][3000:] for each in bodies(raw, ns, "to")] == [
        str(number) for number in range(count)
    ]
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert told[-1].done == told[-1].total == count


def test_the_report_is_text_and_json(here, topic, filled, raw, ns):
    raw.unlink(f"rfq:{topic}:message:{filled[2]}")
    report = move(RFQ(here), topic, here, "to")
    text = report.as_text().splitlines()
    known = report.as_dict()

    assert text[0] == f"rfq:{topic} -> to: 4 ready, 1 in flight"
    assert text[1].startswith("  moved: 3 in 0.")
    assert text[1].endswith(" s; the queue was created")
    assert text[2:] == [
        "  1 in flight: left at the source; --in-flight takes them too",
        "  1 left out, as noted below",
        f"  note: an id without its hash: there is no message (1: {filled[2]})",
        f"  verified, checksum {report.checksum:032x}",
    ]
    assert json.loads(json.dumps(known)) == known
    assert known["notes"] == [
        {
            "text": "an id without its hash: there is no message",
            "messages": 1,
            "examples": [filled[2]],
        }
    ]
    assert (known["source"], known["queue"], known["way"]) == (f"rfq:{topic}", "to", "move")
