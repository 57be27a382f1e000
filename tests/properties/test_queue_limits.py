"""
Random receives from a queue with limits, and what others do to its messages.

Never more than max_running messages are in flight, never more than the rate are received in any
time, and nothing is stuck: a call receives a message if the limits allow one.
"""

from __future__ import annotations

import itertools
from datetime import timedelta

import freezegun
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rsmq import RSMQ
from rsmq.transport import memory
from tests.scale import scaled

_numbers = itertools.count()

VT_SECONDS = 30
#: By rate: the unit in seconds, and how many receives it allows more than its number: what can be
#: caught up of the last tenth of a second.
RATES = {"2/s": (1, 0), "30/s": (1, 2), "5/m": (60, 0), "7/h": (3600, 0)}
HELD = st.runner().flatmap(lambda self: st.sampled_from(sorted(self.held)))
has_held = precondition(lambda self: self.held)


class QueueLimitsMachine(RuleBasedStateMachine):
    """
    The calls.

    Attributes:
        held: by id of a message in flight with this library, when it becomes visible.
        received: when the messages were received, microseconds.
    """

    def __init__(self):
        super().__init__()
        url = f"memory://queue-limits{next(_numbers)}"
        self.freezer = freezegun.freeze_time("2026-11-27", real_asyncio=True)
        self.clock = self.freezer.start()
        self.raw = memory.client(url)
        self.rsmq = RSMQ.from_url(url)
        self.rsmq.create_queue("q", vt=VT_SECONDS)
        self.held, self.received = {}, []
        self.max_running = self.rate = None

    def teardown(self):
        self.rsmq.close()
        self.freezer.stop()

    @initialize(max_running=st.sampled_from([None, 1, 2, 5]), rate=st.sampled_from([None, *RATES]))
    def set_limits(self, max_running, rate):
        self.max_running, self.rate = max_running, rate
        self.rsmq.set_queue_limits("q", max_running=max_running, rate=rate)

    @property
    def now_us(self):
        seconds, us = self.raw.time()
        return seconds * 1_000_000 + us

    def allowed_by_rate(self):
        """Return how many messages the rate allows now, by the receives before."""
        if self.rate is None:
            return 99
        unit, burst = RATES[self.rate]
        interval = -(-unit * 1_000_000 // int(self.rate.partition("/")[0]))
        used = 0
        for at in self.received:
            used = max(used, at) + interval
        return burst + 1 - -(-max(used - self.now_us, 0) // interval)

    @rule(number=st.integers(1, 9))
    def send(self, number):
        self.rsmq.send_messages("q", ["m"] * number)

    @rule(how=st.sampled_from(["receive", "many", "pop", "pop many"]), want=st.integers(1, 9))
    def receive(self, how, want):
        self.forget_visible()
        visible = self.rsmq.get_queue_attributes("q").visible_messages
        room = self.allowed_by_rate()
        if self.max_running is not None and "pop" not in how:
            room = min(room, self.max_running - len(self.held))
        if how == "receive":
            found = self.rsmq.receive_message("q")
        elif how == "pop":
            found = self.rsmq.pop_message("q")
        else:
            call = self.rsmq.pop_messages if "pop" in how else self.rsmq.receive_messages
            found = call("q", want)
        if not isinstance(found, list):
            found, want = [found] if found else [], 1
        assert len(found) == min(want, visible, max(room, 0))
        self.received += [self.now_us] * len(found)
        if "pop" not in how:
            ends = self.now_us / 1000 + VT_SECONDS * 1000
            self.held |= {each.id: ends for each in found}

    def forget_visible(self):
        now_ms = self.now_us // 1000
        self.held = {id: ends for id, ends in self.held.items() if ends // 1 > now_ms}

    @has_held
    @rule(data=st.data(), end=st.sampled_from(["delete", "release", "node", "extend"]))
    def end(self, data, end):
        id = data.draw(HELD)
        if end == "extend":
            if self.rsmq.change_message_visibility("q", id, 99):
                self.held[id] = self.now_us / 1000 + 99_000
            return
        if end == "delete":
            self.rsmq.delete_message("q", id)
        elif end == "release":
            self.rsmq.release_messages("q", [id])
        else:
            self.raw.zrem("rsmq:q", id)
            self.raw.hdel("rsmq:q:Q", id, f"{id}:rc", f"{id}:fr")
        del self.held[id]

    @has_held
    @rule(data=st.data())
    def be_received_by_node(self, data):
        """Another client receives a message when its visibility timeout has ended."""
        id = data.draw(HELD)
        self.raw.hincrby("rsmq:q:Q", f"{id}:rc", 1)
        self.raw.zadd("rsmq:q", {id: self.now_us // 1000 + 20_000})
        del self.held[id]

    @rule(seconds=st.sampled_from([0.001, 0.033, 0.5, 12, 31, 600]))
    def let_time_pass(self, seconds):
        self.clock.tick(timedelta(seconds=seconds))

    @invariant()
    def no_more_are_received_in_any_time(self):
        if self.rate is not None and self.received:
            unit, more = RATES[self.rate]
            most = int(self.rate.partition("/")[0]) + more
            begin = self.received[-1] - unit * 1_000_000
            assert sum(begin < each for each in self.received) <= most

    @invariant()
    def no_more_are_in_flight(self):
        if self.max_running is not None:
            self.forget_visible()
            assert len(self.held) <= self.max_running

    @invariant()
    def what_is_used_has_a_bound(self):
        assert self.raw.zcard("rsmq:q:x:running") <= (self.max_running or 0) + 2


def test_random_receives_obey_the_limits():
    run_state_machine_as_test(
        QueueLimitsMachine,
        settings=settings(
            max_examples=scaled(40, 2000),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
