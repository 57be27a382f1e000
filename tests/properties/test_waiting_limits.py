"""
Random changes of a queue with limits while a process waits for its messages.

When a limit allows a receive, the process asks within a second. While none does and nothing
changes, it does not ask. Replies and the server's reports arrive in any order.
"""

from __future__ import annotations

import itertools
import math
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq.waiting.schedule import Schedule, Waiter
from rsmq.wire.throttle import Limit
from tests.scale import scaled

QUEUE = b"ns:q"
LIMIT_SECONDS = 1.0
#: A reply or a report takes at most so long.
LONGEST_DELAY_SECONDS = 0.02

PAUSES = st.sampled_from([0, 0.0005, 0.02, 0.3, 1.5])
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["send", "take", "end", "report", "reply"]), PAUSES), max_size=60
)


class Model:
    """
    A queue that always has due messages, and one process that waits for them.

    Attributes:
        ends: when the leases of the messages in flight end, of any process.
        next_at: when the rate allows the next receive.
    """

    def __init__(self, max_running, interval, misses):
        self.now, self.max_running, self.interval = 0.0, max_running, interval
        self.ends, self.next_at = [], 0.0
        self.asks, self.received = 0, 0
        self._is_tracked = False
        self._reports, self._replies = deque(), deque()
        self._schedule = Schedule()
        self._waiter = Waiter((QUEUE,), self._ask)
        self._schedule.start_tracking(0)
        self._ask()
        self.reply()
        if QUEUE in self._schedule._states:
            self._schedule._states[QUEUE].misses = misses

    def limit(self):
        """Return the limit that is reached; None if a receive is allowed."""
        self.ends = [end for end in self.ends if end > self.now]
        if self.now < self.next_at:
            return Limit(min(self.next_at - self.now, 5.0), is_rate=True)
        if len(self.ends) >= self.max_running:
            return Limit(min(min(self.ends) - self.now, 5.0), is_rate=False)
        return None

    def take(self):
        if self.limit() is None:
            self.ends.append(self.now + 3)
            self.next_at = self.now + self.interval
            self.change()
            return True
        return False

    def end(self):
        if self.ends:
            self.ends.pop(0)
            self.change()

    def change(self):
        if self._is_tracked:
            self._is_tracked = False
            self._reports.append(None)

    def _ask(self):
        """The server answers now, and the process gets the reply some time later."""
        self.asks += 1
        limit = self.limit()
        self._replies.append(limit)
        if limit is None:
            self.take()

    def reply(self):
        if not self._replies:
            return
        limit = self._replies.popleft()
        if limit is None:
            self.received += 1
            self._schedule.note_receive(self._waiter, self.now)
            self._waiter = Waiter((QUEUE,), self._ask)  # of the next call
            self._ask()
        else:
            self._waiter.empty_receives += 1
            self._waiter.limits = {QUEUE: limit}
            self._schedule.add(self._waiter, self.now)
        self._read()

    def report(self):
        """The report arrives before the replies to later reads."""
        if self._reports:
            self._reports.popleft()
            self._schedule.note_change(QUEUE, self.now)
        self._read()

    def _read(self):
        while self._schedule.to_read:
            self._schedule.to_read.clear()
            while self._reports:
                self._reports.popleft()
                self._schedule.note_change(QUEUE, self.now)
            self._schedule.to_read.clear()
            self._is_tracked = True
            self._schedule.note_first_due(QUEUE, -1, self.now)
            self._schedule.wake_due(self.now)

    def advance(self, seconds):
        until = self.now + seconds
        while (at := max(self._schedule.wake_due(self.now), self.now)) <= until:
            self.now = at if at > self.now else math.nextafter(self.now, math.inf)
            self._schedule.wake_due(self.now)
            self._read()
        self.now = until
        self._schedule.wake_due(self.now)
        self._read()

    def pass_time(self, seconds):
        """Let time pass. Only in a short time, replies and reports can stay on their way."""
        while seconds > LONGEST_DELAY_SECONDS:
            self.advance(LONGEST_DELAY_SECONDS)
            self.deliver_all()
            seconds -= LONGEST_DELAY_SECONDS
        self.advance(seconds)

    def deliver_all(self):
        for _ in itertools.repeat(None, 1000):
            if not (self._reports or self._replies):
                return
            self.report()
            self.reply()
        raise AssertionError("it asks again and again")


@settings(max_examples=scaled(150, 20_000), deadline=None)
@given(
    actions=ACTIONS,
    max_running=st.sampled_from([1, 2, 99]),
    interval=st.sampled_from([0, 0.1, 2]),
    misses=st.sampled_from([0, 3, 6]),
)
def test_a_limit_that_ends_wakes_a_waiter_and_one_that_lasts_does_not(
    actions, max_running, interval, misses
):
    model = Model(max_running, interval, misses)
    for action, pause in actions:
        {
            "send": model.change, "take": model.take, "end": model.end,
            "report": model.report, "reply": model.reply,
        }[action]()  # fmt: skip
        model.pass_time(pause)
    model.deliver_all()
    # Nobody else receives now, and the process holds what it receives for 3 seconds.
    for _ in range(40):
        before, asks = model.received, model.asks
        limit = model.limit()
        if limit is None:
            model.pass_time(LIMIT_SECONDS)
            assert model.received > before
        else:
            model.pass_time(min(limit.seconds, 0.1))
            assert model.asks <= asks + 2
