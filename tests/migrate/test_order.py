"""The order of a source in the target queue, which sorts by score and then by id."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from rsmq.migrate.ids_and_scores import CopyConverter, MoveConverter, NewestFirst, OldestFirst
from rsmq.migrate.sources.item import Element, Item
from rsmq.wire.ids import parse_sent_us

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000

# In ms from now: close together, so that many are equal; some are later, from a fast clock.
offsets = st.one_of(st.integers(-5, 5), st.integers(-HOUR_MS, HOUR_MS), st.none())
sizes = st.lists(st.integers(1, 7), min_size=1, max_size=8)


def split(values, sizes):
    """Yield the values in pages of these sizes, repeated cyclically."""
    remaining, size = list(values), itertools.cycle(sizes)
    while remaining:
        page = next(size)
        yield remaining[:page]
        remaining = remaining[page:]


def items(offsets, own_ids=()):
    """Return messages of a source in order, sent at these times; some have ids of their own."""
    own = dict(enumerate(own_ids))
    return [
        Item(
            Element(b"%d" % number),
            "ready",
            b"%d" % number,
            identity=b"%d" % number,
            id=own.get(number),
            sent_us=None if offset is None else (NOW_MS + offset) * 1000 + number % 3,
        )
        for number, offset in enumerate(offsets)
    ]


def in_order(arrivals):
    """Return the messages in the order of a queue: by score as a number, then by id as bytes."""
    return sorted(
        (each.message for each in arrivals),
        key=lambda message: (message.visible_at_ms, message.id.encode()),
    )


many = st.lists(offsets, min_size=1, max_size=40)


@given(many, sizes)
@example([3, 2, 1, 0, -1], [2])
@example([0] * 20, [3])
@example([None] * 20, [3])
@example([HOUR_MS, -HOUR_MS, HOUR_MS], [1])
def test_copies_keep_the_order_for_all_times_and_pages(offsets, sizes):
    source_items = items(offsets)
    copies = CopyConverter("rfq", NOW_MS * 1000)
    arrivals = [
        arrival
        for page in split(reversed(source_items), sizes)
        for arrival in copies.convert(page, NOW_MS * 1000)
    ]

    assert [message.raw for message in in_order(arrivals)] == [item.body for item in source_items]


@given(many, sizes, sizes)
def test_copies_do_not_depend_on_the_pages(offsets, sizes, other_sizes):
    source_items = items(offsets)

    def copied(sizes):
        copies = CopyConverter("rfq", NOW_MS * 1000)
        return [
            arrival
            for page in split(reversed(source_items), sizes)
            for arrival in copies.convert(page, NOW_MS * 1000)
        ]

    assert copied(sizes) == copied(other_sizes)


@given(many, sizes)
@example([3, 2, 1, 0, -1], [2])
@example([0] * 20, [3])
@example([None, 0, None, 0, None], [2])
@example([HOUR_MS, -HOUR_MS, HOUR_MS], [1])
def test_moves_keep_the_order_for_all_times_and_batches(offsets, sizes):
    source_items = items(offsets)
    moves = MoveConverter("rfq")
    arrivals = [
        arrival
        for batch in split(source_items, sizes)
        for arrival in moves.convert(batch, NOW_MS * 1000)
    ]

    assert [message.raw for message in in_order(arrivals)] == [item.body for item in source_items]


@given(many, sizes)
@example([3, 2, 1, 0, -1], [2])
@example([0] * 20, [3])
def test_moves_keep_the_order_if_each_batch_is_moved_by_a_new_run(offsets, sizes):
    source_items, watermark, arrivals = items(offsets), b"", []
    for batch in split(source_items, sizes):
        moves = MoveConverter("rfq")
        moves.continue_from(watermark)
        arrivals += moves.convert(batch, NOW_MS * 1000)
        watermark = moves.watermark

    assert [message.raw for message in in_order(arrivals)] == [item.body for item in source_items]


@given(many, sizes)
def test_continued_run_makes_the_same_order_as_an_uninterrupted_one(offsets, sizes):
    """Its scores and the numbers in its ids are the same, so no score is raised needlessly."""
    one, watermark = MoveConverter("rfq"), b""
    for batch in split(items(offsets), sizes):
        continued = MoveConverter("rfq")
        continued.continue_from(watermark)
        pairs = zip(
            one.convert(batch, NOW_MS * 1000), continued.convert(batch, NOW_MS * 1000), strict=True
        )
        for expected, found in pairs:
            assert found.message.id[:16] == expected.message.id[:16]
            assert found.message.visible_at_ms == expected.message.visible_at_ms
        watermark = one.watermark


@given(many, many, sizes)
def test_later_messages_can_be_put_before_those_of_another_run(offsets, earlier, sizes):
    ready, in_flight = MoveConverter("rfq"), MoveConverter("rfq")
    behind = [
        each
        for batch in split(items(offsets), sizes)
        for each in ready.convert(batch, NOW_MS * 1000)
    ]
    stored = MoveConverter("rfq")
    stored.continue_from(ready.watermark)
    in_flight.stay_before(stored.first)
    before = in_flight.convert(items(earlier), NOW_MS * 1000)

    assert in_order(behind + before) == in_order(before) + in_order(behind)


def test_converter_continues_behind_the_latest_message_only():
    moves = MoveConverter("list")
    moves.continue_after(20, "b" * 32)
    moves.continue_after(10, "c" * 32)
    assert moves.watermark == b"20 20 " + b"b" * 32
    moves.continue_from(b"")
    assert moves.watermark == b""


@given(many, sizes)
def test_ids_contain_the_sent_time(offsets, sizes):
    source_items = items(offsets)
    copies, moves = CopyConverter("rfq", NOW_MS * 1000), MoveConverter("rfq")
    for page in split(source_items, sizes):
        arrived = zip(
            page,
            copies.convert(page, NOW_MS * 1000),
            moves.convert(page, NOW_MS * 1000),
            strict=True,
        )
        for item, *both_arrivals in arrived:
            for arrival in both_arrivals:
                sent_us = NOW_MS * 1000 if item.sent_us is None else item.sent_us
                assert int(arrival.message.id[:10], 36) == sent_us
                assert parse_sent_us(arrival.message.id, NOW_MS) == sent_us


@given(many, sizes)
def test_no_message_is_hidden_by_a_fast_clock_of_its_sender(offsets, sizes):
    """A score beyond now is later only by the number of messages before it."""
    source_items = items(offsets)
    copies, moves = CopyConverter("rfq", NOW_MS * 1000), MoveConverter("rfq")
    copied = [
        arrival
        for page in split(reversed(source_items), sizes)
        for arrival in copies.convert(page, NOW_MS * 1000)
    ]
    moved = [
        arrival
        for batch in split(source_items, sizes)
        for arrival in moves.convert(batch, NOW_MS * 1000)
    ]

    assert max(each.message.visible_at_ms for each in copied) <= NOW_MS
    assert max(each.message.visible_at_ms for each in moved) < NOW_MS + len(source_items)


@given(many, st.data())
def test_message_with_its_own_id_keeps_id_and_position(offsets, data):
    id_texts = st.text("0123456789abcXYZ", min_size=32, max_size=32)
    own_ids = data.draw(
        st.lists(id_texts, min_size=len(offsets), max_size=len(offsets), unique=True)
    )
    source_items = items(offsets, own_ids)
    copies, moves = CopyConverter("rsmq", NOW_MS * 1000), MoveConverter("rsmq")
    copied = copies.convert(source_items[::-1], NOW_MS * 1000)[::-1]
    moved = moves.convert(source_items, NOW_MS * 1000)

    assert [each.message.id for each in copied] == own_ids
    assert [each.message.id for each in moved] == own_ids
    for arrivals in (copied, moved):
        assert [message.raw for message in in_order(arrivals)] == [
            item.body for item in source_items
        ]


def test_delayed_message_keeps_its_due_time_and_does_not_shift_others():
    due = Item(Element(b"due"), "delayed", b"due", b"due", sent_us=1, due_ms=NOW_MS + 5000)
    ready = items([0, 0])
    source_items = [ready[0], due, ready[1]]
    for arrivals in (
        MoveConverter("rqueue").convert(source_items, NOW_MS * 1000),
        CopyConverter("rqueue", NOW_MS * 1000).convert(source_items[::-1], NOW_MS * 1000)[::-1],
    ):
        first, delayed, last = (each.message for each in arrivals)

        assert delayed.visible_at_ms == NOW_MS + 5000
        assert (first.visible_at_ms, first.id) < (last.visible_at_ms, last.id)
        assert last.visible_at_ms == NOW_MS


def test_item_without_body_has_a_digest_and_no_message():
    item = Item(Element(b"x"), "ready", None, identity=b"x")
    (copied,) = CopyConverter("rfq", 0).convert([item], 0)
    (moved,) = MoveConverter("rfq").convert([item], 0)

    assert copied == moved
    assert copied.message is None
    assert copied.digest


@given(st.lists(st.tuples(st.integers(0, 9), st.text("ab", min_size=4, max_size=4)), max_size=30))
def test_scores_exceed_the_sent_time_only_after_another_message(sent):
    newest = NewestFirst()
    for ms, id in reversed(sent):
        assert newest.score(ms, id) <= ms
    oldest, last_score = OldestFirst(), -1
    for ms, id in sent:
        (score,) = oldest.scores([(ms, id)])
        assert ms <= score <= max(ms, last_score + 1)
        last_score = score
