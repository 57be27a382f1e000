"""Each tick is fired once, by many processes, through crashes, lost replies and clock changes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import freezegun
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq import RSMQ
from rsmq.schedules.operations import fire_due_schedules
from rsmq.schedules.ticks import to_ms
from tests.scale import SOAK

_numbers = itertools.count()
_START = datetime(2026, 10, 25, 0, 20, tzinfo=UTC)  # before the clocks change in Berlin
_PROCESSES = 16
#: Name, rule, and what happens to missed ticks.
_SCHEDULES = {
    "all": {"every": 10, "missed": "all"},
    "jitter": {"every": 10, "missed": "all", "jitter": 7},
    "cron": {"cron": "*/5 * * * *", "timezone": "Europe/Berlin", "missed": "all"},
    "once": {"every": 30, "missed": "once"},
    "skip": {"every": 30, "missed": "skip"},
}
_actions = st.one_of(
    st.tuples(
        st.sampled_from(["step", "step", "step", "lose reply", "die before", "die after"]),
        st.integers(0, _PROCESSES - 1),
    ),
    st.tuples(st.just("clock"), st.sampled_from([1, 5, 11, 25, 90, -3, -40, -700])),
    st.tuples(st.just("pause"), st.sampled_from([*_SCHEDULES])),
)


class Process:
    """A process that fires schedules, one call to Redis at a time."""

    def __init__(self, queues):
        self.queues = queues
        self.steps = self.operation = None

    def act(self, action):
        if self.steps is None:
            self.steps = fire_due_schedules(self.queues.namespace)
            self.operation = next(self.steps)
        if action != "die before":
            result = self.queues.run(self.operation)
            if action == "lose reply":
                result = self.queues.run(self.operation)
            try:
                self.operation = self.steps.send(result)
            except StopIteration:
                self.steps = None
        if action.startswith("die"):
            self.steps = None


@given(st.lists(_actions, min_size=20, max_size=100))
@settings(max_examples=1000 if SOAK else 30)
def test_each_tick_is_fired_exactly_once(actions):
    freezer = freezegun.freeze_time(_START, real_asyncio=True)
    clock = freezer.start()
    try:
        with RSMQ.from_url(f"memory://ticks{next(_numbers)}", strict_names=True) as queues:
            run(queues, clock, actions)
    finally:
        freezer.stop()


def run(queues, clock, actions):
    for name, options in _SCHEDULES.items():
        queues.create_queue(name)
        queues.schedules.add(name, queue=name, **options)
    first = {each.name: each.next_tick_at for each in queues.schedules.list()}
    processes = [Process(queues) for _ in range(_PROCESSES)]
    paused = set()
    for action, value in actions:
        if action == "clock":
            clock.move_to(datetime.now(UTC) + timedelta(seconds=value))
        elif action == "pause":
            queues.schedules.pause(value)
            queues.schedules.resume(value)
            paused.add(value)
        else:
            processes[value].act(action)
    for each in queues.schedules.list():
        messages = queues.peek_messages(each.name, 0, 10_000)
        ticks = [message.scheduled_at for message in messages]
        assert all(ticks)
        assert len(ticks) == len(set(ticks)), each.name
        assert queues.get_queue_attributes(each.name).total_sent == len(ticks)
        if each.name not in paused:
            assert all(first[each.name] <= tick for tick in ticks)
            assert all(tick < each.next_tick_at for tick in ticks)
            if each.definition.missed == "all":
                step = 10 if each.definition.every else 300
                expected = range(to_ms(first[each.name]), to_ms(each.next_tick_at), step * 1000)
                assert sorted(map(to_ms, ticks)) == list(expected), each.name
