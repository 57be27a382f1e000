"""Slots that a listener reserves: ``concurrency=(minimum, maximum)``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import InvalidFormat, InvalidValue
from rsmq.worker.listener import check_reservations
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.state.reservations import SlotUse, compute_limits
from tests.unit.test_worker_plan import add, lane, make_calls, planned


def reserving(name, minimum, maximum, slots=8, **options):
    return lane(name, limit=min(maximum, slots), concurrency=(minimum, maximum), **options)


@pytest.mark.parametrize(
    ("slots", "uses", "limits"),
    [
        (8, [(0, 0, 8), (0, 2, 5)], [6, 5]),
        (8, [(6, 0, 8), (0, 2, 5)], [6, 2]),
        (8, [(5, 0, 8), (0, 2, 5)], [6, 3]),
        (8, [(3, 0, 8), (5, 2, 5)], [3, 5]),
        (8, [(2, 0, 3), (1, 2, 2)], [3, 2]),
        (4, [(0, 2, 4), (0, 2, 4)], [2, 2]),
        (5, [(0, 2, 4), (3, 2, 4)], [2, 3]),
        (5, [(5, 0, 5)], [5]),
        # A call in quarantine may use a reserved slot.
        (2, [(2, 0, 2), (0, 1, 1)], [2, 1]),
    ],
)
def test_limits_by_use(slots, uses, limits):
    assert compute_limits(slots, [SlotUse(*each) for each in uses]) == limits


def test_without_a_reservation_the_maximum_is_the_limit():
    lanes = [lane("a", limit=3), lane("b", limit=8)]
    run_queue = RunQueue(lanes, 8)
    run_queue.add(make_calls(lanes[1], 5))
    while run_queue.start_next(False):
        pass

    assert [each.limit_now for each in lanes] == [3, 8]


LANES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=5,
)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "start", "end"]), st.integers(0, 30)))


@given(LANES, st.integers(1, 4), STEPS)
def test_a_call_below_the_minimum_starts_whatever_others_do(kinds, shared, steps):
    lanes = [
        reserving(f"q{n}", low, max(low, high), 99, priority=priority, is_async=is_async)
        if low
        else lane(f"q{n}", limit=high, priority=priority, is_async=is_async)
        for n, (low, high, priority, is_async) in enumerate(kinds)
    ]
    reserved = sum(each.reserved for each in lanes)
    run_queue = RunQueue(lanes, reserved + shared)
    running = []
    for step, number in steps:
        chosen = lanes[number % len(lanes)]
        if step == "add":
            run_queue.add(make_calls(chosen, 1 + number % 3))
        elif step == "start":
            for is_async in (False, True):
                job = run_queue.start_next(is_async)
                if job is not None:
                    running.append(job)
        elif running:
            run_queue.finish(running.pop(number % len(running)))
        beyond = sum(max(len(each.calls) - each.reserved, 0) for each in lanes)
        assert beyond <= shared
        assert run_queue.running_count == len(running) <= reserved + shared
        for each in lanes:
            assert len(each.calls) <= each.limit
            if len(each.calls) < each.reserved:
                assert each.limit_now >= each.reserved
                assert not run_queue.is_full
        started = {is_async: run_queue.start_next(is_async) for is_async in (False, True)}
        running += [job for job in started.values() if job is not None]
    for is_async in (False, True):
        while (job := run_queue.start_next(is_async)) is not None:
            running.append(job)
    assert not run_queue.has_startable
    for each in lanes:
        if each.ready:
            assert len(each.calls) >= each.reserved
            assert len(each.calls) == each.limit or beyond_is_used(run_queue, lanes, shared)


def beyond_is_used(run_queue, lanes, shared):
    return sum(max(len(each.calls) - each.reserved, 0) for each in lanes) == shared


# What is received.


def test_a_lane_receives_for_its_reserved_slots_while_others_wait_for_theirs():
    bulk, mail = lane("bulk", limit=8, priority=9), reserving("mail", 2, 4)
    run_queue = RunQueue([bulk, mail], 8)
    run_queue.add(make_calls(bulk, 20))
    while run_queue.start_next(False):
        pass

    assert len(bulk.calls) == 6
    assert planned([bulk, mail], free=2) == [("mail", 2, 0)]


def test_a_lane_below_its_minimum_is_asked_first_for_its_reserved_slots():
    bulk, mail = lane("bulk", limit=8, priority=9), reserving("mail", 2, 4)
    run_queue = RunQueue([bulk, mail], 8)

    assert planned([bulk, mail], free=8) == [("mail", 2, 0), ("bulk", 6, 0)]
    run_queue.add(make_calls(mail, 2))
    assert planned([bulk, mail], free=8) == [("bulk", 6, 0), ("mail", 2, 0)]


def test_a_lane_that_waits_for_messages_is_not_asked_first():
    bulk, mail = lane("bulk", limit=8), reserving("mail", 2, 4, priority=-1)
    RunQueue([bulk, mail], 8)
    mail.arrivals.is_waiting = True

    assert planned([bulk, mail], free=8)[0] == ("bulk", 6, 0)


def test_a_starved_queue_comes_before_reserved_slots():
    late, bulk = lane("late", asked_at=900.0, priority=-1), lane("bulk")
    mail = reserving("mail", 2, 4, priority=5)
    RunQueue([late, bulk, mail], 8)

    assert planned([late, bulk, mail], free=8)[0] == ("late", 1, 1)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 3), st.integers(0, 5))
def test_requests_leave_the_unused_reserved_slots_of_others(bulk_calls, ready, minimum, mail_calls):
    slots = 8
    bulk, mail = lane("bulk", limit=slots), reserving("mail", max(minimum, 1), 8)
    run_queue = RunQueue([bulk, mail], slots)
    for each, number in ((bulk, bulk_calls), (mail, mail_calls)):
        run_queue.add(make_calls(each, number))
    while run_queue.start_next(False):
        pass
    for each in (bulk, mail):
        run_queue.remove(list(each.ready))
    add(bulk, ready)
    asked = {name: number for name, number, _ in planned([bulk, mail], free=free(run_queue, slots))}

    unused = max(mail.reserved - len(mail.calls), 0)
    assert asked.get("bulk", 0) + len(bulk.calls) <= slots - unused
    assert asked.get("mail", 0) >= unused


def free(run_queue, slots):
    return slots - run_queue.running_count


# Settings.


def test_a_pair_is_minimum_and_maximum():
    one = reserving("q", 2, 5)
    assert (one.listener.reserved, one.listener.concurrency) == (2, 5)
    assert (one.reserved, one.limit) == (2, 5)
    assert lane("q", concurrency=5).listener.reserved == 0


@pytest.mark.parametrize(
    ("concurrency", "error", "text"),
    [
        ((5,), InvalidFormat, r"or \(minimum, maximum\), as in"),
        ((1, 2, 3), InvalidFormat, r"or \(minimum, maximum\), as in"),
        ((0, 5), InvalidValue, r"minimum of concurrency must be between 1 and 5, not 0"),
        ((6, 5), InvalidValue, r"minimum of concurrency must be between 1 and 5, not 6"),
        ((1, 0), InvalidValue, r"maximum of concurrency must be between 1 and 10000, not 0"),
        ((1, "5"), InvalidValue, r"maximum of concurrency must be between"),
        ([2, 5], InvalidFormat, r"or \(minimum, maximum\), as in"),
        ("1-5", InvalidValue, "concurrency must be between 1 and 10000, not '1-5'"),
    ],
)
def test_a_wrong_pair_is_refused(concurrency, error, text):
    with pytest.raises(error, match=text):
        lane("q", concurrency=concurrency)


@pytest.mark.parametrize(
    ("pairs", "concurrency", "needed"),
    [([(2, 5), (3, 3)], 4, 5), ([(2, 5), None], 2, 3), ([(2, 5), 9], 2, 3)],
)
def test_minima_above_the_concurrency_of_the_worker_are_refused(pairs, concurrency, needed):
    listeners = [lane(f"q{n}", concurrency=pair).listener for n, pair in enumerate(pairs)]
    check_reservations(listeners, needed)
    with pytest.raises(InvalidValue) as caught:
        check_reservations(listeners, concurrency)

    assert f"must be between {needed} and 10000, not {concurrency}" in str(caught.value)
    assert "2 for 'q0'" in str(caught.value)
