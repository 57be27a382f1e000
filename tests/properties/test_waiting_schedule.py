"""
Random changes of a queue while other processes receive from it.

A message that is due wakes a waiter within a second, whichever processes answer.
"""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq.waiting.schedule import MISS_PAUSE_SECONDS, Schedule, Waiter
from tests.scale import scaled

QUEUE = b"ns:q"
VT_SECONDS = 30
#: The longest time for which a message may be due before a waiter is awake.
LIMIT_SECONDS = 1.0

PAUSES = st.sampled_from([0, 0.0005, 0.003, 0.02, 0.1, 0.3, 1.5])
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["send", "delay", "steal", "delete", "receive"]), PAUSES),
    min_size=1,
    max_size=60,
)


class Model:
    """A queue, the server's reports of its changes, and one process that waits for messages."""

    def __init__(self, misses):
        self.now = 0.0
        self._due = {}
        self._numbers = itertools.count()
        self._is_tracked = False
        self._schedule = Schedule()
        self._schedule.start_tracking(0)
        self._waiter = Waiter((QUEUE,), lambda: None)
        self._schedule.add(self._waiter, 0)
        self._schedule._states[QUEUE].misses = misses
        self._read()

    def _change(self):
        if self._is_tracked:
            self._is_tracked = False
            self._schedule.note_change(QUEUE, self.now)

    def _read(self):
        while self._schedule.to_read:
            self._schedule.to_read.clear()
            self._is_tracked = True
            first = min(self._due.values(), default=None)
            due_in = None if first is None else first - self.now
            self._schedule.note_first_due(QUEUE, due_in, self.now)
            self._schedule.wake_due(self.now)

    def advance(self, seconds):
        """Advance the time, and do what the process does meanwhile, except for receives."""
        end = self.now + seconds
        self._read()
        while (at := self._schedule.wake_due(self.now)) <= end:
            self.now = max(at, self.now)
            self.check()
            self._schedule.wake_due(self.now)
            self._read()
        self.now = end
        self.check()

    def check(self):
        """Check that the process does not sleep although a message is due."""
        first = min(self._due.values(), default=math.inf)
        assert self._waiter.is_awake or self.now - first <= LIMIT_SECONDS

    def send(self, delay=0.0):
        self._due[next(self._numbers)] = self.now + delay
        self._change()

    def delay(self):
        self.send(0.2)

    def _take(self):
        due = [number for number, at in self._due.items() if at <= self.now]
        for number in due:
            self._due[number] = self.now + VT_SECONDS
        if due:
            self._change()
        return bool(due)

    def steal(self):
        """Let another process receive."""
        self._take()

    def delete(self):
        """Let the processes that have received delete their messages."""
        hidden = [number for number, at in self._due.items() if at > self.now + 1]
        for number in hidden:
            del self._due[number]
        if hidden:
            self._change()

    def receive(self):
        """Let the process receive, if it was woken."""
        if self._waiter.is_awake:
            if self._take():
                self._schedule.note_receive(self._waiter, self.now)
                self._waiter.is_awake = False
                self._waiter.empty_receives = 0
            else:
                self._waiter.empty_receives += 1
            self._schedule.add(self._waiter, self.now)


@given(ACTIONS, st.integers(0, len(MISS_PAUSE_SECONDS) - 1))
@settings(max_examples=scaled(300, 20_000), deadline=None)
def test_a_message_that_is_due_wakes_a_waiter_within_a_second(actions, misses):
    model = Model(misses)
    for action, pause in actions:
        getattr(model, action)()
        model.advance(pause)
    model.receive()
    model.advance(LIMIT_SECONDS + 0.1)
