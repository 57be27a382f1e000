"""Who is sent to look, and when: the rules of schedule.py, with a clock of our own."""

from __future__ import annotations

import itertools
import math

import pytest

from rsmq.waiting import schedule
from rsmq.waiting.schedule import (
    CONNECTING_POLL_SECONDS,
    FIRST_POLL_SECONDS,
    LONGEST_POLL_SECONDS,
    PATIENCE_SECONDS,
    QUIET_SECONDS,
    SAFETY_SECONDS,
    Schedule,
    Waiter,
)

A, B = b"ns:a", b"ns:b"


class Someone(Waiter):
    """A waiter that counts how often it was sent."""

    __slots__ = ("sent",)

    def __init__(self, *queues):
        self.sent = 0
        super().__init__(queues or (A,), self._count)

    def _count(self):
        self.sent += 1


@pytest.fixture
def told():
    board = Schedule()
    board.start_tracking(0)
    return board


def read(board, due_in, now, queue=A):
    """As if the reading that is asked for had come."""
    assert queue in board.to_read
    board.to_read.discard(queue)
    board.note_first_due(queue, due_in, now)


def named(board, *listed, now=0):
    """As if the names that are to be looked up had been; those that are given are listed."""
    queues, board.to_look_up = board.to_look_up, set()
    for queue in queues:
        board.note_listed(queue, now, is_listed=queue in listed)


def some(number, *queues):
    return [Someone(*queues) for _ in range(number)]


def enter(board, *waiters, now=0):
    for waiter in waiters:
        board.add(waiter, now)


def sent(*waiters):
    return [waiter.sent for waiter in waiters]


def test_a_queue_is_read_when_the_first_comes_and_not_for_the_others(told):
    enter(told, Someone())
    assert told.to_read == {A}
    told.to_read.clear()
    enter(told, *some(9))

    assert told.to_read == set()


def test_something_due_sends_one(told):
    waiters = some(3)
    enter(told, *waiters)
    read(told, 0, 0)

    assert sent(*waiters) == [1, 0, 0]
    assert waiters[0].is_awake


def test_nothing_due_sends_nobody_until_it_is(told):
    waiters = some(2)
    enter(told, *waiters)
    read(told, 4, 10)

    assert told.wake_due(13.99) == pytest.approx(14)
    assert sent(*waiters) == [0, 0]
    told.wake_due(14)
    assert sent(*waiters) == [1, 0]


def test_a_change_is_read_and_a_change_of_an_empty_queue_also_sends_one_at_once(told):
    waiters = some(3)
    enter(told, *waiters)
    read(told, 5, 0)
    told.note_change(A, 1)
    assert sent(*waiters) == [0, 0, 0]
    read(told, None, 1)
    told.note_change(A, 2)
    assert sent(*waiters) == [1, 0, 0]
    read(told, 0, 2)
    assert sent(*waiters) == [1, 1, 0]
    told.note_change(A, 3)
    assert sent(*waiters) == [1, 1, 0]


def test_a_change_of_a_queue_that_nobody_waits_for_any_more_is_not_read(told):
    waiter = Someone()
    enter(told, waiter)
    read(told, None, 0)
    told.note_change(A, 1)
    assert (waiter.sent, told.to_read) == (1, set())
    told.note_change(A, 1)
    told.note_first_due(A, 0, 1)
    told.note_listed(A, 1, is_listed=False)
    told.note_failed_read(A, 1)

    assert (waiter.sent, told.to_read) == (1, set())
    assert not told


def test_a_reading_stays_good_for_whoever_comes_next(told):
    first = Someone()
    enter(told, first)
    read(told, 3, 0)
    told.remove(first)
    assert not told

    second = Someone()
    enter(told, second, now=1)
    assert told.to_read == set()
    assert told.wake_due(2.9) == 3
    told.wake_due(3)
    assert second.sent == 1


def test_a_change_while_nobody_waits_makes_the_reading_worthless(told):
    first = Someone()
    enter(told, first)
    read(told, None, 0)
    told.remove(first)
    told.note_change(A, 1)
    assert told.to_read == set()

    second = Someone()
    enter(told, second, now=2)
    assert told.to_read == {A}
    read(told, 0, 2)
    assert second.sent == 1


def test_readings_of_many_queues_without_waiters_are_forgotten(told, monkeypatch):
    monkeypatch.setattr(schedule, "_MAX_KEPT_STATES", 10)
    for number in range(100):
        waiter = Someone(b"q%d" % number)
        enter(told, waiter)
        read(told, None, 0, waiter.queues[0])
        told.remove(waiter)

    assert len(told._states) <= 11


def test_one_who_found_nothing_is_not_sent_for_the_same_at_once(told):
    waiter = Someone()
    enter(told, waiter)
    now = 0
    read(told, 0, now)
    for looks, quiet in enumerate([*QUIET_SECONDS, QUIET_SECONDS[-1]], 1):
        told.wake_due(now)
        assert waiter.sent == looks
        waiter.empty_receives = looks
        enter(told, waiter, now=now)
        assert waiter.sent == looks
        assert told.wake_due(now) == pytest.approx(now + quiet)
        now += quiet
    assert told.to_read == set()


def test_news_ends_the_quiet(told):
    waiter = Someone()
    waiter.empty_receives = 4
    enter(told, waiter, now=0)
    read(told, 0, 0)
    assert waiter.sent == 0
    told.note_change(A, 0.1)
    read(told, 0, 0.1)

    assert waiter.sent == 1


def test_one_who_was_sent_and_does_not_come_back_is_followed_by_another(told):
    waiters = some(2)
    enter(told, *waiters)
    read(told, 0, 0)
    told.wake_due(PATIENCE_SECONDS - 0.01)
    assert sent(*waiters) == [1, 0]
    told.wake_due(PATIENCE_SECONDS)

    assert sent(*waiters) == [1, 1]


def test_one_who_failed_is_followed_by_another_at_once(told):
    waiters = some(3)
    enter(told, *waiters)
    read(told, 0, 0)
    told.note_interruption(waiters[0], 0)
    told.note_interruption(waiters[1], 0)

    assert sent(*waiters) == [1, 1, 1]


def test_who_leaves_is_not_sent(told):
    waiters = some(2)
    enter(told, *waiters)
    told.remove(waiters[0])
    told.remove(waiters[0])
    read(told, 0, 0)

    assert sent(*waiters) == [0, 1]
    assert not told


def test_now_and_then_somebody_looks_without_reason(told):
    waiters = some(2)
    enter(told, *waiters)
    read(told, None, 0)

    look = told.wake_due(0)
    assert SAFETY_SECONDS <= look <= SAFETY_SECONDS * 2
    told.wake_due(look)
    assert sent(*waiters) == [1, 0]


def test_one_who_waits_for_many_queues_looks_without_reason_once_in_a_while(told):
    queues = [b"ns:%d" % number for number in range(1000)]
    waiter = Someone(*queues)
    enter(told, waiter)
    for queue in queues:
        read(told, None, 0, queue)
    named(told, *queues)
    now, looks = 0, []
    while now < 300:
        now = told.wake_due(now)
        told.wake_due(now)
        if waiter.is_awake:
            looks.append(now)
            waiter.empty_receives += 1
            enter(told, waiter, now=now)
            now += 0.001

    assert all(later - earlier >= SAFETY_SECONDS for earlier, later in itertools.pairwise(looks))
    assert len(looks) >= 10
    assert told.to_read == set(), "what was read stays good"


@pytest.mark.parametrize("first", ["reading", "name"])
def test_a_queue_that_seems_not_to_exist_is_looked_into(told, first):
    waiter = Someone()
    enter(told, waiter)
    if first == "reading":
        read(told, None, 0)
        named(told)
    else:
        named(told)
        read(told, None, 0)

    assert waiter.sent == 1
    waiter.empty_receives = 1  # it exists, only its name is not in the index
    enter(told, waiter, now=1)
    assert told.wake_due(2) >= SAFETY_SECONDS
    assert waiter.sent == 1


def test_a_queue_that_has_messages_is_not_looked_into_for_its_name(told):
    waiter = Someone()
    enter(told, waiter)
    read(told, 5, 0)
    named(told)

    assert waiter.sent == 0


def test_a_queue_that_is_deleted_is_reported_to_all_who_wait_for_it(told):
    waiters = [*some(2), Someone(A, B)]
    enter(told, *waiters)
    read(told, None, 0)
    read(told, None, 0, B)
    named(told, A, B)
    assert sent(*waiters) == [0, 0, 0]
    told.note_index_change()
    named(told, B, now=1)
    assert sent(*waiters) == [1, 0, 0]
    told.note_interruption(waiters[0], 1)
    told.note_interruption(waiters[1], 1)

    assert sent(*waiters) == [1, 1, 1]


def test_names_are_looked_up_once_until_queues_come_and_go(told):
    enter(told, Someone(A, B))
    assert told.to_look_up == {A, B}
    named(told, A, B)
    enter(told, Someone(A))
    assert told.to_look_up == set()
    told.note_index_change()

    assert told.to_look_up == {A, B}
    assert told.to_read == {A, B}, "only for the first waiter"


def test_a_reading_that_failed_sends_somebody_soon(told):
    waiter = Someone()
    enter(told, waiter)
    told.to_read.clear()
    told.note_failed_read(A, 5)

    assert told.wake_due(5) == 5 + PATIENCE_SECONDS


def test_one_who_waits_for_several_queues_is_sent_for_any_and_leaves_all(told):
    both, only = Someone(A, B), Someone(B)
    enter(told, both, only)
    read(told, None, 0, A)
    read(told, 0, 0, B)
    assert sent(both, only) == [1, 0]
    told.note_change(A, 1)
    assert told.to_read == set()


def test_what_is_still_due_wakes_the_next_when_one_found_something_in_another_queue(told):
    both, only = Someone(A, B), Someone(B)
    enter(told, both, only)
    read(told, None, 0, A)
    read(told, 0, 0, B)
    assert sent(both, only) == [1, 0]
    told.note_receive(both, 1)  # perhaps in A, of which the news is still to come

    assert sent(both, only) == [1, 1]


def test_what_one_finds_in_its_only_queue_is_news_by_itself(told):
    waiters = some(2)
    enter(told, *waiters)
    read(told, 0, 0)
    told.note_receive(waiters[0], 0)

    assert told.to_read == set()


def test_all_are_read_when_the_database_was_flushed(told):
    a, b, gone = Someone(A), Someone(B), Someone(b"ns:c")
    enter(told, a, b, gone)
    read(told, None, 0, A)
    read(told, None, 0, B)
    read(told, None, 0, b"ns:c")
    named(told, A, B, b"ns:c")
    told.remove(gone)
    told.note_flush(1)

    assert told.to_read == {A, B}
    assert told.to_look_up == {A, B}
    assert sent(a, b) == [0, 0]


def test_when_telling_begins_all_are_read_and_when_it_ends_somebody_looks_soon():
    board = Schedule()
    waiters = some(2)
    enter(board, *waiters)
    assert board.to_read == set()
    board.start_tracking(1)
    assert board.to_read == {A}
    read(board, None, 1)
    board.note_change(A, 2)
    board.stop_tracking(2)
    assert board.to_read == set()
    assert sent(*waiters) == [1, 0]
    board.wake_due(2 + FIRST_POLL_SECONDS)

    assert sent(*waiters) == [1, 1]


def test_where_nobody_tells_looks_become_rarer_for_the_queue_whoever_looks():
    board = Schedule()
    now, pauses = 0, []
    for _ in range(12):
        waiter = Someone()
        enter(board, waiter, now=now)
        look = board.wake_due(now)
        pauses.append(look - now)
        now = look
        board.wake_due(now)
        assert waiter.sent == 1
        waiter.empty_receives = 1
        enter(board, waiter, now=now)
        board.remove(waiter)

    assert pauses[0] <= FIRST_POLL_SECONDS
    assert all(0.75 * LONGEST_POLL_SECONDS <= pause <= LONGEST_POLL_SECONDS for pause in pauses[6:])
    board.note_receive(waiter, now)
    enter(board, Someone(), now=now)
    assert board.wake_due(now) - now <= FIRST_POLL_SECONDS


def test_while_a_connection_is_being_opened_nobody_looks_soon():
    board = Schedule(is_connecting=True)
    enter(board, Someone())
    assert board.wake_due(0) >= 0.75 * CONNECTING_POLL_SECONDS
    board.stop_tracking(1)  # it was not to be had
    board.is_connecting = False
    waiter = Someone(B)
    enter(board, waiter, now=1)
    assert board.wake_due(1) - 1 <= FIRST_POLL_SECONDS


def test_where_nobody_tells_a_look_into_many_queues_is_rarer():
    board = Schedule()
    enter(board, Someone(*(b"q%d" % number for number in range(2001))))

    assert 2.25 * FIRST_POLL_SECONDS <= board.wake_due(0) <= 3 * FIRST_POLL_SECONDS


def test_where_nobody_tells_who_found_something_is_followed_by_another():
    board = Schedule()
    waiters = some(2)
    enter(board, *waiters)
    board.wake_due(1)
    board.note_receive(waiters[0], 1)

    assert sent(*waiters) == [1, 1]


def test_all_are_woken_when_it_ends(told):
    waiters = [*some(3), Someone(A, B)]
    enter(told, *waiters)
    told.wake_all()

    assert sent(*waiters) == [1, 1, 1, 1]
    assert not told
    assert told.wake_due(10**9) == math.inf


def test_looks_without_reason_spread():
    assert len({schedule._safety_seconds() for _ in range(10)}) > 1
