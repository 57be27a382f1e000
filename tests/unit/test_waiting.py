"""Which waiter is woken, and when: the rules of schedule.py, with a clock of the tests."""

from __future__ import annotations

import itertools
import math

import pytest

from rsmq.waiting import schedule as schedule_module
from rsmq.waiting.schedule import (
    CONNECTING_POLL_SECONDS,
    FIRST_POLL_SECONDS,
    LONGEST_POLL_SECONDS,
    MISS_PAUSE_SECONDS,
    PATIENCE_SECONDS,
    QUIET_SECONDS,
    SAFETY_SECONDS,
    Schedule,
    Waiter,
)
from rsmq.wire.throttle import Limit

A, B = b"ns:a", b"ns:b"


class CountingWaiter(Waiter):
    """A waiter that counts how often it was woken."""

    __slots__ = ("wake_ups",)

    def __init__(self, *queues):
        self.wake_ups = 0
        super().__init__(queues or (A,), self._count)

    def _count(self):
        self.wake_ups += 1


@pytest.fixture
def schedule():
    schedule = Schedule()
    schedule.start_tracking(0)
    return schedule


def answer_read(schedule, due_in, now, queue=A):
    """Answer the pending read of a queue."""
    assert queue in schedule.to_read
    schedule.to_read.discard(queue)
    schedule.note_first_due(queue, due_in, now)


def answer_look_ups(schedule, *listed, now=0):
    """Answer the pending look-ups in the index: only these queues are listed."""
    queues, schedule.to_look_up = schedule.to_look_up, set()
    for queue in queues:
        schedule.note_listed(queue, now, is_listed=queue in listed)


def make_waiters(number, *queues):
    return [CountingWaiter(*queues) for _ in range(number)]


def add(schedule, *waiters, now=0):
    for waiter in waiters:
        schedule.add(waiter, now)


def wake_counts(*waiters):
    return [waiter.wake_ups for waiter in waiters]


def test_a_queue_is_read_for_its_first_waiter_only(schedule):
    add(schedule, CountingWaiter())
    assert schedule.to_read == {A}
    schedule.to_read.clear()
    add(schedule, *make_waiters(9))

    assert schedule.to_read == set()


def test_a_visible_message_wakes_one_waiter(schedule):
    waiters = make_waiters(3)
    add(schedule, *waiters)
    answer_read(schedule, 0, 0)

    assert wake_counts(*waiters) == [1, 0, 0]
    assert waiters[0].is_awake


def test_no_waiter_is_woken_before_a_message_is_visible(schedule):
    waiters = make_waiters(2)
    add(schedule, *waiters)
    answer_read(schedule, 4, 10)

    assert schedule.wake_due(13.99) == pytest.approx(14)
    assert wake_counts(*waiters) == [0, 0]
    schedule.wake_due(14)
    assert wake_counts(*waiters) == [1, 0]


def test_a_change_causes_a_read_and_of_an_empty_queue_wakes_one_waiter(schedule):
    waiters = make_waiters(3)
    add(schedule, *waiters)
    answer_read(schedule, 5, 0)
    schedule.note_change(A, 1)
    assert wake_counts(*waiters) == [0, 0, 0]
    answer_read(schedule, None, 1)
    schedule.note_change(A, 2)
    assert wake_counts(*waiters) == [1, 0, 0]
    answer_read(schedule, 0, 2)
    assert wake_counts(*waiters) == [1, 1, 0]
    schedule.note_change(A, 3)
    assert wake_counts(*waiters) == [1, 1, 0]


def test_a_change_of_a_queue_without_waiters_is_not_read(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_read(schedule, None, 0)
    schedule.note_change(A, 1)
    assert (waiter.wake_ups, schedule.to_read) == (1, set())
    schedule.note_change(A, 1)
    schedule.note_first_due(A, 0, 1)
    schedule.note_listed(A, 1, is_listed=False)
    schedule.note_failed_read(A, 1)

    assert (waiter.wake_ups, schedule.to_read) == (1, set())
    assert not schedule


def test_a_read_is_valid_for_the_next_waiter(schedule):
    first = CountingWaiter()
    add(schedule, first)
    answer_read(schedule, 3, 0)
    schedule.remove(first)
    assert not schedule

    second = CountingWaiter()
    add(schedule, second, now=1)
    assert schedule.to_read == set()
    assert schedule.wake_due(2.9) == 3
    schedule.wake_due(3)
    assert second.wake_ups == 1


def test_a_change_without_waiters_invalidates_the_read(schedule):
    first = CountingWaiter()
    add(schedule, first)
    answer_read(schedule, None, 0)
    schedule.remove(first)
    schedule.note_change(A, 1)
    assert schedule.to_read == set()

    second = CountingWaiter()
    add(schedule, second, now=2)
    assert schedule.to_read == {A}
    answer_read(schedule, 0, 2)
    assert second.wake_ups == 1


def test_reads_of_many_queues_without_waiters_are_dropped(schedule, monkeypatch):
    monkeypatch.setattr(schedule_module, "_MAX_KEPT_STATES", 10)
    for number in range(100):
        waiter = CountingWaiter(b"q%d" % number)
        add(schedule, waiter)
        answer_read(schedule, None, 0, waiter.queues[0])
        schedule.remove(waiter)

    assert len(schedule._states) <= 11


def test_empty_receives_delay_the_next_wake_up(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    now = 0
    answer_read(schedule, 0, now)
    for receives, quiet in enumerate([*QUIET_SECONDS, QUIET_SECONDS[-1]], 1):
        schedule.wake_due(now)
        assert waiter.wake_ups == receives
        waiter.empty_receives = receives
        add(schedule, waiter, now=now)
        assert waiter.wake_ups == receives
        assert schedule.wake_due(now) == pytest.approx(now + quiet)
        now += quiet
    assert schedule.to_read == set()


def test_a_change_ends_the_delay_after_empty_receives(schedule):
    waiter = CountingWaiter()
    waiter.empty_receives = 4
    add(schedule, waiter, now=0)
    answer_read(schedule, 0, 0)
    assert waiter.wake_ups == 0
    schedule.note_change(A, 0.1)
    answer_read(schedule, 0, 0.1)

    assert waiter.wake_ups == 1


@pytest.mark.parametrize("is_read_first", [True, False])
def test_the_delay_after_empty_receives_is_not_for_a_message_that_becomes_due(
    schedule, is_read_first
):
    """Such as a delayed one, whose send has woken a waiter without a message for it."""
    waiters = make_waiters(2)
    add(schedule, *waiters)
    answer_read(schedule, None, 0)
    schedule.note_change(A, 1)
    assert wake_counts(*waiters) == [1, 0]
    waiters[0].empty_receives = 3
    if is_read_first:
        answer_read(schedule, 0.2, 1)
        add(schedule, waiters[0], now=1)
    else:
        add(schedule, waiters[0], now=1)
        answer_read(schedule, 0.2, 1)
    schedule.wake_due(1.19)
    assert wake_counts(*waiters) == [1, 0]
    schedule.wake_due(1.21)

    assert wake_counts(*waiters) == [1, 1]


def test_a_woken_waiter_that_does_not_answer_is_followed_by_another(schedule):
    waiters = make_waiters(2)
    add(schedule, *waiters)
    answer_read(schedule, 0, 0)
    schedule.wake_due(PATIENCE_SECONDS - 0.01)
    assert wake_counts(*waiters) == [1, 0]
    schedule.wake_due(PATIENCE_SECONDS)

    assert wake_counts(*waiters) == [1, 1]


def test_an_interrupted_waiter_is_followed_by_another(schedule):
    waiters = make_waiters(3)
    add(schedule, *waiters)
    answer_read(schedule, 0, 0)
    schedule.note_interruption(waiters[0], 0)
    schedule.note_interruption(waiters[1], 0)

    assert wake_counts(*waiters) == [1, 1, 1]


def test_a_removed_waiter_is_not_woken(schedule):
    waiters = make_waiters(2)
    add(schedule, *waiters)
    schedule.remove(waiters[0])
    schedule.remove(waiters[0])
    answer_read(schedule, 0, 0)

    assert wake_counts(*waiters) == [0, 1]
    assert not schedule


def test_a_waiter_is_woken_for_safety_without_an_event(schedule):
    waiters = make_waiters(2)
    add(schedule, *waiters)
    answer_read(schedule, None, 0)

    wake_up = schedule.wake_due(0)
    assert SAFETY_SECONDS <= wake_up <= SAFETY_SECONDS * 2
    schedule.wake_due(wake_up)
    assert wake_counts(*waiters) == [1, 0]


def test_a_waiter_of_many_queues_is_rarely_woken_without_an_event(schedule):
    queues = [b"ns:%d" % number for number in range(1000)]
    waiter = CountingWaiter(*queues)
    add(schedule, waiter)
    for queue in queues:
        answer_read(schedule, None, 0, queue)
    answer_look_ups(schedule, *queues)
    now, receives = 0, []
    while now < 300:
        now = schedule.wake_due(now)
        schedule.wake_due(now)
        if waiter.is_awake:
            receives.append(now)
            waiter.empty_receives += 1
            add(schedule, waiter, now=now)
            now += 0.001

    assert all(later - earlier >= SAFETY_SECONDS for earlier, later in itertools.pairwise(receives))
    assert len(receives) >= 10
    assert schedule.to_read == set(), "the earlier reads are still valid"


@pytest.mark.parametrize("first", ["read", "look-up"])
def test_an_unlisted_empty_queue_wakes_a_waiter(schedule, first):
    waiter = CountingWaiter()
    add(schedule, waiter)
    if first == "read":
        answer_read(schedule, None, 0)
        answer_look_ups(schedule)
    else:
        answer_look_ups(schedule)
        answer_read(schedule, None, 0)

    assert waiter.wake_ups == 1
    waiter.empty_receives = 1  # it exists, only its name is not in the index
    add(schedule, waiter, now=1)
    assert schedule.wake_due(2) >= SAFETY_SECONDS
    assert waiter.wake_ups == 1


def test_an_unlisted_queue_with_messages_wakes_no_waiter(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_read(schedule, 5, 0)
    answer_look_ups(schedule)

    assert waiter.wake_ups == 0


def test_a_deleted_queue_wakes_all_its_waiters(schedule):
    waiters = [*make_waiters(2), CountingWaiter(A, B)]
    add(schedule, *waiters)
    answer_read(schedule, None, 0)
    answer_read(schedule, None, 0, B)
    answer_look_ups(schedule, A, B)
    assert wake_counts(*waiters) == [0, 0, 0]
    schedule.note_index_change()
    answer_look_ups(schedule, B, now=1)
    assert wake_counts(*waiters) == [1, 0, 0]
    schedule.note_interruption(waiters[0], 1)
    schedule.note_interruption(waiters[1], 1)

    assert wake_counts(*waiters) == [1, 1, 1]


def test_names_are_looked_up_once_until_the_index_changes(schedule):
    add(schedule, CountingWaiter(A, B))
    assert schedule.to_look_up == {A, B}
    answer_look_ups(schedule, A, B)
    add(schedule, CountingWaiter(A))
    assert schedule.to_look_up == set()
    schedule.note_index_change()

    assert schedule.to_look_up == {A, B}
    assert schedule.to_read == {A, B}, "only for the first waiter"


def test_a_failed_read_wakes_a_waiter_soon(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    schedule.to_read.clear()
    schedule.note_failed_read(A, 5)

    assert schedule.wake_due(5) == 5 + PATIENCE_SECONDS


def test_a_read_that_fails_while_no_receive_waits_is_made_again_for_the_next_waiter(schedule):
    """During a failover, reads of a queue fail while its waiter looks at another one."""
    waiter = CountingWaiter()
    add(schedule, waiter)
    schedule.to_read.clear()
    schedule.remove(waiter)
    schedule.note_failed_read(A, 5)
    add(schedule, waiter)

    assert schedule.to_read == {A}


def test_a_waiter_of_several_queues_is_woken_for_any_and_removed_from_all(schedule):
    both, only = CountingWaiter(A, B), CountingWaiter(B)
    add(schedule, both, only)
    answer_read(schedule, None, 0, A)
    answer_read(schedule, 0, 0, B)
    assert wake_counts(both, only) == [1, 0]
    schedule.note_change(A, 1)
    assert schedule.to_read == set()


def test_a_receive_from_another_queue_wakes_the_next_waiter(schedule):
    both, only = CountingWaiter(A, B), CountingWaiter(B)
    add(schedule, both, only)
    answer_read(schedule, None, 0, A)
    answer_read(schedule, 0, 0, B)
    assert wake_counts(both, only) == [1, 0]
    schedule.note_receive(both, 1)  # perhaps from A, whose notification has not arrived

    assert wake_counts(both, only) == [1, 1]


def test_a_waiter_that_has_left_its_queues_may_receive(schedule):
    """As a worker's, when the servers of all its cells fail between its wake-up and its receive."""
    waiter, other = CountingWaiter(A), CountingWaiter(A)
    add(schedule, waiter, other)
    answer_read(schedule, 0, 0, A)
    schedule.remove(waiter)
    waiter.queues = ()
    schedule.note_receive(waiter, 1)

    assert wake_counts(waiter, other) == [1, 0]


def test_a_receive_from_the_only_queue_needs_no_read(schedule):
    waiters = make_waiters(2)
    add(schedule, *waiters)
    answer_read(schedule, 0, 0)
    schedule.note_receive(waiters[0], 0)

    assert schedule.to_read == set()


def test_a_flush_causes_a_read_of_all_queues(schedule):
    a, b, gone = CountingWaiter(A), CountingWaiter(B), CountingWaiter(b"ns:c")
    add(schedule, a, b, gone)
    answer_read(schedule, None, 0, A)
    answer_read(schedule, None, 0, B)
    answer_read(schedule, None, 0, b"ns:c")
    answer_look_ups(schedule, A, B, b"ns:c")
    schedule.remove(gone)
    schedule.note_flush(1)

    assert schedule.to_read == {A, B}
    assert schedule.to_look_up == {A, B}
    assert wake_counts(a, b) == [0, 0]


def test_the_start_of_tracking_reads_all_queues_and_its_end_starts_polling():
    schedule = Schedule()
    waiters = make_waiters(2)
    add(schedule, *waiters)
    assert schedule.to_read == set()
    schedule.start_tracking(1)
    assert schedule.to_read == {A}
    answer_read(schedule, None, 1)
    schedule.note_change(A, 2)
    schedule.stop_tracking(2)
    assert schedule.to_read == set()
    assert wake_counts(*waiters) == [1, 0]
    schedule.wake_due(2 + FIRST_POLL_SECONDS)

    assert wake_counts(*waiters) == [1, 1]


def test_without_tracking_the_polling_interval_of_a_queue_grows():
    schedule = Schedule()
    now, pauses = 0, []
    for _ in range(12):
        waiter = CountingWaiter()
        add(schedule, waiter, now=now)
        wake_up = schedule.wake_due(now)
        pauses.append(wake_up - now)
        now = wake_up
        schedule.wake_due(now)
        assert waiter.wake_ups == 1
        waiter.empty_receives = 1
        add(schedule, waiter, now=now)
        schedule.remove(waiter)

    assert pauses[0] <= FIRST_POLL_SECONDS
    assert all(0.75 * LONGEST_POLL_SECONDS <= pause <= LONGEST_POLL_SECONDS for pause in pauses[6:])
    schedule.note_receive(waiter, now)
    add(schedule, CountingWaiter(), now=now)
    assert schedule.wake_due(now) - now <= FIRST_POLL_SECONDS


def test_polling_is_slower_while_a_connection_opens():
    schedule = Schedule(is_connecting=True)
    add(schedule, CountingWaiter())
    assert schedule.wake_due(0) >= 0.75 * CONNECTING_POLL_SECONDS
    schedule.stop_tracking(1)  # connecting failed
    schedule.is_connecting = False
    waiter = CountingWaiter(B)
    add(schedule, waiter, now=1)
    assert schedule.wake_due(1) - 1 <= FIRST_POLL_SECONDS


def test_without_tracking_many_queues_are_polled_less_often():
    schedule = Schedule()
    add(schedule, CountingWaiter(*(b"q%d" % number for number in range(2001))))

    assert 2.25 * FIRST_POLL_SECONDS <= schedule.wake_due(0) <= 3 * FIRST_POLL_SECONDS


def test_without_tracking_a_receive_wakes_the_next_waiter():
    schedule = Schedule()
    waiters = make_waiters(2)
    add(schedule, *waiters)
    schedule.wake_due(1)
    schedule.note_receive(waiters[0], 1)

    assert wake_counts(*waiters) == [1, 1]


def test_wake_all_wakes_every_waiter(schedule):
    waiters = [*make_waiters(3), CountingWaiter(A, B)]
    add(schedule, *waiters)
    schedule.wake_all()

    assert wake_counts(*waiters) == [1, 1, 1, 1]
    assert not schedule
    assert schedule.wake_due(10**9) == math.inf


def test_safety_wake_ups_are_spread():
    assert len({schedule_module._safety_seconds() for _ in range(10)}) > 1


# Misses: wake-ups for a message that another process received.


def make_missing_waiter(schedule, misses, now=0):
    """Return a waiter of an empty queue, after some misses."""
    waiter = CountingWaiter()
    add(schedule, waiter, now=now)
    answer_read(schedule, None, now)
    for number in range(misses):
        schedule._states[A].misses = 0  # a change wakes it at once
        schedule.note_change(A, now)
        schedule._states[A].misses = number
        assert waiter.is_awake
        miss(schedule, waiter, now)
    waiter.wake_ups = waiter.empty_receives = 0
    assert schedule._states[A].misses == min(misses, len(MISS_PAUSE_SECONDS) - 1)
    return waiter


def miss(schedule, waiter, now):
    """Let a woken waiter receive nothing, and let the queue be empty again."""
    waiter.empty_receives += 1
    add(schedule, waiter, now=now)
    answer_read(schedule, None, now)


def receive(schedule, waiter, now):
    """Let a woken waiter receive a message and delete it, and wait again."""
    assert waiter.is_awake
    schedule.note_change(A, now)
    schedule.note_receive(waiter, now)
    waiter.empty_receives = 0
    add(schedule, waiter, now=now)
    answer_read(schedule, None, now)


def test_after_a_miss_a_change_wakes_no_waiter_before_a_read(schedule):
    waiter = make_missing_waiter(schedule, 1)
    schedule.note_change(A, 1)
    assert waiter.wake_ups == 0
    answer_read(schedule, 30, 1)
    assert waiter.wake_ups == 0
    schedule.note_change(A, 2)
    answer_read(schedule, 0, 2)
    assert waiter.wake_ups == 1


@pytest.mark.parametrize("misses", range(2, len(MISS_PAUSE_SECONDS) + 5))
def test_after_more_misses_the_read_is_made_after_a_pause(schedule, misses):
    waiter = make_missing_waiter(schedule, misses)
    longest = MISS_PAUSE_SECONDS[min(misses, len(MISS_PAUSE_SECONDS) - 1)]
    schedule.note_change(A, 1)
    assert schedule.to_read == set()
    read_at = schedule.wake_due(1)
    assert longest / 5 <= read_at - 1 <= longest
    schedule.wake_due(read_at)
    assert waiter.wake_ups == 0
    answer_read(schedule, 0, read_at)
    assert waiter.wake_ups == 1


def test_a_message_of_another_process_wakes_no_waiter_after_misses(schedule):
    waiter = make_missing_waiter(schedule, 3)
    for now in range(1, 10):
        schedule.note_change(A, now)
        schedule.wake_due(now + 0.5)
        answer_read(schedule, None, now + 0.5)
    assert waiter.wake_ups == 0


def test_changes_do_not_postpone_a_planned_read(schedule):
    make_missing_waiter(schedule, 6)
    schedule.note_change(A, 1)
    read_at = schedule.wake_due(1)
    schedule.note_change(A, 1.01)
    schedule.note_flush(1.02)
    add(schedule, CountingWaiter(), now=1.03)
    assert schedule.wake_due(1.03) == read_at
    assert schedule.to_read == set()


def test_an_interruption_does_not_postpone_a_planned_read(schedule):
    make_missing_waiter(schedule, 6)
    others = make_waiters(2)
    add(schedule, *others, now=1)
    schedule.note_change(A, 1)
    read_at = schedule.wake_due(1)
    others[0].reason = A
    schedule.note_interruption(others[0], 1)
    assert schedule.wake_due(1) == read_at


def test_receives_end_the_pause_after_misses(schedule):
    waiter = make_missing_waiter(schedule, 100)
    for now in range(1, 4):
        schedule.note_change(A, now)
        read_at = schedule.wake_due(now)
        if read_at < now + 1:
            schedule.wake_due(read_at)
        answer_read(schedule, 0, read_at)
        receive(schedule, waiter, read_at)
    waiter.wake_ups = 0
    schedule.note_change(A, 5)
    assert waiter.wake_ups == 1


@pytest.mark.parametrize(("misses", "longest"), [(0, 0), (1, 0), (2, MISS_PAUSE_SECONDS[2])])
def test_a_message_that_becomes_due_wakes_after_a_pause_only_after_misses(
    schedule, misses, longest
):
    waiter = make_missing_waiter(schedule, misses)
    if misses == 0:
        schedule._states[A].is_empty = False
    schedule.note_change(A, 1)
    read_at = min(schedule.wake_due(1), 1 + longest)
    schedule.wake_due(read_at)
    answer_read(schedule, 3, read_at)
    due_at = read_at + 3
    wake_up = schedule.wake_due(read_at)
    assert due_at + longest / 5 <= wake_up <= due_at + longest
    schedule.wake_due(wake_up)
    assert waiter.wake_ups == 1


def test_a_change_does_not_prolong_the_pause_of_a_message_that_is_due(schedule):
    waiter = make_missing_waiter(schedule, 6)
    schedule.note_change(A, 1)
    schedule.wake_due(2)
    answer_read(schedule, 1, 2)
    wake_up = schedule.wake_due(2)
    schedule.note_change(A, wake_up - 0.001)
    assert schedule.wake_due(wake_up - 0.001) <= wake_up
    schedule.wake_due(wake_up)
    answer_read(schedule, 0, wake_up)
    assert waiter.wake_ups == 1


def test_wake_ups_without_a_message_are_not_misses(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_read(schedule, None, 0)
    answer_look_ups(schedule, A)
    for _ in range(5):
        now = schedule.wake_due(0)
        schedule.wake_due(now)
        waiter.empty_receives += 1
        add(schedule, waiter, now=now)
    waiter.wake_ups = 0
    schedule.note_change(A, now)
    assert waiter.wake_ups == 1


def test_a_message_that_another_waiter_of_the_client_received_is_not_a_miss(schedule):
    waiters = make_waiters(2)
    add(schedule, *waiters)
    for now in range(5):
        answer_read(schedule, None, now)
        schedule.note_change(A, now)
        answer_read(schedule, 0, now)
        first, second = sorted(waiters, key=lambda each: each.is_awake, reverse=True)
        assert (first.is_awake, second.is_awake) == (True, True)
        schedule.note_change(A, now)
        schedule.note_receive(first, now)
        second.empty_receives += 1
        add(schedule, second, first, now=now)
    assert schedule._states[A].misses == 0


def test_a_waiter_that_comes_after_a_planned_read_was_dropped_causes_a_read(schedule):
    waiter = make_missing_waiter(schedule, 6)
    schedule.note_change(A, 1)
    schedule.remove(waiter)
    schedule.wake_due(2)
    assert schedule.to_read == set()
    add(schedule, CountingWaiter(), now=3)
    assert schedule.to_read == {A}


def test_polling_follows_a_planned_read_without_tracking(schedule):
    waiter = make_missing_waiter(schedule, 6)
    schedule.note_change(A, 1)
    schedule.stop_tracking(1)
    schedule.wake_due(1 + FIRST_POLL_SECONDS)
    assert waiter.wake_ups == 1
    assert schedule.to_read == set()


def test_a_name_is_not_looked_up_again_after_a_change(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_read(schedule, None, 0)
    answer_look_ups(schedule, A)
    schedule.note_change(A, 1)  # a message: it is woken, and has left
    schedule.note_change(A, 1)
    schedule.note_receive(waiter, 1)
    add(schedule, waiter, now=1)
    assert schedule.to_look_up == set()


def test_a_name_is_looked_up_if_the_index_changed_while_there_was_no_waiter(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_look_ups(schedule, A)
    schedule.remove(waiter)
    schedule.note_index_change()
    add(schedule, waiter, now=1)
    assert schedule.to_look_up == {A}


def test_a_look_up_that_was_dropped_is_made_for_the_next_waiter(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_look_ups(schedule, A)
    schedule.note_index_change()
    schedule.remove(waiter)
    assert schedule.to_look_up == set()
    add(schedule, waiter, now=1)
    assert schedule.to_look_up == {A}


def limit(schedule, waiter, seconds, now, *, is_rate=False, queue=A):
    """Add a waiter again after a receive that a limit of the queue allowed nothing."""
    waiter.empty_receives += 1
    waiter.limits = {queue: Limit(seconds, is_rate)}
    schedule.add(waiter, now)


@pytest.mark.parametrize("is_rate", [True, False])
def test_a_limit_wakes_no_waiter_before_its_end(schedule, is_rate):
    first, second = make_waiters(2)
    add(schedule, first, second)
    answer_read(schedule, 0, 0)
    limit(schedule, first, 5, 1, is_rate=is_rate)
    limit(schedule, second, 5, 1, is_rate=is_rate)

    schedule.wake_due(5.9)
    assert wake_counts(first, second) == [1, 0]
    schedule.wake_due(6)
    assert wake_counts(first, second) == [1, 1]


def test_a_change_wakes_a_waiter_for_a_place_and_not_for_a_rate(schedule):
    of_place, of_rate = CountingWaiter(A), CountingWaiter(B)
    add(schedule, of_place, of_rate)
    for queue, waiter in ((A, of_place), (B, of_rate)):
        answer_read(schedule, 0, 0, queue)
        limit(schedule, waiter, 5, 1, is_rate=queue == B, queue=queue)
        schedule.note_change(queue, 2)
        answer_read(schedule, 0, 2, queue)

    assert wake_counts(of_place, of_rate) == [2, 1]
    schedule.wake_due(6)
    assert wake_counts(of_place, of_rate) == [2, 2]


@pytest.mark.parametrize("is_reported_before", [True, False])
def test_a_place_that_becomes_free_during_the_receive_wakes_a_waiter(schedule, is_reported_before):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_read(schedule, 0, 0)
    if is_reported_before:
        schedule.note_change(A, 1)
    limit(schedule, waiter, 5, 1)
    if not is_reported_before:
        schedule.note_change(A, 1)
    answer_read(schedule, 0, 1)
    schedule.wake_due(1.01)

    assert waiter.wake_ups == 2


def test_a_place_that_becomes_free_before_changes_are_reported_wakes_a_waiter():
    schedule = Schedule()
    waiter = CountingWaiter()
    waiter.limits = {A: Limit(5, is_rate=False)}
    add(schedule, waiter)
    schedule.start_tracking(1)
    answer_read(schedule, 0, 1)

    assert waiter.wake_ups == 1


def test_a_rate_is_known_before_changes_are_reported():
    schedule = Schedule()
    waiter = CountingWaiter()
    waiter.limits = {A: Limit(5, is_rate=True)}
    add(schedule, waiter)
    schedule.wake_due(4.9)
    schedule.start_tracking(4.9)
    answer_read(schedule, 0, 4.9)
    assert waiter.wake_ups == 0
    schedule.wake_due(5)

    assert waiter.wake_ups == 1


def test_a_new_message_wakes_no_waiter_of_a_queue_at_its_rate(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_read(schedule, 0, 0)
    limit(schedule, waiter, 5, 0, is_rate=True)
    schedule.note_change(A, 1)
    answer_read(schedule, None, 1)
    schedule.note_change(A, 2)
    answer_read(schedule, 0, 2)
    assert waiter.wake_ups == 1
    schedule.wake_due(5)

    assert waiter.wake_ups == 2


def test_a_limit_of_a_queue_leaves_the_other_queues_of_a_waiter(schedule):
    waiter = CountingWaiter(A, B)
    add(schedule, waiter)
    answer_read(schedule, None, 0, B)
    answer_read(schedule, 0, 0, A)
    limit(schedule, waiter, 5, 1, is_rate=True)
    schedule.note_change(B, 2)

    assert waiter.wake_ups == 2


def test_changes_wake_waiters_of_places_less_and_less_often(schedule):
    waiter = CountingWaiter()
    add(schedule, waiter)
    answer_read(schedule, 0, 0)
    now = 0.0
    for _ in range(2000):  # for ten seconds
        now += 0.005
        if waiter.is_awake:
            limit(schedule, waiter, 60, now)
        schedule.note_change(A, now)
        schedule.wake_due(now)
        if A in schedule.to_read:
            answer_read(schedule, 0, now)

    assert 20 <= waiter.wake_ups <= 150
