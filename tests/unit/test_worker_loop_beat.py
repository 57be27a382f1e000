"""Whether the event loop of async handlers is blocked, by its heartbeat and calls that begin."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rsmq.worker.run import blocked_loop
from rsmq.worker.run.blocked_loop import LoopBeat

MAX_BLOCKING = 60.0


class Loop:
    """An event loop whose time, beats and running call a test sets."""

    def __init__(self, monkeypatch, vt=30.0):
        self.lane = SimpleNamespace(
            vt=vt, last_turn=1, name="q", listener=SimpleNamespace(max_blocking=MAX_BLOCKING)
        )
        self.job = SimpleNamespace(lane=self.lane, leases=[SimpleNamespace(id="m")])
        self.now = 1000.0
        self.beat = LoopBeat(lambda: [self.lane])
        self.beat.beat()
        self.beat.check(self.now)
        monkeypatch.setattr(blocked_loop, "_find_call", lambda _thread: (self.job, None))

    def pass_seconds(self, seconds, step=1.0):
        """Return the stall after a time in which the worker checks after each step."""
        end = self.now + seconds
        while self.now < end:
            self.now += step
            stall = self.beat.check(self.now)
        return stall


@pytest.fixture
def loop(monkeypatch):
    return Loop(monkeypatch)


def test_loop_is_blocked_after_ten_seconds_without_a_beat(loop):
    assert loop.pass_seconds(10) is None
    stall = loop.pass_seconds(1)
    assert (stall.seconds, stall.max_seconds, stall.is_over) == (11, MAX_BLOCKING, False)
    assert stall.job is loop.job
    assert "The handler of q with message m blocks the event loop" in stall.cause


@pytest.mark.parametrize(("vt", "seconds"), [(15, 5), (0.1, 1), (600, 10)])
def test_loop_is_blocked_after_a_third_of_the_visibility_timeout(monkeypatch, vt, seconds):
    loop = Loop(monkeypatch, vt)
    assert loop.pass_seconds(seconds) is None
    assert loop.pass_seconds(1) is not None


def test_call_that_blocks_for_its_limit_ends_the_worker(loop):
    assert not loop.pass_seconds(60).is_over
    assert loop.pass_seconds(1).is_over


def test_beat_ends_the_stall(loop):
    assert loop.pass_seconds(30) is not None
    loop.beat.beat()
    assert loop.pass_seconds(1) is None
    assert loop.pass_seconds(10) is None
    assert loop.pass_seconds(1) is not None


def test_calls_that_begin_are_progress(loop):
    for _ in range(100):
        loop.lane.last_turn += 1
        assert loop.pass_seconds(5) is None


def test_calls_that_take_turns_do_not_end_the_worker(loop):
    first, second = loop.job, SimpleNamespace(**vars(loop.job))
    for number in range(200):
        loop.job = second if number % 2 else first
        stall = loop.pass_seconds(5)
    assert stall is not None
    assert not stall.is_over
    assert loop.pass_seconds(61).is_over


def test_unknown_blocker_has_the_longest_limit_of_the_listeners(loop):
    loop.job, loop.lane.listener.max_blocking = None, 600.0
    assert loop.pass_seconds(11).max_seconds == 600
    loop.lane.listener.max_blocking = 1.0
    assert loop.pass_seconds(1).max_seconds == 60


def test_suspended_process_is_not_blocked(loop):
    for _ in range(4):  # nor is one whose handler keeps the GIL
        assert loop.pass_seconds(3600, step=3600) is None
    assert loop.pass_seconds(3600, step=3600) is None
    assert loop.pass_seconds(3600, step=3600) is not None, "no beat in several checks"


def test_loop_that_has_not_begun_is_not_blocked(loop):
    beat = LoopBeat(lambda: [loop.lane])
    assert [beat.check(1000.0 + number) for number in range(30)] == [None] * 30
