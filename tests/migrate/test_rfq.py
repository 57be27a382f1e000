"""Migration from the real rfq."""

from __future__ import annotations

import json
import uuid

import pytest

from rsmq.migrate import RFQ, Inward, Report, SourceNotFound, copy, move
from rsmq.migrate.mover import Mover
from rsmq.migrate.sources.rfq import make_uuid, parse_published_us
from rsmq.migrate.target import prepare
from tests.expect import refused
from tests.migrate.stored import dump_keys, now_ms, read_bodies, read_messages


def uuid_time_us(id):
    """Return the time in a uuid, as Python reads it."""
    return (uuid.UUID(id).time - 0x01B21DD213814000) // 10


def keys(raw, topic):
    return sorted(key.decode() for key in raw.keys(f"rfq:{topic}:*"))


@pytest.fixture
def filled(rfq, topic):
    """
    Publish and return ids: one in flight, then those that wait, in order; the first is at the
    front.
    """
    handled = rfq.publish(topic, {"n": "handled"})
    rfq.consume(topic)
    waiting = rfq.publish_batch(topic, [{"n": "1", "more": "grüße 😀"}, {"n": "2"}, {"n": "3"}])
    front = rfq.publish(topic, {"n": "0"}, front=True)
    return [handled, front, *waiting]


BODIES = [
    {"n": "handled"}, {"n": "0"}, {"n": "1", "more": "grüße 😀"}, {"n": "2"}, {"n": "3"},
]  # fmt: skip


def test_messages_in_flight_come_first_if_the_bridge_before_was_interrupted(
    local, target, topic, filled, ns
):
    """The bridge ends before it has seen that no message is left, so its order is not complete."""
    bridge = Inward(RFQ(local), topic, target, "to")
    bridge.begin()
    assert bridge.step(3) == 3
    bridge.end()
    move(RFQ(local), topic, target, "to", in_flight=True)

    bodies = [json.loads(each.body) for each in read_messages(target.raw, ns, "to")]
    assert bodies == BODIES


def test_messages_in_flight_come_before_many_that_were_published_at_the_front(
    local, target, topic, rfq, ns
):
    """Each message at the front may have a score one millisecond before the one behind it."""
    bodies = [{"n": str(number)} for number in range(15)]
    rfq.publish(topic, bodies[0])
    rfq.consume(topic)
    for body in reversed(bodies[1:]):
        rfq.publish(topic, body, front=True)
    bridge = Inward(RFQ(local), topic, target, "to")
    bridge.begin()
    assert bridge.step(14) == 14
    bridge.end()
    move(RFQ(local), topic, target, "to", in_flight=True)

    assert [json.loads(each.body) for each in read_messages(target.raw, ns, "to")] == bodies


def test_messages_in_flight_come_first_if_moves_are_interrupted_after_each_message(
    local, target, topic, rfq, ns
):
    bodies = [{"n": str(number)} for number in range(6)]
    rfq.publish_batch(topic, bodies)
    for _ in range(3):
        rfq.consume(topic)
    report = Report(f"rfq:{topic}", "to", "move")
    prepare(RFQ(local), target, "to", RFQ(local).look(topic), report)
    for in_flight in (False, True, True, False, True, True):
        mover = Mover(RFQ(local), topic, target, "to", report, in_flight=in_flight)
        mover.resume()
        assert mover.step(1) == 1
        mover.release()

    assert [json.loads(each.body) for each in read_messages(target.raw, ns, "to")] == bodies


def test_move_moves_waiting_messages_and_leaves_those_in_flight(
    local, target, topic, filled, raw, ns
):
    report = move(RFQ(local), topic, target, "to")
    messages = read_messages(target.raw, ns, "to")

    assert [json.loads(each.body) for each in messages] == BODIES[1:]
    assert messages[1].body == '{"n": "1", "more": "grüße 😀"}'.encode()
    assert [each.sent_us for each in messages] == [uuid_time_us(id) for id in filled[1:]]
    assert {(each.count, each.first) for each in messages} == {(None, None)}
    assert all(each.score <= now_ms(target.raw) for each in messages)
    # The message at the front was sent last; its score is the time of the message behind it.
    assert messages[1].score == uuid_time_us(filled[2]) // 1000
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


def test_move_with_in_flight_leaves_nothing(local, target, topic, filled, raw, ns):
    before = now_ms(raw)
    report = move(RFQ(local), topic, target, "to", in_flight=True)
    messages = read_messages(target.raw, ns, "to")

    assert [json.loads(each.body)["n"] for each in messages] == ["handled", "0", "1", "2", "3"]
    handled = messages[0]
    assert handled.sent_us == uuid_time_us(filled[0])
    assert handled.count == 1
    assert before <= handled.first <= now_ms(raw)
    assert keys(raw, topic) == []
    assert report.found == {"ready": 4, "delayed": 0, "in_flight": 1}
    assert (report.arrived, report.left, report.verified) == (5, 0, True)


def test_copy_does_not_change_rfq(local, target, topic, filled, raw, ns, rfq):
    before = {key: each for key, each in dump_keys(raw).items() if key.startswith(b"rfq:")}
    report = copy(RFQ(local), topic, target, "to")
    messages = read_messages(target.raw, ns, "to")

    assert {key: each for key, each in dump_keys(raw).items() if key.startswith(b"rfq:")} == before
    assert [json.loads(each.body) for each in messages] == BODIES
    assert [each.sent_us for each in messages] == [uuid_time_us(id) for id in filled]
    assert [each.count for each in messages] == [1, None, None, None, None]
    assert report.found == {"ready": 4, "delayed": 0, "in_flight": 1}
    assert (report.arrived, report.before, report.consumed) == (5, 0, 0)
    assert report.verified
    assert rfq.consume(topic) == (filled[1], {"n": "0"})


def test_move_after_a_copy_duplicates_nothing(local, target, topic, filled, raw, ns):
    copy(RFQ(local), topic, target, "to")
    before = read_messages(target.raw, ns, "to")
    consumed = target.rsmq.pop_message("to").id
    report = move(RFQ(local), topic, target, "to", in_flight=True)

    assert read_messages(target.raw, ns, "to") == before[1:]
    assert consumed == before[0].id
    assert keys(raw, topic) == []
    assert report.verified


def test_id_without_its_hash_is_left_out_and_reported(local, target, topic, filled, raw, ns):
    raw.unlink(f"rfq:{topic}:message:{filled[2]}")
    for way in (copy, move):
        report = way(RFQ(local), topic, target, "to")
        (note,) = report.notes.values()

        assert note.text == "an id without its hash: there is no message"
        assert (note.number, note.examples) == (1, [filled[2]])
        assert report.left_out == 1
        assert report.verified
    assert [json.loads(each)["n"] for each in read_bodies(target.raw, ns, "to")] == [
        "handled", "0", "2", "3"
    ]  # fmt: skip
    assert not raw.exists(f"rfq:{topic}:backlog")


def test_bytes_that_are_not_text_are_escaped_and_reported(local, topic, raw, ns):
    """rfq itself writes only texts; other programs write to its topics too."""
    id = uuid.uuid1().hex
    raw.hset(f"rfq:{topic}:message:{id}", mapping={b"a\xff": b"\x80b", "é": "ü"})
    raw.lpush(f"rfq:{topic}:backlog", id)
    report = copy(RFQ(local), topic, local, "to")
    (body,) = read_bodies(raw, ns, "to")
    texts = json.loads(body)

    assert {
        name.encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape")
        for name, value in texts.items()
    } == {b"a\xff": b"\x80b", "é".encode(): "ü".encode()}
    assert [(note.number, note.examples) for note in report.notes.values()] == [(1, [id])]


def test_ids_that_are_not_uuids_get_the_current_time(local, topic, raw, ns):
    """Lists written by rfq.js or by hand contain ids of any form."""
    for id in ("1", "x" * 32, uuid.uuid4().hex):
        raw.hset(f"rfq:{topic}:message:{id}", "n", id)
        raw.lpush(f"rfq:{topic}:backlog", id)
    before = now_ms(raw)
    move(RFQ(local), topic, local, "to")
    messages = read_messages(raw, ns, "to")

    assert [json.loads(each.body)["n"] for each in messages][:2] == ["1", "x" * 32]
    assert all(before * 1000 <= each.sent_us <= (now_ms(raw) + 1) * 1000 for each in messages)


def test_dry_run_changes_nothing_and_predicts_the_figures(local, topic, filled, raw, ns):
    raw.unlink(f"rfq:{topic}:message:{filled[2]}")
    before = dump_keys(raw)
    reports = {
        way: way(RFQ(local), topic, local, "to", dry_run=True, **options)
        for way, options in ((copy, {}), (move, {}))
    }
    assert dump_keys(raw) == before
    assert (reports[copy].arrived, reports[copy].left, reports[copy].left_out) == (4, 0, 1)
    assert (reports[move].arrived, reports[move].left, reports[move].left_out) == (3, 1, 1)
    for report in reports.values():
        assert report.found == {"ready": 4, "delayed": 0, "in_flight": 1}
        assert report.done
        assert not report.created


def test_all_topics_are_found(local, topic, rfq, raw):
    for name in (topic, f"{topic}:with:colons", f"{topic}ü"):
        rfq.publish(name, {"a": "b"})
    rfq.consume(topic)
    raw.set(f"rfq:{topic}:other:backlog", "no list")

    source = RFQ(local)
    assert source.queues() == sorted([topic, f"{topic}:with:colons", f"{topic}ü"])
    assert source.look(topic).counts == {"ready": 0, "delayed": 0, "in_flight": 1}
    for key in raw.keys(f"rfq:{topic}*"):
        raw.unlink(key)


def test_a_topic_without_messages_is_not_found(local, topic, raw):
    for way in (copy, move):
        with refused(SourceNotFound, f"There is no message in the rfq topic {topic!r}"):
            way(RFQ(local), topic, local, "to")
    assert raw.keys(f"{local.rsmq.namespace.name}:*") == []


def test_times_of_uuids_are_those_of_rfq(rfq, topic):
    id = rfq.publish(topic, {"a": "b"})
    created = make_uuid(1_800_000_000_123_456)

    assert parse_published_us(id.encode()) == uuid_time_us(id)
    assert rfq.call("published", topic=topic, msgid=created.hex) == "2027-01-15 08:00:00.123456"
    assert parse_published_us(created.hex.encode()) == 1_800_000_000_123_456
    assert created.version == 1
    assert created.variant == uuid.RFC_4122
    assert make_uuid(1_800_000_000_123_456) != created


def test_large_messages_are_moved_in_small_pages(local, topic, raw, ns):
    """A page that turns out to be large is followed by smaller ones."""
    count = 1500
    with raw.pipeline(transaction=False) as pipeline:
        for number in range(count):
            id = make_uuid(1_800_000_000_000_000 - count + number).hex
            pipeline.hset(f"rfq:{topic}:message:{id}", "n", "x" * 3000 + str(number))
            pipeline.lpush(f"rfq:{topic}:backlog", id)
        pipeline.execute()
    progress = []
    source = RFQ(local)
    report = move(source, topic, local, "to", tell=progress.append)

    assert report.arrived == count
    assert [json.loads(each)["n"][3000:] for each in read_bodies(raw, ns, "to")] == [
        str(number) for number in range(count)
    ]
    assert [each.done for each in progress] == sorted(each.done for each in progress)
    assert progress[-1].done == progress[-1].total == count


def test_the_report_is_text_and_json(local, topic, filled, raw, ns):
    raw.unlink(f"rfq:{topic}:message:{filled[2]}")
    report = move(RFQ(local), topic, local, "to")
    text = report.as_text().splitlines()
    as_dict = report.as_dict()

    assert text[0] == f"rfq:{topic} -> to: 4 ready, 1 in flight"
    assert text[1].startswith("  moved: 3 in 0.")
    assert text[1].endswith(" s; the queue was created")
    assert text[2:] == [
        "  1 in flight: left at the source; --in-flight moves them too",
        "  1 left out, as noted below",
        f"  note: an id without its hash: there is no message (1: {filled[2]})",
        f"  verified, checksum {report.checksum:032x}",
    ]
    assert json.loads(json.dumps(as_dict)) == as_dict
    assert as_dict["notes"] == [
        {
            "text": "an id without its hash: there is no message",
            "messages": 1,
            "examples": [filled[2]],
        }
    ]
    assert (as_dict["source"], as_dict["queue"], as_dict["way"]) == (f"rfq:{topic}", "to", "move")
