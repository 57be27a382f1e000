"""
Random interleavings of reads, reports, receives and failures: no message is left without a waiter.

The server is modelled as one queue, and as a stream of reports and replies in their order. A read
makes it report the next change. Replies, reports and receives are processed at any later time.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq.waiting import schedule as schedule_module
from rsmq.waiting.schedule import MISS_PAUSE_SECONDS, Schedule, Waiter
from tests.scale import scaled

QUEUE = b"ns:q"
VT_SECONDS = 1000
STEP_SECONDS = 0.005
#: The longest time until a message is received when no more replies or receives are late: after a
#: refused read it is PATIENCE_SECONDS, and perhaps the longest pause after misses.
LIMIT_SECONDS = 1.5

ACTIONS = (
    "add", "answer_request", "break_connection", "connect", "delete", "end_receive", "flush",
    "leave", "process_answer", "receive", "refuse_request",
    "send", "send_delayed", "send_request", "steal_all", "steal_one", "wake_due",
)  # fmt: skip
#: Many actions come in this order, and the others happen between them.
USUAL = ("add", "send_request", "answer_request", "process_answer", "receive", "end_receive")
PAUSES = st.sampled_from([0, 0, 0, 0.001, 0.02, 0.3])
STEPS = st.lists(
    st.tuples(st.sampled_from([*ACTIONS, *USUAL * 2]), PAUSES), min_size=20, max_size=80
)


class Receive:
    """A receive that waits, or that has a result which is not noted yet."""

    def __init__(self):
        self.waiter = Waiter((QUEUE,), lambda: None)
        self.result = None


class Model:
    """The server, one process, and what is under way between them."""

    def __init__(self, misses):
        self.now = 0.0
        self.schedule = Schedule()
        self._due_times = []
        self._is_connected = self._is_tracked = False
        self._requests = 0
        self._stream = deque()
        self._receives = []
        self.connect()
        self.add()
        self.schedule._states[QUEUE].misses = misses

    # The server and other clients.

    def _change(self):
        if self._is_tracked:
            self._is_tracked = False
            self._stream.append(lambda: self.schedule.note_change(QUEUE, self.now))

    def visible(self):
        return sum(at <= self.now for at in self._due_times)

    def send(self, delay=0.0):
        self._due_times.append(self.now + delay)
        self._change()

    def send_delayed(self):
        self.send(0.25)

    def _take(self, limit):
        """Receive as a script; return whether it found messages."""
        due = sorted(at for at in self._due_times if at <= self.now)
        for at in due[:limit]:
            self._due_times.remove(at)
            self._due_times.append(self.now + VT_SECONDS)
        if due:
            self._change()
        return bool(due)

    def steal_one(self):
        self._take(1)

    def steal_all(self):
        self._take(1000)

    def delete(self):
        hidden = [at for at in self._due_times if at > self.now]
        if hidden:
            self._due_times.remove(hidden[0])
            self._change()

    def flush(self):
        self._due_times.clear()
        self._is_tracked = False
        if self._is_connected:
            self._stream.append(lambda: self.schedule.note_flush(self.now))

    def answer_request(self):
        if self._requests:
            self._requests -= 1
            self._is_tracked = True
            first = min(self._due_times, default=None)
            due_in = None if first is None else first - self.now
            self._stream.append(lambda: self.schedule.note_first_due(QUEUE, due_in, self.now))

    def refuse_request(self):
        """Answer with an error, as after the keys have moved."""
        if self._requests:
            self._requests -= 1
            self._stream.append(lambda: self.schedule.note_failed_read(QUEUE, self.now))

    # The connection.

    def connect(self):
        if not self._is_connected:
            self._is_connected = True
            self.schedule.start_tracking(self.now)

    def break_connection(self):
        if self._is_connected:
            self._is_connected = self._is_tracked = False
            self._requests = 0
            self._stream.clear()
            self.schedule.stop_tracking(self.now)

    def send_request(self):
        if self._is_connected and self.schedule.to_read:
            self.schedule.to_read.clear()
            self._requests += 1

    def process_answer(self):
        if self._stream:
            self._stream.popleft()()

    def wake_due(self):
        self.schedule.wake_due(self.now)

    # The receives of the process.

    def add(self):
        if len(self._receives) < 3:
            receive = Receive()
            self._receives.append(receive)
            self.schedule.add(receive.waiter, self.now)

    def leave(self):
        """Let a waiter end at its deadline, or by a cancellation after it was woken."""
        waiting = [each for each in self._receives if each.result is None]
        if waiting:
            self._receives.remove(waiting[0])
            self.schedule.remove(waiting[0].waiter)
            if waiting[0].waiter.is_awake:
                self.schedule.note_interruption(waiting[0].waiter, self.now)

    def receive(self):
        for each in self._receives:
            if each.waiter.is_awake and each.result is None:
                each.result = self._take(1)
                return

    def end_receive(self):
        ended = [each for each in self._receives if each.result is not None]
        if not ended:
            return
        waiter = ended[0].waiter
        has_found, ended[0].result = ended[0].result, None
        if has_found:
            self._receives.remove(ended[0])
            if waiter.is_awake:
                waiter.is_awake = False
                self.schedule.note_receive(waiter, self.now)
        else:
            waiter.empty_receives += waiter.is_awake
            self.schedule.add(waiter, self.now)

    # The rules.

    def check(self):
        state = self.schedule._states.get(QUEUE)
        is_under_way = bool(self.schedule.to_read or self._requests or self._stream)
        if state is not None and not is_under_way:
            assert not state.is_awaited
            assert self._is_tracked or not state.is_read

    def settle(self):
        """Process everything without delay until no message is visible; return the seconds."""
        self.connect()
        began = self.now
        while True:
            for _ in range(40):
                for name in ("wake_due", *USUAL):
                    getattr(self, name)()
            self.check()
            if not self.visible() or self.now > began + LIMIT_SECONDS:
                return self.now - began
            self.now += STEP_SECONDS


@pytest.mark.parametrize("kept_states", [0, schedule_module._MAX_KEPT_STATES])
def test_a_visible_message_is_received_whatever_was_late(kept_states, monkeypatch):
    monkeypatch.setattr(schedule_module, "_MAX_KEPT_STATES", kept_states)

    @given(STEPS, st.integers(0, len(MISS_PAUSE_SECONDS) - 1))
    @settings(max_examples=scaled(150, 20_000), deadline=None)
    def check(steps, misses):
        model = Model(misses)
        for name, pause in steps:
            getattr(model, name)()
            model.now += pause
            model.check()
        model.send()
        assert model.settle() <= LIMIT_SECONDS

    check()
