"""Moving over from Rqueue, of both layouts and both releases."""

from __future__ import annotations

import json

import pytest

from rsmq.migrate import Rqueue, SourceNotFound, copy, move
from tests.expect import refused
from tests.migrate.rqueue_states import converted, whole
from tests.migrate.stored import bodies, dumped, now_ms, numbers, stored

LEFT_OUT = ["deleted in Rqueue: left out", "superseded by a later message of its id: left out"]
PERIODIC = "a periodic message: this one time of it is taken over, its schedule is not"


@pytest.fixture(
    params=[(2, True, 4), (2, True, 3), (2, False, 4), (1, False, 3)],
    ids=["tagged-4", "tagged-3", "untagged-4", "first-layout-3"],
)
def made(request, rqueue):
    version, tagged, release = request.param
    return rqueue(version=version, tagged=tagged, release=release)


def text(message):
    return message.fields["message"].encode()


def by_body(messages):
    return {each.body: each for each in messages}


def of_rqueue(raw, ns):
    """All that is not a queue of ours."""
    return {key: each for key, each in dumped(raw).items() if not key.startswith(f"{ns}:".encode())}


def test_a_move_takes_what_is_ready_and_what_is_scheduled(made, here, target, raw, ns):
    state = whole(made, ns)
    before = now_ms(raw)
    report = move(Rqueue(here), ns, target, "to")
    found = by_body(stored(target.raw, ns, "to"))
    first, last = state.ready
    ready = [text(first), text(last)]
    scheduled = {text(each): each for each in (state.failed, state.later, state.periodic)}

    assert [each for each in found if each in ready] == ready
    assert found.keys() == {*ready, *scheduled}
    for message in (first, last):
        arrived = found[text(message)]
        assert arrived.sent_us == message.fields["processAt"] * 1000
        assert arrived.score <= message.fields["processAt"]
        assert (arrived.count, arrived.first) == (None, None)
    for message in (state.later, state.periodic):
        arrived = found[text(message)]
        assert arrived.score == message.fields["processAt"]
        assert before * 1000 <= arrived.sent_us <= now_ms(target.raw) * 1000 + 1000
        assert arrived.count is None
    failed = found[text(state.failed)]
    assert failed.sent_us == state.failed.fields["processAt"] * 1000
    assert failed.first == state.failed.fields["processAt"]
    assert failed.count == 2
    assert failed.score == state.failed.fields["reEnqueuedAt"] + 60_000

    assert raw.lrange(made.ready(ns), 0, -1) == []
    assert not raw.exists(made.scheduled(ns))
    assert raw.zrange(made.processing(ns), 0, -1) == [state.processing.raw]
    assert report.found == {"ready": 4, "delayed": 3, "in_flight": 1}
    assert (report.arrived, report.left, report.left_out) == (5, 1, 2)
    assert report.verified
    assert target.raw.hmget(f"{ns}:to:Q", "vt", "totalsent") == [b"900", b"5"]


def test_what_has_no_place_is_told(made, here, raw, ns):
    state = whole(made, ns)
    report = move(Rqueue(here), ns, here, "to", in_flight=True)
    of_messages = {note.text: note.examples for note in report.notes.values() if note.number}
    of_the_queue = [note.text for note in report.notes.values() if not note.number]

    assert of_messages == {
        LEFT_OUT[0]: [state.deleted.id],
        LEFT_OUT[1]: [state.superseded.id],
        PERIODIC: [state.periodic.id],
        "its reEnqueuedAt": [state.failed.id],
    }
    assert of_the_queue == [
        "its setting numRetry: 3 (a listener's max_retries)",
        'its setting concurrency: {"min": 1, "max": 1} (a listener\'s concurrency)',
        f"its dead-letter queue {ns}-dead (a listener's dead_letter_queue)",
    ]
    assert report.left_out == 2


def test_a_move_with_what_is_processed_leaves_nothing(made, here, target, raw, ns):
    state = whole(made, ns)
    ((_, until),) = raw.zrange(made.processing(ns), 0, -1, withscores=True)
    report = move(Rqueue(here), ns, target, "to", in_flight=True)
    processed = by_body(stored(target.raw, ns, "to"))[text(state.processing)]

    assert processed.score == until
    assert (processed.count, processed.first) == (2, state.processing.fields["processAt"])
    assert not raw.exists(made.ready(ns), made.scheduled(ns), made.processing(ns))
    assert (report.arrived, report.left) == (6, 0)


def test_what_was_processed_too_long_is_visible_where_it_was_sent(made, here, raw, ns):
    made.enqueue(ns, "first")
    made.enqueue(ns, "second")
    made.receive(ns, visibility_ms=-5000)
    move(Rqueue(here), ns, here, "to", in_flight=True)
    found = by_body(stored(raw, ns, "to"))

    assert found[b"first"].count == 1
    assert found[b"first"].score <= now_ms(raw)


@pytest.mark.parametrize("listener", [False, True])
def test_dead_letters_come_oldest_first(made, here, target, raw, ns, listener):
    state = whole(made, ns, listener=listener)
    report = move(Rqueue(here), state.dead_letter_queue, target, "dead")
    found = stored(target.raw, ns, "dead")
    dead = [text(each) for each in state.dead]

    # With a listener they are a sorted set of equal scores: then by their bytes.
    assert [each.body for each in found] == (
        [text(each) for each in sorted(state.dead, key=lambda each: each.raw)] if listener else dead
    )
    assert {each.sent_us for each in found} == {
        each.fields["processAt"] * 1000 for each in state.dead
    }
    assert {each.count for each in found} == ({None} if listener else {3})
    assert all(each.score <= now_ms(target.raw) for each in found)
    assert report.left_out == 0
    told = {note.text for note in report.notes.values()}
    assert ("its sourceQueueName and sourceQueueFailureCount" in told) is listener
    assert not raw.exists(state.dead_letter_queue, made.scheduled(state.dead_letter_queue))
    # The queue that they are of is as it was.
    assert raw.llen(made.ready(ns)) == 4


def test_a_priority_is_a_queue_of_its_own(made, here, raw, ns):
    state = whole(made, ns)
    report = move(Rqueue(here), state.priorities[0], here, "urgent")

    assert bodies(raw, ns, "urgent") == [text(state.urgent)]
    assert next(iter(report.notes)) == (
        f"the priority 'critical' of {ns!r}: give a worker the queues in the order of their "
        "priority"
    )
    assert report.notes["its own retryCount"].examples == [state.urgent.id]
    made.prioritize(ns, critical=10, low=1)
    told = move(Rqueue(here), ns, here, "to").notes
    setting = 'its setting priority: {"critical": 10, "low": 1} (the order of a worker\'s queues)'
    assert setting in told


def test_a_copy_leaves_rqueue_as_it_was(made, here, target, raw, ns):
    state = whole(made, ns)
    before = of_rqueue(raw, ns)
    for again in (False, True):
        report = copy(Rqueue(here), ns, target, "to")
        found = stored(target.raw, ns, "to")

        assert of_rqueue(raw, ns) == before
        ready = [each.body for each in found if each.score <= now_ms(target.raw)]
        assert ready == [text(each) for each in state.ready]
        assert {each.body for each in found} == {
            text(each)
            for each in (
                *state.ready, state.failed, state.later, state.periodic, state.processing
            )
        }  # fmt: skip
        assert (report.arrived, report.before) == ((0, 6) if again else (6, 0))
        assert report.left_out == 2
        assert report.verified


def test_dry_runs_change_nothing_and_tell_the_numbers_of_the_runs(made, here, raw, ns):
    whole(made, ns)
    for way, options in ((copy, {}), (move, {}), (move, {"in_flight": True})):
        before = dumped(raw)
        dry = numbers(way(Rqueue(here), ns, here, "to", dry_run=True, **options))
        assert dumped(raw) == before
        real = numbers(way(Rqueue(here), ns, here, "to", **options))
        assert dry == real


def test_all_queues_with_messages_are_found(made, here, ns):
    whole(made, ns)

    assert Rqueue(here).queues() == sorted([ns, f"{ns}-dead", f"{ns}_critical"])


def test_all_queues_with_a_listener_of_dead_letters_are_found(made, here, ns):
    whole(made, ns, listener=True)

    assert Rqueue(here).queues() == sorted([ns, f"{ns}-dead", f"{ns}_critical"])


def test_a_queue_that_is_not_there_is_not_found_and_an_empty_one_is(made, here, raw, ns):
    with refused(
        SourceNotFound,
        f"There is no Rqueue queue {ns!r}, nor a dead-letter queue of this name",
    ):
        move(Rqueue(here), ns, here, "to")
    assert not raw.exists(f"{ns}:to:Q")
    made.configure(ns, visibilityTimeout=1)
    report = move(Rqueue(here), ns, here, "to")

    assert (report.arrived, report.created, report.verified) == (0, True, True)
    assert raw.hget(f"{ns}:to:Q", "vt") == b"1"


def test_unwrap_takes_out_what_the_default_converter_wrapped(made, here, raw, ns):
    given = [
        converted("grüße 😀"),
        converted({"n": 1}, "com.example.Order"),
        json.dumps({"msg": 1, "name": "no text"}),
        json.dumps({"msg": "no class"}),
        "no JSON",
    ]
    for message in given:
        made.enqueue(ns, message)
    report = move(Rqueue(here, unwrap=True), ns, here, "to")

    assert bodies(raw, ns, "to") == [
        '"grüße 😀"'.encode(), b'{"n":1}', *(each.encode() for each in given[2:])
    ]  # fmt: skip
    assert report.notes["the Java class beside msg, which --unwrap leaves out"].number == 2


def test_elements_that_are_no_messages_come_over_as_they_are(made, here, raw, ns):
    made.enqueue(ns, "m")
    raw.rpush(made.ready(ns), b"\xff\x00", b"[1]", b'{"id": 1}')
    report = move(Rqueue(here), ns, here, "to")

    assert bodies(raw, ns, "to") == [b"m", b"\xff\x00", b"[1]", b'{"id": 1}']
    assert report.notes["no message of Rqueue: taken over as it is"].number == 3


def test_a_message_that_is_no_text_becomes_json(made, here, raw, ns):
    """Of other converters; and half of a surrogate pair is bytes that Java wrote."""
    made.enqueue(ns, {"a": ["ü", 1]})
    made.enqueue(ns, None)
    move(Rqueue(here), ns, here, "to")

    assert bodies(raw, ns, "to") == ['{"a":["ü",1]}'.encode(), b"null"]


def test_names_with_braces_are_their_own_tags(rqueue, here, raw, ns):
    made = rqueue()
    queue = f"{ns}-{{x}}"
    made.enqueue(queue, "m")
    source = Rqueue(here)

    assert source.queues() == [queue]
    move(source, queue, here, "to")
    assert bodies(raw, ns, "to") == [b"m"]


def test_a_soft_deleted_message_that_was_taken_aside_does_not_come(rqueue, here, there, raw, ns):
    made = rqueue()
    gone = made.enqueue(ns, "gone")
    made.enqueue(ns, "m")
    made.delete(gone)
    report = move(Rqueue(here), ns, there, "to")

    assert bodies(there.raw, ns, "to") == [b"m"]
    assert not raw.exists(made.ready(ns), f"{ns}:x:aside:rqueue:{ns}")
    assert (report.left_out, report.verified) == (1, True)
