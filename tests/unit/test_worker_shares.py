"""Shares of calls by weight: the pure algorithm."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rsmq.worker.state.shares import MAX_CREDIT_CALLS, Shares

weights_of_lanes = st.lists(st.integers(1, 100), min_size=2, max_size=5).map(
    lambda weights: dict(enumerate(weights))
)


def run(shares, calls, lanes=None):
    """Begin so many calls, of the lanes that have some; return how many each lane began."""
    lanes = list(shares.weights) if lanes is None else lanes
    begun = Counter()
    for _ in range(calls):
        lane = min(lanes, key=shares.turn)
        shares.begin(lane)
        begun[lane] += 1
    return begun


@given(weights_of_lanes, st.integers(1, 3000))
def test_calls_follow_the_weights_at_any_moment(weights, calls):
    begun = run(Shares(weights), calls)

    total = sum(weights.values())
    for lane, weight in weights.items():
        assert abs(begun[lane] - calls * weight / total) <= len(weights)


def test_the_order_is_smooth():
    shares = Shares({"a": 2, "b": 1})
    order = []
    for _ in range(6):
        lane = min("ab", key=shares.turn)
        shares.begin(lane)
        order.append(lane)
    assert "".join(order) == "abaaba"


@given(weights_of_lanes, st.integers(1, 2000), st.integers(1, 2000))
def test_a_lane_that_had_nothing_due_saves_nothing(weights, alone, calls):
    shares = Shares(weights)
    idle, *others = weights
    shares.leave(idle)
    run(shares, alone, others)
    shares.join(idle)
    begun = run(shares, calls)

    total = sum(weights.values())
    assert begun[idle] <= calls * weights[idle] / total + len(weights)


@given(weights_of_lanes, st.integers(5000, 20_000))
def test_a_lane_that_could_not_begin_calls_saves_a_bounded_number(weights, alone):
    shares = Shares(weights)
    blocked, *others = weights
    run(shares, alone, others)
    credit = MAX_CREDIT_CALLS * weights[blocked] / sum(weights.values())
    a_call_of_another = weights[blocked] / min(weights[each] for each in others)
    before_another = 0
    while min(weights, key=shares.turn) == blocked:
        shares.begin(blocked)
        before_another += 1
    assert before_another <= credit + a_call_of_another + 2


@given(
    weights_of_lanes,
    st.lists(st.tuples(st.sampled_from(["run", "leave", "join"]), st.integers(0, 4)), max_size=200),
)
def test_no_lane_is_passed_over_for_long(weights, steps):
    """In any order of events, a lane that has calls is at most its share behind."""
    shares, active = Shares(weights), set(weights)
    waited = Counter()
    for event, number in steps:
        lane = number % len(weights)
        if event == "leave":
            active.discard(lane)
            shares.leave(lane)
        elif event == "join":
            active.add(lane)
            shares.join(lane)
            waited[lane] = 0
        elif active:
            next_lane = min(active, key=shares.turn)
            shares.begin(next_lane)
            waited[next_lane] = 0
            for other in active - {next_lane}:
                waited[other] += 1
                bound = sum(weights.values()) / weights[other]
                assert waited[other] <= bound + MAX_CREDIT_CALLS + len(weights)


def test_waiting_calls_count_as_begun_for_the_turn_after_them():
    shares = Shares({"a": 4, "b": 1})

    assert [shares.turn("a", waiting) for waiting in (0, 4, 6)] == [0, 1, 1.5]
