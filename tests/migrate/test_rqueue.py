"""Migration from Rqueue, of both layouts and both releases."""

from __future__ import annotations

import json

import pytest

from rsmq import BYTES
from rsmq.migrate import Rqueue, SourceNotFound, copy, move
from tests.expect import refused
from tests.migrate.rqueue_states import convert, fill_queue
from tests.migrate.stored import dump_keys, now_ms, predicted_figures, read_bodies, read_messages

LEFT_OUT = ["deleted in Rqueue: left out", "superseded by a later message of its id: left out"]
PERIODIC = (
    "a periodic message: this one time of it is taken over, its schedule only with --schedules"
)


@pytest.fixture(
    params=[(2, True, 4), (2, True, 3), (2, False, 4), (1, False, 3)],
    ids=["tagged-4", "tagged-3", "untagged-4", "first-layout-3"],
)
def rqueue(request, create_rqueue):
    version, tagged, release = request.param
    return create_rqueue(version=version, tagged=tagged, release=release)


def text(message):
    return message.fields["message"].encode()


def by_body(messages):
    return {each.body: each for each in messages}


def foreign_keys(raw, ns):
    """Return all keys that do not belong to RSMQ."""
    return {
        key: each for key, each in dump_keys(raw).items() if not key.startswith(f"{ns}:".encode())
    }


def test_move_moves_ready_and_scheduled_messages(rqueue, local, target, raw, ns):
    state = fill_queue(rqueue, ns)
    before = now_ms(raw)
    report = move(Rqueue(local), ns, target, "to")
    messages = by_body(read_messages(target.raw, ns, "to"))
    first, last = state.ready
    ready = [text(first), text(last)]
    scheduled = {text(each): each for each in (state.failed, state.later, state.periodic)}

    assert [each for each in messages if each in ready] == ready
    assert messages.keys() == {*ready, *scheduled}
    for message in (first, last):
        arrived = messages[text(message)]
        assert arrived.sent_us == message.fields["processAt"] * 1000
        assert arrived.score <= message.fields["processAt"]
        assert (arrived.count, arrived.first) == (None, None)
    for message in (state.later, state.periodic):
        arrived = messages[text(message)]
        assert arrived.score == message.fields["processAt"]
        assert before * 1000 <= arrived.sent_us <= now_ms(target.raw) * 1000 + 1000
        assert arrived.count is None
    failed = messages[text(state.failed)]
    assert failed.sent_us == state.failed.fields["processAt"] * 1000
    assert failed.first == state.failed.fields["processAt"]
    assert failed.count == 2
    assert failed.score == state.failed.fields["reEnqueuedAt"] + 60_000

    assert raw.lrange(rqueue.ready(ns), 0, -1) == []
    assert not raw.exists(rqueue.scheduled(ns))
    assert raw.zrange(rqueue.processing(ns), 0, -1) == [state.processing.raw]
    assert report.found == {"ready": 4, "delayed": 3, "in_flight": 1}
    assert (report.arrived, report.left, report.left_out) == (5, 1, 2)
    assert report.verified
    assert target.raw.hmget(f"{ns}:to:Q", "vt", "totalsent") == [b"900", b"5"]


def test_data_without_an_equivalent_is_reported(rqueue, local, raw, ns):
    state = fill_queue(rqueue, ns)
    report = move(Rqueue(local), ns, local, "to", in_flight=True)
    message_notes = {note.text: note.examples for note in report.notes.values() if note.number}
    queue_notes = [note.text for note in report.notes.values() if not note.number]

    assert message_notes == {
        LEFT_OUT[0]: [state.deleted.id],
        LEFT_OUT[1]: [state.superseded.id],
        PERIODIC: [state.periodic.id],
        "its reEnqueuedAt": [state.failed.id],
    }
    assert queue_notes == [
        "its setting numRetry: 3 (a listener's max_retries)",
        'its setting concurrency: {"min": 1, "max": 1} (a listener\'s concurrency=(min, max))',
        f"its dead-letter queue {ns}-dead (a listener's dead_letter_queue)",
    ]
    assert report.left_out == 2


def test_periodic_messages_can_be_added_as_schedules(rqueue, local, raw, ns):
    state = fill_queue(rqueue, ns)
    other = rqueue.enqueue_periodic(ns, convert("other"), 1500)
    before = foreign_keys(raw, ns)

    found = Rqueue(local).periodic_messages(ns)
    expected = [(state.periodic.id, 60.0, text(state.periodic)), (other.id, 1.5, text(other))]
    assert [(each.id, each.every, each.body) for each in found] == sorted(expected)
    unwrapped = Rqueue(local, unwrap=True).periodic_messages(ns)
    assert {each.body for each in unwrapped} == {b'"tick"', b'"other"'}
    assert foreign_keys(raw, ns) == before
    for each in found:
        options = {"every": each.every, "queue": ns, "body": each.body, "codec": BYTES}
        assert local.rsmq.schedules.add(each.id, **options)
    stored = {each.name: each.definition.every for each in local.rsmq.schedules.list()}
    assert stored == {each.id: each.every for each in found}


def test_move_with_in_flight_leaves_nothing(rqueue, local, target, raw, ns):
    state = fill_queue(rqueue, ns)
    ((_, visible_at),) = raw.zrange(rqueue.processing(ns), 0, -1, withscores=True)
    report = move(Rqueue(local), ns, target, "to", in_flight=True)
    processed = by_body(read_messages(target.raw, ns, "to"))[text(state.processing)]

    assert processed.score == visible_at
    assert (processed.count, processed.first) == (2, state.processing.fields["processAt"])
    assert not raw.exists(rqueue.ready(ns), rqueue.scheduled(ns), rqueue.processing(ns))
    assert (report.arrived, report.left) == (6, 0)


def test_message_with_ended_visibility_timeout_is_visible_in_its_old_position(
    rqueue, local, raw, ns
):
    rqueue.enqueue(ns, "first")
    rqueue.enqueue(ns, "second")
    rqueue.receive(ns, visibility_ms=-5000)
    move(Rqueue(local), ns, local, "to", in_flight=True)
    messages = by_body(read_messages(raw, ns, "to"))

    assert messages[b"first"].count == 1
    assert messages[b"first"].score <= now_ms(raw)


@pytest.mark.parametrize("listener", [False, True])
def test_dead_letters_are_moved_oldest_first(rqueue, local, target, raw, ns, listener):
    state = fill_queue(rqueue, ns, listener=listener)
    report = move(Rqueue(local), state.dead_letter_queue, target, "dead")
    messages = read_messages(target.raw, ns, "dead")
    dead = [text(each) for each in state.dead]

    # With a listener they are in a sorted set with equal scores, so sorted by their bytes.
    assert [each.body for each in messages] == (
        [text(each) for each in sorted(state.dead, key=lambda each: each.raw)] if listener else dead
    )
    assert {each.sent_us for each in messages} == {
        each.fields["processAt"] * 1000 for each in state.dead
    }
    assert {each.count for each in messages} == ({None} if listener else {3})
    assert all(each.score <= now_ms(target.raw) for each in messages)
    assert report.left_out == 0
    report_notes = {note.text for note in report.notes.values()}
    assert ("its sourceQueueName and sourceQueueFailureCount" in report_notes) is listener
    assert not raw.exists(state.dead_letter_queue, rqueue.scheduled(state.dead_letter_queue))
    # Their source queue is unchanged.
    assert raw.llen(rqueue.ready(ns)) == 4


def test_a_priority_is_a_queue_of_its_own(rqueue, local, raw, ns):
    state = fill_queue(rqueue, ns)
    report = move(Rqueue(local), state.priorities[0], local, "urgent")

    assert read_bodies(raw, ns, "urgent") == [text(state.urgent)]
    assert next(iter(report.notes)) == (
        f"the priority 'critical' of {ns!r}: pass it in the levels of its listener"
    )
    assert report.notes["its own retryCount"].examples == [state.urgent.id]
    rqueue.prioritize(ns, critical=10, low=1)
    report_notes = move(Rqueue(local), ns, local, "to").notes
    setting = 'its setting priority: {"critical": 10, "low": 1} (a listener\'s levels)'
    assert setting in report_notes


def test_copy_does_not_change_rqueue(rqueue, local, target, raw, ns):
    state = fill_queue(rqueue, ns)
    before = foreign_keys(raw, ns)
    for is_second_run in (False, True):
        report = copy(Rqueue(local), ns, target, "to")
        messages = read_messages(target.raw, ns, "to")

        assert foreign_keys(raw, ns) == before
        ready = [each.body for each in messages if each.score <= now_ms(target.raw)]
        assert ready == [text(each) for each in state.ready]
        assert {each.body for each in messages} == {
            text(each)
            for each in (
                *state.ready, state.failed, state.later, state.periodic, state.processing
            )
        }  # fmt: skip
        assert (report.arrived, report.before) == ((0, 6) if is_second_run else (6, 0))
        assert report.left_out == 2
        assert report.verified


def test_dry_run_changes_nothing_and_predicts_the_figures(rqueue, local, raw, ns):
    fill_queue(rqueue, ns)
    for way, options in ((copy, {}), (move, {}), (move, {"in_flight": True})):
        before = dump_keys(raw)
        dry = predicted_figures(way(Rqueue(local), ns, local, "to", dry_run=True, **options))
        assert dump_keys(raw) == before
        real = predicted_figures(way(Rqueue(local), ns, local, "to", **options))
        assert dry == real


def test_all_queues_with_messages_are_found(rqueue, local, ns):
    fill_queue(rqueue, ns)

    assert Rqueue(local).queues() == sorted([ns, f"{ns}-dead", f"{ns}_critical"])


def test_all_queues_with_a_listener_of_dead_letters_are_found(rqueue, local, ns):
    fill_queue(rqueue, ns, listener=True)

    assert Rqueue(local).queues() == sorted([ns, f"{ns}-dead", f"{ns}_critical"])


def test_missing_queue_is_not_found_and_empty_queue_is(rqueue, local, raw, ns):
    with refused(
        SourceNotFound,
        f"There is no Rqueue queue {ns!r}, nor a dead-letter queue of this name",
    ):
        move(Rqueue(local), ns, local, "to")
    assert not raw.exists(f"{ns}:to:Q")
    rqueue.configure(ns, visibilityTimeout=1)
    report = move(Rqueue(local), ns, local, "to")

    assert (report.arrived, report.created, report.verified) == (0, True, True)
    assert raw.hget(f"{ns}:to:Q", "vt") == b"1"


def test_unwrap_removes_the_wrapper_of_the_default_converter(rqueue, local, raw, ns):
    source_messages = [
        convert("grüße 😀"),
        convert({"n": 1}, "com.example.Order"),
        json.dumps({"msg": 1, "name": "no text"}),
        json.dumps({"msg": "no class"}),
        "no JSON",
    ]
    for message in source_messages:
        rqueue.enqueue(ns, message)
    report = move(Rqueue(local, unwrap=True), ns, local, "to")

    assert read_bodies(raw, ns, "to") == [
        '"grüße 😀"'.encode(), b'{"n":1}', *(each.encode() for each in source_messages[2:])
    ]  # fmt: skip
    assert report.notes["the Java class beside msg, which --unwrap leaves out"].number == 2


def test_elements_that_are_not_messages_are_moved_unchanged(rqueue, local, raw, ns):
    rqueue.enqueue(ns, "m")
    raw.rpush(rqueue.ready(ns), b"\xff\x00", b"[1]", b'{"id": 1}')
    report = move(Rqueue(local), ns, local, "to")

    assert read_bodies(raw, ns, "to") == [b"m", b"\xff\x00", b"[1]", b'{"id": 1}']
    assert report.notes["no message of Rqueue: taken over as it is"].number == 3


def test_message_that_is_not_text_becomes_json(rqueue, local, raw, ns):
    """Other converters write JSON values; half of a surrogate pair is written by Java as bytes."""
    rqueue.enqueue(ns, {"a": ["ü", 1]})
    rqueue.enqueue(ns, None)
    move(Rqueue(local), ns, local, "to")

    assert read_bodies(raw, ns, "to") == ['{"a":["ü",1]}'.encode(), b"null"]


def test_names_with_braces_contain_their_hash_tag(create_rqueue, local, raw, ns):
    rqueue = create_rqueue()
    queue = f"{ns}-{{x}}"
    rqueue.enqueue(queue, "m")
    source = Rqueue(local)

    assert source.queues() == [queue]
    move(source, queue, local, "to")
    assert read_bodies(raw, ns, "to") == [b"m"]


def test_soft_deleted_message_is_not_moved_from_staging(create_rqueue, local, remote, raw, ns):
    rqueue = create_rqueue()
    deleted = rqueue.enqueue(ns, "gone")
    rqueue.enqueue(ns, "m")
    rqueue.delete(deleted)
    report = move(Rqueue(local), ns, remote, "to")

    assert read_bodies(remote.raw, ns, "to") == [b"m"]
    assert not raw.exists(rqueue.ready(ns), f"{ns}:x:aside:rqueue:{ns}")
    assert (report.left_out, report.verified) == (1, True)
