"""The plan of receives, and the order of handler calls."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import TEXT, QueueAttributes
from rsmq.wire.keys import Namespace
from rsmq.worker.listener import Handlers, make_listener
from rsmq.worker.receive.prefetch_plan import (
    STARVATION_SECONDS,
    order_lanes,
    plan_requests,
    without_lanes_ahead,
)
from rsmq.worker.run import run_queue as run_queue_module
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.run.run_queue import make_run_queue as make_run_queue_of
from rsmq.worker.state.jobs import BatchJob, SingleJob
from rsmq.worker.state.lane import MAX_PREFETCHED, PREFETCH_SECONDS, WINDOW_CALLS, Lane
from rsmq.worker.state.message_state import CallEvent, change_call

NOW = 1000.0
NAMESPACE = Namespace("ns")


def _plain(body):
    """A handler."""


async def _async(body):
    """An async handler."""


def lane(name="q", *, vt=30.0, limit=8, is_async=False, mean=None, asked_at=NOW, **options):
    handlers = Handlers()
    handlers.add("", _async if is_async else _plain)
    made = make_listener(name, handlers, **options)
    new = Lane(made, NAMESPACE.queue(name), vt, TEXT, limit, made.policy)
    new.arrivals = SimpleNamespace(is_waiting=False)
    new.mean_seconds = new.slow_seconds = mean
    new.last_request_at = asked_at
    return new


def make_calls(lane, number, received_at=None):
    """Return handler calls that have not begun."""
    received_at = time.monotonic() if received_at is None else received_at
    return [SingleJob(lane, f"id{n}", b"", 1, None, received_at) for n in range(number)]


def add(lane, number=1, *, received_at=None):
    """Add calls that are ready to a lane, and return them."""
    jobs = make_calls(lane, number, received_at)
    lane.ready.extend(jobs)
    return jobs


def run(lane, number=1, *, began=NOW):
    """Add running calls to a lane."""
    for n in range(number):
        job = SingleJob(lane, f"running{n}", b"", 1, None, began)
        job.started_at = began
        change_call(job, CallEvent.BEGIN)
        lane.calls[job] = None


def all_wants(lanes, free, now=NOW):
    ready = {}
    for each in lanes:
        priority = each.listener.priority
        ready[priority] = ready.get(priority, 0) + len(each.ready)
    return plan_requests(lanes, free, ready, now)


def planned(lanes, free=8, now=NOW):
    """Return the name, the maximum and the prefetch of each queue to receive from."""
    found, _ = all_wants(lanes, free, now)
    return [(each.lane.name, each.max_messages, each.prefetch) for each in found]


def order(lanes, now=NOW):
    return [each.name for each, _ in order_lanes(lanes, now)]


# Receives.


def test_a_receive_asks_for_as_many_messages_as_can_begin():
    assert planned([lane(limit=8)], free=8) == [("q", 8, 0)]
    assert planned([lane(limit=3)], free=8) == [("q", 3, 0)]
    assert planned([lane(limit=8)], free=2) == [("q", 2, 0)]


def test_running_and_ready_calls_reduce_a_receive():
    one = lane(limit=8)
    run(one, 5)
    add(one, 2)

    assert planned([one], free=3) == [("q", 1, 0)]


def test_without_free_slots_nothing_is_received():
    one = lane(limit=2)
    run(one, 2)

    assert planned([one]) == []
    assert planned([lane()], free=0) == []


def test_a_receive_has_the_queue_its_vt_and_the_batch_size():
    ((found,), slots) = all_wants([lane(vt=1.2345, batch=7)], 8)
    want = found.to_request()

    assert slots == 8
    assert (want.keys, want.vt_ms, want.size) == (NAMESPACE.queue("q"), 1234, 7)


def test_the_maximum_of_batches_is_in_messages():
    assert planned([lane(limit=2, batch=100)]) == [("q", 200, 0)]


def test_messages_of_short_calls_are_prefetched():
    one = lane(limit=4, mean=0.01, vt=30)

    assert one.prefetch_limit(NOW) == 40
    assert planned([one]) == [("q", 44, 40)]


def test_with_full_slots_messages_are_prefetched_when_half_are_used():
    one = lane(limit=4, mean=0.01, vt=30)
    run(one, 4)
    assert planned([one], free=0) == [("q", 40, 40)]
    add(one, 20)
    assert planned([one], free=0) == [("q", 20, 40)]
    add(one, 1)

    assert planned([one], free=0) == []


def test_queues_of_a_higher_priority_are_first():
    lanes = [lane("low", priority=-1, asked_at=NOW - 9), lane("mid"), lane("high", priority=5)]

    assert order(lanes) == ["high", "mid", "low"]


def test_of_one_priority_the_longest_waiting_queue_is_first():
    lanes = [lane("a", asked_at=NOW), lane("b", asked_at=NOW - 2), lane("c", asked_at=NOW - 1)]
    assert order(lanes) == ["b", "c", "a"]
    lanes[1].last_request_at = NOW + 1

    assert order(lanes) == ["c", "a", "b"]


def test_a_starved_queue_is_first_for_one_call():
    lanes = [
        lane("high", priority=5),
        lane("low", asked_at=NOW - STARVATION_SECONDS, batch=10, limit=3, mean=0.001),
    ]

    assert planned(lanes) == [("low", 10, 10), ("high", 8, 0)]


def test_a_queue_is_not_first_before_it_has_starved():
    assert order(
        [lane("high", priority=5), lane("low", asked_at=NOW - STARVATION_SECONDS + 0.01)]
    ) == [
        "high",
        "low",
    ]


def test_if_all_queues_have_starved_the_priority_decides():
    lanes = [
        lane("low", asked_at=NOW - 99),
        lane("high", priority=5, asked_at=NOW - 50),
    ]

    assert planned(lanes) == [("high", 8, 0), ("low", 8, 0)]


def test_a_starved_queue_without_a_slot_of_its_own_is_not_first():
    low = lane("low", asked_at=NOW - 99, limit=1)
    run(low, 1)

    assert planned([lane("high", priority=5), low]) == [("high", 8, 0)]


def test_a_starved_queue_is_received_from_although_all_slots_are_full():
    high = lane("high", priority=5, limit=1, mean=0.001)
    run(high, 1)
    add(high, 100)
    low = lane("low", limit=1, asked_at=NOW - STARVATION_SECONDS)

    assert planned([high, low], free=0) == [("low", 1, 1)]


def test_nothing_of_a_lower_priority_is_prefetched_before_the_higher_queues():
    high = lane("high", priority=5, limit=1)
    run(high, 1)
    low = lane("low", limit=1, mean=0.001)

    assert planned([high, low], free=0) == []


shapes = st.tuples(
    st.integers(1, 50),  # limit
    st.integers(0, 60),  # running
    st.integers(0, 60),  # ready
    st.none() | st.integers(1, 100),  # batch
    st.none() | st.floats(0, 10),  # mean
    st.floats(0.1, 3600),  # vt
    st.integers(-2, 2),  # priority
    st.floats(0, 100),  # seconds since the last receive
)


@given(st.lists(shapes, min_size=1, max_size=5), st.integers(0, 100))
def test_a_plan_never_exceeds_slots_and_prefetch(shapes, free):
    lanes = []
    for number, (limit, running, ready, batch, mean, vt, priority, since) in enumerate(shapes):
        one = lane(
            f"q{number}", limit=limit, batch=batch, mean=mean, vt=vt, priority=priority,
            asked_at=NOW - since,
        )  # fmt: skip
        run(one, min(running, limit))
        add(one, ready)
        lanes.append(one)
    found, slots = all_wants(lanes, free)

    assert 0 <= slots <= free
    assert len({each.lane.name for each in found}) == len(found)
    for each in found:
        lane_, want = each.lane, each
        starved = lane_.size if each.is_starved else 0
        room = max(min(lane_.limit - len(lane_.calls) - len(lane_.ready), free), 0)
        assert 1 <= want.max_messages <= max(room * lane_.size + lane_.prefetch_limit(NOW), starved)
        assert want.prefetch <= max(lane_.prefetch_limit(NOW), starved)


# Weights.


def make_sharing(lanes, slots=8, *, is_strict=False):
    """Return the shares of these lanes."""
    run_queue = make_run_queue_of(lanes, slots, is_strict=is_strict)
    assert run_queue.shares is not None
    return run_queue.shares


def planned_by_weight(lanes, shares, free=8):
    ready = {0: sum(len(each.ready) for each in lanes)}
    found, _ = plan_requests(lanes, free, ready, NOW, shares)
    return [(each.lane.name, each.max_messages, each.prefetch) for each in found]


def test_free_slots_are_divided_by_weight():
    lanes = [lane("a", weight=3), lane("b", weight=1)]
    shares = make_sharing(lanes)
    assert planned_by_weight(lanes, shares) == [("a", 6, 0), ("b", 2, 0)]
    lanes[0].arrivals.is_waiting = True  # it gives its share away

    assert planned_by_weight(lanes[1:], shares) == [("b", 8, 0)]


def test_a_queue_at_its_concurrency_gives_its_slots_away():
    lanes = [lane("a", weight=3, limit=1), lane("b", weight=1)]
    run(lanes[0], 1)

    assert planned_by_weight(lanes, make_sharing(lanes)) == [("b", 8, 0)]


def test_the_queue_whose_turn_is_next_is_asked_first():
    lanes = [lane("a", weight=3), lane("b", weight=1)]
    shares = make_sharing(lanes)
    shares[lanes[0]].begin(lanes[0])
    assert planned_by_weight(lanes, shares, free=1) == [("b", 1, 0), ("a", 1, 0)]
    add(lanes[1], 1)  # it counts as begun

    assert planned_by_weight(lanes, shares, free=2)[0] == ("a", 1, 0)


def test_messages_are_prefetched_by_weight():
    lanes = [lane("a", weight=3, mean=0.01), lane("b", weight=1, mean=0.01)]

    assert [
        (name, prefetch) for name, _, prefetch in planned_by_weight(lanes, make_sharing(lanes))
    ] == [
        ("a", 60),
        ("b", 20),
    ]


def test_a_queue_is_asked_for_the_calls_that_it_is_owed_although_they_are_slow():
    fast, slow = lane("fast", weight=2, mean=0.001), lane("slow", weight=1, mean=10.0)
    shares = make_sharing([fast, slow])
    add(fast, 266)  # all that it prefetches
    for _ in range(10):
        shares[fast].begin(fast)

    assert planned_by_weight([fast, slow], shares, free=0) == [("slow", 6, 6)]


def test_queues_of_one_priority_do_not_starve_each_other():
    lanes = [lane("a", weight=3, asked_at=NOW), lane("b", weight=1, asked_at=NOW - 99)]
    shares = make_sharing(lanes)
    shares[lanes[1]].begin(lanes[1])

    assert [starved for _, starved in order_lanes(lanes, NOW, shares)] == [False, False]


def test_a_queue_of_a_strict_worker_does_not_starve():
    lanes = [lane("high", priority=1), lane("low", asked_at=NOW - 99)]
    shares = make_sharing(lanes, is_strict=True)
    ordered = order_lanes(lanes, NOW, shares, is_strict=True)

    assert [(each.name, starved) for each, starved in ordered] == [("high", False), ("low", False)]
    assert order_lanes(lanes, NOW, shares)[0] == (lanes[1], True)


def test_no_queue_is_asked_that_is_ahead_of_one_with_outcomes_to_write():
    a, b, c = lane("a", weight=3), lane("b"), lane("c", priority=1)
    shares = make_sharing([a, b, c])
    shares[b].begin(b)

    assert without_lanes_ahead([b, c], [a, b, c], shares) == [c]
    a.arrivals.is_waiting = True
    assert without_lanes_ahead([b, c], [a, b, c], shares) == [b, c]


def test_a_strict_worker_asks_no_lower_priority_while_a_higher_has_outcomes_to_write():
    high, low = lane("high", priority=1), lane("low")
    shares = make_sharing([high, low], is_strict=True)

    assert without_lanes_ahead([low], [high, low], shares, is_strict=True) == []
    assert without_lanes_ahead([low], [high, low], shares) == [low]
    assert without_lanes_ahead([high], [high, low], shares, is_strict=True) == [high]


def test_threads_leave_a_slot_to_tasks_whose_turn_is_next():
    plain, task = lane("plain", weight=1), lane("task", weight=3, is_async=True)
    jobs = add(plain, 4) + add(task, 4)
    run_queue = make_run_queue_of([plain, task], 8)
    woken = []
    run_queue.executors = {
        kind: SimpleNamespace(wake=lambda number, kind=kind: woken.append((kind, number)))
        for kind in (False, True)
    }
    for each in (plain, task):
        each.ready.clear()
    run_queue.add(jobs)

    assert run_queue.start_next(False).lane is plain  # both are at the same turn
    assert run_queue.start_next(False) is None
    assert woken[-1] == (True, 1)
    assert [run_queue.start_next(True).lane for _ in range(3)] == [task] * 3


def test_threads_take_a_slot_that_tasks_leave_unused(monkeypatch):
    monkeypatch.setattr(run_queue_module, "_MAX_LEFT_SECONDS", 0.0)  # the event loop is blocked
    plain, task = lane("plain", weight=1), lane("task", weight=3, is_async=True)
    jobs = add(plain, 4) + add(task, 4)
    run_queue = make_run_queue_of([plain, task], 8)
    run_queue.executors = dict.fromkeys((False, True), SimpleNamespace(wake=lambda number: None))
    for each in (plain, task):
        each.ready.clear()
    run_queue.add(jobs)

    assert [run_queue.start_next(False).lane for _ in range(3)] == [plain] * 3


# Prefetch.


class Changing(dict):
    """Calls of which one ends in another thread, just when they are read for the first time."""

    was_read = False

    def __iter__(self):
        found = super().__iter__()
        if not self.was_read:
            self.was_read = True
            self.popitem()
        return found


def test_a_call_that_ends_while_the_oldest_is_looked_up_is_no_error():
    one = lane(limit=4, mean=0.01, vt=30)
    run(one, 2)
    one.calls = Changing(one.calls)

    assert one.prefetch_limit(NOW) == 40


def test_without_a_mean_duration_nothing_is_prefetched():
    assert lane(mean=None).prefetch_limit(NOW) == 0


@pytest.mark.parametrize(
    ("mean", "vt", "limit", "batch", "expected"),
    [
        (0.01, 30, 1, None, 10),  # a tenth of a second
        (0.01, 0.1, 1, None, 1),  # or of the visibility timeout
        (0.1, 0.1, 1, None, 0),
        (1, 30, 8, None, 0),
        (0.01, 30, 8, None, 80),
        (0.01, 30, 2, 5, 100),
        (0, 30, 8, None, MAX_PREFETCHED),
        (1e-9, 0.1, 10_000, 10_000, MAX_PREFETCHED),
    ],
)
def test_as_many_messages_are_prefetched_as_can_begin_soon(mean, vt, limit, batch, expected):
    assert lane(mean=mean, vt=vt, limit=limit, batch=batch).prefetch_limit(NOW) == expected


@given(
    st.floats(0, 100), st.floats(0.1, 10**6), st.integers(1, 1000), st.none() | st.integers(1, 100)
)
def test_prefetched_messages_begin_within_a_tenth_of_their_visibility_timeout(
    mean, vt, limit, batch
):
    one = lane(mean=mean, vt=vt, limit=limit, batch=batch)

    assert 0 <= one.prefetch_limit(NOW) <= MAX_PREFETCHED
    assert (
        one.prefetch_limit(NOW) / one.size / limit * mean <= min(PREFETCH_SECONDS, vt / 10) * 1.001
    )


def test_a_longer_call_reduces_the_prefetch():
    one = lane(limit=1, mean=0.001)
    run(one, 1)
    assert one.prefetch_limit(NOW) == 100

    assert [one.prefetch_limit(NOW + seconds) for seconds in (0.01, 0.05, 0.2)] == [10, 2, 0]


def test_nothing_is_prefetched_while_the_prefetch_is_limited():
    one = lane(limit=1, mean=0.001)
    one.no_prefetch_until = NOW + 1

    assert (one.prefetch_limit(NOW), one.prefetch_limit(NOW + 1)) == (0, 100)


def test_the_mean_follows_the_duration_of_calls():
    one = lane()
    one.record_duration(1.0)
    assert one.mean_seconds == 1.0
    one.record_duration(2.0)
    assert one.mean_seconds == pytest.approx(1.1)
    for _ in range(200):
        one.record_duration(0.01)

    assert one.mean_seconds == pytest.approx(0.01, abs=1e-6)


def test_prefetch_depends_on_slow_calls_not_on_the_mean():
    one = lane(limit=4, vt=6.0)
    for number in range(2 * WINDOW_CALLS):
        one.record_duration(4.0 if number % 100 == 50 else 0.001)

    assert one.mean_seconds < 0.1
    assert one.slow_seconds == 4.0
    assert one.prefetch_limit(NOW) == 0
    for _ in range(2 * WINDOW_CALLS):
        one.record_duration(0.001)
    assert one.slow_seconds == 0.001
    assert one.prefetch_limit(NOW) == 400


def test_one_slow_call_of_many_does_not_stop_the_prefetch():
    one = lane(limit=4, vt=6.0)
    for number in range(2 * WINDOW_CALLS):
        one.record_duration(4.0 if number == 50 else 0.001)

    assert one.prefetch_limit(NOW) == 400


# The policy of the queue.


def attributes(target=None, limit=None):
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return QueueAttributes(
        30, 0, 65536, 0, 0, when, when, 0, 0, 0, None, target, limit, paused=False
    )


def test_a_listener_without_a_policy_uses_that_of_its_queue():
    one = lane()
    one.apply_queue_attributes(attributes("dead", 3))

    assert (one.policy.dead_letter_queue, one.policy.max_retries) == ("dead", 2)


def test_a_changed_or_removed_policy_is_adopted():
    one = lane()
    one.apply_queue_attributes(attributes("dead", 3))
    one.apply_queue_attributes(attributes("other", 1))
    assert (one.policy.dead_letter_queue, one.policy.max_retries) == ("other", 0)
    one.apply_queue_attributes(attributes())

    assert one.policy == one.listener.policy
    assert (one.policy.dead_letter_queue, one.policy.max_retries) == (None, None)


@pytest.mark.parametrize("options", [{"dead_letter_queue": "mine"}, {"drop": True}])
def test_options_of_the_listener_override_the_policy_of_its_queue(options):
    one = lane(**options)
    one.apply_queue_attributes(attributes("dead", 3))

    assert one.policy == one.listener.policy
    assert one.policy.max_retries == 5


def test_a_policy_that_names_its_own_queue_is_ignored():
    one = lane("q")
    one.apply_queue_attributes(attributes("q", 3))

    assert one.policy.dead_letter_queue is None


def test_a_policy_of_the_queue_keeps_other_options_of_the_listener():
    one = lane(backoff=9, no_retry=ValueError)
    one.apply_queue_attributes(attributes("dead", 3))

    assert (one.policy.backoff(1), one.policy.no_retry) == (9, (ValueError,))


# The order of calls.


def make_run_queue(lanes, slots):
    """Return a run queue with the calls that are ready in these lanes."""
    run_queue = RunQueue(lanes, slots)
    for each in lanes:
        jobs = list(each.ready)
        each.ready.clear()
        run_queue.add(jobs)
    return run_queue


def begin_all(run_queue, is_async=False):
    """Begin all calls that can begin, and return the names of their queues."""
    names = []
    while (job := run_queue.start_next(is_async)) is not None:
        names.append(job.lane.name)
    return names


def test_calls_of_a_queue_are_limited_by_its_concurrency():
    one = lane(limit=3)
    add(one, 5)
    run_queue = make_run_queue([one], 8)

    assert begin_all(run_queue) == ["q"] * 3
    assert (len(one.calls), run_queue.running_count, run_queue.count_ready()) == (3, 3, 2)


def test_calls_of_all_queues_are_limited_by_the_slots():
    a, b = lane("a", limit=3), lane("b", limit=3)
    add(a, 3)
    add(b, 3)
    run_queue = make_run_queue([a, b], 4)

    assert sorted(begin_all(run_queue)) in (["a", "a", "a", "b"], ["a", "a", "b", "b"])
    assert run_queue.running_count == 4


def test_the_end_of_a_call_frees_its_slot():
    one = lane(limit=1)
    first, second = add(one, 2)
    run_queue = make_run_queue([one], 1)
    assert run_queue.start_next(False) is first
    assert first.started_at is not None
    assert run_queue.start_next(False) is None
    run_queue.finish(first)

    assert run_queue.start_next(False) is second


def test_calls_of_a_higher_priority_begin_first():
    low, high = lane("low"), lane("high", priority=1)
    add(low, 2)
    add(high, 2)

    assert begin_all(make_run_queue([low, high], 8)) == ["high", "high", "low", "low"]


def test_queues_of_one_priority_alternate():
    a, b = lane("a"), lane("b")
    add(b, 2, received_at=time.monotonic() - 0.3)
    add(a, 2, received_at=time.monotonic() - 0.2)
    add(b, 2, received_at=time.monotonic() - 0.1)
    run_queue = make_run_queue([a, b], 8)

    assert sorted(begin_all(run_queue)[:4]) == ["a", "a", "b", "b"]


def add_urgent(lane):
    """Add a call of a starved queue, and return it."""
    (job,) = add(lane)
    job.is_urgent = True
    return job


def test_a_call_of_a_starved_queue_begins_before_a_higher_priority():
    low, high = lane("low"), lane("high", priority=1)
    starved = add_urgent(low)
    add(low)
    add(high, 2)
    run_queue = make_run_queue([low, high], 8)

    assert run_queue.start_next(False) is starved
    assert begin_all(run_queue) == ["high", "high", "low"]


def test_a_starved_queue_without_a_slot_waits():
    low, high = lane("low", limit=1), lane("high", priority=1)
    run(low, 1)
    add_urgent(low)
    add(high, 1)

    assert begin_all(make_run_queue([low, high], 8)) == ["high"]


def test_no_call_begins_after_the_registration_may_have_expired():
    one = lane()
    add(one, 3)
    run_queue = make_run_queue([one], 8)
    run_queue.start_deadline = time.monotonic() - 0.01

    assert begin_all(run_queue) == []


def test_threads_and_tasks_get_only_calls_of_their_kind():
    plain, task = lane("plain"), lane("task", is_async=True)
    add(plain, 1)
    add(task, 1)
    run_queue = make_run_queue([plain, task], 8)

    assert (run_queue.count_ready(), run_queue.count_ready(True), run_queue.count_ready(False)) == (
        2,
        1,
        1,
    )
    assert begin_all(run_queue, is_async=True) == ["task"]
    assert begin_all(run_queue, is_async=False) == ["plain"]


def test_threads_and_tasks_share_the_slots():
    plain, task = lane("plain"), lane("task", is_async=True)
    add(plain, 1)
    add(task, 1)
    run_queue = make_run_queue([plain, task], 1)

    assert begin_all(run_queue, is_async=True) == ["task"]
    assert begin_all(run_queue, is_async=False) == []


def quarantined(lane):
    job = SingleJob(lane, "id", b"", 9, None, NOW)
    job.is_quarantined = True
    return job


def test_while_a_call_is_in_quarantine_no_other_begins():
    one = lane()
    add(one, 3)
    run_queue = make_run_queue([one], 8)
    run_queue.is_exclusive = True
    assert run_queue.start_next(False) is None
    assert run_queue.count_to_wake(False, 0) == 0
    run_queue.quarantined_job = job = quarantined(one)
    assert run_queue.count_to_wake(False, 0) == 1
    assert run_queue.count_to_wake(True, 0) == 0
    assert run_queue.start_next(True) is None
    assert run_queue.start_next(False) is job
    assert run_queue.start_next(False) is None
    assert run_queue.count_to_wake(False, 0) == 0
    run_queue.finish(job)

    assert (run_queue.quarantined_job, run_queue.running_count, one.calls) == (None, 0, {})
    assert run_queue.start_next(False) is None
    run_queue.is_exclusive = False
    assert begin_all(run_queue) == ["q"] * 3


def test_each_call_of_unknown_duration_is_worth_a_thread():
    one = lane(limit=4)
    run_queue = make_run_queue([one], 8)
    assert run_queue.count_to_wake(False, 0) == 0
    run_queue.add(make_calls(one, 3))
    assert run_queue.count_to_wake(False, 0) == 3
    run_queue.add(make_calls(one, 3))

    assert run_queue.count_to_wake(False, 0) == 4


def test_long_calls_are_worth_a_thread_each_and_short_ones_share_one():
    long, short = lane(limit=8, mean=1.0), lane(limit=8, mean=1e-6)
    add(long, 5)
    add(short, 5)

    assert make_run_queue([long], 8).count_to_wake(False, 0) == 5
    assert make_run_queue([long], 8).count_to_wake(False, 4) == 5
    assert make_run_queue([short], 8).count_to_wake(False, 0) == 1
    assert make_run_queue([short], 8).count_to_wake(False, 1) == 0


def test_no_more_threads_are_woken_than_slots():
    a, b = lane("a", limit=4, mean=1.0), lane("b", limit=4, mean=1.0)
    add(a, 4)
    add(b, 4)
    run_queue = make_run_queue([a, b], 5)
    assert run_queue.count_to_wake(False, 0) == 5
    begin_all(run_queue)

    assert run_queue.count_to_wake(False, 5) == 0


def test_calls_that_have_not_begun_can_be_withdrawn():
    one = lane()
    jobs = add(one, 3)
    run_queue = make_run_queue([one], 8)
    assert run_queue.start_next(False) is jobs[0]

    assert run_queue.remove(jobs) == jobs[1:]
    assert (run_queue.count_ready(), run_queue.start_next(False)) == (0, None)


def test_a_closed_run_queue_begins_no_call():
    one = lane()
    add(one, 3)
    run_queue = make_run_queue([one], 8)
    run_queue.close()

    assert begin_all(run_queue) == []
    assert (run_queue.count_ready(), run_queue.count_to_wake(False, 0)) == (0, 0)


def test_a_single_message_is_its_own_call():
    one = lane(vt=30)
    single = SingleJob(one, "id", b"raw", 3, 17, NOW)

    assert single.job is single
    assert list(single.leases) == [single]
    assert (single.renew_at, single.expires_at) == (NOW + 10, NOW + 30)


def test_the_messages_of_a_batch_refer_to_their_call_and_end_separately():
    one = lane(vt=30, batch=2)
    singles = [SingleJob(one, f"id{n}", b"raw", n, 17, NOW) for n in (1, 2)]
    batch = BatchJob(one, singles, NOW)

    assert [(each.id, each.count, each.job) for each in batch.leases] == [
        ("id1", 1, batch),
        ("id2", 2, batch),
    ]
    assert [(each.renew_at, each.expires_at, each.error) for each in batch.leases] == [
        (NOW + 10, NOW + 30, None)
    ] * 2
    batch.leases[0].to_delivery("q", TEXT).fail(ValueError("v"))
    assert (str(batch.leases[0].error), batch.leases[1].error, batch.failure) == ("v", None, None)
