"""The order of a source becomes that of a queue, which sorts by score and then by id."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from rsmq.migrate.ids_and_scores import CopyConverter, MoveConverter, NewestFirst, OldestFirst
from rsmq.migrate.sources.item import Element, Item
from rsmq.wire.ids import parse_sent_us

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000

# In ms from now: close together, so that many are equal; some were sent by a clock ahead of ours.
offsets = st.one_of(st.integers(-5, 5), st.integers(-HOUR_MS, HOUR_MS), st.none())
sizes = st.lists(st.integers(1, 7), min_size=1, max_size=8)


def split(values, sizes):
    """In pages of these sizes, over and over."""
    left, size = list(values), itertools.cycle(sizes)
    while left:
        page = next(size)
        yield left[:page]
        left = left[page:]


def items(offsets, own_ids=()):
    """Messages of a source, the first first, that were sent then; some have ids of their own."""
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
    """As a queue sorts them: scores as numbers, and ids as bytes."""
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
def test_copies_keep_the_order_whatever_the_times_and_the_pages(offsets, sizes):
    given = items(offsets)
    copies = CopyConverter("rfq", NOW_MS * 1000)
    arrivals = [
        arrival
        for page in split(reversed(given), sizes)
        for arrival in copies.convert(page, NOW_MS * 1000)
    ]

    assert [message.raw for message in in_order(arrivals)] == [item.body for item in given]


@given(many, sizes, sizes)
def test_copies_are_the_same_however_they_are_paged(offsets, sizes, other_sizes):
    given = items(offsets)

    def copied(sizes):
        copies = CopyConverter("rfq", NOW_MS * 1000)
        return [
            arrival
            for page in split(reversed(given), sizes)
            for arrival in copies.convert(page, NOW_MS * 1000)
        ]

    assert copied(sizes) == copied(other_sizes)


@given(many, sizes)
@example([3, 2, 1, 0, -1], [2])
@example([0] * 20, [3])
@example([None, 0, None, 0, None], [2])
@example([HOUR_MS, -HOUR_MS, HOUR_MS], [1])
def test_moves_keep_the_order_whatever_the_times_and_the_batches(offsets, sizes):
    given = items(offsets)
    moves = MoveConverter("rfq")
    arrivals = [
        arrival for batch in split(given, sizes) for arrival in moves.convert(batch, NOW_MS * 1000)
    ]

    assert [message.raw for message in in_order(arrivals)] == [item.body for item in given]


@given(many, sizes)
def test_the_ids_tell_when_messages_were_sent(offsets, sizes):
    given = items(offsets)
    copies, moves = CopyConverter("rfq", NOW_MS * 1000), MoveConverter("rfq")
    for page in split(given, sizes):
        arrived = zip(
            page,
            copies.convert(page, NOW_MS * 1000),
            moves.convert(page, NOW_MS * 1000),
            strict=True,
        )
        for item, *both in arrived:
            for arrival in both:
                sent_us = NOW_MS * 1000 if item.sent_us is None else item.sent_us
                assert int(arrival.message.id[:10], 36) == sent_us
                assert parse_sent_us(arrival.message.id, NOW_MS) == sent_us


@given(many, sizes)
def test_none_that_waits_is_hidden_by_a_clock_that_was_ahead(offsets, sizes):
    """A score beyond now is only as far ahead as there are messages before it."""
    given = items(offsets)
    copies, moves = CopyConverter("rfq", NOW_MS * 1000), MoveConverter("rfq")
    copied = [
        arrival
        for page in split(reversed(given), sizes)
        for arrival in copies.convert(page, NOW_MS * 1000)
    ]
    moved = [
        arrival for batch in split(given, sizes) for arrival in moves.convert(batch, NOW_MS * 1000)
    ]

    assert max(each.message.visible_at_ms for each in copied) <= NOW_MS
    assert max(each.message.visible_at_ms for each in moved) < NOW_MS + len(given)


@given(many, st.data())
def test_a_message_keeps_an_id_of_its_own_and_its_place(offsets, data):
    texts = st.text("0123456789abcXYZ", min_size=32, max_size=32)
    own = data.draw(st.lists(texts, min_size=len(offsets), max_size=len(offsets), unique=True))
    given = items(offsets, own)
    copies, moves = CopyConverter("rsmq", NOW_MS * 1000), MoveConverter("rsmq")
    copied = copies.convert(given[::-1], NOW_MS * 1000)[::-1]
    moved = moves.convert(given, NOW_MS * 1000)

    assert [each.message.id for each in copied] == own
    assert [each.message.id for each in moved] == own
    for arrivals in (copied, moved):
        assert [message.raw for message in in_order(arrivals)] == [item.body for item in given]


def test_what_is_due_at_a_time_keeps_that_and_is_no_neighbour_of_the_others():
    due = Item(Element(b"due"), "delayed", b"due", b"due", sent_us=1, due_ms=NOW_MS + 5000)
    ready = items([0, 0])
    given = [ready[0], due, ready[1]]
    for arrivals in (
        MoveConverter("rqueue").convert(given, NOW_MS * 1000),
        CopyConverter("rqueue", NOW_MS * 1000).convert(given[::-1], NOW_MS * 1000)[::-1],
    ):
        first, delayed, last = (each.message for each in arrivals)

        assert delayed.visible_at_ms == NOW_MS + 5000
        assert (first.visible_at_ms, first.id) < (last.visible_at_ms, last.id)
        assert last.visible_at_ms == NOW_MS


def test_what_goes_nowhere_has_a_digest_and_no_message():
    item = Item(Element(b"x"), "ready", None, identity=b"x")
    (copied,) = CopyConverter("rfq", 0).convert([item], 0)
    (moved,) = MoveConverter("rfq").convert([item], 0)

    assert copied == moved
    assert copied.message is None
    assert copied.digest


@given(st.lists(st.tuples(st.integers(0, 9), st.text("ab", min_size=4, max_size=4)), max_size=30))
def test_scores_are_never_later_than_the_time_unless_another_stands_before(sent):
    newest = NewestFirst()
    for ms, id in reversed(sent):
        assert newest.score(ms, id) <= ms
    oldest, last = OldestFirst(), -1
    for ms, id in sent:
        (score,) = oldest.scores([(ms, id)])
        assert ms <= score <= max(ms, last + 1)
        last = score
