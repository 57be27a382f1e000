"""What is asked of which queue, and which call is made next."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import TEXT, QueueAttributes
from rsmq.wire.keys import Namespace
from rsmq.worker.listener import Handlers, make_listener
from rsmq.worker.runtime.message_state import (
    MAX_PREFETCHED,
    PREFETCH_SECONDS,
    BatchJob,
    Lane,
    SingleJob,
)
from rsmq.worker.runtime.prefetch_plan import STARVATION_SECONDS, order_lanes, plan_requests
from rsmq.worker.runtime.run_queue import RunQueue

NOW = 1000.0
NAMESPACE = Namespace("ns")


def _plain(body):
    """A handler."""


async def _async(body):
    """An async one."""


def lane(name="q", *, vt=30.0, limit=8, is_async=False, mean=None, asked_at=NOW, **options):
    handlers = Handlers()
    handlers.add("", _async if is_async else _plain)
    said = {
        "vt": None, "codec": None, "batch": None, "concurrency": None, "priority": 0,
        "max_retries": None, "backoff": None, "no_retry": (), "dead_letter_queue": None,
        "unroutable": None, "drop": False, "max_runtime": 3600, "create": False,
    }  # fmt: skip
    made = make_listener(name, handlers, **said | options)
    new = Lane(made, NAMESPACE.queue(name), vt, TEXT, limit, made.policy)
    new.mean_seconds = mean
    new.last_request_at = asked_at
    return new


def some(lane, number, taken=None):
    """Calls to be made."""
    taken = time.monotonic() if taken is None else taken
    return [SingleJob(lane, f"id{n}", b"", 1, None, taken) for n in range(number)]


def add(lane, number=1, *, taken=None):
    """Calls that are ready."""
    jobs = some(lane, number, taken)
    lane.ready.extend(jobs)
    return jobs


def run(lane, number=1, *, began=NOW):
    """Calls that are under way."""
    for n in range(number):
        job = SingleJob(lane, f"running{n}", b"", 1, None, began)
        job.started_at = began
        lane.calls[job] = None


def all_wants(lanes, free, now=NOW):
    ready = {}
    for each in lanes:
        priority = each.listener.priority
        ready[priority] = ready.get(priority, 0) + len(each.ready)
    return plan_requests(lanes, free, ready, now)


def asked(lanes, free=8, now=NOW):
    """Of each queue that is asked: name, messages at most, and how many of them may wait."""
    found, _ = all_wants(lanes, free, now)
    return [(each.lane.name, each.request.max_messages, each.request.prefetch) for each in found]


def order(lanes, now=NOW):
    return [each.name for each, _ in order_lanes(lanes, now)]


# What is asked of the queues.


def test_a_queue_is_asked_for_as_many_as_can_begin():
    assert asked([lane(limit=8)], free=8) == [("q", 8, 0)]
    assert asked([lane(limit=3)], free=8) == [("q", 3, 0)]
    assert asked([lane(limit=8)], free=2) == [("q", 2, 0)]


def test_what_runs_and_what_is_ready_counts():
    one = lane(limit=8)
    run(one, 5)
    add(one, 2)

    assert asked([one], free=3) == [("q", 1, 0)]


def test_nothing_is_asked_where_nothing_can_begin():
    one = lane(limit=2)
    run(one, 2)

    assert asked([one]) == []
    assert asked([lane()], free=0) == []


def test_what_is_asked_says_the_queue_its_vt_and_the_size_of_a_call():
    ((found,), slots) = all_wants([lane(vt=1.2345, batch=7)], 8)
    want = found.request

    assert slots == 8
    assert (want.keys, want.vt_ms, want.size) == (NAMESPACE.queue("q"), 1234, 7)


def test_batches_are_asked_for_in_messages():
    assert asked([lane(limit=2, batch=100)]) == [("q", 200, 0)]


def test_short_calls_let_messages_wait_for_a_slot():
    one = lane(limit=4, mean=0.01, vt=30)

    assert one.prefetch_limit(NOW) == 40
    assert asked([one]) == [("q", 44, 40)]


def test_where_all_slots_are_taken_more_is_asked_only_when_half_of_what_may_wait_does():
    one = lane(limit=4, mean=0.01, vt=30)
    run(one, 4)
    assert asked([one], free=0) == [("q", 40, 40)]
    add(one, 20)
    assert asked([one], free=0) == [("q", 20, 40)]
    add(one, 1)

    assert asked([one], free=0) == []


def test_those_of_a_higher_priority_are_asked_first_whenever_they_were_asked():
    lanes = [lane("low", priority=-1, asked_at=NOW - 9), lane("mid"), lane("high", priority=5)]

    assert order(lanes) == ["high", "mid", "low"]


def test_of_one_priority_the_one_that_was_asked_longest_ago_is_first():
    lanes = [lane("a", asked_at=NOW), lane("b", asked_at=NOW - 2), lane("c", asked_at=NOW - 1)]
    assert order(lanes) == ["b", "c", "a"]
    lanes[1].last_request_at = NOW + 1

    assert order(lanes) == ["c", "a", "b"]


def test_one_that_was_not_asked_for_long_comes_first_for_one_call():
    lanes = [
        lane("high", priority=5),
        lane("low", asked_at=NOW - STARVATION_SECONDS, batch=10, limit=3, mean=0.001),
    ]

    assert asked(lanes) == [("low", 10, 10), ("high", 8, 0)]


def test_one_that_was_not_asked_for_nearly_as_long_does_not():
    assert order(
        [lane("high", priority=5), lane("low", asked_at=NOW - STARVATION_SECONDS + 0.01)]
    ) == [
        "high",
        "low",
    ]


def test_where_all_have_starved_none_is_first_for_it():
    lanes = [
        lane("low", asked_at=NOW - 99),
        lane("high", priority=5, asked_at=NOW - 50),
    ]

    assert asked(lanes) == [("high", 8, 0), ("low", 8, 0)]


def test_one_that_starves_without_a_slot_of_its_own_is_not_favoured():
    low = lane("low", asked_at=NOW - 99, limit=1)
    run(low, 1)

    assert asked([lane("high", priority=5), low]) == [("high", 8, 0)]


def test_one_that_starves_is_asked_although_short_calls_of_others_fill_all_slots():
    high = lane("high", priority=5, limit=1, mean=0.001)
    run(high, 1)
    add(high, 100)
    low = lane("low", limit=1, asked_at=NOW - STARVATION_SECONDS)

    assert asked([high, low], free=0) == [("low", 1, 1)]


def test_none_of_a_lower_priority_waits_for_a_slot_before_the_higher_ones_were_asked():
    high = lane("high", priority=5, limit=1)
    run(high, 1)
    low = lane("low", limit=1, mean=0.001)

    assert asked([high, low], free=0) == []


shapes = st.tuples(
    st.integers(1, 50),  # limit
    st.integers(0, 60),  # running
    st.integers(0, 60),  # ready
    st.none() | st.integers(1, 100),  # batch
    st.none() | st.floats(0, 10),  # mean
    st.floats(0.1, 3600),  # vt
    st.integers(-2, 2),  # priority
    st.floats(0, 100),  # since it was asked
)


@given(st.lists(shapes, min_size=1, max_size=5), st.integers(0, 100))
def test_no_more_is_asked_than_fits(shapes, free):
    lanes = []
    for at, (limit, running, ready, batch, mean, vt, priority, since) in enumerate(shapes):
        one = lane(
            f"q{at}", limit=limit, batch=batch, mean=mean, vt=vt, priority=priority,
            asked_at=NOW - since,
        )  # fmt: skip
        run(one, min(running, limit))
        add(one, ready)
        lanes.append(one)
    found, slots = all_wants(lanes, free)

    assert 0 <= slots <= free
    assert len({each.lane.name for each in found}) == len(found)
    for each in found:
        lane_, want = each.lane, each.request
        starved = lane_.size if each.is_starved else 0
        room = max(min(lane_.limit - len(lane_.calls) - len(lane_.ready), free), 0)
        assert 1 <= want.max_messages <= max(room * lane_.size + lane_.prefetch_limit(NOW), starved)
        assert want.prefetch <= max(lane_.prefetch_limit(NOW), starved)


# How many may wait.


def test_none_waits_before_it_is_known_how_long_a_call_takes():
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
def test_as_many_wait_as_can_begin_soon(mean, vt, limit, batch, expected):
    assert lane(mean=mean, vt=vt, limit=limit, batch=batch).prefetch_limit(NOW) == expected


@given(
    st.floats(0, 100), st.floats(0.1, 10**6), st.integers(1, 1000), st.none() | st.integers(1, 100)
)
def test_what_waits_is_begun_within_a_tenth_of_its_visibility_timeout(mean, vt, limit, batch):
    one = lane(mean=mean, vt=vt, limit=limit, batch=batch)

    assert 0 <= one.prefetch_limit(NOW) <= MAX_PREFETCHED
    assert (
        one.prefetch_limit(NOW) / one.size / limit * mean <= min(PREFETCH_SECONDS, vt / 10) * 1.001
    )


def test_a_call_that_takes_longer_than_those_before_lets_fewer_wait():
    one = lane(limit=1, mean=0.001)
    run(one, 1)
    assert one.prefetch_limit(NOW) == 100

    assert [one.prefetch_limit(NOW + seconds) for seconds in (0.01, 0.05, 0.2)] == [10, 2, 0]


def test_none_waits_while_it_is_to_be_careful():
    one = lane(limit=1, mean=0.001)
    one.no_prefetch_until = NOW + 1

    assert (one.prefetch_limit(NOW), one.prefetch_limit(NOW + 1)) == (0, 100)


def test_the_mean_follows_what_calls_take():
    one = lane()
    one.record_duration(1.0)
    assert one.mean_seconds == 1.0
    one.record_duration(2.0)
    assert one.mean_seconds == pytest.approx(1.1)
    for _ in range(200):
        one.record_duration(0.01)

    assert one.mean_seconds == pytest.approx(0.01, abs=1e-6)


# The policy of the queue.


def attributes(target=None, limit=None):
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return QueueAttributes(
        30, 0, 65536, 0, 0, when, when, 0, 0, 0, None, target, limit, paused=False
    )


def test_a_listener_that_says_nothing_obeys_the_policy_of_its_queue():
    one = lane()
    one.apply_queue_attributes(attributes("dead", 3))

    assert (one.policy.dead_letter_queue, one.policy.max_retries) == ("dead", 2)


def test_a_policy_that_is_changed_or_removed_is_obeyed_too():
    one = lane()
    one.apply_queue_attributes(attributes("dead", 3))
    one.apply_queue_attributes(attributes("other", 1))
    assert (one.policy.dead_letter_queue, one.policy.max_retries) == ("other", 0)
    one.apply_queue_attributes(attributes())

    assert one.policy == one.listener.policy
    assert (one.policy.dead_letter_queue, one.policy.max_retries) == (None, None)


@pytest.mark.parametrize("said", [{"dead_letter_queue": "mine"}, {"drop": True}])
def test_what_the_listener_says_comes_before_the_policy_of_its_queue(said):
    one = lane(**said)
    one.apply_queue_attributes(attributes("dead", 3))

    assert one.policy == one.listener.policy
    assert one.policy.max_retries == 5


def test_a_policy_that_names_its_own_queue_is_none():
    one = lane("q")
    one.apply_queue_attributes(attributes("q", 3))

    assert one.policy.dead_letter_queue is None


def test_what_else_the_listener_says_stays():
    one = lane(backoff=9, no_retry=ValueError)
    one.apply_queue_attributes(attributes("dead", 3))

    assert (one.policy.backoff(1), one.policy.no_retry) == (9, (ValueError,))


# Which call is made next.


def backlog_of(lanes, slots):
    """A backlog with what is ready in these."""
    run_queue = RunQueue(lanes, slots)
    for each in lanes:
        jobs = list(each.ready)
        each.ready.clear()
        run_queue.add(jobs)
    return run_queue


def begun(run_queue, is_async=False):
    """Begin all that can begin; the names of their queues."""
    names = []
    while (job := run_queue.start_next(is_async)) is not None:
        names.append(job.lane.name)
    return names


def test_no_more_calls_begin_than_the_queue_may_have():
    one = lane(limit=3)
    add(one, 5)
    run_queue = backlog_of([one], 8)

    assert begun(run_queue) == ["q"] * 3
    assert (len(one.calls), run_queue.running_count, run_queue.count_ready()) == (3, 3, 2)


def test_no_more_calls_begin_than_all_may_have():
    a, b = lane("a", limit=3), lane("b", limit=3)
    add(a, 3)
    add(b, 3)
    run_queue = backlog_of([a, b], 4)

    assert sorted(begun(run_queue)) in (["a", "a", "a", "b"], ["a", "a", "b", "b"])
    assert run_queue.running_count == 4


def test_an_end_makes_room_for_one():
    one = lane(limit=1)
    first, second = add(one, 2)
    run_queue = backlog_of([one], 1)
    assert run_queue.start_next(False) is first
    assert first.started_at is not None
    assert run_queue.start_next(False) is None
    run_queue.finish(first)

    assert run_queue.start_next(False) is second


def test_calls_of_a_higher_priority_begin_first():
    low, high = lane("low"), lane("high", priority=1)
    add(low, 2)
    add(high, 2)

    assert begun(backlog_of([low, high], 8)) == ["high", "high", "low", "low"]


def test_of_one_priority_no_queue_goes_before_the_other():
    a, b = lane("a"), lane("b")
    add(b, 2, taken=time.monotonic() - 0.3)
    add(a, 2, taken=time.monotonic() - 0.2)
    add(b, 2, taken=time.monotonic() - 0.1)
    run_queue = backlog_of([a, b], 8)

    assert sorted(begun(run_queue)[:4]) == ["a", "a", "b", "b"]


def urgent(lane):
    """A call for a queue that has starved."""
    (job,) = add(lane)
    job.is_urgent = True
    return job


def test_a_call_of_a_queue_that_has_starved_goes_before_those_of_a_higher_priority():
    low, high = lane("low"), lane("high", priority=1)
    starved = urgent(low)
    add(low)
    add(high, 2)
    run_queue = backlog_of([low, high], 8)

    assert run_queue.start_next(False) is starved
    assert begun(run_queue) == ["high", "high", "low"]


def test_a_queue_that_has_starved_waits_on_where_it_has_no_slot():
    low, high = lane("low", limit=1), lane("high", priority=1)
    run(low, 1)
    urgent(low)
    add(high, 1)

    assert begun(backlog_of([low, high], 8)) == ["high"]


def test_no_call_begins_when_the_worker_may_be_dead_for_others():
    one = lane()
    add(one, 3)
    run_queue = backlog_of([one], 8)
    run_queue.start_deadline = time.monotonic() - 0.01

    assert begun(run_queue) == []


def test_threads_and_tasks_make_calls_of_their_own_kind():
    plain, task = lane("plain"), lane("task", is_async=True)
    add(plain, 1)
    add(task, 1)
    run_queue = backlog_of([plain, task], 8)

    assert (run_queue.count_ready(), run_queue.count_ready(True), run_queue.count_ready(False)) == (
        2,
        1,
        1,
    )
    assert begun(run_queue, is_async=True) == ["task"]
    assert begun(run_queue, is_async=False) == ["plain"]


def test_the_slots_are_for_threads_and_tasks_together():
    plain, task = lane("plain"), lane("task", is_async=True)
    add(plain, 1)
    add(task, 1)
    run_queue = backlog_of([plain, task], 1)

    assert begun(run_queue, is_async=True) == ["task"]
    assert begun(run_queue, is_async=False) == []


def alone(lane):
    job = SingleJob(lane, "id", b"", 9, None, NOW)
    job.is_quarantined = True
    return job


def test_while_one_is_to_be_alone_no_other_begins():
    one = lane()
    add(one, 3)
    run_queue = backlog_of([one], 8)
    run_queue.is_exclusive = True
    assert run_queue.start_next(False) is None
    assert run_queue.count_to_wake(False, 0) == 0
    run_queue.quarantined_job = job = alone(one)
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
    assert begun(run_queue) == ["q"] * 3


def test_of_calls_of_unknown_length_each_is_worth_a_thread():
    one = lane(limit=4)
    run_queue = backlog_of([one], 8)
    assert run_queue.count_to_wake(False, 0) == 0
    run_queue.add(some(one, 3))
    assert run_queue.count_to_wake(False, 0) == 3
    run_queue.add(some(one, 3))

    assert run_queue.count_to_wake(False, 0) == 4


def test_of_long_calls_each_is_worth_a_thread_and_of_very_short_ones_all_are_worth_one():
    long, short = lane(limit=8, mean=1.0), lane(limit=8, mean=1e-6)
    add(long, 5)
    add(short, 5)

    assert backlog_of([long], 8).count_to_wake(False, 0) == 5
    assert backlog_of([long], 8).count_to_wake(False, 4) == 5
    assert backlog_of([short], 8).count_to_wake(False, 0) == 1
    assert backlog_of([short], 8).count_to_wake(False, 1) == 0


def test_no_more_are_worth_waking_than_there_are_slots():
    a, b = lane("a", limit=4, mean=1.0), lane("b", limit=4, mean=1.0)
    add(a, 4)
    add(b, 4)
    run_queue = backlog_of([a, b], 5)
    assert run_queue.count_to_wake(False, 0) == 5
    begun(run_queue)

    assert run_queue.count_to_wake(False, 5) == 0


def test_calls_that_have_not_begun_can_be_taken_back():
    one = lane()
    jobs = add(one, 3)
    run_queue = backlog_of([one], 8)
    assert run_queue.start_next(False) is jobs[0]

    assert run_queue.remove(jobs) == jobs[1:]
    assert (run_queue.count_ready(), run_queue.start_next(False)) == (0, None)


def test_when_it_is_closed_nothing_begins():
    one = lane()
    add(one, 3)
    run_queue = backlog_of([one], 8)
    run_queue.close()

    assert begun(run_queue) == []
    assert (run_queue.count_ready(), run_queue.count_to_wake(False, 0)) == (0, 0)


def test_a_message_that_is_handled_by_itself_is_its_own_call():
    one = lane(vt=30)
    single = SingleJob(one, "id", b"raw", 3, 17, NOW)

    assert single.job is single
    assert list(single.leases) == [single]
    assert (single.renew_at, single.expires_at) == (NOW + 10, NOW + 30)


def test_the_messages_of_a_batch_know_their_call_and_end_by_themselves():
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
    assert (str(batch.leases[0].error), batch.leases[1].error, batch.error) == ("v", None, None)
