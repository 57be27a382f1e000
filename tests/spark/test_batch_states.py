"""The states of a stream's batches, without a server: each transition, and random events."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rsmq.spark.operations.batches import LeasedPart
from rsmq.spark.stream.batches import (
    BatchesInFlight,
    BatchEvent,
    BatchFill,
    BatchLimits,
    BatchState,
    change_batch,
)
from tests.scale import scaled

S, E = BatchState, BatchEvent


@pytest.mark.parametrize(
    ("events", "states"),
    [
        (
            [E.EXPECT, E.RECEIVE, E.COMPLETE, E.REPLY, E.PLAN, E.COMMIT, E.ACKNOWLEDGE],
            [S.EXPECTED, S.RECEIVING, S.RECEIVED, S.LOGGED, S.LOGGED, S.DONE, S.ACKNOWLEDGED],
        ),
        (
            [E.RECEIVE, E.FIND_NONE, E.RECEIVE, E.FIND_NONE],
            [S.RECEIVING, S.EMPTY, S.RECEIVING, S.EMPTY],
        ),
        ([E.RECEIVE, E.COMPLETE, E.RELEASE], [S.RECEIVING, S.RECEIVED, S.UNKNOWN]),
        ([E.RECEIVE, E.RELEASE], [S.RECEIVING, S.UNKNOWN]),
        ([E.RECEIVE, E.COMPLETE, E.LOSE], [S.RECEIVING, S.RECEIVED, S.UNKNOWN]),
        ([E.PLAN, E.RELEASE, E.LOSE, E.COMMIT], [S.LOGGED, S.LOGGED, S.LOST, S.DONE]),
        (
            [E.RECEIVE, E.COMPLETE, E.REPLY, E.WITHDRAW, E.RELEASE],
            [S.RECEIVING, S.RECEIVED, S.LOGGED, S.RECEIVED, S.UNKNOWN],
        ),
    ],
)
def test_a_batch_goes_through_its_states(events, states):
    state, seen = S.UNKNOWN, []
    for event in events:
        state = change_batch(state, event)
        seen.append(state)
    assert seen == states


@pytest.mark.parametrize("state", S)
def test_spark_decides_what_is_done_and_nothing_follows_the_end(state):
    is_over = state is S.ACKNOWLEDGED
    assert change_batch(state, E.COMMIT) is (state if is_over else S.DONE)
    assert not is_over or {change_batch(state, event) for event in E} == {state}


@pytest.mark.parametrize("state", S)
def test_only_a_batch_that_spark_does_not_know_is_released(state):
    is_released = change_batch(state, E.RELEASE) is not state
    assert is_released == (state in (S.RECEIVING, S.RECEIVED))


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("event", E)
def test_a_repeated_event_changes_nothing(state, event):
    once = change_batch(state, event)
    assert change_batch(once, event) is once


def test_a_batch_keeps_what_belongs_to_its_state():
    batches = BatchesInFlight()
    limits = BatchLimits(5)
    assert batches.change(2, E.EXPECT, limits=limits)
    assert batches.get(2).limits is limits
    fill = BatchFill(2, limits)
    batches.change(2, E.RECEIVE)
    batches.change(2, E.COMPLETE, fill=fill)
    assert (batches.get(2).limits, batches.get(2).fill) == (None, fill)
    batches.change(2, E.COMMIT, queues={"a": 1, "b": 2}, earlier_queues="a")
    assert (batches.get(2).fill, batches.get(2).queues) == (None, {"a": 1, "b": 2})
    assert not batches.change(2, E.COMMIT, queues={"c": 3})
    assert batches.get(2).queues == {"a": 1, "b": 2}


def test_a_found_batch_is_of_an_earlier_process_unless_this_one_has_tracked_parts_of_it():
    batches = BatchesInFlight()
    for number in (1, 2):
        batches.change(number, E.RECEIVE)
    batches.track(1, "a", [0])
    for _ in range(2):  # a search is repeated if it has failed
        for number in (1, 2):
            batches.note_found(number)
            batches.track(number, "a", [0])
        assert not batches.get(1).is_earlier
        assert batches.get(2).is_earlier
    for event in (E.COMPLETE, E.REPLY, E.WITHDRAW):
        batches.change(2, event)
        assert batches.get(2).is_earlier
    batches.change(2, E.LOSE)
    assert not batches.get(2).is_earlier


def test_messages_of_a_batch_are_hidden_until_the_first_of_its_parts_ends():
    batches = BatchesInFlight()
    batches.track(1, "a", [0])
    assert batches.list_parts() == []
    batches.change(1, E.RECEIVE)
    batches.track(1, "a", [0, 1])
    assert batches.find_hidden_until(1) == 0
    batches.note_hidden(1, "a", 0, 20)
    batches.note_hidden(1, "a", 1, 10)
    batches.track(1, "a", [0])
    batches.note_hidden(1, "a", 2, 5)
    assert batches.find_hidden_until(1) == 10
    batches.track(1, "b", [0])
    assert batches.find_hidden_until(1) == 0
    assert batches.find_hidden_until(2) is None


class BatchMachine(RuleBasedStateMachine):
    """Any events of any batches, beside what Spark and Redis know in the same moment."""

    def __init__(self):
        super().__init__()
        self.batches = BatchesInFlight()
        self.in_spark, self.done, self.in_redis = set(), set(), set()

    @rule(number=st.integers(1, 4), event=st.sampled_from(E))
    def event(self, number, event):
        before = self.batches.get(number).state
        has_changed = self.batches.change(number, event)
        assert self.batches.get(number).state is change_batch(before, event)
        assert has_changed == (self.batches.get(number).state is not before)
        if event is E.COMMIT:
            self.done.add(number)
        if event is E.PLAN or (event is E.REPLY and has_changed):
            self.in_spark.add(number)
        elif event is E.WITHDRAW and has_changed:
            self.in_spark.discard(number)
        elif event is E.ACKNOWLEDGE and has_changed:  # the one before is forgotten
            known = {each.number for each in self.batches.find(*S)}
            self.in_spark &= known
            self.done &= known

    @rule(number=st.integers(1, 4), queue=st.sampled_from("ab"), part=st.integers(0, 2))
    def a_part_is_received(self, number, queue, part):
        self.batches.track(number, queue, [part])
        self.batches.note_hidden(number, queue, part, number)

    @rule()
    def a_kill(self):
        self.batches = BatchesInFlight()
        self.in_spark.clear()
        self.done.clear()

    @invariant()
    def what_spark_knows_is_not_released(self):
        unlogged = {each.number for each in self.batches.find(S.RECEIVING, S.RECEIVED)}
        assert not unlogged & (self.in_spark | self.done)

    @invariant()
    def parts_are_extended_while_redis_may_have_them_only(self):
        tracked = {number for number, *_ in self.batches.list_parts()}
        states = {self.batches.get(number).state for number in tracked}
        assert states <= {S.RECEIVING, S.RECEIVED, S.LOGGED, S.LOST, S.DONE}

    @invariant()
    def the_last_acknowledged_batch_is_remembered(self):
        assert len(self.batches.find(S.ACKNOWLEDGED)) <= 1


TestBatchMachine = BatchMachine.TestCase
TestBatchMachine.settings = settings(
    max_examples=scaled(30, 5000), stateful_step_count=30, deadline=None, print_blob=True
)


def test_queues_share_the_limits_and_divide_what_others_leave():
    fill, received, asked = BatchFill(1, BatchLimits(10)), [], []
    left = {"a": 2, "b": 20}
    for queue, part, limits in fill.divide(["a", "b"], received):
        asked.append((queue, part, limits.messages))
        number = min(left[queue], limits.messages, 4)
        left[queue] -= number
        received.append(LeasedPart(number, number, may_have_more=left[queue] > 0))
    assert asked == [("a", 0, 5), ("b", 0, 5), ("b", 1, 1), ("b", 2, 3)]
    assert fill.is_full


def test_a_receive_that_is_given_up_leaves_the_batch_as_it_is():
    fill, received = BatchFill(1, BatchLimits(10)), []
    for number, _ in enumerate(fill.divide(["a"], received)):
        if number:
            break
        received.append(LeasedPart(3, 3, may_have_more=True))
    assert not fill.is_full
    again = next(fill.divide(["a"], received))
    assert again == ("a", 1, BatchLimits(7, 2**53 - 3))
