"""
Random events on a real queue with groups, which must end in the states of the model.

The events are those of the model's search, of any length and with two groups of four messages.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.admission.events import CONSUMING, Event, State
from tests.admission.model import Model, Size, first_snapshot
from tests.admission.redis_queue import RedisQueue
from tests.admission.search import check
from tests.admission.steps import steps
from tests.scale import scaled

pytestmark = pytest.mark.slow

GROUPS = Size(groups=2, messages=4, consumers=3, most=1)
LIMIT_KEYS = Size(groups=2, messages=4, consumers=3, most=2)
_DAY_MS = 86_400_000
_numbers = itertools.count()


class SmallQueue(Model):
    """A model of a queue whose sends find all records without use, as ``RedisQueue`` does."""

    def send(self, group, *, is_delayed=False):
        for message in range(len(self.states)):
            if self.keyed >> message & 1 and self.is_gone(message):
                self.forget(message)
        super().send(group, is_delayed=is_delayed)


class GroupMachine(RuleBasedStateMachine):
    """
    The events, in the model and on a server. The test supplies ``server``.

    Attributes:
        size: the size of the model.
        at: the state of the model.
    """

    server = None
    size = GROUPS

    def __init__(self):
        super().__init__()
        self.at = first_snapshot(self.size)
        name = f"g{next(_numbers)}"
        self.queue = RedisQueue(self.server, name, self.size.groups, self.size)

    def teardown(self):
        self.queue.close()

    @rule(data=st.data())
    def happen(self, data):
        possible = list(steps(self.size, self.at))
        events = sorted({step.event for step in possible}, key=list(Event).index)
        event = data.draw(st.sampled_from(events))
        chosen = [step for step in possible if step.event == event]
        step = chosen[data.draw(st.integers(0, len(chosen) - 1))]
        if event in CONSUMING:
            self.consume(event, step.message, by_node=data.draw(st.booleans()))
        before = self.at
        self.take(step)
        if event in (Event.SEND, Event.SEND_DELAYED):
            by = data.draw(st.sampled_from(["message", "batch", "options"]))
            self.send(event, step, before, by)
        elif event not in CONSUMING:
            self.follow(event, step, before)

    def take(self, step):
        """Take a step in the model, which checks its invariants."""
        model = SmallQueue(self.size, self.at)
        step.change(model)
        after = model.snapshot()
        check(self.size, self.at, step, after)
        self.at = after

    def consume(self, event, number, *, by_node):
        self.queue.put_first(number)
        if event == Event.RECEIVE:
            assert self.queue.receive(by_node=by_node) == number
        else:
            assert self.queue.pop(by_node=event == Event.NODE_POP) == number

    def send(self, event, step, before, by):
        [group] = step.groups
        number = group * self.size.messages + before.sent[group]
        delay = {"delay": 1000} if event == Event.SEND_DELAYED else {}
        self.queue.send(number, by=by, **delay)

    def follow(self, event, step, before):
        queue, after = self.queue, self.at
        if event == Event.PURGE:
            queue.rsmq.purge_queue("q")
        elif event == Event.LOSE:
            keys = [key for key in ("admitted", "held", "keyed") if not getattr(after, key)]
            queue.lose(keys)
        elif event in (Event.DAY, Event.DAY_WITHOUT_SWEEP, Event.SWEEP):
            self.pass_time(event, before)
        else:
            self.follow_message(event, step.message, before)

    def pass_time(self, event, before):
        held = [m for m, state in enumerate(before.states) if state == State.HELD_BACK]
        if event == Event.SWEEP:
            self.queue.rsmq.sweep_groups("q")
            for group in range(self.size.groups):  # that of the library examines all groups
                model = SmallQueue(self.size, self.at)
                model.sweep(group)
                self.at = model.snapshot()
            return
        if event == Event.DAY:
            self.queue.age(held, _DAY_MS * 3 // 4)
            self.queue.rsmq.sweep_groups("q")
            held = [m for m in held if self.at.states[m] == State.DUE]
        self.queue.age(held, 2 * _DAY_MS)

    def follow_message(self, event, number, before):
        queue, id = self.queue, self.queue.ids[number]
        if event in (Event.DELETE, Event.DEAD_LETTER, Event.EXTEND, Event.RETRY, Event.RELEASE):
            self.settle(event, queue.latest(number))
        elif event in (Event.NODE_DELETE, Event.NODE_DELETE_HELD):
            queue.node_delete(number)
        elif event == Event.DELETE_HELD:
            assert queue.rsmq.delete_message("q", id)
        elif event == Event.EXPIRE:
            queue.expire(number)
        elif event == Event.LEASE_ENDS:
            queue.score(number, queue.now() - 1)
        elif event == Event.RELEASE_HELD:
            shown = [id] if self.at.states[number] == State.DUE else []
            assert queue.rsmq.release_messages("q", [id]) == shown
            if shown:
                return
            assert not queue.rsmq.change_message_visibility("q", id, 0)
            assert queue.rsmq.change_messages_visibility("q", [id], 0) == []
        elif event == Event.NODE_SHOW_HELD:
            is_due = self.at.states[number] == State.DUE
            queue.score(number, queue.now() + (-1 if is_due else 1_000_000))
        elif event == Event.RETURN:
            queue.put_back(number, was_received=bool(before.received >> number & 1))

    def settle(self, event, message):
        rsmq = self.queue.rsmq
        if event == Event.DELETE:
            assert rsmq.delete_message(message)
        elif event == Event.DEAD_LETTER:
            assert rsmq.move_messages([message], "dead") == [message.id]
        elif event == Event.RELEASE:
            assert rsmq.release_messages([message]) == [message.id]
        else:
            assert rsmq.change_message_visibility(message, 1000)

    @invariant()
    def the_keys_are_those_of_the_model(self):
        states, records = self.queue.states(), self.queue.records()
        sent = {m: state for m, state in enumerate(self.at.states) if m in states}
        assert states == sent, (states, sent)
        alive = {m for m, state in sent.items() if state}
        for name, found in records.items():
            expected = {m for m in alive if getattr(self.at, name) >> m & 1}
            assert found & alive == expected, (name, found, alive, expected)


@pytest.mark.parametrize("size", [GROUPS, LIMIT_KEYS])
def test_groups_behave_like_the_model(server, size):
    machine = type("Machine", (GroupMachine,), {"server": server, "size": size})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=scaled(15, 5000),
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
