"""Who is sent to look, and when: the rules of schedule.py, with a clock of our own."""

from __future__ import annotations

import itertools
import math

import pytest

from rsmq.waiting import schedule
from rsmq.waiting.schedule import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    OPENING_PAUSE,
    PATIENCE,
    QUIET,
    SAFETY,
    Board,
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
    board = Board()
    board.begin_telling(0)
    return board


def read(board, due_in, now, queue=A):
    """As if the reading that is asked for had come."""
    assert queue in board.unread
    board.unread.discard(queue)
    board.was_read(queue, due_in, now)


def named(board, *listed, now=0):
    """As if the names that are to be looked up had been; those that are given are listed."""
    queues, board.unnamed = board.unnamed, set()
    for queue in queues:
        board.was_listed(queue, queue in listed, now)


def some(number, *queues):
    return [Someone(*queues) for _ in range(number)]


def enter(board, *waiters, now=0):
    for waiter in waiters:
        board.enter(waiter, now)


def sent(*waiters):
    return [waiter.sent for waiter in waiters]


def test_a_queue_is_read_when_the_first_comes_and_not_for_the_others(told):
    enter(told, Someone())
    assert told.unread == {A}
    told.unread.clear()
    enter(told, *some(9))

    assert told.unread == set()


def test_something_due_sends_one(told):
    waiters = some(3)
    enter(told, *waiters)
    read(told, 0, 0)

    assert sent(*waiters) == [1, 0, 0]
    assert waiters[0].awake


def test_nothing_due_sends_nobody_until_it_is(told):
    waiters = some(2)
    enter(told, *waiters)
    read(told, 4, 10)

    assert told.send_who_must_look(13.99) == pytest.approx(14)
    assert sent(*waiters) == [0, 0]
    told.send_who_must_look(14)
    assert sent(*waiters) == [1, 0]


def test_a_change_is_read_and_a_change_of_an_empty_queue_also_sends_one_at_once(told):
    waiters = some(3)
    enter(told, *waiters)
    read(told, 5, 0)
    told.changed(A, 1)
    assert sent(*waiters) == [0, 0, 0]
    read(told, None, 1)
    told.changed(A, 2)
    assert sent(*waiters) == [1, 0, 0]
    read(told, 0, 2)
    assert sent(*waiters) == [1, 1, 0]
    told.changed(A, 3)
    assert sent(*waiters) == [1, 1, 0]


def test_a_change_of_a_queue_that_nobody_waits_for_any_more_is_not_read(told):
    waiter = Someone()
    enter(told, waiter)
    read(told, None, 0)
    told.changed(A, 1)
    assert (waiter.sent, told.unread) == (1, set())
    told.changed(A, 1)
    told.was_read(A, 0, 1)
    told.was_listed(A, False, 1)
    told.not_read(A, 1)

    assert (waiter.sent, told.unread) == (1, set())
    assert not told


def test_a_reading_stays_good_for_whoever_comes_next(told):
    first = Someone()
    enter(told, first)
    read(told, 3, 0)
    told.leave(first)
    assert not told

    second = Someone()
    enter(told, second, now=1)
    assert told.unread == set()
    assert told.send_who_must_look(2.9) == 3
    told.send_who_must_look(3)
    assert second.sent == 1


def test_a_change_while_nobody_waits_makes_the_reading_worthless(told):
    first = Someone()
    enter(told, first)
    read(told, None, 0)
    told.leave(first)
    told.changed(A, 1)
    assert told.unread == set()

    second = Someone()
    enter(told, second, now=2)
    assert told.unread == {A}
    read(told, 0, 2)
    assert second.sent == 1


def test_readings_of_many_queues_without_waiters_are_forgotten(told, monkeypatch):
    monkeypatch.setattr(schedule, "_REMEMBERED", 10)
    for number in range(100):
        waiter = Someone(b"q%d" % number)
        enter(told, waiter)
        read(told, None, 0, waiter.queues[0])
        told.leave(waiter)

    assert len(told._rooms) <= 11


def test_one_who_found_nothing_is_not_sent_for_the_same_at_once(told):
    waiter = Someone()
    enter(told, waiter)
    now = 0
    read(told, 0, now)
    for looks, quiet in enumerate([*QUIET, QUIET[-1]], 1):
        told.send_who_must_look(now)
        assert waiter.sent == looks
        waiter.looks = looks
        enter(told, waiter, now=now)
        assert waiter.sent == looks
        assert told.send_who_must_look(now) == pytest.approx(now + quiet)
        now += quiet
    assert told.unread == set()


def test_news_ends_the_quiet(told):
    waiter = Someone()
    waiter.looks = 4
    enter(told, waiter, now=0)
    read(told, 0, 0)
    assert waiter.sent == 0
    told.changed(A, 0.1)
    read(told, 0, 0.1)

    assert waiter.sent == 1


def test_one_who_was_sent_and_does_not_come_back_is_followed_by_another(told):
    waiters = some(2)
    enter(told, *waiters)
    read(told, 0, 0)
    told.send_who_must_look(PATIENCE - 0.01)
    assert sent(*waiters) == [1, 0]
    told.send_who_must_look(PATIENCE)

    assert sent(*waiters) == [1, 1]


def test_one_who_failed_is_followed_by_another_at_once(told):
    waiters = some(3)
    enter(told, *waiters)
    read(told, 0, 0)
    told.failed(waiters[0], 0)
    told.failed(waiters[1], 0)

    assert sent(*waiters) == [1, 1, 1]


def test_who_leaves_is_not_sent(told):
    waiters = some(2)
    enter(told, *waiters)
    told.leave(waiters[0])
    told.leave(waiters[0])
    read(told, 0, 0)

    assert sent(*waiters) == [0, 1]
    assert not told


def test_now_and_then_somebody_looks_without_reason(told):
    waiters = some(2)
    enter(told, *waiters)
    read(told, None, 0)

    look = told.send_who_must_look(0)
    assert SAFETY <= look <= SAFETY * 2
    told.send_who_must_look(look)
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
        now = told.send_who_must_look(now)
        told.send_who_must_look(now)
        if waiter.awake:
            looks.append(now)
            waiter.looks += 1
            enter(told, waiter, now=now)
            now += 0.001

    assert all(later - earlier >= SAFETY for earlier, later in itertools.pairwise(looks))
    assert len(looks) >= 10
    assert told.unread == set(), "what was read stays good"


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
    waiter.looks = 1  # it exists, only its name is not in the index
    enter(told, waiter, now=1)
    assert told.send_who_must_look(2) >= SAFETY
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
    told.names_changed()
    named(told, B, now=1)
    assert sent(*waiters) == [1, 0, 0]
    told.failed(waiters[0], 1)
    told.failed(waiters[1], 1)

    assert sent(*waiters) == [1, 1, 1]


def test_names_are_looked_up_once_until_queues_come_and_go(told):
    enter(told, Someone(A, B))
    assert told.unnamed == {A, B}
    named(told, A, B)
    enter(told, Someone(A))
    assert told.unnamed == set()
    told.names_changed()

    assert told.unnamed == {A, B}
    assert told.unread == {A, B}, "only for the first waiter"


def test_a_reading_that_failed_sends_somebody_soon(told):
    waiter = Someone()
    enter(told, waiter)
    told.unread.clear()
    told.not_read(A, 5)

    assert told.send_who_must_look(5) == 5 + PATIENCE


def test_one_who_waits_for_several_queues_is_sent_for_any_and_leaves_all(told):
    both, only = Someone(A, B), Someone(B)
    enter(told, both, only)
    read(told, None, 0, A)
    read(told, 0, 0, B)
    assert sent(both, only) == [1, 0]
    told.changed(A, 1)
    assert told.unread == set()


def test_what_is_still_due_wakes_the_next_when_one_found_something_in_another_queue(told):
    both, only = Someone(A, B), Someone(B)
    enter(told, both, only)
    read(told, None, 0, A)
    read(told, 0, 0, B)
    assert sent(both, only) == [1, 0]
    told.found(both, 1)  # perhaps in A, of which the news is still to come

    assert sent(both, only) == [1, 1]


def test_what_one_finds_in_its_only_queue_is_news_by_itself(told):
    waiters = some(2)
    enter(told, *waiters)
    read(told, 0, 0)
    told.found(waiters[0], 0)

    assert told.unread == set()


def test_all_are_read_when_the_database_was_flushed(told):
    a, b, gone = Someone(A), Someone(B), Someone(b"ns:c")
    enter(told, a, b, gone)
    read(told, None, 0, A)
    read(told, None, 0, B)
    read(told, None, 0, b"ns:c")
    named(told, A, B, b"ns:c")
    told.leave(gone)
    told.everything_changed(1)

    assert told.unread == {A, B}
    assert told.unnamed == {A, B}
    assert sent(a, b) == [0, 0]


def test_when_telling_begins_all_are_read_and_when_it_ends_somebody_looks_soon():
    board = Board()
    waiters = some(2)
    enter(board, *waiters)
    assert board.unread == set()
    board.begin_telling(1)
    assert board.unread == {A}
    read(board, None, 1)
    board.changed(A, 2)
    board.end_telling(2)
    assert board.unread == set()
    assert sent(*waiters) == [1, 0]
    board.send_who_must_look(2 + FIRST_PAUSE)

    assert sent(*waiters) == [1, 1]


def test_where_nobody_tells_looks_become_rarer_for_the_queue_whoever_looks():
    board = Board()
    now, pauses = 0, []
    for _ in range(12):
        waiter = Someone()
        enter(board, waiter, now=now)
        look = board.send_who_must_look(now)
        pauses.append(look - now)
        now = look
        board.send_who_must_look(now)
        assert waiter.sent == 1
        waiter.looks = 1
        enter(board, waiter, now=now)
        board.leave(waiter)

    assert pauses[0] <= FIRST_PAUSE
    assert all(0.75 * LONGEST_PAUSE <= pause <= LONGEST_PAUSE for pause in pauses[6:])
    board.found(waiter, now)
    enter(board, Someone(), now=now)
    assert board.send_who_must_look(now) - now <= FIRST_PAUSE


def test_while_a_connection_is_being_opened_nobody_looks_soon():
    board = Board(opening=True)
    enter(board, Someone())
    assert board.send_who_must_look(0) >= 0.75 * OPENING_PAUSE
    board.end_telling(1)  # it was not to be had
    board.opening = False
    waiter = Someone(B)
    enter(board, waiter, now=1)
    assert board.send_who_must_look(1) - 1 <= FIRST_PAUSE


def test_where_nobody_tells_a_look_into_many_queues_is_rarer():
    board = Board()
    enter(board, Someone(*(b"q%d" % number for number in range(2001))))

    assert 2.25 * FIRST_PAUSE <= board.send_who_must_look(0) <= 3 * FIRST_PAUSE


def test_where_nobody_tells_who_found_something_is_followed_by_another():
    board = Board()
    waiters = some(2)
    enter(board, *waiters)
    board.send_who_must_look(1)
    board.found(waiters[0], 1)

    assert sent(*waiters) == [1, 1]


def test_all_are_woken_when_it_ends(told):
    waiters = [*some(3), Someone(A, B)]
    enter(told, *waiters)
    told.send_all()

    assert sent(*waiters) == [1, 1, 1, 1]
    assert not told
    assert told.send_who_must_look(10**9) == math.inf


def test_looks_without_reason_spread():
    assert len({schedule._safety() for _ in range(10)}) > 1
